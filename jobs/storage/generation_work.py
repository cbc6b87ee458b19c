"""How much work replay and audit have with each group, so that tasks can be balanced."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.workers.partitions import bucket

WORK_OF_GENERATION, WORK_OF_MEMBER = 150, 6
"""What a generation and each of its members cost besides its partitions. The unit is what one partition costs.

Measured over 1,000 groups of 1 to 200 members: with six results a generation takes 1.0 ms to replay and 1.5 to audit, a member 39 and
50 µs, and a partition 5 and 10 µs. Divided into 8 tasks by this sum, the longest of them takes 1.05 times the mean. By a hash of the group
it takes 1.16 times, and by members times partitions 1.35 times, since that rates the largest group at 218 times the mean one: it takes 12.
"""


def work_of_generation() -> Column:
    """Return the work on a row of ``subscription_snapshots``, as many times what one partition costs."""
    partitions = F.flatten(F.flatten(F.col("members")["assigned"])["partitions"])
    work = WORK_OF_GENERATION + WORK_OF_MEMBER * F.size("members") + F.coalesce(F.size(partitions), F.lit(0))
    return work.cast("bigint")


def work_by_bucket(snapshots: DataFrame) -> dict[int, int]:
    """Return the work on all snapshots of each bucket that has any; it takes a Spark job.

    Args:
        snapshots: rows of ``subscription_snapshots``.
    """
    found = snapshots.groupBy(bucket().alias("bucket")).agg(F.sum(work_of_generation()).alias("work")).collect()
    return {row["bucket"]: row["work"] for row in found}
