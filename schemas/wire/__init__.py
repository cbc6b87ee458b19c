"""Kafka's binary layouts, decoded: keys and values of ``__consumer_offsets``, subscriptions, assignments.

Standard library only, because it runs in Spark's Python workers. For any bytes a decoder returns what Kafka's own reader
returns, or raises ``WireError`` if that reader fails. It raises no other error. ``decode_written_subscription`` alone reads
more. Strings can always be stored as UTF-8.

The assignors read the user data inside subscriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from schemas.wire import consumer_group, early_access
from schemas.wire.classic_group import (
    GroupMember,
    GroupMetadata,
    OffsetCommit,
    decode_group_metadata,
    decode_legacy_offset_commit,
    decode_offset_commit,
)
from schemas.wire.consumer_protocol import (
    MemberAssignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    decode_written_subscription,
)
from schemas.wire.keys import Key, decode_key
from schemas.wire.reader import Reason, WireError

VALUE_DECODERS: Mapping[int, Callable[[bytes], Any]] = MappingProxyType(
    {
        0: decode_legacy_offset_commit,
        1: decode_offset_commit,
        2: decode_group_metadata,
        3: consumer_group.decode_consumer_group_metadata,
        4: consumer_group.decode_consumer_group_partition_metadata,
        5: consumer_group.decode_consumer_group_member_metadata,
        6: consumer_group.decode_consumer_group_target_assignment_metadata,
        7: consumer_group.decode_consumer_group_target_assignment_member,
        8: consumer_group.decode_consumer_group_current_member_assignment,
        16: consumer_group.decode_consumer_group_regular_expression,
    }
)
"""Record type -> decoder of its values. Other types are recognised by their key only."""
_EARLY_DECODERS: Mapping[int, Callable[[bytes], Any]] = MappingProxyType(
    {
        4: early_access.decode_early_partition_metadata,
        5: early_access.decode_early_member_metadata,
        8: early_access.decode_early_current_member_assignment,
    }
)


def decode_value(record_type: int, value: bytes) -> Any:
    """Return the decoded value of a record, also of a KIP-848 group of Kafka 3.7, whose bytes no later reader takes.

    Args:
        record_type: a key of ``VALUE_DECODERS``.

    Raises:
        WireError: Kafka's reader fails on these bytes, and that of 3.7 too.
    """
    try:
        return VALUE_DECODERS[record_type](value)
    except WireError:
        if record_type in _EARLY_DECODERS:
            with suppress(WireError):
                return _EARLY_DECODERS[record_type](value)
        raise


__all__ = [
    "VALUE_DECODERS",
    "GroupMember",
    "GroupMetadata",
    "Key",
    "MemberAssignment",
    "OffsetCommit",
    "Reason",
    "Subscription",
    "TopicPartitions",
    "WireError",
    "decode_assignment",
    "decode_group_metadata",
    "decode_key",
    "decode_legacy_offset_commit",
    "decode_offset_commit",
    "decode_subscription",
    "decode_value",
    "decode_written_subscription",
]
