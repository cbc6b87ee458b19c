"""Decoded rows, as workers pass them to landing."""

from __future__ import annotations

from typing import Any


def commit(offset: int, content: str, **changes: Any) -> dict[str, Any]:
    content_row = {"group_id": "g", "topic": "t", "partition": 0, "position": offset, "fingerprint": content}
    of_row = {name: changes.pop(name) for name in ("source", "source_position") if name in changes}
    row = {"outcome": "landed", "kind": "offset_commit", "source_position": f"3@{offset}", **of_row}
    return {**row, "offset_commit": {**content_row, **changes}}


def record(offset: int, content: str, group: str = "g", value: bytes | None = b"v", **changes: Any) -> dict[str, Any]:
    """Return a record of a group with another protocol type."""
    noted = {"offsets_partition": 3, "offset": offset, "group_id": group, "value": value, "fingerprint": content}
    row = {"outcome": "skipped", "kind": "classic_group_metadata:connect", "source_position": f"3@{offset}"}
    return {**row, "group_record": {**noted, **changes}}


def tombstone(offset: int, content: str, **changes: Any) -> dict[str, Any]:
    landed = {"outcome": "landed", "kind": "classic_group_metadata_tombstone"}
    return {**record(offset, content, value=None, **changes), **landed}


def snapshot(offset: int, content: str, source: str = "consumer-offsets", **changes: Any) -> dict[str, Any]:
    content_row = {"group_id": "g", "position": offset, "generation": 1, "fingerprint": content, "members": [], **changes}
    return {"outcome": "landed", "kind": "group", "source": source, "source_position": f"3@{offset}", "snapshot": content_row}


def bad(position: str, payload_hash: str, reason: str = "truncated") -> dict[str, Any]:
    texts = {"kind": "offset_commit", "reason": reason, "detail": "cut", "payload_hash": payload_hash}
    return {"outcome": "quarantined", "source_position": position, **texts}
