"""Events that recur in a group over hours: members that leave and return, and rebalances without a visible reason.

The state is small and is passed from generation to generation, so that no history has to be read again. It has times of the last day, for
each seat at most as many as its rule needs, and the number of rebalances without a visible reason on each of the last days.
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
"""Number of returns of one member that make a loop. A deployment restarts a member once, a rollback once more."""

UNEXPLAINED_AN_HOUR, UNEXPLAINED_A_DAY = 12, 48
"""Number of rebalances without a visible reason that make a storm: one every five minutes, or every half hour all day."""

TIMES_USUAL = 5
"""Factor by which a day must exceed the group's own median day, if that is known."""

FEWEST_DAYS, MOST_DAYS = 7, 28
"""Number of whole days, UTC, before the current one for the median day. With fewer days it is not known."""

MOST_TIMES = 1_000
"""The most times of rebalances that are kept."""

Seat = tuple[str, ...]
"""The place to which a restarted member returns: its instance id, or its client id and host."""


class Departure(NamedTuple):
    """A member that left its seat and has not returned, with the number of members of the seat at that time."""

    left_ms: int
    member_count: int


class Return(NamedTuple):
    """A member that left its seat and returned to it, with the number of members of the seat when it left."""

    left_ms: int
    came_ms: int
    member_count: int


@dataclass(frozen=True, slots=True)
class Happening:
    """The events of one generation that may recur.

    Attributes:
        left: the seats that members left, each with its number of members before.
        came: the seats that members came to.
        is_unexplained: the assignor ran without a visible reason.
    """

    at_ms: int
    left: Sequence[tuple[Seat, int]] = ()
    came: Sequence[Seat] = ()
    is_unexplained: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """A seat to which members return again and again; times in milliseconds.

    Attributes:
        span_ms: from the first of these returns to the last.
        cycle_ms: median time from one return to the next.
        stay_ms: median time from a return until the member left again; None if several members share the seat.
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
        usual_count: the number on the group's median day; None if it is not known.
    """

    rebalance_count: int
    span_ms: int
    cycle_ms: int
    usual_count: float | None


@dataclass(frozen=True, slots=True)
class Recurrences:
    """The recurrences in one generation."""

    loops: tuple[Loop, ...] = ()
    storm: Storm | None = None

    def encoded(self) -> str:
        """Return the recurrences as JSON. Equal recurrences give equal text."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decoded(cls, text: str | None) -> Recurrences:
        """Return the recurrences of a result of ``encoded``; none for None."""
        if text is None:
            return cls()
        content = json.loads(text)
        storm = content["storm"]
        loops = tuple(Loop(**{**loop, "seat": tuple(loop["seat"])}) for loop in content["loops"])
        return cls(loops, None if storm is None else Storm(**storm))


@dataclass
class Recurrence:
    """The state of one incarnation, updated with the events of each generation.

    Time never goes back: a record with an earlier time than one before it has the latest time so far.
    """

    clock_ms: int
    first_day: int
    departures: dict[Seat, list[Departure]] = field(default_factory=dict)
    returns: dict[Seat, list[Return]] = field(default_factory=dict)
    unexplained: list[int] = field(default_factory=list)
    days: dict[int, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, at_ms: int) -> Recurrence:
        """Return the state after the first known generation."""
        return cls(at_ms, at_ms // DAY_MS)

    def advance(self, happened: Happening) -> Recurrences | None:
        """Add one generation; return the recurrences in it, None if there are none."""
        self.clock_ms = max(self.clock_ms, happened.at_ms)
        for seat, member_count in happened.left:
            self.departures.setdefault(seat, []).append(Departure(self.clock_ms, member_count))
        came_back = {seat for seat in happened.came if self._come_back(seat)}
        loops = tuple(loop for loop in map(self._loop_at, sorted(came_back)) if loop is not None)
        storm = self._storm() if happened.is_unexplained else None
        return Recurrences(loops, storm) if loops or storm is not None else None

    def _come_back(self, seat: Seat) -> bool:
        """Record that a member came to a seat; return whether a member had left it within a day."""
        gone = self.departures.get(seat)
        if not gone or gone[-1].left_ms < self.clock_ms - DAY_MS:
            return False
        left_ms, member_count = gone.pop()
        back = self.returns.setdefault(seat, [])
        back.append(Return(left_ms, self.clock_ms, member_count))
        # Older ones first: they do not count, and are not in a state that was stored meanwhile.
        of_day = [one for one in back if one.came_ms >= self.clock_ms - DAY_MS]
        back[:] = of_day[-RETURNS_A_DAY * max(one.member_count for one in of_day) :]
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
        """Return the median of the whole days before today; None if too few are known."""
        known = range(max(self.first_day + 1, today - MOST_DAYS), today)
        return None if len(known) < FEWEST_DAYS else float(median(self.days.get(day, 0) for day in known))

    def encoded(self) -> dict[str, Any]:
        """Return the state as plain lists for JSON, without data that no later generation needs. Equal states give equal lists."""
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
        """Return the state of a result of ``encoded``."""
        return cls(
            content["clock_ms"],
            content["first_day"],
            {tuple(seat): [Departure(*one) for one in of_seat] for seat, of_seat in content["departures"]},
            {tuple(seat): [Return(*one) for one in of_seat] for seat, of_seat in content["returns"]},
            list(content["unexplained"]),
            dict(content["days"]),
        )
