"""Rows that workers of assign, audit and what-if read and write: dictionaries with columns of ``schemas.staging``.

Types only, as in ``schemas.row_types``, which has the rows of landing.
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum
from typing import Any, TypedDict

# -- assigning


class RowKind(IntEnum):
    """The kind of a row of ``SOLVED_ROWS``."""

    SOLUTION = 1
    TOPICS = 2
    STATE = 3


class SolvedRow(TypedDict, total=False):
    """A row of ``SOLVED_ROWS``."""

    row_kind: RowKind
    cluster_id: str
    group_id: str
    generation: int
    observed_at_ms: int
    position: int
    basis: str
    strategy: str
    incarnation: int
    status: str
    detail: str | None
    kafka_version: str | None
    topics_hash: str
    has_predecessor: bool
    is_rewrite: bool
    is_follow_up: bool
    rebalance_count: int
    cooperative_revocation_count: int | None
    conformance: str | None
    recurrences: str | None
    holdings: bytes
    member_ids: list[str]
    group_instance_ids: list[str | None]
    held_topics: list[list[str]]
    held_partitions: list[list[list[int]]]
    topic_names: list[str]
    topic_ids: list[str | None]
    partition_counts: list[int]
    racks: list[str | None]
    bases: list[str]
    are_uncertain: list[bool]
    snapshot_count: int
    is_checkpoint: bool
    state: bytes


# -- auditing


class GenerationRow(TypedDict):
    """The generation that a row of an audit is about."""

    cluster_id: str
    group_id: str
    generation: int
    position: int
    observed_at_ms: int


class StoredSnapshot(GenerationRow):
    """A row of ``jobs.audit.run.history_rows`` that is a snapshot. ``jobs.workers.packing`` reads its other columns by lists of names."""

    row_order: int
    first_position: int
    group_type: str
    offsets_partition: int | None
    has_conflict: bool | None
    reconciled_at: datetime | None
    epoch_at: datetime | None
    is_superseded: bool | None
    leader_client: str | None
    offered: list[list[str] | None]
    rebalance_timeouts_ms: list[int | None]
    session_timeouts_ms: list[int | None]
    known_batched_epoch_count: int | None
    observed_us: int
    is_complete: bool


class StoredTopics(TypedDict):
    """The topics of a generation, in the columns of ``jobs.workers.packing.topic_columns``."""

    topic_topic: list[str]
    topic_topic_id: list[str | None]
    topic_partition_count: list[int]
    topic_racks: str | None


class StoredSolution(StoredTopics):
    """A row of ``jobs.audit.run.history_rows`` that is a solution. Only the observed one has topics, in the columns after ``holdings``."""

    row_order: int
    basis: str
    strategy: str
    topics_hash: str
    status: str
    detail: str | None
    kafka_version: str | None
    conformance: str | None
    has_predecessor: bool
    is_rewrite: bool
    is_follow_up: bool
    rebalance_count: int
    cooperative_revocation_count: int | None
    recurrences: str | None
    holdings: bytes | None
    uncertain_topics: list[str]


class FoundRow(GenerationRow):
    """A row of ``FOUND_ROWS``."""

    rule_id: str
    severity: str
    message: str
    evidence: list[tuple[str, str]]
    advice: str


class AuditedRow(TypedDict, total=False):
    """A row of ``AUDITED_ROWS``; exactly one key is set."""

    audit: dict[str, Any]
    movement: dict[str, Any]
    finding: FoundRow


class ResumedRow(TypedDict, total=False):
    """A row of ``RESUMED_ROWS``; one of the first three keys is set."""

    audit: dict[str, Any]
    movement: dict[str, Any]
    finding: FoundRow
    is_changed: bool


class ExplainedRow(TypedDict):
    """A row of ``EXPLAINED_ROWS``."""

    cluster_id: str
    group_id: str
    position: int
    causes: list[dict[str, Any]] | None
    rebalance_ms: int | None
    assignment_ms: int | None


class ExpiredSession(TypedDict):
    """A row of ``EXPIRED_SESSIONS``."""

    cluster_id: str
    group_id: str
    position: int
    member_id: str
    silence_ms: int
    session_timeout_ms: int


class SubjectRow(GenerationRow, StoredTopics):
    """A row of ``jobs.what_if.save.subjects``. ``jobs.workers.packing`` reads its other columns, by lists of names."""

    group_type: str
    leader_client: str | None
    kafka_version: str | None


class PlayedRow(TypedDict, total=False):
    """A row of ``PLAYED_ROWS``, of which one key is set."""

    scenario: dict[str, Any]
    outcome: dict[str, Any]


class PlacedGroup(TypedDict):
    """A row of ``PLACED_GROUPS``."""

    cluster_id: str
    group_id: str
    offsets_partition: int


class CommitSignsRow(GenerationRow):
    """A row of ``COMMIT_SIGNS``."""

    member_count: int
    rebalance_timeout_ms: int
    clients: list[dict[str, Any]] | None
    unsubscribed: list[dict[str, Any]] | None
    waiting: list[dict[str, Any]] | None
    waiting_topics: list[dict[str, Any]] | None
    waited_ms: int | None
    expiring: list[dict[str, Any]] | None
    expiring_if_deleted: list[dict[str, Any]] | None
    asks_for_deletion: bool


class StuckFactsRow(GenerationRow):
    """A row of ``STUCK_FACTS``; see ``jobs.findings.stuck``."""

    waited_ms: int
    rebalance_timeout_ms: int | None
    poll_count: int
    state: str | None
    member_ids: list[str]
    is_logged: bool
    reason: str | None
    has_other_members: bool


class GrowthFactsRow(GenerationRow):
    """A row of ``GROWTH_FACTS``; its structs have the fields of a class of ``jobs.findings.looks``."""

    is_consumer_protocol: bool
    grown: list[dict[str, Any]]
    looked_until_ms: int
    known_until_ms: int | None
    rebalance_timeout_ms: int
