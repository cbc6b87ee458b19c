"""Decodes offset commits, which are nearly all records of ``__consumer_offsets``, a column at a time.

This covers the commits that brokers normally write: value version 3, or 4 with or without a topic id, all text ASCII, no bytes left over.
The rows are those of ``consumer_offsets.decode_record``, which decodes all other records.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.decoders.consumer_offsets import LAST_OFFSET
from jobs.decoders.decoded import LAST_MS
from schemas.staging import DECODED_ROWS
from schemas.vocabulary import Outcome
from schemas.wire.reader import uuid_text

RAW_COLUMNS = ("key", "value", "partition", "offset", "timestamp_ms", "is_committed")

_DECODED = to_arrow_schema(DECODED_ROWS)
_COMMIT = _DECODED.field("offset_commit").type
_NAME = pa.struct([("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32())])
_OFFSET_COMMIT, _KEY_SIZE = 1, 10
"""Type of a key, and its size without names: type, length of the group, length of the topic, partition."""

_OFFSET, _EPOCH, _LENGTH = (2, 10), (10, 14), 14
_TIME_SIZE, _ID_SIZE = 8, 16
_ONE_BYTE_LENGTHS = 0x7F


@dataclass(frozen=True)
class _Layout:
    """The layout of a value after its version, offset and leader epoch.

    Attributes:
        version: the value's first two bytes.
        is_compact: the metadata's length takes one byte, whose value is the length + 1; else it takes two bytes.
        tags: the bytes after the commit time.
        has_topic_id: a topic id is at the end.
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
    partitions, names = _names(keys.dictionary)
    partition_columns = partitions.take(keys.indices)
    values = records["value"].combine_chunks()
    is_placed = [
        partition_columns.is_valid(),
        pc.is_valid(values),
        pc.greater_equal(records["partition"], 0),
        pc.and_(pc.greater_equal(records["offset"], 0), pc.less_equal(records["offset"], LAST_OFFSET)),
        pc.and_(pc.greater_equal(records["timestamp_ms"], 0), pc.less(records["timestamp_ms"], LAST_MS)),
    ]
    candidates = pc.fill_null(reduce(pc.and_, is_placed), False)
    masks = [pc.and_(candidates, _fits(values, layout)) for layout in _LAYOUTS]
    columns = records.drop_columns("key").append_column("name", partition_columns)
    plain = [(columns.filter(mask).combine_chunks(), layout) for mask, layout in zip(masks, _LAYOUTS, strict=True)]
    batches = [_decode(commits, names, layout) for commits, layout in plain if commits.num_rows]
    return batches, records.filter(pc.invert(reduce(pc.or_, masks)))


def _names(keys: pa.Array) -> tuple[pa.Array, pa.StructArray]:
    """Return each key's index among the names, and the names: group, topic and partition of a commit.

    The index is null for a key of another record type, and for one in another form than brokers write or with names beyond ASCII.

    Args:
        keys: none of them null.
    """
    content, bounds = _content(keys)
    text = np.append(content, np.zeros(_KEY_SIZE, np.uint8))  # a key that ends early is read past its end
    starts, ends, sizes = bounds[:-1], bounds[1:], np.diff(bounds)
    group_at = starts + 4
    group_size = _numbers_at(text, starts + 2, ">i2")
    topic_at = group_at + np.clip(group_size, 0, np.maximum(sizes - _KEY_SIZE, 0)) + 2
    topic_size = _numbers_at(text, topic_at - 2, ">i2")
    is_whole = (_numbers_at(text, starts, ">i2") == _OFFSET_COMMIT) & (sizes == _KEY_SIZE + group_size + topic_size)
    partitions = _numbers_at(text, ends - 4, ">i4")
    whole = np.flatnonzero(is_whole & (group_size >= 0) & (topic_size >= 0) & (partitions >= 0))
    groups, topics = (_cut(content, at[whole], size[whole]) for at, size in ((group_at, group_size), (topic_at, topic_size)))
    names = pa.StructArray.from_arrays([groups, topics, pa.array(partitions[whole])], fields=list(_NAME))
    is_plain = pc.and_(pc.string_is_ascii(groups), pc.string_is_ascii(topics))
    return pc.index_in(pa.array(np.arange(len(keys))), pa.array(whole).filter(is_plain)), names.filter(is_plain)


def _content(values: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return all bytes of binary values, and where in them each value begins, followed by where the last one ends."""
    _, bounds, content = values.buffers()
    offsets = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(content or b"", np.uint8), offsets.astype(np.int64)


def _numbers_at(content: NDArray[np.uint8], offsets: NDArray[np.int64], code: str) -> NDArray[np.int32]:
    """Return the numbers at offsets; ``code`` is their NumPy type, of at most 32 bits."""
    raw: NDArray[np.uint8] = content[offsets[:, None] + np.arange(np.dtype(code).itemsize)]
    numbers: NDArray[np.int32] = raw.view(code)[:, 0].astype(np.int32)
    return numbers


def _cut(content: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int32]) -> pa.Array:
    """Return the strings at ranges of the content, which are in order and do not overlap."""
    edges = np.column_stack([starts, starts + sizes]).ravel()
    is_inside = np.repeat(np.arange(len(edges) + 1) % 2 == 1, np.diff(edges, prepend=0, append=len(content)))
    ends = np.append(0, np.cumsum(sizes)).astype(np.int32)
    return pa.StringArray.from_buffers(len(sizes), pa.py_buffer(ends), pa.py_buffer(content[is_inside]))


def _fits(values: pa.Array, layout: _Layout) -> pa.Array:
    """Return for each value whether it has exactly this layout."""
    sizes = pc.binary_length(values)
    fixed_size = layout.metadata_at + _TIME_SIZE + layout.tail_size
    fits = pc.and_(pc.equal(pc.binary_slice(values, 0, 2), layout.version), pc.greater_equal(sizes, fixed_size))
    if layout.tags:
        end = -_ID_SIZE if layout.has_topic_id else None
        fits = pc.and_(fits, pc.equal(pc.binary_slice(values, -layout.tail_size, end), layout.tags))
    fits = fits.fill_null(False)
    candidates = values.filter(fits)
    length = pc.subtract(pc.binary_length(candidates), fixed_size)
    lengths = _numbers(pc.binary_slice(candidates, _LENGTH, layout.metadata_at), ">u1" if layout.is_compact else ">i2")
    if layout.is_compact:
        lengths = pc.if_else(pc.less_equal(lengths, _ONE_BYTE_LENGTHS), pc.subtract(lengths, 1), -1)
    metadata = pc.binary_slice(candidates, layout.metadata_at, -(_TIME_SIZE + layout.tail_size))
    is_plain = pc.and_(pc.equal(length, lengths), pc.string_is_ascii(metadata.cast(pa.string(), safe=False)))
    return pc.replace_with_mask(fits, fits, is_plain)


def _numbers(fixed: pa.Array, code: str) -> pa.Array:
    """Return values that are numbers, none of them null, as integers of at least 32 bits."""
    content, bounds = _content(fixed)
    numbers = content[bounds[0] : bounds[-1]].view(code)
    return pa.array(numbers.astype(np.promote_types(code, np.int32)))


def _decode(commits: pa.Table, names: pa.StructArray, layout: _Layout) -> pa.RecordBatch:
    """Return the rows of commits that all have one layout.

    Args:
        commits: the columns above, with the index in ``names`` instead of the key.
    """
    count = commits.num_rows
    columns = (commits[column].combine_chunks() for column in ("name", *RAW_COLUMNS[1:]))
    name, value, partition, offset, timestamp_ms, is_committed = columns
    epochs = _numbers(pc.binary_slice(value, *_EPOCH), ">i4")
    tail = layout.tail_size
    committed_ms = _numbers(pc.binary_slice(value, -(_TIME_SIZE + tail), -tail if tail else None), ">i8")
    is_known = pc.and_(pc.greater_equal(committed_ms, 0), pc.less(committed_ms, LAST_MS))
    commit: dict[str, Any] = {
        **{part.name: names.field(part.name).take(name) for part in _NAME},
        "position": offset,
        "observed_at": pc.multiply(timestamp_ms, 1000).cast(_COMMIT.field("observed_at").type),
        "offsets_partition": partition,
        "fingerprint": pa.array([hashlib.sha256(one).hexdigest() for one in value.to_pylist()], pa.string()),
        "committed_offset": _numbers(pc.binary_slice(value, *_OFFSET), ">i8"),
        "leader_epoch": pc.if_else(pc.equal(epochs, -1), pa.scalar(None, pa.int32()), epochs),
        "metadata": pc.binary_slice(value, layout.metadata_at, -(_TIME_SIZE + tail)).cast(pa.string()),
        "committed_at": pc.multiply(pc.if_else(is_known, committed_ms, pa.scalar(None, pa.int64())), 1000).cast(
            _COMMIT.field("committed_at").type
        ),
        "is_deleted": pa.repeat(pa.scalar(False), count),
        "is_uncertain": pc.if_else(is_committed, pa.scalar(False), pa.scalar(None, pa.bool_())),
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
