"""Generations of groups with another leader or another coordinator than the one before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.pages.figures import short_names
from schemas.keys import GROUP_KEY
from schemas.vocabulary import CoordinatorEvent

Row = Mapping[str, Any]
LEADER, COORDINATOR = "leader", "coordinator"
NEAR_MS = 10 * 60_000
"""How far the time of a generation and of the line with its number may differ: numbers begin again if a group is made again."""
ARROW = "\N{RIGHTWARDS ARROW}"


def leader_changes(snapshots: DataFrame) -> DataFrame:
    """Return the generations whose leader is another member than in the generation before: ``ReportRows.changes``.

    Reads: snapshots as schemas.tables.SUBSCRIPTION_SNAPSHOTS. Only some sources show the leader.
    """
    leaders = snapshots.select(
        *GROUP_KEY,
        "position",
        "generation",
        F.unix_millis("observed_at").alias("at_ms"),
        F.lit(LEADER).alias("kind"),
        F.col("leader_member_id").alias("after"),
    )
    return _changed(leaders, "position")


def coordinator_changes(events: DataFrame) -> DataFrame:
    """Return the generations that another broker logged than the one before: ``ReportRows.changes``.

    Reads: events as schemas.tables.GROUP_EVENTS. Lines may have no broker.
    """
    is_of_generation = F.col("event").isin(str(CoordinatorEvent.STABILIZED), str(CoordinatorEvent.TARGET_COMPUTED))
    lines = events.where(is_of_generation & (F.col("broker") != "")).select(
        *GROUP_KEY,
        F.lit(None).cast("bigint").alias("position"),
        "generation",
        F.unix_millis("logged_at").alias("at_ms"),
        F.lit(COORDINATOR).alias("kind"),
        F.concat(F.lit("broker "), "broker").alias("after"),
    )
    return _changed(lines, "at_ms")


def _changed(rows: DataFrame, order: str) -> DataFrame:
    before = F.lag("after").over(Window.partitionBy(*GROUP_KEY).orderBy(order))
    return rows.withColumn("before", before).where("before != after")


def with_changes(generations: Sequence[Row], changes: Iterable[Row]) -> list[Row]:
    """Return generations of a group with ``changes``, the texts of those that belong to each.

    Args:
        changes: of the group, as ``ReportRows.changes`` describes them.
    """
    known = sorted(changes, key=lambda row: (row["kind"], row["at_ms"]))
    short = short_names(row[name] for row in known for name in ("before", "after"))

    def belongs(change: Row, row: Row) -> bool:
        if change["position"] is not None:
            return bool(change["position"] == row["position"])
        return bool(change["generation"] == row["generation"] and abs(change["at_ms"] - row["observed_at_ms"]) <= NEAR_MS)

    return [
        {
            **row,
            "changes": tuple(
                f"{change['kind']} {short[change['before']]} {ARROW} {short[change['after']]}" for change in known if belongs(change, row)
            ),
        }
        for row in generations
    ]
