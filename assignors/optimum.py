"""The best that any assignor could have done: the fewest movements for a given balance, the smallest spread of loads.

Both are bounds for judging a result, not assignors: they look at counts and never build an assignment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter

from assignors.budget import StepBudget
from assignors.flow import FlowNetwork
from assignors.generations import COOPERATIVE, Generation, Owner, owner_of
from assignors.model import GroupProblem, NoResultError, TopicPartition
from assignors.subscriptions import existing_partition_counts, owners_by_topics, subscriptions_of
from assignors.verification import withheld_partitions

_SOURCE, _SINK, _FIRST_FREE = 0, 1, 2
_TOPIC = itemgetter(0)

BOUND_STEPS = 1_000_000
"""Work that one bound is worth, about half a second: it is asked for with every row of an audit. Only groups of hundreds of members with
as many different subscriptions come near it."""


def least_movement_count(
    current: Generation, last_owners: Mapping[TopicPartition, Sequence[Owner]] | None, step_budget: int = BOUND_STEPS
) -> int | None:
    """Return how many partitions had to change owner at least, given the balance that the generation reached.

    Compared are all ways to give the same partitions to subscribed members with every load between the smallest and the largest
    load that a member has now; members that subscribe to nothing existing do not count. The generation's own assignment
    is one of them, so its movements less this number are the avoidable ones.

    Worked example: a held t0p0 t0p1 t0p2 and b, c, d are new. Someone must take two of them when loads have to be 1, 1, 1, 0.

    Complexity: linear for equal subscriptions (a closed form), and where an assignment keeps all that this form allows; else one cheapest
    flow through a network of topics that have the same subscribers and members that have the same subscription.

    Args:
        current: the generation to judge.
        last_owners: ``movement.last_owners`` of the same comparison; None when there is no generation before.
        step_budget: bound on the work of the flow.

    Returns:
        None when there is no generation before or no member, and where the assignment is not a whole one: a partition is withheld,
        multiply owned now or before, or given to somebody who does not subscribe to its topic. None too where the flow would take
        more than ``step_budget``.

    >>> from assignors.model import Member, Topic
    >>> members = tuple(Member(name, ("t0",)) for name in "abcd")
    >>> assignment = {"a": (), "b": (("t0", 0),), "c": (("t0", 1),), "d": (("t0", 2),)}
    >>> current = Generation(2, "range", GroupProblem({"t0": Topic(3)}, members), assignment)
    >>> least_movement_count(current, {("t0", number): ((False, "a"),) for number in range(3)})
    2
    """
    if last_owners is None or not current.problem.members or not _is_whole(current, last_owners):
        return None
    given = Counter(map(_TOPIC, chain.from_iterable(current.assignment.values())))
    subscriptions = subscriptions_of(current.problem)
    subscribers = owners_by_topics(subscriptions, dict.fromkeys(existing_partition_counts(current.problem).keys() | given.keys()))
    member_ids = [member_id for members in subscribers.values() for member_id in members]
    if not member_ids:
        return 0
    loads = [len(current.assignment.get(member_id, ())) for member_id in member_ids]
    low, high = min(loads), max(loads)

    members = {owner_of(member): member.member_id for member in current.problem.members}
    held: Counter[tuple[str, str]] = Counter()
    owned_count = kept_now = 0
    for member_id, partitions in current.assignment.items():
        for (topic, last), count in Counter(zip(map(_TOPIC, partitions), map(last_owners.get, partitions), strict=True)).items():
            if not last:
                continue
            owned_count += count
            last_id = members.get(last[0])
            kept_now += count if last_id == member_id else 0
            if topic in subscriptions.get(last_id, ()):
                held[topic, last_id] += count
    kept = _most_kept_by_equals(held, member_ids, given.total(), low, high)
    if len(subscribers) > 1 and kept > kept_now:
        try:
            kept = _most_kept(held, subscribers, given, low, high, StepBudget(step_budget))
        except NoResultError:
            return None
    return owned_count - kept


def least_spread(problem: GroupProblem, step_budget: int = BOUND_STEPS) -> int | None:
    """Return the difference of the largest and the smallest load when partitions are spread as evenly as subscriptions allow.

    The most even spread (the least majorised load vector) has both the smallest possible maximum and the largest possible minimum, so two
    searches by flow find its ends. Members that subscribe to nothing existing do not count.

    Worked example: t0 has 5 partitions and a reads it, t1 has 1 partition and a, b read it. a keeps 5, b gets 1: the spread is 4.

    Returns:
        None without members, and where subscriptions differ so much that the searches would take more than ``step_budget``; 0 when no
        member subscribes to anything existing.

    >>> from assignors.model import Member, Topic
    >>> least_spread(GroupProblem({"t0": Topic(5), "t1": Topic(1)}, (Member("a", ("t0", "t1")), Member("b", ("t1",)))))
    4
    """
    if not problem.members:
        return None
    counts = existing_partition_counts(problem)
    subscribers = owners_by_topics(subscriptions_of(problem), counts)
    if not subscribers:
        return 0
    total = sum(counts.values())
    member_count = sum(map(len, subscribers.values()))
    if len(subscribers) == 1:
        return 1 if total % member_count else 0
    try:
        return _least_spread(subscribers, counts, StepBudget(step_budget))
    except NoResultError:
        return None


def _least_spread(subscribers: Mapping[frozenset[str], Sequence[str]], counts: Mapping[str, int], budget: StepBudget) -> int:
    sizes = [len(members) for members in subscribers.values()]
    total, member_count = sum(counts.values()), sum(sizes)
    supplies = _supplies(subscribers, counts, budget)

    def placed(load: int) -> int:
        return _placed_count(supplies, sizes, load, budget)

    even = total // member_count
    largest = bisect_left(range(total), True, lo=even, key=lambda load: placed(load) == total)
    smallest = bisect_left(range(even + 1), True, lo=1, key=lambda load: placed(load) < member_count * load) - 1
    return largest - smallest


def _is_whole(current: Generation, last_owners: Mapping[TopicPartition, Sequence[Owner]]) -> bool:
    """Return whether every partition given has one owner, one that subscribes to it, and nothing is withheld."""
    if current.strategy in COOPERATIVE and withheld_partitions(current.problem, current.assignment):
        return False
    if any(len(owners) > 1 for owners in map(last_owners.get, chain.from_iterable(current.assignment.values())) if owners):
        return False
    subscriptions = subscriptions_of(current.problem)
    given: set[TopicPartition] = set()
    for owner, partitions in current.assignment.items():
        if not subscriptions.get(owner, frozenset()).issuperset(map(_TOPIC, partitions)):
            return False
        given.update(partitions)
    return len(given) == sum(map(len, current.assignment.values()))


def _most_kept_by_equals(held: Mapping[tuple[str, str], int], member_ids: Sequence[str], total: int, low: int, high: int) -> int:
    """Return how many partitions can stay when every member may have every partition; no fewer than when subscriptions differ.

    A member keeps at most ``high``; and every member below ``low`` needs that many of the others' partitions.
    """
    held_by: Counter[str] = Counter()
    for (_, member_id), count in held.items():
        held_by[member_id] += count
    within_high = sum(min(held_by[member_id], high) for member_id in member_ids)
    needed_below_low = sum(max(0, low - held_by[member_id]) for member_id in member_ids)
    return min(within_high, total - needed_below_low)


def _most_kept(
    held: Mapping[tuple[str, str], int],
    subscribers: Mapping[frozenset[str], Sequence[str]],
    given: Mapping[str, int],
    low: int,
    high: int,
    budget: StepBudget,
) -> int:
    """Return how many partitions can stay when subscriptions differ, by a cheapest flow.

    Partitions flow from topics to members and on to the sink. The way straight to the member that held them is free, the one
    through everybody with a fitting subscription costs 1. Filling a member above ``low`` costs more than everything else together,
    which makes the flow fill all up to ``low`` first.

    Args:
        held: (topic, member id) -> partitions that the member held and may keep.
        budget: bounds the work.
    """
    total = sum(given.values())
    supplies = _supplies(subscribers, given, budget)
    first_class = _FIRST_FREE + len(supplies)
    member_ids = [member_id for members in subscribers.values() for member_id in members]
    node_of_member = {member_id: node for node, member_id in enumerate(member_ids, first_class + len(subscribers))}
    network = FlowNetwork(first_class + len(subscribers) + len(member_ids))
    node_of_topic = {}
    for node, (classes, (topics, supply)) in enumerate(supplies.items(), _FIRST_FREE):
        network.add_edge(_SOURCE, node, supply)
        for index in classes:
            network.add_edge(node, first_class + index, supply, 1)
        node_of_topic.update(dict.fromkeys(topics, node))
    for node, members in enumerate(subscribers.values(), first_class):
        for member_id in members:
            network.add_edge(node, node_of_member[member_id], high)
    for node in node_of_member.values():
        network.add_edge(node, _SINK, low)
        network.add_edge(node, _SINK, high - low, total + 1)
    for (topic, member_id), count in held.items():
        network.add_edge(node_of_topic[topic], node_of_member[member_id], count)
    _, cost = network.send(_SOURCE, _SINK, budget)
    return total - cost % (total + 1)


def _supplies(
    subscribers: Mapping[frozenset[str], Sequence[str]], counts: Mapping[str, int], budget: StepBudget
) -> dict[tuple[int, ...], tuple[list[str], int]]:
    """Return the topics and their partition count by who may have them: the positions of the fitting subscriptions."""
    budget.spend(len(counts) * len(subscribers))
    supplies: dict[tuple[int, ...], tuple[list[str], int]] = {}
    for topic, count in counts.items():
        classes = tuple(index for index, topics in enumerate(subscribers) if topic in topics)
        topics, supply = supplies.get(classes, ([], 0))
        supplies[classes] = ([*topics, topic], supply + count)
    return supplies


def _placed_count(supplies: Mapping[tuple[int, ...], tuple[list[str], int]], sizes: Sequence[int], load: int, budget: StepBudget) -> int:
    """Return how many partitions find a place when every member takes at most ``load``."""
    first_class = _FIRST_FREE + len(supplies)
    budget.spend(sum(map(len, supplies)))
    network = FlowNetwork(first_class + len(sizes))
    for node, (classes, (_, supply)) in enumerate(supplies.items(), _FIRST_FREE):
        network.add_edge(_SOURCE, node, supply)
        for index in classes:
            network.add_edge(node, first_class + index, supply)
    for node, size in enumerate(sizes, first_class):
        network.add_edge(node, _SINK, size * load)
    return network.send(_SOURCE, _SINK, budget)[0]
