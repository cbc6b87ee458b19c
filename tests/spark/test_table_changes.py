"""Tables as changes will leave them: what a later step reads is what is there when all has been done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs.storage.table_changes import ChangedTables, TableChange, apply_changes
from schemas.tables import GROUP_RECORDS, OFFSET_SNAPSHOTS
from tests.builders.frames import TablesInMemory, frame

Row = dict[str, Any]
NAME = GROUP_RECORDS.name


@dataclass
class ChangingTables(TablesInMemory):
    """A warehouse that deletes and appends rows one after the other."""

    commits: int = 0

    def delete(self, name: str, keys: DataFrame, columns: tuple[str, ...]) -> int:
        chosen, rows = {tuple(row[column] for column in columns) for row in keys.collect()}, self.tables[name].collect()
        kept = [row for row in rows if tuple(row[column] for column in columns) not in chosen]
        self.tables[name] = self.tables[name].sparkSession.createDataFrame(kept, GROUP_RECORDS.schema)
        return len(rows) - len(kept)

    def append(self, name: str, rows: DataFrame) -> int:
        self.commits += 1
        new = rows.localCheckpoint()
        self.tables[name] = new if name not in self.tables else self.tables[name].unionByName(new).localCheckpoint()
        return new.count()

    def replace(self, name: str, keys: DataFrame, columns: tuple[str, ...], rows: DataFrame) -> tuple[int, int]:
        return self.delete(name, keys, columns), self.append(name, rows)


def records(spark: SparkSession, *rows: tuple[str | None, int]) -> DataFrame:
    """Return records of (group, offset)."""
    return frame(spark, GROUP_RECORDS.schema, [{"cluster_id": "c", "group_id": group, "offset": offset} for group, offset in rows])


def keys_of(rows: DataFrame | None) -> list[tuple[str | None, int]]:
    assert rows is not None
    return sorted(((row["group_id"], row["offset"]) for row in rows.collect()), key=repr)


@pytest.fixture(scope="module")
def changes(spark: SparkSession) -> list[TableChange]:
    """A group goes, rows of another move to other offsets, and one of these that has just come goes again."""
    return [
        TableChange(NAME, records(spark, ("gone", 0)), ("group_id",)),
        TableChange(NAME, records(spark, ("g", 1), ("g", 2)), ("group_id", "offset"), records(spark, ("g", 11), ("g", 12))),
        TableChange(NAME, records(spark, (None, 7)), ("group_id", "offset"), records(spark, ("h", 5))),
        TableChange(NAME, records(spark, ("g", 12), ("g", 3)), ("group_id", "offset"), records(spark, ("g", 1))),
    ]


def stored(spark: SparkSession) -> ChangingTables:
    rows = records(spark, ("gone", 1), ("gone", 2), ("g", 1), ("g", 2), ("g", 3), ("g", 4), (None, 7), (None, 8))
    return ChangingTables({NAME: rows})


def test_later_step_reads_the_planned_changes_of_earlier_steps(spark: SparkSession, changes: list[TableChange]) -> None:
    """Nothing was written meanwhile; what comes after a deletion of equal keys stays, and null is a value as others."""
    warehouse = stored(spark)
    tables = ChangedTables(warehouse)
    kept = [(None, 8), ("g", 4)]
    steps = [
        [*kept, (None, 7), ("g", 1), ("g", 2), ("g", 3)],
        [*kept, (None, 7), ("g", 3), ("g", 11), ("g", 12)],
        [*kept, ("g", 3), ("g", 11), ("g", 12), ("h", 5)],
        [*kept, ("g", 1), ("g", 11), ("h", 5)],
    ]
    for change, expected in zip(changes, steps, strict=True):
        tables = tables.after([change])
        assert keys_of(tables.read(NAME)) == sorted(expected, key=repr)
    assert keys_of(tables.appended(NAME)) == [("g", 1), ("g", 11), ("h", 5)]
    assert keys_of(warehouse.read(NAME)) == keys_of(stored(spark).read(NAME))


def test_applied_changes_give_the_planned_table(spark: SparkSession, changes: list[TableChange]) -> None:
    """Also where all that comes is one commit after all that goes."""
    warehouse = stored(spark)
    expected = keys_of(ChangedTables(warehouse).after(changes).read(NAME))
    done = apply_changes(warehouse, changes)
    assert keys_of(warehouse.read(NAME)) == expected
    assert (done.deleted[NAME], done.appended[NAME], warehouse.commits) == (6, 3, 1)


def test_table_counts_as_empty_until_a_change_appends_rows(spark: SparkSession) -> None:
    tables = ChangedTables(ChangingTables())
    assert tables.is_empty(NAME) and tables.appended(NAME) is None
    tables = tables.after([TableChange(NAME, append=records(spark, ("g", 1)))])
    assert not tables.is_empty(NAME) and tables.is_empty(OFFSET_SNAPSHOTS.name)
    assert keys_of(tables.read(NAME)) == [("g", 1)]
