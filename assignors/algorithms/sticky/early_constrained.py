"""The first algorithm for equal subscriptions: keep up to the upper quota, fill up to the lower one, take what is missing.

Source: ``AbstractStickyAssignor.constrainedAssign``, Kafka 2.5.1 to 2.8 (KAFKA-9987; double claims since 2.8.1, KAFKA-12984).
"""

from __future__ import annotations

from collections import deque
from functools import partial

from assignors.algorithms.sticky.constrained import Constrained, ConstrainedProblem
from assignors.algorithms.sticky.cooperative import withhold
from assignors.algorithms.sticky.partitions import every_partition
from assignors.java.ordering import ranks, sort_strings
from assignors.model import KafkaAssignorError, TopicPartition


def assign_early_constrained(problem: ConstrainedProblem) -> Constrained:
    """Return each member's partitions, and a function that returns them without those taken from other members.

    Unlike today, every member may keep the upper quota at first. Then a member below the lower quota takes the first partition of
    each member at the upper quota, in hash map order.

    Raises:
        KafkaAssignorError: ``IllegalStateException`` if a claim of a partition that does not exist makes Kafka's count wrong.
    """
    member_ids, walk, partition_counts, claims, *_ = problem
    unassigned = dict.fromkeys(every_partition((topic, partition_counts[topic]) for topic in sort_strings(partition_counts)))
    lower, more = divmod(len(unassigned), len(member_ids)) if member_ids else (0, 0)
    upper = lower + (more > 0)
    partitions: list[list[TopicPartition]] = [[] for _ in member_ids]
    taken = set(claims.contested)
    transferring: dict[TopicPartition, int] = {}
    unfilled: list[int] = []
    at_upper: deque[int] = deque()
    at_lower: deque[int] = deque()

    for member in walk:
        owned = [partition for partition in claims.owned[member] if partition not in claims.contested]
        partitions[member] = owned[:upper]
        taken.update(owned[upper:])
        for partition in partitions[member]:
            unassigned.pop(partition, None)
        if len(owned) < lower:
            unfilled.append(member)
            continue
        if len(partitions[member]) == lower:
            at_lower.append(member)
        if len(partitions[member]) == upper:
            at_upper.append(member)

    def give(partition: TopicPartition, member: int) -> None:
        partitions[member].append(partition)
        if partition in taken:
            transferring[partition] = member

    rank = ranks(member_ids)
    unfilled.sort(key=rank.__getitem__)
    rest = deque(unassigned)
    while unfilled and rest:
        for member in list(unfilled):
            if not rest:
                break
            give(rest.popleft(), member)
            if len(partitions[member]) == lower:
                at_lower.append(member)
                unfilled.remove(member)

    for member in unfilled:
        while len(partitions[member]) < lower:
            if not at_upper:
                raise KafkaAssignorError("IllegalStateException", "Some consumers are under capacity but all partitions have been assigned")
            stolen = partitions[at_upper.popleft()].pop(0)
            partitions[member].append(stolen)
            transferring[stolen] = member
        at_lower.append(member)

    for partition in rest:
        if not at_lower:
            raise KafkaAssignorError("IllegalStateException", "Some partitions are unassigned but all consumers are at maximum capacity")
        give(partition, at_lower.popleft())
    return partitions, partial(withhold, partitions, transferring)
