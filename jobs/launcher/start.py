"""The program that replaces a call, with its arguments and its environment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import NamedTuple

from .archive import zip_path
from .checkout import Jar, Spark
from .class_archive import ClassArchive, start_variables, using_archive
from .command_line import CommandLine, encode, encode_arguments, log_format
from .messages import EXIT_CODE, INTERRUPTED, TABLES_AS_BEFORE
from .profile import DEFAULTS_FILE, PROFILES, Profile, missing_defaults, own_settings

FOLDER_VARIABLE = "EVENKEEL_FOLDER"
"""The variable with the caller's current folder for the driver, encoded, since Spark runs in another folder."""
VECTOR_NOTICE = b"WARNING: Using incubator modules: jdk.incubator.vector"
"""The JVM's notice about its vector module, which every start of Spark 4 prints and no option stops."""
STDERR = 8
"""The descriptor of the caller's own stderr while that of spark-submit is filtered."""
WATCHER_VARIABLE = "EVENKEEL_WATCHER"
"""The variable with the process id of the watcher of stderr, which the driver signals when it runs."""
NOTHING_WRITTEN = f"evenkeel: interrupted; {TABLES_AS_BEFORE}\n".encode()
LONGEST_END_SECONDS = 12
"""How long a JVM may take to end after an interrupt."""
MOST_DESCRIPTORS = 1024
NOTICE_VARIABLE = "EVENKEEL_NOTICE"
"""The variable with the line on settings for a driver whose log is JSON, so that the line is in that log."""


class Start(NamedTuple):
    """The program that replaces this process.

    ``filters_stderr``: its stderr is without the JVM's notice, and also for the driver's Python separate from stdout. ``folder``: its
    current folder; empty for the caller's. Spark runs in the checkout, since it starts its Python workers with ``-m``, which puts the
    current folder first on their path. ``notice``: a line to print before.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    filters_stderr: bool = False
    folder: str = ""
    notice: str = ""


def python_start(line: CommandLine, root: str, python: str, environ: Mapping[str, str], remote: str = "") -> Start:
    """Return the start of a command that starts no Spark: it needs neither Java nor jars.

    Args:
        line: the call.
        root: the checkout.
        python: runs the command.
        environ: the caller's.
        remote: the address of a Spark Connect server, if the command is its client.
    """
    own = {"PYTHONPATH": _joined(":", root, environ.get("PYTHONPATH"))}
    if remote:
        own["SPARK_REMOTE"] = remote
    # Started by its path: -m would put the current folder on Python's path.
    return Start((python, f"{root}/jobs/__main__.py", *line.command), {**environ, **own})


def local_start(
    line: CommandLine,
    root: str,
    spark: Spark,
    python: str,
    jar_files: Sequence[str],
    environ: Mapping[str, str],
    profile: Profile | None,
    archive: ClassArchive | None = None,
) -> Start:
    """Return the start of Spark on this machine.

    Args:
        line: the call.
        root: the checkout.
        spark: the installation.
        python: runs driver and workers.
        jar_files: the paths of Delta's jars; none if they are part of the installation.
        environ: the caller's.
        profile: the settings for the size of the command's work; None without a command.
        archive: of the classes that Spark loads, if there is one.
    """
    own = {
        # Spark's conf folder has its log4j2.properties.
        **start_variables(spark, python, archive.empty_folder if archive else f"{root}/conf"),
        # From the sources, not from a zip: Python stores their compiled form.
        "PYTHONPATH": _joined(":", root, environ.get("PYTHONPATH")),
        # Driver and executors are on this machine. So no start fails because a host name has no address, as in many containers.
        "SPARK_LOCAL_IP": environ.get("SPARK_LOCAL_IP") or "127.0.0.1",
        FOLDER_VARIABLE: encode(line.folder),
    }
    # Spark makes this folder for tables without a path, which Evenkeel does not have; its default is in the caller's folder.
    settings = {"spark.sql.warehouse.dir": f"{environ.get('TMPDIR') or '/tmp'}/spark-warehouse"}
    notice = ""
    if profile is not None:
        settings.update(profile.settings)
        if log_format(line.command) == "json":
            own[NOTICE_VARIABLE] = profile.notice
        elif "--quiet" not in line.command:
            notice = profile.notice
        if archive is not None:
            settings = {**profile.defaults, **settings, **using_archive(archive.path, profile.java_options, root, jar_files)}
    # Before the caller's options, since the last one counts.
    ours = (word for key, value in settings.items() for word in ("--conf", f"{key}={value}"))
    master = () if line.master else ("--master", "local[*,4]")
    jars = _joined(",", *jar_files, line.jars)
    options = (*ours, *master, *line.spark_options)
    argv = _spark_submit(spark, root, PROFILES["small"], line.py_files, jars, line.packages, options, line.command)
    return Start(argv, {**environ, **own}, filters_stderr=True, folder=root, notice=notice)


def cluster_start(
    line: CommandLine,
    root: str,
    spark: Spark,
    python: str,
    jar_files: Sequence[str] | None,
    jars: Sequence[Jar],
    environ: Mapping[str, str],
) -> Start:
    """Return the start on a cluster.

    Delta comes from the command line, from the installation, from .evenkeel, or is resolved by Spark, in this order.

    Args:
        line: the call.
        root: the checkout.
        spark: the installation.
        python: the one of .venv; empty if the installation is the cluster's own.
        jar_files: the paths of Delta's jars in .evenkeel; None if they are absent.
        jars: Delta's jars for this version of Spark.
        environ: the caller's.
    """
    own = {"SPARK_HOME": spark.home, FOLDER_VARIABLE: encode(line.folder)}
    # A driver that runs on the cluster has neither .venv nor this machine's paths. One that runs here keeps to .venv also where executors
    # have a Python of their own, such as ./environment/bin/python from --archives.
    if python and line.deploy_mode != "cluster":
        for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"):
            own[name] = environ.get(name) or python
    given, packages = line.jars, line.packages
    if "delta-spark_" not in " ".join((given, packages, *line.spark_options)) and not spark.has_delta:
        if jar_files is not None:
            given = _joined(",", *jar_files, given)
        else:
            delta = [jar.coordinate for jar in jars if jar.file_name.startswith("delta-spark_")]
            packages = _joined(",", *delta, packages)
    py_files = _joined(",", zip_path(root), line.py_files)
    missing = missing_defaults(f"{root}/conf", own_settings(line.spark_options, {}))
    options = (*(word for key, value in missing.items() for word in ("--conf", f"{key}={value}")), *line.spark_options)
    argv = _spark_submit(spark, root, DEFAULTS_FILE, py_files, given, packages, options, line.command)
    return Start(argv, {**environ, **own}, folder=root)


def _spark_submit(
    spark: Spark, root: str, settings: str, py_files: str, jars: str, packages: str, options: Sequence[str], command: Sequence[str]
) -> tuple[str, ...]:
    lists = (("--py-files", py_files), ("--jars", jars), ("--packages", packages))
    own = (word for name, value in lists if value for word in (name, value))
    files = ("--load-spark-defaults", "--properties-file", f"{root}/conf/{settings}")
    return (f"{spark.home}/bin/spark-submit", *files, *own, *options, f"{root}/jobs/__main__.py", *encode_arguments(command))


def _joined(separator: str, *parts: str | None) -> str:
    return separator.join(part for part in parts if part)


def stderr_path(pid: int, is_terminal: bool, folder: str = "/proc") -> str | None:
    """Return the path by which the driver's Python opens the caller's stderr; None if the system has no such paths (macOS).

    spark-submit runs the driver's Python with stderr merged into stdout. A terminal is opened directly, a file only through the filter,
    because a second opening would not share its position.
    """
    if not os.path.exists(f"{folder}/{pid}/fd/{STDERR}"):
        return None
    return f"{folder}/{pid}/fd/{STDERR if is_terminal else 2}"


def become(start: Start) -> None:
    """Replace this process; does not return.

    Raises:
        OSError: the program cannot be started.
    """
    environ = dict(start.environ)
    if start.filters_stderr:
        os.dup2(2, STDERR)
        path = stderr_path(os.getpid(), os.isatty(STDERR))
        if path is not None:
            environ["EVENKEEL_STDERR"] = path
        environ[WATCHER_VARIABLE] = str(_watch_stderr())
    if start.folder:
        os.chdir(start.folder)
    # Python ignores both signals, and the next program would inherit that.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    os.execvpe(start.argv[0], start.argv, environ)


def take_over(environ: MutableMapping[str, str]) -> None:
    """Make the driver's Python write to the caller's stderr again, and say itself what an interrupt leaves.

    Until the command runs, that is that the tables are as before.

    Args:
        environ: its variables for the driver are removed, so that child processes do not use them.
    """
    path, watcher = environ.pop("EVENKEEL_STDERR", ""), environ.pop(WATCHER_VARIABLE, "")
    if path:
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), 2)
    signal.signal(signal.SIGINT, lambda number, frame: _end_at_once(2))
    if watcher:
        try:
            os.kill(int(watcher), signal.SIGUSR1)
        except OSError:  # it has ended
            pass


def _end_at_once(stderr: int) -> None:
    os.write(stderr, NOTHING_WRITTEN)
    os._exit(INTERRUPTED)


def _watch_stderr() -> int:
    """Put a watcher between stderr and the caller's; return its process id. It ends after the last process that writes there."""
    readable, writable = os.pipe()
    signals = (signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1)
    # Blocked until the child handles them: it may start later than the program whose last message it has to pass on.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    started = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(readable, 0)
            os.dup2(STDERR, 1)
            os.dup2(STDERR, 2)
            # Else it would keep the lock of the setup, and the other end of its own pipe.
            os.closerange(3, MOST_DESCRIPTORS)
            _Watcher(started).run(before)
        finally:
            os._exit(EXIT_CODE)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.dup2(writable, 2)
    os.close(readable)
    os.close(writable)
    return child


class _Watcher:
    """Passes on what Spark writes to stderr, without the JVM's notice.

    Before the driver's Python runs, it says what an interrupt leaves. After an interrupt it drops all lines that are not Evenkeel's: the
    stack traces of an interrupted JVM.
    """

    def __init__(self, watched: int) -> None:
        """Handle no signal yet.

        Args:
            watched: the process of the JVM, its parent.
        """
        self._watched = watched
        self._has_driver = self._is_interrupted = False

    def run(self, mask: Iterable[int]) -> None:
        """Read stdin until its end, with this mask of blocked signals."""
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, self._note_driver)
        signal.signal(signal.SIGINT, self._note_interrupt)
        signal.signal(signal.SIGALRM, self._end_jvm)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with open(0, "rb") as source:
            for line in iter(source.readline, b""):
                if self._is_interrupted and not line.startswith((b"evenkeel: ", b"{")):
                    continue
                if VECTOR_NOTICE not in line:
                    os.write(1, line)

    def _note_driver(self, number: int, frame: object) -> None:
        self._has_driver = True

    def _note_interrupt(self, number: int, frame: object) -> None:
        if not self._is_interrupted and not self._has_driver:
            os.write(1, NOTHING_WRITTEN)
        self._is_interrupted = True
        signal.alarm(LONGEST_END_SECONDS)

    def _end_jvm(self, number: int, frame: object) -> None:
        """End a JVM that hangs in its own ending, if it is still the parent."""
        if os.getppid() == self._watched:
            os.kill(self._watched, signal.SIGKILL)
