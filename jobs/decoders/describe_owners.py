"""Members and what they hold, out of the owners that a table of offsets names, where no table prints assignments.

Plain ``--describe`` prints this table. It names who holds each partition, but no member that holds nothing, and no static id.
``--members`` without ``--verbose`` names all members, and how many partitions each holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobs.decoders.decoded import Row
from jobs.decoders.describe_model import Assignment, Member


def members_by_owner(members: Sequence[Row], offsets: Sequence[Row]) -> tuple[tuple[Member, ...], bool] | None:
    """Return the members of a group with what they own, and whether the two tables contradict each other.

    None where assignments are printed, or where nothing says who holds what.

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
