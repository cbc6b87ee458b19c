"""The archive of Spark's classes, with the Java and the Spark of this machine: a start reads its classes from there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWN = ("SPARK", "PYSPARK", "PYTHON", "EVENKEEL")
"""How the variables begin that would give the launcher another installation than that of the checkout."""


def test_java_reads_most_classes_from_the_archive(demo_warehouse: Path, tmp_path: Path) -> None:
    log = tmp_path / "classes"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    command = [ROOT / "spark-submit.sh", "--driver-java-options", f"-Xlog:class+load:file={log}"]
    command += ["sql", "SELECT count(*) AS n FROM findings_published", "--warehouse", demo_warehouse]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    sources = re.findall(r"source: (.*)$", log.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    of_spark = [source for source in sources if source.endswith(".jar")]
    kept = sources.count("shared objects file (top)")
    assert kept > 8_000 and len(of_spark) < kept / 4, (kept, len(of_spark), len(sources))
