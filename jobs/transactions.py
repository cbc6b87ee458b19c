"""Transactions in raw captures: which commits may have been taken back.

A transaction ends with a marker, which takes an offset of ``__consumer_offsets`` and is no record. A capture that was not read with
``read_committed`` has the commits of aborted transactions too, so that a commit with a missing offset behind it may be one of them.
Compaction leaves offsets out as well, and nobody can tell the two apart. What is missing may arrive later, and a commit that was the last
record may turn out to be followed by a gap: both change what is stored.
"""

from __future__ import annotations

import logging
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.context import RunContext
from jobs.settling import is_raw
from jobs.warehouse import Warehouse
from schemas.staging import TARGETS
from schemas.tables import OFFSET_SNAPSHOTS, TOPIC_SNAPSHOTS
from schemas.vocabulary import Outcome

logger = logging.getLogger(__name__)

PARTITION = ("cluster_id", "offsets_partition")
PLACE = (*PARTITION, "position")
"""A place in a log: ``position`` is the offset there."""
_NAMES = ("group_id", "topic", "partition")
"""What a commit is of."""


def _places(rows: DataFrame, *others: Column) -> DataFrame:
    """Return the places in the log of rows with a ``source_position``, without what has none."""
    parts = F.split("source_position", "@")
    told = rows.where(is_raw() & F.col("source_position").rlike("^[0-9]+@[0-9]+$"))
    partition, offset = parts[0].try_cast("int").alias("offsets_partition"), parts[1].try_cast("bigint").alias("position")
    return told.select("cluster_id", partition, offset, *others)


def _read_places(staged: DataFrame) -> DataFrame:
    """Return the places of the records of a run that landed, then or before.

    Rows: ``PLACE``; ``is_told`` where the reader left out what was aborted.
    """
    is_kept = F.col("outcome").isin(str(Outcome.LANDED), str(Outcome.DUPLICATE)) | (F.col("group_record").isNotNull() & F.col("is_new"))
    is_told = F.coalesce(~F.col("offset_commit.is_uncertain"), F.lit(False)).alias("is_told")
    return _places(staged.where(is_kept), is_told).groupBy(*PLACE).agg(F.bool_or("is_told").alias("is_told"))


def _stored_places(warehouse: Warehouse) -> DataFrame | None:
    """Return the places of all records that landed, perhaps one more than once; None where there are none."""
    names = [spec.name for spec in TARGETS.values() if spec is not TOPIC_SNAPSHOTS and not warehouse.is_empty(spec.name)]
    frames = [_places(warehouse.read(name)) for name in names]
    return reduce(DataFrame.unionByName, frames) if frames else None


def judged(commits: DataFrame, read: DataFrame, stored: DataFrame | None) -> DataFrame:
    """Return commits with ``is_uncertain``: whether they may belong to a transaction that was aborted.

    False where the reader left such commits out, or where the record at the next offset landed; true where it did not, while one at a later
    offset did; null behind which nothing landed. Commits of one group and one moment that follow each other were made together: each is as
    the one behind it.

    Args:
        commits: ``PLACE``, group_id, observed_at and others.
        read: as ``_read_places`` returns them.
        stored: places of other records; None where there are none.
    """
    before = (F.col("position") - 1).alias("position")
    followed, last = read.select(*PARTITION, before), read.groupBy(*PARTITION).agg(F.max("position").alias("last"))
    if stored is not None:
        near = stored.select(*PARTITION, before).join(commits.select(*PLACE), list(PLACE), "left_semi")
        followed = followed.unionByName(near)
        lasts = stored.join(F.broadcast(last.select(*PARTITION)), list(PARTITION), "left_semi")
        lasts = lasts.groupBy(*PARTITION).agg(F.max("position").alias("last"))
        last = last.unionByName(lasts).groupBy(*PARTITION).agg(F.max("last").alias("last"))
    told = read.where("is_told").select(*PLACE, "is_told")
    rows = (
        commits.join(followed.distinct().withColumn("is_followed", F.lit(True)), list(PLACE), "left")
        .join(told, list(PLACE), "left")
        .join(F.broadcast(last), list(PARTITION), "left")
    )
    in_order = Window.partitionBy(*PARTITION).orderBy("position")
    behind, made = (F.struct(F.try_add("position", F.lit(more)).alias("position"), "group_id", "observed_at") for more in (1, 0))
    open_made = F.when(F.col("is_told").isNull(), made)
    goes_on = F.coalesce(F.lead(open_made).over(in_order) == behind, F.lit(False))
    own = F.when(F.col("is_followed"), F.lit(False)).when(F.col("position") < F.col("last"), F.lit(True))
    to_the_end = in_order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    last_of_them = F.first(F.when(~F.col("goes_on"), F.struct(F.col("own").alias("own"))), ignorenulls=True).over(to_the_end)
    answered = rows.withColumns({"goes_on": goes_on, "own": own})
    uncertain = F.when(F.col("is_told"), F.lit(False)).otherwise(last_of_them["own"])
    return answered.withColumn("is_uncertain", uncertain).select(*commits.columns, "is_uncertain")


class Verdicts:
    """What a run's records tell of its own commits and of stored ones."""

    def __init__(self, context: RunContext, staged: DataFrame) -> None:
        """Judge the new commits of a run, and the stored ones of the partitions read that nothing has settled yet.

        Args:
            staged: rows of ``land.settle_outcomes``; rows that had to make room are no longer stored.
        """
        warehouse = self._warehouse = context.warehouse
        self._run_columns = context.run_columns
        read, stored = _read_places(staged), _stored_places(warehouse)
        is_commit = F.col("is_new") & (F.col("target") == "offset_commit") & (F.col("outcome") == str(Outcome.LANDED))
        made = [F.col(f"offset_commit.{name}").alias(name) for name in (*_NAMES, "observed_at")]
        was = F.lit(None).cast("boolean").alias("was_uncertain")
        commits = _places(staged.where(is_commit), *made, was, F.lit(False).alias("is_stored"))
        self._has_stored = not warehouse.is_empty(OFFSET_SNAPSHOTS.name)
        if self._has_stored:
            open_commits = warehouse.read(OFFSET_SNAPSHOTS.name).where(is_raw() & F.coalesce("is_uncertain", F.lit(True)))
            open_commits = open_commits.join(F.broadcast(read.select(*PARTITION).distinct()), list(PARTITION), "left_semi")
            of_stored = (F.col("is_uncertain").alias("was_uncertain"), F.lit(True).alias("is_stored"))
            commits = commits.unionByName(open_commits.select(*PLACE, *_NAMES, "observed_at", *of_stored))
        self._rows = judged(commits, read, stored)
        if self._has_stored:  # asked twice
            self._rows = warehouse.stage("uncertain", self._rows)

    def of_new(self, rows: DataFrame) -> DataFrame:
        """Return new rows of ``offset_snapshots`` with ``is_uncertain``."""
        told = self._rows.where("NOT is_stored").select(*OFFSET_SNAPSHOTS.key, "is_uncertain")
        return rows.drop("is_uncertain").join(told, list(OFFSET_SNAPSHOTS.key), "left")

    def rewrite_stored(self) -> None:
        """Write stored commits again of which the run's records tell otherwise."""
        if not self._has_stored:
            return
        news = self._rows.where(F.col("is_stored") & ~F.col("is_uncertain").eqNullSafe(F.col("was_uncertain")))
        told = news.select(*OFFSET_SNAPSHOTS.key, F.col("is_uncertain").alias("told"))
        rows = self._warehouse.read(OFFSET_SNAPSHOTS.name).where(is_raw()).join(F.broadcast(told), list(OFFSET_SNAPSHOTS.key))
        changed = rows.withColumns({**self._run_columns, "is_uncertain": F.col("told")}).select(*OFFSET_SNAPSHOTS.schema.names)
        changed = self._warehouse.stage("uncertain_otherwise", changed)
        if changed.isEmpty():
            return
        count = self._warehouse.delete(OFFSET_SNAPSHOTS.name, changed.select(*OFFSET_SNAPSHOTS.key), OFFSET_SNAPSHOTS.key)
        self._warehouse.append(OFFSET_SNAPSHOTS.name, changed)
        logger.info("%d commits of earlier runs are told more of by what was read behind them", count)
