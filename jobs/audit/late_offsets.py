"""Rows of earlier runs that newly landed commits or topic metadata change: resume columns of movements, weights of audits, load findings.

A late commit or metadata snapshot changes what was known at a generation. The rows that it may change are found by their keys and times.
One pass of workers computes all of them again; see ``resume_offsets`` and ``load_imbalance``.
"""

from __future__ import annotations

import logging
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.audit.late_offsets_udfs import resume_again
from jobs.audit.load_imbalance import AUDIT_KEY
from jobs.audit.new_commits import CLOCKS_DIFFER, NewCommits, affected_rows, earlier_rows
from jobs.audit.offset_rows import RowOrder, commit_rows, in_log_order, look_rows, sorted_by_log
from jobs.context import RunContext
from jobs.findings import LOAD_RULES
from jobs.storage.changed_findings import replace_findings
from jobs.storage.scratch import MOST_KEYS_SENT, StagedKeys
from jobs.workers.guard import WorkerLimits
from jobs.workers.packing import topic_columns
from jobs.workers.partitions import spread_groups
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.staging import RESUMED_ROWS
from schemas.tables import ASSIGNMENTS, FINDINGS, GENERATION_AUDITS, GENERATION_TOPICS, MOVEMENTS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import Basis, ResumeOutcome

logger = logging.getLogger(__name__)


def _observed(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("basis") == str(Basis.OBSERVED))


def _concerned_movements(context: RunContext, news: NewCommits) -> DataFrame:
    """Return the movements that new offset commits or topic metadata may change."""
    moment = F.greatest("observed_at", "committed_at")
    affected = affected_rows(news.rows_to_ask(context, MOVEMENTS.name), news, moment, moment)
    if news.newly_complete is None:
        return affected
    unknown = earlier_rows(context, MOVEMENTS.name).where(F.col("resume_outcome") == str(ResumeOutcome.UNKNOWN))
    of_groups = unknown.join(news.newly_complete, list(GROUP_KEY), "left_semi")
    return affected.unionByName(of_groups).dropDuplicates(list(MOVEMENTS.key))


def _to_weigh(audits: DataFrame, news: NewCommits) -> DataFrame:
    """Return the audits that new offset commits or topic metadata may affect, by group and time alone.

    Args:
        audits: with ``until``, the latest time from which on a metadata snapshot gives the end of the log of a partition.
    """
    is_concerned = F.lit(False)
    rows = audits
    if news.late_commits is not None:
        groups = news.late_commits.select(*GROUP_KEY).distinct().withColumn("has_commits", F.lit(True))
        rows, is_concerned = rows.join(groups, list(GROUP_KEY), "left"), F.coalesce("has_commits", F.lit(False))
    if news.late_looks is not None:
        before = F.when(F.count_if(F.col("look_before").isNull()) == 0, F.min("look_before")).alias("look_before")
        spans = news.late_looks.groupBy("cluster_id").agg(before, F.lit(True).alias("has_looks"))
        rows = rows.join(F.broadcast(spans), "cluster_id", "left")
        is_concerned |= F.coalesce(F.col("has_looks") & F.coalesce(F.col("until") > F.col("look_before"), F.lit(True)), F.lit(False))
    return rows.where(is_concerned).select(*audits.columns)


def _concerned_audits(context: RunContext, news: NewCommits, rewritten: StagedKeys | None) -> DataFrame:
    """Return the observed audits whose partitions new offset commits or topic metadata may affect."""
    until = F.coalesce("weighed_until", F.col("observed_at") + F.lit(CLOCKS_DIFFER))
    stored = _to_weigh(_observed(news.rows_to_ask(context, GENERATION_AUDITS.name, rewritten)).withColumn("until", until), news)
    # By topic, not by partition: the partitions of all generations are too many. Few generations are left before their topics are listed.
    given = _observed(context.warehouse.read(ASSIGNMENTS.name))
    members = given.select(*GENERATION_KEY, "observed_at", "member_id", F.col("partitions.topic").alias("topics"))
    asked = members.join(stored.select(*GENERATION_KEY, "until"), list(GENERATION_KEY))
    held = asked.select(*GENERATION_KEY, "observed_at", "until", "member_id", F.explode("topics").alias("topic"))
    generations = affected_rows(held, news, F.col("until"), F.col("observed_at")).select(*GENERATION_KEY).distinct()
    return stored.drop("until").join(generations, list(GENERATION_KEY), "left_semi")


def racks_of_audits(audits: StagedKeys, snapshots: DataFrame, topics: DataFrame) -> DataFrame | None:
    """Return the racks of the generations in which a partition has no replica in its reader's rack; None if there is none.

    Rows: ``GENERATION_KEY``; ``racks`` has member_ids, member_racks and ``topic_columns``.

    Args:
        audits: rows of ``generation_audits``, of observed generations.
        snapshots: rows of ``subscription_snapshots``.
        topics: rows of ``generation_topics``.
    """
    crossing = audits.rows.where("rack_match_ratio < 1 AND is_settled").select(*GENERATION_KEY, "topics_hash")
    if crossing.isEmpty():
        return None
    of_members = {"member_ids": F.col("members")["member_id"], "member_racks": F.col("members")["rack"]}
    members = snapshots.select(*GENERATION_KEY, *[column.alias(name) for name, column in of_members.items()])
    of_topics = topics.select("cluster_id", "topics_hash", *topic_columns())
    racks = crossing.join(members, list(GENERATION_KEY)).join(of_topics, ["cluster_id", "topics_hash"])
    names = [name for name in racks.columns if name not in (*GENERATION_KEY, "topics_hash")]
    return racks.select(*GENERATION_KEY, F.struct(*names).alias("racks"))


def _generation_rows(
    audits: StagedKeys, movements: StagedKeys, assignments: DataFrame, complete: DataFrame, racks: DataFrame | None
) -> DataFrame:
    """Return audits, the assignments of their generations, and movements, as rows of generations for ``offset_rows.in_log_order``."""
    with_racks = audits.rows
    if racks is not None:
        with_racks = with_racks.join(racks, list(GENERATION_KEY), "left")
    given = _observed(assignments).join(audits.select(*GENERATION_KEY), list(GENERATION_KEY), "left_semi")
    held = given.select(*GENERATION_KEY, "observed_at", "member_id", F.col("partitions").alias("held"))

    def packed(rows: DataFrame, name: str, columns: list[str], *others: str) -> DataFrame:
        return rows.select(*GENERATION_KEY, "observed_at", F.struct(*columns).alias(name), *others)

    parts = [
        held,
        packed(with_racks, "audit", GENERATION_AUDITS.schema.names, *([] if racks is None else ["racks"])),
        packed(movements.rows, "movement", MOVEMENTS.schema.names),
    ]
    rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
    known = complete.select(*GROUP_KEY, F.lit(True).alias("known"))
    # The assignment before its audit, and that before the movements, of which a generation may have a million.
    order = F.when(F.col("held").isNotNull(), 0).when(F.col("audit").isNotNull(), 1).otherwise(F.lit(2))
    columns = {
        "order": order,
        "observed_us": F.unix_micros("observed_at"),
        "is_complete": F.coalesce("known", F.lit(False)),
    }
    return rows.join(known, list(GROUP_KEY), "left").withColumns(columns).drop("known")


def _topics(generations: DataFrame) -> DataFrame:
    """Return the topics of ``_generation_rows`` by group, with ``from_time``, the earliest time at which one is asked for."""
    names = F.coalesce(F.col("held")["topic"], F.array(F.col("movement")["topic"]))
    topics = generations.where("audit IS NULL").select(*GROUP_KEY, "observed_at", F.explode(names).alias("topic"))
    return topics.groupBy(*GROUP_KEY, "topic").agg(F.min("observed_at").alias("from_time"))


def resumed_rows(
    audits: StagedKeys,
    movements: StagedKeys,
    assignments: DataFrame,
    commits: DataFrame,
    looks: DataFrame,
    complete: DataFrame,
    racks: DataFrame | None,
    max_look_delay_s: float | None,
    limits: WorkerLimits,
) -> DataFrame:
    """Return audits and movements, computed again from commits and topic metadata: rows of ``RESUMED_ROWS``.

    Args:
        audits: rows of ``generation_audits``, of observed generations.
        movements: rows of ``movements``.
        assignments: rows of ``assignments``, at least of these generations.
        commits: rows of ``offset_snapshots``: at least all rows of these groups.
        looks: rows of ``topic_snapshots``.
        complete: as ``complete_groups`` returns them.
        racks: as ``racks_of_audits`` returns them.
        max_look_delay_s: lag is null if its metadata snapshot is later than a generation by more seconds; None: no limit.
        limits: limits of a worker.
    """
    generations = _generation_rows(audits, movements, assignments, complete, racks)
    asked = audits.rows.select(*GENERATION_KEY).unionByName(movements.rows.select(*GENERATION_KEY))
    spans = asked.groupBy(*GROUP_KEY).agg(F.min("position").alias("first_position"), F.max("position").alias("last_position"))
    are_few = audits.count + movements.count <= MOST_KEYS_SENT
    rows = in_log_order(
        {RowOrder.GENERATION: generations},
        commit_rows(commits, F.broadcast(spans) if are_few else spans),
        look_rows(_topics(generations), looks, is_bounded=True),
    )
    resume = partial(resume_again, max_look_delay_s=max_look_delay_s, limits=limits)
    in_order = sorted_by_log(spread_groups(rows, audits.count + movements.count), F.col("generation.order"))
    return in_order.mapInArrow(resume, RESUMED_ROWS)


def refresh(context: RunContext, news: NewCommits, rewritten: StagedKeys | None = None) -> None:
    """Update movements and audits of earlier runs that newly landed commits or topic metadata affect.

    Args:
        rewritten: keys of audits of earlier runs that this run has written again; None if there are none.
    """
    warehouse = context.warehouse
    movements = warehouse.materialize_keys("concerned_movements", _concerned_movements(context, news))
    audits = warehouse.materialize_keys("concerned_audits", _concerned_audits(context, news, rewritten))
    if not movements.count and not audits.count:
        return
    assignments, snapshots, topics = (warehouse.read(spec.name) for spec in (ASSIGNMENTS, SUBSCRIPTION_SNAPSHOTS, GENERATION_TOPICS))
    racks, max_look_delay_s = racks_of_audits(audits, snapshots, topics), context.settings.audit.max_look_delay_s
    given = (audits, movements, assignments, news.commits, news.looks, news.complete, racks)
    resumed = warehouse.materialize("resumed_again", resumed_rows(*given, max_look_delay_s, context.worker_limits))

    def is_changed(name: str) -> Column:
        return F.col("is_changed") & F.col(name).isNotNull()

    def rows_of(name: str, condition: Column) -> DataFrame:
        return resumed.where(condition).select(f"{name}.*")

    tables = {"movement": MOVEMENTS, "audit": GENERATION_AUDITS}
    conditions = {**{name: is_changed(name) for name in tables}, "finding": F.col("finding").isNotNull()}
    (counts,) = resumed.agg(*[F.count_if(condition).alias(name) for name, condition in conditions.items()]).collect()
    if audits.count:
        _replace_load_findings(context, audits, rows_of("finding", conditions["finding"]), counts["finding"])
    for name, spec in tables.items():
        if counts[name]:
            changed = rows_of(name, conditions[name]).withColumns(context.run_columns).select(*spec.schema.names)
            warehouse.replace(spec.name, changed, AUDIT_KEY if spec is GENERATION_AUDITS else spec.key, changed)
            logger.info("updated %d rows of earlier runs in %s from newly landed commits or topic metadata", counts[name], spec.name)


def _replace_load_findings(context: RunContext, audits: StagedKeys, found: DataFrame, found_count: int) -> None:
    """Write the findings on loads of generations that have been weighed again, and delete those that no longer hold.

    Args:
        audits: of these generations.
        found: rows of ``FOUND_ROWS``, materialized.
        found_count: how many there are.
    """
    warehouse, stored = context.warehouse, None
    if context.before.written.get(FINDINGS.name):
        of_rules = warehouse.read(FINDINGS.name).where(F.col("rule_id").isin([str(rule.rule_id) for rule in LOAD_RULES]))
        stored = of_rules.join(audits.select(*GENERATION_KEY), list(GENERATION_KEY), "left_semi")
    if found_count or (stored is not None and not stored.isEmpty()):
        replace_findings(warehouse, stored, context.rows_of(FINDINGS, found), "load_findings")
