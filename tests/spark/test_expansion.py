"""What members hold: packed in ``solutions``, shown as rows, and packed from the rows of an older warehouse."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from jobs.storage import migrations
from jobs.storage.warehouse import Warehouse
from schemas.tables import ASSIGNMENTS, CONTRACT_PROPERTY, SOLUTIONS
from tests.builders.captures import LOOKS, few
from tests.builders.tables import rows

KEY = (*SOLUTIONS.key, "member_id")


@pytest.fixture(scope="module")
def kept(make_tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse whose settings keep the rows of every solution; as rows they do not take the way through bytes."""
    folder = tmp_path_factory.mktemp("expansion")
    (folder / "settings.yaml").write_text("assign: {keep_counterfactuals: true}\n")
    options = ("--warehouse", folder / "warehouse", "--config", folder / "settings.yaml")
    assert make_tables("land", *options, "--input", few(folder, "records.parquet", 0, 8), LOOKS) == 0
    assert make_tables("assign", *options) == 0
    return folder / "warehouse"


def in_order(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(listed, key=lambda row: tuple(str(row[name]) for name in KEY))


def test_assignments_keep_all_rows_if_the_settings_say_so(kept: Path) -> None:
    stored = {(row["basis"], row["strategy"]) for row in rows(kept, "assignments")}
    assert stored == {(row["basis"], row["strategy"]) for row in rows(kept, "solutions") if row["status"] == "solved" and row["strategy"]}


def test_rows_that_are_unpacked_are_those_that_were_kept(evenkeel, kept: Path, tmp_path: Path) -> None:
    groups = sorted({row["group_id"] for row in rows(kept, "solutions")})
    before = {name: (kept / name / "_delta_log").stat().st_mtime_ns for name in ("solutions", "assignments", "runs")}
    assert evenkeel("assign", "--warehouse", kept, "--expand", *groups, "--output", tmp_path / "rows.parquet") == 0
    assert before == {name: (kept / name / "_delta_log").stat().st_mtime_ns for name in before}
    found = pq.read_table(tmp_path / "rows.parquet")
    assert found.schema.names == ASSIGNMENTS.schema.names
    listed = in_order(rows(kept, "assignments"))
    assert len({row["basis"] for row in listed}) == 3
    assert in_order(found.to_pylist()) == listed


def test_rows_are_printed_a_member_a_line(evenkeel, kept: Path, capfd: pytest.CaptureFixture[str]) -> None:
    of_group = in_order([row for row in rows(kept, "assignments") if row["partition_count"] > 1])[0]
    since = of_group["observed_at"].isoformat()
    assert evenkeel("assign", "--warehouse", kept, "--expand", of_group["group_id"], "--since", since) == 0
    heading, *lines, summary = capfd.readouterr().out.splitlines()
    cells = [dict(zip(heading.split("\t"), line.split("\t"), strict=True)) for line in lines]
    expected = [row for row in rows(kept, "assignments") if row["group_id"] == of_group["group_id"]]
    expected = [row for row in expected if row["observed_at"] >= of_group["observed_at"]]
    assert summary == f"rows: {len(expected):,}"
    assert len(lines) == len(expected)
    (line,) = [line for line in cells if all(line[name] == str(of_group[name]) for name in KEY if name != "observed_at")]
    entries = [f"{entry['topic']}[{','.join(map(str, entry['partitions']))}]" for entry in of_group["partitions"]]
    assert line["partitions"] == " ".join(entries)


@pytest.mark.parametrize("options", [["--expand", "nobody"], ["--cluster-id", "elsewhere", "--expand", "nobody"]])
def test_expanding_an_unknown_group_names_it(evenkeel, kept: Path, options: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert evenkeel("assign", "--warehouse", kept, *options) == 2
    assert "--expand: no results for group nobody; groups with results are: " in capfd.readouterr().err


def test_rows_of_an_older_warehouse_are_packed(spark: SparkSession, kept: Path, tmp_path: Path) -> None:
    """Its solutions have no holdings; a run that finds it goes on from them."""
    copy = tmp_path / "warehouse"
    shutil.copytree(kept, copy)
    spark.sql(f"UPDATE delta.`{copy / 'solutions'}` SET holdings = NULL")
    spark.sql(f"ALTER TABLE delta.`{copy / 'solutions'}` SET TBLPROPERTIES ('{CONTRACT_PROPERTY}' = '10')")
    spark.sql(f"DELETE FROM delta.`{copy / 'assignments'}` WHERE basis = 'counterfactual' AND strategy = 'range'")
    migrations.migrate(Warehouse(spark, str(copy)))

    def holdings(warehouse: Path) -> dict[tuple, bytes | None]:
        return {tuple(row[name] for name in SOLUTIONS.key): row["holdings"] for row in rows(warehouse, "solutions")}

    with_members = {(row["group_id"], row["position"]) for row in rows(kept, "subscription_snapshots") if row["members"]}
    is_gone = {key for key in holdings(kept) if key[-2:] == ("counterfactual", "range") and (key[1], key[4]) in with_members}
    assert is_gone
    assert holdings(copy) == {key: None if key in is_gone else packed for key, packed in holdings(kept).items()}
