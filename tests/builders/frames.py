"""Frames of a few rows with the schemas of tables. A test names only the columns it needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.storage.scratch import StagedKeys
from schemas.staging import DECODED_ROWS
from schemas.tables import FINDINGS, GENERATION_AUDITS, SUBSCRIPTION_SNAPSHOTS, TOPIC_SNAPSHOTS

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Row = dict[str, Any]


def moment(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def frame(spark: SparkSession, schema: StructType, rows: list[Row]) -> DataFrame:
    """Return a frame with a declared schema; columns that a row does not name are null."""
    strange = {name for row in rows for name in row} - set(schema.names)
    assert not strange, f"no columns of this frame: {strange}"
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)


def entries(**partitions: list[int]) -> list[Row]:
    """Return partitions as tables store them: ``entries(t=[1, 0])``."""
    return [{"topic": topic, "partitions": numbers} for topic, numbers in partitions.items()]


def member_row(member_id: str, **changes: Any) -> Row:
    """Return a member that subscribes to ``t`` and has no partitions."""
    return {"member_id": member_id, "topics": ["t"], "owned": [], "assigned": [], **changes}


def snapshot_row(group_id: str, generation: int, *members: Row, **changes: Any) -> Row:
    """Return a snapshot of a range group whose first member leads; its position is its generation."""
    return {
        "cluster_id": "c",
        "group_id": group_id,
        "generation": generation,
        "observed_at": moment(generation * 1_000),
        "position": generation,
        "incarnation": 0,
        "run_sequence": 1,
        "state": "Stable" if members else "Empty",
        "strategy": "range" if members else None,
        "leader_member_id": members[0]["member_id"] if members else None,
        "is_conversion": False,
        "members": list(members),
        **changes,
    }


def snapshots(spark: SparkSession, *rows: Row) -> DataFrame:
    return frame(spark, SUBSCRIPTION_SNAPSHOTS.schema, list(rows))


def look_row(topic: str, at_ms: int, racks: list[list[str | None]], **changes: Any) -> Row:
    """Return a metadata snapshot of a topic, with one list of replica racks per partition."""
    partitions = [{"partition": number, "replica_racks": of_partition} for number, of_partition in enumerate(racks)]
    return {
        "cluster_id": "c",
        "topic": topic,
        "observed_at": moment(at_ms),
        "topic_id": f"id-{topic}",
        "partition_count": len(racks),
        "partitions": partitions,
        **changes,
    }


def looks(spark: SparkSession, *rows: Row) -> DataFrame:
    return frame(spark, TOPIC_SNAPSHOTS.schema, list(rows))


def decoded(spark: SparkSession, *rows: Row) -> DataFrame:
    return frame(spark, DECODED_ROWS, [{"cluster_id": "c", "source": "consumer-offsets", **row} for row in rows])


def unstaged(name: str, rows: DataFrame) -> DataFrame:
    """Return the rows unchanged: without a warehouse they are computed at each use."""
    return rows


@dataclass
class TablesInMemory:
    """The part of a warehouse that decisions of landing need."""

    tables: dict[str, DataFrame] = field(default_factory=dict)

    def is_empty(self, name: str) -> bool:
        return name not in self.tables

    def read(self, name: str) -> DataFrame:
        return self.tables[name]

    def read_new(self, name: str, consumed: int) -> DataFrame:
        return self.read(name).where(F.col("run_sequence") > consumed)

    def newest_sequence(self, name: str) -> int:
        (row,) = self.read(name).agg(F.coalesce(F.max("run_sequence"), F.lit(0)).alias("newest")).collect()
        newest: int = row["newest"]
        return newest

    def materialize(self, name: str, rows: DataFrame) -> DataFrame:
        return rows.localCheckpoint()

    def materialize_keys(self, name: str, rows: DataFrame) -> StagedKeys:
        kept = self.materialize(name, rows)
        return StagedKeys(kept, kept.count())


@dataclass
class StoredInMemory(TablesInMemory):
    """The part of a warehouse that updates of stored audits and new findings need; it keeps what is written.

    It is in its fourth run, which has written nothing else.
    """

    replaced: list[Row] = field(default_factory=list)
    appended: list[Row] = field(default_factory=list)
    run_sequence: int = 4
    rows_written: dict[str, int] = field(default_factory=dict)

    def append(self, name: str, rows: DataFrame) -> int:
        assert name == FINDINGS.name
        self.appended = [row.asDict(recursive=True) for row in rows.collect()]
        return len(self.appended)

    def materialize_any(self, name: str, rows: DataFrame) -> DataFrame | None:
        return None if rows.isEmpty() else rows.localCheckpoint()

    def replace(self, name: str, keys: DataFrame, columns: tuple[str, ...], rows: DataFrame) -> tuple[int, int]:
        assert name == GENERATION_AUDITS.name
        self.replaced = [row.asDict(recursive=True) for row in rows.collect()]
        return len(self.replaced), len(self.replaced)
