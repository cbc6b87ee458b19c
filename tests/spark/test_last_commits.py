"""The last commits of partitions: what the table and later commits add up to, compared with loops over all commits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.storage import last_commits, table_reader
from jobs.storage.last_commits import (
    forget_last_commits,
    last_commits_of,
    logs_of_commits,
    read_last_commits,
    with_later,
    write_last_commits,
)
from jobs.storage.migrations import migrate
from jobs.storage.table_shape import shape_problems
from jobs.storage.warehouse import Warehouse
from jobs.verify.recount import wrong_last_commits
from schemas.tables import CONTRACT_PROPERTY, LAST_COMMITS, OFFSET_SNAPSHOTS
from tests.builders.frames import TablesInMemory, frame, moment

Row = dict[str, Any]
PARTITION = ("group_id", "topic", "partition")
SOURCE = ("source", "offsets_partition")


def commit(random: Random, position: int, run: int) -> Row:
    """Return a commit of one of few partitions, so that most have several, from a raw log or another source."""
    source = random.choice(["consumer-offsets", "consumer-offsets", "formatter-json"])
    is_deleted = random.random() < 0.2
    return {
        "cluster_id": "c",
        "group_id": random.choice("gh"),
        "topic": random.choice(["t", "u"]),
        "partition": random.choice([0, 1, 999, 1_000, 2_001]),
        "position": position,
        "run_sequence": run,
        "observed_at": moment(random.randrange(1_000)),  # clocks may go back
        "topic_id": random.choice([None, "id"]),
        "committed_offset": None if is_deleted else position * 10,
        "committed_at": None if is_deleted else moment(position),
        "expires_at": random.choice([None, moment(position + 7)]),
        "is_deleted": is_deleted,
        "is_uncertain": None if source == "formatter-json" else random.choice([None, False, False, True]),
        "source": source,
        "offsets_partition": None if source == "formatter-json" else 3,
    }


def runs_of_commits(seed: int) -> list[list[Row]]:
    """Return the commits of three runs. Each writes some open ones of earlier runs again, mostly as certain ones."""
    random, runs, known = Random(seed), list[list[Row]](), list[Row]()
    positions = list(range(150))
    random.shuffle(positions)  # the earlier ones may land late
    for run in (1, 2, 3):
        landed = [commit(random, positions.pop(), run) for _ in range(50)]
        for row in known:
            if row["source"] == "consumer-offsets" and row["is_uncertain"] in (None, True) and random.random() < 0.5:
                known = [one for one in known if one is not row]
                landed.append({**row, "run_sequence": run, "is_uncertain": random.choice([False, False, True])})
        known += landed
        runs.append(landed)
    return runs


def stored_after(runs: Iterable[list[Row]]) -> list[Row]:
    """Return the commits that are stored after some runs."""
    return list({row["position"]: row for landed in runs for row in landed}.values())


def expected(commits: Iterable[Row]) -> set[tuple[Any, ...]]:
    """Return by loops what partitions and their sources add up to, see ``found``."""
    of_source, of_partition = defaultdict(list), defaultdict(list)
    for row in commits:
        key = tuple(row[name] for name in PARTITION)
        of_source[(*key, *(row[name] for name in SOURCE))].append(row)
        of_partition[key].append(row)
    result = set()
    for key, rows in of_source.items():
        last = max(rows, key=lambda row: row["position"])
        made = [row["observed_at"] for row in rows if not row["is_deleted"]]
        times = [row["observed_at"] for row in rows]
        is_last = last is max(of_partition[key[:3]], key=lambda row: row["position"])
        figures = (len(rows), len(made), min(times), max(times), min(made, default=None), max(made, default=None))
        result.add((*key, last["position"], last["committed_offset"], last["committed_at"], last["expires_at"], is_last, *figures))
    return result


def found(rows: DataFrame) -> set[tuple[Any, ...]]:
    """Return the same of rows of the table, whose open entries are added here."""
    entries = defaultdict(list)
    for row in rows.collect():
        partitions = [one["partition"] for one in row["commits"]]
        assert partitions == sorted(partitions) and {one // 1_000 for one in partitions} == {row["block"]}
        for one in row["commits"]:
            entries[row["group_id"], row["topic"], one["partition"], one["source"], one["offsets_partition"]].append(one)
    result = set()
    for key, of_source in entries.items():
        last = max(of_source, key=lambda one: one["position"])

        def time(function: Any, name: str, of_source: list[Any] = of_source) -> Any:
            known = [one[name] for one in of_source if one[name] is not None]
            return moment(function(known) // 1_000) if known else None

        counts = (sum(one["record_count"] for one in of_source), sum(one["commit_count"] for one in of_source))
        times = (time(min, "first_us"), time(max, "newest_us"), time(min, "first_commit_us"), time(max, "newest_commit_us"))
        at = [None if last[name] is None else moment(last[name] // 1_000) for name in ("committed_us", "expires_us")]
        is_last = any(one["is_last"] for one in of_source)
        result.add((*key, last["position"], last["committed_offset"], *at, is_last, *counts, *times))
    return result


@pytest.mark.parametrize("are_few", [True, False])
def test_later_commits_are_added_as_if_all_had_come_at_once(spark: SparkSession, are_few: bool) -> None:
    """Also late ones, and those that are written again."""
    runs = runs_of_commits(seed=7)
    first, *others = (frame(spark, OFFSET_SNAPSHOTS.schema, landed) for landed in runs)
    rows = last_commits_of(first)
    assert found(rows) == expected(runs[0])
    for number, later in enumerate(others, 2):
        rows = with_later(rows, later, are_few=are_few)
        assert found(rows) == expected(stored_after(runs[:number]))


def test_logs_of_commits_are_known_without_the_commits_that_were_added_up(spark: SparkSession) -> None:
    numbered = enumerate(runs_of_commits(seed=11))
    runs = [[{**row, "offsets_partition": 10 * run + row["position"] % 3} for row in landed] for run, landed in numbered]
    before, later = stored_after(runs[:2]), runs[2]
    added_up = last_commits_of(frame(spark, OFFSET_SNAPSHOTS.schema, before)).withColumn("run_sequence", F.lit(2))
    tables = TablesInMemory({LAST_COMMITS.name: added_up, OFFSET_SNAPSHOTS.name: frame(spark, OFFSET_SNAPSHOTS.schema, later)})
    wanted = {tuple(row[name] for name in ("cluster_id", "group_id", *SOURCE)) for row in (*before, *later)}
    assert {tuple(row) for row in logs_of_commits(tables).collect()} == wanted
    del tables.tables[LAST_COMMITS.name]
    assert {tuple(row) for row in logs_of_commits(tables).collect()} < wanted


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """A warehouse in which three commits are many."""
    monkeypatch.setattr(last_commits, "MANY_COMMITS", 3)
    made = Warehouse(spark, str(tmp_path / "warehouse"))
    made.create()
    made.run_sequence = 1
    return made


def land(warehouse: Warehouse, spark: SparkSession, *rows: Row) -> None:
    base = {"cluster_id": "c", "group_id": "g", "topic": "t", "source": "formatter-json", "is_deleted": False, "observed_at": moment(0)}
    filled = [{**base, "run_sequence": warehouse.run_sequence, "committed_offset": row["position"], **row} for row in rows]
    warehouse.append(OFFSET_SNAPSHOTS.name, frame(spark, OFFSET_SNAPSHOTS.schema, filled))


def last_offsets(warehouse: Warehouse) -> dict[int, tuple[int, int]]:
    entries = [entry for row in read_last_commits(warehouse).collect() for entry in row["commits"]]
    return {entry["partition"]: (entry["committed_offset"], entry["record_count"]) for entry in entries}


def test_table_is_written_when_many_commits_have_come_and_readers_add_the_rest(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_last_commits(warehouse)
    land(warehouse, spark, {"partition": 0, "position": 1}, {"partition": 1, "position": 2})
    write_last_commits(warehouse)
    assert warehouse.is_empty(LAST_COMMITS.name) and last_offsets(warehouse) == {0: (1, 1), 1: (2, 1)}
    land(warehouse, spark, {"partition": 1, "position": 3})
    write_last_commits(warehouse)
    assert last_offsets(warehouse) == {0: (1, 1), 1: (3, 2)}
    (row,) = warehouse.read(LAST_COMMITS.name).collect()
    assert row["run_sequence"] == 1

    warehouse.run_sequence = 2
    monkeypatch.setattr(last_commits, "ROWS_A_COMMIT", 0)
    land(warehouse, spark, {"partition": 0, "position": 4})
    version = warehouse.version(LAST_COMMITS.name)
    write_last_commits(warehouse)
    assert warehouse.version(LAST_COMMITS.name) == version, "one commit for a row is too few"
    assert last_offsets(warehouse) == {0: (4, 2), 1: (3, 2)}
    monkeypatch.setattr(last_commits, "ROWS_A_COMMIT", 1)
    write_last_commits(warehouse)
    assert warehouse.version(LAST_COMMITS.name) == version + 1 and last_offsets(warehouse) == {0: (4, 2), 1: (3, 2)}
    write_last_commits(warehouse)
    assert warehouse.version(LAST_COMMITS.name) == version + 1, "nothing has come since"


def test_forgotten_table_is_made_again_from_what_is_stored(warehouse: Warehouse, spark: SparkSession) -> None:
    land(warehouse, spark, *({"partition": 0, "position": position} for position in (1, 2, 3)))
    write_last_commits(warehouse)
    warehouse.delete(OFFSET_SNAPSHOTS.name, spark.createDataFrame([(3,)], "position bigint"), ("position",))
    assert last_offsets(warehouse) == {0: (3, 3)}, "this is what forgetting is for"
    forget_last_commits(warehouse)
    assert last_offsets(warehouse) == {0: (2, 2)}
    land(warehouse, spark, {"partition": 0, "position": 5})
    write_last_commits(warehouse)
    assert last_offsets(warehouse) == {0: (5, 3)}


def test_table_of_an_older_release_gets_the_fields_that_its_entries_lack(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a run has migrated it, readers see null in them, whether Delta lists the files or the log in a local folder does."""
    land(warehouse, spark, *({"partition": number, "position": number + 1, "end_offset": 70} for number in range(3)))
    write_last_commits(warehouse)
    older = warehouse.read(LAST_COMMITS.name).withColumn("commits", F.transform("commits", lambda entry: entry.dropFields("end_offset")))
    path = warehouse.path(LAST_COMMITS.name)
    older_table = older.localCheckpoint().write.format("delta").mode("overwrite").option("overwriteSchema", True)
    warehouse.commit(LAST_COMMITS.name, lambda: older_table.save(path))
    warehouse.alter(LAST_COMMITS.name, f"SET TBLPROPERTIES ('{CONTRACT_PROPERTY}' = '16')")

    def ends() -> dict[int, int | None]:
        entries = [entry for row in read_last_commits(warehouse).collect() for entry in row["commits"]]
        return {entry["partition"]: entry["end_offset"] for entry in entries}

    assert ends() == {0: None, 1: None, 2: None}
    with monkeypatch.context() as patch:
        patch.setattr(table_reader, "files_of", lambda *_: None)
        assert ends() == {0: None, 1: None, 2: None}
    migrate(warehouse)
    assert shape_problems(warehouse.stored_schema(LAST_COMMITS.name), LAST_COMMITS.schema) == []
    warehouse.run_sequence = 2
    monkeypatch.setattr(last_commits, "ROWS_A_COMMIT", 1_000)
    land(warehouse, spark, {"partition": 1, "position": 4, "end_offset": 80})
    write_last_commits(warehouse)
    assert [row["run_sequence"] for row in warehouse.read(LAST_COMMITS.name).collect()] == [2]
    assert ends() == {0: None, 1: 80, 2: None}


def test_table_of_a_dead_run_is_restored_before_it_is_written(warehouse: Warehouse, spark: SparkSession) -> None:
    """No published row names it, so a later run takes it for missing."""
    land(warehouse, spark, *({"partition": 0, "position": position} for position in (1, 2, 3)))
    write_last_commits(warehouse)
    next_run = Warehouse(spark, warehouse.location)
    next_run.run_sequence = 1
    assert next_run.is_empty(LAST_COMMITS.name)
    write_last_commits(next_run)
    assert [row["run_sequence"] for row in next_run.read(LAST_COMMITS.name).collect()] == [1]
    assert next_run.history(LAST_COMMITS.name)["version"] == 3


def test_verify_passes_over_partitions_with_later_commits(spark: SparkSession) -> None:
    first, second, _ = runs_of_commits(seed=3)
    rows = last_commits_of(frame(spark, OFFSET_SNAPSHOTS.schema, first)).select("*", F.lit(1).cast("bigint").alias("run_sequence"))
    for table, stored in ((rows, first), (rows, stored_after([first, second])), (rows.limit(0), first)):
        assert wrong_last_commits(table, frame(spark, OFFSET_SNAPSHOTS.schema, stored)).collect() == []


@pytest.mark.parametrize("name", ["record_count", "position", "committed_offset", "is_last"])
def test_verify_names_the_partitions_with_a_wrong_figure(spark: SparkSession, name: str) -> None:
    landed = runs_of_commits(seed=3)[0]
    commits = frame(spark, OFFSET_SNAPSHOTS.schema, landed)

    def changed(entry: Column) -> Column:
        wrong = F.lit(False) if name == "is_last" else F.coalesce(entry[name], F.lit(0)) + 1
        return F.when(entry["partition"] == 999, entry.withField(name, wrong)).otherwise(entry)

    rows = last_commits_of(commits).select("*", F.lit(1).cast("bigint").alias("run_sequence"))
    found = wrong_last_commits(rows.withColumn("commits", F.transform("commits", changed)), commits).collect()
    partitions = {(row["group_id"], row["topic"]) for row in landed if row["partition"] == 999}
    assert {row["row_key"] for row in found} == {
        f"cluster_id=c group_id={group} topic={topic} partition=999" for group, topic in partitions
    }
