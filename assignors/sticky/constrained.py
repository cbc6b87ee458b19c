"""The sticky algorithm for equal subscriptions: keep up to a quota, then deal out the rest in turn.

Source: ``AbstractStickyAssignor.ConstrainedAssignmentBuilder``, Kafka 3.0 and later (KAFKA-12464, KIP-881, KAFKA-15170, KAFKA-16277).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from assignors.budget import StepBudget
from assignors.model import KafkaAssignorError, TopicPartition
from assignors.ordering import partition_order, ranks, sort_positions, sort_strings
from assignors.releases import ClientBehaviour
from assignors.sticky.claims import Claims
from assignors.sticky.partitions import every_partition, mark, unmarked, unmatched
from assignors.sticky.rack_info import RackInfo
from assignors.subscribers import freeze

_LARGEST_REMEMBERED_DEAL = 4096

_partition_number = itemgetter(1)


def assign_constrained(
    member_ids: Sequence[str],
    walk: Sequence[int],
    partition_counts: Mapping[str, int],
    claims: Claims,
    racks: RackInfo,
    behaviour: ClientBehaviour,
    budget: StepBudget,
) -> tuple[Sequence[Sequence[TopicPartition]], Callable[[], dict[TopicPartition, int]]]:
    """Return each member's partitions, equal subscriptions given, and a function: partition -> new owner for those taken from somebody.

    Only cooperation needs the second, so it is not looked for before it is asked for.

    Everybody gets the lower quota, total // members; total % members get one more. A member keeps its claims up to its quota: with
    fewer it keeps all; with the upper quota or more it keeps that many as long as members may have the upper quota, *in hash map
    order*; else it keeps the lower quota. What is then unassigned goes round the members below the lower quota by member id, then
    one each to those who wait at the lower quota.

    Worked example, cooperative: ``t1p0 t1p1 t2p0 t2p1``, three members, lower quota 1, one may have 2. ``consumer1`` owns t1p0 t2p0,
    ``consumer2`` t1p1 t2p1, ``consumer3`` nothing. The map order is consumer3, consumer2, consumer1, so it is consumer2 that
    keeps both; consumer1 keeps t1p0, and t2p0 goes to consumer3.

    Order: who keeps the upper quota: hash map order. What is kept: partition number, then topic. What is dealt out: topic, then
    partition, with racks first by how few members share one. To whom: member id.
    Complexity: O(p + m log m) for p partitions and m members, plus sorting claims that are not sorted already.

    Args:
        member_ids: the members by number.
        walk: the member numbers in the order in which Kafka looks at the claims.
        partition_counts: existing topics.
        claims: by member number.
        racks: by member number.
        behaviour: what the release does.
        budget: pays for looks at racks; dealing itself is linear.

    Raises:
        NoResultError: the budget ran out.
        KafkaAssignorError: ``ArithmeticException`` without members; ``IllegalStateException`` where a claimed partition number that
            does not exist spoils Kafka's count.
    """
    if not member_ids:
        raise KafkaAssignorError("ArithmeticException", "a group without members has no quota")
    if not (racks.is_active or claims.contested or any(claims.owned)):
        return _assign_afresh(member_ids, partition_counts), dict
    assignment = _ConstrainedAssignment(member_ids, walk, partition_counts, claims, racks, behaviour, budget)
    return assignment.solve(), assignment.find_transfers


def _assign_afresh(member_ids: Sequence[str], partition_counts: Mapping[str, int]) -> list[Sequence[TopicPartition]]:
    """Return the assignment of a group in which nobody keeps anything: every n-th partition to the n-th member."""
    topics = tuple([(topic, partition_counts[topic]) for topic in sort_strings(partition_counts)])
    is_small = sum(partition_counts.values()) <= _LARGEST_REMEMBERED_DEAL
    hands = (_remembered_hands if is_small else _hands)(topics, len(member_ids))
    partitions: list[Sequence[TopicPartition]] = [()] * len(member_ids)
    for member, hand in zip(sort_positions(member_ids), hands, strict=True):
        partitions[member] = hand
    return partitions


def _hands(topics: tuple[tuple[str, int], ...], hand_count: int) -> list[tuple[TopicPartition, ...]]:
    every = list(every_partition(topics))
    return [tuple(every[place::hand_count]) for place in range(hand_count)]


_remembered_hands = lru_cache(maxsize=64)(_hands)  # the groups of a cluster read the same topics; at most some 30 MB


class _ConstrainedAssignment:
    """One constrained assignment in the making."""

    def __init__(
        self,
        member_ids: Sequence[str],
        walk: Sequence[int],
        partition_counts: Mapping[str, int],
        claims: Claims,
        racks: RackInfo,
        behaviour: ClientBehaviour,
        budget: StepBudget,
    ) -> None:
        self._member_ids = member_ids
        self._walk = walk
        self._counts = partition_counts
        self._claims = claims
        self._racks = racks
        self._behaviour = behaviour
        self._budget = budget
        # Members that get more than the lower quota, zero when all get the same.
        self._lower, self._expected_above = divmod(sum(partition_counts.values()), len(member_ids))
        self._upper = self._lower + (self._expected_above > 0)
        self._above = 0
        self._under: list[int] = []
        self._exact: list[int] = []
        self._revoked: dict[TopicPartition, int] = {}
        self._partitions: list[list[TopicPartition]] = [[] for _ in member_ids]
        self._dealt_from: list[int] = []

    def solve(self) -> Sequence[Sequence[TopicPartition]]:
        """Return each member's partitions, the kept ones first."""
        self._keep_claims()
        unassigned = self._unassigned()
        rank = ranks(self._member_ids)
        self._under.sort(key=rank.__getitem__)
        self._exact.sort(key=rank.__getitem__)
        self._dealt_from = list(map(len, self._partitions))
        if self._racks.is_active:
            unassigned.sort(key=self._racks.consumers_per_partition.__getitem__)
            unassigned = self._deal_by_rack(unassigned)
        self._deal(unassigned)
        self._check()
        return freeze(self._partitions)

    def _keep_claims(self) -> None:
        """Let everybody keep claims up to its quota; remember what was taken from whom."""
        key = partition_order(self._counts)
        sorts = self._behaviour.sorts_owned_partitions
        racks = self._racks if self._racks.is_active else None
        claimed, contested = self._claims.owned, self._claims.contested
        lower, upper, expected = self._lower, self._upper, self._expected_above
        revoked = self._revoked
        for member in self._walk:
            kept = owned = claimed[member]
            if racks is not None:
                kept = [partition for partition in owned if not racks.is_mismatch(member, partition)]
                if sorts and len(kept) < len(owned):
                    revoked.update((partition, member) for partition in owned if racks.is_mismatch(member, partition))
            kept = sorted(kept, key=key) if sorts else list(kept)
            if sorts:
                kept.sort(key=_partition_number)
            if contested:
                kept = [partition for partition in kept if partition not in contested]
            size = len(kept)
            if size < lower:
                quota = size
                self._under.append(member)
            elif size >= upper and self._above < expected:
                quota = upper
                self._above += 1
                if self._above == expected:
                    self._exact.clear()
            else:
                quota = lower
                if self._above < expected:
                    self._exact.append(member)
            self._partitions[member] = kept
            if quota < size:
                for partition in kept[quota:]:
                    revoked[partition] = member
                del kept[quota:]

    def _unassigned(self) -> list[TopicPartition]:
        """Return what nobody kept, by topic and number, as Kafka finds it."""
        topics = sort_strings(self._counts)
        if self._claims.marks is None or self._racks.is_active:
            marks = mark(self._partitions, self._counts)
        else:
            marks = self._claims.marks
            for topic, number in self._revoked:
                marks[topic][number] = 0
        if marks is not None:
            return unmarked(marks, topics)
        kept = sorted(chain.from_iterable(self._partitions), key=partition_order(self._counts))
        return unmatched(every_partition((topic, self._counts[topic]) for topic in topics), kept)

    def _deal_by_rack(self, unassigned: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Deal out partitions to members that share a rack with them; return the others."""
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
        racks = self._racks.partition_racks[partition]
        if not racks:
            return None
        held = self._racks.consumer_racks
        for looks, position in enumerate(chain(range(start, len(members)), range(start)), start=1):
            if held[members[position]] in racks:
                self._budget.spend(looks)
                return position
        self._budget.spend(len(members))
        return None

    def _deal(self, unassigned: Sequence[TopicPartition]) -> None:
        """Deal out partitions in turn: below the lower quota first, then one each to those who wait at it."""
        at = 0
        while self._under and at < len(unassigned):
            under = self._under
            # As long as nobody leaves the circle, each member's share is every n-th partition.
            rounds = min(self._lower - len(self._partitions[member]) for member in under)
            end = min(at + rounds * len(under), len(unassigned))
            for offset, member in enumerate(under, start=at):
                self._partitions[member] += unassigned[offset : end : len(under)]
            at = end
            self._exact += [member for member in under if len(self._partitions[member]) == self._lower]
            self._under = [member for member in under if len(self._partitions[member]) < self._lower]
        if len(unassigned) - at > len(self._exact):
            raise KafkaAssignorError("IllegalStateException", "No more unfilled consumers to be assigned.")
        for member, partition in zip(self._exact, unassigned[at:], strict=False):
            self._partitions[member].append(partition)

    def _check(self) -> None:
        """Fail as Kafka fails when somebody is left below the lower quota."""
        if self._under:
            raise KafkaAssignorError("IllegalStateException", "no more partitions for members that have not reached the lower quota")

    def find_transfers(self) -> dict[TopicPartition, int]:
        """Return which of the newly dealt partitions were taken from, or are contested by, somebody else."""
        contested, revoked = self._claims.contested, self._revoked
        if not revoked and not contested:
            return {}
        keeps_track = self._behaviour.sorts_owned_partitions
        return {
            partition: member
            for member, (partitions, start) in enumerate(zip(self._partitions, self._dealt_from, strict=True))
            for partition in partitions[start:]
            if partition in contested or (partition in revoked and not (keeps_track and revoked[partition] == member))
        }
