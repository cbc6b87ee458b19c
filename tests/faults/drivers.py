"""Processes of their own that run Evenkeel, to be killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyspark

from jobs.runtime.file_lock import Holder, read_holder
from jobs.runtime.locations import RUN_LOCK
from tests.conftest import jars_folder

ROOT = Path(__file__).resolve().parents[2]
LONGEST_SECONDS = 600.0
"""What a process may take for a step on a busy machine before a test fails."""
INSTALLATION = {
    "SPARK_HOME": str(Path(pyspark.__file__).parent),
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
}
"""The variables by which the launcher uses the Spark and the Python of the tests."""


def linked_checkout(folder: Path) -> str:
    """Make a checkout of links to this one, with the jars of the tests, and return its launcher."""
    checkout = folder / "checkout"
    jars = checkout / ".evenkeel" / "jars"
    jars.mkdir(parents=True)
    for name in ("jobs", "schemas", "assignors", "conf", "setup.cfg"):
        (checkout / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "spark-submit.sh", checkout)
    (jars / f"spark-{'.'.join(pyspark.__version__.split('.')[:2])}").symlink_to(jars_folder())
    return str(checkout / "spark-submit.sh")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return when a condition holds."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {LONGEST_SECONDS:.0f} s"
        time.sleep(0.1)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of another process of the tests, whose Spark leaves its files in a folder."""
    variables = {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(folder), "EVENKEEL_JARS": str(jars_folder())}
    return {**os.environ, **variables, "PYSPARK_PYTHON": sys.executable}


class Driver:
    """A driver with its JVM in a process group of their own.

    Args:
        folder: where its output and Spark's own files go.
        arguments: what follows ``python -m``.
    """

    def __init__(self, folder: Path, warehouse: Path, arguments: list[str]) -> None:
        self.warehouse = warehouse
        self.log = folder / f"driver-{len(list(folder.glob('driver-*.log')))}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=ROOT,
                env=environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def holder(self) -> Holder | None:
        """Return what this driver wrote into the lock of its warehouse, None before it has the lock."""
        holder = read_holder(self.warehouse / RUN_LOCK)
        return holder if holder is not None and holder.pid == self.process.pid else None

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill_group(self) -> None:
        """Kill driver and JVM, as far as they are there."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> int:
        """Return the exit code, when there is one."""
        return self.process.wait(LONGEST_SECONDS)
