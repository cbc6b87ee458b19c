"""Tables of a catalog that does not make a table in one step: Hive's, Glue's and Spark's own.

They first make the folder with Delta's log, then the entry in the catalog. If a run dies in between, the folder stays, and no table can
be made at its path any more.
"""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from jobs.runtime.locations import address
from jobs.storage.sql_literals import quoted

logger = logging.getLogger(__name__)


def make_table(spark: SparkSession, identifier: str, statement: str) -> None:
    """Run a ``CREATE TABLE IF NOT EXISTS``; if an unused table without an entry is there, only make its entry.

    Nothing is removed: the table becomes an external one, at the path that it would have anyway. A table with further commits is not
    changed, and Delta's error is raised.
    """
    try:
        spark.sql(statement)
    except Exception as error:  # the class differs between classic Spark and Connect
        path = _path_left_by_a_killed_run(spark, identifier) if "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION" in str(error) else None
        if path is None:
            raise
        logger.warning("%s: an earlier run made this table and died before the catalog had its entry; making the entry now", identifier)
        spark.sql(f"CREATE TABLE IF NOT EXISTS {identifier} USING delta LOCATION {quoted(path)}")


def _path_left_by_a_killed_run(spark: SparkSession, identifier: str) -> str | None:
    """Return the path of a Delta table without an entry; None if it has more than its first version, or there is none."""
    schema, _, name = identifier.rpartition(".")
    try:
        description = {row[0]: row[1] for row in spark.sql(f"DESCRIBE SCHEMA {schema}").collect()}
        path = f"{address(description['Location'])}/{name}"
        versions = [row["version"] for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()]
    except Exception as error:  # whatever failed here, the caller raises the error of making the table
        logger.debug("could not inspect the path of %s: %s", identifier, error)
        return None
    return path if versions == [0] else None
