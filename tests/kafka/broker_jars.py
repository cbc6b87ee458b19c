"""The jars of one Kafka broker, kept in ``.evenkeel/jars`` of the checkout; fetched by the Ivy that PySpark ships, as Delta's are."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from xml.sax.saxutils import quoteattr

ROOT = Path(__file__).resolve().parents[2]
KAFKA = "4.3.1"
FOLDER = ROOT / ".evenkeel" / "jars" / f"kafka-{KAFKA}"
LONGEST_FETCH_S = 600


class JarsNotThereError(Exception):
    """The jars cannot be had."""


def broker_jars() -> Path:
    """Return the folder of the jars.

    Raises:
        JarsNotThereError: they cannot be fetched, or are not those of ``jars.txt``.
    """
    wanted = [line.split() for line in (Path(__file__).parent / "jars.txt").read_text().splitlines() if not line.startswith("#")]
    if all((FOLDER / _file_name(coordinate)).exists() for _, coordinate in wanted):
        return FOLDER
    part = FOLDER.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    _fetch(part, [coordinate for _, coordinate in wanted])
    for expected, coordinate in wanted:
        found = hashlib.sha256((part / "jars" / _file_name(coordinate)).read_bytes()).hexdigest()
        if found != expected:
            raise JarsNotThereError(f"{coordinate} has SHA-256 {found}, expected {expected}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    (part / "jars").rename(FOLDER)
    shutil.rmtree(part)
    return FOLDER


def _file_name(coordinate: str) -> str:
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
    (folder / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="evenkeel" module="kafka"/>'
        f'<dependencies defaultconf="default->master">{dependencies}</dependencies></ivy-module>'
    )
    options = ["-warn", "-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", "cache", "-types", "jar", "bundle"]
    command = ["java", "-cp", str(ivy), "org.apache.ivy.Main", *options, "-retrieve", "jars/[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LONGEST_FETCH_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JarsNotThereError(f"the jars of Kafka {KAFKA} cannot be had: {error}") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise JarsNotThereError(f"the jars of Kafka {KAFKA} cannot be had: {' '.join(last)}")
