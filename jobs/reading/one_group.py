"""One generation of one group with all rows on it, and the offsets of its partitions at that time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timezone

from assignors.model import TopicPartition
from jobs.reading.deletions import Deletion, read_deletions
from jobs.reading.names import shown
from jobs.reading.published import PublishedTables, StoredRow
from jobs.reading.stored import GroupKey, empty_since
from jobs.reading.weights import SeenPartition, lag_at, newest_two, seen_partitions, snapshot_times
from jobs.runtime.errors import UsageError
from schemas.vocabulary import Basis, GroupState, GroupType, Source

INDEX_COLUMNS = ("position", "generation", "observed_at", "member_count")
AUDIT_COLUMNS = (
    *("cluster_id", "group_id", "generation", "observed_at", "position", "basis", "strategy", "previous_generation", "generation_gap"),
    *("is_follow_up", "is_settled", "member_count", "idle_member_count", "partition_count", "unassigned_count", "multiply_owned_count"),
    *("revoked_count", "reassigned_count", "gained_count", "lost_count", "orphaned_count", "withheld_count", "handed_over_count"),
    *("movement_count", "avoidable_movement_count", "actual_revocation_count", "is_lower_bound", "pause_partition_ms", "rebalance_ms"),
    *("partitions_per_member_min", "partitions_per_member_max", "imbalance_ratio", "verdict", "better_strategy", "better_gain"),
    *("least_spread", "triggers", "causes"),
)
_SNAPSHOT_COLUMNS = (
    *("cluster_id", "group_id", "generation", "observed_at", "position", "group_type", "state", "members", "leader_client"),
    *("has_subscriptions", "is_generation_inferred", "is_conversion", "reconciled_at", "is_superseded"),
)
_MOVEMENT_COLUMNS = ("topic", "partition", "previous_member_id", "member_id", "kind", "cause", "resume_outcome", "lag")
_FINDING_COLUMNS = ("cluster_id", "group_id", "generation", "observed_at", "position", "rule_id", "severity", "message", "advice")
NEAREST = 5
"""Generations that a message offers for one that is not there."""


@dataclass(frozen=True)
class PartitionOffsets:
    """One partition at a moment. What is not known is None.

    Attributes:
        committed_offset: of the last commit up to ``seen_at``; up to the moment itself where no end is known.
        end_offset: end of the log in the newest metadata snapshot, or beside a commit that is later.
        lag: records from the one to the other, not below 0.
        seen_at: time of that metadata snapshot or commit.
    """

    committed_offset: int | None
    end_offset: int | None
    lag: int | None
    seen_at: datetime | None


@dataclass(frozen=True)
class GroupGeneration:
    """One generation of a group and what is stored about it.

    Attributes:
        audit: its observed row of ``generation_audits``, with ``AUDIT_COLUMNS``.
        snapshot: its row of ``subscription_snapshots``; None where that was removed.
        previous: the audit and the snapshot of the generation before, in the same order; None without one.
        movements: its observed rows of ``movements``, by topic and partition.
        findings: of this generation.
        newest_findings: of the rules that have found something in any generation, one row of each, the newest: ``row_count`` is in how many
            generations.
        offsets: of the partitions that members have or had before, and of the others of their topics that the group has committed.
        generation_count: generations of the group that are stored.
        until: time of the next generation; None for the newest one.
        empty_since: time from which on the group has no members; None for one that has some.
        deletion: of the group; None for one that was not deleted.
        newest_position: position of the newest generation.
        newest_at: its time.
    """

    key: GroupKey
    audit: StoredRow
    snapshot: StoredRow | None
    previous: StoredRow | None
    previous_snapshot: StoredRow | None
    movements: Sequence[StoredRow]
    findings: Sequence[StoredRow]
    newest_findings: Sequence[StoredRow]
    offsets: Mapping[TopicPartition, PartitionOffsets]
    generation_count: int
    until: datetime | None
    empty_since: datetime | None
    deletion: Deletion | None
    newest_position: int
    newest_at: datetime

    @property
    def is_of_a_moment(self) -> bool:
        """Return whether the source shows groups at moments: the generation may have begun before its time."""
        row = self.snapshot or {}
        return bool(row.get("is_generation_inferred")) or row.get("has_subscriptions") is False

    @property
    def is_reconciling(self) -> bool:
        """Return whether members of a consumer-protocol group were still on their way to this target, or never reached it."""
        row = self.snapshot or {}
        is_moving = row.get("state") in (GroupState.ASSIGNING.value, GroupState.RECONCILING.value)
        return is_moving and bool(row["members"]) and row["group_type"] == GroupType.CONSUMER.value and row.get("reconciled_at") is None

    @property
    def is_last_with_members(self) -> bool:
        """Return whether it is the generation that the group has now, or had when its last members left."""
        return self.until is None or self.until == self.empty_since

    @property
    def deleted_at(self) -> datetime | None:
        """Return when the group was deleted; None for one that was not."""
        return None if self.deletion is None else self.deletion.at


def read_group_generation(
    tables: PublishedTables, key: GroupKey, generation: int | None = None, at: datetime | time | None = None
) -> GroupGeneration:
    """Return a generation of a group: the newest one that has members, else the newest one, unless another is asked for.

    Args:
        generation: its id. If several have it, the newest of them is returned.
        at: the newest generation at or before a time in UTC. A time without a date is on the day of the group's newest generation.

    Raises:
        UsageError: no generation has this id, or none is so old.
        WarehouseDamagedError: a table cannot be read.
    """
    of_group = _of_group(key)
    index = sorted(tables.rows("generation_audits", INDEX_COLUMNS, of_group), key=lambda row: int(row["position"]))
    moment = _moment(index, at)
    number = _choose(key, index, generation, moment)
    position = index[number]["position"]
    previous = index[number - 1]["position"] if number else None
    both = [one for one in (position, previous) if one is not None]
    audits = {row["position"]: row for row in tables.rows("generation_audits", AUDIT_COLUMNS, {**of_group, "position": both})}
    wanted = {**_named(key), "position": both}
    snapshots = {row["position"]: row for row in tables.rows("subscription_snapshots", _SNAPSHOT_COLUMNS, wanted)}
    movements = tables.rows("movements", _MOVEMENT_COLUMNS, {**of_group, "position": [position]})
    findings = tables.rows("findings", _FINDING_COLUMNS, {**wanted, "position": [position]})
    until = index[number + 1]["observed_at"] if number + 1 < len(index) else None
    newest_position = index[-1]["position"]
    partitions = {one for row in snapshots.values() for member in row["members"] for one in partitions_of(member["assigned"])}
    return GroupGeneration(
        key=key,
        audit=audits[position],
        snapshot=snapshots.get(position),
        previous=None if previous is None else audits[previous],
        previous_snapshot=None if previous is None else snapshots.get(previous),
        movements=sorted(movements, key=lambda row: (row["topic"], row["partition"])),
        findings=findings,
        newest_findings=_newest_findings(tables, key),
        offsets=read_offsets(tables, key, partitions, until if moment is None else moment),
        generation_count=len(index),
        until=until,
        empty_since=empty_since(index),
        deletion=read_deletions(tables, {key: newest_position}, _named(key)).get(key),
        newest_position=newest_position,
        newest_at=index[-1]["observed_at"],
    )


def newest_moment(tables: PublishedTables, cluster_id: str, since: datetime) -> datetime:
    """Return the time of the newest generation, commit or metadata snapshot of a cluster; ``since`` if none is later.

    Raises:
        WarehouseDamagedError: a table cannot be read.
    """
    of_cluster = {"cluster_id": [cluster_id]}
    newest = (
        tables.latest(table, "cluster_id", "observed_at", of_cluster, since=since)
        for table in ("generation_audits", "offset_snapshots", "topic_snapshots")
    )
    return max((found[cluster_id] for found in newest if found), default=since)


def partitions_of(entries: Collection[StoredRow] | None) -> list[TopicPartition]:
    """Return the partitions of a column that has them by topic."""
    return [(entry["topic"], partition) for entry in entries or () for partition in entry["partitions"]]


def read_offsets(
    tables: PublishedTables, key: GroupKey, partitions: Collection[TopicPartition], until: datetime | None
) -> dict[TopicPartition, PartitionOffsets]:
    """Return the offsets of partitions at a moment, of each one that has a commit or a metadata snapshot.

    Other partitions of the same topics are included if the group has committed them, and if they exist in the metadata snapshot, if any.

    Args:
        until: the moment; None for the newest of what is stored.

    Raises:
        WarehouseDamagedError: a table cannot be read.
    """
    topics = {topic for topic, _ in partitions}
    if not topics:
        return {}
    times = {
        topic: newest[0]
        for (cluster_id, topic), of_topic in snapshot_times(tables, topics).items()
        if cluster_id == key.cluster_id and (newest := newest_two(of_topic, until))
    }
    seen = seen_partitions(tables, {(key.cluster_id, topic) for topic in times}, set(times.values())) if times else {}
    commits = _commits(tables, key, {topic: times.get(topic, until) for topic in topics})
    committed = [(topic, number) for (topic, number), row in commits.items() if row["committed_offset"] is not None]
    others = [one for one in committed if one[0] not in times or one[1] in seen.get((key.cluster_id, one[0], times[one[0]]), {})]
    beside = _commits_with_ends(tables, key, topics, until)
    found: dict[TopicPartition, PartitionOffsets] = {}
    for topic, partition in {*partitions, *others, *beside}:
        in_topic = seen.get((key.cluster_id, topic, times[topic]), {}) if topic in times else {}
        commit, partition_seen = commits.get((topic, partition)), in_topic.get(partition)
        described = beside.get((topic, partition))
        if described is not None and _is_last(described, commit, partition_seen):
            commit, partition_seen = described, SeenPartition(described["observed_at"], described["topic_id"], described["end_offset"])
        offsets = _offsets(commit, partition_seen)
        if offsets is not None:
            found[topic, partition] = offsets
    return found


def _commits_with_ends(
    tables: PublishedTables, key: GroupKey, topics: Collection[str], until: datetime | None
) -> dict[TopicPartition, StoredRow]:
    """Return the last described commit of each partition up to a moment, if it has the end of the log beside it."""
    wanted = {**_named(key), "topic": list(topics), "source": [str(Source.DESCRIBE)]}
    columns = ("observed_at", "topic_id", "committed_offset", "end_offset")
    last = tables.newest("offset_snapshots", ("topic", "partition"), columns, wanted, until=until)
    return {(row["topic"], row["partition"]): row for row in last if row["end_offset"] is not None}


def _is_last(described: StoredRow, commit: StoredRow | None, seen: SeenPartition | None) -> bool:
    """Return whether neither the last commit nor the end in a metadata snapshot is later than a described commit."""
    times = [commit["observed_at"] if commit is not None else None, seen.observed_at if seen is not None else None]
    return all(time is None or time <= described["observed_at"] for time in times)


def _offsets(commit: StoredRow | None, seen: SeenPartition | None) -> PartitionOffsets | None:
    if commit is None and seen is None:
        return None
    committed = None if commit is None else commit["committed_offset"]
    if seen is None:
        return PartitionOffsets(committed, None, None, None)
    lag = None if commit is None else lag_at([commit], seen)
    return PartitionOffsets(committed, seen.end_offset, lag, seen.observed_at)


def _commits(tables: PublishedTables, key: GroupKey, until: Mapping[str, datetime | None]) -> dict[TopicPartition, StoredRow]:
    """Return the last commit of each partition up to a time for each topic."""
    topics_until: dict[datetime | None, list[str]] = defaultdict(list)
    for topic, moment in until.items():
        topics_until[moment].append(topic)
    found: dict[TopicPartition, StoredRow] = {}
    for moment, topics in topics_until.items():
        wanted = {**_named(key), "topic": topics}
        columns = ("observed_at", "topic_id", "committed_offset")
        for row in tables.newest("offset_snapshots", ("topic", "partition"), columns, wanted, until=moment):
            found[row["topic"], row["partition"]] = row
    return found


def _newest_findings(tables: PublishedTables, key: GroupKey) -> list[StoredRow]:
    return tables.newest("findings", ("rule_id", "severity"), (*_FINDING_COLUMNS, "evidence"), _named(key))


def _named(key: GroupKey) -> dict[str, list[str]]:
    return {"cluster_id": [key.cluster_id], "group_id": [key.group_id]}


def _of_group(key: GroupKey) -> dict[str, list[str]]:
    return {"basis": [str(Basis.OBSERVED)], **_named(key)}


def _moment(index: Sequence[StoredRow], at: datetime | time | None) -> datetime | None:
    """Return a moment; a time without a date is on the day of the newest generation, in UTC."""
    if isinstance(at, time):
        return datetime.combine(index[-1]["observed_at"].astimezone(timezone.utc).date(), at, timezone.utc)
    return at


def _choose(key: GroupKey, index: Sequence[StoredRow], generation: int | None, moment: datetime | None) -> int:
    """Return the number of a generation in the index.

    Raises:
        UsageError: there is no such generation.
    """
    if generation is not None:
        numbers = [number for number, row in enumerate(index) if row["generation"] == generation]
        if not numbers:
            known = sorted({row["generation"] for row in index}, key=lambda one: (abs(one - generation), one))[:NEAREST]
            listed = ", ".join(map(str, sorted(known)))
            raise UsageError(f"group {shown(key.group_id)}: generation {generation} is not stored, expected one such as {listed}")
        return numbers[-1]
    if moment is not None:
        numbers = [number for number, row in enumerate(index) if row["observed_at"] <= moment]
        if not numbers:
            first = min(row["observed_at"] for row in index)
            raise UsageError(
                f"group {shown(key.group_id)}: found no generation at or before {moment:%Y-%m-%d %H:%M:%S} UTC, "
                f"expected a time from {first:%Y-%m-%d %H:%M:%S} on"
            )
        return numbers[-1]
    return next((number for number in reversed(range(len(index))) if index[number]["member_count"]), len(index) - 1)
