"""What happened to a group lately: the moments that rules on restarts, storms and flapping look back on.

A moment tells only what differs between a generation and the one before it. So an audit that begins one generation before the window finds
the same as an audit of everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from assignors.auditing import Audit, AuditedGeneration
from assignors.generations import Generation, Owner
from assignors.model import TopicPartition
from assignors.movement import GAINED, Difference
from assignors.triggers import RETURN_MS, Evidence, Participant, Trigger

WINDOW_MS = RETURN_MS
"""How far rules look back, by the records' times: as far as triggers do, so that an audit need not read more for either."""

Seat = tuple[str, ...]
"""Where a member comes back to when it is restarted: its instance id, or its client id and host."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """An instance id that another process took over while the one before was still a member; origins are client id and host."""

    instance_id: str
    before: Seat
    after: Seat


@dataclass(frozen=True, slots=True)
class Change:
    """One partition that left an owner, came to one, or both."""

    place: TopicPartition
    before: Owner | None
    after: Owner | None


@dataclass(frozen=True, slots=True)
class Moment:
    """One generation as what happened in it.

    Attributes:
        is_rebalance: its assignor ran anew: no hand-over of the generation before, no rewrite, and no generation is missing in between.
        is_explained: the record shows some reason for it.
        member_count: the larger of before and now.
        left, came: the seats of members that left and came, those that took a seat over in both.
        seat_counts: how many members the seats in ``left`` had before.
        changes: partitions whose owner is another one.
    """

    generation: int
    observed_at_ms: int
    is_rebalance: bool
    is_explained: bool
    member_count: int
    left: tuple[Seat, ...] = ()
    came: tuple[Seat, ...] = ()
    seat_counts: Mapping[Seat, int] = field(default_factory=dict)
    takeovers: tuple[Takeover, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass
class GroupHistory:
    """The moments of one group, fed with its generations in order."""

    _incarnation: int | None = None
    _previous: Generation | None = None
    _before: Evidence | None = None
    _window: tuple[Moment, ...] = ()

    def advance(self, generation: AuditedGeneration, observed: Generation, audit: Audit) -> tuple[Generation | None, tuple[Moment, ...]]:
        """Return the observed generation before, and the window that ends with this one.

        The window is empty for looks: what happened between two of them is not known, nor when.

        Args:
            observed: the generation as it was observed.
            audit: of what was observed.
        """
        if generation.incarnation != self._incarnation:
            self._incarnation, self._previous, self._before, self._window = generation.incarnation, None, None, ()
        previous, before = self._previous, self._before
        self._previous, self._before = observed, generation.evidence
        if before is None or generation.evidence.is_look or not generation.has_predecessor:
            self._window = ()
            return previous, ()
        moment = _moment(before, generation, audit)
        since = moment.observed_at_ms - WINDOW_MS
        self._window = (*(one for one in self._window if one.observed_at_ms >= since), moment)
        return previous, self._window


def _moment(before: Evidence, generation: AuditedGeneration, audit: Audit) -> Moment:
    now = generation.evidence
    earlier = {one.owner: one for one in before.participants}
    current = {one.owner: one for one in now.participants}
    left = [one for owner, one in earlier.items() if _has_gone(one, current.get(owner))]
    came = [one for owner, one in current.items() if _has_gone(one, earlier.get(owner))]
    seats = Counter(seat for seat in map(_seat, before.participants) if seat is not None)
    left_seats = tuple(seat for seat in map(_seat, left) if seat is not None)
    return Moment(
        generation=now.generation,
        observed_at_ms=now.observed_at_ms,
        is_rebalance=now.generation == before.generation + 1 and not generation.is_follow_up and not generation.is_rewrite,
        is_explained=audit.triggers != (Trigger.NONE_VISIBLE,),
        member_count=max(len(before.participants), len(now.participants)),
        left=left_seats,
        came=tuple(seat for seat in map(_seat, came) if seat is not None),
        seat_counts={seat: seats[seat] for seat in left_seats},
        takeovers=tuple(_takeovers(earlier, current)),
        changes=() if audit.difference is None else tuple(_changes(before, now, audit.difference)),
    )


def _has_gone(one: Participant, other: Participant | None) -> bool:
    return other is None or other.member_id != one.member_id


def _seat(one: Participant) -> Seat | None:
    is_static, name = one.owner
    return (name,) if is_static else one.origin


def _takeovers(earlier: Mapping[Owner, Participant], current: Mapping[Owner, Participant]) -> Iterator[Takeover]:
    for owner, now in current.items():
        then = earlier.get(owner)
        if then is None or not _has_gone(then, now) or then.origin is None or now.origin is None:
            continue
        if then.origin != now.origin:
            yield Takeover(owner[1], then.origin, now.origin)


def _changes(before: Evidence, now: Evidence, difference: Difference) -> Iterator[Change]:
    """Yield who lost and who got each partition. Who last had a withheld one is left to the moment that took it away."""
    earlier, current = ({one.member_id: one.owner for one in side.participants} for side in (before, now))
    for row in difference.movements:
        loser = None if row.kind == GAINED else earlier.get(row.previous_member_id)
        yield Change((row.topic, row.partition), loser, current.get(row.member_id))
