"""Records of KIP-848 groups put together field by field, in the flexible layouts of version 0, and a log to write them to."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable

from jobs.decoders.consumer_group_replay import Record
from tests.builders.records import string

TOPIC_IDS = {name: base64.urlsafe_b64encode(bytes(15) + bytes([number])).decode().rstrip("=") for number, name in enumerate("tuv", 1)}
"""Topic name -> id, in Kafka's text form."""

Partitions = dict[str, list[int]]


def varint(number: int) -> bytes:
    """Return an unsigned number in groups of 7 bits, the lowest first."""
    head = bytearray()
    while number > 0x7F:
        head.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*head, number])


def compact(text: str | None) -> bytes:
    return b"\0" if text is None else varint(len(text.encode()) + 1) + text.encode()


def array(parts: Iterable[bytes]) -> bytes:
    listed = list(parts)
    return varint(len(listed) + 1) + b"".join(listed)


def uuid(topic: str) -> bytes:
    return base64.urlsafe_b64decode(TOPIC_IDS.get(topic, topic) + "==")


def held(partitions: Partitions) -> bytes:
    return array(uuid(topic) + array(struct.pack(">i", number) for number in numbers) + b"\0" for topic, numbers in partitions.items())


def classic_metadata(*strategies: str) -> bytes:
    """Return tag 0 of a member that still uses the classic protocol."""
    content = b"\1" + struct.pack(">i", 45_000) + array(compact(name) + b"\1" + b"\0" for name in strategies) + b"\0"
    return b"\1\0" + bytes([len(content)]) + content


NOT_CLASSIC = b"\1\0\1\0"
"""Tag 0 of other members: null."""
BEFORE_CLASSIC = b"\1\0"
"""No assignors of the client, and no tag: brokers before 3.8."""


class Log:
    """The records of one group ``g`` in partition 3. Each record has the next offset, and is one second later."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def put(self, record_type: int, value: bytes | None, second: str | None = None) -> int:
        """Append a record and return its offset."""
        key = struct.pack(">h", record_type) + string("g") + (b"" if second is None else string(second))
        offset = len(self.records)
        content = None if value is None else b"\0\0" + value
        self.records.append(Record(3, offset, offset * 1_000, key, content))
        return offset

    def epoch(self, epoch: int | None) -> int:
        return self.put(3, None if epoch is None else struct.pack(">i", epoch) + b"\0")

    def topics(self, **partition_counts: int) -> int:
        entries = (uuid(topic) + compact(topic) + struct.pack(">i", count) + array([]) + b"\0" for topic, count in partition_counts.items())
        return self.put(4, array(entries) + b"\0")

    def member(
        self,
        member_id: str,
        *topics: str,
        instance: str | None = None,
        regex: str | None = "",
        assignor: str | None = None,
        classic: bytes = NOT_CLASSIC,
    ) -> int:
        names = compact(instance) + compact("r1") + compact(f"client-{member_id}") + compact("/10.0.0.1")
        rest = array(map(compact, topics)) + compact(regex) + struct.pack(">i", 300_000) + compact(assignor)
        return self.put(5, names + rest + classic, member_id)

    def target_epoch(self, epoch: int | None, made_at_ms: int | None = None) -> int:
        tags = b"\0" if made_at_ms is None else b"\1\0\x08" + struct.pack(">q", made_at_ms)
        return self.put(6, None if epoch is None else struct.pack(">i", epoch) + tags)

    def target(self, member_id: str, **partitions: list[int]) -> int:
        return self.put(7, held(partitions) + b"\0", member_id)

    def current(self, member_id: str, epoch: int, state: int = 0, pending: Partitions | None = None, **partitions: list[int]) -> int:
        return self.put(8, struct.pack(">iib", epoch, epoch - 1, state) + held(partitions) + held(pending or {}) + b"\0", member_id)

    def expression(self, regex: str, *topics: str) -> int:
        return self.put(16, array(map(compact, topics)) + struct.pack(">qq", 1, 1) + b"\0", regex)

    def leave(self, member_id: str) -> int:
        """Append the tombstones of a member that leaves, in the coordinator's order."""
        for record_type in (8, 7, 5):
            offset = self.put(record_type, None, member_id)
        return offset
