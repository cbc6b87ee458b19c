"""What the command lines of ``show`` and ``explain`` take."""

from __future__ import annotations

import argparse
import re
from dataclasses import MISSING, dataclass
from datetime import datetime, time

from jobs.runtime.arguments import LocationOptions, cluster_name, moment, option, positional, whole_number

SHOW_EXPLANATION = """

With the name of a group it shows one generation: members, partitions, offsets, cause, movements and findings. Without --generation
and --at this is the newest generation that has members. Without a group, or with a pattern, it lists groups, those that need someone
first. It needs a warehouse in a local folder, reads what the last published run left, and changes nothing."""

EXPLAIN_EXPLANATION = """

It says in sentences what one generation of a group did, why it came about, and what to change. Each sentence names the rows that
show it. Without --generation and --at it explains the newest generation that has members. docs/explain.schema.json is the schema of
--format json. It needs a warehouse in a local folder, reads what the last published run left, and changes nothing."""

SHOW_EXAMPLES = (
    "show --warehouse audit",
    "show payments --warehouse audit --generation 41",
    "show payments --warehouse audit --at 21:14",
)
EXPLAIN_EXAMPLES = ("explain payments --warehouse audit", "explain payments --warehouse audit --format markdown")

EPILOG = """\
exit codes: 0 done; 1 a table is damaged; 2 wrong usage, no such group or generation, or no warehouse;
130 interrupted.
docs/show.md has examples of show and explain."""

FORMATS = ("text", "markdown", "json")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


def moment_or_clock(text: str) -> datetime | time:
    """Return a time in ISO 8601 as aware UTC, or a time without a date. ``21:14`` is the end of that minute: pages cut the seconds."""
    clock = _CLOCK.fullmatch(text)
    if clock is None or not text.isascii():
        return moment(text)
    try:
        hour, minute, second = (None if part is None else int(part) for part in clock.groups())
        return time(hour or 0, minute or 0, 59, 999_999) if second is None else time(hour or 0, minute or 0, second)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a time such as 21:14, found {text!r}") from None


@dataclass(frozen=True, kw_only=True)
class GenerationOptions(LocationOptions):
    """Which generation of a group. None: not given."""

    cluster_id: str | None = option(type=cluster_name, metavar="NAME", help="the cluster of the group (default: every cluster)")
    generation: int | None = option(type=whole_number, metavar="N", help="the generation with this id (default: the newest with members)")
    at: datetime | time | None = option(
        type=moment_or_clock,
        metavar="TIME",
        help="the newest generation at or before this time, such as 21:14 or 2026-11-21T21:14:00Z, UTC",
    )

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        return ("reading",)


@dataclass(frozen=True, kw_only=True)
class ShowOptions(GenerationOptions):
    """What ``show`` takes."""

    group: str | None = positional(None, nargs="?", metavar="GROUP", help="a group, or a pattern such as 'pay*' (default: list all groups)")
    limit: int | None = option(
        type=whole_number, metavar="N", help="most rows of each table; 0 for all (default: 50 of a list, all of one group)"
    )
    json: bool = option(False, action="store_true", help="print one JSON document instead of tables")


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(GenerationOptions):
    """What ``explain`` takes."""

    group: str = positional(MISSING, metavar="GROUP", help="the group")
    format: str = option(
        "text", choices=FORMATS, help="text for a terminal, markdown for tickets and chats, json for programs (default text)"
    )
