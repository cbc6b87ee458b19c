"""Rows of a group come to one worker, whatever Spark makes of the plan below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.runtime.session import settings
from jobs.storage.generation_work import work_by_bucket
from jobs.workers.batches import Batches
from jobs.workers.partitions import keep_together, spread_groups
from schemas.keys import GROUP_KEY
from tests.builders.frames import entries, member_row, snapshot_row, snapshots

GROUPS, TASKS = 10, 4
BROADCAST = "autoBroadcastJoinThreshold"


@pytest.fixture
def joined_again(spark: SparkSession) -> Iterator[None]:
    """Let Spark plan a join by a shuffle of both sides, and see that one is small enough to be sent only when both are shuffled."""
    values = {
        "spark.sql.shuffle.partitions": str(TASKS),
        f"spark.sql.{BROADCAST}": "-1",
        f"spark.sql.adaptive.{BROADCAST}": "10m",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",  # else few rows come to one task in any case
    }
    with settings(spark, values):
        yield


def rows_of_groups(spark: SparkSession, count: int = 40 * GROUPS) -> DataFrame:
    """Return rows of all groups in each of their tasks."""
    rows = spark.range(0, count, 1, TASKS)
    return rows.select((F.col("id") % 1).cast("string").alias("cluster_id"), (F.col("id") % GROUPS).cast("string").alias("group_id"), "id")


def groups_of_tasks(rows: DataFrame) -> Counter[str]:
    """Return how many workers get rows of each group."""

    def groups(batches: Batches) -> Batches:
        found = {group for batch in batches for group in batch.column("group_id").to_pylist()}
        yield pa.record_batch([pa.array(sorted(found), pa.string())], names=["group_id"])

    return Counter(row[0] for row in rows.mapInArrow(groups, "group_id string").collect())


def joined(spark: SparkSession) -> DataFrame:
    return rows_of_groups(spark).join(rows_of_groups(spark, GROUPS).drop("id"), list(GROUP_KEY), "left_semi")


@pytest.mark.parametrize("partition_count", [None, TASKS])
def test_a_group_comes_to_one_worker_where_its_rows_were_joined_by_its_key(
    spark: SparkSession, joined_again: None, partition_count: int | None
) -> None:
    rows = keep_together(joined(spark), *GROUP_KEY, partition_count=partition_count)
    assert groups_of_tasks(rows.sortWithinPartitions(*GROUP_KEY)) == {str(number): 1 for number in range(GROUPS)}


def test_a_repartition_by_the_columns_of_a_key_would_not_bring_a_group_to_one_worker(spark: SparkSession, joined_again: None) -> None:
    """If this fails, Spark respects such a ``repartition``, and ``keep_together`` is not needed any more."""
    assert groups_of_tasks(joined(spark).repartition(*GROUP_KEY).sortWithinPartitions(*GROUP_KEY))["0"] == TASKS


@pytest.mark.parametrize(
    ("partitions", "generation_count", "expected"),
    [
        pytest.param(40, None, 40, id="an unknown number: all partitions of a shuffle"),
        pytest.param(40, 5_000, 40, id="many generations"),
        pytest.param(40, 250, 5, id="few: a task of workers starts for fifty of them"),
        pytest.param(40, 1, 3, id="a generation may be large, so that its task should not wait for others"),
        pytest.param(4, 5_000, 4, id="never more than a shuffle has"),
    ],
)
def test_groups_are_spread_over_as_many_tasks_as_they_need(
    spark: SparkSession, partitions: int, generation_count: int | None, expected: int
) -> None:
    with settings(spark, {"spark.sql.shuffle.partitions": str(partitions)}):
        assert spread_groups(rows_of_groups(spark), generation_count).rdd.getNumPartitions() == expected


def test_work_counts_generations_members_and_partitions(spark: SparkSession) -> None:
    of_two = [member_row("m", assigned=entries(t=[0, 1], u=[0])), member_row("n", assigned=entries(t=[2]))]
    rows = snapshots(spark, snapshot_row("g", 1, *of_two), snapshot_row("g", 2, *of_two), snapshot_row("h", 1))
    assert sorted(work_by_bucket(rows).values()) == [150, 2 * (150 + 2 * 6 + 4)]  # a group without members has a generation all the same


def test_a_task_has_the_largest_group_alone_and_starts_first(spark: SparkSession, joined_again: None) -> None:
    large = member_row("m", assigned=entries(t=list(range(3_000))))
    small = member_row("m", assigned=entries(t=[0]))
    given = snapshots(spark, *[snapshot_row(str(number), 1, large if number == 7 else small) for number in range(GROUPS)])
    named = given.groupBy("group_id").agg(F.first("cluster_id").alias("cluster_id"))
    # A join as in the audit: rows of a group without any snapshot are among them.
    rows = named.unionByName(named.limit(1).select(F.lit("without snapshots").alias("group_id"), "cluster_id")).join(
        rows_of_groups(spark, 4).select(F.col("id").alias("row")), F.lit(True)
    )
    work = {number: amount * 30 for number, amount in work_by_bucket(given).items()}  # of many generations
    spread = spread_groups(rows, None, work).sortWithinPartitions(*GROUP_KEY)
    assert groups_of_tasks(spread) == {**{str(number): 1 for number in range(GROUPS)}, "without snapshots": 1}
    tasks = spread.select("group_id", F.spark_partition_id().alias("task")).distinct().collect()
    assert [row["group_id"] for row in tasks if row["task"] == 0 and row["group_id"] != "without snapshots"] == ["7"]
    per_task = Counter(row["task"] for row in tasks if row["group_id"] not in ("7", "without snapshots"))
    assert sorted(per_task) == [1, 2, 3] and set(per_task.values()) == {3}


def test_spark_4_0_hashes_groups_whatever_their_work(spark: SparkSession, joined_again: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, work = rows_of_groups(spark), {number: 100_000 for number in range(10)}
    by_hash = keep_together(rows, *GROUP_KEY, partition_count=TASKS)
    assert not spread_groups(rows, None, work).sameSemantics(by_hash)
    monkeypatch.setattr(spark, "version", "4.0.1")
    assert spread_groups(rows, None, work).sameSemantics(by_hash)
