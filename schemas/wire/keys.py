"""Keys of ``__consumer_offsets``: the kind of a record, and its group."""

from __future__ import annotations

from typing import NamedTuple

from schemas.wire.reader import Reader, WireError

OFFSETS_TOPIC = "__consumer_offsets"
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of every topic of brokers before 2.8: sixteen zero bytes."""
COMMITTED_COLUMN = "isCommitted"
"""A boolean column of a file of records: true if they were read with ``read_committed``, without records of aborted transactions."""

CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA = 2, 3
"""Record types whose tombstones delete a group."""
EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, EXPRESSION = 3, 4, 5, 6, 7, 8, 16
RECORD_TYPES = (EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, EXPRESSION)
"""Record types that together describe a consumer-protocol group."""

# Record type -> its kind, and the key's second string after the group id.
_KINDS: dict[int, tuple[str, str | None]] = {
    0: ("offset_commit", "topic"),
    1: ("offset_commit", "topic"),
    2: ("classic_group_metadata", None),
    3: ("consumer_group_metadata", None),
    4: ("consumer_group_partition_metadata", None),
    5: ("consumer_group_member_metadata", "member_id"),
    6: ("consumer_group_target_assignment_metadata", None),
    7: ("consumer_group_target_assignment_member", "member_id"),
    8: ("consumer_group_current_member_assignment", "member_id"),
    9: ("share_group_partition_metadata", None),  # early access releases only
    10: ("share_group_member_metadata", "member_id"),
    11: ("share_group_metadata", None),
    12: ("share_group_target_assignment_metadata", None),
    13: ("share_group_target_assignment_member", "member_id"),
    14: ("share_group_current_member_assignment", "member_id"),
    15: ("share_group_state_partition_metadata", None),
    16: ("consumer_group_regular_expression", "regular_expression"),
    17: ("streams_group_metadata", None),
    18: ("streams_group_partition_metadata", None),  # early access releases only
    19: ("streams_group_member_metadata", "member_id"),
    20: ("streams_group_target_assignment_metadata", None),
    21: ("streams_group_target_assignment_member", "member_id"),
    22: ("streams_group_current_member_assignment", "member_id"),
    23: ("streams_group_topology", None),
    24: ("streams_group_target_assignment_resolved_topic_ids", None),  # newer than 4.3
}


class Key(NamedTuple):
    """A decoded record key.

    Attributes:
        record_type: the number at the start of the key (0 is the offset commit of brokers before 0.9).
        kind: a stable name of the record type; ``unknown_<record_type>`` if there is none. ``transaction_marker`` and
            ``transaction_state`` are not records of a group, see ``decode_key``.
        group_id: None for an unknown kind, and for one that is not about a group.
        topic, partition: offset commits only, else None.
        member_id: kinds about one member, else None.
        regular_expression: ``consumer_group_regular_expression`` only, else None.
    """

    record_type: int
    kind: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    member_id: str | None = None
    regular_expression: str | None = None


def kind_of(record_type: int) -> str:
    """Return the kind of a record type; ``unknown_<record_type>`` if there is none."""
    known = _KINDS.get(record_type)
    return f"unknown_{record_type}" if known is None else known[0]


def decode_key(key: bytes) -> Key:
    """Return the decoded ``key``. Fields after those of a known type are ignored, as in Kafka.

    A transaction marker has no group. Consumers never read one, but tools that dump log segments do. A record of
    ``__transaction_state`` in a capture has no group either. Both start like an old offset commit but end before its topic.

    Raises:
        WireError: the key ends early, or a length in it is impossible.
    """
    reader = Reader(key)
    record_type = reader.int16()
    known = _KINDS.get(record_type)
    if known is None:
        return Key(record_type, f"unknown_{record_type}")
    kind, second = known
    try:
        group_id = reader.string()
        if second is None:
            return Key(record_type, kind, group_id)
        if second == "topic":
            return Key(record_type, kind, group_id, reader.string(), reader.int32())
        if second == "member_id":
            return Key(record_type, kind, group_id, member_id=reader.string())
        return Key(record_type, kind, group_id, regular_expression=reader.string())
    except WireError:
        transaction_kind = _transaction_kind(key) if record_type == 0 else None
        if transaction_kind is None:
            raise
        return Key(record_type, transaction_kind)


def _transaction_kind(key: bytes) -> str | None:
    """Return the kind of a key of type 0 that is no offset commit: a control record's or a transactional id's."""
    if key in (b"\0\0\0\0", b"\0\0\0\1"):  # version 0, then abort or commit
        return "transaction_marker"
    if int.from_bytes(key[2:4], "big") == len(key) - 4:  # version 0, then one string
        return "transaction_state"
    return None


def topic_id_text(text: str) -> str | None:
    """Return a topic's id as Kafka and the records of consumer groups write it; None for that of brokers without ids.

    librdkafka uses the other Base64 alphabet.

    >>> topic_id_text("h4iV23IwTGSB+oQ1ykZb/w"), topic_id_text("AAAAAAAAAAAAAAAAAAAAAA")
    ('h4iV23IwTGSB-oQ1ykZb_w', None)
    """
    ours = text.replace("+", "-").replace("/", "_")
    return None if ours == NO_TOPIC_ID else ours
