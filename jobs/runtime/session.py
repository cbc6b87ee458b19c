"""The only module that makes a Spark session."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.launcher.checks import check_open_files, hard_limit_of_open_files
from jobs.launcher.command_line import parse
from jobs.launcher.environment import choose_locale, clean_search_path
from jobs.launcher.messages import Refusal
from jobs.launcher.profile import PROFILE_VARIABLE, PROFILES, choose_profile, find_machine, own_settings, read_settings
from jobs.launcher.start import NOTICE_VARIABLE
from jobs.launcher.workload import Workload
from jobs.runtime.errors import PlatformError, explain
from jobs.runtime.installation import zip_packages
from jobs.runtime.interruption import Interruption
from jobs.runtime.jvm import (
    SPARK_ERRORS,
    advice_on_master,
    follow_umask,
    is_of_one_machine,
    is_utf8,
    jvm_encoding,
    mend_interrupt,
    remember_classes,
    setting,
    shield_jvm,
)

logger = logging.getLogger(__name__)

SUPPORTED_SPARK = ("4.0", "4.1")
DELTA_VERSION = "4.4.0"
CLIENT_PACKAGES = ("grpc", "grpc_status", "google.rpc", "zstandard")
"""Packages that PySpark needs as a client of a Spark Connect server, besides those that Evenkeel always needs."""
CONNECT_SECONDS = 30.0
SCRATCH_BYTES = 1 << 20
"""The least free space in a scratch folder; with less, Spark would soon fail."""
CODE_GENERATION = "spark.sql.codegen.factoryMode"
BATCH_ROWS, BATCH_BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"
OUR_BATCH_BYTES = "16m"
"""The limit in conf/spark-defaults.conf."""
MOST_BATCH_BYTES = 64 << 20
"""A batch that cannot get larger needs no limit. It is Spark's own one."""
NO_LIMIT = 2**31 - 1
"""The limit with which Spark does not compute sizes."""
SPARKS_OWN = {
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.databricks.delta.autoCompact.enabled": "false",
}
"""Settings that a session gets back where a cluster or a user has others. Columns of times would have another type than the tables. Files
that cannot be read would count as empty. Workers would get texts and bytes in another layout than decoders read. A table would have
commits that are not of the run."""

_HOST = re.compile(r"[\w.-]+|\[[\w.:%-]+\]")


def open_session(
    conf_folder: Path, extra_jars: Path | None = None, workload: Workload | None = None, interruption: Interruption | None = None
) -> SparkSession:
    """Return the session for a run.

    ``SPARK_REMOTE``, which is Spark's own variable, names a Spark Connect server. Under spark-submit, or on a platform with its own
    session, the launcher sets jars, extensions and master: only runtime SQL settings are added. Without a launcher the same ``conf/``
    files make a local session.

    Args:
        conf_folder: contains ``spark-defaults.conf``, and for a local session ``spark-local.conf`` and ``spark-local-large.conf``.
        extra_jars: folder of Delta's jars; without it those that the launcher has fetched into the checkout, else Spark resolves them
            by name, which needs the network once.
        workload: what the run reads, which decides the settings of a local session; None for the unchanged settings of a small run.
        interruption: what Ctrl-C does in this process; None for only ending the jobs.

    Raises:
        PlatformError: there is no session, its Spark is not supported, or it has no Delta.
    """
    interruption = interruption or Interruption()
    address = os.environ.get("SPARK_REMOTE")
    if address and SparkSession.getActiveSession() is None:
        spark = _open_remote(address, read_conf_file(conf_folder / "spark-defaults.conf"))
    else:
        spark = _open_classic(conf_folder, extra_jars, workload, interruption)
    _check(spark)
    _check_arguments(spark)
    advice = advice_on_master(setting(spark, "spark.master"))
    if advice is not None:
        logger.warning("%s", advice)
    if is_of_one_machine(spark):
        follow_umask(spark)
    mend_interrupt(spark, interruption)
    remember_classes(spark)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    for key, value in SPARKS_OWN.items():
        if (setting(spark, key) or value).lower() != value.lower():  # not every platform allows a change
            spark.conf.set(key, value)
    return spark


def check_scratch(environ: Mapping[str, str]) -> None:
    """Refuse a scratch folder of Spark that cannot be written: Spark would report that in a hundred lines and more.

    Raises:
        PlatformError: names the folder.
    """
    for folder in (environ.get("SPARK_LOCAL_DIRS") or "/tmp").split(","):  # Java's own default does not follow TMPDIR on Linux
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(SCRATCH_BYTES))
        except OSError as error:
            raise PlatformError(
                f"Spark's scratch folder {folder} cannot be written ({error.strerror}); free some space, or name another folder with "
                "SPARK_LOCAL_DIRS"
            ) from None


def _open_classic(conf_folder: Path, extra_jars: Path | None, workload: Workload | None, interruption: Interruption) -> SparkSession:
    notice = os.environ.pop(NOTICE_VARIABLE, "")
    if notice:
        logger.info("%s", notice)
    if SparkSession.getActiveSession() is None:
        check_scratch(os.environ)
        try:
            check_open_files(hard_limit_of_open_files())
        except Refusal as refusal:
            raise PlatformError(str(refusal)) from None
    if not _is_launched():
        settings = _local_settings(conf_folder, extra_jars, workload)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # a host name without an address would make the start fail
        os.environ.setdefault("SPARK_CONF_DIR", str(conf_folder.absolute()))  # its log4j2.properties keeps Spark quiet
        _set_variables(conf_folder.absolute().parent)
    builder = SparkSession.builder.appName("evenkeel")
    if not _is_launched():
        for key, value in settings.items():
            builder = builder.config(key, value)
    try:
        if "PYSPARK_GATEWAY_PORT" in os.environ and SparkSession.getActiveSession() is None:
            shield_jvm(interruption)
        # This JVM starts its Python workers with -m, which puts its current folder first on their path.
        with nullcontext() if _is_launched() else _current_folder(conf_folder):
            return builder.getOrCreate()
    except SPARK_ERRORS as error:
        raise PlatformError(f"Spark does not start ({explain(error)}); see its own messages above") from error


def _set_variables(root: Path) -> None:
    """Set the variables that the JVM of this process passes to its Python workers: no search in the current folder, our packages, UTF-8.

    Args:
        root: the checkout; the packages of an installed wheel are already on every worker's path.
    """
    paths = [str(root)] if (root / "jobs" / "launcher" / "__init__.py").is_file() else []
    paths += filter(None, [clean_search_path(os.environ.pop("PYTHONPATH", ""), os.getcwd())])
    if paths:
        os.environ["PYTHONPATH"] = ":".join(paths)
    locale = choose_locale()
    if locale:
        os.environ["LC_ALL"] = locale


@contextmanager
def _current_folder(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _open_remote(address: str, wanted: Mapping[str, str]) -> SparkSession:
    """Return a new session on a Spark Connect server, with the settings and the code that spark-submit adds elsewhere.

    Args:
        address: ``sc://host:port``.
        wanted: settings; those that a session cannot change keep the server's value.

    Raises:
        PlatformError: the client's packages are missing, or the server does not answer.
    """
    if not all(map(_is_there, CLIENT_PACKAGES)):
        remedy = f"{sys.executable} -m pip install 'pyspark[connect]'"
        raise PlatformError(f"Spark Connect needs packages that are missing, Evenkeel's extra connect; install them: {remedy}")
    try:
        _check_reachable(address)
        spark = SparkSession.builder.remote(address).getOrCreate()
        atexit.register(spark.stop)  # else the server keeps the session for an hour
        with tempfile.TemporaryDirectory(prefix="evenkeel-") as folder:
            spark.addArtifacts(str(zip_packages(Path(folder))), pyfile=True)
        for key, value in wanted.items():
            if spark.conf.isModifiable(key):
                spark.conf.set(key, value)
    except PySparkException as error:
        raise PlatformError(f"the Spark Connect server cannot be used: {explain(error)}") from error
    return spark


def _check_reachable(address: str) -> None:
    """Refuse an address at which no server listens: PySpark would try for more than ten minutes.

    Raises:
        PlatformError: names only host and port, since an address may contain a token; names no part of an address that cannot be parsed.
    """
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        host, _, port = DefaultChannelBuilder(address).endpoint.rpartition(":")
    except (PySparkException, ValueError):
        host = ""
    if not _HOST.fullmatch(host):
        raise PlatformError(
            "the address of the Spark Connect server (--remote, or SPARK_REMOTE) cannot be parsed; it is not shown, since it may contain "
            "a token; expected sc://HOST:PORT, after it perhaps /;NAME=VALUE;NAME=VALUE with %3D for an = in a value"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:
        cause = getattr(error, "strerror", None) or error
        raise PlatformError(f"no Spark Connect server at {host}:{port} ({cause}); correct the address") from None


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its package is missing
        return False


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set SQL settings for the length of the block, then restore them: other programs may use the session too."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            spark.conf.unset(key) if earlier is None else spark.conf.set(key, earlier)


def compiled_queries(spark: SparkSession) -> AbstractContextManager[None]:
    """Compile the queries of the block to code even if conf/spark-local.conf has them interpreted, which pays for small tables.

    A session with another setting keeps it, since not every platform allows a change.
    """
    interprets = setting(spark, CODE_GENERATION) == "NO_CODEGEN"
    return settings(spark, {CODE_GENERATION: "FALLBACK"} if interprets else {})


def batches_of_small_rows(spark: SparkSession, most_bytes: int) -> AbstractContextManager[None]:
    """Let Spark make the batches for workers by number of rows alone in the block, if their rows are so small that no batch gets large.

    Otherwise Spark asks for the size of all columns before each row. A session with another limit than ours keeps it.

    Args:
        most_bytes: about how many bytes the largest row has.
    """
    rows, is_ours = setting(spark, BATCH_ROWS), setting(spark, BATCH_BYTES) == OUR_BATCH_BYTES
    is_small = is_ours and rows.isdecimal() and 0 < int(rows) * most_bytes <= MOST_BATCH_BYTES
    return settings(spark, {BATCH_BYTES: str(NO_LIMIT)} if is_small else {})


def read_conf_file(path: Path) -> dict[str, str]:
    """Return the settings of one ``spark-defaults.conf``-style file: ``key value`` lines, ``#`` starts a comment line."""
    return read_settings(path.read_text(encoding="utf-8"))


def _is_launched() -> bool:
    # Databricks has a session, but it may not be the active one of this thread.
    is_launched = "PYSPARK_GATEWAY_PORT" in os.environ or "DATABRICKS_RUNTIME_VERSION" in os.environ
    return is_launched or SparkSession.getActiveSession() is not None


def _local_settings(conf_folder: Path, extra_jars: Path | None, workload: Workload | None) -> dict[str, str]:
    # Evenkeel stores nothing in Spark's own warehouse, but Spark would make that folder in the current one.
    settings = {"spark.master": "local[*,4]", "spark.sql.warehouse.dir": tempfile.gettempdir()}
    settings.update(read_conf_file(conf_folder / "spark-defaults.conf"))
    if workload is None:
        settings.update(read_conf_file(conf_folder / PROFILES["small"]))
    else:
        try:
            options = parse(_submit_words()).spark_options
            # Spark itself reads no file of settings here.
            own = own_settings(options, os.environ)._replace(replaces_file=True)
            profile = choose_profile(workload, str(conf_folder), os.environ.get(PROFILE_VARIABLE, ""), find_machine(), own)
        except Refusal as refusal:
            raise PlatformError(str(refusal)) from None
        logger.info("%s", profile.notice)
        settings.update(profile.settings)
    if extra_jars is None:
        extra_jars = next(iter(conf_folder.parent.glob(f".evenkeel/jars/spark-{_spark_minor()}")), None)
    if extra_jars is not None:
        settings["spark.jars"] = ",".join(sorted(str(jar.absolute()) for jar in extra_jars.glob("*.jar")))
    else:
        settings["spark.jars.packages"] = f"io.delta:delta-spark_{_spark_minor()}_2.13:{DELTA_VERSION}"
    return settings


def _submit_words() -> list[str]:
    """Return the words of PYSPARK_SUBMIT_ARGS.

    Raises:
        PlatformError: a quote is open.
    """
    try:
        return shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    except ValueError as error:
        raise PlatformError(f"the variable PYSPARK_SUBMIT_ARGS cannot be read ({error}); correct its quotes, or unset it") from None


def _spark_minor() -> str:
    return ".".join(pyspark.__version__.split(".")[:2])


def _check(spark: SparkSession) -> None:
    if ".".join(spark.version.split(".")[:2]) not in SUPPORTED_SPARK:
        raise PlatformError(f"this is Spark {spark.version}; Evenkeel runs on Spark {' and '.join(SUPPORTED_SPARK)}: use one of them")
    if "delta" not in setting(spark, "spark.sql.extensions").lower() and "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        raise PlatformError(
            "Spark was started without Delta: pass --jars with Delta's jars and "
            "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension, or use ./spark-submit.sh"
        )


def _check_arguments(spark: SparkSession) -> None:
    """Refuse arguments that may have lost characters in the session's JVM; those of the launcher are encoded.

    Raises:
        PlatformError: the JVM's encoding is not UTF-8, and an argument has a character that may replace a lost one.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    doubtful = next((word for word in sys.argv[1:] if "?" in word or "\ufffd" in word), None)
    encoding = jvm_encoding(spark)
    if doubtful is not None and encoding is not None and not is_utf8(encoding):
        raise PlatformError(
            f"found a question mark in the argument {doubtful!r}, which may replace a lost character: Java's encoding is {encoding}; "
            "start with ./spark-submit.sh, or set LC_ALL=C.UTF-8"
        )
