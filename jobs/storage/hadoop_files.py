"""Files of any file system that Hadoop supports, through Spark's JVM.

Over Spark Connect there is no JVM to call, and a platform may forbid it: every function then raises one of ``SPARK_ERRORS``, as it does
when the store refuses.
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
    """Return the names in a folder with the times of their last change; nothing if there is no such folder."""
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
    """Return whether there is a file anywhere below a folder; one whose name begins with a dot does not count."""
    system, path = _found(spark, folder)
    if not system.exists(path):
        return False
    files = system.listFiles(path, True)
    while files.hasNext():
        if not files.next().getPath().getName().startswith("."):
            return True
    return False


def store_once(spark: SparkSession, location: str) -> bool:
    """Make an empty file; return False if it exists already.

    If several processes try at the same moment, one succeeds, as far as the store supports that: HDFS, Azure and Google do, and S3 with the
    conditional writes that Hadoop has since 3.4.2.
    """
    system, path = _found(spark, location)
    builder = system.createFile(path)
    builder.overwrite(False).recursive().opt("fs.option.create.conditional.overwrite", True)
    try:
        builder.build().close()
    except SPARK_ERRORS:  # each file system has its own error class
        if system.exists(path):
            return False
        raise
    return True


def remove_stored(spark: SparkSession, location: str) -> None:
    """Remove a file, or a folder with its content; logs a failure."""
    try:
        system, path = _found(spark, location)
        system.delete(path, True)
    except SPARK_ERRORS as error:
        logger.info("could not remove %s: %s", location, explain(error))


def _found(spark: SparkSession, location: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm  # has any class of Java
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path
