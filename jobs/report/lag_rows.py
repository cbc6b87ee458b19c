"""Rows of the lag of now, for the details of single groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.storage.current_lag import current_lag, group_lags
from jobs.storage.sql_literals import is_one_of
from jobs.storage.warehouse import Warehouse
from schemas.keys import GROUP_KEY
from schemas.tables import ASSIGNMENTS, OFFSET_SNAPSHOTS, TOPIC_SNAPSHOTS
from schemas.vocabulary import Basis

MOST_COMMITS = 1_000_000
"""Stored commits up to which the list has the lag of every group; with more of them, only that of groups with details."""


def largest_lags(lags: DataFrame, limit: int) -> DataFrame:
    """Return the partitions of each group with the largest lag, at most ``limit``; those with an unknown lag come last.

    Returns: the rows that ``ReportRows.lags`` describes, without ``newest_at_ms``.

    Args:
        lags: rows of schemas.tables.CURRENT_LAG, of few groups: they are sorted.
    """
    of_group = Window.partitionBy(*GROUP_KEY)
    largest = of_group.orderBy(F.desc_nulls_last("lag"), "topic", "partition", "member_id")
    return (
        lags.withColumns(
            {
                "group_lag": F.sum(F.col("lag").cast("decimal(38,0)")).over(of_group),
                "known_count": F.count("lag").over(of_group),
                "row_total": F.count("*").over(of_group),
                "rank": F.row_number().over(largest),
            }
        )
        .where(F.col("rank") <= limit)
        .withColumns({f"{name}_ms": F.unix_millis(f"{name}_at") for name in ("committed", "looked")})
        .drop("rank", "committed_at", "looked_at")
    )


def collect_group_lags(warehouse: Warehouse) -> list[dict[str, Any]]:
    """Return the lag now of every group, ``ReportRows.group_lags``; nothing if more than ``MOST_COMMITS`` are stored."""
    if not 0 < warehouse.count(OFFSET_SNAPSHOTS.name) <= MOST_COMMITS:
        return []
    lags = group_lags(warehouse.read(OFFSET_SNAPSHOTS.name), warehouse.read(TOPIC_SNAPSHOTS.name))
    return [row.asDict() for row in lags.collect()]


def collect_lags(
    warehouse: Warehouse, groups: Sequence[Mapping[str, Any]], limit: int, newest_ms: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the partitions of these groups that have the largest lag now: ``ReportRows.lags``.

    Args:
        groups: rows with cluster_id, group_id, newest_position and last_at_ms.
        limit: rows of one group.
        newest_ms: see ``ReportRows``.
    """
    if warehouse.is_empty(OFFSET_SNAPSHOTS.name):
        return []
    commits, looks, assignments = (warehouse.read(spec.name) for spec in (OFFSET_SNAPSHOTS, TOPIC_SNAPSHOTS, ASSIGNMENTS))
    newest = [{**row, "position": row["newest_position"]} for row in groups]
    held = assignments.where((F.col("basis") == str(Basis.OBSERVED)) & is_one_of(newest, *GROUP_KEY, "position"))
    clusters = is_one_of(groups, "cluster_id")
    lags = current_lag(commits.where(is_one_of(groups, *GROUP_KEY)), looks.where(clusters), held)
    return [{**row.asDict(), "newest_at_ms": newest_ms[row["cluster_id"]]} for row in largest_lags(lags, limit).collect()]
