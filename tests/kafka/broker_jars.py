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
