"""How far a collection has come: the files ``_positions.json`` and ``_polled.json.gz``, of which a folder has one."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, NonNegativeInt

POSITIONS, POLLED = "_positions.json", "_polled.json.gz"
"""Names of the two files."""


class _Progress(BaseModel):
    """What a folder goes with.

    Attributes:
        cluster_id: Kafka's own id of the cluster; None of a cluster that has none.
        cluster_name: what the captures call it: ``--cluster-id``, else Kafka's own id.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    cluster_id: str | None
    cluster_name: str | None


class Positions(_Progress):
    """How far a folder has come with one topic of one cluster.

    Attributes:
        topic_id: Kafka's id of the topic, another one as soon as the topic is deleted and made again; None before Kafka 2.8.
        next_offsets: by partition the first offset that is in no file yet.
    """

    topic: str
    topic_id: str | None
    next_offsets: dict[NonNegativeInt, NonNegativeInt]


class SeenGroup(BaseModel):
    """What the files say of one group by now.

    Attributes:
        fingerprint: of its members and what they hold; None while they were not told.
        offsets: by topic and partition the committed offset, its leader epoch and its metadata.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    fingerprint: str | None = None
    offsets: dict[str, dict[NonNegativeInt, tuple[NonNegativeInt, int | None, str | None]]] = {}


class PolledGroups(_Progress):
    """What a folder of polls says of all groups by now, so that the next poll writes what changed.

    Attributes:
        observed_at_ms: time of the last poll in it.
        groups: by name.
    """

    observed_at_ms: int
    groups: dict[str, SeenGroup]
