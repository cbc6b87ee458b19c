"""What a refused run shows of its quarantine, and which records count in the share that is judged."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.gates import judged_count, quarantined_ratio
from jobs.land.refused_records import json_line, refused_file, summary

ROW = {
    **{"cluster_id": "c", "source": "describe", "source_position": "eu/look.txt line 4", "reason": "malformed_line"},
    **{"detail": "#PARTITIONS is 2, and ASSIGNMENT has 1", "payload": b"billing\xff\tx"},
}


def test_summary_names_file_line_reason_and_escaped_text() -> None:
    expected = r"quarantined eu/look.txt line 4: malformed_line: #PARTITIONS is 2, and ASSIGNMENT has 1: billing\xff\tx"
    assert summary(ROW) == expected


@pytest.mark.parametrize(("size", "shown"), [(200, "x" * 200), (201, "x" * 197 + "..."), (10_000, "x" * 197 + "...")])
def test_summary_has_at_most_200_characters_of_the_text(size: int, shown: str) -> None:
    assert summary({**ROW, "payload": b"x" * size}).rpartition(": ")[2] == shown
    assert summary({**ROW, "detail": "x" * size, "payload": None}).split(": ")[-2] == shown


def test_line_of_the_file_has_the_whole_payload() -> None:
    row: dict[str, Any] = {**ROW, "payload": b"\xff\n" * 5_000}
    line = json_line(row)
    assert line.count("\n") == 1 and line.endswith("\n")
    refused = json.loads(line)
    assert base64.b64decode(refused.pop("payload_b64")) == row.pop("payload")
    assert refused == {**row, "text": r"\xff\n" * 5_000}


@pytest.mark.parametrize(
    ("run_id", "name"),
    [
        ("20261126T080000.5Z", "refused-20261126T080000.5Z.ndjson"),
        ("../x", "refused-..%2Fx.ndjson"),
        ("x" * 250, f"refused-{'x' * 200}.ndjson"),
    ],
)
def test_file_of_a_refused_run_lies_beside_the_report(run_id: str, name: str) -> None:
    assert refused_file(Path("/reports/report.html"), run_id) == Path("/reports") / name


def test_lines_of_other_programs_do_not_count_in_the_share_of_quarantined_records() -> None:
    """One bad record of four; with the lines it would be one of a hundred."""
    counts = {"read": 100, "landed": 3, "skipped": 96, "quarantined": 1, "describe.skipped.not_a_table_line": 96}
    assert (judged_count(counts), quarantined_ratio(counts)) == (4, 0.25)
    assert quarantined_ratio({"read": 5, "quarantined": 0, "describe.skipped.not_a_table_line": 5}) == 0
    assert quarantined_ratio({}) == 0
