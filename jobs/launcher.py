"""Usage: ./spark-submit.sh [SPARK OPTIONS] COMMAND [OPTIONS]

Computes and audits Kafka consumer-group assignments. Commands (COMMAND --help tells its options):
  run        land, assign, audit and report in one go; without options on a recorded capture, into ./warehouse
  collect    a live Kafka cluster -> captures that land takes; needs no Java
  land       captures -> snapshots of every group generation
  assign     snapshots -> what each assignor gives to each member
  audit      assignments -> movements, imbalance, findings
  report     tables -> one HTML page and a summary
  maintain   tables -> drops old months, merges small files, removes files that nobody can be reading
  verify     tables -> what is wrong with their log, files and rows; changes nothing

Spark options go before the command and are passed on to spark-submit, for example:
  ./spark-submit.sh run
  ./spark-submit.sh --driver-memory 8g land --input captures/ --warehouse /data/audit
  ./spark-submit.sh --master yarn --packages org.example:extra:1.0 run --config conf/cluster.yaml
  ./spark-submit.sh --remote sc://host:15002 run --config conf/cluster.yaml

Without SPARK_HOME the first call makes .venv (Python 3.10 to 3.14) and fetches Delta's jars; later calls work offline.
With SPARK_HOME that installation is used (Spark 4.0 or 4.1) with PYSPARK_PYTHON, else python3. Java 17 or 21 is needed: JAVA_HOME,
else java on PATH. A master that is not local gets conf/spark-defaults.conf over the cluster's own defaults, and nothing is
installed; name Delta's jars there by --jars, else Spark resolves them. --remote uses a Spark Connect server, without Java here.
docs/deploy-cluster.md tells of each. With a local master the bytes that a command reads decide between settings for a small and for a
large run; EVENKEEL_PROFILE=small or large decides instead.

  --setup [EXTRA...]   make .venv and fetch the jars, also for these extras of setup.cfg (test), and start nothing
  --help               this text

Exit codes: 0 done; 1 failed; 2 wrong usage, settings or environment; 3 another run holds the warehouse; 4 a gate failed.
"""

# The docstring is the usage text, which spark-submit.sh prints where there is no Python. That script starts this file with any Python 3
# and without site-packages, so it imports nothing but the standard library, and late what not every start needs. Records are named tuples,
# since dataclasses alone would cost a start 15 ms more.
#
# With a local master a checkout looks after itself: Python packages in .venv, Delta's jars in .evenkeel, both made by the first call and
# only checked, without starting a process, by later ones. With SPARK_HOME or a cluster's master the installation belongs to somebody
# else: it is used as it is.

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

EXIT_CODE = 2
"""Of every failure before Spark starts."""
FLAGS = frozenset(("-v", "--verbose", "--version", "--supervise", "--load-spark-defaults", "--usage-error"))
"""The options of spark-submit that take no value; every other one, known to the launcher or not, takes one."""
OPTIONS = {
    "--master": "master",
    "--remote": "remote",
    "--deploy-mode": "deploy_mode",
    "--jars": "jars",
    "--packages": "packages",
    "--py-files": "py_files",
}
"""The options of spark-submit that the launcher needs to know, with their fields of CommandLine."""
SETTINGS = {"spark.master": "master", "spark.remote": "remote", "spark.submit.deployMode": "deploy_mode"}
"""The same by their names as settings, which ``--conf`` takes."""
ALSO_PASSED_ON = ("master", "deploy_mode")
"""The fields of CommandLine that stay among Spark's options; the launcher adds the others itself."""
PATH_OPTIONS = {
    **dict.fromkeys(("--jars", "--py-files", "--files", "--archives"), ","),
    **dict.fromkeys(("spark.jars", "spark.submit.pyFiles", "spark.files", "spark.archives", "spark.local.dir"), ","),
    **dict.fromkeys(("--driver-class-path", "--driver-library-path", "spark.driver.extraClassPath", "spark.driver.extraLibraryPath"), ":"),
    **dict.fromkeys(("--properties-file", "--keytab", "spark.kerberos.keytab", "spark.jars.ivy", "spark.jars.ivySettings"), ""),
    **dict.fromkeys(("spark.eventLog.dir", "spark.sql.warehouse.dir"), ""),
}
"""The options and settings of Spark whose values are paths of this machine, with what separates several."""
PATH_VARIABLES = {
    **dict.fromkeys(("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "JAVA_HOME", "TMPDIR"), ""),
    **dict.fromkeys(("PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"), ""),
    "SPARK_LOCAL_DIRS": ",",
}
"""The variables whose values are paths, with what separates several."""
SEARCH_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SPARK_DIST_CLASSPATH")
"""The variables with folders that programs search for code; an empty one means the current folder."""
IGNORED_VARIABLES = ("PYTHONHOME", "PYTHONINSPECT", "PYTHONSTARTUP")
"""The variables that would keep the driver's Python from starting or from ending."""
FOLDER_VARIABLE = "EVENKEEL_FOLDER"
"""The variable that gives the driver the caller's current folder, encoded, since Spark runs in another one."""
ENCODED = "--encoded-arguments"
"""The first argument of a driver whose other arguments are encoded."""
UTF8_LOCALES = ("C.UTF-8", "en_US.UTF-8")
"""The locales to choose from where the caller's is not one of UTF-8."""
DEFAULT_EXTRAS = ("spark", "quality", "report", "kafka")
"""What .venv has beside the dependencies of every installation."""
ZIP_SOURCES = {"jobs": "jobs", "schemas": "schemas", "assignors": "assignors", "jobs/conf": "conf", "setup.cfg": "setup.cfg"}
"""What a cluster imports, and setup.cfg, which has the version: the name of a folder or file in the zip, and its path in the checkout."""
VECTOR_NOTICE = "WARNING: Using incubator modules: jdk.incubator.vector"
"""The JVM's notice about its vector module, which comes with every start of Spark 4 and has no switch."""
PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--no-deps", "--require-hashes")
PROGRESS_SECONDS = 60.0
OPEN_FILES = 1024
"""What Spark needs with some reserve: a run on two cores had 368 files open, most of them jars."""
STDERR = 8
"""The descriptor that keeps the caller's own stderr while the one of spark-submit is filtered."""

PROFILES = {"small": "spark-local.conf", "large": "spark-local-large.conf"}
"""The kinds of runs on a local master, with the file in conf/ that has what is special to each; a large run has the small one's beneath."""
SHORT_COMMANDS = ("report",)
"""Commands that end before the settings of a large run pay: a report on 20,000 groups took 29 CPU s with the small ones, else 52."""
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
PROFILE_VARIABLE = "EVENKEEL_PROFILE"
"""The variable that names the kind of a run, whatever its size."""
NOTICE_VARIABLE = "EVENKEEL_NOTICE"
"""The variable by which a driver whose log is JSON gets the line on its settings, so that it stands in that log."""
MB = 1 << 20
INPUT_LIMIT = 4 * MB
"""Inputs beyond it make a run large: as raw records in Parquet, of some 600 groups with six generations and 170 commits each."""
WAREHOUSE_LIMIT = 32 * MB
"""Tables beyond it make a run large, whatever is new; the demo's have 0.5 MB."""
PARTITION_BYTES = 4 * MB
"""A large run shuffles into one partition for so much that it reads, as far as its file of settings allows."""
FEWEST_PARTITIONS = 8
ENOUGH_BYTES = 256 * MB
"""What lies beyond in the inputs is not measured, since it changes no setting."""
MOST_ENTRIES = 4096
"""Files and folders that are looked at; inputs of more are large. That takes 20 ms on a local disk."""
TEXT_RATIO = 10
"""An offset commit takes 213 bytes as text, 18 in gzip and 20 in Parquet: the limits are in bytes of the latter two."""
TEXT_ENDINGS = (".json", ".jsonl", ".ndjson", ".txt")
SMALLEST_HEAP = 512 * MB
"""Spark does not start with less than 450 MB."""
LARGEST_TEXT_BYTES = 1 << 20
"""What is read of files whose writers are others: of settings, and of a table's checksum, which begins with its size."""

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


class Refusal(Exception):
    """The call cannot go on, for the reason that is its text: one line, without the program's name."""


# ------------------------------------------------------------------------------------------------------------ command line


class CommandLine(NamedTuple):
    """The arguments of a call; what was not given is empty.

    ``spark_options`` are those for spark-submit, without the ones that the launcher merges with its own: ``remote``, ``jars``,
    ``packages`` and ``py_files``. ``command`` is the command with its options. ``setup_extras`` is None without ``--setup``. ``folder`` is
    the one from which relative paths start.
    """

    spark_options: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    master: str = ""
    remote: str = ""
    deploy_mode: str = "client"
    jars: str = ""
    packages: str = ""
    py_files: str = ""
    setup_extras: tuple[str, ...] | None = None
    asks_usage: bool = False
    folder: str = ""


def parse(arguments: Sequence[str]) -> CommandLine:
    """Return the arguments, split.

    >>> line = parse(["--master=yarn", "--jars", "a.jar", "run", "--jars", "b"])
    >>> line.spark_options, line.jars, line.command
    (('--master', 'yarn'), 'a.jar', ('run', '--jars', 'b'))

    Raises:
        Refusal: an option stands at the end, without its value.
    """
    rest = list(arguments)
    options: list[str] = []
    fields: dict[str, Any] = {}
    while rest and rest[0].startswith("-"):
        name = rest.pop(0)
        if name in ("-h", "--help"):
            return CommandLine(asks_usage=True)
        if name == "--setup":
            return CommandLine(tuple(options), setup_extras=tuple(rest), **fields)
        if name in FLAGS:
            options.append(name)
            continue
        if name.startswith("--") and "=" in name:
            name, _, value = name.partition("=")
        elif rest:
            value = rest.pop(0)
        else:
            raise Refusal(f"{name} needs a value; ./spark-submit.sh --help tells the usage")
        if name in ("--conf", "-c"):
            setting, _, text = value.partition("=")
            field = SETTINGS.get(setting)
        else:
            field, text = OPTIONS.get(name), value
        if field is not None:
            fields[field] = text
        if field is None or field in ALSO_PASSED_ON:
            options += [name, value]
    return CommandLine(tuple(options), tuple(rest), **fields)


def resolve_paths(line: CommandLine, folder: str) -> CommandLine:
    """Return a call whose Spark options do not depend on the current folder, with the folder itself for the command's own paths.

    >>> resolve_paths(parse(["--jars=a.jar,/b.jar", "--conf", "spark.files=c", "run", "d"]), "/here")[:2]
    (('--conf', 'spark.files=/here/c'), ('run', 'd'))
    """
    options: list[str] = []
    words = iter(line.spark_options)
    for name in words:
        options.append(name)
        if name in FLAGS:
            continue
        value = next(words)
        if name in ("--conf", "-c"):
            setting, sign, text = value.partition("=")
            value = f"{setting}{sign}{_resolved(text, PATH_OPTIONS.get(setting), folder)}"
        options.append(_resolved(value, PATH_OPTIONS.get(name), folder))
    jars, py_files = (_resolved(paths, ",", folder) for paths in (line.jars, line.py_files))
    return line._replace(spark_options=tuple(options), jars=jars, py_files=py_files, folder=folder)


def _resolved(value: str, separator: str | None, folder: str) -> str:
    """Return paths, each from a folder if it is relative; a value without a separator, None, is no path."""
    if separator is None:
        return value
    paths = value.split(separator) if separator else [value]
    # What has a scheme is an address already; a list that colons separate has none.
    return separator.join(path if separator != ":" and _has_scheme(path) else os.path.join(folder, path) for path in paths if path)


def _has_scheme(path: str) -> bool:
    scheme, colon, _ = path.partition(":")
    return bool(colon) and scheme.isascii() and scheme.replace("+", "").replace("-", "").replace(".", "").isalnum()


def check_words(words: Iterable[str]) -> None:
    """Raise a Refusal unless every argument is UTF-8: of other bytes Java makes question marks, which may end in a key."""
    for word in words:
        if not _is_utf8(word):
            found = word.encode("utf-8", "surrogateescape")
            raise Refusal(f"the argument {found!r} is not UTF-8; write it in UTF-8, and rename a file whose name is not")


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\udc80" <= char <= "\udcff" for char in text)


def encode_arguments(words: Sequence[str]) -> tuple[str, ...]:
    """Return arguments that no locale of a JVM changes: as they are where they are plain, else encoded.

    The JVM of spark-submit decodes its arguments by its locale and encodes them anew for the driver's Python. What is not in the locale
    becomes a question mark, so a question mark of the caller's is encoded too: one that arrives as such was something else.

    >>> encode_arguments(["land", "--cluster-id", "Zürich"])
    ('--encoded-arguments', 'land', '--cluster-id', 'Z%C3%BCrich')
    """
    if all(word.isascii() and "?" not in word for word in words):
        return tuple(words)
    return (ENCODED, *map(encode, words))


def decode_arguments(words: Sequence[str]) -> list[str]:
    """Return what ``encode_arguments`` was given."""
    return [decode(word) for word in words[1:]] if words and words[0] == ENCODED else list(words)


def encode(text: str) -> str:
    """Return a text in printable ASCII."""
    codes = text.encode("utf-8", "surrogateescape")
    return "".join(chr(code) if 32 <= code < 127 and code not in b"%?" else f"%{code:02X}" for code in codes)


def decode(text: str) -> str:
    """Return what ``encode`` was given."""
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


# --------------------------------------------------------------------------------------------------------- the environment


def codeset(name: str) -> str:
    """Return the encoding of a locale by its name, empty if it is not installed; without a name, the encoding of the environment's."""
    import _locale

    before = _locale.setlocale(_locale.LC_ALL, None)
    try:
        # All categories, as the JVM does: where a single one names a locale that is not installed, it takes "C" for all.
        _locale.setlocale(_locale.LC_ALL, name)
        return _locale.nl_langinfo(_locale.CODESET)
    except _locale.Error:  # type: ignore[attr-defined]  # the stubs have it in locale alone, whose import takes milliseconds
        return ""
    finally:
        _locale.setlocale(_locale.LC_ALL, before)


def choose_locale(find_codeset: Callable[[str], str] = codeset) -> str | None:
    """Return the locale to set so that a JVM uses UTF-8: empty if the environment's does, None if no such locale is installed."""
    return next((name for name in ("", *UTF8_LOCALES) if find_codeset(name).upper() == "UTF-8"), None)


def clean_environment(environ: Mapping[str, str], folder: str, locale: str | None) -> dict[str, str]:
    """Return the variables with which programs are started: UTF-8, and none that depends on the current folder.

    Args:
        environ: the caller's.
        folder: the current one.
        locale: as ``choose_locale`` returns it.
    """
    clean = {name: value for name, value in environ.items() if name not in IGNORED_VARIABLES}
    for name in PATH_VARIABLES.keys() & clean.keys():
        clean[name] = _resolved(clean[name], PATH_VARIABLES[name], folder)
    for name in SEARCH_VARIABLES:
        # Without any folder it has to go: an empty PATH would mean the current folder once more.
        paths = clean_search_path(clean.pop(name, ""), folder)
        if paths:
            clean[name] = paths
    if locale:
        clean["LC_ALL"] = locale
    return clean


def clean_search_path(text: str, folder: str) -> str:
    """Return a list of folders without those that mean the current one, and the other relative ones from it.

    >>> clean_search_path(":lib:/opt:.", "/here")
    '/here/lib:/opt'
    """
    return ":".join(os.path.join(folder, path) for path in text.split(":") if os.path.normpath(path) != ".")


def check_for_java(start: Start, locale: str | None) -> None:
    """Raise a Refusal if Java would change an argument: no locale of UTF-8 is installed, or the name of a folder is not UTF-8."""
    for part in (part for word in start.argv for part in word.split(",")):
        if not part.isascii() and (locale is None or not _is_utf8(part)):
            found = part.encode("utf-8", "surrogateescape")
            if locale is None:
                cause = f"no locale of UTF-8 is installed ({', '.join(UTF8_LOCALES)}); install one, or use a name in ASCII"
            else:
                cause = "it is not UTF-8; rename it"
            raise Refusal(f"Java cannot be given {found!r}: {cause}")


def choose_way(line: CommandLine, environ: Mapping[str, str]) -> str:
    """Return how a call goes on: ``usage``, ``setup``, ``local``, ``cluster``, ``python`` (no Spark here) or ``remote`` (its client).

    Raises:
        Refusal: options of Spark are given to what runs without it.
    """
    options = (*line.spark_options, line.jars, line.packages, line.py_files)
    if line.asks_usage:
        return "usage"
    if line.setup_extras is not None:
        return "setup"
    if not line.command and "--version" not in line.spark_options:
        return "usage"
    if line.command[:1] == ("collect",):
        if any(options) or line.remote:
            raise Refusal("collect runs without Spark: take out the options before it")
        return "python"
    if line.master and not line.master.startswith("local") and not line.remote:
        return "cluster"
    if "-h" in line.command or "--help" in line.command:
        return "python"
    if line.remote or (not line.master and environ.get("SPARK_REMOTE")):
        if any(options):
            raise Refusal("--remote takes no other options of Spark: jars, packages and settings belong to the command line of the server")
        return "remote"
    return "local"


# ---------------------------------------------------------------------------------------------- what a checkout's files say


class Spark(NamedTuple):
    """An installation of Spark: its folder, its version (``4.1``), and whether Delta is part of it."""

    home: str
    version: str
    has_delta: bool


class Jar(NamedTuple):
    """One jar of Delta: its SHA-256 and its Maven coordinate."""

    sha256: str
    coordinate: str

    @property
    def file_name(self) -> str:
        """The name of the file that Ivy writes."""
        _, artifact, revision = self.coordinate.split(":")
        return f"{artifact}-{revision}.jar"


def java_version(text: str) -> str:
    """Return the version in a JDK's file ``release``, or in what ``java -version`` prints; empty when there is none.

    >>> java_version('IMPLEMENTOR="Any"\\nJAVA_VERSION="17.0.9"'), java_version('openjdk version "21-ea" 2023-09-19')
    ('17.0.9', '21-ea')
    """
    for line in text.splitlines():
        _, found, version = line.partition("JAVA_VERSION=" if line.startswith("JAVA_VERSION=") else ' version "')
        if found:
            return version.lstrip('"').partition('"')[0]
    return ""


def is_fitting_java(version: str) -> bool:
    """Return whether Spark 4 runs on this Java.

    >>> [version for version in ("11.0.2", "17", "17.0.15+6", "171.0", "21-ea", "22") if is_fitting_java(version)]
    ['17', '17.0.15+6', '21-ea']
    """
    return version[:2] in ("17", "21") and version[2:3] in ("", ".", "+", "-")


def read_jars(text: str, spark_version: str) -> tuple[Jar, ...]:
    """Return the jars that conf/delta-jars.txt names for a version of Spark, in its order."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return tuple(Jar(sha256, coordinate) for version, sha256, coordinate in rows if version in (spark_version, "*"))


def read_lock(text: str) -> dict[str, tuple[str, ...]]:
    """Return the lines of conf/requirements.lock by section, without comments.

    >>> read_lock("# made by a tool\\n# [core]\\na==1 --hash=sha256:aa\\n# [test]\\n")
    {'core': ('a==1 --hash=sha256:aa',), 'test': ()}
    """
    sections: dict[str, tuple[str, ...]] = {}
    name = None
    for line in map(str.strip, text.splitlines()):
        if line.startswith("# [") and line.endswith("]"):
            name = line[3:-1]
            sections[name] = ()
        elif line and not line.startswith("#") and name is not None:
            sections[name] += (line,)
    return sections


def select_packages(lock: Mapping[str, tuple[str, ...]], sections: Iterable[str]) -> tuple[str, ...]:
    """Return the lines of these sections, each once.

    Raises:
        Refusal: the lock has no such section.
    """
    lines: dict[str, None] = {}
    for name in sections:
        if name not in lock:
            raise Refusal(
                f"conf/requirements.lock has no section [{name}], only {', '.join(lock) or 'none'}; restore it from the repository"
            )
        lines.update(dict.fromkeys(lock[name]))
    return tuple(lines)


def requirements(setup_cfg: str, extras: Sequence[str]) -> tuple[str, ...]:
    """Return the dependencies and those of these extras in setup.cfg, as they stand there.

    Raises:
        Refusal: setup.cfg has no such extra.
    """
    import configparser

    config = configparser.ConfigParser()
    config.read_string(setup_cfg)
    known = config["options.extras_require"]
    unknown = sorted(set(extras) - set(known))
    if unknown:
        raise Refusal(f"setup.cfg has no extra {', '.join(unknown)}, only {', '.join(known)}")
    texts = (config["options"]["install_requires"], *(known[extra] for extra in extras))
    return tuple(line for text in texts for line in text.splitlines() if line)


def explain_failure(output: str, remedy: str, is_disk_full: bool = False) -> str:
    """Return cause and remedy of a failed program from what it printed.

    Args:
        output: everything that it printed.
        remedy: what to do about any cause but those that have a remedy of their own.
        is_disk_full: nothing can be written, so that the program may have lost its message.
    """
    import re

    if is_disk_full or re.search("no space left|errno 28|disk quota", output, re.IGNORECASE):
        return "no space left on the disk; free some (about 2 GB)"
    if "DO NOT MATCH THE HASHES" in output:
        package = re.search(r"^ {4}(\S+).*:$", output, re.MULTILINE)
        found = re.search(r"Got\s+(\w+)", output)
        return (
            f"{package[1] if package else 'a package'} has SHA-256 {found[1] if found else 'of something else'}, which is not in "
            "conf/requirements.lock; use an index that serves the files of PyPI (PIP_INDEX_URL, PIP_FIND_LINKS)"
        )
    network = (
        "NewConnection|NameResolution|name resolution|UnknownHost|Host .* not found|Network is unreachable|Connection refused"
        "|ConnectTimeout|timed out|ProxyError"
    )
    if re.search(network, output):
        return f"the network cannot be reached; {remedy}"
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR") or "Exception" in line]
    return f"{(errors[:1] or lines[-1:] or ['it printed nothing'])[0].strip()}; {remedy}"


def ivy_module(jars: Iterable[Jar]) -> str:
    """Return the ivy.xml that names these jars, without what their poms depend on."""
    parts = [jar.coordinate.split(":") for jar in jars]
    dependencies = "".join(
        f'<dependency org="{group}" name="{name}" rev="{revision}" transitive="false"/>' for group, name, revision in parts
    )
    return (
        '<ivy-module version="2.0"><info organisation="evenkeel" module="jars"/>'
        f'<dependencies defaultconf="default->master">{dependencies}</dependencies></ivy-module>'
    )


def ivy_settings(repository: str) -> str:
    """Return the settings that have Ivy ask this repository, Maven Central when it is empty."""
    from xml.sax.saxutils import quoteattr

    root = f" root={quoteattr(repository)}" if repository else ""
    return (
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true"{root}/></resolvers></ivysettings>'
    )


# -------------------------------------------------------------------------------------------------------- settings by size


class Workload(NamedTuple):
    """What a command reads.

    ``inputs``: files and folders. ``without_size``: names what it reads besides and cannot be measured here, such as a live cluster;
    empty where there is nothing. ``warehouse``: its folder; None where it is not on a local file system. ``is_short``: the command ends
    before the settings of a large run pay, however much it reads.
    """

    inputs: tuple[str, ...] = ()
    without_size: str = ""
    warehouse: str | None = None
    is_short: bool = False


class Size(NamedTuple):
    """Of files: their bytes, the bytes that they would have as Parquet, and whether these are all."""

    found: int
    counted: int
    is_all: bool


class Machine(NamedTuple):
    """What a driver may use: bytes of memory, and cores."""

    memory: int
    cores: int


class OwnSettings(NamedTuple):
    """The caller's settings of Spark, and whether Spark reads a file of theirs instead of conf/spark-local.conf."""

    settings: Mapping[str, str]
    replaces_file: bool


class Profile(NamedTuple):
    """The settings that Spark has to be given, and the line that says which kind of run they are for and why."""

    settings: Mapping[str, str]
    notice: str


def find_workload(line: CommandLine, conf_folder: str) -> Workload:
    """Return what a command reads by its options and its file of settings; paths are absolute."""
    command = line.command
    path = os.path.join(line.folder, (option_values(command, "--config") or [f"{conf_folder}/local.yaml"])[-1])
    text = _content(path)
    warehouse = option_values(command, "--warehouse") or file_values(text, "warehouse")
    folder = None if warehouse is None else local_folder((warehouse or ["./warehouse"])[-1], line.folder)
    if command[0] not in ("run", "land"):
        return Workload(warehouse=folder, is_short=command[0] in SHORT_COMMANDS)
    inputs, without_size = option_values(command, "--input"), ""
    if option_values(command, "--bootstrap-servers"):
        without_size = "a live cluster"
    elif not inputs:
        inputs = [os.path.join(os.path.dirname(path), name) for name in file_values(text, "inputs") or ()]
        without_size = "" if inputs else "inputs of unknown size"
    return Workload(tuple(os.path.join(line.folder, name) for name in inputs), without_size, folder)


def option_values(words: Iterable[str], name: str) -> list[str]:
    """Return the values of an option of a command where it is given last; none where it is not given.

    >>> option_values(["run", "--input", "a", "b", "--wait=5", "--input=c"], "--input"), option_values(["run"], "--input")
    (['c'], [])
    """
    values: list[str] = []
    is_meant = False
    for word in words:
        if word.startswith("-"):
            option, sign, value = word.partition("=")
            is_meant = option == name
            if is_meant:
                values = [value] if sign else []
        elif is_meant:
            values.append(word)
    return values


def file_values(text: str, key: str) -> list[str] | None:
    """Return the name or the names that a file of settings has under a key at the beginning of a line; none without the key.

    There may be no parser of YAML yet. None is returned for a form that is not read here, such as an alias or a list over several lines
    in brackets; the size of what it names is then not known.

    >>> file_values("inputs:  # two\\n  - a\\n  - 'b c'\\nwarehouse: ./w", "inputs"), file_values("warehouse: ./w", "warehouse")
    (['a', 'b c'], ['./w'])
    >>> file_values("inputs: [a, b]", "inputs"), file_values("inputs: &all\\n- a", "inputs")
    (['a', 'b'], None)
    """
    lines = [line.partition(" #")[0].rstrip() for line in text.splitlines() if line.strip() and line.lstrip()[0] != "#"]
    at = next((number for number, line in enumerate(lines) if line.startswith(f"{key}:")), None)
    if at is None:
        return []
    value = lines[at][len(key) + 1 :].strip()
    if value.startswith("[") and value.endswith("]"):
        names = value[1:-1].split(",")
    elif value:
        names = [value]
    else:
        names = []
        for line in map(str.lstrip, lines[at + 1 :]):
            if not line.startswith("- "):
                break
            names.append(line[2:])
    plain = [_plain(name.strip()) for name in names if name.strip()]
    return None if "" in plain else plain


def _plain(name: str) -> str:
    """Return a name without its quotes; empty where it is written in another form."""
    if name[0] in "\"'" and name[-1] == name[0]:
        name = name[1:-1]
        return "" if any(char in "\\\"'" for char in name) else name
    return "" if name[0] in "\"'[]{}&*!|>%@`?#" or ": " in name else name


def local_folder(warehouse: str, folder: str) -> str | None:
    """Return the path of a warehouse; None for one in an object store or a catalog.

    >>> local_folder("w", "/here"), local_folder("file:///w", "/here"), local_folder("s3a://b/w", "/here"), local_folder("a.b", "/here")
    ('/here/w', '/w', None, None)
    """
    if warehouse.startswith("file:"):
        warehouse = "/" + warehouse[len("file:") :].lstrip("/")
    parts = warehouse.split(".")
    is_schema = len(parts) in (2, 3) and all(parts) and "/" not in warehouse and ":" not in warehouse
    return None if is_schema or "://" in warehouse else os.path.join(folder, warehouse)


def measure_inputs(paths: Iterable[str]) -> Size:
    """Return the size of files and of all that folders hold, without opening any; beyond ENOUGH_BYTES or MOST_ENTRIES no more is added."""
    found = counted = 0
    for number, (path, size) in enumerate(_walk(paths)):
        if number == MOST_ENTRIES or counted > ENOUGH_BYTES:
            return Size(found, ENOUGH_BYTES, is_all=False)
        found += size
        counted += size // TEXT_RATIO if path.endswith(TEXT_ENDINGS) else size
    return Size(found, counted, is_all=True)


def _walk(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each file with its size and each folder with none. What is not there is left out; a folder with several names is read once."""
    folders: list[str] = []
    seen = set()
    while True:
        for path in paths:
            try:
                status = os.stat(path)
            except (OSError, ValueError):
                continue
            is_folder = stat.S_ISDIR(status.st_mode)
            if is_folder and (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                folders.append(path)
            yield path, 0 if is_folder else status.st_size
        if not folders:
            return
        paths = _members(folders.pop())


def _members(folder: str) -> Iterator[str]:
    """Yield the paths of what landing reads in a folder: nothing of a Delta table, nothing hidden; none where it cannot be read."""
    if os.path.isdir(f"{folder}/_delta_log"):
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith((".", "_")):
                    yield entry.path
    except (OSError, ValueError):
        return


def measure_warehouse(folder: str) -> int | None:
    """Return the bytes of the newest version of all tables, as Delta notes them with each commit; None where there is no table."""
    sizes = []
    for path in islice(_members(folder), MOST_ENTRIES):
        try:
            checksums = [name for name in os.listdir(f"{path}/_delta_log") if name.endswith(".crc")]
        except OSError:
            continue
        noted = _content(f"{path}/_delta_log/{max(checksums)}") if checksums else ""
        digits = noted.partition('"tableSizeBytes":')[2].partition(",")[0]
        sizes.append(int(digits) if digits.isdigit() else 0)
    return sum(sizes) if sizes else None


def find_machine(root: str = "") -> Machine:
    """Return what this process may use: of memory the least of its control groups' limits and the machine's.

    Args:
        root: the folder with ``proc`` and ``sys``.
    """
    total = next((line.split()[1] for line in _content(f"{root}/proc/meminfo").splitlines() if line.startswith("MemTotal:")), None)
    # macOS has no /proc.
    limits = [int(total) * 1024 if total else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for line in _content(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            folder, name = f"{root}/sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = f"{root}/sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # The groups around it have limits as well. In a container the path may be the host's: there is the root alone, which is its own.
        group = group.strip("/")
        while True:
            limit = _content(f"{folder}/{group}/{name}").strip()
            if limit.isdigit():
                limits.append(int(limit))
            if not group:
                break
            group = os.path.dirname(group)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(min(limits), cores)


def read_settings(text: str) -> dict[str, str]:
    """Return the settings of a file of Spark's: a key and a value a line, a blank, ``=`` or ``:`` between; ``#`` begins a comment.

    >>> read_settings("# comment\\nspark.a   b c\\n spark.d=e=f\\nspark.g : h")
    {'spark.a': 'b c', 'spark.d': 'e=f', 'spark.g': 'h'}
    """
    settings = {}
    for line in map(str.strip, text.splitlines()):
        if line and line[0] not in "#!":
            end = next((number for number, char in enumerate(line) if char in "=: \t"), len(line))
            value = line[end:].lstrip(" \t")
            settings[line[:end]] = value[1:].lstrip() if value[:1] in ("=", ":") else value
    return settings


def own_settings(options: Sequence[str], environ: Mapping[str, str]) -> OwnSettings:
    """Return the caller's settings: those of SPARK_CONF_DIR, over them those of ``--properties-file``, over them single options.

    Args:
        options: those for spark-submit.
        environ: the caller's.
    """
    folder = environ.get("SPARK_CONF_DIR")
    settings = read_settings(_content(f"{folder}/spark-defaults.conf")) if folder else {}
    path = ""
    given = {}
    words = iter(options)
    for name in words:
        if name in FLAGS:
            continue
        value = next(words)
        if name == "--properties-file":
            path = value
        elif name == "--driver-memory":
            given["spark.driver.memory"] = value
        elif name in ("--conf", "-c"):
            key, _, given[key] = value.partition("=")
    return OwnSettings({**settings, **read_settings(_content(path)), **given}, bool(path))


def choose_profile(workload: Workload, conf_folder: str, forced: str, machine: Machine, own: OwnSettings) -> Profile:
    """Return the settings that fit the size of a run and the machine.

    The settings of a small run make a large one many times slower, and those of a large one a small run a little. So a run of unknown
    size is large.

    Args:
        workload: what the run reads.
        conf_folder: holds the files of settings.
        forced: the kind of run that the caller names; empty where its size is to decide.
        machine: what the driver may use.
        own: the caller's settings, which beat these.

    Raises:
        Refusal: there is no such kind of run, or no file of its settings.
    """
    if forced and forced not in PROFILES:
        raise Refusal(f"{PROFILE_VARIABLE} is {forced!r}; set it to {' or '.join(PROFILES)}, or unset it")
    inputs = measure_inputs(workload.inputs)
    tables = None if workload.warehouse is None else measure_warehouse(workload.warehouse)
    is_unknown = workload.warehouse is None or bool(workload.without_size and tables is None)
    is_much = is_unknown or not inputs.is_all or inputs.counted > INPUT_LIMIT or (tables or 0) > WAREHOUSE_LIMIT
    is_large = is_much and not workload.is_short
    name = forced or ("large" if is_large else "small")
    beneath, special = (_settings_of(f"{conf_folder}/{PROFILES[kind]}") for kind in ("small", name))
    fitted = _fit({**beneath, **special}, machine, ENOUGH_BYTES if is_unknown else inputs.counted + (tables or 0))
    chosen = {key: own.settings.get(key, value) for key, value in fitted.items()}
    needed = {key: value for key, value in chosen.items() if own.replaces_file or value != beneath.get(key)}
    warehouse = "no tables yet" if tables is None else f"tables of {_megabytes(tables)}"
    facts = (
        f"inputs of {_megabytes(inputs.found)}{'' if inputs.is_all else ' and more'}" if workload.inputs else "",
        workload.without_size,
        "tables elsewhere" if workload.warehouse is None else warehouse,
        _heap(chosen["spark.driver.memory"], machine),
    )
    reason = f", as {PROFILE_VARIABLE} says" if forced else ""
    return Profile(needed, f"settings for a {name} run{reason}: {', '.join(filter(None, facts))} (conf/{PROFILES[name]})")


def _settings_of(path: str) -> dict[str, str]:
    settings = read_settings(_content(path))
    if not settings:
        raise Refusal(f"no settings in {path}; restore it from the repository")
    return settings


def _fit(settings: Mapping[str, str], machine: Machine, counted: int) -> dict[str, str]:
    """Return settings lowered to a machine and to the bytes that are read: memory, partitions and the collector's threads."""
    fitted = dict(settings)
    third = max(machine.memory // 3, SMALLEST_HEAP)
    if third < int(settings["spark.driver.memory"].removesuffix("g")) << 30:
        fitted["spark.driver.memory"] = f"{third // MB}m"
    partitions = max(FEWEST_PARTITIONS, counted // PARTITION_BYTES)
    fitted["spark.sql.shuffle.partitions"] = str(min(int(settings["spark.sql.shuffle.partitions"]), partitions))
    if machine.cores == 1:
        fitted[JAVA_OPTIONS] = settings[JAVA_OPTIONS].replace("UseParallelGC", "UseSerialGC")
    return fitted


def _heap(memory: str, machine: Machine) -> str:
    """Return a heap in words; megabytes are read in gigabytes."""
    is_third = memory == f"{machine.memory // 3 // MB}m"
    text = f"{int(memory[:-1]) / 1024:.1f}g" if memory[-1:] == "m" and memory[:-1].isdigit() else memory
    return f"heap of {text}{', a third of the memory' if is_third else ''}"


def _megabytes(count: int) -> str:
    return f"{count / MB:.1f} MB" if count < 10 * MB else f"{count / MB:.0f} MB"


def _content(path: str) -> str:
    """Return a file's text; empty where there is none that can be read. Nothing but a file is opened: a pipe would not end."""
    try:
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read(LARGEST_TEXT_BYTES)
    except OSError:
        pass
    return ""


# ------------------------------------------------------------------------------------------------------------------- start


class Start(NamedTuple):
    """What this process becomes.

    ``filters_stderr``: without the JVM's notice, and apart from stdout also for the driver's Python. ``folder``: where it runs; empty for
    the caller's. Spark runs in the checkout, since it starts its Python workers by ``-m``, which puts the current folder before every other
    on their path. ``notice``: what is said before.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    filters_stderr: bool = False
    folder: str = ""
    notice: str = ""


def python_start(line: CommandLine, root: str, python: str, environ: Mapping[str, str], remote: str = "") -> Start:
    """Return the start of a command without a Spark of its own: neither Java nor jars are needed.

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
    # By its path: -m would put the current folder on Python's path.
    return Start((python, f"{root}/jobs/__main__.py", *line.command), {**environ, **own})


def local_start(
    line: CommandLine,
    root: str,
    spark: Spark,
    python: str,
    jar_files: Sequence[str],
    environ: Mapping[str, str],
    profile: Profile | None,
) -> Start:
    """Return the start of Spark on this machine.

    Args:
        line: the call.
        root: the checkout.
        spark: the installation.
        python: runs driver and workers.
        jar_files: the paths of Delta's jars; none where they are part of the installation.
        environ: the caller's.
        profile: what fits the size of the command's work; None without a command.
    """
    own = {
        "SPARK_HOME": spark.home,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        # It is Spark's conf folder too, for spark-defaults.conf and log4j2.
        "SPARK_CONF_DIR": f"{root}/conf",
        # From the sources, not from a zip: Python keeps their compiled form.
        "PYTHONPATH": _joined(":", root, environ.get("PYTHONPATH")),
        # Driver and executors talk on this machine only; no start fails on a host name without an address, as in many containers.
        "SPARK_LOCAL_IP": environ.get("SPARK_LOCAL_IP") or "127.0.0.1",
        FOLDER_VARIABLE: encode(line.folder),
    }
    # Spark makes this folder for tables without a path, of which there are none; its default is in the caller's folder.
    settings = {"spark.sql.warehouse.dir": f"{environ.get('TMPDIR') or '/tmp'}/spark-warehouse"}
    notice = ""
    if profile is not None:
        settings.update(profile.settings)
        if option_values(line.command, "--log-format")[-1:] == ["json"]:
            own[NOTICE_VARIABLE] = profile.notice
        else:
            notice = profile.notice
    # Before the caller's options, of which the last one counts.
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
        python: the one of .venv; empty where the installation is the cluster's own.
        jar_files: the paths of Delta's jars in .evenkeel; None where they are not there.
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
    argv = _spark_submit(spark, root, "spark-defaults.conf", py_files, given, packages, line.spark_options, line.command)
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
    """Return the path by which the driver's Python opens the caller's stderr; None where the system has no such paths (macOS).

    spark-submit runs the driver's Python with stderr merged into stdout. A terminal is opened itself; a file only through the filter,
    because a second opening would not share its position.
    """
    if not os.path.exists(f"{folder}/{pid}/fd/{STDERR}"):
        return None
    return f"{folder}/{pid}/fd/{STDERR if is_terminal else 2}"


def become(start: Start) -> None:
    """Replace this process; returns never.

    Raises:
        OSError: the program cannot be started.
    """
    environ = dict(start.environ)
    if start.filters_stderr:
        os.dup2(2, STDERR)
        path = stderr_path(os.getpid(), os.isatty(STDERR))
        if path is not None:
            environ["EVENKEEL_STDERR"] = path
        _filter_stderr(environ)
    if start.folder:
        os.chdir(start.folder)
    # Python ignores both for itself, and what is ignored stays so in the next program.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    os.execvpe(start.argv[0], start.argv, environ)


def _filter_stderr(environ: Mapping[str, str]) -> None:
    """Put grep between stderr and the caller's: it ends with the last process that writes there, and not by Ctrl-C before."""
    readable, writable = os.pipe()
    interrupts = (signal.SIGINT, signal.SIGQUIT)
    # Blocked until grep-to-be ignores them: it may be slower than the program whose last message it is to pass on.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, interrupts)
    if os.fork() == 0:
        try:
            for name in interrupts:
                signal.signal(name, signal.SIG_IGN)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.dup2(readable, 0)
            os.dup2(STDERR, 1)
            os.execvpe("grep", ("grep", "--line-buffered", "-vF", VECTOR_NOTICE), environ)
        finally:
            os._exit(EXIT_CODE)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.dup2(writable, 2)


# ------------------------------------------------------------------------------------------------------------------ checks


def say(message: str) -> None:
    """Print one line on stderr."""
    if sys.stderr is not None:
        print(f"evenkeel: {message}", file=sys.stderr, flush=True)


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
    """Raise a Refusal where fewer files may be open than Spark needs: it would end with a trace, wherever it happens to be.

    Args:
        limit: the hard limit, to which a JVM raises its own; -1 for none.
    """
    if 0 <= limit < OPEN_FILES:
        raise Refusal(f"at most {limit} files may be open (ulimit -Hn), Spark needs {OPEN_FILES}; raise the limit in this shell or service")


def hard_limit_of_open_files() -> int:
    """Return how many files a process may have open if it asks for as many as it can; -1 for any number."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return -1 if limit == resource.RLIM_INFINITY else limit


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a program as a shell finds it."""
    folders = [""] if "/" in name else environ.get("PATH", os.defpath).split(":")
    paths = (os.path.join(folder, name) for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def find_java(environ: Mapping[str, str]) -> str:
    """Return the path of the Java to use. Java itself is asked for its version only if it has no file ``release``.

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
        output = _run((java, "-version"), environ)[1]
        version = java_version(output)
        if not version:
            first_line = output.partition("\n")[0]
            raise Refusal(f"{java} does not run ({first_line}); install Java 17 or 21 and set JAVA_HOME to it")
    if not is_fitting_java(version):
        raise Refusal(f"Java {version} at {java} does not fit; Spark 4 needs Java 17 or 21: install one and set JAVA_HOME to it")
    return java


def find_spark(home: str) -> Spark:
    """Return the installation in a folder.

    Raises:
        Refusal: there is none, or none that the jobs run on.
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
    """Raise a Refusal unless a Python fits and has these packages, of any version; pyspark itself comes from SPARK_HOME."""
    path = find_program(python, environ)
    if path is None:
        raise Refusal(f"no Python at {python}; set PYSPARK_PYTHON to a Python 3.10 to 3.14 that has Evenkeel's packages")
    code, output = _run((path, "-", *wanted), environ, CHECK_PACKAGES)
    if code:
        raise Refusal(f"{path} (PYSPARK_PYTHON, else python3) does not fit SPARK_HOME={spark_home}: {output.strip()}")


def _run(command: Sequence[str], environ: Mapping[str, str], given: str = "") -> tuple[int, str]:
    """Run a program; return its exit code and all its output."""
    import subprocess

    done = subprocess.run(
        command, env=environ, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
    )
    return done.returncode, done.stdout


# ------------------------------------------------------------------------------------------------------------ what is made


def zip_path(root: str) -> str:
    """Return where a checkout keeps the zip for clusters."""
    return f"{root}/.evenkeel/evenkeel.zip"


def write_zip(target: str, sources: Mapping[str, str]) -> None:
    """Write a zip of source files. The same sources make the same bytes: one order, one date for all.

    Args:
        target: the path of the zip.
        sources: by the name that a folder or file has in the zip, where it is.
    """
    import zipfile

    paths = ((name, source, path) for name, source in sources.items() for _, files in _sources(source) for path in files)
    members = sorted((name if path == source else f"{name}/{os.path.relpath(path, source)}", path) for name, source, path in paths)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, path in members:
            with open(path, "rb") as file:
                archive.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), file.read(), zipfile.ZIP_DEFLATED)


def _sources(source: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder of sources, with the paths of its files; a file alone with itself."""
    if os.path.isfile(source):
        yield source, [source]
    for parent, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield parent, [f"{parent}/{name}" for name in names if not name.endswith(".pyc")]


def update_zip(root: str) -> None:
    """Write a checkout's zip anew when a source is newer, or its folder, from which another may have gone."""
    target = zip_path(root)
    sources = {name: f"{root}/{source}" for name, source in ZIP_SOURCES.items()}
    paths = (path for source in sources.values() for parent, files in _sources(source) for path in (parent, *files))
    if os.path.exists(target):
        made = os.stat(target).st_mtime_ns
        if all(os.stat(path).st_mtime_ns < made for path in paths):
            return
    part = f"{target}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(part, "wb").close()
    except OSError as error:
        raise _unwritable(error, root, "where evenkeel.zip for the cluster is kept; make it writable") from None
    # Made under another name and dated before the first file is read: neither a concurrent call nor a later edit can be missed.
    started = os.stat(part).st_mtime_ns
    write_zip(part, sources)
    os.utime(part, ns=(started, started))
    os.replace(part, target)


def _unwritable(error: OSError, root: str, purpose: str) -> Exception:
    return error if error.errno in (errno.ENOSPC, errno.EDQUOT) else Refusal(f"cannot write into {root}, {purpose}")


class PipCall(NamedTuple):
    """One call of pip: the name of its requirements file, the lines in it, and the options that not every call has."""

    file_name: str
    lines: tuple[str, ...]
    options: tuple[str, ...] = ()


class Setup:
    """What the first call makes, .venv and Delta's jars; one process at a time makes them."""

    def __init__(self, root: str, python: str, environ: Mapping[str, str]) -> None:
        """Make nothing yet.

        Args:
            root: the checkout.
            python: makes .venv, unless it is the one in it.
            environ: the caller's.
        """
        self.root = root
        self.environ = environ
        self.venv = f"{root}/.venv"
        self.venv_python = f"{self.venv}/bin/python"
        self._state = f"{root}/.evenkeel"
        self._stamp_path = f"{self.venv}/complete"
        self._base_python = os.path.realpath(python) if python == self.venv_python else python
        self._lock = -1

    # -- what is there

    def has_venv(self) -> bool:
        """Return whether .venv was finished, with the interpreter, the setup.cfg and the lock of now.

        Raises:
            Refusal: there is no lock.
        """
        stamp = self._stamp()
        try:
            with open(self._stamp_path, "rb") as file:
                return file.read() == stamp and os.access(self.venv_python, os.X_OK)
        except OSError:
            return False

    def venv_spark(self) -> Spark:
        """Return the Spark that was installed into .venv."""
        library = f"{self.venv}/lib"
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
        """Return what .venv depends on. The interpreter's real path names its version: a system upgrade makes another stamp."""
        parts = (os.path.realpath(self.venv_python), self._read("setup.cfg"), self._read("conf/requirements.lock"))
        return "\n".join(parts).encode("utf-8", "surrogateescape")

    # -- what is made

    def prepare_spark(self) -> tuple[Spark, str]:
        """Return the installation to use and the Python for it; make .venv when no installation is named."""
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
        """Make .venv, or bring it up to date when setup.cfg or the lock have changed, unless it is complete."""
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
        """Return the paths of Delta's jars, which are fetched when they are absent; none when they are part of the installation."""
        if spark.has_delta:
            return ()
        paths = self.jar_files(spark)
        if paths is None:
            self._take_lock()
            paths = self.jar_files(spark) or self._fetch_jars(spark, java)
        return paths

    def _take_lock(self) -> None:
        """Wait for the setup lock, once. Programs that are started borrow it, so that one which outlives this process still has it."""
        if self._lock >= 0:
            return
        import fcntl

        try:
            os.makedirs(self._state, exist_ok=True)
            self._lock = os.open(f"{self._state}/lock", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            remedy = "make it writable, or set SPARK_HOME to a Spark 4.1 that has Delta's jars"
            purpose = f"where the first call keeps .venv and Delta's jars; {remedy}"
            raise _unwritable(error, self.root, purpose) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another call is setting up this checkout; waiting for it")
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def _has_same_interpreter(self) -> bool:
        """Return whether .venv was finished once with the interpreter that it has now."""
        try:
            with open(self._stamp_path, "rb") as file:
                made_with = os.fsdecode(file.readline().rstrip(b"\n"))
        except OSError:
            return False
        return os.access(self.venv_python, os.X_OK) and made_with == os.path.realpath(self.venv_python)

    def _make_venv(self) -> None:
        import shutil

        python = self._base_python
        if _run((python, "-I", "-c", "import ensurepip, venv"), self.environ)[0]:
            raise Refusal(
                f"{python} has no venv or ensurepip module; install it (Debian, Ubuntu: apt install python3-venv), then call again"
            )
        version = _run((python, "--version"), self.environ)[1].strip()
        say(f"making .venv with {version} and Spark; about 500 MB to download, once")
        if os.path.islink(self.venv):
            os.unlink(self.venv)
        elif os.path.exists(self.venv):
            shutil.rmtree(self.venv)
        self._attempt("making .venv", "see the cause", (python, "-I", "-m", "venv", self.venv))

    def _pip_calls(self, sections: Sequence[str]) -> list[PipCall]:
        """Return the calls of pip that install these sections of the lock.

        What builds packages from source comes first, since pip is to build them without fetching anything that is not in the lock.
        """
        lock = read_lock(self._read("conf/requirements.lock"))
        calls = [PipCall("requirements.txt", select_packages(lock, sections), ("--no-build-isolation",))]
        if lock.get("build"):
            calls.insert(0, PipCall("build-requirements.txt", lock["build"]))
        return calls

    def _install(self, calls: Iterable[PipCall]) -> None:
        """Install packages, not the project: a checkout runs from its sources. The stamp is written last.

        Unfinished until pip is: a killed pip leaves no stamp, so that all is made anew; a pip that refuses (offline) has changed nothing.
        """
        # A file that changes while pip works is noticed by the next call.
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
                    "connect this machine or name a mirror by PIP_INDEX_URL",
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

        They have sources alone, which every process would compile for itself: 0.6 CPU s, in each driver and each daemon of workers.
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
            # A module is found in a zip with its compiled form beside it; unchecked, since dates in a zip are local time.
            options = ("-q", "-b", "--invalidation-mode", "unchecked-hash", "-s", folder, "-p", archive)
            self._attempt("compiling Spark's Python", "see the cause", (self.venv_python, "-I", "-m", "compileall", *options, folder))
            os.replace(shutil.make_archive(f"{archive}.new", "zip", folder), archive)
            shutil.rmtree(folder)

    def _fetch_jars(self, spark: Spark, java: str) -> tuple[str, ...]:
        """Fetch Delta's jars with the Ivy that Spark ships: what --packages does, without a Spark's start and without 26 jars too many."""
        import shutil
        import time

        started = time.monotonic()
        jars, folder = self.jars(spark), self._jar_folder(spark)
        part = f"{folder}.part"
        ivy = next(name for name in os.listdir(f"{spark.home}/jars") if name.startswith("ivy-") and name.endswith(".jar"))
        say(f"fetching Delta's jars for Spark {spark.version}; 13 MB, once")
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
        # The variable is Spark's own for a mirror.
        repository = self.environ.get("DEFAULT_ARTIFACT_REPOSITORY", "")
        for name, text in (("ivy.xml", ivy_module(jars)), ("settings.xml", ivy_settings(repository))):
            with open(f"{part}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        # Inside its own folder, since a path given to Ivy is a pattern, in which brackets have a meaning.
        options = "-warn -settings settings.xml -ivy ivy.xml -cache cache -types jar -retrieve jars/[artifact]-[revision].[ext]"
        remedy = "connect this machine or name a mirror by DEFAULT_ARTIFACT_REPOSITORY"
        command = (java, "-XX:TieredStopAtLevel=1", "-cp", f"{spark.home}/jars/{ivy}", "org.apache.ivy.Main", *options.split())
        self._attempt("fetching Delta's jars", remedy, command, part)
        for jar in jars:
            check_jar(f"{part}/jars/{jar.file_name}", jar)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(f"{part}/jars", folder)
        shutil.rmtree(part)
        say(f"Delta's jars are ready ({time.monotonic() - started:.0f} s)")
        return tuple(f"{folder}/{jar.file_name}" for jar in jars)

    def _attempt(self, what: str, remedy: str, command: Sequence[str], folder: str | None = None) -> None:
        """Run a program with its output in setup.log.

        Raises:
            Refusal: it failed; one line made of `what`, the cause and the remedy.
        """
        import subprocess

        log = f"{self._state}/setup.log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                command, cwd=folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(self._lock,)
            )
            code = wait_for_end(process.wait, what, sys.stderr is not None and sys.stderr.isatty())
        if code:
            with open(log, encoding="utf-8", errors="replace") as file:
                cause = explain_failure(file.read(), remedy, _is_full(log))
            raise Refusal(f"{what} failed: {cause}, then call again (its output: {log})")


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


def wait_for_end(wait: Callable[[float], int], what: str, is_terminal: bool, progress_seconds: float = PROGRESS_SECONDS) -> int:
    """Return the exit code of a process; to a terminal, say now and then that it is still at work.

    Args:
        wait: returns the exit code, or raises ``subprocess.TimeoutExpired`` after so many seconds.
        what: names the work.
        is_terminal: somebody reads along.
        progress_seconds: between two lines.
    """
    import subprocess
    import time

    started = time.monotonic()
    while True:
        try:
            return wait(progress_seconds)
        except subprocess.TimeoutExpired:
            if is_terminal:
                say(f"still {what} ({time.monotonic() - started:.0f} s)")


def _is_full(log: str) -> bool:
    """Return whether nothing can be written beside a log: a full disk may have swallowed the message that says so."""
    probe = f"{log}.probe"
    try:
        with open(probe, "wb") as file:
            file.write(bytes(4096))
    except OSError:
        return True
    finally:
        if os.path.exists(probe):
            os.unlink(probe)
    return False


# -------------------------------------------------------------------------------------------------------------------- main


def prepare(line: CommandLine, way: str, setup: Setup) -> Start | None:
    """Make what a call needs and return what it becomes; None when nothing is to be started."""
    root, environ = setup.root, setup.environ
    if way in ("local", "cluster"):
        check_open_files(hard_limit_of_open_files())
    if way == "cluster":
        home, python = environ.get("SPARK_HOME"), ""
        if home:
            spark = find_spark(home)
        elif setup.has_venv():
            spark, python = setup.venv_spark(), setup.venv_python
        else:
            needed = f"--master {line.master} needs SPARK_HOME, the Spark 4.0 or 4.1 installation of that cluster"
            raise Refusal(f"{needed}; nothing is installed for a cluster")
        update_zip(root)
        return cluster_start(line, root, spark, python, setup.jar_files(spark), setup.jars(spark), environ)
    if way in ("python", "remote"):
        address = line.remote or environ["SPARK_REMOTE"] if way == "remote" else ""
        return python_start(line, root, setup.prepare_spark()[1], environ, address)
    extras = line.setup_extras or ()
    if extras:
        setup.check_extras(extras)
    profile = None
    if way == "local" and line.command:
        conf_folder, forced = f"{root}/conf", environ.get(PROFILE_VARIABLE, "")
        own = own_settings(line.spark_options, environ)
        profile = choose_profile(find_workload(line, conf_folder), conf_folder, forced, find_machine(), own)
    java = find_java(environ)
    spark, python = setup.prepare_spark()
    jar_files = setup.prepare_jars(spark, java)
    if way == "local":
        return local_start(line, root, spark, python, jar_files, environ, profile)
    if extras:
        if python != setup.venv_python:
            raise Refusal("--setup installs extras into .venv only; unset SPARK_HOME")
        setup.add_extras(extras)
    return None


def main(arguments: Sequence[str]) -> int:
    """Become what the call asks for, or return an exit code.

    Args:
        arguments: the Python that the script found, the caller's LC_CTYPE, and the caller's arguments.
    """
    # Ctrl-C ends the launcher as it ends a shell, with what it has started.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    python, locale, *words = arguments
    os.environ.pop("LC_CTYPE", None)
    if locale:
        os.environ["LC_CTYPE"] = locale
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        check_python(sys.version_info[:2])
        check_words(words)
        folder, utf8_locale = current_folder(), choose_locale()
        environ = clean_environment(os.environ, folder, utf8_locale)
        line = resolve_paths(parse(words), folder)
        way = choose_way(line, environ)
        if way == "usage":
            print(__doc__, end="", file=sys.stdout if line.asks_usage else sys.stderr)
            return 0 if line.asks_usage else EXIT_CODE
        start = prepare(line, way, Setup(root, python, environ))
        if start is not None:
            if start.folder:
                check_for_java(start, utf8_locale)
            if start.notice:
                say(start.notice)
            become(start)
        return 0
    except Refusal as refusal:
        say(str(refusal))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            say(f"no space left on the disk of {root}; free some (about 2 GB), then call again")
        else:
            say(f"cannot go on: {error.filename or root}: {error.strerror}")
    return EXIT_CODE
