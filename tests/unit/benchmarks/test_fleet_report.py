"""A warehouse with each group many times over, from one that was written without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from jobs.report.page import build_page
from jobs.report.ranking import Ranking
from jobs.report.rows import ReportRows
from jobs.report.run import write_page
from jobs.storage.delta_log import files_of
from schemas.config import ReportSettings
from tests.benchmarks.fleet_report import READ_BY_REPORT, listed_groups, multiply_groups
from tests.builders.report_rows import AS_OF, group_row


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Tables of two groups in two months, with files beside them that a copy does without."""
    rows = pa.table({"group_id": ["a", "b", "b"], "position": [1, 2, 3], "observed_month": ["2026-10-01", "2026-11-01", "2026-11-01"]})
    for name in READ_BY_REPORT:
        write_deltalake(tmp_path / "warehouse" / name, rows, partition_by=["observed_month"])
    (tmp_path / "warehouse" / "report.html").write_text("a page")
    return tmp_path / "warehouse"


def test_multiplied_warehouse_has_every_row_under_other_group_names(warehouse: Path, tmp_path: Path) -> None:
    multiply_groups(warehouse, tmp_path / "many", 3)
    assert not (tmp_path / "many" / "report.html").exists()
    for name in READ_BY_REPORT:
        table = DeltaTable(tmp_path / "many" / name)
        assert table.version() == 0 and len(files_of(tmp_path / "many" / name / "_delta_log", 0) or ()) == 6
        found = sorted(
            tuple(row.values()) for row in table.to_pyarrow_table(columns=["group_id", "position", "observed_month"]).to_pylist()
        )
        rows = [("a", 1, "2026-10-01"), ("b", 2, "2026-11-01"), ("b", 3, "2026-11-01")]
        assert found == sorted((f"{group}{suffix}", *others) for group, *others in rows for suffix in ("", ".1", ".2"))
        assert DeltaTable(warehouse / name).to_pyarrow_table().num_rows == 3


def test_a_table_with_other_than_whole_files_is_refused(warehouse: Path, tmp_path: Path) -> None:
    commit = warehouse / "findings" / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text() + json.dumps({"add": {"path": "x", "deletionVector": {"storageType": "u"}}}))
    with pytest.raises(SystemExit, match="expected a table of whole files"):
        multiply_groups(warehouse, tmp_path / "many", 2)


def test_groups_are_counted_in_all_files_of_a_report(tmp_path: Path) -> None:
    groups = [f"group-{number:04}" for number in range(2_000)]
    page = build_page(ReportRows(ranked=Ranking(group_row(group) for group in groups)), AS_OF)
    write_page(page, ReportSettings(output=str(tmp_path / "weekly.html")), most_bytes=150_000)
    listed, sizes = listed_groups(tmp_path / "weekly.html")
    assert listed == groups
    assert sizes == [(tmp_path / name).stat().st_size for name in ("weekly.html", "weekly-groups-2.html")]
