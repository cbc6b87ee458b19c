"""The sticky assignors' own bytes in a subscription: what a member says it held, and since which generation.

There is no version number in front. ``StickyAssignor`` writes the previous assignment (V0, 0.11 to 2.2) and behind it the generation
(V1, KIP-341, 2.3 and later); ``CooperativeStickyAssignor`` writes the generation alone.
Source: ``StickyAssignor.deserializeTopicPartitionAssignment``, ``CooperativeStickyAssignor.memberData``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from assignors.model import TopicPartition
from assignors.ordering import computed_hash_map_order

NO_GENERATION = -1
"""What an absent generation counts as in comparisons."""

_INT32 = struct.Struct(">i")


class _MalformedError(Exception):
    """The bytes are not a previous assignment."""


def read_sticky_user_data(data: bytes) -> tuple[list[TopicPartition], int | None]:
    """Return the claimed partitions in the order of the bytes, and the generation of the claims.

    The generation is None when there is none (V0). Damaged bytes are read as Kafka reads them: no claims, generation -1. Bytes
    behind the end are ignored.

    >>> read_sticky_user_data(bytes.fromhex("00000001" "00027431" "00000002" "00000003" "00000000" "00000007"))
    ([('t1', 3), ('t1', 0)], 7)
    >>> read_sticky_user_data(b"damaged")
    ([], -1)
    """
    try:
        claims, end = _read_assignment(data)
    except _MalformedError:
        return [], NO_GENERATION
    if len(data) - end < _INT32.size:
        return claims, None
    return claims, _INT32.unpack_from(data, end)[0]


def write_sticky_user_data(partitions: Iterable[TopicPartition], generation: int | None) -> bytes:
    """Return the bytes that a member with these partitions sends with its next subscription.

    Order: topics as a ``HashMap`` filled by ``computeIfAbsent`` iterates them, partitions as in the assignment.

    Args:
        partitions: the member's assignment in its order.
        generation: its generation; None writes the old layout without one.

    >>> write_sticky_user_data((("t1", 3), ("t1", 0), ("t2", 1)), 7).hex()
    '0000000200027431000000020000000300000000000274320000000100000001' '00000007'
    """
    by_topic: dict[str, list[int]] = {}
    sequence = []
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
        sequence.append(topic)
    parts = [_INT32.pack(len(by_topic))]
    for topic in computed_hash_map_order(sequence):
        name = topic.encode("utf-8", "surrogatepass")
        numbers = by_topic[topic]
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    if generation is not None:
        parts.append(_INT32.pack(generation))
    return b"".join(parts)


def read_cooperative_user_data(data: bytes) -> int:
    """Return the generation; bytes too short for one count as -1."""
    return _INT32.unpack_from(data)[0] if len(data) >= _INT32.size else NO_GENERATION


def _read_assignment(data: bytes) -> tuple[list[TopicPartition], int]:
    """Return the claims and where they end.

    Raises:
        _MalformedError: a count or length is negative or larger than what is left.
    """
    claims: list[TopicPartition] = []
    size = len(data)
    try:
        topic_count, at = _INT32.unpack_from(data)[0], 4
        if not 0 <= topic_count <= size - at:
            raise _MalformedError
        for _ in range(topic_count):
            length = int.from_bytes(data[at : at + 2], "big", signed=True)
            if not 0 <= length <= size - at - 2:
                raise _MalformedError
            at += 2 + length
            topic = data[at - length : at].decode("utf-8", "replace")
            count = _INT32.unpack_from(data, at)[0]
            at += 4
            if not 0 <= count <= size - at:
                raise _MalformedError
            claims += [(topic, partition) for partition in struct.unpack_from(f">{count}i", data, at)]
            at += 4 * count
    except struct.error as underflow:
        raise _MalformedError from underflow
    return claims, at
