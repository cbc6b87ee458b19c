"""Parsed files of a checkout, parsed output of the programs it calls, and the input of Ivy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .messages import Refusal


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
    """Return the version in a JDK's file ``release``, or in the output of ``java -version``; empty if there is none.

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


def own_version(root: str) -> str:
    """Return the version of a checkout, from its setup.cfg."""
    import configparser

    config = configparser.ConfigParser()
    config.read(f"{root}/setup.cfg", encoding="utf-8")
    return config["metadata"]["version"]


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
    """Return the dependencies in setup.cfg and those of these extras, unchanged.

    Raises:
        Refusal: setup.cfg has no such extra.
    """
    import configparser

    config = configparser.ConfigParser()
    config.read_string(setup_cfg)
    known = config["options.extras_require"]
    unknown = sorted(set(extras) - set(known))
    if unknown:
        raise Refusal(f"setup.cfg has no extra {', '.join(unknown)}, only {', '.join(known)}; name one of these")
    texts = (config["options"]["install_requires"], *(known[extra] for extra in extras))
    return tuple(line for text in texts for line in text.splitlines() if line)


def explain_failure(output: str, remedy: str, is_disk_full: bool = False) -> str:
    """Return cause and remedy of a failed program from its output.

    Args:
        output: everything that it printed.
        remedy: what to do about any cause that has no remedy of its own.
        is_disk_full: nothing can be written, so that the program's message may be lost.
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
    """Return the ivy.xml that names these jars, without the dependencies in their poms."""
    parts = [jar.coordinate.split(":") for jar in jars]
    dependencies = "".join(
        f'<dependency org="{group}" name="{name}" rev="{revision}" transitive="false"/>' for group, name, revision in parts
    )
    return (
        '<ivy-module version="2.0"><info organisation="evenkeel" module="jars"/>'
        f'<dependencies defaultconf="default->master">{dependencies}</dependencies></ivy-module>'
    )


def ivy_settings(repository: str) -> str:
    """Return the settings that make Ivy use this repository; Maven Central if it is empty."""
    from xml.sax.saxutils import quoteattr

    root = f" root={quoteattr(repository)}" if repository else ""
    return (
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true"{root}/></resolvers></ivysettings>'
    )
