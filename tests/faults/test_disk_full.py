"""A disk that is full before a run is done: the run says so and ends, readers go on, and running again when there is space does it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.verify.folder import check_folder
from tests.faults.conftest import TwoRuns
from tests.faults.readers import published_state
from tests.needs import skip_loudly

DISK = "256m"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system in memory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "evenkeel", disk], capture_output=True, text=True)
        problem = made.stderr.strip() if made.returncode else ""
    except FileNotFoundError:
        problem = "no program mount"
    if problem:
        skip_loudly(f"no disk was filled: {problem}; run the tests as root, or behind `unshare -rm`")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def used_bytes(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def fill(disk: Path, free_bytes: int) -> Path:
    """Leave so many bytes free; return the file that takes the others."""
    ballast = disk / "ballast"
    space = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, space.f_bavail * space.f_frsize - free_bytes)
    return ballast


@pytest.mark.slow
@pytest.mark.parametrize("share", [0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.65, 0.8, 0.95])
def test_disk_that_fills_up_during_a_run_is_reported_and_recovered(
    share: float, evenkeel, measured, two_runs: TwoRuns, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run with a share of the space that the run's files take; staging comes on top of that, so that it never is enough."""
    warehouse = disk / "warehouse"
    shutil.copytree(two_runs.first, warehouse)
    free_bytes = int(share * (used_bytes(two_runs.second) - used_bytes(two_runs.first)))
    ballast = fill(disk, free_bytes)
    capsys.readouterr()
    assert evenkeel(*two_runs.second_run(warehouse)) != 0
    messages = capsys.readouterr().err.splitlines()
    measured(f"{free_bytes:,} bytes free: {messages[-1]}")
    assert all(line.startswith("evenkeel: ") for line in messages), messages
    assert "No space left on device" in messages[-1]
    assert published_state(warehouse) == two_runs.before
    ballast.unlink()
    assert evenkeel(*two_runs.second_run(warehouse)) == 0
    assert published_state(warehouse) == two_runs.after
    assert check_folder(warehouse).damages == []
