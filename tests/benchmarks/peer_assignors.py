"""Time assignments by kafka-python or aiokafka; run by ``assignors.py`` with a Python that has both installed.

Reads a JSON object from standard input: ``library``, ``strategy`` and ``groups``, each with ``topics`` (name -> partition count),
``subscriptions`` (lists of topics) and ``members`` (id -> number of the subscription, and claims); prints as JSON the CPU time of
solving each group once in ``seconds`` and ``digests`` of the results. The peers get claims as objects, so that reading user data is
not on their bill.
"""

from __future__ import annotations

import gc
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
    seconds = 0.0
    digests = []
    gc.freeze()  # or the collector would walk over the other groups at the expense of each
    for group in request["groups"]:
        call = prepare(request["library"], request["strategy"], group)
        start = time.process_time()
        result = call()
        seconds += time.process_time() - start
        given = [partition for assignment in result.values() for partition in assignment.partitions()]
        if len(given) != len(set(given)) or len(given) != sum(group["topics"].values()):
            raise SystemExit(f"{request['library']} gave out {len(set(given))} partitions {len(given)} times")
        digests.append(digest({owner: held.partitions() for owner, held in result.items()}))
    print(json.dumps({"seconds": seconds, "digests": digests}))


def digest(assignment: Mapping[str, Iterable[tuple[str, int]]]) -> str:
    """Return a hash that is equal for equal assignments; the order of members and partitions is not looked at."""
    state = sha256()
    for owner in sorted(assignment):
        state.update(json.dumps([owner, sorted([topic, number] for topic, number in assignment[owner])]).encode())
    return state.hexdigest()


def prepare(library: str, strategy: str, group: dict):
    """Return a call that makes the assignment, with everything else done."""
    cluster = Cluster(group["topics"])
    is_sticky = strategy == "sticky"
    if library == "kafka-python":
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
        from kafka.structs import TopicPartition
    else:
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
        from aiokafka.structs import TopicPartition
    assignor = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}[strategy]()
    members = {}
    for member_id, (subscription, claims) in group["members"].items():
        topics = group["subscriptions"][subscription]
        if is_sticky:
            held = [TopicPartition(topic, number) for topic, number in claims]
            metadata = StickyPartitionAssignor._metadata(topics, held or None, 1)
        else:
            metadata = assignor.metadata(topics)
        members[member_id] = metadata
    if library == "kafka-python":
        listed = [
            SimpleNamespace(member_id=member_id, group_instance_id=None, metadata=metadata) for member_id, metadata in members.items()
        ]
        return lambda: assignor.assign(cluster, listed)
    return lambda: assignor.assign(cluster, members)


if __name__ == "__main__":
    main()
