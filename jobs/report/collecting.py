"""The rows of the report, collected from a warehouse: everything that ``jobs.report.queries`` asks, for the groups that are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from jobs.pages.figures import from_ms
from jobs.pages.member_names import is_bare
from jobs.report.backtest_rows import collect_predicted
from jobs.report.change_rows import collect_changes
from jobs.report.commit_groups import count_commits
from jobs.report.deletions import last_deletions
from jobs.report.groups import add_settled
from jobs.report.lag_rows import collect_lags
from jobs.report.queries import (
    MOST_GENERATIONS,
    TOPICS_SHOWN,
    collect,
    condense_findings,
    condense_movements,
    count_parts,
    describe_members,
    hold_partitions,
    read_until,
    tally_fleet,
    tally_groups,
)
from jobs.report.rack_traffic import with_traffic
from jobs.report.ranking import (
    GroupKey,
    Ranking,
    choose_findings,
    finding_key,
    group_key,
    has_no_generations,
    merge_parts,
    newest_of,
)
from jobs.report.rows import ReportRows, Row
from jobs.storage.last_commits import newest_times, read_last_commits
from jobs.storage.sql_literals import is_one_of
from jobs.storage.warehouse import Warehouse
from schemas.config import ReportSettings
from schemas.keys import GROUP_KEY
from schemas.tables import (
    ASSIGNMENTS,
    FINDINGS,
    GENERATION_AUDITS,
    GROUP_RECORDS,
    MOVEMENTS,
    OFFSET_SNAPSHOTS,
    SUBSCRIPTION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
)
from schemas.vocabulary import Basis

if TYPE_CHECKING:
    from pyarrow import Table

# Shares of a group's part of max_detail_rows.
GENERATIONS_SHARE, FLOWS_SHARE, HOLDINGS_SHARE, LAGS_SHARE = 0.05, 0.15, 0.7, 0.1
MOST_LAGS = 50  # partitions of a group whose lag of now is listed
MOST_FINDINGS = 100  # groups of each rule, unless more have details
PARTS_AT_A_TIME = 10_000  # most rows that are Python objects at the same time
_FOUND = [*GROUP_KEY, "rule_id", "severity", "finding_count", "newest_position", "cycle_s"]


def collect_rows(warehouse: Warehouse, settings: ReportSettings) -> ReportRows:
    """Return everything that the report shows: aggregates of the fleet, a row for each group, and details of the worst groups."""
    audits, findings = warehouse.read(GENERATION_AUDITS.name), warehouse.read(FINDINGS.name)
    counted = count_parts(audits, findings)
    times = []
    if not warehouse.is_empty(OFFSET_SNAPSHOTS.name):
        last = read_last_commits(warehouse)
        commits = count_commits(last, warehouse.read(SUBSCRIPTION_SNAPSHOTS.name))
        counted = counted.unionByName(commits, allowMissingColumns=True)
        times.append(newest_times(last))
    if not warehouse.is_empty(TOPIC_SNAPSHOTS.name):
        times.append(warehouse.read(TOPIC_SNAPSHOTS.name))
    if times:
        counted = counted.unionByName(read_until(*times), allowMissingColumns=True)
    if not warehouse.is_empty(GROUP_RECORDS.name):
        counted = counted.unionByName(last_deletions(warehouse.read(GROUP_RECORDS.name)), allowMissingColumns=True)
    counts = counted.toArrow()
    parts = counts.filter(counts["group_id"].is_valid())
    newest_ms = _newest_moments(counts)
    ranked = Ranking(merge_parts(_rows(parts.sort_by([(name, "ascending") for name in GROUP_KEY])), newest_ms))
    worst = [row for row in ranked[: settings.worst_groups] if not has_no_generations(row)]
    newest = newest_of(ranked)
    found = (part for part in _rows(parts.select(_FOUND)) if part["rule_id"] is not None)
    chosen = choose_findings(found, newest, {group_key(row) for row in worst}, MOST_FINDINGS)
    of_chosen = findings.where(
        is_one_of([dict(zip(GROUP_KEY, key, strict=True)) for key in sorted({key[:2] for key in chosen})], *GROUP_KEY)
    )
    details = collect_details(warehouse, settings, worst, newest_ms, with_lag_sums=True)
    condensed = collect(condense_findings(of_chosen))
    fleet = collect(tally_fleet(audits.where(~is_one_of(worst, *GROUP_KEY))))
    return ReportRows(
        ranked=ranked,
        detailed=details.detailed,
        tallies=[*({**dict.fromkeys(GROUP_KEY), **row} for row in fleet), *details.tallies],
        holdings=details.holdings,
        flows=details.flows,
        members=details.members,
        lags=details.lags,
        changes=details.changes,
        findings=[{**with_traffic(row, settings), **chosen[key]} for row in condensed if (key := finding_key(row)) in chosen],
        predicted=collect_predicted(warehouse, ranked, settings.backtest_generations) if settings.backtest_generations else None,
        group_lags=details.group_lags,
        newest_ms=newest_ms,
    )


def _newest_moments(counts: Table) -> dict[str, int]:
    """Return the newest moment that has landed from each cluster, in milliseconds: of a generation, a commit or a metadata snapshot."""
    times = [name for name in ("last_at_ms", "read_until_ms") if name in counts.column_names]
    newest = counts.group_by("cluster_id").aggregate([(name, "max") for name in times]).to_pylist()
    return {row["cluster_id"]: max((at for name in times if (at := row[f"{name}_max"]) is not None), default=0) for row in newest}


def _rows(table: Table) -> Iterator[dict[str, Any]]:
    return (row for batch in table.to_batches(PARTS_AT_A_TIME) for row in batch.to_pylist())


def collect_details(
    warehouse: Warehouse,
    settings: ReportSettings,
    groups: Sequence[Mapping[str, Any]],
    newest_ms: Mapping[str, int],
    *,
    with_lag_sums: bool = False,
) -> ReportRows:
    """Return the rows of ``ReportRows`` on the single groups ``groups``, without their findings.

    Args:
        newest_ms: see ``ReportRows``.
        with_lag_sums: also return the lag of every group, see ``collect_lags``.
    """
    part = settings.max_detail_rows / max(len(groups), 1)
    lags = collect_lags(warehouse, groups, _share(part, LAGS_SHARE, MOST_LAGS), newest_ms, with_sums=with_lag_sums)
    if not groups:
        return ReportRows(group_lags=lags.group_lags)
    audits, movements = (warehouse.read(spec.name).where(is_one_of(groups, *GROUP_KEY)) for spec in (GENERATION_AUDITS, MOVEMENTS))
    tallies = collect(tally_groups(audits, _share(part, GENERATIONS_SHARE, MOST_GENERATIONS)))
    detailed = add_settled(groups, tallies)
    settled = [{**row, "position": row["settled_position"]} for row in detailed if row["settled_position"] is not None]
    months = {f"DATE'{from_ms(row['settled_at_ms']):%Y-%m}-01'" for row in settled}
    is_settled = is_one_of(settled, *GROUP_KEY, "position") & F.expr(f"observed_month IN ({', '.join(sorted(months)) or 'NULL'})")
    assignments = warehouse.read(ASSIGNMENTS.name).where((F.col("basis") == str(Basis.OBSERVED)) & is_settled)
    holdings = collect(hold_partitions(assignments, _share(part / (TOPICS_SHOWN + 1), HOLDINGS_SHARE)))
    flows = collect(condense_movements(movements, _share(part, FLOWS_SHARE)))
    unnamed = _groups_of_bare_members(holdings, flows, tallies)
    return ReportRows(
        detailed=detailed,
        tallies=tallies,
        holdings=holdings,
        flows=flows,
        members=collect(describe_members(warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).where(_since(unnamed)))) if unnamed else (),
        lags=lags.lags,
        group_lags=lags.group_lags,
        changes=collect_changes(warehouse, groups),
    )


def _groups_of_bare_members(holdings: Sequence[Row], flows: Sequence[Row], tallies: Sequence[Row]) -> dict[GroupKey, int]:
    """Return the groups with a member whose id is a bare UUID, each with the position of its oldest generation that is shown."""
    owners = (row for row in holdings if row["group_instance_id"] is None)
    found = {group_key(row) for row in owners if is_bare(row["member_id"])}
    found |= {
        group_key(row) for row in flows for name in ("previous_member_id", "member_id") if row[name] is not None and is_bare(row[name])
    }
    oldest: dict[GroupKey, int] = {}
    for row in tallies:
        for generation in row["generations"][-1:]:
            oldest[group_key(row)] = min(generation["position"], oldest.get(group_key(row), generation["position"]))
    return {key: oldest.get(key, 0) for key in sorted(found)}


def _since(groups: Mapping[GroupKey, int]) -> Column:
    """Return whether a row is of one of these groups, from its position on."""
    keys = [dict(zip(GROUP_KEY, key, strict=True)) for key in groups]
    return reduce(
        or_, (is_one_of([key], *GROUP_KEY) & (F.col("position") >= first) for key, first in zip(keys, groups.values(), strict=True))
    )


def _share(rows: float, share: float, most: int | None = None) -> int:
    """Return a share of a number of rows: at least 1, at most ``most``."""
    wanted = max(1, int(share * rows))
    return wanted if most is None else min(most, wanted)
