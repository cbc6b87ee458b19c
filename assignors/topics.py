"""Which topics an assignor gets to see.

Source: ``AbstractPartitionAssignor.assign(Cluster, GroupSubscription)``.
"""

from __future__ import annotations

from collections.abc import Iterable

from assignors.model import GroupProblem, TopicPartition


def existing_partition_counts(problem: GroupProblem) -> dict[str, int]:
    """Return topic -> number of partitions for the subscribed topics that have any, by first subscription.

    Kafka skips a subscribed topic without metadata or without partitions, with a debug log only.
    """
    counts: dict[str, int] = {}
    subscribed: set[tuple[str, ...]] = set()
    for member in problem.members:
        if member.topics in subscribed:
            continue
        subscribed.add(member.topics)
        for name in member.topics:
            if name not in counts:
                topic = problem.topics.get(name)
                if topic is not None and topic.partition_count:
                    counts[name] = topic.partition_count
    return counts


def partitions_of(topic: str, partition_count: int) -> Iterable[TopicPartition]:
    """Return the partitions of a topic in order."""
    return zip((topic,) * partition_count, range(partition_count))
