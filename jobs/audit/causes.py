"""Why a generation came about: what the coordinator has logged, what records show, and what both make likely. Pure.

A line belongs to a generation if its generation number and its members fit the records of that generation and the one before. So a log that
was read in a wrong time zone, or that is of another cluster with equal group names, gives no cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from assignors.audit.triggers import Evidence, Trigger
from jobs.audit.client_reasons import LEAVING, NOT_PROVIDED, joining_cause, leaving_cause
from schemas.vocabulary import Cause, CauseSource, CoordinatorEvent, RebalanceReason

CLOCKS_MS = 10_000
"""How far the time of a line may be outside the times of the records around it: coordinators of one group have different clocks."""
REQUEST_MS = 100
"""How long before the beginning of a rebalance the lines of the members may be that left by the same request."""
_FENCED = {
    RebalanceReason.SESSION_EXPIRED: Cause.SESSION_EXPIRED,
    RebalanceReason.REBALANCE_TIMED_OUT: Cause.EPOCH_TIMEOUT,
    RebalanceReason.SYNC_TIMED_OUT: Cause.SYNC_TIMEOUT,
    RebalanceReason.JOIN_TIMED_OUT: Cause.REBALANCE_TIMEOUT,
}
_REMOVED = {CoordinatorEvent.JOINERS_REMOVED: Cause.REBALANCE_TIMEOUT, CoordinatorEvent.SYNC_TIMED_OUT: Cause.SYNC_TIMEOUT}
OF_DEPARTURES = frozenset(
    {
        *LEAVING.values(),
        *_FENCED.values(),
        *_REMOVED.values(),
        Cause.LEFT,
        Cause.FENCED,
    }
)
"""Of these a member has one in each generation."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A row of ``group_events``, as far as causes use it."""

    logged_at_ms: int
    event: str
    generation: int | None = None
    member_id: str | None = None
    previous_member_id: str | None = None
    group_instance_id: str | None = None
    member_ids: Sequence[str] | None = None
    reason: str | None = None
    reason_kind: str | None = None
    reason_member_id: str | None = None
    client_reason: str | None = None
    duration_ms: int | None = None


class FoundCause(NamedTuple):
    """An element of ``generation_audits.causes``.

    Attributes:
        member_id: None if the cause is of the group, or the source does not name the member.
        detail: further text of the source; None without any.
    """

    cause: Cause
    member_id: str | None
    source: CauseSource
    detail: str | None = None


@dataclass(frozen=True)
class Around:
    """A generation and the one before, as records show them.

    Attributes:
        previous_ms, observed_ms: times of the two records.
        previous_generation, generation: their numbers.
        previous_ids, member_ids: their members.
        static_ids: instance id -> member id in the generation.
        is_converted: records show that the group changed its protocol.
        previous_static_ids: instance id -> member id in the generation before.
    """

    previous_ms: int
    observed_ms: int
    previous_generation: int
    generation: int
    previous_ids: frozenset[str]
    member_ids: frozenset[str]
    static_ids: Mapping[str, str] = field(default_factory=dict)
    is_converted: bool = False
    previous_static_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def known_ids(self) -> frozenset[str]:
        """Return the members of both."""
        return self.previous_ids | self.member_ids


EVENT_FIELDS = tuple(one.name for one in fields(LoggedEvent) if one.name != "logged_at_ms")
FIRST_MS = 10 * 60_000
"""How long before its record the rebalance of a first generation may have begun."""


def around_of(before: Mapping[str, Any] | None, row: Mapping[str, Any]) -> Around:
    """Return a generation and the one before, of rows with ``at_ms``, ``generation``, ``incarnation``, ``member_ids``, ``instance_ids``
    and ``triggers``.

    A group that was made again counts from the beginning; then the generation before is not the one of ``before``.
    """
    is_converted = any(_OF_GROUP.get(Trigger(word)) is Cause.CONVERTED for word in row["triggers"] or ())
    if before is None or before["incarnation"] != row["incarnation"]:
        before = {"at_ms": row["at_ms"] - FIRST_MS, "generation": row["generation"] - 1, "member_ids": (), "instance_ids": ()}
    return Around(
        before["at_ms"],
        row["at_ms"],
        before["generation"],
        row["generation"],
        frozenset(before["member_ids"] or ()),
        frozenset(row["member_ids"] or ()),
        _static_ids(row),
        is_converted,
        _static_ids(before),
    )


def _static_ids(row: Mapping[str, Any]) -> dict[str, str]:
    both = zip(row["instance_ids"] or (), row["member_ids"] or (), strict=True)
    return {instance_id: member_id for instance_id, member_id in both if instance_id is not None}


@dataclass(frozen=True)
class Explanation:
    """What a log says about one generation. All times are in ms; None if the log does not have the lines.

    Attributes:
        rebalance_ms: from the beginning of the rebalance until all members were in.
        assignment_ms: from there until the assignment came; of the consumer protocol how long the assignor ran.
    """

    causes: tuple[FoundCause, ...] = ()
    rebalance_ms: int | None = None
    assignment_ms: int | None = None


_OF_TOPICS = (Trigger.TOPIC_CREATED, Trigger.TOPIC_DELETED, Trigger.PARTITIONS_ADDED)
_OF_GROUP = {
    Trigger.COOPERATIVE_FOLLOW_UP: Cause.HAND_OVER,
    Trigger.UPGRADED_TO_CONSUMER: Cause.CONVERTED,
    Trigger.DOWNGRADED_TO_CLASSIC: Cause.CONVERTED,
}


def recorded_causes(before: Evidence | None, current: Evidence, triggers: Sequence[Trigger]) -> tuple[FoundCause, ...]:
    """Return the causes that records show. They do not show why a member is gone.

    Args:
        before: the generation before; None if there is none.
        triggers: see ``find_triggers``.
    """
    known = {} if before is None else {one.owner: one for one in before.participants}
    found: list[FoundCause] = []
    for member in current.participants:
        earlier = known.get(member.owner)
        if earlier is None:
            found.append(_recorded(Cause.JOINED, member.member_id))
        elif earlier.member_id != member.member_id:
            found.append(_recorded(Cause.STATIC_RETURNED, member.member_id))
        elif earlier.topics != member.topics and Trigger.SUBSCRIPTION_CHANGED in triggers:
            found.append(_recorded(Cause.SUBSCRIPTION_CHANGED, member.member_id))
    changes = [trigger.value for trigger in triggers if trigger in _OF_TOPICS]
    if changes:
        found.append(_recorded(Cause.METADATA_CHANGED, None, ", ".join(changes)))
    found += [_recorded(_OF_GROUP[trigger], None) for trigger in triggers if trigger in _OF_GROUP]
    return tuple(found)


def merged(logged: Sequence[FoundCause], others: Iterable[FoundCause]) -> tuple[FoundCause, ...]:
    """Return the causes in a log, and those of ``others`` that it does not have."""
    causes = {one.cause for one in logged}
    members = {(one.cause, one.member_id) for one in logged}
    returned = {one.member_id for one in logged if one.cause is Cause.STATIC_RETURNED}
    gone = {one.member_id for one in logged if one.cause in OF_DEPARTURES}
    kept = [
        one
        for one in others
        if one.source is not CauseSource.LOG
        and (one.cause, one.member_id) not in members
        and not (one.member_id is None and one.cause in causes)
        and not (one.cause is Cause.JOINED and one.member_id in returned)
        and not (one.source is CauseSource.INFERRED and one.member_id in gone)
    ]
    return (*logged, *kept)


def _recorded(cause: Cause, member_id: str | None, detail: str | None = None) -> FoundCause:
    return FoundCause(cause, member_id, CauseSource.RECORDS, detail)


def explain(around: Around, events: Sequence[LoggedEvent]) -> Explanation:
    """Return what the log says about a generation.

    Args:
        events: of its group, by time; at least those between the two records, with ``CLOCKS_MS`` on both sides.
    """
    if not any(known in around.known_ids for event in events for known in _ids_of(event)):
        return Explanation()  # nothing shows that the log is of this group
    found: dict[tuple[Cause, str | None], FoundCause] = {}
    departures: dict[str, FoundCause] = {}
    for cause in _causes(around, events):
        if cause.cause not in OF_DEPARTURES or cause.member_id is None:
            found.setdefault((cause.cause, cause.member_id), cause)
            continue
        known = departures.get(cause.member_id)
        if known is None or known.cause is Cause.LEFT:
            departures[cause.member_id] = cause
    causes = (*departures.values(), *found.values())
    if around.previous_generation == around.generation:
        return Explanation(causes)  # it was written again, without a rebalance
    started = [event.logged_at_ms for event in events if _starts(event, around)]
    ended = _first(events, CoordinatorEvent.STABILIZED, around) or _first(events, CoordinatorEvent.EMPTIED, around)
    assigned = _first(events, CoordinatorEvent.ASSIGNMENT_RECEIVED, around)
    computed = _first(events, CoordinatorEvent.TARGET_COMPUTED, around)
    rebalance_ms = ended.logged_at_ms - min(started) if ended is not None and started else None
    assignment_ms = assigned.logged_at_ms - ended.logged_at_ms if assigned is not None and ended is not None else None
    if computed is not None:
        assignment_ms = computed.duration_ms
    return Explanation(causes, _known(rebalance_ms), _known(assignment_ms))


def _known(duration_ms: int | None) -> int | None:
    return duration_ms if duration_ms is not None and duration_ms >= 0 else None


def _ids_of(event: LoggedEvent) -> Iterator[str]:
    ids = (event.member_id, event.previous_member_id, event.reason_member_id, *(event.member_ids or ()))
    return (member_id for member_id in ids if member_id)


def _first(events: Iterable[LoggedEvent], kind: CoordinatorEvent, around: Around) -> LoggedEvent | None:
    return next((event for event in events if event.event == kind and event.generation == around.generation), None)


def _starts(event: LoggedEvent, around: Around) -> bool:
    """Return whether a line begins a rebalance that led to the generation: it has the number of the generation before."""
    old = event.generation
    return event.event == CoordinatorEvent.REBALANCE_STARTED and old is not None and around.previous_generation <= old < around.generation


def _causes(around: Around, events: Sequence[LoggedEvent]) -> Iterator[FoundCause]:
    unnamed = [event.logged_at_ms for event in events if _starts(event, around) and _names_no_member(event)]
    bumps = [event for event in events if event.event == CoordinatorEvent.EPOCH_BUMPED and event.generation is not None]
    back = _came_back(around, events, bumps)
    for event in events:
        if not around.previous_ms - CLOCKS_MS <= event.logged_at_ms <= around.observed_ms + CLOCKS_MS:
            continue
        if _starts(event, around):
            yield from _causes_of_start(event, around)
        elif event.event == CoordinatorEvent.SUBSCRIPTION_UPDATED:
            if event.member_id in around.previous_ids and _is_of_epoch(event, around, bumps):
                yield _logged(Cause.SUBSCRIPTION_CHANGED, event.member_id)
        elif not _is_of_another_stay(event, around, bumps):
            is_unnamed = any(0 <= started_ms - event.logged_at_ms <= REQUEST_MS for started_ms in unnamed)
            yield from _causes_of_members(event, around, back, is_unnamed=is_unnamed)


def _is_of_epoch(event: LoggedEvent, around: Around, bumps: Sequence[LoggedEvent]) -> bool:
    """Return whether the group epoch that a line about a member began leads to the generation.

    The line has no number. That of the next epoch is in the next line about one, from the same request. Without such lines, times decide.

    Args:
        bumps: lines about new epochs, by time.
    """
    begun = next((bump.generation for bump in bumps if bump.logged_at_ms >= event.logged_at_ms), None)
    return around.previous_generation < begun <= around.generation if begun is not None else not bumps


def _is_of_another_stay(event: LoggedEvent, around: Around, bumps: Sequence[LoggedEvent]) -> bool:
    """Return whether a member left in an epoch before or after the two generations: members of the consumer protocol keep their ids."""
    begun = () if around.is_converted else _begun_by(event, bumps)  # numbers of the two protocols do not compare
    return bool(begun) and not _is_between(begun, around)


def _begun_by(event: LoggedEvent, bumps: Sequence[LoggedEvent]) -> tuple[int, ...]:
    """Return the group epochs of which one began when a member left; none if no line shows it.

    The line of the member has no number. That about the epoch is from the same request. One millisecond may have several of them.

    Args:
        bumps: lines about new epochs, by time.
    """
    if event.event not in (CoordinatorEvent.MEMBER_LEFT, CoordinatorEvent.MEMBER_FENCED):
        return ()
    next_ms = next((bump.logged_at_ms for bump in bumps if bump.logged_at_ms >= event.logged_at_ms), None)
    if next_ms is None or next_ms > event.logged_at_ms + REQUEST_MS:
        return ()
    return tuple(bump.generation for bump in bumps if bump.logged_at_ms == next_ms and bump.generation is not None)


def _is_between(epochs: Iterable[int], around: Around) -> bool:
    return any(around.previous_generation < epoch <= around.generation for epoch in epochs)


def _came_back(around: Around, events: Iterable[LoggedEvent], bumps: Sequence[LoggedEvent]) -> frozenset[str]:
    """Return the members of both generations that left in an epoch between them: several epochs may share a target."""
    if around.is_converted:
        return frozenset()
    gone = {_left(event, around) for event in events if _is_between(_begun_by(event, bumps), around)}
    return around.previous_ids & around.member_ids & gone


def _left(event: LoggedEvent, around: Around) -> str | None:
    """Return the member that a line about a departure is about; an admin's request may name its instance id only."""
    return event.member_id or around.previous_static_ids.get(event.group_instance_id or "")


def _names_no_member(event: LoggedEvent) -> bool:
    """Return whether a rebalance began with a request to leave without member ids. Members name themselves; an admin names instance ids."""
    return event.reason_kind == RebalanceReason.LEFT and event.member_ids is not None and not event.member_ids


def _causes_of_start(event: LoggedEvent, around: Around) -> Iterator[FoundCause]:
    member_id = event.reason_member_id
    if member_id is not None and member_id not in around.known_ids:
        return  # of a member that came and went between the records, or of another group of this name
    kind, detail = event.reason_kind, _detail(event)
    if kind == RebalanceReason.JOINED:
        yield _logged(Cause.JOINED, member_id)
    elif kind in (RebalanceReason.LEADER_REJOINED, RebalanceReason.REJOINED, RebalanceReason.METADATA_UPDATED):
        other = Cause.LEADER_REJOINED if kind == RebalanceReason.LEADER_REJOINED else Cause.MEMBER_REJOINED
        yield _logged(joining_cause(event.client_reason) or other, member_id, detail)
    elif kind == RebalanceReason.STATIC_UPDATED:
        yield _logged(joining_cause(event.client_reason) or Cause.MEMBER_REJOINED, member_id, detail)
    elif kind == RebalanceReason.STATIC_PROTOCOL_CHANGED:
        yield _logged(Cause.STATIC_RETURNED, member_id, event.reason)
    elif kind == RebalanceReason.HEARTBEAT_EXPIRED:
        yield _logged(Cause.SESSION_EXPIRED, member_id)
    elif kind == RebalanceReason.LEFT:
        for left in event.member_ids or ([member_id] if member_id is not None else []):
            if left in around.previous_ids:
                yield _logged(leaving_cause(event.client_reason), left, detail)
    elif kind == RebalanceReason.SYNC_EXPIRED:
        for removed in event.member_ids or ():
            yield _logged(Cause.SYNC_TIMEOUT, removed)
    elif kind == RebalanceReason.DOWNGRADED:
        yield _logged(Cause.CONVERTED, None, event.reason)


def _causes_of_members(event: LoggedEvent, around: Around, back: frozenset[str], *, is_unnamed: bool) -> Iterator[FoundCause]:
    kind, member_id = event.event, event.member_id
    if kind == CoordinatorEvent.MEMBER_LEFT and member_id is None:
        is_unnamed, member_id = True, _left(event, around)
    is_gone = member_id in around.previous_ids and (member_id not in around.member_ids or member_id in back)
    is_new = member_id in around.member_ids and (member_id not in around.previous_ids or member_id in back)
    if kind == CoordinatorEvent.MEMBER_LEFT and is_gone:
        cause = leaving_cause(event.client_reason)
        yield _logged(Cause.REMOVED_BY_ADMIN if is_unnamed and cause is Cause.LEFT else cause, member_id, _detail(event))
    elif kind == CoordinatorEvent.MEMBER_EXPIRED and is_gone:
        yield _logged(Cause.SESSION_EXPIRED, member_id)
    elif kind == CoordinatorEvent.MEMBER_FENCED and is_gone:
        known = next((cause for reason, cause in _FENCED.items() if event.reason_kind == reason), Cause.FENCED)
        yield _logged(known, member_id, event.reason)
    elif kind in _REMOVED:
        for removed in event.member_ids or ():
            if removed in around.previous_ids and removed not in around.member_ids:
                yield _logged(next(cause for word, cause in _REMOVED.items() if kind == word), removed)
    elif kind == CoordinatorEvent.STATIC_FENCED and is_gone:
        yield _logged(Cause.FENCED, member_id, "another member has its instance id")
    elif kind in (CoordinatorEvent.MEMBER_JOINED, CoordinatorEvent.STATIC_JOINED) and is_new:
        yield _logged(Cause.JOINED, member_id)
    elif kind in (CoordinatorEvent.STATIC_REPLACED, CoordinatorEvent.STATIC_RETURNED):
        if event.previous_member_id in around.previous_ids and event.previous_member_id not in around.member_ids:
            yield _logged(Cause.STATIC_RETURNED, member_id or around.static_ids.get(event.group_instance_id or ""))
    elif kind in (CoordinatorEvent.CONVERTED_TO_CONSUMER, CoordinatorEvent.CONVERTED_TO_CLASSIC) and around.is_converted:
        yield _logged(Cause.CONVERTED, None, kind)


def _logged(cause: Cause, member_id: str | None, detail: str | None = None) -> FoundCause:
    return FoundCause(cause, member_id, CauseSource.LOG, detail)


def _detail(event: LoggedEvent) -> str | None:
    return None if event.client_reason in (None, "", NOT_PROVIDED) else event.client_reason
