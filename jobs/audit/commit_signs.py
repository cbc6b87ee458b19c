"""What the last commits of a group show about its newest generation, resolved by workers.

A worker reads the newest generation of a group, its assignment, and the last commit of each partition. Commits come packed by topic: what
a row costs on its way to a worker is much more than what a number in it does. Some of what the worker sees is a finding only together with
metadata snapshots or with records of the group. These are read for few groups, see ``commit_facts``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from math import floor
from operator import itemgetter
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from assignors.model import TopicPartition
from jobs.audit.commit_expiry import HOUR_MS, Expiry, LastCommit
from jobs.findings.commits import LEAST_GROWTH_MS
from jobs.storage.hashed_keys import hashed
from jobs.workers.batches import Batches, to_batches
from jobs.workers.guard import Guard, WorkerLimits
from jobs.workers.partitions import keep_together
from schemas.computed_row_types import CommitSignsRow
from schemas.keys import GROUP_KEY
from schemas.staging import COMMIT_SIGNS

COMMIT_INTERVALS = 5
"""How many of its own mean intervals between commits a member must be silent. One batch may take longer than the others."""
GROWTH_WINDOW_MS = 24 * HOUR_MS
"""How far back metadata snapshots are compared: one day before the last record, even if the generation is a year old."""
NO_PARTITION = -1
"""The log of records that are in no partition of ``__consumer_offsets``."""

GENERATION_FIELDS = (
    *("position", "source", "member_count", "has_subscriptions", "subscribed", "log", "is_open", "rebalance_timeout_ms"),
    *("generation", "observed_us", "emptied_us", "clients"),
)
_COMMIT_FIELDS = (
    *("partition", "is_last", "is_deleted", "observed_us", "first_commit_us", "commit_count"),
    *("committed_offset", "committed_us", "expires_us"),
)
"""The fields of a stored commit that a worker reads."""
LogKey = tuple[str, str, int]


@dataclass(frozen=True)
class KnownMoments:
    """Up to when all commits are known, and the newest moments: plain values, because every task carries them. Times are in microseconds.

    Attributes:
        committed_until: (cluster id, source, log) -> time of the last commit there.
        source_until: (cluster id, source) -> time of the last commit there.
        read_until: (cluster id, log) -> time of the last metadata snapshot up to whose end of the log all records have landed. If everybody
            in a log is silent, there is no later commit.
        newest: cluster id -> time of the newest generation, commit or metadata snapshot. Lines of logs do not count: they have the clocks
            of brokers.
        recorded_until: cluster id -> time of the last commit in a partition of ``__consumer_offsets``; deletions do not count.
        looks_ms: cluster id -> times of all its metadata snapshots in milliseconds, ascending.
    """

    committed_until: Mapping[LogKey, int]
    source_until: Mapping[tuple[str, str], int]
    read_until: Mapping[tuple[str, int], int]
    newest: Mapping[str, int]
    recorded_until: Mapping[str, int]
    looks_ms: Mapping[str, Sequence[int]]

    def known_until_ms(self, log: LogKey) -> int | None:
        """Return up to when all commits of a log are known; None without a commit."""
        last = self.committed_until.get(log)
        return None if last is None else max(last, self.read_until.get((log[0], log[2]), last)) // 1_000

    def can_count(self, cluster_id: str, since_us: int, until_us: int) -> bool:
        """Return whether metadata snapshots may show that records came in between two times: it takes two of them.

        >>> moments = KnownMoments({}, {}, {}, {}, {}, {"c": [1, 5, 9]})
        >>> moments.can_count("c", 1_700, 5_000), moments.can_count("c", 1_700, 4_999), moments.can_count("other", 0, 9_000)
        (True, False, False)
        """
        times = self.looks_ms.get(cluster_id, ())
        return bisect_right(times, until_us // 1_000) - bisect_left(times, since_us // 1_000) >= 2


@dataclass
class _Member:
    """What is known of the commits for a member's partitions."""

    partitions: list[TopicPartition] = field(default_factory=list)
    is_committed: bool = False
    last_ms: int | None = None
    interval_ms: int | None = None


def log_of(offsets_partition: Column) -> Column:
    """Return the number of the log of a record; records in no partition of ``__consumer_offsets`` are in one log a cluster and source."""
    return F.coalesce(offsets_partition, F.lit(NO_PARTITION))


def sign_rows(generations: DataFrame, assignments: DataFrame, last: DataFrame) -> DataFrame:
    """Return the rows of ``read_signs``: those of a group come in one partition, its generation first.

    Args:
        generations: as ``commit_findings.newest_generations`` returns them.
        assignments: observed ones of these generations.
        last: as ``read_last_commits`` returns them.
    """
    of_generation = {
        "log": log_of(F.col("offsets_partition")),
        "observed_us": F.unix_micros("observed_at"),
        "emptied_us": F.unix_micros("emptied_at"),
    }

    def packed(rows: DataFrame, order: int, name: str, fields: Iterable[str], columns: Mapping[str, Column]) -> DataFrame:
        content = F.struct(*[columns.get(one, F.col(one)).alias(one) for one in fields])
        return rows.select(*GROUP_KEY, F.lit(order).alias("row_order"), content.alias(name))

    parts = (
        packed(generations, 0, "generation", GENERATION_FIELDS, of_generation),
        packed(assignments, 1, "held", ("member_id", "partitions"), {}),
        packed(last, 2, "last", ("topic", "commits"), {"commits": F.transform("commits", _needed)}),
    )
    rows = parts[0].unionByName(parts[1], allowMissingColumns=True).unionByName(parts[2], allowMissingColumns=True)
    return keep_together(rows, *GROUP_KEY).sortWithinPartitions(*hashed(*GROUP_KEY), "row_order")


def _needed(commit: Column) -> Column:
    return F.struct(*[commit[name].alias(name) for name in _COMMIT_FIELDS])


def read_signs(batches: Batches, moments: KnownMoments, retention_hours: int, limits: WorkerLimits) -> Batches:
    """Yield the groups in rows of ``sign_rows`` that may have a finding, as rows of ``COMMIT_SIGNS``.

    Args:
        retention_hours: how long brokers are taken to keep commits that nobody uses.
        limits: limits of a worker.

    Raises:
        GroupFailedError: any unexpected error, with its cluster and group.
    """

    def rows(guard: Guard) -> Iterator[CommitSignsRow]:
        for (cluster_id, group_id), of_group in groupby(_rows(batches), key=itemgetter(0)):

            def signs(given: Iterable[Any], cluster_id: str = cluster_id, group_id: str = group_id) -> Iterator[CommitSignsRow]:
                yield from _signs_of_group(cluster_id, group_id, iter(given), moments, retention_hours * HOUR_MS)

            yield from guard.compute(f"cluster {cluster_id}, group {group_id}", map(itemgetter(1), of_group), signs)

    with Guard(limits) as guard:
        yield from to_batches(rows(guard), to_arrow_schema(COMMIT_SIGNS), 2_000)


def _rows(batches: Batches) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield the key of a group and a row of it: a dictionary for generations and for assignments, a list of ``LastCommit`` for a topic."""
    for batch in batches:
        keys = zip(*(batch.column(name).to_pylist() for name in GROUP_KEY), strict=True)
        generations, held = (batch.column(name).to_pylist() for name in ("generation", "held"))
        for key, generation, of_member, commits in zip(keys, generations, held, _commits_of(batch.column("last")), strict=True):
            yield key, generation or of_member or commits


def _commits_of(topics: Any) -> Iterator[list[LastCommit]]:
    """Yield the last commit of each partition in each row; none where the row has no topic.

    Args:
        topics: the Arrow array of the column ``last``.
    """
    names, lists = topics.field("topic").to_pylist(), topics.field("commits")
    counts = lists.value_lengths().fill_null(0).to_pylist()
    columns = [column.to_pylist() for column in lists.flatten().flatten()]
    fields = zip(*columns, strict=True)
    for name, count in zip(names, counts, strict=True):
        yield list(_last_of(name, islice(fields, count)))


def _last_of(topic: str, commits: Iterable[Any]) -> Iterator[LastCommit]:
    """Yield the last commit of each partition; its first time and count are of the commits of all sources."""
    first_us, total = None, 0
    for partition, is_last, is_deleted, commit_us, first_commit_us, commit_count, *others in commits:
        total += commit_count
        if first_us is None or (first_commit_us is not None and first_commit_us < first_us):
            first_us = first_commit_us
        if is_last:
            yield LastCommit(topic, partition, is_deleted, commit_us, first_us, total, *others)
            first_us, total = None, 0


def _signs_of_group(
    cluster_id: str, group_id: str, rows: Iterator[Any], moments: KnownMoments, retention_ms: int
) -> Iterator[CommitSignsRow]:
    generation = next(rows)
    if isinstance(generation, list):
        return  # a group with commits that is not audited
    members: dict[str, _Member] = {}
    commits: list[LastCommit] = []
    for row in rows:
        if isinstance(row, list):
            commits.extend(row)
        else:
            partitions = [(entry["topic"], number) for entry in row["partitions"] for number in entry["partitions"]]
            members.setdefault(row["member_id"], _Member()).partitions.extend(partitions)
    _add_commits(members, commits)
    log = (cluster_id, generation["source"], generation["log"])
    can_count = partial(moments.can_count, cluster_id)
    waiting = list(_stopped(generation, members, commits, moments.known_until_ms(log), can_count))
    waiting += _never_committed(generation, members, moments.source_until.get((cluster_id, generation["source"])), can_count)
    expiring = Expiry(generation, moments.newest[cluster_id] // 1_000, retention_ms)
    asks = expiring.asks_for_deletion(commits)
    waited_ms = _overdue_ms(generation, moments.committed_until.get(log))
    signs = {
        "unsubscribed": _unsubscribed(generation, commits) or None,
        "waiting": waiting or None,
        "waited_ms": waited_ms,
        "expiring": expiring.by_topic(commits, is_deleted_group=False),
        "expiring_if_deleted": expiring.by_topic(commits, is_deleted_group=True) if asks else None,
    }
    if any(value is not None for value in signs.values()):
        of_generation = {
            "cluster_id": cluster_id,
            "group_id": group_id,
            **{name: generation[name] for name in ("generation", "position", "member_count", "rebalance_timeout_ms")},
            "observed_at_ms": generation["observed_us"] // 1_000,
            "clients": generation["clients"] if waiting or waited_ms is not None else None,
            "waiting_topics": _topics_of(waiting) or None,
            "asks_for_deletion": asks,
        }
        yield cast(CommitSignsRow, {**of_generation, **signs})


def _topics_of(waiting: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the topics of partitions, each with the earliest time since which records count."""
    since: dict[str, int] = {}
    for one in waiting:
        since[one["topic"]] = min(since.get(one["topic"], one["since_us"]), one["since_us"])
    return [{"topic": topic, "since_us": since_us} for topic, since_us in since.items()]


def _add_commits(members: Mapping[str, _Member], commits: Iterable[LastCommit]) -> None:
    """Add to each member what the commits of its partitions show."""
    owners: dict[TopicPartition, list[_Member]] = {}
    for member in members.values():
        for partition in dict.fromkeys(member.partitions):
            owners.setdefault(partition, []).append(member)
    for commit in commits:
        for member in owners.get((commit.topic, commit.partition), ()):
            member.is_committed = True  # a deletion says so too
            if not commit.is_deleted:
                member.last_ms = max(member.last_ms or 0, commit.commit_us // 1_000)
                interval_ms = _interval_ms(commit)
                if interval_ms is not None:
                    member.interval_ms = interval_ms if member.interval_ms is None else min(member.interval_ms, interval_ms)


def _interval_ms(commit: LastCommit) -> int | None:
    """Return the mean time between the commits of a partition; None if there is only one."""
    if commit.first_commit_us is None or commit.commit_count < 2:
        return None
    span_ms = commit.commit_us // 1_000 - commit.first_commit_us // 1_000
    return floor(span_ms / (commit.commit_count - 1)) if span_ms > 0 else None


def _stopped(
    generation: Mapping[str, Any],
    members: Mapping[str, _Member],
    commits: Iterable[LastCommit],
    until_ms: int | None,
    can_count: Callable[[int, int], bool],
) -> Iterator[dict[str, Any]]:
    """Yield the partitions of members of which no partition has been committed for too long, if it can be known that records came in.

    A commit does not say which member made it. So a member is taken to be silent since the last commit of any of its partitions, or since
    its generation began, if that is later. One that calls poll less often than its rebalance timeout says leaves the group.
    """
    stopped: dict[str, tuple[int, int]] = {}
    for member_id, member in members.items():
        if member.interval_ms is None or until_ms is None:
            continue
        since_ms = max(member.last_ms or 0, generation["observed_us"] // 1_000)
        wait_ms = max(generation["rebalance_timeout_ms"], member.interval_ms * COMMIT_INTERVALS)
        if until_ms - since_ms > wait_ms and can_count(since_ms * 1_000, (until_ms - wait_ms) * 1_000):
            stopped[member_id] = since_ms, until_ms - wait_ms
    if stopped:
        offsets = {(commit.topic, commit.partition): commit.committed_offset for commit in commits if not commit.is_deleted}
        for member_id, (since_ms, end_ms) in stopped.items():
            for topic, partition in dict.fromkeys(members[member_id].partitions):
                times = {"since_us": since_ms * 1_000, "until_us": end_ms * 1_000, "silent_ms": cast(int, until_ms) - since_ms}
                offset = offsets.get((topic, partition))
                yield {
                    "member_id": member_id,
                    "topic": topic,
                    "partition": partition,
                    "committed_offset": offset,
                    "is_stopped": True,
                    **times,
                }


def _never_committed(
    generation: Mapping[str, Any], members: Mapping[str, _Member], last_us: int | None, can_count: Callable[[int, int], bool]
) -> Iterator[dict[str, Any]]:
    """Yield the partitions of members for whose partitions the group never committed an offset, if it can be known that records came in.

    Only the time up to the last commit of the group's source counts, because metadata snapshots may continue after the records end.
    """
    until_us = None if last_us is None else last_us - LEAST_GROWTH_MS * 1_000
    if until_us is None or generation["observed_us"] >= until_us:
        return
    since_us = max(generation["observed_us"], until_us - GROWTH_WINDOW_MS * 1_000)
    if not can_count(since_us, until_us):
        return
    for member_id, member in members.items():
        if not member.is_committed:
            for topic, partition in dict.fromkeys(member.partitions):
                times = {"since_us": since_us, "until_us": until_us}
                yield {"member_id": member_id, "topic": topic, "partition": partition, "is_stopped": False, **times}


def _unsubscribed(generation: Mapping[str, Any], commits: Iterable[LastCommit]) -> list[dict[str, Any]]:
    """Return the topics with commits that are not deleted, and to which no member subscribes, by name.

    There are none in groups without members, or without subscriptions in their source.
    """
    if not generation["member_count"] or not generation["has_subscriptions"]:
        return []
    newest: dict[str, int] = {}
    for commit in commits:
        if not commit.is_deleted:
            newest[commit.topic] = max(newest.get(commit.topic, commit.commit_us), commit.commit_us)
    stray = newest.keys() - set(generation["subscribed"])
    return [{"topic": topic, "is_recent": newest[topic] > generation["observed_us"]} for topic in sorted(stray)]


def _overdue_ms(generation: Mapping[str, Any], committed_until_us: int | None) -> int | None:
    """Return for how long a target has been open, if that is longer than the longest rebalance timeout of the members; else None.

    The time counts up to the last commit in the same partition of ``__consumer_offsets``: other partitions may have been read for longer.
    """
    if not generation["is_open"] or committed_until_us is None:
        return None
    waited_ms = committed_until_us // 1_000 - generation["observed_us"] // 1_000
    return waited_ms if waited_ms > generation["rebalance_timeout_ms"] else None
