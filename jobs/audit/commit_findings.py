"""Commit findings: offset commits, topic metadata, the newest generation of each group -> ``findings`` on what groups commit.

These findings are about the newest generation only. They use all commits and topic metadata, tombstones and the records of members, and
how far logs have been read. If some of these are new since the last audit, a run computes the findings again and writes only what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.audit.commit_facts import JUDGED_FIELDS, fact_rows, find_in_commits, looks_of
from jobs.audit.commit_signs import KnownMoments, log_of, read_signs, sign_rows
from jobs.audit.deleted_groups import deleted_groups
from jobs.audit.new_commits import rows_since
from jobs.audit.open_targets import is_open, longest_timeout_ms, member_records
from jobs.context import RunContext
from jobs.findings import COMMIT_RULES
from jobs.findings.commits import BUSY_RECORDS_PER_SECOND, BUSY_SHARE
from jobs.storage.changed_findings import replace_findings
from jobs.storage.current_lag import newest_positions
from jobs.storage.last_commits import read_last_commits, write_last_commits
from jobs.storage.scratch import StagedKeys
from jobs.workers.guard import WorkerLimits
from schemas.config import DEFAULT_RETENTION_HOURS
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.staging import COMMIT_SIGNS, FOUND_ROWS
from schemas.tables import (
    ASSIGNMENTS,
    FINDINGS,
    GENERATION_AUDITS,
    GROUP_RECORDS,
    OFFSET_SNAPSHOTS,
    SUBSCRIPTION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
)
from schemas.vocabulary import Basis, GroupType
from schemas.wire.keys import OFFSETS_TOPIC

READ_HERE = {GROUP_RECORDS.name: f"{GROUP_RECORDS.name} for {FINDINGS.name}"}
"""Table -> the name under which ``runs.consumed`` records how far its rows were used here."""
LANDED_UNTIL_READ_HERE = f"landed_until for {FINDINGS.name}"
"""The same name for ``runs.landed_until``: ``runs.consumed`` has the last run that has audited."""
Stage = Callable[[str, DataFrame], DataFrame]
"""``Warehouse.materialize_together``, or a function like it."""
BUSY_WINDOW_S, LEAST_WINDOW_S = 3_600, 60
"""Offset records are counted over the last hour. Their rate is over the time in which there are records, at least a minute."""


def newest_generations(newest: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return what commits are compared with of the newest audited generation of each group.

    Rows: (cluster_id, group_id); position, generation, observed_at, source, member_count, has_subscriptions, ``subscribed`` (topics of all
    members), offsets_partition, emptied_at (when an empty classic group became so; null of consumer-protocol groups, and of groups that
    had no members since they were made), is_open and
    rebalance_timeout_ms (see ``open_targets``), and ``clients`` (structs of member_id and client_id; an id may occur twice, as in the
    record).

    Args:
        newest: as ``current_lag.newest_positions`` returns them.
    """
    had_members = ~F.col("protocol_type").eqNullSafe("")
    return newest.join(snapshots, list(GENERATION_KEY)).select(
        *GENERATION_KEY,
        *("generation", "observed_at", "source"),
        F.size("members").alias("member_count"),
        F.coalesce("has_subscriptions", F.lit(True)).alias("has_subscriptions"),
        F.array_distinct(F.flatten(F.col("members.topics"))).alias("subscribed"),
        "offsets_partition",
        is_open().alias("is_open"),
        F.when((F.col("group_type") == str(GroupType.CLASSIC)) & had_members, F.col("joined_at")).alias("emptied_at"),
        longest_timeout_ms().alias("rebalance_timeout_ms"),
        F.transform("members", lambda member: F.struct(member["member_id"], member["client_id"])).alias("clients"),
    )


def _of_cluster(values: Mapping[str, int] | Mapping[str, float]) -> Column:
    """Return the value of a row's cluster; null if there is none."""
    return F.create_map(*[F.lit(one) for item in values.items() for one in item])[F.col("cluster_id")]


def busy_coordinators(generations: DataFrame, commits: DataFrame, looks: DataFrame, recorded_until: Mapping[str, int]) -> DataFrame | None:
    """Return the brokers with far more offset records than the mean broker, each with the group that writes most of them.

    None if no cluster has enough records for a busy broker, which is mostly so.

    Rows: (cluster_id, group_id), ``JUDGED_FIELDS``; ``coordinator`` has the fields of ``jobs.findings.commits.BusyCoordinator``. The
    counts need records of ``__consumer_offsets``, and the leaders of its partitions need topic metadata that has it.

    Args:
        commits: one row per committed partition, which is one record.
        recorded_until: see ``KnownMoments``; for one cluster at least.
    """
    since = datetime.fromtimestamp(min(recorded_until.values()) // 1_000_000 - BUSY_WINDOW_S, timezone.utc)
    recorded = rows_since(commits, since).where("offsets_partition IS NOT NULL AND NOT is_deleted")
    known = recorded.withColumn("last_us", _of_cluster(recorded_until))
    recent = known.where(F.unix_micros("observed_at") > F.col("last_us") - BUSY_WINDOW_S * 1_000_000)
    span = (F.floor(F.max("last_us") / 1_000) - F.unix_millis(F.min("observed_at"))) / 1000
    rates = recent.groupBy("cluster_id").agg(
        F.greatest(span, F.lit(float(LEAST_WINDOW_S))).alias("seconds"), F.count(F.lit(1)).alias("all")
    )
    busy = {row["cluster_id"]: row["seconds"] for row in rates.collect() if row["all"] >= BUSY_RECORDS_PER_SECOND * row["seconds"]}
    if not busy:
        return None
    recent = recent.where(F.col("cluster_id").isin(sorted(busy))).withColumn("seconds", _of_cluster(busy))
    counts = recent.groupBy("cluster_id", "offsets_partition", "group_id", "seconds").agg(F.count(F.lit(1)).alias("own"))
    newest_look = F.max_by("partitions", "observed_at").alias("partitions")
    leaders = (
        looks.where(F.col("topic") == OFFSETS_TOPIC).groupBy("cluster_id").agg(newest_look).select("cluster_id", F.inline("partitions"))
    )
    leaders = leaders.where("leader >= 0").select(
        "cluster_id", F.col("partition").alias("offsets_partition"), F.col("leader").alias("broker")
    )
    broker_counts = leaders.groupBy("cluster_id").agg(F.count_distinct("broker").alias("broker_count"))
    of_broker, of_cluster = Window.partitionBy("cluster_id", "broker"), Window.partitionBy("cluster_id")
    led = counts.join(leaders, ["cluster_id", "offsets_partition"]).withColumns(
        {
            "of_partition": F.sum("own").over(Window.partitionBy("cluster_id", "offsets_partition")),
            "of_broker": F.sum("own").over(of_broker),
            "group_count": F.count(F.lit(1)).over(of_broker),
            "of_cluster": F.sum("own").over(of_cluster),
        }
    )
    busiest = F.max_by("offsets_partition", F.struct("of_partition", -F.col("offsets_partition"))).over(of_broker)
    busiest_brokers = led.withColumns({"busiest": busiest, "most": F.max("of_partition").over(of_broker)})
    busiest_brokers = busiest_brokers.join(broker_counts, "cluster_id")
    is_hot = (
        (F.col("broker_count") > 1)
        & (F.col("of_broker") * F.col("broker_count") >= BUSY_SHARE * F.col("of_cluster"))
        & (F.col("of_broker") >= BUSY_RECORDS_PER_SECOND * F.col("seconds"))
    )
    known = generations.select(
        *GROUP_KEY, *("generation", "position", "member_count"), F.unix_millis("observed_at").alias("observed_at_ms")
    )
    groups = busiest_brokers.where(is_hot).join(known, list(GROUP_KEY))
    first = F.row_number().over(of_broker.orderBy(F.desc("own"), "group_id"))
    coordinator = {
        "broker": F.col("broker"),
        "offsets_partition": F.col("busiest"),
        "seconds": F.col("seconds"),
        "group_count": F.col("group_count"),
        "offset_record_count": F.col("of_broker"),
        "partition_offset_record_count": F.col("most"),
        "own_offset_record_count": F.col("own"),
        "mean_count": F.col("of_cluster") / F.col("broker_count"),
    }
    chosen = groups.withColumn("rank", first).where("rank = 1")
    return chosen.select(
        *GROUP_KEY, *JUDGED_FIELDS, F.struct(*[column.alias(name) for name, column in coordinator.items()]).alias("coordinator")
    )


def known_moments(
    generations: DataFrame, last: DataFrame, looks: DataFrame, looks_ms: Mapping[str, Sequence[int]], landed_until: Mapping[str, int]
) -> KnownMoments:
    """Return up to when commits are known.

    Args:
        generations: as ``newest_generations`` returns them.
        last: as ``read_last_commits`` returns them.
        looks: rows of ``topic_snapshots``.
        looks_ms: see ``KnownMoments``.
        landed_until: see ``runs.landed_until``.
    """
    nothing = F.lit(None)
    at_us = F.unix_micros("observed_at").alias("at_us")
    commits = last.select("cluster_id", F.inline("commits"))
    logs = ("cluster_id", "source", log_of(F.col("offsets_partition")).alias("log"))
    times = ("cluster_id", nothing.cast("string").alias("source"), nothing.cast("int").alias("log"))
    recorded_us = F.when(F.col("offsets_partition").isNotNull(), F.col("newest_commit_us")).alias("recorded_us")
    none_recorded = nothing.cast("bigint").alias("recorded_us")
    parts = [
        commits.select(*logs, F.col("newest_us").alias("at_us"), recorded_us),
        *(rows.select(*times, at_us, none_recorded) for rows in (generations, looks)),
    ]
    if landed_until:
        landed = F.create_map(*[F.lit(one) for item in landed_until.items() for one in item])
        ends = looks.where(F.col("topic") == OFFSETS_TOPIC).select("cluster_id", at_us, F.inline("partitions"))
        is_read = F.col("end_offset") <= landed[F.concat_ws(" ", "cluster_id", "partition")]
        of_log = (nothing.cast("string").alias("source"), F.col("partition").alias("log"))
        parts.append(ends.where(is_read).select("cluster_id", *of_log, "at_us", none_recorded))
    times_until = [F.max(name).alias(name) for name in ("at_us", "recorded_us")]
    found = reduce(DataFrame.unionByName, parts).groupBy("cluster_id", "source", "log").agg(*times_until).collect()
    newest: dict[str, int] = {}
    for row in found:
        if row["source"] is not None or row["log"] is None:
            newest[row["cluster_id"]] = max(newest.get(row["cluster_id"], row["at_us"]), row["at_us"])
    committed_until = {(row["cluster_id"], row["source"], row["log"]): row["at_us"] for row in found if row["source"] is not None}
    read_until = {(row["cluster_id"], row["log"]): row["at_us"] for row in found if row["source"] is None and row["log"] is not None}
    source_until: dict[tuple[str, str], int] = {}
    for (cluster_id, source, _), at in committed_until.items():
        source_until[cluster_id, source] = max(source_until.get((cluster_id, source), at), at)
    recorded_until: dict[str, int] = {}
    for row in found:
        if row["recorded_us"] is not None:
            recorded_until[row["cluster_id"]] = max(recorded_until.get(row["cluster_id"], row["recorded_us"]), row["recorded_us"])
    return KnownMoments(committed_until, source_until, read_until, newest, recorded_until, looks_ms)


def commit_facts(
    generations: StagedKeys,
    assignments: DataFrame,
    commits: DataFrame,
    commit_count: int,
    last: DataFrame,
    looks: DataFrame,
    looks_ms: Mapping[str, Sequence[int]],
    records: DataFrame,
    stage: Stage,
    limits: WorkerLimits,
    landed_until: Mapping[str, int] | None = None,
    retention_hours: int = DEFAULT_RETENTION_HOURS,
) -> DataFrame:
    """Return what the rules on commits use of the groups with a possible finding: rows of ``find_in_commits``.

    Args:
        generations: as ``newest_generations`` returns them.
        commits: rows of ``offset_snapshots``; those of the last hour are read.
        commit_count: the number of commits.
        last: as ``read_last_commits`` returns them.
        looks_ms: see ``KnownMoments``.
        records: rows of ``group_records``; they are read only if there may be a finding that needs them.
        stage: keeps rows that are needed more than once.
        limits: limits of a worker.
        landed_until: see ``runs.landed_until``.
        retention_hours: how long brokers are taken to keep commits that nobody uses.
    """
    newest = generations.rows
    moments = known_moments(newest, last, looks, looks_ms, landed_until or {})
    given = assignments.where(F.col("basis") == str(Basis.OBSERVED)).join(
        generations.select(*GENERATION_KEY), list(GENERATION_KEY), "left_semi"
    )
    read = partial(read_signs, moments=moments, retention_hours=retention_hours, limits=limits)
    signs = stage("commit_signs", sign_rows(newest, given, last).mapInArrow(read, COMMIT_SIGNS))
    shown = {
        "waiting": F.bool_or(F.col("waiting").isNotNull()),
        "overdue": F.bool_or(F.col("waited_ms").isNotNull()),
        "asks": F.bool_or("asks_for_deletion"),
    }
    (has,) = signs.agg(*[column.alias(name) for name, column in shown.items()]).collect()
    # With fewer records no broker is busy.
    may_be_busy = commit_count >= BUSY_RECORDS_PER_SECOND * LEAST_WINDOW_S and bool(moments.recorded_until)
    return fact_rows(
        signs,
        busy_coordinators(newest, commits, looks, moments.recorded_until) if may_be_busy else None,
        deleted_groups(signs, records) if has["asks"] else None,
        member_records(signs, records) if has["overdue"] else None,
        looks_of(signs, looks) if has["waiting"] else None,
    )


def has_new_records(context: RunContext) -> bool:
    """Return whether records of groups have landed since they were last used here, or logs may have been read further.

    Logs may have been if a run came since the last audit, such as ``land``. If it read nothing, the same findings are computed again.
    """
    has_unread = any(context.unread(name, reader) is not None for name, reader in READ_HERE.items())
    is_read_further = context.state.landed_until != context.before.landed_until
    return has_unread or is_read_further or context.state.consumed.get(LANDED_UNTIL_READ_HERE, 0) < context.run_sequence - 1


def refresh(context: RunContext) -> None:
    """Write new findings on commits, and delete stored ones that no longer hold."""
    warehouse = context.warehouse
    if not context.written.get(OFFSET_SNAPSHOTS.name):
        return
    tables = (GENERATION_AUDITS, SUBSCRIPTION_SNAPSHOTS, ASSIGNMENTS, OFFSET_SNAPSHOTS, TOPIC_SNAPSHOTS, GROUP_RECORDS)
    audits, snapshots, assignments, commits, looks, records = (warehouse.read(spec.name) for spec in tables)
    newest = warehouse.materialize_keys("newest_positions", newest_positions(audits)).select(*GENERATION_KEY)
    generations = warehouse.materialize_keys("newest_generations", newest_generations(newest, snapshots))
    write_last_commits(warehouse)
    last, commit_count = read_last_commits(warehouse), warehouse.count(OFFSET_SNAPSHOTS.name)
    limits, retention_hours = context.worker_limits, context.settings.audit.offsets_retention_hours
    state = (limits, context.state.landed_until, retention_hours)
    looks_ms = context.metadata_index.times_ms
    facts = commit_facts(
        generations, assignments, commits, commit_count, last, looks, looks_ms, records, warehouse.materialize_together, *state
    )
    judge = partial(find_in_commits, retention_hours=retention_hours, limits=limits)
    found = context.rows_of(FINDINGS, facts.mapInArrow(judge, FOUND_ROWS))
    stored = None
    if context.before.written.get(FINDINGS.name):
        stored = warehouse.read(FINDINGS.name).where(F.col("rule_id").isin([str(rule.rule_id) for rule in COMMIT_RULES]))
    replace_findings(warehouse, stored, found, "commit_findings")
