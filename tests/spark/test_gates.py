"""Gates stop what is broken before anybody reads it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobs import cli, gates
from jobs.runtime.errors import PlatformError
from schemas.tables import TABLES
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
