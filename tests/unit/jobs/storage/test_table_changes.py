"""What has been decided is done in one order, and the counts of rows have to balance; no test here needs a JVM."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from jobs.runtime.errors import CountsDoNotBalanceError
from jobs.storage.table_changes import Applied, TableChange, apply_changes, check_appended, check_balance
from schemas.tables import (
    GROUP_RECORDS,
    OFFSET_SNAPSHOTS,
    QUARANTINE,
    SOLUTIONS,
    SUBSCRIPTION_SNAPSHOTS,
    TABLES,
    TOPIC_SNAPSHOTS,
    TableSpec,
)


class Rows:
    """A frame of which only the name matters."""

    def __init__(self, name: str) -> None:
        self.name = name

    def select(self, *columns: Any) -> Rows:
        return self

    def unionByName(self, other: Rows) -> Rows:
        return Rows(f"{self.name}+{other.name}")


def rows(name: str) -> DataFrame:
    return cast(DataFrame, Rows(name))


class Recorder:
    """Notes what is asked of a warehouse, and answers with fixed counts."""

    def __init__(self, *empty: TableSpec) -> None:
        self.empty = {spec.name for spec in empty}
        self.calls: list[tuple[str, ...]] = []

    def is_empty(self, name: str) -> bool:
        return name in self.empty

    def delete(self, name: str, keys: DataFrame, columns: tuple[str, ...]) -> int:
        self.calls.append(("delete", name, cast(Rows, keys).name, *columns))
        return 2

    def append(self, name: str, rows: DataFrame) -> int:
        self.calls.append(("append", name, cast(Rows, rows).name))
        return 3

    def replace(self, name: str, keys: DataFrame, columns: tuple[str, ...], rows: DataFrame) -> tuple[int, int]:
        self.calls.append(("replace", name, cast(Rows, keys).name, *columns, cast(Rows, rows).name))
        return 2, 3


def coming(spec: TableSpec, name: str, count: int | None = None) -> TableChange:
    return TableChange(spec.name, append=rows(name), append_count=count)


def going(spec: TableSpec, name: str, *columns: str) -> TableChange:
    return TableChange(spec.name, rows(name), columns)


def test_tables_are_changed_in_one_order_whatever_was_decided_first() -> None:
    """Snapshots before what they are worked out of, quarantine last; what goes from a table and what comes is one commit."""
    recorder = Recorder()
    changes = [
        coming(QUARANTINE, "bad"),
        coming(OFFSET_SNAPSHOTS, "new"),
        going(SOLUTIONS, "results", "group_id"),
        coming(TOPIC_SNAPSHOTS, "looks"),
        coming(GROUP_RECORDS, "records"),
        coming(QUARANTINE, "lost"),
        TableChange(SUBSCRIPTION_SNAPSHOTS.name, rows("old"), ("group_id", "position"), rows("now")),
    ]
    applied = apply_changes(recorder, changes)
    assert recorder.calls == [
        ("replace", "subscription_snapshots", "old", "group_id", "position", "now"),
        ("append", "group_records", "records"),
        ("append", "topic_snapshots", "looks"),
        ("append", "offset_snapshots", "new"),
        ("delete", "solutions", "results", "group_id"),
        ("append", "quarantine", "bad+lost"),
    ]
    assert applied.deleted == {"subscription_snapshots": 2, "solutions": 2}
    assert applied.appended == dict.fromkeys(
        ("subscription_snapshots", "group_records", "topic_snapshots", "offset_snapshots", "quarantine"), 3
    )


def test_deletions_of_a_table_are_applied_before_its_appends() -> None:
    recorder = Recorder()
    apply_changes(recorder, [going(GROUP_RECORDS, "a", "group_id"), going(GROUP_RECORDS, "b", "offset"), coming(GROUP_RECORDS, "c")])
    assert [call[:3] for call in recorder.calls] == [
        ("delete", "group_records", "a"),
        ("replace", "group_records", "b"),
    ]


def test_tables_that_are_unchanged_or_empty_are_not_touched() -> None:
    recorder = Recorder(SOLUTIONS)
    applied = apply_changes(recorder, [going(SOLUTIONS, "results", "group_id")])
    assert (recorder.calls, dict(applied.deleted), dict(applied.appended)) == ([], {}, {})


@pytest.mark.parametrize("table", TABLES)
def test_changes_of_every_table_are_applied(table: str) -> None:
    recorder = Recorder()
    apply_changes(recorder, [TableChange(table, append=rows("r"))])
    assert recorder.calls == [("append", table, "r")]


# -- the balance of counts


def applied(**appended: int) -> Applied:
    found = Applied()
    found.appended.update(appended)
    return found


def test_counts_that_balance() -> None:
    check_balance("records read", 3, 3)
    changes = [coming(QUARANTINE, "bad", 2), coming(QUARANTINE, "lost", 1), coming(GROUP_RECORDS, "records", 4)]
    check_appended(changes, applied(quarantine=3, group_records=4))


def test_a_record_that_is_unaccounted_for_ends_the_run() -> None:
    with pytest.raises(CountsDoNotBalanceError, match="land: expected 3 records read, found 2;"):
        check_balance("records read", 3, 2)


@pytest.mark.parametrize("written", [2, 4])
def test_a_row_too_few_or_too_many_ends_the_run(written: int) -> None:
    changes = [coming(GROUP_RECORDS, "records", 1), coming(QUARANTINE, "bad", 2), coming(QUARANTINE, "lost", 1)]
    with pytest.raises(CountsDoNotBalanceError, match=f"expected 3 rows for quarantine, found {written};"):
        check_appended(changes, applied(group_records=1, quarantine=written))


def test_unknown_counts_of_appended_rows_are_not_checked() -> None:
    """As of snapshots that are folded while they are written, and of rows that a later change takes away again."""
    check_appended([coming(GROUP_RECORDS, "known", 1), coming(GROUP_RECORDS, "unknown")], applied(group_records=7))
    moved, again = coming(GROUP_RECORDS, "moved", 2), TableChange(GROUP_RECORDS.name, rows("k"), ("offset",), rows("again"), 1)
    check_appended([moved, again], applied(group_records=2))
    with pytest.raises(CountsDoNotBalanceError):
        check_appended([again, moved], applied(group_records=2))
