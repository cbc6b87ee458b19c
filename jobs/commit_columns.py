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
    records = records.combine_chunks()
    is_placed = [
        pc.equal(pc.binary_slice(records["key"], 0, 2), _OFFSET_COMMIT_KEY),
        pc.is_valid(records["value"]),
        pc.greater_equal(records["partition"], 0),
        pc.greater_equal(records["offset"], 0),
        pc.and_(pc.greater_equal(records["timestamp_ms"], 0), pc.less(records["timestamp_ms"], LAST_MS)),
    ]
    candidates = pc.fill_null(reduce(pc.and_, is_placed), False)
    batches, others = [], [records.filter(pc.invert(candidates))]
    rest = records.filter(candidates)
    named = pa.chunked_array([_are_readable(rest["key"])])
    others.append(rest.filter(pc.invert(named)))
    rest = rest.filter(named)
    for layout in _LAYOUTS:
        fits = _fits(rest["value"], layout)
        plain = rest.filter(fits)
        if plain.num_rows:
            batches.append(_decode(plain.combine_chunks(), layout))
        rest = rest.filter(pc.invert(fits))
    return batches, pa.concat_tables([*others, rest])


def _are_readable(keys: pa.ChunkedArray) -> pa.Array:
    """Return for each key whether it can be decoded."""
    coded = keys.combine_chunks().dictionary_encode()
    return pa.array([_named(key) is not None for key in coded.dictionary.to_pylist()], pa.bool_()).take(coded.indices)


@lru_cache(maxsize=1 << 16)  # a group commits the same partitions again and again
def _named(key: bytes) -> tuple[str, str, int] | None:
    try:
        parsed = decode_key(key)
    except WireError:
        return None
    return parsed.group_id, parsed.topic, parsed.partition


def _fits(values: pa.ChunkedArray, layout: _Layout) -> pa.ChunkedArray:
    """Return for each value whether it has a layout, to the byte."""
    sizes = pc.binary_length(values)
    fixed_size = layout.metadata_at + _TIME_SIZE + layout.tail_size
    fits = pc.and_(pc.equal(pc.binary_slice(values, 0, 2), layout.version), pc.greater_equal(sizes, fixed_size))
    if layout.tags:
        end = -_ID_SIZE if layout.has_topic_id else None
        fits = pc.and_(fits, pc.equal(pc.binary_slice(values, -layout.tail_size, end), layout.tags))
    candidates = values.filter(fits).combine_chunks()
    length = pc.subtract(pc.binary_length(candidates), fixed_size)
    told = _numbers(pc.binary_slice(candidates, _LENGTH, layout.metadata_at), "B" if layout.is_compact else "h")
    if layout.is_compact:
        told = pc.if_else(pc.less_equal(told, _ONE_BYTE_LENGTHS), pc.subtract(told, 1), -1)
    metadata = pc.binary_slice(candidates, layout.metadata_at, -(_TIME_SIZE + layout.tail_size))
    is_plain = pc.and_(pc.equal(length, told), pc.string_is_ascii(metadata.cast(pa.string(), safe=False)))
    return pc.replace_with_mask(fits.combine_chunks(), fits.combine_chunks(), is_plain)


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


def _decode(records: pa.Table, layout: _Layout) -> pa.RecordBatch:
    """Return the rows of commits that all have one layout."""
    count, values = records.num_rows, records["value"].combine_chunks()
    keys = records["key"].combine_chunks().dictionary_encode()
    group_ids, topics, partitions = zip(*map(_named, keys.dictionary.to_pylist()), strict=True)
    epochs = _numbers(pc.binary_slice(values, *_EPOCH), "i")
    tail = layout.tail_size
    committed_ms = _numbers(pc.binary_slice(values, -(_TIME_SIZE + tail), -tail if tail else None), "q")
    is_told = pc.and_(pc.greater_equal(committed_ms, 0), pc.less(committed_ms, LAST_MS))
    commit: dict[str, Any] = {
        "group_id": pa.array(group_ids, pa.string()).take(keys.indices),
        "topic": pa.array(topics, pa.string()).take(keys.indices),
        "partition": pa.array(partitions, pa.int32()).take(keys.indices),
        "position": records["offset"].combine_chunks(),
        "observed_at": pc.multiply(records["timestamp_ms"].combine_chunks(), 1000).cast(_COMMIT.field("observed_at").type),
        "offsets_partition": records["partition"].combine_chunks(),
        "fingerprint": pa.array([hashlib.sha256(value).hexdigest() for value in values.to_pylist()], pa.string()),
        "committed_offset": _numbers(pc.binary_slice(values, *_OFFSET), "q"),
        "leader_epoch": pc.if_else(pc.equal(epochs, -1), pa.scalar(None, pa.int32()), epochs),
        "metadata": pc.binary_slice(values, layout.metadata_at, -(_TIME_SIZE + tail)).cast(pa.string()),
        "committed_at": pc.multiply(pc.if_else(is_told, committed_ms, pa.scalar(None, pa.int64())), 1000).cast(
            _COMMIT.field("committed_at").type
        ),
        "is_deleted": pa.repeat(pa.scalar(False), count),
    }
    if layout.has_topic_id:
        ids = pc.binary_slice(values, -_ID_SIZE, None).dictionary_encode()
        commit["topic_id"] = pa.array(list(map(uuid_text, ids.dictionary.to_pylist())), pa.string()).take(ids.indices)
    places = [records[name].combine_chunks().cast(pa.string()) for name in ("partition", "offset")]
    row = {
        "offset_commit": pa.StructArray.from_arrays(_filled(commit, _COMMIT, count), fields=list(_COMMIT)),
        "source_position": pc.binary_join_element_wise(*places, "@"),
        "outcome": pa.repeat(pa.scalar(Outcome.LANDED.value), count),
        "kind": pa.repeat(pa.scalar("offset_commit"), count),
    }
    return pa.RecordBatch.from_arrays(_filled(row, _DECODED, count), schema=_DECODED)


def _filled(columns: dict[str, pa.Array], fields: Any, count: int) -> list[pa.Array]:
    return [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in fields]
