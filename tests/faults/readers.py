"""Readers of a warehouse without Spark, as docs/reading.md has them, and what they see."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

from tests.spark.tables import COMPARED, content, rows

PAUSE_SECONDS = 1.0

State = tuple[str, str]
"""Name of the published run, digest of all tables."""


def newest_published(warehouse: Path) -> dict[str, Any]:
    """Return the row of ``runs`` that readers follow."""
    return max((run for run in rows(warehouse, "runs") if run["status"] == "published"), key=lambda run: run["run_sequence"])


def published_state(warehouse: Path) -> State:
    """Return what is published."""
    newest = newest_published(warehouse)
    versions, digest = dict(newest["table_versions"]), hashlib.sha256()
    for name in COMPARED:
        for row in [name, *content(warehouse, name, versions[name])]:
            digest.update(row.encode() + b"\n")
    return newest["run_id"], digest.hexdigest()


class PollingReader:
    """Reads again and again in a thread of its own, for the length of a ``with`` block and once more at its end.

    Attributes:
        seen: every state in order, or the error that there was instead.
    """

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        self.seen: list[State | str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def _poll(self) -> None:
        while True:
            is_last = self._ended.is_set()
            try:
                self.seen.append(published_state(self.warehouse))
            except Exception as error:  # of whatever class: a reader must never meet one
                self.seen.append(f"{type(error).__name__}: {error}")
            if is_last:
                return
            self._ended.wait(PAUSE_SECONDS)

    def __enter__(self) -> PollingReader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
