"""Groups as ``jobs.reading`` returns them, made without a warehouse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from assignors.generation.generation import Generation
from assignors.model import GroupProblem, Member, Topic
from jobs.reading.stored import Client, GroupKey, StoredGeneration

Holdings = Mapping[str, Mapping[str, Iterable[int]]]
"""Member id -> topic -> its partitions. A member subscribes to the topics that are here."""


def stored_group(
    holdings: Holdings,
    counts: Mapping[str, int],
    *,
    group_id: str = "g",
    strategy: str = "range",
    leader_client: str | None = "java",
    members: Mapping[str, Mapping[str, Any]] | None = None,
    racks: Sequence[Sequence[str]] | None = None,
    subscription_versions: Sequence[int | None] = (),
    **other: Any,
) -> StoredGeneration:
    """Return a classic group.

    Args:
        counts: topic -> its partition count.
        members: member id -> fields of ``Member`` that it has besides.
        racks: of the replicas of each partition, the same for all topics.
        subscription_versions: of the members, in their order; 3 where none is given.
        other: fields of ``StoredGeneration`` that differ.
    """
    given = {name: tuple((topic, number) for topic, numbers in held.items() for number in numbers) for name, held in holdings.items()}
    known = tuple(replace(Member(name, tuple(held)), **(members or {}).get(name, {})) for name, held in holdings.items())
    partition_racks = None if racks is None else tuple(map(tuple, racks))
    topics = {topic: Topic(count, partition_racks) for topic, count in counts.items()}
    versions = subscription_versions or [3] * len(known)
    group = StoredGeneration(
        key=GroupKey("c", group_id),
        observed_at=datetime(2026, 11, 21, tzinfo=timezone.utc),
        until=None,
        empty_since=None,
        ended_at=None,
        is_consumer_protocol=False,
        generation=Generation(1, strategy, GroupProblem(topics, known), given),
        clients={name: Client(name, "/10.0.0.1", 45_000, version) for name, version in zip(holdings, versions, strict=True)},
        leader_client=leader_client,
        kafka_version="4.0.0",
        has_subscriptions=True,
    )
    return replace(group, **other)
