"""Readers of a warehouse without Spark, as docs/reading.md has them, and what they see."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.builders.tables import COMPARED, content, rows

PAUSE_SECONDS = 1.0

State = tuple[str, str]
"""Name of the published run, digest of all tables."""


def newest_published(warehouse: Path) -> dict[str, Any]:
    """Return the row of ``runs`` that readers follow."""
    return max((run for run in rows(warehouse, "runs") if run["status"] == "published"), key=lambda run: run["run_sequence"])


def published_state(warehouse: Path) -> State:
    """Return what is published."""
    return _state_of(warehouse, newest_published(warehouse))


def _state_of(warehouse: Path, newest: dict[str, Any]) -> State:
    versions, digest = dict(newest["table_versions"]), hashlib.sha256()
    for name in COMPARED:
        for row in [name, *content(warehouse, name, versions[name])]:
            digest.update(row.encode() + b"\n")
    return newest["run_id"], digest.hexdigest()


def _files_of(warehouse: Path, newest: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the files that a row of ``runs`` makes readers read, with sizes and times of change."""
    versions = dict(newest["table_versions"])
    paths = (path for name in COMPARED for path in DeltaTable(str(warehouse / name), versions[name]).file_uris())
    return {path: (status.st_size, status.st_mtime_ns) for path, status in ((path, os.stat(path)) for path in paths)}


class PollingReader:
    """Reads again and again in a thread of its own, for the length of a ``with`` block and once more at its end.

    What the newest row of ``runs`` names is read whole where it names something else than the row before; else it is looked whether its
    files are as they were, which takes a tenth of the time.

    Attributes:
        seen: every state in order, or the error that there was instead.
    """

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        self.seen: list[State | str] = []
        self._last: tuple[dict[str, Any], dict[str, tuple[int, int]], State] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def _poll(self) -> None:
        while True:
            is_last = self._ended.is_set()
            try:
                self.seen.append(self._read_state())
            except Exception as error:  # of whatever class: a reader must never meet one
                self.seen.append(f"{type(error).__name__}: {error}")
            if is_last:
                return
            self._ended.wait(PAUSE_SECONDS)

    def _read_state(self) -> State:
        newest = newest_published(self.warehouse)
        files = _files_of(self.warehouse, newest)
        if self._last is None or self._last[:2] != (newest, files):
            self._last = (newest, files, _state_of(self.warehouse, newest))
        return self._last[2]

    def __enter__(self) -> PollingReader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
