"""Captures made by rule: a log of good records, and in between records that are damaged, each in a way whose name is known."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.records import assignment, commit_key, commit_value, group_key, group_member, group_value, string, subscription

PARTITIONS, TOPICS, TOPIC_PARTITIONS, MEMBERS, GENERATIONS = 20, 12, 4, 3, 3
AT_MS = 1_795_000_000_000
COLUMNS = pa.schema(
    {"key": pa.binary(), "value": pa.binary(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.timestamp("ms", "UTC")}
)
LINES_FROM = PARTITIONS // 2
"""The log's partitions from this one on are captured as lines, those before it as Parquet."""


TRANSPARENT = "of a type to come"
"""The reason of records that Kafka's own tools pass over: they are skipped and counted, not quarantined."""


@dataclass(frozen=True)
class Record:
    """One record at its place; ``reason`` is what it goes to quarantine for, None for a good one."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    timestamp_ms: int
    reason: str | None = None

    @property
    def place(self) -> str:
        return f"{self.partition}@{self.offset}"


# -- good records

Content = tuple[bytes, bytes | None]


def good_contents(count: int, chance: random.Random) -> list[list[Content]]:
    """Return ``count`` records by partition of the log, as groups wrote them: a quarter their generations and ends, the others commits."""
    log: list[list[Content]] = [[] for _ in range(PARTITIONS)]
    groups = 0
    written = 0
    while written < count // 4:
        name = f"group-{groups:06}"
        history = _history(name, chance)[: count // 4 - written]
        log[groups % PARTITIONS] += history
        groups, written = groups + 1, written + len(history)
    for number in range(count - written):
        group = chance.randrange(groups)
        key = commit_key(f"group-{group:06}", f"topic-{chance.randrange(TOPICS)}", chance.randrange(TOPIC_PARTITIONS))
        log[group % PARTITIONS].append((key, commit_value(number, AT_MS + number)))
    return log


def _history(name: str, chance: random.Random) -> list[Content]:
    topics = [f"topic-{number}" for number in chance.sample(range(TOPICS), chance.randint(1, 2))]
    history: list[Content] = []
    for generation in range(1, chance.randint(1, GENERATIONS) + 1):
        names = "abc"[: chance.randint(1, MEMBERS)]
        held: dict[str, dict[str, list[int]]] = {name: {} for name in names}
        for topic in topics:
            for partition in range(TOPIC_PARTITIONS):
                held[chance.choice(names)].setdefault(topic, []).append(partition)
        members = [group_member(member, subscription(*topics, version=0), assignment(**held[member])) for member in names]
        history.append((group_key(name), group_value(generation, *members, at_ms=AT_MS)))
    if chance.random() < 0.1:
        history.append((group_key(name), None))
    return history


# -- bad records

_BEFORE_MEMBERS = (
    struct.pack(">h", 3) + string("consumer") + struct.pack(">i", 5) + string("range") + string("a") + struct.pack(">q", AT_MS)
)
_MANY = struct.pack(">i", 2**31 - 1)
_FLEXIBLE = struct.pack(">h", 4) + b"\x09consumer" + struct.pack(">i", 5)


def _member_with(subscribed: bytes, given: bytes = b"") -> bytes:
    return group_value(5, group_member("a", subscribed, given))


_VALUES: dict[str, tuple[str, bytes]] = {
    "nothing at all": ("truncated", b""),
    "half a version": ("truncated", b"\x00"),
    "an end in the header": ("truncated", _BEFORE_MEMBERS[:-3]),
    "an end in a name": ("length_beyond_end", _BEFORE_MEMBERS[:8]),
    "an end in the last member": ("length_beyond_end", _member_with(subscription("t"), assignment(t=[0]))[:-1]),
    "a version to come": ("unsupported_version", struct.pack(">h", 99) + _BEFORE_MEMBERS[2:]),
    "a negative version": ("unsupported_version", struct.pack(">h", -1) + _BEFORE_MEMBERS[2:]),
    "a null name": ("negative_length", struct.pack(">hh", 3, -1) + _BEFORE_MEMBERS[12:]),
    "a negative number of members": ("negative_length", _BEFORE_MEMBERS + struct.pack(">i", -2)),
    "two billion members": ("length_beyond_end", _BEFORE_MEMBERS + _MANY),
    "a negative generation": ("negative_generation", group_value(-(2**31), group_member("a", subscription("t"), b""))),
    "a member twice": ("duplicate_member", group_value(5, *[group_member("a", subscription("t"), b"")] * 2)),
    "a null subscription": ("negative_length", _BEFORE_MEMBERS + struct.pack(">i", 1) + string("a") * 4 + struct.pack(">iii", 1, 1, -1)),
    "a subscription cut short": ("truncated", _member_with(subscription("t")[:3])),
    "a subscription to two billion topics": ("length_beyond_end", _member_with(b"\0\0" + _MANY)),
    "a subscription to a negative number of topics": ("negative_length", _member_with(struct.pack(">hi", 0, -7))),
    "a subscription of a negative version": ("unsupported_version", _member_with(struct.pack(">hi", -3, 0))),
    "claims of two billion partitions": (
        "length_beyond_end",
        _member_with(struct.pack(">hii", 1, 0, -1) + struct.pack(">i", 1) + string("t") + _MANY),
    ),
    "an assignment of two billion partitions": (
        "length_beyond_end",
        _member_with(subscription("t"), struct.pack(">hi", 1, 1) + string("t") + _MANY),
    ),
    "an assignment to a null topic": ("negative_length", _member_with(subscription("t"), struct.pack(">hih", 1, 1, -1) + _MANY)),
    "a varint without an end": ("bad_varint", struct.pack(">h", 4) + b"\xff" * 9),
    "a string longer than any": ("string_too_long", struct.pack(">h", 4) + b"\xff\xff\x03" + b"x" * 70_000),
    "two billion members in a varint": ("length_beyond_end", _FLEXIBLE + b"\x06range\x02a" + b"\0" * 8 + b"\xff\xff\xff\xff\x07"),
}
_KEYS: dict[str, tuple[str, bytes | None]] = {
    "no key": ("missing_key", None),
    "an empty key": ("truncated", b""),
    "half a record type": ("truncated", b"\x00"),
    "a key without group": ("truncated", b"\x00\x02"),
    "a key that claims more": ("length_beyond_end", struct.pack(">hh", 2, 500) + b"g"),
    "a key of a null group": ("negative_length", struct.pack(">hh", 2, -1)),
    "a commit's key without partition": ("truncated", commit_key("g", "t", 0)[:-2]),
}
_COMMITS: dict[str, tuple[str, bytes]] = {
    "a commit cut short": ("truncated", commit_value(1, 1)[:-1]),
    "a commit of a version to come": ("unsupported_version", b"\x00\x63" + commit_value(1, 1)[2:]),
    "a commit with null metadata": ("negative_length", struct.pack(">hqihq", 3, 5, 7, -1, AT_MS)),
}


def bad_records(count: int, chance: random.Random) -> list[Record]:
    """Return damaged records of all kinds in turn, without a place in the log or with one that cannot be."""
    key, value = group_key("bad"), _member_with(subscription("t"), assignment(t=[0]))
    always = [
        *(Record(key, data, 0, 0, AT_MS, reason) for reason, data in _VALUES.values()),
        *(Record(data, value, 0, 0, AT_MS, reason) for reason, data in _KEYS.values()),
        *(Record(commit_key("g", "t", 0), data, 0, 0, AT_MS, reason) for reason, data in _COMMITS.values()),
        Record(commit_key("g", "t", -5), commit_value(1, AT_MS), 0, 0, AT_MS, "negative_partition"),
        Record(commit_key("g", "t", -1), None, 0, 0, AT_MS, "negative_partition"),
        Record(key, value, 0, 0, -5, "timestamp_out_of_range"),
        Record(key, None, 0, 0, 7_258_118_400_000, "timestamp_out_of_range"),
        Record(struct.pack(">h", -1), None, 0, 0, AT_MS, TRANSPARENT),
    ]
    other_each_time: list[Callable[[int], Record]] = [
        lambda number: Record(key, value, -1, number, AT_MS, "missing_position"),
        lambda number: Record(key, value, LINES_FROM, -1 - number, AT_MS, "missing_position"),
        lambda _: Record(struct.pack(">h", 99) + chance.randbytes(9), value, 0, 0, AT_MS, TRANSPARENT),
        lambda _: Record(key, b"\x7f" + chance.randbytes(40), 0, 0, AT_MS, "unsupported_version"),
        lambda _: Record(b"\0\2\x7f" + chance.randbytes(40), value, 0, 0, AT_MS, "length_beyond_end"),
    ]
    kinds = [*(lambda _, record=record: record for record in always), *other_each_time]
    return [kinds[number % len(kinds)](number) for number in range(count)]


def as_line(record: Record) -> bytes:
    """Return a record as a line of NDJSON."""
    key, value = (None if part is None else base64.b64encode(part).decode() for part in (record.key, record.value))
    place = {"partition": record.partition, "offset": record.offset, "timestamp_ms": record.timestamp_ms}
    return json.dumps({**place, "key_b64": key, "value_b64": value}).encode()


def strange_lines(count: int, chance: random.Random) -> list[bytes]:
    """Return lines that are no records, of all kinds in turn."""
    sound = json.loads(as_line(Record(commit_key("g", "t", 0), commit_value(5, AT_MS), 3, 9, AT_MS)))

    def changed(**changes: object) -> bytes:
        return json.dumps({**sound, **changes}).encode()

    without = [json.dumps({name: value for name, value in sound.items() if name != gone}).encode() for gone in sound]
    kinds: list[Callable[[int], bytes]] = [
        *(lambda _, line=line: line for line in without),
        lambda _: b"{not json",
        lambda _: b"null",
        lambda number: b"[%d]" % number,
        lambda _: b"{}",
        lambda _: b'"text"',
        lambda _: b"\0\0\0\0",
        lambda _: b"[" * 100_000,
        lambda _: json.dumps(sound).encode()[:-9],
        lambda _: json.dumps(sound).encode().replace(b"timestamp_ms", b"timest\xffmp_ms"),
        lambda _: json.dumps({**sound, "note": "?"}).encode().replace(b"?", b"\xed\xa0\x80"),
        lambda _: json.dumps(sound).encode("utf-16-be"),
        lambda _: bytes(chance.choice([*range(0x80, 0x100), *range(0x20, 0x7F)]) for _ in range(60)) + b"\xfe",
        lambda _: changed(key_b64="%%%"),
        lambda _: changed(key_b64="AAE"),
        lambda _: changed(value_b64="\ud800"),
        lambda number: changed(key_b64=number),
        lambda _: changed(value_b64=["AAE="]),
        lambda _: changed(partition="3"),
        lambda _: changed(partition=None),
        lambda _: changed(partition=True),
        lambda _: changed(partition=2**31),
        lambda number: changed(offset=number + 0.5),
        lambda _: changed(offset=2**63),
        lambda _: changed(offset=-(2**63) - 1),
        lambda _: changed(offset=float("nan")),
        lambda _: changed(timestamp_ms=float("inf")),
        lambda _: changed(timestamp_ms=10**400),
        lambda _: changed(timestamp_ms=None),
        lambda _: changed(timestamp_ms={}),
    ]
    return [kinds[number % len(kinds)](number) for number in range(count)]


# -- the log


@dataclass(frozen=True)
class Log:
    """A log of ``__consumer_offsets``, and lines in a capture of it that are no records."""

    records: list[Record]
    strange_lines: list[bytes]

    def without_bad(self) -> Log:
        """Return the good records, at the same places."""
        return Log([record for record in self.records if record.reason is None], [])

    def write(self, folder: Path, chance: random.Random) -> Path:
        """Write one Parquet file and one of lines: a sound one first, by which it is recognised, the strange ones at random."""
        folder.mkdir()
        rows, lines = [], []
        first = next(record for record in self.records if record.reason is None and record.partition >= LINES_FROM)
        for record in (first, *(record for record in self.records if record is not first)):
            if record.partition >= LINES_FROM:
                lines.append(as_line(record))
            else:
                moment = datetime.fromtimestamp(record.timestamp_ms / 1000, timezone.utc)
                rows.append((record.key, record.value, record.partition, record.offset, moment))
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), COLUMNS.types, strict=True)]
        pq.write_table(pa.table(columns, schema=COLUMNS), folder / "log.parquet")
        for line in self.strange_lines:
            lines.insert(chance.randint(1, len(lines)), line)
        (folder / "log.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        return folder


def make_log(good_count: int, bad_count: int, chance: random.Random) -> Log:
    """Return a log with bad records among the good ones, at places of their own except those whose place is what is wrong."""
    strange = strange_lines(bad_count // 3, chance)
    bad = bad_records(bad_count - len(strange), chance)
    chance.shuffle(bad)
    records = []
    for partition, contents in enumerate(good_contents(good_count, chance)):
        mixed = [Record(*content, partition, 0, AT_MS) for content in contents]
        for record in bad[partition::PARTITIONS]:
            # One that is passed over shows that a partition begins with it; one that cannot be read may have been anything.
            mixed.insert(chance.randint(record.reason == TRANSPARENT, len(mixed)), record)
        for offset, record in enumerate(mixed):
            records.append(record if record.reason == "missing_position" else replace(record, partition=partition, offset=offset))
    return Log(records, strange)
