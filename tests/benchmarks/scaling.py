"""What a first run over a fleet takes on other machines: a simulation, from the event logs of runs that were measured.

    python tests/benchmarks/scaling.py 1000=FOLDER 5000=FOLDER [20000=FOLDER] [--cores 100] [--groups 1000000]

Each argument names how many groups a run had and the folder of its Spark event log. Two straight lines go through the two smallest runs:
the seconds in which no task runs, which are the driver's, and the seconds of all tasks. A run is then played stage by stage: each takes
its share of the task seconds, cut into tasks, which free cores take one after another. A stage that sends groups to Python workers is cut
by groups, whose work depends on members and partitions as in the fleet; no cut goes through a group. Printed is what the simulation says
of each measured run beside what was measured, and of the run that is asked for. The exit code is 20 where a measured run is off by more
than 15 %.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.fleet_groups import plan_fleet
from tests.benchmarks.measuring import MISSED_TARGET

BY_GROUP = {"MapInPandas", "MapInArrow"}
"""Operators that send rows to Python workers."""
MEASURED_CORES = 2
MOST_PARTITIONS = 64
"""Partitions of a shuffle in the settings of a large run on one machine; a cluster takes three a core."""
TARGET = 0.15
SAMPLED_GROUPS = 20_000
"""Groups of a larger fleet are as unlike as those of one of this size."""


@dataclass(frozen=True)
class Stage:
    """One stage of a run.

    Attributes:
        task_s: seconds of all its tasks.
        task_count: how many these were.
        is_by_group: it sends groups to Python workers.
    """

    task_s: float
    task_count: int
    is_by_group: bool


@dataclass(frozen=True)
class Run:
    """A measured run.

    Attributes:
        wall_s: from the first event to the last.
        driver_s: how much of it no task was running.
        stages: in the order in which they were submitted, without those that had no task.
    """

    groups: int
    wall_s: float
    driver_s: float
    stages: tuple[Stage, ...]

    @property
    def task_s(self) -> float:
        """Return the seconds of all tasks."""
        return sum(stage.task_s for stage in self.stages)


def read_run(groups: int, folder: Path) -> Run:
    """Return the run whose event log lies in a folder."""
    events = list(_events(folder))
    by_group: dict[int, bool] = {}
    tasks: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event["Event"] == "SparkListenerStageSubmitted":
            info = event["Stage Info"]
            by_group[info["Stage ID"]] = not BY_GROUP.isdisjoint(_operators(info["RDD Info"]))
        elif event["Event"] == "SparkListenerTaskEnd":
            tasks[event["Stage ID"]].append((event["Task Info"]["Launch Time"], event["Task Info"]["Finish Time"]))
    stages = tuple(
        Stage(sum(end - start for start, end in tasks[number]) / 1000, len(tasks[number]), by_group[number]) for number in sorted(tasks)
    )
    times = [time for event in events for time in (event.get("Timestamp"), event.get("time")) if time is not None]
    times += [time for of_stage in tasks.values() for task in of_stage for time in task]
    wall_s = (max(times) - min(times)) / 1000
    return Run(groups, wall_s, wall_s - _covered_s(task for of_stage in tasks.values() for task in of_stage), stages)


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "appstatus"))):
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _operators(rdds: Iterable[Mapping[str, Any]]) -> set[str]:
    return {json.loads(rdd["Scope"])["name"] for rdd in rdds if "Scope" in rdd}


def _covered_s(spans: Iterable[tuple[int, int]]) -> float:
    """Return for how many seconds at least one of some spans of milliseconds lasts.

    >>> _covered_s([(0, 2_000), (1_000, 3_000), (5_000, 6_000)])
    4.0
    """
    covered, until = 0, 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return covered / 1000


def line_through(first: tuple[float, float], second: tuple[float, float], at: float) -> float:
    """Return the value at a place of the straight line through two points.

    >>> line_through((1, 10), (3, 20), 5)
    30.0
    """
    (x, y), (other_x, other_y) = first, second
    return y + (other_y - y) * (at - x) / (other_x - x)


def busy_s(tasks: Iterable[float], cores: int) -> float:
    """Return how long tasks take when free cores take one after another.

    >>> busy_s([3, 1, 1, 1], 2)
    3.0
    """
    ends = [0.0] * cores
    for task in tasks:
        heapq.heapreplace(ends, ends[0] + task)
    return max(ends)


class Simulation:
    """Runs over fleets of any size, by two that were measured."""

    def __init__(self, small: Run, large: Run) -> None:
        """Take the lines from two runs, and the shares of stages from the larger one."""
        self._small, self._large = small, large
        self._weights: dict[int, list[float]] = {}

    def driver_s(self, groups: int) -> float:
        """Return for how long no task runs."""
        return line_through((self._small.groups, self._small.driver_s), (self._large.groups, self._large.driver_s), groups)

    def task_s(self, groups: int) -> float:
        """Return the seconds of all tasks."""
        return line_through((self._small.groups, self._small.task_s), (self._large.groups, self._large.task_s), groups)

    def wall_s(self, groups: int, cores: int) -> float:
        """Return how long a run takes."""
        partitions = max(MOST_PARTITIONS, 3 * cores) if cores > MEASURED_CORES else MOST_PARTITIONS
        growth = self.task_s(groups) / self._large.task_s
        shares = self._shares(groups, partitions)
        total = self.driver_s(groups)
        for stage in self._large.stages:
            seconds = stage.task_s * growth
            if stage.is_by_group and stage.task_count > 1:
                tasks: Sequence[float] = [seconds * share for share in shares]
            else:
                count = (
                    stage.task_count
                    if cores <= MEASURED_CORES
                    else min(partitions, max(1, round(stage.task_count * groups / self._large.groups)))
                )
                tasks = [seconds / count] * count
            total += busy_s(tasks, cores)
        return total

    def _shares(self, groups: int, partitions: int) -> list[float]:
        """Return what share of the work on all groups falls to each partition, when they are dealt out by a hash."""
        sizes = self._weights.setdefault(groups, _work(min(groups, SAMPLED_GROUPS)))
        random, shares = Random(groups), [0.0] * partitions
        for size in islice(cycle(sizes), groups):
            shares[random.randrange(partitions)] += size
        return [share / sum(shares) for share in shares]


def _work(groups: int) -> list[float]:
    """Return the work on each group of a fleet: some for each, and by its members and partitions."""
    plans = plan_fleet(groups, seed=1)
    loads = [plan.member_count + plan.partition_count for plan in plans]
    mean = sum(loads) / len(loads)
    return [1 + load / mean for load in loads]


def main() -> int:
    """Print what the simulation says, and return the exit code."""
    options = _options()
    runs = sorted(
        (read_run(int(groups), Path(folder)) for groups, _, folder in (text.partition("=") for text in options.runs)),
        key=lambda run: run.groups,
    )
    simulation = Simulation(*runs[:2])
    print("| groups | cores | driver s | task s | wall s, simulated | wall s, measured | off by |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    worst = 0.0
    for run in runs:
        wall_s = simulation.wall_s(run.groups, MEASURED_CORES)
        off = wall_s / run.wall_s - 1
        worst = max(worst, abs(off))
        print(
            f"| {run.groups:,} | {MEASURED_CORES} | {run.driver_s:.0f} | {run.task_s:.0f} | {wall_s:.0f} | {run.wall_s:.0f} | {off:+.0%} |"
        )
    if options.groups:
        wall_s = simulation.wall_s(options.groups, options.cores)
        driver_s, task_s = simulation.driver_s(options.groups), simulation.task_s(options.groups)
        print(f"| {options.groups:,} | {options.cores} | {driver_s:.0f} | {task_s:,.0f} | {wall_s:,.0f} | | |")
    return MISSED_TARGET if worst > TARGET else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="GROUPS=FOLDER", help="measured runs: how many groups, and the folder of the event log")
    parser.add_argument("--groups", type=int, help="how many groups the run has that is asked for")
    parser.add_argument("--cores", type=int, default=MEASURED_CORES, help="cores of its machine or cluster (default %(default)s)")
    options = parser.parse_args()
    if len(options.runs) < 2 or not all(text.partition("=")[0].isdecimal() for text in options.runs):
        parser.error("expected at least two arguments such as 5000=FOLDER")
    return options


if __name__ == "__main__":
    sys.exit(main())
