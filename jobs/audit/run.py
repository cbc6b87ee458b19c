"""The stage ``audit``: solutions, snapshots, topics, commits, assignments -> ``generation_audits``, ``movements``, ``findings``.

Incremental: a group with new solutions is audited from the first of them on. Older generations are read again only as far back as
partitions were withheld, or as a member left that may have come back. Findings look back as far as the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from assignors.audit.triggers import RETURN_MS
from jobs.audit import (
    commit_findings,
    coordinators,
    inferred_causes,
    late_offsets,
    logged_causes,
    look_findings,
    stuck_findings,
)
from jobs.audit import udfs as audit_udfs
from jobs.audit.load_imbalance import AUDIT_KEY
from jobs.audit.new_commits import (
    ORIGINS_READ_HERE,
    READ_HERE,
    complete_groups,
    differs_from_stored,
    has_new_commits,
    read_new_commits,
)
from jobs.audit.offset_rows import RowOrder, commit_rows, in_log_order, look_rows, sorted_by_log
from jobs.audit.survey import FROM_COMMITS, Survey, survey
from jobs.context import RunContext, StageResult
from jobs.runtime.session import batches_of_small_rows
from jobs.storage.generation_work import work_by_bucket
from jobs.storage.scratch import StagedKeys
from jobs.storage.warehouse import Warehouse
from jobs.workers.packing import flatten_snapshots, topic_columns
from jobs.workers.partitions import MANY_GENERATIONS, spread_groups
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.staging import AUDITED_ROWS, AUDITED_TABLES
from schemas.tables import (
    FINDINGS,
    GENERATION_AUDITS,
    GENERATION_TOPICS,
    GROUP_EVENTS,
    MOVEMENTS,
    OFFSET_SNAPSHOTS,
    SOLUTIONS,
    SUBSCRIPTION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
)
from schemas.vocabulary import WITHOUT_RESULT, Basis


def _is_self_contained() -> Column:
    has_result = ~F.col("status").isin([str(status) for status in WITHOUT_RESULT])
    is_self_contained = (
        F.when(F.col("basis") == str(Basis.OBSERVED), F.col("is_settled") & (F.col("member_count") > 0))
        .when(F.col("basis") == str(Basis.COUNTERFACTUAL), has_result)
        .otherwise(F.lit(True))
    )
    return F.bool_and(is_self_contained)


def self_contained_generations(audits: DataFrame) -> DataFrame:
    """Return the positions of the generations that have all that later generations are compared with.

    Nothing is withheld in them. Each strategy has a result, else its last result would be in an older generation. And they have members,
    because an empty generation does not show the assignor of the group.
    """
    return (
        audits.groupBy(*GENERATION_KEY)
        .agg(_is_self_contained().alias("is_self_contained"))
        .where("is_self_contained")
        .select(*GENERATION_KEY)
    )


def audited_groups(solutions: DataFrame, audits: DataFrame) -> DataFrame:
    """Return the groups with new solutions: where these begin, and from where on to read.

    Rows: (cluster_id, group_id), ``new_count`` (of generations). ``read_from`` is the last of ``self_contained_generations`` before them,
    -1 if there is none. It is the generation before those that are at most ``RETURN_MS`` older, if that is earlier: a member that left in
    one of these may be back. Only its members count then, so counterfactual solutions are needed from ``compared_from`` on, which is that
    ``self_contained_generations``: maintenance may have cleared older ones. ``is_stale`` is true if there are audits from the first new
    solution on.

    Args:
        solutions: new ones only.
    """
    begins = solutions.groupBy(*GROUP_KEY).agg(
        F.min("position").alias("first_position"),
        F.min(F.unix_millis("observed_at")).alias("first_ms"),
        F.count_if(F.col("basis") == str(Basis.OBSERVED)).alias("new_count"),
    )
    generations = (
        audits.join(F.broadcast(begins), list(GROUP_KEY))
        .withColumn("is_before", F.col("position") < F.col("first_position"))
        .repartition(*GROUP_KEY)  # one shuffle for all that follows instead of three
        .groupBy(*GENERATION_KEY, "first_ms", "is_before")
        .agg(_is_self_contained().alias("is_self_contained"), F.min(F.unix_millis("observed_at")).alias("observed_ms"))
    )
    next_ms = F.lead("observed_ms").over(Window.partitionBy(*GROUP_KEY, "is_before").orderBy("position"))
    starts = (
        generations.withColumn("precedes_recent", next_ms >= F.col("first_ms") - RETURN_MS)
        .groupBy(*GROUP_KEY)
        .agg(
            F.max(F.when(F.col("is_before") & F.col("is_self_contained"), F.col("position"))).alias("self_contained_from"),
            F.min(F.when(F.col("is_before") & F.col("precedes_recent"), F.col("position"))).alias("recent_from"),
            F.bool_or(~F.col("is_before")).alias("is_stale"),
            F.min(F.when(~F.col("is_before"), F.col("observed_ms"))).alias("stale_ms"),
        )
    )
    compared_from = F.coalesce("self_contained_from", F.lit(-1))
    columns = {
        "read_from": F.least(compared_from, "recent_from"),  # least ignores a null
        "compared_from": compared_from,
        "is_stale": F.coalesce("is_stale", F.lit(False)),
        "from_time": F.timestamp_millis(F.least("first_ms", "stale_ms")),
    }
    return begins.join(starts, list(GROUP_KEY), "left").withColumns(columns).select(*GROUP_KEY, "new_count", "first_position", *columns)


def _of_groups(warehouse: Warehouse, name: str, groups: StagedKeys | None) -> DataFrame:
    """Return the rows of a table that the audit reads, with ``first_position`` of their group: -1 if all groups are new."""
    rows = warehouse.read(name)
    if groups is None:
        return rows.withColumn("first_position", F.lit(-1).cast("bigint"))
    bounds = groups.select(*GROUP_KEY, "first_position", "read_from", "compared_from")
    return rows.join(bounds, list(GROUP_KEY)).where(F.col("position") >= F.col("read_from"))


def snapshot_rows(warehouse: Warehouse, groups: StagedKeys | None, complete: DataFrame) -> DataFrame:
    """Return the snapshots of the generations that the audit reads.

    Args:
        groups: see ``audited_groups``; None for everything, as in the first run.
        complete: as ``complete_groups`` returns them.
    """
    known = complete.select(*GROUP_KEY, F.lit(True).alias("known"))
    snapshots = _of_groups(warehouse, SUBSCRIPTION_SNAPSHOTS.name, groups).join(known, list(GROUP_KEY), "left")
    others = ("first_position", "offsets_partition", "has_conflict", *audit_udfs.TARGET_COLUMNS, "group_type", "leader_client")
    timeouts = {f"{name}_timeouts_ms": F.col("members")[f"{name}_timeout_ms"] for name in ("rebalance", "session")}
    more = {
        "offered": F.col("members")["strategies"],
        **timeouts,
        "known_batched_epoch_count": F.col("batched_epoch_count"),  # the packed one has no nulls
        "observed_us": F.unix_micros("observed_at"),
        "is_complete": F.coalesce("known", F.lit(False)),
    }
    return flatten_snapshots(snapshots.withColumns(more), *others, *more)


def solution_rows(warehouse: Warehouse, groups: StagedKeys | None) -> DataFrame:
    """Return the solutions of the generations that the audit reads; only the observed ones have topics.

    Counterfactual ones that none of the new generations is compared with are left out.

    Args:
        groups: see ``snapshot_rows``.
    """
    topics = warehouse.read(GENERATION_TOPICS.name).select(
        "cluster_id",
        "topics_hash",
        *topic_columns(),
        F.filter("topics", lambda topic: topic["is_uncertain"])["topic"].alias("uncertain_topics"),
    )
    solutions = _of_groups(warehouse, SOLUTIONS.name, groups)
    if groups is not None:
        solutions = solutions.where((F.col("basis") != str(Basis.COUNTERFACTUAL)) | (F.col("position") >= F.col("compared_from")))
    solved = solutions.select(
        *GENERATION_KEY,
        "basis",
        "strategy",
        "topics_hash",
        "status",
        "detail",
        "kafka_version",
        "conformance",
        "has_predecessor",
        "is_rewrite",
        "is_follow_up",
        "rebalance_count",
        "cooperative_revocation_count",
        "recurrences",
        "holdings",
    ).join(topics, ["cluster_id", "topics_hash"])
    is_observed = F.col("basis") == str(Basis.OBSERVED)
    for name in ("topic_topic", "topic_topic_id", "topic_partition_count", "topic_racks", "uncertain_topics"):
        solved = solved.withColumn(name, F.when(is_observed, F.col(name)))
    return solved


def _topics_of_groups(warehouse: Warehouse, groups: StagedKeys | None) -> DataFrame:
    """Return the topics of the generations that the audit reads: (cluster_id, group_id, topic), with ``from_time`` unless all are new.

    A partition has an owner only if a member subscribes to its topic, or had it.
    """
    snapshots = _of_groups(warehouse, SUBSCRIPTION_SNAPSHOTS.name, groups)
    names = F.array_union(F.flatten("members.topics"), F.flatten("members.assigned")["topic"])
    topics = snapshots.select(*GROUP_KEY, F.explode(names).alias("topic")).distinct()
    return topics if groups is None else topics.join(groups.select(*GROUP_KEY, "from_time"), list(GROUP_KEY))


def history_rows(
    warehouse: Warehouse,
    groups: StagedKeys | None,
    complete: DataFrame,
    generation_count: int | None = None,
    work: Mapping[int, int] | None = None,
) -> DataFrame:
    """Return all rows that the audit reads, in its order: those of generations, and the commits and metadata snapshots of their groups.

    One shuffle brings a group's rows together; the workers keep the open group from batch to batch.

    Args:
        generation_count: how many generations are new in these groups; None if it is not known.
        work: as ``work_by_bucket`` returns it; None if it is not known.
    """
    spans = None
    if groups is not None:
        spans = groups.select(*GROUP_KEY, "first_position").withColumn("last_position", F.lit(None).cast("bigint"))
    commits = commit_rows(warehouse.read(OFFSET_SNAPSHOTS.name), spans)
    looks = look_rows(_topics_of_groups(warehouse, groups), warehouse.read(TOPIC_SNAPSHOTS.name), is_bounded=groups is not None)
    generations = {RowOrder.GENERATION: snapshot_rows(warehouse, groups, complete), RowOrder.SOLUTION: solution_rows(warehouse, groups)}
    rows = in_log_order(generations, commits, looks)
    return sorted_by_log(spread_groups(rows, generation_count, work), F.col("solution.basis"), F.col("solution.strategy"))


def _survey(context: RunContext) -> Survey | None:
    """Return what the rows of an audit of all groups are like; None where finding out would cost more than it saves."""
    warehouse = context.warehouse
    has_many_commits = not warehouse.is_empty(OFFSET_SNAPSHOTS.name) and warehouse.count(OFFSET_SNAPSHOTS.name) >= FROM_COMMITS
    if not has_many_commits and warehouse.count(SUBSCRIPTION_SNAPSHOTS.name) < MANY_GENERATIONS:
        return None
    snapshots, topics = (warehouse.read(spec.name) for spec in (SUBSCRIPTION_SNAPSHOTS, GENERATION_TOPICS))
    return survey(snapshots, topics, context.metadata_index.most_partitions)


def _forget(warehouse: Warehouse, groups: DataFrame) -> None:
    """Delete the audits, movements and findings that are computed again, those of groups with ``is_stale``."""
    again = groups.where("is_stale")
    audits = warehouse.read(GENERATION_AUDITS.name).join(F.broadcast(again), list(GROUP_KEY))
    stale = audits.where(F.col("position") >= F.col("first_position")).select(*GENERATION_KEY).distinct()
    stale = warehouse.materialize("stale_audits", stale)
    for spec in AUDITED_TABLES.values():
        warehouse.delete(spec.name, stale, GENERATION_KEY)


def with_pauses(observed: DataFrame) -> DataFrame:
    """Return observed audits with ``follow_up_ms`` and ``pause_partition_ms``, from the next generation of the same incarnation.

    Nulls: ``follow_up_ms`` if the next one is no follow-up; ``pause_partition_ms`` if a partition has no owner and no next generation is
    known. Times are those of the records. A pause is 0 if the next record has an earlier time.

    Args:
        observed: consecutive generations of each group, one row per generation.
    """
    in_order = Window.partitionBy(*GROUP_KEY).orderBy("position")
    succeeds = F.lead("previous_generation").over(in_order).isNotNull()
    later_ms = F.lead(F.unix_millis("observed_at")).over(in_order) - F.unix_millis("observed_at")
    until_next = F.when(succeeds, F.greatest(later_ms, F.lit(0).cast("bigint")))
    return observed.withColumns(
        {
            "follow_up_ms": F.when(F.lead("is_follow_up").over(in_order), until_next),
            "pause_partition_ms": F.when(F.col("unassigned_count") == 0, F.lit(0).cast("bigint")).otherwise(
                F.col("unassigned_count") * until_next
            ),
        }
    )


PAUSES = ("follow_up_ms", "pause_partition_ms")


def _append_audits(context: RunContext, audits: DataFrame, groups: StagedKeys | None, otherwise: StagedKeys | None) -> StagedKeys | None:
    """Write the new audits, and again those of earlier runs that change: the one before them, if its pauses do, and ``otherwise``.

    Returns the keys of those written again; None if there are none.

    Args:
        otherwise: audits of earlier runs as they are now; None if none changes for another reason.
    """
    warehouse, name = context.warehouse, GENERATION_AUDITS.name
    is_observed = F.col("basis") == str(Basis.OBSERVED)
    observed = audits.where(is_observed)
    if groups is None:
        warehouse.append(name, with_pauses(observed).unionByName(audits.where(~is_observed)))
        return None
    stored = warehouse.read(name).where(is_observed).join(groups.select(*GROUP_KEY), list(GROUP_KEY), "left_semi")
    newest = stored.withColumn("newest", F.max("position").over(Window.partitionBy(*GROUP_KEY))).where("position = newest").drop("newest")
    before = newest.select("*", *[F.col(column).alias(f"stored_{column}") for column in PAUSES])
    if otherwise is not None:  # with the pauses of now, if it is the newest one
        again = otherwise.select(*AUDIT_KEY, "causes").withColumnRenamed("causes", "causes_now").withColumn("is_otherwise", F.lit(True))
        before = before.join(again, list(AUDIT_KEY), "left")
        before = before.withColumn("causes", F.when(F.col("is_otherwise"), F.col("causes_now")).otherwise(F.col("causes"))).drop(
            "causes_now"
        )
    paused = warehouse.materialize("pauses", with_pauses(observed.unionByName(before, allowMissingColumns=True)))
    is_before, differs = F.col("run_sequence") != context.run_sequence, differs_from_stored(PAUSES)
    if otherwise is not None:
        differs |= F.coalesce("is_otherwise", F.lit(False))
    changed = paused.where(is_before & differs).select(*GENERATION_AUDITS.schema.names)
    if otherwise is not None:
        changed = changed.unionByName(otherwise.rows.join(changed.select(*AUDIT_KEY), list(AUDIT_KEY), "left_anti"))
    columns = (*AUDIT_KEY, "run_sequence")  # so that Delta reads only the files of those runs
    rewritten = changed.select(*columns)
    parts = (paused.where(~is_before), changed.withColumns(context.run_columns), audits.where(~is_observed))
    rows = reduce(DataFrame.unionByName, [part.select(*GENERATION_AUDITS.schema.names) for part in parts])
    count, _ = warehouse.replace(name, rewritten, columns, rows)
    return StagedKeys(rewritten.select(*AUDIT_KEY), count) if count else None


def run(context: RunContext) -> StageResult:
    """Audit newly computed solutions, and update older rows that new commits or topic metadata affect."""
    consumed, rewritten = context.unread(SOLUTIONS.name), None
    if consumed is not None:
        rewritten = _audit(context, consumed)
    news = read_new_commits(context, rewritten)
    if news is not None:
        late_offsets.refresh(context, news, rewritten)
        coordinators.refresh(context, news)
    if consumed is None or (news is not None and news.late_commits is not None):  # late commits change movements, which say who was silent
        inferred_causes.refresh(context)
    if consumed is not None or has_new_commits(context) or commit_findings.has_new_records(context):
        commit_findings.refresh(context)
    look_findings.refresh(context, consumed)
    logged_causes.refresh(context)
    stuck_findings.refresh(context)
    by_table = (READ_HERE, look_findings.READ_HERE, commit_findings.READ_HERE, stuck_findings.READ_HERE)
    used = {SOLUTIONS.name: SOLUTIONS.name, logged_causes.READ_HERE: GROUP_EVENTS.name} | {
        reader: table for readers in by_table for table, reader in readers.items()
    }
    read_now = [reader for reader, table in used.items() if context.unread(table, reader) is not None]
    known_now = (*read_now, ORIGINS_READ_HERE, commit_findings.LANDED_UNTIL_READ_HERE)
    return StageResult(context.state.using(dict.fromkeys(known_now, context.run_sequence)))


def _audit(context: RunContext, consumed: int) -> StagedKeys | None:
    """Audit new solutions; return the keys that ``_append_audits`` returns."""
    warehouse = context.warehouse
    groups: StagedKeys | None = None
    new_count, is_stale = None, False
    if not warehouse.is_empty(GENERATION_AUDITS.name):
        audits = warehouse.read(GENERATION_AUDITS.name)
        groups = warehouse.materialize_keys("audit_groups", audited_groups(warehouse.read_new(SOLUTIONS.name, consumed), audits))
        new_count, is_stale = groups.rows.agg(F.sum("new_count"), F.bool_or("is_stale")).collect()[0]
    audit_history = partial(
        audit_udfs.audit_history,
        offsets_partition_counts=context.metadata_index.offsets_partition_counts,
        max_look_delay_s=context.settings.audit.max_look_delay_s,
        limits=context.worker_limits,
    )
    snapshots = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name)
    if groups is not None:
        snapshots = snapshots.join(groups.distinct(*GROUP_KEY), list(GROUP_KEY), "left_semi")
    complete = complete_groups(snapshots, context.state.origins)
    found, work = None, None
    if groups is None:
        found = _survey(context)
        work = None if found is None else found.work
    elif (new_count or 0) >= MANY_GENERATIONS:
        work = work_by_bucket(_of_groups(warehouse, SUBSCRIPTION_SNAPSHOTS.name, groups))
    rows = history_rows(warehouse, groups, complete, new_count, work).mapInArrow(audit_history, AUDITED_ROWS)
    with nullcontext() if found is None else batches_of_small_rows(context.spark, found.largest_row_bytes):
        staged = warehouse.materialize("audit", rows)
    if groups is not None and is_stale:
        _forget(warehouse, groups.rows)
    parts = {column: staged.where(F.col(column).isNotNull()).select(f"{column}.*") for column in AUDITED_TABLES}
    made = {spec.name: context.rows_of(spec, parts[column]) for column, spec in AUDITED_TABLES.items()}
    audits = made[GENERATION_AUDITS.name]
    warehouse.append(MOVEMENTS.name, made[MOVEMENTS.name])
    departures = inferred_causes.departures_near_commits(context)
    expired = inferred_causes.find_expired(context, groups, departures, with_new=True)
    otherwise = None if departures is None else inferred_causes.inferred_otherwise(context, departures, expired)
    rewritten = _append_audits(context, inferred_causes.with_inferred(audits, expired), groups, otherwise)
    warehouse.append(FINDINGS.name, made[FINDINGS.name])
    return rewritten
