"""What the sticky assignors know about racks.

Source: ``AbstractStickyAssignor.RackInfo``, KIP-881, Kafka 3.5 and later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from assignors.model import Member, Topic, TopicPartition
from assignors.racks import is_rack_aware, partition_racks


class RackInfo:
    """Racks of members and partitions, by member number.

    Attributes:
        is_active: racks take part in the assignment.
        consumer_racks: each member's rack; None for all while not active.
        partition_racks: the racks of each partition; empty while not active.
        consumers_per_partition: how many members share a rack with the partition; empty when it would be the same for all.
    """

    def __init__(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> None:
        """Read the racks.

        Args:
            members: in map order.
            topics: the existing subscribed topics; none of them switches racks off.
        """
        self.is_active = False
        self.consumer_racks: list[str | None] = [None] * len(members)
        self.partition_racks: dict[TopicPartition, frozenset[str]] = {}
        self.consumers_per_partition: dict[TopicPartition, int] = {}
        if not topics:
            return
        members_in = Counter(member.rack for member in members if member.rack)
        racks = {(name, number): held for name, topic in topics.items() for number, held in enumerate(partition_racks(topic))}
        if not is_rack_aware(members_in, list(racks.values())):
            return
        self.is_active = True
        self.consumer_racks = [member.rack or None for member in members]
        self.partition_racks = racks
        shared = {held: sum(members_in[rack] for rack in held) for held in set(racks.values())}
        self.consumers_per_partition = {partition: shared[held] for partition, held in racks.items()}

    def is_mismatch(self, member: int, partition: TopicPartition) -> bool:
        """Return whether the member has a rack and the partition has no replica in it."""
        rack = self.consumer_racks[member]
        return rack is not None and rack not in self.partition_racks.get(partition, ())
