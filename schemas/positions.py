"""How far a collection has come: the file ``_positions.json`` in its folder."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, NonNegativeInt


class Positions(BaseModel):
    """How far a folder has come with one topic of one cluster.

    Attributes:
        cluster_id: Kafka's own id of the cluster; None of a cluster that has none.
        cluster_name: what the looks beside the records call it: ``--cluster-id``, else Kafka's own id.
        topic_id: Kafka's id of the topic, another one as soon as the topic is deleted and made again; None before Kafka 2.8.
        next_offsets: by partition the first offset that is in no file yet.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    cluster_id: str | None
    cluster_name: str | None
    topic: str
    topic_id: str | None
    next_offsets: dict[NonNegativeInt, NonNegativeInt]
