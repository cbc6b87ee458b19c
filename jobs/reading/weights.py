"""What the partitions of stored groups carry: records that wait, and records that come in.

The audit of load imbalance asks the same of each generation. Here the moment is the last one at which the members were seen: the newest
metadata snapshot before the group's next generation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from assignors.model import TopicPartition
from jobs.reading.published import Filter, PublishedTables, StoredRow
from jobs.reading.stored import GroupKey, PartitionWeights, StoredGeneration
from schemas.vocabulary import MOST_LAG


class SeenPartition(NamedTuple):
    """A partition in one metadata snapshot."""

    observed_at: datetime
    topic_id: str | None
    end_offset: int | None


_TopicKey = tuple[str, str]


def read_weights(
    tables: PublishedTables, groups: Sequence[StoredGeneration], more_topics: Collection[str] = ()
) -> dict[GroupKey, PartitionWeights]:
    """Return the figures of each group's partitions.

    Args:
        more_topics: topics that may be new to the groups; ``partition_counts`` has them too.

    Raises:
        WarehouseDamagedError: a table cannot be read.
    """
    topics = {group.key: {*_held(group), *more_topics} for group in groups}
    times = snapshot_times(tables, {topic for of_group in topics.values() for topic in of_group})
    nearest = {
        (group.key, topic): newest_two(times.get((group.key.cluster_id, topic), ()), group.until)
        for group in groups
        for topic in topics[group.key]
    }
    seen = seen_partitions(
        tables, {(key.cluster_id, topic) for key, topic in nearest}, {time for pair in nearest.values() for time in pair}
    )
    commits = _commits(tables, groups, {topic for _, topic, _ in seen})
    return {group.key: _weights_of(group, topics[group.key], nearest, seen, commits.get(group.key, ())) for group in groups}


def _weights_of(
    group: StoredGeneration,
    topics: Iterable[str],
    nearest: Mapping[tuple[GroupKey, str], Sequence[datetime]],
    seen: Mapping[tuple[str, str, datetime], Mapping[int, SeenPartition]],
    commits: Iterable[StoredRow],
) -> PartitionWeights:
    lag: dict[TopicPartition, int] = {}
    throughput: dict[TopicPartition, float] = {}
    used: list[datetime] = []
    committed = defaultdict(list)
    for row in commits:
        committed[row["topic"], row["partition"]].append(row)
    for topic, partition in {one for held in group.generation.assignment.values() for one in held}:
        at = [seen.get((group.key.cluster_id, topic, time), {}).get(partition) for time in nearest[group.key, topic]]
        now = at[0] if at else None
        if now is None:
            continue
        used.append(now.observed_at)
        waiting = lag_at(committed[topic, partition], now)
        if waiting is not None:
            lag[topic, partition] = waiting
        rate = _rate(at[1], now) if len(at) > 1 else None
        if rate is not None:
            throughput[topic, partition] = rate
    newest = {topic: (group.key.cluster_id, topic, nearest[group.key, topic][0]) for topic in topics if nearest[group.key, topic]}
    counts = {topic: len(seen[key]) for topic, key in newest.items() if key in seen}
    return PartitionWeights(lag, throughput, max(used, default=None), counts)


def lag_at(commits: Iterable[StoredRow], seen: SeenPartition) -> int | None:
    """Return how many records come after the last commit up to a metadata snapshot.

    None where the last commit is a deletion or of another topic of the name, and where the snapshot has no end of the log.
    """
    before = (row for row in commits if row["observed_at"] <= seen.observed_at)
    last = max(before, key=lambda row: (int(row["position"]), row["observed_at"]), default=None)
    if last is None or last["committed_offset"] is None or seen.end_offset is None:
        return None
    if None not in (last["topic_id"], seen.topic_id) and last["topic_id"] != seen.topic_id:
        return None
    return min(max(seen.end_offset - int(last["committed_offset"]), 0), MOST_LAG)


def _rate(before: SeenPartition | None, after: SeenPartition) -> float | None:
    """Return by how many records a second a log grew; None where it became shorter, or is of another topic of the name."""
    if before is None or before.topic_id != after.topic_id or before.end_offset is None or after.end_offset is None:
        return None
    growth, seconds = after.end_offset - before.end_offset, (after.observed_at - before.observed_at).total_seconds()
    return growth / seconds if growth >= 0 and seconds > 0 else None


def _held(group: StoredGeneration) -> set[str]:
    return {topic for held in group.generation.assignment.values() for topic, _ in held}


def snapshot_times(tables: PublishedTables, topics: set[str]) -> dict[_TopicKey, list[datetime]]:
    """Return the times of the metadata snapshots of topics by cluster and topic, newest first.

    Raises:
        WarehouseDamagedError: the table cannot be read.
    """
    times: dict[_TopicKey, list[datetime]] = defaultdict(list)
    for row in tables.rows("topic_snapshots", ("cluster_id", "topic", "observed_at"), {"topic": topics}):
        times[row["cluster_id"], row["topic"]].append(row["observed_at"])
    return {key: sorted(of_topic, reverse=True) for key, of_topic in times.items()}


def newest_two(times: Iterable[datetime], until: datetime | None) -> list[datetime]:
    """Return the newest of times that are sorted downwards, and the one before it, up to a moment."""
    return [time for time in times if until is None or time <= until][:2]


def seen_partitions(
    tables: PublishedTables, topics: set[_TopicKey], times: set[datetime]
) -> dict[tuple[str, str, datetime], dict[int, SeenPartition]]:
    """Return the partitions of topics in their metadata snapshots of these times, by cluster, topic, time and partition.

    Raises:
        WarehouseDamagedError: the table cannot be read.
    """
    columns = ("cluster_id", "topic", "observed_at", "topic_id", "partitions")
    wanted: Filter = {"topic": {topic for _, topic in topics}, "observed_at": times}
    return {
        (row["cluster_id"], row["topic"], row["observed_at"]): {
            one["partition"]: SeenPartition(row["observed_at"], row["topic_id"], one["end_offset"]) for one in row["partitions"] or ()
        }
        for row in tables.rows("topic_snapshots", columns, wanted)
        if (row["cluster_id"], row["topic"]) in topics
    }


def _commits(tables: PublishedTables, groups: Iterable[StoredGeneration], topics: set[str]) -> dict[GroupKey, list[StoredRow]]:
    """Return the commits of groups for topics; those for other topics, such as without a metadata snapshot, say nothing of lag."""
    columns = (
        *("cluster_id", "group_id", "topic", "partition", "position", "observed_at"),
        *("topic_id", "committed_offset"),
    )
    wanted: Filter = {"group_id": {group.key.group_id for group in groups}, "topic": topics}
    commits: dict[GroupKey, list[StoredRow]] = defaultdict(list)
    for row in tables.rows("offset_snapshots", columns, wanted):
        commits[GroupKey(row["cluster_id"], row["group_id"])].append(row)
    return commits
