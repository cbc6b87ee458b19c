"""How equal a recomputed and an observed assignment are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from assignors.model import AssignmentMapping, TopicPartition


class Conformance(str, Enum):
    """From the most to the least equal; ``not_comparable`` means that they were not compared."""

    EXACT = "exact"
    EQUAL_SETS = "equal_sets"
    EQUAL_BALANCE = "equal_balance"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not_comparable"


def compare_assignments(observed: AssignmentMapping, computed: AssignmentMapping) -> Conformance:
    """Return the first relation that holds between two assignments of the same members.

    ``exact``: each member has the same partitions of each topic in the same order. (The order of topics in a member's list does not
    count, because not every client keeps it.) ``equal_sets``: each member has the same set. ``equal_balance``: the same sorted loads over
    the same set of partitions. ``differs``: none of these.

    >>> compare_assignments({"a": (("t", 0), ("t", 1)), "b": ()}, {"a": (("t", 1), ("t", 0)), "b": ()}).value
    'equal_sets'
    """
    members = observed.keys() | computed.keys()
    pairs = [(observed.get(member, ()), computed.get(member, ())) for member in members]
    if all(before == after or _by_topic(before) == _by_topic(after) for before, after in pairs):
        return Conformance.EXACT
    if all(set(before) == set(after) for before, after in pairs):
        return Conformance.EQUAL_SETS
    loads = [sorted(len(held) for held in side) for side in zip(*pairs, strict=True)]
    partitions = [{partition for held in side for partition in held} for side in zip(*pairs, strict=True)]
    if loads[0] == loads[1] and partitions[0] == partitions[1]:
        return Conformance.EQUAL_BALANCE
    return Conformance.DIFFERS


@dataclass(frozen=True, slots=True)
class Divergence:
    """A partition that two assignments give to different members: the members in each, by name; empty if nobody has it."""

    topic: str
    partition: int
    observed: tuple[str, ...]
    computed: tuple[str, ...]


def divergences(observed: AssignmentMapping, computed: AssignmentMapping) -> list[Divergence]:
    """Return the partitions that two assignments give to different members, by topic and partition.

    They are the smallest change that turns one assignment into the other.

    >>> divergences({"a": (("t", 0), ("t", 1)), "b": ()}, {"a": (("t", 0),), "b": (("t", 1),)})
    [Divergence(topic='t', partition=1, observed=('a',), computed=('b',))]
    """
    sides = [_owners(observed), _owners(computed)]
    partitions = sorted(sides[0].keys() | sides[1].keys())
    return [
        Divergence(*partition, *owners)
        for partition in partitions
        if len({*(owners := tuple(side.get(partition, ()) for side in sides))}) > 1
    ]


def _owners(assignment: AssignmentMapping) -> dict[TopicPartition, tuple[str, ...]]:
    owners: dict[TopicPartition, set[str]] = defaultdict(set)
    for member, held in assignment.items():
        for partition in held:
            owners[partition].add(member)
    return {partition: tuple(sorted(members)) for partition, members in owners.items()}


def _by_topic(held: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in held:
        by_topic.setdefault(topic, []).append(partition)
    return by_topic
