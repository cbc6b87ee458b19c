"""Inputs of which one thing is very large, each run through ``./spark-submit.sh run`` with the settings that the launcher chooses.

    python tests/benchmarks/large.py [KIND...] [--make FOLDER]

Prints for each kind, as Markdown, the CPU seconds of the process tree, the wall time, and the largest memory (PSS, seen once a second) of
the driver and of the Python workers. Ends with the output of the first run that fails. With ``--make`` the inputs are written to folders of
their names, and nothing runs. The kinds:

* partitions: one group of 1,000,000 partitions and 2,000 members, 2 generations; a metadata snapshot is one line of 100 MB.
* members: one group of 10,000 members and 20,000 partitions, 3 generations.
* generations: one group of 8 members and 40 partitions, 50,000 generations.
* histories: 1,000 groups of 500 generations.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.fleet_groups import FleetTopic, GroupPlan, plan_fleet
from tests.benchmarks.fleet_records import NoRoomError, history, make_fleet
from tests.benchmarks.measuring import LAUNCHER, adopt_orphans, measure, user_environment
from tests.benchmarks.processes import MemorySampler

WRONG_USAGE = 2
SEED = 1
TOPIC_COUNT = 10
"""Of a group that is made by its number of partitions."""


@dataclass(frozen=True)
class LargeInput:
    """An input with one large thing.

    Attributes:
        commits: offset commits in a generation, for each partition that a group holds.
    """

    plans: Callable[[], list[GroupPlan]]
    generations: int
    commits: float


def one_group(member_count: int, partition_count: int) -> list[GroupPlan]:
    """Return the plan of one range group that reads so many partitions of ten topics."""
    topics = tuple(FleetTopic(f"orders-{number}", partition_count // TOPIC_COUNT, 10, 1_000_000) for number in range(TOPIC_COUNT))
    return [GroupPlan("one-large-group", SEED, "range", member_count, topics, False, False, False)]


KINDS = {
    "partitions": LargeInput(lambda: one_group(2_000, 1_000_000), 2, 0.05),
    "members": LargeInput(lambda: one_group(10_000, 20_000), 3, 0.7),
    "generations": LargeInput(lambda: one_group(8, 40), 50_000, 0.1),
    "histories": LargeInput(lambda: plan_fleet(1_000, SEED), 500, 0.02),
}


def make(folder: Path, kinds: Sequence[str]) -> None:
    """Write the inputs of some kinds to folders of their names.

    Raises:
        NoRoomError: a file cannot be written.
    """
    for kind in kinds:
        large = KINDS[kind]
        piece = replace(history(large.generations), name=kind, commits=large.commits)
        counts = make_fleet(folder, large.plans(), [piece])
        print(f"{folder / kind}: {counts[kind]:,} records", file=sys.stderr, flush=True)


def main() -> int:
    """Do what the arguments ask for, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)} (default all)")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="write the inputs there, and run nothing")
    options = parser.parse_args()
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"found {unknown[0]!r}, expected of {', '.join(KINDS)}")
    kinds = options.kinds or list(KINDS)
    try:
        if options.make is not None:
            make(options.make, kinds)
            return 0
        adopt_orphans()
        measure([LAUNCHER, "--setup"], user_environment())
        print("| input | CPU s | wall s | driver MiB | workers MiB |\n|---|---|---|---|---|")
        for kind in kinds:
            run(kind)
    except NoRoomError as error:
        print(f"large: {error}", file=sys.stderr)
        return WRONG_USAGE
    return 0


def run(kind: str) -> None:
    """Make the input of a kind, run it, and print its line."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), [kind])
        argv = [LAUNCHER, "run", "--input", str(Path(folder, kind)), "--warehouse", str(Path(folder, "warehouse"))]
        with MemorySampler() as memory:
            usage = measure(argv, user_environment())
    driver, workers = (f"{size / 2**20:,.0f}" for size in (memory.driver_bytes, memory.workers_bytes))
    print(f"| {kind} | {usage.cpu_s:.0f} | {usage.wall_s:.0f} | {driver} | {workers} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
