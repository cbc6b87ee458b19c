"""CPU seconds of a whole `run` on the demo capture, as a multiple of the least that any Spark job with Delta and a Python UDF costs.

Then those of the commands that read the warehouse: `sql` as such a multiple too, `show` and `explain` in seconds.

    python tests/benchmarks/startup.py [--rounds 5] [--limit 3.0]

Three processes are measured in turn, so that a change in the machine's load meets all of them: the bare job below, `./spark-submit.sh
run` into a fresh warehouse, and the same into the warehouse of the round before. All use the launcher's settings and jars. Printed are
medians, the ratio to the bare job, and the stages that the run itself reports. Exit code 20 when a ratio or a time exceeds its
limit.

Counted is user and system time of the process tree (``measuring``).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.measuring import (
    LAUNCHER,
    MISSED_TARGET,
    Usage,
    adopt_orphans,
    bare_command,
    measure,
    stage_seconds,
    user_environment,
)

READERS = {"show, list": ["show"], "show GROUP": ["show", "feed-coop"], "explain GROUP": ["explain", "feed-coop"]}
"""Commands without Spark."""
MOST_READER_S = 1.0
MOST_SQL_RATIO = 1.5


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
        for name, seconds in stage_seconds(usage.output).items():
            stages.setdefault(name, []).append(seconds)
    for name, seconds in stages.items():
        print(f"    {name:<22} {statistics.median(seconds):6.1f} s")


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each process is measured (default 5)")
    parser.add_argument("--limit", type=float, default=3.0, help="largest accepted ratio to the bare job (default 3.0)")
    options = parser.parse_args()

    adopt_orphans()
    measure([LAUNCHER, "--setup"], user_environment())

    bare: list[Usage] = []
    fresh: list[Usage] = []
    repeated: list[Usage] = []
    asked: list[Usage] = []
    read: dict[str, list[Usage]] = {name: [] for name in READERS}
    with tempfile.TemporaryDirectory() as folder:
        table, warehouse = Path(folder, "table"), Path(folder, "warehouse")
        bare_argv, bare_environment = bare_command(table, Path(folder, "bare.py"))
        run = [LAUNCHER, "run", "--warehouse", str(warehouse)]
        for number in range(1, options.rounds + 1):
            shutil.rmtree(table, ignore_errors=True)
            shutil.rmtree(warehouse, ignore_errors=True)
            bare.append(measure(bare_argv, bare_environment))
            fresh.append(measure(run, user_environment()))
            repeated.append(measure(run, user_environment()))
            asked.append(measure([LAUNCHER, "sql", "--question", "why", "--warehouse", str(warehouse)], user_environment()))
            for name, words in READERS.items():
                read[name].append(measure([LAUNCHER, *words, "--warehouse", str(warehouse)], user_environment()))
            figures = ", ".join(f"{usages[-1].cpu_s:.1f}" for usages in (bare, fresh, repeated))
            print(f"round {number} of {options.rounds}: bare, fresh, again = {figures} CPU s", file=sys.stderr)

    bare_s = statistics.median(usage.cpu_s for usage in bare)
    report("bare job", bare, bare_s)
    ratios = [report("run, fresh warehouse", fresh, bare_s)]
    report_stages(fresh)
    ratios.append(report("run, same warehouse again", repeated, bare_s))
    report_stages(repeated)
    sql_ratio = report("sql", asked, bare_s)
    for name, usages in read.items():
        report(name, usages, bare_s)
    slowest = max(statistics.median(usage.cpu_s for usage in usages) for usages in read.values())
    is_missed = max(ratios) > options.limit or sql_ratio > MOST_SQL_RATIO or slowest > MOST_READER_S
    return MISSED_TARGET if is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
