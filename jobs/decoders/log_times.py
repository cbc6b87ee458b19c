"""Times in the logs of brokers: local times without a zone, unless the pattern of the log writes one.

A change of the clocks repeats one hour of local time and leaves out another. A time in either of them is ambiguous.
"""

from __future__ import annotations

import calendar
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from jobs.decoders.decoded import LAST_MS
from jobs.runtime.errors import UsageError

UTC = "UTC"
MOST_MINUTES = 50_000
"""How many minutes of local time are kept: a month, a few MB."""
QUARTER_MS = 15 * 60 * 1000
"""The offsets of all zones in use are multiples of this."""
FURTHEST_QUARTERS = 14 * 4
"""No zone is further from UTC."""
NEAREST_MS = 2 * 60 * 1000
"""How far a line and the record of its generation may be apart: a group stabilizes before its leader has sent the assignment."""
LEAST_LINES = 3

_ZONE = r"(?:(Z|[+-]\d\d(?::?\d\d)?)(?![\w:])| ?(UTC|GMT|[+-]\d\d:?\d\d)\b)?"
TIME = re.compile(r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?!\d)" + _ZONE)
"""A date with a time, and its zone if one is written."""


class LogTime(NamedTuple):
    """A time of a log in milliseconds since 1970, UTC.

    Attributes:
        is_ambiguous: the local time is in an hour that a change of the clocks repeats or leaves out.
    """

    at_ms: int
    is_ambiguous: bool


class LogTimes:
    """Converts the times of logs that are written in one zone."""

    def __init__(self, zone: str | None = None) -> None:
        """Take the zone of the brokers.

        Args:
            zone: a name of the IANA database; None for UTC.

        Raises:
            UsageError: there is no such zone.
        """
        self._zone = _zone_of(UTC if zone is None else zone)
        self._minutes: dict[str, LogTime] = {}

    def at(self, minute: str, second: int, millisecond: int) -> LogTime:
        """Return a local time of the zone; of a repeated hour it is the first one.

        Args:
            minute: such as ``2026-11-21 02:21``.

        Raises:
            ValueError: there is no such time, or it is outside 1970 to 2200.
        """
        start = self._minutes.get(minute)
        if start is None:
            if len(self._minutes) >= MOST_MINUTES:
                self._minutes.clear()
            start = self._minutes[minute] = self._start_of(minute)
        if second > 59:
            raise ValueError(f"expected a second up to 59, found {second}")
        return LogTime(start.at_ms + second * 1000 + millisecond, start.is_ambiguous)

    def of_text(self, match: re.Match[str]) -> LogTime:
        """Return the time that ``TIME`` matched; a zone that is written is used instead of the zone of the brokers.

        Raises:
            ValueError: there is no such time, or it is outside 1970 to 2200.
        """
        year, month, day, hour, minute, second, fraction, zone, far_zone = match.groups()
        millisecond = int((fraction or "")[:3].ljust(3, "0"))
        offset = zone or far_zone
        text = f"{year}-{month}-{day} {hour}:{minute}"
        if offset is None:
            return self.at(text, int(second), millisecond)
        local = _IN_UTC.at(text, int(second), millisecond)
        return _checked(local.at_ms - _offset_minutes(offset) * 60_000, False)

    def _start_of(self, minute: str) -> LogTime:
        local = datetime.strptime(minute, "%Y-%m-%d %H:%M").replace(tzinfo=self._zone)
        if not 1970 <= local.year < 2200:  # other years do not fit every step of the conversion
            raise ValueError(f"expected a time from 1970 to 2200, found {minute}")
        first, second = local.utcoffset(), local.replace(fold=1).utcoffset()
        at_ms = calendar.timegm(local.timetuple()) * 1000 - (first or timedelta()) // timedelta(milliseconds=1)
        return _checked(at_ms, first != second)


def epoch_time(number: float) -> LogTime:
    """Return a time since 1970; its size shows whether it is in seconds, milliseconds, microseconds or nanoseconds.

    Raises:
        ValueError: it is outside 1970 to 2200.
    """
    scale = next((scale for scale, limit in ((1000, 1e11), (1, 1e14), (1e-3, 1e17)) if abs(number) < limit), 1e-6)
    return _checked(round(number * scale), False)


def _checked(at_ms: int, is_ambiguous: bool) -> LogTime:
    if not 0 <= at_ms < LAST_MS:
        raise ValueError(f"expected a time from 1970 to 2200, found {at_ms} ms")
    return LogTime(at_ms, is_ambiguous)


def _zone_of(name: str) -> tzinfo:
    if name in (UTC, "Z", "GMT"):
        return timezone.utc  # also on machines without a database of zones
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise UsageError(
            f"time zone {name!r}: unknown; expected a name of the IANA database such as UTC, Europe/Berlin or Asia/Kolkata"
            " (a machine without that database needs the package tzdata)"
        ) from None


def _offset_minutes(offset: str) -> int:
    if offset[0] not in "+-":
        return 0
    minutes = int(offset[1:3]) * 60 + int(offset[3:].lstrip(":") or 0)
    return -minutes if offset[0] == "-" else minutes


_IN_UTC = LogTimes()


class GenerationLine(NamedTuple):
    """A line of a broker about a generation that a record has too."""

    broker: str
    group_id: str
    generation: int
    logged_at_ms: int


def fitting_zone(lines: Iterable[GenerationLine], generations: Mapping[tuple[str, int], Sequence[int]]) -> dict[str, int]:
    """Return for each broker the minutes by which its times are ahead of the records of the same generations.

    Only brokers are named of which three or more lines miss their generations by the same quarters of an hour, and more than fit them.
    These minutes, added to the offset of the assumed zone, give the offset of the zone that fits. No time is changed.

    Args:
        lines: of stabilized groups and received assignments.
        generations: group and generation -> times of its records in milliseconds. A generation that was written twice has two.
    """
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for line in lines:
        quarters = {
            quarter
            for recorded_at_ms in generations.get((line.group_id, line.generation), ())
            if (quarter := _quarters(line.logged_at_ms - recorded_at_ms)) is not None
        }
        votes[line.broker].update({0} if 0 in quarters else quarters)
    offsets = {}
    for broker, counts in sorted(votes.items()):
        fitting = counts.pop(0, 0)
        quarter, count = max(counts.items(), key=lambda item: (item[1], -abs(item[0]), item[0]), default=(0, 0))
        if count >= LEAST_LINES and count > fitting:
            offsets[broker] = quarter * 15
    return offsets


def _quarters(difference_ms: int) -> int | None:
    """Return a difference in quarters of an hour; None if it is none, or more than between zones."""
    quarter = round(difference_ms / QUARTER_MS)
    is_near = abs(difference_ms - quarter * QUARTER_MS) <= NEAREST_MS and abs(quarter) <= 2 * FURTHEST_QUARTERS
    return quarter if is_near else None
