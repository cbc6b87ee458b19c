"""The lag of now: the newest commit of each partition against the newest known end of its log.

The end is that of the newest metadata snapshot, or the one that the source has beside the commit, whichever is later.

Nothing of it is stored. It changes with every commit and every metadata snapshot, also if a group never rebalances.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.storage.hashed_keys import join_hashed
from jobs.storage.last_commits import last_of_partitions
from schemas.keys import GENERATION_KEY, GROUP_KEY, PARTITION_KEY, TOPIC_KEY
from schemas.tables import CURRENT_LAG
from schemas.vocabulary import MOST_LAG, Basis


def newest_with_ends(looks: DataFrame) -> DataFrame:
    """Return the time of the newest metadata snapshot of each topic that has ends of it: (cluster_id, topic), observed_at.

    Reads: looks as schemas.tables.TOPIC_SNAPSHOTS.
    """
    with_ends = looks.where(F.array_max(F.col("partitions")["end_offset"]).isNotNull())
    return with_ends.groupBy(*TOPIC_KEY).agg(F.max("observed_at").alias("observed_at"))


def _topic_hash() -> Column:
    return F.when(F.col("topic_id").isNotNull(), F.xxhash64("topic_id"))


def newest_ends(looks: DataFrame) -> DataFrame:
    """Return where the log of each partition ends in the newest metadata snapshot that has ends of its topic.

    Rows: (cluster_id, topic, partition); end_offset, looked_at, looked_topic (hash of topic_id, null if the metadata snapshot has none).

    Reads: looks as schemas.tables.TOPIC_SNAPSHOTS.
    """
    seen = looks.join(newest_with_ends(looks), [*TOPIC_KEY, "observed_at"]).select(
        *TOPIC_KEY, F.col("observed_at").alias("looked_at"), _topic_hash().alias("looked_topic"), F.inline("partitions")
    )
    return seen.select(*TOPIC_KEY, "partition", "end_offset", "looked_at", "looked_topic")


def newest_positions(audits: DataFrame) -> DataFrame:
    """Return the position of the newest audited generation of each group: (cluster_id, group_id), position.

    Reads: audits as schemas.tables.GENERATION_AUDITS.
    """
    return audits.where(F.col("basis") == str(Basis.OBSERVED)).groupBy(*GROUP_KEY).agg(F.max("position").alias("position"))


def newest_assignments(assignments: DataFrame, audits: DataFrame) -> DataFrame:
    """Return the observed assignments of the newest generation of each group. A group whose newest generation is empty has none.

    Reads: assignments as schemas.tables.ASSIGNMENTS, audits as schemas.tables.GENERATION_AUDITS.
    """
    observed = assignments.where(F.col("basis") == str(Basis.OBSERVED))
    return observed.join(newest_positions(audits), list(GENERATION_KEY), "left_semi")


def waiting_records(committed: Column, end: Column) -> Column:
    """Return how many records come after a committed offset, up to the end of the log; 0 if the commit is beyond it.

    Null if one of the two is. A capture may have commits below 0, with which the number would not fit.
    """
    waiting = F.coalesce(F.try_subtract(end, committed), F.when(committed < 0, F.lit(MOST_LAG)))  # greatest ignores a null
    return F.when(committed.isNotNull() & end.isNotNull(), F.greatest(waiting, F.lit(0).cast("bigint")))


def current_lag(last: DataFrame, looks: DataFrame, held: DataFrame) -> DataFrame:
    """Return the lag of each partition that a group has a commit of, or that a member has: rows of schemas.tables.CURRENT_LAG.

    Reads: looks as schemas.tables.TOPIC_SNAPSHOTS.

    Args:
        last: as ``last_commits_of`` returns them.
        held: as ``newest_assignments`` returns them, of the same groups as the commits.
    """
    entries = held.select(*GROUP_KEY, "member_id", F.inline("partitions"))
    owners = entries.select(*GROUP_KEY, "member_id", "topic", F.explode(F.array_distinct("partitions")).alias("partition"))
    rows = join_hashed(_live_commits(last), owners, PARTITION_KEY, "full")
    return _with_lag(rows, looks).select(*CURRENT_LAG.schema.names)


def group_lags(last: DataFrame, looks: DataFrame) -> DataFrame:
    """Return the lag of all partitions together of each group that has a known one: (cluster_id, group_id), group_lag.

    Reads: looks as schemas.tables.TOPIC_SNAPSHOTS.

    Args:
        last: as ``last_commits_of`` returns them.
    """
    known = _with_lag(_live_commits(last), looks).where("lag IS NOT NULL")
    return known.groupBy(*GROUP_KEY).agg(sum_of_lags().alias("group_lag"))


def sum_of_lags(column: str = "lag") -> Column:
    """Return the sum of the lags of a column, each of which may be as large as the type; null without one."""
    return F.sum(F.col(column).cast("decimal(38,0)"))


def _live_commits(last: DataFrame) -> DataFrame:
    """Return the partitions whose last commit is not deleted.

    Rows: ``PARTITION_KEY``; commit_topic, committed_offset, committed_at; end_beside and beside_at: the end of the log that the source has
    beside the commit, and its time, both null without one.
    """
    live = last_of_partitions(last).where("NOT is_deleted")
    return live.select(
        *PARTITION_KEY,
        F.col("topic_hash").alias("commit_topic"),
        "committed_offset",
        F.timestamp_micros("committed_us").alias("committed_at"),
        F.col("end_offset").alias("end_beside"),
        F.when(F.col("end_offset").isNotNull(), F.timestamp_micros("observed_us")).alias("beside_at"),
    )


def _with_lag(commits: DataFrame, looks: DataFrame) -> DataFrame:
    """Return newest commits with end_offset, looked_at and lag, each null if it is not known."""
    rows = commits.join(newest_ends(looks), [*TOPIC_KEY, "partition"], "left")
    # Offsets of an earlier or later topic with the same name do not count.
    is_same = F.coalesce(F.col("commit_topic") == F.col("looked_topic"), F.lit(True))
    looked_at = F.when(is_same & F.col("end_offset").isNotNull(), F.col("looked_at"))
    is_beside = F.col("beside_at").isNotNull() & (looked_at.isNull() | (F.col("beside_at") >= looked_at))
    known = rows.withColumns(
        {
            "end_offset": F.when(is_beside, F.col("end_beside")).when(is_same, F.col("end_offset")),
            "looked_at": F.when(is_beside, F.col("beside_at")).otherwise(looked_at),
        }
    )
    return known.withColumn("lag", waiting_records(F.col("committed_offset"), F.col("end_offset")))
