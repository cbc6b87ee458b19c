"""Gates stop what is broken before anybody reads it."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from jobs import cli, gates
from jobs.context import RunContext
from jobs.runtime.errors import PlatformError
from jobs.storage.warehouse import Warehouse
from schemas.tables import ALL_TABLES, FINDINGS, GROUP_EVENTS, TABLES
from schemas.vocabulary import Severity
from tests.builders.frames import Row, TablesInMemory, frame, moment
from tests.builders.tables import rows

CONF = Path(__file__).resolve().parents[2] / "conf"


def test_the_demo_passed_every_gate_of_the_suites(demo_warehouse: Path) -> None:
    (run,) = rows(demo_warehouse, "runs")
    asked = {(table, len(expectations)) for table, expectations in gates.read_suites(CONF / "expectations").items() if table in TABLES}
    counted = {(table, sum(1 for gate in run["gates"] if gate["table"] == table)) for table, _ in asked}
    assert counted == asked and len(asked) >= 5
    assert [gate for gate in run["gates"] if not gate["success"]] == []


def test_a_failed_critical_gate_publishes_nothing(
    evenkeel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An expectation that no capture meets; beside it a warning, which alone would have been kept and published."""
    conf = tmp_path / "conf"
    shutil.copytree(CONF, conf)
    for suite in (conf / "expectations").iterdir():
        suite.unlink()
    (conf / "expectations" / "topic_snapshots.yaml").write_text(
        "- {type: expect_column_values_to_be_between, column: partition_count, max_value: 5, severity: critical}\n"
        "- {type: expect_column_values_to_not_be_null, column: topic_id, severity: warning}\n"
    )
    monkeypatch.setattr(cli, "conf_folder", lambda: conf)
    warehouse = tmp_path / "warehouse"
    assert evenkeel("land", "--warehouse", warehouse) == 4
    printed = capsys.readouterr().err
    assert "critical gates failed: expect_column_values_to_be_between(partition_count) on topic_snapshots (" in printed
    (run,) = rows(warehouse, "runs")
    assert run["status"] == "refused"
    assert {name for name in TABLES if name != "runs" and rows(warehouse, name)} == set()


def test_line_that_names_members_only_passes_the_gates(spark: SparkSession) -> None:
    fenced = {"cluster_id": "c", "broker": "1", "logged_at": moment(1_000), "line_hash": "h", "ordinal": 0, "event": "static_fenced"}
    events = frame(spark, GROUP_EVENTS.schema, [{**fenced, "run_sequence": 1}])
    warehouse = SimpleNamespace(rows_written={GROUP_EVENTS.name: 1}, read_new=lambda name, consumed: events)
    results = gates.run(cast(RunContext, SimpleNamespace(warehouse=warehouse, run_sequence=1)), CONF)
    assert results and all(result.success for result in results)


def test_no_gate_refuses_a_null_that_a_table_describes() -> None:
    for table, suite in gates.read_suites(CONF / "expectations").items():
        needed = {expectation["column"] for expectation in suite if expectation["type"] == "expect_column_values_to_not_be_null"}
        fields = ALL_TABLES[table].schema.fields
        assert needed <= {field.name for field in fields}, table
        assert needed.isdisjoint(field.name for field in fields if "null" in field.metadata["comment"]), table


def finding_row(generation: int, rule_id: str, severity: str, **changes: Any) -> Row:
    key = {"cluster_id": "c", "group_id": "g", "generation": generation, "position": generation, "rule_id": rule_id}
    return {**key, "severity": severity, "run_sequence": 3, **changes}


@pytest.mark.parametrize(("limit", "expected"), [("critical", 2), ("warning", 4)])
def test_finding_is_not_new_if_the_run_before_had_it_with_this_severity(spark: SparkSession, limit: str, expected: int) -> None:
    """The figures of the first one have changed, and the second one was a warning."""
    left_out, stalled = "partitions_left_out", "member_stalled"
    before = [
        finding_row(1, stalled, "warning", message="for 30 minutes", run_sequence=2),
        finding_row(1, left_out, "warning", run_sequence=2),
        finding_row(1, "hot_member", "critical", run_sequence=1),
    ]
    now = [
        *(finding_row(1, stalled, "warning", message="for 60 minutes"), finding_row(1, left_out, "critical")),
        *(finding_row(2, stalled, "warning"), finding_row(2, left_out, "critical"), finding_row(2, "hot_member", "info")),
        *(before[2], finding_row(1, "restart_loop", "warning")),
    ]
    warehouse = TablesInMemory({FINDINGS.name: frame(spark, FINDINGS.schema, now)})
    earlier = frame(spark, FINDINGS.schema, before)
    warehouse.read_before = lambda name, run_sequence: earlier if run_sequence == 3 else None  # type: ignore[attr-defined]
    assert gates.count_serious(cast("Warehouse", warehouse), Severity(limit), 3) == expected


def test_malformed_suite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nothing.yaml").write_text("[]\n")
    with pytest.raises(
        PlatformError, match=r"nothing\.yaml: expected a file with the name of a table that contains a list of expectations"
    ):
        gates.read_suites(tmp_path)
    (tmp_path / "nothing.yaml").rename(tmp_path / "runs.yaml")
    (tmp_path / "runs.yaml").write_text("- {type: expect_column_values_to_not_be_null, column: run_id}\n")
    with pytest.raises(PlatformError, match=r"runs\.yaml: expectation 1 lacks severity"):
        gates.read_suites(tmp_path)
