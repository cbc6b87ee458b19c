"""What-if on the demo: what its page shows, and what the audit in Spark says of the same generations."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from jobs.cli import console_main
from tests.builders.tables import rows

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "what-if.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```bash\n\./spark-submit\.sh (what-if .*?)\n```\n\n```text\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = re.findall(r"^```python\n(.*?)^```.*?^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_page_has_its_decisions() -> None:
    assert (len(SHOWN), len(EXAMPLES)) == (7, 1)
    assert PAGE.count("```bash") == len(SHOWN) + 1, "all but the command that saves have their output"


@pytest.mark.parametrize(("command", "output"), SHOWN)
def test_command_prints_what_the_page_shows(demo_warehouse: Path, capsys: pytest.CaptureFixture[str], command: str, output: str) -> None:
    assert console_main([*shlex.split(command), "--warehouse", str(demo_warehouse)]) == 0
    assert capsys.readouterr().out == output


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_example_prints_what_the_page_shows(
    demo_warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str, output: str
) -> None:
    monkeypatch.chdir(demo_warehouse.parent)
    exec(compile(code, "what-if.md", "exec"), {})
    assert capsys.readouterr().out == output


AUDITED = {
    "member_count": "member_count",
    "idle_count": "idle_member_count",
    "fewest": "partitions_per_member_min",
    "most": "partitions_per_member_max",
    "imbalance": "imbalance_ratio",
    "rack_match": "rack_match_ratio",
}
"""Figure of today -> the column of the audit that means the same."""


def test_figures_of_today_are_those_of_the_audit(demo_warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert console_main(["what-if", "--all", "--json", "--strategies", "range", "--warehouse", str(demo_warehouse)]) == 0
    documents = json.loads(capsys.readouterr().out)
    audits = {
        (row["group_id"], row["observed_at"].isoformat()): row
        for row in rows(demo_warehouse, "generation_audits")
        if row["basis"] == "observed" and row["is_settled"] and row["member_count"]
    }
    newest = {group_id: max(at for other, at in audits if other == group_id) for group_id, _ in audits}
    assert len(documents) > 30
    for document in documents:
        key = (document["group_id"], document["observed_at"])
        assert newest[key[0]] == key[1]
        assert {name: audits[key][column] for name, column in AUDITED.items()} == {name: document["now"][name] for name in AUDITED}
