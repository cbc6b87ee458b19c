"""The two sticky assignors, from a group problem to an assignment.

Source: ``AbstractStickyAssignor.assignPartitions``, ``StickyAssignor``, ``CooperativeStickyAssignor``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from assignors.algorithms.member_order import members_in_map_order
from assignors.algorithms.releases import ClientBehaviour, client_behaviour, parse_release
from assignors.algorithms.step_budget import StepBudget
from assignors.algorithms.sticky.claims import (
    COOPERATIVE_READER,
    STICKY_READER,
    MemberDataReader,
    first_differing_member,
    read_members,
    resolve_claims,
)
from assignors.algorithms.sticky.constrained import ConstrainedProblem, assign_constrained, constrained_orders, map_walk
from assignors.algorithms.sticky.cooperative import find_transfers, withhold
from assignors.algorithms.sticky.early_constrained import assign_early_constrained
from assignors.algorithms.sticky.early_general import state_early_general_problem
from assignors.algorithms.sticky.general import GeneralRebalance, Rebalance
from assignors.algorithms.sticky.general_problem import GeneralProblem, state_general_problem
from assignors.algorithms.sticky.irregular import IrregularRebalance
from assignors.algorithms.sticky.rack_info import RackInfo
from assignors.algorithms.sticky.small_groups import assign_small_group
from assignors.generation.subscriptions import distinct_subscriptions, existing_partition_counts
from assignors.java.ordering import DEFAULT_CAPACITY, filled_map, has_crowded_bucket, hash_map_order, put_all
from assignors.model import Assignment, GroupProblem, KafkaVersionError, TopicPartition

_rack = attrgetter("rack")


def assign_sticky(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    """Return the assignment of ``StickyAssignor``: balance first, then as few movements as possible.

    Previous assignments come from the members' user data; their ``owned`` claims are not used. The algorithm for equal subscriptions is
    in ``constrained``, the one for different subscriptions in ``general``.

    Order: members as in Kafka's result map; each member's kept partitions first.
    Source: ``StickyAssignor``, KIP-54, KIP-341. Differs from source: nothing known; a call that Kafka never finishes raises an error.

    Raises:
        NoResultError: Kafka never returns, or the budget ran out.
        KafkaAssignorError: Kafka throws: ``ArithmeticException`` without members, others on claims of partitions that do not exist or
            of topics that are no longer subscribed.
        KafkaVersionError: a release before 0.11.
    """
    assignment = assign_small_group(problem, client_behaviour(kafka_version), step_budget)
    if assignment is not None:
        return assignment
    if parse_release(kafka_version) < (0, 11):
        raise KafkaVersionError(f"sticky exists since Kafka 0.11, so not in {kafka_version}")
    solution = _solve(problem, STICKY_READER, kafka_version, step_budget)
    return solution.assignment(solution.partitions)


def assign_cooperative_sticky(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    """Return the assignment of ``CooperativeStickyAssignor``, without the partitions that must be revoked first.

    It is the algorithm of ``sticky`` on the members' ``owned`` claims. A partition that goes from one member to another is withheld in
    this rebalance: the old owner gives it up and rejoins, and the next rebalance hands it over.

    Source: ``CooperativeStickyAssignor``, KIP-429. Differs from source: as ``assign_sticky``.

    Raises:
        NoResultError: Kafka never returns, or the budget ran out.
        KafkaAssignorError: as ``assign_sticky``.
        KafkaVersionError: a release before 2.4.
    """
    if parse_release(kafka_version) < (2, 4):
        raise KafkaVersionError(f"cooperative-sticky exists since Kafka 2.4, so not in {kafka_version}")
    solution = _solve(problem, COOPERATIVE_READER, kafka_version, step_budget)
    return solution.assignment(solution.without_transfers())


@dataclass(slots=True)  # frozen=True would take a twentieth of the time of a small group
class _Solution:
    """A sticky result before partitions are withheld.

    Attributes:
        member_ids: the members in map order.
        partitions: each member's partitions.
        without_transfers: returns these without partitions that were taken from one member for another.
        result_order: the member ids in the order of Kafka's result.
    """

    member_ids: Sequence[str]
    partitions: Sequence[Sequence[TopicPartition]]
    without_transfers: Callable[[], Sequence[Sequence[TopicPartition]]]
    result_order: Sequence[str]

    def assignment(self, partitions: Iterable[Sequence[TopicPartition]]) -> Assignment:
        """Return the partitions by member id in result order."""
        by_id = dict(zip(self.member_ids, map(tuple, partitions), strict=True))
        return by_id if self.result_order is self.member_ids else {member_id: by_id[member_id] for member_id in self.result_order}


def _solve(problem: GroupProblem, reader: MemberDataReader, kafka_version: str | None, step_budget: int | None) -> _Solution:
    """Return the result of the algorithm for the subscriptions and the release."""
    behaviour = client_behaviour(kafka_version)
    members, is_stable = members_in_map_order(problem)
    member_ids = [member.member_id for member in members]
    counts = existing_partition_counts(problem)
    budget = StepBudget(step_budget)
    budget.spend(sum(counts.values()))
    has_racks = behaviour.is_rack_aware and any(map(_rack, members))
    racks = RackInfo(members, {name: problem.topics[name] for name in counts} if has_racks else {})
    differing = first_differing_member(members) if behaviour.has_constrained_path else 0
    if differing is None:
        claims = resolve_claims(members, read_members(members, reader, behaviour), counts, behaviour)
        constrain = assign_constrained if behaviour.works_on_topics else assign_early_constrained
        walk, result_order = constrained_orders(member_ids, is_stable)
        constrained = constrain(ConstrainedProblem(member_ids, walk, counts, claims, racks, behaviour, budget))
        return _Solution(member_ids, *constrained, result_order)
    if behaviour.works_on_topics:
        data = read_members(members, reader, behaviour)
        walk = map_walk(member_ids, is_stable)
        general = state_general_problem(members, walk, data, counts, resolve_claims(members, data, counts, behaviour), racks)
    else:
        data = read_members(members, reader, behaviour, already_read=differing)
        subscriptions = distinct_subscriptions(members)
        names = hash_map_order(topic for subscription in subscriptions for topic in subscription)
        # The set of names has all subscribed topics, and the map filled from it has the existing ones: their tables differ in size.
        topics = hash_map_order(topic for topic in names if topic in counts)
        general = state_early_general_problem(members, data, {topic: counts[topic] for topic in topics}, behaviour)
    rebalance = (Rebalance if general.is_regular() else IrregularRebalance)(general, racks, behaviour, budget, member_ids)
    partitions = rebalance.solve()
    return _Solution(
        member_ids,
        partitions,
        lambda: withhold(partitions, find_transfers(members, partitions)),
        _general_result_order(member_ids, is_stable, general, rebalance, behaviour),
    )


def _general_result_order(
    member_ids: Sequence[str], is_stable: bool, general: GeneralProblem, rebalance: GeneralRebalance[Any], behaviour: ClientBehaviour
) -> Sequence[str]:
    """Return the order of a map filled from another one, from which the fixed members were removed and added again at the end."""
    if is_stable and behaviour.works_on_topics and not rebalance.fixed_members:
        return member_ids
    walk = [member_ids[number] for number in general.walk]
    fixed = {member_ids[number] for number in rebalance.fixed_members}
    returning = [member_id for member_id in member_ids if member_id in fixed]
    final = [member_id for member_id in walk if member_id not in fixed] + returning
    # Kafka's map never has the final order while it is small. So a bucket that is crowded only then is not crowded in Kafka. But the map
    # of those that return is smaller than that of all, and may have one that is.
    if not any(map(has_crowded_bucket, (member_ids, walk, returning, final))):
        return hash_map_order(final)
    # Trees: keys that are removed and added again change the order.
    current = filled_map(map(member_ids.__getitem__, general.claimants), map(member_ids.__getitem__, general.returning), member_ids)
    capacity = 1 << (len(member_ids) - 1).bit_length() if behaviour.works_on_topics else DEFAULT_CAPACITY
    leaving = [member_id for member_id in hash_map_order(member_ids, initial_capacity=capacity) if member_id in fixed]
    for member_id in leaving:
        current.remove(member_id)
    if rebalance.is_reverted:
        before = hash_map_order(current.keys())
        current.clear()
        put_all(current, before)
    put_all(current, hash_map_order(leaving))
    return hash_map_order(current.keys())
