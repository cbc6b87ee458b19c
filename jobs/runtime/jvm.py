"""Spark's JVM: what it raises, what it is, and what it has to be told where it runs beside this process."""

from __future__ import annotations

import codecs
import logging
import os
import re
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, is_remote

logger = logging.getLogger(__name__)

try:
    from py4j.protocol import Py4JError
except ImportError:  # Spark Connect does without
    SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
else:
    SPARK_ERRORS = (PySparkException, Py4JError)
"""What Spark raises; the second where PySpark has no class for what happened in the JVM, such as a full disk, or where the JVM is gone."""
STORAGE_ERRORS: tuple[type[Exception], ...] = (*SPARK_ERRORS, OSError)
"""What reading or writing a store can raise, through Spark or without it."""
_LOCAL_WITHOUT_RETRIES = re.compile(r"local(?:\[([0-9]+|\*)\])?")
"""Local masters with no number of tries; no setting adds one."""
UMASK = "fs.permissions.umask-mode"


def setting(spark: SparkSession, key: str) -> str:
    """Return the value of one of the session's settings, empty where it has none."""
    return spark.conf.get(key, "") or ""


def advice_on_master(master: str) -> str | None:
    """Return what to choose in place of a local master on which nothing is tried again; None for any other.

    >>> advice_on_master("local[2]")
    'master local[2] gives up when one worker is killed, and cannot tell which group it was at; local[2,4] tries again'
    >>> advice_on_master("local[*,4]"), advice_on_master("yarn")
    (None, None)
    """
    match = _LOCAL_WITHOUT_RETRIES.fullmatch(master)
    if match is None:
        return None
    return (
        f"master {master} gives up when one worker is killed, and cannot tell which group it was at; local[{match[1] or 1},4] tries again"
    )


def jvm_pid(spark: SparkSession) -> int | None:
    """Return the process id of the session's JVM; None over Spark Connect, where it is another machine's."""
    try:
        jvm: Any = spark._jvm  # has whatever Java has
        return int(jvm.java.lang.ProcessHandle.current().pid())
    except PySparkException:
        return None


def jvm_encoding(spark: SparkSession) -> str | None:
    """Return in which encoding the session's JVM writes the names of files; None over Spark Connect, where it is another machine's."""
    try:
        jvm: Any = spark._jvm  # has whatever Java has
        return str(jvm.java.lang.System.getProperty("sun.jnu.encoding"))
    except PySparkException:
        return None


def jvm_versions(spark: SparkSession) -> dict[str, str]:
    """Return the versions of the driver's Java and Delta; nothing over Spark Connect, where they are another machine's.

    Without Delta's where a platform brings a Delta of its own that does not tell it.
    """
    try:
        jvm: Any = spark._jvm  # has whatever Java has
    except PySparkException:
        return {}
    versions = {"java": str(jvm.java.lang.System.getProperty("java.version"))}
    with suppress(TypeError):  # what Py4J raises where there is no such class
        versions["delta"] = str(jvm.io.delta.package.VERSION())
    return versions


def is_utf8(encoding: str) -> bool:
    """Return whether this name, of Java's or Python's, means UTF-8.

    >>> is_utf8("UTF-8"), is_utf8("utf8"), is_utf8("ANSI_X3.4-1968"), is_utf8("unheard-of")
    (True, True, False, False)
    """
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False


def use_own_scheduler_pool(spark: SparkSession) -> None:
    """Give this thread's jobs the next slot that gets free, before the tasks that wait already; over Spark Connect they wait behind them.

    Takes effect where ``spark.scheduler.mode`` is FAIR: then each pool has its turn, and this thread's is one of its own.
    """
    try:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"evenkeel-{threading.get_ident()}")
    except SPARK_ERRORS as error:
        logger.debug("no pool of its own: %s", error)


def mend_interrupt(spark: SparkSession) -> None:
    """Have Ctrl-C end the running jobs and raise ``KeyboardInterrupt``, where PySpark has taken that signal for the same.

    PySpark's own handler asks the JVM on the connection of the call that it interrupts. That fails, so that the jobs go on, and the call
    ends with an error of Py4J instead. Py4J then has the JVM close that connection by its port, which is the port of all: whatever is
    asked next may find its connection closed.
    """
    if not getattr(signal.getsignal(signal.SIGINT), "__module__", "").startswith("pyspark."):
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        gateway: Any = spark.sparkContext._gateway  # Py4J has whatever Java has
        client: Any = gateway._gateway_client
        connection = client.get_thread_connection() if hasattr(client, "get_thread_connection") else None
        if connection is not None:
            connection.socket = None  # an answer is still to come on it: this thread gets a new one, and Py4J leaves the others alone
        with suppress(*SPARK_ERRORS, OSError):  # the JVM may have been interrupted as well
            spark.sparkContext.cancelAllJobs()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)


def follow_umask(spark: SparkSession) -> None:
    """Have Spark give its files and folders the modes that this process gives, unless the session's settings name a umask.

    Hadoop has a umask of its own, 022 by default, which file systems that are open already ask at each file; Delta asks the other one.
    """
    if setting(spark, f"spark.hadoop.{UMASK}"):
        return
    umask = os.umask(0o077)  # there is no other way to read it
    os.umask(umask)
    jvm: Any = spark._jvm  # has whatever Java has
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    local = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI.create("file:///"), configuration)
    for conf in (configuration, local.getConf()):
        conf.set(UMASK, f"{umask:03o}")


def is_of_one_machine(spark: SparkSession) -> bool:
    """Return whether the workers run where this process does; where a Spark Connect server runs, cannot be told."""
    return not is_remote() and setting(spark, "spark.master").startswith("local")
