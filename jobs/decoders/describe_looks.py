"""Several looks in one text of ``kafka-consumer-groups``: where each begins, and the time that is printed before it.

A loop appends the output of each round to one file, or somebody pastes the outputs from before and after a change. A new look begins
where a table about a group comes again with another time before it, or with other content. Else it is a repetition in one look.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, NamedTuple

from jobs.decoders.decoded import Row
from jobs.decoders.describe_groups import GroupNotice, GroupRow
from jobs.decoders.describe_model import Key, Line
from jobs.decoders.describe_notices import EMPTY
from jobs.decoders.describe_tables import MEMBERS, OFFSETS

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
_ISO = rf"(?P<year>\d{{4}})-(?P<number>\d\d)-(?P<day>\d\d)[T ]{_CLOCK}(?:Z|(?: ?[+-]\d\d:?\d\d)?(?: [A-Z]{{2,5}})?)"
_UNIX = (
    rf"[A-Z][a-z]{{2}},? (?:(?P<month>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>\d{{1,2}})|(?P<day_before>\d{{1,2}}) (?P<month_after>[A-Z][a-z]{{2}})"
    rf"(?: (?P<year_before>\d{{4}}))?),? {_CLOCK}(?: (?P<half>[AP]M))?(?: [A-Z]{{2,5}}| [+-]\d{{2,4}})?(?: (?P<year>\d{{4}}))?"
)
_HEAD = r"(?:Every [\d.]+s: .*? )?\W{0,40}(?:[A-Za-z]{1,20}(?: [a-z]{1,20})?[:=]? {1,8})?"
_TIMES = (
    re.compile(rf"{_HEAD}{_UNIX}\W{{0,40}}"),
    re.compile(rf"{_HEAD}{_ISO}\W{{0,40}}"),
)
"""Whole lines of ``date``, in several locales, also after a word, and the heads of ``watch``."""
_LONGEST_TIME_LINE = 400
_OPTIONAL_COLUMNS = {"GROUP-INSTANCE-ID", "UPGRADED"}
"""Columns that a table has if some member has a value for them."""

_Subject = tuple[str, Any]
"""A group, and the kind and columns of a table, or None for a notice."""


class Beginning(NamedTuple):
    """Where a look begins in its text.

    Attributes:
        line: its first line; 0 for the first look.
        time_ms: the time printed before it, in any zone, so that only differences count; None without one.
    """

    line: int
    time_ms: int | None


@dataclass
class _Block:
    """A table, a notice, or several of them."""

    first: int
    last: int
    content: dict[_Subject, dict[Key, Row]] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)
    peopled: set[str] = field(default_factory=set)

    def add(self, other: _Block) -> None:
        self.last = max(self.last, other.last)
        self.empty |= other.empty
        self.peopled |= other.peopled
        for subject, rows in other.content.items():
            self.content.setdefault(subject, rows)

    def has_another(self, other: _Block) -> bool:
        """Return whether this has a table of the other block already, or another notice about its group."""
        common = self.content.keys() & other.content.keys()
        return any(subject[1] is not None or self.content[subject] != other.content[subject] for subject in common)

    def is_of_another_moment(self, other: _Block, *, has_time: bool) -> bool:
        """Return whether two blocks contradict each other about a group; with a time of its own a repeated table is enough."""
        common = self.content.keys() & other.content.keys()
        if has_time and any(of_table is not None for _, of_table in common):
            return True
        is_other = any(_differ(subject, self.content[subject], other.content[subject]) for subject in common)
        return is_other or bool(self.empty & other.peopled or self.peopled & other.empty)


def find_looks(rows: Iterable[GroupRow], notices: Iterable[GroupNotice], asides: Iterable[Line]) -> list[Beginning]:
    """Return the beginnings of the looks of one text in their order; one if all of it is of one moment.

    Args:
        rows, notices: of this text.
        asides: its lines that are neither: some may have times.
    """
    times = sorted((line.place.number, time_ms) for line in asides if (time_ms := find_time(line.text)) is not None)
    numbers = [number for number, _ in times]
    looks: list[_Block] = []
    beginnings: list[Beginning] = []
    for first, part in _parts(_blocks(rows, notices), numbers):
        before = bisect_right(numbers, part.first)
        time_ms = times[before - 1][1] if before else None
        if looks and not looks[-1].is_of_another_moment(part, has_time=time_ms != beginnings[-1].time_ms):
            looks[-1].add(part)
        else:
            beginnings.append(Beginning(first if looks else 0, time_ms))
            looks.append(part)
    return beginnings


def times_before_last(texts: Iterable[Sequence[Beginning]]) -> list[int] | None:
    """Return how many milliseconds each look was before the last one, from the last look to the first; None if not all are known.

    Looks of several texts belong together as counted from the end.
    """
    known = list(texts)
    found = [0]
    for at in range(2, max(map(len, known), default=1) + 1):
        pairs = ((text[-1].time_ms, text[-at].time_ms) for text in known if len(text) >= at)
        span = next((last - time_ms for last, time_ms in pairs if last is not None and time_ms is not None), None)
        if span is None or span <= found[-1]:
            return None
        found.append(span)
    return found


def find_time(line: str) -> int | None:
    """Return the time in milliseconds that is all of a line, as if it were of UTC; None for another line."""
    if len(line) > _LONGEST_TIME_LINE or line.count(":") < 2:
        return None
    match = next((match for shape in _TIMES if (match := shape.fullmatch(line.strip()))), None)
    if match is None:
        return None
    parts: Mapping[str, str | None] = match.groupdict()
    month = parts.get("month") or parts.get("month_after")
    hour = int(match["hour"])
    if parts.get("half"):
        hour = hour % 12 + (12 if parts["half"] == "PM" else 0)
    try:
        number = _MONTHS.index(month) + 1 if month else int(match["number"])
        year, day = int(parts["year"] or parts.get("year_before") or ""), int(parts["day"] or parts.get("day_before") or "")
        whole = datetime(year, number, day, hour, int(match["minute"]), int(match["second"]), tzinfo=timezone.utc)
    except ValueError:
        return None
    return int(whole.timestamp()) * 1000 + int((match["fraction"] or "0")[:3].ljust(3, "0"))


def _parts(blocks: Iterable[_Block], times: Sequence[int]) -> Iterator[tuple[int, _Block]]:
    """Yield runs of blocks without a repeated table, and without a time between them; each with its first line.

    Each output of a round repeats the notice about a group, so that only another notice about it ends a run.
    """
    part, start, last = None, 0, 0
    for block in blocks:
        is_after_time = bisect_right(times, block.first) > bisect_right(times, last)
        if part is not None and not is_after_time and not part.has_another(block):
            part.add(block)
        else:
            if part is not None:
                yield start, part
            part, start = block, min(last + 1, block.first)
        last = max(last, block.last)
    if part is not None:
        yield start, part


def _blocks(rows: Iterable[GroupRow], notices: Iterable[GroupNotice]) -> list[_Block]:
    """Return the tables and notices of a text in their order."""
    tables: dict[int, _Block] = {}
    for row in rows:
        number = row.place.number
        block = tables.setdefault(row.header.number, _Block(row.header.number, number))
        block.first, block.last = min(block.first, number), max(block.last, number)
        subject = row.group_id, (row.table.kind, _columns(row.table.columns))
        block.content.setdefault(subject, {}).setdefault(row.key, row.facts)
        if row.table.kind == MEMBERS or row.facts.get("owner") is not None:
            block.peopled.add(row.group_id)
    found = list(tables.values())
    for notice in notices:
        block = _Block(notice.place.number, notice.place.number, {(notice.group_id, None): {(): {"kind": notice.kind}}})
        if notice.kind == EMPTY:
            block.empty.add(notice.group_id)
        found.append(block)
    return sorted(found, key=lambda block: block.first)


@lru_cache(maxsize=64)
def _columns(all_columns: tuple[str, ...]) -> frozenset[str]:
    return frozenset(all_columns) - _OPTIONAL_COLUMNS


def _differ(subject: _Subject, known: Mapping[Key, Row], found: Mapping[Key, Row]) -> bool:
    """Return whether two tables of one kind show a group at two moments.

    Tables without a common partition are no looks: they are parts of a table that somebody has cut.
    """
    kind = subject[1] and subject[1][0]
    if kind == OFFSETS and not {key[:2] for key in known} & {key[:2] for key in found}:
        return False
    if kind == MEMBERS and not known.keys() & found.keys() and not _held(known) & _held(found):
        return False
    if known.keys() != found.keys():
        return True
    return any(known[key].get(name, value) != value for key, facts in found.items() for name, value in facts.items())


def _held(members: Mapping[Key, Row]) -> set[tuple[str, int]]:
    """Return the partitions that are printed beside members."""
    held = (entry for facts in members.values() for name in ("assigned", "current") for entry in facts.get(name) or ())
    return {(topic, number) for topic, numbers in held for number in numbers}
