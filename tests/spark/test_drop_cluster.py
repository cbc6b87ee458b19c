"""``maintain --drop-cluster``: one cluster goes as if it had never landed, and lands again as if for the first time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.builders.captures import few
from tests.builders.tables import COMPARED, OF_LANDING, assert_equal_warehouses, rows, versions

TABLES = (*COMPARED, "group_states")
NOTED = ("positions", "origins", "landed_until")
OTHER = "other cluster 7"
"""The name has spaces and a number, as keys of ``runs`` have after the name."""


def last_run(warehouse: Path) -> dict:
    return max(rows(warehouse, "runs"), key=lambda run: run["run_sequence"])


@pytest.fixture(scope="module")
def two(make_tables, demo_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a capture, and with two warehouses: of the demo's cluster, and of this and another, which has some of its groups."""
    folder = tmp_path_factory.mktemp("two")
    log = few(folder, "log.parquet", 0, 8)
    for name in ("one", "w"):
        shutil.copytree(demo_warehouse, folder / name)
    assert make_tables("run", "--warehouse", folder / "w", "--input", log, "--cluster-id", OTHER) == 0
    return folder


def test_dry_run_counts_and_changes_nothing(make_tables, two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = versions(two / "w")
    expected = {name: sum(row["cluster_id"] == OTHER for row in rows(two / "w", name)) for name in TABLES}
    capsys.readouterr()
    assert make_tables("maintain", "--warehouse", two / "w", "--drop-cluster", OTHER, "--dry-run") == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert dict(line.split() for line in lines) == {name: str(count) for name, count in expected.items() if count}
    assert last == f"{sum(expected.values())} rows of cluster {OTHER} in all; nothing was changed"
    assert versions(two / "w") == before


def test_unknown_cluster_is_refused_with_the_names_there_are(make_tables, two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = versions(two / "w")
    assert make_tables("maintain", "--warehouse", two / "w", "--drop-cluster", "other cluster") == 2
    (kept,) = {row["cluster_id"] for row in rows(two / "one", "subscription_snapshots")}
    names = ", ".join(sorted([kept, OTHER]))
    said = f"--drop-cluster other cluster: no table has rows of this cluster; the tables have {names}"
    assert said in capsys.readouterr().err
    assert versions(two / "w") == before


def test_dropped_cluster_is_gone_and_lands_anew(make_tables, two: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    shutil.copytree(two / "w", warehouse)
    for _ in range(2):  # a retry by the same name does nothing
        assert make_tables("maintain", "--warehouse", warehouse, "--drop-cluster", OTHER, "--run-id", "drop") == 0
    assert_equal_warehouses(warehouse, two / "one", TABLES)
    dropped, before = last_run(warehouse), last_run(two / "one")
    assert {name: dict(dropped[name]) for name in NOTED} == {name: dict(before[name]) for name in NOTED}
    counts = {name: int(rows_) for name, rows_ in dropped["output_counts"]}
    assert counts["subscription_snapshots.dropped"] == sum(row["cluster_id"] == OTHER for row in rows(two / "w", "subscription_snapshots"))
    assert make_tables("land", "--warehouse", warehouse, "--input", two / "log.parquet", "--cluster-id", OTHER) == 0
    again = dict(last_run(warehouse)["input_counts"])
    assert again["landed"] == dict(last_run(two / "w")["input_counts"])["landed"] > 0
    assert_equal_warehouses(warehouse, two / "w", OF_LANDING)
    assert dict(last_run(warehouse)["landed_until"]) == dict(last_run(two / "w")["landed_until"])


@pytest.mark.slow
def test_warehouse_without_the_dropped_cluster_is_sound(make_tables, two: Path, tmp_path: Path) -> None:
    shutil.copytree(two / "w", tmp_path / "w")
    assert make_tables("maintain", "--warehouse", tmp_path / "w", "--drop-cluster", OTHER) == 0
    assert make_tables("verify", "--warehouse", tmp_path / "w") == 0
