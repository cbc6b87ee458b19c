"""A Python data source for Spark that reads ``__consumer_offsets``, with one Spark partition for each partition of the topic.

The spans and the login are part of the reader, not options of the source: Spark shows options in plans, in its UI and in logs. It is not
a streaming source: the driver's process for a stream's reader does not have the files of ``--py-files``.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from jobs.brokers.spans import Span, Work
from jobs.decoders.offset_commit_columns import RAW_COLUMNS
from jobs.runtime.errors import CollectionBrokenError, PlatformError
from jobs.workers.guard import DecodingFailedError, limited_memory, out_of_memory
from schemas.wire.keys import COMMITTED_COLUMN

NAME = "evenkeel_offsets_topic"
SCHEMA = "key binary, value binary, partition int, offset bigint, timestamp_ms bigint, is_committed boolean"
"""Of ``offset_commit_columns.RAW_COLUMNS``, in their order: Spark matches Arrow's columns by position."""
CLIENT_MB = 256
"""Memory for librdkafka beside the worker: its queue has 64 MiB and a fetch at most 50. Without memory it ends the process."""


def read_offsets_topic(spark: SparkSession, work: Work, memory_mb: int) -> DataFrame:
    """Return the records, with the columns of ``offset_commit_columns.RAW_COLUMNS``; nothing is read yet.

    Args:
        memory_mb: MiB that a worker may take for reading.
    """
    spark.dataSource.register(_source_of(work, memory_mb))
    return spark.read.format(NAME).load()


def _source_of(work: Work, memory_mb: int) -> type[DataSource]:
    """Return a data source class for this work only: Spark registers classes, and serializes them as a whole."""

    class OffsetsTopic(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return SCHEMA

        def reader(self, schema: StructType) -> DataSourceReader:
            return _Reader(work, memory_mb)

    return OffsetsTopic


class _Reader(DataSourceReader):
    def __init__(self, work: Work, memory_mb: int) -> None:
        self._work, self._memory_mb = work, memory_mb

    def partitions(self) -> list[Span]:
        return list(self._work.spans)

    def read(self, span: Span) -> Iterator[pa.RecordBatch]:  # type: ignore[override]  # Spark gives what ``partitions`` returned
        return read_span(self._work, span, self._memory_mb)


def read_span(work: Work, span: Span, memory_mb: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of a span, in the order in which they come.

    Args:
        memory_mb: MiB that may be taken after the first records, beside ``CLIENT_MB``. There is no limit before: the client reserves
            address space for each of its threads, at least one for each broker, and uses little of it.

    Raises:
        DecodingFailedError: the memory is not enough; the message says where it was reading.
        PlatformError: confluent-kafka is not installed.
        ClusterError: the topic may not be read, or the login is refused.
        CollectionBrokenError: no records come, or an offset no longer exists.
    """
    try:
        from jobs.brokers.cluster import Connection
        from jobs.brokers.records import Reader
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        where = f"executor on {platform.node()}, {sys.executable}"
        raise PlatformError(f"{where}: found no package confluent-kafka, Evenkeel's extra kafka; install it on all executors") from None
    connection = Connection(work.servers, work.properties, work.timeout_seconds)
    with closing(Reader(connection, {span.partition: span.begin})) as reader, ExitStack() as bounds:
        position, heard_at, is_bound = span.begin, time.monotonic(), False
        while position < span.end:
            try:
                batch = reader.next_batch(span.end - position)  # waiting for more would take most of the time of a short span
                records = list(_raw(batch.records, span.end))
            except MemoryError as error:
                where = f"{work.servers}: reading partition {span.partition} from offset {position} on"
                raise DecodingFailedError(f"{where}: {out_of_memory(memory_mb)}") from error
            if batch.next_offsets:
                if not is_bound:
                    bounds.enter_context(limited_memory(memory_mb + CLIENT_MB))
                    is_bound = True
                position = batch.next_offsets[span.partition]
                yield from records
                heard_at = time.monotonic()  # not before: the consumer of the records may need long
            elif time.monotonic() - heard_at > work.timeout_seconds:
                why = connection.outage or "the brokers answer, but send no records"
                waited = f"no records of partition {span.partition} came for {work.timeout_seconds:g} s"
                raise CollectionBrokenError(f"{work.servers}: {waited}, {span.end - position} offsets are left ({why}); try again")


def _raw(records: pa.RecordBatch, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the records before the end, if any: the log may have grown since the end was read."""
    wanted = records.filter(pc.less(records["offset"], end))
    if wanted.num_rows:
        columns = {name: wanted[name] for name in ("key", "value", "partition", "offset")}
        columns["is_committed"] = wanted[COMMITTED_COLUMN]
        columns["timestamp_ms"] = pc.divide(wanted["timestamp"].cast(pa.int64()), 1000)  # whole milliseconds, as Kafka gave them
        yield pa.record_batch({name: columns[name] for name in RAW_COLUMNS})
