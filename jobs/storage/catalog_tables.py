"""Tables of a catalog that does not make a table in one step: Hive's, Glue's and Spark's own.

They make the folder with Delta's log first and the entry in the catalog then. A run that dies in between leaves a folder in whose place
no table can be made any more.
"""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from jobs.runtime.locations import address
from jobs.storage.sql_literals import quoted

logger = logging.getLogger(__name__)


def make_table(spark: SparkSession, identifier: str, statement: str) -> None:
    """Run a ``CREATE TABLE IF NOT EXISTS``; a table that lies there without an entry, as it was made, gets its entry instead.

    Nothing is removed: the table is then an external one, at the place where it would be anyway. One that somebody has written to is left
    alone, with Delta's error about it.
    """
    try:
        spark.sql(statement)
    except Exception as error:  # the class differs between classic Spark and Connect
        path = _path_left_by_a_killed_run(spark, identifier) if "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION" in str(error) else None
        if path is None:
            raise
        logger.warning("%s: a run that died has made this table, but not entered it into the catalog; it is entered now", identifier)
        spark.sql(f"CREATE TABLE IF NOT EXISTS {identifier} USING delta LOCATION {quoted(path)}")


def _path_left_by_a_killed_run(spark: SparkSession, identifier: str) -> str | None:
    """Return the place of a Delta table without an entry, None where it has more than its first version or is none."""
    schema, _, name = identifier.rpartition(".")
    try:
        description = {row[0]: row[1] for row in spark.sql(f"DESCRIBE SCHEMA {schema}").collect()}
        path = f"{address(description['Location'])}/{name}"
        versions = [row["version"] for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()]
    except Exception as error:  # whatever is wrong there, what counts is that the table could not be made
        logger.debug("what lies in the place of %s: %s", identifier, error)
        return None
    return path if versions == [0] else None
