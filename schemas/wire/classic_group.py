"""Values of ``__consumer_offsets`` that are older than KIP-848: classic group metadata and offset commits."""

from __future__ import annotations

import struct
from typing import NamedTuple

from schemas.wire.reader import Reader

_FIRST_FLEXIBLE_VERSION = 4
_TIMEOUTS = struct.Struct(">ii")
_OFFSET_AND_EPOCH = struct.Struct(">qi")


class GroupMember(NamedTuple):
    """A member as the coordinator stored it.

    Attributes:
        group_instance_id: None for a dynamic member, and before version 3.
        rebalance_timeout_ms: None before version 1.
        subscription: the member's metadata for the protocol that the group chose; for protocol type ``consumer`` the
            bytes of a subscription.
        assignment: the leader's answer; empty where the leader gave none.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int | None
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(NamedTuple):
    """One generation of a classic group (Kafka's ``GroupMetadataValue``).

    Attributes:
        protocol_type: ``consumer``, ``connect``, ...; empty for a group that only committed offsets or never had a member.
        protocol: the assignor's name; None for an empty group.
        leader: the leader's member id; None for an empty group.
        current_state_timestamp_ms: when the group entered its state; None when not recorded (always before version 2).
        members: in the order of the record.
    """

    version: int
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int | None
    members: tuple[GroupMember, ...]


class OffsetCommit(NamedTuple):
    """A committed offset (Kafka's ``OffsetCommitValue`` and ``LegacyOffsetCommitValue``).

    Attributes:
        leader_epoch: epoch of the last record read; None when not known (always before version 3).
        committed_at_ms: the coordinator's clock at the commit.
        expires_at_ms: the expiry that the client asked for, version 1 only; else None.
        topic_id: None when not recorded (always before version 4).
    """

    version: int
    committed_offset: int
    leader_epoch: int | None
    metadata: str
    committed_at_ms: int
    expires_at_ms: int | None
    topic_id: str | None


def decode_group_metadata(value: bytes) -> GroupMetadata:
    """Return the group metadata in ``value`` (record type 2, versions 0 to 4).

    Raises:
        WireError: Kafka's reader fails on these bytes, or does not know the version.
    """
    reader = Reader(value)
    version = reader.version(4)
    if version >= _FIRST_FLEXIBLE_VERSION:
        return _flexible_group_metadata(reader, version)
    return GroupMetadata(
        version,
        reader.string(),
        reader.int32(),
        reader.nullable_string(),
        reader.nullable_string(),
        _present(reader.int64()) if version >= 2 else None,
        reader.array(lambda: _member(reader, version)),
    )


def decode_offset_commit(value: bytes) -> OffsetCommit:
    """Return the offset commit in ``value`` (record type 1, versions 0 to 4).

    Raises:
        WireError: Kafka's reader fails on these bytes, or does not know the version.
    """
    reader = Reader(value)
    return _offset_commit(reader, reader.version(4))


def decode_legacy_offset_commit(value: bytes) -> OffsetCommit:
    """Return the offset commit in ``value`` (record type 0, version 0 only).

    Raises:
        WireError: Kafka's reader fails on these bytes, or does not know the version.
    """
    reader = Reader(value)
    return _offset_commit(reader, reader.version(0))


def _member(reader: Reader, version: int) -> GroupMember:
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms, session_timeout_ms = reader.fixed(_TIMEOUTS) if version >= 1 else (-1, reader.int32())
    return GroupMember(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        None if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms,
        reader.blob(),
        reader.blob(),
    )


def _flexible_group_metadata(reader: Reader, version: int) -> GroupMetadata:
    def member() -> GroupMember:
        read = GroupMember(
            reader.compact_string(),
            reader.compact_nullable_string(),
            reader.compact_string(),
            reader.compact_string(),
            _present(reader.int32()),
            reader.int32(),
            reader.compact_blob(),
            reader.compact_blob(),
        )
        reader.skip_tags()
        return read

    group = GroupMetadata(
        version,
        reader.compact_string(),
        reader.int32(),
        reader.compact_nullable_string(),
        reader.compact_nullable_string(),
        _present(reader.int64()),
        reader.compact_array(member),
    )
    reader.skip_tags()
    return group


def _offset_commit(reader: Reader, version: int) -> OffsetCommit:
    committed_offset, leader_epoch = reader.fixed(_OFFSET_AND_EPOCH) if version >= 3 else (reader.int64(), -1)
    is_flexible = version >= _FIRST_FLEXIBLE_VERSION
    metadata = reader.compact_string() if is_flexible else reader.string()
    committed_at_ms = reader.int64()
    expires_at_ms = _present(reader.int64()) if version == 1 else None
    topic_id = None
    if is_flexible:
        for tag, size in reader.tags():
            if tag == 0:
                topic_id = reader.uuid()
            else:
                reader.skip(size)
    return OffsetCommit(version, committed_offset, _present(leader_epoch), metadata, committed_at_ms, expires_at_ms, topic_id)


def _present(value: int) -> int | None:
    """Return ``value``; None for -1, with which Kafka marks an absent number."""
    return None if value == -1 else value
