"""Golden vectors: problems and the results of Kafka's own classes."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from assignors import GroupProblem, Member, Topic

GOLDEN = Path(__file__).parent.parent / "golden"
# The vectors have other names for the assignors of the broker and of the ZooKeeper consumer.
STRATEGIES = {
    "server_range": {"range": "server-range"},
    "legacy": {"legacy_range": "legacy-range", "legacy_roundrobin": "legacy-roundrobin"},
}


def read_vectors(family: str) -> Iterator[dict]:
    with gzip.open(GOLDEN / f"{family}.jsonl.gz", "rt", encoding="ascii") as lines:
        yield from map(json.loads, lines)


def problem_of(vector: dict) -> GroupProblem:
    ids = vector.get("topic_ids", {})
    topics = {
        name: Topic(shape, topic_id=ids.get(name))
        if isinstance(shape, int)
        else Topic(len(shape), tuple(map(tuple, shape)), topic_id=ids.get(name))
        for name, shape in vector["topics"].items()
        if "topic_ids" not in vector or name in ids
    }
    topics.update((name, Topic(None, topic_id=topic_id)) for name, topic_id in ids.items() if name not in topics)
    return GroupProblem(
        topics,
        tuple(
            Member(
                member["member_id"],
                tuple(member["topics"]),
                group_instance_id=member["instance_id"],
                rack=member["rack"],
                owned=tuple(map(tuple, member["owned"])),
                owned_generation=member["generation"],
                user_data=None if member["user_data_b64"] is None else base64.b64decode(member["user_data_b64"]),
                streams=member.get("streams"),
            )
            for member in vector["members"]
        ),
    )
