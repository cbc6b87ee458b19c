"""Values of ``__consumer_offsets`` of KIP-848 consumer groups: record types 3 to 8 and 16, each flexible, version 0."""

from __future__ import annotations

from typing import NamedTuple

from schemas.wire.reader import Reader


class ConsumerGroupMetadata(NamedTuple):
    """The group's epoch (type 3).

    Attributes:
        epoch: grows with each change of members, subscriptions or topics.
        metadata_hash: Kafka's hash of the subscribed topics; 0 when not recorded (before 4.1).
    """

    epoch: int
    metadata_hash: int


class PartitionRacks(NamedTuple):
    """Racks of one partition's replicas."""

    partition: int
    racks: tuple[str, ...]


class SubscribedTopic(NamedTuple):
    """A topic that the group subscribes to, as the coordinator saw it.

    Attributes:
        topic_id: Kafka's 22-character text form.
        partition_racks: empty since Kafka 4.0.
    """

    topic_id: str
    topic: str
    partition_count: int
    partition_racks: tuple[PartitionRacks, ...]


class ConsumerGroupPartitionMetadata(NamedTuple):
    """The subscribed topics (type 4; not written since 4.1)."""

    topics: tuple[SubscribedTopic, ...]


class ClassicProtocol(NamedTuple):
    """An assignor that a member with the classic protocol supports, and its subscription bytes."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(NamedTuple):
    """The data of a member that still uses the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


class ConsumerGroupMemberMetadata(NamedTuple):
    """The data that a member sent to the group (type 5).

    Attributes:
        group_instance_id, rack, topic_regex, server_assignor: None is not set; ``""`` is a value.
        topics: subscribed by name.
        rebalance_timeout_ms: -1 when not set.
        classic: None for a member with the consumer protocol. A record without the field yields timeout 0 and no protocols,
            because that is the field's default in Kafka, and null is written.
    """

    group_instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberMetadata | None


class ConsumerGroupTargetAssignmentMetadata(NamedTuple):
    """The epoch of the newest target assignment (type 6).

    Attributes:
        assignment_epoch: the group epoch for which the target assignment was computed.
        assignment_timestamp_ms: when it was computed; 0 when not recorded (before 4.3).
    """

    assignment_epoch: int
    assignment_timestamp_ms: int


class TopicIdPartitions(NamedTuple):
    """Partitions of a topic.

    Attributes:
        topic_id: Kafka's 22-character text form; names are in the group's type 4 record and in the cluster's metadata.
        partitions: in the order of the record.
        assignment_epochs: for each partition the epoch that gave it to the member; empty if not recorded.
    """

    topic_id: str
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] = ()


class ConsumerGroupTargetAssignmentMember(NamedTuple):
    """The target assignment of one member (type 7)."""

    partitions: tuple[TopicIdPartitions, ...]


class ConsumerGroupCurrentMemberAssignment(NamedTuple):
    """The current assignment of one member (type 8).

    Attributes:
        member_epoch: the epoch the member has reconciled to.
        previous_member_epoch: the epoch before it.
        state: 0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown.
        assigned: what it owns now.
        pending_revocation: what it has to give back first.
    """

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: tuple[TopicIdPartitions, ...]
    pending_revocation: tuple[TopicIdPartitions, ...]


class ConsumerGroupRegularExpression(NamedTuple):
    """The topics that a regular expression of the group matched (type 16).

    Attributes:
        topics: names, sorted by the coordinator.
        version: version of the cluster metadata image with which it was resolved.
        resolved_at_ms: time of that.
    """

    topics: tuple[str, ...]
    version: int
    resolved_at_ms: int


_NOT_RECORDED = ClassicMemberMetadata(0, ())


def decode_consumer_group_metadata(value: bytes) -> ConsumerGroupMetadata:
    """Return a value of type 3, or raise ``WireError`` where Kafka's reader fails."""
    reader = _open(value)
    epoch = reader.int32()
    return ConsumerGroupMetadata(epoch, _tagged_int64(reader))


def decode_consumer_group_partition_metadata(value: bytes) -> ConsumerGroupPartitionMetadata:
    """Return a value of type 4, or raise ``WireError`` where Kafka's reader fails."""
    reader = _open(value)
    metadata = ConsumerGroupPartitionMetadata(subscribed_topics(reader))
    reader.skip_tags()
    return metadata


def subscribed_topics(reader: Reader) -> tuple[SubscribedTopic, ...]:
    """Return the topics of a value of type 4, which begin where the reader is."""

    def partition() -> PartitionRacks:
        read = PartitionRacks(reader.int32(), reader.compact_array(reader.compact_string))
        reader.skip_tags()
        return read

    def topic() -> SubscribedTopic:
        read = SubscribedTopic(reader.uuid(), reader.compact_string(), reader.int32(), reader.compact_array(partition))
        reader.skip_tags()
        return read

    return reader.compact_array(topic)


def decode_consumer_group_member_metadata(value: bytes) -> ConsumerGroupMemberMetadata:
    """Return a value of type 5, or raise ``WireError`` where Kafka's reader fails."""
    reader = _open(value)
    member = ConsumerGroupMemberMetadata(
        reader.compact_nullable_string(),
        reader.compact_nullable_string(),
        reader.compact_string(),
        reader.compact_string(),
        reader.compact_array(reader.compact_string),
        reader.compact_nullable_string(),
        reader.int32(),
        reader.compact_nullable_string(),
        _NOT_RECORDED,
    )
    for tag, size in reader.tags():
        if tag == 0:
            member = member._replace(classic=_classic_member_metadata(reader))
        else:
            reader.skip(size)
    return member


def decode_consumer_group_target_assignment_metadata(value: bytes) -> ConsumerGroupTargetAssignmentMetadata:
    """Return a value of type 6, or raise ``WireError`` where Kafka's reader fails."""
    reader = _open(value)
    epoch = reader.int32()
    return ConsumerGroupTargetAssignmentMetadata(epoch, _tagged_int64(reader))


def decode_consumer_group_target_assignment_member(value: bytes) -> ConsumerGroupTargetAssignmentMember:
    """Return a value of type 7, or raise ``WireError`` where Kafka's reader fails."""
    reader = _open(value)

    def topic() -> TopicIdPartitions:
        read = TopicIdPartitions(reader.uuid(), reader.compact_int32_array())
        reader.skip_tags()
        return read

    target = ConsumerGroupTargetAssignmentMember(reader.compact_array(topic))
    reader.skip_tags()
    return target


def decode_consumer_group_current_member_assignment(value: bytes) -> ConsumerGroupCurrentMemberAssignment:
    """Return a value of type 8, or raise ``WireError`` where Kafka's reader fails."""
    reader = _open(value)

    def topic() -> TopicIdPartitions:
        topic_id = reader.uuid()
        partitions = reader.compact_int32_array()
        epochs: tuple[int, ...] = ()
        for tag, size in reader.tags():
            if tag == 0:
                epochs = reader.compact_int32_array()
            else:
                reader.skip(size)
        return TopicIdPartitions(topic_id, partitions, epochs)

    current = ConsumerGroupCurrentMemberAssignment(
        reader.int32(), reader.int32(), reader.int8(), reader.compact_array(topic), reader.compact_array(topic)
    )
    reader.skip_tags()
    return current


def decode_consumer_group_regular_expression(value: bytes) -> ConsumerGroupRegularExpression:
    """Return a value of type 16, or raise ``WireError`` where Kafka's reader fails."""
    reader = _open(value)
    expression = ConsumerGroupRegularExpression(reader.compact_array(reader.compact_string), reader.int64(), reader.int64())
    reader.skip_tags()
    return expression


def _open(value: bytes) -> Reader:
    reader = Reader(value)
    reader.version(0)
    return reader


def _tagged_int64(reader: Reader) -> int:
    """Return the int64 of tag 0; 0 if it is left out."""
    number = 0
    for tag, size in reader.tags():
        if tag == 0:
            number = reader.int64()
        else:
            reader.skip(size)
    return number


def _classic_member_metadata(reader: Reader) -> ClassicMemberMetadata | None:
    if reader.unsigned_varint() <= 0:
        return None

    def protocol() -> ClassicProtocol:
        read = ClassicProtocol(reader.compact_string(), reader.compact_blob())
        reader.skip_tags()
        return read

    classic = ClassicMemberMetadata(reader.int32(), reader.compact_array(protocol))
    reader.skip_tags()
    return classic
