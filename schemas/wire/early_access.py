"""Values of KIP-848 groups as brokers of Kafka 3.7 wrote them (early access). Version 0 has had other fields since 3.8."""

from __future__ import annotations

from schemas.wire.consumer_group import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupPartitionMetadata,
    TopicIdPartitions,
    subscribed_topics,
)
from schemas.wire.reader import Reader, WireError

_STABLE, _UNREVOKED, _UNRELEASED = 0, 1, 2


def decode_early_partition_metadata(value: bytes) -> ConsumerGroupPartitionMetadata:
    """Return a value of type 4, which begins with an epoch; raise ``WireError`` for other bytes."""
    reader = _open(value)
    reader.int32()
    metadata = ConsumerGroupPartitionMetadata(subscribed_topics(reader))
    _close(reader)
    return metadata


def decode_early_member_metadata(value: bytes) -> ConsumerGroupMemberMetadata:
    """Return a value of type 5, which ends with assignors of the client; raise ``WireError`` for other bytes."""
    reader = _open(value)

    def assignor() -> None:
        reader.compact_string()
        reader.skip(2 + 2 + 1 + 2)
        reader.compact_blob()
        reader.skip_tags()

    member = ConsumerGroupMemberMetadata(
        reader.compact_nullable_string(),
        reader.compact_nullable_string(),
        reader.compact_string(),
        reader.compact_string(),
        reader.compact_array(reader.compact_string),
        reader.compact_nullable_string(),
        reader.int32(),
        reader.compact_nullable_string(),
        None,
    )
    reader.compact_array(assignor)
    _close(reader)
    return member


def decode_early_current_member_assignment(value: bytes) -> ConsumerGroupCurrentMemberAssignment:
    """Return a value of type 8, whose state follows from its partitions; raise ``WireError`` for other bytes."""
    reader = _open(value)

    def topic() -> TopicIdPartitions:
        read = TopicIdPartitions(reader.uuid(), reader.compact_int32_array())
        reader.skip_tags()
        return read

    member_epoch, previous_member_epoch, _ = reader.int32(), reader.int32(), reader.int32()
    assigned, pending_revocation, pending = (reader.compact_array(topic) for _ in range(3))
    reader.skip(1 + 2)
    reader.compact_blob()
    _close(reader)
    state = _UNREVOKED if pending_revocation else _UNRELEASED if pending else _STABLE
    return ConsumerGroupCurrentMemberAssignment(member_epoch, previous_member_epoch, state, assigned, pending_revocation)


def _open(value: bytes) -> Reader:
    reader = Reader(value)
    reader.version(0)
    return reader


def _close(reader: Reader) -> None:
    reader.skip_tags()
    if reader.offset != len(reader.data):
        raise WireError("length_beyond_end", f"found bytes after byte {reader.offset}, expected the end")
