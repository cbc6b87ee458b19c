"""What a fleet of many groups costs, as multiples of the least that any Spark job with Delta and a Python UDF costs.

    python tests/benchmarks/fleet.py [--groups 5000] [--rounds 3] [--rival] [--json FILE] [--keep FOLDER]
    python tests/benchmarks/fleet.py --check [--factor 1.5] --groups 300
    python tests/benchmarks/fleet.py --make FOLDER --groups 300 [--generations 6] [--seed 1] [--consumer-share 0] [--more]

The first makes a fleet and measures processes on it in turn, so that a change in the machine's load meets all of them: the bare job of
``measuring``; then ``./spark-submit.sh run`` over the history into a fresh warehouse (first), the same again (nothing-new), and over the
pieces of the log that follow: one more generation of one group in twenty (generation), five minutes of offset commits of all groups
(commits), a metadata snapshot alone (metadata); and the command ``report``. ``--rival`` adds what a first PySpark version would be, and
the floors of sending rows to workers and back. All write an event log, in which the Spark jobs are counted. Printed are medians in
Markdown: CPU seconds of the process tree, the ratio to the bare job, wall time, the largest memory (PSS, seen once a second) of the driver
and of the Python workers, and what each stage took; then the tables as the last round left them. ``--keep``
keeps what ``scaling.py`` reads.

The second fails with exit code 20 where a ratio exceeds so many times the one in ``fleet.json``, 1.25 without ``--factor``, or where the
Spark jobs exceed 1.05 times the recorded ones; ``--record`` writes both there. The third writes a fleet and measures nothing: raw records
of ``__consumer_offsets`` and metadata snapshots in ``FOLDER/history``, and with ``--more`` each of the other pieces in a folder of its
name. Exit code 2 when a fleet cannot be made.

All groups are of the classic protocol. ``--consumer-share`` gives some percent of them the consumer protocol, evenly over the sizes. Each
rebalance of such a group counts as a generation. Figures are recorded for each share. The rival and the floors read only groups of the
classic protocol.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.fleet_groups import GroupPlan, plan_fleet
from tests.benchmarks.fleet_records import NoRoomError, Piece, history, make_fleet, next_pieces
from tests.benchmarks.fleet_results import (
    MEASURED,
    compared_figures,
    markdown,
    markdown_of_tables,
    median_of,
    record,
    recorded_figures,
    table_sizes,
    worse_than,
)
from tests.benchmarks.fleet_scenarios import SCENARIOS, Bench
from tests.benchmarks.measuring import LAUNCHER, MISSED_TARGET, adopt_orphans, measure, user_environment

WRONG_USAGE = 2
RECORDED = Path(__file__).with_suffix(".json")


def main() -> int:
    """Do what the arguments ask for, and return the exit code."""
    options = _options()
    plans = plan_fleet(options.groups, options.seed, options.consumer_share)
    pieces = [history(options.generations), *(next_pieces(plans, options.changing) if options.more or options.make is None else ())]
    try:
        if options.make is None:
            return measured(options, plans, pieces)
        for name, count in make_fleet(options.make, plans, pieces).items():
            print(f"{options.make / name}: {count:,} records")
    except NoRoomError as error:
        print(f"fleet: {error}", file=sys.stderr)
        return WRONG_USAGE
    return 0


def measured(options: argparse.Namespace, plans: list[GroupPlan], pieces: Sequence[Piece]) -> int:
    """Make a fleet, measure, print, and return the exit code."""
    fleet = fleet_name(options.groups, options.generations, options.consumer_share)
    recorded = recorded_figures(RECORDED, fleet)
    if options.check and not recorded:
        print(f"fleet: found no figures of {fleet} in {RECORDED.name}; write them with --record first", file=sys.stderr)
        return WRONG_USAGE
    adopt_orphans()
    measure([LAUNCHER, "--setup"], user_environment())
    with tempfile.TemporaryDirectory() as folder:
        records = make_fleet(Path(folder, "fleet"), plans, pieces)
        bench = Bench(Path(folder), options.scenarios, has_rival=options.rival, kept=options.keep)
        rounds = bench.rounds(options.rounds)
        sizes = table_sizes(bench.warehouse)
    medians = {name: median_of(found) for name, found in rounds.items()}
    figures = compared_figures(medians)
    surroundings = _surroundings()
    print(f"{fleet}; records: {', '.join(f'{name} {count:,}' for name, count in records.items())}; medians of {options.rounds} rounds")
    print("; ".join(f"{name} {value}" for name, value in surroundings.items()), end="\n\n")
    print(markdown(medians, options.groups * options.generations), markdown_of_tables(sizes), sep="\n\n")
    files = [options.json, None if options.keep is None else options.keep / MEASURED]
    for file in filter(None, files):
        found = {"fleet": fleet, "groups": options.groups, "seed": options.seed, "records": records, "figures": figures, **surroundings}
        found |= {"medians": _plain(medians), "tables": _plain(sizes)}
        found["rounds"] = {name: [asdict(one) for one in measurements] for name, measurements in rounds.items()}
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    ours = {name: found for name, found in figures.items() if name in SCENARIOS}
    if options.record:
        record(RECORDED, fleet, ours)
    worse = worse_than(recorded, ours, options.factor) if options.check else []
    for line in worse:
        print(f"fleet: {line}", file=sys.stderr)
    return MISSED_TARGET if worse else 0


def fleet_name(groups: int, generations: int, consumer_share: int) -> str:
    """Return the name by which figures are recorded; it has the share of the consumer protocol, in percent, where there is one."""
    share = f", {consumer_share} % of the consumer protocol" if consumer_share else ""
    return f"{groups} groups, {generations} generations{share}"


def _plain(found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: asdict(one) for name, one in found.items()}


def _surroundings() -> dict[str, object]:
    """Return what the figures depend on besides the fleet."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB",
        "Python": platform.python_version(),
        **{name: version(name) for name in ("pyspark", "delta-spark", "pyarrow")},
        "command": " ".join(sys.argv),
    }


def _options() -> argparse.Namespace:
    parser = _OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=_positive, default=5000, help="how many groups the fleet has (default 5000)")
    parser.add_argument("--generations", type=_positive, default=6, help="how many generations each group has (default 6)")
    parser.add_argument("--seed", type=int, default=1, help="of the fleet (default 1)")
    consumer_share = "how many percent of the groups are of the consumer protocol (default 0)"
    parser.add_argument("--consumer-share", type=_percent, default=0, metavar="PERCENT", help=consumer_share)
    parser.add_argument("--changing", type=_positive, help="how many groups rebalance in each later piece (default one in twenty)")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="write the fleet there, and measure nothing")
    parser.add_argument("--more", action="store_true", help="with --make: also write the pieces that follow")
    parser.add_argument("--rounds", type=_positive, default=3, help="how often each process is measured (default 3)")
    parser.add_argument("--scenarios", nargs="*", choices=SCENARIOS, default=list(SCENARIOS), help="besides the first run (default all)")
    parser.add_argument("--rival", action="store_true", help="also measure the rival and the floors")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything there")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help=f"also write everything to {MEASURED} there, and keep the event logs")
    parser.add_argument("--check", action="store_true", help=f"fail above --factor times the ratios in {RECORDED.name}")
    parser.add_argument("--factor", type=float, default=1.25, help="for --check (default 1.25)")
    parser.add_argument("--record", action="store_true", help=f"write the figures to {RECORDED.name}")
    options = parser.parse_args()
    options.changing = options.changing or max(1, options.groups // 20)
    if options.changing > options.groups:
        parser.error(f"--changing: found {options.changing}, expected at most the {options.groups} groups of the fleet")
    return options


class _OneLineParser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USAGE, f"fleet: {message}\n")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {number}, expected at least 1")
    return number


def _percent(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"found {number}, expected 0 to 100")
    return number


if __name__ == "__main__":
    sys.exit(main())
