"""Load findings: the rates of partitions, audited generations -> ``findings`` on members and partitions with most of the records.

The rates of a generation are known where its load imbalance is computed, and change with it. So both are computed for the same generations.
Only those with a large imbalance are looked at more closely.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.audit import udfs as audit_udfs
from jobs.context import RunContext
from jobs.findings import LOAD_RULES
from jobs.findings.loads import HOT_SHARE
from jobs.storage.changed_findings import replace_findings
from schemas.keys import GENERATION_KEY
from schemas.staging import FOUND_ROWS, LOAD_FACTS
from schemas.tables import FINDINGS, GENERATION_AUDITS
from schemas.vocabulary import Basis

MILLIONTHS = 1e6
"""Rates are in millionths of a record per second."""


def uneven_generations(audits: DataFrame) -> DataFrame:
    """Return the settled observed generations in which one member gets far more records than the mean."""
    is_uneven = (F.col("throughput_imbalance_ratio") >= HOT_SHARE) & F.col("is_settled") & (F.col("member_count") > 1)
    return audits.where((F.col("basis") == str(Basis.OBSERVED)) & is_uneven)


def load_facts(uneven: DataFrame, answered: DataFrame) -> DataFrame:
    """Return the facts for the rules on loads: one row per generation, of ``schemas.staging.LOAD_FACTS``.

    Generations in which the rate of a partition is not known are left out, since shares would be too large. Of equal loads the one with
    the largest name counts.

    Args:
        uneven: as ``uneven_generations`` returns them.
        answered: ``resume_offsets.resolve_resume_offsets`` for the partitions of at least these generations.
    """
    key = list(GENERATION_KEY)
    rates = answered.join(F.broadcast(uneven.select(*key)), key, "left_semi")
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
    return uneven.join(loads.where("unknown = 0"), key).withColumns(facts).select(*LOAD_FACTS.names)


def _found(context: RunContext, uneven: DataFrame, answered: DataFrame) -> DataFrame:
    facts = load_facts(uneven, answered)
    return context.rows_of(FINDINGS, facts.mapInArrow(audit_udfs.find_in_loads, FOUND_ROWS))


def add(context: RunContext, answered: DataFrame) -> None:
    """Write the findings of the generations that this run has audited for the first time, or again.

    Args:
        answered: rates of the partitions of these generations.
    """
    if not any(len(times) > 1 for times in context.metadata_index.times_ms.values()):
        return  # a rate needs two metadata snapshots
    audits = context.warehouse.read(GENERATION_AUDITS.name).where(F.col("run_sequence") == context.run_sequence)
    uneven = context.warehouse.materialize("uneven_generations", uneven_generations(audits))
    if not uneven.isEmpty():
        replace_findings(context.warehouse, None, _found(context, uneven, answered), "load_findings")


def replace(context: RunContext, weighed: DataFrame, answered: DataFrame) -> None:
    """Write the findings of generations that have been weighed again, and delete those that no longer hold.

    Args:
        weighed: audits of these generations with their new ratios, materialized.
        answered: rates of the partitions of these generations.
    """
    warehouse, stored = context.warehouse, None
    uneven = uneven_generations(weighed)
    if context.before.written.get(FINDINGS.name):
        of_rules = warehouse.read(FINDINGS.name).where(F.col("rule_id").isin([str(rule.rule_id) for rule in LOAD_RULES]))
        stored = of_rules.join(F.broadcast(weighed.select(*GENERATION_KEY)), list(GENERATION_KEY), "left_semi")
    if not uneven.isEmpty() or (stored is not None and not stored.isEmpty()):
        replace_findings(warehouse, stored, _found(context, uneven, answered), "load_findings")
