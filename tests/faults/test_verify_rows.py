"""`verify` on warehouses whose log and files are sound, and whose rows contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.verify.folder import check_folder
from tests.builders.changed_rows import Row, change_rows
from tests.builders.conflicting_captures import conflicting_captures
from tests.builders.tables import rows


@pytest.fixture(scope="module")
def disagreeing(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[Path]]:
    return conflicting_captures(tmp_path_factory.mktemp("captures"))


def recount(counts: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(key, count + 1 if key == "read" else count) for key, count in counts]


def of_group(listed: list[Row], group_id: str, **wanted: Any) -> Iterator[Row]:
    """Yield the rows of one group, the last position of which there are any."""
    found = [row for row in listed if row["group_id"] == group_id and all(row[name] == value for name, value in wanted.items())]
    yield from (row for row in found if row["position"] == max(row["position"] for row in found))


def is_exact(audit: Row) -> bool:
    return audit["basis"] == "recomputed" and audit["conformance"] == "exact" and audit["retained_count"] is not None


def of_owner(movements: list[Row], group_id: str) -> Iterator[Row]:
    yield from (row for row in movements if row["group_id"] == group_id and row["member_id"] is not None)


def moved_group(warehouse: Path, groups: Iterator[str]) -> str:
    """Return the next group of which a stored movement goes to somebody."""
    movements = rows(warehouse, "movements")
    return next(group_id for group_id in groups if any(of_owner(movements, group_id)))


def test_contradictions_between_rows_are_found_with_all_that_follows(
    evenkeel, copied: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """One thing is changed in one group, or table, at a time; verify reports all that follows from it, and nothing else."""
    warehouse = copied()
    observed = [row for row in rows(warehouse, "assignments") if row["basis"] == "observed" and row["partition_count"] > 1]
    held = {row["group_id"]: row for row in sorted(observed, key=lambda row: (row["group_id"], row["position"], row["member_id"]))}
    groups = iter(sorted(held))
    expected: set[tuple[str, str, str]] = set()

    def expect(code: str, table: str, where: str) -> None:
        expected.add((code, table, where))

    def change_held(change: Callable[[Row], None], *consequences: str) -> None:
        """Change what the last member of the next group holds."""
        wanted = held[next(groups)]
        key = ("group_id", "position", "basis", "member_id")

        def apply(listed: list[Row]) -> None:
            found = [row for row in listed if all(row[name] == wanted[name] for name in key)]
            assert len(found) <= 1
            change(next(iter(found)))

        change_rows(warehouse, "assignments", apply)
        for code, table in (consequence.split() for consequence in consequences):
            expect(code, table, wanted["group_id"])

    audit = "generation_audits"
    change_held(lambda row: row.update(partition_count=99), "wrong_count assignments")
    change_held(
        lambda row: row["partitions"][0]["partitions"].pop(),
        "wrong_count assignments",
        f"wrong_count {audit}",
        f"wrong_violations {audit}",
        "wrong_movements movements",
    )
    change_held(
        lambda row: row["partitions"][0]["partitions"].append(row["partitions"][0]["partitions"][0]),
        "wrong_count assignments",
        f"wrong_violations {audit}",
    )
    change_held(lambda row: row.update(member_id="stranger"), f"wrong_violations {audit}", "wrong_movements movements")
    change_held(
        lambda row: row["partitions"][0].update(topic="nowhere"),
        "wrong_count assignments",
        f"wrong_count {audit}",
        f"wrong_violations {audit}",
        "wrong_movements movements",
    )

    movement_group, audit_group, solution_group, snapshot_group, finding_group, status_group = (next(groups) for _ in range(6))
    figure_group, holdings_group, emptied_group, torn_group = (next(groups) for _ in range(4))
    key = {"basis": "observed"}

    def remove(name: str, group_id: str, **wanted: Any) -> None:
        def apply(listed: list[Row]) -> None:
            listed.remove(next(of_group(listed, group_id, **wanted)))

        change_rows(warehouse, name, apply)

    remove("movements", movement_group, **key)
    expect("wrong_movements", audit, movement_group)
    change_rows(warehouse, audit, lambda listed: next(of_group(listed, status_group, basis="counterfactual")).update(status="no_result"))
    expect("wrong_count", audit, status_group)
    remove(audit, audit_group, basis="counterfactual", strategy="range")
    expect("missing_rows", audit, audit_group)
    remove("solutions", solution_group, basis="counterfactual", strategy="range", position=held[solution_group]["position"])
    expect("stray_rows", audit, solution_group)

    # Of what did not happen there are no rows: only what is packed.
    def of_sticky(listed: list[Row], group_id: str) -> Row:
        """Return the row of a generation in which somebody was given something."""
        wanted = {"group_id": group_id, "position": held[group_id]["position"], "basis": "counterfactual", "strategy": "sticky"}
        return next(row for row in listed if all(row[name] == value for name, value in wanted.items()))

    change_rows(warehouse, audit, lambda listed: of_sticky(listed, figure_group).update(unassigned_count=99))
    expect("wrong_count", audit, figure_group)
    change_rows(warehouse, "solutions", lambda listed: of_sticky(listed, emptied_group).update(holdings=None))
    expect("missing_rows", "solutions", emptied_group)

    def give_what_does_not_exist(listed: list[Row]) -> None:
        row = of_sticky(listed, holdings_group)
        row["holdings"] = row["holdings"][:-1] + bytes([120])  # in place of the last partition

    change_rows(warehouse, "solutions", give_what_does_not_exist)
    expect("wrong_count", audit, holdings_group)
    expect("wrong_violations", audit, holdings_group)
    change_rows(warehouse, "solutions", lambda listed: of_sticky(listed, torn_group).update(holdings=b"\x00"))
    expect("wrong_count", "solutions", torn_group)
    expect("wrong_count", audit, torn_group)
    expect("wrong_violations", audit, torn_group)
    change_rows(warehouse, "subscription_snapshots", lambda listed: next(of_group(listed, snapshot_group)).update(run_id="unknown"))
    expect("unknown_run", "subscription_snapshots", "run_sequence=1 run_id=unknown")
    change_rows(warehouse, "findings", lambda listed: listed[0].update(group_id=finding_group, position=-1))
    expect("stray_rows", "findings", finding_group)
    change_rows(warehouse, "topic_snapshots", lambda listed: listed.append(listed[0]))
    expect("duplicate_key", "topic_snapshots", "")
    change_rows(warehouse, "generation_topics", lambda listed: listed[-1].update(topics_hash="another"))
    expect("missing_rows", "generation_topics", "")
    change_rows(warehouse, "runs", lambda listed: listed[0].update(input_counts=recount(listed[0]["input_counts"])))
    expect("unbalanced_input", "runs", "run_id=full source=all sources")
    exact_group, owner_group = next(groups), moved_group(warehouse, groups)
    change_rows(
        warehouse,
        audit,
        lambda listed: next(row for row in listed if row["group_id"] == exact_group and is_exact(row)).update(retained_count=99),
    )
    expect("wrong_movements", audit, exact_group)
    change_rows(warehouse, "movements", lambda listed: next(of_owner(listed, owner_group)).update(member_id="stranger"))
    expect("wrong_movements", "movements", owner_group)
    failed = {"status": "failed", "run_id": "failed", "input_counts": []}
    change_rows(warehouse, "runs", lambda listed: listed.extend({**listed[0], **failed, "run_sequence": number} for number in (3, 3)))
    expect("duplicate_key", "runs", "run_sequence=3")
    expect("unknown_run", "runs", "run_sequence=2")

    assert check_folder(warehouse).damages == []
    assert evenkeel("verify", "--warehouse", warehouse) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(("checked", "not checked"))]

    def explains(line: str, wanted: tuple[str, str, str]) -> bool:
        code, table, where = wanted
        named = where if "=" in where or not where else f"group_id={where} "
        return line.replace(",", "").startswith(f"{code} {table} ") and named in line

    assert [wanted for wanted in sorted(expected) if not any(explains(line, wanted) for line in lines)] == []
    assert [line for line in lines if not any(explains(line, wanted) for wanted in expected)] == []


@pytest.fixture
def schema(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE SCHEMA evenkeel_verify LOCATION '{tmp_path / 'schema'}'")
    yield "spark_catalog.evenkeel_verify"
    spark.sql("DROP SCHEMA evenkeel_verify CASCADE")


@pytest.mark.slow
def test_verify_checks_rows_of_catalog_tables(
    evenkeel, spark: SparkSession, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evenkeel("run", "--warehouse", schema, "--output", tmp_path / "report.html") == 0
    capsys.readouterr()
    assert evenkeel("verify", "--warehouse", schema) == 0
    unchecked, summary = capsys.readouterr().out.splitlines()
    assert unchecked == "not checked: each commit, checkpoint and file: that needs a local folder"
    assert summary.startswith("checked 13 tables, ") and summary.endswith(" 48 invariants: sound")
    spark.sql(f"DELETE FROM {schema}.movements")
    spark.sql(f"ALTER TABLE {schema}.findings UNSET TBLPROPERTIES ('delta.dataSkippingStatsColumns')")
    spark.sql(f"ALTER TABLE {schema}.quarantine ADD COLUMN note string")
    spark.sql(f"DROP TABLE {schema}.group_states")
    assert evenkeel("verify", "--warehouse", schema) == 1
    found = {tuple(line.replace(":", "").split(" ")[:2]) for line in capsys.readouterr().out.splitlines()}
    assert found == {
        *((code, name) for code in ("foreign_commit", "ahead_of_runs") for name in ("movements", "findings", "quarantine")),
        ("wrong_properties", "findings"),
        ("wrong_schema", "quarantine"),
        ("unreadable_table", "group_states"),
        ("not", "checked"),
        ("checked", "13"),
    }
    spark.sql(f"DROP TABLE {schema}.runs")
    assert evenkeel("verify", "--warehouse", schema) == 1, "the other tables stand"
    assert "unreadable_table runs: " in capsys.readouterr().out


@pytest.mark.slow
def test_snapshots_rewritten_by_land_are_no_damage_before_assign(evenkeel, disagreeing: list[list[Path]], tmp_path: Path) -> None:
    """Another content at a stored place, of an earlier date, takes its place: results are then of what was stored before."""
    a, b = disagreeing
    warehouse, settings = tmp_path / "warehouse", tmp_path / "any.yaml"
    settings.write_text("quality: {max_quarantined_ratio: 1}\n", encoding="utf-8")
    assert evenkeel("run", "--warehouse", warehouse, "--input", *a) == 0
    assert evenkeel("land", "--config", settings, "--warehouse", warehouse, "--input", *b) == 0
    results, stored = rows(warehouse, "solutions"), rows(warehouse, "subscription_snapshots")
    newest = max(row["run_sequence"] for row in stored)
    assert any(row["run_sequence"] == newest for row in stored) and all(row["run_sequence"] < newest for row in results)
    assert evenkeel("verify", "--warehouse", warehouse) == 0
