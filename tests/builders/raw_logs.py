"""Records of small logs of ``__consumer_offsets``, put together for one test: a second passes from offset to offset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders import records
from tests.builders.frames import moment

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)


def raw(partition: int, offset: int, key: bytes, value: bytes | None, at: int | None = None) -> Row:
    """Return a record; ``at`` is its time in seconds if that is not the offset."""
    timestamp = moment(1_000 * (offset if at is None else at))
    return {"key": key, "value": value, "partition": partition, "offset": offset, "timestamp": timestamp}


def generation(partition: int, offset: int, group: str, number: int, at: int | None = None, **held: list[int]) -> Row:
    """Return a generation of a group whose members subscribe to ``t`` and have these partitions of it."""
    members = [records.group_member(name, records.subscription("t"), records.assignment(t=numbers)) for name, numbers in held.items()]
    return raw(partition, offset, records.group_key(group), records.group_value(number, *members, at_ms=1_000 * offset), at)


def tombstone(partition: int, offset: int, group: str) -> Row:
    return raw(partition, offset, records.group_key(group), None)


def foreign(partition: int, offset: int, group: str, at_ms: int) -> Row:
    return raw(partition, offset, records.group_key(group), records.group_value(1, protocol_type="connect", at_ms=at_ms))


def commit(partition: int, offset: int, group: str, number: int, committed: int) -> Row:
    """Return a commit for one partition of ``t``."""
    return raw(partition, offset, records.commit_key(group, "t", number), records.commit_value(committed, 1_000 * offset))


def look(at_ms: int, topic_id: str | None = None, **partitions: list[int | None]) -> str:
    """Return a line with a metadata snapshot of topics, with one end of the log per partition."""
    topics = [
        {
            "topic": name,
            "topic_id": topic_id,
            "partitions": [{"partition": number, "begin_offset": 0, "end_offset": end} for number, end in enumerate(ends)],
        }
        for name, ends in partitions.items()
    ]
    return json.dumps({"observed_at_ms": at_ms, "brokers": [], "topics": topics}) + "\n"


def written(path: Path, *log: Row) -> Path:
    """Write records as a capture."""
    pq.write_table(pa.Table.from_pylist(list(log), schema=SCHEMA), path)
    return path


def written_text(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path
