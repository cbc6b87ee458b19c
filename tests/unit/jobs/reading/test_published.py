"""A local warehouse read without Spark: which versions are read, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from jobs.reading.published import open_published
from jobs.runtime.errors import NotAWarehouseError, WarehouseDamagedError
from schemas.contract import CONTRACT_VERSION
from tests.builders.published_warehouse import at, commit, write_warehouse


def test_rows_are_of_the_published_version_though_a_run_in_progress_has_written(tmp_path: Path):
    write_warehouse(tmp_path, commit("g", "t", 0, 1, 10))
    table = DeltaTable(tmp_path / "offset_snapshots").to_pyarrow_dataset().to_table()
    write_deltalake(tmp_path / "offset_snapshots", table, mode="append")
    rows = open_published(str(tmp_path)).rows("offset_snapshots", ("group_id", "observed_at", "committed_offset"))
    assert rows == [{"group_id": "g", "observed_at": at(1), "committed_offset": 10}]


@pytest.mark.parametrize("name", ["a%20b", "%41 é#", "%2F", "%ff", "100%", "a b#é?", "link"])
def test_path_may_look_encoded(tmp_path: Path, name: str):
    write_warehouse(tmp_path / "w", commit("g", "t", 0, 1, 10))
    (tmp_path / "w").rename(tmp_path / (name if name != "link" else "%20"))
    if name == "link":
        (tmp_path / "link").symlink_to(tmp_path / "%20")
    assert open_published(str(tmp_path / name)).rows("offset_snapshots", ("group_id",)) == [{"group_id": "g"}]


def test_rows_match_all_filters(tmp_path: Path):
    write_warehouse(tmp_path, *(commit(group, "t", partition, 1, 0) for group in "ab" for partition in range(2)))
    tables = open_published(str(tmp_path))
    rows = tables.rows("offset_snapshots", ("group_id", "partition"), {"group_id": ["a"], "partition": [1, 7]})
    assert rows == [{"group_id": "a", "partition": 1}]


def test_column_of_a_later_contract_is_null(tmp_path: Path):
    write_warehouse(tmp_path, commit("g", "t", 0, 1, 10))
    assert open_published(str(tmp_path)).rows("offset_snapshots", ("group_id", "to_come")) == [{"group_id": "g", "to_come": None}]


def test_newest_published_run_counts(tmp_path: Path):
    write_warehouse(tmp_path)
    schema = pa.schema(DeltaTable(tmp_path / "runs").schema().to_arrow())
    later = [
        {"run_id": "two", "run_sequence": 2, "status": "published", "finished_at": at(9), "table_versions": [("runs", 5)]},
        {"run_id": "three", "run_sequence": 3, "status": "failed", "finished_at": at(10), "table_versions": []},
    ]
    write_deltalake(tmp_path / "runs", pa.Table.from_pylist(later, schema), mode="append")
    published = open_published(str(tmp_path))
    assert (published.run_id, published.versions) == ("two", {"runs": 5})


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("s3a://key:secret@bucket/w", r"^warehouse s3a://\*\*\*@bucket/w: expected a local folder"),
        ("main.evenkeel", r"^warehouse main\.evenkeel: expected a local folder"),
        ("/nowhere/at/all", "^warehouse /nowhere/at/all: no tables here; land captures first"),
    ],
)
def test_other_locations_are_refused(location: str, message: str):
    with pytest.raises(NotAWarehouseError, match=message):
        open_published(location)


def test_warehouse_without_a_published_run_is_refused(tmp_path: Path):
    write_warehouse(tmp_path, status="failed")
    with pytest.raises(NotAWarehouseError, match=r"nothing is published yet; run first$"):
        open_published(str(tmp_path))


def test_newer_contract_is_refused(tmp_path: Path):
    write_warehouse(tmp_path, contract=str(CONTRACT_VERSION + 1))
    with pytest.raises(NotAWarehouseError, match=f"runs has contract version {CONTRACT_VERSION + 1}, .* up to {CONTRACT_VERSION};"):
        open_published(str(tmp_path))


def test_table_of_another_program_is_refused(tmp_path: Path):
    write_deltalake(tmp_path / "runs", pa.table({"id": [1], "status": ["published"]}))
    with pytest.raises(NotAWarehouseError, match="runs is a table of another program"):
        open_published(str(tmp_path))


@pytest.mark.parametrize("table", ["runs", "offset_snapshots"])
def test_damaged_log_is_one_line(tmp_path: Path, table: str):
    write_warehouse(tmp_path, commit("g", "t", 0, 1, 10))
    for path in (tmp_path / table / "_delta_log").glob("*.json"):
        path.write_bytes(b"{ no log")
    with pytest.raises(WarehouseDamagedError, match=f"table {table} cannot be read .*; `verify` names what is damaged$") as caught:
        open_published(str(tmp_path)).rows("offset_snapshots", ("group_id",))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("table", ["runs", "offset_snapshots"])
def test_empty_commit_is_damage(tmp_path: Path, table: str):
    """Delta reads it as one without changes: rows would be missing without a word."""
    write_warehouse(tmp_path, commit("g", "t", 0, 1, 10))
    (tmp_path / table / "_delta_log" / f"{1:020}.json").write_bytes(b"")
    with pytest.raises(WarehouseDamagedError, match=f"{table}/_delta_log/{1:020}.json: the commit has no content"):
        open_published(str(tmp_path)).rows("offset_snapshots", ("group_id",))


def test_missing_file_is_one_line(tmp_path: Path):
    write_warehouse(tmp_path, commit("g", "t", 0, 1, 10))
    for path in (tmp_path / "offset_snapshots").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(WarehouseDamagedError, match="table offset_snapshots cannot be read"):
        open_published(str(tmp_path)).rows("offset_snapshots", ("group_id",))


def test_reading_changes_no_file(tmp_path: Path):
    write_warehouse(tmp_path / "w", commit("g", "t", 0, 1, 10))
    shutil.copytree(tmp_path / "w", tmp_path / "before")
    open_published(str(tmp_path / "w")).rows("offset_snapshots", ("group_id",))
    result = subprocess.run(["diff", "-r", tmp_path / "w", tmp_path / "before"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "")


def test_spark_is_not_imported():
    code = "import sys, jobs.reading.weights; print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j', 'scipy')])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[4])
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_rows_are_counted_by_their_values(tmp_path: Path):
    write_warehouse(tmp_path, *(commit(group, "t", partition, 1, 0) for group in "aab" for partition in range(3)))
    tables = open_published(str(tmp_path))
    assert tables.counts("offset_snapshots", ("topic", "group_id"), {"partition": [0, 2]}) == {("t", "a"): 2, ("t", "b"): 2}
    assert tables.counts("to_come", ("group_id",)) == {}


def test_rows_since_a_time_include_it(tmp_path: Path):
    write_warehouse(tmp_path, *(commit("g", "t", 0, position, 0) for position in (1, 2, 3)))
    rows = open_published(str(tmp_path)).rows("offset_snapshots", ("position",), {"group_id": ["g"]}, at(2))
    assert sorted(row["position"] for row in rows) == [2, 3]
