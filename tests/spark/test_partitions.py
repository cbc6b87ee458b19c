"""Rows of a group come to one worker, whatever Spark makes of the plan below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.runtime.session import settings
from jobs.workers.batches import Batches
from jobs.workers.partitions import keep_together, spread_groups
from schemas.keys import GROUP_KEY

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
