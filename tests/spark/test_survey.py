"""What an audit of all groups asks before it begins: the work on each group, and how large rows for workers are.

Batches have no limit of bytes only if no batch can get large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.audit.new_commits import complete_groups
from jobs.audit.run import history_rows
from jobs.audit.survey import survey
from jobs.runtime.session import BATCH_BYTES, BATCH_ROWS, MOST_BATCH_BYTES, NO_LIMIT, OUR_BATCH_BYTES, batches_of_small_rows, settings
from jobs.storage.generation_work import work_by_bucket
from jobs.storage.warehouse import Warehouse
from jobs.workers.packing import flatten_snapshots
from schemas.tables import GENERATION_TOPICS, SUBSCRIPTION_SNAPSHOTS
from tests.builders.frames import entries, frame, member_row, snapshot_row, snapshots

SMALL = snapshot_row("g", 1, member_row("m", assigned=entries(t=[0])))
MANY_MEMBERS = snapshot_row("h", 1, *[member_row(f"member-{number}", topics=["t" * 200]) for number in range(50)])
MANY_PARTITIONS = snapshot_row("i", 1, member_row("m", assigned=entries(t=list(range(5_000)))))
FIXED_BYTES = 1_000
"""About what the columns and lists of a generation take without any content."""
TOPIC = {"topic": "t", "topic_id": "id", "partition_count": 3_000}


@pytest.mark.parametrize("rows", [[SMALL], [SMALL, MANY_MEMBERS], [MANY_PARTITIONS, SMALL]])
def test_no_generation_has_more_bytes_than_the_largest(spark: SparkSession, rows: list[dict[str, object]]) -> None:
    given = snapshots(spark, *rows)
    packed = flatten_snapshots(given).toArrow()
    most = max(pa.Table.from_pylist([row], packed.schema).nbytes for row in packed.to_pylist())
    largest = survey(given, frame(spark, GENERATION_TOPICS.schema, []), 0).largest_row_bytes
    assert most / 2 < largest + FIXED_BYTES < 20 * most


def test_a_solution_and_a_metadata_snapshot_count_by_their_partitions(spark: SparkSession) -> None:
    none = snapshots(spark, SMALL)
    topics = frame(
        spark, GENERATION_TOPICS.schema, [{"cluster_id": "c", "topics_hash": "x", "topics": [TOPIC, {**TOPIC, "partition_count": None}]}]
    )
    assert 24_000 < survey(none, topics, 0).largest_row_bytes < 25_000
    assert survey(none, topics, 100_000).largest_row_bytes == 2_400_000


def test_balanced_tasks_get_the_same_rows_with_each_group_in_one(spark: SparkSession, recorded_warehouse: Path) -> None:
    warehouse = Warehouse(spark, str(recorded_warehouse))
    given, topics = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name), warehouse.read(GENERATION_TOPICS.name)
    work = survey(given, topics, 0).work
    assert work == work_by_bucket(given)

    def placed(work: Mapping[int, int] | None) -> Counter[tuple[str, int]]:
        rows = history_rows(warehouse, None, complete_groups(given, ()), work=work)
        found = rows.select(F.spark_partition_id().alias("task"), "group_id", F.xxhash64(*rows.columns).alias("row")).collect()
        tasks = {(row["group_id"], row["task"]) for row in found}
        assert len(tasks) == len({group for group, _ in tasks}) > 3 == len({task for _, task in tasks})
        return Counter((row["group_id"], row["row"]) for row in found)

    with settings(spark, {"spark.sql.shuffle.partitions": "3"}):
        assert placed(work) == placed(None)


@pytest.fixture
def limited(spark: SparkSession) -> Iterator[SparkSession]:
    with settings(spark, {BATCH_ROWS: "200", BATCH_BYTES: OUR_BATCH_BYTES}):
        yield spark


def test_batches_of_small_rows_have_no_limit_of_bytes(limited: SparkSession) -> None:
    most_bytes = MOST_BATCH_BYTES // 200
    with batches_of_small_rows(limited, most_bytes):
        assert limited.conf.get(BATCH_BYTES) == str(NO_LIMIT)
    assert limited.conf.get(BATCH_BYTES) == OUR_BATCH_BYTES
    with batches_of_small_rows(limited, most_bytes + 1):
        assert limited.conf.get(BATCH_BYTES) == OUR_BATCH_BYTES


@pytest.mark.parametrize("others", [{BATCH_BYTES: "32m"}, {BATCH_ROWS: "0"}])
def test_a_session_keeps_its_own_limits(limited: SparkSession, others: dict[str, str]) -> None:
    with settings(limited, others), batches_of_small_rows(limited, 1):
        assert {name: limited.conf.get(name) for name in others} == others
        assert limited.conf.get(BATCH_BYTES) != str(NO_LIMIT)
