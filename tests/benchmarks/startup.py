"""CPU seconds of a whole `run` on the demo capture, as a multiple of the least that any Spark job with Delta and a Python UDF costs.

    python tests/benchmarks/startup.py [--rounds 5] [--limit 3.0]

Three processes are measured in turn, so that a change in the machine's load meets all of them: the bare job below, `./spark-submit.sh
run` into a fresh warehouse, and the same into the warehouse of the round before. All use the launcher's settings and jars. Printed are
medians, the ratio to the bare job, and the stages that the run itself reports. Exit code 20 when either
ratio exceeds the limit.

Counted is user and system time of the process tree. Children that outlive their parent, as Python's worker daemon does when the JVM
ends first, are adopted by this process (PR_SET_CHILD_SUBREAPER, Linux) and waited for; each start checks that on a daemon of its own.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PR_SET_CHILD_SUBREAPER = 36
MISSED_TARGET = 20
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
    """What one process tree took; ``output`` is both of its streams."""

    cpu_s: float
    wall_s: float
    output: str


def measure(command: list[str], environment: dict[str, str] | None = None) -> Usage:
    """Return what a command and all its descendants took, and end with its output if it fails."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        cpu_s, status = 0.0, 0
        while True:
            try:
                pid, wait_status, usage = os.wait4(-1, 0)
            except ChildProcessError:
                break
            cpu_s += usage.ru_utime + usage.ru_stime
            if pid == process.pid:
                process.returncode = status = os.waitstatus_to_exitcode(wait_status)
        output.seek(0)
        text = output.read()
    if status:
        sys.exit(f"{' '.join(command)} ended with {status}:\n{text}")
    return Usage(cpu_s, time.monotonic() - started, text)


def bare_command(table: Path, script: Path) -> tuple[list[str], dict[str, str]]:
    """Return argv and environment that start the bare job as the launcher starts the jobs."""
    (spark_home,) = ROOT.glob(".venv/lib/python3.*/site-packages/pyspark")
    python = str(ROOT / ".venv" / "bin" / "python")
    script.write_text(BARE_JOB)
    jars = ",".join(str(jar) for jar in sorted(ROOT.glob(".evenkeel/jars/spark-4.1/*.jar")))
    settings = ["--load-spark-defaults", "--properties-file", str(ROOT / "conf" / "spark-local.conf")]
    argv = [str(spark_home / "bin" / "spark-submit"), *settings, "--jars", jars, "--master", "local[*,4]", str(script), str(table)]
    names = {"SPARK_HOME": str(spark_home), "SPARK_CONF_DIR": str(ROOT / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"}
    return argv, {**user_environment(), **names, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}


def user_environment() -> dict[str, str]:
    """Return this process's environment without what would change Spark or keep Python from storing compiled modules."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTHON"))}


def report(name: str, usages: list[Usage], bare_s: float) -> float:
    """Print one line for a measured process and return its ratio to the bare job."""
    cpu_s = statistics.median(usage.cpu_s for usage in usages)
    wall_s = statistics.median(usage.wall_s for usage in usages)
    spread = f"{min(usage.cpu_s for usage in usages):.1f} to {max(usage.cpu_s for usage in usages):.1f}"
    print(f"{name:<26} {cpu_s:6.1f} CPU s ({spread})  {wall_s:6.1f} s  x {cpu_s / bare_s:.2f}")
    return cpu_s / bare_s


def report_stages(usages: list[Usage]) -> None:
    """Print the median wall time of each stage that the runs named on their progress lines."""
    stages: dict[str, list[float]] = {}
    for usage in usages:
        for name, seconds in STAGE.findall(usage.output):
            stages.setdefault(name, []).append(float(seconds))
    for name, seconds in stages.items():
        print(f"    {name:<22} {statistics.median(seconds):6.1f} s")


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each process is measured (default 5)")
    parser.add_argument("--limit", type=float, default=3.0, help="largest accepted ratio to the bare job (default 3.0)")
    options = parser.parse_args()

    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("this kernel has no PR_SET_CHILD_SUBREAPER; CPU seconds of daemons would be missed")
    counted_s = measure([sys.executable, "-c", DAEMON]).cpu_s
    if counted_s < 0.5:
        sys.exit(f"a daemon that takes 0.5 CPU s was counted as {counted_s:.2f}")
    measure([str(ROOT / "spark-submit.sh"), "--setup"], user_environment())

    bare: list[Usage] = []
    fresh: list[Usage] = []
    repeated: list[Usage] = []
    with tempfile.TemporaryDirectory() as folder:
        table, warehouse = Path(folder, "table"), Path(folder, "warehouse")
        bare_argv, bare_environment = bare_command(table, Path(folder, "bare.py"))
        run = [str(ROOT / "spark-submit.sh"), "run", "--warehouse", str(warehouse)]
        for number in range(1, options.rounds + 1):
            shutil.rmtree(table, ignore_errors=True)
            shutil.rmtree(warehouse, ignore_errors=True)
            bare.append(measure(bare_argv, bare_environment))
            fresh.append(measure(run, user_environment()))
            repeated.append(measure(run, user_environment()))
            figures = ", ".join(f"{usages[-1].cpu_s:.1f}" for usages in (bare, fresh, repeated))
            print(f"round {number} of {options.rounds}: bare, fresh, again = {figures} CPU s", file=sys.stderr)

    bare_s = statistics.median(usage.cpu_s for usage in bare)
    report("bare job", bare, bare_s)
    ratios = [report("run, fresh warehouse", fresh, bare_s)]
    report_stages(fresh)
    ratios.append(report("run, same warehouse again", repeated, bare_s))
    report_stages(repeated)
    return MISSED_TARGET if max(ratios) > options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
