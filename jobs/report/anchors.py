"""The ids of groups and generations on the page, by which links find them."""

from __future__ import annotations

import hashlib


def anchor_digest(cluster_id: str, group_id: str) -> bytes:
    """Return the bytes of a group's anchor: eight bytes of a digest of its names."""
    return hashlib.sha256(f"{len(cluster_id)} {cluster_id}{group_id}".encode()).digest()[:8]


def anchor(cluster_id: str, group_id: str) -> str:
    """Return a group's id on the page. It is a digest, since names may have any characters, and a link works in every report."""
    return f"group-{anchor_digest(cluster_id, group_id).hex()}"


def generation_anchor(group_anchor: str, position: int) -> str:
    """Return the id of a generation's row in the details of its group."""
    return f"{group_anchor}-{position}"
