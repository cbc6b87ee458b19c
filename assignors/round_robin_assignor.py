"""Kafka's RoundRobinAssignor."""

from __future__ import annotations

from assignors.model import Assignment, GroupProblem, KafkaAssignorError, TopicPartition
from assignors.ordering import hash_map_order, member_order, sort_strings
from assignors.subscriptions import existing_partition_counts


def assign_round_robin(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    order = hash_map_order([member.member_id for member in problem.members])
    if not order:
        raise KafkaAssignorError("IllegalArgumentException", "a round robin over no members")
    by_id = {member.member_id: member for member in problem.members}
    ring = sorted((by_id[m] for m in order), key=member_order)
    counts = existing_partition_counts(problem)
    result: dict[str, list[TopicPartition]] = {member_id: [] for member_id in order}
    position = 0
    for name in sort_strings(counts):
        for partition in range(counts[name]):
            while name not in ring[position].topics:
                position = (position + 1) % len(ring)
            result[ring[position].member_id].append((name, partition))
            position = (position + 1) % len(ring)
    return {member_id: tuple(result[member_id]) for member_id in hash_map_order(result, copies=1)}
