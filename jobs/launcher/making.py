"""The first call makes .venv and fetches Delta's jars."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .checkout import Jar, Spark, ivy_module, ivy_settings, read_jars, read_lock, requirements, select_packages
from .checks import check_packages, find_spark, run
from .class_archive import (
    FAILED,
    ON_CLASS_PATH,
    UNFINISHED,
    ClassArchive,
    archive_name,
    is_switched_off,
    other_archives,
    start_variables,
    training_command,
)
from .messages import Refusal, say, unwritable
from .profile import JAVA_OPTIONS, PROFILES, read_settings
from .programs import run_program

DEFAULT_EXTRAS = ("spark", "quality", "report", "kafka", "reading")
"""Extras in .venv, besides the dependencies of every installation."""
PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--no-deps", "--require-hashes")
TRAINING_SECONDS = 600.0
"""How long the archive of Spark's classes may take: it saves seconds, so no call waits for it without an end."""


class PipCall(NamedTuple):
    """One call of pip: the name of its requirements file, its lines, and further options."""

    file_name: str
    lines: tuple[str, ...]
    options: tuple[str, ...] = ()


class Setup:
    """Makes .venv and fetches Delta's jars; one process at a time does so."""

    def __init__(self, root: str, python: str, environ: Mapping[str, str]) -> None:
        """Make nothing yet.

        Args:
            root: the checkout.
            python: makes .venv, unless it is in .venv itself.
            environ: the caller's.
        """
        self.root = root
        self.environ = environ
        self.venv = f"{root}/.venv"
        self.venv_python = f"{self.venv}/bin/python"
        # Java compares the class path of an archive with its own: a checkout that is reached by a symbolic link has the same one.
        self._state = os.path.realpath(f"{root}/.evenkeel")
        self._stamp_path = f"{self.venv}/complete"
        self._base_python = os.path.realpath(python) if python == self.venv_python else python
        self._lock = -1

    # -- existing files

    def has_venv(self) -> bool:
        """Return whether .venv was finished with the present interpreter, setup.cfg and requirements.lock.

        Raises:
            Refusal: there is no requirements.lock.
        """
        stamp = self._stamp()
        try:
            with open(self._stamp_path, "rb") as file:
                return file.read() == stamp and os.access(self.venv_python, os.X_OK)
        except OSError:
            return False

    def venv_spark(self) -> Spark:
        """Return the Spark that was installed into .venv."""
        library = os.path.realpath(f"{self.venv}/lib")
        newest = sorted(name for name in os.listdir(library) if name.startswith("python3."))[-1]
        return find_spark(f"{library}/{newest}/site-packages/pyspark")

    def jars(self, spark: Spark) -> tuple[Jar, ...]:
        """Return Delta's jars for an installation."""
        return read_jars(self._read("conf/delta-jars.txt"), spark.version)

    def jar_files(self, spark: Spark) -> tuple[str, ...] | None:
        """Return the paths of Delta's jars for an installation; None when one is absent."""
        paths = tuple(f"{self._jar_folder(spark)}/{jar.file_name}" for jar in self.jars(spark))
        return paths if all(os.path.isfile(path) and os.path.getsize(path) for path in paths) else None

    def _jar_folder(self, spark: Spark) -> str:
        return f"{self._state}/jars/spark-{spark.version}"

    def _read(self, name: str) -> str:
        try:
            with open(f"{self.root}/{name}", encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            raise Refusal(f"{name} is missing in {self.root}; restore it from the repository") from None

    def _stamp(self) -> bytes:
        """Return a stamp of what .venv depends on. The interpreter's real path has its version, so a system upgrade changes the stamp."""
        parts = (os.path.realpath(self.venv_python), self._read("setup.cfg"), self._read("conf/requirements.lock"))
        return "\n".join(parts).encode("utf-8", "surrogateescape")

    # -- new files

    def prepare_spark(self) -> tuple[Spark, str]:
        """Return the installation to use and its Python; make .venv if no installation is named."""
        home = self.environ.get("SPARK_HOME")
        if home:
            python = self.environ.get("PYSPARK_PYTHON") or "python3"
            if "/" in python:
                python = os.path.abspath(python)
            spark = find_spark(home)
            check_packages(python, home, requirements(self._read("setup.cfg"), ("quality", "report")), self.environ)
            return spark, python
        self.prepare_venv()
        return self.venv_spark(), self.venv_python

    def prepare_venv(self) -> None:
        """Make .venv, or update it if setup.cfg or requirements.lock has changed, unless it is complete."""
        if self.has_venv():
            return
        self._take_lock()
        if self.has_venv():
            return
        import time

        started = time.monotonic()
        # Before anything is removed.
        calls = self._pip_calls(("core", *DEFAULT_EXTRAS))
        if not self._has_same_interpreter():
            self._make_venv()
        self._install(calls)
        say(f".venv is ready ({time.monotonic() - started:.0f} s)")

    def add_extras(self, extras: Sequence[str]) -> None:
        """Install extras of setup.cfg into a complete .venv."""
        calls = self._pip_calls(("core", *DEFAULT_EXTRAS, *extras))
        self._take_lock()
        self._install(calls)

    def check_extras(self, extras: Sequence[str]) -> None:
        """Raise a Refusal unless setup.cfg has these extras."""
        requirements(self._read("setup.cfg"), extras)

    def prepare_jars(self, spark: Spark, java: str) -> tuple[str, ...]:
        """Return the paths of Delta's jars, fetched if they are absent; none if they are part of the installation."""
        if spark.has_delta:
            return ()
        paths = self.jar_files(spark)
        if paths is None:
            self._take_lock()
            paths = self.jar_files(spark) or self._fetch_jars(spark, java)
        return paths

    def prepare_classes(self, spark: Spark, python: str, java: str, jar_files: Sequence[str]) -> ClassArchive | None:
        """Return the archive of Spark's classes, made if it is absent; None if there is none.

        It only saves time. So it is made for .venv alone, whose jars no other program changes, and no failure of it is a refusal: the next
        calls start without one.
        """
        if python != self.venv_python or not jar_files or is_switched_off(self.environ):
            return None
        folder = f"{self._state}/classes"
        found = ClassArchive(f"{folder}/{archive_name(java, spark, jar_files)}", f"{folder}/empty")
        failed = f"{found.path}{FAILED}"
        if not found.is_there() and not os.path.exists(failed) and os.access(self._state, os.W_OK):
            self._take_lock()
            if not found.is_there() and not os.path.exists(failed):
                self._keep_classes(found, spark, python, jar_files)
        return found if found.is_there() else None

    def _keep_classes(self, found: ClassArchive, spark: Spark, python: str, jar_files: Sequence[str]) -> None:
        """Make the archive of Spark's classes, or leave a note that it failed."""
        import time

        started = time.monotonic()
        say("keeping Spark's classes for later starts; it takes some seconds and 200 MB, once")
        part = f"{found.path}{UNFINISHED}"
        try:
            self._train(found, part, spark, python, jar_files)
            os.replace(part, found.path)
            say(f"Spark's classes are kept ({time.monotonic() - started:.0f} s)")
        except (Refusal, OSError) as error:
            say(f"Spark's classes are not kept, so each start takes some seconds more: {error}")
            try:
                if os.path.exists(part):
                    os.unlink(part)
                _remove_tables(os.path.dirname(found.path))
                with open(f"{found.path}{FAILED}", "w", encoding="utf-8") as file:
                    file.write(f"{error}\n")
            except OSError:  # nor can the note be written: the next call tries again
                pass

    def _train(self, found: ClassArchive, part: str, spark: Spark, python: str, jar_files: Sequence[str]) -> None:
        """Write the archive under its unfinished name, and remove those of other Javas, Sparks and Deltas."""
        folder = os.path.dirname(found.path)
        os.makedirs(found.empty_folder, exist_ok=True)
        for other in other_archives(folder, os.path.basename(found.path)):
            os.unlink(other)
        _remove_tables(folder)
        settings_file = f"{self.root}/conf/{PROFILES['small']}"
        java_options = read_settings(self._read(f"conf/{PROFILES['small']}")).get(JAVA_OPTIONS, "")
        command = training_command(part, java_options, self.root, spark, jar_files, settings_file)
        # Folders of files, which would be on the class path: an archive without them fits a class path that has them at its end.
        others = {name: value for name, value in self.environ.items() if name not in ON_CLASS_PATH}
        environ = {**others, **start_variables(spark, python, found.empty_folder), "SPARK_LOCAL_IP": "127.0.0.1"}
        self._attempt("keeping Spark's classes", "see the cause", command, folder, environ, TRAINING_SECONDS)

    def _take_lock(self) -> None:
        """Wait for the setup lock, once. Child processes inherit it, so that one which outlives this process still holds it."""
        if self._lock >= 0:
            return
        import fcntl

        try:
            os.makedirs(self._state, exist_ok=True)
            self._lock = os.open(f"{self._state}/lock", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            remedy = "make it writable, or set SPARK_HOME to a Spark 4.1 that has Delta's jars"
            purpose = f"the folder of .venv and Delta's jars; {remedy}"
            raise unwritable(error, self.root, purpose) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another call is setting up this checkout; waiting until it ends")
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def _has_same_interpreter(self) -> bool:
        """Return whether .venv was finished once with its present interpreter."""
        try:
            with open(self._stamp_path, "rb") as file:
                made_with = os.fsdecode(file.readline().rstrip(b"\n"))
        except OSError:
            return False
        return os.access(self.venv_python, os.X_OK) and made_with == os.path.realpath(self.venv_python)

    def _make_venv(self) -> None:
        import shutil

        python = self._base_python
        if run((python, "-I", "-c", "import ensurepip, venv"), self.environ)[0]:
            raise Refusal(
                f"{python} has no venv or ensurepip module; install it (Debian, Ubuntu: apt install python3-venv), then call again"
            )
        version = run((python, "--version"), self.environ)[1].strip()
        say(f"making .venv with {version} and Spark; it downloads about 500 MB, once")
        if os.path.islink(self.venv):
            os.unlink(self.venv)
        elif os.path.exists(self.venv):
            shutil.rmtree(self.venv)
        self._attempt("making .venv", "see the cause", (python, "-I", "-m", "venv", self.venv))

    def _pip_calls(self, sections: Sequence[str]) -> list[PipCall]:
        """Return the calls of pip that install these sections of the lock.

        The packages that build others from source come first, so that pip fetches nothing for a build that is not in the lock.
        """
        lock = read_lock(self._read("conf/requirements.lock"))
        calls = [PipCall("requirements.txt", select_packages(lock, sections), ("--no-build-isolation",))]
        if lock.get("build"):
            calls.insert(0, PipCall("build-requirements.txt", lock["build"]))
        return calls

    def _install(self, calls: Iterable[PipCall]) -> None:
        """Install packages, not the project: a checkout runs from its sources. The stamp is written last.

        A killed pip leaves no stamp, so that the next call makes everything again; a pip that refuses (offline) has changed nothing.
        """
        # If a file changes during this call of pip, the next call detects it.
        stamp = self._stamp()
        before = f"{self._stamp_path}.before"
        was_complete = os.path.exists(self._stamp_path)
        if was_complete:
            os.replace(self._stamp_path, before)
        try:
            for name, lines, options in calls:
                with open(f"{self.venv}/{name}", "w", encoding="utf-8") as file:
                    file.writelines(f"{line}\n" for line in lines)
                self._attempt(
                    "installing the packages of setup.cfg",
                    "connect this machine or name a mirror with PIP_INDEX_URL",
                    (self.venv_python, "-I", "-m", "pip", "install", *PIP_OPTIONS, *options, "--requirement", f"{self.venv}/{name}"),
                )
            self._compile_archives()
            with open(f"{self._stamp_path}.part", "wb") as file:
                file.write(stamp)
            os.replace(f"{self._stamp_path}.part", self._stamp_path)
        except (Refusal, OSError):
            if was_complete:
                os.replace(before, self._stamp_path)
            raise
        if was_complete:
            os.unlink(before)

    def _compile_archives(self) -> None:
        """Add compiled modules to the zips from which drivers and workers import Spark's Python.

        They contain only sources, which every process would compile again: 0.6 CPU s in each driver and each daemon of workers.
        """
        import glob
        import shutil
        import zipfile

        for archive in glob.glob(f"{glob.escape(self.venv)}/lib/python3.*/site-packages/pyspark/python/lib/*.zip"):
            folder = f"{archive}.part"
            shutil.rmtree(folder, ignore_errors=True)
            with zipfile.ZipFile(archive) as file:
                if any(name.endswith(".pyc") for name in file.namelist()):
                    continue
                file.extractall(folder)
            # Python finds a compiled module beside its source in a zip; unchecked, since dates in a zip are local time.
            options = ("-q", "-b", "--invalidation-mode", "unchecked-hash", "-s", folder, "-p", archive)
            self._attempt("compiling Spark's Python", "see the cause", (self.venv_python, "-I", "-m", "compileall", *options, folder))
            os.replace(shutil.make_archive(f"{archive}.new", "zip", folder), archive)
            shutil.rmtree(folder)

    def _fetch_jars(self, spark: Spark, java: str) -> tuple[str, ...]:
        """Fetch Delta's jars with the Ivy of Spark, as --packages does, but without starting Spark and without 26 needless jars."""
        import shutil
        import time

        started = time.monotonic()
        jars, folder = self.jars(spark), self._jar_folder(spark)
        part = f"{folder}.part"
        ivy = next(name for name in os.listdir(f"{spark.home}/jars") if name.startswith("ivy-") and name.endswith(".jar"))
        say(f"fetching Delta's jars for Spark {spark.version}; it downloads 13 MB, once")
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
        # The variable is Spark's own for a mirror.
        repository = self.environ.get("DEFAULT_ARTIFACT_REPOSITORY", "")
        for name, text in (("ivy.xml", ivy_module(jars)), ("settings.xml", ivy_settings(repository))):
            with open(f"{part}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        # In its own folder, since Ivy reads a path as a pattern, in which brackets have a meaning.
        options = "-warn -settings settings.xml -ivy ivy.xml -cache cache -types jar -retrieve jars/[artifact]-[revision].[ext]"
        remedy = "connect this machine or name a mirror with DEFAULT_ARTIFACT_REPOSITORY"
        command = (java, "-XX:TieredStopAtLevel=1", "-cp", f"{spark.home}/jars/{ivy}", "org.apache.ivy.Main", *options.split())
        self._attempt("fetching Delta's jars", remedy, command, part)
        for jar in jars:
            check_jar(f"{part}/jars/{jar.file_name}", jar)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(f"{part}/jars", folder)
        shutil.rmtree(part)
        say(f"Delta's jars are ready ({time.monotonic() - started:.0f} s)")
        return tuple(f"{folder}/{jar.file_name}" for jar in jars)

    def _attempt(
        self,
        what: str,
        remedy: str,
        command: Sequence[str],
        folder: str | None = None,
        environ: Mapping[str, str] | None = None,
        limit_seconds: float = math.inf,
    ) -> None:
        """Run a program with its output in setup.log, in the caller's environment if no other is given.

        Raises:
            Refusal: it failed or took longer than ``limit_seconds``; one line with `what`, the cause and the remedy.
        """
        log = f"{self._state}/setup.log"
        run_program(what, remedy, command, log, environ or self.environ, folder, self._lock, limit_seconds)


def _remove_tables(folder: str) -> None:
    """Remove the tables of trainings that did not end by themselves."""
    import shutil

    for name in os.listdir(folder):
        if name.endswith(".tables"):
            shutil.rmtree(f"{folder}/{name}", ignore_errors=True)


def check_jar(path: str, jar: Jar) -> None:
    """Raise a Refusal unless a file is this jar."""
    import hashlib

    remedy = "use a mirror that serves the files of Maven Central (DEFAULT_ARTIFACT_REPOSITORY), then call again"
    if not os.path.isfile(path):
        raise Refusal(f"checking Delta's jars failed: the repository has no {jar.file_name}; {remedy}")
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != jar.sha256:
        raise Refusal(f"checking Delta's jars failed: {jar.file_name} has SHA-256 {found}, expected {jar.sha256}; {remedy}")
