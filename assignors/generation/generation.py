"""One generation of a group as audits compare it: what was to be solved, what came out, and who its owners are."""

from __future__ import annotations

from dataclasses import dataclass

from assignors.generation.subscriptions import existing_partition_counts
from assignors.model import AssignmentMapping, GroupProblem, Member

STREAMS = "stream"
"""The strategy of every Kafka Streams application (``StreamsPartitionAssignor``): it deals out tasks, which are sets of partitions."""

COOPERATIVE = frozenset({"cooperative-sticky", STREAMS})
"""The strategies that let a member keep its partitions during a rebalance (KIP-429), Kafka Streams' since 2.4. With ``upgrade.from`` below
2.4 Streams is eager: then its members claim nothing, so that nothing is kept back for them."""

SERVER_SIDE = frozenset({"uniform", "server-range"})
"""The strategies that brokers run for groups of the consumer protocol (KIP-848)."""

WITHOUT_CLAIMS = frozenset({"range", "roundrobin", "legacy-range", "legacy-roundrobin"})
"""The strategies that do not look at what members claim."""

Owner = tuple[bool, str]
"""Who owns a partition across generations: ``(True, group_instance_id)`` or ``(False, member_id)``."""


@dataclass(frozen=True, slots=True)
class Generation:
    """What one generation of a group had to solve and what its members were given.

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
    """Return who a member is across generations: its instance id where it is static (KIP-345), else its member id."""
    if member.group_instance_id is not None:
        return (True, member.group_instance_id)
    return (False, member.member_id)


def is_follow_up(previous: Generation, current: Generation) -> bool:
    """Return whether a generation only completes the hand-over that the previous, cooperative one began.

    So it is when some member was not given back a partition it had claimed, which makes its consumer rejoin (KIP-429), and nothing
    else changed: member ids, instance ids, subscriptions, partition counts and strategy.
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
