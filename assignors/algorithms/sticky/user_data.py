"""The sticky assignors' own bytes in a subscription: the previous partitions of a member, and their generation.

The bytes have no version number. ``StickyAssignor`` writes the previous assignment (V0, 0.11 to 2.2) and after it the generation (V1,
KIP-341, 2.3 and later). ``CooperativeStickyAssignor`` writes only the generation.
Source: ``StickyAssignor.deserializeTopicPartitionAssignment``, ``CooperativeStickyAssignor.memberData``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import repeat

from assignors.java.ordering import computed_hash_map_order
from assignors.model import TopicPartition

NO_GENERATION = -1
"""The value of an absent generation in comparisons."""

_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_read_int16 = _INT16.unpack_from
_read_int32 = _INT32.unpack_from


class MalformedUserDataError(Exception):
    """The bytes are not a previous assignment.

    Attributes:
        consumed: number of bytes that were read before the error; Kafka's next read starts there.
    """

    def __init__(self, consumed: int) -> None:
        super().__init__(f"not a previous assignment: damaged after {consumed} bytes")
        self.consumed = consumed


def read_sticky_user_data(data: bytes) -> tuple[list[TopicPartition], int | None, int]:
    """Return the claims in the order of the bytes, their generation, and the number of bytes that Kafka's first attempt consumes.

    The generation is None if there is none (V0). Damaged bytes are read as in Kafka: no claims, generation -1. Bytes after the
    end are ignored.

    >>> read_sticky_user_data(bytes.fromhex("00000001" "00027431" "00000002" "00000003" "00000000" "00000007"))
    ([('t1', 3), ('t1', 0)], 7, 24)
    >>> read_sticky_user_data(b"damaged")
    ([], -1, 4)
    """
    try:
        claims, end = read_previous_assignment(data)
    except MalformedUserDataError as fault:
        return [], NO_GENERATION, fault.consumed
    if len(data) - end < _INT32.size:
        return claims, None, end
    return claims, _read_int32(data, end)[0], end + _INT32.size


def read_previous_assignment(data: bytes) -> tuple[list[TopicPartition], int]:
    """Return the claims in the order of the bytes, and the position of their end.

    Raises:
        MalformedUserDataError: a count or length is negative or larger than the rest of the bytes.
    """
    claims: list[TopicPartition] = []
    try:
        topic_count = _natural(_read_int32(data)[0])
        at = 4
        for _ in range(topic_count):
            start = at + 2
            at = start + _read_int16(data, at)[0]
            topic = _topic_name(data[start:at])
            (count,) = _read_int32(data, at)
            at += 4
            if at - 4 < start or count < 0:
                raise MalformedUserDataError(_sound_length(data))
            if count == 1:
                claims.append((topic, _read_int32(data, at)[0]))
            else:
                claims += zip(repeat(topic), _reader_of(count)(data, at), strict=False)
            at += 4 * count
    except struct.error:
        raise MalformedUserDataError(_sound_length(data)) from None
    return claims, at


def read_cooperative_user_data(data: bytes) -> int:
    """Return the generation; -1 if there are too few bytes."""
    return _read_int32(data)[0] if len(data) >= _INT32.size else NO_GENERATION


def write_sticky_user_data(partitions: Collection[TopicPartition], generation: int | None) -> bytes:
    """Return the bytes that a member with these partitions sends with its next subscription.

    Order: topics as a ``HashMap`` filled by ``computeIfAbsent`` iterates them, partitions as in the assignment.

    Args:
        partitions: the member's assignment in its order.
        generation: its generation; None writes the old layout without one.

    >>> write_sticky_user_data((("t1", 3), ("t1", 0), ("t2", 1)), 7).hex()
    '000000020002743100000002000000030000000000027432000000010000000100000007'
    """
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [_INT32.pack(len(by_topic))]
    for topic in computed_hash_map_order([topic for topic, _ in partitions]):
        name = topic.encode("utf-8", "surrogatepass")
        numbers = by_topic[topic]
        parts += (_INT16.pack(len(name)), name, struct.pack(f">{1 + len(numbers)}i", len(numbers), *numbers))
    if generation is not None:
        parts.append(_INT32.pack(generation))
    return b"".join(parts)


@lru_cache(maxsize=4096)  # one object for equal names, so that the tuples with it compare by identity
def _topic_name(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@lru_cache(maxsize=1024)
def _reader_of(count: int) -> Callable[[bytes, int], tuple[int, ...]]:
    return struct.Struct(f">{count}i").unpack_from


def _natural(number: int) -> int:
    if number < 0:
        raise struct.error
    return number


def _sound_length(data: bytes) -> int:
    """Return the number of bytes of a damaged assignment that Kafka reads: it reads a number before it finds it wrong."""
    at = 0

    def read_size(reader: Callable[[bytes, int], tuple[int, ...]], width: int) -> int | None:
        nonlocal at
        if len(data) - at < width:
            return None
        (size,) = reader(data, at)
        at += width
        return size if 0 <= size <= len(data) - at else None

    topic_count = read_size(_read_int32, 4)
    for _ in range(topic_count or 0):
        length = read_size(_read_int16, 2)
        if length is None:
            break
        at += length
        count = read_size(_read_int32, 4)
        if count is None:
            break
        if 4 * count > len(data) - at:
            return len(data) - (len(data) - at) % 4
        at += 4 * count
    return at
