"""Time one assignment by kafka-python or aiokafka; run by ``assignors.py`` with a Python that has both installed.

Reads a JSON object from standard input: ``library``, ``strategy``, ``topics`` (name -> partition count), ``subscriptions`` (lists of
topics), ``members`` (id -> number of the subscription, and claims) and ``repeat``; prints as JSON the least CPU time of
one call in ``seconds`` and a ``digest`` of the result. The peers get claims as objects, so that reading user data is not on their bill.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable, Mapping
from hashlib import sha256
from types import SimpleNamespace


class Cluster:
    """What the peers ask of cluster metadata."""

    def __init__(self, partition_counts: dict[str, int]) -> None:
        self._counts = partition_counts

    def topics(self) -> set[str]:
        return set(self._counts)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._counts[topic])) if topic in self._counts else None


def main() -> None:
    logging.disable(logging.CRITICAL)
    request = json.load(sys.stdin)
    seconds = []
    for _ in range(request["repeat"]):
        call = prepare(request)
        start = time.process_time()
        result = call()
        seconds.append(time.process_time() - start)
    given = [partition for assignment in result.values() for partition in assignment.partitions()]
    if len(given) != len(set(given)) or len(given) != sum(request["topics"].values()):
        raise SystemExit(f"{request['library']} gave out {len(set(given))} partitions {len(given)} times")
    print(json.dumps({"seconds": min(seconds), "digest": digest({owner: held.partitions() for owner, held in result.items()})}))


def digest(assignment: Mapping[str, Iterable[tuple[str, int]]]) -> str:
    """Return a hash that is equal for equal assignments; the order of members and partitions is not looked at."""
    state = sha256()
    for owner in sorted(assignment):
        state.update(json.dumps([owner, sorted([topic, number] for topic, number in assignment[owner])]).encode())
    return state.hexdigest()


def prepare(request: dict):
    """Return a call that makes the assignment, with everything else done."""
    cluster = Cluster(request["topics"])
    is_sticky = request["strategy"] == "sticky"
    if request["library"] == "kafka-python":
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
        from kafka.structs import TopicPartition
    else:
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
        from aiokafka.structs import TopicPartition
    assignor = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}[
        request["strategy"]
    ]()
    members = {}
    for member_id, (subscription, claims) in request["members"].items():
        topics = request["subscriptions"][subscription]
        if is_sticky:
            held = [TopicPartition(topic, number) for topic, number in claims]
            metadata = StickyPartitionAssignor._metadata(topics, held or None, 1)
        else:
            metadata = assignor.metadata(topics)
        members[member_id] = metadata
    if request["library"] == "kafka-python":
        listed = [
            SimpleNamespace(member_id=member_id, group_instance_id=None, metadata=metadata) for member_id, metadata in members.items()
        ]
        return lambda: assignor.assign(cluster, listed)
    return lambda: assignor.assign(cluster, members)


if __name__ == "__main__":
    main()
