"""Commit findings: offset commits, topic metadata, the newest generation of each group -> ``findings`` on what groups commit.

These findings are about the newest generation only, and use all commits and topic metadata. A run that landed some computes them again and
writes only what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.audit import udfs as audit_udfs
from jobs.audit.expiring_commits import expiring_commits
from jobs.audit.found_rows import found_in
from jobs.audit.open_targets import is_open, longest_timeout_ms, open_targets, overdue_targets
from jobs.audit.stalled_members import known_until, quiet_groups, stalled_members, stopped_partitions
from jobs.context import RunContext
from jobs.findings import COMMIT_RULES
from jobs.findings.commits import BUSY_RECORDS_PER_SECOND, BUSY_SHARE, LEAST_GROWTH_MS
from jobs.storage.changed_findings import replace_findings
from jobs.storage.current_lag import newest_moments, newest_positions
from jobs.storage.scratch import StagedKeys
from schemas.config import DEFAULT_RETENTION_HOURS
from schemas.keys import GENERATION_KEY, GROUP_KEY, PARTITION_KEY, TOPIC_KEY
from schemas.staging import COMMIT_FACTS
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

Stage = Callable[[str, DataFrame], DataFrame]
"""``Warehouse.materialize_together``, or a function like it."""
SOURCE_KEY = ("cluster_id", "source")
BUSY_WINDOW_S, LEAST_WINDOW_S = 3_600, 60
"""Offset records are counted over the last hour. Their rate is over the time in which there are records, at least a minute."""
GROWTH_WINDOW_HOURS = 24
"""How far back metadata snapshots are compared: one day before the last record, even if the generation is a year old."""
MOST_RECORDS = 2**63 - 1
"""The largest count of records that a column can hold. A capture may have offsets that no log reaches."""


def newest_generations(newest: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return what commits are compared with of the newest audited generation of each group.

    Rows: (cluster_id, group_id); position, generation, observed_at, source, member_count, has_subscriptions, ``subscribed`` (topics of all
    members), offsets_partition, emptied_at (when an empty classic group became so; null of consumer-protocol groups), is_open and
    rebalance_timeout_ms (see ``open_targets``), and ``clients`` (structs of member_id and client_id; an id may occur twice, as in the
    record).

    Args:
        newest: as ``current_lag.newest_positions`` returns them.
    """
    return newest.join(snapshots, list(GENERATION_KEY)).select(
        *GENERATION_KEY,
        *("generation", "observed_at", "source"),
        F.size("members").alias("member_count"),
        F.coalesce("has_subscriptions", F.lit(True)).alias("has_subscriptions"),
        F.array_distinct(F.flatten(F.col("members.topics"))).alias("subscribed"),
        "offsets_partition",
        is_open().alias("is_open"),
        F.when(F.col("group_type") == str(GroupType.CLASSIC), F.col("joined_at")).alias("emptied_at"),
        longest_timeout_ms().alias("rebalance_timeout_ms"),
        F.transform("members", lambda member: F.struct(member["member_id"], member["client_id"])).alias("clients"),
    )


def last_commits(commits: DataFrame) -> DataFrame:
    """Return the last offset commit of each partition of a group, or its deletion.

    Rows: ``PARTITION_KEY``; is_deleted, commit_at (time of the record), committed_offset, committed_at, expires_at; of all commits
    first_commit_at and commit_count, and of these and the deletions observed_at, the newest.
    """
    # Each column by itself: for the largest struct Spark would sort all commits.
    columns = {name: name for name in ("is_deleted", "committed_offset", "committed_at", "expires_at")} | {"commit_at": "observed_at"}
    last = [F.max_by(column, "position").alias(name) for name, column in columns.items()]
    made = F.when(~F.col("is_deleted"), F.col("observed_at"))
    of_all = (F.min(made).alias("first_commit_at"), F.count(made).alias("commit_count"), F.max("observed_at").alias("observed_at"))
    return commits.groupBy(*PARTITION_KEY).agg(*last, *of_all)


def unsubscribed_topics(generations: DataFrame, last: DataFrame) -> DataFrame:
    """Return the topics for which a group has commits that are not deleted, and to which no member subscribes.

    Rows: (cluster_id, group_id); ``unsubscribed`` has topic and is_recent, by name. Groups without members, or without subscriptions in
    their source, are left out.

    Args:
        last: as ``last_commits`` returns them.
    """
    subscribed = generations.where("member_count > 0 AND has_subscriptions").select(*GROUP_KEY, "observed_at", "subscribed")
    live = last.where("NOT is_deleted").groupBy(*GROUP_KEY, "topic").agg(F.max("commit_at").alias("commit_at"))
    stray = live.join(subscribed, list(GROUP_KEY)).where(~F.array_contains("subscribed", F.col("topic")))
    topic = F.struct("topic", (F.col("commit_at") > F.col("observed_at")).alias("is_recent"))
    return stray.groupBy(*GROUP_KEY).agg(F.sort_array(F.collect_list(topic)).alias("unsubscribed"))


def uncommitted_partitions(generations: StagedKeys, assignments: DataFrame, commits: DataFrame, last: DataFrame) -> DataFrame:
    """Return the partitions of members for whose partitions the group never committed an offset.

    Rows: ``PARTITION_KEY``, member_id; since and until, the time in which records must have come in. Only the time up to the last commit of
    the group's source counts, because metadata snapshots may continue after the records end.
    """
    until = F.max("observed_at") - F.expr(f"INTERVAL {LEAST_GROWTH_MS} MILLISECONDS")
    with_commits = commits.groupBy(*SOURCE_KEY).agg(until.alias("until"))
    asked = generations.select(*GENERATION_KEY, "source", "observed_at", "member_count").where("member_count > 0")
    given = assignments.where(F.col("basis") == str(Basis.OBSERVED)).select(*GENERATION_KEY, "member_id", "partitions")
    recent = given.join(asked, list(GENERATION_KEY)).join(F.broadcast(with_commits), list(SOURCE_KEY)).where("observed_at < until")
    since = F.greatest("observed_at", F.expr(f"until - INTERVAL {GROWTH_WINDOW_HOURS} HOURS")).alias("since")
    held = _possibly_silent(recent.select(*GROUP_KEY, "member_id", since, "until", F.inline("partitions")), last)
    held = held.withColumn("partition", F.explode("partitions")).drop("partitions")
    committed = last.select(*PARTITION_KEY, F.lit(True).alias("is_committed"))
    of_member = Window.partitionBy(*GROUP_KEY, "member_id")
    marked = held.join(committed, list(PARTITION_KEY), "left")
    silent = marked.withColumn("commits", F.max("is_committed").over(of_member)).where("commits IS NULL")
    return silent.select(*PARTITION_KEY, "member_id", "since", "until")


def silent_members(grown: DataFrame) -> DataFrame:
    """Return the members for whose partitions the group never committed an offset, although records arrived long enough ago.

    Rows: (cluster_id, group_id); ``silent`` has member_id, partition_count and record_count, by member id.

    Args:
        grown: as ``uncommitted_partitions`` returns them, with record_count, the records that came in from ``since`` to ``until``.
    """
    record_count = F.least(F.sum("record_count"), F.lit(MOST_RECORDS).cast("decimal(38,0)")).cast("bigint")
    by_member = grown.groupBy(*GROUP_KEY, "member_id").agg(
        F.count(F.lit(1)).cast("int").alias("partition_count"), record_count.alias("record_count")
    )
    member = F.struct("member_id", "partition_count", "record_count")
    return by_member.where("record_count > 0").groupBy(*GROUP_KEY).agg(F.sort_array(F.collect_list(member)).alias("silent"))


def _possibly_silent(held: DataFrame, last: DataFrame) -> DataFrame:
    """Return held topics without those of members that have commits by counts alone, which are nearly all members.

    A member's partitions of a topic, and the partitions with commits, lie between the same two numbers. If the two counts together exceed
    the amount of numbers between, some partition is in both. Counts per topic are few; partitions are many.

    Args:
        held: cluster_id, group_id, member_id, topic, ``partitions``, and other columns, which stay.
        last: as ``last_commits`` returns them.
    """
    committed = last.groupBy(*GROUP_KEY, "topic").agg(
        F.count(F.lit(1)).alias("committed_count"), F.min("partition").alias("lowest"), F.max("partition").alias("highest")
    )
    span = F.greatest("highest", F.array_max("partitions")) - F.least("lowest", F.array_min("partitions")) + F.lit(1)
    shows_commit = F.coalesce(F.col("committed_count") + F.size(F.array_distinct("partitions")) > span, F.lit(False))
    of_member = Window.partitionBy(*GROUP_KEY, "member_id")
    counted = held.join(committed, [*GROUP_KEY, "topic"], "left").withColumn("shows_commit", F.max(shows_commit).over(of_member))
    return counted.where("NOT shows_commit").select(*held.columns)


def _with_growth(held: DataFrame, looks: DataFrame) -> DataFrame:
    """Return held partitions with ``record_count``, from the first metadata snapshot since ``since`` to the last one up to ``until``.

    The count is 0 if there are no two metadata snapshots, or if they have different topics of the name, or a shorter log. It is a decimal,
    because a capture may have any offsets.
    """
    seen = looks.select(*TOPIC_KEY, F.col("observed_at").alias("look_at"), "topic_id", F.inline("partitions"))
    seen = seen.select(*TOPIC_KEY, "partition", "look_at", F.struct("topic_id", "end_offset").alias("seen"))
    between = held.select(*TOPIC_KEY, "partition", "since", "until").distinct().join(seen, [*TOPIC_KEY, "partition"])
    ends = (
        between.where("look_at BETWEEN since AND until")
        .groupBy(*TOPIC_KEY, "partition", "since", "until")
        .agg(F.min_by("seen", "look_at").alias("first"), F.max_by("seen", "look_at").alias("final"))
    )
    first, final = F.col("first"), F.col("final")
    growth = final["end_offset"].cast("decimal(38,0)") - first["end_offset"].cast("decimal(38,0)")
    growth = F.when(first["topic_id"].eqNullSafe(final["topic_id"]), F.greatest(growth, F.lit(0)))
    return held.join(ends, [*TOPIC_KEY, "partition", "since", "until"], "left").withColumn("record_count", F.coalesce(growth, F.lit(0)))


def busy_coordinators(generations: DataFrame, commits: DataFrame, looks: DataFrame, stage: Stage) -> DataFrame:
    """Return the brokers with far more offset records than the mean broker, each with the group that writes most of them.

    Rows: (cluster_id, group_id); ``coordinator`` has the fields of ``jobs.findings.commits.BusyCoordinator``. The counts need records of
    ``__consumer_offsets``, and the leaders of its partitions need topic metadata that has it.

    Args:
        commits: one row per committed partition, which is one record.
        stage: keeps rows that are needed more than once.
    """
    known = commits.where("offsets_partition IS NOT NULL AND NOT is_deleted")
    ends = known.groupBy("cluster_id").agg(F.max("observed_at").alias("last_at"))
    recent = known.join(F.broadcast(ends), "cluster_id").where(F.expr(f"observed_at > last_at - INTERVAL {BUSY_WINDOW_S} SECONDS"))
    span = (F.unix_millis(F.max("last_at")) - F.unix_millis(F.min("observed_at"))) / 1000
    rates = recent.groupBy("cluster_id").agg(
        F.greatest(span, F.lit(float(LEAST_WINDOW_S))).alias("seconds"), F.count(F.lit(1)).alias("all")
    )
    # No broker is busy in a cluster that has too few records for one; mostly none is left to look into.
    seconds = stage("busy_clusters", rates.where(F.col("all") >= BUSY_RECORDS_PER_SECOND * F.col("seconds")).drop("all"))
    recent = recent.join(F.broadcast(seconds.select("cluster_id")), "cluster_id", "left_semi")
    counts = recent.groupBy("cluster_id", "offsets_partition", "group_id").agg(F.count(F.lit(1)).alias("own"))
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
    busiest_brokers = busiest_brokers.join(broker_counts, "cluster_id").join(seconds, "cluster_id")
    is_hot = (
        (F.col("broker_count") > 1)
        & (F.col("of_broker") * F.col("broker_count") >= BUSY_SHARE * F.col("of_cluster"))
        & (F.col("of_broker") >= BUSY_RECORDS_PER_SECOND * F.col("seconds"))
    )
    groups = busiest_brokers.where(is_hot).join(generations.select(*GROUP_KEY), list(GROUP_KEY))
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
    return chosen.select(*GROUP_KEY, F.struct(*[column.alias(name) for name, column in coordinator.items()]).alias("coordinator"))


def commit_facts(
    generations: StagedKeys,
    assignments: DataFrame,
    commits: DataFrame,
    commit_count: int,
    looks: DataFrame,
    records: DataFrame,
    stage: Stage,
    landed_until: Mapping[str, int] | None = None,
    retention_hours: int = DEFAULT_RETENTION_HOURS,
) -> DataFrame:
    """Return the facts for the rules on commits: one row per group with a possible finding, of ``schemas.staging.COMMIT_FACTS``.

    Args:
        generations: as ``newest_generations`` returns them.
        commit_count: the number of commits.
        records: rows of ``group_records``; they are read only if there may be a finding that needs them.
        stage: keeps rows that are needed more than once.
        landed_until: see ``runs.landed_until``.
        retention_hours: how long brokers are taken to keep commits that nobody uses.
    """
    last, newest = stage("newest_commits", last_commits(commits)), generations.rows
    parts = [unsubscribed_topics(newest, last)]
    if commit_count >= BUSY_RECORDS_PER_SECOND * LEAST_WINDOW_S:  # with fewer records no broker is busy
        parts.append(busy_coordinators(newest, commits, looks, stage))
    if not newest.where("is_open").isEmpty():
        overdue = stage("overdue_targets", overdue_targets(newest, commits))
        if not overdue.isEmpty():
            parts.append(open_targets(overdue, records))
    parts.append(expiring_commits(newest, last, records, newest_moments([newest, last, looks]), retention_hours))
    # Both kinds of partitions are few; the records that came into them are counted together.
    waiting = uncommitted_partitions(generations, assignments, commits, last).withColumn("is_stopped", F.lit(False))
    quiet = stage("quiet_groups", quiet_groups(generations, last, known_until(commits, looks, landed_until or {})))
    has_quiet = not quiet.isEmpty()
    if has_quiet:
        stopped = stopped_partitions(quiet, newest, assignments, last).withColumn("is_stopped", F.lit(True))
        waiting = waiting.unionByName(stopped, allowMissingColumns=True)
    grown = stage("grown_partitions", _with_growth(stage("waiting_partitions", waiting), looks))
    parts.append(silent_members(grown.where("NOT is_stopped")))
    if has_quiet:
        parts.append(stalled_members(grown.where("is_stopped"), looks))
    kinds = [name for part in parts for name in part.columns if name not in GROUP_KEY]
    together = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts).groupBy(*GROUP_KEY)
    known = together.agg(*[F.first(name, ignorenulls=True).alias(name) for name in kinds])  # few groups have any
    times = {"observed_at_ms": F.unix_millis("observed_at"), "retention_hours": F.lit(retention_hours)}
    facts = newest.withColumns(times).join(known, list(GROUP_KEY))
    absent = [F.lit(None).cast(COMMIT_FACTS[name].dataType).alias(name) for name in COMMIT_FACTS.names if name not in facts.columns]
    has_members = F.col("silent").isNotNull() | F.col("stalled").isNotNull()
    return facts.select("*", *absent).withColumn("clients", F.when(has_members, F.col("clients"))).select(*COMMIT_FACTS.names)


def refresh(context: RunContext) -> None:
    """Write new findings on commits, and delete stored ones that no longer hold."""
    warehouse = context.warehouse
    if not context.written.get(OFFSET_SNAPSHOTS.name):
        return
    tables = (GENERATION_AUDITS, SUBSCRIPTION_SNAPSHOTS, ASSIGNMENTS, OFFSET_SNAPSHOTS, TOPIC_SNAPSHOTS, GROUP_RECORDS)
    audits, snapshots, assignments, commits, looks, records = (warehouse.read(spec.name) for spec in tables)
    newest = warehouse.materialize_keys("newest_positions", newest_positions(audits)).select(*GENERATION_KEY)
    generations = warehouse.materialize_keys("newest_generations", newest_generations(newest, snapshots))
    commit_count = warehouse.count(OFFSET_SNAPSHOTS.name)
    state = (context.state.landed_until, context.settings.audit.offsets_retention_hours)
    facts = commit_facts(generations, assignments, commits, commit_count, looks, records, warehouse.materialize_together, *state)
    found = found_in(context, facts, audit_udfs.find_in_commits)
    stored = None
    if context.before.written.get(FINDINGS.name):
        stored = warehouse.read(FINDINGS.name).where(F.col("rule_id").isin([str(rule.rule_id) for rule in COMMIT_RULES]))
    replace_findings(warehouse, stored, found, "commit_findings")
