"""Each rule on a few rows: one that it is about, and its neighbours that it is not."""

from __future__ import annotations

from datetime import date
from typing import Any

from pyspark.sql import SparkSession

from jobs import findings
from schemas.tables import GENERATION_AUDITS, GENERATION_TOPICS, SOLUTIONS
from tests.spark.frames import frame, moment


def place(position: int, **changes: Any) -> dict[str, Any]:
    return {
        "cluster_id": "c",
        "group_id": "g",
        "generation": position,
        "observed_at": moment(position * 1_000),
        "position": position,
        "observed_month": date(1970, 1, 1),
        "strategy": "sticky",
        **changes,
    }


def found(rows) -> dict[int, tuple[str, str, str]]:
    return {row["position"]: (row["severity"], row["message"], dict(row["evidence"])) for row in rows.collect()}


def test_topics_without_a_fitting_look(spark: SparkSession) -> None:
    topics = [
        {"cluster_id": "c", "topics_hash": "doubtful", "topics": [topic("a", True), topic("b", False)]},
        {"cluster_id": "c", "topics_hash": "certain", "topics": [topic("a", False)]},
    ]
    solutions = [
        place(1, basis="observed", topics_hash="doubtful"),
        place(1, basis="recomputed", topics_hash="doubtful"),  # the same snapshot: told once
        place(2, basis="observed", topics_hash="certain"),
    ]
    rows = findings.find_uncertain_topics(frame(spark, SOLUTIONS.schema, solutions), frame(spark, GENERATION_TOPICS.schema, topics))
    message = "1 topics have partition counts that no look at the cluster confirms: a"
    assert found(rows) == {1: ("info", message, {"topic_count": "1", "topics": "a"})}


def topic(name: str, is_uncertain: bool) -> tuple:
    return (name, None, 1, None, "before", is_uncertain)


def test_assignments_unlike_their_assignors(spark: SparkSession) -> None:
    solutions = [
        place(1, basis="recomputed", conformance="differs", kafka_version="4.4.0"),
        place(1, basis="observed", conformance="differs"),  # repeats the recomputed row's
        place(2, basis="recomputed", conformance="equal_balance"),
        place(3, basis="recomputed", conformance="not_comparable"),
    ]
    rows = found(findings.find_nonconformance(frame(spark, SOLUTIONS.schema, solutions)))
    assert {position: (severity, message) for position, (severity, message, _) in rows.items()} == {
        1: ("warning", "The group's assignment is not what Kafka's sticky assignor gives (release 4.4.0)")
    }


def test_partitions_with_several_owners(spark: SparkSession) -> None:
    audits = [
        place(1, basis="observed", multiply_owned_count=2, violations=["multiply_owned t-0", "multiply_owned t-3", "unassigned t-1"]),
        place(2, basis="observed", multiply_owned_count=0, violations=[]),
        place(3, basis="counterfactual", multiply_owned_count=1, violations=["multiply_owned t-0"]),  # nobody holds that
        place(4, basis="observed"),  # without an assignment nothing is counted
    ]
    rows = found(findings.find_multiple_owners(frame(spark, GENERATION_AUDITS.schema, audits)))
    assert rows == {
        1: ("critical", "2 partitions have more than one owner: t-0, t-3", {"multiply_owned_count": "2", "partitions": "t-0, t-3"})
    }


def test_assignors_without_a_result(spark: SparkSession) -> None:
    solutions = [
        place(1, basis="recomputed", status="no_result", detail="cycle"),
        place(1, basis="counterfactual", status="over_budget"),
        place(2, basis="counterfactual", status="kafka_error", strategy="range"),
        place(3, basis="recomputed", status="unsupported"),
        place(4, basis="recomputed", status="solved"),
    ]
    rows = found(findings.find_missing_results(frame(spark, SOLUTIONS.schema, solutions)))
    assert {position: (severity, evidence["strategies"]) for position, (severity, _, evidence) in rows.items()} == {
        1: ("warning", "sticky"),
        2: ("info", "range"),
    }
    assert rows[1][2]["reasons"] == "counterfactual sticky: over_budget; recomputed sticky: no_result (cycle)"
