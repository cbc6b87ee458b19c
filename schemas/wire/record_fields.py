"""The fields of ``__consumer_offsets`` records by type, as Kafka's message definitions have them, for ``schemas.wire.kafka_json``.

Types 0 to 8 and 16: offset commits, classic groups, and consumer groups of KIP-848.
"""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        kind: a name of ``kafka_json``; ``struct`` and ``struct[]`` have ``items``.
        since, until: the first and the last version that have it.
        items: fields of the struct.
        tag: number of a tagged field, which is left out if it has its ``default``; None for others.
        default: the bytes of a tagged field's default value.
    """

    name: str
    kind: str
    since: int = 0
    until: int = 99
    items: tuple[Field, ...] = ()
    tag: int | None = None
    default: bytes = b""


OFFSET_COMMIT, GROUP_METADATA = 1, 2
PRINTED_BY_FORMATTERS = (OFFSET_COMMIT, GROUP_METADATA)
"""The types that ``kafka-console-consumer`` prints; ``kafka-dump-log`` prints all."""
FIRST_FLEXIBLE = {GROUP_METADATA: 4, OFFSET_COMMIT: 4}
"""Type -> its first version with compact lengths and tags. All versions of other types have them."""
LAST_VERSION = {0: 0, OFFSET_COMMIT: 4, GROUP_METADATA: 4}
"""Type -> its last value version; 0 for other types."""

_GROUP_ID, _MEMBER_ID = Field("groupId", "string"), Field("memberId", "string")
_COMMIT_KEY = (Field("group", "string"), Field("topic", "string"), Field("partition", "int32"))
KEYS: dict[int, tuple[Field, ...]] = {
    0: _COMMIT_KEY,
    OFFSET_COMMIT: _COMMIT_KEY,
    GROUP_METADATA: (Field("group", "string"),),
    3: (_GROUP_ID,),
    4: (_GROUP_ID,),
    5: (_GROUP_ID, _MEMBER_ID),
    6: (_GROUP_ID,),
    7: (_GROUP_ID, _MEMBER_ID),
    8: (_GROUP_ID, _MEMBER_ID),
    16: (_GROUP_ID, Field("regularExpression", "string")),
}
"""Type -> the fields of its key, none of which is flexible."""

_MEMBER = (
    Field("memberId", "string"),
    Field("groupInstanceId", "string?", 3),
    Field("clientId", "string"),
    Field("clientHost", "string"),
    Field("rebalanceTimeout", "int32", 1),
    Field("sessionTimeout", "int32"),
    Field("subscription", "bytes"),
    Field("assignment", "bytes"),
)
_COMMIT = (
    Field("offset", "int64"),
    Field("leaderEpoch", "int32", 3),
    Field("metadata", "string"),
    Field("commitTimestamp", "int64"),
    Field("expireTimestamp", "int64", 1, 1),
    Field("topicId", "uuid", 4, tag=0, default=bytes(16)),
)
_TOPIC_PARTITIONS = (Field("topicId", "uuid"), Field("partitions", "int32[]"))
_OWNED = (*_TOPIC_PARTITIONS, Field("assignmentEpochs", "int32[]", tag=0, default=b"\1"))
_CLASSIC_MEMBER = (
    Field("sessionTimeoutMs", "int32"),
    Field("supportedProtocols", "struct[]", items=(Field("name", "string"), Field("metadata", "bytes"))),
)
_PARTITION_RACKS = (Field("partition", "int32"), Field("racks", "string[]"))
_SUBSCRIBED_TOPIC = (
    Field("topicId", "uuid"),
    Field("topicName", "string"),
    Field("numPartitions", "int32"),
    Field("partitionMetadata", "struct[]", items=_PARTITION_RACKS),
)
VALUES: dict[int, tuple[Field, ...]] = {
    0: _COMMIT,
    OFFSET_COMMIT: _COMMIT,
    GROUP_METADATA: (
        Field("protocolType", "string"),
        Field("generation", "int32"),
        Field("protocol", "string?"),
        Field("leader", "string?"),
        Field("currentStateTimestamp", "int64", 2),
        Field("members", "struct[]", items=_MEMBER),
    ),
    3: (Field("epoch", "int32"), Field("metadataHash", "int64", tag=0, default=bytes(8))),
    4: (Field("topics", "struct[]", items=_SUBSCRIBED_TOPIC),),
    5: (
        Field("instanceId", "string?"),
        Field("rackId", "string?"),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("subscribedTopicNames", "string[]"),
        Field("subscribedTopicRegex", "string?"),
        Field("rebalanceTimeoutMs", "int32"),
        Field("serverAssignor", "string?"),
        Field("classicMemberMetadata", "struct?", items=_CLASSIC_MEMBER, tag=0, default=b"\1\0\0\0\0\1\0"),
    ),
    6: (Field("assignmentEpoch", "int32"), Field("assignmentTimestamp", "int64", tag=0, default=bytes(8))),
    7: (Field("topicPartitions", "struct[]", items=_TOPIC_PARTITIONS),),
    8: (
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("state", "int8"),
        Field("assignedPartitions", "struct[]", items=_OWNED),
        Field("partitionsPendingRevocation", "struct[]", items=_OWNED),
    ),
    16: (Field("topics", "string[]"), Field("version", "int64"), Field("timestamp", "int64")),
}
"""Type -> the fields of its value."""

_NAMED_PARTITIONS = (Field("topic", "string"), Field("partitions", "int32[]"))
SUBSCRIPTION = (
    Field("topics", "string[]"),
    Field("userData", "bytes?"),
    Field("ownedPartitions", "struct[]", 1, items=_NAMED_PARTITIONS),
    Field("generationId", "int32", 2),
    Field("rackId", "string?", 3),
)
"""The subscription that a member sends (Kafka's ``ConsumerProtocolSubscription``)."""
ASSIGNMENT = (Field("assignedPartitions", "struct[]", items=_NAMED_PARTITIONS), Field("userData", "bytes?"))
"""The assignment that the leader gives a member (Kafka's ``ConsumerProtocolAssignment``). All versions have these fields."""
