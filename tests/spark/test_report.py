"""The report's frames on small closed examples, and the whole stage on the recorded capture against the tables themselves."""

from __future__ import annotations

import csv
import json
import re
import shlex
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from assignors.scenario.backtest import Prediction
from jobs.backtest.judging import judge_predictions, predictions
from jobs.pages.needs import worst_first
from jobs.reading.fleet import read_fleet
from jobs.reading.generations import read_generations
from jobs.reading.groups import find_groups
from jobs.reading.published import open_published
from jobs.report.anchors import anchor
from jobs.report.collecting import collect_rows
from jobs.report.commit_groups import count_commits
from jobs.report.deletions import last_deletions
from jobs.report.groups import add_settled
from jobs.report.queries import (
    condense_findings,
    condense_movements,
    count_parts,
    describe_members,
    hold_partitions,
    read_until,
    tally_fleet,
    tally_groups,
)
from jobs.report.ranking import merge_parts
from jobs.report.rows import ReportRows
from jobs.show.ordered import order_groups
from jobs.storage.last_commits import last_commits_of, newest_times
from jobs.storage.sql_literals import is_one_of
from jobs.storage.warehouse import Warehouse
from schemas.config import ReportSettings
from schemas.tables import (
    ASSIGNMENTS,
    CURRENT_LAG,
    FINDINGS,
    GENERATION_AUDITS,
    GROUP_RECORDS,
    MOVEMENTS,
    OFFSET_SNAPSHOTS,
    SUBSCRIPTION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
    TableSpec,
)
from tests.builders.tables import rows
from tests.faults.hostile_names import NAMES

AT = datetime(2026, 11, 21, 2, 0, tzinfo=timezone.utc)
AT_MS = int(AT.timestamp() * 1000)


def is_orders() -> Column:
    return (F.col("cluster_id") == "prod") & (F.col("group_id") == "orders")


def frame(spark: SparkSession, spec: TableSpec, *given: dict[str, Any]) -> DataFrame:
    """A frame of a table's shape: columns that a row does not name are those of one place, or null."""
    key = {"cluster_id": "prod", "group_id": "orders", "generation": 1, "observed_at": AT, "position": 10, "basis": "observed"}
    return spark.createDataFrame([tuple((key | row).get(name) for name in spec.schema.names) for row in given], spec.schema)


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def test_group_row_sums_its_history_and_shows_its_last_settled_generation(spark: SparkSession) -> None:
    loads = {"strategy": "range", "partitions_per_member_min": 1, "partitions_per_member_max": 3, "imbalance_ratio": 1.5}
    loads |= {"partitions_per_member_mean": 2.0}
    audits = frame(
        spark,
        GENERATION_AUDITS,
        {"position": 10, "movement_count": None, "member_count": 2, "is_settled": True, **loads, "imbalance_ratio": 1.0},
        {"position": 11, "movement_count": 0, "avoidable_movement_count": 90, "generation_gap": 1, "member_count": 2},
        {
            "position": 12,
            "generation": 2,
            "movement_count": 4,
            "avoidable_movement_count": 3,
            "member_count": 2,
            **loads,
            "better_gain": 0.5,
        },
        {"position": 13, "generation": 3, "movement_count": 1, "member_count": 3, "is_settled": False, **loads, "imbalance_ratio": 9.0},
        {"position": 14, "generation": 4, "movement_count": 0, "member_count": 0, "is_settled": True},
        {"position": 14, "generation": 4, "movement_count": 70, "member_count": 0, "basis": "counterfactual", "strategy": "sticky"},
        {"group_id": "idle", "member_count": 0},
        {"group_id": "idle", "member_count": 0, "position": 9, "observed_at": AT + timedelta(milliseconds=3)},
    )
    findings = frame(
        spark,
        FINDINGS,
        {"rule_id": "a", "severity": "warning"},
        {"rule_id": "b", "severity": "critical"},
        {"rule_id": "a", "severity": "warning", "position": 14, "generation": 4},
    )
    parts = sorted(collected(count_parts(audits, findings)), key=lambda part: part["group_id"])
    by_group = {row["group_id"]: row for row in merge_parts(parts, {"prod": AT_MS + 5})}
    assert by_group["orders"] == {
        "cluster_id": "prod",
        "group_id": "orders",
        "critical_count": 1,
        "warning_count": 2,
        "info_count": 0,
        "current_critical_count": 0,
        "current_warning_count": 1,
        "current_info_count": 0,
        "need_severity": "warning",
        "need_rule": "a",
        "lag_now": None,
        "deleted_at_ms": None,
        "movement_count": 5,
        "movement_count_known": 4,
        "avoidable_movement_count": 3,  # not what may have happened in the generation that is missing
        "avoidable_movement_count_known": 1,
        "generation_count": 5,
        "member_count": 0,
        "first_at_ms": AT_MS,
        "last_at_ms": AT_MS,
        "newest_position": 14,
        "calm_ms": 5,
        "predictable_count": 0,
        "predictable_at_ms": None,
        "settled_position": 12,
        "strategy": "range",
        "imbalance_ratio": 1.5,
        "partitions_per_member_min": 1,
        "partitions_per_member_max": 3,
        "better_gain": 0.5,
    }
    idle = by_group["idle"]
    assert (idle["critical_count"], idle["movement_count"], idle["settled_position"], idle["imbalance_ratio"]) == (0, None, None, None)
    assert idle["current_critical_count"] == 0
    assert (idle["calm_ms"], idle["last_at_ms"]) == (5, AT_MS + 3), "a clock stepped back before the newest generation"
    (details,) = add_settled([by_group["orders"]], collected(tally_groups(audits.where(is_orders()), limit=1)))
    assert (details["settled_generation"], details["settled_at_ms"], details["partitions_per_member_mean"]) == (2, AT_MS, 2.0)


def test_generations_are_counted_that_a_scenario_could_have_said(spark: SparkSession) -> None:
    played = {"strategy": "range", "member_count": 2, "generation_gap": 0, "triggers": ["member_joined", "partitions_added"]}
    played |= dict.fromkeys(("retained_count", "revoked_count", "reassigned_count", "lost_count", "orphaned_count"), 0)
    others: list[dict[str, Any]] = [
        {"member_count": 0},
        {"generation_gap": 1},
        {"retained_count": None},
        {"retained_count": 0},
        {"triggers": None},
        {"triggers": ["member_joined", "rack_changed"]},
        {"strategy": "own"},
        {"basis": "recomputed"},
    ]
    later = AT + timedelta(minutes=1)
    audits = frame(
        spark,
        GENERATION_AUDITS,
        {**played, "reassigned_count": 1},
        {**played, "orphaned_count": 1, "generation_gap": None, "position": 11, "observed_at": later},
        {**played, "retained_count": 1, "generation_gap": -1, "position": 12, "triggers": ["cooperative_follow_up"]},
        *({**played, "retained_count": 1, "observed_at": later + timedelta(days=1), "position": 20, **other} for other in others),
    )
    parts = collected(count_parts(audits, frame(spark, FINDINGS)))
    found = {part["strategy"]: (part["predictable_count"], part["predictable_at_ms"]) for part in parts}
    assert found == {"range": (3, AT_MS + 60_000), "own": (0, None)}


def test_deleted_groups_are_those_whose_last_record_on_the_group_is_a_tombstone(spark: SparkSession) -> None:
    records = frame(
        spark,
        GROUP_RECORDS,
        {"group_id": "classic", "type": 2, "offset": 4, "timestamp": AT},
        {"group_id": "classic", "type": 2, "offset": 9, "timestamp": AT + timedelta(seconds=1)},
        {"group_id": "consumer", "type": 3, "offset": 5, "value": b"epoch"},
        {"group_id": "consumer", "type": 3, "offset": 7, "timestamp": AT},
        {"group_id": "again", "type": 3, "offset": 5},
        {"group_id": "again", "type": 3, "offset": 6, "value": b"epoch"},
        {"group_id": "member left", "type": 5, "offset": 8},
    )
    found = {row["group_id"]: (row["deleted_position"], row["deleted_at_ms"]) for row in collected(last_deletions(records))}
    assert found == {"classic": (9, AT_MS + 1000), "consumer": (7, AT_MS)}


def test_groups_that_only_commit_are_those_without_snapshots_whose_commits_are_left(spark: SparkSession) -> None:
    made = {"position": 5, "is_deleted": False}
    commits = frame(
        spark,
        OFFSET_SNAPSHOTS,
        *({**made, "group_id": "tool", "partition": number, "position": 5 + number} for number in (0, 1)),
        {**made, "group_id": "tool", "partition": 1, "position": 9, "is_deleted": True},
        {**made, "group_id": "tool", "partition": 0, "position": 8},
        {**made, "group_id": "gone"},
        {**made, "group_id": "gone", "position": 6, "is_deleted": True},
        {**made, "group_id": "orders"},
        {**made, "group_id": "orders", "cluster_id": "other"},
    )
    snapshots = frame(spark, SUBSCRIPTION_SNAPSHOTS, {"group_id": "orders"})
    found = {(row["cluster_id"], row["group_id"]): row for row in collected(count_commits(last_commits_of(commits), snapshots))}
    assert found.keys() == {("prod", "tool"), ("other", "orders")}
    tool = found["prod", "tool"]
    assert (tool["commit_count"], tool["newest_position"], tool["last_at_ms"]) == (2, 8, AT_MS)


def test_groups_of_any_name_are_found_again(spark: SparkSession) -> None:
    """In SQL text, in which Spark replaces what looks like a variable, and where a quote would end a name."""
    names = [*NAMES, "it's", "a\\", "\\u0024{HOME}", "\\'"]
    audits = frame(spark, GENERATION_AUDITS, *({"group_id": name, "cluster_id": name, "position": 2**40} for name in (*names, "other")))
    wanted = [{"group_id": name, "cluster_id": name, "position": position} for name in names for position in (1, 2**40)]
    found = audits.where(is_one_of(wanted, "cluster_id", "group_id", "position"))
    assert sorted(row["group_id"] for row in found.select("group_id").collect()) == sorted(names)
    assert audits.where(is_one_of([], "cluster_id", "group_id")).count() == 0
    assert audits.where(is_one_of([{"cluster_id": "it's", "group_id": "other"}], "cluster_id", "group_id")).count() == 0


def test_parts_are_hashed_and_not_sorted(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A text or a struct among the aggregates would make Spark sort all audits, for five times the time."""
    count_parts(frame(spark, GENERATION_AUDITS, {}), frame(spark, FINDINGS, {})).explain()
    plan = capsys.readouterr().out
    assert "HashAggregate" in plan and "Sort" not in plan and "ObjectHash" not in plan


def test_tallies_keep_worst_groups_apart_and_carry_their_newest_generations(spark: SparkSession) -> None:
    row = {"strategy": "range", "status": "solved", "is_settled": True, "movement_count": 2, "imbalance_ratio": 1.1}
    row |= {"partitions_per_member_min": 1, "partitions_per_member_max": 4, "rebalance_count": 1}
    audits = frame(
        spark,
        GENERATION_AUDITS,
        *({**row, "position": 10 + number, "generation": number} for number in range(4)),
        {**row, "position": 14, "is_settled": False, "movement_count": None, "imbalance_ratio": 5.0, "partitions_per_member_max": 90},
        {**row, "basis": "counterfactual", "avoidable_movement_count": 2},
        {**row, "basis": "counterfactual", "avoidable_movement_count": 5, "generation_gap": 1},
        {**row, "group_id": "other"},
        {**row, "group_id": "another", "cluster_id": "test"},
    )
    tallies = {row["basis"]: row for row in collected(tally_groups(audits.where(is_orders()), limit=2))}
    (others,) = collected(tally_fleet(audits.where(~is_orders())))
    assert set(tallies) == {"observed", "counterfactual"}
    own = tallies["observed"]
    assert (own["generation_count"], own["movement_count_sum"], own["movement_count_known"], own["rebalance_count"]) == (5, 8, 4, 5)
    assert (own["imbalance_ratio_sum"], own["imbalance_ratio_known"]) == (Decimal("4.400000"), 4)
    assert (own["imbalance_ratio_max"], own["spread_max"]) == (1.1, 3)
    assert [(row["position"], row["observed_at_ms"]) for row in own["generations"]] == [(14, AT_MS), (13, AT_MS)]
    other = tallies["counterfactual"]
    assert (other["movement_count_sum"], other["avoidable_movement_count_sum"], other["avoidable_movement_count_known"]) == (4, 2, 1)
    assert (other["generations"], other["settled"]) == ([], None)
    assert (others["basis"], others["generation_count"], others["movement_count_sum"]) == ("observed", 2, 4)
    assert (others["imbalance_ratio_sum"], others["imbalance_ratio_known"]) == (Decimal("2.200000"), 2)


def test_tallies_of_different_generations_are_marked(spark: SparkSession) -> None:
    """Also where there are as many: a group whose assignor changed half way has as many generations of the one as of the other."""
    columns = {"basis": "counterfactual", "member_count": 2}
    keys = [{"position": position, "group_id": group} for group in ("orders", "other") for position in (10, 11)]
    audits = frame(
        spark,
        GENERATION_AUDITS,
        *(key | {**columns, "strategy": strategy} for key in keys for strategy in ("range", "sticky")),
        *({"position": position, **columns, "strategy": "uniform"} for position in (10, 11)),
        *({"position": position, **columns, "strategy": "server-range"} for position in (11, 12)),
        {"position": 13, **columns, "strategy": "sticky", "member_count": 0},
        {"position": 13, **columns, "strategy": "roundrobin", "member_count": 0},
    )
    by_strategy: dict[str, list[dict[str, Any]]] = {}
    for row in (*collected(tally_groups(audits.where(is_orders()), limit=2)), *collected(tally_fleet(audits.where(~is_orders())))):
        by_strategy.setdefault(row["strategy"], []).append(row)
    coverages = {strategy: sum(row["coverage"] or 0 for row in tallied) for strategy, tallied in by_strategy.items()}
    assert coverages["range"] == coverages["sticky"] and coverages["roundrobin"] == 0, "nobody was in the next generation"
    assert len(set(coverages.values())) == 4
    counts = {strategy: sum(row["covered_count"] for row in tallied) for strategy, tallied in by_strategy.items()}
    assert counts == {"range": 4, "sticky": 4, "uniform": 2, "server-range": 2, "roundrobin": 0}


def test_heat_map_keeps_members_and_topics_with_extreme_loads(spark: SparkSession) -> None:
    """Members m1..m6 hold that many topics, and m0 none; topic t00 is held by most, t05 by one; all topics fit."""
    held = {f"m{load}": [(f"t{topic:02}", [0, 1]) for topic in range(load)] for load in range(7)}
    assignments = frame(
        spark,
        ASSIGNMENTS,
        *({"member_id": member, "partitions": topics, "partition_count": 2 * len(topics)} for member, topics in held.items()),
    )
    shown = collected(hold_partitions(assignments, members_shown=3))
    assert {row["member_id"] for row in shown} == {"m6", "m5", "m0"}
    assert {(row["member_total"], row["topic_total"]) for row in shown} == {(7, 6)}
    assert {row["topic"]: row["topic_partition_count"] for row in shown if row["member_id"] == "m5"} == {
        f"t{topic:02}": 2 for topic in range(5)
    }
    assert [(row["topic"], row["topic_partition_count"]) for row in shown if row["member_id"] == "m0"] == [(None, None)]


def test_member_whose_topics_do_not_fit_keeps_its_total(spark: SparkSession) -> None:
    big = {"member_id": "big", "partitions": [(f"t{topic:02}", [0, 1]) for topic in range(30)], "partition_count": 60}
    small = {"member_id": "small", "partitions": [("u0", [0]), ("u1", [0])], "partition_count": 2}
    shown = collected(hold_partitions(frame(spark, ASSIGNMENTS, big, small), members_shown=2))
    assert sum(row["member_id"] == "big" for row in shown) == 30
    assert [(row["topic"], row["member_partition_count"]) for row in shown if row["member_id"] == "small"] == [(None, 2)]


def test_movements_become_lines_newest_first(spark: SparkSession) -> None:
    line = {"strategy": "range", "topic": "clicks", "previous_member_id": "a", "member_id": "b", "kind": "revoked"}
    movements = frame(
        spark,
        MOVEMENTS,
        *({**line, "partition": partition} for partition in (7, 3, 5)),
        {**line, "partition": 0, "position": 11, "resume_outcome": "committed", "lag": 7},
        {**line, "partition": 1, "position": 12, "previous_member_id": None, "kind": "gained", "cause": "handed_over"}
        | {"resume_outcome": "reset_out_of_range"},
        {**line, "partition": 2, "position": 13, "basis": "recomputed"},
    )
    lines = collected(condense_movements(movements, limit=2))
    assert sorted((row["position"], row["partitions"], row["partition_count"], row["flow_total"]) for row in lines) == [
        (11, [0], 1, 3),
        (12, [1], 1, 3),
    ]
    (oldest,) = (row for row in collected(condense_movements(movements, limit=9)) if row["position"] == 10)
    assert (oldest["partitions"], oldest["partition_count"]) == ([3, 5, 7], 3)
    assert {row["position"]: (row["lag"], row["reset_count"], row["resume_known"]) for row in lines} == {11: (7, 0, 1), 12: (None, 1, 1)}
    assert (oldest["lag"], oldest["reset_count"], oldest["resume_known"]) == (None, 0, 0)


def test_sum_of_lags_is_capped_at_the_largest_integer(spark: SparkSession) -> None:
    """Offsets come from captures, which may hold any."""
    line = {"strategy": "range", "topic": "t", "previous_member_id": "a", "member_id": "b", "kind": "revoked", "lag": 2**63 - 1}
    (row,) = collected(condense_movements(frame(spark, MOVEMENTS, *({**line, "partition": number} for number in (0, 1))), limit=9))
    assert (row["partition_count"], row["lag"]) == (2, 2**63 - 1)


def test_findings_of_a_rule_are_one_row_with_the_last_text(spark: SparkSession) -> None:
    found = {"rule_id": "differs", "severity": "warning", "evidence": {"figure": "1"}, "advice": "look"}
    findings = frame(
        spark,
        FINDINGS,
        {**found, "position": 12, "generation": 5, "message": "last"},
        {**found, "position": 11, "generation": 3, "message": "first"},
        {**found, "position": 11, "generation": 3, "rule_id": "rare", "severity": "info", "evidence": {"cycle_seconds": "60"}},
    )
    shown = {row["rule_id"]: row for row in collected(condense_findings(findings))}
    assert set(shown) == {"differs", "rare"}
    differs = shown["differs"]
    assert (differs["group_id"], differs["message"], differs["evidence"]) == ("orders", "last", {"figure": "1"})
    assert (differs["finding_count"], differs["first_generation"], differs["last_generation"]) == (2, 3, 5)
    assert (differs["position"], differs["observed_at_ms"], differs["advice"]) == (12, AT_MS, "look")
    assert (differs["positions"], differs["cycle_s"], shown["rare"]["cycle_s"]) == ([12, 11], None, 60)


def test_members_are_described_by_whatever_snapshot_knows_them(spark: SparkSession) -> None:
    member = dict.fromkeys(SUBSCRIPTION_SNAPSHOTS.schema["members"].dataType.elementType.names)
    first = [member | {"member_id": "a", "client_id": "orders", "client_host": "/10.0.0.1"}, member | {"member_id": "b"}]
    later = [member | {"member_id": "a"}, member | {"member_id": "c", "group_instance_id": "i"}]
    snapshots = frame(spark, SUBSCRIPTION_SNAPSHOTS, {"members": first}, {"members": later, "position": 11})
    described = {row.pop("member_id"): row for row in collected(describe_members(snapshots))}
    key = {"cluster_id": "prod", "group_id": "orders"}
    assert described == {
        "a": key | {"group_instance_id": None, "client_id": "orders", "client_host": "/10.0.0.1"},
        "b": key | {"group_instance_id": None, "client_id": None, "client_host": None},
        "c": key | {"group_instance_id": "i", "client_id": None, "client_host": None},
    }


def test_data_is_read_until_the_newest_commit_or_metadata_snapshot_of_each_cluster(spark: SparkSession) -> None:
    later = AT + timedelta(minutes=3)
    commits = frame(spark, OFFSET_SNAPSHOTS, {}, {"observed_at": later}, {"cluster_id": "other"})
    found = collected(read_until(newest_times(last_commits_of(commits)), frame(spark, TOPIC_SNAPSHOTS, {})))
    of_cluster = {"other": {AT_MS}, commits.head()["cluster_id"]: {AT_MS, AT_MS + 180_000}}
    assert {(row["cluster_id"], row["read_until_ms"]) for row in found} == {
        (name, at) for name, times in of_cluster.items() for at in times
    }
    assert collected(read_until(commits.limit(0))) == []


# --- the recorded capture ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def observed(recorded_warehouse: Path) -> list[dict[str, Any]]:
    return [row for row in rows(recorded_warehouse, "generation_audits") if row["basis"] == "observed"]


@pytest.fixture(scope="module")
def recorded_rows(spark: SparkSession, recorded_warehouse: Path) -> ReportRows:
    warehouse = Warehouse(spark, str(recorded_warehouse))
    warehouse.read_published()
    return collect_rows(warehouse, ReportSettings())


def test_the_summary_says_what_the_tables_say(
    evenkeel, recorded_warehouse: Path, tmp_path: Path, capsys, observed: list[dict[str, Any]]
) -> None:
    page = tmp_path / "again.html"
    assert evenkeel("report", "--warehouse", recorded_warehouse, "--output", page, "--as-of", "2026-11-22T00:00:00Z", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["report"] == page.as_uri()
    avoidable = [row["avoidable_movement_count"] for row in observed if row["avoidable_movement_count"] is not None]
    groups = {row["group_id"] for row in observed}
    committing = {row["group_id"] for row in rows(recorded_warehouse, "offset_snapshots")} - groups
    totals = facts["totals"]
    assert committing and (totals["groups"], totals["generations"]) == (len(groups | committing), len(observed))
    assert totals["avoidable_movements"] == sum(avoidable)
    needing = [line["group_id"] for line in facts["needs"]]
    words = shlex.split(facts["next_command"])
    assert words == ["evenkeel", *(["explain", needing[0]] if needing else ["show"]), "--warehouse", str(recorded_warehouse)]


def test_groups_are_ranked_from_the_worst_on(recorded_warehouse: Path, recorded_rows: ReportRows, observed: list[dict[str, Any]]) -> None:
    findings = rows(recorded_warehouse, "findings")
    tombstones = [row for row in rows(recorded_warehouse, "group_records") if row["value"] is None and row["type"] in (2, 3)]
    by_hand = {group: _by_hand(group, observed, findings, tombstones) for group in {row["group_id"] for row in observed}}
    assert {row["deleted_at_ms"] is not None for row in by_hand.values()} == {True, False}
    assert {row["group_id"]: row["deleted_at_ms"] for row in recorded_rows.ranked if row["generation_count"]} == {
        group: row["deleted_at_ms"] for group, row in by_hand.items()
    }
    ranking = sorted(by_hand, key=lambda group: worst_first(by_hand[group]))
    assert [row["group_id"] for row in recorded_rows.ranked[:10]] == ranking[:10]


def test_show_lists_the_groups_in_the_order_of_the_page(recorded_warehouse: Path, recorded_rows: ReportRows) -> None:
    on_page = [row["group_id"] for row in recorded_rows.ranked if row["generation_count"]]
    assert [one.key.group_id for one in order_groups(read_fleet(open_published(str(recorded_warehouse))))] == on_page


def _by_hand(
    group: str, observed: list[dict[str, Any]], findings: list[dict[str, Any]], tombstones: list[dict[str, Any]]
) -> dict[str, Any]:
    def total(name: str) -> int:
        known = [row for row in observed if row["group_id"] == group and not (name.startswith("avoidable") and row["generation_gap"])]
        return sum(row[name] or 0 for row in known)

    severities = [row["severity"] for row in findings if row["group_id"] == group]
    newest = max((row for row in observed if row["group_id"] == group), key=lambda row: row["position"])
    ends = [row["timestamp"] for row in tombstones if row["group_id"] == group and row["offset"] > newest["position"]]
    of_newest = [row for row in findings if row["group_id"] == group and row["position"] == newest["position"]]
    now = [] if ends else [row for row in of_newest if row["severity"] != "info"]
    assert newest["member_count"] == 0 and {row["severity"] for row in now} <= {"warning"}, "no better assignor is a need"
    need = {"need_severity": "warning" if now else None, "need_rule": "any" if now else None, "better_gain": None}
    need |= {"current_critical_count": 0, "current_warning_count": len(now)}
    need |= {"deleted_at_ms": round(1000 * max(ends).timestamp()) if ends else None}
    figures = need | {
        "group_id": group,
        "cluster_id": "",
        "generation_count": sum(row["group_id"] == group for row in observed),
        "critical_count": severities.count("critical"),
        "warning_count": severities.count("warning"),
    }
    return figures | {name: total(name) for name in ("movement_count", "avoidable_movement_count")}


def test_the_same_tables_give_the_same_bytes(evenkeel, recorded_warehouse: Path, tmp_path: Path) -> None:
    pages = [tmp_path / "one.html", tmp_path / "deep" / "two.html"]
    for page in pages:
        assert evenkeel("report", "--warehouse", recorded_warehouse, "--output", page, "--as-of", "2026-11-22T00:00:00Z") == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "one.html"]


def test_predictions_are_those_of_what_if(spark: SparkSession, recorded_warehouse: Path, recorded_rows: ReportRows) -> None:
    """Of all groups, and of the newest generations alone; each is predicted from those before it all the same."""
    warehouse = Warehouse(spark, str(recorded_warehouse))
    warehouse.read_published()
    predicted = recorded_rows.predicted
    tables = open_published(str(recorded_warehouse))
    everything = list(read_generations(tables, find_groups(tables, (), every_group=True)))
    expected = judge_predictions(everything)
    assert predicted is not None and expected.differences.count > 0
    assert predicted.judged.backtest.shares == expected.backtest.shares
    assert predicted.judged.differences == expected.differences
    counts = [*(share.count for share in expected.backtest.shares), *predicted.judged.backtest.omissions.values()]
    assert predicted.chosen_count == sum(counts)

    few = collect_rows(warehouse, ReportSettings(backtest_generations=7)).predicted
    assert few is not None and few.chosen_count == 7
    newest = sorted((one.observed_at for one, result in predictions(everything) if isinstance(result, Prediction)), reverse=True)[6]
    of_newest = judge_predictions(everything, lambda one: one.observed_at >= newest)
    assert few.judged.backtest.shares == of_newest.backtest.shares
    assert collect_rows(warehouse, ReportSettings(backtest_generations=0)).predicted is None


def test_every_other_group_gets_a_page_and_programs_get_files(
    evenkeel, recorded_warehouse: Path, tmp_path: Path, observed: list[dict[str, Any]]
) -> None:
    (tmp_path / "few.yaml").write_text("report: {worst_groups: 2}\n")
    page, pages, files = tmp_path / "report.html", tmp_path / "one by one", tmp_path / "files"
    flags = (
        "--config",
        tmp_path / "few.yaml",
        "--output",
        page,
        "--group-pages",
        pages,
        "--export",
        "csv,json,prometheus",
        "--export-dir",
        files,
    )
    assert evenkeel("report", "--warehouse", recorded_warehouse, *flags, "--as-of", "2026-11-22T00:00:00Z") == 0

    groups = {(row["cluster_id"], row["group_id"]) for row in observed}
    html = page.read_text(encoding="utf-8")
    links = set(re.findall(r'href="one%20by%20one/(group-[0-9a-f]{16}\.html)"', html))
    assert {path.name for path in pages.iterdir()} == links
    assert len(links) == len(groups) - 2
    own = {f"{anchor(*group)}.html": group for group in groups}
    assert links < set(own)
    for name in links:
        single = (pages / name).read_text(encoding="utf-8")
        assert f'href="../report.html#{name.removesuffix(".html")}"' in single
        assert f'<span class="id">{own[name][1]}</span></h2>' in single and '<svg class="drawing"' in single

    assert {path.name for path in files.iterdir()} == {
        *(f"{table}.{ending}" for table in ("findings", "generation_audits", "current_lag") for ending in ("csv", "json")),
        "evenkeel.prom",
    }
    for spec in (FINDINGS, GENERATION_AUDITS):
        stored = {tuple(row[name] for name in spec.key if name != "observed_at") for row in rows(recorded_warehouse, spec.name)}
        exported = json.loads((files / f"{spec.name}.json").read_text())
        assert {tuple(row[name] for name in spec.key if name != "observed_at") for row in exported} == stored
        assert len(exported) == len(rows(recorded_warehouse, spec.name))
        with (files / f"{spec.name}.csv").open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        assert [line["position"] for line in lines] == [str(row["position"]) for row in exported]
        assert {"run_sequence", "observed_month"}.isdisjoint(exported[0])
    earliest = min(row["observed_at"] for row in observed)
    assert min(row["observed_at"] for row in exported) == earliest.strftime("%Y-%m-%dT%H:%M:%S.") + f"{earliest.microsecond // 1000:03}Z"
    lags = json.loads((files / "current_lag.json").read_text())
    assert [list(row) for row in lags] == [sorted(CURRENT_LAG.schema.names)] * len(lags)
    found = {tuple(row[name] for name in CURRENT_LAG.key): tuple(row[name] for name in LAG_FIGURES) for row in lags}
    assert found == current_lags(recorded_warehouse) and len(found) == len(lags)
    members = re.findall(r"^evenkeel_group_members\{", (files / "evenkeel.prom").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(members) == len(groups)


LAG_FIGURES = ("committed_offset", "end_offset", "lag")


def current_lags(warehouse: Path) -> dict[tuple[Any, ...], tuple[int | None, ...]]:
    """Return the same by loops over the tables: the key of ``current_lag`` -> ``LAG_FIGURES``."""
    newest, positions = {}, {}
    for row in sorted(rows(warehouse, "offset_snapshots"), key=lambda row: row["position"]):
        newest[row["cluster_id"], row["group_id"], row["topic"], row["partition"]] = row["committed_offset"]
    for row in rows(warehouse, "generation_audits"):
        if row["basis"] == "observed":
            key = (row["cluster_id"], row["group_id"])
            positions[key] = max(row["position"], positions.get(key, -1))
    owners = {
        (row["cluster_id"], row["group_id"], entry["topic"], partition): row["member_id"]
        for row in rows(warehouse, "assignments")
        if row["basis"] == "observed" and row["position"] == positions[row["cluster_id"], row["group_id"]]
        for entry in row["partitions"]
        for partition in entry["partitions"]
    }
    ends = {}
    for row in sorted(rows(warehouse, "topic_snapshots"), key=lambda row: row["observed_at"]):
        ends |= {(row["cluster_id"], row["topic"], seen["partition"]): seen["end_offset"] for seen in row["partitions"]}
    found = {}
    for key in {key for key, offset in newest.items() if offset is not None} | set(owners):
        committed, end = newest.get(key), ends.get((key[0], key[2], key[3]))
        lag = None if committed is None or end is None else max(0, end - committed)
        found[(*key[:2], owners.get(key), *key[2:])] = (committed, end, lag)
    return found


def test_output_that_cannot_be_written_is_named_in_one_line(evenkeel, recorded_warehouse: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("")
    assert evenkeel("report", "--warehouse", recorded_warehouse, "--output", tmp_path / "file" / "report.html") == 1
    assert f"evenkeel: report: cannot write {tmp_path / 'file' / 'report.html'}: " in capsys.readouterr().err
