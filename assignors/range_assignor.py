"""Kafka's RangeAssignor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from assignors.budget import StepBudget
from assignors.model import Assignment, GroupProblem, Member, TopicPartition
from assignors.ordering import hash_map_order, java_order, member_order
from assignors.racks import is_rack_aware, partition_racks
from assignors.subscriptions import existing_partition_counts


def assign_range(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    counts = existing_partition_counts(problem)
    order = hash_map_order([member.member_id for member in problem.members])
    by_id = {member.member_id: member for member in problem.members}
    names = hash_map_order(dict.fromkeys(name for member_id in order for name in by_id[member_id].topics))
    topics = hash_map_order([name for name in names if name in counts])
    ranked = sorted((by_id[m] for m in order), key=member_order)
    result: dict[str, list[TopicPartition]] = {member_id: [] for member_id in order}
    states = []
    for name in topics:
        consumers = [m for m in ranked if name in m.topics]
        states.append(_TopicState(name, counts[name], consumers, problem))
    racked = any(state.needs_racks for state in states)
    if racked:
        _assign_with_racks(states, result)
    for state in states:
        for member in state.consumers:
            share = state.assignable(member.member_id)
            if share and state.unassigned:
                state.give(member.member_id, list(state.unassigned)[:share], result)
    if racked:
        for partitions in result.values():
            partitions.sort(key=lambda tp: (java_order(tp[0]), tp[1]))
    return {member_id: tuple(result[member_id]) for member_id in hash_map_order(result, copies=1)}


class _TopicState:
    def __init__(self, name: str, count: int, consumers: Sequence[Member], problem: GroupProblem) -> None:
        self.name = name
        self.consumers = consumers
        self.unassigned = dict.fromkeys(range(count))
        self.per, self.extra = divmod(count, len(consumers)) if consumers else (0, 0)
        self.given: dict[str, int] = defaultdict(int)
        racks = {m.rack for m in consumers if m.rack}
        self.racks = partition_racks(problem.topics[name]) if racks else []
        self.needs_racks = bool(racks) and is_rack_aware(racks, self.racks)

    def assignable(self, member_id: str) -> int:
        return max(0, self.per + (1 if self.extra > 0 else 0) - self.given[member_id])

    def matches(self, member: Member, partition: int) -> bool:
        return not member.rack or member.rack in self.racks[partition]

    def give(self, member_id, partitions, result) -> None:
        result[member_id].extend((self.name, partition) for partition in partitions)
        self.given[member_id] += len(partitions)
        if self.given[member_id] > self.per:
            self.extra -= 1
        for partition in partitions:
            del self.unassigned[partition]


def _assign_with_racks(states, result) -> None:
    groups = defaultdict(list)
    for state in states:
        groups[(frozenset((m.member_id, m.rack or None) for m in state.consumers), len(state.racks))].append(state)
    for (_, size), group in groups.items():
        if len(group) > 1:
            _co_partition(group, size, result)
        elif group[0].needs_racks:
            state = group[0]
            for member in state.consumers:
                share = state.assignable(member.member_id)
                fitting = [p for p in state.unassigned if state.matches(member, p)][:share]
                if fitting:
                    state.give(member.member_id, fitting, result)


def _co_partition(group, size, result) -> None:
    remaining = list(group[0].consumers)
    for partition in range(size):
        for member in remaining:
            if all(s.matches(member, partition) and s.assignable(member.member_id) > 0 for s in group):
                for state in group:
                    state.give(member.member_id, [partition], result)
                if not any(s.assignable(member.member_id) > 0 for s in group):
                    remaining.remove(member)
                break
        if not remaining:
            break
