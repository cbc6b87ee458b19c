"""Transactions in captures of the log: which commits may belong to an aborted one.

A transaction ends with a marker, which takes an offset of ``__consumer_offsets`` and is not a record. A capture that was not read with
``read_committed`` also has the commits of aborted transactions. So a commit may be one of these if the offset after it is missing.
Compaction removes offsets as well, and the two cases look the same. The missing record may arrive later, or a later record may show a gap
after the last commit. Both change stored rows.

A dump of the log has the markers. They decide for each of its commits, whatever is at the next offset.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.context import RunContext
from jobs.decoders.dump_log import COMMITTED
from jobs.land.comparison import LogSurvey, log_offset, log_partition
from jobs.land.deduplication import has_row, is_of_log
from jobs.storage.table_changes import TableChange, Tables
from schemas.staging import TARGETS
from schemas.tables import OFFSET_SNAPSHOTS, TOPIC_SNAPSHOTS
from schemas.vocabulary import Outcome, Source

logger = logging.getLogger(__name__)

PARTITION = ("cluster_id", "offsets_partition")
COMMIT_OFFSET_KEY = (*PARTITION, "position")
"""A place in a log: ``position`` is the offset."""
_NAMES = ("group_id", "topic", "partition")
"""The key of a commit."""


def _places(rows: DataFrame, *others: Column) -> DataFrame:
    """Return the places in the log of rows with a ``source_position``; rows without one are left out."""
    partition, offset = log_partition().alias("offsets_partition"), log_offset().alias("position")
    places = rows.where(is_of_log()).select("cluster_id", partition, offset, *others)
    return places.where(F.col("offsets_partition").isNotNull() & F.col("position").isNotNull())


def _kept_rows(rows_of_input: DataFrame) -> DataFrame:
    """Return the rows of a run's records that landed in this run or before."""
    is_kept = F.col("outcome").isin(str(Outcome.LANDED), str(Outcome.DUPLICATE)) | (has_row("group_record") & F.col("is_new"))
    return rows_of_input.where(is_kept)


def _stored_places(tables: Tables) -> DataFrame | None:
    """Return the places of all records that landed, some perhaps twice; None if no record landed."""
    names = [spec.name for spec in TARGETS.values() if spec is not TOPIC_SNAPSHOTS and not tables.is_empty(spec.name)]
    frames = [_places(tables.read(name)) for name in names]
    return reduce(DataFrame.unionByName, frames) if frames else None


def mark_dumped_commits(decoded: DataFrame) -> DataFrame:
    """Return decoded rows, with the commits of transactions as certain if a dump shows that they were committed.

    The next marker of its producer ends a commit's transaction. A commit without a marker or of an aborted transaction stays uncertain.

    Args:
        decoded: rows of ``staging.DUMPED_ROWS`` among others; without such rows it is returned unchanged.
    """
    if "producer_id" not in decoded.columns:
        return decoded
    is_of_transaction = F.col("producer_id").isNotNull()
    rows = decoded.where(is_of_transaction).withColumns({"offsets_partition": log_partition(), "log_offset": log_offset()})
    from_the_end = Window.partitionBy("cluster_id", "offsets_partition", "producer_id").orderBy(F.desc("log_offset"))
    end = F.last("transaction_end", ignorenulls=True).over(from_the_end)
    commit = F.col("offset_commit")
    is_uncertain = ~F.col("end").eqNullSafe(COMMITTED)
    marked = F.when(commit.isNotNull(), commit.withField("is_uncertain", is_uncertain))
    rows = rows.withColumn("end", end).withColumn("offset_commit", marked)
    return decoded.where(~is_of_transaction).unionByName(rows.select(*decoded.columns)).drop("producer_id", "transaction_end")


def judged(commits: DataFrame, read: DataFrame, stored: DataFrame | None) -> DataFrame:
    """Return commits with ``is_uncertain``: whether they may belong to a transaction that was aborted.

    The value of the source wins: a dump has it from its markers, and a reader that left such commits out sets false. Else it is false if
    the record at the next offset landed, true if only one at a later offset did, and null if nothing landed after the commit. Commits of
    one group and one moment at consecutive offsets were made together: each has the value of the next one.

    Args:
        commits: ``COMMIT_OFFSET_KEY``, group_id, observed_at, ``recorded`` as stored and others; one a place.
        read: ``COMMIT_OFFSET_KEY``, ``recorded``: whether it is uncertain by its source; null where the source does not record it.
            Places may repeat; then false goes before true.
        stored: places of other records; None without any, or without any after the first record that was read.
    """
    others = [name for name in commits.columns if name not in (*COMMIT_OFFSET_KEY, "recorded")]
    made = commits.select(*COMMIT_OFFSET_KEY, "recorded", F.struct(*others).alias("commit"))
    events = made.unionByName(read.select(*COMMIT_OFFSET_KEY, "recorded"), allowMissingColumns=True)
    if stored is not None:
        next_offsets = commits.select(*PARTITION, F.try_add("position", F.lit(1).cast("bigint")).alias("position"))
        near = stored.join(next_offsets, list(COMMIT_OFFSET_KEY), "left_semi").select(*COMMIT_OFFSET_KEY)
        lasts = stored.join(F.broadcast(read.select(*PARTITION).distinct()), list(PARTITION), "left_semi")
        lasts = lasts.groupBy(*PARTITION).agg(F.max("position").alias("position"))
        events = events.unionByName(near, allowMissingColumns=True).unionByName(lasts, allowMissingColumns=True)
    # One shuffle for the places and for their order in the log.
    by_offset = events.repartition(*PARTITION).groupBy(*COMMIT_OFFSET_KEY)
    rows = by_offset.agg(F.bool_and("recorded").alias("recorded"), F.first("commit", ignorenulls=True).alias("commit"))
    from_the_end = Window.partitionBy(*PARTITION).orderBy(F.desc("position"))
    is_recorded, commit = F.col("recorded").isNotNull(), F.col("commit")
    is_next = F.coalesce(F.lag("position").over(from_the_end) == F.try_add("position", F.lit(1).cast("bigint")), F.lit(False))
    together = F.struct(commit["group_id"], commit["observed_at"])
    same = F.lag(together).over(from_the_end) == together
    own = F.when(is_next, F.lit(False)).when(F.lag("position").over(from_the_end).isNotNull(), F.lit(True))
    answered = rows.withColumns({"goes_on": F.coalesce(~is_recorded & is_next & same, F.lit(False)), "own": F.coalesce("recorded", own)})
    so_far = from_the_end.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last_of_them = F.last(F.when(~F.col("goes_on"), F.struct(F.col("own").alias("own"))), ignorenulls=True).over(so_far)
    judgements = answered.withColumn("is_uncertain", last_of_them["own"]).where(commit.isNotNull())
    columns = {name: F.col(name) for name in COMMIT_OFFSET_KEY} | {name: commit[name].alias(name) for name in others}
    return judgements.select(*columns.values(), "is_uncertain")


@dataclass(frozen=True)
class CommitCertainty:
    """``is_uncertain`` of a run's own commits and of stored ones, by the run's records.

    Attributes:
        open_commits: key of ``offset_snapshots`` and ``is_uncertain`` of the new commits that are not certain; None if all commits are as
            their source records them.
        changes: updates of stored commits whose ``is_uncertain`` is another one now.
    """

    open_commits: DataFrame | None = None
    changes: tuple[TableChange, ...] = ()

    def mark(self, rows: DataFrame) -> DataFrame:
        """Return new rows of ``offset_snapshots`` with ``is_uncertain``.

        Commits after which nothing has landed get a Spark partition of their own, which becomes a separate file. When a later record
        lands, only this file has to be rewritten.
        """
        if self.open_commits is None:
            return rows
        certainty = self.open_commits.select(*OFFSET_SNAPSHOTS.key, F.struct("is_uncertain").alias("recorded"))
        otherwise = F.when(is_of_log(), F.lit(False))
        uncertain = F.when(F.col("recorded").isNotNull(), F.col("recorded")["is_uncertain"]).otherwise(otherwise)
        known = rows.join(certainty, list(OFFSET_SNAPSHOTS.key), "left").withColumn("is_uncertain", uncertain).drop("recorded")
        is_open = is_of_log() & F.col("is_uncertain").isNull()
        return known.where(~is_open).unionByName(known.where(is_open).coalesce(1))


def mark_uncertain_commits(context: RunContext, tables: Tables, resolved: DataFrame, survey: LogSurvey) -> CommitCertainty:
    """Return which new commits of a run are uncertain, and the updates of stored commits in the partitions that were read.

    Args:
        tables: without the new rows, and without stored rows that are displaced by them.
        resolved: rows of ``comparison.resolve``.
        survey: of the run's raw records.
    """
    is_all_recorded = not survey.uncertain_count
    has_stored = bool(survey.read_until) and not tables.is_empty(OFFSET_SNAPSHOTS.name)
    if not survey.read_until or (is_all_recorded and not has_stored):
        return CommitCertainty()
    read = _places(_kept_rows(resolved), F.col("offset_commit.is_uncertain").alias("recorded"))
    is_commit = F.col("is_new") & (F.col("target") == "offset_commit") & (F.col("outcome") == str(Outcome.LANDED))
    made = [F.col(f"offset_commit.{name}").alias(name) for name in (*_NAMES, "observed_at")]
    nothing = F.lit(None).cast("boolean")
    commits = _places(resolved.where(is_commit), *made, nothing.alias("recorded"))
    if has_stored:
        stored = _open_commits(tables, read, list(survey.read_until))
        if is_all_recorded or survey.has_earlier:  # else they are asked for once
            stored = tables.materialize("open_commits", stored)
        if is_all_recorded and stored.isEmpty():
            return CommitCertainty()
        commits = commits.unionByName(stored, allowMissingColumns=True)
    else:
        commits = commits.withColumn("stored", F.lit(None).cast(OFFSET_SNAPSHOTS.schema))
    rows = judged(commits, read, _stored_places(tables) if survey.has_earlier else None)
    was_uncertain, is_stored = F.col("stored.is_uncertain"), F.col("stored").isNotNull()
    is_other = F.when(is_stored, ~F.col("is_uncertain").eqNullSafe(was_uncertain))
    is_open = ~is_stored & F.coalesce("is_uncertain", F.lit(True))
    rows = tables.materialize("uncertain", rows.where(is_other | is_open))  # of new ones that are certain there are too many
    open_commits = None if is_all_recorded else rows.where(~is_stored)
    return CommitCertainty(open_commits, _changed_commits(context, rows.where(is_stored)) if has_stored else ())


def _open_commits(tables: Tables, read: DataFrame, partitions: list[str]) -> DataFrame:
    """Return the stored commits that may change: next to records that were read, the last of their log, and those made together.

    ``stored`` is the whole row of each.
    """
    rows = tables.read(OFFSET_SNAPSHOTS.name).where(is_of_log() & F.coalesce("is_uncertain", F.lit(True)))
    rows = rows.where(F.concat_ws(" ", *PARTITION).isin(partitions))
    marked = F.when(F.col("source") == str(Source.DUMP_LOG), F.col("is_uncertain")).alias("recorded")
    whole = F.struct(*OFFSET_SNAPSHOTS.schema.names).alias("stored")
    rows = rows.select(*COMMIT_OFFSET_KEY, *_NAMES, "observed_at", marked, whole)
    around = F.explode(F.array(*[F.try_add("position", F.lit(more).cast("bigint")) for more in (-1, 0, 1)]))
    beside = read.select(*PARTITION, around.alias("position")).distinct()
    uncertain, last = rows.where("stored.is_uncertain"), rows.where("stored.is_uncertain IS NULL")
    touched = uncertain.join(beside, list(COMMIT_OFFSET_KEY), "left_semi").unionByName(last)
    together = (*PARTITION, "group_id", "observed_at")
    return rows.join(touched.select(*together).distinct(), list(together), "left_semi")


def _changed_commits(context: RunContext, rows: DataFrame) -> tuple[TableChange, ...]:
    """Return the changes that rewrite stored commits with another ``is_uncertain``, as rows of this run."""
    count = rows.count()
    if not count:
        return ()
    logger.info("updating is_uncertain of %d commits of earlier runs from newly read records", count)
    again = rows.select("stored.*", F.col("is_uncertain").alias("is_uncertain_now"))
    again = again.withColumns({**context.run_columns, "is_uncertain": F.col("is_uncertain_now")}).drop("is_uncertain_now")
    keys = rows.select(*OFFSET_SNAPSHOTS.key)
    return (TableChange(OFFSET_SNAPSHOTS.name, keys, OFFSET_SNAPSHOTS.key, again, count),)
