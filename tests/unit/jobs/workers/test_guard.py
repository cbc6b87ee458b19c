"""How a worker's process is set up for its work."""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
from pathlib import Path

import pytest

from jobs.workers.guard import OBJECTS_PER_COLLECTION, few_collections, forget_archives


def test_a_worker_collects_rarely_and_afterwards_as_before() -> None:
    before = gc.get_threshold()
    with few_collections():
        assert gc.get_threshold() == (OBJECTS_PER_COLLECTION, *before[1:])
    assert gc.get_threshold() == before


def test_an_archive_is_forgotten_and_modules_are_still_found_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = str(tmp_path / "archive.zip")
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("early_in_an_archive", "late_in_an_archive"):
            file.writestr(f"{name}.py", "")
    monkeypatch.syspath_prepend(archive)
    importlib.import_module("early_in_an_archive")
    assert archive in sys.path_importer_cache
    forget_archives()
    assert archive not in sys.path_importer_cache
    importlib.import_module("late_in_an_archive")
