"""The changes that a stage decides, the tables after these changes, and the function that makes them.

A stage decides everything first. Each step reads the tables as the changes of the steps before it will leave them. Then all changes are
made at once, in one fixed order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.runtime.errors import CountsDoNotBalanceError
from jobs.storage.scratch import StagedKeys
from schemas.tables import ALL_TABLES, SUBSCRIPTION_SNAPSHOTS

ORDER = (SUBSCRIPTION_SNAPSHOTS.name, *(name for name in ALL_TABLES if name != SUBSCRIPTION_SNAPSHOTS.name))
"""The tables in the order in which they are changed.

Snapshots are computed from the other landed tables, and new rows are compared with quarantine. Outside a local folder a frame reads the
newest version of a table at the moment it is computed. So snapshots come before their inputs, and quarantine comes last.
"""


class Tables(Protocol):
    """The tables as a step reads them: the warehouse as it is, or ``ChangedTables`` as it will be."""

    def is_empty(self, name: str) -> bool:
        """Return True when nothing was ever written to a table."""

    def read(self, name: str) -> DataFrame:
        """Return the rows of a table."""

    def read_new(self, name: str, consumed: int) -> DataFrame:
        """Return the rows that runs after ``consumed`` wrote."""

    def newest_sequence(self, name: str) -> int:
        """Return the largest ``run_sequence`` of a table that no change concerns, 0 if it has no rows."""

    def materialize(self, name: str, rows: DataFrame) -> DataFrame:
        """Write rows to scratch once and return them read back."""

    def materialize_keys(self, name: str, rows: DataFrame) -> StagedKeys:
        """Do the same for rows that are joined with tables by their keys."""


@dataclass(frozen=True)
class TableChange:
    """Rows of one table to delete and rows to append; nothing has been changed yet.

    Its frames read no stored table that comes earlier in ``ORDER``, unless these rows were written to scratch.

    Attributes:
        delete_keys: values of ``delete_columns``; rows with equal values are deleted, null equals null. None if no row is deleted.
        append: the rows to append, with all columns of the table. None if there are none.
        append_count: the expected number of appended rows; None if it is not known before writing.
    """

    table: str
    delete_keys: DataFrame | None = None
    delete_columns: tuple[str, ...] = ()
    append: DataFrame | None = None
    append_count: int | None = None


@dataclass(frozen=True)
class ChangedTables:
    """Tables as some changes will leave them.

    Attributes:
        tables: as they are.
        changes: in the order in which they were decided: a later one also deletes rows that an earlier one appends.
    """

    tables: Tables
    changes: tuple[TableChange, ...] = ()

    def after(self, changes: Iterable[TableChange]) -> ChangedTables:
        """Return the tables as further changes will leave them."""
        return ChangedTables(self.tables, (*self.changes, *changes))

    def is_empty(self, name: str) -> bool:
        """Return True when nothing was ever written to a table, and nothing will be."""
        return self.tables.is_empty(name) and self.appended(name) is None

    def read(self, name: str) -> DataFrame:
        """Return the rows of a table as the changes will leave it."""
        return self._changed(name, self.tables.read)

    def read_new(self, name: str, consumed: int) -> DataFrame:
        """Return the rows of ``read`` that runs after ``consumed`` wrote, this one included."""
        return self._changed(name, partial(self.tables.read_new, consumed=consumed))

    def newest_sequence(self, name: str) -> int:
        """Return the largest ``run_sequence`` of a table that no change concerns, 0 if it has no rows."""
        return self.tables.newest_sequence(name)

    def _changed(self, name: str, read: Callable[[str], DataFrame]) -> DataFrame:
        of_table = [change for change in self.changes if change.table == name]
        appended = _appended(of_table)
        if appended is not None and self.tables.is_empty(name):
            return appended
        kept = _without(read(name), of_table)
        return kept if appended is None else kept.unionByName(appended)

    def appended(self, name: str) -> DataFrame | None:
        """Return the rows that the changes append to a table; None if there are none."""
        return _appended([change for change in self.changes if change.table == name])

    def materialize(self, name: str, rows: DataFrame) -> DataFrame:
        """Write rows to scratch once and return them read back."""
        return self.tables.materialize(name, rows)

    def materialize_keys(self, name: str, rows: DataFrame) -> StagedKeys:
        """Do the same for rows that are joined with tables by their keys."""
        return self.tables.materialize_keys(name, rows)


def _without(rows: DataFrame, changes: Sequence[TableChange]) -> DataFrame:
    """Return the rows that no change deletes."""
    for change in changes:
        if change.delete_keys is not None:
            keys = change.delete_keys.select(*[F.col(name).alias(f"deleted_{name}") for name in change.delete_columns])
            is_equal = [F.col(name).eqNullSafe(F.col(f"deleted_{name}")) for name in change.delete_columns]
            rows = rows.join(keys, is_equal, "left_anti")
    return rows


def _appended(changes: Sequence[TableChange]) -> DataFrame | None:
    """Return the rows that changes of one table append and no later change deletes; None if there are none."""
    together: DataFrame | None = None
    for number, change in enumerate(changes):
        if change.append is not None:
            rows = _without(change.append.select(*ALL_TABLES[change.table].schema.names), changes[number + 1 :])
            together = rows if together is None else together.unionByName(rows)
    return together


class Writer(Protocol):
    """Changes tables: the warehouse."""

    def is_empty(self, name: str) -> bool:
        """Return True when nothing was ever written to a table."""

    def delete(self, name: str, keys: DataFrame, columns: tuple[str, ...]) -> int:
        """Delete the rows whose columns equal one of the keys; return how many."""

    def append(self, name: str, rows: DataFrame) -> int:
        """Append rows and return how many."""

    def replace(self, name: str, keys: DataFrame, columns: tuple[str, ...], rows: DataFrame) -> tuple[int, int]:
        """Do both, in one commit if it can be; return how many rows were deleted and appended."""


@dataclass(frozen=True)
class Applied:
    """The result of changes.

    Attributes:
        deleted, appended: number of rows by table.
    """

    deleted: Counter[str] = field(default_factory=Counter)
    appended: Counter[str] = field(default_factory=Counter)


def apply_changes(warehouse: Writer, changes: Sequence[TableChange]) -> Applied:
    """Make all changes, table by table in ``ORDER``: for each table first all deletions, then all appended rows in one commit.

    The last deletion is in that commit too, if it can be.

    A run that dies in between leaves versions that no row of ``runs`` names, and the next run restores the tables.

    Args:
        changes: in the order in which they were decided.
    """
    applied = Applied()
    for name in ORDER:
        of_table = [change for change in changes if change.table == name]
        deletions = [(change.delete_keys, change.delete_columns) for change in of_table if change.delete_keys is not None]
        if deletions and warehouse.is_empty(name):
            deletions = []
        appended = _appended(of_table)
        last = deletions.pop() if deletions and appended is not None else None
        for keys, columns in deletions:
            applied.deleted[name] += warehouse.delete(name, keys, columns)
        if appended is not None and last is not None:
            deleted, applied.appended[name] = warehouse.replace(name, *last, appended)
            applied.deleted[name] += deleted
        elif appended is not None:
            applied.appended[name] = warehouse.append(name, appended)
    return applied


def check_balance(what: str, expected: int, found: int) -> None:
    """Check that two counts of the same rows are equal.

    Raises:
        CountsDoNotBalanceError: they are not.
    """
    if expected != found:
        raise CountsDoNotBalanceError(f"land: expected {expected} {what}, found {found}; this is a defect of Evenkeel, please report it")


def check_appended(changes: Iterable[TableChange], applied: Applied) -> None:
    """Check that each table got the expected number of rows.

    Not if that number was not known before, nor if a later change deletes rows that an earlier one appends.

    Raises:
        CountsDoNotBalanceError: one table did not.
    """
    expected: dict[str, int | None] = {}
    for change in changes:
        if change.delete_keys is not None and change.table in expected:
            expected[change.table] = None
        if change.append is not None:
            before = expected.setdefault(change.table, 0)
            expected[change.table] = None if before is None or change.append_count is None else before + change.append_count
    for name, count in expected.items():
        if count is not None:
            check_balance(f"rows for {name}", count, applied.appended[name])
