"""The arguments of a call: which are for Spark and which for the command, and how they pass through the JVM unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .messages import Refusal, program
from .spelling import SPARK_OPTIONS, meant

FLAGS = frozenset(("-v", "--verbose", "--supervise", "--load-spark-defaults", "--usage-error"))
"""The options of spark-submit without a value; every other one has a value."""
OPTIONS = {
    "--master": "master",
    "--remote": "remote",
    "--deploy-mode": "deploy_mode",
    "--jars": "jars",
    "--packages": "packages",
    "--py-files": "py_files",
}
"""The options of spark-submit that the launcher needs to know, with their fields of CommandLine."""
SETTINGS = {
    **{"spark.master": "master", "spark.remote": "remote", "spark.submit.deployMode": "deploy_mode"},
    **{"spark.jars": "jars", "spark.jars.packages": "packages", "spark.submit.pyFiles": "py_files"},
}
"""The same options by their names as settings of ``--conf`` or of a file of settings. Spark would ignore the last three beside the
lists of the launcher."""
ALSO_PASSED_ON = ("master", "deploy_mode")
"""The fields of CommandLine that stay among Spark's options; the launcher adds the others itself."""
WITH_SPARK = ("run", "land", "assign", "audit", "report", "sql", "maintain", "verify")
"""The commands that start Spark. A word that is no command starts none: Python then says what is wrong."""
WITHOUT_SPARK = {"collect": (), "show": (), "explain": (), "what-if": ("--save",)}
"""The commands that are plain Python, with the options that take Spark all the same."""
ENCODED = "--encoded-arguments"
"""The first argument of a driver whose other arguments are encoded."""


class CommandLine(NamedTuple):
    """The arguments of a call; an argument that was not given is empty.

    ``spark_options`` are those for spark-submit, without the ones that the launcher merges with its own: ``remote``, ``jars``,
    ``packages`` and ``py_files``. ``command`` is the command with its options. ``setup_extras`` is None without ``--setup``. ``folder`` is
    the start of relative paths.
    """

    spark_options: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    master: str = ""
    remote: str = ""
    deploy_mode: str = ""
    jars: str = ""
    packages: str = ""
    py_files: str = ""
    setup_extras: tuple[str, ...] | None = None
    asks_usage: bool = False
    folder: str = ""
    asks_version: bool = False


def parse(arguments: Sequence[str]) -> CommandLine:
    """Return the arguments, split.

    >>> line = parse(["--master=yarn", "--jars", "a.jar", "run", "--jars", "b"])
    >>> line.spark_options, line.jars, line.command
    (('--master', 'yarn'), 'a.jar', ('run', '--jars', 'b'))

    Raises:
        Refusal: the last option lacks its value, or an option is not one of Spark's.
    """
    rest = list(arguments)
    options: list[str] = []
    fields: dict[str, Any] = {}
    while rest and rest[0].startswith("-"):
        name = rest.pop(0)
        if name in ("-h", "--help"):
            return CommandLine(asks_usage=True)
        if name == "--version":
            return CommandLine(asks_version=True)
        if name == "--setup":
            return CommandLine(tuple(options), setup_extras=tuple(rest), **fields)
        if name in FLAGS:
            options.append(name)
            continue
        sign = ""
        if name.startswith("--"):
            name, sign, value = name.partition("=")
        if name not in SPARK_OPTIONS:
            hint = meant(name, SPARK_OPTIONS) or f"; options of a command come after it: {program()} COMMAND {name}"
            raise Refusal(f"{name} is not an option of Spark{hint}")
        if not sign:
            if not rest:
                raise Refusal(f"{name} needs a value; {program()} --help shows the usage")
            value = rest.pop(0)
        if name in ("--conf", "-c"):
            setting, _, text = value.partition("=")
            field = SETTINGS.get(setting)
        else:
            field, text = OPTIONS.get(name), value
        if field is not None:
            fields[field] = text
        if field is None or field in ALSO_PASSED_ON:
            options += [name, value]
    if rest[:1] == ["help"]:
        return CommandLine(command=(rest[1], "--help"), **fields) if rest[1:] else CommandLine(asks_usage=True)
    return CommandLine(tuple(options), tuple(rest), **fields)


def option_value(words: Sequence[str], name: str) -> str:
    """Return the value of the last use of an option that takes one, even if something else in the words is wrong; empty without one.

    >>> option_value(["show", "--log-format", "json", "a", "--wrong"], "--log-format"), option_value(["run", "--config=a"], "--config")
    ('json', 'a')
    """
    found = ""
    for number, word in enumerate(words, 1):
        if word == name or word.startswith(f"{name}="):
            found = word.partition("=")[2] or "".join(words[number : number + 1])
    return found


def log_format(words: Sequence[str]) -> str:
    """Return the format of log lines that a command line asks for; empty if it asks for none."""
    return option_value(words, "--log-format")


def encode_arguments(words: Sequence[str]) -> tuple[str, ...]:
    """Return arguments that no locale of a JVM changes: encoded, unless all are plain.

    The JVM of spark-submit decodes its arguments by its locale and encodes them again for the driver's Python. A character that the locale
    lacks becomes a question mark. So a question mark of the caller's is encoded too: one that arrives unencoded replaces another character.

    >>> encode_arguments(["land", "--cluster-id", "Zürich"])
    ('--encoded-arguments', 'land', '--cluster-id', 'Z%C3%BCrich')
    """
    if all(word.isascii() and "?" not in word for word in words):
        return tuple(words)
    return (ENCODED, *map(encode, words))


def decode_arguments(words: Sequence[str]) -> list[str]:
    """Return the arguments of ``encode_arguments``."""
    return [decode(word) for word in words[1:]] if words and words[0] == ENCODED else list(words)


def encode(text: str) -> str:
    """Return a text in ASCII, with other characters as ``%`` and their bytes."""
    codes = text.encode("utf-8", "surrogateescape")
    return "".join(chr(code) if 32 <= code < 127 and code not in b"%?" else f"%{code:02X}" for code in codes)


def decode(text: str) -> str:
    """Return the text of ``encode``."""
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def choose_way(line: CommandLine, environ: Mapping[str, str]) -> str:
    """Return the kind of a call: ``usage``, ``version``, ``setup``, ``local``, ``cluster``, ``python`` (no Spark), ``remote`` (its client).

    Raises:
        Refusal: a call without Spark has options of Spark.
    """
    options = (*line.spark_options, line.jars, line.packages, line.py_files)
    if line.asks_usage:
        return "usage"
    if line.asks_version:
        return "version"
    if line.setup_extras is not None:
        return "setup"
    if not line.command:
        return "usage"
    if line.command[0] not in (*WITH_SPARK, *WITHOUT_SPARK):
        return "python"
    if line.command[0] in WITHOUT_SPARK and not set(WITHOUT_SPARK[line.command[0]]).intersection(line.command):
        if any(options) or line.remote:
            raise Refusal(f"{line.command[0]} runs without Spark: remove the options before it")
        return "python"
    if line.master and not line.master.startswith("local") and not line.remote:
        return "cluster"
    if "-h" in line.command or "--help" in line.command:
        return "python"
    if line.remote or (not line.master and environ.get("SPARK_REMOTE")):
        if any(options):
            raise Refusal("--remote takes no other options of Spark: jars, packages and settings belong on the command line of the server")
        return "remote"
    return "local"
