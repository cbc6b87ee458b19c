"""Members that do not commit, although records come into their partitions: those that never did, and those that have stopped."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.storage.current_lag import newest_ends, waiting_records
from schemas.keys import GROUP_KEY, TOPIC_KEY
from schemas.vocabulary import MOST_LAG

PARTITIONS_NAMED = 5


def waiting_partitions(signs: DataFrame, looks: DataFrame) -> DataFrame:
    """Return the partitions of members that do not commit, with the records that came in.

    Rows: cluster_id, group_id, the fields of ``waiting``, timestamps since and until; ``record_count``, from the first metadata snapshot
    since ``since`` to the last one up to ``until``.

    The count is 0 if there are no two metadata snapshots, or if they have different topics of the name, or a shorter log. It is a decimal,
    because a capture may have any offsets.

    Args:
        signs: rows of ``schemas.staging.COMMIT_SIGNS``.
        looks: rows of ``topic_snapshots``.
    """
    listed = signs.select(*GROUP_KEY, F.inline("waiting"))
    times = {name: F.timestamp_micros(f"{name}_us") for name in ("since", "until")}
    held = listed.withColumns(times)
    seen = looks.select(*TOPIC_KEY, F.col("observed_at").alias("look_at"), "topic_id", F.inline("partitions"))
    seen = seen.select(*TOPIC_KEY, "partition", "look_at", F.struct("topic_id", "end_offset").alias("seen"))
    between = held.select(*TOPIC_KEY, "partition", "since", "until").distinct().join(seen, [*TOPIC_KEY, "partition"])
    ends = (
        between.where("look_at BETWEEN since AND until")
        .groupBy(*TOPIC_KEY, "partition", "since", "until")
        .agg(F.min_by("seen", "look_at").alias("first"), F.max_by("seen", "look_at").alias("final"))
    )
    first, final = F.col("first"), F.col("final")
    growth = final["end_offset"].cast("decimal(38,0)") - first["end_offset"].cast("decimal(38,0)")
    growth = F.when(first["topic_id"].eqNullSafe(final["topic_id"]), F.greatest(growth, F.lit(0)))
    return held.join(ends, [*TOPIC_KEY, "partition", "since", "until"], "left").withColumn("record_count", F.coalesce(growth, F.lit(0)))


def silent_members(grown: DataFrame) -> DataFrame:
    """Return the members for whose partitions the group never committed an offset, although records arrived long enough ago.

    Rows: (cluster_id, group_id); ``silent`` has member_id, partition_count and record_count, by member id.

    Args:
        grown: as ``waiting_partitions`` returns them, those without ``is_stopped``.
    """
    record_count = F.least(F.sum("record_count"), F.lit(MOST_LAG).cast("decimal(38,0)")).cast("bigint")
    by_member = grown.groupBy(*GROUP_KEY, "member_id").agg(
        F.count(F.lit(1)).cast("int").alias("partition_count"), record_count.alias("record_count")
    )
    member = F.struct("member_id", "partition_count", "record_count")
    return by_member.where("record_count > 0").groupBy(*GROUP_KEY).agg(F.sort_array(F.collect_list(member)).alias("silent"))


def _sum(name: str) -> Column:
    """Return the sum of a column, at most the largest number that a column can hold; null if no value is known."""
    total = F.sum(F.col(name).cast("decimal(38,0)"))
    return F.when(total > MOST_LAG, F.lit(MOST_LAG)).otherwise(total.cast("bigint"))  # least ignores a null


def stalled_members(grown: DataFrame, looks: DataFrame) -> DataFrame:
    """Return the members that have stopped to commit although records came in, long enough before their commits are no longer known.

    Rows: (cluster_id, group_id); ``stalled`` has the fields of ``jobs.findings.commits.StalledMember``, by member id.

    Args:
        grown: as ``waiting_partitions`` returns them, those with ``is_stopped``.
    """
    ends = newest_ends(looks).select(*TOPIC_KEY, "partition", "end_offset")
    with_lag = grown.join(ends, [*TOPIC_KEY, "partition"], "left").withColumn(
        "lag", waiting_records(F.col("committed_offset"), F.col("end_offset"))
    )
    names = F.sort_array(F.collect_list(F.concat_ws("-", "topic", "partition")))
    by_member = with_lag.groupBy(*GROUP_KEY, "member_id", "since", "silent_ms").agg(
        F.count(F.lit(1)).cast("int").alias("partition_count"),
        F.slice(names, 1, PARTITIONS_NAMED).alias("partitions"),
        *[_sum(name).alias(name) for name in ("record_count", "lag")],
    )
    since_ms = F.unix_millis("since").alias("since_ms")
    member = F.struct("member_id", "partition_count", "partitions", "record_count", "lag", since_ms, "silent_ms")
    return by_member.where("record_count > 0").groupBy(*GROUP_KEY).agg(F.sort_array(F.collect_list(member)).alias("stalled"))
