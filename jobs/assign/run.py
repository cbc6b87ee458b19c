"""The stage ``assign``: snapshots and topic metadata -> ``assignments``, ``solutions``, ``generation_topics``, ``group_states``.

Incremental: a group continues from the newest state before its newly landed snapshots. That is the state after the last run or, for a late
arrival, a checkpoint. Groups without new snapshots or new topic metadata do not change.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.assign import expansion, udfs
from jobs.context import RunContext, StageResult
from jobs.storage.derived_results import forget_unnamed_topics, results_of
from jobs.storage.generation_work import work_by_bucket
from jobs.storage.last_commits import forget_last_commits
from jobs.storage.scratch import StagedKeys
from jobs.storage.solution_rows import explode_members
from jobs.storage.table_changes import apply_changes
from jobs.storage.topic_changes import changed_topics, looks_with_news, topics_at
from jobs.storage.warehouse import Warehouse
from jobs.workers.packing import pack_chunks, runs_by_group, topic_runs
from jobs.workers.partitions import MANY_GENERATIONS, spread_groups
from schemas.computed_row_types import RowKind
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.staging import SOLVED_ROWS
from schemas.tables import ASSIGNMENTS, GENERATION_TOPICS, GROUP_RECORDS, GROUP_STATES, SOLUTIONS, SUBSCRIPTION_SNAPSHOTS, TOPIC_SNAPSHOTS
from schemas.tables.columns import PARTITION_RACKS
from schemas.vocabulary import Basis, TopicBasis
from schemas.wire.keys import CLASSIC_GROUP_METADATA

logger = logging.getLogger(__name__)

expand = expansion.run
"""The function of ``--expand``."""

BEFORE_ALL = -1
"""A position before all others."""


def _shown_to_leaders() -> Column:
    """Return the topic metadata that an assignor reads, as one text."""
    return F.to_json(F.struct("topic_id", "partition_count", "partitions.replica_racks"))


def topics_seen_first(looks: DataFrame, consumed: int) -> DataFrame:
    """Return (cluster_id, topic) of the topics that are only in metadata snapshots newer than ``consumed``."""
    first = looks.groupBy("cluster_id", "topic").agg(F.min("run_sequence").alias("first_sequence"))
    return first.where(F.col("first_sequence") > consumed).select("cluster_id", "topic")


def snapshots_near_new_metadata(context: RunContext, snapshots: DataFrame, consumed: int) -> DataFrame:
    """Return the snapshots whose topics may be resolved differently because of metadata snapshots newer than ``consumed``.

    A snapshot is resolved from the metadata snapshots next to it in time. So a new one does not affect snapshots that are older than the
    metadata snapshot before it. Nor does it affect a snapshot if each of its topics is the same in all metadata snapshots from the second
    last before it on, and was so before the new rows. A topic that was in none, and so was inferred, is now resolved wherever it is named.
    Rows: (cluster_id, group_id, position).
    """
    warehouse, times_ms = context.warehouse, context.metadata_index.times_ms
    looks, solutions, topics = (warehouse.read(spec.name) for spec in (TOPIC_SNAPSHOTS, SOLUTIONS, GENERATION_TOPICS))
    first_ms, known_ms = F.min("at_ms").alias("first_ms"), F.collect_list(F.when(F.col("is_known"), F.col("at_ms"))).alias("known_ms")
    news = looks_with_news(warehouse, consumed).groupBy("cluster_id").agg(first_ms, known_ms).collect()
    compared: dict[str, tuple[int, ...]] = {}
    is_without_look_before, is_near = F.lit(False), F.lit(False)
    for row in news:
        cluster_id = row["cluster_id"]
        times, is_of_cluster = times_ms[cluster_id], F.col("cluster_id") == cluster_id
        first_new = bisect_left(times, row["first_ms"])
        if first_new == 0:
            is_without_look_before |= is_of_cluster
            continue
        compared[cluster_id] = times[max(first_new - 2, 0) :]
        is_near |= is_of_cluster & (F.unix_millis(F.coalesce("joined_at", "observed_at")) >= times[first_new - 1])
    entries = topics.select("cluster_id", "topics_hash", F.explode("topics").alias("entry"))
    named = entries.select("cluster_id", "topics_hash", F.col("entry.topic").alias("topic"), F.col("entry.basis").alias("basis"))
    inferred = named.where(F.col("basis") == str(TopicBasis.INFERRED))
    of_inferred = looks.join(F.broadcast(inferred.select("cluster_id", "topic").distinct()), ["cluster_id", "topic"], "left_semi")
    seen_first = inferred.join(topics_seen_first(of_inferred, consumed), ["cluster_id", "topic"], "left_semi")
    observed = solutions.where(F.col("basis") == str(Basis.OBSERVED)).select(*GROUP_KEY, "position", "topics_hash")
    parts = [
        snapshots.where(is_without_look_before),
        observed.join(seen_first, ["cluster_id", "topics_hash"], "left_semi"),
    ]
    if compared:
        others = changed_topics(looks, compared, _shown_to_leaders())
        shown_anew = {row["cluster_id"]: row["known_ms"] for row in news if row["known_ms"]}
        if shown_anew:
            others = others.unionByName(topics_at(looks, shown_anew, consumed))
        changed = named.join(others, ["cluster_id", "topic"], "left_semi")
        near = snapshots.where(is_near).select(*GROUP_KEY, "position").join(observed, [*GROUP_KEY, "position"], "left")
        parts += [near.where("topics_hash IS NULL"), near.join(changed, ["cluster_id", "topics_hash"], "left_semi")]
    return reduce(DataFrame.unionByName, [part.select(*GROUP_KEY, "position") for part in parts])


def unread_snapshots(context: RunContext, snapshots: DataFrame, new: DataFrame | None, consumed_looks: int | None) -> list[DataFrame]:
    """Return (cluster_id, group_id, position) of the snapshots to replay: newly landed ones, and those that new topic metadata affects.

    The rows come in up to two parts; without new records there is none.

    Args:
        new: the newly landed snapshots; None without any.
        consumed_looks: metadata snapshots with a larger run_sequence are new; None if there are no new ones.
    """
    parts = []
    if new is not None:
        parts.append(new.select(*GROUP_KEY, "position"))
    if consumed_looks is not None:
        parts.append(snapshots_near_new_metadata(context, snapshots, consumed_looks))
    return parts


def touched_snapshots(snapshots: DataFrame, since: datetime, unread: Sequence[DataFrame]) -> DataFrame:
    """Return all snapshots of the groups that have one at a time or later, or an unread one.

    Args:
        unread: see ``unread_snapshots``. The run counts them as used, so their groups are computed too, whatever their times.
    """
    groups = reduce(
        DataFrame.unionByName, [part.select(*GROUP_KEY) for part in (snapshots.where(F.col("observed_at") >= F.lit(since)), *unread)]
    )
    return snapshots.join(groups.distinct(), list(GROUP_KEY), "left_semi")


def first_fresh(fresh: DataFrame) -> DataFrame:
    """Return the groups of fresh snapshots: (cluster_id, group_id), ``first_position`` (of the first of them) and ``fresh_count``."""
    return fresh.groupBy(*GROUP_KEY).agg(F.min("position").alias("first_position"), F.count_distinct("position").alias("fresh_count"))


def pending_groups(begins: StagedKeys, states: DataFrame, solutions: DataFrame) -> DataFrame:
    """Return the groups of fresh snapshots, and the state from which each continues.

    Rows: (cluster_id, group_id), fresh_count. The state is the last one before all fresh snapshots, and ``played_until`` is its position.
    They are null and -1 if the group is replayed from its first snapshot. ``is_redone`` is true if there are results after the state: a
    snapshot arrived late, or the snapshot of a later state was removed.

    Args:
        begins: as ``first_fresh`` returns them.
        states, solutions: all that are stored.
    """
    before = states.join(begins.select(*GROUP_KEY, "first_position"), list(GROUP_KEY)).where("position < first_position")
    played = before.groupBy(*GROUP_KEY).agg(F.max("position").alias("played_until"))
    # A state goes only where its position is chosen: states are large, and a long history has many.
    known = before.select(*GROUP_KEY, F.col("position").alias("played_until"), "snapshot_count", "topics", "state")
    observed = solutions.where(F.col("basis") == str(Basis.OBSERVED)).join(begins.select(*GROUP_KEY), list(GROUP_KEY), "left_semi")
    results = observed.groupBy(*GROUP_KEY).agg(F.max("position").alias("last_result"))
    return (
        begins.rows.select(*GROUP_KEY, "fresh_count")
        .join(played, list(GROUP_KEY), "left")
        .withColumn("played_until", F.coalesce("played_until", F.lit(BEFORE_ALL)))
        .join(results, list(GROUP_KEY), "left")
        .withColumn("is_redone", F.coalesce(F.col("last_result") > F.col("played_until"), F.lit(False)))
        .drop("last_result")
        .join(known, [*GROUP_KEY, "played_until"], "left")
        .withColumn("snapshot_count", F.coalesce("snapshot_count", F.lit(0)))
    )


def from_the_beginning(groups: DataFrame) -> DataFrame:
    """Return the groups without a state: a checkpoint does not record the strategies and releases that it was computed with."""
    first = {"played_until": F.lit(BEFORE_ALL), "snapshot_count": F.lit(0), "topics": F.lit(None), "state": F.lit(None)}
    types = {name: groups.schema[name].dataType for name in first}
    return groups.withColumns({**{name: first[name].cast(types[name]) for name in first}, "is_redone": F.lit(True)})


def _non_consumer_groups(warehouse: Warehouse) -> DataFrame | None:
    """Return (cluster_id, group_id) of groups that have only other protocol types than ``consumer``, such as Kafka Connect's.

    None without any. Snapshots are read only if groups have records of other types, which few warehouses have.
    """
    if warehouse.is_empty(GROUP_RECORDS.name):
        return None
    records = warehouse.read(GROUP_RECORDS.name).where((F.col("type") == CLASSIC_GROUP_METADATA) & F.col("value").isNotNull())
    groups = warehouse.materialize_any("groups_of_other_types", records.select(*GROUP_KEY).distinct())
    if groups is None:
        return None
    consumers = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).where(F.col("protocol_type") == "consumer").select(*GROUP_KEY)
    return warehouse.materialize_any("foreign", groups.join(consumers, list(GROUP_KEY), "left_anti"))


def solve(context: RunContext, snapshots: DataFrame, groups: DataFrame | None, generation_count: int | None = None) -> DataFrame:
    """Return the rows of ``SOLVED_ROWS`` for the snapshots of some groups.

    Args:
        groups: cluster_id, group_id, state, the topics held in it and the number of snapshots up to it; None if no group has a state.
        generation_count: how many snapshots these are at most, if it is known.
    """
    settings, looks = context.settings, context.warehouse.read(TOPIC_SNAPSHOTS.name)
    solve_settings = udfs.SolveSettings(
        settings.strategies,
        settings.assign.step_budget,
        settings.assign.plugin_timeout_s,
        tuple((rule.version, rule.cluster, rule.group, rule.client_id) for rule in settings.assign.kafka_versions),
        context.metadata_index.times_ms,
        settings.assign.checkpoint_generations,
        settings.assign.keep_counterfactuals,
        context.worker_limits,
    )
    chunks = pack_chunks(snapshots, settings.assign.max_generations_per_chunk, settings.assign.max_chunk_bytes)
    chunks = chunks.join(runs_by_group(snapshots, topic_runs(looks), groups), list(GROUP_KEY), "left")
    if groups is None:
        chunks = chunks.withColumns({"state": F.lit(None).cast("binary"), "snapshot_count": F.lit(0).cast("bigint")})
    else:
        chunks = chunks.join(groups.select(*GROUP_KEY, "state", "snapshot_count"), list(GROUP_KEY))
    work = work_by_bucket(snapshots) if (generation_count or 0) >= MANY_GENERATIONS else None
    problems = spread_groups(chunks, generation_count, work).sortWithinPartitions(*GROUP_KEY, "ordinal")
    return problems.mapInPandas(partial(udfs.solve_chunks, settings=solve_settings), SOLVED_ROWS)


def _solution_columns(context: RunContext) -> dict[str, Column]:
    return {
        "observed_at": F.timestamp_millis("observed_at_ms"),
        "observed_month": F.trunc(F.timestamp_millis("observed_at_ms"), "month"),
        **context.run_columns,
    }


def resolved_topics(solved: DataFrame) -> DataFrame:
    """Return one row per set of topics, as ``generation_topics`` stores it."""
    racks = F.transform("racks", lambda text: F.from_json(text, PARTITION_RACKS.simpleString()))
    topics = F.arrays_zip("topic_names", "topic_ids", "partition_counts", racks, "bases", "are_uncertain")
    rows = solved.where(F.col("row_kind") == int(RowKind.TOPICS)).dropDuplicates(["cluster_id", "topics_hash"])
    return rows.withColumn("topics", topics.cast(GENERATION_TOPICS.schema["topics"].dataType)).select("cluster_id", "topics_hash", "topics")


def _write(context: RunContext, solved: DataFrame, groups: StagedKeys | None = None) -> None:
    """Write all results.

    Args:
        groups: those that have states already, and from which one each continues: the states after it are replaced, and that state too
            unless it is a checkpoint. None if no group has a state.
    """
    warehouse = context.warehouse
    solutions = solved.where(F.col("row_kind") == int(RowKind.SOLUTION)).withColumns(_solution_columns(context))
    warehouse.append(ASSIGNMENTS.name, explode_members(solutions).select(*ASSIGNMENTS.schema.names))
    warehouse.append(SOLUTIONS.name, solutions.select(*SOLUTIONS.schema.names))
    sequence = {"run_sequence": F.lit(context.run_sequence).cast("bigint")}
    topics = resolved_topics(solved)
    if not warehouse.is_empty(GENERATION_TOPICS.name):
        topics = topics.join(warehouse.read(GENERATION_TOPICS.name), ["cluster_id", "topics_hash"], "left_anti")
    warehouse.append(GENERATION_TOPICS.name, topics.withColumns(sequence).select(*GENERATION_TOPICS.schema.names))
    states = (
        solved.where(F.col("row_kind") == int(RowKind.STATE))
        .withColumnRenamed("topic_names", "topics")
        .withColumns(sequence)
        .select(*GROUP_STATES.schema.names)
    )
    if groups is None:
        warehouse.append(GROUP_STATES.name, states)
        return
    stored = warehouse.read(GROUP_STATES.name).join(groups.select(*GROUP_KEY, "played_until"), list(GROUP_KEY))
    replaced = stored.where(~F.col("is_checkpoint") | (F.col("position") > F.col("played_until")))
    warehouse.replace(GROUP_STATES.name, replaced, GENERATION_KEY, states)


def _forget(warehouse: Warehouse, groups: DataFrame) -> None:
    """Delete the results after the state from which each group continues, of groups with ``is_redone``."""
    redone = groups.where("is_redone").select(*GROUP_KEY, "played_until")
    logger.info(
        "replaying groups with late snapshots or late topic metadata, from their last checkpoint before these or from the first snapshot"
    )
    stored = warehouse.read(SOLUTIONS.name).join(redone, list(GROUP_KEY)).where(F.col("position") > F.col("played_until"))
    # Not that of the snapshots: a snapshot that was replaced may be of another month.
    ((since,),) = stored.agg(F.min("observed_month")).collect()
    if since is None:
        return
    for name in (ASSIGNMENTS.name, SOLUTIONS.name):
        warehouse.delete(name, redone, GROUP_KEY, f"t.position > d.played_until AND t.observed_month >= DATE'{since}'")
    forget_unnamed_topics(warehouse)  # topics that the new results name are written again


def _take_back(context: RunContext, foreign: DataFrame) -> None:
    """Delete all results of groups that are now known to be no consumer groups: a record without members does not show it."""
    warehouse = context.warehouse
    named = warehouse.materialize_any("taken_back", foreign.join(warehouse.read(GROUP_STATES.name), list(GROUP_KEY), "left_semi"))
    if named is None:
        return
    apply_changes(warehouse, results_of(named, GROUP_KEY))
    forget_unnamed_topics(warehouse)


def run(context: RunContext, recompute: bool = False, since: datetime | None = None) -> StageResult:
    """Compute the solutions of newly landed snapshots.

    Args:
        recompute: replay all groups from their first snapshot, even if they have solutions.
        since: with ``recompute``, only groups with a snapshot at this time or later, and groups with newly landed rows.
    """
    warehouse, name = context.warehouse, SUBSCRIPTION_SNAPSHOTS.name
    if recompute:
        forget_last_commits(warehouse)  # the next audit of commits makes the table again
    consumed, consumed_looks = context.unread(name), context.unread(TOPIC_SNAPSHOTS.name)
    has_new_records = context.unread(GROUP_RECORDS.name) is not None
    if warehouse.is_empty(name) or (not recompute and consumed is None and consumed_looks is None and not has_new_records):
        return StageResult(context.state)
    foreign = _non_consumer_groups(warehouse)

    def of_consumers(rows: DataFrame) -> DataFrame:
        # Few groups have other types. Without the hint Spark would shuffle all snapshots.
        return rows if foreign is None else rows.join(F.broadcast(foreign), list(GROUP_KEY), "left_anti")

    snapshots = of_consumers(warehouse.read(name))
    is_first = warehouse.is_empty(GROUP_STATES.name)
    if is_first:
        _write(context, warehouse.materialize("assign", solve(context, snapshots, None, warehouse.count(name))))
    elif has_new_records and foreign is not None:
        _take_back(context, foreign)
    if not is_first and (recompute or consumed is not None or consumed_looks is not None):
        new = None if consumed is None else of_consumers(warehouse.read_new(name, consumed))
        if recompute and since is None:
            fresh = snapshots
        else:
            unread = unread_snapshots(context, snapshots, new, consumed_looks)
            fresh = touched_snapshots(snapshots, since, unread) if since is not None else reduce(DataFrame.unionByName, unread)
        _replay_pending(context, snapshots, fresh, recompute)
    return StageResult(context.state.using(dict.fromkeys((name, TOPIC_SNAPSHOTS.name, GROUP_RECORDS.name), context.run_sequence)))


def _replay_pending(context: RunContext, snapshots: DataFrame, fresh: DataFrame, recompute: bool) -> None:
    """Compute the solutions of groups with fresh snapshots after the states from which they continue, and write them.

    Args:
        recompute: begin with the first snapshot of each group, whatever its states.
    """
    warehouse = context.warehouse
    begins = warehouse.materialize_keys("fresh_groups", first_fresh(fresh))
    if not begins.count:
        return
    groups = pending_groups(begins, warehouse.read(GROUP_STATES.name), warehouse.read(SOLUTIONS.name))
    if recompute:
        groups = from_the_beginning(groups)
    continued = warehouse.materialize_keys("groups", groups)
    if not continued.count:
        return
    pending = (
        snapshots.join(continued.select(*GROUP_KEY, "played_until"), list(GROUP_KEY))
        .where(F.col("position") > F.col("played_until"))
        .drop("played_until")
    )
    fresh_count, is_redone = continued.rows.agg(F.sum("fresh_count"), F.bool_or("is_redone")).collect()[0]
    new_count = None if is_redone else fresh_count
    most = warehouse.count(SUBSCRIPTION_SNAPSHOTS.name) if recompute else new_count
    solved = warehouse.materialize("assign", solve(context, pending, continued.rows, most))
    if is_redone:
        _forget(warehouse, continued.rows)
    _write(context, solved, continued)
