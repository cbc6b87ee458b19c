"""Topics that a group may join: the range assignor gives equal partition numbers of them to one member."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from assignors.generation.generation import Generation
from assignors.generation.subscriptions import existing_partition_counts
from assignors.model import AssignmentMapping, TopicPartition

_KEEPS_TOGETHER = "range"
_FEWEST = 2
"""Members, topics and partitions below which nothing is kept together or separated."""


@dataclass(frozen=True)
class CoPartitioned:
    """Topics with the same subscribers and the same number of partitions, of which each number has one owner.

    Attributes:
        topics: two or more, by name.
        partition_count: of each topic.
    """

    topics: tuple[str, ...]
    partition_count: int

    def separated(self, assignment: AssignmentMapping) -> tuple[int, ...]:
        """Return the partition numbers that have more than one owner, or an owner in some of the topics only."""
        owners = {partition: member_id for member_id, held in assignment.items() for partition in held}
        return tuple(number for number in range(self.partition_count) if len(self._owners_of(number, owners)) > 1)

    def _owners_of(self, number: int, owners: dict[TopicPartition, str]) -> set[str | None]:
        return {owners.get((topic, number)) for topic in self.topics}


def co_partitioned(generation: Generation) -> list[CoPartitioned]:
    """Return the topics that a generation keeps together, largest set first; none where its assignor is not range.

    Records do not show whether the application joins them.

    >>> from assignors.model import GroupProblem, Member, Topic
    >>> members = (Member("a", ("t", "u")), Member("b", ("t", "u")))
    >>> given = {"a": (("t", 0), ("u", 0)), "b": (("t", 1), ("u", 1))}
    >>> co_partitioned(Generation(1, "range", GroupProblem({"t": Topic(2), "u": Topic(2)}, members), given))
    [CoPartitioned(topics=('t', 'u'), partition_count=2)]
    """
    if generation.strategy != _KEEPS_TOGETHER:
        return []
    alike: dict[tuple[int, frozenset[str]], list[str]] = defaultdict(list)
    for topic, count in existing_partition_counts(generation.problem).items():
        subscribers = frozenset(member.member_id for member in generation.problem.members if topic in member.topics)
        if len(subscribers) >= _FEWEST and count >= _FEWEST:
            alike[count, subscribers].append(topic)
    sets = (CoPartitioned(tuple(sorted(topics)), count) for (count, _), topics in alike.items() if len(topics) >= _FEWEST)
    together = [one for one in sets if not one.separated(generation.assignment)]
    return sorted(together, key=lambda one: (-len(one.topics), one.topics))
