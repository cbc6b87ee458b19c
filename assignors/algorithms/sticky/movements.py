"""Kafka's record of movements within one general assignment, which decides the partition that really moves.

Source: ``AbstractStickyAssignor.PartitionMovements``, all releases.
"""

from __future__ import annotations

from assignors.java.ordering import first_in_hash_set
from assignors.model import TopicPartition

Pair = tuple[int, int]
"""The first owner of a moved partition, and its present one."""

Movements = tuple[dict[TopicPartition, Pair], dict[tuple[str, Pair], tuple[tuple[int, ...], int]]]
"""A copy of the record: each partition's pair; for each topic and pair the numbers in insertion order, and their largest count so far."""


class PartitionMovements:
    """The movements so far.

    If a partition should move from b to a, and another of its topic has moved from a to b, Kafka moves that other one back instead, so
    that fewer partitions change owner. It takes the first one in the iteration order of a ``HashSet``. The first partition does not move
    at all. Such pairs in two topics can repeat for ever.
    """

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, Pair] = {}
        # topic -> pair -> partition numbers in insertion order, and their largest count so far: hash sets never shrink
        self._by_topic: dict[str, dict[Pair, tuple[dict[int, None], list[int]]]] = {}

    def actual_partition(self, partition: TopicPartition, owner: int, target: int) -> TopicPartition:
        """Return the partition to move if this one should move from its owner to the target."""
        of_topic = self._by_topic.get(partition[0])
        if of_topic is None:
            return partition
        if partition in self._pairs:
            owner = self._pairs[partition][0]
        reverse = of_topic.get((target, owner))
        if reverse is None:
            return partition
        numbers, largest = reverse
        return partition[0], first_in_hash_set(partition[0], numbers, largest[0])

    def record(self, partition: TopicPartition, owner: int, target: int) -> None:
        """Record that the partition moves from its owner to the target."""
        pair = self._pairs.pop(partition, None)
        if pair is not None:
            self._forget(partition, pair)
            owner = pair[0]
            if owner == target:
                return
        self._pairs[partition] = (owner, target)
        numbers, largest = self._by_topic.setdefault(partition[0], {}).setdefault((owner, target), ({}, [0]))
        numbers[partition[1]] = None
        largest[0] = max(largest[0], len(numbers))

    def snapshot(self) -> Movements:
        """Return a copy of the record, for comparison."""
        return dict(self._pairs), {
            (topic, pair): (tuple(numbers), largest[0])
            for topic, of_topic in self._by_topic.items()
            for pair, (numbers, largest) in of_topic.items()
        }

    def _forget(self, partition: TopicPartition, pair: Pair) -> None:
        topic, number = partition
        of_topic = self._by_topic[topic]
        numbers, _ = of_topic[pair]
        del numbers[number]
        if not numbers:
            del of_topic[pair]
            if not of_topic:
                del self._by_topic[topic]
