"""Assigning: ``subscription_snapshots``, ``topic_snapshots`` -> ``assignments``, ``solutions``, ``generation_topics``, ``group_states``.

Incremental: a group goes on from the newest state before its newly landed snapshots: from where the last run left it, or, where something
arrived late, from a checkpoint before that. Groups without anything new are not touched.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from datetime import datetime
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.assign import expansion, udfs
from jobs.context import RunContext, StageResult
from jobs.storage.derived_results import forget_unnamed_topics, results_of
from jobs.storage.solution_rows import explode_members
from jobs.storage.table_changes import apply_changes
from jobs.storage.topic_changes import changed_topics
from jobs.storage.warehouse import Warehouse
from jobs.workers.packing import pack_chunks, runs_by_group, spread_groups, topic_runs
from schemas.keys import GROUP_KEY
from schemas.row_types import RowKind
from schemas.staging import SOLVED_ROWS
from schemas.tables import ASSIGNMENTS, GENERATION_TOPICS, GROUP_RECORDS, GROUP_STATES, SOLUTIONS, SUBSCRIPTION_SNAPSHOTS, TOPIC_SNAPSHOTS
from schemas.tables.columns import PARTITION_RACKS
from schemas.vocabulary import Basis, TopicBasis
from schemas.wire.keys import CLASSIC_GROUP_METADATA

logger = logging.getLogger(__name__)

expand = expansion.run
"""What ``--expand`` does."""

BEFORE_ALL = -1
"""A position before every other."""


def _shown_to_leaders() -> Column:
    """Return what a look shows of a topic that an assignor looks at."""
    return F.to_json(F.struct("topic_id", "partition_count", "partitions.replica_racks"))


def topics_seen_first(looks: DataFrame, consumed: int) -> DataFrame:
    """Return (cluster_id, topic) of the topics that looks newer than ``consumed`` show, and no older one."""
    first = looks.groupBy("cluster_id", "topic").agg(F.min("run_sequence").alias("first_sequence"))
    return first.where(F.col("first_sequence") > consumed).select("cluster_id", "topic")


def snapshots_near_new_metadata(context: RunContext, snapshots: DataFrame, consumed: int) -> DataFrame:
    """Return the snapshots whose topics may be resolved otherwise since there are looks newer than ``consumed``.

    A snapshot is resolved by its neighbours among the looks. So a new look concerns none from before the look before it; nor one of which
    each topic is the same in all looks from the second last before it on. Topics that were in no look at all, and were inferred, have a
    neighbour now wherever they are named. Rows: (cluster_id, group_id, position).
    """
    warehouse, times_ms = context.warehouse, context.metadata_index.times_ms
    looks, solutions, topics = (warehouse.read(spec.name) for spec in (TOPIC_SNAPSHOTS, SOLUTIONS, GENERATION_TOPICS))
    new_looks = looks.where(F.col("run_sequence") > consumed)
    first = new_looks.groupBy("cluster_id").agg(F.min(F.unix_millis("observed_at")).alias("first_ms")).collect()
    compared: dict[str, tuple[int, ...]] = {}
    is_without_look_before, is_near = F.lit(False), F.lit(False)
    for cluster_id, first_ms in first:
        times, is_of_cluster = times_ms[cluster_id], F.col("cluster_id") == cluster_id
        first_new = bisect_left(times, first_ms)
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
        changed = named.join(changed_topics(looks, compared, _shown_to_leaders()), ["cluster_id", "topic"], "left_semi")
        near = snapshots.where(is_near).select(*GROUP_KEY, "position").join(observed, [*GROUP_KEY, "position"], "left")
        parts += [near.where("topics_hash IS NULL"), near.join(changed, ["cluster_id", "topics_hash"], "left_semi")]
    return reduce(DataFrame.unionByName, [part.select(*GROUP_KEY, "position") for part in parts])


def fresh_snapshots(context: RunContext, snapshots: DataFrame, consumed: int | None, consumed_looks: int | None) -> DataFrame:
    """Return (cluster_id, group_id, position) of what has to be played: snapshots that land has written, and those that new looks concern.

    Args:
        consumed, consumed_looks: the run_sequence behind which snapshots and looks are new; None when none is.
    """
    parts = []
    if consumed is not None:
        parts.append(snapshots.where(F.col("run_sequence") > consumed).select(*GROUP_KEY, "position"))
    if consumed_looks is not None:
        parts.append(snapshots_near_new_metadata(context, snapshots, consumed_looks))
    return reduce(DataFrame.unionByName, parts)


def pending_groups(fresh: DataFrame, states: DataFrame, solutions: DataFrame) -> DataFrame:
    """Return the groups of fresh snapshots, and the state from which each goes on.

    Rows: (cluster_id, group_id). The state is the last one ``behind`` which all is played: no snapshot up to there is fresh. -1 and null
    where the group has to be played from its beginning. ``is_redone`` where there are results behind the state: something arrived late, or
    the snapshot of a later state is no more.

    Args:
        fresh: at least cluster_id, group_id, position of what has to be played.
        solutions: all that are stored.
    """
    begins = fresh.groupBy(*GROUP_KEY).agg(F.min("position").alias("first_position"))
    state_positions = states.select(*GROUP_KEY, F.col("position").alias("state_position"))
    is_before = F.col("state_position") < F.col("first_position")
    groups = begins.join(state_positions, list(GROUP_KEY), "left").groupBy(*GROUP_KEY)
    played_until = F.coalesce(F.max(F.when(is_before, F.col("state_position"))), F.lit(BEFORE_ALL))
    # The states themselves only now, and one a group: they are large, and a long history has many.
    known = states.select(*GROUP_KEY, F.col("position").alias("behind"), "snapshot_count", "topics", "state")
    observed = solutions.where(F.col("basis") == str(Basis.OBSERVED)).join(F.broadcast(begins), list(GROUP_KEY), "left_semi")
    results = observed.groupBy(*GROUP_KEY).agg(F.max("position").alias("last_result"))
    return (
        groups.agg(played_until.alias("behind"))
        .join(results, list(GROUP_KEY), "left")
        .withColumn("is_redone", F.coalesce(F.col("last_result") > F.col("behind"), F.lit(False)))
        .drop("last_result")
        .join(known, [*GROUP_KEY, "behind"], "left")
        .withColumn("snapshot_count", F.coalesce("snapshot_count", F.lit(0)))
    )


def from_the_beginning(groups: DataFrame) -> DataFrame:
    """Return the groups without a state to go on from: a checkpoint does not tell which strategies and releases it was made with."""
    first = {"behind": F.lit(BEFORE_ALL), "snapshot_count": F.lit(0), "topics": F.lit(None), "state": F.lit(None)}
    types = {name: groups.schema[name].dataType for name in first}
    return groups.withColumns({**{name: first[name].cast(types[name]) for name in first}, "is_redone": F.lit(True)})


def non_consumer_groups(snapshots: DataFrame, group_records: DataFrame) -> DataFrame:
    """Return (cluster_id, group_id) of groups that are known under other protocol types only, such as Kafka Connect's."""
    foreign = group_records.where((F.col("type") == CLASSIC_GROUP_METADATA) & F.col("value").isNotNull())
    consumers = snapshots.where(F.col("protocol_type") == "consumer")
    words = foreign.select(*GROUP_KEY, F.lit(False).alias("is_consumer")).unionByName(
        consumers.select(*GROUP_KEY, F.lit(True).alias("is_consumer"))
    )
    return words.groupBy(*GROUP_KEY).agg(F.bool_or("is_consumer").alias("is_consumer")).where(~F.col("is_consumer")).select(*GROUP_KEY)


def solve(context: RunContext, snapshots: DataFrame, groups: DataFrame | None) -> DataFrame:
    """Return the rows of ``SOLVED_ROWS`` for the snapshots of some groups.

    Args:
        groups: cluster_id, group_id, state, the topics held in it and the snapshots up to it; None when no group has one.
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
    problems = spread_groups(chunks).sortWithinPartitions(*GROUP_KEY, "ordinal")
    return problems.mapInPandas(partial(udfs.solve_chunks, settings=solve_settings), SOLVED_ROWS)


def _solution_columns(context: RunContext) -> dict[str, Column]:
    return {
        "observed_at": F.timestamp_millis("observed_at_ms"),
        "observed_month": F.trunc(F.timestamp_millis("observed_at_ms"), "month"),
        **context.run_columns,
    }


def resolved_topics(solved: DataFrame) -> DataFrame:
    """Return one row a set of topics, with them as ``generation_topics`` stores them."""
    racks = F.transform("racks", lambda text: F.from_json(text, PARTITION_RACKS.simpleString()))
    topics = F.arrays_zip("topic_names", "topic_ids", "partition_counts", racks, "bases", "are_uncertain")
    rows = solved.where(F.col("row_kind") == int(RowKind.TOPICS)).dropDuplicates(["cluster_id", "topics_hash"])
    return rows.withColumn("topics", topics.cast(GENERATION_TOPICS.schema["topics"].dataType)).select("cluster_id", "topics_hash", "topics")


def _write(context: RunContext, solved: DataFrame) -> None:
    warehouse = context.warehouse
    solutions = solved.where(F.col("row_kind") == int(RowKind.SOLUTION)).withColumns(_solution_columns(context))
    warehouse.append(ASSIGNMENTS.name, explode_members(solutions))
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
    warehouse.append(GROUP_STATES.name, states)


def _forget(warehouse: Warehouse, groups: DataFrame) -> None:
    """Delete what is behind the state that each group goes on from, and that state too where it is no checkpoint."""
    kept_until = groups.select(*GROUP_KEY, "behind")
    warehouse.delete(GROUP_STATES.name, kept_until, GROUP_KEY, "NOT (t.is_checkpoint AND t.position <= d.behind)")
    redone = groups.where("is_redone").select(*GROUP_KEY, "behind")
    if redone.isEmpty():
        return
    logger.info("late snapshots or looks: playing their groups again, from the last checkpoint before them or from the beginning")
    stored = warehouse.read(SOLUTIONS.name).join(redone, list(GROUP_KEY)).where(F.col("position") > F.col("behind"))
    since = stored.agg(F.min("observed_month")).collect()[0][0]  # not the snapshots': one that was displaced may be of another month
    if since is None:
        return
    for name in (ASSIGNMENTS.name, SOLUTIONS.name):
        warehouse.delete(name, redone, GROUP_KEY, f"t.position > d.behind AND t.observed_month >= DATE'{since}'")
    forget_unnamed_topics(warehouse)  # those that the new results name are written again


def _take_back(context: RunContext, foreign: DataFrame) -> None:
    """Delete all results of groups that turn out not to be consumers': a record without members does not tell what its group is."""
    warehouse = context.warehouse
    named = warehouse.materialize("foreign", foreign.join(warehouse.read(GROUP_STATES.name), list(GROUP_KEY), "left_semi"))
    if named.isEmpty():
        return
    apply_changes(warehouse, results_of(named, GROUP_KEY))
    forget_unnamed_topics(warehouse)


def run(context: RunContext, recompute: bool = False, since: datetime | None = None) -> StageResult:
    """Assign what has landed since the last time.

    Args:
        recompute: play all groups again from their beginning, whatever was computed.
        since: with ``recompute``, only groups with a snapshot at or after this moment.
    """
    warehouse, name = context.warehouse, SUBSCRIPTION_SNAPSHOTS.name
    consumed, consumed_looks = context.unread(name), context.unread(TOPIC_SNAPSHOTS.name)
    has_new_records = context.unread(GROUP_RECORDS.name) is not None
    if warehouse.is_empty(name) or (not recompute and consumed is None and consumed_looks is None and not has_new_records):
        return StageResult(context.state)
    foreign = non_consumer_groups(warehouse.read(name), warehouse.read(GROUP_RECORDS.name))
    # Few groups are of other types: without the hint all snapshots would be shuffled, and more than once.
    snapshots = warehouse.read(name).join(F.broadcast(foreign), list(GROUP_KEY), "left_anti")
    is_first = warehouse.is_empty(GROUP_STATES.name)
    if is_first:
        _write(context, warehouse.materialize("assign", solve(context, snapshots, None)))
    elif has_new_records:
        _take_back(context, foreign)
    if not is_first and (recompute or consumed is not None or consumed_looks is not None):
        fresh = snapshots if recompute else fresh_snapshots(context, snapshots, consumed, consumed_looks)
        _go_on(context, snapshots, fresh, recompute, since)
    return StageResult(context.state.using(dict.fromkeys((name, TOPIC_SNAPSHOTS.name, GROUP_RECORDS.name), context.run_sequence)))


def _go_on(context: RunContext, snapshots: DataFrame, fresh: DataFrame, recompute: bool, since: datetime | None) -> None:
    """Assign what groups with fresh snapshots have behind the states that they go on from, and write that."""
    warehouse = context.warehouse
    groups = pending_groups(fresh, warehouse.read(GROUP_STATES.name), warehouse.read(SOLUTIONS.name))
    if recompute:
        touched = snapshots if since is None else snapshots.where(F.col("observed_at") >= F.lit(since))
        groups = from_the_beginning(groups.join(touched.select(*GROUP_KEY).distinct(), list(GROUP_KEY), "left_semi"))
    groups = warehouse.materialize("groups", groups)
    if groups.isEmpty():
        return
    pending = snapshots.join(groups.select(*GROUP_KEY, "behind"), list(GROUP_KEY)).where(F.col("position") > F.col("behind")).drop("behind")
    solved = warehouse.materialize("assign", solve(context, pending, groups))
    _forget(warehouse, groups)
    _write(context, solved)
