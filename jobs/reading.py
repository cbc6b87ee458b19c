"""Captures and live clusters -> decoded rows: each input read as its kind asks for, and decoded in the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs import decode_udfs
from jobs.batches import Batches
from jobs.captures import NDJSON, Capture
from jobs.location import address
from jobs.sources.consumer_offsets import COMMITTED_COLUMN, PARQUET_COLUMNS
from jobs.sources.offsets_topic import read_offsets_topic
from schemas.snapshot import GroupSnapshot
from schemas.staging import DECODED_ROWS, PART_ROWS
from schemas.vocabulary import Source

if TYPE_CHECKING:
    from jobs.live import Reading


def decode_captures(
    spark: SparkSession, captures: tuple[Capture, ...], flag: str | None, fallback: str | None, as_of: datetime, memory_mb: int
) -> DataFrame:
    """Return one decoded row for each record of the captures, with ``part`` and ``place`` where a source tells no places.

    Args:
        flag: cluster id that beats the captures' own.
        fallback: cluster id of captures that have none.
        as_of: when sources were taken that do not tell it.
        memory_mb: see ``decode_udfs.decode_within``.
    """
    frames: list[DataFrame] = []
    for (source, encoding, separator, own, has_odd_times), paths in sorted(_grouped(captures).items(), key=str):
        cluster_id = F.lit(flag) if flag else F.coalesce("cluster_id", F.lit(own or fallback or "default"))
        if separator is not None:  # printed by a formatter
            decode = partial(decode_udfs.decode_formatter_objects, separator=separator)
            decoded = _decoded(_read_objects(spark, paths, separator), decode, memory_mb, PART_ROWS)
        elif source is Source.DESCRIBE:
            decode = partial(decode_udfs.decode_described_texts, as_of_ms=int(as_of.timestamp() * 1000))
            decoded = _decoded(_read_looks(spark, paths), decode, memory_mb)
        else:
            read_records = partial(_read_records, has_odd_times=has_odd_times)
            read = _read_lines if encoding == NDJSON else _read_rows if source is Source.SNAPSHOT else read_records
            decoded = _decoded(read(spark, paths), decode_udfs.DECODERS[source, encoding], memory_mb)
        frames.append(decoded.withColumns({"cluster_id": cluster_id, "source": F.lit(str(source))}))
    return united(frames)


def _decoded(undecoded: DataFrame, decode: Callable[[Batches], Batches], memory_mb: int, rows: StructType = DECODED_ROWS) -> DataFrame:
    return undecoded.mapInArrow(partial(decode_udfs.decode_within, decode=decode, memory_mb=memory_mb), rows)


def decode_log(spark: SparkSession, reading: Reading, memory_mb: int) -> DataFrame:
    """Return one decoded row for each record of a live log; the executors read it when the rows are asked for."""
    decoded = _decoded(read_offsets_topic(spark, reading.work, memory_mb), decode_udfs.decode_raw_records, memory_mb)
    return decoded.withColumns({"cluster_id": F.lit(reading.cluster_id), "source": F.lit(str(Source.CONSUMER_OFFSETS))})


def decode_look(spark: SparkSession, reading: Reading) -> DataFrame:
    """Return one decoded row for each topic of a live cluster, which is looked at now."""
    line = {"value": pa.array([reading.look()], pa.binary()), "file_name": ["live look"], "block_start": pa.array([0], pa.int64())}
    decoded = spark.createDataFrame(pa.table(line)).mapInArrow(decode_udfs.decode_look_lines, DECODED_ROWS)
    return decoded.withColumns({"cluster_id": F.lit(reading.cluster_id), "source": F.lit(str(Source.CLUSTER_METADATA))})


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """Return decoded rows together; ``part`` and ``place`` are null where only others have them."""
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _grouped(captures: tuple[Capture, ...]) -> dict[tuple[Source, str, str | None, str | None, bool], list[str]]:
    grouped: dict[tuple[Source, str, str | None, str | None, bool], list[str]] = {}
    for capture in captures:
        kind = (capture.source, capture.encoding, capture.separator, capture.cluster_id, capture.has_odd_times)
        grouped.setdefault(kind, []).append(address(capture.path))
    return grouped


def _read_records(spark: SparkSession, paths: list[str], *, has_odd_times: bool) -> DataFrame:
    columns = {**PARQUET_COLUMNS, COMMITTED_COLUMN: "boolean", **({"timestamp": "bigint"} if has_odd_times else {})}
    declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())  # inferring them would cost a job
    time_ms = F.col("timestamp") if has_odd_times else F.unix_millis("timestamp")
    told = (time_ms.alias("timestamp_ms"), F.col(COMMITTED_COLUMN).alias("is_committed"))
    return spark.read.schema(declared).parquet(*paths).select("key", "value", "partition", "offset", *told)


def _read_rows(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Return rows of Parquet as if they were lines of JSON; files may lack columns that others have.

    Columns that no snapshot has are not read: a value in one of them for which Spark has no room would end the run.
    """
    rows = spark.read.option("mergeSchema", "true").parquet(*paths)
    known = [name for name in rows.columns if name in GroupSnapshot.model_fields]
    return rows.select(F.to_json(F.struct(*known)).cast("binary").alias("value"), *_places())


def _read_lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    return spark.read.text(paths).select(_raw(), *_places())


def _read_objects(spark: SparkSession, paths: list[str], separator: str) -> DataFrame:
    """Return what stands between the beginnings of objects, with the file as a part: files of different folders may have one name."""
    pieces = spark.read.text(paths, lineSep=separator)
    return pieces.select(_raw(), *_places(), F.col("_metadata.file_path").alias("part"))


def _read_looks(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Return the texts of each folder together: the tool prints members, offsets and state of one look by three commands."""
    texts = spark.read.text(paths, wholetext=True)
    folder, name = F.regexp_replace("_metadata.file_path", "[^/]*$", ""), F.col("_metadata.file_name")
    named = texts.select(_raw(), folder.alias("folder"), name.alias("name"))
    files = F.sort_array(F.collect_list(F.struct("name", "value")))
    return (
        named.groupBy("folder")
        .agg(files.alias("files"))
        .select(F.col("files")["name"].alias("names"), F.col("files")["value"].alias("contents"))
    )


def _raw() -> Column:
    """Return a text as bytes: it need not be UTF-8, and a string that is not would end the worker."""
    return F.col("value").cast("binary").alias("value")


def _places() -> list[Column]:
    return [F.col("_metadata.file_name").alias("file_name"), F.col("_metadata.file_block_start").alias("block_start")]
