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
from jobs.storage.last_commits import may_be_rewritten
from jobs.storage.scratch import StagedKeys
from jobs.storage.table_changes import TableChange, Tables
from schemas.staging import TARGETS
from schemas.tables import OFFSET_SNAPSHOTS, QUARANTINE, TOPIC_SNAPSHOTS
from schemas.vocabulary import Outcome, Source

logger = logging.getLogger(__name__)

PARTITION = ("cluster_id", "offsets_partition")
COMMIT_OFFSET_KEY = (*PARTITION, "position")
"""A place in a log: ``position`` is the offset."""


def _places(rows: DataFrame, *others: Column) -> DataFrame:
    """Return the places in the log of rows with a ``source_position``; rows without one are left out."""
    partition, offset = log_partition().alias("offsets_partition"), log_offset().alias("position")
    places = rows.where(is_of_log()).select("cluster_id", partition, offset, *others)
    return places.where(F.col("offsets_partition").isNotNull() & F.col("position").isNotNull())


def _kept_rows(rows_of_input: DataFrame) -> DataFrame:
    """Return the rows of a run's records that landed in this run or before, at their own places."""
    is_noted = (F.col("outcome") == str(Outcome.SKIPPED)) & has_row("group_record") & F.col("is_new")
    is_kept = F.col("outcome").isin(str(Outcome.LANDED), str(Outcome.DUPLICATE)) | is_noted
    return rows_of_input.where(is_kept & (F.col("target") != QUARANTINE.name))


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


def judged(read: DataFrame, earlier: DataFrame | None, stored: DataFrame | None, *, has_repeats: bool) -> DataFrame:
    """Return the commits with ``is_uncertain``: whether they may belong to a transaction that was aborted.

    The value of the source wins: a dump has it from its markers, and a reader that left such commits out sets false. Else it is false if
    the record at the next offset landed, true if only one at a later offset did, and null if nothing landed after the commit. Commits of
    one group and one moment at consecutive offsets were made together: each has the value of the next one.

    Args:
        read: ``COMMIT_OFFSET_KEY``, ``recorded`` and ``commit``. ``recorded``: whether it is uncertain by its source; null where the
            source does not record it. ``commit``: group_id, observed_at and others; null for a record that is no commit.
        earlier: the same of commits that landed in earlier runs; None without any.
        stored: places of other records; None without any, or without any after the first record that was read.
        has_repeats: places of ``read`` may repeat. Those of ``earlier`` may if captures contradicted each other. At a place false goes
            before true, and all commits are one.
    """
    events = read if earlier is None else read.unionByName(earlier)
    if stored is not None:
        is_commit = F.col("commit").isNotNull()
        next_offsets = events.where(is_commit).select(*PARTITION, F.try_add("position", F.lit(1).cast("bigint")).alias("position"))
        near = stored.join(next_offsets, list(COMMIT_OFFSET_KEY), "left_semi").select(*COMMIT_OFFSET_KEY)
        lasts = stored.join(F.broadcast(read.select(*PARTITION).distinct()), list(PARTITION), "left_semi")
        lasts = lasts.groupBy(*PARTITION).agg(F.max("position").alias("position"))
        events = events.unionByName(near, allowMissingColumns=True).unionByName(lasts, allowMissingColumns=True)
    if has_repeats or earlier is not None or stored is not None:  # one shuffle for the places and for their order in the log
        by_offset = events.repartition(*PARTITION).groupBy(*COMMIT_OFFSET_KEY)
        events = by_offset.agg(F.bool_and("recorded").alias("recorded"), F.first("commit", ignorenulls=True).alias("commit"))
    # The number first: Spark sorts by the first 8 bytes of a key as far as it can, and those of cluster_id are the same in most rows.
    from_the_end = Window.partitionBy("offsets_partition", "cluster_id").orderBy(F.desc("position"))
    commit, after = F.col("commit"), F.col("after")
    together = F.struct(commit["group_id"], commit["observed_at"])
    rows = events.withColumn("after", F.lag(F.struct("position", together.alias("together"))).over(from_the_end))
    is_next = F.coalesce(after["position"] == F.try_add("position", F.lit(1).cast("bigint")), F.lit(False))
    goes_on = F.col("recorded").isNull() & is_next & (after["together"] == together)
    own = F.coalesce("recorded", F.when(is_next, F.lit(False)).when(after.isNotNull(), F.lit(True)))
    so_far = from_the_end.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last_of_them = F.last(F.when(~F.coalesce(goes_on, F.lit(False)), F.struct(own.alias("own"))), ignorenulls=True).over(so_far)
    judgements = rows.withColumn("is_uncertain", last_of_them["own"]).where(commit.isNotNull())
    return judgements.select(*COMMIT_OFFSET_KEY, "commit", "is_uncertain")


@dataclass(frozen=True)
class CommitCertainty:
    """``is_uncertain`` of a run's own commits and of stored ones, by the run's records.

    Attributes:
        open_commits: places and ``is_uncertain`` of the new commits that are not certain; ``is_stored`` is true for others. None if all
            commits are as their source records them.
        changes: updates of stored commits whose ``is_uncertain`` is another one now.
    """

    open_commits: StagedKeys | None = None
    changes: tuple[TableChange, ...] = ()

    @property
    def rewritten_count(self) -> int:
        """Return the number of stored commits that the changes write again."""
        return sum(change.append_count or 0 for change in self.changes)

    def mark(self, rows: DataFrame) -> DataFrame:
        """Return new rows of ``offset_snapshots`` with ``is_uncertain``.

        Commits after which nothing has landed get a Spark partition of their own, which becomes a separate file. When a later record
        lands, only this file has to be rewritten.
        """
        if self.open_commits is None:
            return rows
        marks = self.open_commits.select(*COMMIT_OFFSET_KEY, "is_uncertain", "is_stored").where(~F.col("is_stored"))
        marks = marks.select(*COMMIT_OFFSET_KEY, F.struct("is_uncertain").alias("mark"))
        place, mark = list(COMMIT_OFFSET_KEY), F.col("mark")
        is_last = mark.isNotNull() & mark["is_uncertain"].isNull()
        uncertain = F.when(is_of_log(), F.when(mark.isNotNull(), mark["is_uncertain"]).otherwise(F.lit(False)))
        others = rows.join(marks, place, "left").where(~(is_of_log() & is_last)).withColumn("is_uncertain", uncertain).drop("mark")
        lasts = rows.where(is_of_log()).join(marks.where(is_last), place, "left_semi")
        return others.unionByName(lasts.withColumn("is_uncertain", F.lit(None).cast("boolean")).coalesce(1))


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
    is_commit = F.col("is_new") & (F.col("target") == "offset_commit") & (F.col("outcome") == str(Outcome.LANDED))
    made = [F.col(f"offset_commit.{name}").alias(name) for name in ("group_id", "observed_at")]
    commit = F.when(is_commit, F.struct(*made, F.lit(None).cast(OFFSET_SNAPSHOTS.schema).alias("stored")))
    read = _places(_kept_rows(resolved), F.col("offset_commit.is_uncertain").alias("recorded"), commit.alias("commit"))
    earlier = _open_commits(tables, read, list(survey.read_until)) if has_stored else None
    if earlier is not None:
        if is_all_recorded or survey.has_earlier:  # else they are asked for once
            earlier = tables.materialize("open_commits", earlier)
        if is_all_recorded and earlier.isEmpty():
            return CommitCertainty()
    stored = _stored_places(tables) if survey.has_earlier else None
    rows = judged(read, earlier, stored, has_repeats=survey.shared_places != ())
    rows = rows.select(*COMMIT_OFFSET_KEY, "commit.stored", F.col("commit.stored").isNotNull().alias("is_stored"), "is_uncertain")
    is_other = F.when(F.col("is_stored"), ~F.col("is_uncertain").eqNullSafe(F.col("stored.is_uncertain")))
    is_open = ~F.col("is_stored") & F.coalesce("is_uncertain", F.lit(True))
    uncertain = tables.materialize_keys("uncertain", rows.where(is_other | is_open))  # of new ones that are certain there are too many
    changes = _changed_commits(context, uncertain.rows.where("is_stored")) if has_stored and uncertain.count else ()
    return CommitCertainty(None if is_all_recorded else uncertain, changes)


def _open_commits(tables: Tables, read: DataFrame, partitions: list[str]) -> DataFrame:
    """Return the stored commits that may change: next to records that were read, the last of their log, and those made together.

    ``stored`` of ``commit`` is the whole row.
    """
    rows = tables.read(OFFSET_SNAPSHOTS.name).where(may_be_rewritten())
    rows = rows.where(F.concat_ws(" ", *PARTITION).isin(partitions))
    marked = F.when(F.col("source") == str(Source.DUMP_LOG), F.col("is_uncertain")).alias("recorded")
    whole = F.struct(*OFFSET_SNAPSHOTS.schema.names).alias("stored")
    rows = rows.select(*COMMIT_OFFSET_KEY, marked, F.struct("group_id", "observed_at", whole).alias("commit"))
    around = F.explode(F.array(*[F.try_add("position", F.lit(more).cast("bigint")) for more in (-1, 0, 1)]))
    beside = read.select(*PARTITION, around.alias("position")).distinct()
    uncertain, last = rows.where("commit.stored.is_uncertain"), rows.where("commit.stored.is_uncertain IS NULL")
    touched = uncertain.join(beside, list(COMMIT_OFFSET_KEY), "left_semi").unionByName(last)
    made = {name: F.col(f"commit.{name}") for name in ("group_id", "observed_at")}
    together = touched.select(*PARTITION, *[column.alias(name) for name, column in made.items()]).distinct()
    return rows.withColumns(made).join(together, together.columns, "left_semi").drop(*made)


def _changed_commits(context: RunContext, rows: DataFrame) -> tuple[TableChange, ...]:
    """Return the changes that rewrite stored commits with another ``is_uncertain``, as rows of this run."""
    count = rows.count()
    if not count:
        return ()
    logger.info("updating is_uncertain of %d commits of earlier runs from newly read records", count)
    again = rows.select("stored.*", F.col("is_uncertain").alias("is_uncertain_now"))
    again = again.withColumns({**context.run_columns, "is_uncertain": F.col("is_uncertain_now")}).drop("is_uncertain_now")
    columns = (*OFFSET_SNAPSHOTS.key, "run_sequence")  # so that Delta reads only the files of those runs
    keys = rows.select(*[f"stored.{name}" for name in columns])
    return (TableChange(OFFSET_SNAPSHOTS.name, keys, columns, again, count),)
