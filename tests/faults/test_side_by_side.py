"""Which commands work beside which others, on one warehouse."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path

import pytest

from jobs.options import COMMANDS
from jobs.runtime.file_lock import exclusive, shared, this_process
from jobs.runtime.locations import RUN_LOCK
from tests.builders.records import record_line

WRITING = [command for command in COMMANDS.values() if command.stages and command.name != "what-if"]
"""``what-if --save`` writes too. It refuses unknown groups before it waits, and this warehouse has none: it has a test of its own."""
BUSY = 3


@pytest.fixture(scope="module")
def published(make_tables, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("published") / "warehouse"
    shutil.copytree(empty_warehouse, warehouse)
    assert make_tables("audit", "--warehouse", warehouse) == 0
    return warehouse


def held_by(command: str, warehouse: Path) -> AbstractContextManager[object]:
    """Return what a command holds while it is at work."""
    now = datetime.now(timezone.utc)
    if command == "verify":
        return shared(warehouse, RUN_LOCK, 0, lambda: now)
    return exclusive(warehouse, RUN_LOCK, this_process("first", now), 0, lambda: now)


@pytest.mark.parametrize("first", ["run", "verify"])
def test_nothing_writes_beside_a_run_or_verify(
    evenkeel, published: Path, tmp_path: Path, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that write hold the same lock."""
    capture = tmp_path / "capture.jsonl"
    capture.write_text(record_line(offset=1) + "\n")
    with held_by(first, published):
        for command in WRITING:
            inputs = ("--input", capture) if command.lands else ()
            assert evenkeel(command.name, "--warehouse", published, *inputs) == BUSY, command.name
            lines = capsys.readouterr().err.splitlines()
            assert len(lines) == 1 and ("held by run first" in lines[0] or first == "verify"), command.name


def test_results_of_scenarios_are_not_saved_beside_a_run(evenkeel, demo_warehouse: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(demo_warehouse, warehouse)
    with held_by("run", warehouse):
        assert evenkeel("what-if", "alerts-range", "--add-members", "1", "--save", "--warehouse", warehouse) == BUSY
    assert not (warehouse / "scenarios").exists()


def test_beside_a_run_a_report_is_made_and_nothing_is_verified(evenkeel, published: Path, tmp_path: Path) -> None:
    """What readers see is published; verify would report tables that a run changes. Readers do not wait for each other (test_lock.py)."""
    with held_by("run", published):
        assert evenkeel("verify", "--warehouse", published) == BUSY
        assert evenkeel("report", "--warehouse", published, "--output", tmp_path / "page.html") == 0
    assert (tmp_path / "page.html").stat().st_size
