"""Findings: ``solutions``, ``generation_audits``, ``generation_topics`` -> ``findings``.

One function a rule; each returns at most one row a snapshot. A rule says what was found, the figures behind it, and what to do.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.context import RunContext
from schemas.tables import FINDINGS, GENERATION_AUDITS, GENERATION_TOPICS, SNAPSHOT_KEY, SOLUTIONS
from schemas.vocabulary import WITHOUT_RESULT, Basis, Conformance, Rule, Severity

PLACE = (*SNAPSHOT_KEY, "observed_month")
LISTED = 5
"""Names that a message lists before it only counts."""


def _text(*parts: str | Column) -> Column:
    return F.concat(*[F.lit(part) if isinstance(part, str) else F.coalesce(part.cast("string"), F.lit("-")) for part in parts])


def _evidence(**figures: Column) -> Column:
    pairs = [part for name, figure in figures.items() for part in (F.lit(name), F.coalesce(figure.cast("string"), F.lit("")))]
    return F.create_map(*pairs)


def _finding(rows: DataFrame, rule: Rule, severity: Severity | Column, message: Column, evidence: Column, advice: str) -> DataFrame:
    level = F.lit(str(severity)) if isinstance(severity, Severity) else severity
    return rows.select(
        *PLACE,
        F.lit(str(rule)).alias("rule_id"),
        level.alias("severity"),
        message.alias("message"),
        evidence.alias("evidence"),
        F.lit(advice).alias("advice"),
    )


def find_uncertain_topics(solutions: DataFrame, generation_topics: DataFrame) -> DataFrame:
    """Return a finding for each snapshot with topics that no look at the cluster fits, or that are in none."""
    uncertain = generation_topics.select(
        "cluster_id", "topics_hash", F.filter("topics", lambda topic: topic["is_uncertain"])["topic"].alias("names")
    ).where(F.size("names") > 0)
    rows = solutions.where(F.col("basis") == str(Basis.OBSERVED)).join(uncertain, ["cluster_id", "topics_hash"])
    listed = F.concat_ws(", ", F.slice("names", 1, LISTED))
    return _finding(
        rows,
        Rule.TOPIC_BASIS_UNCERTAIN,
        Severity.INFO,
        _text(F.size("names"), " topics have partition counts that no look at the cluster confirms: ", listed),
        _evidence(topic_count=F.size("names"), topics=listed),
        "Record the cluster's metadata more often, or land the looks that are missing.",
    )


def find_nonconformance(solutions: DataFrame) -> DataFrame:
    """Return a finding for each snapshot whose assignment is not even balanced like its own assignor's."""
    is_different = (F.col("basis") == str(Basis.RECOMPUTED)) & (F.col("conformance") == str(Conformance.DIFFERS))
    rows = solutions.where(is_different)
    return _finding(
        rows,
        Rule.CONFORMANCE_DIFFERS,
        Severity.WARNING,
        _text("The group's assignment is not what Kafka's ", F.col("strategy"), " assignor gives (release ", F.col("kafka_version"), ")"),
        _evidence(strategy=F.col("strategy"), kafka_version=F.col("kafka_version")),
        "Look at the leader's client library: others implement assignors of the same name differently, some with faults.",
    )


def find_multiple_owners(audits: DataFrame) -> DataFrame:
    """Return a finding for each snapshot in which a partition was given to several members."""
    is_shared = (F.col("basis") == str(Basis.OBSERVED)) & (F.col("multiply_owned_count") > 0)
    shared = F.filter("violations", lambda violation: violation.startswith("multiply_owned "))
    listed = F.concat_ws(", ", F.transform(F.slice(shared, 1, LISTED), lambda violation: F.substring_index(violation, " ", -1)))
    return _finding(
        audits.where(is_shared),
        Rule.PARTITION_MULTIPLY_OWNED,
        Severity.CRITICAL,
        _text(F.col("multiply_owned_count"), " partitions have more than one owner: ", listed),
        _evidence(multiply_owned_count=F.col("multiply_owned_count"), partitions=listed),
        "Records are processed twice. Restart the group's consumers; look for a leader with a faulty assignor.",
    )


def find_missing_results(solutions: DataFrame) -> DataFrame:
    """Return a finding for each snapshot on which an assignor gives no result: a warning when it is the group's own."""
    is_own = F.col("basis") == str(Basis.RECOMPUTED)
    failed = solutions.where(F.col("status").isin([str(status) for status in WITHOUT_RESULT]))
    reason = F.concat_ws(" ", F.col("basis"), F.concat("strategy", F.lit(":")), "status", F.concat(F.lit("("), "detail", F.lit(")")))
    rows = failed.groupBy(*PLACE).agg(
        F.max(is_own).alias("is_own"),
        F.sort_array(F.collect_set("strategy")).alias("strategies"),
        F.sort_array(F.collect_set(reason)).alias("reasons"),
    )
    listed = F.concat_ws(", ", "strategies")
    return _finding(
        rows,
        Rule.NO_RESULT,
        F.when(F.col("is_own"), str(Severity.WARNING)).otherwise(str(Severity.INFO)),
        _text("Kafka's own code gives no assignment here: ", listed),
        _evidence(strategies=listed, reasons=F.concat_ws("; ", F.slice("reasons", 1, LISTED))),
        "The group can hang in its next rebalance: let all members subscribe to the same topics, or choose another assignor.",
    )


def run(context: RunContext, consumed: int) -> None:
    """Find what this run's audits show.

    Args:
        consumed: the audited solutions are those with a larger run_sequence.
    """
    warehouse = context.warehouse
    audits = warehouse.read(GENERATION_AUDITS.name).where(F.col("run_sequence") == context.run_sequence)
    solutions = warehouse.read(SOLUTIONS.name).where(F.col("run_sequence") > consumed)
    found = (
        find_uncertain_topics(solutions, warehouse.read(GENERATION_TOPICS.name)),
        find_nonconformance(solutions),
        find_multiple_owners(audits),
        find_missing_results(solutions),
    )
    columns = {"run_sequence": F.lit(context.run_sequence).cast("bigint"), "run_id": F.lit(context.run_id)}
    rows = reduce(DataFrame.unionByName, found).withColumns(columns)
    warehouse.append(FINDINGS.name, rows.select(*FINDINGS.schema.names))
