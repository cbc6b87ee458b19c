"""Members that left or joined a group between two generations, and whether there is a visible reason for the rebalance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from assignors.audit.triggers import Evidence, Origin, Participant, Past, Trigger, find_triggers
from assignors.generation.generation import SERVER_SIDE, Owner, owner_of
from assignors.model import Member, Topic
from assignors.replay.recurrence import Happening, Recurrence, Recurrences, Seat
from assignors.replay.steps import Snapshot, Step


def origin_of(snapshot: Snapshot, member_id: str) -> Origin | None:
    """Return a member's client id and host; None if the source does not have both."""
    client_id, host = snapshot.client_ids.get(member_id), snapshot.client_hosts.get(member_id)
    return None if client_id is None or host is None else (client_id, host)


def participants_of(snapshot: Snapshot) -> list[Participant]:
    """Return the members as triggers compare them. Equal subscriptions share one set."""
    sets: dict[tuple[str, ...], frozenset[str]] = {}
    return [
        Participant(
            owner_of(member),
            member.member_id,
            origin_of(snapshot, member.member_id),
            member.rack,
            sets.setdefault(member.topics, frozenset(member.topics)),
        )
        for member in snapshot.members
    ]


def seat_of(owner: Owner, origin: Origin | None) -> Seat | None:
    """Return the seat to which a member returns; None if it is not known."""
    is_static, name = owner
    return (name,) if is_static else origin


def happening(before: Step, step: Step, at_ms: int) -> Happening:
    """Return the events between two generations of an incarnation that may recur."""
    earlier, now = before.snapshot, step.snapshot
    owners_before, owners_now = ({owner_of(one): one.member_id for one in side.members} for side in (earlier, now))
    if owners_before == owners_now:
        return Happening(at_ms, is_unexplained=_is_unexplained(before, step, at_ms))
    seats = Counter(_seat(earlier, member) for member in earlier.members)
    left = [_seat(earlier, one) for one in earlier.members if _has_gone(one, owners_now)]
    came = [_seat(now, one) for one in now.members if _has_gone(one, owners_before)]
    return Happening(
        at_ms,
        [(seat, seats[seat]) for seat in left if seat is not None],
        [seat for seat in came if seat is not None],
    )


def follow(recurrence: Recurrence | None, before: Step | None, step: Step, at_ms: int) -> tuple[Recurrence, Recurrences | None]:
    """Return the recurrence state after one more generation, and the recurrences in it.

    A first known generation starts a new state. So does each snapshot of a source that shows a group at one moment: the events between
    two of these are not known.
    """
    if before is None or recurrence is None or before.snapshot.incarnation != step.snapshot.incarnation:
        return Recurrence.begin(at_ms), None
    if step.snapshot.is_poll or not step.has_predecessor:
        return Recurrence.begin(at_ms), None
    return recurrence, recurrence.advance(happening(before, step, at_ms))


def _seat(snapshot: Snapshot, member: Member) -> Seat | None:
    return seat_of(owner_of(member), origin_of(snapshot, member.member_id))


def _has_gone(member: Member, others: Mapping[Owner, str]) -> bool:
    return others.get(owner_of(member)) != member.member_id


def _is_unexplained(before: Step, step: Step, at_ms: int) -> bool:
    """Return whether the assignor ran without a visible reason, in a generation directly after the one before."""
    now = step.snapshot
    gap = now.generation - before.snapshot.generation - 1 - now.batched_epoch_count
    if gap or step.is_follow_up or step.is_rewrite or now.is_conversion or not now.members:
        return False
    past = Past(_evidence(before, at_ms), before.snapshot.strategy, ())
    return find_triggers(past, _evidence(step, at_ms))[0] == (Trigger.NONE_VISIBLE,)


def _evidence(step: Step, at_ms: int) -> Evidence:
    """Return the facts of a generation. The strategy shows its protocol. If that changes, it is a conversion, or the group is empty."""
    snapshot = step.snapshot
    return Evidence(
        snapshot.generation,
        at_ms,
        is_consumer_protocol=snapshot.strategy in SERVER_SIDE,
        is_conversion=snapshot.is_conversion,
        is_poll=snapshot.is_poll,
        is_follow_up=step.is_follow_up,
        has_subscriptions=snapshot.has_subscriptions,
        strategy=snapshot.strategy,
        participants=participants_of(snapshot),
        topics={
            topic.topic: Topic(topic.partition_count, topic.partition_racks, topic.topic_id) if topic.partition_count else Topic(0)
            for topic in step.topics
            if not topic.is_uncertain
        },
        is_rewrite=step.is_rewrite,
    )
