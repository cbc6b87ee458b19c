"""The partitions that cooperative-sticky withholds because another member still has them (KIP-429).

Source: ``CooperativeStickyAssignor.adjustAssignment`` and ``computePartitionsTransferringOwnership``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from assignors.model import Member, TopicPartition


def find_transfers(members: Sequence[Member], partitions: Sequence[Sequence[TopicPartition]]) -> dict[TopicPartition, int]:
    """Return partition -> its new owner for the partitions that one member gets and another, by its own claims, has to give up.

    Claims are not checked. So a stale claim delays a hand-over by one rebalance, and a partition that goes to a member that claims it is
    handed over at once.

    >>> find_transfers([Member("a", owned=(("t", 0),)), Member("b")], [[], [("t", 0)]])
    {('t', 0): 1}
    """
    added: dict[TopicPartition, int] = {}
    revoked: set[TopicPartition] = set()
    for number, (member, given) in enumerate(zip(members, partitions, strict=True)):
        owned = set(member.owned)
        revoked |= owned.difference(given)
        added.update((partition, number) for partition in given if partition not in owned)
    return {partition: number for partition, number in added.items() if partition in revoked}


def withhold(partitions: Sequence[Sequence[TopicPartition]], transferring: Mapping[TopicPartition, int]) -> list[Sequence[TopicPartition]]:
    """Return the assignment without the partitions in transfer: of each, the first occurrence in its new owner's list is removed.

    >>> withhold([[], [("t", 0), ("t", 1)]], {("t", 0): 1})
    [[], [('t', 1)]]
    """
    withheld: defaultdict[int, set[TopicPartition]] = defaultdict(set)
    for partition, member in transferring.items():
        withheld[member].add(partition)
    result = list(partitions)
    for member, awaited in withheld.items():
        kept = []
        for partition in partitions[member]:
            if partition in awaited:
                awaited.remove(partition)
            else:
                kept.append(partition)
        result[member] = kept
    return result
