"""Resume offsets: ``offset_snapshots``, ``topic_snapshots`` -> where the owner of a partition continues to read at some moment.

A moment is a partition and a time. Its resume offset needs the last commit up to the moment, the last metadata snapshot up to it, which has
the beginning of the log, and the first one since moment and commit, which has its end. A late commit or metadata snapshot changes the
result, so the stored movements that it affects are computed again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.audit.new_commits import NewCommits, affected_rows, earlier_rows, has_no_places
from jobs.context import RunContext
from jobs.storage.current_lag import waiting_records
from jobs.storage.hashed_keys import hashed, join_hashed
from jobs.storage.scratch import StagedKeys
from schemas.keys import GROUP_KEY, PARTITION_KEY, TOPIC_KEY
from schemas.tables import MOVEMENTS
from schemas.vocabulary import ResumeOutcome

logger = logging.getLogger(__name__)

PARTITION_AT_KEY = (*PARTITION_KEY, "position", "observed_at")
RESUME_COLUMNS = (
    *("committed_offset", "begin_offset", "end_offset", "resume_outcome", "lag", "committed_at"),
    *("end_offset_delay_ms", "lag_is_upper_bound"),
)

Stage = Callable[[str, DataFrame], DataFrame]
"""``Warehouse.materialize``, or a function like it."""


def _last_commits(moments: DataFrame, commits: DataFrame) -> DataFrame:
    """Return moments with ``commit``, the last row of the group's commits for the partition up to then; null if there is none.

    Args:
        moments: the columns of ``PARTITION_AT_KEY``, and others.
    """
    by_time = commits.where(has_no_places(F.col("source"))).select(*GROUP_KEY).distinct().withColumn("by_time", F.lit(True))
    commit = F.struct("topic_id", "committed_offset", "committed_at", "is_deleted", "is_uncertain")
    made = commits.select(*PARTITION_KEY, "position", "observed_at", commit.alias("commit"), F.lit(False).alias("is_moment"))
    events = moments.withColumn("is_moment", F.lit(True)).unionByName(made, allowMissingColumns=True)
    order = F.when(F.col("by_time"), F.unix_micros("observed_at")).otherwise(F.col("position"))
    events = events.join(F.broadcast(by_time), list(GROUP_KEY), "left").withColumn("log_order", order)
    of_partition = Window.partitionBy(*hashed(*PARTITION_KEY))
    up_to_now = of_partition.orderBy("log_order", "is_moment", "position").rowsBetween(Window.unboundedPreceding, 0)
    answered = events.withColumn("commit", F.last("commit", ignorenulls=True).over(up_to_now))
    return answered.where("is_moment").select(*moments.columns, "commit")


def _nearest_looks(times: DataFrame, looks: DataFrame) -> DataFrame:
    """Return times with ``look_before`` and ``look_after``, the times of the last metadata snapshot up to then and of the first since then.

    Args:
        times: distinct rows of cluster_id, topic, at.
    """
    asked = times.withColumn("look_at", F.lit(None).cast("timestamp"))
    made = looks.join(times.select(*TOPIC_KEY).distinct(), list(TOPIC_KEY), "left_semi").select(
        *TOPIC_KEY, F.col("observed_at").alias("at"), "look_at"
    )
    is_asked, of_topic = F.col("look_at").isNull(), Window.partitionBy(*hashed(*TOPIC_KEY))
    # A metadata snapshot of the same instant counts as both: the log cannot have been different.
    before = of_topic.orderBy("at", is_asked).rowsBetween(Window.unboundedPreceding, 0)
    after = of_topic.orderBy(F.desc("at"), is_asked).rowsBetween(Window.unboundedPreceding, 0)
    nearest = {
        "look_before": F.last("look_at", ignorenulls=True).over(before),
        "look_after": F.last("look_at", ignorenulls=True).over(after),
        "is_asked": is_asked,
    }
    return asked.unionByName(made).withColumns(nearest).where("is_asked").select(*TOPIC_KEY, "at", "look_before", "look_after")


def _seen_by(looks: DataFrame, nearest: DataFrame) -> DataFrame:
    """Return the content of the nearest metadata snapshots.

    Rows: cluster_id, topic, look_at, partition; ``seen`` has look_at, topic_id, begin_offset and end_offset.
    """
    wanted = nearest.select(*TOPIC_KEY, F.explode(F.array("look_before", "look_after")).alias("look_at")).distinct()
    found = looks.join(wanted, [*TOPIC_KEY, "look_at"], "left_semi").select(*TOPIC_KEY, "look_at", "topic_id", F.inline("partitions"))
    return found.select(*TOPIC_KEY, "look_at", "partition", F.struct("look_at", "topic_id", "begin_offset", "end_offset").alias("seen"))


def _with_looks(moments: DataFrame, looks: DataFrame, stage: Stage) -> DataFrame:
    """Return moments with ``before`` and ``after``: the last metadata snapshot up to ``observed_at``, the first since ``end_from``."""
    looks = looks.withColumn("look_at", F.col("observed_at"))
    times = moments.select(*TOPIC_KEY, F.explode(F.array("observed_at", "end_from")).alias("at")).distinct()
    nearest = stage("nearest_looks", _nearest_looks(times, looks))
    seen = _seen_by(looks, nearest)
    for at, column, name in (("observed_at", "look_before", "before"), ("end_from", "look_after", "after")):
        snapshot_offsets = nearest.select(*TOPIC_KEY, F.col("at").alias(at), F.col(column).alias("look_at"))
        moments = join_hashed(moments, snapshot_offsets, [*TOPIC_KEY, at], "left")
        moments = join_hashed(moments, seen, [*TOPIC_KEY, "look_at", "partition"], "left")
        moments = moments.withColumnRenamed("seen", name).drop("look_at")
    return moments


def _committed(name: str) -> Column:
    """Return a field of ``commit``; null if it is a deletion, or if there is none."""
    return F.when(~F.col("commit")["is_deleted"], F.col("commit")[name])


def _end_offset_columns(end: Column, lag: Column, max_look_delay_s: float | None) -> tuple[Column, Column, Column]:
    """Return the lag, the time from the moment to the metadata snapshot with the end of the log, and whether the lag is an upper bound.

    It is an upper bound if records may have arrived in between. None did if the lag is 0, or if the metadata snapshot before has the same
    end of the log.
    """
    before, after = F.col("before"), F.col("after")
    delay_ms = F.when(end.isNotNull(), F.unix_millis(after["look_at"]) - F.unix_millis("observed_at"))
    known = lag if max_look_delay_s is None else F.when(delay_ms <= F.lit(round(max_look_delay_s * 1000)), lag)
    same = before["topic_id"].eqNullSafe(after["topic_id"]) & (before["end_offset"] == after["end_offset"])
    is_bound = (delay_ms > 0) & (known > 0) & ~F.coalesce(same, F.lit(False))
    return known, delay_ms, F.when(known.isNotNull(), is_bound)


def _resume_columns(max_look_delay_s: float | None) -> dict[str, Column]:
    """Return the resume columns of ``movements``, from ``commit`` and the metadata snapshots ``before`` and ``after``."""
    commit, before, after = F.col("commit"), F.col("before"), F.col("after")
    committed = _committed("committed_offset")
    # Offsets of an earlier or later topic with the same name do not count.
    begin = F.when(F.coalesce(commit["topic_id"] == before["topic_id"], F.lit(True)), before["begin_offset"])
    topic_id = F.coalesce(commit["topic_id"], before["topic_id"])
    end = F.when(F.coalesce(topic_id == after["topic_id"], F.lit(True)), after["end_offset"])
    was_ahead = topic_id.eqNullSafe(before["topic_id"]) & (committed > before["end_offset"])
    outcome = (
        F.when((commit.isNull() & ~F.col("is_complete")) | F.coalesce(commit["is_uncertain"], F.lit(False)), str(ResumeOutcome.UNKNOWN))
        .when(committed.isNull(), str(ResumeOutcome.RESET_NONE))
        .when(committed < begin, str(ResumeOutcome.RESET_OUT_OF_RANGE))
        .when(topic_id.eqNullSafe(after["topic_id"]) & (committed > end), str(ResumeOutcome.RESET_OUT_OF_RANGE))
        .when(was_ahead & (before["look_at"] >= _committed("committed_at")), str(ResumeOutcome.RESET_OUT_OF_RANGE))
        .when(begin.isNotNull(), str(ResumeOutcome.COMMITTED))
        .otherwise(str(ResumeOutcome.UNKNOWN))
    )
    known, delay_ms, is_bound = _end_offset_columns(end, waiting_records(committed, end), max_look_delay_s)
    values = (committed, begin, end, outcome, known, _committed("committed_at"), delay_ms, is_bound)
    return dict(zip(RESUME_COLUMNS, values, strict=True))


def _rate() -> Column:
    """Return how fast the log grew between the metadata snapshots before and after the moment, in millionths of a record per second.

    Null if one of them is missing, or has another topic of the name, or a shorter log, or an impossible one.
    """
    before, after = F.col("before"), F.col("after")
    growth = F.when(before["topic_id"].eqNullSafe(after["topic_id"]), F.try_subtract(after["end_offset"], before["end_offset"]))
    milliseconds = F.unix_millis(after["look_at"]) - F.unix_millis(before["look_at"])
    # Whole numbers, so that sums do not depend on the order of their terms.
    return F.when((growth >= 0) & (milliseconds > 0), F.floor(growth * F.lit(1e9) / milliseconds).cast("bigint"))


def resolve_resume_offsets(
    moments: DataFrame,
    commits: DataFrame,
    looks: DataFrame,
    complete: DataFrame,
    stage: Stage,
    max_look_delay_s: float | None = None,
) -> DataFrame:
    """Return the moments with the resume offset of their partition, and how fast its log grew.

    The outcome is one of:

    * ``committed``: the commit is not below the beginning of the log.
    * ``reset_out_of_range``: it is below, or above the end of the log in a metadata snapshot since the commit, for the same topic. A
      commit above the end in an earlier metadata snapshot is not out of range, because the log had grown since.
    * ``reset_none``: the group is known to have no commit: by a tombstone, by a source that says so, or because its partition of
      ``__consumer_offsets`` was read from the first record.
    * ``unknown``: anything else.

    Added columns: the resume columns, ``rate`` (millionths of a record per second), ``end_from`` (the time from which on a metadata
    snapshot gives the end of the log: the moment, or the time of the last commit if that is later). Lag is null without such a metadata
    snapshot. It is an upper bound if that is later than the moment, because records may have arrived in between.

    Args:
        moments: the columns of ``PARTITION_AT_KEY``, and others, which stay.
        commits: rows of ``offset_snapshots``: at least all rows of these groups.
        looks: rows of ``topic_snapshots``.
        complete: as ``complete_groups`` returns them.
        stage: stores rows that are needed more than once: a plan that repeats their computation takes longer to build than to run.
        max_look_delay_s: lag is null if its metadata snapshot is later than the moment by more seconds; None: no limit.
    """
    known = complete.select(*GROUP_KEY, F.lit(True).alias("known"))
    asked = (
        _last_commits(moments, commits).join(known, list(GROUP_KEY), "left").withColumn("is_complete", F.coalesce("known", F.lit(False)))
    )
    asked = stage("last_commits", asked.withColumn("end_from", F.greatest("observed_at", _committed("committed_at"))))
    resolved = {**_resume_columns(max_look_delay_s), "rate": _rate()}
    return _with_looks(asked, looks, stage).withColumns(resolved).select(*moments.columns, *resolved, "end_from")


def of_groups_in(rows: StagedKeys, commits: DataFrame) -> DataFrame:
    """Return the commits of the groups of some rows."""
    return commits.join(rows.distinct(*GROUP_KEY), list(GROUP_KEY), "left_semi")


def moments_of(movements: DataFrame) -> DataFrame:
    """Return the moments at which movements gave a partition to an owner."""
    return movements.where("member_id IS NOT NULL").select(*PARTITION_AT_KEY).distinct()


def with_resumption(movements: DataFrame, answered: DataFrame) -> DataFrame:
    """Return movements with the resume columns; all null if nobody owns the partition now.

    Args:
        movements: their own resume columns are ignored.
        answered: ``resolve_resume_offsets`` for their moments, and maybe for others.
    """
    bare, resumed = movements.drop(*RESUME_COLUMNS), answered.select(*PARTITION_KEY, "position", *RESUME_COLUMNS)
    # A row of one basis may give the partition to an owner, and a row of another basis to nobody.
    values = {name: F.when(F.col("member_id").isNotNull(), F.col(name)) for name in RESUME_COLUMNS}
    return join_hashed(bare, resumed, [*PARTITION_KEY, "position"], "left").withColumns(values).select(*movements.columns)


def differs_from_stored(columns: Iterable[str]) -> Column:
    """Return whether one of the columns differs from its stored value, which is in the column ``stored_<name>``."""
    return ~reduce(Column.__and__, [F.col(name).eqNullSafe(F.col(f"stored_{name}")) for name in columns])


def refresh(context: RunContext, news: NewCommits) -> None:
    """Update movements of earlier runs that newly landed commits or topic metadata affect."""
    warehouse = context.warehouse
    stored = news.rows_to_ask(context, MOVEMENTS.name)
    moment = F.greatest("observed_at", "committed_at")
    affected = affected_rows(stored, news, moment, moment)
    if news.newly_complete is not None:
        unknown = earlier_rows(context, MOVEMENTS.name).where(F.col("resume_outcome") == str(ResumeOutcome.UNKNOWN))
        of_groups = unknown.join(news.newly_complete, list(GROUP_KEY), "left_semi")
        affected = affected.unionByName(of_groups).dropDuplicates(list(MOVEMENTS.key))
    concerned = warehouse.materialize_keys("concerned_movements", affected)
    if not concerned.count:
        return
    again = concerned.rows
    stored_columns = again.select(*MOVEMENTS.key, *[F.col(name).alias(f"stored_{name}") for name in RESUME_COLUMNS])
    commits, max_look_delay_s = of_groups_in(concerned, news.commits), context.settings.audit.max_look_delay_s
    answered = resolve_resume_offsets(moments_of(again), commits, news.looks, news.complete, warehouse.materialize, max_look_delay_s)
    resumed = with_resumption(again, answered).join(stored_columns, list(MOVEMENTS.key))
    resumed = resumed.where(differs_from_stored(RESUME_COLUMNS)).withColumns(context.run_columns).select(*MOVEMENTS.schema.names)
    changed = warehouse.materialize_any("resumed_otherwise", resumed)
    if changed is None:
        return
    count, _ = warehouse.replace(MOVEMENTS.name, changed, MOVEMENTS.key, changed)
    logger.info("updated %d movements of earlier runs from newly landed commits or topic metadata", count)
