"""Groups of which only commits have landed.

Their consumers assign partitions themselves, so no coordinator stores a generation of them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.keys import GROUP_KEY


def count_commits(commits: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return a row for each group with a commit that was not deleted, and no snapshot.

    Columns: commit_count, first_at_ms, last_at_ms, newest_position, of the partitions whose last commit was not deleted.

    Reads: commits as schemas.tables.OFFSET_SNAPSHOTS, snapshots as schemas.tables.SUBSCRIPTION_SNAPSHOTS.
    """
    names, known = (rows.select(*GROUP_KEY).distinct() for rows in (commits, snapshots))
    without_snapshots = names.join(known, list(GROUP_KEY), "left_anti")  # few: only their commits are counted, partition by partition
    of_partition = (
        commits.join(F.broadcast(without_snapshots), list(GROUP_KEY), "left_semi")
        .groupBy(*GROUP_KEY, "topic", "partition")
        .agg(
            F.count("*").alias("commit_count"),
            F.min(F.unix_millis("observed_at")).alias("first_at_ms"),
            F.max(F.unix_millis("observed_at")).alias("last_at_ms"),
            F.max("position").alias("newest_position"),
            F.max_by("is_deleted", "position").alias("is_deleted"),
        )
    )
    of_group = of_partition.where(~F.col("is_deleted")).groupBy(*GROUP_KEY)
    return of_group.agg(
        F.sum("commit_count").alias("commit_count"),
        F.min("first_at_ms").alias("first_at_ms"),
        *[F.max(name).alias(name) for name in ("last_at_ms", "newest_position")],
    )
