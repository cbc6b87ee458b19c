"""How evenly members share the load of their partitions, measured by lag and by new records per second.

Both are computed at the time of each observed generation, by the rules that ``resume_offsets`` uses for movements.
"""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.audit import load_findings
from jobs.audit import resume_offsets as resumption
from jobs.audit.new_commits import CLOCKS_DIFFER, NewCommits, affected_rows
from jobs.context import RunContext
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.tables import ASSIGNMENTS, GENERATION_AUDITS
from schemas.vocabulary import Basis

logger = logging.getLogger(__name__)

AUDIT_KEY = (*GENERATION_KEY, "basis")
CARRIED = {"lag": "lag_imbalance_ratio", "rate": "throughput_imbalance_ratio"}
"""A load of partitions -> the column of audits with its imbalance."""
WEIGHTS = (*CARRIED.values(), "weighed_until")


def _observed(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("basis") == str(Basis.OBSERVED))


def held_topics(assignments: DataFrame, audits: DataFrame) -> DataFrame:
    """Return every topic of which a member has partitions in audited observed generations.

    Rows: ``resume_offsets.PARTITION_AT_KEY`` without partition, member_id, ``partitions`` (their numbers).
    """
    given = _observed(assignments).join(_observed(audits).select(*GENERATION_KEY), list(GENERATION_KEY), "left_semi")
    return given.select(*GENERATION_KEY, "observed_at", "member_id", F.inline("partitions"))


def held_partitions(assignments: DataFrame, audits: DataFrame) -> DataFrame:
    """Return every partition that a member has in audited observed generations.

    Rows: ``resume_offsets.PARTITION_AT_KEY`` and member_id.
    """
    topics = held_topics(assignments, audits)
    return topics.withColumn("partition", F.explode("partitions")).select(*resumption.PARTITION_AT_KEY, "member_id")


def with_weights(audits: DataFrame, answered: DataFrame) -> DataFrame:
    """Return audits with ``weighed_until`` and, for observed generations, the largest load of a member by the mean load of all members.

    Only partitions with a known load count. A ratio is null if no load is known, or if all are 0. Sums have 38 digits, because a capture
    may have any offsets.

    Args:
        audits: their own columns of these names are ignored.
        answered: ``resume_offsets.resolve_resume_offsets`` for ``held_partitions`` of these generations.
    """
    carried = [F.sum(F.col(name).cast("decimal(38,0)")).alias(name) for name in CARRIED]
    by_member = answered.groupBy(*GENERATION_KEY, "member_id").agg(*carried, F.max("end_from").alias("end_from"))
    shares = by_member.groupBy(*GENERATION_KEY).agg(
        *[aggregate(name).alias(f"{word}_{name}") for name in CARRIED for word, aggregate in (("most", F.max), ("all", F.sum))],
        F.max("end_from").alias("end_from"),
    )
    ratios = {
        column: F.when(
            (F.col("basis") == str(Basis.OBSERVED)) & (F.col(f"all_{name}") > 0),
            F.col(f"most_{name}").cast("double") * F.col("member_count"),
        )
        / F.col(f"all_{name}").cast("double")
        for name, column in CARRIED.items()
    }
    is_observed = F.col("basis") == str(Basis.OBSERVED)
    until = {"weighed_until": F.when(is_observed, F.coalesce("end_from", "observed_at"))}
    return audits.drop(*WEIGHTS).join(shares, list(GENERATION_KEY), "left").withColumns(ratios | until).select(*audits.columns)


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


def refresh(context: RunContext, news: NewCommits, rewritten: DataFrame | None = None) -> None:
    """Update the load imbalance of earlier generations whose partitions newly landed commits or topic metadata affect.

    Args:
        rewritten: keys of audits of earlier runs that this run has written again; None if there are none.
    """
    warehouse, name = context.warehouse, GENERATION_AUDITS.name
    until = F.coalesce("weighed_until", F.col("observed_at") + F.lit(CLOCKS_DIFFER))
    stored = _to_weigh(_observed(news.rows_to_ask(context, name, rewritten)).withColumn("until", until), news)
    # By topic, not by partition: the partitions of all generations are too many.
    held_by_topic = (
        held_topics(warehouse.read(ASSIGNMENTS.name), stored)
        .drop("partitions")
        .join(stored.select(*GENERATION_KEY, "until"), list(GENERATION_KEY))
    )
    generations = affected_rows(held_by_topic, news, F.col("until"), F.col("observed_at")).select(*GENERATION_KEY).distinct()
    stored = stored.drop("until")
    concerned = warehouse.materialize_keys("concerned_audits", stored.join(generations, list(GENERATION_KEY), "left_semi"))
    if not concerned.count:
        return
    again = concerned.rows
    stored_weights = again.select(*AUDIT_KEY, *[F.col(column).alias(f"stored_{column}") for column in WEIGHTS])
    held = held_partitions(warehouse.read(ASSIGNMENTS.name), concerned.select(*AUDIT_KEY))
    commits = resumption.of_groups_in(concerned, news.commits)
    max_look_delay_s = context.settings.audit.max_look_delay_s
    answered = resumption.resolve_resume_offsets(held, commits, news.looks, news.complete, warehouse.materialize, max_look_delay_s)
    weighed = warehouse.materialize("weighed_again", with_weights(again, answered))
    load_findings.replace(context, weighed, answered)
    otherwise = weighed.join(stored_weights, list(AUDIT_KEY)).where(resumption.differs_from_stored(WEIGHTS))
    otherwise = otherwise.withColumns(context.run_columns).select(*GENERATION_AUDITS.schema.names)
    changed = warehouse.materialize_any("weighed_otherwise", otherwise)
    if changed is None:
        return
    count, _ = warehouse.replace(name, changed, AUDIT_KEY, changed)
    logger.info("updated the load imbalance of %d generations of earlier runs from newly landed commits or topic metadata", count)
