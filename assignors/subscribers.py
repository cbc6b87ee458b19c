"""Who subscribes to a topic, in the order in which the client-side assignors go through the members."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import chain

from assignors.model import GroupProblem, MalformedProblemError, Member
from assignors.ordering import hash_map_order


def members_in_map_order(problem: GroupProblem) -> list[Member]:
    """Return the members as the leader's map of subscriptions iterates them.

    Raises:
        MalformedProblemError: two members have the same id.
    """
    members = {member.member_id: member for member in problem.members}
    if len(members) < len(problem.members):
        member_id, count = Counter(member.member_id for member in problem.members).most_common(1)[0]
        raise MalformedProblemError(f"member id {member_id!r} occurs {count} times in one group, expected once")
    return [members[member_id] for member_id in hash_map_order(members)]


def subscribers_of_topics(
    members: Sequence[Member], topics: Collection[str], *, keeps_duplicates: bool = False
) -> dict[str, Sequence[int]]:
    """Return topic -> the positions of its subscribers among the members, ascending.

    Topics with the same subscribers share one sequence, so that a group with equal subscriptions costs nothing per topic and member.

    Args:
        members: in any order.
        topics: the topics to look at.
        keeps_duplicates: a member that lists a topic twice is there twice.

    >>> subscribers_of_topics([Member("a", ("t", "u")), Member("b", ("u",)), Member("c", ("t", "u"))], {"t", "u"})
    {'t': [0, 2], 'u': [0, 1, 2]}
    """
    by_subscription: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for position, member in enumerate(members):
        by_subscription[member.topics].append(position)
    parts: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for subscription in by_subscription:
        for topic in subscription if keeps_duplicates else dict.fromkeys(subscription):
            if topic in topics:
                parts[topic].append(subscription)
    merged: dict[tuple[tuple[str, ...], ...], list[int]] = {}
    return {topic: _merge(merged, tuple(subscriptions), by_subscription) for topic, subscriptions in parts.items()}


def _merge(merged: dict, subscriptions: tuple, by_subscription: dict[tuple[str, ...], list[int]]) -> list[int]:
    if subscriptions not in merged:
        merged[subscriptions] = sorted(chain.from_iterable(map(by_subscription.__getitem__, subscriptions)))
    return merged[subscriptions]
