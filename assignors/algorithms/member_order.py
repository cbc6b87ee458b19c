"""The subscribers of topics, in the order in which the client-side assignors iterate the members."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

from assignors.algorithms.releases import ClientBehaviour
from assignors.generation.subscriptions import distinct_subscriptions, once
from assignors.java.ordering import hash_map_order, member_order, sort_positions, string_map_order
from assignors.model import GroupProblem, MalformedProblemError, Member, TopicPartition


@once
def map_order(problem: GroupProblem) -> tuple[tuple[str, ...], Sequence[int], bool]:
    """Return the member ids, their positions in the iteration order of the leader's map of subscriptions, and whether maps filled from
    that map have the same order.

    Raises:
        MalformedProblemError: two members have the same id.
    """
    member_ids = tuple([member.member_id for member in problem.members])
    if len(set(member_ids)) < len(member_ids):
        member_id, count = Counter(member_ids).most_common(1)[0]
        raise MalformedProblemError(f"member id {member_id!r} occurs {count} times in one group, expected once")
    return member_ids, *string_map_order(member_ids)


def members_in_map_order(problem: GroupProblem) -> tuple[list[Member], bool]:
    """Return the members in the order of the leader's map of subscriptions, and whether maps filled from it have the same order.

    Raises:
        MalformedProblemError: two members have the same id.
    """
    _, order, is_stable = map_order(problem)
    return list(map(problem.members.__getitem__, order)), is_stable


def ranked_members(problem: GroupProblem, behaviour: ClientBehaviour) -> list[Member]:
    """Return the members in the order of Range and RoundRobin: static members by instance id, then the others by member id.

    Before 2.4 all members are ordered by member id.

    Raises:
        MalformedProblemError: two members have the same id.
    """
    order = _static_first_order(problem) if behaviour.orders_static_members_first else _member_id_order(problem)
    return list(map(problem.members.__getitem__, order))


@once
def _static_first_order(problem: GroupProblem) -> list[int]:
    _, order, _ = map_order(problem)  # decides between equal instance ids
    keys = list(map(member_order, problem.members))
    return sorted(order, key=keys.__getitem__)


def _member_id_order(problem: GroupProblem) -> list[int]:
    member_ids, _, _ = map_order(problem)
    return sort_positions(member_ids)


def result_order(members: Sequence[Member], is_stable: bool, *, copies: int = 1) -> list[str]:
    """Return the member ids in the order of a result map, which is filled from a map that is filled from the members' map.

    Args:
        members: in map order.
        is_stable: whether maps filled from the members' map have the same order.
        copies: number of maps between the members' map and the result.
    """
    member_ids = [member.member_id for member in members]
    return member_ids if is_stable else hash_map_order(member_ids, copies=copies)


def freeze(held: list[Any]) -> list[tuple[TopicPartition, ...]]:
    """Return the same list, with every list of partitions replaced by a tuple.

    Each list is freed when its tuple is made. If both exist together, the garbage collector visits a million partitions more: a fifth of
    the time of a cooperative rebalance, half the time of a round robin.

    >>> freeze([[("t", 0)], []])
    [(('t', 0),), ()]
    """
    for position, partitions in enumerate(held):
        held[position] = tuple(partitions)
    return held


def subscribers_of_topics(
    members: Sequence[Member], topics: Collection[str], *, keeps_duplicates: bool = False
) -> dict[str, Sequence[int]]:
    """Return topic -> the positions of its subscribers among the members, ascending.

    Topics with the same subscribers share one sequence, so that equal subscriptions need no work per topic and member.

    Args:
        members: in any order.
        topics: the topics of the result.
        keeps_duplicates: a member that lists a topic twice occurs twice.

    >>> subscribers_of_topics([Member("a", ("t", "u")), Member("b", ("u",)), Member("c", ("t", "u"))], {"t", "u"})
    {'t': [0, 2], 'u': [0, 1, 2]}
    >>> subscribers_of_topics([Member("a", ("t", "u")), Member("b", ("t", "u"))], {"t"})
    {'t': range(0, 2)}
    """
    distinct = distinct_subscriptions(members)
    if len(distinct) == 1 and not keeps_duplicates:
        everybody = range(len(members))
        return {topic: everybody for topic in dict.fromkeys(*distinct) if topic in topics}
    numbers = {subscription: number for number, subscription in enumerate(distinct)}
    positions_of: list[list[int]] = [[] for _ in numbers]  # by number of subscription
    same: tuple[str, ...] | None = None
    for position, member in enumerate(members):
        if member.topics is not same:
            same = member.topics
            of_same = positions_of[numbers[same]]
        of_same.append(position)
    subscribed_by: defaultdict[str, list[int]] = defaultdict(list)
    for subscription, number in numbers.items():
        for topic in subscription if keeps_duplicates else dict.fromkeys(subscription):
            if topic in topics:
                subscribed_by[topic].append(number)
    merged: dict[tuple[int, ...], list[int]] = {}
    result: dict[str, Sequence[int]] = {}
    for topic, parts in subscribed_by.items():
        key = tuple(parts)
        if key not in merged:
            merged[key] = sorted(chain.from_iterable(map(positions_of.__getitem__, parts)))
        result[topic] = merged[key]
    return result
