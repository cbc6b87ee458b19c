"""The progress of a collection: the files ``_positions.json`` and ``_polled.json.gz``. A folder has one of them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, NonNegativeInt

POSITIONS, POLLED = "_positions.json", "_polled.json.gz"
"""Names of the two files."""


class _Progress(BaseModel):
    """The cluster that a folder belongs to.

    Attributes:
        cluster_id: Kafka's own id of the cluster; None if the cluster has none.
        cluster_name: its name in the captures: ``--cluster-id``, else Kafka's own id.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    cluster_id: str | None
    cluster_name: str | None


class Positions(_Progress):
    """The progress of a folder with one topic of one cluster.

    Attributes:
        topic_id: Kafka's id of the topic. It changes when the topic is deleted and created again. None before Kafka 2.8.
        next_offsets: partition -> the first offset that is in no file yet.
    """

    topic: str
    topic_id: str | None
    next_offsets: dict[NonNegativeInt, NonNegativeInt]


class SeenGroup(BaseModel):
    """The state of one group after the files written so far.

    Attributes:
        fingerprint: of its members and their partitions; None until a file has them.
        offsets: topic -> partition -> the committed offset, its leader epoch and its metadata.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    fingerprint: str | None = None
    offsets: dict[str, dict[NonNegativeInt, tuple[NonNegativeInt, int | None, str | None]]] = {}


class PolledGroups(_Progress):
    """The state of all groups after the polls in a folder. The next poll writes only what changed.

    Attributes:
        observed_at_ms: time of the last poll in the folder.
        groups: group id -> its state.
    """

    observed_at_ms: int
    groups: dict[str, SeenGroup]
