"""Warehouses to damage: one made by a run, with rows in every table, and cheap copies of it; and a small one to run on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders.captures import LOOKS, RECORDED, few
from tests.conftest import made_once
from tests.faults.readers import State, published_state

AS_OF = "2026-11-22T00:00:00Z"
BAD_RECORD = '{"partition": 1, "offset": 900001, "timestamp_ms": 1795000000000, "key_b64": "AAEAAWc=", "value_b64": "AAE="}\n'
"""A commit whose key ends early: it goes to quarantine, the one table that the recorded capture leaves empty."""


@pytest.fixture(scope="session")
def full_warehouse(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with rows in every table, made of the recorded capture and one bad record; tests only read it."""
    with made_once(tmp_path_factory, "full") as (folder, is_new):
        if is_new:
            make_tables, captures, warehouse = request.getfixturevalue("make_tables"), folder / "captures", folder / "warehouse"
            shutil.copytree(RECORDED, captures)
            (captures / "bad.jsonl").write_text(BAD_RECORD)
            assert make_tables("run", "--warehouse", warehouse, "--input", captures, "--run-id", "full", "--as-of", AS_OF) == 0
    return folder / "warehouse"


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


@dataclass(frozen=True)
class TwoRuns:
    """A published run and an undisturbed second one on top of it; tests only read both warehouses, and copy the first.

    Attributes:
        command: what is run, ``run`` or one of its stages, which is a run too.
        first_inputs, second_inputs: captures of the two runs.
        before, after: what readers see of the one and of the other.
        commit_times: of the second run, in seconds since its start.
        duration: of the second run, in seconds.
    """

    command: str
    first: Path
    second: Path
    first_inputs: tuple[Path, ...]
    second_inputs: tuple[Path, ...]
    before: State
    after: State
    commit_times: tuple[float, ...]
    duration: float

    def first_run(self, warehouse: Path) -> list[str]:
        """Return the command line of the first run."""
        return command_line(self.command, warehouse, self.first_inputs, "first")

    def second_run(self, warehouse: Path, run_id: str = "second") -> list[str]:
        """Return the command line of the second run."""
        return command_line(self.command, warehouse, self.second_inputs, run_id)


def command_line(command: str, warehouse: Path, inputs: tuple[Path, ...], run_id: str) -> list[str]:
    return [command, "--warehouse", str(warehouse), "--input", *map(str, inputs), "--run-id", run_id, "--as-of", AS_OF]


def commits(warehouse: Path) -> list[Path]:
    """Return the files of all commits of all tables."""
    return [path for path in warehouse.glob("*/_delta_log/*.json") if path.stem.isdigit()]


def run_twice(first_run, second_run, folder: Path, command: str, *written: str) -> TwoRuns:
    """Make both warehouses; the second run has to write to the tables that are named.

    Args:
        first_run, second_run: what runs a command line; the times of the second one count.
    """
    first, second = folder / "first", folder / "second"
    (folder / "bad.jsonl").write_text(BAD_RECORD)
    first_inputs = (few(folder, "a.parquet", 0, 4), LOOKS)
    second_inputs = (few(folder, "b.parquet", 4, 8), folder / "bad.jsonl")
    assert first_run(*command_line(command, first, first_inputs, "first")) == 0
    shutil.copytree(first, second)
    old = {path.relative_to(second) for path in commits(second)}
    started = time.time()
    assert second_run(*command_line(command, second, second_inputs, "second")) == 0
    duration = time.time() - started
    new = [path for path in commits(second) if path.relative_to(second) not in old]
    assert {path.parent.parent.name for path in new} >= {*written, "quarantine", "runs"}
    times = tuple(sorted(path.stat().st_mtime - started for path in new))
    return TwoRuns(command, first, second, first_inputs, second_inputs, published_state(first), published_state(second), times, duration)


@pytest.fixture(scope="session")
def two_runs(evenkeel, tmp_path_factory: pytest.TempPathFactory) -> TwoRuns:
    return run_twice(evenkeel, evenkeel, tmp_path_factory.mktemp("two_runs"), "run", "movements")


@pytest.fixture(scope="session")
def two_landings(evenkeel, make_tables, tmp_path_factory: pytest.TempPathFactory) -> TwoRuns:
    return run_twice(make_tables, evenkeel, tmp_path_factory.mktemp("two_landings"), "land", "subscription_snapshots", "offset_snapshots")
