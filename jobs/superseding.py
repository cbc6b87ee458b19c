"""One source for each group: the one that tells most. What lesser ones tell of it is a duplicate, whichever comes first."""

from __future__ import annotations

import logging
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.assign import forget_results
from jobs.context import RunContext
from jobs.packing import GROUP
from jobs.settling import CONFLICT, conflict_places
from schemas.staging import TARGETS
from schemas.tables import GROUP_RECORDS, OFFSET_SNAPSHOTS, QUARANTINE, RUNS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import SOURCES_OF_GROUPS, Outcome, Source

logger = logging.getLogger(__name__)

OF_GROUPS = {"group_record": GROUP_RECORDS, "snapshot": SUBSCRIPTION_SNAPSHOTS, "offset_commit": OFFSET_SNAPSHOTS}
"""Column of a decoded row -> the table, of those that tell of groups."""


def sources_in_play(context: RunContext) -> set[Source]:
    """Return the sources of groups among the inputs of this run, and those of which records have landed before."""
    sources = context.sources & set(SOURCES_OF_GROUPS)
    if not sources or all(context.warehouse.is_empty(spec.name) for spec in OF_GROUPS.values()):
        return sources
    keys = context.warehouse.read(RUNS.name).select(F.explode(F.map_keys("input_counts")).alias("key")).distinct()
    landed = {row["key"].partition(".")[0] for row in keys.where(F.col("key").endswith(".read")).collect()}
    return sources | {source for source in SOURCES_OF_GROUPS if str(source) in landed}


def supersede(context: RunContext, decoded: DataFrame, is_expired: Column) -> DataFrame:
    """Return the decoded rows, those that a better source has told of their group as duplicates without content.

    Groups of which a lesser source has landed, and the rows now have a better one, lose all that is stored of them, and quarantine loses
    what contradicted it.

    Args:
        decoded: staged rows.
        is_expired: of a decoded row, whether it is older than what retention keeps: such rows land nowhere and replace nothing.
    """
    warehouse = context.warehouse
    group_id = F.coalesce(*[F.col(name)["group_id"] for name in OF_GROUPS])
    new = decoded.where(~is_expired).select("cluster_id", group_id.alias("group_id"), _rank().alias("rank"))
    new = new.where(F.col("group_id").isNotNull())
    stored = reduce(DataFrame.unionByName, [warehouse.read(spec.name).select(*GROUP, "source") for spec in OF_GROUPS.values()])
    stored = stored.distinct().select(*GROUP, _rank().alias("stored_rank"))
    best = new.groupBy(*GROUP).agg(F.min("rank").alias("new_rank")).join(stored, list(GROUP), "left")
    best = warehouse.stage("best_sources", best)
    replaced = best.where(F.col("new_rank") < F.col("stored_rank")).select(*GROUP)
    count = replaced.count()
    if count:
        logger.info("%d groups are told of by a better source than the one that had landed: beginning them anew", count)
        if not warehouse.is_empty(QUARANTINE.name):
            places = warehouse.stage("replaced_places", conflict_places(warehouse, replaced))
            warehouse.delete(QUARANTINE.name, places, tuple(places.columns), f"t.reason = '{CONFLICT}'")
        for spec in OF_GROUPS.values():
            warehouse.delete(spec.name, replaced, GROUP)
        forget_results(warehouse, replaced, GROUP)
    ranked = best.select(*GROUP, F.least("new_rank", "stored_rank").alias("best_rank"))
    rows = decoded.withColumn("group_id", group_id).join(ranked, list(GROUP), "left")
    is_superseded = F.coalesce(_rank() > F.col("best_rank"), F.lit(False))
    columns = {name: F.when(~is_superseded, F.col(name)) for name in (*TARGETS, "part", "place") if name in decoded.columns}
    is_landed = F.col("outcome") == str(Outcome.LANDED)
    outcome = F.when(is_superseded & is_landed, str(Outcome.DUPLICATE)).otherwise(F.col("outcome"))
    return rows.withColumns({**columns, "outcome": outcome}).drop("group_id", "best_rank")


def _rank() -> Column:
    """Return how much a row's source tells of groups: 0 is best; null for a source that tells of none."""
    ranks = [F.when(F.col("source") == str(source), F.lit(rank)) for rank, source in enumerate(SOURCES_OF_GROUPS)]
    return F.coalesce(*ranks)
