"""Files of any file system that Hadoop knows, asked of Spark's JVM.

Over Spark Connect there is no JVM to ask, and a platform may keep it to itself: every function then raises one of ``SPARK_ERRORS``, as it
does when the store refuses.
"""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import SparkSession

from jobs.runtime.errors import explain
from jobs.runtime.jvm import SPARK_ERRORS

logger = logging.getLogger(__name__)


def stored_names(spark: SparkSession, folder: str) -> dict[str, datetime]:
    """Return what lies in a folder, and since when; nothing where there is no such folder."""
    system, path = _found(spark, folder)
    try:
        found = system.listStatus(path)
    except SPARK_ERRORS:
        if system.exists(path):
            raise
        return {}
    return {status.getPath().getName(): _moment(status.getModificationTime()) for status in found}


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)


def has_stored_files(spark: SparkSession, folder: str) -> bool:
    """Return whether a file lies anywhere below a folder; one with a dot in front does not count."""
    system, path = _found(spark, folder)
    if not system.exists(path):
        return False
    files = system.listFiles(path, True)
    while files.hasNext():
        if not files.next().getPath().getName().startswith("."):
            return True
    return False


def store_once(spark: SparkSession, location: str) -> bool:
    """Make an empty file; return False when there is one already, made by whomever.

    Of several who try at the same moment one succeeds where the store can tell them apart: HDFS, Azure and Google do, and S3 does with
    the conditional writes that Hadoop has since 3.4.2.
    """
    system, path = _found(spark, location)
    builder = system.createFile(path)
    builder.overwrite(False).recursive().opt("fs.option.create.conditional.overwrite", True)
    try:
        builder.build().close()
    except SPARK_ERRORS:  # each file system has a class of its own for it
        if system.exists(path):
            return False
        raise
    return True


def remove_stored(spark: SparkSession, location: str) -> None:
    """Remove a file, or a folder and what is in it; says so where it cannot."""
    try:
        system, path = _found(spark, location)
        system.delete(path, True)
    except SPARK_ERRORS as error:
        logger.info("%s stays: %s", location, explain(error))


def _found(spark: SparkSession, location: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm  # has whatever Java has
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path
