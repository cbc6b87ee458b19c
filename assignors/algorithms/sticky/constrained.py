"""The sticky algorithm for equal subscriptions: members keep claims up to a quota, then get the rest in turn.

Source: ``AbstractStickyAssignor.ConstrainedAssignmentBuilder``, Kafka 3.0 and later (KAFKA-12464, KIP-881, KAFKA-15170, KAFKA-16277).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from assignors.algorithms.member_order import freeze
from assignors.algorithms.releases import ClientBehaviour
from assignors.algorithms.step_budget import StepBudget
from assignors.algorithms.sticky.claims import Claims
from assignors.algorithms.sticky.cooperative import withhold
from assignors.algorithms.sticky.partitions import by_number, deal_hands, every_partition, mark, unmarked, unmatched
from assignors.algorithms.sticky.rack_info import RackInfo
from assignors.java.ordering import hash_map_order, partition_order, ranks, sort_positions, sort_strings, table_capacity
from assignors.model import KafkaAssignorError, TopicPartition


class ConstrainedProblem(NamedTuple):
    """A group whose members all subscribe to the same topics.

    Attributes:
        member_ids: the members by number.
        walk: the member numbers in the order in which Kafka reads the claims.
        partition_counts: existing topics.
        claims: by member number.
        racks: by member number; releases before 3.5 know none.
        behaviour: behaviour of the release.
        budget: counts the steps with racks; the rest is linear.
    """

    member_ids: Sequence[str]
    walk: Sequence[int]
    partition_counts: Mapping[str, int]
    claims: Claims
    racks: RackInfo
    behaviour: ClientBehaviour
    budget: StepBudget


Constrained = tuple[Sequence[Sequence[TopicPartition]], Callable[[], Sequence[Sequence[TopicPartition]]]]
"""Each member's partitions, and a function that returns them without those taken from another member."""


def assign_constrained(problem: ConstrainedProblem) -> Constrained:
    """Return each member's partitions for equal subscriptions, and a function that returns them without those taken from other members.

    Only the cooperative assignor needs the second, so it is computed on demand.

    Every member gets the lower quota, total // members; total % members get one more. A member keeps its claims up to its quota. With
    fewer claims it keeps all. With the upper quota or more it keeps that many, while members may still have the upper quota, *in hash
    map order*; else it keeps the lower quota. The unassigned partitions go in turn to the members below the lower quota, by member id,
    then one each to those at the lower quota.

    Worked example, cooperative: ``t1p0 t1p1 t2p0 t2p1``, three members, lower quota 1, one may have 2. ``consumer1`` owns t1p0 t2p0,
    ``consumer2`` t1p1 t2p1, ``consumer3`` nothing. The map order is consumer3, consumer2, consumer1, so it is consumer2 that
    keeps both; consumer1 keeps t1p0, and t2p0 goes to consumer3.

    Order: members that keep the upper quota: hash map order. Kept partitions: partition number, then topic. Assigned partitions:
    topic, then partition; with racks first by how few members share a rack. Members that get them: member id.
    Complexity: O(p + m log m) for p partitions and m members, plus the sort of unsorted claims.

    Raises:
        NoResultError: the budget ran out.
        KafkaAssignorError: ``ArithmeticException`` without members; ``IllegalStateException`` if a claimed partition number that
            does not exist makes Kafka's count wrong.
    """
    if not problem.member_ids:
        raise KafkaAssignorError("ArithmeticException", "a group without members has no quota")
    if not (problem.racks.is_active or problem.claims.contested or any(problem.claims.owned)):
        partitions = _assign_afresh(problem.member_ids, problem.partition_counts)
        return partitions, lambda: partitions
    assignment = _ConstrainedAssignment(problem)
    return assignment.solve(), assignment.without_transfers


def constrained_orders(member_ids: Sequence[str], is_stable: bool) -> tuple[Sequence[int], Sequence[str]]:
    """Return the order in which claims are read, as member numbers, and the order of the result.

    The claims are in a map filled from the members' map. The result's map is filled from a map that was filled from a copy; a copy has a
    larger table for 12, 24, 48, ... members (JDK up to 18).
    """
    capacity = 1 << int(len(member_ids) / 0.75).bit_length()
    walk = map_walk(member_ids, is_stable)
    if is_stable:
        if capacity <= table_capacity(len(member_ids)):
            return walk, member_ids
        return walk, hash_map_order(hash_map_order(member_ids, initial_capacity=capacity))
    claimants = [member_ids[number] for number in walk]
    copied = hash_map_order(hash_map_order(claimants), initial_capacity=capacity)
    return walk, hash_map_order(copied)


def map_walk(member_ids: Sequence[str], is_stable: bool) -> Sequence[int]:
    """Return the member numbers in the order of a map filled from the members' map."""
    if is_stable:
        return range(len(member_ids))
    numbers = {member_id: number for number, member_id in enumerate(member_ids)}
    return [numbers[member_id] for member_id in hash_map_order(member_ids)]


def _assign_afresh(member_ids: Sequence[str], partition_counts: Mapping[str, int]) -> list[Sequence[TopicPartition]]:
    """Return the assignment of a group without kept claims: of n members, each gets every n-th partition."""
    # A list: to grow a tuple of two million partitions would take half as long as all the rest.
    every = list(every_partition((topic, partition_counts[topic]) for topic in sort_strings(partition_counts)))
    partitions: list[Sequence[TopicPartition]] = [()] * len(member_ids)
    for member, hand in zip(sort_positions(member_ids), deal_hands(every, len(member_ids)), strict=True):
        partitions[member] = hand
    return partitions


def fill_quotas(sizes: Sequence[int], lower: int, expected_above: int) -> tuple[list[tuple[int, int]], list[int], list[int], int]:
    """Return members that have to give up claims, members that may get partitions, and how many have more than the lower quota.

    Args:
        sizes: number of claims of each member, in the order in which Kafka reads them.
        lower: the lower quota.
        expected_above: number of members that get one more; 0 if all get the same.

    Returns:
        Members that claim more than they may keep, with the number they may keep; members below the lower quota; members at the lower
        quota that may get one more; the number of members above it.

    >>> fill_quotas([1, 5, 3, 2, 3], lower=2, expected_above=1)
    ([(1, 3), (2, 2), (4, 2)], [0], [], 1)
    """
    cuts: list[tuple[int, int]] = []
    under: list[int] = []
    exact: list[int] = []
    above = 0
    for member, size in enumerate(sizes):
        if size < lower:
            under.append(member)
        elif above == expected_above:
            if size > lower:
                cuts.append((member, lower))
        elif size == lower:
            exact.append(member)
        else:
            above += 1
            if above == expected_above:
                exact.clear()
            if size > lower + 1:
                cuts.append((member, lower + 1))
    return cuts, under, exact, above


def deal(partitions: list[Any], unassigned: Sequence[TopicPartition], under: Sequence[int], exact: Sequence[int], lower: int) -> None:
    """Give partitions in turn to members below the lower quota, then one each to members at it.

    Args:
        partitions: the partitions of each member, to which new ones are added; of the same type as ``unassigned``.
        unassigned: partitions to assign, in order.
        under: the members below the lower quota, by member id.
        exact: the members at the lower quota that may get one more, by member id.
        lower: the lower quota.

    Raises:
        KafkaAssignorError: a member stays below the lower quota, or a partition without an owner, as in Kafka.
    """
    if len(under) == 1 and len(partitions[under[0]]) + len(unassigned) == lower:
        partitions[under[0]] += unassigned  # a member has joined an even group
        return
    at = 0
    while under and at < len(unassigned):
        # While no member leaves the circle, each gets every n-th partition.
        rounds = min([lower - len(partitions[member]) for member in under])
        end = min(at + rounds * len(under), len(unassigned))
        for offset, member in enumerate(under, start=at):
            partitions[member] += unassigned[offset : end : len(under)]
        at = end
        exact = [*exact, *(member for member in under if len(partitions[member]) == lower)]
        under = [member for member in under if len(partitions[member]) < lower]
    if len(unassigned) - at > len(exact):
        raise KafkaAssignorError("IllegalStateException", "No more unfilled consumers to be assigned.")
    for member, index in zip(exact, range(at, len(unassigned)), strict=False):
        partitions[member] += unassigned[index : index + 1]
    if under:
        raise KafkaAssignorError("IllegalStateException", "no more partitions for members that have not reached the lower quota")


class _ConstrainedAssignment:
    """The state of one constrained assignment."""

    def __init__(self, problem: ConstrainedProblem) -> None:
        self._member_ids, self._walk, self._counts, self._claims, self._racks, self._behaviour, self._budget = problem
        # Number of members that get more than the lower quota; 0 if all get the same.
        self._lower, self._expected_above = divmod(sum(self._counts.values()), len(self._member_ids))
        self._upper = self._lower + (self._expected_above > 0)
        self._above = 0
        self._under: list[int] = []
        self._exact: list[int] = []
        self._revoked: dict[TopicPartition, int] = {}
        self._partitions: list[list[TopicPartition]] = [[] for _ in self._member_ids]
        self._frozen: list[tuple[TopicPartition, ...]] = []  # the final partitions, once solved
        self._dealt_from: list[int] = []
        # Partitions that nobody claimed; None if these alone do not show which partitions were taken from a member.
        self._unclaimed: list[TopicPartition] | None = None

    def solve(self) -> Sequence[Sequence[TopicPartition]]:
        """Return each member's partitions, the kept ones first."""
        self._keep_claims()
        unassigned = self._unassigned()
        rank = ranks(self._member_ids)
        self._under.sort(key=rank.__getitem__)
        self._exact.sort(key=rank.__getitem__)
        self._dealt_from = list(map(len, self._partitions))
        if self._racks.is_active:
            unassigned.sort(key=self._racks.consumers_near)
            unassigned = self._deal_by_rack(unassigned)
        deal(self._partitions, unassigned, self._under, self._exact, self._lower)
        self._frozen = freeze(self._partitions)
        return self._frozen

    def _keep_claims(self) -> None:
        """Let every member keep claims up to its quota; record the partitions taken from each."""
        key = partition_order(self._counts)
        sorts = self._behaviour.sorts_owned_partitions
        racks = self._racks if self._racks.is_active else None
        claimed, contested = self._claims.owned, self._claims.contested
        revoked = self._revoked
        for member in self._walk:
            kept = owned = claimed[member]
            if racks is not None:
                kept = racks.without_mismatches(member, owned)
                if sorts and len(kept) < len(owned):
                    revoked.update((partition, member) for partition in owned if racks.is_mismatch(member, partition))
            kept = sorted(kept, key=key) if sorts else list(kept)
            if sorts:
                kept.sort(key=by_number)
            if contested:
                kept = [partition for partition in kept if partition not in contested]
            self._partitions[member] = kept
        sizes = [len(self._partitions[member]) for member in self._walk]
        cuts, under, exact, self._above = fill_quotas(sizes, self._lower, self._expected_above)
        self._under = [self._walk[index] for index in under]
        self._exact = [self._walk[index] for index in exact]
        for index, quota in cuts:
            member = self._walk[index]
            for partition in self._partitions[member][quota:]:
                revoked[partition] = member
            del self._partitions[member][quota:]

    def _unassigned(self) -> list[TopicPartition]:
        """Return the partitions that nobody kept, by topic and number, as Kafka finds them."""
        topics = sort_strings(self._counts)
        has_racks = self._racks.is_active
        if self._claims.marks is None or (has_racks and not self._behaviour.sorts_owned_partitions):
            marks = mark(self._partitions, self._counts)
        else:
            # The record of revocations has all partitions that were claimed and not kept.
            marks = self._claims.marks
            self._unclaimed = None if has_racks else unmarked(marks, topics)
            for topic, number in self._revoked:
                marks[topic][number] = 0
        if marks is not None:
            return unmarked(marks, topics)
        kept = sorted(chain.from_iterable(self._partitions), key=partition_order(self._counts))
        return unmatched(every_partition((topic, self._counts[topic]) for topic in topics), kept)

    def _deal_by_rack(self, unassigned: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members that share a rack with them; return the others."""
        under, exact = self._under, self._exact
        counts_above = self._behaviour.sorts_owned_partitions
        left = []
        position = 0
        for partition in unassigned:
            if (found := self._next_in_rack(partition, under, position)) is not None:
                member = under[found]
                size = len(self._partitions[member]) + 1
                if size >= self._lower:
                    del under[found]
                    if size < self._upper and not (counts_above and self._above >= self._expected_above):
                        exact.append(member)
                else:
                    found += 1
                position = found % len(under) if under else 0
            elif (found := self._next_in_rack(partition, exact, 0)) is not None:
                member = exact[found]
                if len(self._partitions[member]) + 1 == self._upper:
                    del exact[found]
                    if counts_above:
                        self._above += 1
                        if self._above == self._expected_above:
                            exact.clear()
            else:
                left.append(partition)
                continue
            self._partitions[member].append(partition)
        return left

    def _next_in_rack(self, partition: TopicPartition, members: Sequence[int], start: int) -> int | None:
        racks = self._racks.racks_of(partition)
        if not racks:
            return None
        member_racks = self._racks.consumer_racks
        for examined, position in enumerate(chain(range(start, len(members)), range(start)), start=1):
            if member_racks[members[position]] in racks:
                self._budget.spend(examined)
                return position
        self._budget.spend(len(members))
        return None

    def without_transfers(self) -> Sequence[Sequence[TopicPartition]]:
        """Return each member's partitions without those that another member has to give up first."""
        if self._unclaimed is None:
            return withhold(self._frozen, self._find_transfers())
        # With sorted claims and no racks, no member gets back a partition that it gave up. All partitions that are given were taken from
        # another member, or nobody had them. To look up the second takes a tenth of the time if half the partitions move.
        is_unclaimed = set(self._unclaimed).__contains__
        return [
            held[:start] + tuple(filter(is_unclaimed, held[start:] if self._unclaimed else ()))
            for held, start in zip(self._frozen, self._dealt_from, strict=True)
        ]

    def _find_transfers(self) -> dict[TopicPartition, int]:
        """Return the newly given partitions that were taken from, or are contested by, another member."""
        contested, revoked = self._claims.contested, self._revoked
        if not revoked and not contested:
            return {}
        keeps_track = self._behaviour.sorts_owned_partitions
        return {
            partition: member
            for member, (partitions, start) in enumerate(zip(self._frozen, self._dealt_from, strict=True))
            for partition in partitions[start:]
            if partition in contested or (partition in revoked and not (keeps_track and revoked[partition] == member))
        }
