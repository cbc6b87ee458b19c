"""Rows of the lag of now: the partitions of the groups with details, and the sum of every group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.report.queries import collect
from jobs.storage.current_lag import current_lag, group_lags, sum_of_lags
from jobs.storage.hashed_keys import hashed
from jobs.storage.last_commits import commits_to_add, read_last_commits
from jobs.storage.sql_literals import is_one_of
from jobs.storage.warehouse import Warehouse
from schemas.keys import GROUP_KEY
from schemas.tables import ASSIGNMENTS, OFFSET_SNAPSHOTS, TOPIC_SNAPSHOTS
from schemas.vocabulary import Basis

MOST_COMMITS = 1_000_000
"""Commits to be added up for the list to have the lag of every group; with more of them, it has only that of groups with details."""


@dataclass(frozen=True)
class CollectedLags:
    """Rows of the lag of now.

    Attributes:
        lags: ``ReportRows.lags``.
        group_lags: ``ReportRows.group_lags``.
    """

    lags: Sequence[Mapping[str, Any]] = ()
    group_lags: Sequence[Mapping[str, Any]] = ()


def largest_lags(lags: DataFrame, limit: int) -> DataFrame:
    """Return the partitions of each group with the largest lag, at most ``limit`` rows; those with an unknown lag come last.

    A partition has a row for each of its owners, and counts once in the totals.

    Returns: the rows that ``ReportRows.lags`` describes, without ``newest_at_ms``.

    Args:
        lags: rows of schemas.tables.CURRENT_LAG: those of each group are sorted.
    """
    of_group = Window.partitionBy(*hashed(*GROUP_KEY))
    largest = of_group.orderBy(F.desc_nulls_last("lag"), "topic", "partition", "member_id")
    partition = F.struct("topic", "partition")
    is_other = ~F.lag(partition).over(largest).eqNullSafe(partition)  # the owners of a partition follow each other: all have one lag
    return (
        lags.withColumns({"rank": F.row_number().over(largest), "is_other": is_other})
        .withColumn("lag_once", F.when(F.col("is_other"), F.col("lag")))
        .withColumns(
            {
                "group_lag": sum_of_lags("lag_once").over(of_group),
                "known_count": F.count("lag_once").over(of_group),
                "partition_total": F.count_if("is_other").over(of_group),
            }
        )
        .where(F.col("rank") <= limit)
        .withColumns({f"{name}_ms": F.unix_millis(f"{name}_at") for name in ("committed", "looked")})
        .drop("rank", "is_other", "lag_once", "committed_at", "looked_at")
    )


def collect_lags(
    warehouse: Warehouse, groups: Sequence[Mapping[str, Any]], limit: int, newest_ms: Mapping[str, int], *, with_sums: bool
) -> CollectedLags:
    """Return the partitions of these groups that have the largest lag now.

    Args:
        groups: rows with cluster_id, group_id, newest_position and last_at_ms.
        limit: rows of one group.
        newest_ms: see ``ReportRows``.
        with_sums: also return the lag of every group, if no more than ``MOST_COMMITS`` have to be added up.
    """
    if warehouse.is_empty(OFFSET_SNAPSHOTS.name):
        return CollectedLags()
    last, looks, assignments = read_last_commits(warehouse), warehouse.read(TOPIC_SNAPSHOTS.name), warehouse.read(ASSIGNMENTS.name)
    parts = []
    if groups:
        newest = [{**row, "position": row["newest_position"]} for row in groups]
        held = assignments.where((F.col("basis") == str(Basis.OBSERVED)) & is_one_of(newest, *GROUP_KEY, "position"))
        parts.append(largest_lags(current_lag(last.where(is_one_of(groups, *GROUP_KEY)), looks, held), limit))
    if with_sums and commits_to_add(warehouse) <= MOST_COMMITS:
        parts.append(group_lags(last, looks))  # in the same query: both parts need the ends of all logs
    if not parts:
        return CollectedLags()
    rows = collect(reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts))
    # Sums of groups have no number of partitions.
    return CollectedLags(
        [{**row, "newest_at_ms": newest_ms[row["cluster_id"]]} for row in rows if row.get("partition_total") is not None],
        [{name: row[name] for name in (*GROUP_KEY, "group_lag")} for row in rows if row.get("partition_total") is None],
    )
