"""Snapshots of groups in the project's own envelope: one made up, and those that the recorded cluster told."""

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
    """Return the decoded rows of one envelope, or of whatever JSON it is."""
    return list(snapshot_lines.decode_line(json.dumps(sound).encode()))


def admin_looks() -> list[dict[str, Any]]:
    """Return what Kafka's admin client told of the recorded cluster, look by look."""
    with gzip.open(ADMIN_LOOKS, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def told_envelopes(look: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an envelope for each classic and consumer-protocol group of a look."""
    for group_id, group in look["groups"].items():
        if group["listed_type"] not in ("Classic", "Consumer"):
            continue
        told = group["describeConsumerGroups"]
        if "error" in told:  # the client refuses groups that are none of consumers; this call describes them too
            told = {**group["describeClassicGroups"], "type": "Classic", "assignor": None, "target_assignment_epoch": None}
        yield {
            "group_id": group_id,
            "observed_at_ms": look["from_ms"],
            "generation": told["target_assignment_epoch"],
            "group_type": told["type"].lower(),
            "protocol_type": group["listed_protocol"],
            "state": told["state"],
            "strategy": told["assignor"],
            "members": [_told_member(one) for one in told["members"]],
            "offsets": [_told_offset(place, *commit) for place, commit in look["committed"].get(group_id, {}).items()],
        }


def _told_member(told: dict[str, Any]) -> dict[str, Any]:
    held, target = told["assignment"], told["target_assignment"]
    return {
        "member_id": told["member_id"],
        "group_instance_id": told["instance_id"],
        "client_id": told["client_id"],
        "client_host": told["host"],
        "rack": told["rack"],
        "assigned": _entries(held if target is None else target),
        "current": None if target is None else _entries(held),
    }


def _entries(by_topic: dict[str, list[int]]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]


def _told_offset(place: str, offset: int, leader_epoch: int | None, metadata: str) -> dict[str, Any]:
    topic, _, partition = place.rpartition("-")
    return {"topic": topic, "partition": int(partition), "committed_offset": offset, "leader_epoch": leader_epoch, "metadata": metadata}
