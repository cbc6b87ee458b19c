"""Captures and live clusters -> decoded rows: each kind of input has its reader, and workers decode it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.decoders.captures import LINES, Capture
from jobs.decoders.consumer_offsets import PARQUET_COLUMNS
from jobs.land import udfs as decode_udfs
from jobs.land.offsets_topic_source import read_offsets_topic
from jobs.runtime.locations import address
from jobs.workers.batches import Batches
from schemas.snapshot import GroupSnapshot
from schemas.staging import DECODED_ROWS, DUMPED_ROWS, LOGGED_ROWS, PART_ROWS
from schemas.vocabulary import Source
from schemas.wire.keys import COMMITTED_COLUMN

if TYPE_CHECKING:
    from jobs.brokers.live_input import Reading

TASK_BYTES = 8 << 20
"""The least that a task decodes, if the input has that much."""
_FILE = [("path", pa.string()), ("name", pa.string()), ("is_gzip", pa.bool_())]
PIECES = pa.schema(
    [
        *_FILE,
        ("offsets_partition", pa.int32()),
        *[(name, pa.int64()) for name in ("start", "end", "number")],
        ("heading", pa.string()),
    ]
)
"""One row for each piece of a text, see ``text_pieces.Piece``; ``offsets_partition`` as in ``captures.Capture``."""
_FOLDERS = pa.schema([("files", pa.list_(pa.struct(_FILE)))])


def decode_captures(
    spark: SparkSession, captures: tuple[Capture, ...], flag: str | None, fallback: str | None, as_of: datetime, memory_mb: int
) -> DataFrame:
    """Return one decoded row for each record of the captures.

    Sources without positions add ``part`` and ``order_in_part``; sources with transactions add ``producer_id`` and ``transaction_end``.

    Args:
        flag: cluster id that overrides the captures' own.
        fallback: cluster id of captures that have none.
        as_of: the time of sources that do not record it.
        memory_mb: see ``decode_udfs.decode_within``.
    """
    frames: list[DataFrame] = []
    for kind, of_kind in sorted(_grouped(captures).items(), key=str):
        cluster_id = F.lit(flag) if flag else F.coalesce("cluster_id", F.lit(kind.cluster_id or fallback or "default"))
        if kind.separator is not None:  # printed by a formatter
            decode = partial(decode_udfs.decode_formatter_objects, separator=kind.separator)
            decoded = _decoded(_pieces(spark, of_kind), decode, memory_mb, PART_ROWS)
        elif kind.source is Source.DESCRIBE:
            decode = partial(decode_udfs.decode_described_texts, as_of_ms=int(as_of.timestamp() * 1000))
            decoded = _decoded(_folders(spark, of_kind), decode, memory_mb)
        elif kind.encoding == LINES:
            rows = DUMPED_ROWS if kind.source is Source.DUMP_LOG else DECODED_ROWS
            decoded = _decoded(_pieces(spark, of_kind), decode_udfs.LINE_DECODERS[kind.source], memory_mb, rows)
        elif kind.folder is not None:  # snapshots in Parquet
            decode = partial(decode_udfs.decode_snapshot_rows, folder=kind.folder)
            decoded = _decoded(_read_rows(spark, _addresses(of_kind)), decode, memory_mb)
        else:
            records = _read_records(spark, _addresses(of_kind), has_odd_times=kind.has_odd_times)
            decoded = _decoded(records, decode_udfs.decode_raw_records, memory_mb)
        frames.append(decoded.withColumns({"cluster_id": cluster_id, "source": F.lit(str(kind.source))}))
    return united(frames)


def _decoded(undecoded: DataFrame, decode: Callable[[Batches], Batches], memory_mb: int, rows: StructType = DECODED_ROWS) -> DataFrame:
    return undecoded.mapInArrow(partial(decode_udfs.decode_within, decode=decode, memory_mb=memory_mb), rows)


def decode_coordinator_logs(
    spark: SparkSession, logs: tuple[Capture, ...], flag: str | None, fallback: str | None, zone: str | None, memory_mb: int
) -> DataFrame:
    """Return the rows of ``LOGGED_ROWS`` for the logs of coordinators, with ``cluster_id``.

    Args:
        flag, fallback, memory_mb: see ``decode_captures``.
        zone: of times without one; None for UTC.
    """
    frames: list[DataFrame] = []
    for kind, of_kind in sorted(_grouped(logs).items(), key=str):
        cluster_id = flag or kind.cluster_id or fallback or "default"
        decoded = _decoded(_pieces(spark, of_kind), partial(decode_udfs.decode_coordinator_logs, zone=zone), memory_mb, LOGGED_ROWS)
        frames.append(decoded.withColumn("cluster_id", F.lit(cluster_id)))
    return united(frames)


def decode_log(spark: SparkSession, reading: Reading, memory_mb: int) -> DataFrame:
    """Return one decoded row for each record of a live log; the executors read it when Spark computes the rows."""
    decoded = _decoded(read_offsets_topic(spark, reading.work, memory_mb), decode_udfs.decode_raw_records, memory_mb)
    return decoded.withColumns({"cluster_id": F.lit(reading.cluster_id), "source": F.lit(str(Source.CONSUMER_OFFSETS))})


def decode_look(spark: SparkSession, reading: Reading) -> DataFrame:
    """Return one decoded row for each topic of a live cluster, whose metadata is read now."""
    value = pa.table({"value": pa.array([reading.read_metadata_line()], pa.binary())})
    decoded = spark.createDataFrame(value).mapInArrow(decode_udfs.decode_live_look, DECODED_ROWS)
    return decoded.withColumns({"cluster_id": F.lit(reading.cluster_id), "source": F.lit(str(Source.CLUSTER_METADATA))})


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the union of decoded rows; columns that only some sources have are null for the others."""
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


class _Kind(NamedTuple):
    """The properties that captures must share to be read together.

    Attributes:
        folder: of snapshots in Parquet the input folder; None for others.
        types: of snapshots in Parquet the types of their columns: Spark cannot read different ones together.
    """

    source: Source
    encoding: str
    separator: str | None
    cluster_id: str | None
    has_odd_times: bool
    folder: str | None
    types: str | None


def _grouped(captures: tuple[Capture, ...]) -> dict[_Kind, list[Capture]]:
    grouped: dict[_Kind, list[Capture]] = {}
    for one in captures:
        folder = one.path.removesuffix(one.name) if one.types is not None else None
        kind = _Kind(one.source, one.encoding, one.separator, one.cluster_id, one.has_odd_times, folder, one.types)
        grouped.setdefault(kind, []).append(one)
    return grouped


def _addresses(captures: Iterable[Capture]) -> list[str]:
    return [address(capture.path) for capture in captures]


def _read_records(spark: SparkSession, paths: list[str], *, has_odd_times: bool) -> DataFrame:
    columns = {**PARQUET_COLUMNS, COMMITTED_COLUMN: "boolean", **({"timestamp": "bigint"} if has_odd_times else {})}
    declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())  # inferring them would cost a job
    time_ms = F.col("timestamp") if has_odd_times else F.unix_millis("timestamp")
    optional = (time_ms.alias("timestamp_ms"), F.col(COMMITTED_COLUMN).alias("is_committed"))
    return spark.read.schema(declared).parquet(*paths).select("key", "value", "partition", "offset", *optional)


def _read_rows(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Return rows of Parquet files with equal types as JSON.

    Unknown columns are not read: a value in them that Spark cannot store would end the run.
    """
    rows = spark.read.parquet(*paths)
    known = [name for name in rows.columns if name in GroupSnapshot.model_fields]
    row_columns = [F.col(f"_metadata.{name}").alias(name) for name in ("file_path", "row_index")]
    return rows.select(F.to_json(F.struct(*known)).cast("binary").alias("value"), *row_columns)


def _pieces(spark: SparkSession, captures: list[Capture]) -> DataFrame:
    """Return one row for each piece of the texts, which the workers read themselves; there is one task for each ``TASK_BYTES``."""
    rows = [(one.path, one.name, one.is_gzip, one.offsets_partition, *piece) for one in captures for piece in one.pieces]
    pieces = spark.createDataFrame(pa.Table.from_pylist([dict(zip(PIECES.names, row, strict=True)) for row in rows], schema=PIECES))
    task_count = sum(one.size_bytes for one in captures) // TASK_BYTES
    return pieces.repartition(task_count) if task_count > 1 else pieces


def _folders(spark: SparkSession, captures: list[Capture]) -> DataFrame:
    """Return one row for each folder of texts: three commands of the tool print members, offsets and state of one moment."""
    folders: dict[Path, list[dict[str, object]]] = {}
    for one in captures:
        folders.setdefault(Path(one.path).parent, []).append({"path": one.path, "name": one.name, "is_gzip": one.is_gzip})
    return spark.createDataFrame(pa.Table.from_pylist([{"files": files} for files in folders.values()], schema=_FOLDERS))
