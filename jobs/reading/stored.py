"""A stored group as scenarios begin with it. Spark's workers import this, so it reads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from assignors.generation.generation import Generation
from assignors.model import TopicPartition


class GroupKey(NamedTuple):
    """A group of a cluster."""

    cluster_id: str
    group_id: str


@dataclass(frozen=True)
class Client:
    """What a person knows a member by; None where the source has none.

    Attributes:
        session_timeout_ms: how long the coordinator waits for a heartbeat of the member.
        subscription_version: in which the member writes its subscription: 3 from Java 3.5 on.
    """

    client_id: str | None
    client_host: str | None
    session_timeout_ms: int | None
    subscription_version: int | None = None


@dataclass(frozen=True)
class StoredGeneration:
    """The newest settled generation of a group that has members.

    Attributes:
        observed_at: time of its record.
        until: time of the group's next snapshot, when this generation was over; None for a generation that is the newest one.
        empty_since: time from which on the group has no members; None for one that has some.
        ended_at: when the group was deleted; None for one that was not.
        is_consumer_protocol: whether it is known to be a group of KIP-848.
        generation: what its members subscribe to, claim and were given; for KIP-848 the target.
        clients: member id -> who it is.
        leader_client: client library of the leader; None where it is not known.
        kafka_version: release whose behaviour the audit recomputed the generation with; None without a recomputed assignment.
        has_subscriptions: False where the source has none: each member then subscribes to all topics that the group has.
        is_protocol_known: False where the source does not show the protocol: the group then counts as classic.
    """

    key: GroupKey
    observed_at: datetime
    until: datetime | None
    empty_since: datetime | None
    ended_at: datetime | None
    is_consumer_protocol: bool
    generation: Generation
    clients: Mapping[str, Client]
    leader_client: str | None
    kafka_version: str | None
    has_subscriptions: bool
    is_protocol_known: bool = True


@dataclass(frozen=True)
class PartitionWeights:
    """Figures of the partitions that members of one group were given.

    Attributes:
        lag: partition -> records between the last commit and the end of its log. A partition without both is not here.
        throughput: partition -> records a second between two metadata snapshots. A partition without both is not here.
        seen_at: time of the newest metadata snapshot that was used; None where there was none.
        partition_counts: topic -> its partitions in the newest metadata snapshot that was used. A topic without one is not here.
    """

    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    throughput: Mapping[TopicPartition, float] = field(default_factory=dict)
    seen_at: datetime | None = None
    partition_counts: Mapping[str, int] = field(default_factory=dict)


def empty_since(audits: Sequence[Mapping[str, Any]]) -> datetime | None:
    """Return the time of the first of the empty generations at the end; None where the last one has members.

    Args:
        audits: rows of one group in order, with ``member_count`` and ``observed_at``.
    """
    since: datetime | None = None
    for row in reversed(audits):
        if row["member_count"]:
            break
        since = row["observed_at"]
    return since
