"""All writes of Delta tables: create, append, replace, publish, recover.

A run works on the newest versions under the lock and ends with one row in ``runs`` that names the version of every table. Readers use
the newest published row, so they see a run completely or not at all. Before the next run starts, RESTORE undoes the changes of a dead one.
It uses SQL instead of the ``DeltaTable`` API, since only SQL also works over Spark Connect.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.runtime.atomic_file import UNFINISHED
from jobs.runtime.errors import (
    ForeignCommitError,
    NotAWarehouseError,
    WarehouseDamagedError,
    explain,
)
from jobs.runtime.jvm import SPARK_ERRORS
from jobs.runtime.locations import OTHER_ENTRIES, is_path, is_table
from jobs.storage.catalog_tables import make_table
from jobs.storage.commit_guard import STOP_IT
from jobs.storage.hadoop_files import has_stored_files, remove_stored, stored_names
from jobs.storage.scratch import MOST_KEYS_SENT
from jobs.storage.sql_literals import keys_condition
from jobs.storage.table_reader import TableReader
from jobs.storage.table_shape import aligned, create_statement
from schemas.tables import ALL_TABLES, IDENTITY_PROPERTY, OPTIONAL_TABLES, RUNS

logger = logging.getLogger(__name__)

TRANSACTIONS = "evenkeel runs"
MOST_KEYS_NAMED = 1_000
"""Most keys of rows to delete that become literals in the condition of a statement. The table's log keeps the condition."""
CHECK_OF_REPLACED = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"
"""Setting of Delta: whether rows that replace others have to meet the condition by which these were chosen."""


class Warehouse(TableReader):
    """All tables at one location, as one run reads and writes them.

    Attributes:
        run_sequence: number of the run in progress, set by ``jobs.pipeline``; 0 before.
        run_id: its name, also set there; empty before.
        rows_written: number of rows by table that the run has written.
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(spark, location)
        self.run_sequence = 0
        self.run_id = ""
        self.rows_written: dict[str, int] = {}

    # -- creation and recovery

    def ensure_identity(self) -> None:
        """Give a warehouse without an id, from an older release, its id: that of its newest run, else a new one."""
        if self.identity is None:
            newest = self.newest_run()
            identity = (newest.asDict().get("warehouse_id") if newest is not None else None) or uuid.uuid4().hex
            self.alter(RUNS.name, f"SET TBLPROPERTIES ('{IDENTITY_PROPERTY}' = '{identity}')")
            self.identity = identity

    def check_location(self) -> None:
        """Refuse a local folder that has other content; changes nothing.

        Raises:
            NotAWarehouseError: names what was found.
        """
        if self.folder is None:
            return
        try:
            entries = {entry.name for entry in self.folder.iterdir() if not entry.name.startswith(UNFINISHED)}
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise NotAWarehouseError(
                f"warehouse {self.folder}: expected a folder, found a file; name another location with --warehouse"
            ) from None
        except OSError as error:
            raise NotAWarehouseError(
                f"warehouse {self.folder}: cannot be read ({error.strerror}); name another location with --warehouse"
            ) from None
        strange = sorted(entries - {*ALL_TABLES, *OTHER_ENTRIES})
        tables = [name for name in ALL_TABLES if name in entries]
        if strange and not tables:
            raise NotAWarehouseError(
                f"warehouse {self.folder}: expected an empty folder or Evenkeel's tables, found {', '.join(strange[:5])}; "
                "name another location with --warehouse"
            )
        for name in tables:
            if not is_table(self.folder / name) and not self.is_begun_only(self.folder / name):
                raise NotAWarehouseError(
                    f"warehouse {self.folder}: {name} is not a Delta table (no _delta_log); name another location with --warehouse"
                )

    def create(self, optional: Collection[str] = ()) -> None:
        """Make missing tables, ``runs`` last: if it exists, all do.

        Args:
            optional: the optional tables that the run writes.

        Raises:
            NotAWarehouseError: there is no ``runs``, and another program has made one of the other tables.
            WarehouseDamagedError: ``runs`` is missing, but runs have written other tables: a new ``runs`` would undo all their rows.
        """
        if not self.exists():
            known = {name: version for name in ALL_TABLES if name != RUNS.name and (version := self.known_version(name)) is not None}
            for name in known:
                self.contract(name)
            written = [name for name, version in known.items() if version > 0]
            if written:
                location = self.identifier(RUNS.name) if self.folder is None else self.folder / RUNS.name
                raise WarehouseDamagedError(
                    f"{location}: found no commit in the Delta log, although runs have written {', '.join(written[:3])}; restore all "
                    "tables from a copy, or rebuild the warehouse from its captures"
                )
        self._optional = set(optional)
        for name in self.table_names:
            self._make(name)

    def ensure(self, name: str) -> None:
        """Make an optional table in the middle of a run, without rows, if no published run has made it."""
        if name in self.table_names:
            return
        self._optional.add(name)
        self._make(name)
        self._restore(name, self.version(name), 0)  # a dead run may have written to it
        self._expected_versions[name] = self.version(name)

    def _make(self, name: str) -> None:
        if self.folder is None or not self.local_versions(self.folder / name):
            with self.committing():
                self._clear_begun(name)
                make_table(self.spark, self.identifier(name), create_statement(ALL_TABLES[name], self.identifier(name)))

    def _clear_begun(self, name: str) -> None:
        """Remove the rest of a run that died before a table's first commit: Delta would take it for a table, and make none."""
        if self.folder is not None:
            if self.is_begun_only(self.folder / name):
                shutil.rmtree(self.folder / name)
            return
        if not is_path(self.location):
            return
        try:
            if stored_names(self.spark, self.path(name)) and not has_stored_files(self.spark, self.path(name)):
                remove_stored(self.spark, self.path(name))
        except SPARK_ERRORS as error:
            logger.debug("could not list %s: %s", self.path(name), explain(error))

    def recover(self) -> dict[str, int]:
        """Restore every table to the version that the last finished run left; return the new version of each table but ``runs``.

        Raises:
            WarehouseDamagedError: a table is older than the last run left it, or a commit of it is empty.
            WarehouseExchangedError: this is another warehouse than in an earlier call of this run.
        """
        self.check_identity()
        self.identity = self.stored_identity()
        self.refuse_lost(RUNS.name)
        newest = self.newest_run()
        left = dict(newest["table_versions"]) if newest is not None else {}
        self._optional |= left.keys() & OPTIONAL_TABLES.keys()
        if self.folder is not None:  # no row names those that a dead run has made
            self._optional |= {name for name in OPTIONAL_TABLES if self.local_versions(self.folder / name)}
        self._expected_versions = {}
        versions = self.versions()
        for name, version in versions.items():
            expected = left.get(name, 0)
            self.refuse_lost(name, min(version, expected))
            if self._restore(name, version, expected):
                versions[name] += 1  # not read again: a later commit of an interrupted run must not become part of this one
            elif version < expected:
                raise WarehouseDamagedError(
                    f"{name}: found version {version}, the last run left version {expected}; commits are missing: restore the "
                    "folder from a copy, or rebuild the warehouse from its captures"
                )
        self._expected_versions = {**versions, RUNS.name: self.version(RUNS.name)}
        return versions

    def _restore(self, name: str, version: int, expected: int) -> bool:
        """Restore a table to the version that is published, if it has a later one; return whether it had."""
        if version <= expected:
            return False
        logger.warning("%s: version %d was never published, restoring version %d", name, version, expected)
        self.commit(name, partial(self.spark.sql, f"RESTORE TABLE {self.identifier(name)} TO VERSION AS OF {expected}"))
        return True

    # -- writing

    def append(self, name: str, rows: DataFrame) -> int:
        """Append rows to a table and return how many; commits nothing when there are none.

        Raises:
            SchemaMismatchError: the frame's columns are not the table's.
        """
        return self._write(name, aligned(rows, ALL_TABLES[name]).writeTo(self.identifier(name)).append)

    def overwrite(self, name: str, rows: DataFrame) -> int:
        """Replace all rows of a table and return how many it has now.

        Args:
            rows: they may be computed from those of the table.
        """
        if self.is_empty(name):  # an overwrite would ask Delta for the files to replace: two more Spark jobs
            return self.append(name, rows)
        writer = aligned(rows, ALL_TABLES[name]).writeTo(self.identifier(name))
        return self._write(name, partial(writer.overwrite, F.lit(True)))

    def clear(self, name: str) -> None:
        """Delete all rows of a table."""
        self.commit(name, partial(self.spark.sql, f"DELETE FROM {self.identifier(name)}"))

    def close(self, row: DataFrame) -> None:
        """Append the run's row to ``runs``, unless another run has appended one with the same sequence number or a later one.

        A run may be suspended during this commit and lose its lease meanwhile. Appends do not conflict by themselves; this one does
        through an application transaction of Delta, whose number can only increase.

        Raises:
            ForeignCommitError: another run has done so.
        """
        fence = {"txnAppId": TRANSACTIONS, "txnVersion": str(self.run_sequence)}
        if self._write(RUNS.name, aligned(row, RUNS).writeTo(self.identifier(RUNS.name)).options(**fence).append) != 1:
            raise ForeignCommitError(
                f"{RUNS.name}: a run with the number {self.run_sequence} has already ended, by {self.newest_writer(RUNS.name)}; {STOP_IT}"
            )

    def _write(self, name: str, write: Callable[[], object]) -> int:
        info = self.commit(name, write)
        written = int(info["operationMetrics"].get("numOutputRows", 0)) if info is not None else 0
        self.rows_written[name] = self.rows_written.get(name, 0) + written
        return written

    def delete(self, name: str, keys: DataFrame, columns: tuple[str, ...], condition: str = "TRUE") -> int:
        """Delete the rows of a table whose columns equal one of the keys; return how many. Commits nothing if there are none.

        Args:
            keys: these columns, and further ones for the condition.
            condition: further SQL condition on a row ``t`` and its key ``d``. Delta skips files by a literal in it, never by keys.
        """
        if condition == "TRUE":
            named = self._named(keys, columns)
            if named is not None:
                delete = f"DELETE FROM {self.identifier(name)} WHERE {named}"
                info = self.commit(name, partial(self.spark.sql, delete)) if named else None
                return 0 if info is None else int(info["operationMetrics"].get("numDeletedRows", 0))
        keys = keys.distinct()
        count = keys.limit(MOST_KEYS_SENT + 1).count()
        if not count:
            return 0
        # Without the broadcast Delta would shuffle the whole table to find the rows of a few keys.
        metrics = self._merge(name, F.broadcast(keys) if count <= MOST_KEYS_SENT else keys, columns, condition, "DELETE")
        return int(metrics.get("numTargetRowsDeleted", 0))

    def replace(self, name: str, keys: DataFrame, columns: tuple[str, ...], rows: DataFrame) -> tuple[int, int]:
        """Delete the rows of a table whose columns equal one of the keys, and append others; return how many of both.

        With few keys this is one commit. A statement that names the keys needs half the jobs of a MERGE and an append.

        Args:
            rows: with all columns of the table; their keys may be others.
        """
        named = self._named(keys, columns)
        if named is None:
            return self.delete(name, keys.select(*columns), columns), self.append(name, rows)
        if not named:
            return 0, self.append(name, rows)
        writer = aligned(rows, ALL_TABLES[name]).write.format("delta").mode("overwrite").option("replaceWhere", named)
        save = partial(writer.save, self.path(name)) if is_path(self.location) else partial(writer.saveAsTable, self.identifier(name))
        with self.setting(CHECK_OF_REPLACED, "false"):
            info = self.commit(name, save)
        metrics = info["operationMetrics"] if info is not None else {}
        written = int(metrics.get("numOutputRows", 0)) - int(metrics.get("numCopiedRows", 0))
        self.rows_written[name] = self.rows_written.get(name, 0) + written
        return int(metrics.get("numDeletedRows", 0)), written

    @staticmethod
    def _named(keys: DataFrame, columns: tuple[str, ...]) -> str | None:
        """Return the condition that a row has one of some keys, empty without keys; None if they are too many or have no literals."""
        found = keys.select(*columns).limit(MOST_KEYS_NAMED + 1).toArrow()
        if found.num_rows > MOST_KEYS_NAMED:
            return None
        return keys_condition(found) if found.num_rows else ""

    def update(self, name: str, keys: DataFrame, columns: tuple[str, ...], change: str, condition: str = "TRUE") -> int:
        """Change the rows of a table whose columns equal one of the keys; return how many. Commits nothing if there are none.

        Args:
            keys: these columns, each key once, and further ones for the change and the condition.
            change: SQL after SET, of a row ``t`` and its key ``d``.
            condition: as in ``delete``.
        """
        metrics = self._merge(name, keys, columns, condition, f"UPDATE SET {change}")
        return int(metrics.get("numTargetRowsUpdated", 0))

    def _merge(self, name: str, keys: DataFrame, columns: tuple[str, ...], condition: str, what: str) -> dict[str, Any]:
        """Delete or update each row of a table that has a key; return Delta's metrics, empty if it committed nothing."""
        view = "evenkeel_keys"
        keys.createOrReplaceTempView(view)
        is_equal = " AND ".join(f"t.{column} <=> d.{column}" for column in columns)
        merge = f"MERGE INTO {self.identifier(name)} t USING {view} d ON {is_equal} AND {condition} WHEN MATCHED THEN {what}"
        try:
            info = self.commit(name, lambda: self.spark.sql(merge))
            return dict(info["operationMetrics"]) if info is not None else {}
        finally:
            self.spark.catalog.dropTempView(view)

    def replace_view(self, name: str, query: str) -> None:
        """Make the view of a table show the rows of a query.

        Raises:
            LeaseLostError: another run may have changed the view by now.
        """
        with self.committing():
            self.spark.sql(f"CREATE OR REPLACE VIEW {self.identifier(name)}_published AS {query}")
