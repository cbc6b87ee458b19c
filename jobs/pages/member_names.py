"""Names of members by which people know them: instance id, client id or host, and never a bare UUID."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from jobs.pages.figures import client_of, short_names

Row = Mapping[str, Any]

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_KAFKA_UUID = re.compile(r"[0-9A-Za-z_/+-]{22}")
_SHOWN = 8


def is_bare(member_id: str) -> bool:
    """Return whether a member id is only a UUID: clients of KIP-848 and brokers make such ids, as UUIDs or in 22 characters.

    >>> is_bare("3fc8d6f1-581a-4472-bdf3-3515b4aee8c1"), is_bare("orders-1-3fc8d6f1-581a-4472-bdf3-3515b4aee8c1")
    (True, False)
    >>> is_bare("bG1ZjJ4mQ6-7B4rvJ7ZzXw")
    True
    """
    return bool(_UUID.fullmatch(member_id) or _KAFKA_UUID.fullmatch(member_id))


def name_members(member_ids: Iterable[str], known: Iterable[Row]) -> dict[str, str]:
    """Return a name for each member that no other of them has.

    A static member has its instance id. Another member has its client id: clients put it in front of the UUID of their member ids. Several
    members with one client id have the short forms of their ids. A member whose id is a bare UUID has its client id too, with its host if
    several have this client id, and with the beginning of the UUID if that is not enough.

    Args:
        known: rows with member_id, and group_instance_id, client_id and client_host, each null if it is not known.
    """
    ids = sorted(set(member_ids))
    rows: dict[str, Row] = {row["member_id"]: row for row in known}
    static = {one: rows[one]["group_instance_id"] for one in ids if one in rows and rows[one]["group_instance_id"]}
    others = [one for one in ids if one not in static]
    bare = {one for one in others if is_bare(one)}
    short = short_names(others)
    names = {one: client_of(one) or rows.get(one, {}).get("client_id") or ("member" if one in bare else short[one]) for one in others}
    shared = Counter([*names.values(), *static.values()])
    names |= {one: short[one] for one in others if one not in bare and shared[names[one]] > 1}
    for more in (_host, _beginning):
        shared = Counter(names.values())
        names |= {one: names[one] + more(rows.get(one, {"member_id": one})) for one in bare if shared[names[one]] > 1}
    shared = Counter([*names.values(), *static.values()])
    return static | {one: name if shared[name] == 1 else f"{name} {one}" for one, name in names.items()}


def _host(row: Row) -> str:
    host = (row.get("client_host") or "").lstrip("/")
    return f" @ {host}" if host else ""


def _beginning(row: Row) -> str:
    return f" {row['member_id'][:_SHOWN]}\N{HORIZONTAL ELLIPSIS}"
