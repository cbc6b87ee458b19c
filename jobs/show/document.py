"""Groups and generations as JSON for other programs: figures as numbers, unknown ones null, names as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from jobs.reading.fleet import GroupSummary
from jobs.reading.published import StoredRow
from jobs.show.described import DescribedGeneration, DescribedMember, DescribedPartition, MovementGroup
from jobs.show.members import NamedMember
from jobs.show.ordered import holding_findings, need_now

Document = dict[str, Any]

_FIGURES = (
    *("generation", "strategy", "is_settled", "member_count", "idle_member_count", "partition_count", "movement_count"),
    *("avoidable_movement_count", "unassigned_count", "imbalance_ratio", "verdict", "better_strategy", "better_gain"),
    *("previous_generation", "generation_gap", "triggers"),
)
"""Columns of ``generation_audits`` that the document of a generation has under the same names."""


def list_document(groups: Iterable[GroupSummary]) -> list[Document]:
    """Return the groups in their order."""
    return [{**group.key._asdict(), **_without_key(group)} for group in groups]


def _without_key(group: GroupSummary) -> Document:
    fields = {name: value for name, value in asdict(group).items() if name not in ("key", "newest_findings")}
    holding = holding_findings(group)
    need = need_now(group, holding)
    return {
        **fields,
        "observed_at": text_of(group.observed_at),
        "deleted_at": text_of(group.deleted_at),
        "need": None if need is None else {"severity": need.severity, "rule": need.rule},
        "current_findings": [{"severity": severity, "rule_id": rule} for severity, rule in holding],
    }


def generation_document(described: DescribedGeneration) -> Document:
    """Return one generation of a group."""
    group = described.group
    return {
        **group.key._asdict(),
        **{name: group.audit[name] for name in _FIGURES},
        "observed_at": text_of(group.audit["observed_at"]),
        "until": text_of(group.until),
        "empty_since": text_of(group.empty_since),
        "deleted_at": text_of(group.deleted_at),
        "generation_count": group.generation_count,
        "kind": described.kind or None,
        "protocol": described.protocol,
        "offsets_at": text_of(described.offsets_at),
        "causes": [
            {"cause": one.cause, "member_id": one.member_id, "source": one.source, "detail": one.detail} for one in described.causes
        ],
        "members": [_member(one) for one in described.members],
        "partitions": [_partition(one) for one in described.partitions],
        "movements": [_movement(one) for one in described.movements],
        "findings": [_finding(row) for row in described.findings],
        "now_findings": [_finding(row) for row in described.now_findings],
        "other_findings": [{**_finding(row), "finding_count": row["row_count"]} for row in described.other_findings],
    }


def text_of(at: datetime | None) -> str | None:
    """Return a time as ISO 8601 in UTC."""
    return None if at is None else at.isoformat()


def _member(member: DescribedMember) -> Document:
    named = member.named
    return {
        "member_id": named.member_id,
        "client_id": named.client_id,
        "client_host": named.client_host,
        "group_instance_id": named.instance_id,
        "rack": member.rack,
        "partition_count": member.partition_count,
        "lag": member.lag,
        "unknown_lag_count": member.unknown_lag_count,
    }


def _partition(one: DescribedPartition) -> Document:
    offsets = one.offsets
    return {
        "topic": one.topic,
        "partition": one.partition,
        "committed_offset": offsets.committed_offset,
        "end_offset": offsets.end_offset,
        "lag": offsets.lag,
        "member_id": _member_id(one.owner),
    }


def _movement(one: MovementGroup) -> Document:
    return {
        "kind": one.kind,
        "previous_member_id": _member_id(one.source),
        "member_id": _member_id(one.target),
        "topic": one.topic,
        "partitions": list(one.partitions),
        "lag": one.lag,
    }


def _member_id(member: NamedMember | None) -> str | None:
    return None if member is None else member.member_id


def _finding(row: StoredRow) -> Document:
    names = ("rule_id", "severity", "generation", "position", "message", "advice")
    return {**{name: row[name] for name in names}, "observed_at": text_of(row["observed_at"])}
