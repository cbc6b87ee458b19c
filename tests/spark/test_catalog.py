"""A warehouse that is a catalog schema: the same tables by name, and views of what is published."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import gates, pipeline
from jobs.runtime.errors import WarehouseDamagedError
from jobs.runtime.file_lock import Holder
from jobs.storage import lease
from jobs.storage import published_views as views
from jobs.storage.lease import Lease
from jobs.storage.table_shape import create_statement
from jobs.storage.warehouse import Warehouse
from schemas.tables import TABLES
from tests.builders.captures import LOOKS, few

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def made_schema(spark: SparkSession, name: str, folder: Path) -> Iterator[str]:
    spark.sql(f"CREATE SCHEMA {name} LOCATION '{folder}'")  # its own: a dead run leaves its tables
    yield f"spark_catalog.{name}"
    spark.sql(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def schema(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    with made_schema(spark, "evenkeel_test", tmp_path / "schema") as name:
        yield name


def leave_behind(spark: SparkSession, schema: str, folder: Path, *taken: str) -> None:
    """Leave the folder of a lease in that of a schema, without its entry, after runs of these names have taken it.

    A catalog makes a table's folder first; all folders without an entry are every moment of that at once.
    """
    assert lease_of(spark, schema)._ensure_made()
    for run_id in taken:
        lease = lease_of(spark, schema, run_id)
        lease.acquire(0)
        lease.release()
    left = folder.with_name(f"{folder.name} left")
    folder.rename(left)
    spark.sql(f"DROP TABLE {schema}.evenkeel_lease")
    shutil.copytree(left, folder, dirs_exist_ok=True)


NAMES = [name for name in TABLES if name != "runs"]
WATCHED = (NAMES[0], "subscription_snapshots", NAMES[-1])


def digests(spark: SparkSession, froms: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Return rows and hash of what follows each FROM, all of them read by one query."""
    of_each = (f"SELECT '{name}' AS name, count(*), bit_xor(xxhash64(to_json(struct(*)))) FROM {source}" for name, source in froms.items())
    return {name: tuple(digest) for name, *digest in spark.sql(" UNION ALL ".join(of_each)).collect()}


def published(spark: SparkSession, schema: str, names: Sequence[str] = WATCHED) -> dict[str, tuple[int, int]]:
    return digests(spark, {name: f"{schema}.{name}_published" for name in names})


def by_version(spark: SparkSession, schema: str) -> dict[str, tuple[int, int]]:
    """Return what views have to show by the newest row of ``runs``."""
    versions = f"SELECT max_by(table_versions, run_sequence) AS newest FROM {schema}.runs WHERE status = 'published'"
    (row,) = spark.sql(versions).collect()
    return digests(spark, {name: f"{schema}.{name} VERSION AS OF {version}" for name, version in row.newest.items()})


def test_tables_that_a_dead_run_has_not_entered_into_the_catalog(
    make_tables, empty_warehouse: Path, spark: SparkSession, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It died when it had made all tables, but no entry."""
    leave_behind(spark, schema, tmp_path / "schema")
    shutil.copytree(empty_warehouse, tmp_path / "schema", dirs_exist_ok=True)
    assert make_tables("land", "--warehouse", schema, "--input", few(tmp_path, "a.parquet", 0, 1)) == 0
    assert capsys.readouterr().err.count("making the entry now") == len(TABLES) + 1


@pytest.mark.slow
def test_the_row_in_runs_switches_all_views_at_once(
    evenkeel, spark: SparkSession, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked while views are replaced, and on both sides of the row: all show one run."""
    page = tmp_path / "report.html"
    with monkeypatch.context() as patched:
        patched.setattr(gates, "run", lambda *_: [])  # the next command has them
        assert evenkeel("run", "--warehouse", schema, "--output", page, "--input", few(tmp_path, "a.parquet", 0, 4), LOOKS) == 0
    named = {row["tableName"] for row in spark.sql(f"SHOW TABLES IN {schema}").collect()}
    assert named == {*TABLES, *(f"{name}_published" for name in NAMES), "evenkeel_lease"}  # nothing written aside is left
    assert published(spark, schema, NAMES) == by_version(spark, schema)
    before = published(spark, schema)
    assert page.stat().st_size > 10_000

    seen: list[dict[str, tuple[int, int]]] = []
    replace_view, close = Warehouse.replace_view, pipeline._close

    def replace_and_look(warehouse: Warehouse, name: str, query: str) -> None:
        replace_view(warehouse, name, query)
        if name in WATCHED:
            seen.append(published(spark, schema))

    def close_and_look(*arguments: Any) -> None:
        seen.append(published(spark, schema))
        close(*arguments)
        seen.append(published(spark, schema))

    monkeypatch.setattr(Warehouse, "replace_view", replace_and_look)
    monkeypatch.setattr(pipeline, "_close", close_and_look)
    assert evenkeel("land", "--warehouse", schema, "--input", few(tmp_path, "b.parquet", 4, 8)) == 0
    everything = by_version(spark, schema)
    assert published(spark, schema, NAMES) == everything
    after = {name: everything[name] for name in WATCHED}
    assert before["subscription_snapshots"] != after["subscription_snapshots"]
    assert seen == [before] * (len(WATCHED) + 1) + [after] * (1 + len(WATCHED))

    spark.sql(f"DELETE FROM {schema}.movements")  # as a run does that is at work
    assert published(spark, schema) == after
    (query,) = re.findall(r"^```sql\n(.*?)^```", (ROOT / "docs" / "reading.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = spark.sql(query.replace("main.evenkeel", schema)).collect()
    assert {row["group_id"] for row in found} == {row["group_id"] for row in spark.table(f"{schema}.generation_audits").collect()}


def test_view_of_an_older_table_has_the_columns_of_today(spark: SparkSession, schema: str) -> None:
    warehouse, declared = Warehouse(spark, schema), TABLES["findings"].schema.names
    spark.sql(f"CREATE TABLE {schema}.findings USING delta AS SELECT 'early' AS {declared[0]}")
    warehouse.replace_view("findings", views.query_at(warehouse, "findings", warehouse.version("findings")))
    view = spark.table(f"{schema}.findings_published")
    assert (view.columns, [tuple(row) for row in view.collect()]) == (declared, [("early", *[None] * (len(declared) - 1))])


def test_written_tables_of_a_schema_without_runs_are_left_alone(spark: SparkSession, schema: str) -> None:
    """To begin anew would take them back to where they were empty."""
    warehouse = Warehouse(spark, schema)
    spark.sql(create_statement(TABLES["findings"], f"{schema}.findings"))
    spark.sql(f"INSERT INTO {schema}.findings (group_id) VALUES ('g')")
    with pytest.raises(
        WarehouseDamagedError, match=r"evenkeel_test\.runs: found no commit in the Delta log, although runs have written findings;"
    ):
        warehouse.create()
    assert not warehouse.exists()
    assert [row["tableName"] for row in spark.sql(f"SHOW TABLES IN {schema}").collect()] == ["findings"]


def test_used_table_without_an_entry_is_not_entered(
    make_tables, spark: SparkSession, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has asked for it back."""
    leave_behind(spark, schema, tmp_path / "schema", "first")
    monkeypatch.setattr(lease, "CREATE_TRIES", 2)
    assert make_tables("land", "--warehouse", schema, "--input", few(tmp_path, "a.parquet", 0, 1)) == 2
    assert "[DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION]" in capsys.readouterr().err
    assert not Warehouse(spark, schema).exists()


def lease_of(spark: SparkSession, schema: str, run_id: str = "dead") -> Lease:
    at = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
    return Lease(spark, schema, Holder(run_id, "host-1", 17, at.isoformat()), lambda: at)


def test_missing_schema_is_refused(evenkeel, capsys: pytest.CaptureFixture[str]) -> None:
    assert evenkeel("run", "--warehouse", "spark_catalog.nowhere") == 2
    assert "warehouse spark_catalog.nowhere: cannot be opened: [SCHEMA_NOT_FOUND]" in capsys.readouterr().err
