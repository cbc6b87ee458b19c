"""One writer at a time: advisory locks on files inside a local warehouse.

A lock belongs to the open file, so that a killed process frees it and nothing has to be cleaned up. The file contains its holder: other
runs report it, and the next holder waits for its JVM, since Spark's JVM outlives a killed driver for a moment and could still commit.
There are two files. One is held for a whole run, the other for one commit. So even a writer that bypasses the first loses nothing;
Delta's own local log store does not promise that to two processes.
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
"""How long a holder may be without a name: it writes the name after it gets the lock, and removes it before it frees the lock."""
JVM_END_SECONDS = 60.0
"""How long the next run waits for the JVM of a killed driver to end."""
LONGEST_COMMIT_SECONDS = 900.0


@dataclass(frozen=True)
class Holder:
    """The holder of a lock.

    Attributes:
        host, pid: of the driver.
        started_at: when the run began, ISO 8601 with a zone.
        jvm: process id of Spark's JVM and its start time, which differs from that of a later process with this id; None if the JVM runs
            on another machine.
        driver_start: start time of the process ``pid``; None if it is not known.
    """

    run_id: str
    host: str
    pid: int
    started_at: str
    jvm: tuple[int, str] | None = None
    driver_start: str | None = None

    def described(self, now: datetime) -> str:
        """Return a description of the holder for messages."""
        age = int((now - datetime.fromisoformat(self.started_at)).total_seconds())
        return f"run {self.run_id} (process {self.pid} on {self.host}), started {max(0, age)} s ago"


def this_process(run_id: str, started_at: datetime, jvm_pid: int | None = None) -> Holder:
    """Return this process as a holder; ``jvm_pid`` is that of its Spark, None if it runs on another machine."""
    start = None if jvm_pid is None else process_start(jvm_pid)
    jvm = None if jvm_pid is None or start is None else (jvm_pid, start)
    return Holder(run_id, socket.gethostname(), os.getpid(), started_at.isoformat(), jvm, process_start(os.getpid()))


@contextmanager
def exclusive(folder: Path, name: str, holder: Holder, wait_seconds: float, now: Callable[[], datetime]) -> Iterator[Callable[[], None]]:
    """Hold one of the locks of a folder for the length of the block; yields a check that the path still leads to the locked folder.

    The lock follows the file if that is moved, but everything else is written by path. The check raises
    ``WarehouseExchangedError``.

    Raises:
        WarehouseBusyError: another process still holds it after ``wait_seconds``; or a killed run's JVM does not end.
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
        finally:  # also after an error: only a killed driver leaves its name
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
    """Return the message for a run whose warehouse was replaced by another."""
    return (
        f"warehouse {location}: expected {expected}, found {found}; it was moved or replaced during the run, which publishes nothing. "
        "End all runs before a warehouse is moved, then run again"
    )


@contextmanager
def shared(folder: Path, name: str, wait_seconds: float, now: Callable[[], datetime]) -> Iterator[None]:
    """Hold a shared lock of a folder for the length of the block: other readers may hold it too, runs may not; writes nothing.

    Raises:
        WarehouseBusyError: a run still holds it after ``wait_seconds``; or a killed run's JVM does not end.
    """
    path = folder / name
    if not path.exists():  # no run has used this folder
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
        raise PlatformError(
            f"warehouse {path.parent}: cannot be written ({error.strerror}); name another location with --warehouse"
        ) from None


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
    """Return the holder that a lock file names; None if it names none, or is unreadable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        jvm = content.pop("jvm")
        holder = Holder(**content, jvm=None if jvm is None else (int(jvm[0]), str(jvm[1])))
        return holder if datetime.fromisoformat(holder.started_at).tzinfo is not None else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def _outwait_jvm(path: Path) -> None:
    """Wait for the end of the JVM of a killed driver, which has left its name in the file although nobody holds the lock.

    A copy of a warehouse in use has such a name too: that driver is alive, and writes to the original.
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
                f"{waited:.0f} s and may write; end that process"
            )
        if waited == 0:
            logger.warning("the driver of run %s was killed; waiting until its Spark (process %d) ends", left.run_id, pid)
        time.sleep(POLL_SECONDS)
        waited += POLL_SECONDS


def process_start(pid: int) -> str | None:
    """Return the start time of a process of this machine as the system gives it; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]  # a zombie writes no more; the 22nd of all fields is the start time
    except (FileNotFoundError, ProcessLookupError):  # the second if it ends during this read
        if Path("/proc/self/stat").exists():
            return None
    started = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()
    return started or None
