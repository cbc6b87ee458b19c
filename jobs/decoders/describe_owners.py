"""Members and their partitions from the owners in a table of offsets, for texts without a table of assignments.

Plain ``--describe`` prints this table. It names the owner of each partition, but no member without partitions, and no static ids.
``--members`` without ``--verbose`` names all members, and how many partitions each has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobs.decoders.decoded import Row
from jobs.decoders.describe_model import Assignment, Member


def members_by_owner(members: Sequence[Row], offsets: Sequence[Row]) -> tuple[tuple[Member, ...], bool] | None:
    """Return the members of a group with the partitions that they own, and whether the two tables contradict each other.

    None if assignments are printed, or if no table shows the owners.

    Args:
        members: facts of the rows of a table of members.
        offsets: facts of the rows of a table of offsets.
    """
    owners: dict[str, Row] = {}
    held: dict[str, dict[str, list[int]]] = {}
    for row in offsets:
        if row["owner"] is not None:
            owners.setdefault(row["owner"], row)
            held.setdefault(row["owner"], {}).setdefault(row["topic"], []).append(row["partition"])
    assigned = {member_id: _assignment(topics) for member_id, topics in held.items()}
    if any("assigned" in row for row in members) or not (members or owners):
        return None
    if not owners and any(row["partition_count"] for row in members):
        return None
    if not members:
        facts = ({**row, "member_id": member_id, "partition_count": _count(assigned[member_id])} for member_id, row in owners.items())
        return tuple(_member(row, assigned) for row in facts), False
    differs = any(_count(assigned.get(row["member_id"], ())) != row["partition_count"] for row in members)
    is_contradicted = differs or not owners.keys() <= {row["member_id"] for row in members}
    return tuple(_member(row, assigned) for row in members), is_contradicted


def _member(facts: Row, assigned: Mapping[str, Assignment]) -> Member:
    return Member._make(map(facts.get, Member._fields))._replace(assigned=assigned.get(facts["member_id"], ()))


def _assignment(topics: Mapping[str, Sequence[int]]) -> Assignment:
    return tuple(sorted((topic, tuple(sorted(numbers))) for topic, numbers in topics.items()))


def _count(assigned: Assignment) -> int:
    return sum(len(numbers) for _, numbers in assigned)
