"""Jars of Maven Central, kept in ``.evenkeel/jars`` of the checkout; fetched by the Ivy that PySpark ships, as Delta's are."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from xml.sax.saxutils import quoteattr

ROOT = Path(__file__).resolve().parents[1]
LONGEST_FETCH_S = 600


class JarsNotThereError(Exception):
    """The jars cannot be had."""


def pinned_jars(pins: Path, name: str) -> Path:
    """Return the folder ``.evenkeel/jars/<name>`` with the jars of a list, fetched where one is missing.

    Args:
        pins: a line for each jar: SHA-256, Maven coordinate.
        name: the folder's name.

    Raises:
        JarsNotThereError: they cannot be fetched, or are not those of the list.
    """
    folder = ROOT / ".evenkeel" / "jars" / name
    wanted = [line.split() for line in pins.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    if all((folder / jar_name(coordinate)).exists() for _, coordinate in wanted):
        return folder
    part = folder.with_name(f"{name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    _fetch(part, [coordinate for _, coordinate in wanted])
    for expected, coordinate in wanted:
        found = hashlib.sha256((part / "jars" / jar_name(coordinate)).read_bytes()).hexdigest()
        if found != expected:
            raise JarsNotThereError(f"{coordinate} has SHA-256 {found}, expected {expected}")
    shutil.rmtree(folder, ignore_errors=True)
    (part / "jars").rename(folder)
    shutil.rmtree(part)
    return folder


def jar_name(coordinate: str) -> str:
    """Return the file name of a jar.

    >>> jar_name("org.apache.kafka:kafka-clients:4.3.1")
    'kafka-clients-4.3.1.jar'
    """
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


def _fetch(folder: Path, coordinates: list[str]) -> None:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    (ivy,) = (Path(spec.origin).parent / "jars").glob("ivy-*.jar")
    root = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")  # Spark's own name for a mirror of Maven Central
    mirror = f" root={quoteattr(root)}" if root else ""
    (folder / "settings.xml").write_text(
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true"{mirror}/></resolvers></ivysettings>'
    )
    dependencies = "".join(
        '<dependency org="{}" name="{}" rev="{}" transitive="false"/>'.format(*coordinate.split(":")) for coordinate in coordinates
    )
    # Without the conflict manager Ivy keeps the newest of several versions only.
    (folder / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="evenkeel" module="jars"/><dependencies defaultconf="default->master">'
        f'{dependencies}<conflict org="*" module="*" manager="all"/></dependencies></ivy-module>'
    )
    options = ["-warn", "-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", "cache", "-types", "jar", "bundle"]
    command = ["java", "-cp", str(ivy), "org.apache.ivy.Main", *options, "-retrieve", "jars/[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LONGEST_FETCH_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JarsNotThereError(f"{len(coordinates)} jars cannot be had, the first is {coordinates[0]}: {error}") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise JarsNotThereError(f"{len(coordinates)} jars cannot be had, the first is {coordinates[0]}: {' '.join(last)}")
