"""The own history of a strategy: the claims of the members at each step, and at its beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assignors.algorithms.releases import client_behaviour
from assignors.algorithms.sticky.claims import COOPERATIVE_READER, STICKY_READER, read_members, resolve_claims
from assignors.algorithms.sticky.user_data import write_sticky_user_data
from assignors.generation.generation import SERVER_SIDE, WITHOUT_CLAIMS, Owner, owner_of
from assignors.generation.subscriptions import NO_CLAIM, Claim, with_claim, with_claims, with_members
from assignors.model import Assignment, AssignmentMapping, GroupProblem, Member, TopicPartition

ClaimsByOwner = Mapping[Owner, tuple[TopicPartition, ...]]
"""Owner -> the partitions that it would claim. An owner is the same across generations, see ``generation.Owner``."""

Written = dict[int, tuple[Member, Member]]
"""``id`` of a member -> the member, which is kept so that the id stays its own, and the member with its claim."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The last result of a strategy's own history: the partitions that its owners would claim next."""

    generation: int
    held: ClaimsByOwner


def start_of_chain(generation: int, strategy: str | None, problem: GroupProblem, assigned: Assignment) -> Settled:
    """Return the claims of the members of a first known generation, if the generation before is not known.

    These are the recorded claims. A partition that two members claim belongs to the one with the higher generation, as in Kafka. If no
    member has a recorded claim, the observed assignment is the best approximation: neither the eager protocol nor a source that shows a
    group at one moment has claims.

    Args:
        strategy: the group's own; ``sticky`` records its claims in user data.
        problem: the members with their recorded claims, and the topics that exist.
        assigned: the observed assignment.
    """
    behaviour, reader = client_behaviour(None), STICKY_READER if strategy == "sticky" else COOPERATIVE_READER
    counts = {name: topic.partition_count or 0 for name, topic in problem.topics.items()}
    owned = resolve_claims(problem.members, read_members(problem.members, reader, behaviour), counts, behaviour).owned
    claims = {owner_of(member): tuple(held) for member, held in zip(problem.members, owned, strict=True)}
    if not any(claims.values()):
        claims = {owner_of(member): assigned.get(member.member_id, ()) for member in problem.members}
    return Settled(generation, claims)


def claiming(
    strategy: str, problem: GroupProblem, claims: ClaimsByOwner, claimed_at: int | None, written: Written | None = None
) -> GroupProblem:
    """Return the problem with other claims, as the members' consumers would send them with their next subscription.

    If the strategy does not read claims, it is the same problem. A coordinator's own assignor reads targets as they were written, since
    the order of their topics counts where topic ids share a bucket of a hash map.

    Args:
        written: what earlier calls wrote that differ in the problem alone. What this call writes is added.
    """
    if strategy in WITHOUT_CLAIMS:
        return problem

    def claim(member: Member) -> Claim:
        held = claims.get(owner_of(member))
        if held is None:
            return NO_CLAIM
        claimed = tuple(held) if strategy in SERVER_SIDE else tuple(sorted(held))
        return claimed, claimed_at, write_sticky_user_data(held, claimed_at) if strategy == "sticky" else None

    if written is None:
        return with_claims(problem, map(claim, problem.members))
    for member in problem.members:
        if id(member) not in written:
            written[id(member)] = member, with_claim(member, claim(member))
    return with_members(problem, tuple([written[id(member)][1] for member in problem.members]))


def held_by_owner(members: Sequence[Member], assignment: AssignmentMapping) -> dict[Owner, tuple[TopicPartition, ...]]:
    """Return the partitions of each owner."""
    return {owner_of(member): assignment.get(member.member_id, ()) for member in members}
