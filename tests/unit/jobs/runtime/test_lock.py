"""One writer at a time, and the message for the second one."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs.runtime import file_lock as lock
from jobs.runtime.errors import PlatformError, WarehouseBusyError, WarehouseExchangedError
from jobs.runtime.file_lock import exclusive, process_start, read_holder, shared, this_process
from jobs.runtime.locations import COMMIT_LOCK, RUN_LOCK, is_path, is_shared, local_folder, objection

ROOT = Path(__file__).parents[4]
NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def hold(folder: Path, run_id: str, at: datetime = NOW, wait_seconds: float = 0.0, jvm_pid: int | None = None):
    """Hold a folder's run lock as a run that started at ``at``, which is also what its clock says."""
    return exclusive(folder, RUN_LOCK, this_process(run_id, at, jvm_pid), wait_seconds, lambda: at)


def read_lock(folder: Path):
    """Read a folder in peace."""
    return shared(folder, RUN_LOCK, 0.0, lambda: NOW)


def holder_in(folder: Path) -> str | None:
    holder = read_holder(folder / RUN_LOCK)
    return None if holder is None else holder.run_id


def test_busy_warehouse_names_its_holder(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet" / "there"
    with hold(folder, "first"), pytest.raises(WarehouseBusyError) as refused:
        with hold(folder, "second", NOW + timedelta(seconds=90)):
            pytest.fail("two runs hold one warehouse")
    assert str(refused.value) == (
        f"warehouse {folder} is held by run first (process {os.getpid()} on {socket.gethostname()}), started 90 s ago; "
        "wait for it with --wait SECONDS"
    )


def test_run_waits_for_the_lock_as_long_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(lock, "time", SimpleNamespace(sleep=slept.append))
    with hold(tmp_path, "first"):
        for wait_seconds in (0.0, 2.0):
            with pytest.raises(WarehouseBusyError, match="run first"), hold(tmp_path, "second", wait_seconds=wait_seconds):
                pass
    assert sum(slept) == 2.0


def test_refused_run_keeps_the_name_of_the_holder(tmp_path: Path) -> None:
    with hold(tmp_path, "first"):
        for _ in range(2):
            with pytest.raises(WarehouseBusyError, match="run first"), hold(tmp_path, "second"):
                pass


def test_a_holder_that_has_not_written_its_name_yet_is_named(tmp_path: Path) -> None:
    """Two that start at the same moment: the loser must not look before the winner has come to write."""
    path, name = tmp_path / RUN_LOCK, json.dumps(asdict(this_process("first", NOW)))
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = threading.Timer(0.2, path.write_text, [name])
        writer.start()
        with pytest.raises(WarehouseBusyError, match="run first"), hold(tmp_path, "second"):
            pytest.fail("two runs hold one warehouse")
        writer.join()


def test_the_locks_of_a_folder_are_apart(tmp_path: Path) -> None:
    holder = this_process("r", NOW)
    with exclusive(tmp_path, RUN_LOCK, holder, 0, lambda: NOW), exclusive(tmp_path, COMMIT_LOCK, holder, 0, lambda: NOW):
        pass


def test_the_warehouse_is_free_after_a_run_and_after_one_that_failed(tmp_path: Path) -> None:
    with hold(tmp_path, "first"):
        assert holder_in(tmp_path) == "first"
    assert (tmp_path / RUN_LOCK).read_text() == ""
    with pytest.raises(ZeroDivisionError), hold(tmp_path, "second"):
        raise ZeroDivisionError
    with hold(tmp_path, "third"):
        assert holder_in(tmp_path) == "third"


@pytest.mark.parametrize(("umask", "mode"), [(0o002, 0o664), (0o077, 0o600)])
def test_a_lock_file_has_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int, mode: int) -> None:
    """A group that shares a warehouse can then lock it in turn."""
    before = os.umask(umask)
    try:
        with hold(tmp_path, "first"):
            assert (tmp_path / RUN_LOCK).stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


@pytest.mark.parametrize("comes", ["nothing", "another folder"])
def test_a_folder_that_is_moved_under_its_lock_is_noticed(tmp_path: Path, comes: str) -> None:
    folder, other = tmp_path / "warehouse", tmp_path / "other"
    with hold(other, "before"):
        pass
    with hold(folder, "first") as check_path:
        check_path()
        folder.rename(tmp_path / "moved")
        if comes == "another folder":
            other.rename(folder)
        with pytest.raises(WarehouseExchangedError, match="expected the folder that this run has locked, found another one, or none"):
            check_path()


def test_readers_keep_runs_out_and_not_each_other(tmp_path: Path) -> None:
    with hold(tmp_path, "first"), pytest.raises(WarehouseBusyError, match="run first"), read_lock(tmp_path):
        pytest.fail("a reader sees a warehouse on its way")
    with read_lock(tmp_path), read_lock(tmp_path):
        with pytest.raises(WarehouseBusyError, match="or by verify"), hold(tmp_path, "second"):
            pytest.fail("a run writes where somebody reads")
    with hold(tmp_path, "third"):
        pass


def test_reader_leaves_no_file(tmp_path: Path) -> None:
    with read_lock(tmp_path), read_lock(tmp_path / "nowhere"):
        pass
    assert list(tmp_path.iterdir()) == []


HOLDING = """
import sys, time
from datetime import datetime, timezone
from pathlib import Path
from jobs.runtime.locations import RUN_LOCK
from jobs.runtime.file_lock import exclusive, this_process
now = datetime.now(timezone.utc)
with exclusive(Path(sys.argv[1]), RUN_LOCK, this_process('killed', now, int(sys.argv[2])), 0, lambda: now):
    print('held', flush=True)
    time.sleep(60)
"""


@contextmanager
def killed_run(folder: Path, jvm_pid: int) -> Iterator[None]:
    """Run the block while a run holds the folder, and kill that run after it."""
    command = [sys.executable, "-c", HOLDING, str(folder), str(jvm_pid)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(WarehouseBusyError, match=f"run killed \\(process {holder.pid} "), hold(folder, "second"):
            pass
        yield
        holder.send_signal(signal.SIGKILL)


def test_a_killed_run_whose_jvm_is_gone_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as jvm, killed_run(tmp_path, jvm.pid):
        jvm.kill()
    with hold(tmp_path, "second"):
        assert holder_in(tmp_path) == "second"


def test_the_jvm_of_a_killed_run_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.02)
    with subprocess.Popen(["sleep", "60"]) as jvm:
        with killed_run(tmp_path, jvm.pid):
            pass
        monkeypatch.setattr(lock, "JVM_END_SECONDS", 0.05)
        for asked in (hold(tmp_path, "second"), shared(tmp_path, RUN_LOCK, 0, lambda: NOW)):
            with pytest.raises(WarehouseBusyError, match=rf"its Spark \(process {jvm.pid}\) still runs"), asked:
                pytest.fail("the JVM may still write")
        monkeypatch.setattr(lock, "JVM_END_SECONDS", 30)
        threading.Timer(0.1, jvm.kill).start()
        threading.Timer(0.2, jvm.wait).start()
        with hold(tmp_path, "third"):
            assert jvm.poll() is not None


def test_holder_whose_jvm_has_ended_names_no_jvm() -> None:
    """Otherwise the next run would wait for a process that is not there."""
    with subprocess.Popen(["true"]) as jvm:
        pass
    assert this_process("first", NOW, jvm.pid).jvm is None


def test_process_with_a_reused_pid_is_not_the_jvm(tmp_path: Path) -> None:
    left = replace(this_process("killed", NOW, os.getpid()), jvm=(os.getpid(), "another start"), driver_start=None)
    (tmp_path / RUN_LOCK).write_text(json.dumps(asdict(left)))
    with hold(tmp_path, "second"):
        pass


def test_jvm_of_another_machine_does_not_block_a_run(tmp_path: Path) -> None:
    left = replace(this_process("killed", NOW, os.getpid()), host="elsewhere", driver_start=None)
    (tmp_path / RUN_LOCK).write_text(json.dumps(asdict(left)))
    with hold(tmp_path, "second"):
        pass


def test_a_copy_of_a_warehouse_in_use_is_free(tmp_path: Path) -> None:
    """The lock's file is copied with its holder, whose driver and Spark are well and at work on the original."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    with subprocess.Popen(["sleep", "60"]) as jvm:
        with hold(original, "first", jvm_pid=jvm.pid):
            shutil.copytree(original, copy)
            with hold(copy, "second"), pytest.raises(WarehouseBusyError, match="run first"), hold(original, "third"):
                pass
            shutil.copytree(original, tmp_path / "another")
            with read_lock(tmp_path / "another"):
                pass
        jvm.kill()


def test_waiting_ends_when_the_other_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.01)
    is_held, may_end = threading.Event(), threading.Event()

    def hold_for_a_while() -> None:
        with hold(tmp_path, "first"):
            is_held.set()
            may_end.wait(10)

    holder = threading.Thread(target=hold_for_a_while)
    holder.start()
    assert is_held.wait(10)
    with pytest.raises(WarehouseBusyError), hold(tmp_path, "second", wait_seconds=0.05):
        pass
    threading.Timer(0.05, may_end.set).start()
    with hold(tmp_path, "third", wait_seconds=10):
        assert holder_in(tmp_path) == "third"
    holder.join()


WITHOUT_ZONE = '{"run_id": "x", "pid": 1, "host": "h", "started_at": "2026-11-21", "jvm": null}'


@pytest.mark.parametrize("content", ["", "{", "null", '{"run_id": "x"}', WITHOUT_ZONE, WITHOUT_ZONE.replace("null", "[1]")])
def test_an_unreadable_holder_is_another_run(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "NAMELESS_SECONDS", 0.0)
    with hold(tmp_path, "first"):
        (tmp_path / RUN_LOCK).write_text(content)
        with pytest.raises(WarehouseBusyError, match="is held by another run, or by verify; wait"), hold(tmp_path, "second"):
            pass


def test_a_folder_that_cannot_be_made_is_no_warehouse(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PlatformError, match=f"warehouse {tmp_path}/file: cannot be written"), hold(tmp_path / "file", "r"):
        pass


@pytest.mark.parametrize(
    "has_proc", [True, pytest.param(False, marks=pytest.mark.skipif(shutil.which("ps") is None, reason="asks ps where there is no /proc"))]
)
def test_process_is_identified_by_its_start_time(has_proc: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_proc:
        monkeypatch.setattr(lock, "Path", lambda name: tmp_path / name.lstrip("/"))
    with subprocess.Popen(["sleep", "60"]) as process:
        start = process_start(process.pid)
        assert isinstance(start, str), "it is written as JSON"
        assert start == process_start(process.pid) and start != process_start(1)
        process.kill()
    assert process_start(process.pid) is None


MOUNTS = """/dev/vda / ext4 rw 0 0
server:/export /mnt/nfs nfs4 rw 0 0
/dev/vdb /mnt/nfs/disk xfs rw 0 0
driver /Workspace fuse.wsfs rw 0 0
overlay /merged fuse.fuse-overlayfs rw 0 0
server:/b /with\\040space nfs rw 0 0
host /guest virtiofs rw 0 0
host /home/windows 9p rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/warehouse", False),
        ("/mnt", False),
        ("/mnt/nfs", True),
        ("/mnt/nfs/not/yet/there", True),
        ("/mnt/nfs/disk/w", False),
        ("/mnt/nfs-like", False),
        ("/Workspace/w", True),
        ("/merged/w", False),
        ("/with space/w", True),
        ("/guest/w", True),
        ("/home/windows/w", True),
    ],
)
def test_shared_file_systems_are_recognised_by_mount_type(
    folder: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    monkeypatch.setattr(Path, "exists", lambda self: True)
    assert is_shared(Path(folder), mounts) is expected


def test_folder_counts_as_local_without_a_list_of_mounts(tmp_path: Path) -> None:
    assert not is_shared(tmp_path, tmp_path / "none")


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        pytest.param("w", "w", id="without a dot"),
        pytest.param("./w.d", "w.d", id="with a slash"),
        pytest.param(".", ".", id="here"),
        pytest.param("..", "..", id="above"),
        pytest.param("a.b.c.d", "a.b.c.d", id="no catalog has four parts"),
        pytest.param("file:/tmp/w", "/tmp/w", id="one slash"),
        pytest.param("file:///tmp/w", "/tmp/w", id="three slashes, and not //tmp, which Hadoop reads as a host"),
        pytest.param("file://tmp/w", "/tmp/w", id="two slashes, which are no host of ours"),
        pytest.param("//tmp/w", "/tmp/w", id="two slashes and no scheme"),
        pytest.param("s3a://bucket/w", None, id="an object store"),
        pytest.param("hdfs://host/w", None, id="another file system"),
        pytest.param("main.evenkeel", None, id="a schema"),
        pytest.param("cat.main.evenkeel", None, id="a schema of a catalog"),
    ],
)
def test_warehouse_name_is_a_local_path_or_a_schema(
    location: str, expected: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_folder(location) == (None if expected is None else tmp_path / expected)
    assert is_path(location) == (expected is not None or "://" in location)


@pytest.mark.parametrize("location", ["dbfs:/w", "hdfs:/w", "s3a:/bucket/w"])
def test_warehouse_name_with_a_foreign_scheme_needs_two_slashes(location: str) -> None:
    assert objection(location).startswith(f"found '{location.partition('/')[0]}/'; write a location")
    assert objection(location.replace(":/", "://")) is None


@pytest.mark.parametrize("location", ["file:/tmp/w", "file:///tmp/w", "10:/w", "w:1"])
def test_a_colon_may_be_part_of_a_name(location: str) -> None:
    assert objection(location) is None
