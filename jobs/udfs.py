"""Worker functions: the one place that knows both Arrow or pandas and the domain.

Each is a module-level function over an iterator of batches. Workers import neither pydantic nor great_expectations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.sources import cluster_metadata, consumer_offsets
from schemas.landing import DECODED_ROWS
from schemas.vocabulary import Source

Batches = Iterator[pa.RecordBatch]


def _to_batches(rows: Iterable[dict[str, Any]], schema: pa.Schema, size: int) -> Batches:
    """Yield record batches of at most ``size`` rows; an absent key is a null."""
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield pa.RecordBatch.from_pylist(batch, schema=schema)
            batch = []
    if batch:
        yield pa.RecordBatch.from_pylist(batch, schema=schema)


def decode_raw_records(batches: Batches) -> Batches:
    """Decode ``__consumer_offsets`` records with the columns key, value, partition, offset, timestamp_ms."""

    def rows() -> Iterator[dict[str, Any]]:
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in ("key", "value", "partition", "offset", "timestamp_ms")]
            yield from map(consumer_offsets.decode_record, *columns)

    return _to_batches(rows(), to_arrow_schema(DECODED_ROWS), 2_000)


def _decode_lines(batches: Batches, decode: Callable[[str], Iterable[dict[str, Any]]], size: int) -> Batches:
    """Decode NDJSON lines with the columns value, file_name, block_start; a row without a place of its own gets its line's."""

    def rows() -> Iterator[dict[str, Any]]:
        numbers: dict[tuple[str, int], int] = {}
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in ("value", "file_name", "block_start")]
            for line, file_name, block_start in zip(*columns, strict=True):
                number = numbers[file_name, block_start] = numbers.get((file_name, block_start), 0) + 1
                behind = f" behind byte {block_start}" if block_start else ""
                if line.strip():
                    for row in decode(line):
                        row.setdefault("source_position", f"{file_name} line {number}{behind}")
                        yield row

    return _to_batches(rows(), to_arrow_schema(DECODED_ROWS), size)


def decode_raw_record_lines(batches: Batches) -> Batches:
    """Decode ``__consumer_offsets`` records in NDJSON."""
    return _decode_lines(batches, lambda line: (consumer_offsets.decode_line(line),), 2_000)


def decode_look_lines(batches: Batches) -> Batches:
    """Decode looks at the cluster in NDJSON, one row a topic."""
    return _decode_lines(batches, cluster_metadata.decode_line, 500)


DECODERS: dict[tuple[Source, str], Callable[[Batches], Batches]] = {
    (Source.CONSUMER_OFFSETS, "parquet"): decode_raw_records,
    (Source.CONSUMER_OFFSETS, "ndjson"): decode_raw_record_lines,
    (Source.CLUSTER_METADATA, "ndjson"): decode_look_lines,
}
"""(kind of capture, encoding) -> the worker function that decodes its rows."""
