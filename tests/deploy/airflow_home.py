"""A real Airflow in a venv of its own, kept in ``.evenkeel/airflow`` of the checkout, and homes for it with the DAG file in them.

Nothing of Evenkeel is installed into it, and nothing of Airflow beside Evenkeel: the two want other releases of pandas and PySpark.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DAG_FILE = ROOT / "conf" / "deploy" / "airflow_dag.py"
PROBE = Path(__file__).with_name("airflow_probe.py")
FOLDER = ROOT / ".evenkeel" / "airflow"
BIN = FOLDER / "venv" / "bin"
REQUIREMENTS = ("apache-airflow>=3.3,<4", "apache-airflow-providers-apache-spark>=6.3,<7")
LONGEST_INSTALL_S = 1800
LONGEST_CALL_S = 1800


class AirflowNotThereError(Exception):
    """Airflow cannot be had."""


def _stamp() -> str:
    return "\n".join([os.path.realpath(sys.executable), *REQUIREMENTS])


def is_there() -> bool:
    """Return whether Airflow is installed."""
    complete = FOLDER / "complete"
    return complete.exists() and complete.read_text() == _stamp()


def install() -> None:
    """Install Airflow, which takes about five minutes, unless it is there.

    Raises:
        AirflowNotThereError: with the last lines of pip.
    """
    if is_there():
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    pip = [str(BIN / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", *REQUIREMENTS]
    for command in ([sys.executable, "-m", "venv", str(FOLDER / "venv")], pip):
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_INSTALL_S, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise AirflowNotThereError(f"Airflow cannot be installed into {FOLDER}: {' '.join(done.stderr.split()[-60:])}")
    (FOLDER / "complete").write_text(_stamp())


class AirflowHome:
    """A folder with Airflow's own files, the DAG file as a user would have edited it, and a warehouse."""

    def __init__(self, folder: Path, checkout: Path, delay_seconds: int | None = 1):
        self.folder = folder
        self.warehouse = folder / "warehouse"
        self.exports = folder / "exports"
        edits = {
            "HOME": repr(str(checkout)),
            "SETTINGS": repr(str(checkout / "conf" / "local.yaml")),
            "WAREHOUSE": repr(str(self.warehouse)),
            "EXPORTS": repr(str(self.exports)),
        }
        if delay_seconds is not None:
            edits["RETRY_DELAY"] = f"timedelta(seconds={delay_seconds})"
        text = DAG_FILE.read_text(encoding="utf-8")
        for name, value in edits.items():
            text, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
            assert count == 1, f"{name} stands {count} times in {DAG_FILE}"
        (folder / "dags").mkdir(parents=True)
        (folder / "dags" / "evenkeel_dag.py").write_text(text, encoding="utf-8")

    def environment(self) -> dict[str, str]:
        """Return the environment of a stranger, with what Airflow needs and a connection to a local Spark."""
        own = ("PYTHON", "SPARK", "PYSPARK", "EVENKEEL", "AIRFLOW", "VIRTUAL_ENV")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(own)},
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "false",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "false",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*,4]"}),
        }

    @contextmanager
    def started(self, *command: object, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Start a program of Airflow's venv; all that it prints goes into a file. What is left of it after the block is killed."""
        program, *rest = map(str, command)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(BIN / program), *rest], env=self.environment(), cwd=self.folder, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the launcher that it started too, and Spark
                process.wait()

    def call(self, *command: object) -> tuple[int, str]:
        """Return exit code and output of a program of Airflow's venv."""
        log = self.folder / "call.log"
        with self.started(*command, log=log) as process:
            code = process.wait(LONGEST_CALL_S)
        return code, log.read_text(encoding="utf-8", errors="replace")

    def migrate(self) -> None:
        """Make Airflow's database, which running needs and parsing does not."""
        code, text = self.call("airflow", "db", "migrate")
        assert code == 0, text

    def probe(self, *arguments: str) -> dict:
        """Return what the probe prints."""
        code, text = self.call("python", PROBE, *arguments)
        assert code == 0, text
        return json.loads(text.splitlines()[-1])
