"""How large the rows are that the workers of an audit receive."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

FROM_COMMITS = 100_000
"""With fewer stored commits it costs more to find out the sizes than it saves."""
HOLDING_BYTES = 8
"""Most bytes that a solution takes for one partition, see ``jobs.workers.holdings_column``; so does one offset of a metadata snapshot."""


def largest_row_bytes(snapshots: DataFrame, topics: DataFrame, most_partitions: int) -> int:
    """Return about how many bytes the largest row of ``history_rows`` has, and seldom less: texts count as JSON.

    Args:
        snapshots: rows of ``subscription_snapshots``.
        topics: rows of ``generation_topics``; a solution may have all partitions of its topics.
        most_partitions: the largest number of partitions in one metadata snapshot of a topic.
    """
    held = F.aggregate(
        F.col("topics")["partition_count"], F.lit(0).cast("bigint"), lambda total, count: total + F.coalesce(count, F.lit(0))
    )
    sizes = (
        snapshots.select(F.length(F.to_json("members")).cast("bigint").alias("bytes")),
        topics.select((F.length(F.to_json("topics")) + HOLDING_BYTES * held).alias("bytes")),
    )
    (largest,) = sizes[0].unionByName(sizes[1]).agg(F.max("bytes")).collect()[0]
    return max(largest or 0, 3 * HOLDING_BYTES * most_partitions)
