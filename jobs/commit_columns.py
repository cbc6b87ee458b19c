"""Offset commits, which are nearly all that ``__consumer_offsets`` holds, decoded a column at a time.

Only what is as brokers write it: value version 3, or 4 with or without a topic id, ASCII metadata, nothing left over. These come out as
``consumer_offsets.decode_record`` would give them; everything else is left to it.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.sources.decoded import LAST_MS
from schemas.staging import DECODED_ROWS
from schemas.vocabulary import Outcome
from schemas.wire import WireError, decode_key
from schemas.wire.reader import uuid_text

RAW_COLUMNS = ("key", "value", "partition", "offset", "timestamp_ms")

_DECODED = to_arrow_schema(DECODED_ROWS)
_COMMIT = _DECODED.field("offset_commit").type
_NAME = pa.struct([("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32())])
_OFFSET_COMMIT_KEY = b"\0\1"
_OFFSET, _EPOCH, _LENGTH = (2, 10), (10, 14), 14
_TIME_SIZE, _ID_SIZE = 8, 16
_ONE_BYTE_LENGTHS = 0x7F


@dataclass(frozen=True)
class _Layout:
    """Where the fields of a value are that follow its version, offset and leader epoch.

    Attributes:
        version: the value's first two bytes.
        is_compact: the metadata's length takes one byte and is one more than it says; else two bytes.
        tags: what follows the commit time.
        has_topic_id: a topic id is the end.
    """

    version: bytes
    is_compact: bool
    tags: bytes
    has_topic_id: bool = False

    @property
    def metadata_at(self) -> int:
        return _LENGTH + (1 if self.is_compact else 2)

    @property
    def tail_size(self) -> int:
        return len(self.tags) + (_ID_SIZE if self.has_topic_id else 0)


_LAYOUTS = (_Layout(b"\0\3", False, b""), _Layout(b"\0\4", True, b"\0"), _Layout(b"\0\4", True, b"\1\0\x10", has_topic_id=True))


def split_commits(records: pa.Table) -> tuple[list[pa.RecordBatch], pa.Table]:
    """Return the plain commits as decoded rows, and the other records.

    Args:
        records: the columns above.
    """
    keys = records["key"].combine_chunks().dictionary_encode()
    names = pa.array(list(map(_named, keys.dictionary.to_pylist())), _NAME)
    values = records["value"].combine_chunks()
    is_placed = [
        names.is_valid().take(keys.indices),
        pc.is_valid(values),
        pc.greater_equal(records["partition"], 0),
        pc.greater_equal(records["offset"], 0),
        pc.and_(pc.greater_equal(records["timestamp_ms"], 0), pc.less(records["timestamp_ms"], LAST_MS)),
    ]
    candidates = pc.fill_null(reduce(pc.and_, is_placed), False)
    masks = [pc.and_(candidates, _fits(values, layout)) for layout in _LAYOUTS]
    columns = records.drop_columns("key").append_column("name", keys.indices)
    plain = [(columns.filter(mask).combine_chunks(), layout) for mask, layout in zip(masks, _LAYOUTS, strict=True)]
    batches = [_decode(commits, names, layout) for commits, layout in plain if commits.num_rows]
    return batches, records.filter(pc.invert(reduce(pc.or_, masks)))


@lru_cache(maxsize=1 << 16)  # a group commits the same partitions again and again
def _named(key: bytes) -> tuple[str, str, int] | None:
    """Return whose commit a key is of, and of what; None for one that cannot be read or is of something else."""
    if not key.startswith(_OFFSET_COMMIT_KEY):
        return None
    try:
        parsed = decode_key(key)
    except WireError:
        return None
    return parsed.group_id, parsed.topic, parsed.partition


def _fits(values: pa.Array, layout: _Layout) -> pa.Array:
    """Return for each value whether it has a layout, to the byte."""
    sizes = pc.binary_length(values)
    fixed_size = layout.metadata_at + _TIME_SIZE + layout.tail_size
    fits = pc.and_(pc.equal(pc.binary_slice(values, 0, 2), layout.version), pc.greater_equal(sizes, fixed_size))
    if layout.tags:
        end = -_ID_SIZE if layout.has_topic_id else None
        fits = pc.and_(fits, pc.equal(pc.binary_slice(values, -layout.tail_size, end), layout.tags))
    fits = fits.fill_null(False)
    candidates = values.filter(fits)
    length = pc.subtract(pc.binary_length(candidates), fixed_size)
    told = _numbers(pc.binary_slice(candidates, _LENGTH, layout.metadata_at), "B" if layout.is_compact else "h")
    if layout.is_compact:
        told = pc.if_else(pc.less_equal(told, _ONE_BYTE_LENGTHS), pc.subtract(told, 1), -1)
    metadata = pc.binary_slice(candidates, layout.metadata_at, -(_TIME_SIZE + layout.tail_size))
    is_plain = pc.and_(pc.equal(length, told), pc.string_is_ascii(metadata.cast(pa.string(), safe=False)))
    return pc.replace_with_mask(fits, fits, is_plain)


_NUMBERS = {"B": pa.uint8(), "h": pa.int16(), "i": pa.int32(), "q": pa.int64()}


def _numbers(fixed: pa.Array, code: str) -> pa.Array:
    """Return big-endian numbers, each the whole of a value and none null, as integers of at least 32 bits."""
    _, ends, content = fixed.buffers()
    numbers = array(code)
    if len(fixed):
        bounds = memoryview(ends).cast("i")[fixed.offset : fixed.offset + len(fixed) + 1]
        numbers.frombytes(memoryview(content)[bounds[0] : bounds[-1]])
    if numbers.itemsize > 1:
        numbers.byteswap()
    decoded = pa.Array.from_buffers(_NUMBERS[code], len(fixed), [None, pa.py_buffer(numbers)])
    return decoded if numbers.itemsize >= 4 else decoded.cast(pa.int32())


def _decode(commits: pa.Table, names: pa.StructArray, layout: _Layout) -> pa.RecordBatch:
    """Return the rows of commits that all have one layout.

    Args:
        commits: the columns above, but the place among ``names`` instead of the key.
    """
    count = commits.num_rows
    name, value, partition, offset, timestamp_ms = (commits[column].combine_chunks() for column in ("name", *RAW_COLUMNS[1:]))
    epochs = _numbers(pc.binary_slice(value, *_EPOCH), "i")
    tail = layout.tail_size
    committed_ms = _numbers(pc.binary_slice(value, -(_TIME_SIZE + tail), -tail if tail else None), "q")
    is_told = pc.and_(pc.greater_equal(committed_ms, 0), pc.less(committed_ms, LAST_MS))
    commit: dict[str, Any] = {
        **{part.name: names.field(part.name).take(name) for part in _NAME},
        "position": offset,
        "observed_at": pc.multiply(timestamp_ms, 1000).cast(_COMMIT.field("observed_at").type),
        "offsets_partition": partition,
        "fingerprint": pa.array([hashlib.sha256(one).hexdigest() for one in value.to_pylist()], pa.string()),
        "committed_offset": _numbers(pc.binary_slice(value, *_OFFSET), "q"),
        "leader_epoch": pc.if_else(pc.equal(epochs, -1), pa.scalar(None, pa.int32()), epochs),
        "metadata": pc.binary_slice(value, layout.metadata_at, -(_TIME_SIZE + tail)).cast(pa.string()),
        "committed_at": pc.multiply(pc.if_else(is_told, committed_ms, pa.scalar(None, pa.int64())), 1000).cast(
            _COMMIT.field("committed_at").type
        ),
        "is_deleted": pa.repeat(pa.scalar(False), count),
    }
    if layout.has_topic_id:
        ids = pc.binary_slice(value, -_ID_SIZE, None).dictionary_encode()
        commit["topic_id"] = pa.array(list(map(uuid_text, ids.dictionary.to_pylist())), pa.string()).take(ids.indices)
    row = {
        "offset_commit": pa.StructArray.from_arrays(_filled(commit, _COMMIT, count), fields=list(_COMMIT)),
        "source_position": pc.binary_join_element_wise(partition.cast(pa.string()), offset.cast(pa.string()), "@"),
        "outcome": pa.repeat(pa.scalar(Outcome.LANDED.value), count),
        "kind": pa.repeat(pa.scalar("offset_commit"), count),
    }
    return pa.RecordBatch.from_arrays(_filled(row, _DECODED, count), schema=_DECODED)


def _filled(columns: dict[str, pa.Array], fields: Any, count: int) -> list[pa.Array]:
    return [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in fields]
