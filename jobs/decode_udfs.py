"""Worker functions of landing: records decoded, and those of KIP-848 groups folded.

Each is a module-level function over an iterator of batches. Workers import neither pydantic nor great_expectations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.batches import Batches, to_batches
from jobs.commit_columns import RAW_COLUMNS, split_commits
from jobs.sources import cluster_metadata, consumer_offsets
from jobs.sources.consumer_group_fold import Record, fold
from schemas.staging import DECODED_ROWS, FOLDED_ROWS
from schemas.vocabulary import Source

_DECODED = to_arrow_schema(DECODED_ROWS)
CHUNK_ROWS, CHUNK_BYTES = 10_000, 32 << 20
"""Records decoded at once, however small the batches are in which they come: a column costs as much for one row as for a thousand."""


def decode_raw_records(batches: Batches) -> Batches:
    """Decode ``__consumer_offsets`` records with the columns of ``commit_columns.RAW_COLUMNS``."""
    for chunk in _chunks(batches):
        commits, others = split_commits(chunk)
        yield from commits
        rows = map(consumer_offsets.decode_record, *(others[name].to_pylist() for name in RAW_COLUMNS))
        yield from to_batches(rows, _DECODED, 2_000)


def _chunks(batches: Batches) -> Iterator[pa.Table]:
    """Yield the batches joined to larger tables."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= CHUNK_ROWS or sum(one.nbytes for one in waiting) >= CHUNK_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _decode_lines(batches: Batches, decode: Callable[[bytes], Iterable[dict[str, Any]]], size: int) -> Batches:
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

    return to_batches(rows(), _DECODED, size)


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


def fold_groups(batches: Batches, topic_names: Mapping[str, Mapping[str, str]]) -> Batches:
    """Fold the records of KIP-848 groups; a group's records come one after another, by offset, in one partition.

    Args:
        topic_names: cluster id -> topic id -> name.
    """

    def rows() -> Iterator[dict[str, Any]]:
        records = (row for batch in batches for row in batch.to_pylist())
        for (cluster_id, group_id), of_group in groupby(records, key=lambda row: (row["cluster_id"], row["group_id"])):
            in_order = (Record(*(row[name] for name in Record._fields)) for row in of_group)
            for snapshot in fold(group_id, in_order, topic_names.get(cluster_id, {})):
                yield {"cluster_id": cluster_id, **snapshot}

    return to_batches(rows(), to_arrow_schema(FOLDED_ROWS), 500)
