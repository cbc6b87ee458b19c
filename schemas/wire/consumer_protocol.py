"""The bytes that members and leader of a consumer group exchange: subscriptions and assignments (KIP-54, 429, 792, 881)."""

from __future__ import annotations

from typing import NamedTuple

from schemas.wire.reader import Reader, WireError

TopicPartitions = tuple[str, tuple[int, ...]]
"""A topic and some of its partitions: ``("orders", (0, 3))``."""

_LATEST_VERSION = 3


class Subscription(NamedTuple):
    """The subscription that a member sent when it joined (Kafka's ``ConsumerProtocolSubscription``).

    Attributes:
        version: as written; one above 3 is read as 3.
        topics: in the order of the bytes, duplicates kept.
        user_data: the assignor's own bytes; None is not set, ``b""`` is empty.
        owned: claimed partitions, one entry a topic; empty before version 1.
        owned_generation: generation of the claims; None before version 2 and where it is negative.
        rack: the member's ``client.rack``; None before version 3 and where it is empty.
    """

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    owned: tuple[TopicPartitions, ...]
    owned_generation: int | None
    rack: str | None


class MemberAssignment(NamedTuple):
    """The assignment that the leader gave one member (Kafka's ``ConsumerProtocolAssignment``).

    Attributes:
        version: as written; one above 3 is read as 3.
        partitions: one entry a topic.
        user_data: the assignor's own bytes; None is not set, ``b""`` is empty.
    """

    version: int
    partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None


def decode_subscription(data: bytes) -> Subscription:
    """Return the subscription in ``data``. Bytes after it are ignored, as in Kafka.

    Raises:
        WireError: Kafka's ``ConsumerProtocol.deserializeSubscription`` fails on these bytes.
    """
    reader = Reader(data)
    version = _version(reader)
    return _subscription(reader, version, version)


def decode_written_subscription(data: bytes) -> tuple[Subscription, bool]:
    """Return the subscription in ``data`` as clients write it, and whether it has all fields of its version.

    kafka-go writes version 1, and Faust version 4, in the layout of version 0. Kafka's reader refuses that. But these bytes are for the
    leader of the group, and no broker reads them. Their length is the client's own. So bytes that end after a whole field are not cut: the
    fields that are missing count as empty.

    Raises:
        WireError: the bytes end within a field, or have a wrong length or count.
    """
    try:
        return decode_subscription(data), True
    except WireError:
        for layout in range(_LATEST_VERSION):
            reader = Reader(data)
            version = _version(reader)
            if layout < version:
                subscription = _subscription(reader, version, layout)
                if reader.offset == len(data):
                    return subscription, False
        raise


def _subscription(reader: Reader, version: int, layout: int) -> Subscription:
    """Return the subscription after its version.

    Args:
        layout: the version whose fields are there.
    """
    topics = reader.array(reader.string)
    user_data = reader.nullable_blob()
    owned = _topic_partitions(reader) if layout >= 1 else ()
    generation = reader.int32() if layout >= 2 else -1
    rack = reader.nullable_string() if layout >= 3 else None
    return Subscription(version, topics, user_data, owned, generation if generation >= 0 else None, rack or None)


def decode_assignment(data: bytes) -> MemberAssignment:
    """Return the assignment in ``data``. Bytes after it are ignored, as in Kafka.

    If the leader left a member out, the member is stored without bytes. That is not an assignment, so test for it first.

    Raises:
        WireError: Kafka's ``ConsumerProtocol.deserializeAssignment`` fails on these bytes.
    """
    reader = Reader(data)
    return MemberAssignment(_version(reader), _topic_partitions(reader), reader.nullable_blob())


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise WireError("unsupported_version", f"found version {version} at byte 0, expected 0 or more")
    return version


def _topic_partitions(reader: Reader) -> tuple[TopicPartitions, ...]:
    """Return one entry per topic, topics by first appearance, partitions in list order.

    librdkafka's leader can list a topic twice in one assignment, with other topics in between. Entries without partitions
    are dropped, as in Kafka's reader, which returns single partitions.
    """
    entries = reader.array(lambda: (reader.string(), reader.int32_array()))
    by_topic = dict(entries)
    if len(by_topic) == len(entries) and all(by_topic.values()):
        return entries
    merged: dict[str, list[int]] = {}
    for topic, partitions in entries:
        if partitions:
            merged.setdefault(topic, []).extend(partitions)
    return tuple([(topic, tuple(partitions)) for topic, partitions in merged.items()])
