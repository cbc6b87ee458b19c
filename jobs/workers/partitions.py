"""Rows with equal keys in one partition, for workers.

A worker has no way to ask Spark for that, as an aggregate or a window has, and ``repartition`` by the columns of a key does not ensure it.
Spark leaves such a shuffle out where a join below has distributed its rows by the same columns. Adaptive execution may then read the
join's own shuffle in another way: a mapper's output at a time, or only a part of a large partition. Nobody above the join needs its
distribution, as far as Spark knows. So the rows of a group would come to several workers, each of which takes them for the whole group.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from schemas.keys import GROUP_KEY

FEWEST_SPREAD, MOST_SPREAD = 3, 64
"""Range of shuffle partitions that ``spread_groups`` keeps: a small run has two, and hundreds cost more than they save."""
GENERATIONS_OF_TASK = 50
"""Generations that a task of workers should have at least: a task takes as long to start as some ten generations to compute."""
MANY_GENERATIONS = MOST_SPREAD * GENERATIONS_OF_TASK
"""With fewer generations it costs more to find out the work on each group than it saves."""

BUCKETS = 4_096
"""Groups are put into so many buckets by a hash of their key. All groups of a bucket go to one task."""
MOST_BALANCED = 256
"""The most balanced tasks where the platform chooses the number of shuffle partitions itself."""
MEAN_WORK = 240
"""Work on a generation of 8 members and 40 partitions, see ``jobs.storage.generation_work``."""


def keep_together(rows: DataFrame, *names: str, partition_count: int | None = None) -> DataFrame:
    """Return rows with those of each key in one partition.

    They are distributed by a hash of the key. No join or aggregate distributes its rows by that, so Spark cannot leave the shuffle out.

    Args:
        names: columns of the key.
        partition_count: None lets Spark choose, and merge small partitions.
    """
    key = F.xxhash64(*names)
    return rows.repartition(key) if partition_count is None else rows.repartition(partition_count, key)


def bucket() -> Column:
    """Return the bucket of the group that a row belongs to."""
    return F.pmod(F.xxhash64(*GROUP_KEY), F.lit(BUCKETS)).cast("int")


def balanced_tasks(work: Mapping[int, int], task_count: int) -> list[int]:
    """Return the task of each bucket, so that the work of tasks is about equal. Task 0, which starts first, has the most.

    Each bucket, the largest first, goes to the task that has the least work so far (R. L. Graham, "Bounds on multiprocessing timing
    anomalies", 1969): the last task ends at most a third later than it would in the best division.

    Args:
        work: by bucket; the others, whose groups have no snapshots, are dealt out in turn.
    """
    tasks = [(0, task) for task in range(task_count)]
    chosen: dict[int, int] = {}
    for number, amount in sorted(work.items(), key=lambda item: (-item[1], item[0])):
        total, task = heapq.heappop(tasks)
        chosen[number] = task
        heapq.heappush(tasks, (total + amount, task))
    by_work = sorted(tasks, key=lambda item: (-item[0], item[1]))
    place = {task: number for number, (_, task) in enumerate(by_work)}
    return [place[chosen[number]] if number in chosen else number % task_count for number in range(BUCKETS)]


def _can_choose_partitions(rows: DataFrame) -> bool:
    """Return whether rows can be put into a partition of choice: client and server of Spark Connect may have different versions."""
    return hasattr(rows, "repartitionById") and not rows.sparkSession.version.startswith("4.0.")


def spread_groups(rows: DataFrame, generation_count: int | None = None, work: Mapping[int, int] | None = None) -> DataFrame:
    """Return rows with each group in one partition, for workers: in all partitions of a shuffle if these are some dozens.

    Adaptive execution would merge partitions by their bytes. But the work on a group takes far longer than its transfer, so the last
    partition would keep one core busy while the others wait.

    Args:
        generation_count: how many generations there are to compute, if it is known: few go to few partitions.
        work: as ``jobs.storage.generation_work.work_by_bucket`` returns it; None if it is not known. Spark 4.0 cannot place rows by it, and
            hashes them.
    """
    count = rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    if work and _can_choose_partitions(rows):
        enough = max(FEWEST_SPREAD, sum(work.values()) // (GENERATIONS_OF_TASK * MEAN_WORK))
        task_count = min(int(count) if count.isdecimal() else MOST_BALANCED, enough)
        tasks = F.split(F.lit(",".join(map(str, balanced_tasks(work, task_count)))), ",").cast("array<int>")
        return rows.repartitionById(task_count, tasks[bucket()])
    is_kept = count.isdecimal() and FEWEST_SPREAD <= int(count) <= MOST_SPREAD  # some platforms choose the number themselves
    if not is_kept:
        return keep_together(rows, *GROUP_KEY)
    enough = MOST_SPREAD if generation_count is None else max(FEWEST_SPREAD, generation_count // GENERATIONS_OF_TASK)
    return keep_together(rows, *GROUP_KEY, partition_count=min(int(count), enough))
