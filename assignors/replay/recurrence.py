"""What happens to a group again and again over hours: members that leave and come back, and rebalances without a visible reason.

The state is small and goes on from generation to generation, so that no history has to be read again. It has times of the last day, of
each seat at most as many as its rule asks for, and how many rebalances without a visible reason each of the last days had.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from statistics import median, median_low
from typing import Any, NamedTuple

HOUR_MS, DAY_MS = 3_600_000, 86_400_000

RETURNS_AN_HOUR, RETURNS_A_DAY = 5, 10
"""Returns of one member that are a loop. A deployment restarts it once, and once more when it is rolled back."""

UNEXPLAINED_AN_HOUR, UNEXPLAINED_A_DAY = 12, 48
"""Rebalances without a visible reason that are a storm: one every five minutes, or one every half hour all day long."""

TIMES_USUAL = 5
"""By how much a day has to exceed the group's own median day, where that is known."""

FEWEST_DAYS, MOST_DAYS = 7, 28
"""Whole days, UTC, before the present one that the median day is taken of; with fewer it is not known."""

MOST_TIMES = 1_000
"""Times of rebalances that are kept."""

Seat = tuple[str, ...]
"""Where a member comes back to when it is restarted: its instance id, or its client id and host."""


class Departure(NamedTuple):
    """A member that left its seat, which so many members had then, and is not back."""

    left_ms: int
    member_count: int


class Return(NamedTuple):
    """A member that left its seat, which so many members had then, and came back to it."""

    left_ms: int
    came_ms: int
    member_count: int


@dataclass(frozen=True, slots=True)
class Happening:
    """What happened in one generation, as far as it may recur.

    Attributes:
        left: the seats that members left, each with the number of members that had it before.
        came: the seats that members came to.
        is_unexplained: the assignor ran anew, and nothing shows why.
    """

    at_ms: int
    left: Sequence[tuple[Seat, int]] = ()
    came: Sequence[Seat] = ()
    is_unexplained: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """A seat that members come back to again and again; times in milliseconds.

    Attributes:
        span_ms: from the first of these returns to the last.
        cycle_ms: median time from one return to the next.
        stay_ms: median time from a return until the member left again; None where several members share the seat.
    """

    seat: Seat
    return_count: int
    span_ms: int
    cycle_ms: int
    stay_ms: int | None


@dataclass(frozen=True, slots=True)
class Storm:
    """Rebalances without a visible reason; times in milliseconds.

    Attributes:
        usual_count: how many the group's median day has; None where it is not known.
    """

    rebalance_count: int
    span_ms: int
    cycle_ms: int
    usual_count: float | None


@dataclass(frozen=True, slots=True)
class Recurrences:
    """What recurs in a generation."""

    loops: tuple[Loop, ...] = ()
    storm: Storm | None = None

    def encoded(self) -> str:
        """Return this as JSON; equal recurrences give equal texts."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decoded(cls, text: str | None) -> Recurrences:
        """Return what ``encoded`` returned; nothing where there is no text."""
        if text is None:
            return cls()
        content = json.loads(text)
        storm = content["storm"]
        loops = tuple(Loop(**{**loop, "seat": tuple(loop["seat"])}) for loop in content["loops"])
        return cls(loops, None if storm is None else Storm(**storm))


@dataclass
class Recurrence:
    """The state of one incarnation, fed with what happened in each of its generations.

    Time never goes back: a record with an earlier time than one before it counts as of the latest.
    """

    clock_ms: int
    first_day: int
    departures: dict[Seat, list[Departure]] = field(default_factory=dict)
    returns: dict[Seat, list[Return]] = field(default_factory=dict)
    unexplained: list[int] = field(default_factory=list)
    days: dict[int, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, at_ms: int) -> Recurrence:
        """Return the state behind the first known generation."""
        return cls(at_ms, at_ms // DAY_MS)

    def advance(self, happened: Happening) -> Recurrences | None:
        """Take in one more generation; return what recurs in it, None where nothing does."""
        self.clock_ms = max(self.clock_ms, happened.at_ms)
        for seat, member_count in happened.left:
            self.departures.setdefault(seat, []).append(Departure(self.clock_ms, member_count))
        came_back = {seat for seat in happened.came if self._come_back(seat)}
        loops = tuple(loop for loop in map(self._loop_at, sorted(came_back)) if loop is not None)
        storm = self._storm() if happened.is_unexplained else None
        return Recurrences(loops, storm) if loops or storm is not None else None

    def _come_back(self, seat: Seat) -> bool:
        """Note that a member came to a seat; return whether one had left it within a day."""
        gone = self.departures.get(seat)
        if not gone or gone[-1].left_ms < self.clock_ms - DAY_MS:
            return False
        left_ms, member_count = gone.pop()
        back = self.returns.setdefault(seat, [])
        back.append(Return(left_ms, self.clock_ms, member_count))
        del back[: -RETURNS_A_DAY * max(one.member_count for one in back)]
        return True

    def _loop_at(self, seat: Seat) -> Loop | None:
        day = [one for one in self.returns[seat] if one.came_ms >= self.clock_ms - DAY_MS]
        hour = [one for one in day if one.came_ms >= self.clock_ms - HOUR_MS]
        most = max(one.member_count for one in day)
        counted = hour if len(hour) >= RETURNS_AN_HOUR * most else day
        if counted is day and len(day) < RETURNS_A_DAY * most:
            return None
        stays = [later.left_ms - earlier.came_ms for earlier, later in pairwise(counted)]
        cycle_ms = median_low(later.came_ms - earlier.came_ms for earlier, later in pairwise(counted))
        return Loop(seat, len(counted), self.clock_ms - counted[0].came_ms, cycle_ms, median_low(stays) if most == 1 else None)

    def _storm(self) -> Storm | None:
        today = self.clock_ms // DAY_MS
        self.days[today] = self.days.get(today, 0) + 1
        self.unexplained.append(self.clock_ms)
        del self.unexplained[:-MOST_TIMES]
        day = [at_ms for at_ms in self.unexplained if at_ms >= self.clock_ms - DAY_MS]
        hour = [at_ms for at_ms in day if at_ms >= self.clock_ms - HOUR_MS]
        counted = day if len(day) >= UNEXPLAINED_A_DAY else hour
        usual = self._usual_count(today)
        is_usual = usual is not None and max(len(day), self.days[today]) < TIMES_USUAL * usual
        if is_usual or len(counted) < UNEXPLAINED_AN_HOUR:
            return None
        cycle_ms = median_low(later - earlier for earlier, later in pairwise(counted))
        return Storm(len(counted), self.clock_ms - counted[0], cycle_ms, usual)

    def _usual_count(self, today: int) -> float | None:
        """Return the median of the whole days before today, None where too few are known."""
        known = range(max(self.first_day + 1, today - MOST_DAYS), today)
        return None if len(known) < FEWEST_DAYS else float(median(self.days.get(day, 0) for day in known))

    def encoded(self) -> dict[str, Any]:
        """Return the state as plain lists for JSON, without what no later generation asks for; equal states give equal lists."""
        since_ms, since_day = self.clock_ms - DAY_MS, self.clock_ms // DAY_MS - MOST_DAYS
        departures = {seat: [one for one in of_seat if one.left_ms >= since_ms] for seat, of_seat in self.departures.items()}
        returns = {seat: [one for one in of_seat if one.came_ms >= since_ms] for seat, of_seat in self.returns.items()}
        return {
            "clock_ms": self.clock_ms,
            "first_day": self.first_day,
            "departures": sorted([list(seat), [list(one) for one in of_seat]] for seat, of_seat in departures.items() if of_seat),
            "returns": sorted([list(seat), [list(one) for one in of_seat]] for seat, of_seat in returns.items() if of_seat),
            "unexplained": [at_ms for at_ms in self.unexplained if at_ms >= since_ms],
            "days": sorted([day, count] for day, count in self.days.items() if day >= since_day),
        }

    @classmethod
    def decoded(cls, content: Mapping[str, Any]) -> Recurrence:
        """Return the state that ``encoded`` returned."""
        return cls(
            content["clock_ms"],
            content["first_day"],
            {tuple(seat): [Departure(*one) for one in of_seat] for seat, of_seat in content["departures"]},
            {tuple(seat): [Return(*one) for one in of_seat] for seat, of_seat in content["returns"]},
            list(content["unexplained"]),
            dict(content["days"]),
        )
