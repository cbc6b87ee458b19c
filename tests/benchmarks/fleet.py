"""Fleets of many groups, and what a run over them costs.

    python tests/benchmarks/fleet.py --make FOLDER --groups 300 [--generations 6] [--seed 1] [--more]

writes a fleet and measures nothing: raw records of ``__consumer_offsets`` and metadata snapshots in ``FOLDER/history``. With ``--more``
it also writes the pieces of the log that follow: ``generation``, one more generation of one group in twenty; ``commits``, five minutes of
offset commits of all groups; ``metadata``, a metadata snapshot alone. Exit code 2 when the fleet cannot be made.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.fleet_groups import plan_fleet  # noqa: E402
from tests.benchmarks.fleet_records import history, make_fleet, next_pieces  # noqa: E402

WRONG_USAGE = 2


def main() -> int:
    """Do what the arguments ask for, and return the exit code."""
    parser = _OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=_positive, default=5000, help="how many groups the fleet has (default 5000)")
    parser.add_argument("--generations", type=_positive, default=6, help="how many generations each group has (default 6)")
    parser.add_argument("--seed", type=int, default=1, help="of the fleet (default 1)")
    parser.add_argument("--changing", type=_positive, help="how many groups rebalance later (default one in twenty)")
    parser.add_argument("--make", type=Path, metavar="FOLDER", required=True, help="write the fleet there, and measure nothing")
    parser.add_argument("--more", action="store_true", help="also write the pieces that follow")
    options = parser.parse_args()
    changing = options.changing or max(1, options.groups // 20)
    if changing > options.groups:
        parser.error(f"--changing: found {changing}, expected at most the {options.groups} groups of the fleet")
    plans = plan_fleet(options.groups, options.seed)
    pieces = [history(options.generations), *(next_pieces(plans, changing) if options.more else ())]
    try:
        counts = make_fleet(options.make, plans, pieces)
    except OSError as error:
        print(f"fleet: cannot write to {options.make}: {error.strerror or error}; choose a folder with more room", file=sys.stderr)
        return WRONG_USAGE
    for name, count in counts.items():
        print(f"{options.make / name}: {count:,} records")
    return 0


class _OneLineParser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USAGE, f"fleet: {message}\n")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {number}, expected at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
