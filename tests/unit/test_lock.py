"""One writer at a time, and what the one who comes second is told."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from jobs import lock
from jobs.errors import PlatformError, WarehouseBusyError
from jobs.location import is_path, local_folder
from jobs.lock import LOCK_FILE, exclusive

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def test_a_second_run_is_told_who_holds_the_warehouse(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet" / "there"
    with exclusive(str(folder), "first", NOW), pytest.raises(WarehouseBusyError) as refused:
        with exclusive(str(folder), "second", NOW + timedelta(seconds=90)):
            pytest.fail("two runs hold one warehouse")
    assert str(refused.value) == (
        f"warehouse {folder} is held by run first (process {os.getpid()} on {socket.gethostname()}), started 90 s ago; "
        "wait for it with --wait SECONDS"
    )


def test_a_loser_does_not_wipe_the_holders_name(tmp_path: Path) -> None:
    with exclusive(str(tmp_path), "first", NOW):
        for _ in range(2):
            with pytest.raises(WarehouseBusyError, match="run first"), exclusive(str(tmp_path), "second", NOW):
                pass


def test_the_warehouse_is_free_after_a_run_and_after_one_that_failed(tmp_path: Path) -> None:
    with exclusive(str(tmp_path), "first", NOW):
        assert json.loads((tmp_path / LOCK_FILE).read_text())["run_id"] == "first"
    assert (tmp_path / LOCK_FILE).read_text() == ""
    with pytest.raises(ZeroDivisionError), exclusive(str(tmp_path), "second", NOW):
        raise ZeroDivisionError
    with exclusive(str(tmp_path), "third", NOW):
        assert json.loads((tmp_path / LOCK_FILE).read_text())["run_id"] == "third"


def test_a_killed_run_leaves_nothing_behind(tmp_path: Path) -> None:
    script = (
        "import sys, time; from datetime import datetime, timezone; from jobs.lock import exclusive\n"
        "with exclusive(sys.argv[1], 'killed', datetime.now(timezone.utc)): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(WarehouseBusyError, match=f"run killed \\(process {holder.pid} "), exclusive(str(tmp_path), "second", NOW):
            pass
        holder.send_signal(signal.SIGKILL)
    with exclusive(str(tmp_path), "second", NOW):
        assert "second" in (tmp_path / LOCK_FILE).read_text()


def test_waiting_ends_when_the_other_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.01)
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with exclusive(str(tmp_path), "first", NOW):
            is_held.set()
            may_end.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_held.wait(10)
    with pytest.raises(WarehouseBusyError), exclusive(str(tmp_path), "second", NOW, wait_seconds=0.05):
        pass
    threading.Timer(0.05, may_end.set).start()
    with exclusive(str(tmp_path), "third", NOW, wait_seconds=10):
        assert "third" in (tmp_path / LOCK_FILE).read_text()
    holder.join()


WITHOUT_ZONE = '{"run_id": "x", "pid": 1, "host": "h", "started_at": "2026-11-21"}'


@pytest.mark.parametrize("content", ["", "{", "null", '{"run_id": "x"}', WITHOUT_ZONE])
def test_an_unreadable_holder_is_another_run(content: str, tmp_path: Path) -> None:
    with exclusive(str(tmp_path), "first", NOW):
        (tmp_path / LOCK_FILE).write_text(content)
        with pytest.raises(WarehouseBusyError, match="is held by another run; wait"), exclusive(str(tmp_path), "second", NOW):
            pass


def test_a_folder_that_cannot_be_made_is_no_warehouse(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PlatformError, match=f"warehouse {tmp_path}/file: cannot be written"), exclusive(str(tmp_path / "file"), "r", NOW):
        pass


def test_elsewhere_nothing_is_locked_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), exclusive("s3a://bucket/w", "first", NOW), exclusive("s3a://bucket/w", "second", NOW):
        pass
    assert "s3a://bucket/w is not on a local file system" in caplog.text


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
        pytest.param("s3a://bucket/w", None, id="an object store"),
        pytest.param("hdfs://host/w", None, id="another file system"),
        pytest.param("main.evenkeel", None, id="a schema"),
        pytest.param("cat.main.evenkeel", None, id="a schema of a catalog"),
    ],
)
def test_what_the_name_of_a_warehouse_says(location: str, expected: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_folder(location) == (None if expected is None else tmp_path / expected)
    assert is_path(location) == (expected is not None or "://" in location)
