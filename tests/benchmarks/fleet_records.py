"""A made-up fleet as files that ``land`` takes: raw ``__consumer_offsets`` records in Parquet, and metadata snapshots of the cluster.

Each partition of the offsets topic is made by itself, in as many processes as there are cores, and written as it comes. At 100,000 groups
a process needs 1 GB, and all of them together take 250 CPU seconds. Everything follows from the number of groups, of generations, the
seed, and the share of groups of the consumer protocol.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from assignors import TopicPartition
from tests.benchmarks.fleet_consumer_groups import ConsumerGroup
from tests.benchmarks.fleet_groups import CLIENT_HOST, EPOCH_MS, FleetTopic, Group, GroupPlan, Record, every_nth
from tests.kafka_classes import encode_subscription

RECORDS_FILE, METADATA_FILE = "consumer_offsets.parquet", "cluster_metadata.jsonl.gz"
SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
    }
)
ROW_GROUP_RECORDS = 1 << 17
FEWEST_GROUPS_FOR_PROCESSES = 200

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
COMMITS_A_PARTITION = 0.717
"""Offset commits in a generation for each partition that a group holds: 28.7 a group, and one snapshot."""

COMMIT_VERSION, GROUP_VERSION, ASSIGNMENT_VERSION = 3, 3, 3
LEADER_EPOCH = 7
TIMEOUTS = struct.pack(">ii", 300_000, 45_000)
BROKERS = (1, 2, 3)

HISTORY, GENERATION, COMMITS, METADATA = "history", "generation", "commits", "metadata"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the fleet's log, and the metadata snapshots that were taken meanwhile.

    Attributes:
        start_ms, end_ms: since the epoch of the fleet.
        generations: how often each of the rebalancing groups rebalances.
        rebalancing: ids of the groups that rebalance; None for all.
        committing: ids of the groups that commit offsets; None for all.
        commits: offset commits in a generation, for each partition that a group holds.
        metadata_ms: when metadata snapshots were taken.
    """

    name: str
    start_ms: int
    end_ms: int
    generations: int
    rebalancing: frozenset[str] | None
    committing: frozenset[str] | None
    commits: float
    metadata_ms: tuple[int, ...]

    def rebalances(self, group_id: str) -> int:
        """Return how often a group rebalances in this piece."""
        return self.generations if self.rebalancing is None or group_id in self.rebalancing else 0

    def has_commits(self, group_id: str) -> bool:
        """Whether a group commits offsets in this piece."""
        return self.committing is None or group_id in self.committing


def history(generations: int) -> Piece:
    """Return a day in which each group goes through so many generations."""
    day_ms = 24 * HOUR_MS
    return Piece(HISTORY, 0, day_ms, generations, None, None, COMMITS_A_PARTITION, (0, day_ms // 2, day_ms - 1))


def next_pieces(plans: list[GroupPlan], changing: int) -> list[Piece]:
    """Return what follows the history, one piece after the other.

    First one more generation of some groups, with 17 commits each. Then five minutes in which every group commits each partition once, as
    many groups rebalance, and one metadata snapshot is taken. Last a metadata snapshot alone.
    """
    some, others = (frozenset(every_nth(part, changing)) for part in (plans, list(reversed(plans))))
    first = 24 * HOUR_MS
    second = first + HOUR_MS
    third = second + 5 * MINUTE_MS
    nobody: frozenset[str] = frozenset()
    return [
        Piece(GENERATION, first, second, 1, some, some, 0.415, ()),
        Piece(COMMITS, second, third, 1, others, None, 1.0, (third - 1,)),
        Piece(METADATA, third, third + HOUR_MS, 0, nobody, nobody, 0.0, (third + HOUR_MS - 1,)),
    ]


class NoRoomError(Exception):
    """A fleet cannot be written."""


def make_fleet(folder: Path, plans: list[GroupPlan], pieces: Sequence[Piece]) -> dict[str, int]:
    """Write each piece into a folder of its name, and return how many records each has.

    Raises:
        NoRoomError: a file cannot be written; what was written stays.
    """
    try:
        for piece in pieces:
            (folder / piece.name).mkdir(parents=True, exist_ok=True)
            write_metadata(folder / piece.name / METADATA_FILE, plans, piece.metadata_ms)
        return _write_records(folder, plans, pieces)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise NoRoomError(
            f"a fleet of {len(plans):,} groups cannot be written to {folder}: {reason}; free some room, or choose another folder"
        ) from None


def _write_records(folder: Path, plans: list[GroupPlan], pieces: Sequence[Piece]) -> dict[str, int]:
    counts = dict.fromkeys((piece.name for piece in pieces), 0)
    with ExitStack() as files:
        writers: dict[str, pq.ParquetWriter] = {}
        for tables in _partition_tables(plans, pieces):
            for piece, table in zip(pieces, tables, strict=True):
                if not table.num_rows:
                    continue
                if piece.name not in writers:
                    path = folder / piece.name / RECORDS_FILE
                    writers[piece.name] = files.enter_context(pq.ParquetWriter(path, SCHEMA, compression="zstd"))
                writers[piece.name].write_table(table, ROW_GROUP_RECORDS)
                counts[piece.name] += table.num_rows
    return counts


def _partition_tables(plans: list[GroupPlan], pieces: Sequence[Piece]) -> Iterator[list[pa.Table]]:
    """Yield for each partition of the offsets topic that has groups one table a piece."""
    by_partition: dict[int, list[GroupPlan]] = defaultdict(list)
    for plan in plans:
        by_partition[plan.offsets_partition].append(plan)
    partitions = sorted(by_partition)
    arguments = partitions, [by_partition[partition] for partition in partitions], [pieces] * len(partitions)
    if len(plans) < FEWEST_GROUPS_FOR_PROCESSES:
        yield from map(partition_tables, *arguments)
        return
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(partition_tables, *arguments)


def partition_tables(partition: int, plans: list[GroupPlan], pieces: Sequence[Piece]) -> list[pa.Table]:
    """Return the records of one partition of the offsets topic, a table a piece; offsets go on from piece to piece."""
    groups = [ConsumerGroup(plan) if plan.has_consumer_protocol else Group(plan) for plan in plans]
    offset = 0
    tables = []
    for piece in pieces:
        records = [record for group in groups for record in group_records(group, piece)]
        records.sort(key=itemgetter(0))
        tables.append(_table(records, partition, offset))
        offset += len(records)
    return tables


def group_records(group: Group, piece: Piece) -> Iterator[Record]:
    """Yield what a group writes in a piece, the records of each rebalance and its commits; the group is in its next state then."""
    random, plan = group.random, group.plan
    commits = piece.commits if piece.has_commits(plan.group_id) else 0.0
    coming = [*sorted(random.sample(range(piece.start_ms, piece.end_ms), piece.rebalances(plan.group_id))), piece.end_ms]
    if len(coming) == 1:
        yield from _commits(group, piece.start_ms, piece.end_ms, commits)
    for number in range(len(coming) - 1):
        moment = coming[number]
        yield from group.rebalance_records(moment) if isinstance(group, ConsumerGroup) else _snapshot(group, moment)
        if group.is_in_burst and number + 2 < len(coming):
            coming[number + 1] = min(coming[number + 1], moment + random.randint(3_000, 30_000))
        if isinstance(group, ConsumerGroup):
            yield from group.reconciliation_records(moment, coming[number + 1])
        yield from _commits(group, moment, coming[number + 1], commits)


def _snapshot(group: Group, moment: int) -> Iterator[Record]:
    """Let a group of the classic protocol rebalance, and yield its snapshot."""
    group.rebalance()
    yield moment, b"\0\2" + _string(group.plan.group_id), _group_value(group, moment)


def _commits(group: Group, start_ms: int, end_ms: int, for_each_partition: float) -> Iterator[Record]:
    """Yield offset commits of partitions that the group's members hold, at times between two rebalances."""
    random, owned = group.random, group.owned
    count = int(for_each_partition * len(owned) + random.random())
    topics = {topic.name: topic for topic in group.plan.topics}
    prefix = b"\0\1" + _string(group.plan.group_id)
    keys = {name: prefix + _string(name) for name in topics}
    for name, number in random.choices(owned, k=count) if owned else ():
        moment = start_ms + 1 + int(random.random() * (end_ms - start_ms - 1))
        offset = topics[name].end_offset(number, max(0, moment - group.lag_ms))
        value = struct.pack(">hqihq", COMMIT_VERSION, offset, LEADER_EPOCH, 0, EPOCH_MS + moment)  # the 0 is the length of the metadata
        yield moment, keys[name] + struct.pack(">i", number), value


def _group_value(group: Group, moment: int) -> bytes:
    """Return the group metadata value, version 3, that the coordinator writes when the leader has sent its assignment."""
    members = group.members
    parts = [struct.pack(">h", GROUP_VERSION), _string("consumer"), struct.pack(">i", group.generation), _string(group.plan.strategy)]
    parts += [_string(members[0].member_id), struct.pack(">qi", EPOCH_MS + moment, len(members))]
    for member in members:
        instance = struct.pack(">h", -1) if member.group_instance_id is None else _string(member.group_instance_id)
        parts += [_string(member.member_id), instance, _string(group.client_of(member)), _string(CLIENT_HOST), TIMEOUTS]
        parts += [_blob(encode_subscription(member)), _blob(_assignment(group.assignment.get(member.member_id, ())))]
    return b"".join(parts)


def _assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return an assignment, version 3: topics by their first appearance, no user data."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    entries = [_string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in by_topic.items()]
    return struct.pack(">hi", ASSIGNMENT_VERSION, len(entries)) + b"".join(entries) + struct.pack(">i", -1)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _table(records: list[Record], partition: int, first_offset: int) -> pa.Table:
    count = len(records)
    moments = pa.array([(EPOCH_MS + moment) * 1000 for moment, _, _ in records], SCHEMA.field("timestamp").type)
    columns = [
        pa.array([key for _, key, _ in records], pa.binary()),
        pa.array([value for _, _, value in records], pa.binary()),
        pa.repeat(pa.scalar("__consumer_offsets"), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(range(first_offset, first_offset + count), pa.int64()),
        moments,
        pa.repeat(pa.scalar(0, pa.int32()), count),
    ]
    return pa.table(columns, SCHEMA)


def write_metadata(path: Path, plans: Sequence[GroupPlan], moments: Sequence[int]) -> None:
    """Write one line a moment with all topics of the cluster, its three brokers and their racks; no file where there is no moment."""
    if not moments:
        return
    topics = {topic.name: topic for plan in plans for topic in plan.topics}
    brokers = [{"id": number, "rack": f"r{number}"} for number in BROKERS]
    with gzip.open(path, "wt", compresslevel=6) as file:
        for moment in moments:
            described = [_described(topic, moment) for topic in topics.values()]
            line = {"observed_at_ms": EPOCH_MS + moment, "brokers": brokers, "topics": described}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def _described(topic: FleetTopic, moment: int) -> dict[str, object]:
    partitions = [
        {
            "partition": number,
            "leader": BROKERS[number % len(BROKERS)],
            "replicas": [BROKERS[(number + step) % len(BROKERS)] for step in range(len(BROKERS))],
            "begin_offset": 0,
            "end_offset": topic.end_offset(number, moment),
        }
        for number in range(topic.partition_count)
    ]
    return {"topic": topic.name, "topic_id": topic.topic_id, "partitions": partitions}
