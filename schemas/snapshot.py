"""The landing envelope: what one line of each NDJSON capture has to look like, checked on the driver before Spark reads it."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.vocabulary import Source


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
    """One partition in a look; broker ids, -1 for a partition without leader."""

    partition: int = Field(ge=0)
    leader: int | None = None
    replicas: list[int] = []
    begin_offset: int | None = None
    end_offset: int | None = None


class TopicLook(_Envelope):
    """One topic in a look."""

    topic: str
    topic_id: str | None = None
    partitions: list[PartitionLook]


class BrokerLook(_Envelope):
    """One live broker in a look."""

    id: int
    rack: str | None = None


class ClusterLook(_Envelope):
    """One look at the cluster: its brokers and all topics it had."""

    observed_at_ms: int
    cluster_id: str | None = None
    brokers: list[BrokerLook]
    topics: list[TopicLook]


_ENVELOPES: dict[Source, type[BaseModel]] = {Source.CONSUMER_OFFSETS: RawRecord, Source.CLUSTER_METADATA: ClusterLook}
_MARKS = {Source.CONSUMER_OFFSETS: {"key_b64", "value_b64"}, Source.CLUSTER_METADATA: {"brokers", "topics"}}


def recognise_line(line: str) -> tuple[Source | None, str]:
    """Return the kind of capture that a first line belongs to, and what is wrong with the line ('' when nothing is).

    The kind is None when the line is not JSON, or JSON of no kind that is known.
    """
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None, "the first line is not JSON"
    if not isinstance(content, dict):
        return None, "the first line is not a JSON object"
    for source, marks in _MARKS.items():
        if marks & content.keys():
            return source, _mistakes(_ENVELOPES[source], content)
    return None, f"no known kind of capture has the keys {', '.join(sorted(map(str, content))[:6])}"


def line_cluster_id(line: str) -> str | None:
    """Return the cluster id in a line that ``recognise_line`` accepted; None when it has none."""
    return json.loads(line).get("cluster_id")


def _mistakes(envelope: type[BaseModel], content: dict) -> str:
    try:
        envelope.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"line 1, {place}: {first['msg']}"
    return ""
