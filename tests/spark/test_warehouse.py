"""The tables of one location, without a run: what commits, what is counted, what is taken back, and whose commits are ours."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jobs.runtime.errors import ForeignCommitError, LeaseLostError, NotAWarehouseError, SchemaMismatchError, WarehouseDamagedError
from jobs.runtime.session import settings
from jobs.storage import migrations
from jobs.storage.commit_guard import COMMIT_NOTE
from jobs.storage.table_maintenance import file_counts, keep_files, optimize
from jobs.storage.table_shape import create_statement
from jobs.storage.warehouse import Warehouse
from schemas.tables import GENERATION_TOPICS, IDENTITY_PROPERTY, OPTIONAL_TABLES, RUNS, SCENARIOS, TABLES
from tests.builders.frames import frame
from tests.builders.tables import rows, versions

NAME = GENERATION_TOPICS.name


@pytest.fixture
def warehouse(spark: SparkSession, empty_warehouse: Path, tmp_path: Path) -> Iterator[Warehouse]:
    """Empty tables in the hands of a run."""
    shutil.copytree(empty_warehouse, tmp_path / "warehouse")
    made = Warehouse(spark, str(tmp_path / "warehouse"))
    with made.signed("r", nullcontext):
        yield made


def topics(spark: SparkSession, *hashes: str | None) -> DataFrame:
    """Return a frame for the table ``generation_topics``."""
    return frame(spark, GENERATION_TOPICS.schema, [{"cluster_id": "c", "topics_hash": one, "run_sequence": 1} for one in hashes])


def publish(warehouse: Warehouse, sequence: int, status: str = "published", **changes: Any) -> None:
    at = datetime(2026, 11, 21, sequence, tzinfo=timezone.utc)
    row = {"run_id": f"r{sequence}", "run_sequence": sequence, "status": status, "finished_at": at, "table_versions": warehouse.versions()}
    warehouse.append(RUNS.name, frame(warehouse.spark, RUNS.schema, [{**row, **changes}]))


def hashes(warehouse: Warehouse) -> list[str | None]:
    return sorted((row["topics_hash"] for row in rows(warehouse.folder, NAME)), key=str)


# -- reading


def test_each_version_is_read_without_asking_delta_which_files_it_has(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> DataFrame:
        raise AssertionError("asked")

    monkeypatch.setattr(Warehouse, "_read_by_delta", refuse)
    for expected in ([], ["x"], ["x", "y"]):
        for _ in range(2):
            assert sorted(row["topics_hash"] for row in warehouse.read(NAME).collect()) == expected
        warehouse.append(NAME, topics(spark, "y" if expected else "x"))
    both = warehouse.read(NAME).join(warehouse.read(NAME).withColumnRenamed("topics_hash", "other"), "cluster_id")
    assert both.where("topics_hash < other").select("topics_hash", "other").distinct().collect() == [("x", "y")]


def test_a_table_with_deletion_vectors_is_read_by_delta(spark: SparkSession, warehouse: Warehouse) -> None:
    """Somebody has switched them on; its files alone have rows that are gone."""
    warehouse.append(NAME, topics(spark, "x").unionByName(topics(spark, "y")).coalesce(1))
    table = warehouse.identifier(NAME)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {table} WHERE topics_hash = 'x'")
    assert [row["topics_hash"] for row in warehouse.read(NAME).collect()] == ["y"]


# -- making


@pytest.mark.parametrize(
    ("location", "table"), [("s3a://bucket/w/", "delta.`s3a://bucket/w/runs`"), ("main.evenkeel", "main.evenkeel.runs")]
)
def test_a_slash_at_the_end_of_a_location_is_none_of_its_tables(location: str, table: str) -> None:
    assert Warehouse(None, location).identifier("runs") == table


def test_readers_without_spark_can_read_tables_whatever_defaults_a_session_has(spark: SparkSession, tmp_path: Path) -> None:
    """Databricks and some clusters have such defaults; deletion vectors and column mapping need Delta itself."""
    defaults = {"enableDeletionVectors": "true", "columnMapping.mode": "name"}
    warehouse = Warehouse(spark, str(tmp_path))
    with settings(spark, {f"spark.databricks.delta.properties.defaults.{name}": value for name, value in defaults.items()}):
        spark.sql(create_statement(GENERATION_TOPICS, warehouse.identifier(NAME)))
    assert DeltaTable(str(tmp_path / NAME)).protocol().min_reader_version == 1


def test_making_tables_again_commits_nothing(warehouse: Warehouse) -> None:
    warehouse.create()
    assert versions(warehouse.folder) == dict.fromkeys(TABLES, 0) == {**warehouse.versions(), "runs": 0}


def test_only_missing_tables_are_made_and_runs_comes_last(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    committed: list[str] = []

    @contextmanager
    def committing() -> Iterator[None]:
        before = set(warehouse.folder.iterdir())
        yield
        committed.extend(path.name for path in set(warehouse.folder.iterdir()) - before)

    for name in ("findings", "runs"):
        shutil.rmtree(warehouse.folder / name)
    assert not warehouse.exists()
    with warehouse.signed("r", committing):
        warehouse.create()
    assert committed == ["findings", "runs"]
    assert warehouse.exists()


def test_optional_tables_are_made_when_asked_for_and_taken_back_by_any_later_run(warehouse: Warehouse) -> None:
    """The run that makes them dies before its row in ``runs`` names them."""
    scenarios = SCENARIOS.name
    warehouse.create(OPTIONAL_TABLES)
    assert [name for name in OPTIONAL_TABLES if not (warehouse.folder / name / "_delta_log").is_dir()] == []
    row = dict.fromkeys(SCENARIOS.schema.names) | {"cluster_id": "c", "group_id": "g"}
    rows = warehouse.spark.createDataFrame([tuple(row.values())], SCENARIOS.schema)
    assert warehouse.append(scenarios, rows) == 1
    later = Warehouse(warehouse.spark, str(warehouse.folder))
    later.create()
    assert scenarios not in later.versions()
    with later.signed("later", nullcontext):
        left = later.recover()
    assert {name: left[name] for name in OPTIONAL_TABLES} == {**dict.fromkeys(OPTIONAL_TABLES, 0), scenarios: 2}
    assert later.read(scenarios).isEmpty()


UNFINISHED = "_delta_log/.00000000000000000000.json.8c3b.tmp"


@pytest.mark.parametrize("name", [NAME, RUNS.name])
@pytest.mark.parametrize("left", ["", "_delta_log/", UNFINISHED], ids=["a folder", "a log", "a commit that was not finished"])
def test_a_table_whose_first_commit_never_came_is_made(warehouse: Warehouse, name: str, left: str) -> None:
    """As after a run that died while it made the first tables, or had no room for them."""
    for table in (name, RUNS.name):
        shutil.rmtree(warehouse.folder / table, ignore_errors=True)
    path = warehouse.folder / name / left
    (path if not path.suffix else path.parent).mkdir(parents=True)
    if path.suffix:
        path.touch()
    warehouse.check_location()
    warehouse.create()
    assert versions(warehouse.folder) == dict.fromkeys(TABLES, 0)
    assert warehouse.append(NAME, topics(warehouse.spark, "a")) == 1


def test_table_files_without_a_log_are_refused(warehouse: Warehouse) -> None:
    warehouse.append(NAME, topics(warehouse.spark, "a"))
    shutil.rmtree(warehouse.folder / NAME / "_delta_log")
    before = sorted(warehouse.folder.rglob("*"))
    with pytest.raises(NotAWarehouseError, match="generation_topics is not a Delta table"):
        warehouse.check_location()
    warehouse.create()
    assert sorted(warehouse.folder.rglob("*")) == before


@pytest.mark.parametrize("name", [NAME, RUNS.name, SCENARIOS.name])
@pytest.mark.parametrize("count", [1, 2], ids=["one commit", "two commits"])
def test_table_of_another_program_stays_as_it_is(spark: SparkSession, tmp_path: Path, name: str, count: int) -> None:
    for _ in range(count):
        write_deltalake(tmp_path / name, pa.table({"id": [1], "status": ["done"]}), mode="append")
    before = sorted(tmp_path.rglob("*"))
    warehouse = Warehouse(spark, str(tmp_path))
    warehouse.check_location()
    with warehouse.signed("r", nullcontext), pytest.raises(NotAWarehouseError, match=f"{name} is a table of another program"):
        migrations.refuse_newer(warehouse)
        warehouse.create()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_log_without_commits_is_damage_and_no_empty_table(warehouse: Warehouse) -> None:
    (log,) = (warehouse.folder / NAME / "_delta_log").glob("*.json")
    log.unlink()
    with pytest.raises(WarehouseDamagedError, match="generation_topics: the Delta log has no commit"):
        warehouse.is_empty(NAME)


def test_empty_commit_of_a_finished_run_is_damage_and_of_a_dead_one_is_taken_back(warehouse: Warehouse) -> None:
    """As a machine leaves it that stopped before the disk had the commit: Delta would read it as one without changes."""

    def empty(name: str, version: int) -> bytes:
        commit = warehouse.folder / name / "_delta_log" / f"{version:020}.json"
        content = commit.read_bytes()
        commit.with_name(f".{commit.name}.crc").unlink()
        commit.write_bytes(b"")
        return content

    warehouse.append(NAME, topics(warehouse.spark, "a"))
    publish(warehouse, 1)
    for name in (NAME, RUNS.name):
        content = empty(name, 1)
        for read in (Warehouse.recover, Warehouse.read_published):
            with pytest.raises(WarehouseDamagedError, match=f"{name}/_delta_log/{1:020}.json: the commit has no content"):
                read(Warehouse(warehouse.spark, warehouse.location))
        (warehouse.folder / name / "_delta_log" / f"{1:020}.json").write_bytes(content)
    warehouse.append(NAME, topics(warehouse.spark, "b"))
    empty(NAME, 2)
    assert warehouse.recover()[NAME] == 3
    publish(warehouse, 2, "failed")
    assert warehouse.recover()[NAME] == 3, "nobody needs the empty commit any more"
    assert hashes(warehouse) == ["a"]


def test_a_warehouse_without_an_id_gets_one_and_keeps_it(warehouse: Warehouse) -> None:
    """As those of older releases are."""
    warehouse.spark.sql(f"ALTER TABLE {warehouse.identifier(RUNS.name)} UNSET TBLPROPERTIES ('{IDENTITY_PROPERTY}')")
    warehouse.recover()
    assert warehouse.identity is None
    warehouse.check_identity()
    warehouse.ensure_identity()
    assert warehouse.identity is not None
    for _ in range(2):
        later = Warehouse(warehouse.spark, warehouse.location)
        later.recover()
        later.ensure_identity()
        assert later.identity == warehouse.identity
    assert versions(warehouse.folder)[RUNS.name] == 2


# -- writing


def test_appended_rows_are_counted_and_none_are_no_commit(warehouse: Warehouse) -> None:
    spark = warehouse.spark
    assert warehouse.is_empty(NAME)
    assert warehouse.append(NAME, topics(spark)) == 0
    assert warehouse.is_empty(NAME)
    assert [warehouse.append(NAME, topics(spark, "a", "b")), warehouse.append(NAME, topics(spark, "c"))] == [2, 1]
    assert warehouse.rows_written == {NAME: 3}
    assert not warehouse.is_empty(NAME)
    assert (hashes(warehouse), warehouse.version(NAME)) == (["a", "b", "c"], 2)


def test_columns_may_come_in_any_order_but_have_to_be_the_tables(warehouse: Warehouse) -> None:
    turned = topics(warehouse.spark, "a").select(*reversed(GENERATION_TOPICS.schema.names))
    assert warehouse.append(NAME, turned) == 1
    assert hashes(warehouse) == ["a"]
    with pytest.raises(SchemaMismatchError) as refused:
        warehouse.append(NAME, turned.selectExpr("* EXCEPT (topics_hash, cluster_id)", "'x' AS name", "1 AS cluster_id"))
    problems = "missing topics_hash; unexpected name; cluster_id is int, declared string"
    assert str(refused.value) == f"{NAME}: {problems}; this is a defect of Evenkeel, please report it"
    assert hashes(warehouse) == ["a"]


def with_sequences(warehouse: Warehouse, **sequences: int) -> DataFrame:
    made = [{"cluster_id": "c", "topics_hash": name, "run_sequence": sequence} for name, sequence in sequences.items()]
    return frame(warehouse.spark, GENERATION_TOPICS.schema, made)


def sequences_of(rows: DataFrame) -> dict[str, int]:
    return {row["topics_hash"]: row["run_sequence"] for row in rows.collect()}


def test_only_rows_of_later_runs_are_read_as_new(warehouse: Warehouse) -> None:
    for sequence, names in enumerate(("ab", "c", "d"), 1):
        warehouse.append(NAME, with_sequences(warehouse, **dict.fromkeys(names, sequence)))
    assert sequences_of(warehouse.read_new(NAME, 1)) == {"c": 2, "d": 3}
    assert len(warehouse.read_new(NAME, 1).inputFiles()) == 2
    warehouse.replace(NAME, topics(warehouse.spark, "a").select("topics_hash"), ("topics_hash",), with_sequences(warehouse, a=4))
    assert sequences_of(warehouse.read_new(NAME, 3)) == {"a": 4}
    assert sequences_of(warehouse.read_new(NAME, 4)) == {}


@pytest.mark.parametrize("most", [0, 3])
def test_rows_replace_those_with_one_of_the_keys(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """With few keys it is one commit. The new rows may have other keys, and so may have none."""
    monkeypatch.setattr("jobs.storage.warehouse.MOST_KEYS_NAMED", most)
    warehouse.append(NAME, with_sequences(warehouse, **{"it's": 1, "b": 1, "${HOME}": 1}))
    before, keys = warehouse.version(NAME), topics(warehouse.spark, "it's", "${HOME}", "x").select("topics_hash", "cluster_id")
    assert warehouse.replace(NAME, keys, ("topics_hash", "cluster_id"), with_sequences(warehouse, **{"it's": 2, "new": 2})) == (2, 2)
    assert sequences_of(warehouse.read(NAME)) == {"it's": 2, "b": 1, "new": 2}
    assert warehouse.version(NAME) == before + (1 if most else 2)
    assert warehouse.rows_written[NAME] == 5
    assert warehouse.count(NAME) == 3
    nothing = topics(warehouse.spark).select("topics_hash")
    assert warehouse.replace(NAME, nothing, ("topics_hash",), with_sequences(warehouse, c=3)) == (0, 1)
    assert warehouse.replace(NAME, topics(warehouse.spark, "b").select("topics_hash"), ("topics_hash",), topics(warehouse.spark))[1] == 0
    assert hashes(warehouse) == ["c", "it's", "new"]


def test_rows_are_deleted_by_their_keys_and_a_null_equals_a_null(warehouse: Warehouse) -> None:
    spark = warehouse.spark
    warehouse.append(NAME, topics(spark, "a", "b", None, "c"))
    key = ("topics_hash", "cluster_id")
    doomed = topics(spark, "a", "a", None, "x").select(*key)
    assert warehouse.delete(NAME, doomed, key) == 2
    assert hashes(warehouse) == ["b", "c"]
    before = warehouse.version(NAME)
    assert warehouse.delete(NAME, doomed, key) == 0
    assert warehouse.version(NAME) == before
    assert warehouse.delete(NAME, topics(spark, "b", "c").select("topics_hash"), ("topics_hash",), "t.topics_hash > 'b'") == 1
    assert hashes(warehouse) == ["b"]
    assert not spark.catalog.tableExists("evenkeel_keys")


def test_a_commit_by_somebody_else_is_refused(warehouse: Warehouse) -> None:
    """Ahead of ours, after it, or in its place: the version shows the first two, the signature the last."""
    spark, table = warehouse.spark, warehouse.identifier(NAME)
    with pytest.raises(ForeignCommitError, match=r"expected version 1 by this run, found version 2 by evenkeel run r \w+; something else"):
        warehouse.commit(NAME, lambda: [spark.sql(f"INSERT INTO {table} (cluster_id) VALUES ('x')") for _ in range(2)])
    foreign = Warehouse(spark, str(warehouse.folder))
    with foreign.signed("other", nullcontext), pytest.raises(ForeignCommitError, match="version 3 by evenkeel run other"):
        warehouse.commit(NAME, lambda: spark.sql(f"INSERT INTO {table} (cluster_id) VALUES ('x')"))
    spark.conf.unset(COMMIT_NOTE)
    with pytest.raises(ForeignCommitError, match="found version 4 by an unknown writer"):
        warehouse.append(NAME, topics(spark, "a"))


def test_a_run_does_not_build_upon_a_commit_that_came_between_two_of_its_own(warehouse: Warehouse) -> None:
    """As of a run that lost its lease, or whose driver died while its Spark went on; signed like ours."""
    spark, zombie = warehouse.spark, Warehouse(warehouse.spark, str(warehouse.folder))
    warehouse.recover()
    warehouse.append(NAME, topics(spark, "a"))
    with zombie.signed("zombie", nullcontext):
        zombie.append(NAME, topics(spark, "b"))
    expected = (
        r"generation_topics: expected version 1, as this run found or left it, found version 2 by evenkeel run zombie \w+; something else"
    )
    with pytest.raises(ForeignCommitError, match=expected):
        warehouse.append(NAME, topics(spark, "c"))
    with pytest.raises(ForeignCommitError, match=expected):  # nor is it published where the run has written its last
        warehouse.verify_own_versions()
    warehouse.recover()
    assert hashes(warehouse) == []
    assert warehouse.verify_own_versions() == {**dict.fromkeys(warehouse.versions(), 0), NAME: 3}
    with zombie.signed("zombie", nullcontext):
        publish(zombie, 1)
    with pytest.raises(ForeignCommitError, match="runs: expected version 0, as this run found or left it, found version 1"):
        publish(warehouse, 2)


def close(warehouse: Warehouse, run_id: str, sequence: int) -> None:
    warehouse.run_sequence = sequence
    row = {"run_id": run_id, "run_sequence": sequence, "status": "published", "table_versions": warehouse.versions()}
    warehouse.close(frame(warehouse.spark, RUNS.schema, [row]))


def test_a_run_that_is_overtaken_in_its_last_commit_does_not_publish(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine suspended between the last look and the commit, for longer than its lease: the heir has published meanwhile."""
    heir, check_left = Warehouse(warehouse.spark, str(warehouse.folder)), Warehouse.check_left

    def look_and_sleep(self: Warehouse, name: str, version: int) -> None:
        check_left(self, name, version)
        if self is warehouse:
            with heir.signed("heir", nullcontext):
                close(heir, "heir", 1)

    monkeypatch.setattr(Warehouse, "check_left", look_and_sleep)
    with pytest.raises(ForeignCommitError, match="runs: expected version 1 by this run, found version 1 by evenkeel run heir"):
        close(warehouse, "asleep", 1)
    assert [run["run_id"] for run in rows(warehouse.folder, "runs")] == ["heir"]
    monkeypatch.setattr(Warehouse, "check_left", check_left)
    with pytest.raises(ForeignCommitError, match="runs: a run with the number 1 has already ended, by evenkeel run heir"):
        close(warehouse, "late", 1)
    close(warehouse, "next", 2)
    assert sorted(run["run_id"] for run in rows(warehouse.folder, "runs")) == ["heir", "next"]


def test_run_that_lost_its_lease_leaves_views_and_scratch_alone(spark: SparkSession, location: str) -> None:
    """Views, and what was written aside, of a warehouse that a run has lost."""

    @contextmanager
    def lost() -> Iterator[None]:
        raise LeaseLostError("lost")
        yield

    dead, heir = Warehouse(spark, location), Warehouse(spark, location)
    own = staged(heir, "heir")
    with dead.signed("dead", lost):
        with pytest.raises(LeaseLostError):
            dead.clear_staging()
        with pytest.raises(LeaseLostError):
            dead.replace_view(NAME, "SELECT 1")
    assert hashes_of(own) == ["heir"]
    heir.clear_staging()


def test_every_commit_is_made_while_nobody_else_commits(warehouse: Warehouse) -> None:
    spark, seen = warehouse.spark, []

    @contextmanager
    def committing() -> Iterator[None]:
        before = warehouse.version(NAME)
        yield
        seen.append((before, warehouse.version(NAME)))

    with warehouse.signed("r", committing):
        warehouse.append(NAME, topics(spark, "a"))
        warehouse.delete(NAME, topics(spark, "a").select("topics_hash"), ("topics_hash",))
        warehouse.alter(NAME, "SET TBLPROPERTIES ('mark' = 'x')")
    assert seen == [(0, 1), (1, 2), (2, 3)]
    assert warehouse.properties(NAME)["mark"] == "x"


@pytest.mark.parametrize("before", [None, "somebody's note"])
def test_the_note_of_the_session_is_put_back(spark: SparkSession, tmp_path: Path, before: str | None) -> None:
    if before is not None:
        spark.conf.set(COMMIT_NOTE, before)
    try:
        with pytest.raises(ZeroDivisionError), Warehouse(spark, str(tmp_path)).signed("r", nullcontext):
            assert spark.conf.get(COMMIT_NOTE).startswith("evenkeel run r ")
            raise ZeroDivisionError
        assert spark.conf.get(COMMIT_NOTE, None) == before
    finally:
        spark.conf.unset(COMMIT_NOTE)


def staged(warehouse: Warehouse, *hashes: str) -> DataFrame:
    return warehouse.materialize("some", topics(warehouse.spark, *hashes))


def hashes_of(rows: DataFrame) -> list[str]:
    return sorted(row["topics_hash"] for row in rows.collect())


@pytest.fixture(params=["folder", "store", "catalog"])
def location(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """Each kind of location; the store is a folder under a name that only Hadoop knows."""
    if request.param == "folder":
        yield str(tmp_path)
    elif request.param == "store":
        name = f"store{uuid.uuid4().hex}"  # Hadoop remembers where a name leads
        spark._jsc.hadoopConfiguration().set(f"fs.viewfs.mounttable.{name}.link./warehouse", tmp_path.as_uri())
        yield f"viewfs://{name}/warehouse"
    else:
        spark.sql(f"CREATE SCHEMA evenkeel_staged LOCATION '{tmp_path}'")  # its own, beside another process with this test
        yield "spark_catalog.evenkeel_staged"
        spark.sql("DROP SCHEMA evenkeel_staged CASCADE")


def test_rows_are_replaced_in_one_commit_at_each_kind_of_location(spark: SparkSession, location: str) -> None:
    warehouse = Warehouse(spark, location)
    with warehouse.signed("r", nullcontext):
        if location.startswith("spark_catalog."):
            warehouse.create()
        else:  # all tables are made there by other tests
            spark.sql(create_statement(GENERATION_TOPICS, warehouse.identifier(NAME)))
        warehouse.append(NAME, topics(spark, "a", "b"))
        before = warehouse.version(NAME)
        replaced = warehouse.replace(NAME, topics(spark, "a").select("topics_hash"), ("topics_hash",), topics(spark, "c"))
    assert (replaced, warehouse.version(NAME)) == ((1, 1), before + 1)
    assert hashes_of(warehouse.read(NAME)) == ["b", "c"]
    assert spark.table(warehouse.identifier(NAME)).schema["topics_hash"].metadata


@pytest.mark.parametrize("location", ["store"], indirect=True)
def test_table_without_a_first_commit_in_a_store_is_made(spark: SparkSession, location: str, tmp_path: Path) -> None:
    """A run has died before the first commit. Where data lies, but no log, it stays, and no table is made on top of it."""
    log, data = tmp_path / "movements" / "_delta_log", tmp_path / "findings" / "part-0.parquet"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.6e.tmp").touch()
    data.parent.mkdir()
    data.touch()
    warehouse = Warehouse(spark, location)
    warehouse.create()
    assert warehouse.version("movements") == 0
    assert os.listdir(data.parent) == [data.name]


def test_store_that_does_not_answer_is_not_one_without_tables() -> None:
    """A retry with the name of a published run would be a new run."""

    def fail(text: str) -> None:
        raise PySparkException("java.nio.file.AccessDeniedException: s3a://bucket/w: 403 Forbidden (ExpiredToken)")

    warehouse = Warehouse(cast(SparkSession, SimpleNamespace(sql=fail)), "s3a://bucket/w")
    for ask in (warehouse.exists, lambda: warehouse.known_version(NAME)):
        with pytest.raises(PySparkException, match="ExpiredToken"):
            ask()


@pytest.mark.parametrize("location", ["store", "catalog"], indirect=True)
def test_location_without_tables_has_no_versions(spark: SparkSession, location: str, tmp_path: Path) -> None:
    warehouse = Warehouse(spark, location)
    (tmp_path / "movements" / "_delta_log").mkdir(parents=True)
    assert (warehouse.exists(), [warehouse.known_version(name) for name in (NAME, "movements")]) == (False, [None, None])


def test_scratch_rows_can_be_read_until_they_are_cleared(spark: SparkSession, location: str) -> None:
    warehouse = Warehouse(spark, location)
    assert hashes_of(staged(warehouse, "a", "b")) == ["a", "b"]
    again = staged(warehouse, "c")
    assert hashes_of(again) == ["c"]
    warehouse.clear_staging()
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|DELTA_TABLE_NOT_FOUND"):
        hashes_of(again)


def test_few_scratch_rows_come_back_in_one_partition(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many stay in several, so that many tasks read them."""
    numbers = warehouse.spark.range(8, numPartitions=4)
    monkeypatch.setattr(Warehouse.materialize_together.__module__ + ".FEW_ROWS", 8)
    together = warehouse.materialize_together("few", numbers)
    assert (together.rdd.getNumPartitions(), sorted(row["id"] for row in together.collect())) == (1, [*range(8)])
    monkeypatch.setattr(Warehouse.materialize_together.__module__ + ".FEW_ROWS", 7)
    plan = warehouse.materialize_together("many", numbers)._jdf.queryExecution().toString()
    assert "Coalesce" not in plan and "Repartition" not in plan


@pytest.mark.parametrize(("most", "is_sent"), [(8, True), (7, False)])
def test_few_keys_are_sent_to_every_task(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, most: int, is_sent: bool) -> None:
    """So that the table they are joined with is not shuffled."""
    monkeypatch.setattr("jobs.storage.scratch.MOST_KEYS_SENT", most)
    keys = warehouse.materialize_keys("keys", warehouse.spark.range(8, numPartitions=4).selectExpr("id", "id AS value"))
    assert keys.count == 8
    joined = warehouse.spark.range(100).join(keys.select("id"), ["id"], "left_semi")
    assert sorted(row["id"] for row in joined.collect()) == [*range(8)]
    assert ("strategy=broadcast" in joined._jdf.queryExecution().logical().toString()) == is_sent


def test_scratch_rows_of_a_run_that_lost_its_lease_are_not_read(spark: SparkSession, location: str) -> None:
    """Its executors go on after it was suspended, when the heir has written its own rows aside and reads them."""
    dead, heir = Warehouse(spark, location), Warehouse(spark, location)
    staged(dead, "dead")
    own = staged(heir, "heir")
    staged(dead, "dead again")
    assert hashes_of(own) == ["heir"]
    heir.clear_staging()


# -- publishing and mending


def test_readers_follow_the_newest_published_run(warehouse: Warehouse) -> None:
    spark, reader = warehouse.spark, Warehouse(warehouse.spark, str(warehouse.folder))
    assert (warehouse.newest_run(), warehouse.run_named("r1")) == (None, None)
    with pytest.raises(NotAWarehouseError, match="nothing is published yet"):
        reader.read_published()
    warehouse.append(NAME, topics(spark, "a"))
    publish(warehouse, 1, "failed")
    assert warehouse.newest_run("published") is None
    publish(warehouse, 2, finished_at=datetime(2026, 11, 20, tzinfo=timezone.utc))  # the clock was set back
    warehouse.append(NAME, topics(spark, "b"))
    publish(warehouse, 3, "failed")
    publish(warehouse, 3, "refused", finished_at=datetime(2026, 11, 22, tzinfo=timezone.utc))
    assert (warehouse.newest_run()["status"], warehouse.newest_run("published")["run_id"]) == ("refused", "r2")
    assert [run and run["run_id"] for run in map(warehouse.run_named, ("r1", "r2", "r3"))] == [None, "r2", None]
    assert reader.read_published()["run_sequence"] == 2
    assert [row["topics_hash"] for row in reader.read(NAME).collect()] == ["a"]
    assert warehouse.read(NAME).count() == 2


def test_rows_before_a_run_are_those_that_the_last_published_run_left(spark: SparkSession, warehouse: Warehouse) -> None:
    publish(warehouse, 1)
    for sequence, status in ((2, "published"), (3, "failed"), (4, "published")):
        warehouse.append(NAME, topics(spark, str(sequence)))
        publish(warehouse, sequence, status)
    before = {sequence: warehouse.read_before(NAME, sequence) for sequence in (1, 2, 4, 5)}
    found = {sequence: rows and sorted(row["topics_hash"] for row in rows.collect()) for sequence, rows in before.items()}
    assert found == {1: None, 2: [], 4: ["2"], 5: ["2", "3", "4"]}


def test_unpublished_commits_are_taken_back_and_nothing_else_changes(warehouse: Warehouse) -> None:
    spark = warehouse.spark
    warehouse.append(NAME, topics(spark, "a"))
    warehouse.recover()  # nothing was ever published
    assert hashes(warehouse) == []
    warehouse.append(NAME, topics(spark, "b"))
    publish(warehouse, 1)
    before = versions(warehouse.folder)
    warehouse.recover()
    assert versions(warehouse.folder) == before
    warehouse.append(NAME, topics(spark, "c"))
    warehouse.append(NAME, topics(spark, "d"))
    warehouse.recover()
    assert hashes(warehouse) == ["b"]
    assert versions(warehouse.folder) == {**before, NAME: before[NAME] + 3}


def test_the_published_version_stays_however_old_it_is(warehouse: Warehouse) -> None:
    """A table may stay as it is for longer than Delta keeps commits by default; it would remove them with the next checkpoint."""
    spark, log = warehouse.spark, warehouse.folder / NAME / "_delta_log"
    for number in range(9):
        warehouse.append(NAME, topics(spark, str(number)))
    publish(warehouse, 1)
    forty_days_ago = time.time() - 40 * 24 * 3600
    for path in log.iterdir():
        os.utime(path, (forty_days_ago, forty_days_ago))
    warehouse.append(NAME, topics(spark, "of a run at work"))
    assert (log / f"{10:020}.checkpoint.parquet").exists()
    reader = Warehouse(spark, warehouse.location)
    reader.read_published()
    assert reader.read(NAME).count() == 9
    warehouse.recover()
    assert len(hashes(warehouse)) == 9


def test_table_older_than_the_last_run_is_damage(warehouse: Warehouse) -> None:
    publish(warehouse, 1, table_versions={**warehouse.versions(), NAME: 1})
    with pytest.raises(WarehouseDamagedError, match="generation_topics: found version 0, the last run left version 1; commits are missing"):
        warehouse.recover()


# -- keeping in order


def test_a_retention_that_is_set_already_is_no_commit(warehouse: Warehouse) -> None:
    for hours, version in ((168, 0), (240, 1), (240, 1), (168, 2)):
        keep_files(warehouse, NAME, hours)
        assert warehouse.version(NAME) == version
    assert DeltaTable(str(warehouse.folder / NAME)).metadata().configuration["delta.deletedFileRetentionDuration"] == "interval 168 hours"


def test_a_table_without_months_is_counted_and_merged_as_a_whole(warehouse: Warehouse) -> None:
    for one in ("a", "b"):
        warehouse.append(NAME, topics(warehouse.spark, one))
    assert file_counts(warehouse, NAME) == {NAME: 2}
    optimize(warehouse, NAME, [NAME])
    assert file_counts(warehouse, NAME) == {NAME: 1}
    before = warehouse.version(NAME)
    optimize(warehouse, NAME, [NAME])
    assert warehouse.version(NAME) == before
