"""Looks at a cluster: its brokers, racks, topics and partitions at one moment, one NDJSON line a look."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from jobs.sources.decoded import LAST_MS, Row, landed, micros, quarantined

KIND = "topic_look"


def decode_line(line: str) -> Iterator[Row]:
    """Yield one decoded row for each topic of a look; a single quarantined one for a line that is no look.

    Raises nothing, whatever the line is.
    """
    try:
        look = json.loads(line)
        observed_at_ms = int(look["observed_at_ms"])
        if not 0 <= observed_at_ms < LAST_MS:
            raise ValueError(f"observed_at_ms is {observed_at_ms}, expected a time from 1970 to 2200")
        racks = {int(broker["id"]): broker.get("rack") for broker in look["brokers"]}
        rows = [_topic_row(topic, racks, observed_at_ms, look.get("cluster_id")) for topic in look["topics"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        payload = line.encode("utf-8", "surrogatepass")
        detail = f"expected a look at the cluster, found {type(error).__name__}: {error}"
        yield quarantined("unreadable_line", "malformed_line", detail, payload)
        return
    yield from rows


def _topic_row(topic: dict[str, Any], racks: dict[int, str | None], observed_at_ms: int, cluster_id: str | None) -> Row:
    partitions = sorted((_partition(partition, racks) for partition in topic["partitions"]), key=lambda partition: partition["partition"])
    numbers = [partition["partition"] for partition in partitions]
    if numbers != list(range(len(numbers))):
        raise ValueError(f"topic {topic['topic']}: found partitions {numbers[:20]}, expected 0 to {len(numbers) - 1}")
    described = json.dumps([topic.get("topic_id"), partitions], sort_keys=True)
    content = {
        "topic": str(topic["topic"]),
        "observed_at": micros(observed_at_ms),
        "topic_id": topic.get("topic_id"),
        "partition_count": len(partitions),
        "partitions": partitions,
        "fingerprint": hashlib.sha256(described.encode("utf-8", "surrogatepass")).hexdigest(),
    }
    row = landed(KIND, "look", content)
    row["source_position"] = f"{observed_at_ms} {topic['topic']}"
    if cluster_id is not None:
        row["cluster_id"] = cluster_id
    return row


def _partition(partition: dict[str, Any], racks: dict[int, str | None]) -> Row:
    leader = partition.get("leader")
    return {
        "partition": int(partition["partition"]),
        "leader": leader,
        "leader_rack": racks.get(leader) if leader is not None else None,
        "replica_racks": [racks.get(int(replica)) for replica in partition.get("replicas") or ()],
        "begin_offset": partition.get("begin_offset"),
        "end_offset": partition.get("end_offset"),
    }
