"""The sticky algorithm for differing subscriptions: keep what is valid, place the rest, then even out move by move.

Source: ``AbstractStickyAssignor.GeneralAssignmentBuilder``, Kafka 3.0 and later (KAFKA-12675, KIP-881, KAFKA-15106).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence, Sized
from heapq import heapify, heappush, heapreplace
from itertools import groupby
from typing import Generic, TypeVar

from assignors.budget import StepBudget
from assignors.model import NoResultError, TopicPartition
from assignors.releases import ClientBehaviour
from assignors.sticky.general_problem import GeneralProblem
from assignors.sticky.movements import PartitionMovements
from assignors.sticky.partitions import topic_of
from assignors.sticky.rack_info import RackInfo

_SHOWN_MOVES = 6

Held = TypeVar("Held", bound=Collection[TopicPartition])
"""What a member's partitions are kept in."""


class GeneralRebalance(ABC, Generic[Held]):
    """One general assignment in the making: what is done for any problem, whatever a member's partitions are kept in.

    Attributes:
        fixed_members: after ``solve``, the members that could not take part in moves.
        is_reverted: after ``solve``, whether all moves were taken back, as they had made nothing more even.
    """

    def __init__(self, problem: GeneralProblem, racks: RackInfo, behaviour: ClientBehaviour, budget: StepBudget, member_ids: Sequence[str]):
        self._problem = problem
        self._racks = racks
        self._behaviour = behaviour
        self._budget = budget
        self._member_ids = member_ids
        self._movements = PartitionMovements()
        self._moves: list[tuple[TopicPartition, int, int]] = []
        self._owners = problem.owners
        self._current: list[Held] = self._holdings(problem.current)
        self.fixed_members: set[int] = set()
        self.is_reverted = False

    def solve(self) -> list[list[TopicPartition]]:
        """Return each member's partitions.

        Raises:
            NoResultError: Kafka never returns, or the budget ran out.
            KafkaAssignorError: Kafka throws.
        """
        problem = self._problem
        is_initial = not any(self._current)
        self._prepare()
        unplaced = problem.unassigned
        if self._racks.is_active:
            unplaced = self._place(unplaced, in_rack=True)
        self._place(unplaced, in_rack=False)

        movable = {topic for topic, members in problem.subscribers.items() if len(members) >= 2}
        self.fixed_members = {member for member in range(len(self._current)) if not self._can_participate(member, movable)}
        before = [] if is_initial else self._holdings(self._current)
        if self._behaviour.balances_new_partitions_first and not problem.is_revocation_required:
            self._reassign(_by_topic(problem.unassigned, movable))
        has_changed = self._reassign(_by_topic(problem.every, movable))
        self.is_reverted = has_changed and not is_initial and self._score(self._current) >= self._score(before)
        if self.is_reverted:
            self._current = before
        return [list(held) for held in self._current]

    @abstractmethod
    def _holdings(self, partitions: Iterable[Iterable[TopicPartition]]) -> list[Held]:
        """Return a copy of each member's partitions."""

    @abstractmethod
    def _prepare(self) -> None:
        """Set up what placing and moving need, before anything is placed."""

    @abstractmethod
    def _place(self, partitions: Sequence[TopicPartition], *, in_rack: bool) -> list[TopicPartition]:
        """Give each partition to its smallest subscriber, or to the smallest that shares a rack; return those without one."""

    def _can_participate(self, member: int, movable: Collection[str]) -> bool:
        """Return whether the member could get more, or holds something that somebody else could get."""
        held = self._current[member]
        return len(held) < self._problem.max_sizes[member] or any(topic in movable for topic, _ in held)

    def _score(self, holdings: Sequence[Sized]) -> int:
        """Return Kafka's balance score, the sum of all pairs' differences in size, as the 32-bit number that it is in Java."""
        sizes = sorted(len(held) for member, held in enumerate(holdings) if member not in self.fixed_members)
        score = sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))
        return (score + (1 << 31)) % (1 << 32) - (1 << 31)

    def _reassign(self, partitions: Sequence[list[TopicPartition]]) -> bool:
        """Move partitions, given by topic, until a pass over them moves none; return whether any moved.

        Kafka has no limit on passes. A pass depends on nothing but the state compared here, so a state that returns returns for
        ever (Brent's algorithm: compare with one remembered state, and remember a new one after 1, 2, 4, ... passes).
        """
        state = self._state()
        passes = 0
        while True:
            if passes & (passes - 1) == 0:
                remembered, remembered_pass = state, passes
                self._moves.clear()
            if not self._sweep(partitions):
                return passes > 0
            passes += 1
            state = self._state()
            if state == remembered:
                raise NoResultError(self._describe_cycle(passes - remembered_pass), is_cycle=True)

    @abstractmethod
    def _sweep(self, partitions: Sequence[list[TopicPartition]]) -> bool:
        """Make one pass over the partitions, given by topic; return whether any moved."""

    def _move(self, partition: TopicPartition, target: int) -> None:
        """Send the partition, or another of its topic that had come the other way, to the target."""
        partition = self._movements.actual_partition(partition, self._owners[partition], target)
        owner = self._owners[partition]
        self._movements.record(partition, owner, target)
        self._moves.append((partition, owner, target))
        self._owners[partition] = target
        self._transfer(partition, owner, target)

    @abstractmethod
    def _transfer(self, partition: TopicPartition, owner: int, target: int) -> None:
        """Take the partition from its owner and give it to the target."""

    def _state(self) -> tuple[object, ...]:
        """Return all that decides what the next pass does, for comparison."""
        return dict(self._owners), self._movements.snapshot()

    def _describe_cycle(self, passes: int) -> str:
        shown = ", ".join(
            f"{topic}-{number} from {self._member_ids[owner]} to {self._member_ids[target]}"
            for (topic, number), owner, target in self._moves[:_SHOWN_MOVES]
        )
        more = f" and {len(self._moves) - _SHOWN_MOVES} more" if len(self._moves) > _SHOWN_MOVES else ""
        return (
            f"Kafka's general sticky assignor never returns on this input: {passes} {'pass' if passes == 1 else 'passes'} over the "
            f"partitions lead back to the same owners and movement records, with the moves {shown}{more} repeating for ever"
        )


def _by_topic(partitions: Iterable[TopicPartition], topics: Collection[str]) -> list[list[TopicPartition]]:
    """Return the partitions of these topics in their order, neighbours of one topic together."""
    return [list(of_topic) for topic, of_topic in groupby(partitions, key=topic_of) if topic in topics]


class Rebalance(GeneralRebalance[dict[TopicPartition, None]]):
    """One general assignment in the making, for regular problems.

    Kafka tests the balance of the whole group before every single partition, and finds a partition's new owner by walking all
    members. For a regular problem neither is needed: while any rule can fire the group is unbalanced, and the new owner is the
    topic's subscriber with the fewest partitions and then the lowest id. Topics with the same subscribers share a heap of them,
    in which an entry is corrected when it comes to the top.

    Complexity: O(passes * p) looks, and O(log m) for each move and each subscriber list of the mover. Passes are few, or endless.
    """

    def _holdings(self, partitions: Iterable[Iterable[TopicPartition]]) -> list[dict[TopicPartition, None]]:
        """Return dictionaries, for their order and their quick removal."""
        return [dict.fromkeys(held) for held in partitions]

    def _prepare(self) -> None:
        """Set up the members of each topic by size, then id."""
        self._member_count = len(self._current)
        self._by_rank = sorted(range(self._member_count), key=self._problem.ranks.__getitem__)
        self._sizes = list(map(len, self._current))
        # One number orders members by size, then id.
        self._keys = [size * self._member_count + rank for size, rank in zip(self._sizes, self._problem.ranks, strict=True)]
        self._heaps: dict[tuple[int, ...], list[int]] = {}
        self._heap_of = {topic: self._heaps.setdefault(tuple(members), []) for topic, members in self._problem.subscribers.items()}
        self._heaps_of_member: list[list[list[int]]] = [[] for _ in self._current]
        for members, heap in self._heaps.items():
            self._fill(heap, members)
            for member in members:
                self._heaps_of_member[member].append(heap)

    def _smallest(self, heap: list[int]) -> int:
        """Return the member with the fewest partitions, then the lowest id."""
        while True:
            key = heap[0]
            member = self._by_rank[key % self._member_count]
            if self._keys[member] == key:
                return member
            # The member has grown since; where it has shrunk an entry was added.
            heapreplace(heap, self._keys[member])

    def _place(self, partitions: Sequence[TopicPartition], *, in_rack: bool) -> list[TopicPartition]:
        if not in_rack:
            self._place_anywhere(partitions)
            return []
        self._budget.spend(len(partitions))
        keys, sizes, step = self._keys, self._sizes, self._member_count
        rack_heaps: dict[tuple[str, frozenset[str]], list[list[int]]] = {}
        left = []
        for partition in partitions:
            racks = self._racks.racks_of(partition)
            if (partition[0], racks) not in rack_heaps:
                rack_heaps[partition[0], racks] = self._heaps_in_rack(partition)
            heaps = rack_heaps[partition[0], racks]
            if not heaps:
                left.append(partition)
                continue
            member = min(map(self._smallest, heaps), key=keys.__getitem__)
            self._current[member][partition] = None
            self._owners[partition] = member
            keys[member] += step
            sizes[member] += 1
        return left

    def _place_anywhere(self, partitions: Sequence[TopicPartition]) -> None:
        """Give each partition to its smallest subscriber."""
        self._budget.spend(len(partitions))
        keys, step, by_rank, current, owners = self._keys, self._member_count, self._by_rank, self._current, self._owners
        last = None
        for topic, group in groupby(partitions, key=topic_of):
            of_topic, heap = list(group), self._heap_of[topic]
            if heap is not last:
                self._fill(heap, self._problem.subscribers[topic])
                last = heap
            taken = [heapreplace(heap, heap[0] + step) for _ in of_topic]
            members = [by_rank[key % step] for key in taken]
            owners.update(zip(of_topic, members, strict=True))
            for partition, member, key in zip(of_topic, members, taken, strict=True):
                current[member][partition] = None
                keys[member] = key + step
        self._sizes = [key // step for key in keys]
        if last is not None:
            for subscribers, heap in self._heaps.items():
                self._fill(heap, subscribers)

    def _fill(self, heap: list[int], members: Sequence[int]) -> None:
        """Correct all entries of a heap at once; where most members have grown, that is quicker than one by one at the top."""
        heap[:] = map(self._keys.__getitem__, members)
        heapify(heap)

    def _heaps_in_rack(self, partition: TopicPartition) -> list[list[int]]:
        """Return heaps of the topic's subscribers that share a rack with the partition, or have none."""
        racks = {None, *self._racks.racks_of(partition)}
        heaps = []
        for rack in racks:
            members = [member for member in self._problem.subscribers[partition[0]] if self._racks.consumer_racks[member] == rack]
            if members:
                heaps.append(sorted(map(self._keys.__getitem__, members)))
        return heaps

    def _sweep(self, partitions: Sequence[list[TopicPartition]]) -> bool:
        self._budget.spend(sum(map(len, partitions)))
        sizes, owners, heap_of, previous_owners = self._sizes, self._owners, self._heap_of, self._problem.previous_owners
        has_moved = False
        for of_topic in partitions:
            topic = of_topic[0][0]
            heap = heap_of[topic]
            # An owner, present or previous, is a subscriber: where none has two more than another, which is so for most topics, none moves.
            if max(map(sizes.__getitem__, self._problem.subscribers[topic])) <= sizes[self._smallest(heap)] + 1:
                continue
            for partition in of_topic:
                size = sizes[owners[partition]]
                previous = previous_owners.get(partition) if previous_owners else None
                if previous is not None and size > sizes[previous] + 1:
                    self._move(partition, previous)
                    has_moved = True
                    continue
                # The entry at the top may be too small, never too large.
                if size > heap[0] // self._member_count + 1:
                    target = self._smallest(heap)
                    if size > sizes[target] + 1:
                        self._move(partition, target)
                        has_moved = True
        return has_moved

    def _transfer(self, partition: TopicPartition, owner: int, target: int) -> None:
        del self._current[owner][partition]
        self._current[target][partition] = None
        for member, step in ((target, 1), (owner, -1)):
            self._sizes[member] += step
            self._keys[member] += step * self._member_count
        for heap in self._heaps_of_member[owner]:
            heappush(heap, self._keys[owner])
