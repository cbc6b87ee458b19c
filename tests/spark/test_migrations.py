"""Warehouses of an older contract are brought up to this one, newer ones refused."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs import pipeline
from jobs.storage.warehouse import Warehouse
from schemas.tables import CONTRACT_VERSION, IDENTITY_PROPERTY, TABLES
from tests.builders.tables import rows, versions

PROPERTY = "evenkeel.contractVersion"
ADDED = (
    "retained_from",
    "counterfactuals_from",
    "positions",
    "origins",
    "placed_by",
    "warehouse_id",
    "landed_until",
    "holdings",
    "files",
    "file_counts",
    "batched_epoch_count",
    "epoch_at",
    "is_superseded",
    "recurrences",
    "end_offset_delay_ms",
    "lag_is_upper_bound",
    "leader_client",
    "is_generation_inferred",
    "has_conflict",
)
CLEANUP = "delta.enableExpiredLogCleanup"
SKIPPING = "delta.dataSkippingStatsColumns"


@pytest.fixture
def copy(demo_warehouse: Path, tmp_path: Path) -> Path:
    shutil.copytree(demo_warehouse, tmp_path / "warehouse")
    return tmp_path / "warehouse"


def opened(spark: SparkSession, folder: Path) -> None:
    """Open a warehouse as a run does, which migrates it; that a run does this is shown by the first of the tests."""
    warehouse = Warehouse(spark, str(folder))
    with warehouse.signed("opened", nullcontext):
        pipeline._open(warehouse, ())


def declared(warehouse: Path, name: str) -> dict[str, str | None]:
    """Return a property of each table."""
    return {table: DeltaTable(str(warehouse / table)).metadata().configuration.get(name) for table in TABLES}


def forget_checksums(warehouse: Path) -> None:
    """Remove what Spark writes beside each commit and other writers do not."""
    for path in warehouse.glob("*/_delta_log/*.crc"):
        path.unlink()


def without_contract(line: str) -> str:
    """Return a line of a Delta log from before tables had their contract version, and the columns that were added since."""
    action = json.loads(line)
    if "metaData" in action:
        del action["metaData"]["configuration"][PROPERTY], action["metaData"]["configuration"][CLEANUP]
        action["metaData"]["configuration"].pop(IDENTITY_PROPERTY, None)
        schema = json.loads(action["metaData"]["schemaString"])
        names = {field["name"] for field in schema["fields"]}
        added = {*ADDED, *(["group_id"] if "payload_hash" in names else [])}
        schema["fields"] = [field for field in schema["fields"] if field["name"] not in added]
        action["metaData"]["schemaString"] = json.dumps(schema)
    return json.dumps(action)


def test_every_table_declares_its_contract_version(demo_warehouse: Path) -> None:
    assert declared(demo_warehouse, PROPERTY) == dict.fromkeys(TABLES, str(CONTRACT_VERSION))


def test_a_warehouse_from_before_there_were_versions_is_migrated(evenkeel, make_tables, copy: Path) -> None:
    forget_checksums(copy)
    for log in copy.glob(f"*/_delta_log/{0:020}.json"):
        log.write_text("".join(without_contract(line) + "\n" for line in log.read_text().splitlines()))
    assert set(declared(copy, PROPERTY).values()) == {None}
    assert "retained_from" not in rows(copy, "runs")[0]
    assert "placed_by" not in rows(copy, "subscription_snapshots")[0]
    assert "group_id" not in [field.name for field in DeltaTable(str(copy / "quarantine")).schema().fields]
    before = versions(copy)
    assert evenkeel("report", "--warehouse", copy) == 0  # a reader changes nothing, and needs none of it
    assert versions(copy) == before
    assert make_tables("run", "--warehouse", copy) == 0
    assert declared(copy, PROPERTY) == dict.fromkeys(TABLES, str(CONTRACT_VERSION))
    assert declared(copy, CLEANUP) == dict.fromkeys(TABLES, "false")
    runs = sorted(rows(copy, "runs"), key=lambda run: run["run_sequence"])
    assert [(run["status"], run["retained_from"]) for run in runs] == [("published", None)] * 2
    identity = declared(copy, IDENTITY_PROPERTY)["runs"]
    assert identity and {run["warehouse_id"] for run in runs} == {identity}, "that of the row before, whose file has the column already"
    migrated = versions(copy)
    assert dict(runs[1]["table_versions"]) == {name: version for name, version in migrated.items() if name != "runs"}
    assert make_tables("land", "--warehouse", copy) == 0
    assert versions(copy) == {**migrated, "runs": migrated["runs"] + 1}


def without_columns(table: Path, names: set[str]) -> None:
    """Make the files of a table those of a release that does not know some columns."""
    for log in (table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for add in (action["add"] for action in actions if "add" in action):
            path = table / unquote(add["path"])
            rows_of_file = pq.ParquetFile(path).read()
            pq.write_table(rows_of_file.drop_columns([name for name in rows_of_file.column_names if name in names]), path)
            path.with_name(f".{path.name}.crc").unlink()
            add["size"] = path.stat().st_size
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))


RENAMED = {table: TABLES[table].former for table in ("subscription_snapshots", "generation_audits")}


def make_older(warehouse: Path) -> dict[str, Counter]:
    """Make a warehouse one from before some columns got new names, and return what their columns of the former names have."""
    counted = {table: Counter(tuple(row[name] for name in names) for row in rows(warehouse, table)) for table, names in RENAMED.items()}
    assert all(len(counts) > 1 for counts in counted.values())
    forget_checksums(warehouse)
    for table, names in RENAMED.items():
        without_columns(warehouse / table, set(names.values()))
    for log in warehouse.glob(f"*/_delta_log/{0:020}.json"):
        log.write_text("".join(without_contract(line) + "\n" for line in log.read_text().splitlines()))
    return counted


def assert_filled_alike(warehouse: Path, expected: dict[str, Counter]) -> None:
    for table, names in RENAMED.items():
        found = rows(warehouse, table)
        assert Counter(tuple(row[name] for name in names.values()) for row in found) == expected[table]
        assert Counter(tuple(row[name] for name in names) for row in found) == expected[table]


def test_columns_with_new_names_are_filled_from_their_former_names(evenkeel, spark: SparkSession, copy: Path) -> None:
    before = {table: versions(copy)[table] for table in RENAMED}
    expected = make_older(copy)
    assert evenkeel("report", "--warehouse", copy) == 0  # which shows clients of leaders
    assert ">librdkafka<" in (copy / "report.html").read_text()
    opened(spark, copy)
    assert_filled_alike(copy, expected)
    for table in RENAMED:
        assert versions(copy)[table] == before[table] + 3  # columns, rows, properties


@pytest.mark.parametrize("commit_count", [3, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 2))])
def test_migration_that_died_is_taken_back(spark: SparkSession, copy: Path, commit_count: int) -> None:
    """Behind each commit of a table: its columns were added; their rows were filled, here with other values; its version was declared."""
    expected = make_older(copy)
    table = f"delta.`{copy / 'generation_audits'}`"
    commits = (
        f"ALTER TABLE {table} ADD COLUMNS (leader_client STRING)",
        f"UPDATE {table} SET leader_client = 'left by a run that died'",
        f"ALTER TABLE {table} SET TBLPROPERTIES ('{PROPERTY}' = '{CONTRACT_VERSION}')",
    )
    for commit in commits[:commit_count]:
        spark.sql(commit)
    opened(spark, copy)
    assert_filled_alike(copy, expected)


def test_a_reader_of_an_older_warehouse_sees_null_in_columns_that_it_lacks(evenkeel, spark: SparkSession, copy: Path) -> None:
    """Where no run of this release has migrated it yet; and one that does brings every property up to date."""

    def of_an_older_release(line: str) -> str:
        action = json.loads(without_contract(line))
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"] = [field for field in schema["fields"] if field["name"] != "is_lower_bound"]
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"][SKIPPING] = "run_sequence"
        return json.dumps(action)

    forget_checksums(copy)
    declared_before = declared(copy, SKIPPING)
    for log in copy.glob(f"*/_delta_log/{0:020}.json"):
        log.write_text("".join(of_an_older_release(line) + "\n" for line in log.read_text().splitlines()))
    before = versions(copy)
    assert evenkeel("report", "--warehouse", copy) == 0
    assert versions(copy) == before
    opened(spark, copy)
    assert declared(copy, SKIPPING) == declared_before


@pytest.fixture(scope="module")
def migrated_later(spark: SparkSession, demo_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse that a later release has migrated; its newest commit changes something else. Tests copy it."""
    folder = tmp_path_factory.mktemp("later") / "warehouse"
    shutil.copytree(demo_warehouse, folder)
    for name in TABLES:
        spark.sql(f"ALTER TABLE delta.`{folder / name}` SET TBLPROPERTIES ('{PROPERTY}' = '{CONTRACT_VERSION + 1}')")
    spark.sql(f"UPDATE delta.`{folder / 'runs'}` SET command = upper(command)")
    return folder


@pytest.fixture(params=["checksums", "no checksums"])
def newer(migrated_later: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(migrated_later, warehouse)
    if request.param == "no checksums":
        forget_checksums(warehouse)
    return warehouse


@pytest.mark.parametrize("command", ["run", "report", "maintain"])
def test_a_newer_contract_is_refused(evenkeel, newer: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = versions(newer)
    assert evenkeel(command, "--warehouse", newer) == 2
    printed = capsys.readouterr().err
    newer_one = f"runs has contract version {CONTRACT_VERSION + 1}, this release of Evenkeel knows versions up to {CONTRACT_VERSION}"
    assert f"{newer_one}; use the release that wrote it" in printed
    assert versions(newer) == before


def test_a_version_that_is_no_number_is_refused(evenkeel, spark: SparkSession, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spark.sql(f"ALTER TABLE delta.`{copy / 'runs'}` SET TBLPROPERTIES ('{PROPERTY}' = 'x')")
    assert evenkeel("report", "--warehouse", copy) == 2
    assert f"expected a number as property {PROPERTY} of runs, found 'x'" in capsys.readouterr().err
