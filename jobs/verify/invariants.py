"""Invariants of the published rows, in plain Spark: keys, runs, completeness.

Each check is a frame of offenders with the columns ``row_key``, ``found`` and ``expected``; only the first few of a kind are collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from jobs.storage.solution_rows import expand
from jobs.storage.warehouse import Warehouse
from jobs.verify import recount
from jobs.verify.damage import Code, Damage, first_line, unreadable
from jobs.verify.recount import SOLUTION, offenders
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.tables import (
    ALL_TABLES,
    ASSIGNMENTS,
    FINDINGS,
    GENERATION_AUDITS,
    GENERATION_TOPICS,
    LAST_COMMITS,
    MOVEMENTS,
    OFFSET_SNAPSHOTS,
    RUNS,
    SOLUTIONS,
    SUBSCRIPTION_SNAPSHOTS,
    TableSpec,
)
from schemas.tables.columns import SNAPSHOT_KEY
from schemas.vocabulary import Basis, Outcome, RunStatus

SHOWN = 20
"""Most offenders of one kind that are named; further ones are only counted."""

MOST_GROUPS = 200
"""Number of groups whose holdings are unpacked and counted again, unless all are requested."""


@dataclass(frozen=True)
class Check:
    """One invariant of one table, with the frame of rows that break it."""

    code: Code
    table: str
    offenders: DataFrame


def check_rows(warehouse: Warehouse, published: Row, most_groups: int | None = MOST_GROUPS) -> tuple[list[Damage], int]:
    """Return the damage of the published rows, and the number of checked invariants.

    Args:
        warehouse: reads the published rows.
        published: the newest published row of ``runs``.
        most_groups: number of groups whose holdings are unpacked, others after each run; None for all.
    """
    tables, damages, versions = {}, [], dict(published["table_versions"])
    for name in warehouse.table_names:
        try:
            tables[name] = warehouse.read(name)
        except Exception as error:  # the class differs between classic Spark, Connect and file systems
            damages.append(unreadable(name, versions.get(name), "", error))
    if damages:
        return damages, 0
    checks = list(_checks(tables, published, most_groups))
    for check in checks:
        try:
            damages += [replace(damage, version=versions.get(check.table)) for damage in _first_offenders(check)]
        except Exception as error:  # as above
            found = f"{first_line(error)[:500]} (checking {check.code})"
            readable = "rows that Spark can read"
            damages.append(Damage(Code.UNREADABLE_TABLE, check.table, versions.get(check.table), "", found, readable))
    return damages, len(checks)


def _first_offenders(check: Check) -> list[Damage]:
    rows = check.offenders.orderBy("row_key", "found", "expected").limit(SHOWN).collect()
    damages = [Damage(check.code, check.table, None, row["row_key"], row["found"], row["expected"]) for row in rows]
    if len(rows) == SHOWN:
        more = check.offenders.count() - SHOWN
        if more:
            damages.append(Damage(check.code, check.table, None, "~", f"{more} more of these", "none"))
    return damages


def sample_groups(solutions: DataFrame, run_id: str, most_groups: int | None) -> DataFrame:
    """Return (cluster_id, group_id) of at most so many groups, chosen by the run's name; None for all groups."""
    groups = solutions.select(*GROUP_KEY).distinct()
    return groups if most_groups is None else groups.orderBy(F.xxhash64(*GROUP_KEY, F.lit(run_id)), *GROUP_KEY).limit(most_groups)


def _checks(tables: Mapping[str, DataFrame], published: Row, most_groups: int | None) -> Iterator[Check]:
    yield Check(Code.UNBALANCED_INPUT, RUNS.name, unbalanced_input(tables[RUNS.name]))
    yield Check(Code.DUPLICATE_KEY, RUNS.name, repeated_numbers(tables[RUNS.name]))
    yield Check(Code.UNKNOWN_RUN, RUNS.name, missing_numbers(tables[RUNS.name]))
    for spec in map(ALL_TABLES.__getitem__, tables):
        yield Check(Code.DUPLICATE_KEY, spec.name, duplicate_keys(tables[spec.name], spec))
        if spec is not RUNS:
            yield Check(Code.UNKNOWN_RUN, spec.name, rows_of_unknown_runs(tables[spec.name], tables[RUNS.name]))
    solutions, audits = tables[SOLUTIONS.name], tables[GENERATION_AUDITS.name]
    snapshots, assignments = tables[SUBSCRIPTION_SNAPSHOTS.name], tables[ASSIGNMENTS.name]
    consumed = dict(published["consumed"])
    assigned = F.col("run_sequence") <= consumed.get(SUBSCRIPTION_SNAPSHOTS.name, 0)
    audited = F.col("run_sequence") <= consumed.get(SOLUTIONS.name, 0)
    observed = solutions.where(F.col("basis") == str(Basis.OBSERVED))
    # Between assign and audit, stored audits may be of solutions that are already replaced.
    audits_of_now = audits.join(solutions.where(~audited).select(*GROUP_KEY).distinct(), list(GROUP_KEY), "left_anti")
    problems = recount.problems(snapshots, observed, tables[GENERATION_TOPICS.name])
    # Missing topics are reported as such, not as partitions that do not exist.
    countable = audits_of_now.join(problems.select(*GENERATION_KEY), list(GENERATION_KEY), "left_semi")
    # Landing rewrites stored snapshots when it learns more of them: until assign has run, the results belong to the old ones.
    landed = snapshots.where(~assigned).select(*GROUP_KEY).distinct()
    countable = countable.join(landed, list(GROUP_KEY), "left_anti")
    solutions_of_now = solutions.join(landed, list(GROUP_KEY), "left_anti")
    # A group that speaks another protocol has no solution at all.
    due = snapshots.where(assigned).join(solutions, list(GROUP_KEY), "left_semi")
    topics_key = ("cluster_id", "topics_hash")
    groups = sample_groups(solutions, published["run_id"], most_groups)
    packed = solutions_of_now.join(groups, list(GROUP_KEY), "left_semi").where(F.col("holdings").isNotNull())
    unpacked = expand(packed, snapshots, tables[GENERATION_TOPICS.name], passes_over_torn=True)
    for table, code, rows, others, key, found, expected in (
        (SOLUTIONS, Code.MISSING_ROWS, due, observed, (*GROUP_KEY, "position"), "a snapshot without one", "an observed solution"),
        (SOLUTIONS, Code.STRAY_ROWS, solutions_of_now, snapshots, (*GROUP_KEY, "position"), "a solution", "its snapshot"),
        (GENERATION_TOPICS, Code.MISSING_ROWS, solutions, tables[GENERATION_TOPICS.name], topics_key, "a solution of them", "the topics"),
        (ASSIGNMENTS, Code.STRAY_ROWS, assignments, solutions, SOLUTION, "a member's partitions", "the solution they belong to"),
        (GENERATION_AUDITS, Code.MISSING_ROWS, solutions.where(audited), audits, SOLUTION, "a solution without one", "an audit"),
        (GENERATION_AUDITS, Code.STRAY_ROWS, audits_of_now, solutions, SOLUTION, "an audit", "the solution it is of"),
        (MOVEMENTS, Code.STRAY_ROWS, tables[MOVEMENTS.name], audits, SOLUTION, "a movement", "the audit that counts it"),
        (FINDINGS, Code.STRAY_ROWS, tables[FINDINGS.name], audits, SNAPSHOT_KEY, "a finding", "the audit it follows from"),
    ):
        yield Check(code, table.name, without_counterpart(rows, others, key, found, expected))
    yield Check(Code.MISSING_ROWS, SOLUTIONS.name, recount.missing_holdings(solutions, published.asDict().get("counterfactuals_from")))
    torn = recount.torn_holdings(packed, unpacked, snapshots, tables[GENERATION_TOPICS.name])
    yield Check(Code.WRONG_COUNT, SOLUTIONS.name, torn)
    yield Check(Code.WRONG_COUNT, ASSIGNMENTS.name, recount.wrong_partition_counts(assignments))
    recorded = recount.unlike_the_record(solutions_of_now.where(F.col("basis") == str(Basis.OBSERVED)), snapshots, assignments)
    yield Check(Code.WRONG_COUNT, ASSIGNMENTS.name, recorded)
    yield Check(Code.WRONG_COUNT, ASSIGNMENTS.name, recount.unlike_the_holdings(assignments, unpacked))
    yield Check(Code.MISSING_ROWS, ASSIGNMENTS.name, recount.wrong_member_counts(solutions_of_now, snapshots, assignments))
    # Solutions without rows of their own are counted by their holdings, in the chosen groups.
    is_fact = recount.is_fact_of_its_own()
    countable = countable.where(is_fact).unionByName(countable.where(~is_fact).join(packed.select(*SOLUTION), list(SOLUTION), "left_semi"))
    others = unpacked.join(assignments.select(*SOLUTION).distinct(), list(SOLUTION), "left_anti")
    held = assignments.unionByName(others.join(solutions.where(~is_fact).select(*SOLUTION), list(SOLUTION), "left_semi"))
    yield Check(Code.WRONG_COUNT, GENERATION_AUDITS.name, recount.wrong_balance(countable, held, problems))
    yield Check(Code.WRONG_VIOLATIONS, GENERATION_AUDITS.name, recount.wrong_violations(countable, held, problems))
    yield Check(Code.WRONG_COUNT, GENERATION_AUDITS.name, recount.unlike_the_solution(audits_of_now, solutions))
    movements = tables[MOVEMENTS.name]
    yield Check(Code.WRONG_MOVEMENTS, GENERATION_AUDITS.name, recount.wrong_movements(audits, movements))
    yield Check(Code.WRONG_MOVEMENTS, GENERATION_AUDITS.name, recount.wrong_exact_movements(audits))
    movements_of_now = movements.join(audits_of_now.select(*SOLUTION), list(SOLUTION), "left_semi")
    yield Check(Code.WRONG_MOVEMENTS, MOVEMENTS.name, recount.wrong_owners(movements_of_now, assignments))
    if LAST_COMMITS.name in tables:
        last, commits = tables[LAST_COMMITS.name], tables[OFFSET_SNAPSHOTS.name]
        yield Check(Code.WRONG_COUNT, LAST_COMMITS.name, recount.wrong_last_commits(last, commits))


def unbalanced_input(runs: DataFrame) -> DataFrame:
    """Return the runs that have not read as many records as landed, duplicate, skipped and quarantined; in total, or of one source."""
    counts = runs.select("run_id", F.explode("input_counts").alias("key", "count"))
    parts = F.split("key", r"\.")
    word, source = F.element_at(parts, -1), F.when(F.size(parts) > 1, parts[0]).otherwise("all sources")
    totals = counts.where(F.size(parts) <= 2).groupBy("run_id", source.alias("source"))
    sums = totals.agg(
        F.sum(F.when(word == "read", F.col("count")).otherwise(0)).alias("read"),
        F.sum(F.when(word.isin([str(outcome) for outcome in Outcome]), F.col("count")).otherwise(0)).alias("ended"),
    )
    wrong = sums.where(F.col("read") != F.col("ended"))
    return offenders(wrong, ("run_id", "source"), F.format_string("%d records read", "read"), F.format_string("%d accounted for", "ended"))


def duplicate_keys(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """Return the keys of more than one row of a table; of ``runs``, only among published rows."""
    if spec is RUNS:
        rows = rows.where(F.col("status") == str(RunStatus.PUBLISHED))
    repeated = rows.groupBy(*spec.key).count().where(F.col("count") > 1)
    return offenders(repeated, spec.key, F.format_string("%d rows", "count"), F.lit("one row"))


def repeated_numbers(runs: DataFrame) -> DataFrame:
    """Return the numbers of more than one run, of any status."""
    repeated = runs.groupBy("run_sequence").count().where(F.col("count") > 1)
    return offenders(repeated, ("run_sequence",), F.format_string("%d runs", "count"), F.lit("one run"))


def missing_numbers(runs: DataFrame) -> DataFrame:
    """Return the missing numbers up to that of the newest run: each run has the next number, and its row is kept."""
    last = runs.agg(F.max("run_sequence").alias("last")).where("last > 0")
    numbers = last.select(F.explode(F.expr("sequence(1L, last)")).alias("run_sequence"))
    missing = numbers.join(runs.select("run_sequence"), ["run_sequence"], "left_anti")
    return offenders(missing, ("run_sequence",), F.lit("no row"), F.lit("a row of each run, the failed ones too"))


def rows_of_unknown_runs(rows: DataFrame, runs: DataFrame) -> DataFrame:
    """Return the runs that ``runs`` does not have as published, each with the number of its rows."""
    published = runs.where(F.col("status") == str(RunStatus.PUBLISHED))
    key: tuple[str, ...] = tuple(name for name in ("run_sequence", "run_id") if name in rows.columns)
    strange = rows.groupBy(*key).count().join(F.broadcast(published), list(key), "left_anti")
    return offenders(strange, key, F.format_string("%d rows", "count"), F.lit("a published row of runs"))


def without_counterpart(rows: DataFrame, others: DataFrame, key: tuple[str, ...], found: str, expected: str) -> DataFrame:
    """Return the keys of rows that are missing in another table; null equals null."""
    same = reduce(Column.__and__, [F.col(f"r.{name}").eqNullSafe(F.col(f"o.{name}")) for name in key])
    alone = rows.select(*key).distinct().alias("r").join(others.select(*key).distinct().alias("o"), same, "left_anti")
    return offenders(alone, key, F.lit(found), F.lit(f"{expected}, which is missing"))
