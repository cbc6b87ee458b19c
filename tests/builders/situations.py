"""Small captures of situations that users reported, read without Spark: with their findings, and repeated over hours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from assignors import Member
from assignors.audit.passages import follow
from assignors.replay.replay import Replay
from assignors.replay.steps import Snapshot
from jobs.decoders.consumer_offsets import decode_line
from tests.builders.histories import looks
from tests.builders.snapshots_of import Stored, stored

SITUATIONS = Path(__file__).parents[1] / "golden/situations"
HOUR_MS = 3_600_000


def topics_of(name: str) -> dict[str, int]:
    """Return the partition counts in the first metadata snapshot of a capture."""
    first = (SITUATIONS / name / "cluster_metadata.ndjson").read_text().splitlines()[0]
    return {topic["topic"]: len(topic["partitions"]) for topic in json.loads(first)["topics"]}


def records_of(name: str, hours: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the generations of a capture, repeated in every further hour."""
    decoded = [decode_line(line)["snapshot"] for line in (SITUATIONS / name / "consumer_offsets.ndjson").read_bytes().splitlines()]
    for hour in range(hours):
        for row in decoded:
            later = {"generation": row["generation"] + hour * len(decoded), "at_ms": row["observed_at"] // 1000 + hour * HOUR_MS}
            yield {**row, **later}


def history_of(name: str, hours: int = 1) -> list[Stored]:
    """Return a capture as rules of findings get it; its topics have names of one letter, and all members have one rebalance timeout."""
    counts, state, recurrence, history = topics_of(name), None, None, []
    for row in records_of(name, hours):
        members = [Member(one["member_id"], tuple(one["topics"]), one["group_instance_id"]) for one in row["members"]]
        given = {one["member_id"]: _short(one["assigned"]) for one in row["members"]}
        at = {one["member_id"]: (one["client_id"], one["client_host"]) for one in row["members"]}
        now = stored(row["generation"], given, *members, strategy=row["strategy"], topics=counts, minute=row["at_ms"] / 60_000, at=at)
        before, state = state, Replay(()).advance(state, _snapshot(row, members, now), looks(**counts))
        recurrence, found = follow(recurrence, before and before.step, state.step, row["at_ms"])
        timeout_ms = next((one["rebalance_timeout_ms"] for one in row["members"]), None)
        history.append(replace(now, recurrences=None if found is None else found.encoded(), rebalance_timeout_ms=timeout_ms))
    return history


def _short(entries: list[dict[str, Any]]) -> str:
    return " ".join(f"{entry['topic']}{number}" for entry in entries for number in entry["partitions"])


def _snapshot(row: dict[str, Any], members: list[Member], now: Stored) -> Snapshot:
    names = [one["member_id"] for one in row["members"]]
    return Snapshot(
        row["generation"],
        row["generation"],
        row["at_ms"],
        0,
        row["strategy"],
        row["leader_member_id"],
        False,
        tuple(members),
        {name: tuple(held) for name, held in now.generation.solutions[0].assignment.items()},
        dict.fromkeys(names, 3),
        {one["member_id"]: one["client_id"] for one in row["members"]},
        client_hosts={one["member_id"]: one["client_host"] for one in row["members"]},
    )
