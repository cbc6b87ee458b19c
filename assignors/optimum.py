"""The best that any assignor could have done: the fewest movements for a given balance, the smallest spread of loads.

Both are bounds for judging a result, not assignors: they look at counts and never build an assignment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from assignors.flow import Supply, most_kept, most_placed
from assignors.generations import COOPERATIVE, Generation, Owner, owner_of
from assignors.model import GroupProblem, TopicPartition
from assignors.subscriptions import existing_partition_counts, owners_by_topics, subscriptions_of
from assignors.verification import withheld_partitions

_TOPIC = itemgetter(0)

MOST_EDGES = 20_000
"""Size of the largest flow that is worth its while: pairs of topics with equal subscribers and a subscription that names them, and pairs of
topics and members that held them. Only groups of hundreds of members with as many different subscriptions come near it."""


@dataclass(frozen=True, slots=True)
class Least:
    """A smallest number.

    Attributes:
        is_exact: some assignment reaches it; else none goes below it, and the flow that would tell more is too large.
    """

    count: int
    is_exact: bool = True


def least_movements(
    current: Generation, last_owners: Mapping[TopicPartition, Sequence[Owner]] | None, most_edges: int = MOST_EDGES
) -> Least | None:
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
        most_edges: size of the largest flow to send. Beyond it the closed form, which lets every member have everything, gives a number
            that no assignment goes below.

    Returns:
        None when there is no generation before or no member, and where the assignment is not a whole one: a partition is withheld,
        multiply owned now or before, or given to somebody who does not subscribe to its topic.

    >>> from assignors.model import Member, Topic
    >>> members = tuple(Member(name, ("t0",)) for name in "abcd")
    >>> assignment = {"a": (), "b": (("t0", 0),), "c": (("t0", 1),), "d": (("t0", 2),)}
    >>> current = Generation(2, "range", GroupProblem({"t0": Topic(3)}, members), assignment)
    >>> least_movements(current, {("t0", number): ((False, "a"),) for number in range(3)})
    Least(count=2, is_exact=True)
    """
    if last_owners is None or not current.problem.members or not _is_whole(current, last_owners):
        return None
    given = Counter(map(_TOPIC, chain.from_iterable(current.assignment.values())))
    subscriptions = subscriptions_of(current.problem)
    subscribers = owners_by_topics(subscriptions, dict.fromkeys(existing_partition_counts(current.problem).keys() | given.keys()))
    member_ids = [member_id for members in subscribers.values() for member_id in members]
    if not member_ids:
        return Least(0)
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
    is_exact = len(subscribers) == 1 or kept == kept_now
    if not is_exact:
        supplies, supply_of = _supplies(subscribers, given)
        class_of = {member_id: number for number, members in enumerate(subscribers.values()) for member_id in members}
        keepable: Counter[tuple[int, int, str]] = Counter()
        for (topic, member_id), count in held.items():
            keepable[supply_of[topic], class_of[member_id], member_id] += count
        is_exact = sum(len(supply.classes) for supply in supplies) + len(keepable) <= most_edges
        if is_exact:
            kept = most_kept(supplies, list(map(len, subscribers.values())), keepable, low, high)
    return Least(owned_count - kept, is_exact)


def least_spread(problem: GroupProblem, most_edges: int = MOST_EDGES) -> Least | None:
    """Return the difference of the largest and the smallest load when partitions are spread as evenly as subscriptions allow.

    The most even spread (the least majorised load vector) has both the smallest possible maximum and the largest possible minimum, so two
    searches by flow find its ends. Members that subscribe to nothing existing do not count.

    Worked example: t0 has 5 partitions and a reads it, t1 has 1 partition and a, b read it. a keeps 5, b gets 1: the spread is 4.

    Args:
        most_edges: size of the largest flow to send. Beyond it the spread is told as if all members could have everything, which no
            assignment goes below.

    Returns:
        None without members; 0 when no member subscribes to anything existing.

    >>> from assignors.model import Member, Topic
    >>> least_spread(GroupProblem({"t0": Topic(5), "t1": Topic(1)}, (Member("a", ("t0", "t1")), Member("b", ("t1",)))))
    Least(count=4, is_exact=True)
    """
    if not problem.members:
        return None
    counts = existing_partition_counts(problem)
    subscribers = owners_by_topics(subscriptions_of(problem), counts)
    if not subscribers:
        return Least(0)
    sizes = [len(members) for members in subscribers.values()]
    total, member_count = sum(counts.values()), sum(sizes)
    supplies, _ = _supplies(subscribers, counts) if len(sizes) > 1 else ([], {})
    is_exact = sum(len(supply.classes) for supply in supplies) <= most_edges
    if len(sizes) == 1 or not is_exact:
        return Least(1 if total % member_count else 0, is_exact)
    even = total // member_count
    largest = bisect_left(range(total), True, lo=even, key=lambda load: most_placed(supplies, sizes, load) == total)
    smallest = bisect_left(range(even + 1), True, lo=1, key=lambda load: most_placed(supplies, sizes, load) < member_count * load) - 1
    return Least(largest - smallest)


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


def _supplies(subscribers: Mapping[frozenset[str], Sequence[str]], counts: Mapping[str, int]) -> tuple[list[Supply], dict[str, int]]:
    """Return the partitions by who may have them, and the place of each topic among them."""
    classes_of: dict[str, list[int]] = {topic: [] for topic in counts}
    for number, topics in enumerate(subscribers):
        for topic in topics & counts.keys():
            classes_of[topic].append(number)
    together: dict[tuple[int, ...], int] = {}
    supply_of = {topic: together.setdefault(tuple(classes), len(together)) for topic, classes in classes_of.items()}
    supplied: Counter[int] = Counter()
    for topic, count in counts.items():
        supplied[supply_of[topic]] += count
    return [Supply(classes, supplied[place]) for classes, place in together.items()], supply_of
