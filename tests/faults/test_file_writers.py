"""Whole files: two writers at once, killed writers, planted links, failures; a reader sees old or new content, never a mixture."""

from __future__ import annotations

import fcntl
import os
import secrets
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from jobs.runtime import atomic_file
from jobs.runtime.atomic_file import UNFINISHED, UnfinishedFile, remove_unfinished, write_file
from jobs.runtime.errors import EvenkeelError, NotAWarehouseError
from jobs.runtime.output_files import remove_unfinished_outputs, write_output
from jobs.storage.warehouse import Warehouse
from schemas.config import ReportSettings

ROOT = Path(__file__).parents[2]
WRITES = 60
MANY = """
import sys; from pathlib import Path; from jobs.runtime.output_files import write_output
for number in range(int(sys.argv[3])):
    write_output([sys.argv[2] * 10_000] * 20, Path(sys.argv[1]))
"""
ENDLESS = """
import sys; from pathlib import Path; from jobs.runtime.output_files import write_output
def parts():
    yield "half" * 100_000
    print("begun", flush=True)
    sys.stdin.read()
write_output(parts(), Path(sys.argv[1]))
"""


def start(script: str, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def unfinished(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{UNFINISHED}*"))


def test_two_processes_that_write_one_file_never_mix_it(tmp_path: Path, measured) -> None:
    path = tmp_path / "report.html"
    writers = [start(MANY, path, letter, WRITES) for letter in "ab"]
    whole, seen, reads = {letter * 200_000 for letter in "ab"}, set(), 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            content = path.read_text()
            assert content in whole, f"{len(content)} characters of {sorted(set(content))}"
            seen.add(content[0])
            reads += 1
    assert [(writer.returncode, writer.communicate()) for writer in writers] == [(0, ("", ""))] * 2
    assert seen == {"a", "b"} and os.listdir(tmp_path) == ["report.html"]
    measured(f"{2 * WRITES} writes of 2 processes, {reads} reads, each of one writer's whole file")


def test_a_killed_writer_leaves_the_old_file_and_the_next_report_tidies_up(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_output(["old"], path)
    killed, living = start(ENDLESS, path), start(ENDLESS, path)
    for writer in (killed, living):
        assert writer.stdout.readline() == "begun\n"
    (theirs := tmp_path / f"{UNFINISHED}link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(pipe := tmp_path / f"{UNFINISHED}pipe")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(unfinished(tmp_path)) == 4

    write_output(["new"], path)
    remove_unfinished_outputs(ReportSettings(output=str(path)))
    assert path.read_text() == "new"
    (kept,) = set(unfinished(tmp_path)) - {theirs, pipe}
    assert kept.stat().st_size and theirs.is_symlink(), "of the process that still writes; and what is no file of ours"
    living.communicate("")
    assert path.read_text() == "half" * 100_000 and set(unfinished(tmp_path)) == {theirs, pipe}


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def parts() -> Iterator[str]:
        yield "half"
        raise RuntimeError("Spark is gone")

    path = tmp_path / "findings.csv"
    write_output(["old"], path)
    with pytest.raises(RuntimeError, match="Spark is gone"):
        write_output(parts(), path)
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["findings.csv"])
    (tmp_path / "folder").mkdir()
    with pytest.raises(EvenkeelError, match=f"report: cannot write {tmp_path}/folder: Is a directory; choose another path for it"):
        write_output(["new"], tmp_path / "folder")
    assert unfinished(tmp_path) == []


def test_a_planted_temporary_name_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are random. One that somebody has guessed ends the write."""
    (victim := tmp_path / "victim").write_text("kept")
    monkeypatch.setattr(secrets, "token_hex", lambda size: "guessed")
    (tmp_path / f"{UNFINISHED}guessed").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "report.html", [b"new"])
    assert victim.read_text() == "kept" and not (tmp_path / "report.html").exists()


def test_unfinished_file_does_not_block_a_new_warehouse(tmp_path: Path) -> None:
    """A run that is killed before it has made its tables may leave one."""
    left = UnfinishedFile(tmp_path)
    Warehouse(Mock(), str(tmp_path)).check_location()
    left.discard()
    (tmp_path / "cat.jpg").touch()
    with pytest.raises(NotAWarehouseError, match=r"found cat\.jpg"):
        Warehouse(Mock(), str(tmp_path)).check_location()


def test_names_of_unfinished_files_are_not_used_twice(tmp_path: Path) -> None:
    files = [UnfinishedFile(tmp_path) for _ in range(50)]
    assert len({file.path for file in files}) == 50
    for file in files:
        file.discard()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("exists", [True, False])
def test_a_report_is_written_to_where_a_link_leads(exists: bool, tmp_path: Path) -> None:
    target = tmp_path / "served" / "index.html"
    target.parent.mkdir()
    if exists:
        target.write_text("old")
    (link := tmp_path / "report.html").symlink_to("served/index.html")
    write_output(["new"], link)
    assert link.is_symlink() and target.read_text() == "new" and os.listdir(target.parent) == ["index.html"]


def test_content_reaches_the_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def record_sync(descriptor: int) -> None:
        about = os.fstat(descriptor)
        steps.append("folder" if stat.S_ISDIR(about.st_mode) else f"{about.st_size} bytes")
        sync(descriptor)

    def record_replace(old: Path, new: Path) -> None:
        steps.append(f"is {new.name}")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", record_replace)
    write_file(tmp_path / "a", [b"12", b"345"])
    assert steps == ["5 bytes", "is a", "folder"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o002, 0o664)])
def test_files_have_the_mode_that_the_umask_says(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_output(["new"], tmp_path / "report.html")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == mode


def test_a_file_that_was_tidied_away_before_it_was_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process sees a file that nobody has locked yet."""
    lock, removed = fcntl.flock, []

    def remove_first(file: object, kind: int) -> None:
        if not removed:
            removed.extend(unfinished(tmp_path))
            with monkeypatch.context() as patched:
                patched.setattr(atomic_file.fcntl, "flock", lock)
                remove_unfinished(tmp_path)
        lock(file, kind)

    monkeypatch.setattr(atomic_file.fcntl, "flock", remove_first)
    write_file(tmp_path / "a", [b"new"])
    assert len(removed) == 1 and not removed[0].exists() and (tmp_path / "a").read_bytes() == b"new"


def test_a_file_system_without_locks_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(atomic_file.fcntl, "flock", refuse)
    left = UnfinishedFile(tmp_path)
    write_file(tmp_path / "a", [b"new"])
    remove_unfinished(tmp_path)
    assert (tmp_path / "a").read_bytes() == b"new" and left.path.exists()
    left.discard()
