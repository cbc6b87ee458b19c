"""The general sticky algorithm exactly as in Kafka, for problems that show its anomalies.

Claims of partitions that no longer exist, topics listed twice and previous owners that are no longer subscribed make Kafka assign
twice, assign to unknown members, stop early, or throw. All this is reproduced here, with Kafka's complexity.

Source: ``AbstractStickyAssignor.GeneralAssignmentBuilder``, all releases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from assignors.algorithms.releases import ClientBehaviour
from assignors.algorithms.step_budget import StepBudget
from assignors.algorithms.sticky.general import GeneralRebalance
from assignors.algorithms.sticky.general_problem import GeneralProblem, claimants
from assignors.algorithms.sticky.partitions import every_partition
from assignors.algorithms.sticky.rack_info import RackInfo
from assignors.model import KafkaAssignorError, TopicPartition


class IrregularRebalance(GeneralRebalance[list[TopicPartition]]):
    """The state of one general assignment, for any problem.

    Differs from ``Rebalance``: partitions are in lists, because a partition can be held twice; balance is tested before every
    partition; a fixed member has no assignment any more, and reading it raises a NullPointerException.
    Complexity: O(p * (p + m log m)) per pass.
    """

    def __init__(self, problem: GeneralProblem, racks: RackInfo, behaviour: ClientBehaviour, budget: StepBudget, member_ids: Sequence[str]):
        super().__init__(problem, racks, behaviour, budget, member_ids)
        self._current = [list(held) for held in problem.current]
        self._owners = claimants(problem.current) if problem.owners is None else problem.owners
        self._max_sizes = list(map(problem.max_size, range(len(problem.current))))

    def _find_fixed_members(self, movable: Collection[str]) -> set[int]:
        return {
            member
            for member, held in enumerate(self._current)
            if len(held) >= self._max_sizes[member] and not any(topic in movable for topic, _ in held)
        }

    def _save(self) -> list[list[TopicPartition]]:
        return [list(held) for held in self._current]

    def _restore(self, saved: list[list[TopicPartition]]) -> None:
        self._current = saved

    def _holdings(self) -> list[list[TopicPartition]]:
        return self._current

    def _sizes_of_all(self) -> Sequence[int]:
        return list(map(len, self._current))

    @property
    def _map_order(self) -> list[int]:
        """Return the members that are not fixed, in the order of Kafka's map of assignments."""
        return [member for member in self._problem.walk if member not in self.fixed_members]

    def _give_out(self, partitions: Sequence[TopicPartition], *, in_rack: bool) -> list[TopicPartition]:
        left = []
        for partition in partitions:
            candidates = self._problem.subscribers[partition[0]]
            self._budget.spend(len(candidates) + 1)
            if in_rack:
                candidates = [member for member in candidates if not self._racks.is_mismatch(member, partition)]
            if not candidates:
                left.append(partition)
                continue
            member = min(candidates, key=self._order)
            self._current[member].append(partition)
            self._owners[partition] = member
        return left

    def _order(self, member: int) -> tuple[int, int]:
        return len(self._current[member]), self._problem.ranks[member]

    def _size(self, member: int | None) -> int:
        """Return the size of a member's assignment.

        Raises:
            KafkaAssignorError: the partition has no owner, or the member was removed as fixed.
        """
        if member is None or member in self.fixed_members:
            raise KafkaAssignorError("NullPointerException", "a partition's owner, or a previous owner, has no current assignment")
        return len(self._current[member])

    def _visits(self, partitions: Sequence[TopicPartition], movable: Collection[str]) -> list[TopicPartition]:
        return [partition for partition in partitions if partition[0] in movable]

    def _sweep(self, visits: list[TopicPartition]) -> bool:
        previous_owners = self._problem.previous_owners
        has_moved = False
        for partition in visits:
            if self._is_balanced():
                break
            owner = self._owners.get(partition)
            previous = previous_owners.get(partition)
            if previous is not None and self._size(owner) > self._size(previous) + 1:
                self._move(partition, previous)
                has_moved = True
            elif self._has_smaller_subscriber(partition, owner):
                # Kafka's loop over all members leaves out the fixed ones.
                subscribers = [member for member in self._problem.subscribers[partition[0]] if member not in self.fixed_members]
                self._move(partition, min(subscribers, key=self._order))
                has_moved = True
        return has_moved

    def _has_smaller_subscriber(self, partition: TopicPartition, owner: int | None) -> bool:
        subscribers = self._problem.subscribers[partition[0]]
        self._budget.spend(len(subscribers))
        racks = self._racks.racks_of(partition)
        if racks and owner is not None and self._racks.consumer_racks[owner] in racks:
            # To check the own rack first cannot change the result, but it can avoid an exception.
            nearby = (member for member in subscribers if self._racks.consumer_racks[member] in racks)
            if any(self._size(owner) > self._size(member) + 1 for member in nearby):
                return True
        return any(self._size(owner) > self._size(member) + 1 for member in subscribers)

    def _is_balanced(self) -> bool:
        """Return whether the group is balanced for Kafka."""
        order = sorted((member for member in range(len(self._current)) if member not in self.fixed_members), key=self._order)
        self._budget.spend(len(order))
        if not order:
            raise KafkaAssignorError("NoSuchElementException", "all members are fixed, and a partition is still to be moved")
        if len(self._current[order[0]]) >= len(self._current[order[-1]]) - 1:
            return True
        # Of two owners of one partition the later one in map order counts.
        holders = {partition: member for member in self._map_order for partition in self._current[member]}
        gain = 1 if self._behaviour.needs_a_gain_of_two else 0
        for member in order:
            held = self._current[member]
            if len(held) == self._max_sizes[member]:
                continue
            lacked = self._lacked_partitions(member, set(held))
            if any(len(held) + gain < self._size(holders.get(partition)) for partition in lacked):
                return False
        return True

    def _lacked_partitions(self, member: int, held: Collection[TopicPartition]) -> Iterable[TopicPartition]:
        counts = self._problem.partition_counts
        for partition in every_partition((topic, counts[topic]) for topic in self._problem.subscribed[member]):
            self._budget.spend(1)
            if partition not in held:
                yield partition

    def _owner_of(self, partition: TopicPartition) -> int:
        return self._owners[partition]

    def _transfer(self, partition: TopicPartition, owner: int, target: int) -> None:
        self._owners[partition] = target
        self._size(owner)
        self._size(target)
        if partition in self._current[owner]:
            self._current[owner].remove(partition)
        self._current[target].append(partition)

    def _owners_now(self) -> tuple[object, ...]:
        return dict(self._owners), [sorted(held) for held in self._current]
