"""Warehouses to damage: one made by a run, with rows in every table, and cheap copies of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "conf" / "demo"
BAD_RECORD = '{"partition": 1, "offset": 900001, "timestamp_ms": 1795000000000, "key_b64": "AAEAAWc=", "value_b64": "AAE="}\n'
"""A commit whose key ends early: it goes to quarantine, the one table that the recorded capture leaves empty."""


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded capture and one bad record."""
    folder = tmp_path_factory.mktemp("full") / "captures"
    shutil.copytree(DEMO, folder)
    (folder / "bad.jsonl").write_text(BAD_RECORD)
    return folder


@pytest.fixture(scope="session")
def full_warehouse(evenkeel, captures: Path) -> Path:
    """A warehouse with rows in every table; tests only read it."""
    warehouse = captures.parent / "warehouse"
    assert evenkeel("run", "--warehouse", warehouse, "--input", captures, "--run-id", "full", "--as-of", "2026-11-22T00:00:00Z") == 0
    return warehouse


@pytest.fixture
def copied(full_warehouse: Path, tmp_path: Path) -> Callable[..., Path]:
    """Makes a copy in which the named tables, or all, are real and the others are links."""

    def copy(*tables: str) -> Path:
        warehouse = tmp_path / "warehouse"
        warehouse.mkdir()
        for entry in full_warehouse.iterdir():
            if entry.is_dir() and (not tables or entry.name in tables):
                shutil.copytree(entry, warehouse / entry.name)
            elif entry.is_dir():
                (warehouse / entry.name).symlink_to(entry)
        return warehouse

    return copy
