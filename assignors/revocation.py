"""What a rebalance takes away from consumers that stay: by protocol, and by what their claims tell.

Counted are partitions held in the previous generation by owners that are members in both; owners that left are counted nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from assignors.generations import SERVER_SIDE, Generation, owner_of
from assignors.model import Member, TopicPartition


def revocations(previous: Generation, current: Generation) -> tuple[int, int]:
    """Return how many partitions are given up under the eager and under the cooperative protocol.

    Under the eager protocol all that were held, under the cooperative one those that are not given to the same owner again, withheld
    ones included. Both are costs of this result, whatever protocol its strategy speaks.
    """
    eager = cooperative = 0
    for _, _, held, given in _live_members(previous, current):
        eager += len(held)
        cooperative += len(held - given)
    return eager, cooperative


def actual_revocations(previous: Generation | None, current: Generation) -> tuple[int | None, bool | None]:
    """Return how many partitions were given up by what the members claim, and whether all that could claim did so eagerly.

    A member that claims nothing under the member id it had before gave up everything before it joined; for the others the cooperative
    figure counts. None, None for ``sticky``, whose claims are in its user data; the flag is None where nobody had anything to claim,
    as in a first generation, which takes nothing away. The consumer protocol takes from a member only what its target lacks.
    """
    if current.strategy == "sticky":
        return None, None
    if current.strategy in SERVER_SIDE:
        live = list(_live_members(previous, current)) if previous is not None else []
        return sum(len(held - given) for _, _, held, given in live), False if any(held for _, _, held, _ in live) else None
    count = 0
    claims_nothing = set()
    for earlier, member, held, given in _live_members(previous, current) if previous is not None else ():
        is_same = earlier.member_id == member.member_id
        count += len(held) if is_same and not member.owned else len(held - given)
        if is_same and held:
            claims_nothing.add(not member.owned)
    return count, (claims_nothing == {True} if claims_nothing else None)


def _live_members(previous: Generation, current: Generation) -> Iterator[tuple[Member, Member, set[TopicPartition], set[TopicPartition]]]:
    """Yield for each owner that is a member in both generations: it before, it now, what it held and what it is given."""
    earlier_members = {owner_of(member): member for member in previous.problem.members}
    for member in current.problem.members:
        earlier = earlier_members.get(owner_of(member))
        if earlier is not None:
            held = set(previous.assignment.get(earlier.member_id, ()))
            yield earlier, member, held, set(current.assignment.get(member.member_id, ()))
