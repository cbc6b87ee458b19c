"""The formats of NDJSON captures: the fields of one line. The driver checks them before Spark reads the file."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.vocabulary import Source

Int = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
Long = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
TimeMs = Annotated[int, Field(ge=0, lt=7_258_118_400_000)]
"""Milliseconds since 1970, before 2200."""
Base64 = Annotated[str, Field(pattern=r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|[A-Za-z0-9+/][AQgw]==)?$")]


class _Envelope(BaseModel):
    model_config = ConfigDict(strict=True)


class RawRecord(_Envelope):
    """One record of ``__consumer_offsets``; keys and values are base64, a null value is a tombstone."""

    partition: int = Field(ge=0)
    offset: int = Field(ge=0)
    timestamp_ms: int
    key_b64: str | None
    value_b64: str | None


class PartitionLook(_Envelope):
    """One partition in a metadata snapshot. Leader and replicas are broker ids; the leader is -1 if there is none."""

    partition: int = Field(ge=0)
    leader: int | None = None
    replicas: list[int] = []
    begin_offset: int | None = None
    end_offset: int | None = None


class TopicLook(_Envelope):
    """One topic in a metadata snapshot."""

    topic: str
    topic_id: str | None = None
    partitions: list[PartitionLook]


class BrokerLook(_Envelope):
    """One live broker in a metadata snapshot."""

    id: int
    rack: str | None = None


class ClusterLook(_Envelope):
    """One metadata snapshot: the brokers and all topics of a cluster."""

    observed_at_ms: int
    cluster_id: str | None = None
    brokers: list[BrokerLook]
    topics: list[TopicLook]


class TopicPartitions(_Envelope):
    """Partitions of one topic. A topic may be listed more than once, a partition only once."""

    topic: str
    partitions: list[Int]


class MemberSnapshot(_Envelope):
    """One member of the group."""

    member_id: str = Field(description="unique within the snapshot")
    group_instance_id: str | None = Field(None, description="group.instance.id of a static member; null or empty for others")
    client_id: str | None = Field(None, description="client.id of the consumer")
    client_host: str | None = Field(None, description="address it is connected from, as the broker writes it: /10.0.0.1")
    rack: str | None = Field(None, description="client.rack of the consumer; null or empty if it has none")
    session_timeout_ms: Int | None = Field(None, description="session.timeout.ms of a classic member")
    rebalance_timeout_ms: Int | None = Field(None, description="max.poll.interval.ms of the consumer")
    topics: list[str] | None = Field(
        None, description="topics it subscribed to, with those that its expression matches; null if the source does not have them"
    )
    topic_regex: str | None = Field(None, description="the expression that a consumer-protocol member subscribed to")
    strategies: list[str] | None = Field(None, description="assignors it supports, or the server-side one that it asks for")
    subscription_version: Int | None = Field(None, description="version of the subscription that a classic member sent")
    owned: list[TopicPartitions] | None = Field(None, description="partitions it claimed when it joined; null if not known")
    owned_generation: Int | None = Field(None, description="generation, or member epoch, of these claims; null if there is none")
    user_data_b64: Base64 | None = Field(None, description="user data of its subscription, base64")
    assigned: list[TopicPartitions] = Field(
        description="partitions it has in this generation, in the assignor's order if known; in the consumer protocol its target"
    )
    current: list[TopicPartitions] | None = Field(None, description="consumer protocol: partitions it has before it reaches its target")
    pending_revocation: list[TopicPartitions] | None = Field(None, description="consumer protocol: partitions that it has to give up")


class CommittedOffset(_Envelope):
    """An offset commit of the group for one partition."""

    topic: str
    partition: Int = Field(description="partition number; each partition of a topic once")
    committed_offset: Long | None = Field(None, description="next offset to read; null if the group has none for this partition")
    leader_epoch: Int | None = Field(None, description="null if the client sent none")
    metadata: str | None = Field(None, description="the client's own text")
    committed_at_ms: TimeMs | None = Field(None, description="commit time in ms since 1970; null if the source does not have it")
    topic_id: str | None = Field(None, description="id of the topic, in Kafka's form of 22 characters")


class GroupSnapshot(_Envelope):
    """One consumer group at one moment: a line of NDJSON, or a row of Parquet with columns of the same names.

    An absent field is the same as null. Other fields are ignored. Numbers are whole and not negative.
    """

    cluster_id: str | None = Field(None, description="the Kafka cluster; null: the one that the run or the captures beside this one name")
    group_id: str = Field(description="group.id of the consumers")
    observed_at_ms: TimeMs = Field(description="when the group was observed, in ms since 1970")
    position: Long | None = Field(None, description="orders the snapshots of a group; each position has one snapshot; null: observed_at_ms")
    generation: Int | None = Field(
        None,
        description="generation of a classic group, group epoch of another; null: counts the snapshots that differ from the one before",
    )
    group_type: Literal["classic", "consumer"] = Field(description="the rebalance protocol: classic, or consumer (KIP-848)")
    protocol_type: str | None = Field(
        None, description="protocol type of a classic group; null: consumer. Groups of other types, such as connect, are skipped"
    )
    state: str = Field(
        description="as Kafka names it, in any spelling: Stable, Empty, Assigning, Reconciling. Snapshots in PreparingRebalance and "
        "CompletingRebalance are skipped, because the partitions of members are not known then. Those in Dead and Unknown are "
        "skipped too"
    )
    strategy: str | None = Field(None, description="name of the group's assignor, as in Kafka: range, uniform, ...; null if not known")
    leader_member_id: str | None = Field(None, description="the member that ran the assignor of a classic group")
    joined_at_ms: TimeMs | None = Field(None, description="when the generation began, in ms since 1970")
    reconciled_at_ms: TimeMs | None = Field(
        None, description="consumer protocol: when the last member reached its target, in ms since 1970"
    )
    members: list[MemberSnapshot] | None = Field(
        None, description="in the order of the coordinator; [] for an empty group, null if the snapshot has only offsets"
    )
    offsets: list[CommittedOffset] | None = Field(None, description="committed offsets at this moment; others are not known")


SNAPSHOT_MARKS = frozenset({"group_id", "group_type"})
"""Fields that distinguish a snapshot from other kinds of captures."""

_ENVELOPES: dict[Source, type[BaseModel]] = {
    Source.CONSUMER_OFFSETS: RawRecord,
    Source.SNAPSHOT: GroupSnapshot,
    Source.CLUSTER_METADATA: ClusterLook,
}
_MARKS: dict[Source, tuple[dict[str, type], ...]] = {
    Source.CONSUMER_OFFSETS: ({"key_b64": object}, {"value_b64": object}),
    Source.SNAPSHOT: (dict.fromkeys(SNAPSHOT_MARKS, object),),
    Source.CLUSTER_METADATA: (
        {"brokers": list, "topics": list},
        {"observed_at_ms": object, "topics": list},
        {"observed_at_ms": object, "brokers": list},
    ),
}
"""Kind -> sets of fields with their types. A line that has all fields of one set is meant to be of that kind."""


def recognise_line(line: str) -> tuple[Source | None, str]:
    """Return the kind of capture that a first line belongs to, and what is wrong with the line ('' if nothing).

    The kind is None if the line is not JSON, or JSON of an unknown kind.
    """
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None, "the first line is not JSON"
    if not isinstance(content, dict):
        return None, "the first line is not a JSON object"
    for source, marks in _MARKS.items():
        if any(all(name in content and isinstance(content[name], kind) for name, kind in fields.items()) for fields in marks):
            return source, _mistakes(_ENVELOPES[source], content)
    return None, f"no known kind of capture has the keys {', '.join(sorted(map(str, content))[:6])}"


def line_cluster_id(line: str) -> str | None:
    """Return the cluster id in a line that ``recognise_line`` accepted; None if it has none."""
    cluster_id: str | None = json.loads(line).get("cluster_id")
    return cluster_id


def _mistakes(envelope: type[BaseModel], content: dict[str, object]) -> str:
    try:
        envelope.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        return f"line 1, {path}: {first['msg']}"
    return ""
