"""Checks before a call continues: its arguments, and the installed Python, Java and Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from .checkout import Spark, is_fitting_java, java_version
from .command_line import FLAGS
from .environment import UTF8_LOCALES
from .messages import Refusal
from .profile import memory_bytes
from .start import Start

OPEN_FILES = 1024
"""Open files that Spark needs, with some reserve: a run on two cores had 368 open, most of them jars."""
LOCAL_MASTER = r"|local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]"
"""The masters that need no other machine; empty is the launcher's own."""
DEFAULT_PORTS = {"spark": 7077, "k8s": 443}
"""The schemes of other masters, each with its port."""
MEMORY = ("--driver-memory", "--executor-memory", "spark.driver.memory", "spark.executor.memory")
"""The options and settings of Spark that are amounts of memory."""
MASTER_SECONDS = 5.0
"""How long to wait for a master."""
CHECK_PACKAGES = """
import sys
sys.path[:] = [path for path in sys.path if path]  # an empty one is the current folder
import importlib.metadata, re
if not (3, 10) <= sys.version_info < (3, 15):
    sys.exit("it is Python %d.%d, Evenkeel runs on 3.10 to 3.14" % sys.version_info[:2])
missing = []
for requirement in sys.argv[1:]:
    try:
        importlib.metadata.version(re.split("[^A-Za-z0-9_.-]", requirement)[0])
    except importlib.metadata.PackageNotFoundError:
        missing.append(f'"{requirement}"')
if missing:
    sys.exit("packages are missing, install them by " + " ".join([sys.executable, "-m pip install", *missing]))
"""


def check_words(words: Iterable[str]) -> None:
    """Raise a Refusal unless every argument is UTF-8: Java turns other bytes into question marks, which could get into a key."""
    for word in words:
        if not _is_utf8(word):
            found = word.encode("utf-8", "surrogateescape")
            raise Refusal(f"the argument {found!r} is not UTF-8; write it in UTF-8; if it is a file name, rename the file")


def check_for_java(start: Start, locale: str | None) -> None:
    """Raise a Refusal if Java would change an argument: no UTF-8 locale is installed, or a folder name is not UTF-8."""
    for part in (part for word in start.argv for part in word.split(",")):
        if not part.isascii() and (locale is None or not _is_utf8(part)):
            found = part.encode("utf-8", "surrogateescape")
            if locale is None:
                cause = f"no UTF-8 locale is installed ({', '.join(UTF8_LOCALES)}); install one, or use a name in ASCII"
            else:
                cause = "it is not UTF-8; rename it"
            raise Refusal(f"Java cannot read {found!r}: {cause}")


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\udc80" <= char <= "\udcff" for char in text)


def check_python(version: tuple[int, int]) -> None:
    """Raise a Refusal unless Evenkeel runs on this version of Python."""
    if not (3, 10) <= version < (3, 15):
        raise Refusal(f"this is Python {version[0]}.{version[1]}; Evenkeel runs on Python 3.10 to 3.14: install one, or put it on PATH")


def current_folder() -> str:
    """Return the path of the current folder.

    Raises:
        Refusal: it was removed.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise Refusal("the current folder was removed; change to another one, then call again") from None


def check_open_files(limit: int) -> None:
    """Raise a Refusal if fewer files may be open than Spark needs: it would fail with a stack trace at any point of a run.

    Args:
        limit: the hard limit, to which a JVM raises its soft limit; -1 for none.
    """
    if 0 <= limit < OPEN_FILES:
        raise Refusal(f"at most {limit} files may be open (ulimit -Hn), Spark needs {OPEN_FILES}; raise the limit in this shell or service")


def hard_limit_of_open_files() -> int:
    """Return the largest number of open files that a process may ask for; -1 for no limit."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return -1 if limit == resource.RLIM_INFINITY else limit


def check_values(options: Iterable[str]) -> None:
    """Raise a Refusal for a value of an option that Spark would refuse with a stack trace.

    Args:
        options: those for spark-submit, with absolute paths.
    """
    words = iter(options)
    for name in words:
        if name in FLAGS:
            continue
        value = next(words)
        setting, sign, text = value.partition("=") if name in ("--conf", "-c") else (name, "=", value)
        if not (setting and sign):
            raise Refusal(f"{name} needs a setting of Spark and its value, KEY=VALUE, found {value!r}")
        if setting in MEMORY:
            memory_bytes(setting, text)
        if name == "--properties-file" and (os.path.isdir(value) or not os.access(value, os.R_OK)):
            raise Refusal(f"--properties-file {value} cannot be read; name a file of settings")


def check_deploy_mode(mode: str, master: str) -> None:
    """Raise a Refusal for a place of the driver that Spark refuses with a stack trace.

    Args:
        mode: as of ``--deploy-mode``; empty if it is not given.
        master: as of ``--master``; empty for the local one.
    """
    if mode not in ("", "client", "cluster"):
        raise Refusal(f"--deploy-mode {mode}: expected client or cluster")
    if mode == "cluster" and master != "yarn" and not master.startswith("k8s://"):
        found = f"of --master {master}" if master else "without --master"
        remedy = "leave it out, or give --master yarn or k8s://HOST:PORT"
        raise Refusal(f"--deploy-mode cluster: {found} Spark runs a Python driver on this machine only; {remedy}")


def check_master(master: str, environ: Mapping[str, str]) -> None:
    """Raise a Refusal for a master that Spark does not know, or that nobody serves: Spark says so late, and with stack traces.

    Args:
        master: as of ``--master``; empty for the local one.
        environ: the caller's.
    """
    import re

    if re.fullmatch(LOCAL_MASTER, master):
        return
    if master == "yarn":
        folders = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
        if not any(map(environ.get, folders)) and not os.path.exists(f"{environ.get('SPARK_HOME', '')}/conf/spark-env.sh"):
            raise Refusal(f"--master yarn needs the cluster's settings: set {' or '.join(folders)} to their folder")
        return
    scheme, _, rest = master.partition("://")
    addresses = rest.removeprefix("https://").removeprefix("http://").split("/")[0].split(",")
    found = [re.fullmatch(r"([^:]+|\[[^]]+\])(?::([0-9]{1,5}))?", address) for address in addresses]
    if scheme not in DEFAULT_PORTS or not all(found):
        raise Refusal(
            f"--master {master}: expected local[N,TRIES], yarn, spark://HOST:PORT or k8s://HOST:PORT; "
            "without --master Spark runs on this machine"
        )
    ends = [(match[1].strip("[]"), int(match[2] or DEFAULT_PORTS[scheme])) for match in found if match]
    causes = [_why_unreachable(host, port) for host, port in ends]
    if all(causes):
        raise Refusal(f"--master {master}: no answer ({causes[0]}); correct the address, or start that cluster")


def _why_unreachable(host: str, port: int) -> str:
    """Return why nobody answers at an address; empty if somebody does."""
    import socket

    try:
        socket.create_connection((host, port), timeout=MASTER_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a program, found as a shell does."""
    folders = [""] if "/" in name else environ.get("PATH", os.defpath).split(":")
    paths = (os.path.join(folder, name) for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def find_java(environ: Mapping[str, str]) -> str:
    """Return the path of the Java to use. Starts Java to get its version only if there is no file ``release``.

    Raises:
        Refusal: there is none, or none that Spark 4 runs on.
    """
    java: str | None
    home = environ.get("JAVA_HOME")
    if home:
        java = f"{home}/bin/java"
        if not os.access(java, os.X_OK):
            raise Refusal(f"no Java at JAVA_HOME={home} (no bin/java there); set it to a Java 17 or 21, or unset it to use java from PATH")
    else:
        java = find_program("java", environ)
        if java is None:
            raise Refusal(
                "no Java found: JAVA_HOME is not set and there is no java on PATH; install Java 17 or 21 (Debian, Ubuntu: apt install "
                "openjdk-17-jre-headless; macOS: brew install openjdk@17)"
            )
        home = os.path.dirname(os.path.dirname(os.path.realpath(java)))
    try:
        with open(f"{home}/release", encoding="utf-8", errors="replace") as file:
            version = java_version(file.read())
    except OSError:
        version = ""
    if not version:
        output = run((java, "-version"), environ)[1]
        version = java_version(output)
        if not version:
            first_line = output.partition("\n")[0]
            raise Refusal(f"{java} does not run ({first_line}); install Java 17 or 21 and set JAVA_HOME to it")
    if not is_fitting_java(version):
        raise Refusal(f"Java {version} at {java} does not fit; Spark 4 needs Java 17 or 21: install one and set JAVA_HOME to it")
    return java


def find_spark(home: str) -> Spark:
    """Return the installation of Spark in a folder.

    Raises:
        Refusal: there is none, or Evenkeel does not run on its version.
    """
    try:
        names = os.listdir(f"{home}/jars")
    except OSError:
        names = []
    cores = sorted(name for name in names if name.startswith("spark-core_") and name.endswith(".jar"))
    releases = [name[len("spark-core_") : -len(".jar")].partition("-")[2] for name in cores]
    if not releases:
        remedy = "set it to a Spark 4.0 or 4.1, or unset it to use .venv"
        raise Refusal(f"no Spark in SPARK_HOME={home} (no jars/spark-core_*.jar there); {remedy}")
    if not releases[0].startswith(("4.0.", "4.1.")):
        remedy = "Evenkeel runs on Spark 4.0 and 4.1: set SPARK_HOME to one of them, or unset it to use .venv"
        raise Refusal(f"SPARK_HOME={home} is Spark {releases[0]}; {remedy}")
    return Spark(home, releases[0][:3], any(name.startswith("delta-spark_") for name in names))


def check_packages(python: str, spark_home: str, wanted: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise a Refusal unless a Python has a supported version and these packages, of any version; pyspark comes from SPARK_HOME."""
    path = find_program(python, environ)
    if path is None:
        raise Refusal(f"no Python at {python}; set PYSPARK_PYTHON to a Python 3.10 to 3.14 that has Evenkeel's packages")
    code, output = run((path, "-", *wanted), environ, CHECK_PACKAGES)
    if code:
        raise Refusal(f"{path} (PYSPARK_PYTHON, else python3) does not fit SPARK_HOME={spark_home}: {output.strip()}")


def run(command: Sequence[str], environ: Mapping[str, str], given: str = "") -> tuple[int, str]:
    """Run a program; return its exit code and all its output."""
    import subprocess

    done = subprocess.run(
        command, env=environ, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
    )
    return done.returncode, done.stdout
