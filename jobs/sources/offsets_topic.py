"""Spark's way to read ``__consumer_offsets``: a Python data source, with one Spark partition for each partition of the topic.

What to read and the login are part of the reader, never options of the source: Spark shows options in plans, in its UI and in logs.
Not a stream: the process on the driver that runs a stream's reader does not know what came by ``--py-files``.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jobs.client_properties import ClientProperties
from jobs.commit_columns import RAW_COLUMNS
from jobs.errors import CollectionBrokenError, PlatformError
from jobs.sources.consumer_offsets import COMMITTED_COLUMN

NAME = "evenkeel_offsets_topic"
SCHEMA = "key binary, value binary, partition int, offset bigint, timestamp_ms bigint, is_committed boolean"
"""Of ``commit_columns.RAW_COLUMNS``, in their order: Spark takes Arrow's columns by their places."""


@dataclass(frozen=True)
class Span(InputPartition):
    """What one task reads: the committed records of a partition from ``begin`` up to, but not at, ``end``."""

    partition: int
    begin: int
    end: int


@dataclass(frozen=True)
class Work:
    """All that is to be read, and how.

    Attributes:
        servers: ``host:port``, several ones separated by commas.
        timeout_seconds: how long to wait for records.
    """

    servers: str
    properties: ClientProperties
    timeout_seconds: float
    spans: tuple[Span, ...]


def read_offsets_topic(spark: SparkSession, work: Work) -> DataFrame:
    """Return the records, with the columns of ``commit_columns.RAW_COLUMNS``; nothing is read yet."""
    spark.dataSource.register(_source_of(work))
    return spark.read.format(NAME).load()


def _source_of(work: Work) -> type[DataSource]:
    """Return a data source for this work alone: a class is what can be registered, and it travels as a whole."""

    class OffsetsTopic(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return SCHEMA

        def reader(self, schema: StructType) -> DataSourceReader:
            return _Reader(work)

    return OffsetsTopic


class _Reader(DataSourceReader):
    def __init__(self, work: Work) -> None:
        self._work = work

    def partitions(self) -> list[Span]:
        return list(self._work.spans)

    def read(self, span: Span) -> Iterator[pa.RecordBatch]:
        return read_span(self._work, span)


def read_span(work: Work, span: Span) -> Iterator[pa.RecordBatch]:
    """Yield the records of a span, as they come.

    Raises:
        PlatformError: confluent-kafka is not there.
        ClusterError: the topic may not be read, or the login is refused.
        CollectionBrokenError: nothing comes, or an offset is gone.
    """
    try:
        from jobs.sources.cluster import Connection, Reader  # here, so that an executor without it can say so
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        where = f"executor on {platform.node()}, {sys.executable}"
        raise PlatformError(f"{where}: no package confluent-kafka, Evenkeel's extra kafka; install it for all executors") from None
    connection = Connection(work.servers, work.properties, work.timeout_seconds)
    with closing(Reader(connection, {span.partition: span.begin})) as reader:
        position, heard_at = span.begin, time.monotonic()
        while position < span.end:
            batch = reader.next_batch(span.end - position)  # no waiting for more, which would be most of a short span's time
            if batch.next_offsets:
                position = batch.next_offsets[span.partition]
                yield from _raw(batch.records, span.end)
                heard_at = time.monotonic()  # not before: whoever takes the records may need long
            elif time.monotonic() - heard_at > work.timeout_seconds:
                why = connection.outage or "the brokers answer, but send no records"
                waited = f"nothing came of partition {span.partition} for {work.timeout_seconds:g} s"
                raise CollectionBrokenError(f"{work.servers}: {waited}, {span.end - position} offsets to go ({why})")


def _raw(records: pa.RecordBatch, end: int) -> Iterator[pa.RecordBatch]:
    """Yield what is before the end, if anything: the log has grown since the end was asked for."""
    wanted = records.filter(pc.less(records["offset"], end))
    if wanted.num_rows:
        columns = {name: wanted[name] for name in ("key", "value", "partition", "offset")}
        columns["is_committed"] = wanted[COMMITTED_COLUMN]
        columns["timestamp_ms"] = pc.divide(wanted["timestamp"].cast(pa.int64()), 1000)  # whole milliseconds, as Kafka gave them
        yield pa.record_batch({name: columns[name] for name in RAW_COLUMNS})
