"""Members by the names that people know them by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobs.pages.figures import short_names
from jobs.reading.one_group import GroupGeneration


@dataclass(frozen=True)
class NamedMember:
    """A member of a generation or of the one before.

    Attributes:
        name: its instance id; else its client id, with the short member id if several have that client id.
        short_id: a short form of the member id that no other member has.
    """

    member_id: str
    name: str
    short_id: str
    client_id: str | None
    client_host: str | None
    instance_id: str | None


def name_members(group: GroupGeneration) -> dict[str, NamedMember]:
    """Return the members of a generation and of the one before, and those that movements have, by member id."""
    snapshots = [one for one in (group.previous_snapshot, group.snapshot) if one is not None]
    rows = {row["member_id"]: row for snapshot in snapshots for row in snapshot["members"]}
    ids = set(rows) | {row[name] for row in group.movements for name in ("previous_member_id", "member_id") if row[name] is not None}
    short = short_names(ids)
    shared = _shared_clients(snapshot["members"] for snapshot in snapshots)
    return {member_id: _named(member_id, rows.get(member_id, {}), short[member_id], shared) for member_id in ids}


def _shared_clients(snapshots: Iterable[Iterable[Mapping[str, object]]]) -> set[object]:
    """Return the client ids that several members of one generation, or different members of both, have."""
    by_client = {(row["client_id"], row["member_id"]) for members in snapshots for row in members}
    return {client_id for client_id, count in Counter(client_id for client_id, _ in by_client).items() if count > 1}


def _named(member_id: str, row: Mapping[str, str | None], short_id: str, shared: set[object]) -> NamedMember:
    client_id, instance_id = row.get("client_id"), row.get("group_instance_id")
    if instance_id:
        name = instance_id
    elif client_id and client_id not in shared:
        name = client_id
    else:
        name = short_id if not client_id or short_id.startswith(client_id) else f"{client_id} {short_id}"
    return NamedMember(member_id, name, short_id, client_id, row.get("client_host"), instance_id)
