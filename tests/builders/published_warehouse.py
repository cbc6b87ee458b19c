"""Small warehouses written with deltalake, as runs publish them: one row of each table at a time, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql.pandas.types import to_arrow_schema

from schemas.contract import CONTRACT_PROPERTY, CONTRACT_VERSION
from schemas.tables import TABLES

START = datetime(2026, 11, 21, 2, 0, tzinfo=timezone.utc)
Row = dict[str, Any]


def at(seconds: float) -> datetime:
    """Return a time so many seconds after the first one."""
    return START + timedelta(seconds=seconds)


def member(member_id: str, topics: Iterable[str], assigned: Mapping[str, Iterable[int]], **other: Any) -> Row:
    """Return a member of a snapshot that claims nothing."""
    given = [{"topic": topic, "partitions": list(partitions)} for topic, partitions in assigned.items()]
    client = {"client_id": member_id.partition("-")[0], "client_host": "/10.0.0.1", "session_timeout_ms": 45_000}
    return {"member_id": member_id, "topics": list(topics), "assigned": given, "owned": [], **client, **other}


def generation(
    group_id: str,
    position: int,
    members: Iterable[Row],
    counts: Mapping[str, int],
    *,
    cluster_id: str = "c",
    strategy: str = "range",
    is_settled: bool = True,
    audited: Mapping[str, Any] = MappingProxyType({}),
    under: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    **snapshot: Any,
) -> dict[str, list[Row]]:
    """Return the rows of one generation, by table; it is observed as many seconds after the first time as its position says.

    Args:
        audited: more columns of its audits.
        under: assignor -> columns of its counterfactual audit.
        snapshot: columns of its snapshot, and ``racks`` of all topics.
    """
    members, at_it = list(members), {"cluster_id": cluster_id, "group_id": group_id, "position": position, "observed_at": at(position)}
    name = f"{cluster_id}-{sorted(counts.items())}-{snapshot.get('racks')}"
    racks = snapshot.pop("racks", None)
    topics = [
        {"topic": topic, "topic_id": None, "partition_count": count, "partition_racks": racks, "basis": "before", "is_uncertain": False}
        for topic, count in counts.items()
    ]
    audit = {"generation": position, "is_settled": is_settled, "member_count": len(members), "topics_hash": name, "strategy": strategy}
    audit |= audited
    others = [{**at_it, **audit, "basis": "counterfactual", "strategy": other, **columns} for other, columns in under.items()]
    stored = {"generation": position, "group_type": "classic", "strategy": strategy, "members": members, "has_subscriptions": True}
    return {
        "subscription_snapshots": [{**at_it, **stored, **snapshot}],
        "generation_audits": [
            {**at_it, **audit, "basis": "observed"},
            {**at_it, **audit, "basis": "recomputed", "kafka_version": "3.7.0"},
            *others,
        ],
        "generation_topics": [{"cluster_id": cluster_id, "topics_hash": name, "topics": topics}],
    }


def metadata(
    topic: str, seconds: float, ends: Iterable[int | None], topic_id: str | None = None, cluster_id: str = "c"
) -> dict[str, list[Row]]:
    """Return one topic of a metadata snapshot, with the end of each partition's log."""
    partitions = [{"partition": number, "end_offset": end, "replica_racks": []} for number, end in enumerate(ends)]
    row = {"cluster_id": cluster_id, "topic": topic, "observed_at": at(seconds), "topic_id": topic_id, "partitions": partitions}
    return {"topic_snapshots": [{**row, "partition_count": len(partitions)}]}


def commit(group_id: str, topic: str, partition: int, position: int, offset: int | None, **other: Any) -> dict[str, list[Row]]:
    """Return an offset commit, a deletion without an offset, as many seconds after the first time as its position says."""
    key = {"cluster_id": "c", "group_id": group_id, "topic": topic, "partition": partition, "position": position}
    return {"offset_snapshots": [{**key, "observed_at": at(position), "committed_offset": offset, "is_deleted": offset is None, **other}]}


def tombstone(group_id: str, offset: int, **other: Any) -> dict[str, list[Row]]:
    """Return the record by which a classic group was deleted, as many seconds after the first time as its offset says."""
    return {"group_records": [{"cluster_id": "c", "group_id": group_id, "offset": offset, "type": 2, "timestamp": at(offset), **other}]}


def movement(
    group_id: str, position: int, topic: str, partition: int, source: str | None, target: str | None, kind: str = "revoked", **other: Any
) -> dict[str, list[Row]]:
    """Return an observed movement of a partition from one member to another in the generation of a position."""
    key = {"cluster_id": "c", "group_id": group_id, "generation": position, "position": position, "observed_at": at(position)}
    moved = {"topic": topic, "partition": partition, "previous_member_id": source, "member_id": target, "kind": kind}
    return {"movements": [{**key, "basis": "observed", "strategy": "range", **moved, **other}]}


def finding(group_id: str, position: int, rule_id: str, severity: str, message: str, advice: str) -> dict[str, list[Row]]:
    """Return a finding of the generation of a position."""
    key = {"cluster_id": "c", "group_id": group_id, "generation": position, "position": position, "observed_at": at(position)}
    return {"findings": [{**key, "rule_id": rule_id, "severity": severity, "message": message, "advice": advice}]}


def write_warehouse(
    folder: Path, *parts: Mapping[str, list[Row]], contract: str = str(CONTRACT_VERSION), status: str = "published"
) -> Path:
    """Write all tables with the rows of these parts, and one run; return the folder."""
    versions: list[tuple[str, int]] = []
    for name, spec in TABLES.items():
        schema = to_arrow_schema(spec.schema)
        rows = [row for part in parts for row in part.get(name, ())]
        rows = list({str(sorted(row.items(), key=str)): row for row in rows}.values())  # generations may share their topics
        if name == "runs":
            times = {"started_at": at(0), "finished_at": at(1)}
            rows = [{"run_id": "one", "run_sequence": 1, "status": status, "command": "run", "table_versions": versions, **times}]
        write_deltalake(folder / name, pa.Table.from_pylist([], schema))
        write_deltalake(folder / name, pa.Table.from_pylist(rows, schema), mode="append")
        _note_contract(folder / name / "_delta_log" / f"{0:020}.json", contract)
        versions.append((name, 1))
    return folder


def _note_contract(commit: Path, contract: str) -> None:
    """Write the contract version into the commit that made a table, as Spark does; deltalake writes no properties but Delta's own."""
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"][CONTRACT_PROPERTY] = contract
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
