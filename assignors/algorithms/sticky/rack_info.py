"""The racks that the sticky assignors use.

Source: ``AbstractStickyAssignor.RackInfo``, KIP-881, Kafka 3.5 and later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from assignors.algorithms.racks import is_rack_aware, partition_racks
from assignors.model import Member, Topic, TopicPartition

_NO_RACKS: frozenset[str] = frozenset()


class RackInfo:
    """Racks of members and partitions, by member number.

    Attributes:
        is_active: racks affect the assignment.
        consumer_racks: each member's rack; None for all if not active.
    """

    def __init__(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> None:
        """Read the racks.

        Args:
            members: in map order.
            topics: the existing subscribed topics; without topics racks are not active.
        """
        self.is_active = False
        self.consumer_racks: list[str | None] = [None] * len(members)
        # By topic and number: keys for a million partitions would take a second to create and look up.
        self._racks: dict[str, list[frozenset[str]]] = {}
        self._consumers_in: dict[frozenset[str], int] = {}
        if not topics:
            return
        members_in = Counter(member.rack for member in members if member.rack)
        racks = {name: partition_racks(topic) for name, topic in topics.items()}
        distinct = set(chain.from_iterable(racks.values()))
        if not is_rack_aware(members_in, distinct):
            return
        self.is_active = True
        self.consumer_racks = [member.rack or None for member in members]
        self._racks = racks
        self._consumers_in = {of_partition: sum(members_in[rack] for rack in of_partition) for of_partition in distinct}

    def racks_of(self, partition: TopicPartition) -> frozenset[str]:
        """Return the racks with a replica of the partition; none if it does not exist, or if racks are not active."""
        topic, number = partition
        racks = self._racks.get(topic, ())
        return racks[number] if 0 <= number < len(racks) else _NO_RACKS

    def consumers_near(self, partition: TopicPartition) -> int:
        """Return the number of members that share a rack with an existing partition; only if racks are active."""
        return self._consumers_in[self._racks[partition[0]][partition[1]]]

    def is_mismatch(self, member: int, partition: TopicPartition) -> bool:
        """Return whether the member has a rack and the partition has no replica in it."""
        rack = self.consumer_racks[member]
        return rack is not None and rack not in self.racks_of(partition)

    def without_mismatches(self, member: int, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that are not a mismatch for the member.

        >>> topics = {"t": Topic(2, (("a",), ("b",)))}
        >>> RackInfo([Member("m", rack="b")], topics).without_mismatches(0, [("t", 0), ("t", 1), ("t", 2)])
        [('t', 1)]
        """
        rack = self.consumer_racks[member]
        if rack is None:
            return list(partitions)
        return [partition for partition in partitions if rack in self.racks_of(partition)]
