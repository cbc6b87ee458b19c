"""The best possible result of any assignor: the fewest movements for a given balance, and the smallest spread of loads.

Both are bounds by which a result is judged. They use counts only, and build no assignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assignors.audit.comparison import Comparison
from assignors.audit.max_flow import Supply, most_even_loads, most_kept
from assignors.audit.movements import Withheld
from assignors.generation.generation import COOPERATIVE, owner_of
from assignors.generation.holdings import NOBODY
from assignors.generation.subscriptions import (
    Subscriptions,
    existing_partition_counts,
    foreign_entries,
    owners_by_topics,
    subscribers_of,
    subscriptions_of,
)
from assignors.generation.violations import withheld_partitions
from assignors.model import GroupProblem

MOST_EDGES = 20_000
"""The largest flow network that is worth its time. Its size counts pairs of topics with equal subscribers and a subscription that names
them, and pairs of topics and members that held them. Only groups of hundreds of members with as many subscriptions come near it."""


@dataclass(frozen=True, slots=True)
class Least:
    """A smallest number.

    Attributes:
        is_exact: an assignment reaches it. If False it is a lower bound, because the flow for the exact number is too large.
    """

    count: int
    is_exact: bool = True


def least_movements(comparison: Comparison, withheld: Withheld | None = None, most_edges: int = MOST_EDGES) -> Least | None:
    """Return the fewest partitions that had to change owner, given the balance of the generation.

    Compared are all assignments of the same partitions to subscribed members in which every load is between the smallest and the
    largest load of a member now. Members without an existing topic do not count. The generation's own assignment is one of
    these, so its movements minus this number are avoidable.

    Worked example: a held t0p0 t0p1 t0p2 and b, c, d are new. Two of these must move if loads have to be 1, 1, 1, 0.

    Complexity: linear for equal subscriptions (a closed form), and if an assignment keeps all that this form allows; else one cheapest
    flow through a network of topics with the same subscribers and members with the same subscription.

    Args:
        comparison: the generation to judge, and the one before.
        withheld: last owners of partitions that were withheld in the generation before, see ``assignors.audit.movements.Difference``.
        most_edges: the largest flow network to solve. Beyond it the result is a lower bound: the closed form, in which every member may
            have every partition.

    Returns:
        None without a generation before or without members, and if the assignment is not whole: a partition is withheld, has several
        owners now or before, or has an owner that does not subscribe to its topic.

    >>> from assignors.generation.generation import Generation
    >>> from assignors.model import Member, Topic
    >>> problem = GroupProblem({"t0": Topic(3)}, tuple(Member(name, ("t0",)) for name in "abcd"))
    >>> before = Generation(1, "range", problem, {"a": (("t0", 0), ("t0", 1), ("t0", 2))})
    >>> now = Generation(2, "range", problem, {"a": (), "b": (("t0", 0),), "c": (("t0", 1),), "d": (("t0", 2),)})
    >>> least_movements(Comparison(before, now))
    Least(count=2, is_exact=True)
    """
    current = comparison.current
    if comparison.previous is None or not current.problem.members or not _is_whole(comparison):
        return None
    given = comparison.held.topic_counts()
    subscriptions, existing = subscriptions_of(current.problem), existing_partition_counts(current.problem)
    is_known = given.keys() <= existing.keys()
    subscribers = subscribers_of(current.problem) if is_known else owners_by_topics(subscriptions, {**existing, **given})
    member_ids = [member_id for members in subscribers.values() for member_id in members]
    if not member_ids:
        return Least(0)
    loads = list(map(comparison.held.load, member_ids))
    low, high = min(loads), max(loads)

    stays = _Stays(comparison, withheld or {}, subscriptions)
    kept = _most_kept_by_equals(stays.by_member(), member_ids, sum(given.values()), low, high)
    is_exact = len(subscribers) == 1 or kept == stays.kept_count
    if not is_exact:
        supplies, supply_of = _supplies(subscribers, given)
        class_of = {member_id: number for number, members in enumerate(subscribers.values()) for member_id in members}
        keepable: Counter[tuple[int, int, str]] = Counter()
        for (topic, member_id), count in stays.by_topic().items():
            keepable[supply_of[topic], class_of[member_id], member_id] += count
        is_exact = sum(len(supply.classes) for supply in supplies) + len(keepable) <= most_edges
        if is_exact:
            kept = most_kept(supplies, list(map(len, subscribers.values())), keepable, low, high)
    return Least(stays.owned_count - kept, is_exact)


def least_spread(problem: GroupProblem, most_edges: int = MOST_EDGES) -> Least | None:
    """Return the spread of the loads if partitions are assigned as evenly as subscriptions allow.

    The most even loads (the least majorised load vector) have both the smallest possible maximum and the largest possible minimum.
    Members without an existing topic do not count.

    Worked example: t0 has 5 partitions and a reads it, t1 has 1 partition and a, b read it. a keeps 5, b gets 1: the spread is 4.

    Args:
        most_edges: the largest flow network to solve. Beyond it the result is a lower bound: the spread if every member may have every
            partition.

    Returns:
        None without members; 0 if no member subscribes to an existing topic.

    >>> from assignors.model import Member, Topic
    >>> least_spread(GroupProblem({"t0": Topic(5), "t1": Topic(1)}, (Member("a", ("t0", "t1")), Member("b", ("t1",)))))
    Least(count=4, is_exact=True)
    """
    if not problem.members:
        return None
    counts = existing_partition_counts(problem)
    subscribers = subscribers_of(problem)
    if not subscribers:
        return Least(0)
    sizes = [len(members) for members in subscribers.values()]
    total, member_count = sum(counts.values()), sum(sizes)
    supplies, _ = _supplies(subscribers, counts) if len(sizes) > 1 else ([], {})
    is_exact = sum(len(supply.classes) for supply in supplies) <= most_edges
    if len(sizes) == 1 or not is_exact:
        return Least(1 if total % member_count else 0, is_exact)
    smallest, largest = most_even_loads(supplies, sizes)
    return Least(largest - smallest)


def _is_whole(comparison: Comparison) -> bool:
    """Return whether every given partition has one owner that subscribes to it, and nothing is withheld."""
    current, held = comparison.current, comparison.held
    if comparison.has_repeats or any(len(before) > 1 for before, now in comparison.irregular.values() if now):
        return False
    if current.strategy in COOPERATIVE and withheld_partitions(current.problem, held):
        return False
    return not any(foreign_entries(held, subscriptions_of(current.problem)))


class _Stays:
    """The given partitions that had an owner before.

    Attributes:
        owned_count: their number.
        kept_count: the number of these that still have the same owner.
    """

    def __init__(self, comparison: Comparison, withheld: Withheld, subscriptions: Subscriptions) -> None:
        self._comparison = comparison
        self._subscriptions = subscriptions
        self._counts = comparison.last_counts - comparison.let_go_counts
        self._singles: list[tuple[str, int]] = []  # topics and last owners of partitions that are not in the arrays
        self.kept_count = comparison.retained_count
        for partition in {**withheld, **comparison.irregular}:
            last, now = comparison.last_owners_of(partition), comparison.owners_of(partition)
            is_carried = not last and partition in withheld and partition[0] not in comparison.recreated
            if is_carried:
                last = (comparison.owner_index.get(withheld[partition].owner, len(comparison.owners)),)
                self.kept_count += last == now
            if last and now and (is_carried or partition in comparison.irregular):
                self._singles.append((partition[0], last[0]))
        self.owned_count = int(self._counts.sum()) + len(self._singles)

    def by_topic(self) -> Counter[tuple[str, str]]:
        """Return (topic, member) -> number of partitions that the member had, if it subscribes to the topic now."""
        comparison, member_ids, names = self._comparison, self._member_ids(), list(self._comparison.layout.sizes)
        numbers = np.flatnonzero((comparison.last != NOBODY) & (comparison.now != NOBODY))
        keys, counts = np.unique(comparison.layout.topic_indices(numbers) * len(member_ids) + comparison.last[numbers], return_counts=True)
        topics, owners = np.divmod(keys, len(member_ids))
        held_counts: Counter[tuple[str, int]] = Counter(self._singles)
        held_counts.update(
            dict(zip(zip(map(names.__getitem__, topics.tolist()), owners.tolist(), strict=True), counts.tolist(), strict=True))
        )
        named = ((topic, member_ids[owner], count) for (topic, owner), count in held_counts.items())
        return Counter(
            {(topic, name): count for topic, name, count in named if name is not None and topic in self._subscriptions.get(name, ())}
        )

    def by_member(self) -> Mapping[str | None, int]:
        """Return member -> number of partitions it had of topics to which it subscribes now; None stands for owners that left."""
        held_counts: Counter[str | None] = Counter()
        given = frozenset(self._comparison.held.topics)
        if all(subscribed >= given for subscribed in set(self._subscriptions.values())):
            member_ids = self._member_ids()
            held_counts.update(dict(zip(member_ids, self._counts.tolist(), strict=False)))
            held_counts.update(member_ids[owner] for _, owner in self._singles)
        else:
            for (_, member_id), count in self.by_topic().items():
                held_counts[member_id] += count
        return held_counts

    def _member_ids(self) -> list[str | None]:
        """Return the present member of each owner, None if it left; and a last None for owners in neither generation."""
        members = {owner_of(member): member.member_id for member in self._comparison.current.problem.members}
        return [*map(members.get, self._comparison.owners), None]


def _most_kept_by_equals(held_by: Mapping[str | None, int], member_ids: Sequence[str], total: int, low: int, high: int) -> int:
    """Return how many partitions can stay if every member may have every partition; an upper bound if subscriptions differ.

    A member keeps at most ``high``, and a member below ``low`` needs partitions of others up to ``low``.
    """
    counts = [held_by.get(member_id, 0) for member_id in member_ids]
    within_high = sum([count if count < high else high for count in counts])
    needed_below_low = sum([low - count for count in counts if count < low])
    return min(within_high, total - needed_below_low)


def _supplies(subscribers: Mapping[frozenset[str], Sequence[str]], counts: Mapping[str, int]) -> tuple[list[Supply], dict[str, int]]:
    """Return the partitions by their subscribers, and the index of each topic among these."""
    classes_of: dict[str, list[int]] = {topic: [] for topic in counts}
    for number, topics in enumerate(subscribers):
        for topic in topics & counts.keys():
            classes_of[topic].append(number)
    together: dict[tuple[int, ...], int] = {}
    supply_of = {topic: together.setdefault(tuple(classes), len(together)) for topic, classes in classes_of.items()}
    supplied: Counter[int] = Counter()
    for topic, count in counts.items():
        supplied[supply_of[topic]] += count
    return [Supply(classes, supplied[index]) for classes, index in together.items()], supply_of
