"""The sticky algorithm for differing subscriptions: keep what is valid, place the rest, then even out move by move.

Source: ``AbstractStickyAssignor.GeneralAssignmentBuilder``, Kafka 3.0 and later (KAFKA-12675, KIP-881, KAFKA-15106).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from heapq import heapify, heappush, heapreplace
from itertools import chain
from typing import Generic, TypeVar

from assignors.budget import StepBudget
from assignors.model import Member, NoResultError, TopicPartition
from assignors.ordering import order_key, ranks
from assignors.releases import ClientBehaviour
from assignors.sticky.claims import Claims, MemberData, stated
from assignors.sticky.movements import PartitionMovements
from assignors.sticky.partitions import every_partition, mark, unmarked, unmatched
from assignors.sticky.rack_info import RackInfo

_SHOWN_MOVES = 6

Held = TypeVar("Held", bound=Collection[TopicPartition])
"""What a member's partitions are kept in."""


@dataclass(slots=True)
class GeneralProblem:
    """What there is to balance; members by number, in map order.

    Attributes:
        walk: the member numbers in the order of Kafka's map of assignments.
        claimants: with whom that map is filled first, by ``computeIfAbsent``: the newest claimant of each partition in turn.
        returning: with whom it is filled next, by ``put``, before all others.
        ranks: each member's place by member id.
        partition_counts: existing topics.
        subscribers: topic -> its members, once for every time a member lists it.
        subscribed: for each member its existing topics in list order.
        max_sizes: for each member the most partitions it could have, as Kafka counts them.
        current: the claims that stand.
        owners: partition -> who claims it; a claim that was taken back leaves its entry.
        every: all partitions in the order in which they are looked at.
        unassigned: the partitions to place, in the order of ``every``.
        previous_owners: partition -> the member that had it in an older generation.
        is_revocation_required: a claim was taken back.
    """

    walk: Sequence[int]
    claimants: Sequence[int]
    returning: Sequence[int]
    ranks: list[int]
    partition_counts: Mapping[str, int]
    subscribers: dict[str, list[int]]
    subscribed: list[list[str]]
    max_sizes: list[int]
    current: list[list[TopicPartition]]
    owners: dict[TopicPartition, int]
    every: list[TopicPartition]
    unassigned: list[TopicPartition]
    previous_owners: dict[TopicPartition, int]
    is_revocation_required: bool

    def is_regular(self) -> bool:
        """Return whether Kafka's accidents cannot show, so that its result has a faster equivalent.

        Every partition is held or unassigned once, and held by its owner; no topic is listed twice; previous owners still subscribe.
        """
        kept_count = sum(map(len, self.current))
        return (
            kept_count + len(self.unassigned) == len(self.every) == len({*self.unassigned, *chain.from_iterable(self.current)})
            and all(self.owners[partition] == member for member, held in enumerate(self.current) for partition in held)
            and all(len(topics) == len(set(topics)) for topics in self.subscribed)
            and all(
                topic not in self.partition_counts or topic in self.subscribed[owner] for (topic, _), owner in self.previous_owners.items()
            )
        )


def state_general_problem(
    members: Sequence[Member],
    walk: Sequence[int],
    data: Sequence[MemberData],
    partition_counts: Mapping[str, int],
    claims: Claims,
    racks: RackInfo,
) -> GeneralProblem:
    """Return the problem as Kafka 3.0 and later states it."""
    subscribed = [[topic for topic in member.topics if topic in partition_counts] for member in members]
    subscribers: dict[str, list[int]] = {topic: [] for topic in partition_counts}
    for number, topics in enumerate(subscribed):
        for topic in topics:
            subscribers[topic].append(number)
    owners = {partition: number for number, owned in enumerate(claims.owned) for partition in owned}

    current = []
    is_revocation_required = False
    for number, owned in enumerate(claims.owned):
        subscription = set(subscribed[number])
        kept = [partition for partition in owned if partition[0] in subscription and not racks.is_mismatch(number, partition)]
        is_revocation_required = is_revocation_required or len(kept) < len(owned)
        current.append(kept)

    key = order_key(partition_counts)
    topic_keys = {topic: (len(subscribers[topic]), key(topic)) for topic in partition_counts}
    sorted_topics = sorted(partition_counts, key=topic_keys.__getitem__)
    every = list(every_partition((topic, partition_counts[topic]) for topic in sorted_topics))
    marks = mark(current, partition_counts)
    if marks is not None:
        unassigned = unmarked(marks, sorted_topics)
    else:
        kept = sorted(chain.from_iterable(current), key=lambda partition: (topic_keys[partition[0]], partition[1]))
        unassigned = unmatched(every, kept)
    return GeneralProblem(
        walk=walk,
        claimants=(),
        returning=(),
        ranks=ranks([member.member_id for member in members]),
        partition_counts=partition_counts,
        subscribers=subscribers,
        subscribed=subscribed,
        # A list as long as all existing topics counts as all of them, whatever is in it.
        max_sizes=[
            len(every) if len(topics) == len(partition_counts) else sum(map(partition_counts.__getitem__, topics)) for topics in subscribed
        ],
        current=current,
        owners=owners,
        every=every,
        unassigned=unassigned,
        previous_owners=_previous_owners(data),
        is_revocation_required=is_revocation_required,
    )


def _previous_owners(data: Sequence[MemberData]) -> dict[TopicPartition, int]:
    """Return who had a partition in an older generation; the newest of these, the first in map order of equal ones."""
    generations = [stated(generation) for _, generation in data]
    highest = max(generations)
    owners: dict[TopicPartition, int] = {}
    for number, ((claims, _), generation) in enumerate(zip(data, generations, strict=True)):
        if generation == highest:
            continue
        for partition in claims:
            if partition not in owners or generation > generations[owners[partition]]:
                owners[partition] = number
    return owners


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
        before = self._holdings(self._current)
        if self._behaviour.balances_new_partitions_first and not problem.is_revocation_required:
            self._reassign([partition for partition in problem.unassigned if partition[0] in movable])
        has_changed = self._reassign([partition for partition in problem.every if partition[0] in movable])
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

    def _reassign(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions until a pass over them moves none; return whether any moved.

        Kafka has no limit on passes. A pass depends on nothing but the state compared here, so a state that returns returns for
        ever (Brent's algorithm: compare with one remembered state, and remember a new one after 1, 2, 4, ... passes).
        """
        remembered = None
        passes = 0
        while True:
            if passes & (passes - 1) == 0:
                remembered = self._state()
                remembered_pass = passes
                self._moves.clear()
            if not self._sweep(partitions):
                return passes > 0
            passes += 1
            if self._state() == remembered:
                raise NoResultError(self._describe_cycle(passes - remembered_pass), is_cycle=True)

    @abstractmethod
    def _sweep(self, partitions: Sequence[TopicPartition]) -> bool:
        """Make one pass over the partitions; return whether any moved."""

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
        heaps: dict[tuple[int, ...], list[int]] = {}
        self._heap_of = {topic: heaps.setdefault(tuple(members), []) for topic, members in self._problem.subscribers.items()}
        self._heaps_of_member: list[list[list[int]]] = [[] for _ in self._current]
        for members, heap in heaps.items():
            heap += map(self._keys.__getitem__, members)
            heapify(heap)
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
        self._budget.spend(len(partitions))
        keys, sizes, step = self._keys, self._sizes, self._member_count
        rack_heaps: dict[tuple[str, frozenset[str]], list[list[int]]] = {}
        left = []
        for partition in partitions:
            if in_rack:
                racks = self._racks.racks_of(partition)
                if (partition[0], racks) not in rack_heaps:
                    rack_heaps[partition[0], racks] = self._heaps_in_rack(partition)
                heaps = rack_heaps[partition[0], racks]
                if not heaps:
                    left.append(partition)
                    continue
                member = min(map(self._smallest, heaps), key=keys.__getitem__)
            else:
                member = self._smallest(self._heap_of[partition[0]])
            self._current[member][partition] = None
            self._owners[partition] = member
            keys[member] += step
            sizes[member] += 1
        return left

    def _heaps_in_rack(self, partition: TopicPartition) -> list[list[int]]:
        """Return heaps of the topic's subscribers that share a rack with the partition, or have none."""
        racks = {None, *self._racks.racks_of(partition)}
        heaps = []
        for rack in racks:
            members = [member for member in self._problem.subscribers[partition[0]] if self._racks.consumer_racks[member] == rack]
            if members:
                heaps.append(sorted(map(self._keys.__getitem__, members)))
        return heaps

    def _sweep(self, partitions: Sequence[TopicPartition]) -> bool:
        self._budget.spend(len(partitions))
        sizes, owners, heap_of, previous_owners = self._sizes, self._owners, self._heap_of, self._problem.previous_owners
        has_moved = False
        for partition in partitions:
            size = sizes[owners[partition]]
            previous = previous_owners.get(partition)
            if previous is not None and size > sizes[previous] + 1:
                self._move(partition, previous)
                has_moved = True
                continue
            heap = heap_of[partition[0]]
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
