"""The sticky algorithm for different subscriptions: keep valid claims, assign the rest, then balance move by move.

Source: ``AbstractStickyAssignor.GeneralAssignmentBuilder``, Kafka 3.0 and later (KAFKA-12675, KIP-881, KAFKA-15106).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import heapify, heappush, heapreplace
from itertools import accumulate, groupby
from typing import Any, Generic, TypeVar

from assignors.algorithms.releases import ClientBehaviour
from assignors.algorithms.step_budget import StepBudget
from assignors.algorithms.sticky.general_problem import GeneralProblem
from assignors.algorithms.sticky.movements import PartitionMovements
from assignors.algorithms.sticky.partitions import every_partition, picker, topic_of
from assignors.algorithms.sticky.rack_info import RackInfo
from assignors.model import NoResultError, TopicPartition

_SHOWN_MOVES = 6
_NOBODY = -1


Visits = TypeVar("Visits")
"""The partitions that one pass visits."""


class GeneralRebalance(ABC, Generic[Visits]):
    """The state of one general assignment: the steps that do not depend on how partitions are stored.

    Attributes:
        fixed_members: after ``solve``, the members that could not take part in moves.
        is_reverted: after ``solve``, whether all moves were undone, because they did not improve the balance.
    """

    def __init__(self, problem: GeneralProblem, racks: RackInfo, behaviour: ClientBehaviour, budget: StepBudget, member_ids: Sequence[str]):
        self._problem = problem
        self._racks = racks
        self._behaviour = behaviour
        self._budget = budget
        self._member_ids = member_ids
        self._movements = PartitionMovements()
        self._moves: list[tuple[TopicPartition, int, int]] = []
        self.fixed_members: set[int] = set()
        self.is_reverted = False

    def solve(self) -> list[list[TopicPartition]]:
        """Return each member's partitions.

        Raises:
            NoResultError: Kafka never returns, or the budget ran out.
            KafkaAssignorError: Kafka throws.
        """
        problem = self._problem
        is_initial = not any(problem.current)
        unplaced: Sequence[TopicPartition] = problem.unassigned
        if self._racks.is_active:
            unplaced = self._give_out(unplaced, in_rack=True)
        self._give_out(unplaced, in_rack=False)

        movable = {topic for topic, members in problem.subscribers.items() if len(members) >= 2}
        self.fixed_members = self._find_fixed_members(movable)
        before, score_before = self._save(), None if is_initial else self._score()
        moves_new_first = self._behaviour.balances_new_partitions_first and not problem.is_revocation_required
        if moves_new_first:
            self._reassign(self._visits(problem.unassigned, movable))
        # If all partitions are new, the last of these passes has moved none of them.
        if not (moves_new_first and len(problem.unassigned) == len(problem.every)):
            has_changed = self._reassign(self._visits(problem.every, movable))
            self.is_reverted = has_changed and score_before is not None and self._score() >= score_before
            if self.is_reverted:
                self._restore(before)
        return self._holdings()

    @abstractmethod
    def _give_out(self, partitions: Sequence[TopicPartition], *, in_rack: bool) -> Sequence[TopicPartition]:
        """Give each partition to its smallest subscriber, or to the smallest that shares a rack; return the partitions without one."""

    @abstractmethod
    def _find_fixed_members(self, movable: Collection[str]) -> set[int]:
        """Return the members that cannot get more partitions, and have none that another member could get."""

    @abstractmethod
    def _save(self) -> Any:
        """Return the state with which ``_restore`` undoes all later moves."""

    @abstractmethod
    def _restore(self, saved: Any) -> None:
        """Undo all moves since ``_save``."""

    @abstractmethod
    def _holdings(self) -> list[list[TopicPartition]]:
        """Return each member's partitions, in the order in which it got them."""

    @abstractmethod
    def _sizes_of_all(self) -> Sequence[int]:
        """Return the number of partitions of each member."""

    def _score(self) -> int:
        """Return Kafka's balance score, the sum of the size differences of all pairs, as a 32-bit number like in Java."""
        sizes = sorted([size for member, size in enumerate(self._sizes_of_all()) if member not in self.fixed_members])
        score = sum([size * (2 * rank - len(sizes) + 1) for rank, size in enumerate(sizes)])
        return (score + (1 << 31)) % (1 << 32) - (1 << 31)

    def _reassign(self, visits: Visits) -> bool:
        """Move partitions until a pass moves none; return whether any moved.

        Kafka has no limit of passes. A pass depends only on the state that is compared here, so a state that recurs will recur for
        ever. (Brent's algorithm: compare with one saved state, and save a new one after 1, 2, 4, ... passes.)
        """
        passes = 0
        while True:
            if passes & (passes - 1) == 0:
                remembered, remembered_pass = (self._owners_now(), self._movements.snapshot()), passes
                self._moves.clear()
            if not self._sweep(visits):
                return passes > 0
            passes += 1
            if remembered[0] == self._owners_now() and remembered[1] == self._movements.snapshot():
                raise NoResultError(self._describe_cycle(passes - remembered_pass), is_cycle=True)

    @abstractmethod
    def _visits(self, partitions: Sequence[TopicPartition], movable: Collection[str]) -> Visits:
        """Return the partitions of movable topics in the form that ``_sweep`` takes."""

    @abstractmethod
    def _sweep(self, visits: Visits) -> bool:
        """Make one pass over partitions; return whether any moved."""

    def _move(self, partition: TopicPartition, target: int) -> None:
        """Move the partition, or another of its topic that had moved the other way, to the target."""
        partition = self._movements.actual_partition(partition, self._owner_of(partition), target)
        owner = self._owner_of(partition)
        self._movements.record(partition, owner, target)
        self._moves.append((partition, owner, target))
        self._transfer(partition, owner, target)

    @abstractmethod
    def _owner_of(self, partition: TopicPartition) -> int:
        """Return the owner of the partition."""

    @abstractmethod
    def _transfer(self, partition: TopicPartition, owner: int, target: int) -> None:
        """Take the partition from its owner and give it to the target."""

    @abstractmethod
    def _owners_now(self) -> object:
        """Return the owners, for comparison: they and the movements decide what the next pass does."""

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


_Run = tuple[str, Sequence[int]]
"""A topic, and the indices of partitions that follow one another."""


class Rebalance(GeneralRebalance[list[_Run]]):
    """The state of one general assignment, for regular problems.

    Kafka tests the balance of the whole group before every partition, and finds a partition's new owner by a walk over all members. A
    regular problem needs neither. While any rule applies, the group is unbalanced. And the new owner is the topic's subscriber with the
    fewest partitions and then the lowest id. It is at the top of a heap that is built for one topic at a time.

    Who has a partition is in a list by place: partitions by topic, in the order of the topics, and number. What a member has, and in which
    order, is put together in the end.

    Complexity: O(passes * (p + s)) for p partitions and s subscriptions of a member to a topic, and O(log m) for each move.
    """

    def __init__(self, problem: GeneralProblem, racks: RackInfo, behaviour: ClientBehaviour, budget: StepBudget, member_ids: Sequence[str]):
        super().__init__(problem, racks, behaviour, budget, member_ids)
        counts = problem.partition_counts
        self._start_of = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))
        self._partitions = problem.every if problem.is_by_topic else list(every_partition(counts.items()))
        self._owners = [_NOBODY] * len(problem.every)
        for member, held in enumerate(problem.current):
            for topic, number in held:
                self._owners[self._start_of[topic] + number] = member
        self._placed: list[int] = []
        self._moved: dict[int, None] = {}  # in the order of the last move
        self._member_count = len(problem.current)
        self._by_rank = sorted(range(self._member_count), key=problem.ranks.__getitem__)
        # One number orders members by size, then by id.
        self._keys = [len(held) * self._member_count + rank for held, rank in zip(problem.current, problem.ranks, strict=True)]
        self._heap: list[int] = []
        # Topics with the same subscribers share one function that picks these members' keys: in C, in a third of the time of a loop.
        pick_keys: dict[tuple[int, ...], Callable[[list[int]], Sequence[int]]] = {}
        self._pick_keys = {
            topic: pick_keys.get(key := tuple(members)) or pick_keys.setdefault(key, picker(members))
            for topic, members in problem.subscribers.items()
        }

    def _index_of(self, partition: TopicPartition) -> int:
        return self._start_of[partition[0]] + partition[1]

    def _runs(self, partitions: Sequence[TopicPartition]) -> Iterator[_Run]:
        """Yield the places of partitions in their order, neighbours of one topic together."""
        counts = self._problem.partition_counts
        if partitions is self._partitions:
            for topic, start in self._start_of.items():
                yield topic, range(start, start + counts[topic])
            return
        for topic, of_topic in groupby(partitions, key=topic_of):
            start = self._start_of[topic]
            yield topic, [start + number for _, number in of_topic]

    def _give_out(self, partitions: Sequence[TopicPartition], *, in_rack: bool) -> Sequence[TopicPartition]:
        self._budget.spend(len(partitions))
        if not in_rack:
            self._give_out_anywhere(partitions)
            return ()
        rack_heaps: dict[tuple[str, frozenset[str]], list[list[int]]] = {}
        left = []
        for partition in partitions:
            where = partition[0], self._racks.racks_of(partition)
            if where not in rack_heaps:
                rack_heaps[where] = self._heaps_in_rack(*where)
            heaps = rack_heaps[where]
            if not heaps:
                left.append(partition)
                continue
            member = min(map(self._smallest, heaps), key=self._keys.__getitem__)
            index = self._index_of(partition)
            self._owners[index] = member
            self._keys[member] += self._member_count
            self._placed.append(index)
        return left

    def _give_out_anywhere(self, partitions: Sequence[TopicPartition]) -> None:
        """Give each partition to its smallest subscriber."""
        keys, step, by_rank, owners = self._keys, self._member_count, self._by_rank, self._owners
        last = None
        for topic, indices in self._runs(partitions):
            pick_keys = self._pick_keys[topic]
            if pick_keys is not last:
                heap = list(pick_keys(keys))
                heapify(heap)
                last = pick_keys
            for index in indices:
                key = heap[0]
                member = owners[index] = by_rank[key % step]
                key += step
                keys[member] = key
                heapreplace(heap, key)
            self._placed += indices

    def _heaps_in_rack(self, topic: str, racks: frozenset[str]) -> list[list[int]]:
        """Return heaps of the topic's subscribers in each of these racks, and of those without a rack."""
        heaps = []
        for rack in {None, *racks}:
            members = [member for member in self._problem.subscribers[topic] if self._racks.consumer_racks[member] == rack]
            if members:
                heaps.append(sorted(map(self._keys.__getitem__, members)))
        return heaps

    def _smallest(self, heap: list[int]) -> int:
        """Return the member with the fewest partitions, then the lowest id."""
        while True:
            key = heap[0]
            member = self._by_rank[key % self._member_count]
            if self._keys[member] == key:
                return member
            # The member has grown since; for one that has shrunk an entry was added.
            heapreplace(heap, self._keys[member])

    def _find_fixed_members(self, movable: Collection[str]) -> set[int]:
        counts = self._problem.partition_counts
        fixed = set(range(self._member_count))
        for topic in movable:
            start = self._start_of[topic]
            fixed.difference_update(self._owners[start : start + counts[topic]])
        return {member for member in fixed if self._keys[member] // self._member_count >= self._problem.max_size(member)}

    def _visits(self, partitions: Sequence[TopicPartition], movable: Collection[str]) -> list[_Run]:
        return [run for run in self._runs(partitions) if run[0] in movable]

    def _sweep(self, visits: list[_Run]) -> bool:
        self._budget.spend(sum([len(indices) for _, indices in visits]))
        keys, step = self._keys, self._member_count
        has_moved = False
        for topic, indices in visits:
            of_subscribers = self._pick_keys[topic](keys)
            # A present or previous owner is a subscriber. If none has two more than another, as in most topics, no partition moves.
            if max(of_subscribers) // step > min(of_subscribers) // step + 1:
                self._heap = sorted(of_subscribers)
                has_moved = self._even_out(indices) or has_moved
        return has_moved

    def _even_out(self, indices: Sequence[int]) -> bool:
        """Move partitions of a topic to members that have at least two fewer than their owners; return whether any moved."""
        keys, step, heap, owners, partitions = self._keys, self._member_count, self._heap, self._owners, self._partitions
        previous_owners = self._problem.previous_owners
        # The entry at the top may be too small, never too large.
        least_to_give = (heap[0] // step + 2) * step
        has_moved = False
        for index in indices:
            key = keys[owners[index]]
            if key < least_to_give and not previous_owners:
                continue
            target = previous_owners.get(partitions[index])
            if target is None or key // step < keys[target] // step + 2:
                if key < least_to_give:
                    continue
                target = self._smallest(heap)
                if key // step < keys[target] // step + 2:
                    continue
            self._move(partitions[index], target)
            least_to_give = (heap[0] // step + 2) * step
            has_moved = True
        return has_moved

    def _owner_of(self, partition: TopicPartition) -> int:
        return self._owners[self._index_of(partition)]

    def _transfer(self, partition: TopicPartition, owner: int, target: int) -> None:
        index = self._index_of(partition)
        self._owners[index] = target
        self._moved.pop(index, None)
        self._moved[index] = None
        self._keys[target] += self._member_count
        self._keys[owner] -= self._member_count
        heappush(self._heap, self._keys[owner])

    def _owners_now(self) -> list[int]:
        return list(self._owners)

    def _save(self) -> tuple[list[int], list[int]]:
        return list(self._owners), list(self._keys)

    def _restore(self, saved: tuple[list[int], list[int]]) -> None:
        self._owners, self._keys = saved
        self._moved.clear()

    def _sizes_of_all(self) -> Sequence[int]:
        return [key // self._member_count for key in self._keys]

    def _holdings(self) -> list[list[TopicPartition]]:
        partitions, moved = self._partitions, self._moved
        kept = list(self._owners)
        for index in moved:
            kept[index] = _NOBODY
        movers = {partitions[index] for index in moved}
        result = [[partition for partition in held if partition not in movers] if movers else list(held) for held in self._problem.current]
        result.append([])  # nobody's
        for index in self._placed:
            result[kept[index]].append(partitions[index])
        result.pop()
        for index in moved:
            result[self._owners[index]].append(partitions[index])
        return result
