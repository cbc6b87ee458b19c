"""Spark's JVM: its errors, its properties, and its settings if it runs on the same machine as this process."""

from __future__ import annotations

import codecs
import logging
import os
import re
import signal
import threading
from contextlib import suppress
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession, is_remote

from jobs.runtime.errors import explain
from jobs.runtime.interruption import Interruption

logger = logging.getLogger(__name__)

try:
    from py4j.protocol import Py4JError
except ImportError:  # Spark Connect does not need it
    SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
else:
    SPARK_ERRORS = (PySparkException, Py4JError)
"""Errors of Spark; the second if PySpark has no class for an error of the JVM, such as a full disk, or if the JVM has ended."""
STORAGE_ERRORS: tuple[type[Exception], ...] = (*SPARK_ERRORS, OSError)
"""Errors of reading or writing a store, with Spark or without it."""
_NO_FILE_SYSTEM = ("ClassNotFoundException", "UnknownHostException", "UnsupportedOperationException", "UnsupportedFileSystemException")
"""Java's errors for an address whose file system is not installed, has no such host, or cannot hold tables."""
_LOCAL_WITHOUT_RETRIES = re.compile(r"local(?:\[([0-9]+|\*)\])?")
"""Local masters without a number of tries; no setting can add one."""
UMASK = "fs.permissions.umask-mode"
MAKE_COLUMNS = ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils")
"""Classes of the JVM that make columns, by the names by which PySpark asks for them."""


def is_lasting(error: Exception) -> bool:
    """Return whether an error is about a name, a schema or its kind of file system: trying again changes nothing.

    >>> is_lasting(AnalysisException("no such schema")), is_lasting(PySparkException("java.net.UnknownHostException: nowhere"))
    (True, True)
    >>> is_lasting(PySparkException("java.io.IOException: 503 Slow Down"))
    False
    """
    return isinstance(error, AnalysisException) or any(name in explain(error) for name in _NO_FILE_SYSTEM)


def setting(spark: SparkSession, key: str) -> str:
    """Return the value of one of the session's settings, empty if it is not set.

    Spark checks the default of ``get`` as it checks a value, and many settings may not be empty.
    """
    return spark.conf.get(key, None) or ""


def advice_on_master(master: str) -> str | None:
    """Return a warning for a local master that retries no task; None for any other.

    >>> advice_on_master("local[2]")
    'master local[2] fails if one worker is killed, and cannot name the group; local[2,4] tries again'
    >>> advice_on_master("local[*,4]"), advice_on_master("yarn")
    (None, None)
    """
    match = _LOCAL_WITHOUT_RETRIES.fullmatch(master)
    if match is None:
        return None
    return f"master {master} fails if one worker is killed, and cannot name the group; local[{match[1] or 1},4] tries again"


def jvm_pid(spark: SparkSession) -> int | None:
    """Return the process id of the session's JVM; None over Spark Connect, where it is another machine's."""
    try:
        jvm: Any = spark._jvm  # has any class of Java
        return int(jvm.java.lang.ProcessHandle.current().pid())
    except PySparkException:
        return None


def jvm_encoding(spark: SparkSession) -> str | None:
    """Return the encoding in which the session's JVM writes file names; None over Spark Connect, where it is another machine's."""
    try:
        jvm: Any = spark._jvm  # has any class of Java
        return str(jvm.java.lang.System.getProperty("sun.jnu.encoding"))
    except PySparkException:
        return None


def jvm_versions(spark: SparkSession) -> dict[str, str]:
    """Return the versions of the driver's Java and Delta; nothing over Spark Connect, where they are another machine's.

    Delta's version is left out on a platform whose own Delta does not give one.
    """
    try:
        jvm: Any = spark._jvm  # has any class of Java
    except PySparkException:
        return {}
    versions = {"java": str(jvm.java.lang.System.getProperty("java.version"))}
    with suppress(TypeError):  # Py4J raises it if there is no such class
        versions["delta"] = str(jvm.io.delta.package.VERSION())
    return versions


def is_utf8(encoding: str) -> bool:
    """Return whether this encoding, in Java's or Python's spelling, is UTF-8.

    >>> is_utf8("UTF-8"), is_utf8("utf8"), is_utf8("ANSI_X3.4-1968"), is_utf8("unheard-of")
    (True, True, False, False)
    """
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False


def use_own_scheduler_pool(spark: SparkSession) -> None:
    """Give this thread's jobs the next free slot, before the tasks that already wait; over Spark Connect they wait after those.

    Works if ``spark.scheduler.mode`` is FAIR: each pool then has its turn, and this thread gets its own pool.
    """
    try:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"evenkeel-{threading.get_ident()}")
    except SPARK_ERRORS as error:
        logger.debug("this thread has no scheduler pool of its own: %s", error)


def shield_jvm(interruption: Interruption) -> None:
    """Make the JVM that started this process ignore Ctrl-C, and stay silent after one; call it before there is a session.

    The terminal sends that signal to both. Python then decides what happens, and needs the JVM to restore tables. What code in
    the JVM prints, as Delta's VACUUM does, is no part of a command's answer: it goes to standard error with ``--verbose``, else nowhere.
    """
    from pyspark import SparkContext  # needs Py4J, which Spark Connect does not have

    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm  # has any class of Java
    jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal("INT"), jvm.sun.misc.SignalHandler.SIG_IGN)
    silent = jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
    jvm.java.lang.System.setOut(jvm.java.lang.System.err if logger.isEnabledFor(logging.DEBUG) else silent)
    interruption.cancel = _silence_jvm


def mend_interrupt(spark: SparkSession, interruption: Interruption) -> None:
    """Make Ctrl-C end the running jobs and raise ``KeyboardInterrupt``, if PySpark or Evenkeel handles that signal.

    PySpark's own handler calls the JVM on the connection of the call that it interrupts. That fails, so the jobs continue, and the call
    ends with an error of Py4J instead. Py4J then makes the JVM close that connection by its port, which all connections share: the next
    call may find its connection closed.
    """

    def cancel() -> None:
        _silence_jvm()
        with suppress(*SPARK_ERRORS, OSError):  # the JVM may have been interrupted as well
            spark.sparkContext.cancelAllJobs()

    if is_remote():
        return
    interruption.cancel = cancel
    is_main = threading.current_thread() is threading.main_thread()  # no other thread may set a handler; a platform's task may be in one
    if is_main and getattr(signal.getsignal(signal.SIGINT), "__module__", "").startswith("pyspark."):
        signal.signal(signal.SIGINT, interruption.handle)


def _silence_jvm() -> None:
    """Stop the JVM's log, whose stack traces only say that it was interrupted, and give this thread a new connection to it."""
    from pyspark import SparkContext  # as above

    gateway: Any = SparkContext._gateway  # has any class of Java
    client: Any = gateway._gateway_client
    connection = client.get_thread_connection() if hasattr(client, "get_thread_connection") else None
    if connection is not None:
        connection.socket = None  # its answer is still to come: this thread gets a new one, and Py4J does not close the others
    with suppress(*SPARK_ERRORS, OSError, TypeError):
        log4j = gateway.jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setRootLevel(log4j.Level.OFF)


def follow_umask(spark: SparkSession) -> None:
    """Make Spark use the umask of this process for its files and folders, unless the session's settings name a umask.

    Hadoop has its own umask, 022 by default. Open file systems read it from their own configuration, Delta from the session's.
    """
    if setting(spark, f"spark.hadoop.{UMASK}"):
        return
    umask = os.umask(0o077)  # there is no other way to read it
    os.umask(umask)
    jvm: Any = spark._jvm  # has any class of Java
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    local = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI.create("file:///"), configuration)
    for conf in (configuration, local.getConf()):
        conf.set(UMASK, f"{umask:03o}")


def remember_classes(spark: SparkSession) -> None:
    """Keep the classes that make columns, and their functions, for later calls; nothing to do over Spark Connect.

    Without this PySpark asks the JVM for the class and for the function before each call. The JVM then looks for a class without the name
    of its package in all jars: that takes longer than the call.
    """
    if is_remote():
        return
    from py4j.java_gateway import JavaClass, JavaMember  # as above

    class RememberingClass(JavaClass):  # type: ignore[misc]  # Py4J has no types
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            if isinstance(found, JavaMember):
                self.__dict__[name] = found
            return found

    known: Any = spark._jvm  # has any class of Java
    for name in MAKE_COLUMNS:
        with suppress(*SPARK_ERRORS):
            found = getattr(known, name, None)
            if isinstance(found, JavaClass):
                known.__dict__[name] = RememberingClass(found._fqn, found._gateway_client)


def is_of_one_machine(spark: SparkSession) -> bool:
    """Return whether the workers run on the machine of this process; False for Spark Connect, whose machine is not known."""
    return not is_remote() and setting(spark, "spark.master").startswith("local")
