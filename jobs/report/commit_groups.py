"""Groups of which only commits have landed.

Their consumers assign partitions themselves, so no coordinator stores a generation of them. Groups of Kafka Streams' own protocol
(KIP-1071) are among them too, since their other records are skipped.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.keys import GROUP_KEY


def count_commits(last: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return a row for each group with a commit that was not deleted, and no snapshot.

    Columns: commit_count, first_at_ms, last_at_ms, newest_position, of the partitions whose last commit was not deleted.

    Reads: snapshots as schemas.tables.SUBSCRIPTION_SNAPSHOTS.

    Args:
        last: as ``last_commits_of`` returns them.
    """
    names, known = (rows.select(*GROUP_KEY).distinct() for rows in (last, snapshots))
    without_snapshots = names.join(known, list(GROUP_KEY), "left_anti")  # few: only their partitions are counted
    entries = last.join(F.broadcast(without_snapshots), list(GROUP_KEY), "left_semi").select(*GROUP_KEY, "topic", F.inline("commits"))
    of_partition = entries.groupBy(*GROUP_KEY, "topic", "partition").agg(
        F.sum("record_count").alias("commit_count"),
        F.min("first_us").alias("first_us"),
        F.max("newest_us").alias("newest_us"),
        F.max("position").alias("newest_position"),
        F.bool_or(F.col("is_last") & F.col("is_deleted")).alias("is_deleted"),
    )
    of_group = of_partition.where(~F.col("is_deleted")).groupBy(*GROUP_KEY)
    return of_group.agg(
        F.sum("commit_count").alias("commit_count"),
        F.floor(F.min("first_us") / 1_000).alias("first_at_ms"),
        F.floor(F.max("newest_us") / 1_000).alias("last_at_ms"),
        F.max("newest_position").alias("newest_position"),
    )
