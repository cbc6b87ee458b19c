"""Snapshots of groups in the project's own envelope: one made up, and those of the recorded cluster."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.decoders import snapshot_lines

ADMIN_LOOKS = Path(__file__).parents[1] / "golden" / "capture_admin_looks.jsonl.gz"


def member(member_id: str = "a", **changes: Any) -> dict[str, Any]:
    """Return a member with every field."""
    return {
        "member_id": member_id, "group_instance_id": "i", "client_id": "c", "client_host": "/10.0.0.1", "rack": "r1",
        "session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000, "topics": ["u", "t", "u"], "topic_regex": "t.*",
        "strategies": ["range", "sticky"], "subscription_version": 3, "owned": [{"topic": "t", "partitions": [1, 0]}],
        "owned_generation": 4, "user_data_b64": "dcO8/w==",
        "assigned": [{"topic": "u", "partitions": [2]}, {"topic": "t", "partitions": [1, 0]}],
        "current": [{"topic": "t", "partitions": [1]}], "pending_revocation": [{"topic": "t", "partitions": [3]}], **changes,
    }  # fmt: skip


def envelope(**changes: Any) -> dict[str, Any]:
    """Return an envelope with every field, two members and one offset."""
    offset = {
        "topic": "t", "partition": 2, "committed_offset": 2**53 + 1, "leader_epoch": 7, "metadata": "m", "committed_at_ms": 800,
        "topic_id": "AAAAAAAAAAEAAAAAAAAAAg",
    }  # fmt: skip
    return {
        "cluster_id": "own", "group_id": "grüppe", "observed_at_ms": 1_000, "position": 9, "generation": 5, "group_type": "classic",
        "protocol_type": "consumer", "state": "Stable", "strategy": "range", "leader_member_id": "a", "joined_at_ms": 900,
        "reconciled_at_ms": 950, "members": [member("a"), member("b", group_instance_id=None, assigned=[])], "offsets": [offset], **changes,
    }  # fmt: skip


def decode(sound: Any) -> list[dict[str, Any]]:
    """Return the decoded rows of one envelope, or of any other JSON."""
    return list(snapshot_lines.decode_line(json.dumps(sound).encode()))


def admin_looks() -> list[dict[str, Any]]:
    """Return the answers of Kafka's admin client on the recorded cluster, one metadata snapshot after the other."""
    with gzip.open(ADMIN_LOOKS, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def envelopes_of(recorded: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an envelope for each classic and consumer-protocol group of one poll."""
    for group_id, group in recorded["groups"].items():
        if group["listed_type"] not in ("Classic", "Consumer"):
            continue
        description = group["describeConsumerGroups"]
        if "error" in description:  # the client refuses groups of other types; this call describes them too
            description = {**group["describeClassicGroups"], "type": "Classic", "assignor": None, "target_assignment_epoch": None}
        yield {
            "group_id": group_id,
            "observed_at_ms": recorded["from_ms"],
            "generation": description["target_assignment_epoch"],
            "group_type": description["type"].lower(),
            "protocol_type": group["listed_protocol"],
            "state": description["state"],
            "strategy": description["assignor"],
            "members": [_member(one) for one in description["members"]],
            "offsets": [_offset(partition, *commit) for partition, commit in recorded["committed"].get(group_id, {}).items()],
        }


def _member(description: dict[str, Any]) -> dict[str, Any]:
    held, target = description["assignment"], description["target_assignment"]
    return {
        "member_id": description["member_id"],
        "group_instance_id": description["instance_id"],
        "client_id": description["client_id"],
        "client_host": description["host"],
        "rack": description["rack"],
        "assigned": _entries(held if target is None else target),
        "current": None if target is None else _entries(held),
    }


def _entries(by_topic: dict[str, list[int]]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]


def _offset(name: str, offset: int, leader_epoch: int | None, metadata: str) -> dict[str, Any]:
    topic, _, partition = name.rpartition("-")
    return {"topic": topic, "partition": int(partition), "committed_offset": offset, "leader_epoch": leader_epoch, "metadata": metadata}
