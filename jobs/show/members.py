"""Members by the names that people know them by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.pages.figures import short_names
from jobs.pages.member_names import name_members
from jobs.reading.one_group import GroupGeneration


@dataclass(frozen=True)
class NamedMember:
    """A member of a generation or of the one before.

    Attributes:
        name: see ``jobs.pages.member_names``.
        short_id: a short form of the member id that no other member has.
    """

    member_id: str
    name: str
    short_id: str
    client_id: str | None
    client_host: str | None
    instance_id: str | None


def members_of(group: GroupGeneration) -> dict[str, NamedMember]:
    """Return the members of a generation and of the one before, and those that movements have, by member id."""
    snapshots = [one for one in (group.previous_snapshot, group.snapshot) if one is not None]
    rows = {row["member_id"]: row for snapshot in snapshots for row in snapshot["members"]}
    ids = set(rows) | {row[name] for row in group.movements for name in ("previous_member_id", "member_id") if row[name] is not None}
    names, short = name_members(ids, rows.values()), short_names(ids)
    return {member_id: _named(rows.get(member_id, {}), member_id, names[member_id], short[member_id]) for member_id in ids}


def _named(row: Mapping[str, str | None], member_id: str, name: str, short_id: str) -> NamedMember:
    return NamedMember(member_id, name, short_id, row.get("client_id"), row.get("client_host"), row.get("group_instance_id"))
