"""Tables as a run or a reader sees them: the newest versions, or the published ones."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.runtime.contract import contract_version
from jobs.runtime.errors import NotAWarehouseError, WarehouseDamagedError
from jobs.runtime.locations import LOG, address
from jobs.runtime.lost_commits import refuse_lost_commit
from jobs.storage.delta_log import files_of, newest_sequence, row_count
from jobs.storage.scratch import Scratch
from jobs.storage.table_shape import current_columns
from schemas.tables import ALL_TABLES, OPTIONAL_TABLES, RUNS
from schemas.vocabulary import RunStatus


class TableReader(Scratch):
    """The tables at one location, to be read."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(spark, location)
        self._published: dict[str, int] = {}
        self._rows: dict[str, tuple[int, DataFrame]] = {}
        self._newest_runs: dict[RunStatus | None, tuple[int | None, Row | None]] = {}

    def read(self, name: str) -> DataFrame:
        """Return the rows of a table: the published ones for a reader; inside a run the newest ones, with the run's own."""
        published = self._published.get(name)
        if self.folder is None:
            return self._read_by_delta(name, published)
        version = self._version_to_read(name)
        known, rows = self._rows.get(name, (-1, None))
        if rows is None or known != version:
            rows = self._read_files(name, version)
            self._rows[name] = (version, rows)
        return rows

    def read_new(self, name: str, consumed: int) -> DataFrame:
        """Return the rows that runs after ``consumed`` wrote, from the files that have any."""
        if self.folder is None or name in self._published:
            rows = self.read(name)
        else:
            rows = self._read_files(name, self.version(name), consumed)
        return rows.where(F.col("run_sequence") > consumed)

    def count(self, name: str) -> int:
        """Return the number of rows that ``read`` returns; costs no Spark job in a local folder."""
        files = self._files(name)
        return self.read(name).count() if files is None else row_count(files)

    def count_new(self, name: str, consumed: int) -> int:
        """Return the number of rows in the files that ``read_new`` reads; costs no Spark job in a local folder."""
        files = self._files(name, consumed)
        return self.read_new(name, consumed).count() if files is None else row_count(files)

    def newest_sequence(self, name: str) -> int:
        """Return the largest ``run_sequence`` of the rows that ``read`` returns, 0 if there are none; costs no job in a local folder."""
        newest = None if self.folder is None else newest_sequence(self._log(name), self._version_to_read(name))
        if newest is None:
            (row,) = self.read(name).agg(F.coalesce(F.max("run_sequence"), F.lit(0)).alias("newest")).collect()
            newest = row["newest"]
        return newest

    def _files(self, name: str, newer_than: int | None = None) -> list[Path] | None:
        """Return the files of the rows that ``read`` returns; None if they are not known without Spark."""
        return None if self.folder is None else files_of(self._log(name), self._version_to_read(name), newer_than)

    def _log(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / name / LOG

    def _version_to_read(self, name: str) -> int:
        version = self._published.get(name)
        return self.version(name) if version is None else version

    def stored_schema(self, name: str) -> StructType:
        """Return the columns that a table has; an older release may have made it with fewer than ``read`` returns."""
        return self.spark.table(self.identifier(name)).schema

    def contract(self, name: str) -> int:
        """Return the contract version of a table.

        Raises:
            NotAWarehouseError: it is newer than that of this release, or no number, or the table is of another program.
        """
        return contract_version(
            self.location, name, self.identifier(name), self.properties(name), lambda: set(self.stored_schema(name).names)
        )

    def _read_by_delta(self, name: str, version: int | None) -> DataFrame:
        at = "" if version is None else f" VERSION AS OF {version}"
        return current_columns(self.spark.sql(f"SELECT * FROM {self.identifier(name)}{at}"), ALL_TABLES[name])

    def _read_files(self, name: str, version: int, newer_than: int | None = None) -> DataFrame:
        """Return the rows of a table in a local folder from the files that its log names.

        Delta would list them again for each query on the table, with three jobs: a third of the jobs of a run.

        Args:
            newer_than: leave out files without rows of later runs; None for all files.
        """
        files = files_of(self._log(name), version, newer_than)
        spec = ALL_TABLES[name]
        if files is None:
            return self._read_by_delta(name, version)
        if not files:
            return self._no_rows(spec.schema)
        reader = self.spark.read.schema(spec.stored_schema).option("basePath", self.path(name))
        return current_columns(reader.parquet(*map(address, sorted(map(str, files)))), spec)

    def read_published(self) -> Row:
        """Make ``read`` return the rows of the newest published run, also while another run writes; return the row of that run.

        Raises:
            NotAWarehouseError: nothing is published yet.
            WarehouseDamagedError: a commit that is read is empty.
        """
        self.refuse_lost(RUNS.name)
        newest = self.newest_run(RunStatus.PUBLISHED)
        if newest is None:
            raise NotAWarehouseError(f"warehouse {self.location}: nothing is published yet; use run or land first")
        versions = dict(newest["table_versions"])  # without tables of a later release, which readers see empty until the next run
        self._optional = versions.keys() & OPTIONAL_TABLES.keys()
        published = {name: versions.get(name, 0) for name in self.table_names if name != RUNS.name}
        for name, version in published.items():
            self.refuse_lost(name, version)
        self._published = published
        return newest

    def refuse_lost(self, name: str, version: int | None = None) -> None:
        """Refuse a table in a local folder if a commit up to a version is empty, and needed; None for the newest version.

        Raises:
            WarehouseDamagedError: naming the commit.
        """
        if self.folder is not None:
            refuse_lost_commit(self.folder / name, self.version(name) if version is None else version)

    def read_before(self, name: str, run_sequence: int) -> DataFrame | None:
        """Return the rows of a table that were published before a run; None if nothing was.

        They can be read until VACUUM removes their files.
        """
        is_earlier = (F.col("status") == str(RunStatus.PUBLISHED)) & (F.col("run_sequence") < run_sequence)
        runs = self.read(RUNS.name).where(is_earlier).orderBy(F.desc("run_sequence")).limit(1)
        for row in runs.select(F.col("table_versions")[name].alias("version")).where("version IS NOT NULL").collect():
            return self._read_by_delta(name, row["version"]) if self.folder is None else self._read_files(name, row["version"])
        return None

    def is_empty(self, name: str) -> bool:
        """Return True when nothing was ever written to a table, or it does not exist; costs no Spark job on a local file system."""
        return name not in self.table_names or self.version(name) == 0

    def newest_run(self, status: RunStatus | None = None) -> Row | None:
        """Return the newest row of ``runs``, or the newest with a status; None if there is none.

        Raises:
            WarehouseDamagedError: the row is of a run on another warehouse, so that its versions are not those of these tables.
        """
        if self.is_empty(RUNS.name):
            return None
        version = None if self.folder is None else self.version(RUNS.name)
        known, row = self._newest_runs.get(status, (None, None))
        if version is None or version != known:
            runs = self.read(RUNS.name)
            wanted = runs if status is None else runs.where(F.col("status") == str(status))
            row = next(iter(wanted.orderBy(F.desc("run_sequence"), F.desc("finished_at")).limit(1).collect()), None)
            self._newest_runs[status] = version, row
        if row is not None:
            self._check_row(row["run_id"], row["warehouse_id"])
        return row

    def _check_row(self, run_id: str, named: str | None) -> None:
        identity = self.identity or self.stored_identity()
        if None not in (named, identity) and named != identity:
            raise WarehouseDamagedError(
                f"{self.location}: found a row in {RUNS.name} of run {run_id} on warehouse {named}, expected only runs on this one, "
                f"{identity}; restore all tables from a copy, or rebuild the warehouse from its captures"
            )

    def run_named(self, run_id: str) -> Row | None:
        """Return the published row of a run id, None when there is none."""
        if self.is_empty(RUNS.name):
            return None
        rows = self.read(RUNS.name).where((F.col("run_id") == run_id) & (F.col("status") == str(RunStatus.PUBLISHED))).limit(1).collect()
        return rows[0] if rows else None
