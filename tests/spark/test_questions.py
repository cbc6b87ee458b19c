"""The questions of ``sql --question``: each query runs on what a run has published, and gives what the rows say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from jobs.sql.questions import QUESTIONS
from tests.builders.tables import rows

UNBALANCED, COST, WHY, CONFORMANCE, RESUME = QUESTIONS.values()
VIEWED = ("generation_audits", "movements")

Ask = Any


@pytest.fixture(scope="module")
def ask(spark: SparkSession, demo_warehouse: Path) -> Iterator[Ask]:
    """Runs a query beside the views that a catalog would have."""
    for name in VIEWED:
        spark.read.format("delta").load(str(demo_warehouse / name)).createOrReplaceTempView(f"{name}_published")
    yield lambda query: spark.sql(query).collect()
    for name in VIEWED:
        spark.catalog.dropTempView(f"{name}_published")


@pytest.fixture(scope="module")
def audits(demo_warehouse: Path) -> list[dict[str, Any]]:
    return rows(demo_warehouse, "generation_audits")


@pytest.fixture(scope="module")
def observed(audits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in audits if row["basis"] == "observed"]


def counted(found: list[Row], *keys: str, count: str) -> Counter[tuple[Any, ...]]:
    assert len({tuple(row[key] for key in keys) for row in found}) == len(found)
    return Counter({tuple(row[key] for key in keys): row[count] for row in found})


def test_unbalanced_query_lists_groups_by_their_newest_settled_generation(
    ask: Ask, audits: list[dict[str, Any]], observed: list[dict[str, Any]]
) -> None:
    newest: dict[str, dict[str, Any]] = {}
    for row in sorted(observed, key=lambda row: row["position"]):
        if row["is_settled"] and row["member_count"]:
            newest[row["group_id"]] = row
    expected = {name: row for name, row in newest.items() if (row["imbalance_ratio"] or 0) > 1.25}
    found = ask(UNBALANCED)
    assert {row.group_id: row.verdict for row in found} == {name: row["verdict"] for name, row in expected.items()}
    assert {row.verdict for row in found} > {"inherent"}
    for row in found:
        position = expected[row.group_id]["position"]
        alike = [audit for audit in audits if (audit["group_id"], audit["position"]) == (row.group_id, position)]
        others = {audit["strategy"]: audit["imbalance_ratio"] for audit in alike if audit["basis"] == "counterfactual"}
        assert row.imbalance_ratios == others and len(others) >= 4
        if row.better_strategy:
            assert others[row.better_strategy] == min(ratio for ratio in others.values() if ratio is not None)


def test_cost_query_sums_movements_of_a_month_with_the_worst_first(ask: Ask, observed: list[dict[str, Any]]) -> None:
    found = ask(COST)
    moved: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in observed:
        if row["movement_count"]:
            moved.setdefault((row["cluster_id"], row["group_id"], row["observed_month"]), []).append(row)
    of_month = ("cluster_id", "group_id", "observed_month")
    expected = Counter({key: sum(row["movement_count"] for row in rows) for key, rows in moved.items()})
    assert counted(found, *of_month, count="movement_count") == expected
    for row in found:
        rows_of_month = moved[tuple(row[name] for name in of_month)]
        most = max(one["movement_count"] for one in rows_of_month)
        assert row.dearest_generation in {one["generation"] for one in rows_of_month if one["movement_count"] == most}
        assert row.generation_count == len(rows_of_month)
        unbroken = [one["avoidable_movement_count"] for one in rows_of_month if not one["generation_gap"]]
        known = [count for count in unbroken if count is not None]
        assert row.avoidable_movement_count == (sum(known) if known else None)
    avoidable = [row.avoidable_movement_count for row in found]
    known = [count for count in avoidable if count is not None]
    assert avoidable[: len(known)] == sorted(known, reverse=True) and 0 < known[0], "the worst comes first"


def test_why_query_counts_triggers_by_group(ask: Ask, observed: list[dict[str, Any]]) -> None:
    expected = Counter((row["group_id"], trigger) for row in observed for trigger in row["triggers"] or ())
    assert counted(ask(WHY), "group_id", "trigger", count="rebalance_count") == expected
    assert {"member_joined", "member_left", "subscription_changed", "partitions_added"} <= {trigger for _, trigger in expected}


def test_conformance_query_counts_generations_by_conformance(ask: Ask, audits: list[dict[str, Any]]) -> None:
    found = ask(CONFORMANCE)
    expected = Counter((row["group_id"], row["strategy"], row["conformance"]) for row in audits if row["basis"] == "recomputed")
    assert counted(found, "group_id", "strategy", "conformance", count="generation_count") == expected
    assert found[0].conformance == "differs"


def test_resume_query_counts_partitions_by_resume_outcome(ask: Ask, demo_warehouse: Path) -> None:
    moved = [row for row in rows(demo_warehouse, "movements") if row["basis"] == "observed" and row["member_id"] is not None]
    expected = Counter((row["group_id"], row["resume_outcome"]) for row in moved)
    found = ask(RESUME)
    assert counted(found, "group_id", "resume_outcome", count="partition_count") == expected
    assert {"committed", "reset_none"} <= {outcome for _, outcome in expected}
    longest = {(row["group_id"], row["resume_outcome"]): 0 for row in moved if row["committed_at"] is not None}
    for row in moved:
        if row["committed_at"] is not None:
            since = (row["observed_at"] - row["committed_at"]).total_seconds()
            key = (row["group_id"], row["resume_outcome"])
            longest[key] = max(longest[key], int(since))
    assert {
        (row.group_id, row.resume_outcome): row.longest_since_commit_s for row in found if row.longest_since_commit_s is not None
    } == longest
