"""A scenario applied to a generation: who its members are afterwards, and what they subscribe to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase

from assignors.generation.generation import SERVER_SIDE, STREAMS, Generation
from assignors.java.ordering import java_order, member_order
from assignors.model import GroupProblem, Member, Topic
from assignors.replay.topic_ids import with_topic_ids
from assignors.scenario.scenario import CONSUMER, ZOOKEEPER, Scenario


class Order(str, Enum):
    """Whether added members without names are the last or the first."""

    LAST = "last"
    FIRST = "first"


_PREFIXES = {Order.LAST: "~added-", Order.FIRST: "!added-"}
_PREFIX_AMONG = "\0added-"

Places = tuple[int, ...]
"""For each added member, how many of the members that stay come before it."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A group before and after the changes.

    Attributes:
        before: what the members hold. They have the instance ids of afterwards already, since owners are compared by them: the restarts
            that bring new instance ids about are not played.
        problem: the group afterwards, with topic ids where the strategy needs them.
        strategy: the assignor afterwards.
    """

    before: Generation
    problem: GroupProblem
    strategy: str


def apply_changes(generation: Generation, scenario: Scenario, order: Order = Order.LAST) -> Changed:
    """Return the group before and after the changes of a scenario.

    Added members subscribe to what most members subscribe to. If all members that stay are static afterwards, added ones are static too,
    unless the scenario says otherwise of one.

    Args:
        generation: the newest settled one of the group.
        order: whether added members without names are the last or the first, in the order of names and in the record.

    Raises:
        ValueError: the scenario does not fit the group. The text says why, and what was expected.

    >>> one = Generation(1, "range", GroupProblem({"t": Topic(1)}, (Member("a", ("t",)),)), {"a": (("t", 0),)})
    >>> [member.member_id for member in apply_changes(one, Scenario(added=1)).problem.members]
    ['a', '~added-1']
    """
    strategy = strategy_of(generation, scenario)
    before, problem = change_members(generation, scenario, order)
    return Changed(before, with_topic_ids(problem) if strategy in SERVER_SIDE else problem, strategy)


def places_among(generation: Generation, scenario: Scenario) -> list[Places]:
    """Return some places of added members without names that are neither the first nor the last ones: not all there are, of which
    there may be too many to play. All together after each quarter of the members that stay, evenly, and half of them at each end.

    >>> one = Generation(1, "range", GroupProblem({}, tuple(map(Member, "abcd"))), {})
    >>> places_among(one, Scenario(added=2))
    [(1, 1), (2, 2), (3, 3), (1, 3), (0, 4)]
    """
    staying = _staying(generation.problem.members, scenario.removed)
    if not isinstance(scenario.added, int) or not staying:
        return []
    peers, added = len(_peers(_with_instance_ids(staying, scenario.instance_ids))), scenario.added
    candidates = [(round(peers * quarter / 4),) * added for quarter in (1, 2, 3)]
    candidates.append(tuple(round((number + 1) * peers / (added + 1)) for number in range(added)))
    candidates.append((0,) * (added // 2) + (peers,) * (added - added // 2))
    return [places for places in dict.fromkeys(candidates) if any(places) and min(places, default=peers) < peers]


def change_members(generation: Generation, scenario: Scenario, order: Order, places: Places = ()) -> tuple[Generation, GroupProblem]:
    """Return the group before and after the changes as ``Changed`` has it, whatever the strategy.

    Args:
        order: where added members without names are.
        places: if they are to be among the others, the place of each; then the order is ``LAST``.

    Raises:
        ValueError: as ``apply_changes``, but for strategies.
    """
    if not generation.problem.members:
        raise ValueError("members of the group: found none, expected a generation with members")
    staying = _with_instance_ids(_staying(generation.problem.members, scenario.removed), scenario.instance_ids)
    added = _added(generation.problem.members, staying, scenario.added, order)
    members = (*added, *staying) if order is Order.FIRST else (*staying, *added)
    for what, by_member in (("instance ids", scenario.instance_ids), ("subscriptions", scenario.subscriptions)):
        unknown = sorted(by_member.keys() - {member.member_id for member in members})
        if unknown:
            raise ValueError(f"{what}: found one for {unknown[0]!r}, expected the id of a member that stays or joins")
    members = _with_racks(_with_instance_ids(members, scenario.instance_ids), scenario.racks)
    members = _with_topics(members, scenario)
    if places:  # only now, since no pattern is meant for these names
        members = _placed(generation.problem.members, members, len(staying), places)
    problem = GroupProblem(_grown(generation.problem.topics, members, scenario.partition_counts), members)
    if not scenario.instance_ids:
        return generation, problem
    now = {member.member_id: member.group_instance_id for member in members}
    earlier = tuple(
        replace(member, group_instance_id=now.get(member.member_id, member.group_instance_id)) for member in generation.problem.members
    )
    return replace(generation, problem=GroupProblem(generation.problem.topics, earlier)), problem


def strategy_of(generation: Generation, scenario: Scenario) -> str:
    """Return the assignor afterwards.

    Raises:
        ValueError: it is none that can be run, or the scenario has to name it.
    """
    was_server_side = generation.strategy in SERVER_SIDE
    if scenario.strategy is not None:
        strategy = scenario.strategy
    elif scenario.protocol == CONSUMER and not was_server_side:
        strategy = "uniform"
    elif scenario.protocol not in (None, CONSUMER) and was_server_side:
        raise ValueError(f"strategy of the classic protocol: found {generation.strategy!r}, expected the scenario to name another one")
    else:
        strategy = generation.strategy
    if not strategy or strategy == STREAMS or strategy in ZOOKEEPER:
        raise ValueError(f"strategy of the group: found {strategy!r}, expected an assignor that can be run, such as 'range'")
    return strategy


def _staying(members: Sequence[Member], removed: int | str) -> tuple[Member, ...]:
    if isinstance(removed, str):
        staying = tuple(member for member in members if not _matches(member, removed))
        if len(staying) == len(members):
            raise ValueError(f"removed members: found none that matches {removed!r}, expected a pattern of one of {_names(members)}")
    else:
        if removed > len(members):
            raise ValueError(f"removed members: found {removed}, expected at most the {len(members)} of the group")
        in_order = sorted(members, key=member_order)
        leaving = {member.member_id for member in in_order[len(members) - removed :]}
        staying = tuple(member for member in members if member.member_id not in leaving)
    return staying


def _added(members: Sequence[Member], staying: Sequence[Member], added: int | tuple[str, ...], order: Order) -> tuple[Member, ...]:
    names = added if isinstance(added, tuple) else _free_names((*members, *staying), added, order)
    taken = sorted({member.member_id for member in members}.intersection(names))
    if taken:
        raise ValueError(f"added members: found {taken[0]!r}, which is a member already, expected other names")
    if not staying and not names:
        raise ValueError("members of the group: found none that stays or joins, expected at least one")
    usual = Counter(frozenset(member.topics) for member in members).most_common(1)[0][0]
    topics = next(member.topics for member in members if usual == frozenset(member.topics))
    is_static = bool(staying) and all(member.group_instance_id is not None for member in staying)
    return tuple(Member(name, topics, name if is_static else None) for name in names)


def _free_names(members: Sequence[Member], count: int, order: Order) -> tuple[str, ...]:
    """Return names that come before or after all that the members have, in the order of numbers."""
    prefix = _PREFIXES[order]
    taken = [java_order(name) for member in members for name in (member.member_id, member.group_instance_id) if name is not None]
    if order is Order.FIRST and min(taken) <= java_order(prefix):
        prefix = "\0" + prefix
    if order is Order.LAST and max(taken) >= java_order(prefix):
        prefix = max(taken).decode("utf-16-be", "surrogatepass") + prefix
    return tuple(f"{prefix}{number:0{len(str(count))}}" for number in range(1, count + 1))


def _peers(staying: Sequence[Member]) -> list[str]:
    """Return the names, in order, with which those of added members are compared: static members come before others."""
    names = [member.member_id for member in staying if member.group_instance_id is None]
    names = names or [member.group_instance_id for member in staying if member.group_instance_id is not None]
    return sorted(names, key=java_order)


def _placed(before: Sequence[Member], members: tuple[Member, ...], staying_count: int, places: Places) -> tuple[Member, ...]:
    """Return the members, of which those that stay come first, with added ones renamed so that they come to their places."""
    staying, added = members[:staying_count], members[staying_count:]
    taken = {name for member in (*before, *staying) for name in (member.member_id, member.group_instance_id)}
    renamed = (
        replace(member, member_id=name, group_instance_id=None if member.group_instance_id is None else name)
        for member, name in zip(added, _names_among(taken, _peers(staying), places), strict=True)
    )
    return (*staying, *renamed)


def _names_among(taken: Collection[str | None], peers: Sequence[str], places: Places) -> tuple[str, ...]:
    """Return a name for each place: what comes directly after a name begins with it."""
    prefix, width = _PREFIX_AMONG, len(str(len(places)))
    while True:
        names = tuple(f"{peers[place - 1] if place else ''}{prefix}{number:0{width}}" for number, place in enumerate(places, start=1))
        if not any(name in taken for name in names):
            return names
        prefix = "\0" + prefix


def _with_instance_ids(members: tuple[Member, ...], instance_ids: Mapping[str, str | None]) -> tuple[Member, ...]:
    if instance_ids:
        members = tuple(
            replace(member, group_instance_id=instance_ids.get(member.member_id, member.group_instance_id)) for member in members
        )
    owners = Counter(member.group_instance_id for member in members if member.group_instance_id is not None)
    shared = sorted(name for name, count in owners.items() if count > 1)
    if shared:
        raise ValueError(f"instance ids: found {shared[0]!r} for {owners[shared[0]]} members, expected another one for each")
    return members


def _with_racks(members: tuple[Member, ...], racks: Mapping[str, str]) -> tuple[Member, ...]:
    if not racks:
        return members
    for pattern in racks:
        if not any(_matches(member, pattern) for member in members):
            raise ValueError(f"racks: found no member that matches {pattern!r}, expected a pattern of one of {_names(members)}")

    def rack(member: Member) -> str | None:
        return next((rack for pattern, rack in racks.items() if _matches(member, pattern)), member.rack)

    return tuple(replace(member, rack=rack(member)) for member in members)


def _with_topics(members: tuple[Member, ...], scenario: Scenario) -> tuple[Member, ...]:
    if scenario.topics is None and not scenario.subscriptions:
        return members

    def topics(member: Member) -> tuple[str, ...]:
        of_all = member.topics if scenario.topics is None else scenario.topics
        return scenario.subscriptions.get(member.member_id, of_all)

    return tuple(replace(member, topics=topics(member)) for member in members)


def _grown(topics: Mapping[str, Topic], members: Sequence[Member], counts: Mapping[str, int]) -> dict[str, Topic]:
    grown = dict(topics)
    subscribed = {name for member in members for name in member.topics}
    for name, count in counts.items():
        topic = topics.get(name, Topic(0))
        if name not in topics and name not in subscribed:
            raise ValueError(f"partitions of topic {name!r}: found no member that subscribes to it, expected a topic of the group")
        if count < (topic.partition_count or 0):
            raise ValueError(f"partitions of topic {name!r}: found {count}, expected at least the {topic.partition_count} that there are")
        grown[name] = with_partition_count(topic, count)
    return grown


def with_partition_count(topic: Topic, count: int) -> Topic:
    """Return the topic with another partition count.

    Nobody knows where the replicas of new partitions will be. They are taken to repeat those of the first partitions.

    >>> with_partition_count(Topic(2, (("r1",), ("r2",))), 3).partition_racks
    (('r1',), ('r2',), ('r1',))
    """
    racks = topic.partition_racks
    repeated = tuple(racks[partition % len(racks)] for partition in range(count)) if racks else None
    return replace(topic, partition_count=count, partition_racks=repeated)


def _matches(member: Member, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (member.member_id, member.group_instance_id) if name is not None)


def _names(members: Sequence[Member]) -> str:
    names = [member.member_id for member in members]
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
