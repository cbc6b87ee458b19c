"""Metadata snapshots of a cluster: its brokers, racks, topics and partitions at one moment, each on one NDJSON line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from jobs.decoders.decoded import LAST_MS, integer, landed, micros, quarantined, skipped, text
from schemas.row_types import DecodedRow, PartitionRow, TopicRow
from schemas.wire.keys import topic_id_text

KIND, KIND_WITHOUT_TOPICS = "topic_look", "look_without_topics"


def decode_line(line: bytes) -> Iterator[DecodedRow]:
    """Yield one decoded row for each topic of a metadata snapshot; one quarantined row for any other line.

    A snapshot without topics is skipped: it does not show that topics were absent, since its reader may not have been allowed to see any.
    Raises nothing, whatever the line is.
    """
    try:
        look = json.loads(line.decode())
        observed_at_ms = integer(look["observed_at_ms"], 64)
        if not 0 <= observed_at_ms < LAST_MS:
            raise ValueError(f"observed_at_ms is {observed_at_ms}, expected a time from 1970 to 2200")
        racks = {integer(broker["id"], 32): _optional(text, broker.get("rack")) for broker in _list(look["brokers"])}
        cluster_id = _optional(text, look.get("cluster_id"))
        rows = [_topic_row(topic, racks, observed_at_ms, cluster_id) for topic in _list(look["topics"])]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        detail = f"expected a metadata snapshot, found {type(error).__name__}: {error}"
        yield quarantined("unreadable_line", "malformed_line", detail, line)
        return
    if not rows:
        yield {**skipped(KIND_WITHOUT_TOPICS), **_cluster(cluster_id), "source_position": str(observed_at_ms)}
    yield from rows


def _cluster(cluster_id: str | None) -> DecodedRow:
    return {} if cluster_id is None else {"cluster_id": cluster_id}


def _topic_row(topic: dict[str, Any], racks: dict[int, str | None], observed_at_ms: int, cluster_id: str | None) -> DecodedRow:
    name, topic_id = text(topic["topic"]), _optional(text, topic.get("topic_id"))
    partitions = [_partition(partition, racks) for partition in _list(topic["partitions"])]
    partitions.sort(key=lambda partition: partition["partition"])
    numbers = [partition["partition"] for partition in partitions]
    if numbers != list(range(len(numbers))):
        raise ValueError(f"topic {name}: found partitions {numbers[:20]}, expected 0 to {len(numbers) - 1}")
    described = json.dumps([topic_id, partitions], sort_keys=True)
    content: TopicRow = {
        "topic": name,
        "observed_at": micros(observed_at_ms),
        "topic_id": None if topic_id is None else topic_id_text(topic_id),
        "partition_count": len(partitions),
        "partitions": partitions,
        "fingerprint": hashlib.sha256(described.encode()).hexdigest(),
    }
    return {**landed(KIND), "look": content, **_cluster(cluster_id), "source_position": f"{observed_at_ms} {name}"}


def _partition(partition: dict[str, Any], racks: dict[int, str | None]) -> PartitionRow:
    leader = _optional(integer, partition.get("leader"), 32)
    return {
        "partition": integer(partition["partition"], 32),
        "leader": leader,
        "leader_rack": racks.get(leader) if leader is not None else None,
        "replica_racks": [racks.get(integer(replica, 32)) for replica in _optional(_list, partition.get("replicas")) or ()],
        "begin_offset": _optional(_known_offset, partition.get("begin_offset")),
        "end_offset": _optional(_known_offset, partition.get("end_offset")),
    }


def _known_offset(value: Any) -> int | None:
    """Return an offset of the log; None if it is negative: clients write -1 or -1001 for one that they could not ask for."""
    offset = integer(value, 64)
    return offset if offset >= 0 else None


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list, found {repr(value)[:100]}")
    return value


def _optional(check: Callable[..., Any], value: Any, *arguments: Any) -> Any:
    return None if value is None else check(value, *arguments)
