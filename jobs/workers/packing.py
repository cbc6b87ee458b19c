"""Snapshots as chunks of parallel arrays for workers, and back.

Arrays are flat: a count gives the number of values that belong to a generation, a member or a topic. Nested structs cost the workers
several times as much to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, repeat, zip_longest
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from assignors.audit.audit import AuditedGeneration, AuditedSolution
from assignors.audit.passages import participants_of
from assignors.audit.triggers import Evidence
from assignors.generation.generation import SERVER_SIDE
from assignors.generation.holdings import Holdings
from assignors.model import Assignment, GroupProblem, Member, Topic, TopicPartition
from assignors.replay.conformance import Conformance
from assignors.replay.steps import CARRIED, OBSERVED, RECOMPUTED, SOLVED, Snapshot
from assignors.replay.topic_metadata import TopicRun
from jobs.workers.holdings_column import TornHoldingsError, pack_holdings, unpack_holdings
from schemas.computed_row_types import StoredSnapshot, StoredSolution, StoredTopics
from schemas.keys import GROUP_KEY
from schemas.vocabulary import GroupType

GENERATION_FIELDS = (
    "position",
    "generation",
    "observed_at_ms",
    "joined_at_ms",
    "incarnation",
    "strategy",
    "leader_member_id",
    "is_conversion",
    "has_subscriptions",
    "is_generation_inferred",
    "batched_epoch_count",
    "member_count",
)
MEMBER_FIELDS = (
    "member_id",
    "group_instance_id",
    "client_id",
    "rack",
    "subscription_version",
    "owned_generation",
    "user_data",
    "client_host",
)
NULLABLE_NUMBERS = ("subscription_version", "owned_generation")
ABSENT = -1
SNAPSHOT_FIELDS = (
    *GENERATION_FIELDS,
    *(f"members_{name}" for name in MEMBER_FIELDS),
    "members_topics_count",
    "topics",
    *(f"{name}{part}" for name in ("owned", "assigned") for part in ("_entry_counts", "_topics", "_counts", "_partitions")),
)
"""Columns of a packed chunk with its snapshots; one value per generation, member, list entry or partition."""


def flatten_snapshots(snapshots: DataFrame, *others: str) -> DataFrame:
    """Return one row per snapshot with its members as parallel arrays, and the other named columns."""
    member = F.col("members")
    columns: dict[str, Column] = {
        "observed_at_ms": F.unix_millis("observed_at"),
        "joined_at_ms": F.coalesce(F.unix_millis("joined_at"), F.unix_millis("observed_at")),
        "member_count": F.size("members"),
        "has_subscriptions": F.coalesce("has_subscriptions", F.lit(True)),  # older rows have a null
        "is_generation_inferred": F.coalesce("is_generation_inferred", F.lit(False)),
        "batched_epoch_count": F.coalesce("batched_epoch_count", F.lit(0)),
        **{f"members_{name}": member[name] for name in MEMBER_FIELDS},
        # A null among integers would turn all values of a numpy array into floats.
        **{f"members_{name}": F.transform(member[name], lambda number: F.coalesce(number, F.lit(ABSENT))) for name in NULLABLE_NUMBERS},
        "members_topics_count": F.transform(member["topics"], F.size),
        "topics": F.flatten(member["topics"]),
    }
    for name in ("owned", "assigned"):
        entries = F.flatten(member[name])
        columns[f"{name}_entry_counts"] = F.transform(member[name], F.size)
        columns[f"{name}_topics"] = entries["topic"]
        columns[f"{name}_counts"] = F.transform(entries["partitions"], F.size)
        columns[f"{name}_partitions"] = F.flatten(entries["partitions"])
    return snapshots.withColumns(columns).select(*GROUP_KEY, *SNAPSHOT_FIELDS, *others)


def pack_chunks(snapshots: DataFrame, max_generations: int, max_bytes: int) -> DataFrame:
    """Return one row per chunk: consecutive snapshots of one group, at most ``max_generations`` and about ``max_bytes``.

    Rows: (cluster_id, group_id, chunk); ``ordinal`` counts the group's snapshots before the chunk. A worker keeps the open group from row
    to row.
    """
    in_order = Window.partitionBy(*GROUP_KEY).orderBy("position")
    size = 64 + F.size("members_member_id") * 200 + (F.size("topics") + F.size("owned_topics") + F.size("assigned_topics")) * 40
    size = size + (F.size("owned_partitions") + F.size("assigned_partitions")) * 4
    numbered = (
        flatten_snapshots(snapshots)
        .repartition(*GROUP_KEY)
        .withColumns({"ordinal": F.row_number().over(in_order) - 1, "bytes_before": F.sum(size).over(in_order) - size})
        .withColumn("chunk", F.floor(F.col("ordinal") / max_generations) + F.floor(F.col("bytes_before") / max_bytes))
    )
    rows = F.sort_array(F.collect_list(F.struct("ordinal", *SNAPSHOT_FIELDS)))
    chunks = numbered.groupBy(*GROUP_KEY, "chunk").agg(rows.alias("rows"))
    return chunks.select(
        *GROUP_KEY,
        "chunk",
        F.col("rows")["ordinal"][0].alias("ordinal"),
        *[F.col("rows")[name].alias(name) for name in GENERATION_FIELDS],
        *[F.flatten(F.col("rows")[name]).alias(name) for name in SNAPSHOT_FIELDS if name not in GENERATION_FIELDS],
    )


def topic_runs(looks: DataFrame) -> DataFrame:
    """Return one row per topic and run of consecutive metadata snapshots in which the topic is unchanged.

    Rows: (cluster_id, topic, first_look). Metadata snapshots are numbered by time over the whole cluster, so that a gap is one without the
    topic.
    """
    times = looks.select("cluster_id", "observed_at").distinct()
    numbered = times.withColumn("number", F.row_number().over(Window.partitionBy("cluster_id").orderBy("observed_at")) - 1)
    content = looks.select(
        "cluster_id", "topic", "observed_at", "topic_id", "partition_count", F.to_json("partitions.replica_racks").alias("racks")
    ).join(numbered, ["cluster_id", "observed_at"])
    by_time = Window.partitionBy("cluster_id", "topic").orderBy("number")
    same = [F.lag(name).over(by_time).eqNullSafe(F.col(name)) for name in ("topic_id", "partition_count", "racks")]
    follows = (F.lag("number").over(by_time) == F.col("number") - 1) & same[0] & same[1] & same[2]
    marked = content.withColumn("start", F.when(~F.coalesce(follows, F.lit(False)), F.col("number")))
    runs = marked.withColumn("first_look", F.last("start", ignorenulls=True).over(by_time))
    return runs.groupBy("cluster_id", "topic", "first_look").agg(
        F.max("number").alias("last_look"), *[F.first(name).alias(name) for name in ("topic_id", "partition_count", "racks")]
    )


RUN_FIELDS = ("topic", "first_look", "last_look", "partition_count", "topic_id", "racks")


def runs_by_group(snapshots: DataFrame, runs: DataFrame, held_before: DataFrame | None = None) -> DataFrame:
    """Return one row per group with the runs of all topics that its snapshots name, as parallel arrays ``run_*``.

    Args:
        held_before: (cluster_id, group_id, topics) held in the generation before the snapshots; None if there is none.
    """
    entries = F.flatten(F.col("members.assigned"))
    names = F.array_union(F.flatten(F.col("members.topics")), entries["topic"])
    topics = snapshots.select(*GROUP_KEY, F.explode(names).alias("topic"))
    if held_before is not None:
        topics = topics.unionByName(held_before.select(*GROUP_KEY, F.explode("topics").alias("topic")))
    topics = topics.distinct()
    rows = F.sort_array(F.collect_list(F.struct(*RUN_FIELDS)))
    packed = topics.join(runs, ["cluster_id", "topic"]).groupBy(*GROUP_KEY).agg(rows.alias("runs"))
    return packed.select(*GROUP_KEY, *[F.col("runs")[name].alias(f"run_{name}") for name in RUN_FIELDS])


def unpack_snapshots(chunk: Mapping[str, Sequence[Any]]) -> Iterator[tuple[Snapshot, int]]:
    """Yield each snapshot of a chunk, with the time of its record in milliseconds."""
    members = zip(
        *(iter(_values(chunk[f"members_{name}"])) for name in MEMBER_FIELDS),
        _lists(chunk["members_topics_count"], chunk["topics"]),
        _partition_lists(chunk, "owned"),
        _partition_lists(chunk, "assigned"),
        strict=True,
    )
    generations = zip(*(_values(chunk[name]) for name in GENERATION_FIELDS), strict=True)
    for position, generation, observed_at_ms, joined_at_ms, incarnation, strategy, leader, *flags, count in generations:
        is_conversion, has_subscriptions, is_generation_inferred, batched_epoch_count = flags
        rows = [next(members) for _ in range(count)]
        yield (
            Snapshot(
                position,
                generation,
                joined_at_ms,
                incarnation,
                strategy,
                leader,
                is_conversion,
                tuple(
                    Member(member_id, topics, instance_id, rack, owned, owned_generation, user_data)
                    for member_id, instance_id, _, rack, _, owned_generation, user_data, _, topics, owned, _ in rows
                ),
                {row[0]: row[10] for row in rows},
                {row[0]: row[4] for row in rows},
                {row[0]: row[2] for row in rows},
                has_subscriptions,
                is_generation_inferred,
                batched_epoch_count,
                {row[0]: row[7] for row in rows},
            ),
            observed_at_ms,
        )


def unpack_snapshot_row(row: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot in one row of ``flatten_snapshots``."""
    chunk = {**row, **{name: [row[name]] for name in GENERATION_FIELDS}}
    return next(unpack_snapshots(chunk))[0]


def unpack_generation(stored: StoredSnapshot, snapshot: Snapshot, solved: Sequence[StoredSolution]) -> AuditedGeneration:
    """Return a snapshot with its stored solutions, in their order.

    Args:
        stored: row of the snapshot, with columns that a replay does not need.
        solved: rows of its solutions; the observed one has the topics.

    Raises:
        TornHoldingsError: the holdings of a solution are missing or cannot be read.
    """
    observed = next(row for row in solved if row["basis"] == OBSERVED)
    topics = unpack_topics(observed)
    # For uncertain topics no metadata snapshot shows that they are gone.
    gone = [name for name in observed["topic_topic"] if name not in topics and name not in observed["uncertain_topics"]]
    problem = GroupProblem(topics, snapshot.members)
    held = _held(solved, [member.member_id for member in snapshot.members], observed["topic_topic"])
    return AuditedGeneration(
        snapshot.generation,
        snapshot.incarnation,
        problem,
        gone,
        owned_partitions_known(snapshot),
        observed["has_predecessor"],
        observed["is_rewrite"],
        observed["is_follow_up"],
        _evidence(stored, snapshot, observed, problem, gone),
        [
            AuditedSolution(row["basis"], row["strategy"], assignment, row["cooperative_revocation_count"])
            for row, assignment in zip(solved, held, strict=True)
        ],
        snapshot.batched_epoch_count,
    )


def topic_columns() -> tuple[Column, ...]:
    """Return the columns of ``generation_topics`` that ``unpack_topics`` reads."""
    names = (F.col("topics")[name].alias(f"topic_{name}") for name in ("topic", "topic_id", "partition_count"))
    return (*names, F.to_json(F.col("topics")["partition_racks"]).alias("topic_racks"))


def unpack_topics(row: StoredTopics) -> dict[str, Topic]:
    """Return the topics in a row that has ``topic_columns``, but those without partitions: these do not exist."""
    racks = _racks_by_topic(row["topic_racks"]) if row["topic_racks"] else ()
    topics = zip_longest(row["topic_topic"], row["topic_topic_id"], row["topic_partition_count"], racks)
    return {name: Topic(count, partition_racks, topic_id) for name, topic_id, count, partition_racks in topics if count}


@lru_cache(maxsize=1)
def _racks_by_topic(text: str) -> tuple[tuple[tuple[str | None, ...], ...] | None, ...]:
    """Return the racks of each topic's partitions; most generations share those of the generation before."""
    return tuple(None if racks is None else tuple(map(tuple, racks)) for racks in json.loads(text))


def _held(solved: Iterable[StoredSolution], member_ids: Sequence[str], listed_topics: Sequence[str]) -> Iterator[Holdings | None]:
    """Yield the holdings of each solution, None if it has no result; equal solutions share one object."""
    known: dict[bytes, Holdings] = {}
    for row in solved:
        packed = row["holdings"] if row["status"] in (SOLVED, CARRIED) else None
        if packed is None and row["status"] in (SOLVED, CARRIED):
            raise TornHoldingsError(f"{row['basis']} {row['strategy']}: expected solutions.holdings for status {row['status']}, found null")
        if packed is not None and packed not in known:
            known[packed] = unpack_holdings(packed, member_ids, listed_topics)
        yield None if packed is None else known[packed]


def owned_partitions_known(snapshot: Snapshot) -> bool:
    """Return whether members without claims are known to have given up their partitions."""
    versions = snapshot.subscription_versions.values()
    return not snapshot.is_poll and (snapshot.strategy in SERVER_SIDE or all((version or 0) >= 1 for version in versions))


def _evidence(stored: StoredSnapshot, snapshot: Snapshot, observed: StoredSolution, problem: GroupProblem, gone: Iterable[str]) -> Evidence:
    topics = {**problem.topics, **dict.fromkeys(gone, Topic(0))}
    return Evidence(
        snapshot.generation,
        stored["observed_at_ms"],
        stored["group_type"] == str(GroupType.CONSUMER),
        snapshot.is_conversion,
        snapshot.is_poll,
        observed["is_follow_up"],
        snapshot.has_subscriptions,
        snapshot.strategy,
        participants_of(snapshot),
        {name: topic for name, topic in topics.items() if name not in observed["uncertain_topics"]},
        observed["is_rewrite"],
    )


def unpack_runs(row: Mapping[str, Any]) -> dict[str, list[TopicRun]]:
    """Return the runs of each topic in a packed row; empty if the group's topics are in no metadata snapshot."""
    by_topic: dict[str, list[TopicRun]] = {}
    if row["run_topic"] is None:
        return by_topic
    columns = (_values(row[f"run_{name}"]) for name in RUN_FIELDS)
    for topic, first_look, last_look, partition_count, topic_id, racks in zip(*columns, strict=True):
        partition_racks = tuple(map(tuple, json.loads(racks))) if racks else None
        by_topic.setdefault(topic, []).append(TopicRun(first_look, last_look, partition_count, topic_id, partition_racks))
    return by_topic


def _values(column: Sequence[Any]) -> Sequence[Any]:
    """Return a column of a pandas row as plain Python values, since Spark passes numpy arrays."""
    return column.tolist() if hasattr(column, "tolist") else column


def _lists(counts: Sequence[int], values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    at, plain = 0, _values(values)
    for count in _values(counts):
        yield tuple(plain[at : at + count])
        at += count


def _partition_lists(chunk: Mapping[str, Any], name: str) -> Iterator[tuple[TopicPartition, ...]]:
    lists = zip(_values(chunk[f"{name}_topics"]), _lists(chunk[f"{name}_counts"], chunk[f"{name}_partitions"]), strict=True)
    entries = (zip(repeat(topic), numbers) for topic, numbers in lists)
    counts = _values(chunk[f"{name}_entry_counts"])
    if sum(counts) != len(chunk[f"{name}_topics"]):
        raise ValueError(f"found {len(chunk[f'{name}_topics'])} topics of {name} partitions, expected {sum(counts)}")
    for count in counts:
        yield tuple(chain.from_iterable(islice(entries, count)))


Grouped = tuple[list[str], list[list[int]]]
"""Topics, and the partitions of each topic."""


def group_by_topic(held: Iterable[TopicPartition]) -> Grouped:
    """Return partitions as tables store them: topics by first appearance, and the partitions of each in list order."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in held:
        by_topic.setdefault(topic, []).append(partition)
    return list(by_topic), list(by_topic.values())


class AssignmentPacker:
    """Packs the assignments of one generation. Strategies often give the same assignment, and each distinct one is packed once.

    Args:
        member_ids: in the order of the snapshot.
        listed_topics: the topics of the generation, in the order of ``generation_topics``.
    """

    def __init__(self, member_ids: Sequence[str], listed_topics: Sequence[str]) -> None:
        self._member_ids = member_ids
        self._listed_topics = listed_topics
        self._packed: list[tuple[Assignment, list[Grouped], bytes]] = []

    def pack(self, assignment: Assignment) -> tuple[list[Grouped], bytes]:
        """Return the partitions of each member by topic, and the same as bytes."""
        for known, grouped, holdings in self._packed:
            if known == assignment:
                return grouped, holdings
        grouped = [group_by_topic(assignment.get(member_id, ())) for member_id in self._member_ids]
        holdings = pack_holdings(grouped, self._listed_topics)
        self._packed.append((assignment, grouped, holdings))
        return grouped, holdings


def is_fact_of_its_own(basis: str, conformance: str | None) -> bool:
    """Return whether a solution always has rows of ``assignments``: observed, or recomputed and not exactly the observed one."""
    return basis == OBSERVED or (basis == RECOMPUTED and conformance != Conformance.EXACT.value)
