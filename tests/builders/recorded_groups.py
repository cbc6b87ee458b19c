"""The groups of a recorded capture, decoded and replayed without Spark."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow.parquet as pq

from assignors import Assignment, GroupProblem, Member, Topic, TopicPartition
from assignors.audit.passages import participants_of
from assignors.audit.triggers import Evidence
from assignors.generation.generation import Generation
from assignors.replay.replay import Replay
from assignors.replay.steps import Snapshot, State, Step
from assignors.replay.topic_metadata import ClusterLooks, ResolvedTopic, TopicRun
from jobs.decoders.cluster_metadata import decode_line
from jobs.decoders.consumer_group_replay import Record, fold
from jobs.decoders.consumer_offsets import decode_record
from schemas.row_types import SnapshotRow, TopicPartitions, TopicRow
from schemas.vocabulary import GroupType
from schemas.wire.keys import RECORD_TYPES
from tests.builders.captures import RECORDED


@dataclass(frozen=True)
class RecordedStep:
    """One generation of a recorded group.

    Attributes:
        step: with the recomputed assignment, and without counterfactual ones.
        leader_client: the library of the leader; None where the bytes do not say, and for a consumer-protocol group.
        is_consumer_protocol: the group's coordinator made it (KIP-848).
    """

    step: Step
    observed_at_ms: int
    leader_client: str | None
    is_consumer_protocol: bool

    def generation(self) -> Generation:
        """Return the generation as scenarios take it: its members, the topics that existed, and what was given."""
        snapshot = self.step.snapshot
        topics = {
            one.topic: Topic(one.partition_count, one.partition_racks, one.topic_id) for one in self.step.topics if one.partition_count
        }
        return Generation(snapshot.generation, snapshot.strategy or "", GroupProblem(topics, snapshot.members), snapshot.assigned)

    def evidence(self) -> Evidence:
        """Return what the generation shows of its causes."""
        snapshot = self.step.snapshot
        return Evidence(
            snapshot.generation,
            self.observed_at_ms,
            self.is_consumer_protocol,
            snapshot.is_conversion,
            snapshot.is_poll,
            self.step.is_follow_up,
            snapshot.has_subscriptions,
            snapshot.strategy,
            participants_of(snapshot),
            {one.topic: _topic(one) for one in self.step.topics if not one.is_uncertain},
            self.step.is_rewrite,
        )


def _topic(resolved: ResolvedTopic) -> Topic:
    known = (resolved.partition_count, resolved.partition_racks, resolved.topic_id)
    return Topic(*known) if resolved.partition_count else Topic(0)


@dataclass(frozen=True)
class Recording:
    """What a capture holds.

    Attributes:
        topic_names: topic id -> name.
        group_records: group -> its consumer-protocol records by offset.
        steps: group -> its generations in order.
    """

    topic_names: dict[str, str]
    group_records: dict[str, list[Record]]
    steps: dict[str, list[RecordedStep]]


def read_recording() -> Recording:
    """Return what ``consumer_offsets.parquet`` and ``cluster_metadata.jsonl.gz`` of the recording hold."""
    topics = [row["look"] for line in _lines() for row in decode_line(line) if "look" in row]
    names = {row["topic_id"]: row["topic"] for row in topics if row["topic_id"] is not None}
    looks = _looks(topics)
    records: dict[str, list[Record]] = defaultdict(list)
    rows: dict[str, list[SnapshotRow]] = defaultdict(list)
    ends: dict[str, list[int]] = defaultdict(list)
    for record in _records():
        row = decode_record(record.key, record.value, record.offsets_partition, record.offset, record.timestamp_ms)
        if "snapshot" in row:
            rows[row["snapshot"]["group_id"]].append(row["snapshot"])
        elif "group_record" in row:
            found = row["group_record"]
            if found["type"] in RECORD_TYPES:
                records[found["group_id"]].append(record)
            elif found["value"] is None:
                ends[found["group_id"]].append(record.offset)
    for group_id, of_group in records.items():
        rows[group_id].extend(fold(group_id, of_group, names))
    return Recording(names, dict(records), {group_id: list(_replayed(rows[group_id], ends[group_id], looks)) for group_id in sorted(rows)})


def _lines() -> list[bytes]:
    return gzip.decompress((RECORDED / "cluster_metadata.jsonl.gz").read_bytes()).splitlines()


def _records() -> Iterator[Record]:
    table = pq.read_table(RECORDED / "consumer_offsets.parquet", columns=["key", "value", "partition", "offset", "timestamp"])
    rows = sorted(table.to_pylist(), key=lambda row: (row["partition"], row["offset"]))
    return (Record(row["partition"], row["offset"], round(row["timestamp"].timestamp() * 1000), row["key"], row["value"]) for row in rows)


def _looks(topics: Iterable[TopicRow]) -> ClusterLooks:
    by_time = {
        at: list(rows) for at, rows in groupby(sorted(topics, key=lambda row: row["observed_at"]), key=lambda row: row["observed_at"])
    }
    runs: dict[str, list[TopicRun]] = defaultdict(list)
    for look, of_look in enumerate(by_time.values()):
        for row in of_look:
            racks = tuple(tuple(one["replica_racks"]) for one in row["partitions"])
            runs[row["topic"]].append(TopicRun(look, look, row["partition_count"], row["topic_id"], racks))
    return ClusterLooks([at // 1000 for at in by_time], runs)


def _replayed(rows: Sequence[SnapshotRow], ends: Sequence[int], looks: ClusterLooks) -> Iterator[RecordedStep]:
    """Yield the steps of one group. Its incarnations end with a tombstone, or where generations begin anew."""
    state: State | None = None
    incarnation, before = 0, None
    for row in sorted(rows, key=lambda row: row["position"]):
        is_consumers = row["group_type"] == GroupType.CONSUMER.value
        has_turned = before is not None and (before["group_type"] == GroupType.CONSUMER.value) != is_consumers
        if before is None or row["generation"] < before["generation"] or _has_ended(before, row, ends, has_turned=has_turned):
            incarnation = row["position"]
        is_conversion = has_turned and bool(row["members"]) and before is not None and row["generation"] > 1
        if is_conversion and is_consumers and before is not None:
            is_conversion = row["generation"] == before["generation"]
        state = Replay(()).advance(state, _snapshot(row, incarnation, is_conversion=is_conversion), looks)
        before = row
        yield RecordedStep(state.step, row["observed_at"] // 1000, row.get("leader_client"), is_consumers)


def _has_ended(before: SnapshotRow, row: SnapshotRow, ends: Sequence[int], *, has_turned: bool) -> bool:
    return not has_turned and any(before["position"] < end < row["position"] for end in ends)


def _snapshot(row: SnapshotRow, incarnation: int, *, is_conversion: bool) -> Snapshot:
    members = row["members"]
    return Snapshot(
        row["position"],
        row["generation"],
        (row.get("joined_at") or row["observed_at"]) // 1000,
        incarnation,
        row["strategy"],
        row.get("leader_member_id"),
        is_conversion,
        tuple(
            Member(
                one["member_id"],
                tuple(one["topics"] or ()),
                one["group_instance_id"],
                one.get("rack"),
                flat(one["owned"] or ()),
                one.get("owned_generation"),
                one.get("user_data"),
            )
            for one in members
        ),
        assigned_of(row),
        {one["member_id"]: one.get("subscription_version") for one in members},
        {one["member_id"]: one["client_id"] for one in members},
        batched_epoch_count=row.get("batched_epoch_count") or 0,
        client_hosts={one["member_id"]: one["client_host"] for one in members},
    )


def assigned_of(row: SnapshotRow) -> Assignment:
    """Return what each member of a snapshot was given."""
    return {one["member_id"]: flat(one["assigned"]) for one in row["members"]}


def flat(entries: Iterable[TopicPartitions]) -> tuple[TopicPartition, ...]:
    """Return the partitions of entries, one by one."""
    return tuple((entry["topic"], number) for entry in entries for number in entry["partitions"])
