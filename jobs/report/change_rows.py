"""Rows of the generations with another leader or another coordinator than the one before, for the details of single groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.storage.sql_literals import is_one_of
from jobs.storage.warehouse import Warehouse
from schemas.keys import GROUP_KEY
from schemas.tables import GROUP_EVENTS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import CoordinatorEvent

LEADER, COORDINATOR = "leader", "coordinator"


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


def collect_changes(warehouse: Warehouse, groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the changes of leaders and coordinators of some groups: ``ReportRows.changes``."""
    changes = leader_changes(warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).where(is_one_of(groups, *GROUP_KEY)))
    if not warehouse.is_empty(GROUP_EVENTS.name):
        changes = changes.unionByName(coordinator_changes(warehouse.read(GROUP_EVENTS.name).where(is_one_of(groups, *GROUP_KEY))))
    return [row.asDict() for row in changes.collect()]
