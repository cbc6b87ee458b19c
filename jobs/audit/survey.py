"""What an audit of all groups asks of the snapshots before it begins: how large its rows are, and the work on each group."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.storage.generation_work import work_of_generation
from jobs.workers.partitions import bucket

FROM_COMMITS = 100_000
"""With fewer stored commits it costs more to find out the sizes than it saves."""
HOLDING_BYTES = 8
"""Most bytes that a solution takes for one partition, see ``jobs.workers.holdings_column``; so does one offset of a metadata snapshot."""


@dataclass(frozen=True)
class Survey:
    """What the rows of ``history_rows`` are like.

    Attributes:
        largest_row_bytes: about how many bytes the largest row has, and seldom less: texts count as JSON.
        work: as ``jobs.storage.generation_work.work_by_bucket`` returns it.
    """

    largest_row_bytes: int
    work: dict[int, int]


def survey(snapshots: DataFrame, topics: DataFrame, most_partitions: int) -> Survey:
    """Return what the rows of an audit are like, from one pass over its inputs.

    Args:
        snapshots: rows of ``subscription_snapshots``.
        topics: rows of ``generation_topics``; a solution may have all partitions of its topics.
        most_partitions: the largest number of partitions in one metadata snapshot of a topic.
    """
    held = F.aggregate(
        F.col("topics")["partition_count"], F.lit(0).cast("bigint"), lambda total, count: total + F.coalesce(count, F.lit(0))
    )
    of_snapshots = snapshots.select(
        bucket().alias("bucket"), work_of_generation().alias("work"), F.length(F.to_json("members")).cast("bigint").alias("bytes")
    )
    of_topics = topics.select(
        F.lit(None).cast("int").alias("bucket"),
        F.lit(0).cast("bigint").alias("work"),
        (F.length(F.to_json("topics")) + HOLDING_BYTES * held).alias("bytes"),
    )
    rows = of_snapshots.unionByName(of_topics).groupBy("bucket").agg(F.sum("work").alias("work"), F.max("bytes").alias("bytes")).collect()
    largest = max((row["bytes"] or 0 for row in rows), default=0)
    return Survey(
        max(largest, 3 * HOLDING_BYTES * most_partitions), {row["bucket"]: row["work"] for row in rows if row["bucket"] is not None}
    )
