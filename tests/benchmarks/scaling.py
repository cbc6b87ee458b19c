"""What a first run over a fleet takes on other machines: a simulation, from runs that were measured.

    python tests/benchmarks/fleet.py --groups 1000 --rounds 1 --scenarios --keep FOLDER
    python tests/benchmarks/scaling.py FOLDER FOLDER [FOLDER] [--cores 100] [--groups 1000000]

The first, called once for each size, keeps what the second reads: CPU seconds, wall time, and the event log of the first run.

A run has seconds in which no task runs, which are the driver's, and seconds of tasks. Another process on the same machine makes all of
them longer. So they are scaled to the run's CPU seconds: alone on the machine a run takes one CPU second for each. Two straight lines go
through the two smallest runs, one for the driver's seconds and one for those of the tasks. A run is then played stage by stage: each takes
its share of the task seconds, cut into tasks, which free cores take one after another. A stage that sends groups to Python workers is cut
by groups, whose work depends on members and partitions as in the fleet; no cut goes through a group.

Printed is what the simulation says of each measured run beside what was measured, and of the run that is asked for; then what a group
more costs, by stages of the run. Wall times are compared where the run had the machine for itself. The exit code is 20 where CPU seconds
or such a wall time are off by more than 15 %.
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
from tests.benchmarks.fleet_results import FIRST, MEASURED, STAGES, table
from tests.benchmarks.measuring import MISSED_TARGET

BY_GROUP = {"MapInPandas", "MapInArrow"}
"""Operators that send rows to Python workers."""
MEASURED_CORES = 2
MOST_PARTITIONS = 64
"""Partitions of a shuffle in the settings of a large run on one machine; a cluster takes three a core."""
TARGET = 0.15
LITTLE = 0.1
"""What other processes may take beside a run, as a share of its CPU seconds, if its wall time is to mean something."""
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
        records: how many of its input.
        cpu_s: of the process tree.
        wall_s: of the command.
        others_cpu_s: of the machine's other processes meanwhile.
        driver_s: how much of the wall time no task was running.
        stages: of Spark, in the order in which they were submitted, without those that had no task.
        parts: wall seconds of the stages of the run.
    """

    groups: int
    records: int
    cpu_s: float
    wall_s: float
    others_cpu_s: float
    driver_s: float
    stages: tuple[Stage, ...]
    parts: Mapping[str, float]

    @property
    def task_s(self) -> float:
        """Return the seconds of all tasks."""
        return sum(stage.task_s for stage in self.stages)

    @property
    def stretch(self) -> float:
        """Return how long a second lasted that would have been one without other processes."""
        return (self.driver_s + self.task_s) / self.cpu_s

    @property
    def was_alone(self) -> bool:
        """Return whether nothing else used the machine to speak of."""
        return self.others_cpu_s <= LITTLE * self.cpu_s


def read_run(folder: Path) -> Run:
    """Return the first run of what ``fleet.py --keep`` left in a folder."""
    measured = json.loads((folder / MEASURED).read_text(encoding="utf-8"))
    first = measured["medians"][FIRST]
    stages, covered_s = read_log(folder / FIRST)
    return Run(
        groups=measured["groups"],
        records=measured["records"]["history"],
        cpu_s=first["cpu_s"],
        wall_s=first["wall_s"],
        others_cpu_s=first["others_cpu_s"],
        driver_s=first["wall_s"] - covered_s,
        stages=stages,
        parts=first["stages"],
    )


def read_log(folder: Path) -> tuple[tuple[Stage, ...], float]:
    """Return the stages of the event log in a folder, and for how many seconds at least one task was running."""
    by_group: dict[int, bool] = {}
    tasks: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in _events(folder):
        if event["Event"] == "SparkListenerStageSubmitted":
            info = event["Stage Info"]
            by_group[info["Stage ID"]] = not BY_GROUP.isdisjoint(_operators(info["RDD Info"]))
        elif event["Event"] == "SparkListenerTaskEnd":
            tasks[event["Stage ID"]].append((event["Task Info"]["Launch Time"], event["Task Info"]["Finish Time"]))
    stages = tuple(
        Stage(sum(end - start for start, end in tasks[number]) / 1000, len(tasks[number]), by_group[number]) for number in sorted(tasks)
    )
    return stages, _covered_s(task for of_stage in tasks.values() for task in of_stage)


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
        """Return for how long no task runs, alone on the machine."""
        small, large = ((run.groups, run.driver_s / run.stretch) for run in (self._small, self._large))
        return line_through(small, large, groups)

    def task_s(self, groups: int) -> float:
        """Return the seconds of all tasks, alone on the machine."""
        small, large = ((run.groups, run.task_s / run.stretch) for run in (self._small, self._large))
        return line_through(small, large, groups)

    def cpu_s(self, groups: int) -> float:
        """Return the CPU seconds of the process tree."""
        return self.driver_s(groups) + self.task_s(groups)

    def part_s(self, name: str) -> float:
        """Return the CPU seconds that one group more costs in a stage of the run."""
        small, large = ((run.groups, run.cpu_s * run.parts[name] / sum(run.parts.values())) for run in (self._small, self._large))
        return (large[1] - small[1]) / (large[0] - small[0])

    @property
    def records(self) -> float:
        """Return how many records come with one group more."""
        return (self._large.records - self._small.records) / (self._large.groups - self._small.groups)

    def wall_s(self, groups: int, cores: int) -> float:
        """Return how long a run takes that has a machine or cluster for itself."""
        partitions = max(MOST_PARTITIONS, 3 * cores) if cores > MEASURED_CORES else MOST_PARTITIONS
        growth = self.task_s(groups) / self._large.task_s  # undoes the stretch, too
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
    runs = sorted(map(read_run, options.folders), key=lambda run: run.groups)
    simulation = Simulation(*runs[:2])
    head = [
        "groups",
        "cores",
        "CPU s, forecast",
        "CPU s, measured",
        "off by",
        "wall s, forecast",
        "wall s, measured",
        "off by",
        "others' CPU s",
    ]
    rows, worst = [head], 0.0
    for run in runs:
        cpu_s, wall_s = simulation.cpu_s(run.groups), simulation.wall_s(run.groups, MEASURED_CORES)
        cpu_off, wall_off = cpu_s / run.cpu_s - 1, wall_s / run.wall_s - 1
        worst = max(worst, abs(cpu_off), abs(wall_off) if run.was_alone else 0)
        sizes = [f"{run.groups:,}", str(MEASURED_CORES), f"{cpu_s:,.0f}", f"{run.cpu_s:,.0f}", f"{cpu_off:+.0%}"]
        rows.append(
            [*sizes, f"{wall_s:,.0f}", f"{run.wall_s:,.0f}", f"{wall_off:+.0%}" if run.was_alone else "", f"{run.others_cpu_s:,.0f}"]
        )
    if options.groups:
        cpu_s, wall_s = simulation.cpu_s(options.groups), simulation.wall_s(options.groups, options.cores)
        rows.append([f"{options.groups:,}", str(options.cores), f"{cpu_s:,.0f}", "", "", f"{wall_s:,.0f}", "", "", ""])
    print(table(rows), table(_costs(simulation, runs[1].parts)), sep="\n\n")
    return MISSED_TARGET if worst > TARGET else 0


def _costs(simulation: Simulation, parts: Iterable[str]) -> list[list[str]]:
    """Return the rows of a table: what one group more costs, by stages of the run."""
    seconds = {name: simulation.part_s(name) for name in STAGES if name in parts}
    each = {name: f"{second / simulation.records * 1e6:.0f} µs a record" for name, second in seconds.items() if name == "land"}
    rows = [["stage", "ms a group", "which is"]]
    rows += [[name, f"{second * 1000:.1f}", each.get(name, "")] for name, second in seconds.items()]
    return [*rows, ["all", f"{sum(seconds.values()) * 1000:.1f}", f"with {simulation.records:.0f} records"]]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="what fleet.py --keep left of a run; at least two")
    parser.add_argument("--groups", type=int, help="how many groups the run has that is asked for")
    parser.add_argument("--cores", type=int, default=MEASURED_CORES, help="cores of its machine or cluster (default %(default)s)")
    options = parser.parse_args()
    if len(options.folders) < 2:
        parser.error("expected at least two folders")
    return options


if __name__ == "__main__":
    sys.exit(main())
