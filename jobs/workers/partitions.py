"""Rows with equal keys in one partition, for workers.

A worker has no way to ask Spark for that, as an aggregate or a window has, and ``repartition`` by the columns of a key does not ensure it.
Spark leaves such a shuffle out where a join below has distributed its rows by the same columns. Adaptive execution may then read the
join's own shuffle in another way: a mapper's output at a time, or only a part of a large partition. Nobody above the join needs its
distribution, as far as Spark knows. So the rows of a group would come to several workers, each of which takes them for the whole group.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.keys import GROUP_KEY

FEWEST_SPREAD, MOST_SPREAD = 3, 64
"""Range of shuffle partitions that ``spread_groups`` keeps: a small run has two, and hundreds cost more than they save."""


GENERATIONS_OF_TASK = 50
"""Generations that a task of workers should have at least: a task takes as long to start as some ten generations to compute."""


def keep_together(rows: DataFrame, *names: str, partition_count: int | None = None) -> DataFrame:
    """Return rows with those of each key in one partition.

    They are distributed by a hash of the key. No join or aggregate distributes its rows by that, so Spark cannot leave the shuffle out.

    Args:
        names: columns of the key.
        partition_count: None lets Spark choose, and merge small partitions.
    """
    key = F.xxhash64(*names)
    return rows.repartition(key) if partition_count is None else rows.repartition(partition_count, key)


def spread_groups(rows: DataFrame, generation_count: int | None = None) -> DataFrame:
    """Return rows with each group in one partition, for workers: in all partitions of a shuffle if these are some dozens.

    Adaptive execution would merge partitions by their bytes. But the work on a group takes far longer than its transfer, so the last
    partition would keep one core busy while the others wait.

    Args:
        generation_count: how many generations there are to compute, if it is known: few go to few partitions.
    """
    count = rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    is_kept = count.isdecimal() and FEWEST_SPREAD <= int(count) <= MOST_SPREAD  # some platforms choose the number themselves
    if not is_kept:
        return keep_together(rows, *GROUP_KEY)
    enough = MOST_SPREAD if generation_count is None else max(FEWEST_SPREAD, generation_count // GENERATIONS_OF_TASK)
    return keep_together(rows, *GROUP_KEY, partition_count=min(int(count), enough))
