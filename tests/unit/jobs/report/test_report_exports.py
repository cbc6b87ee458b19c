"""What the report exports: read back with the readers that others have."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import parser

from jobs.pages.row_text import to_csv, to_json
from jobs.report.exports import set_clock
from jobs.report.prometheus import to_prometheus
from jobs.report.ranking import Ranking
from jobs.report.rows import ReportRows
from jobs.runtime.output_files import PROMETHEUS_FILE, write_output
from schemas.vocabulary import Rule
from tests.builders.report_rows import AS_OF, finding_row, group_row, sample, tally_row

NAMES = ("group_id", "count", "ratio", "is_new", "triggers", "evidence")
ROWS = [
    {
        "group_id": 'a,"b"\n\u202ec',
        "count": 2**53 + 1,
        "ratio": 1.5,
        "is_new": True,
        "triggers": ["x", "y"],
        "evidence": {"b": "2", "a": "1"},
    },
    {"group_id": "=cmd()", "count": None, "ratio": None, "is_new": False, "triggers": [], "evidence": None},
]


def families(rows):
    """Every sample of the file as Prometheus' own parser reads it."""
    return {family.name: family for family in parser.text_string_to_metric_families("".join(to_prometheus(rows, AS_OF)))}


def test_every_metric_is_named_explained_and_typed_as_prometheus_asks():
    found = families(sample())
    assert len(found) == 19
    for name, family in found.items():
        assert re.fullmatch(r"evenkeel_[a-z]+(_[a-z]+)*", name)
        assert not re.search(r"_(total|count|sum|bucket|info|ms|milliseconds|percent)$", name), "suffixes of other types and no base units"
        assert (family.type, family.documentation[-1:]) == ("gauge", ".")
        series = [tuple(sorted(one.labels.items())) for one in family.samples]
        assert len(series) == len(set(series))
    without = [name for name, family in found.items() if not family.samples]
    assert without == ["evenkeel_group_avoidable_movements", "evenkeel_group_last_commit_timestamp_seconds"], "not known"


def test_samples_are_the_reports_figures_and_what_is_not_known_has_none():
    rows = replace(sample(), ranked=Ranking([group_row("a", imbalance_ratio=None), group_row("b", critical_count=2, movement_count=0)]))
    found = families(rows)
    values = {
        name: {one.labels.get("group_id", ""): one.value for one in found[f"evenkeel_{name}"].samples}
        for name in ("group_imbalance_ratio", "group_movements", "group_avoidable_movements", "report_timestamp_seconds", "groups")
    }
    assert values == {
        "group_imbalance_ratio": {"b": 1.5},
        "group_movements": {"a": 3, "b": 0},
        "group_avoidable_movements": {},
        "report_timestamp_seconds": {"": AS_OF.timestamp()},
        "groups": {"": 2},
    }
    severities = {(one.labels["group_id"], one.labels["severity"]): one.value for one in found["evenkeel_group_findings"].samples}
    assert severities["b", "critical"] == 2 and len(severities) == 6
    rules = {(one.labels["severity"], one.labels["rule_id"]): one.value for one in found["evenkeel_findings"].samples}
    assert {key: number for key, number in rules.items() if number} == {
        ("warning", "conformance_differs"): 4,
        ("critical", "partition_multiply_owned"): 4,
    }
    assert {tuple(one.labels.values()): one.value for one in found["evenkeel_generations"].samples} == {
        ("range", "exact"): 6,
        ("range", "differs"): 3,
    }


def test_past_finding_is_counted_as_found_and_not_as_current():
    """A critical finding of last year must not keep an alert on, and one that is there must not be missed."""
    groups = [group_row("mended", critical_count=3), group_row("a", critical_count=3, current_critical_count=1, current_info_count=2)]
    rows = replace(
        sample(),
        ranked=Ranking(groups),
        findings=[
            finding_row("mended", rule_id="partitions_left_out", severity="critical", rule_finding_count=3),
            finding_row("a", rule_id="partition_multiply_owned", severity="critical", rule_finding_count=3, rule_current_count=1),
        ],
    )
    found = families(rows)
    groups = {(one.labels["group_id"], one.labels["severity"]): one.value for one in found["evenkeel_group_current_findings"].samples}
    assert groups == {
        **{("mended", severity): 0 for severity in ("info", "warning", "critical")},
        **{("a", "info"): 2, ("a", "warning"): 0, ("a", "critical"): 1},
    }
    for name, numbers in (("findings", (3, 3)), ("current_findings", (1, 0))):
        rules = {(one.labels["severity"], one.labels["rule_id"]): one.value for one in found[f"evenkeel_{name}"].samples}
        assert (rules["critical", "partition_multiply_owned"], rules["critical", "partitions_left_out"]) == numbers
        assert sum(rules.values()) == sum(numbers)


def test_every_severity_and_every_rule_has_a_sample_even_of_a_fleet_without_findings():
    """A series that ends, or never was, makes an alert on it silent for the wrong reason."""
    found = families(ReportRows())
    for name in ("evenkeel_findings", "evenkeel_current_findings"):
        assert {one.labels["severity"] for one in found[name].samples} == {"info", "warning", "critical"}
        assert {one.labels["rule_id"] for one in found[name].samples} == {str(rule) for rule in Rule}
        assert not any(one.value for one in found[name].samples)


def test_assignors_that_clients_make_up_are_not_a_series_each():
    rows = [tally_row(f"own-{number:03}", "observed", conformance="differs", generation_count=1 + (number < 50)) for number in range(300)]
    samples = families(ReportRows(tallies=rows))["evenkeel_generations"].samples
    values = {one.labels["strategy"]: one.value for one in samples}
    assert len(samples) == len(values) == 51
    assert (values["own-000"], values["own-049"], values["others"], sum(values.values())) == (2, 2, 250, 350)


@given(st.text(st.characters(exclude_categories=("Cs",))))
@example('a"} 1\nevenkeel_forged{x="\\')
def test_any_name_is_read_back_and_forges_nothing(name):
    """Of a group, a cluster and an assignor: all labels that somebody else may choose."""
    group, tally = group_row(name, cluster_id=name), tally_row(name or "x", "observed", conformance="differs")
    found = families(replace(sample(), ranked=Ranking([group]), tallies=[tally]))
    assert [one.labels for one in found["evenkeel_group_members"].samples] == [{"cluster_id": name, "group_id": name}]
    assert [one.labels for one in found["evenkeel_members"].samples] == [{"cluster_id": name}]
    assert [one.labels["strategy"] for one in found["evenkeel_generations"].samples] == [name or "x"]
    assert "evenkeel_forged" not in found


def test_clock_is_set_and_every_other_byte_stays(tmp_path):
    """Names may have characters that end a line for others."""
    name = "a\rb\r\nc\x85d\u2028e"
    rows = replace(sample(), ranked=Ranking([group_row(name)]))
    path, later = tmp_path / PROMETHEUS_FILE, AS_OF + timedelta(hours=1)
    write_output(to_prometheus(rows, AS_OF), path)
    set_clock(path, later)
    assert path.read_bytes() == "".join(to_prometheus(rows, later)).encode()


def test_csv_is_read_back_and_runs_no_formula():
    lines = list(csv.reader(io.StringIO("".join(to_csv(NAMES, ROWS)), newline="")))
    assert lines == [
        list(NAMES),
        ['a,"b"\n\u202ec', "9007199254740993", "1.5", "true", '["x", "y"]', '{"a": "1", "b": "2"}'],
        ["'=cmd()", "", "", "false", "[]", ""],
    ]


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_no_cell_begins_as_a_formula(begin: str):
    text = "".join(to_csv(("a",), [{"a": f"{begin}1+1"}]))
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["a"], [f"'{begin}1+1"]]


def test_csv_without_rows_has_its_heading():
    assert "".join(to_csv(("a", "b"), [])) == "a,b\r\n"


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []])
def test_json_is_read_back_whole(rows):
    text = "".join(to_json(NAMES, rows))
    assert json.loads(text) == rows
    assert text.isascii()
