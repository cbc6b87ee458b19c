"""What a broker has of a topic, read from its own files on the disk: no client, no network, no code of ours.

The layout is Kafka's record batch, version 2 (KIP-98), uncompressed, as brokers write ``__consumer_offsets``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_BATCH = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length of the rest, leader epoch, magic, CRC, attributes, last offset delta, times, producer, epoch, sequence, count."""
_LENGTH_FIELDS = 12
_COMPRESSION, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20


class Record(NamedTuple):
    """One record."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass
class TopicLog:
    """A topic as a broker has it.

    Attributes:
        committed: the records that a reader of committed data is to see, open transactions left out.
        aborted: the records of transactions that were given up.
        unsettled: the records of open transactions.
        markers: how many ends of transactions there are; they take an offset each.
    """

    committed: list[Record]
    aborted: list[Record]
    unsettled: list[Record]
    markers: int


def read_topic(log: Path, topic: str) -> TopicLog:
    """Return what the broker has in its folder of one topic."""
    found = TopicLog([], [], [], 0)
    for folder in sorted(log.glob(f"{topic}-*")):
        partition = int(folder.name.rpartition("-")[2])
        in_transaction: dict[int, list[Record]] = {}
        for segment in sorted(folder.glob("*.log")):
            for attributes, producer, records in _batches(segment.read_bytes(), partition):
                if attributes & _CONTROL:
                    found.markers += 1
                    _, kind = struct.unpack(">hh", records[0].key or b"")
                    (found.committed if kind == 1 else found.aborted).extend(in_transaction.pop(producer, []))
                elif attributes & _TRANSACTIONAL:
                    in_transaction.setdefault(producer, []).extend(records)
                else:
                    found.committed.extend(records)
        for records in in_transaction.values():
            found.unsettled.extend(records)
    for records in (found.committed, found.aborted, found.unsettled):
        records.sort()
    return found


def _batches(data: bytes, partition: int) -> Iterator[tuple[int, int, list[Record]]]:
    at = 0
    while len(data) - at >= _BATCH.size:
        base, length, _, magic, _, attributes, _, first_ms, _, producer, _, _, count = _BATCH.unpack_from(data, at)
        if length == 0:  # room that the broker has taken ahead
            return
        assert magic == 2 and not attributes & _COMPRESSION and not attributes & _LOG_APPEND_TIME
        yield attributes, producer, list(_records(data, at + _BATCH.size, count, partition, base, first_ms))
        at += _LENGTH_FIELDS + length


def _records(data: bytes, at: int, count: int, partition: int, base: int, first_ms: int) -> Iterator[Record]:
    for _ in range(count):
        length, body = _varint(data, at)
        millis, at = _varint(data, body + 1)  # after the attributes
        delta, at = _varint(data, at)
        key, at = _bytes(data, at)
        value, at = _bytes(data, at)
        yield Record(partition, base + delta, first_ms + millis, key, value)
        at = body + length


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    return (None, at) if length < 0 else (data[at : at + length], at + length)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
