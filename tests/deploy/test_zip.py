"""The zip alone is the whole program: what a driver in a container of YARN or Kubernetes finds around itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jobs.launcher.archive import update_zip, zip_path
from tests.builders.tables import assert_equal_warehouses
from tests.conftest import jars_folder
from tests.deploy.clusters import AS_DEMO, LONGEST_SECONDS, ROOT, bare_environment, cheap_settings, pyspark_home


@pytest.mark.slow
def test_a_driver_with_nothing_but_the_zip_makes_what_a_checkout_makes(demo_warehouse: Path, tmp_path: Path) -> None:
    container, temporary = tmp_path / "container", tmp_path / "temporary"
    for folder in (container, temporary):
        folder.mkdir()
    update_zip(str(ROOT))
    program = Path(shutil.copy(zip_path(str(ROOT)), tmp_path))
    shutil.copy(ROOT / "jobs" / "__main__.py", container)
    with zipfile.ZipFile(program) as packed:
        (container / "prod.yaml").write_bytes(packed.read("jobs/conf/local.yaml").replace(b"- demo", f"- {ROOT}/conf/demo".encode()))
    # There a path without a scheme is one of HDFS; nobody answers at this one, so that whatever asks it fails.
    elsewhere = ["--conf", "spark.hadoop.fs.defaultFS=hdfs://127.0.0.1:9", "--conf", f"spark.sql.warehouse.dir=file:{temporary}"]
    jars = ",".join(map(str, jars_folder().glob("*.jar")))
    settings = ["--properties-file", ROOT / "conf" / "spark-defaults.conf", *cheap_settings(), *elsewhere]
    options = ["--master", "local[2,4]", *settings, "--jars", jars, "--py-files", program]
    command = [pyspark_home() / "bin" / "spark-submit", *options, "__main__.py", "run", "--config", "prod.yaml"]
    variables = {"SPARK_HOME": str(pyspark_home()), "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(temporary)}
    done = subprocess.run(
        [*command, *AS_DEMO], cwd=container, env={**bare_environment(), **variables}, capture_output=True, text=True,
        timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert_equal_warehouses(container / "warehouse", demo_warehouse)
    assert not list(temporary.glob("evenkeel-*")), "what was unpacked is removed"
