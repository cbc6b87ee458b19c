"""One writer at a time: advisory locks on files inside a local warehouse.

A lock belongs to the open file, so that a killed process frees it without leaving anything to clean up. What is written in the file
tells the loser who holds it, and the next holder which JVM to wait for: Spark's JVM outlives a killed driver for a moment, and could
still commit. Two files: one is held for a whole run, the other for one commit, so that even a writer that bypasses the first loses
nothing, which Delta's own local log store does not promise to two processes.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from jobs.runtime.errors import PlatformError, WarehouseBusyError, WarehouseExchangedError

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
NAMELESS_SECONDS = 2.0
"""How long a holder may be without a name: it writes that once it has the lock, and takes it away before it lets go."""
JVM_END_SECONDS = 60.0
"""How long a JVM may outlive its killed driver before the next run gives up."""
LONGEST_COMMIT_SECONDS = 900.0


@dataclass(frozen=True)
class Holder:
    """Who holds a lock.

    Attributes:
        host, pid: where the driver runs.
        started_at: when the run began, ISO 8601 with a zone.
        jvm: process id of Spark's JVM and when it started, which tells it from a later process of that id; None where the JVM is
            elsewhere.
        driver_start: likewise when the process ``pid`` started; None where nobody noted it.
    """

    run_id: str
    host: str
    pid: int
    started_at: str
    jvm: tuple[int, str] | None = None
    driver_start: str | None = None

    def described(self, now: datetime) -> str:
        """Return what a loser is told."""
        age = int((now - datetime.fromisoformat(self.started_at)).total_seconds())
        return f"run {self.run_id} (process {self.pid} on {self.host}), started {max(0, age)} s ago"


def this_process(run_id: str, started_at: datetime, jvm_pid: int | None = None) -> Holder:
    """Return this process as a holder; ``jvm_pid`` is that of its Spark, None where that runs on another machine."""
    start = None if jvm_pid is None else process_start(jvm_pid)
    jvm = None if jvm_pid is None or start is None else (jvm_pid, start)
    return Holder(run_id, socket.gethostname(), os.getpid(), started_at.isoformat(), jvm, process_start(os.getpid()))


@contextmanager
def exclusive(folder: Path, name: str, holder: Holder, wait_seconds: float, now: Callable[[], datetime]) -> Iterator[Callable[[], None]]:
    """Hold one of the locks of a folder for the length of the block; yields what checks that the folder's path still leads to it.

    The lock belongs to the file, wherever that is moved, and everything else is written by path. The check raises
    ``WarehouseExchangedError``.

    Raises:
        WarehouseBusyError: somebody else holds it and still does after ``wait_seconds``; or a killed run's JVM does not end.
        PlatformError: the folder cannot be written.
    """
    path = folder / name
    descriptor = _open(path)
    try:
        _acquire(descriptor, fcntl.LOCK_EX, path, now, wait_seconds)
        _outwait_jvm(path)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)
        try:
            yield partial(_check_path, descriptor, path)
        finally:  # of an error too: only a killed driver leaves its name
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _check_path(descriptor: int, path: Path) -> None:
    try:
        is_same = os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        is_same = False
    if not is_same:
        raise WarehouseExchangedError(exchanged(path.parent, "the folder that this run has locked", "another one, or none"))


def exchanged(location: object, expected: str, found: str) -> str:
    """Return what a run is told whose warehouse was exchanged for another."""
    return (
        f"warehouse {location}: expected {expected}, found {found}; it was moved or exchanged under the run, which publishes nothing. "
        "End all runs before a warehouse is moved, then run again"
    )


@contextmanager
def shared(folder: Path, name: str, wait_seconds: float, now: Callable[[], datetime]) -> Iterator[None]:
    """Keep who wants a lock of a folder for itself out for the length of the block, beside others that only read; writes nothing.

    Raises:
        WarehouseBusyError: a run holds it and still does after ``wait_seconds``; or a killed run's JVM does not end.
    """
    path = folder / name
    if not path.exists():  # no run has been here
        yield
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _acquire(descriptor, fcntl.LOCK_SH, path, now, wait_seconds)
        _outwait_jvm(path)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise PlatformError(f"warehouse {path.parent}: cannot be written ({error.strerror}); name another with --warehouse") from None


def _acquire(descriptor: int, kind: int, path: Path, now: Callable[[], datetime], wait_seconds: float) -> None:
    waited = 0.0
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = read_holder(path)
            if waited >= wait_seconds + (NAMELESS_SECONDS if holder is None else 0):
                who = "another run, or by verify" if holder is None else holder.described(now())
                raise WarehouseBusyError(f"warehouse {path.parent} is held by {who}; wait for it with --wait SECONDS") from None
        time.sleep(POLL_SECONDS)
        waited += POLL_SECONDS


def read_holder(path: Path) -> Holder | None:
    """Return who a lock file names; None when it names nobody, or is unreadable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        jvm = content.pop("jvm")
        holder = Holder(**content, jvm=None if jvm is None else (int(jvm[0]), str(jvm[1])))
        return holder if datetime.fromisoformat(holder.started_at).tzinfo is not None else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def _outwait_jvm(path: Path) -> None:
    """Wait for the end of the JVM of a driver that was killed: a name still stands in the file, though nobody holds it.

    In a copy of a warehouse it stands there too, with the lock of the one that is in use: that driver lives, and writes elsewhere.
    """
    left = read_holder(path)
    if left is None or left.jvm is None or left.host != socket.gethostname():
        return
    if left.driver_start is not None and process_start(left.pid) == left.driver_start:
        return
    pid, start = left.jvm
    waited = 0.0
    while process_start(pid) == start:
        if waited >= JVM_END_SECONDS:
            raise WarehouseBusyError(
                f"warehouse {path.parent}: the driver of run {left.run_id} was killed, but its Spark (process {pid}) still runs after "
                f"{waited:.0f} s and may write; end it"
            )
        if waited == 0:
            logger.warning("the driver of run %s was killed; waiting for the end of its Spark (process %d)", left.run_id, pid)
        time.sleep(POLL_SECONDS)
        waited += POLL_SECONDS


def process_start(pid: int) -> str | None:
    """Return when a process of this machine started, in words of the system; None when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]  # a zombie writes no more; the 22nd of all fields is the start time
    except (FileNotFoundError, ProcessLookupError):  # the second where it ends while it is being looked at
        if Path("/proc/self/stat").exists():
            return None
    started = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()
    return started or None
