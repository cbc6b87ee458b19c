from __future__ import annotations

from collections import Counter

from assignors.model import GroupProblem, Member, TopicPartition
from assignors.racks import is_rack_aware, partition_racks


class RackInfo:
    """Racks of members and partitions as the sticky assignors see them."""

    def __init__(self, problem: GroupProblem, members: list[Member], counts: dict[str, int]) -> None:
        self.consumer_racks: list[str | None] = [None] * len(members)
        self.partition_racks: dict[TopicPartition, frozenset[str]] = {}
        self.consumers_per_partition: dict[TopicPartition, int] = {}
        self.is_active = False
        by_rack = Counter(m.rack for m in members if m.rack)
        if not by_rack:
            return
        racks = {(name, i): r for name in counts for i, r in enumerate(partition_racks(problem.topics[name]))}
        self.is_active = is_rack_aware(by_rack, list(racks.values()))
        self.consumers_per_partition = {tp: sum(by_rack[r] for r in rs) for tp, rs in racks.items()}
        if self.is_active:
            self.consumer_racks = [m.rack or None for m in members]
            self.partition_racks = racks

    def is_mismatch(self, member: int, partition: TopicPartition) -> bool:
        rack = self.consumer_racks[member]
        return rack is not None and rack not in self.partition_racks.get(partition, ())
