"""All groups of a warehouse, a line for each, without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.reading.deletions import Deletion, read_deletions
from jobs.reading.groups import clusters_of
from jobs.reading.names import matching, no_group
from jobs.reading.published import Filter, PublishedTables, StoredRow
from jobs.reading.stored import GroupKey
from schemas.keys import GROUP_KEY
from schemas.vocabulary import Basis, Rule, Severity

_COLUMNS = (
    *("observed_at", "member_count", "partition_count", "imbalance_ratio"),
    *("better_strategy", "better_gain", "verdict", "epoch_at", "reconciled_at"),
)
_SUMS = ("movement_count", "avoidable_movement_count")


@dataclass(frozen=True)
class NewestFinding:
    """A finding of a group's newest generation.

    Attributes:
        cycle_s: seconds from one occurrence to the next of what was found; None of most rules.
    """

    severity: str
    rule_id: str
    cycle_s: int | None


@dataclass(frozen=True)
class GroupSummary:
    """A group in one line. Figures of balance are those of its last settled generation with members; None without one.

    Attributes:
        state: ``deleted`` if it was, ``empty`` without members now, ``unsettled`` while partitions are withheld, ``reconciling`` while
            members have not reached the target of a consumer-protocol group, ``rebalancing`` while a rebalance does not end, else
            ``stable``.
        member_count: members now.
        deleted_at: when the group was deleted; None for one that was not.
        observed_at: time of the newest generation.
        better_strategy: the assignor that would balance better; None where the own one is as good.
        better_gain: by how much that imbalance is smaller; 0 where the own one is as good, None if that is not known.
        movement_count: partitions that changed their owner in all its generations; None if it is known of none.
        avoidable_movement_count: how many of them without need; generations after a gap are left out. None likewise.
        newest_findings: those of the newest generation.
        calm_ms: from that generation to the newest moment that has landed from its cluster.
        finding_counts: severity -> findings of all its generations.
    """

    key: GroupKey
    state: str
    member_count: int
    deleted_at: datetime | None
    generation_count: int
    observed_at: datetime
    strategy: str | None
    partition_count: int | None
    imbalance_ratio: float | None
    better_strategy: str | None
    better_gain: float | None
    movement_count: int | None
    avoidable_movement_count: int | None
    newest_findings: tuple[NewestFinding, ...]
    calm_ms: int
    finding_counts: Mapping[str, int]


def read_fleet(tables: PublishedTables, pattern: str | None = None, cluster_id: str | None = None) -> list[GroupSummary]:
    """Return groups, in no order.

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
    parts = (*GROUP_KEY, "strategy", "is_settled", "member_count", "generation_gap")
    for row in tables.newest("generation_audits", parts, _COLUMNS, wanted, sums=_SUMS):
        audits[GroupKey(row["cluster_id"], row["group_id"])].append(row)
    if not audits:
        raise no_group(cluster_id, clusters_of(tables))
    chosen = set(audits) if pattern is None else matching(pattern, audits)
    findings: dict[GroupKey, list[StoredRow]] = defaultdict(list)
    for row in tables.newest("findings", (*GROUP_KEY, "rule_id", "severity"), ("evidence",), of_cluster):
        findings[GroupKey(row["cluster_id"], row["group_id"])].append(row)
    moments = _newest_moments(tables, of_cluster, audits)
    deletions = read_deletions(tables, {key: _newest(audits[key])["position"] for key in chosen}, of_cluster)
    return [_summary(key, audits[key], findings[key], moments[key.cluster_id], deletions.get(key)) for key in chosen]


def _newest_moments(tables: PublishedTables, wanted: Filter, audits: Mapping[GroupKey, list[StoredRow]]) -> dict[str, datetime]:
    """Return the time of the newest generation, commit or metadata snapshot of each cluster."""
    newest: dict[str, datetime] = {}
    for key, rows in audits.items():
        last = max(row["observed_at"] for row in rows)
        newest[key.cluster_id] = max(last, newest.get(key.cluster_id, last))
    for table in ("offset_snapshots", "topic_snapshots"):
        for cluster_id, at in tables.latest(table, "cluster_id", "observed_at", wanted).items():
            newest[cluster_id] = max(at, newest.get(cluster_id, at))
    return newest


def _newest(audits: Iterable[StoredRow]) -> StoredRow:
    return max(audits, key=lambda row: int(row["position"]))


def _summary(
    key: GroupKey, audits: list[StoredRow], findings: list[StoredRow], newest_moment: datetime, deletion: Deletion | None
) -> GroupSummary:
    newest = _newest(audits)
    with_members = (row for row in audits if row["is_settled"] is not False and row["member_count"])
    settled = max(with_members, key=lambda row: int(row["position"]), default=None)
    figures: StoredRow = settled or dict.fromkeys(("strategy", *_COLUMNS))
    finding_counts = dict.fromkeys(map(str, Severity), 0)
    for row in findings:
        finding_counts[row["severity"]] += row["row_count"]
    newest_findings = tuple(
        NewestFinding(row["severity"], row["rule_id"], cycle_s(row["evidence"]))
        for row in findings
        if row["position"] == newest["position"]
    )
    return GroupSummary(
        key=key,
        state=_state(newest, {one.rule_id for one in newest_findings}) if deletion is None else "deleted",
        member_count=newest["member_count"] if deletion is None else 0,
        deleted_at=None if deletion is None else deletion.at,
        generation_count=sum(row["row_count"] for row in audits),
        observed_at=newest["observed_at"],
        strategy=figures["strategy"],
        partition_count=figures["partition_count"],
        imbalance_ratio=figures["imbalance_ratio"],
        better_strategy=figures["better_strategy"],
        better_gain=0.0 if figures["better_gain"] is None and figures["verdict"] is not None else figures["better_gain"],
        movement_count=_sum_of_known(row["movement_count_sum"] for row in audits),
        avoidable_movement_count=_sum_of_known(row["avoidable_movement_count_sum"] for row in audits if not row["generation_gap"]),
        newest_findings=newest_findings,
        calm_ms=(newest_moment - newest["observed_at"]) // timedelta(milliseconds=1),
        finding_counts=finding_counts,
    )


def _state(newest: StoredRow, found: Collection[str]) -> str:
    """Return the state of a group by its newest generation and the rules that found something there."""
    if Rule.STUCK_REBALANCING.value in found:
        return "rebalancing"
    if not newest["member_count"]:
        return "empty"
    if newest["epoch_at"] is not None and newest["reconciled_at"] is None:
        return "reconciling"
    return "unsettled" if newest["is_settled"] is False else "stable"


def cycle_s(evidence: Iterable[tuple[str, str]] | None) -> int | None:
    """Return the seconds from one occurrence of a finding to the next, by its evidence; None of most rules."""
    cycle = dict(evidence or ()).get("cycle_seconds")
    return None if cycle is None else int(cycle)


def _sum_of_known(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
