"""One generation of a group as audits compare it: its problem, its assignment and its owners."""

from __future__ import annotations

from dataclasses import dataclass

from assignors.generation.subscriptions import existing_partition_counts
from assignors.model import AssignmentMapping, GroupProblem, Member

STREAMS = "stream"
"""The strategy of Kafka Streams applications (``StreamsPartitionAssignor``). It assigns tasks, which are sets of partitions."""

COOPERATIVE = frozenset({"cooperative-sticky", STREAMS})
"""The strategies with which members keep their partitions during a rebalance (KIP-429). Kafka Streams is one since 2.4; with
``upgrade.from`` below 2.4 it is eager. Then its members claim nothing, so that nothing is withheld for them."""

SERVER_SIDE = frozenset({"uniform", "server-range"})
"""The strategies that brokers run for groups of the consumer protocol (KIP-848)."""

WITHOUT_CLAIMS = frozenset({"range", "roundrobin", "legacy-range", "legacy-roundrobin"})
"""The strategies that do not read claims."""

Owner = tuple[bool, str]
"""The identity of an owner across generations: ``(True, group_instance_id)`` or ``(False, member_id)``."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The problem and the assignment of one generation of a group.

    Attributes:
        generation: the generation id or group epoch.
        strategy: the assignor's name.
        problem: the members in record order with their subscriptions and claims, and the topics they subscribe to.
        assignment: member id -> its partitions.
    """

    generation: int
    strategy: str
    problem: GroupProblem
    assignment: AssignmentMapping


def owner_of(member: Member) -> Owner:
    """Return the identity of a member across generations: its instance id if it is static (KIP-345), else its member id."""
    if member.group_instance_id is not None:
        return (True, member.group_instance_id)
    return (False, member.member_id)


def is_follow_up(previous: Generation, current: Generation) -> bool:
    """Return whether a generation is a follow-up: it only finishes the rebalance of the previous, cooperative one.

    That is so if a member did not get back a partition that it had claimed, which makes its consumer rejoin (KIP-429), and if nothing
    else changed: member ids, instance ids, subscriptions, partition counts, strategy.
    """
    return (
        previous.strategy in COOPERATIVE
        and current.strategy == previous.strategy
        and any(_gave_up_a_claim(member, previous.assignment) for member in previous.problem.members)
        and _memberships(previous.problem) == _memberships(current.problem)
        and existing_partition_counts(previous.problem) == existing_partition_counts(current.problem)
    )


def _gave_up_a_claim(member: Member, assignment: AssignmentMapping) -> bool:
    return not set(member.owned).issubset(assignment.get(member.member_id, ()))


def _memberships(problem: GroupProblem) -> set[tuple[str, str | None, frozenset[str]]]:
    return {(member.member_id, member.group_instance_id, frozenset(member.topics)) for member in problem.members}
