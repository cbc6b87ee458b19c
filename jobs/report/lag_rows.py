"""Rows of the lag of now: the partitions of the groups with details, and the sum of every other group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.storage.current_lag import current_lag
from jobs.storage.hashed_keys import hashed
from jobs.storage.sql_literals import is_one_of
from jobs.storage.warehouse import Warehouse
from schemas.keys import GROUP_KEY
from schemas.tables import ASSIGNMENTS, OFFSET_SNAPSHOTS, TOPIC_SNAPSHOTS
from schemas.vocabulary import Basis

MOST_COMMITS = 1_000_000
"""Stored commits up to which the list has the lag of every group; with more of them, only that of groups with details."""


@dataclass(frozen=True)
class CollectedLags:
    """Rows of the lag of now.

    Attributes:
        lags: ``ReportRows.lags``, of the groups with details.
        group_lags: ``ReportRows.group_lags``, of the other groups.
    """

    lags: Sequence[Mapping[str, Any]] = ()
    group_lags: Sequence[Mapping[str, Any]] = ()


def largest_lags(lags: DataFrame, limit: int, has_details: Column) -> DataFrame:
    """Return the partitions of each group with the largest lag, at most ``limit``; those with an unknown lag come last.

    Of a group without details one row is left, without a topic, or none if no lag of it is known.

    Returns: the rows that ``ReportRows.lags`` describes, without ``newest_at_ms``; ``has_details``.

    Args:
        lags: rows of schemas.tables.CURRENT_LAG: those of each group are sorted.
        has_details: of (cluster_id, group_id).
    """
    of_group = Window.partitionBy(*hashed(*GROUP_KEY))
    in_order = {name: F.when(F.col("has_details"), F.col(name)) for name in ("lag", "topic", "partition", "member_id")}  # others: any order
    largest = of_group.orderBy(F.desc_nulls_last(in_order.pop("lag")), *in_order.values())
    most = F.when(F.col("has_details"), F.lit(limit)).when(F.col("group_lag").isNotNull(), F.lit(1)).otherwise(F.lit(0))
    return (
        lags.withColumn("has_details", has_details)
        .withColumns(
            {
                "group_lag": F.sum(F.col("lag").cast("decimal(38,0)")).over(of_group),
                "known_count": F.count("lag").over(of_group),
                "row_total": F.count("*").over(of_group),
                "rank": F.row_number().over(largest),
            }
        )
        .where(F.col("rank") <= most)
        .withColumns({f"{name}_ms": F.unix_millis(f"{name}_at") for name in ("committed", "looked")})
        .withColumns({name: F.when(F.col("has_details"), F.col(name)) for name in ("member_id", "topic")})
        .drop("rank", "committed_at", "looked_at")
    )


def collect_lags(
    warehouse: Warehouse, groups: Sequence[Mapping[str, Any]], limit: int, newest_ms: Mapping[str, int], *, with_others: bool = False
) -> CollectedLags:
    """Return the partitions of these groups that have the largest lag now.

    Args:
        groups: rows with cluster_id, group_id, newest_position and last_at_ms.
        limit: rows of one group.
        newest_ms: see ``ReportRows``.
        with_others: also return the lag of every other group, if no more than ``MOST_COMMITS`` are stored.
    """
    if warehouse.is_empty(OFFSET_SNAPSHOTS.name):
        return CollectedLags()
    with_others = with_others and warehouse.count(OFFSET_SNAPSHOTS.name) <= MOST_COMMITS
    if not (groups or with_others):
        return CollectedLags()
    commits, looks, assignments = (warehouse.read(spec.name) for spec in (OFFSET_SNAPSHOTS, TOPIC_SNAPSHOTS, ASSIGNMENTS))
    newest = [{**row, "position": row["newest_position"]} for row in groups]
    held = assignments.where((F.col("basis") == str(Basis.OBSERVED)) & is_one_of(newest, *GROUP_KEY, "position"))
    has_details = is_one_of(groups, *GROUP_KEY)
    if not with_others:
        commits, looks = commits.where(has_details), looks.where(is_one_of(groups, "cluster_id"))
    lags = current_lag(commits, looks, held.hint("shuffle_hash"))  # of few groups: the commits of all need not be sorted
    rows = largest_lags(lags, limit, has_details).collect()
    return CollectedLags(
        [{**row.asDict(), "newest_at_ms": newest_ms[row["cluster_id"]]} for row in rows if row["has_details"]],
        [{name: row[name] for name in (*GROUP_KEY, "group_lag")} for row in rows if not row["has_details"]],
    )
