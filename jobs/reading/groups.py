"""The newest settled generation of stored groups, chosen by name or pattern."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from assignors.generation.generation import Generation
from assignors.model import GroupProblem, Member, Topic, TopicPartition
from jobs.reading.deletions import read_deletions
from jobs.reading.names import is_pattern, listed, matching, no_group, no_match, only_commits, shown, spellings
from jobs.reading.stored import Client, GroupKey, StoredGeneration, empty_since
from jobs.runtime.errors import UsageError, WarehouseDamagedError
from schemas.keys import GROUP_KEY
from schemas.vocabulary import Basis, GroupType

if TYPE_CHECKING:
    from jobs.reading.published import Filter, PublishedTables, StoredRow

TOPIC_COLUMNS = ("cluster_id", "topics_hash", "topics")
"""The columns of ``generation_topics`` that make the topics of a generation."""


def read_groups(
    tables: PublishedTables, names: Sequence[str], *, every_group: bool = False, cluster_id: str | None = None
) -> list[StoredGeneration]:
    """Return groups by cluster and name, each with its newest settled generation that has members.

    A group without such a generation is left out where another one has it.

    Args:
        names: exact names, or shell patterns where no group is called so.
        every_group: all groups, whatever the names.
        cluster_id: the cluster of the groups; None for all clusters.

    Raises:
        UsageError: a name or pattern fits no group, or no group chosen has such a generation.
        WarehouseDamagedError: a table cannot be read, or lacks the snapshots of all these generations.
    """
    return read_named_groups(tables, names, every_group=every_group, cluster_id=cluster_id).groups


class ReadGroups(NamedTuple):
    """Groups with a settled generation that has members, by cluster and name, and why others that are named are not among them."""

    groups: list[StoredGeneration]
    refusals: list[UsageError]


def read_named_groups(
    tables: PublishedTables, names: Sequence[str], *, every_group: bool = False, cluster_id: str | None = None
) -> ReadGroups:
    """Return groups as ``read_groups`` does, and a refusal for each group with exactly one of the names that is left out.

    Raises:
        UsageError, WarehouseDamagedError: see ``read_groups``.
    """
    chosen = find_groups(tables, names, every_group=every_group, cluster_id=cluster_id)
    audits = _audits(tables, None if every_group else {key.group_id for key in chosen}, cluster_id)
    audits = {key: audits[key] for key in chosen}
    newest = {key: row for key, rows in audits.items() if (row := _newest_settled(rows)) is not None}
    refusals = [
        UsageError(f"group {shown(key.group_id)} of cluster {shown(key.cluster_id)}: {_without_members(rows)}")
        for key, rows in audits.items()
        if any(key.group_id in spellings(name) for name in names) and key not in newest
    ]
    if not newest:
        nothing = UsageError(f"groups {listed(names) or 'of the warehouse'}: none has a settled generation with members")
        raise refusals[0] if refusals else nothing
    snapshots, topics = _snapshots(tables, newest), read_topics(tables, newest.values())
    lost = sorted(newest.keys() - snapshots.keys())
    if len(lost) == len(newest):
        what = f"subscription_snapshots has no row of the audited generation of group {shown(lost[0].group_id)}"
        raise WarehouseDamagedError(f"warehouse {tables.folder}: table {what}; `verify` names what is damaged")
    newest_positions = {key: max(row["position"] for row in rows) for key, rows in audits.items()}
    deletions = read_deletions(tables, newest_positions, {"group_id": {key.group_id for key in audits}})
    ended = {key: deletion.at for key, deletion in deletions.items()}
    read = [_stored(key, newest[key], audits[key], snapshots[key], topics, ended.get(key)) for key in sorted(newest) if key in snapshots]
    return ReadGroups(read, refusals)


def find_groups(
    tables: PublishedTables, names: Sequence[str], *, every_group: bool = False, cluster_id: str | None = None
) -> dict[GroupKey, int]:
    """Return the groups that are asked for, by cluster and name, each with how many generations of it are stored.

    Args:
        names, every_group, cluster_id: see ``read_groups``.

    Raises:
        UsageError: a name or pattern fits no group, or there is no group at all.
        WarehouseDamagedError: a table cannot be read.
    """
    is_by_name = not every_group and not any(map(is_pattern, names))
    spelled = [spelling for name in names for spelling in spellings(name)]
    counts = _generation_counts(tables, spelled if is_by_name else None, cluster_id)
    if every_group:
        chosen = set(counts)
        if not chosen:
            raise no_group(cluster_id, clusters_of(tables))
    else:
        chosen = {key for name in names for key in _matching(name, counts, tables, cluster_id)}
    return {key: counts[key] for key in sorted(chosen)}


def clusters_of(tables: PublishedTables) -> set[str]:
    """Return the clusters that have groups.

    Raises:
        WarehouseDamagedError: a table cannot be read.
    """
    return {cluster_id for (cluster_id,) in tables.counts("generation_audits", ("cluster_id",), {"basis": [str(Basis.OBSERVED)]})}


def in_batches(groups: Mapping[GroupKey, int], most: int) -> Iterator[list[GroupKey]]:
    """Yield groups in their order, together so many that their counts are at most ``most``; a larger group comes alone."""
    batch: list[GroupKey] = []
    total = 0
    for key, count in groups.items():
        if batch and total + count > most:
            yield batch
            batch, total = [], 0
        batch.append(key)
        total += count
    if batch:
        yield batch


def _generation_counts(tables: PublishedTables, names: Collection[str] | None, cluster_id: str | None) -> dict[GroupKey, int]:
    wanted = {"basis": [str(Basis.OBSERVED)], **_of(names, cluster_id)}
    return {GroupKey(*key): count for key, count in tables.counts("generation_audits", GROUP_KEY, wanted).items()}


def _of(names: Collection[str] | None, cluster_id: str | None) -> dict[str, Collection[str]]:
    """Return the filter of groups by name and cluster; None for all."""
    by_name = {} if names is None else {"group_id": names}
    return by_name if cluster_id is None else {**by_name, "cluster_id": [cluster_id]}


def _audits(tables: PublishedTables, names: Collection[str] | None, cluster_id: str | None) -> dict[GroupKey, list[StoredRow]]:
    """Return the observed and recomputed audits of groups."""
    wanted: Filter = {"basis": [str(Basis.OBSERVED), str(Basis.RECOMPUTED)], **_of(names, cluster_id)}
    columns = ("cluster_id", "group_id", "position", "observed_at", "basis", "is_settled", "member_count", "topics_hash", "kafka_version")
    by_group: dict[GroupKey, list[StoredRow]] = defaultdict(list)
    for row in tables.rows("generation_audits", columns, wanted):
        by_group[GroupKey(row["cluster_id"], row["group_id"])].append(row)
    return by_group


def _matching(name: str, keys: Collection[GroupKey], tables: PublishedTables, cluster_id: str | None) -> set[GroupKey]:
    found = matching(name, keys)
    if found:
        return found
    if tables.counts("offset_snapshots", GROUP_KEY, _of(spellings(name), cluster_id)):
        raise only_commits(name)
    known = _generation_counts(tables, None, cluster_id)
    clusters = clusters_of(tables) if cluster_id is not None and not known else ()
    raise no_match(name, known, cluster_id, clusters)


def _newest_settled(rows: Iterable[StoredRow]) -> StoredRow | None:
    """Return the observed audit of the newest settled generation with members; None without one."""
    return max(
        (row for row in rows if row["basis"] == Basis.OBSERVED and row["is_settled"] and row["member_count"]),
        key=lambda row: int(row["position"]),
        default=None,
    )


def _snapshots(tables: PublishedTables, newest: Mapping[GroupKey, StoredRow]) -> dict[GroupKey, StoredRow]:
    columns = (
        "cluster_id",
        "group_id",
        "position",
        "generation",
        "group_type",
        "strategy",
        "members",
        "leader_client",
        "has_subscriptions",
    )
    wanted = {"group_id": {key.group_id for key in newest}, "position": {row["position"] for row in newest.values()}}
    rows = ((GroupKey(row["cluster_id"], row["group_id"]), row) for row in tables.rows("subscription_snapshots", columns, wanted))
    return {key: row for key, row in rows if key in newest and row["position"] == newest[key]["position"]}


def read_topics(tables: PublishedTables, audits: Iterable[StoredRow]) -> dict[tuple[str, str], list[StoredRow]]:
    """Return the topics of generations by cluster and ``topics_hash``.

    Args:
        audits: rows of ``generation_audits`` with their ``topics_hash``.
    """
    wanted = {"topics_hash": {row["topics_hash"] for row in audits} - {None}}
    return topics_by_hash(tables.rows("generation_topics", TOPIC_COLUMNS, wanted))


def topics_by_hash(rows: Iterable[StoredRow]) -> dict[tuple[str, str], list[StoredRow]]:
    """Return the topics of rows of ``generation_topics`` by cluster and ``topics_hash``."""
    return {(row["cluster_id"], row["topics_hash"]): row["topics"] for row in rows}


def _stored(
    key: GroupKey,
    audit: StoredRow,
    audits: Iterable[StoredRow],
    snapshot: StoredRow,
    topics_by_hash: Mapping[tuple[str, str], Iterable[StoredRow]],
    ended_at: datetime | None,
) -> StoredGeneration:
    observed = sorted((row for row in audits if row["basis"] == Basis.OBSERVED), key=lambda row: int(row["position"]))
    later = [row for row in observed if row["position"] > audit["position"]]
    recomputed = (row for row in audits if row["basis"] == Basis.RECOMPUTED and row["position"] == audit["position"])
    members = snapshot["members"]
    return StoredGeneration(
        key=key,
        observed_at=audit["observed_at"],
        until=later[0]["observed_at"] if later else ended_at,
        empty_since=empty_since(later),
        ended_at=ended_at,
        is_consumer_protocol=snapshot["group_type"] == GroupType.CONSUMER,
        generation=stored_generation(snapshot, topics_by_hash.get((key.cluster_id, audit["topics_hash"]), ())),
        clients={one["member_id"]: _client(one) for one in members},
        leader_client=snapshot["leader_client"],
        kafka_version=next((row["kafka_version"] for row in recomputed), None),
        has_subscriptions=snapshot["has_subscriptions"] is not False,
        is_protocol_known=snapshot["group_type"] is not None,
    )


def stored_generation(snapshot: StoredRow, topics: Iterable[StoredRow]) -> Generation:
    """Return the generation of a row of ``subscription_snapshots``.

    Args:
        topics: those of its ``topics_hash``; one without partitions does not exist.
    """
    known = {
        topic["topic"]: Topic(topic["partition_count"], _racks(topic["partition_racks"]), topic["topic_id"])
        for topic in topics
        if topic["partition_count"]
    }
    members = snapshot["members"]
    assignment = {member["member_id"]: _partitions(member["assigned"]) for member in members}
    return Generation(snapshot["generation"], snapshot["strategy"] or "", GroupProblem(known, tuple(map(_member, members))), assignment)


def _member(row: StoredRow) -> Member:
    return Member(
        row["member_id"],
        tuple(row["topics"] or ()),
        row["group_instance_id"],
        row["rack"],
        _partitions(row["owned"]),
        row["owned_generation"],
        row["user_data"],
    )


def _client(row: StoredRow) -> Client:
    return Client(row["client_id"], row["client_host"], row["session_timeout_ms"], row["subscription_version"])


def _partitions(entries: Iterable[StoredRow] | None) -> tuple[TopicPartition, ...]:
    return tuple((entry["topic"], partition) for entry in entries or () for partition in entry["partitions"])


def _racks(stored: Sequence[Sequence[str | None]] | None) -> tuple[tuple[str | None, ...], ...] | None:
    return None if stored is None else tuple(map(tuple, stored))


def _without_members(rows: Iterable[StoredRow]) -> str:
    observed = [row for row in rows if row["basis"] == Basis.OBSERVED]
    last = max(observed, key=lambda row: int(row["position"]), default=None)
    if last is None:
        return "found no generation, expected a settled one with members"
    state = "has no members" if not last["member_count"] else "still hands over partitions"
    newest = f"the newest, of {last['observed_at']:%Y-%m-%d %H:%M:%S} UTC, {state}"
    return f"found no settled generation with members among {len(observed)}; {newest}"
