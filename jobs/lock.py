"""One writer at a time: an advisory lock on a file inside a local warehouse.

The lock belongs to the open file, so that a killed process frees it without leaving anything to clean up; what is
written in the file only tells the loser who holds it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from jobs.errors import PlatformError, WarehouseBusyError
from jobs.location import local_folder

logger = logging.getLogger(__name__)

LOCK_FILE = ".evenkeel.lock"
POLL_SECONDS = 0.5


@contextmanager
def exclusive(location: str, run_id: str, started_at: datetime, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the warehouse at a location for the length of the block.

    Raises:
        WarehouseBusyError: somebody else holds it and still does after ``wait_seconds``.
        PlatformError: the folder cannot be written.
    """
    folder = local_folder(location)
    if folder is None:
        logger.warning("%s is not on a local file system: nothing keeps a second run out, start one at a time", location)
        yield
        return
    descriptor = _open(folder)
    try:
        _acquire(descriptor, folder / LOCK_FILE, started_at, wait_seconds, time.sleep)
        holder = {"run_id": run_id, "pid": os.getpid(), "host": socket.gethostname(), "started_at": started_at.isoformat()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _open(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise PlatformError(f"warehouse {folder}: cannot be written ({error.strerror}); name another with --warehouse") from None


def _acquire(descriptor: int, path: Path, now: datetime, wait_seconds: float, sleep: Callable[[float], None]) -> None:
    waited = 0.0
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if waited >= wait_seconds:
                raise WarehouseBusyError(_who_holds(path, now)) from None
        sleep(POLL_SECONDS)
        waited += POLL_SECONDS


def _who_holds(path: Path, now: datetime) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        age = now - datetime.fromisoformat(holder["started_at"])
        who = f"run {holder['run_id']} (process {holder['pid']} on {holder['host']}), started {max(0, int(age.total_seconds()))} s ago"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another run"
    return f"warehouse {path.parent} is held by {who}; wait for it with --wait SECONDS"
