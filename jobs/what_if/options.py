"""What the command line of ``what-if`` takes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import ClassVar, TypeVar

from jobs.runtime.arguments import cluster_name, moment, names, option, positional
from jobs.runtime.run_options import RunNameOptions

EXPLANATION = """

It takes the newest settled generation of each group from the tables of the last published run, applies the changes, and lets
each assignor rebalance until nothing moves any more. It needs a warehouse in a local folder, and writes no table.
With --save it is a run with Spark that writes tables, in any warehouse.

Without changes it shows what one more rebalance would do. Members that are added without names may sort anywhere among the
others. Where that matters, a figure is a range.

--history and --backtest play no change. They compare what has happened with what other assignors would have made of it, and with
what one would have predicted. --migrate plays the move to the consumer protocol (KIP-848). Without names of groups these three
are about all groups."""

EXAMPLES = (
    "what-if payments --warehouse audit --add-members 2",
    "what-if payments --members 2..12 --threads-per-member 4",
    "what-if --all --migrate --output plan.html",
    "what-if 'pay*' --history --json",
)

EPILOG = """\
exit codes: 0 done; 1 a table is damaged; 2 wrong usage, no such group, no warehouse, or a change that does not fit the group;
130 interrupted; with --save also 3 another run holds the warehouse, and 4 a gate failed, or the run id was reused.
docs/what-if.md shows decisions with their commands."""

MOST_COUNT = 100_000
"""More members or partitions than any group has."""
MOST_COUNTS = 1_000
"""Counts of members that one call tries: each of them is played with each assignor."""
_OF_NO_RESULT = ("log_format", "quiet", "verbose", "config", "warehouse", "wait", "run_id", "scenario")
"""Options that do not distinguish one run from another. The file of scenarios does by its content."""
_Value = TypeVar("_Value")


def count(text: str) -> int:
    """Return a whole number from 0 on."""
    if not text.isascii() or not text.isdigit() or int(text) > MOST_COUNT:
        raise argparse.ArgumentTypeError(f"expected a count from 0 to {MOST_COUNT}, found {text[:50]!r}")
    return int(text)


def positive_count(text: str) -> int:
    """Return a whole number from 1 on."""
    if count(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a count from 1 to {MOST_COUNT}, found {text[:50]!r}")
    return int(text)


def some_names(text: str) -> tuple[str, ...]:
    """Return names that commas separate, at least one."""
    found = names(text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected names separated by commas, found {text[:50]!r}")
    return found


def count_or_names(text: str) -> int | tuple[str, ...]:
    """Return a count, or names that commas separate."""
    return count(text) if _is_number(text) else some_names(text)


def count_or_pattern(text: str) -> int | str:
    """Return a count, or a pattern of names."""
    return count(text) if _is_number(text) else text


def count_range(text: str) -> tuple[int, int]:
    """Return the ends of a range such as ``2..12``; one number is a range of itself."""
    first, dots, last = text.partition("..")
    ends = (positive_count(first), positive_count(last) if dots else positive_count(first))
    if ends[0] > ends[1]:
        raise argparse.ArgumentTypeError(f"expected a range such as 2..12, found {text[:50]!r}")
    if ends[1] - ends[0] >= MOST_COUNTS:
        raise argparse.ArgumentTypeError(f"expected a range of at most {MOST_COUNTS} counts, found {text[:50]!r}")
    return ends


def _is_number(text: str) -> bool:
    """Return whether a text is meant as a number: a member that is called so has to be named in a file."""
    return re.fullmatch(r"[+-]?[\d.]+", text) is not None


def _pairs(shape: str, value: Callable[[str], _Value]) -> Callable[[str], tuple[tuple[str, _Value], ...]]:
    """Return what reads ``NAME=VALUE``, several separated by commas."""

    def read(text: str) -> tuple[tuple[str, _Value], ...]:
        pairs = [part.rpartition("=") for part in names(text)]
        if not pairs or not all(name and end for name, _, end in pairs):
            raise argparse.ArgumentTypeError(f"expected {shape}, several separated by commas, found {text[:50]!r}")
        return tuple((name, value(end)) for name, _, end in pairs)

    return read


@dataclass(frozen=True, kw_only=True)
class WhatIfOptions(RunNameOptions):
    """Which groups, which changes, and what is shown. None, 0 and an empty tuple: not given."""

    unused: ClassVar[tuple[str, ...]] = ("--as-of",)
    groups: tuple[str, ...] = positional((), nargs="*", metavar="GROUP", help="names of groups, or patterns such as 'pay*'")
    all: bool = option(False, action="store_true", help="all groups of the warehouse")
    cluster_id: str | None = option(type=cluster_name, metavar="NAME", help="the cluster of the groups (default: every cluster)")
    add_members: int | tuple[str, ...] = option(
        0, type=count_or_names, metavar="N|NAME,...", help="members that join: how many, or their ids"
    )
    remove_members: int | str = option(
        0, type=count_or_pattern, metavar="N|PATTERN", help="members that leave: how many, the last in order, or a pattern of their ids"
    )
    partitions: tuple[tuple[str, int], ...] = option(
        (),
        action="extend",
        type=_pairs("TOPIC=COUNT", positive_count),
        metavar="TOPIC=N,...",
        help="partition counts of topics afterwards",
    )
    subscribe: tuple[str, ...] | None = option(
        action="extend", type=some_names, metavar="TOPIC,...", help="the topics that every member subscribes to afterwards"
    )
    static_ids: bool = option(False, action="store_true", help="every member gets a group.instance.id")
    rack: tuple[tuple[str, str], ...] = option(
        (),
        action="extend",
        type=_pairs("PATTERN=RACK", str),
        metavar="PATTERN=RACK,...",
        help="client.rack of the members that a pattern matches",
    )
    protocol: str | None = option(choices=("classic", "consumer"), help="the rebalance protocol afterwards; consumer is KIP-848")
    scenario: Path | None = option(type=Path, metavar="FILE", help="named scenarios in YAML, shown side by side, instead of these changes")
    strategies: tuple[str, ...] | None = option(
        action="extend",
        type=some_names,
        metavar="LIST",
        help="assignors to compare (default: range, roundrobin, sticky, cooperative-sticky and uniform)",
    )
    members: tuple[int, int] | None = option(
        type=count_range, metavar="FROM..TO", help="compare these member counts instead of one change, and say which one divides well"
    )
    threads_per_member: int = option(
        1, type=positive_count, metavar="N", help="consumers of each member that is counted, such as the threads of a pod"
    )
    history: bool = option(
        False, action="store_true", help="what the recorded generations would have cost under other assignors, instead of a change"
    )
    backtest: bool = option(
        False, action="store_true", help="predict each recorded generation from the one before, and say how many predictions are exact"
    )
    since: datetime | None = option(type=moment, metavar="TIME", help="with --history or --backtest: only generations from here on")
    migrate: bool = option(
        False, action="store_true", help="plan the move of classic groups to the consumer protocol (KIP-848), fewest risks first"
    )
    output: Path | None = option(type=Path, metavar="FILE.html", help="write the plan of --migrate as a page, too (default: no page)")
    json: bool = option(False, action="store_true", help="print one JSON document instead of tables")
    save: bool = option(
        False, action="store_true", help="write the results to tables instead of printing them; a run with Spark, for any warehouse"
    )

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        if self.save:
            return (*super().extras(), "quality")
        return ("reading", "report") if self.output is not None else ("reading",)

    def identity(self) -> str:
        """Return the groups and changes of a run that saves, as a text.

        Options with their default are not in it: one that a later release adds does not change the text of an earlier call.

        Raises:
            OSError: the file of scenarios cannot be read.
        """
        given = {one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default}
        asked = {name: value for name, value in given.items() if name not in _OF_NO_RESULT}
        return f"{asked!r} {self.scenario.read_bytes()!r}" if self.scenario is not None else repr(asked)
