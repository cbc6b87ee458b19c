"""Partitions that a rebalance revokes from consumers that stay: by protocol, and by their claims.

A partition counts if its owner in the previous generation is a member in both; owners that left do not count. A recreated topic counts
like any other, because its consumers do not compare topic ids.
"""

from __future__ import annotations

from collections.abc import Iterator

from assignors.audit.comparison import Comparison
from assignors.generation.generation import SERVER_SIDE, owner_of
from assignors.model import Member


def revocations(comparison: Comparison) -> tuple[int, int]:
    """Return the number of partitions that are given up under the eager and under the cooperative protocol.

    Under the eager protocol these are all that were held. Under the cooperative one they are those that the same owner does not get
    again, withheld ones included. Both are costs of this result, for any protocol of its strategy.
    """
    eager = cooperative = 0
    for _, _, held_count, given_up_count in _live_members(comparison):
        eager += held_count
        cooperative += given_up_count
    return eager, cooperative


def actual_revocations(comparison: Comparison) -> tuple[int | None, bool | None]:
    """Return the number of partitions that were given up, by the members' claims, and whether all members that could claim did so eagerly.

    A member without claims, under the member id that it had before, gave up everything before it joined. For the others the cooperative
    figure counts. None, None for ``sticky``, whose claims are in its user data. The flag is None if no member had partitions to claim, as
    in a first generation, which revokes nothing. The consumer protocol revokes only the partitions that are not in a member's target.
    """
    if comparison.current.strategy == "sticky":
        return None, None
    if comparison.current.strategy in SERVER_SIDE:
        live = list(_live_members(comparison))
        return sum(given_up_count for *_, given_up_count in live), False if any(held_count for _, _, held_count, _ in live) else None
    count = 0
    claims_nothing = set()
    for earlier, member, held_count, given_up_count in _live_members(comparison):
        is_same = earlier.member_id == member.member_id
        count += held_count if is_same and not member.owned else given_up_count
        if is_same and held_count:
            claims_nothing.add(not member.owned)
    return count, (claims_nothing == {True} if claims_nothing else None)


def _live_members(comparison: Comparison) -> Iterator[tuple[Member, Member, int, int]]:
    """Yield for each owner that is a member in both generations: the member before, the member now, held and given up partition counts."""
    if comparison.previous is None:
        return
    earlier_members = {owner_of(member): member for member in comparison.previous.problem.members}
    held_counts, given_up = comparison.held_counts.tolist(), comparison.given_up_counts.tolist()
    for before, now in comparison.irregular.values():
        for index in before:
            held_counts[index] += 1
            given_up[index] += index not in now
    for member in comparison.current.problem.members:
        owner = owner_of(member)
        earlier = earlier_members.get(owner)
        if earlier is not None:
            index = comparison.owner_index[owner]
            yield earlier, member, held_counts[index], given_up[index]
