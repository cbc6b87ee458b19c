"""A run with assignors that hang, raise and answer nonsense: rows that say so, a finding, and everything else as without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import plug_ins
from tests.builders.captures import LOOKS, of_groups
from tests.builders.tables import rows

GROUP = "alerts-range"
BAD = {
    plug_ins.hang: "over_budget",
    plug_ins.exit_process: "no_result",
    plug_ins.recurse: "no_result",
    plug_ins.raise_a_surrogate: "no_result",
    plug_ins.give_nonsense: "solved",
}
STATUSES = {plug_ins.path_of(function): status for function, status in BAD.items()}


def of_the_group(warehouse: Path, name: str) -> list[dict[str, Any]]:
    return [row for row in rows(warehouse, name) if row["group_id"] == GROUP]


@pytest.fixture(scope="module")
def warehouse(make_tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of one group of the recorded capture, computed with a second for each call."""
    folder = tmp_path_factory.mktemp("plug_ins")
    records = of_groups(folder, "one_group.parquet", GROUP)
    settings = {"strategies": ["range", *STATUSES], "assign": {"plugin_timeout_s": 1}}
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    inputs = ("--input", records, LOOKS)
    assert make_tables("run", "--config", folder / "settings.yaml", "--warehouse", folder / "warehouse", *inputs) == 0
    return folder / "warehouse"


def test_every_plug_in_has_its_row_and_status(warehouse: Path) -> None:
    with_members = {row["position"] for row in of_the_group(warehouse, "subscription_snapshots") if row["members"]}
    assert len(with_members) > 2
    solutions = [
        row for row in of_the_group(warehouse, "solutions") if row["basis"] == "counterfactual" and row["position"] in with_members
    ]
    assert {(row["strategy"], row["status"]) for row in solutions} == {("range", "solved"), *STATUSES.items()}
    by_place = {(row["position"], row["strategy"]): row["detail"] for row in solutions}
    hanging = [by_place[key] for key in sorted(by_place) if key[1] == plug_ins.path_of(plug_ins.hang)]
    assert hanging[0] == "no answer within 1 s"
    assert set(hanging[1:]) == {"not called: an earlier call gave no answer within 1 s"}


def test_a_finding_names_those_without_a_result(warehouse: Path) -> None:
    findings = [row for row in of_the_group(warehouse, "findings") if row["rule_id"] == "no_result"]
    assert findings
    for row in findings:
        evidence = dict(row["evidence"])
        assert evidence["strategies"] == ", ".join(sorted(name for name, status in STATUSES.items() if status != "solved"))
        assert "over_budget (" in evidence["reasons"]


def test_nonsense_is_in_the_audit_as_violations_and_has_a_finding(warehouse: Path) -> None:
    name = plug_ins.path_of(plug_ins.give_nonsense)
    found = [dict(row["evidence"]) for row in of_the_group(warehouse, "findings") if row["rule_id"] == "own_assignor_unsound"]
    assert {evidence["strategies"] for evidence in found} == {name}
    found = [row["violations"] for row in of_the_group(warehouse, "generation_audits") if row["strategy"] == name and row["member_count"]]
    assert found
    for violations in found:
        assert {text.split()[0] for text in violations} >= {"not_existing", "multiply_owned", "unassigned"}


def test_plug_ins_change_no_other_rows(warehouse: Path, recorded_warehouse: Path) -> None:
    for name in ("solutions", "assignments", "generation_audits", "movements"):
        ours, theirs = (
            sorted(
                (row["position"], row["basis"], row.get("member_id") or "", str(row.get("holdings")), row.get("status") or "")
                for row in of_the_group(folder, name)
                if row["basis"] != "counterfactual" or row["strategy"] == "range"
            )
            for folder in (warehouse, recorded_warehouse)
        )
        assert ours and ours == theirs, name
