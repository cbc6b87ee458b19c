"""The jars of one Kafka broker."""

from __future__ import annotations

from pathlib import Path

from tests.maven_jars import pinned_jars

KAFKA = "4.3.1"


def broker_jars() -> Path:
    """Return the folder of the jars.

    Raises:
        JarsNotThereError: they cannot be fetched, or are not those of ``jars.txt``.
    """
    return pinned_jars(Path(__file__).parent / "jars.txt", f"kafka-{KAFKA}")


def jvm(log_level: str) -> list[str]:
    """Return the command of a JVM with the jars: small, quick to start, with logs on stderr in Kafka's pattern and in UTC."""
    options = ["-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
    logging = [f"-Dlog4j2.configurationFile={Path(__file__).parent / 'log4j2.yaml'}", f"-Dlog.level={log_level}"]
    return ["java", *options, *logging, "-cp", f"{broker_jars()}/*"]
