"""Load findings: the rates of partitions, audited generations -> ``findings`` on uneven loads and on records that cross racks.

The rates of a generation are known where its load imbalance is computed, and change with it. So both are computed for the same generations.
Only those with a large imbalance, or with partitions that have no replica in their reader's rack, are looked at more closely.
"""

from __future__ import annotations

from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.audit import udfs as audit_udfs
from jobs.audit.found_rows import found_in
from jobs.context import RunContext
from jobs.findings import LOAD_RULES
from jobs.storage.changed_findings import replace_findings
from schemas.keys import GENERATION_KEY
from schemas.staging import LOAD_FACTS
from schemas.tables import FINDINGS, GENERATION_AUDITS, GENERATION_TOPICS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import Basis

MILLIONTHS = 1e6
"""Rates are in millionths of a record per second."""


def judged_generations(audits: DataFrame, rated: DataFrame) -> DataFrame:
    """Return the audits of the generations that the rules look at, see ``load_imbalance.is_judged``.

    Args:
        rated: rows of ``schemas.staging.RATED_ROWS``.
    """
    keys = F.broadcast(rated.select(*GENERATION_KEY).distinct())
    return audits.where(F.col("basis") == str(Basis.OBSERVED)).join(keys, list(GENERATION_KEY), "left_semi")


def partition_rates(rated: DataFrame) -> DataFrame:
    """Return the rate of each partition: ``GENERATION_KEY``, member_id, topic, partition, rate."""
    entries = rated.select(*GENERATION_KEY, "member_id", "topic", F.inline(F.arrays_zip("partitions", "rates")))
    return entries.withColumnsRenamed({"partitions": "partition", "rates": "rate"})


def crosses_racks() -> Column:
    """Return whether a partition of a generation has no replica in its owner's rack; never null."""
    return F.coalesce(F.col("rack_match_ratio") < 1, F.lit(False))


def crossing_rates(judged: DataFrame, rates: DataFrame, snapshots: DataFrame, topics: DataFrame) -> DataFrame:
    """Return what comes from another rack: a row for each generation of which ``crosses_racks`` is true.

    Rows: ``GENERATION_KEY``, crossing_rate (millionths of a record per second), crossing_count (partitions).

    Args:
        judged: as ``judged_generations`` returns them.
        rates: as ``partition_rates`` returns them.
        snapshots: rows of ``subscription_snapshots``.
        topics: rows of ``generation_topics``.
    """
    key = list(GENERATION_KEY)
    crossing = F.broadcast(judged.where(crosses_racks()).select(*key, "topics_hash"))
    with_members = snapshots.join(crossing, key, "left_semi").select(*key, F.explode("members").alias("member"))
    readers = with_members.select(*key, F.col("member")["member_id"].alias("member_id"), F.col("member")["rack"].alias("rack"))
    with_topics = topics.join(crossing, ["cluster_id", "topics_hash"]).select(*key, F.explode("topics").alias("topic"))
    by_partition = with_topics.select(*key, F.col("topic")["topic"].alias("topic"), F.posexplode(F.col("topic")["partition_racks"]))
    replicas = by_partition.select(*key, "topic", F.col("pos").alias("partition"), F.array_compact("col").alias("racks"))
    located = rates.join(replicas, [*key, "topic", "partition"]).join(readers.where("rack != ''"), [*key, "member_id"])
    is_far = (F.size("racks") > 0) & ~F.array_contains("racks", F.col("rack"))
    total = F.sum(F.col("rate").cast("decimal(38,0)"))
    return located.where(is_far).groupBy(*key).agg(total.alias("crossing_rate"), F.count(F.lit(1)).cast("int").alias("crossing_count"))


def load_facts(judged: DataFrame, rates: DataFrame, crossing: DataFrame | None = None) -> DataFrame:
    """Return the facts for the rules on loads: one row per generation, of ``schemas.staging.LOAD_FACTS``.

    Generations in which the rate of a partition is not known are left out, since shares would be too large. Of equal loads the one with
    the largest name counts.

    Args:
        judged: as ``judged_generations`` returns them.
        rates: as ``partition_rates`` returns them.
        crossing: as ``crossing_rates`` returns them; None if no generation has such partitions.
    """
    key = list(GENERATION_KEY)
    by_member = rates.groupBy(*key, "member_id").agg(
        F.sum(F.col("rate").cast("decimal(38,0)")).alias("load"),
        F.max(F.struct("rate", "topic", "partition")).alias("top"),
        F.count_if(F.col("rate").isNull()).alias("unknown"),
    )
    loads = by_member.groupBy(*key).agg(
        F.sum("load").alias("total"),
        F.max(F.struct("load", "member_id")).alias("member"),
        F.max(F.struct("top", "member_id")).alias("busiest"),
        F.sum("unknown").alias("unknown"),
    )
    busiest = F.col("busiest")["top"]
    facts = {
        "observed_at_ms": F.unix_millis("observed_at"),
        "least": F.col("partitions_per_member_min"),
        "most": F.col("partitions_per_member_max"),
        "member_id": F.col("member")["member_id"],
        "member_rate": F.col("member")["load"].cast("double") / MILLIONTHS,
        "topic": busiest["topic"],
        "partition": busiest["partition"],
        "partition_rate": busiest["rate"].cast("double") / MILLIONTHS,
        "owner": F.col("busiest")["member_id"],
        "total_rate": F.col("total").cast("double") / MILLIONTHS,
    }
    known = judged.join(loads.where("unknown = 0 AND total > 0"), key).withColumns(facts)
    if crossing is None:
        return known.withColumns({"crossing_rate": F.lit(None).cast("double"), "crossing_count": F.lit(None).cast("int")}).select(
            *LOAD_FACTS.names
        )
    located = known.join(crossing, key, "left")
    return located.withColumn("crossing_rate", F.col("crossing_rate").cast("double") / MILLIONTHS).select(*LOAD_FACTS.names)


def _are_crossing(rated: DataFrame) -> bool | None:
    """Return whether a partition of one of these generations has no replica in its owner's rack; None if there is no generation."""
    ((are_crossing,),) = rated.agg(F.bool_or("crosses_racks")).collect()
    return cast("bool | None", are_crossing)


def _found(context: RunContext, judged: DataFrame, rated: DataFrame, are_crossing: bool) -> DataFrame:
    rates, crossing = partition_rates(rated), None
    if are_crossing:
        snapshots, topics = (context.warehouse.read(spec.name) for spec in (SUBSCRIPTION_SNAPSHOTS, GENERATION_TOPICS))
        crossing = crossing_rates(judged, rates, snapshots, topics)
    return found_in(context, load_facts(judged, rates, crossing), audit_udfs.find_in_loads)


def add(context: RunContext, rated: DataFrame) -> None:
    """Write the findings of the generations that this run has audited for the first time, or again.

    Args:
        rated: rows of ``schemas.staging.RATED_ROWS``, materialized.
    """
    if not any(len(times) > 1 for times in context.metadata_index.times_ms.values()):
        return  # a rate needs two metadata snapshots
    are_crossing = _are_crossing(rated)
    if are_crossing is not None:
        audits = context.warehouse.read(GENERATION_AUDITS.name).where(F.col("run_sequence") == context.run_sequence)
        judged = context.warehouse.materialize("judged_generations", judged_generations(audits, rated))
        replace_findings(context.warehouse, None, _found(context, judged, rated, are_crossing), "load_findings")


def replace(context: RunContext, weighed: DataFrame, rated: DataFrame) -> None:
    """Write the findings of generations that have been weighed again, and delete those that no longer hold.

    Args:
        weighed: audits of these generations with their new ratios, materialized.
        rated: rows of ``schemas.staging.RATED_ROWS``, materialized.
    """
    warehouse, stored = context.warehouse, None
    are_crossing = _are_crossing(rated)
    if context.before.written.get(FINDINGS.name):
        of_rules = warehouse.read(FINDINGS.name).where(F.col("rule_id").isin([str(rule.rule_id) for rule in LOAD_RULES]))
        stored = of_rules.join(F.broadcast(weighed.select(*GENERATION_KEY)), list(GENERATION_KEY), "left_semi")
    if are_crossing is not None:
        found = _found(context, judged_generations(weighed, rated), rated, are_crossing)
        replace_findings(warehouse, stored, found, "load_findings")
    elif stored is not None and not stored.isEmpty():
        replace_findings(warehouse, stored, warehouse.read(FINDINGS.name).limit(0), "load_findings")
