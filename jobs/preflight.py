"""Check that the workers of a cluster see the same files as the driver, before anything is written.

One path may be different folders on two machines. Each worker would then write into its own folder, and the driver would read scratch as
empty: a run without rows, and without an error.
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.runtime.atomic_file import write_file
from jobs.runtime.errors import InputError, NotAWarehouseError, PlatformError
from jobs.runtime.jvm import SPARK_ERRORS, is_of_one_machine, is_utf8, jvm_encoding
from jobs.runtime.locations import PROBE_FILE, address
from jobs.workers.batches import Batches

logger = logging.getLogger(__name__)

PROBES = 32
"""Number of tasks that check; Spark does not let us choose machines, but spreads tasks over all of them."""


def check_names(spark: SparkSession, paths: Iterable[str]) -> None:
    """Refuse local paths that a JVM of the session would encode otherwise: without UTF-8 it replaces ``é``, for example by ``?``.

    Asks no JVM if all names are ASCII.

    Args:
        paths: of the warehouse and the inputs; object stores and catalogs are not checked.

    Raises:
        PlatformError: naming the path and the encoding.
    """
    names = map(address, paths)
    odd = next((name for name in names if not name.isascii() and name.startswith("file:")), None)
    if odd is None:
        return
    encoding = next((encoding for encoding in jvm_encodings(spark) if not is_utf8(encoding)), None)
    if encoding is not None:
        remedy = "start Spark with LC_ALL=C.UTF-8, on its workers too, or use a name in ASCII"
        raise PlatformError(
            f"{odd.removeprefix('file:')}: Java would use another file name, because its encoding is {encoding}, not UTF-8; {remedy}"
        )


def jvm_encodings(spark: SparkSession) -> list[str]:
    """Return the encodings in which the driver's and the executors' JVMs write file names, if they can be asked."""
    own = jvm_encoding(spark)
    found = [] if own is None else [own]
    if not is_of_one_machine(spark):
        encoding = "java_method('java.lang.System', 'getProperty', 'sun.jnu.encoding') AS encoding"
        try:
            found += [row["encoding"] for row in spark.range(0, PROBES, 1, PROBES).selectExpr(encoding).distinct().collect()]
        except SPARK_ERRORS as error:  # some platforms do not allow Java methods
            logger.debug("the encoding of the executors is not known: %s", error)
    return found


def check_reach(spark: SparkSession, warehouse: Path | None, inputs: Iterable[str]) -> None:
    """Refuse files and folders that a worker does not see at the driver's path; checks nothing on a single machine.

    Args:
        warehouse: a folder that the driver can write; None if the warehouse is not a folder.

    Raises:
        NotAWarehouseError: names a machine on which the warehouse is another folder.
        InputError: names a machine that does not see an input.
    """
    if is_of_one_machine(spark):
        return
    mark = None
    if warehouse is not None:
        warehouse.mkdir(parents=True, exist_ok=True)
        mark = warehouse / PROBE_FILE
        write_file(mark, [uuid.uuid4().hex.encode()])
    try:
        marked = None if mark is None else (str(mark), mark.read_text(encoding="ascii"))
        probe = partial(unseen, mark=marked, paths=tuple(inputs))
        found = spark.range(0, PROBES, 1, PROBES).mapInArrow(probe, "host string, path string").limit(1).collect()
    finally:
        if mark is not None:
            mark.unlink(missing_ok=True)
    if not found:
        return
    host, path = found[0]
    remedy = "a location that all machines see: an object store, a catalog, or a folder that every machine mounts at the same path"
    if mark is not None and path == str(mark):
        raise NotAWarehouseError(f"warehouse {warehouse}: the worker on {host} sees another folder there than the driver; choose {remedy}")
    raise InputError(f"input {path}: the worker on {host} does not see it; put it into {remedy}")


def unseen(batches: Batches, mark: tuple[str, str] | None, paths: tuple[str, ...]) -> Batches:
    """Yield the host and the first path that it does not see, if there is one.

    Args:
        mark: a file and its expected content.
        paths: further paths that must exist.
    """
    for _ in batches:
        pass
    path = _first_unseen(mark, paths)
    if path is not None:
        yield pa.RecordBatch.from_pydict({"host": [socket.gethostname()], "path": [path]})


def _first_unseen(mark: tuple[str, str] | None, paths: tuple[str, ...]) -> str | None:
    if mark is not None:
        try:
            is_seen = Path(mark[0]).read_text(encoding="ascii") == mark[1]
        except OSError:
            is_seen = False
        if not is_seen:
            return mark[0]
    return next((path for path in paths if not Path(path).exists()), None)
