"""Scratch: rows that a run writes aside, since several tables or queries need them."""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jobs.runtime.locations import SCRATCH, is_path
from jobs.storage.commit_guard import CommitGuard
from jobs.storage.delta_log import row_count
from jobs.storage.hadoop_files import remove_stored

logger = logging.getLogger(__name__)

STAGED_TABLES = "evenkeel_staging_"
FEW_ROWS = 20_000
"""Most rows that a single task takes: two tasks would each take less time than starting one."""
MOST_KEYS_SENT = 50_000
"""Most keys that are sent to every task: some ten megabytes of memory. With more keys the other side of a join is shuffled."""


@dataclass(frozen=True)
class StagedKeys:
    """Rows with a key that were written to scratch, and their number.

    Attributes:
        rows: as they were written, read back.
    """

    rows: DataFrame
    count: int

    def select(self, *columns: str) -> DataFrame:
        """Return some columns, for a join. Few rows are sent to every task, so that the other side is not shuffled.

        Args:
            columns: keys and numbers; large values would take memory in every task.
        """
        chosen = self.rows.select(*columns)
        return F.broadcast(chosen) if self.count <= MOST_KEYS_SENT else chosen

    def distinct(self, *columns: str) -> DataFrame:
        """Return the different values of some columns for a semi-join, as ``select`` does; few rows may be there several times."""
        chosen = self.select(*columns)
        return chosen if self.count <= MOST_KEYS_SENT else chosen.distinct()


def _together(written: DataFrame, count: int | None) -> DataFrame:
    return written.coalesce(1) if count is not None and 0 < count <= FEW_ROWS else written


class Scratch(CommitGuard):
    """The scratch of one run beside the tables of a warehouse."""

    def materialize(self, name: str, rows: DataFrame) -> DataFrame:
        """Write rows to scratch once and return them read back, so that several tables can be filled from one pass.

        If there are none, a local folder gives a frame that Spark's optimizer knows to be empty: what is joined with it is not computed.

        A worker pass is too expensive to repeat for each table. Caching is neither safe against a lost executor nor allowed on serverless
        Spark. Each run has its own folder: a run that has lost its lease, and does not know it yet, still writes to its own.
        """
        return self._materialize(name, rows)[0]

    def materialize_together(self, name: str, rows: DataFrame) -> DataFrame:
        """Do the same; at most ``FEW_ROWS`` come back in one partition, so that joins and aggregates of them alone need no shuffle."""
        written, count = self._materialize(name, rows)
        return _together(written, count)

    def materialize_keys(self, name: str, rows: DataFrame) -> StagedKeys:
        """Do the same for rows that are joined with tables by their keys; return also how many there are."""
        written, count = self._materialize(name, rows)
        return StagedKeys(_together(written, count), written.count() if count is None else count)

    def materialize_any(self, name: str, rows: DataFrame) -> DataFrame | None:
        """Do the same; return None if there are no rows."""
        written, count = self._materialize(name, rows)
        return None if count == 0 or (count is None and written.isEmpty()) else written

    def _materialize(self, name: str, rows: DataFrame) -> tuple[DataFrame, int | None]:
        """Write rows to scratch; return them read back, and their number if it is known without Spark."""
        if not is_path(self.location):
            table = f"{self.location}.{STAGED_TABLES}{self.nonce}_{name}"
            rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable(table)
            return self.spark.table(table), None
        path = self.path(f"{SCRATCH}/{self.nonce}/{name}")
        started = time.monotonic()
        rows.write.mode("overwrite").parquet(path)
        count = None if self.folder is None else row_count((self.folder / SCRATCH / self.nonce / name).glob("*.parquet"))
        logger.debug("scratch %s: %s rows in %.1f s", name, "unknown" if count is None else f"{count:,}", time.monotonic() - started)
        return self._no_rows(rows.schema) if count == 0 else self.spark.read.schema(rows.schema).parquet(path), count

    def clear_staging(self) -> None:
        """Remove the scratch of this run and of dead runs; over Spark Connect scratch in an object store stays.

        Raises:
            LeaseLostError: the scratch may be another run's by now.
        """
        with self.committing():
            if self.folder is not None:
                shutil.rmtree(self.folder / SCRATCH, ignore_errors=True)
            elif is_path(self.location):
                remove_stored(self.spark, self.path(SCRATCH))
            else:
                for row in self.spark.sql(f"SHOW TABLES IN {self.location} LIKE '{STAGED_TABLES}*'").collect():
                    self.spark.sql(f"DROP TABLE IF EXISTS {self.location}.{row['tableName']}")

    def _no_rows(self, schema: StructType) -> DataFrame:
        """Return a frame without rows, which Spark's optimizer knows: no query on it starts a job."""
        return self.spark.createDataFrame(to_arrow_schema(schema).empty_table(), schema)
