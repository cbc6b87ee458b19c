"""Queries of the report: each an aggregate over tables, and its rows as plain dictionaries."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.report.backtest_rows import is_predictable
from jobs.report.measures import AT_LAST_SETTLED, OF_GENERATION, ONLY_UNBROKEN, SUMMED, SUMS
from jobs.report.rows import SETTLED_COLUMNS
from schemas.keys import GROUP_KEY
from schemas.vocabulary import MOST_LAG, Basis, CauseSource, ResumeOutcome

MOST_GENERATIONS = 100  # nobody reads more on a page
TOPICS_SHOWN = 30
PARTITIONS_LISTED = 500  # of one line of owner changes; the rest is counted
_RESETS = [str(ResumeOutcome.RESET_NONE), str(ResumeOutcome.RESET_OUT_OF_RANGE)]
_GENERATION_COLUMNS = (
    "position",
    "generation",
    "previous_generation",
    "generation_gap",
    "is_follow_up",
    "is_settled",
    "revoked_count",
    "reassigned_count",
    "handed_over_count",
    "gained_count",
    "lost_count",
    "withheld_count",
    "orphaned_count",
    *OF_GENERATION,
    "is_lower_bound",
    "batched_epoch_count",
    "is_superseded",
    "rebalance_ms",
    "assignment_ms",
    "reconciled_ms",
    "triggers",
    "conformance",
)
_GENERATION_TIMES = ("observed_at", "epoch_at", "reconciled_at")
_TALLIED = ("basis", "strategy", "leader_client", "status", "conformance")


def _observed() -> Column:
    return F.col("basis") == str(Basis.OBSERVED)


def _is_settled() -> Column:
    return F.coalesce(F.col("is_settled"), F.lit(True))


def _causes_from(source: CauseSource, name: str) -> Column:
    """Return the causes that are known from a source, each once, without their members."""
    known = F.filter("causes", lambda cause: cause["source"] == str(source))
    return F.array_distinct(F.transform(known, lambda cause: cause["cause"])).alias(name)


def _milliseconds() -> Column:
    """Return the row's time as a number: a collected timestamp would be in the driver's time zone."""
    return F.unix_millis("observed_at")


def _measured(name: str) -> Column:
    """Return the values of a measure that sums may use: avoidable movements are not known after a gap."""
    if name not in ONLY_UNBROKEN:
        return F.col(name)
    return F.when(F.coalesce("generation_gap", F.lit(0)) == 0, F.col(name))


def count_parts(audits: DataFrame, findings: DataFrame) -> DataFrame:
    """Return the parts of a group's row for ``jobs.report.ranking.merge_parts``: rows of audits by strategy, rows of findings by rule.

    Strategies are part of the key, and all other columns are numbers: Spark sorts rows to aggregate a text or a struct, and hashes them
    to aggregate numbers. The driver merges the rest, which is little more than a row for each group.
    Reads: audits as schemas.tables.GENERATION_AUDITS, findings as schemas.tables.FINDINGS.
    """
    settled = F.when(_is_settled() & (F.col("member_count") > 0), F.col("position"))
    audited = (
        audits.where(_observed())
        .groupBy(*GROUP_KEY, "strategy")
        .agg(
            F.count("*").alias("generation_count"),
            *(F.sum(_measured(name)).alias(name) for name in SUMS),
            *(F.count(_measured(name)).alias(f"{name}_known") for name in SUMS),
            F.min(_milliseconds()).alias("first_at_ms"),
            F.max(_milliseconds()).alias("last_at_ms"),
            F.max("position").alias("newest_position"),
            F.max_by(_milliseconds(), "position").alias("newest_at_ms"),
            F.count_if(is_predictable()).alias("predictable_count"),
            F.max(F.when(is_predictable(), _milliseconds())).alias("predictable_at_ms"),
            F.max_by("member_count", "position").alias("member_count"),
            F.max(settled).alias("settled_position"),
            *(F.max_by(_best_gain() if name == "better_gain" else name, settled).alias(name) for name in AT_LAST_SETTLED),
        )
    )
    found = findings.groupBy(*GROUP_KEY, "rule_id", "severity").agg(
        F.count("*").alias("finding_count"), F.max("position").alias("newest_position"), F.max_by(_cycle_s(), "position").alias("cycle_s")
    )
    return audited.unionByName(found, allowMissingColumns=True)


def _cycle_s() -> Column:
    """Return the cycle of a finding on what happens again and again, in seconds; null of other findings."""
    return F.col("evidence")["cycle_seconds"].cast("bigint")


def _best_gain() -> Column:
    """Return by how much the best assignor is better: 0 if none is, null without a verdict."""
    return F.coalesce("better_gain", F.when(F.col("verdict").isNotNull(), 0.0))


def read_until(*times: DataFrame) -> DataFrame:
    """Return read_until_ms of each cluster in each frame, its newest time there.

    Reads: frames with cluster_id and observed_at. The rows have no group, so they travel with the parts of ``count_parts``.
    """
    newest = [rows.groupBy("cluster_id").agg(F.max(_milliseconds()).alias("read_until_ms")) for rows in times]
    return reduce(DataFrame.union, newest)


def tally_fleet(audits: DataFrame) -> DataFrame:
    """Return generations by (basis, strategy, leader_client, status, conformance) with their cost: ``ReportRows.tallies`` of the fleet.

    Reads: audits as schemas.tables.GENERATION_AUDITS.
    """
    return audits.groupBy(*_TALLIED).agg(*_costs())


def tally_groups(audits: DataFrame, limit: int) -> DataFrame:
    """Return the same for each group; observed rows have their newest generations, at most ``limit``, newest first.

    They also have ``settled``, their last settled generation with members: its position, generation, at_ms and ``SETTLED_COLUMNS``.
    Reads: audits as schemas.tables.GENERATION_AUDITS. Nulls: settled, if there is no such generation.
    """
    times = (F.unix_millis(name).alias(f"{name}_ms") for name in _GENERATION_TIMES)
    causes = (_causes_from(CauseSource.LOG, "logged_causes"), _causes_from(CauseSource.INFERRED, "likely_causes"))
    generation = F.struct(*_GENERATION_COLUMNS, *times, *causes)
    generations = F.collect_list(F.when(_observed(), generation))
    settled = F.struct("position", "generation", _milliseconds().alias("at_ms"), *SETTLED_COLUMNS)
    return audits.groupBy(*GROUP_KEY, *_TALLIED).agg(
        *_costs(),
        F.slice(F.sort_array(generations, asc=False), 1, limit).alias("generations"),
        F.max(F.when(_observed() & _is_settled() & (F.col("member_count") > 0), settled)).alias("settled"),
    )


def _costs() -> list[Column]:
    """Return the aggregates of a tally. Balance is that of settled generations.

    Ratios are summed as millionths: a sum of doubles depends on the order of rows. Sums of hashes show whether two strategies cover the
    same generations. Generations without members do not count: they cost nothing, and some strategies have no row for them. Half of each
    hash is summed, so billions of them fit into a bigint.
    """
    ratio = F.when(_is_settled(), F.col("imbalance_ratio"))
    millionths = F.sum(F.floor(ratio * 1_000_000 + 0.5)).cast("decimal(20,0)")
    half_hash = F.when(F.col("member_count") > 0, F.shiftright(F.xxhash64(*GROUP_KEY, "position"), 32))
    spread = F.when(_is_settled(), F.col("partitions_per_member_max") - F.col("partitions_per_member_min"))
    return [
        F.count("*").alias("generation_count"),
        F.count(half_hash).alias("covered_count"),
        F.sum(half_hash).alias("coverage"),
        *(F.sum(_measured(name)).alias(f"{name}_sum") for name in SUMMED),
        *(F.count(_measured(name)).alias(f"{name}_known") for name in SUMMED),
        F.sum("rebalance_count").alias("rebalance_count"),
        (millionths * F.lit(Decimal("0.000001"))).alias("imbalance_ratio_sum"),
        F.count(ratio).alias("imbalance_ratio_known"),
        F.max(ratio).alias("imbalance_ratio_max"),
        F.max(spread).alias("spread_max"),
    ]


def hold_partitions(assignments: DataFrame, members_shown: int) -> DataFrame:
    """Return one row for each member and topic of a group, for the same topics of every member shown.

    Half of the members shown have the largest loads and half the smallest, since idle members matter. The topics shown have most
    partitions. A member has one row with a null topic if it has other topics or nothing.
    Reads: assignments as schemas.tables.ASSIGNMENTS, one basis and one snapshot a group.
    """
    group = Window.partitionBy(*GROUP_KEY)
    heaviest = F.dense_rank().over(group.orderBy(F.desc("member_partition_count"), "member_id"))
    lightest = F.dense_rank().over(group.orderBy(F.asc("member_partition_count"), F.desc("member_id")))
    cells = (
        assignments.repartition(*GROUP_KEY)  # satisfies the windows too: one shuffle instead of four
        .select(
            *GROUP_KEY,
            "member_id",
            "group_instance_id",
            F.col("partition_count").alias("member_partition_count"),
            F.explode_outer("partitions").alias("entry"),
        )
        .select("*", F.col("entry.topic").alias("topic"), F.size("entry.partitions").alias("topic_partition_count"))
    )
    weighed = cells.drop("entry").withColumn("weight", F.sum("topic_partition_count").over(Window.partitionBy(*GROUP_KEY, "topic")))
    is_shown = (F.col("topic_rank") <= TOPICS_SHOWN) & F.col("topic").isNotNull()
    return (
        weighed.withColumns(
            {
                "topic_rank": F.dense_rank().over(group.orderBy(F.col("topic").isNull(), F.desc("weight"), "topic")),
                "heaviest": heaviest,
                "lightest": lightest,
                "member_total": F.size(F.collect_set("member_id").over(group)),
                "topic_total": F.size(F.collect_set("topic").over(group)),
            }
        )
        .where((F.col("heaviest") <= members_shown - members_shown // 2) | (F.col("lightest") <= members_shown // 2))
        .withColumns({name: F.when(is_shown, F.col(name)) for name in ("topic_partition_count", "topic")})
        .drop("weight", "topic_rank", "heaviest", "lightest")
        .distinct()
    )


def condense_movements(movements: DataFrame, limit: int) -> DataFrame:
    """Return the newest lines of owner changes in each group, at most ``limit``: partitions by topic, owners and reason.

    Reads: movements as schemas.tables.MOVEMENTS. Returns: the rows that ``ReportRows.flows`` describes.
    """
    key = ("position", "previous_member_id", "member_id", "kind", "cause", "topic")
    group = Window.partitionBy(*GROUP_KEY)
    newest = group.orderBy(F.desc("position"), *(name for name in key if name != "position"))
    return (
        movements.where(_observed())
        .repartition(*GROUP_KEY)  # satisfies the windows too: one shuffle instead of two
        .groupBy(*GROUP_KEY, *key)
        .agg(
            F.count("*").alias("partition_count"),
            F.sort_array(F.collect_list("partition")).alias("partitions"),
            F.sum(F.col("lag").cast("decimal(38,0)")).alias("lag"),
            F.bool_or("lag_is_upper_bound").alias("lag_is_upper_bound"),
            F.count_if(F.col("resume_outcome").isin(_RESETS)).alias("reset_count"),
            F.count_if(F.col("resume_outcome") != str(ResumeOutcome.UNKNOWN)).alias("resume_known"),
        )
        .withColumns(
            {
                "lag": F.when(F.col("lag") > MOST_LAG, MOST_LAG).otherwise(F.col("lag")).cast("bigint"),
                "partitions": F.slice("partitions", 1, PARTITIONS_LISTED),
                "flow_total": F.count("*").over(group),
                "rank": F.row_number().over(newest),
            }
        )
        .where(F.col("rank") <= limit)
        .drop("rank")
    )


def describe_members(snapshots: DataFrame) -> DataFrame:
    """Return one row for each member of a group: group_instance_id, client_id and client_host, each null if no snapshot has it.

    Reads: snapshots as schemas.tables.SUBSCRIPTION_SNAPSHOTS, of few groups: texts are sorted.
    """
    facts = ("group_instance_id", "client_id", "client_host")
    members = snapshots.select(*GROUP_KEY, F.explode("members").alias("member"))
    return members.groupBy(*GROUP_KEY, "member.member_id").agg(*(F.max(f"member.{name}").alias(name) for name in facts))


def condense_findings(findings: DataFrame) -> DataFrame:
    """Return one row for each group and rule: number, generations and newest positions of its findings, and the texts of the last one.

    Reads: findings as schemas.tables.FINDINGS, of few groups: texts are sorted.
    """
    last = F.struct("position", _milliseconds().alias("observed_at_ms"), "message", "evidence", "advice", _cycle_s().alias("cycle_s"))
    return (
        findings.groupBy(*GROUP_KEY, "rule_id", "severity")
        .agg(
            F.count("*").alias("finding_count"),
            F.min("generation").alias("first_generation"),
            F.max("generation").alias("last_generation"),
            F.slice(F.sort_array(F.collect_set("position"), asc=False), 1, MOST_GENERATIONS).alias("positions"),
            F.max_by(last, "position").alias("last"),
        )
        .select("*", "last.*")
        .drop("last")
    )


def collect(rows: DataFrame) -> list[dict[str, Any]]:
    """Return rows as dictionaries."""
    return [row.asDict(recursive=True) for row in rows.collect()]
