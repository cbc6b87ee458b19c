"""The report stage: what the fleet did, every group by how badly it did, and why, as one HTML page and a summary for the terminal.

Reads: generation_audits, findings, assignments, movements (current rows).
Writes: the HTML file, pages of single groups and exports where they are asked for; no table.
Spark aggregates and the driver collects what is shown: first the ranking, a row a group, then one small query a table for the
details of the worst.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.exports import write_exports
from jobs.output_files import exports_folder, page_file, remove_unfinished_outputs, write_output
from jobs.report_page import Document, build_page, build_views, render, render_group, to_text
from jobs.reporting.groups import worst_first
from jobs.reporting.view import IMBALANCE_BOUNDS, MEASURES, MOST_RANKED, WEIGHTS, Page, ReportRows
from jobs.resumption import MOST_LAG
from jobs.warehouse import Warehouse
from schemas.config import ReportSettings, Settings
from schemas.tables import ASSIGNMENTS, FINDINGS, GENERATION_AUDITS, MOVEMENTS
from schemas.vocabulary import Basis, ResumeOutcome, Severity

logger = logging.getLogger(__name__)

GROUP = ("cluster_id", "group_id")

# Shares of a group's part of max_detail_rows.
GENERATIONS_SHARE, FLOWS_SHARE, HOLDINGS_SHARE = 0.05, 0.15, 0.7
MOST_GENERATIONS = 100  # a page that shows more is not read
GROUPS_AT_A_TIME = 100  # of those that get pages of their own
LEAST_FINDINGS = 50  # groups a rule, where fewer have details
TOPICS_SHOWN = 30
PARTITIONS_LISTED = 500  # of one line of what moved; the rest is counted

_RESETS = [str(ResumeOutcome.RESET_NONE), str(ResumeOutcome.RESET_OUT_OF_RANGE)]

_GENERATION_COLUMNS = (
    "position",
    "generation",
    "previous_generation",
    "generation_gap",
    "is_follow_up",
    "is_settled",
    "member_count",
    "idle_member_count",
    "partition_count",
    "revoked_count",
    "reassigned_count",
    "handed_over_count",
    "gained_count",
    "lost_count",
    "orphaned_count",
    *MEASURES,
    "is_lower_bound",
    "imbalance_ratio",
    *WEIGHTS,
    "follow_up_ms",
    "pause_partition_ms",
    "triggers",
    "conformance",
)
_SETTLED_COLUMNS = (
    "strategy",
    "imbalance_ratio",
    *WEIGHTS,
    "rack_match_ratio",
    "partitions_per_member_min",
    "partitions_per_member_max",
    "partitions_per_member_mean",
    "verdict",
    "better_strategy",
    "better_gain",
)
_RANKED_SUMS = ("movement_count", "avoidable_movement_count")


def _observed() -> Column:
    return F.col("basis") == str(Basis.OBSERVED)


def _is_settled() -> Column:
    return F.coalesce(F.col("is_settled"), F.lit(True))


def _milliseconds() -> Column:
    """Return the row's time as a number: a collected timestamp would come in the driver's own time zone."""
    return F.unix_millis("observed_at")


def _measured(name: str) -> Column:
    """Return the values of a measure that sums may hold: what was avoidable is not known where generations are missing in between."""
    if name != "avoidable_movement_count":
        return F.col(name)
    return F.when(F.coalesce("generation_gap", F.lit(0)) == 0, F.col(name))


def mark_current(findings: DataFrame, audits: DataFrame) -> DataFrame:
    """Return the findings with ``is_current``: whether they are of the newest observed generation of their group.

    Reads: findings as schemas.tables.FINDINGS, audits as schemas.tables.GENERATION_AUDITS of the same groups.
    """
    newest = audits.where(_observed()).groupBy(*GROUP).agg(F.max("position").alias("newest_position"))
    is_current = F.col("position").eqNullSafe(F.col("newest_position"))
    return findings.join(newest, list(GROUP), "left").withColumn("is_current", is_current).drop("newest_position")


def figure_groups(audits: DataFrame, findings: DataFrame) -> DataFrame:
    """Return one row per group: the columns of ``ReportRows.ranked``, its imbalance class, and whether loads differ by one at most.

    Reads: audits as schemas.tables.GENERATION_AUDITS, findings as ``mark_current`` returns them.
    Nulls: movement sums that no generation knows; all of the settled generation when there is none with members.
    """
    severities = {f"{word}_count": F.col("severity") == str(word) for word in Severity}
    severities |= {f"current_{name}": is_one & F.col("is_current") for name, is_one in severities.items()}
    found = findings.groupBy(*GROUP).agg(*(F.count_if(is_one).alias(name) for name, is_one in severities.items()))
    last = F.struct("position", "member_count")
    settled = F.struct("position", "generation", _milliseconds().alias("at_ms"), *_SETTLED_COLUMNS)
    figures = (
        audits.where(_observed())
        .groupBy(*GROUP)
        .agg(
            F.count("*").alias("generation_count"),
            *(F.sum(_measured(name)).alias(name) for name in _RANKED_SUMS),
            *(F.count(_measured(name)).alias(f"{name}_known") for name in _RANKED_SUMS),
            F.min(_milliseconds()).alias("first_at_ms"),
            F.max(_milliseconds()).alias("last_at_ms"),
            F.max(last)["member_count"].alias("member_count"),
            F.max(F.when(_is_settled() & (F.col("member_count") > 0), settled)).alias("settled"),
        )
        .join(found, list(GROUP), "left")
        .fillna(0, list(severities))
    )
    spread = F.col("partitions_per_member_max") - F.col("partitions_per_member_min")
    return (
        figures.withColumns({f"settled_{name}": F.col(f"settled.{name}") for name in ("position", "generation", "at_ms")})
        .withColumns({name: F.col(f"settled.{name}") for name in _SETTLED_COLUMNS})
        .withColumns({"imbalance_class": _imbalance_class(), "is_even": spread <= 1})
        .drop("settled")
    )


def _imbalance_class() -> Column:
    ratio = F.col("imbalance_ratio")
    classes = F.when(ratio.isNull(), None)
    for number, upper in enumerate(IMBALANCE_BOUNDS):
        classes = classes.when(ratio <= upper, number)
    return classes.otherwise(len(IMBALANCE_BOUNDS)).cast("int")


def rank_groups(figures: DataFrame, most: int) -> DataFrame:
    """Return the fleet by (cluster_id, imbalance_class, is_even), and the worst groups of each cluster one by one in ``ranked``.

    The order is ``jobs.reporting.groups.worst_first``; ranked within a cluster, the worst of all are among these.
    Reads: figures as ``figure_groups`` returns them. Nulls: ``ranked``, where a row stands for all other groups.
    """
    order = [
        F.desc("critical_count"),
        F.desc("warning_count"),
        F.desc(F.coalesce("avoidable_movement_count", F.lit(0))),
        F.desc(F.coalesce("movement_count", F.lit(0))),
        F.asc("group_id"),
    ]
    rank = F.row_number().over(Window.partitionBy("cluster_id").orderBy(*order))
    names = [name for name in figures.columns if name not in ("imbalance_class", "is_even")]
    ranked = figures.withColumn("rank", rank).withColumn("rank", F.when(F.col("rank") <= most, F.col("rank")))
    return ranked.groupBy("cluster_id", "imbalance_class", "is_even", "rank").agg(
        F.count("*").alias("group_count"),
        F.sum("member_count").alias("member_count"),
        F.max(F.when(F.col("rank").isNotNull(), F.struct(*names))).alias("ranked"),
    )


def tally_generations(audits: DataFrame, is_detailed: Column, limit: int) -> DataFrame:
    """Return generations by (basis, strategy, flavour, status, conformance) with what they cost, groups with details one by one.

    Observed rows of these carry their newest generations, at most ``limit``, newest first. Balance is that of
    settled generations. Ratios are summed as decimals: a sum of doubles depends on the order of rows. Sums of hashes tell whether two
    strategies cover the same generations; those without members do not count, since they cost nothing, and some have no row for them.
    Reads: audits as schemas.tables.GENERATION_AUDITS. Nulls: cluster_id and group_id, for all other groups together.
    """
    generation = F.struct(*_GENERATION_COLUMNS, _milliseconds().alias("observed_at_ms"))
    generations = F.collect_list(F.when(is_detailed & _observed(), generation))
    ratio = F.when(_is_settled(), F.col("imbalance_ratio"))
    place = F.when(F.col("member_count") > 0, F.xxhash64(*GROUP, "position"))
    spread = F.when(_is_settled(), F.col("partitions_per_member_max") - F.col("partitions_per_member_min"))
    return audits.groupBy(
        *(F.when(is_detailed, F.col(name)).alias(name) for name in GROUP), "basis", "strategy", "flavour", "status", "conformance"
    ).agg(
        F.count("*").alias("generation_count"),
        F.count(place).alias("covered_count"),
        F.sum(place.cast("decimal(20,0)")).alias("coverage"),
        *(F.sum(_measured(name)).alias(f"{name}_sum") for name in MEASURES),
        *(F.count(_measured(name)).alias(f"{name}_known") for name in MEASURES),
        F.sum("rebalance_count").alias("rebalance_count"),
        F.sum(ratio.cast("decimal(20,6)")).alias("imbalance_ratio_sum"),
        F.count(ratio).alias("imbalance_ratio_known"),
        F.max(ratio).alias("imbalance_ratio_max"),
        F.max(spread).alias("spread_max"),
        F.slice(F.sort_array(generations, asc=False), 1, limit).alias("generations"),
    )


def hold_partitions(assignments: DataFrame, members_shown: int) -> DataFrame:
    """Return one row per member and topic of each group, cut to a block that is complete in itself.

    Shown are the members with the largest and, half of them, the smallest loads, since idle ones matter; and the topics
    with most partitions. A member keeps one row with a null topic for what is not shown, or for having nothing.
    Reads: assignments as schemas.tables.ASSIGNMENTS, one basis and one snapshot a group.
    """
    group = Window.partitionBy(*GROUP)
    heaviest = F.dense_rank().over(group.orderBy(F.desc("member_partition_count"), "member_id"))
    lightest = F.dense_rank().over(group.orderBy(F.asc("member_partition_count"), F.desc("member_id")))
    cells = (
        assignments.repartition(*GROUP)
        .select(  # satisfies the windows too: one shuffle instead of four
            *GROUP,
            "member_id",
            "group_instance_id",
            F.col("partition_count").alias("member_partition_count"),
            F.explode_outer("partitions").alias("entry"),
        )
        .select("*", F.col("entry.topic").alias("topic"), F.size("entry.partitions").alias("topic_partition_count"))
    )
    weighed = cells.drop("entry").withColumn("weight", F.sum("topic_partition_count").over(Window.partitionBy(*GROUP, "topic")))
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
    """Return the newest lines of what moved in each group, at most ``limit``: partitions by topic, owners and reason.

    Reads: movements as schemas.tables.MOVEMENTS. Returns: the rows that ``ReportRows.flows`` describes.
    """
    key = ("position", "previous_member_id", "member_id", "kind", "cause", "topic")
    group = Window.partitionBy(*GROUP)
    newest = group.orderBy(F.desc("position"), *(name for name in key if name != "position"))
    return (
        movements.where(_observed())
        .repartition(*GROUP)  # satisfies the windows too: one shuffle instead of two
        .groupBy(*GROUP, *key)
        .agg(
            F.count("*").alias("partition_count"),
            F.sort_array(F.collect_list("partition")).alias("partitions"),
            F.sum(F.col("lag").cast("decimal(38,0)")).alias("lag"),
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


def condense_findings(findings: DataFrame, is_detailed: Column, limit: int) -> DataFrame:
    """Return one row per group and rule: how often and where it was found, and its last text; at most ``limit`` groups a rule.

    Kept are the groups with details, then those where the rule holds now, then those with most findings. Every row also counts all
    findings and groups of its rule and severity, so that no rule is missing from the fleet's figures.
    Reads: findings as ``mark_current`` returns them. Returns: the rows that ``ReportRows.findings`` describes.
    """
    last = F.max_by(F.struct(_milliseconds().alias("observed_at_ms"), "message", "evidence", "advice"), "position")
    rule = Window.partitionBy("severity", "rule_id")
    order = (F.desc(is_detailed), F.desc("is_current"), F.desc("finding_count"), F.asc("group_id"), F.asc("cluster_id"))
    return (
        findings.groupBy(*GROUP, "rule_id", "severity")
        .agg(
            F.count("*").alias("finding_count"),
            F.min("generation").alias("first_generation"),
            F.max("generation").alias("last_generation"),
            F.max("is_current").alias("is_current"),
            last.alias("last"),
        )
        .withColumns(
            {
                "rule_finding_count": F.sum("finding_count").over(rule),
                "rule_group_count": F.count("*").over(rule),
                "rule_current_count": F.sum(F.col("is_current").cast("int")).over(rule),
                "rank": F.row_number().over(rule.orderBy(*order)),
            }
        )
        .where(F.col("rank") <= limit)
        .select("*", "last.*")
        .drop("last", "rank")
    )


def _is_one_of(rows: Sequence[Mapping[str, Any]], *names: str) -> Column:
    """Return whether a row has the names' values of one of ``rows``; the first condition lets Delta skip files."""
    if not rows:
        return F.lit(False)
    tuples = [F.struct(*(F.lit(row[name]).alias(name) for name in names)) for row in rows]
    return F.col("group_id").isin([row["group_id"] for row in rows]) & F.struct(*names).isin(tuples)


def _collect(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in rows.collect()]


def collect_rows(warehouse: Warehouse, settings: ReportSettings) -> ReportRows:
    """Return everything that the report shows: the fleet in aggregates, a row a group, and details of the worst groups."""
    audits, findings = warehouse.read(GENERATION_AUDITS.name), warehouse.read(FINDINGS.name)
    groups = _collect(rank_groups(figure_groups(audits, mark_current(findings, audits)), MOST_RANKED))
    ranked = sorted((row["ranked"] for row in groups if row["ranked"] is not None), key=worst_first)[:MOST_RANKED]
    return ReportRows(
        groups=groups, ranked=ranked, **_collect_details(warehouse, settings, audits, findings, ranked[: settings.worst_groups])
    )


def _collect_details(
    warehouse: Warehouse, settings: ReportSettings, audits: DataFrame, findings: DataFrame, detailed: Sequence[Mapping[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of ``ReportRows`` that show single groups, those of ``detailed``; and what they need of all others."""
    part = settings.max_detail_rows / max(1, len(detailed))
    is_detailed = _is_one_of(detailed, *GROUP)
    settled = [{**row, "position": row["settled_position"]} for row in detailed if row["settled_position"] is not None]
    held = warehouse.read(ASSIGNMENTS.name).where(_observed() & _is_one_of(settled, *GROUP, "position"))
    moved = warehouse.read(MOVEMENTS.name).where(is_detailed)
    return {
        "tallies": _collect(tally_generations(audits, is_detailed, _share(part, GENERATIONS_SHARE, MOST_GENERATIONS))),
        "holdings": _collect(hold_partitions(held, _share(part / (TOPICS_SHOWN + 1), HOLDINGS_SHARE))),
        "flows": _collect(condense_movements(moved, _share(part, FLOWS_SHARE))),
        "findings": _collect(condense_findings(mark_current(findings, audits), is_detailed, max(LEAST_FINDINGS, len(detailed)))),
    }


def _share(rows: float, share: float, most: int | None = None) -> int:
    """Return a share of a number of rows: at least 1, at most ``most``."""
    wanted = max(1, int(share * rows))
    return wanted if most is None else min(most, wanted)


def run(warehouse: Warehouse, settings: Settings, as_of: datetime, summary: Mapping[str, Any] | None = None) -> str:
    """Write the report, its exports and its further pages, and return its summary for the terminal, whose last line is the report's path.

    Args:
        as_of: the run's clock, with a time zone.
        summary: the run that made the tables, keyed as the columns of ``runs``: ``run_id`` and ``input_counts`` are shown.

    Raises:
        EvenkeelError: something cannot be written where ``settings.report`` says.
    """
    wanted = settings.report
    rows = collect_rows(warehouse, wanted)
    page = build_page(rows, as_of, summary)
    path = page_file(wanted)
    details = Path(wanted.details) if wanted.details is not None else None
    document = render(page, _address(details, path.parent) if details is not None else "")
    remove_unfinished_outputs(wanted)
    write_output([document.html], path)
    logger.info("report: %d of %d groups listed, %d of them with details", document.listed, page.group_total, len(document.detailed))
    if details is not None:
        _write_details(warehouse, wanted, rows.ranked, page, document, details)
    for written in write_exports(warehouse, wanted.export, exports_folder(wanted), rows, as_of):
        logger.info("report: wrote %s", written)
    return to_text(page, str(path))


def _write_details(
    warehouse: Warehouse, settings: ReportSettings, ranked: Sequence[Mapping[str, Any]], page: Page, document: Document, folder: Path
) -> None:
    """Write a page for each listed group whose details are not in the report, some at a time, so that the driver holds only these."""
    report = _address(page_file(settings), folder)
    audits, findings = warehouse.read(GENERATION_AUDITS.name), warehouse.read(FINDINGS.name)
    others = [
        (row, line) for row, line in zip(ranked, page.groups[: document.listed], strict=False) if line.anchor not in document.detailed
    ]
    for start in range(0, len(others), GROUPS_AT_A_TIME):
        these = [row for row, _ in others[start : start + GROUPS_AT_A_TIME]]
        lines = [line for _, line in others[start : start + GROUPS_AT_A_TIME]]
        is_one = _is_one_of(these, *GROUP)
        rows = ReportRows(ranked=these, **_collect_details(warehouse, settings, audits.where(is_one), findings.where(is_one), these))
        for view in build_views(rows, lines):
            write_output([render_group(page, view, report)], folder / f"{view.line.anchor}.html")
    logger.info("report: wrote %d pages of single groups into %s", len(others), folder)


def _address(place: Path, seen_from: Path) -> str:
    """Return the relative address of a file or folder, for a link in a page of the folder ``seen_from``."""
    return quote(Path(os.path.relpath(place, seen_from)).as_posix())
