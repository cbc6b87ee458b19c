"""All groups of a warehouse, a line for each, without Spark."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from jobs.reading.names import matching, no_group
from jobs.reading.published import PublishedTables, StoredRow
from jobs.reading.stored import GroupKey
from schemas.keys import GROUP_KEY
from schemas.vocabulary import Basis, Severity

_COLUMNS = (
    *("observed_at", "member_count", "partition_count", "imbalance_ratio"),
    *("better_strategy", "better_gain"),
)


@dataclass(frozen=True)
class GroupSummary:
    """A group in one line. Figures of balance are those of its last settled generation with members; None without one.

    Attributes:
        state: ``empty`` without members now, ``unsettled`` while partitions are withheld, else ``stable``.
        member_count: members now.
        observed_at: time of the newest generation.
        better_strategy: the assignor that would balance better; None where the own one is as good.
        better_gain: by how much that imbalance is smaller.
        current: severity -> findings of the newest generation.
        past: severity -> rules that have found something in earlier generations only.
    """

    key: GroupKey
    state: str
    member_count: int
    generation_count: int
    observed_at: datetime
    strategy: str | None
    partition_count: int | None
    imbalance_ratio: float | None
    better_strategy: str | None
    better_gain: float | None
    current: dict[str, int] = field(default_factory=dict)
    past: dict[str, int] = field(default_factory=dict)


def read_fleet(tables: PublishedTables, pattern: str | None = None, cluster_id: str | None = None) -> list[GroupSummary]:
    """Return groups, those with most need of someone first.

    Findings of now come first, then a better assignor, then findings of the past.

    Args:
        pattern: a shell pattern of their names; None for all.
        cluster_id: the cluster; None for all.

    Raises:
        UsageError: there is no group at all.
        WarehouseDamagedError: a table cannot be read.
    """
    of_cluster = {} if cluster_id is None else {"cluster_id": [cluster_id]}
    wanted = {"basis": [str(Basis.OBSERVED)], **of_cluster}
    audits: dict[GroupKey, list[StoredRow]] = defaultdict(list)
    for row in tables.newest("generation_audits", (*GROUP_KEY, "strategy", "is_settled", "member_count"), _COLUMNS, wanted):
        audits[GroupKey(row["cluster_id"], row["group_id"])].append(row)
    if not audits:
        raise no_group(cluster_id)
    chosen = set(audits) if pattern is None else matching(pattern, audits)
    findings: dict[GroupKey, list[StoredRow]] = defaultdict(list)
    for row in tables.newest("findings", (*GROUP_KEY, "rule_id", "severity"), (), of_cluster):
        findings[GroupKey(row["cluster_id"], row["group_id"])].append(row)
    return sorted((_summary(key, audits[key], findings[key]) for key in chosen), key=_need)


def _summary(key: GroupKey, audits: list[StoredRow], findings: list[StoredRow]) -> GroupSummary:
    newest = max(audits, key=lambda row: int(row["position"]))
    with_members = (row for row in audits if row["is_settled"] is not False and row["member_count"])
    settled = max(with_members, key=lambda row: int(row["position"]), default=None)
    figures: StoredRow = settled or dict.fromkeys(("strategy", *_COLUMNS))
    current, past = dict.fromkeys(map(str, Severity), 0), dict.fromkeys(map(str, Severity), 0)
    for row in findings:
        counts = current if row["position"] == newest["position"] else past
        counts[row["severity"]] += 1
    return GroupSummary(
        key=key,
        state="empty" if not newest["member_count"] else "unsettled" if newest["is_settled"] is False else "stable",
        member_count=newest["member_count"],
        generation_count=sum(row["row_count"] for row in audits),
        observed_at=newest["observed_at"],
        strategy=figures["strategy"],
        partition_count=figures["partition_count"],
        imbalance_ratio=figures["imbalance_ratio"],
        better_strategy=figures["better_strategy"],
        better_gain=figures["better_gain"],
        current=current,
        past=past,
    )


def _need(group: GroupSummary) -> tuple[float | str, ...]:
    """Return the sort key of need: findings of now, then what another assignor would win, then findings of the past."""
    critical, warning = str(Severity.CRITICAL), str(Severity.WARNING)
    now = (-group.current[critical], -group.current[warning])
    return (*now, -(group.better_gain or 0.0), -group.past[critical], -group.past[warning], group.key.group_id, group.key.cluster_id)
