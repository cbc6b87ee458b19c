"""One source for each group: the most detailed one. Records about it from others count as duplicates, whichever comes first."""

from __future__ import annotations

import logging
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.context import RunContext
from jobs.land.deduplication import conflict_places, is_older
from jobs.storage.derived_results import results_of
from jobs.storage.table_changes import TableChange, Tables
from schemas.keys import GROUP_KEY
from schemas.staging import TARGETS
from schemas.tables import GROUP_RECORDS, OFFSET_SNAPSHOTS, QUARANTINE, RUNS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import CONFLICT, SOURCES_OF_GROUPS, Outcome, Source

logger = logging.getLogger(__name__)

OF_GROUPS = {"group_record": GROUP_RECORDS, "snapshot": SUBSCRIPTION_SNAPSHOTS, "offset_commit": OFFSET_SNAPSHOTS}
"""Column of a decoded row -> the table, of those with rows of groups."""


def _sources_in_play(context: RunContext) -> set[Source]:
    """Return the sources of groups among the inputs of this run, and those whose records have landed before."""
    sources = context.sources & set(SOURCES_OF_GROUPS)
    if not sources or all(context.warehouse.is_empty(spec.name) for spec in OF_GROUPS.values()):
        return sources
    keys = context.warehouse.read(RUNS.name).select(F.explode(F.map_keys("input_counts")).alias("key")).distinct()
    landed = {row["key"].partition(".")[0] for row in keys.where(F.col("key").endswith(".read")).collect()}
    return sources | {source for source in SOURCES_OF_GROUPS if str(source) in landed}


def keep_best_source(context: RunContext, tables: Tables, decoded: DataFrame) -> tuple[DataFrame, tuple[TableChange, ...]]:
    """Return the decoded rows, with rows of lower sources as duplicates without content, and the changes of stored rows.

    If the new rows of a group are of a more detailed source than the stored ones, all stored rows of the group are deleted, and its
    conflicts in quarantine. Rows older than retention keeps do not land and replace nothing. With one source nothing changes.

    Args:
        decoded: staged rows.
    """
    if len(_sources_in_play(context)) < 2:
        return decoded, ()
    group_id = F.coalesce(*[F.col(name)["group_id"] for name in OF_GROUPS])
    new = decoded.where(~is_older(context.before.retained_from)).select("cluster_id", group_id.alias("group_id"), _rank().alias("rank"))
    new = new.where(F.col("group_id").isNotNull())
    stored = reduce(DataFrame.unionByName, [tables.read(spec.name).select(*GROUP_KEY, "source") for spec in OF_GROUPS.values()])
    stored = stored.distinct().select(*GROUP_KEY, _rank().alias("stored_rank"))
    best = new.groupBy(*GROUP_KEY).agg(F.min("rank").alias("new_rank")).join(stored, list(GROUP_KEY), "left")
    best = tables.materialize("best_sources", best)
    replaced = best.where(F.col("new_rank") < F.col("stored_rank")).select(*GROUP_KEY)
    count = replaced.count()
    if count:
        logger.info("replacing the stored rows of %d groups with those of a more detailed source", count)
    ranked = best.select(*GROUP_KEY, F.least("new_rank", "stored_rank").alias("best_rank"))
    rows = decoded.withColumn("group_id", group_id).join(ranked, list(GROUP_KEY), "left")
    is_superseded = F.coalesce(_rank() > F.col("best_rank"), F.lit(False))
    columns = {name: F.when(~is_superseded, F.col(name)) for name in (*TARGETS, "part", "order_in_part") if name in decoded.columns}
    is_landed = F.col("outcome") == str(Outcome.LANDED)
    outcome = F.when(is_superseded & is_landed, str(Outcome.DUPLICATE)).otherwise(F.col("outcome"))
    kept = rows.withColumns({**columns, "outcome": outcome}).drop("group_id", "best_rank")
    return kept, _replace(tables, replaced) if count else ()


def _replace(tables: Tables, groups: DataFrame) -> tuple[TableChange, ...]:
    """Return the changes that delete all rows of some groups, their results, and the conflicts with them."""
    changes = [TableChange(spec.name, groups, GROUP_KEY) for spec in OF_GROUPS.values()] + results_of(groups, GROUP_KEY)
    if not tables.is_empty(QUARANTINE.name):
        places = conflict_places(tables, groups).withColumn("reason", F.lit(CONFLICT))
        places = tables.materialize("replaced_places", places)
        changes.append(TableChange(QUARANTINE.name, places, tuple(places.columns)))
    return tuple(changes)


def _rank() -> Column:
    """Return the rank of a row's source: 0 is the most detailed one; null for a source without groups."""
    ranks = [F.when(F.col("source") == str(source), F.lit(rank)) for rank, source in enumerate(SOURCES_OF_GROUPS)]
    return F.coalesce(*ranks)
