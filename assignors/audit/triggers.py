"""Triggers: the visible reasons for a rebalance, which are differences from the generation before in records and topic metadata.

A record has the members of a group and no reason. No record has who asked for a rebalance, whose session expired, or that a leader joined
again. So triggers name all visible differences, or ``none_visible`` if there is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from assignors.generation.generation import Owner
from assignors.model import Topic

RETURN_MS = 10 * 60_000
"""A member that returns within this time after it left was restarted. The times are those of the records."""

Origin = tuple[str, str]
"""The place where a member runs: its client id and host."""


class Trigger(str, Enum):
    """The visible reasons, in the order in which rows list them. Exactly one of them names each new member.

    ``member_replaced``: one member left and one joined from the same client id and host. ``member_returned``: a client with its client id
    and host left within ``RETURN_MS``. ``static_member_returned``: an instance id (KIP-345) has a new member id, or is back within that
    time.
    """

    GROUP_CREATED = "group_created"
    GROUP_EMPTIED = "group_emptied"
    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    MEMBER_REPLACED = "member_replaced"
    MEMBER_RETURNED = "member_returned"
    STATIC_MEMBER_RETURNED = "static_member_returned"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    TOPIC_CREATED = "topic_created"
    TOPIC_DELETED = "topic_deleted"
    PARTITIONS_ADDED = "partitions_added"
    STRATEGY_CHANGED = "strategy_changed"
    RACK_CHANGED = "rack_changed"
    COOPERATIVE_FOLLOW_UP = "cooperative_follow_up"
    UPGRADED_TO_CONSUMER = "upgraded_to_consumer"
    DOWNGRADED_TO_CLASSIC = "downgraded_to_classic"
    GENERATION_REWRITTEN = "generation_rewritten"
    NONE_VISIBLE = "none_visible"


@dataclass(frozen=True, slots=True)
class Participant:
    """A member as triggers compare it.

    Attributes:
        owner: its identity across generations.
        origin: None if the source does not have both parts; an unknown origin equals no other.
    """

    owner: Owner
    member_id: str
    origin: Origin | None
    rack: str | None
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The facts of one generation in its record and in topic metadata.

    Attributes:
        observed_at_ms: the record's time.
        is_consumer_protocol: KIP-848.
        is_conversion: the coordinator wrote it when the group changed to the other protocol.
        is_poll: the source shows the group at one moment, and not each change of it.
        has_subscriptions: whether the source has subscriptions.
        strategy: None without members.
        topics: subscribed topics, and those held in the generation before; ``partition_count`` is 0 if the topic does not exist.
            Topics that fit no metadata snapshot are left out, because their partition count is a guess.
        is_rewrite: it repeats the generation before, with the same assignment.
    """

    generation: int
    observed_at_ms: int
    is_consumer_protocol: bool
    is_conversion: bool
    is_poll: bool
    is_follow_up: bool
    has_subscriptions: bool
    strategy: str | None
    participants: Sequence[Participant]
    topics: Mapping[str, Topic]
    is_rewrite: bool = False


@dataclass(frozen=True, slots=True)
class Departure:
    """A member that left. It is kept until the member is back, or ``RETURN_MS`` are over."""

    owner: Owner
    origin: Origin | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Past:
    """The facts of earlier generations of the incarnation that triggers need.

    Attributes:
        strategy: of the last generation with members.
        departures: in the order of their generations.
    """

    last: Evidence
    strategy: str | None
    departures: tuple[Departure, ...]


def find_triggers(past: Past | None, current: Evidence) -> tuple[tuple[Trigger, ...] | None, Past]:
    """Return the triggers of a generation, and the past of the next one.

    There is at least one, in the order of ``Trigger``; None for a first known generation that is not known to be the group's beginning.
    Departures are removed newest first, so that those since any moment do not depend on older ones. So an audit that begins ``RETURN_MS``
    earlier finds the same as an audit of everything.

    Args:
        past: None if no generation of the incarnation is known yet.
    """
    departures: tuple[Departure, ...] = ()
    found: set[Trigger] | None
    if past is None:
        found = _beginning(current)
    else:
        found, departures = _of_members(past.last, current, past.departures)
        found |= _of_participants(past.last, current) | _of_topics(past.last, current) | _of_group(past, current)
        found = found or {Trigger.NONE_VISIBLE}
    goes_on = past is not None and past.last.is_consumer_protocol == current.is_consumer_protocol
    strategy = current.strategy or (past.strategy if past is not None and goes_on else None)
    triggers = None if found is None else tuple(trigger for trigger in Trigger if trigger in found)
    return triggers, Past(current, strategy, departures)


def _beginning(current: Evidence) -> set[Trigger] | None:
    # A broker's first target has epoch 1 or 2, by its release; a classic group begins empty, with generation 0.
    if current.is_poll or current.is_conversion or current.generation > (2 if current.is_consumer_protocol else 1):
        return None
    return {Trigger.GROUP_CREATED, Trigger.MEMBER_JOINED} if current.participants else {Trigger.GROUP_CREATED}


# -- members


def _of_members(before: Evidence, current: Evidence, departures: Iterable[Departure]) -> tuple[set[Trigger], tuple[Departure, ...]]:
    found = set()
    owners_before, owners_now = ({one.owner for one in side.participants} for side in (before, current))
    left = [one for one in before.participants if one.owner not in owners_now]
    joined = [one for one in current.participants if one.owner not in owners_before]
    if left and not current.participants:
        found.add(Trigger.GROUP_EMPTIED)
    replaced = _replaced_origins(left, joined)
    if replaced:
        found.add(Trigger.MEMBER_REPLACED)
        left = [one for one in left if one.origin not in replaced]
        joined = [one for one in joined if one.origin not in replaced]
    if left:
        found.add(Trigger.MEMBER_LEFT)
    recent = [one for one in departures if current.observed_at_ms - one.at_ms <= RETURN_MS]
    arrivals, recent = _arrivals(joined, recent)
    gone = (Departure(one.owner, one.origin, current.observed_at_ms) for one in left)
    return found | arrivals, (*recent, *gone)


def _replaced_origins(left: Iterable[Participant], joined: Iterable[Participant]) -> set[Origin]:
    """Return the origins from which as many members left as joined. With other numbers it is not known who replaced whom."""
    before, now = (Counter(one.origin for one in side if one.origin is not None) for side in (left, joined))
    return {origin for origin, count in before.items() if now[origin] == count}


def _arrivals(joined: Iterable[Participant], recent: Sequence[Departure]) -> tuple[set[Trigger], list[Departure]]:
    """Return the triggers of those that joined, and the departures of those that did not return.

    A dynamic member is anonymous, so it takes the newest departure from its origin. A static one has a name, so it takes only its own.
    """
    found = set()
    instances = {one.owner for one in recent}
    origins = {one.origin for one in recent if one.origin is not None}
    anonymous: Counter[Origin | None] = Counter()
    named = set()
    for one in joined:
        is_static, _ = one.owner
        if not is_static:
            anonymous[one.origin] += 1
            continue
        named.add(one.owner)
        if one.owner in instances:
            found.add(Trigger.STATIC_MEMBER_RETURNED)
        else:
            found.add(Trigger.MEMBER_RETURNED if one.origin in origins else Trigger.MEMBER_JOINED)
    left_over = []
    for departure in reversed(recent):
        if departure.owner in named:
            continue
        if departure.origin is not None and anonymous[departure.origin] > 0:
            anonymous[departure.origin] -= 1
            found.add(Trigger.MEMBER_RETURNED)
        else:
            left_over.append(departure)
    if any(anonymous.values()):
        found.add(Trigger.MEMBER_JOINED)
    return found, left_over[::-1]


def _of_participants(before: Evidence, current: Evidence) -> set[Trigger]:
    """Return the triggers of members that are in both generations."""
    found = set()
    earlier = {one.owner: one for one in before.participants}
    subscriptions: set[tuple[frozenset[str], frozenset[str]]] = set()
    has_subscriptions = before.has_subscriptions and current.has_subscriptions
    for now in current.participants:
        then = earlier.get(now.owner)
        if then is None:
            continue
        if then.member_id != now.member_id:
            found.add(Trigger.STATIC_MEMBER_RETURNED)
        subscriptions.add((then.topics, now.topics))
        if then.rack != now.rack:
            found.add(Trigger.RACK_CHANGED)
    if has_subscriptions and any(old != new for old, new in subscriptions):
        found.add(Trigger.SUBSCRIPTION_CHANGED)
    return found


# -- topics


def _of_topics(before: Evidence, current: Evidence) -> set[Trigger]:
    found = set()
    subscribed_before, subscribed_now = (frozenset().union(*{one.topics for one in side.participants}) for side in (before, current))
    has_racks = any(one.rack is not None for one in current.participants)
    changes_racks = _has_other_replicas if current.is_consumer_protocol else _has_other_racks
    for name in subscribed_before:
        then, now = before.topics.get(name), current.topics.get(name)
        if then is None or now is None:
            continue
        is_recreated = None not in (then.topic_id, now.topic_id) and then.topic_id != now.topic_id
        if then.partition_count and (is_recreated or not now.partition_count):
            found.add(Trigger.TOPIC_DELETED)
        if name not in subscribed_now or not now.partition_count:
            continue
        if is_recreated or not then.partition_count:
            found.add(Trigger.TOPIC_CREATED)
        elif now.partition_count > then.partition_count:
            found.add(Trigger.PARTITIONS_ADDED)
        if (has_racks or current.is_consumer_protocol) and not is_recreated and changes_racks(then, now):
            found.add(Trigger.RACK_CHANGED)
    return found


def _has_other_racks(then: Topic, now: Topic) -> bool:
    """Return whether replicas of a partition moved to other racks: members with racks rebalance then (KIP-881)."""
    return any(set(old) != set(new) for old, new in zip(then.partition_racks or (), now.partition_racks or (), strict=False))


def _has_other_replicas(then: Topic, now: Topic) -> bool:
    """Return whether a partition has other numbers of replicas in its racks. A coordinator begins a new epoch then (KIP-1101).

    It does so for members without racks too.
    """
    pairs = zip(then.partition_racks or (), now.partition_racks or (), strict=False)
    return any(Counter(filter(None, old)) != Counter(filter(None, new)) for old, new in pairs)


# -- protocol and strategy


def _of_group(past: Past, current: Evidence) -> set[Trigger]:
    found = set()
    before = past.last
    if current.is_follow_up:
        found.add(Trigger.COOPERATIVE_FOLLOW_UP)
    if before.is_consumer_protocol != current.is_consumer_protocol:
        # Clients and brokers have different strategies, and the first generation may keep its number.
        found.add(Trigger.UPGRADED_TO_CONSUMER if current.is_consumer_protocol else Trigger.DOWNGRADED_TO_CLASSIC)
        return found
    if past.strategy and current.strategy and past.strategy != current.strategy:
        found.add(Trigger.STRATEGY_CHANGED)
    if before.generation == current.generation and not (current.is_rewrite and _has_renamed(before, current)):
        found.add(Trigger.GENERATION_REWRITTEN)
    return found


def _has_renamed(before: Evidence, current: Evidence) -> bool:
    """Return whether a static member returned with another member id. If nothing else changed, that alone rewrote the generation."""
    earlier = {one.owner: one.member_id for one in before.participants}
    return any(earlier.get(one.owner, one.member_id) != one.member_id for one in current.participants)
