"""The summary at the end of a run: what needs someone, what to change, and the next command; as text and as JSON."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from jobs.parser import parse
from jobs.report.page import build_page
from jobs.report.rows import ReportRows
from jobs.report.summary import facts_of, next_command, to_json, to_text
from tests.builders.report_rows import AS_OF, sample

REPORT = Path("/data/a b/report.html")
NEED = {
    "severity": "critical",
    "rule": "partitions left out",
    "cluster_id": "prod",
    "group_id": "pay ments",
    "what": "2 partitions have no reader.",
    "since": "since 2026-11-21 21:14",
    "advice": "Restart them.",
    "other_count": 0,
    "advised_above": "",
}
FACTS: dict[str, Any] = {
    "run_id": "run-7",
    "as_of": "2026-11-21 12:00:00",
    "data_until": "2026-11-21 11:48:00",
    "age": "12 minutes",
    "totals": {"groups": 9},
    "totals_in_words": ["9 groups", "30 members when last seen"],
    "all_empty": "",
    "need_count": 9,
    "needs": [NEED, NEED | {"group_id": "billing", "what": "4 partitions have no reader.", "advised_above": "pay ments"}],
    "past_count": 3,
    "past": [{"severity": "warning", "rule": "restart loop", "cluster_id": "prod", "group_id": "old", "last_at": "2026-11-20 10:00"}],
    "clusters": 1,
}


def test_the_text_says_what_to_change_and_what_to_type() -> None:
    assert to_text(FACTS, REPORT, "evenkeel show").split("\n") == [
        "Evenkeel report as of 2026-11-21 12:00:00 UTC, run run-7; data until 2026-11-21 11:48:00, 12 minutes old",
        "  9 groups, 30 members when last seen",
        "",
        "9 groups need someone:",
        "  pay ments: partitions left out (critical), since 2026-11-21 21:14",
        "    2 partitions have no reader.",
        "    Restart them.",
        "  billing: partitions left out (critical), since 2026-11-21 21:14",
        "    4 partitions have no reader.",
        "    as for pay ments",
        "  and 7 more",
        "",
        "Past, and no longer so:",
        "  old: restart loop (warning), last at 2026-11-20 10:00",
        "  and 2 more",
        "",
        "report: file:///data/a%20b/report.html",
        "next:   evenkeel show",
    ]


def test_a_fleet_that_needs_nobody_says_so() -> None:
    page = build_page(ReportRows(), AS_OF)
    text = to_text(facts_of(page), REPORT, None)
    assert "\nNo group has landed. Look at the counts of what was skipped, and at the table quarantine.\nNothing needs you.\n" in text
    assert next_command(facts_of(page), "/data") is None, "show and explain refuse a warehouse without generations"
    assert text.endswith("\nreport: file:///data/a%20b/report.html")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (FACTS, ["explain", "pay ments"]),
        ({**FACTS, "clusters": 2}, ["explain", "pay ments", "--cluster-id", "prod"]),
        ({**FACTS, "needs": []}, ["show"]),
    ],
)
def test_the_next_command_can_be_typed_as_it_is(facts: dict[str, Any], expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENKEEL_PROGRAM", "../my checkout/spark-submit.sh")
    words = shlex.split(next_command(facts, "/data/ware house") or "")
    assert words == ["../my checkout/spark-submit.sh", *expected, "--warehouse", "/data/ware house"]
    assert parse(words[1:]).command.name == expected[0]


@pytest.mark.parametrize("warehouse", ["s3a://bucket/w", "main.evenkeel"])
def test_there_is_no_next_command_for_tables_that_it_cannot_read(warehouse: str) -> None:
    assert next_command(FACTS, warehouse) is None


def test_json_has_the_facts_of_the_text() -> None:
    facts = facts_of(build_page(sample(), AS_OF))
    assert list(facts) == list(FACTS)
    assert set(facts["totals"]) == {"groups", "members", "generations", "avoidable_movements"}
    line = to_json(facts, REPORT, "evenkeel show")
    assert "\n" not in line
    assert json.loads(line) == {**facts, "report": "file:///data/a%20b/report.html", "next_command": "evenkeel show"}
