"""The tables of a local warehouse as its newest published run left them, read without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import and_
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from jobs.runtime.contract import contract_version
from jobs.runtime.errors import NotAWarehouseError, WarehouseDamagedError
from jobs.runtime.locations import LOG, is_warehouse, local_folder, masked
from jobs.runtime.lost_commits import refuse_lost_commit
from schemas.vocabulary import RunStatus

StoredRow = dict[str, Any]
"""Column -> value: times are aware UTC, nested columns are lists and dictionaries, maps are lists of pairs."""

Filter = Mapping[str, Collection[Any]]
"""Column -> the values that it may have; rows have to match in all of them."""

_ENCODED = re.compile("%[0-9A-Fa-f]{2}")
_READ_ERRORS = (DeltaError, OSError, pa.ArrowException)
"""What deltalake and pyarrow raise where a log or a file is missing or damaged."""


@dataclass(frozen=True)
class PublishedTables:
    """A warehouse at the versions that its newest published run names. A run in progress changes nothing here.

    Attributes:
        folder: where the tables are.
        run_id: the run that published them.
        versions: table -> version.
    """

    folder: Path
    run_id: str
    versions: Mapping[str, int]
    _opened: dict[str, ds.Dataset] = field(default_factory=dict, init=False, repr=False, compare=False)

    def rows(self, table: str, columns: Sequence[str], wanted: Filter | None = None, since: datetime | None = None) -> list[StoredRow]:
        """Return rows of a table, in no order; none of a table that the run did not know.

        Args:
            columns: what each row has. A column that an older contract lacks is None.
            wanted: pushed down, so that files and row groups without such values are not read.
            since: the earliest ``observed_at``, pushed down too; None for all times.

        Raises:
            WarehouseDamagedError: the log or a file of the table cannot be read.
        """
        try:
            table_of_rows = self._read(table, columns, wanted, since)
            found: list[StoredRow] = table_of_rows.to_pylist() if table_of_rows is not None else []
        except _READ_ERRORS as error:
            raise _damaged(self.folder, table, error) from error
        absent = dict.fromkeys(set(columns).difference(found[0])) if found else {}
        return [{**row, **absent} for row in found] if absent else found

    def counts(self, table: str, columns: Sequence[str], wanted: Filter | None = None) -> dict[tuple[Any, ...], int]:
        """Return how many rows have each combination of values of these columns. No row becomes a Python object.

        Raises:
            WarehouseDamagedError: the log or a file of the table cannot be read.
        """
        try:
            read = self._read(table, columns, wanted)
            counted = read.group_by(list(columns)).aggregate([([], "count_all")]).to_pylist() if read is not None else []
        except _READ_ERRORS as error:
            raise _damaged(self.folder, table, error) from error
        return {tuple(row[name] for name in columns): row["count_all"] for row in counted}

    def newest(
        self,
        table: str,
        key: Sequence[str],
        columns: Sequence[str],
        wanted: Filter | None = None,
        until: datetime | None = None,
        sums: Sequence[str] = (),
        order: str = "position",
    ) -> list[StoredRow]:
        """Return of each combination of values of the key the row that is last in an order, in no order.

        Each has the key, these columns, that of the order, and in ``row_count`` the number of rows with this key. Only these rows become
        Python objects.

        Args:
            until: the latest ``observed_at``, pushed down as ``wanted`` is; None for all times.
            order: the column whose largest value is last.
            sums: columns whose sum over all rows with the key each row has in ``<name>_sum``; None where no row knows the value.

        Raises:
            WarehouseDamagedError: the log or a file of the table cannot be read.
        """
        try:
            read = self._read(table, list(dict.fromkeys((*key, *columns, *sums, order))), wanted, until=until)
            if read is None or not read.num_rows:
                return []
            ordered = read.sort_by(order)
            summed = [name for name in sums if name in ordered.column_names]
            numbered = ordered.select([*key, *summed]).append_column("row", pa.array(range(ordered.num_rows)))
            last = numbered.group_by(list(key)).aggregate([("row", "max"), ("row", "count"), *((name, "sum") for name in summed)])
            found = ordered.take(last["row_max"])
            for name in ("row_count", *(f"{name}_sum" for name in summed)):
                found = found.append_column(name, last[name])
            rows = found.to_pylist()
        except _READ_ERRORS as error:
            raise _damaged(self.folder, table, error) from error
        absent = dict.fromkeys({*columns, *(f"{name}_sum" for name in sums)}.difference(rows[0]))
        return [{**row, **absent} for row in rows]

    def latest(self, table: str, key: str, column: str, wanted: Filter | None = None, *, since: datetime | None = None) -> dict[Any, Any]:
        """Return of each value of one column the largest value of another; nothing of a table that the run did not know.

        Args:
            since: the earliest ``observed_at``, pushed down as ``wanted`` is; None for all times.

        Raises:
            WarehouseDamagedError: the log or a file of the table cannot be read.
        """
        try:
            read = self._read(table, (key, column), wanted, since)
            found = read.group_by([key]).aggregate([(column, "max")]).to_pylist() if read is not None else []
        except _READ_ERRORS as error:
            raise _damaged(self.folder, table, error) from error
        return {row[key]: row[f"{column}_max"] for row in found if row[f"{column}_max"] is not None}

    def _read(
        self, table: str, columns: Sequence[str], wanted: Filter | None, since: datetime | None = None, until: datetime | None = None
    ) -> pa.Table | None:
        """Return the columns that the table has; None of a table that the run did not know."""
        if table not in self.versions:
            return None
        dataset = self._opened.get(table)
        if dataset is None:
            refuse_lost_commit(self.folder / table, self.versions[table])
            with _opened_log(self.folder / table, self.versions[table]) as log:
                dataset = _dataset_of(self.folder / table, log)
            self._opened[table] = dataset
        known = [name for name in columns if name in dataset.schema.names]
        return dataset.to_table(columns=known, filter=_expression(wanted or {}, since, until))


def open_published(location: str) -> PublishedTables:
    """Return the tables of a warehouse as its newest published run left them.

    Args:
        location: as ``--warehouse`` names it.

    Raises:
        NotAWarehouseError: it is no local folder, has no tables, nothing was published yet, or a newer release made it.
        WarehouseDamagedError: the table ``runs`` cannot be read.
    """
    name, folder = masked(location), local_folder(location)
    if folder is None:
        raise NotAWarehouseError(f"warehouse {name}: expected a local folder, since it is read without Spark; copy the tables into one")
    if not is_warehouse(folder):
        raise NotAWarehouseError(f"warehouse {name}: no tables here; land captures first, or name another with --warehouse")
    try:
        with _opened_log(folder / "runs") as runs:
            refuse_lost_commit(folder / "runs", runs.version())
            names = [field.name for field in runs.schema().fields]
            contract_version(name, "runs", f"delta.`{folder / 'runs'}`", runs.metadata().configuration, lambda: names)
            dataset = _dataset_of(folder / "runs", runs)
        columns = ["run_id", "run_sequence", "finished_at", "table_versions"]
        published = dataset.to_table(columns=columns, filter=_expression({"status": [str(RunStatus.PUBLISHED)]}))
    except _READ_ERRORS as error:
        raise _damaged(folder, "runs", error) from error
    if not published.num_rows:
        raise NotAWarehouseError(f"warehouse {name}: nothing is published yet; run first")
    newest = max(published.to_pylist(), key=lambda row: (row["run_sequence"], row["finished_at"]))
    return PublishedTables(folder, newest["run_id"], dict(newest["table_versions"]))


@contextmanager
def _opened_log(folder: Path, version: int | None = None) -> Iterator[DeltaTable]:
    """Open the log of a table; the newest version without a number. Its rows are not in reach of what is returned: see ``_dataset_of``.

    deltalake follows links and then decodes ``%20`` in a path, so that it looks into another folder. Such a table gets a path without it,
    in which only the log is a link.
    """
    if _ENCODED.search(os.path.realpath(folder)) is None:
        yield DeltaTable(folder, version=version)
        return
    with TemporaryDirectory() as stand_in:
        (Path(stand_in) / LOG).symlink_to(folder.absolute() / LOG)
        yield DeltaTable(stand_in, version=version)


def _dataset_of(folder: Path, table: DeltaTable) -> ds.Dataset:
    """Return a table's rows, read by pyarrow's own file system.

    That of deltalake calls Python in pyarrow's threads. Where such a thread is still at it when Python ends, the process aborts: 1 of 16
    on a busy machine, with exit code 134 after the answer was printed.
    """
    return table.to_pyarrow_dataset(filesystem=SubTreeFileSystem(str(folder), LocalFileSystem()))


def _expression(wanted: Filter, since: datetime | None = None, until: datetime | None = None) -> ds.Expression | None:
    """Return a filter as pyarrow takes it; None for all rows."""
    # Of no values pyarrow does not know the type, and refuses to compare them with texts.
    tests = [ds.field(name).isin(list(values)) if values else ds.scalar(False) for name, values in wanted.items()]
    if since is not None:
        tests.append(ds.field("observed_at") >= since)
    if until is not None:
        tests.append(ds.field("observed_at") <= until)
    return reduce(and_, tests) if tests else None


def _damaged(folder: Path, table: str, error: Exception) -> WarehouseDamagedError:
    reason = " ".join(str(error).split())[:300]
    return WarehouseDamagedError(f"warehouse {folder}: table {table} cannot be read ({reason}); `verify` names what is damaged")
