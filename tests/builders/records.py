"""Bytes of ``__consumer_offsets`` records, built field by field, and inputs that no broker writes."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

WIRE_VECTORS = Path(__file__).parents[1] / "golden" / "wire.jsonl"


def string(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text.encode())) + text.encode()


def blob(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def group_key(group_id: str, record_type: int = 2) -> bytes:
    return struct.pack(">h", record_type) + string(group_id)


def commit_key(group_id: str, topic: str, partition: int) -> bytes:
    return struct.pack(">h", 1) + string(group_id) + string(topic) + struct.pack(">i", partition)


def commit_value(offset: int, at_ms: int, version: int = 3) -> bytes:
    """Return an offset commit with leader epoch 7 and the metadata ``m``; the epoch since version 3."""
    epoch = struct.pack(">i", 7) if version >= 3 else b""
    return struct.pack(">hq", version, offset) + epoch + string("m") + struct.pack(">q", at_ms)


def topic_partitions(**partitions: list[int]) -> bytes:
    entries = [string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in partitions.items()]
    return struct.pack(">i", len(entries)) + b"".join(entries)


def subscription(*topics: str, version: int = 3, generation: int = 4, rack: str | None = "r1", **owned: list[int]) -> bytes:
    content = struct.pack(">hi", version, len(topics)) + b"".join(map(string, topics)) + blob(b"u")
    content += topic_partitions(**owned) if version >= 1 else b""
    content += struct.pack(">i", generation) if version >= 2 else b""
    return content + (string(rack) if version >= 3 else b"")


def assignment(**partitions: list[int]) -> bytes:
    return struct.pack(">h", 1) + topic_partitions(**partitions) + blob(None)


def group_member(member_id: str, subscribed: bytes, given: bytes, instance_id: str | None = None) -> bytes:
    names = string(member_id) + string(instance_id) + string(f"client-{member_id}") + string("/10.0.0.1")
    return names + struct.pack(">ii", 300_000, 45_000) + blob(subscribed) + blob(given)


def group_value(generation: int, *members: bytes, protocol_type: str = "consumer", at_ms: int = 1_000) -> bytes:
    """Return group metadata, value version 3, of the strategy ``range``, whose leader is ``a``."""
    chosen = string("range") + string("a") if members else string(None) + string(None)
    head = struct.pack(">h", 3) + string(protocol_type) + struct.pack(">i", generation) + chosen
    return head + struct.pack(">qi", at_ms, len(members)) + b"".join(members)


def record_line(**changes: Any) -> str:
    """Return an NDJSON line of a record."""
    key, value = (base64.b64encode(part).decode() for part in (commit_key("g", "t", 0), commit_value(5, 1_000)))
    return json.dumps({"partition": 3, "offset": 9, "timestamp_ms": 1_000, "key_b64": key, "value_b64": value, **changes})


def look(**changes: Any) -> dict[str, Any]:
    """Return a metadata snapshot of two brokers, one with a rack, and one topic with two partitions, not in order."""
    partitions = [
        {"partition": 1, "leader": -1, "replicas": [2], "begin_offset": None, "end_offset": None},
        {"partition": 0, "leader": 1, "replicas": [1, 2, 9], "begin_offset": 3, "end_offset": 2**53 + 1},
    ]
    topics = [{"topic": "t", "topic_id": "AAAAAAAAAAEAAAAAAAAAAg", "partitions": partitions}]
    brokers = [{"id": 1, "rack": "r1"}, {"id": 2, "rack": None}]
    return {"observed_at_ms": 1_000, "cluster_id": "own", "brokers": brokers, "topics": topics, **changes}


# -- inputs that no broker writes

_TEXT = st.one_of(st.text(max_size=6), st.sampled_from(["\ud800", "", "t", "9", "nan"]))
_NUMBERS = st.one_of(st.integers(), st.sampled_from([-1, 2**31, 2**63, 10**400, 2**53 + 1]), st.floats(), st.booleans())
JUNK = st.recursive(
    st.one_of(st.none(), _NUMBERS, _TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def spoilt(draw: st.DrawFn, sound: Any) -> Any:
    """Return a JSON value in which one value at any depth is replaced by junk or removed; sometimes it is not changed."""
    if isinstance(sound, dict) and sound and draw(st.integers(0, 5)):
        name = draw(st.sampled_from(sorted(sound)))
        if not draw(st.integers(0, 5)):
            return {key: value for key, value in sound.items() if key != name}
        return {**sound, name: draw(spoilt(sound[name]))}
    if isinstance(sound, list) and sound and draw(st.integers(0, 5)):
        index = draw(st.integers(0, len(sound) - 1))
        return [*sound[:index], draw(spoilt(sound[index])), *sound[index + 1 :]]
    return draw(st.one_of(st.just(sound), JUNK))


def lines(sound: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Return lines: the valid one damaged, any JSON, JSON nested too deep, any text, any bytes."""
    spoilt_lines = spoilt(sound).map(json.dumps)
    texts = st.one_of(spoilt_lines, spoilt_lines, JUNK.map(json.dumps), st.just("[" * 200_000), st.text())
    return st.one_of(texts.map(str.encode), st.binary())


def _wire_records() -> list[tuple[bytes, bytes | None]]:
    vectors = [json.loads(line) for line in WIRE_VECTORS.read_text(encoding="utf-8").splitlines()]
    records = [vector for vector in vectors if vector["type"] == "record"]
    return [tuple(None if part is None else base64.b64decode(part) for part in (one["key_b64"], one["value_b64"])) for one in records]


RECORDS = _wire_records()


@st.composite
def damaged(draw: st.DrawFn, data: bytes | None) -> bytes | None:
    """Return bytes cut short, with one byte changed, or unchanged."""
    if not data:
        return data
    index = draw(st.integers(0, len(data) - 1))
    return draw(st.sampled_from([data, data[:index], data[:index] + bytes([draw(st.integers(0, 255))]) + data[index + 1 :]]))


@st.composite
def raw_records(draw: st.DrawFn) -> tuple[bytes | None, bytes | None, int | None, int | None, int | None]:
    """Return key, value, partition, offset, time: what Kafka wrote, damaged, or random bytes."""
    key, value = draw(st.sampled_from(RECORDS))
    key = draw(st.one_of(damaged(key), damaged(key), st.binary(max_size=12), st.none()))
    value = draw(st.one_of(damaged(value), damaged(value), st.binary(max_size=12), st.none()))
    place = draw(st.one_of(st.just((3, 9)), st.tuples(*[st.one_of(st.none(), st.integers(-1, 2**31 - 1))] * 2)))
    return key, value, *place, draw(st.one_of(st.just(1_000), st.none(), st.integers(-(2**63), 2**63 - 1)))
