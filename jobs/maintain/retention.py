"""Retention: which rows are old enough to remove, and which old rows stay because later runs need them.

Whole months are removed, by ``observed_month``. A generation is removed from all its tables at once. These rows stay at any age:

* of each group everything from the last generation that has all that later ones are compared with (``self_contained_generations``): its
  last one or one shortly before; and everything that has not been assigned or audited yet;
* the first generation of each incarnation with any kept generation, since it names the incarnation, and the tombstones after removed ones;
* the last record of each group of another protocol type, which shows that its empty snapshots are not of consumers;
* the records that make up each KIP-848 group at the beginning of the first kept month;
* the last two commits of each group on each partition, since a member has stalled only if it had committed before;
* of each cluster the two metadata snapshots before everything that can still be resolved with metadata snapshots, and the last one with
  ``__consumer_offsets``.

A late arrival without an earlier checkpoint, and ``assign --recompute``, replay a group from its first kept generation. Its movements
and counterfactuals then begin there, as for a group whose log was compacted. A member that left before is not recognised when it returns,
and storms, restarts and flapping are counted from there.

A generation from before the bound is not changed any more. Later commits and metadata snapshots do not update its resume offsets, and it
is not stored that its members reached their targets later.

Rows in ``quarantine`` have no time of their own, and rows of scenarios are about the future: for both the time of the run that wrote them
counts. ``runs`` is kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.audit.run import self_contained_generations
from jobs.context import RunContext, RunState
from jobs.storage.derived_results import forget_unnamed_topics
from jobs.storage.last_commits import forget_last_commits
from jobs.storage.warehouse import Warehouse
from schemas.keys import GENERATION_KEY, GROUP_KEY, PARTITION_KEY
from schemas.tables import (
    ASSIGNMENTS,
    FINDINGS,
    GENERATION_AUDITS,
    GENERATION_TOPICS,
    GROUP_EVENTS,
    GROUP_RECORDS,
    GROUP_STATES,
    MOVEMENTS,
    OFFSET_SNAPSHOTS,
    QUARANTINE,
    REHEARSED_TABLES,
    RUNS,
    SOLUTIONS,
    SUBSCRIPTION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
    TableSpec,
)
from schemas.vocabulary import Basis
from schemas.wire.keys import CLASSIC_GROUP_METADATA, EPOCH, MEMBER, OFFSETS_TOPIC, TARGET_EPOCH

OF_GENERATIONS = (FINDINGS, MOVEMENTS, GENERATION_AUDITS, ASSIGNMENTS, SOLUTIONS, SUBSCRIPTION_SNAPSHOTS)


def first_kept_month(as_of: datetime, days: int) -> date:
    """Return the first day of the month in which the kept days begin, UTC: older months are removed as a whole."""
    return (as_of - timedelta(days=days)).date().replace(day=1)


def kept_history(snapshots: DataFrame, audits: DataFrame, unread: DataFrame, month: date, counterfactual_month: date) -> DataFrame:
    """Return the rows of each group that later runs need.

    Rows: (cluster_id, group_id). ``needed_from``: the position from which everything is needed, -1 for all rows. ``named``: positions
    of the generations that name an incarnation with any kept generation. ``dropped_until``: the last position before all kept ones,
    null if there is none. ``states_from``: the first position from which the audit lacks no counterfactual assignment.

    Args:
        unread: keys of generations that have not been assigned or audited yet.
        month: generations before it are removed unless they are needed.
        counterfactual_month: the same for assignments of counterfactual solutions.
    """
    by_group, position = Window.partitionBy(*GROUP_KEY), F.col("position")
    generations = (
        snapshots.select(*GENERATION_KEY, "incarnation", "observed_month")
        .join(self_contained_generations(audits).withColumn("is_self_contained", F.lit(True)), list(GENERATION_KEY), "left")
        .join(audits.select(*GROUP_KEY).distinct().withColumn("is_audited", F.lit(True)), list(GROUP_KEY), "left")
        .join(unread.groupBy(*GROUP_KEY).agg(F.min("position").alias("first_unread")), list(GROUP_KEY), "left")
    )
    is_read = F.col("first_unread").isNull()
    last_telling = F.max(F.when(F.col("is_self_contained") & (is_read | (position < F.col("first_unread"))), position)).over(by_group)
    # A group without unread generations and without audits is not one of consumers, and never will be.
    last_foreign = F.when(is_read & F.col("is_audited").isNull(), F.max("position").over(by_group))
    old_until = F.max(F.when(F.col("observed_month") < F.lit(counterfactual_month), position)).over(by_group)
    marked = generations.withColumns(
        {"needed_from": F.coalesce(last_telling, last_foreign, F.lit(-1)), "old_until": F.coalesce(old_until, F.lit(-1))}
    )
    is_kept = (F.col("observed_month") >= F.lit(month)) | (position >= F.col("needed_from"))
    any_kept = F.bool_or(is_kept).over(Window.partitionBy(*GROUP_KEY, "incarnation"))
    named = marked.withColumn("named", F.when(any_kept & (position == F.col("incarnation")), position))
    return (
        named.withColumn("kept_from", F.min("named").over(by_group))
        .groupBy(*GROUP_KEY, "needed_from")
        .agg(
            F.sort_array(F.collect_list("named")).alias("named"),
            F.max(F.when(position < F.col("kept_from"), position)).alias("dropped_until"),
            F.min(F.when(F.col("is_self_contained") & (position > F.col("old_until")), position)).alias("states_from"),
        )
        .withColumn("states_from", F.least(F.coalesce("states_from", "needed_from"), "needed_from"))
    )


def unread_generations(context: RunContext) -> DataFrame:
    """Return the keys of generations that have landed and are not assigned, or are assigned and not audited."""
    snapshots, solutions = (
        context.warehouse.read(name).where(F.col("run_sequence") > context.state.consumed.get(name, 0)).select(*GENERATION_KEY)
        for name in (SUBSCRIPTION_SNAPSHOTS.name, SOLUTIONS.name)
    )
    return snapshots.unionByName(solutions)


def kept_looks(looks: DataFrame, snapshots: DataFrame, month: date) -> DataFrame:
    """Return the metadata snapshots of each cluster that later runs need.

    Rows: cluster_id. ``needed_from``: time of the second last metadata snapshot before everything that can still be resolved with them;
    null if there are not two. That is the first kept month, or an earlier generation that is still the last of its group and to which a
    static member may return. ``offsets_look_at``: time of the newest metadata snapshot with ``__consumer_offsets``.
    """
    has_static_members = F.exists("members", lambda member: member["group_instance_id"].isNotNull())
    last = F.max_by(
        F.struct(F.coalesce("joined_at", "observed_at").alias("joined_at"), has_static_members.alias("has_static_members")), "position"
    )
    standing = snapshots.groupBy(*GROUP_KEY).agg(last.alias("last")).where("last.has_static_members")
    since = standing.groupBy("cluster_id").agg(F.min("last.joined_at").alias("standing_since"))
    start = F.lit(month).cast("timestamp")
    is_before = F.col("observed_at") <= F.least(F.coalesce("standing_since", start), start)
    times = F.sort_array(F.collect_set(F.when(is_before, F.col("observed_at"))), asc=False)
    offsets_look_at = F.max(F.when(F.col("topic") == OFFSETS_TOPIC, F.col("observed_at")))
    return (
        looks.join(since, ["cluster_id"], "left")
        .groupBy("cluster_id")
        .agg(F.get(times, F.lit(1)).alias("needed_from"), offsets_look_at.alias("offsets_look_at"))
    )


def superseded_records(records: DataFrame, month: date) -> DataFrame:
    """Return the keys of records with a value that no result needs any more.

    As in a compacted log, the last record of each key stays: it identifies a group of another protocol type, and a KIP-848 group is
    replayed from it, from the first kept month. These stay too: all metadata of a member since it joined, since the first one decides its
    order among the members; all group epochs since the last target, since the next target may be for one of them; and the record after
    the end of a classic group, which shows whether the coordinator converted it.
    """
    of_key = Window.partitionBy(*GROUP_KEY, "key")
    is_value = F.col("value").isNotNull()
    last, last_value, last_end = (
        F.max(offset).over(of_key) for offset in ("offset", F.when(is_value, F.col("offset")), F.when(~is_value, F.col("offset")))
    )
    last_target = F.max(F.when(F.col("type") == TARGET_EPOCH, F.col("offset"))).over(Window.partitionBy(*GROUP_KEY))
    bound = (
        F.when(F.col("type") == CLASSIC_GROUP_METADATA, last_value)
        .when(F.col("type") == MEMBER, last_end)
        .when(F.col("type") == EPOCH, F.least(last, F.coalesce(last_target, F.lit(0))))
        .otherwise(last)
    )
    before = F.lag(F.when(F.col("value").isNull(), F.struct("type", "offset"))).over(Window.partitionBy(*GROUP_KEY).orderBy("offset"))
    is_evidence = (before["type"] == CLASSIC_GROUP_METADATA) & (before["offset"] == F.col("offset") - 1)
    old = records.where(F.col("observed_month") < F.lit(month))
    old = old.withColumns({"bound": bound, "is_evidence": F.coalesce(is_evidence, F.lit(False))})
    is_superseded = is_value & (F.col("offset") < F.col("bound")) & ~F.col("is_evidence")
    return old.where(is_superseded).select(*GROUP_RECORDS.key)


def kept_commits(commits: DataFrame) -> DataFrame:
    """Return from where on the commits of each group on each partition stay: (cluster_id, group_id, topic, partition), ``kept_from``.

    These are the last one, which may be a deletion, and the last one before it that is none. How long a member may be silent follows from
    the time between its commits.

    Args:
        commits: rows of ``offset_snapshots`` from before the first kept month.
    """
    position = F.col("position")
    last = commits.groupBy(*PARTITION_KEY).agg(F.max("position").alias("last_position"))
    is_before = (position < F.col("last_position")) & ~F.col("is_deleted")
    before = commits.join(last, list(PARTITION_KEY)).groupBy(*PARTITION_KEY)
    return before.agg(F.coalesce(F.max(F.when(is_before, position)), F.max("last_position")).alias("kept_from"))


CLEARED_HOLDINGS = f"{SOLUTIONS.name}.holdings"
"""The column of old counterfactual solutions that is cleared."""


def drop_history(context: RunContext) -> tuple[RunState, dict[str, int]]:
    """Delete rows that are older than the settings allow and that no later run needs.

    Returns the new state, and the removed rows by table. Under ``CLEARED_HOLDINGS`` it has the solutions that stay without holdings.

    ``retained_from`` becomes the first kept month: landing skips older records from now on. ``counterfactuals_from`` is the same for
    counterfactual assignments, and never decreases: removed assignments do not return if the settings now keep them longer.
    """
    warehouse, settings = context.warehouse, context.settings.maintain
    month = first_kept_month(context.as_of, settings.retention_days)
    counterfactual_month = max(month, first_kept_month(context.as_of, settings.counterfactual_days))
    is_old = f"t.observed_month < DATE'{month}'"
    counterfactuals_from = max(counterfactual_month, context.state.counterfactuals_from or counterfactual_month)
    state = replace(context.state, retained_from=month, counterfactuals_from=counterfactuals_from)
    dropped: Counter[str] = Counter()

    def drop(spec: TableSpec, keys: DataFrame, columns: tuple[str, ...], condition: str) -> None:
        dropped[spec.name] += warehouse.delete(spec.name, keys, columns, condition)

    if _reaches_before(counterfactual_month, SUBSCRIPTION_SNAPSHOTS, warehouse):
        snapshots, audits = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name), warehouse.read(GENERATION_AUDITS.name)
        history = warehouse.materialize(
            "kept_history", kept_history(snapshots, audits, unread_generations(context), month, counterfactual_month)
        )
        is_compared = f"t.basis = '{Basis.COUNTERFACTUAL}' AND t.observed_month < DATE'{counterfactual_month}'"
        for spec in OF_GENERATIONS:
            drop(spec, history, GROUP_KEY, f"t.position < d.needed_from AND NOT array_contains(d.named, t.position) AND {is_old}")
        is_dropped = f"t.position < d.needed_from AND {is_compared}"
        drop(ASSIGNMENTS, history, GROUP_KEY, is_dropped)
        has_more = f"{is_dropped} AND t.holdings IS NOT NULL"
        dropped[CLEARED_HOLDINGS] = warehouse.update(SOLUTIONS.name, history, GROUP_KEY, "t.holdings = NULL", has_more)
        drop(GROUP_STATES, history, GROUP_KEY, "t.position < d.states_from")
        drop(GROUP_RECORDS, history, GROUP_KEY, f"t.value IS NULL AND t.offset <= d.dropped_until AND {is_old}")
        if dropped[SOLUTIONS.name]:
            dropped[GENERATION_TOPICS.name] += forget_unnamed_topics(warehouse)
    if _reaches_before(month, GROUP_RECORDS, warehouse):
        records = warehouse.read(GROUP_RECORDS.name)
        drop(GROUP_RECORDS, superseded_records(records, month), GROUP_RECORDS.key, is_old)
    if _reaches_before(month, OFFSET_SNAPSHOTS, warehouse):
        old = warehouse.read(OFFSET_SNAPSHOTS.name).where(F.col("observed_month") < F.lit(month))
        drop(OFFSET_SNAPSHOTS, kept_commits(old), PARTITION_KEY, f"t.position < d.kept_from AND {is_old}")
        if dropped[OFFSET_SNAPSHOTS.name]:
            forget_last_commits(warehouse)
    if _reaches_before(month, TOPIC_SNAPSHOTS, warehouse):
        looks = kept_looks(warehouse.read(TOPIC_SNAPSHOTS.name), warehouse.read(SUBSCRIPTION_SNAPSHOTS.name), month)
        is_kept = f"t.topic = '{OFFSETS_TOPIC}' AND t.observed_at <=> d.offsets_look_at"
        drop(TOPIC_SNAPSHOTS, looks, ("cluster_id",), f"t.observed_at < d.needed_from AND NOT ({is_kept}) AND {is_old}")
    if _reaches_before(month, GROUP_EVENTS, warehouse):
        clusters = warehouse.read(GROUP_EVENTS.name).select("cluster_id").distinct()
        drop(GROUP_EVENTS, clusters, ("cluster_id",), is_old)
    for spec in (QUARANTINE, *REHEARSED_TABLES.values()):
        if not warehouse.is_empty(spec.name):
            runs = warehouse.read(RUNS.name).where(F.col("finished_at") < F.lit(month)).select("run_sequence")
            drop(spec, runs, ("run_sequence",), "TRUE")
    return state, dict(+dropped)


def _reaches_before(month: date, spec: TableSpec, warehouse: Warehouse) -> bool:
    return not warehouse.is_empty(spec.name) and not warehouse.read(spec.name).where(F.col("observed_month") < F.lit(month)).isEmpty()
