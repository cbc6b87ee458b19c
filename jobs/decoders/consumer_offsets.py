"""Raw records of ``__consumer_offsets``, as Parquet with the columns of Spark's Kafka source or as NDJSON."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from jobs.decoders.decoded import LAST_MS, integer, landed, micros, quarantined, skipped
from jobs.decoders.leader_client import Form, UserData, leader_flavour
from schemas import wire
from schemas.row_types import DecodedRow, GroupRecordRow, MemberRow, OffsetCommitRow, TopicPartitions
from schemas.vocabulary import GroupState, GroupType
from schemas.wire import (
    GroupMember,
    GroupMetadata,
    Key,
    WireError,
    decode_assignment,
    decode_key,
    decode_offset_commit,
    decode_written_subscription,
)
from schemas.wire.classic_group import decode_legacy_offset_commit
from schemas.wire.keys import CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA, RECORD_TYPES, TARGET_EPOCH

PARQUET_COLUMNS = {"key": "binary", "value": "binary", "partition": "int", "offset": "bigint", "timestamp": "timestamp"}
LAST_OFFSET = (1 << 63) - 2
"""A log ends one after its last record, so that no record is at the last number of 64 bits."""
GENERATION_FIELDS = {CLASSIC_GROUP_METADATA: "generation", CONSUMER_GROUP_METADATA: "epoch", TARGET_EPOCH: "assignment_epoch"}
"""Type of a record -> the field with its generation: coordinators count from 0, so the difference of two generations fits int32."""

CONSUMER_PROTOCOL_TYPES = ("consumer", "")
REMEMBERED_VALUES, REMEMBERED_BYTES = 4096, 1024
"""Number and size of the subscriptions, and of the assignments, in a worker's cache: at most about 40 MiB of each."""

Decoded = TypeVar("Decoded")


def decode_line(line: bytes) -> DecodedRow:
    """Return the decoded row of one NDJSON line; never raises, whatever the line is."""
    try:
        record = json.loads(line.decode())
        key, value = (None if record[name] is None else base64.b64decode(record[name], validate=True) for name in ("key_b64", "value_b64"))
        numbers = integer(record["partition"], 32), integer(record["offset"], 64), integer(record["timestamp_ms"], 64)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return quarantined("unreadable_line", "malformed_line", f"expected a JSON record, found {type(error).__name__}: {error}", line)
    return decode_record(key, value, *numbers)


def decode_record(
    key: bytes | None,
    value: bytes | None,
    partition: int | None,
    offset: int | None,
    timestamp_ms: int | None,
    is_committed: bool | None = None,
) -> DecodedRow:
    """Return the decoded row of one record; never raises, whatever the bytes are."""
    row: DecodedRow = {**_decode(key, value, partition, offset, timestamp_ms), "source_position": f"{partition}@{offset}"}
    if is_committed and "offset_commit" in row:
        row["offset_commit"]["is_uncertain"] = False
    return row


def _decode(key: bytes | None, value: bytes | None, partition: int | None, offset: int | None, timestamp_ms: int | None) -> DecodedRow:
    payload = (key or b"") + (value or b"")
    if key is None:
        return quarantined("no_key", "missing_key", "found a record without a key", payload)
    if partition is None or offset is None or partition < 0 or offset < 0:
        return quarantined("no_position", "missing_position", f"found partition {partition}, offset {offset}, expected both", payload)
    if offset > LAST_OFFSET:
        expected = f"found offset {offset}, expected at most {LAST_OFFSET}: a log ends one after its last record"
        return quarantined("no_position", "offset_out_of_range", expected, payload)
    try:
        parsed = decode_key(key)
    except WireError as error:
        return quarantined("unreadable_key", error.reason, f"key: {error.detail}", payload)
    if timestamp_ms is None or not 0 <= timestamp_ms < LAST_MS:
        return quarantined(parsed.kind, "timestamp_out_of_range", f"found {timestamp_ms} ms, expected a time from 1970 to 2200", payload)
    return decode_value(parsed, key, value, partition, offset, timestamp_ms)


def decode_value(parsed: Key, key: bytes, value: bytes | None, partition: int | None, offset: int, timestamp_ms: int | None) -> DecodedRow:
    """Return the decoded row of a record whose key is read; never raises, whatever the value is.

    Args:
        partition, timestamp_ms: None if the source does not have them.
    """
    try:
        return _decode_value(parsed, key, value, partition, offset, timestamp_ms)
    except WireError as error:
        where = f"group '{parsed.group_id}', " if parsed.group_id is not None else ""
        return quarantined(parsed.kind, error.reason, f"{where}{error.detail}", key + (value or b""))


def _decode_value(parsed: Key, key: bytes, value: bytes | None, partition: int | None, offset: int, timestamp_ms: int | None) -> DecodedRow:
    kind = parsed.kind if value is not None else f"{parsed.kind}_tombstone"
    if parsed.partition is not None:  # an offset commit: no other record has a partition
        if parsed.partition < 0:  # brokers refuse a commit for a partition that their metadata do not have
            detail = f"group '{parsed.group_id}', topic '{parsed.topic}': found partition {parsed.partition}, expected 0 or more"
            return quarantined(parsed.kind, "negative_partition", detail, key + (value or b""))
        return {**landed(kind), "offset_commit": _offset_commit(parsed, value, partition, offset, timestamp_ms)}
    if parsed.record_type != CLASSIC_GROUP_METADATA and parsed.record_type not in RECORD_TYPES:
        return skipped(kind)
    if value is not None:
        content = wire.decode_value(parsed.record_type, value)  # what cannot be read now could not be folded later
        generation = getattr(content, GENERATION_FIELDS[parsed.record_type]) if parsed.record_type in GENERATION_FIELDS else 0
        if generation < 0:
            detail = f"group '{parsed.group_id}': found generation {generation}, expected 0 or more"
            return quarantined(parsed.kind, "negative_generation", detail, key + value)
        if parsed.record_type == CLASSIC_GROUP_METADATA:
            return _group_metadata(parsed, content, key, value, partition, offset, timestamp_ms)
    return {**landed(kind), "group_record": _group_record(parsed, key, value, partition, offset, timestamp_ms)}


def _group_record(
    parsed: Key, key: bytes, value: bytes | None, partition: int | None, offset: int, timestamp_ms: int | None
) -> GroupRecordRow:
    return {
        "offsets_partition": partition,
        "offset": offset,
        "type": parsed.record_type,
        "group_id": parsed.group_id,
        "key": key,
        "value": value,
        "timestamp": micros(timestamp_ms),
        "fingerprint": hashlib.sha256(key + (value or b"")).hexdigest(),
    }


def _group_metadata(
    parsed: Key, group: GroupMetadata, key: bytes, value: bytes, partition: int | None, offset: int, timestamp_ms: int | None
) -> DecodedRow:
    if group.protocol_type not in CONSUMER_PROTOCOL_TYPES:
        # Stored anyway: it shows that the group's empty snapshots are not of consumers either.
        known = _group_record(parsed, key, value, partition, offset, timestamp_ms)
        return {**skipped(f"classic_group_metadata:{group.protocol_type}"), "group_record": known}
    repeated = [member_id for member_id, count in Counter(member.member_id for member in group.members).items() if count > 1]
    if repeated:
        detail = (
            f"group '{parsed.group_id}', generation {group.generation}: found member '{repeated[0]}' more than once, expected each once"
        )
        return quarantined(parsed.kind, "duplicate_member", detail, value)
    forms: set[Form] = set()
    members: list[MemberRow] = []
    subscription_version: int | None = None
    for member in group.members:
        row, has_all_fields = _decode_member(member, forms)
        members.append(row)
        if member.member_id == group.leader and has_all_fields:  # of the known libraries none leaves fields out
            subscription_version = row["subscription_version"]
    leader_client = leader_flavour(group.protocol, subscription_version, forms)
    return {
        **landed(parsed.kind),
        "snapshot": {
            "group_id": parsed.group_id,
            "generation": group.generation,
            "observed_at": micros(timestamp_ms),
            "position": offset,
            "group_type": GroupType.CLASSIC.value,
            "protocol_type": group.protocol_type,
            "state": (GroupState.STABLE if group.members else GroupState.EMPTY).value,
            "strategy": group.protocol,
            "leader_member_id": group.leader,
            "joined_at": micros(group.current_state_timestamp_ms),
            "members": members,
            "leader_client": None if leader_client is None else leader_client.value,
            "offsets_partition": partition,
            "fingerprint": hashlib.sha256(value).hexdigest(),
        },
    }


def _decode_member(member: GroupMember, forms: set[Form]) -> tuple[MemberRow, bool]:
    """Return a member, and whether its subscription has all fields of its version; add the form of its assignment to ``forms``."""
    assigned: list[TopicPartitions] = []
    try:
        subscription, has_all_fields = _subscription(member.subscription)
        if member.assignment:
            assigned, form = _assigned(member.assignment)
            forms.add(form)
    except WireError as error:
        raise WireError(error.reason, f"member '{member.member_id}': {error.detail}") from None
    row: MemberRow = {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        **subscription,
        "assigned": assigned,
    }
    return row, has_all_fields


def _remembering(decode: Callable[[bytes], Decoded]) -> Callable[[bytes], Decoded]:
    """Return ``decode`` with a cache of the results for short values, which callers share and must not change.

    Members send the same bytes in each generation, and the members of a group often send equal bytes.
    """
    remembered = lru_cache(maxsize=REMEMBERED_VALUES)(decode)
    return lambda data: remembered(data) if len(data) <= REMEMBERED_BYTES else decode(data)


@_remembering
def _subscription(data: bytes) -> tuple[MemberRow, bool]:
    """Return the columns of a member that come from its subscription, and whether it has all fields of its version."""
    subscription, has_all_fields = decode_written_subscription(data)
    columns: MemberRow = {
        "rack": subscription.rack,
        "topics": list(subscription.topics),
        "subscription_version": subscription.version,
        "owned": _entries(subscription.owned),
        "owned_generation": subscription.owned_generation,
        "user_data": subscription.user_data,
    }
    return columns, has_all_fields


@_remembering
def _assigned(data: bytes) -> tuple[list[TopicPartitions], Form]:
    assignment = decode_assignment(data)
    return _entries(assignment.partitions), (assignment.version, UserData.of(assignment.user_data))


def _entries(grouped: tuple[tuple[str, tuple[int, ...]], ...]) -> list[TopicPartitions]:
    return [{"topic": topic, "partitions": list(partitions)} for topic, partitions in grouped]


def _offset_commit(parsed: Key, value: bytes | None, partition: int | None, offset: int, timestamp_ms: int | None) -> OffsetCommitRow:
    columns: OffsetCommitRow = {
        "group_id": parsed.group_id,
        "topic": parsed.topic,
        "partition": parsed.partition,
        "position": offset,
        "observed_at": micros(timestamp_ms),
        "offsets_partition": partition,
        "fingerprint": hashlib.sha256(value or b"").hexdigest(),
    }
    if value is None:
        return {**columns, "is_deleted": True}
    commit = decode_legacy_offset_commit(value) if parsed.record_type == 0 else decode_offset_commit(value)
    return {
        **columns,
        "topic_id": commit.topic_id,
        "committed_offset": commit.committed_offset,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "committed_at": micros(commit.committed_at_ms),
        "expires_at": micros(commit.expires_at_ms),
        "is_deleted": False,
    }
