"""The other Spark that is supported, 4.0 with Delta's jar for it, in a venv of its own that is kept in ``.evenkeel``."""

from __future__ import annotations

import configparser
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.tables import assert_equal_warehouses, rows
from tests.deploy.clusters import AS_DEMO, LAUNCHER, ROOT, bare_environment
from tests.needs import skip_loudly

pytestmark = pytest.mark.slow

PYSPARK = "4.0.5"
FOLDER = ROOT / ".evenkeel" / f"spark-{PYSPARK}"
LONGEST_SECONDS = 5_400.0
CORE = ("land", "solve", "warehouse", "incremental", "maintain", "lease")
"""Of ``tests/spark``: what the demo does not show, each kind of write above all."""


def requirements() -> list[str]:
    """Return what .venv has for tests, with the other Spark."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    lines = "\n".join(
        [config["options"]["install_requires"], *(extras[name] for name in ("spark", "quality", "report", "kafka", "reading", "test"))]
    )
    return [f"pyspark=={PYSPARK}" if line.startswith("pyspark~=") else line for line in lines.splitlines() if line]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """The environment in which the launcher uses that Spark; made by the first call, which downloads some 500 MB."""
    python, stamp = FOLDER / "bin" / "python", FOLDER / "complete"
    wanted = hashlib.sha256("\n".join([sys.version, *requirements()]).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(FOLDER, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *requirements()]
        made = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
        if made.returncode:
            skip_loudly(f"PySpark {PYSPARK} cannot be installed: {made.stderr}")
        stamp.write_text(wanted)
    (home,) = FOLDER.glob("lib/python3.*/site-packages/pyspark")
    chosen = {**bare_environment(), "SPARK_HOME": str(home), "PYSPARK_PYTHON": str(python)}
    fetched = subprocess.run([LAUNCHER, "--setup"], env=chosen, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
    if fetched.returncode:
        skip_loudly(f"Delta's jars for Spark 4.0 cannot be fetched: {fetched.stderr}")
    return chosen


def test_the_demo_is_the_same(environment: dict[str, str], demo_warehouse: Path, tmp_path: Path) -> None:
    """Through the launcher with SPARK_HOME, as on a machine that has this Spark."""
    command = [LAUNCHER, "run", "--warehouse", tmp_path / "warehouse", *AS_DEMO]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert dict(rows(tmp_path / "warehouse", "runs")[0]["software_versions"])["spark"] == PYSPARK
    assert_equal_warehouses(tmp_path / "warehouse", demo_warehouse)


@pytest.mark.parametrize("tests", [["tests/unit"], [f"tests/spark/test_{name}.py" for name in CORE]], ids=["unit", "spark"])
def test_unit_and_core_spark_tests_pass_on_spark_4_0(tests: list[str], environment: dict[str, str]) -> None:
    python = environment["PYSPARK_PYTHON"]
    kept = {name: value for name, value in environment.items() if name not in ("SPARK_HOME", "PYSPARK_PYTHON")}
    command = [python, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-20_000:]
    assert " passed" in done.stdout.splitlines()[-1], done.stdout
