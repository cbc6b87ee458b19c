"""What whole process trees take: CPU seconds and wall time of a command, beside the least that any Spark job with Delta and a UDF costs.

Counted is user and system time of the process tree. Children that outlive their parent, as Python's worker daemon does when the JVM
ends first, are adopted by this process (PR_SET_CHILD_SUBREAPER, Linux) and waited for; ``adopt_orphans`` checks that on a daemon of its
own. Workers that end while their daemon lives are counted by samples, since nobody waits for them.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.processes import CLOCK_TICKS, ForgottenWorkers

ROOT = Path(__file__).parents[2]
LAUNCHER = str(ROOT / "spark-submit.sh")
MISSED_TARGET = 20
"""The exit code of a benchmark that ran well and whose ratio misses its target."""
PR_SET_CHILD_SUBREAPER = 36
STAGE = re.compile(r"^evenkeel: ([a-z-]+) +(\d+\.\d) s$", re.MULTILINE)

BARE_JOB = """
import sys
from pyspark.sql import SparkSession

def same(batches):
    yield from batches

spark = SparkSession.builder.getOrCreate()
spark.range(100).selectExpr("id", "string(id) AS name").write.format("delta").save(sys.argv[1])
assert spark.read.format("delta").load(sys.argv[1]).mapInPandas(same, "id long, name string").count() == 100
spark.stop()
"""

# Burns half a second after its parent and grandparent are gone.
DAEMON = """
import os, sys, time
if os.fork(): sys.exit()
os.setsid()
if os.fork(): os._exit(0)
time.sleep(0.2)
while time.process_time() < 0.5: pass
"""


@dataclass(frozen=True)
class Usage:
    """What one process tree took; ``output`` is both of its streams, ``others_cpu_s`` what the machine's other processes took meanwhile."""

    cpu_s: float
    wall_s: float
    output: str
    others_cpu_s: float = 0.0


class Command(NamedTuple):
    """What starts a process."""

    argv: list[str]
    environment: dict[str, str]


def measure(command: list[str], environment: dict[str, str] | None = None) -> Usage:
    """Return what a command and all its descendants took, and end with its output if it fails."""
    started, busy_s = time.monotonic(), machine_cpu_s()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        cpu_s, status, waited_for = 0.0, 0, set()
        with ForgottenWorkers() as workers:
            while True:
                try:
                    pid, wait_status, usage = os.wait4(-1, 0)
                except ChildProcessError:
                    break
                waited_for.add(pid)
                cpu_s += usage.ru_utime + usage.ru_stime
                if pid == process.pid:
                    process.returncode = status = os.waitstatus_to_exitcode(wait_status)
        cpu_s += workers.cpu_s(waited_for)
        output.seek(0)
        text = output.read()
    if status:
        sys.exit(f"{' '.join(command)} ended with {status}:\n{text}")
    others_cpu_s = max(0.0, machine_cpu_s() - busy_s - cpu_s)
    return Usage(cpu_s, time.monotonic() - started, text, others_cpu_s)


def machine_cpu_s() -> float:
    """Return the CPU seconds of all processes since the machine was started."""
    user, nice, system, _, _, interrupts, soft_interrupts = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + interrupts + soft_interrupts) / CLOCK_TICKS


def adopt_orphans() -> None:
    """Let this process wait for its descendants' orphans too; ends it with one line where that is not possible."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("this kernel has no PR_SET_CHILD_SUBREAPER; CPU seconds of daemons would be missed")
    counted_s = measure([sys.executable, "-c", DAEMON]).cpu_s
    if counted_s < 0.5:
        sys.exit(f"a daemon that takes 0.5 CPU s was counted as {counted_s:.2f}")


def stage_seconds(output: str) -> dict[str, float]:
    """Return the wall seconds of each stage that a run named on its progress lines."""
    return {name: float(seconds) for name, seconds in STAGE.findall(output)}


def bare_command(table: Path, script: Path, *options: str) -> Command:
    """Return what starts the bare job, which writes ``table``; its text goes to ``script``."""
    script.write_text(BARE_JOB)
    return spark_command(script, str(table), options=options)


def spark_command(script: Path, *arguments: str, options: Sequence[str] = (), packages: Sequence[str] = ()) -> Command:
    """Return what starts a script as the launcher starts the jobs: with its Spark, settings and jars.

    Args:
        options: of spark-submit, which beat those of the launcher.
        packages: folders that driver and workers import from, too.
    """
    (spark_home,) = ROOT.glob(".venv/lib/python3.*/site-packages/pyspark")
    python = str(ROOT / ".venv" / "bin" / "python")
    jars = ",".join(str(jar) for jar in sorted(ROOT.glob(".evenkeel/jars/spark-4.1/*.jar")))
    settings = ["--load-spark-defaults", "--properties-file", str(ROOT / "conf" / "spark-local.conf"), "--jars", jars]
    argv = [str(spark_home / "bin" / "spark-submit"), *settings, "--master", "local[*,4]", *options, str(script), *arguments]
    names = {"SPARK_HOME": str(spark_home), "SPARK_CONF_DIR": str(ROOT / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"}
    path = {"PYTHONPATH": os.pathsep.join(packages)} if packages else {}
    return Command(argv, {**user_environment(), **names, **path, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python})


def user_environment() -> dict[str, str]:
    """Return this process's environment without what would change Spark or keep Python from storing compiled modules."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTHON"))}
