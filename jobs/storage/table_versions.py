"""Tables at one location: their names, their versions, and the information in their commits."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from jobs.runtime.errors import NotAWarehouseError, WarehouseDamagedError, explain
from jobs.runtime.jvm import SPARK_ERRORS, is_lasting
from jobs.runtime.locations import LOG, address, is_path, is_shared, local_folder
from jobs.storage.delta_log import local_properties
from schemas.tables import OPTIONAL_TABLES, RUNS, TABLES

logger = logging.getLogger(__name__)

ABSENT = {
    *("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST"),
    *("DELTA_TABLE_ONLY_OPERATION", "DELTA_MISSING_DELTA_TABLE", "DELTA_NOT_A_DELTA_TABLE"),
}
"""Conditions of Spark's and Delta's errors for a name or a path without a table."""


class TableVersions:
    """All tables at one location, which is a local folder, a path in an object store, or a schema of a catalog.

    The logs of a local folder are read without Spark.
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        self.spark = spark
        self.location = location.rstrip("/") or location
        self.folder = local_folder(location)
        self._optional: set[str] = set()

    @property
    def lockable_folder(self) -> Path | None:
        """Return the folder if locks on its files keep every other run out; None if the warehouse needs a lease."""
        return None if self.folder is None or is_shared(self.folder) else self.folder

    @property
    def table_names(self) -> tuple[str, ...]:
        """Return the tables that exist, ``runs`` last. An optional one is named by a row of ``runs``, or this run has made it."""
        return (*(name for name in OPTIONAL_TABLES if name in self._optional), *TABLES)

    def identifier(self, name: str) -> str:
        """Return the SQL name of a table."""
        if not is_path(self.location):
            return f"{self.location}.{name}"
        return f"delta.`{self.path(name)}`"

    def path(self, name: str) -> str:
        """Return the path of a table; not for a schema of a catalog."""
        return address(str(self.folder / name)) if self.folder is not None else f"{self.location}/{name}"

    def version(self, name: str) -> int:
        """Return the newest version of a table: from the file names in its log if that is a local folder."""
        if self.folder is None:
            return int(self.history(name)["version"])
        versions = self.local_versions(self.folder / name)
        if not versions:
            raise WarehouseDamagedError(
                f"{self.folder / name}: the Delta log has no commit; restore the folder from a copy, or rebuild the warehouse"
            )
        return max(versions)

    @staticmethod
    def local_versions(table: Path) -> list[int]:
        """Return the versions with a commit in the log of a table in a local folder."""
        return [int(entry.stem) for entry in (table / LOG).glob("*.json") if entry.stem.isdigit()]

    def known_version(self, name: str) -> int | None:
        """Return the newest version of a table, None if there is no table; for cases in which ``runs`` does not have it."""
        if self.folder is not None:
            return max(self.local_versions(self.folder / name), default=None)
        try:
            return self.version(name)
        except PySparkException as error:
            if error.getCondition() not in ABSENT:
                raise
            logger.debug("no table %s at %s: %s", name, self.location, error)
            return None

    def versions(self) -> dict[str, int]:
        """Return the newest version of every table but ``runs``."""
        return {name: self.version(name) for name in self.table_names if name != RUNS.name}

    def exists(self) -> bool:
        """Return whether the tables exist.

        Raises:
            NotAWarehouseError: the catalog cannot read the name of the schema, or Spark cannot use the file system of the path.
        """
        if self.folder is not None:
            return bool(self.local_versions(self.folder / RUNS.name))  # a run that is killed while making it leaves a log without a commit
        try:
            if is_path(self.location):
                return self.known_version(RUNS.name) is not None
            return self.spark.catalog.tableExists(self.identifier(RUNS.name))
        except SPARK_ERRORS as error:
            if not is_lasting(error):
                raise
            raise NotAWarehouseError(f"warehouse {self.location}: {explain(error)}; name another location with --warehouse") from error

    def history(self, name: str) -> Row:
        """Return the newest entry of a table's history."""
        return self.spark.sql(f"DESCRIBE HISTORY {self.identifier(name)} LIMIT 1").collect()[0]

    def commit_info(self, name: str) -> dict[str, Any]:
        """Return the information in the newest commit of a table: of a run at least ``operationMetrics`` and ``userMetadata``.

        Empty if the commit has none, or cannot be read: another program has written it, or is about to.
        """
        if self.folder is None:
            return self.history(name).asDict()
        log = self.folder / name / LOG / f"{self.version(name):020}.json"
        try:
            actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            return dict(next((action["commitInfo"] for action in actions if "commitInfo" in action), {}))
        except (ValueError, TypeError) as error:
            logger.debug("%s cannot be read: %s", log, error)
            return {}

    def newest_writer(self, name: str) -> str:
        """Return the writer of the newest version of a table."""
        return self.commit_info(name).get("userMetadata") or "an unknown writer"

    def properties(self, name: str) -> dict[str, str]:
        """Return the properties of a table; without Spark if its log is in a local folder."""
        if self.folder is not None:
            return local_properties(self.folder / name / LOG, self.version(name))
        return {row["key"]: row["value"] for row in self.spark.sql(f"SHOW TBLPROPERTIES {self.identifier(name)}").collect()}

    @staticmethod
    def is_begun_only(table: Path) -> bool:
        """Return whether a table's folder has no file, as after a run that died before the table's first commit.

        Files whose name begins with a dot do not count: they are checksums, or parts of unfinished commits.
        """
        return table.is_dir() and all(path.is_dir() or path.name.startswith(".") for path in table.rglob("*"))
