"""Rows of decoders and of workers of land: dictionaries with columns of ``schemas.staging``. An absent key is a null.

Types only: nothing is checked or converted at run time. A time in a timestamp column is in microseconds since 1970, UTC. These types are
separate from the StructTypes because decoders do not import Spark; ``tests/contract/test_rows.py`` compares the two.
"""

from __future__ import annotations

from typing import TypedDict


class TopicPartitions(TypedDict):
    """Partitions of one topic, in list order."""

    topic: str
    partitions: list[int]


class MemberRow(TypedDict, total=False):
    """A member of a snapshot."""

    member_id: str
    group_instance_id: str | None
    client_id: str | None
    client_host: str | None
    rack: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    topics: list[str] | None
    topic_regex: str | None
    strategies: list[str] | None
    subscription_version: int | None
    owned: list[TopicPartitions] | None
    owned_generation: int | None
    user_data: bytes | None
    assigned: list[TopicPartitions]
    current: list[TopicPartitions] | None
    pending_revocation: list[TopicPartitions] | None


class RowKey(TypedDict, total=False):
    """The group, time and position of a row."""

    group_id: str | None
    observed_at: int | None
    position: int


class GroupRow(RowKey, total=False):
    """A group in one generation."""

    group_type: str | None
    protocol_type: str | None
    state: str | None
    strategy: str | None
    leader_member_id: str | None
    joined_at: int | None
    members: list[MemberRow]
    reconciled_at: int | None
    batched_epoch_count: int | None
    epoch_at: int | None
    is_superseded: bool | None
    offsets_partition: int | None
    leader_client: str | None
    fingerprint: str


class SnapshotRow(GroupRow, total=False):
    """The columns of ``subscription_snapshots`` that workers fill."""

    generation: int | None


class OffsetCommitRow(RowKey, total=False):
    """The columns of ``offset_snapshots`` that workers fill."""

    topic: str | None
    partition: int | None
    topic_id: str | None
    committed_offset: int | None
    leader_epoch: int | None
    end_offset: int | None
    metadata: str | None
    committed_at: int | None
    expires_at: int | None
    is_deleted: bool
    is_uncertain: bool | None
    offsets_partition: int | None
    fingerprint: str


class GroupRecordRow(TypedDict):
    """The columns of ``group_records`` that workers fill."""

    offsets_partition: int | None
    offset: int
    type: int
    group_id: str | None
    key: bytes
    value: bytes | None
    timestamp: int | None
    fingerprint: str


class PartitionRow(TypedDict):
    """A partition in a metadata snapshot."""

    partition: int
    leader: int | None
    leader_rack: str | None
    replica_racks: list[str | None]
    begin_offset: int | None
    end_offset: int | None


class TopicRow(TypedDict):
    """The columns of ``topic_snapshots`` that workers fill."""

    topic: str
    observed_at: int | None
    topic_id: str | None
    partition_count: int
    partitions: list[PartitionRow]
    fingerprint: str


class GroupEventRow(TypedDict, total=False):
    """The columns of ``group_events`` that workers fill."""

    broker: str
    logged_at: int | None
    line_hash: str
    group_id: str | None
    event: str
    protocol: str | None
    generation: int | None
    member_id: str | None
    previous_member_id: str | None
    group_instance_id: str | None
    member_ids: list[str] | None
    state: str | None
    reason: str | None
    reason_kind: str | None
    reason_member_id: str | None
    client_reason: str | None
    strategy: str | None
    member_count: int | None
    duration_ms: int | None
    offsets_partition: int | None
    is_time_ambiguous: bool


class RefusedLineRow(TypedDict, total=False):
    """The columns of ``quarantine`` for a line that cannot be used."""

    reason: str
    detail: str
    payload: bytes
    payload_hash: str


class LoggedRow(TypedDict, total=False):
    """A row of ``LOGGED_ROWS``."""

    part: str
    outcome: str | None
    kind: str | None
    line_count: int
    event: GroupEventRow
    refused: RefusedLineRow


class DecodedRow(TypedDict, total=False):
    """An input record: a row of ``DECODED_ROWS``, with the further columns of ``PART_ROWS`` and ``DUMPED_ROWS``."""

    cluster_id: str
    source: str
    source_position: str
    outcome: str
    kind: str
    reason: str
    detail: str
    payload: bytes
    payload_hash: str
    fingerprint: str
    group_record: GroupRecordRow
    snapshot: SnapshotRow
    offset_commit: OffsetCommitRow
    look: TopicRow
    part: str
    order_in_part: int
    producer_id: int
    transaction_end: str


class FoldedRow(GroupRow, total=False):
    """A row of ``FOLDED_ROWS``."""

    generation: int
    cluster_id: str
    source: str
    source_position: str


class AlignedRow(TypedDict, total=False):
    """A row of ``ALIGNED_ROWS``."""

    cluster_id: str
    group_id: str
    sequence: str
    part: str
    order_in_part: int
    position: int
    time_ms: int | None
    placed_by: str | None
    is_moved: bool
    problem: str
