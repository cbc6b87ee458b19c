"""What a first PySpark version would be: each group in ``applyInPandas``, one strategy, no audit, Parquet.

Started by ``fleet.py`` through spark-submit, with this checkout and the packages of ``rivals.peers_python`` on PYTHONPATH:

    fleet_rival.py RECORDS METADATA OUTPUT

Every generation is solved by aiokafka's sticky assignor from what it gave in the generation before. Offset commits are not read.
"""

from __future__ import annotations

import gzip
import json
import sys
from functools import partial

import pandas as pd
from pyspark.sql import SparkSession

from schemas.wire.classic_group import GroupMetadata, decode_group_metadata
from schemas.wire.consumer_protocol import decode_subscription
from tests.benchmarks.peer_assignors import prepare
from tests.benchmarks.processes import printed_cpu_s

OUTPUT = "group_id string, generation int, member_id string, topic string, partitions array<int>"


def main() -> None:
    """Read records, solve all groups, and write the assignments."""
    records, metadata, output = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    snapshots = spark.read.parquet(records).where("substring(key, 1, 2) = x'0002'").select("key", "value", "offset")
    solved = snapshots.groupBy("key").applyInPandas(partial(solve_group, partition_counts=partition_counts(metadata)), OUTPUT)
    with printed_cpu_s("solve"):
        solved.write.parquet(output)
    spark.stop()


def partition_counts(path: str) -> dict[str, int]:
    """Return the number of partitions of each topic in the first metadata snapshot."""
    with gzip.open(path, "rt") as file:
        return {topic["topic"]: len(topic["partitions"]) for topic in json.loads(next(file))["topics"]}


def solve_group(frame: pd.DataFrame, partition_counts: dict[str, int]) -> pd.DataFrame:
    """Return the assignments of all generations of one group."""
    group_id = frame["key"].iloc[0][4:].decode()
    owned: dict[str, list[tuple[str, int]]] = {}
    rows = []
    for value in frame.sort_values("offset")["value"]:
        group = decode_group_metadata(value)
        owned = solve(group, partition_counts, owned)
        for member_id, partitions in owned.items():
            by_topic: dict[str, list[int]] = {}
            for topic, number in partitions:
                by_topic.setdefault(topic, []).append(number)
            rows += [(group_id, group.generation, member_id, topic, numbers) for topic, numbers in by_topic.items()]
    return pd.DataFrame(rows, columns=["group_id", "generation", "member_id", "topic", "partitions"])


def solve(
    group: GroupMetadata, partition_counts: dict[str, int], owned: dict[str, list[tuple[str, int]]]
) -> dict[str, list[tuple[str, int]]]:
    """Return what each member of a generation gets.

    Args:
        owned: what each member got in the generation before.
    """
    subscriptions: list[tuple[str, ...]] = []
    members = {}
    for member in group.members:
        topics = decode_subscription(member.subscription).topics
        if topics not in subscriptions:
            subscriptions.append(topics)
        members[member.member_id] = subscriptions.index(topics), owned.get(member.member_id, [])
    topics = {name: partition_counts[name] for names in subscriptions for name in names}
    result = prepare("aiokafka", "sticky", {"topics": topics, "subscriptions": subscriptions, "members": members})()
    return {member_id: [tuple(partition) for partition in given.partitions()] for member_id, given in result.items()}


if __name__ == "__main__":
    main()
