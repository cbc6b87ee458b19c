"""The processes below this one, as ``/proc`` shows them: their memory and CPU time."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SAMPLING_S = 1.0
WORKER_SAMPLING_S = 0.2
PART = re.compile(r"^part: (\S+) (\d+\.\d+) CPU s$", re.MULTILINE)
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """A process as ``/proc`` shows it.

    Attributes:
        cpu_s: CPU seconds of the process.
        reaped_cpu_s: of its children that have ended and that it has waited for.
    """

    pid: int
    parent: int
    cpu_s: float
    reaped_cpu_s: float

    @property
    def is_worker(self) -> bool:
        """Whether this is Spark's daemon of Python workers, or a worker."""
        return b"pyspark.daemon" in _read(self.pid, "cmdline")

    def proportional_bytes(self) -> int:
        """Return the proportional set size; 0 where the process has ended."""
        for line in _read(self.pid, "smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
        return 0


def descendants(ancestor: int) -> list[Process]:
    """Return all processes below one, which is not among them."""
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (process := _process(int(name))) is not None:
            children.setdefault(process.parent, []).append(process)
    found = list(children.get(ancestor, ()))
    for process in found:  # grows meanwhile
        found += children.get(process.pid, ())
    return found


def tree_cpu_s(ancestor: int) -> float:
    """Return the CPU seconds so far of a process and all below it, those that have ended included."""
    tree = [_process(ancestor), *descendants(ancestor)]
    return sum(process.cpu_s + process.reaped_cpu_s for process in tree if process is not None)


@contextmanager
def printed_cpu_s(name: str) -> Iterator[None]:
    """Print what a part of this Spark session takes: CPU seconds of the JVM that started this process, and of all below it."""
    jvm = os.getppid()
    before_s = tree_cpu_s(jvm)
    yield
    print(f"part: {name} {tree_cpu_s(jvm) - before_s:.2f} CPU s", flush=True)


def _process(pid: int) -> Process | None:
    """Return a process, None where it has ended."""
    stat = _read(pid, "stat")
    if not stat:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may have blanks
    user, system, reaped_user, reaped_system = (int(field) / CLOCK_TICKS for field in fields[11:15])
    return Process(pid, int(fields[1]), user + system, reaped_user + reaped_system)


def _read(pid: int, name: str) -> bytes:
    try:
        return Path("/proc", str(pid), name).read_bytes()
    except OSError:  # it has ended
        return b""


class ForgottenWorkers:
    """Counts the CPU time of Spark's Python workers that end while their daemon lives.

    The daemon ignores SIGCHLD. The kernel then drops a worker's CPU time instead of adding it to its parent's.
    """

    def __init__(self) -> None:
        """Watch the descendants of this process."""
        self._cpu_s: dict[int, float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ForgottenWorkers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def cpu_s(self, waited_for: Collection[int]) -> float:
        """Return the CPU seconds of the workers that nobody has waited for; the last fifth of a second of each may be missing.

        Args:
            waited_for: ids of the processes whose time is known.
        """
        return sum(seconds for pid, seconds in self._cpu_s.items() if pid not in waited_for)

    def _watch(self) -> None:
        while not self._is_over.wait(WORKER_SAMPLING_S):
            below = descendants(os.getpid())
            daemons = {process.pid for process in below if process.is_worker}
            for process in below:
                if process.parent in daemons or process.pid in self._cpu_s:  # the daemon itself is the JVM's, which waits for it
                    self._cpu_s[process.pid] = process.cpu_s


class MemorySampler:
    """Reads the memory and CPU time of a process's descendants once a second, Python workers and everything else apart.

    Attributes:
        driver_bytes, workers_bytes: the largest sum of proportional set sizes (PSS) that was seen. The driver is the JVM, which has the
            executor too with a local master, and the Python that started it or that it started for the job.
        workers_cpu_s: CPU seconds of the workers; up to a second of each is missing.
    """

    def __init__(self, pid: int | None = None) -> None:
        """Sample the descendants of a process, of this one where none is named."""
        self._pid = os.getpid() if pid is None else pid
        self.driver_bytes = self.workers_bytes = 0
        self._workers_cpu_s: dict[int, float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_over, daemon=True)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def workers_cpu_s(self) -> float:
        return sum(self._workers_cpu_s.values())

    def _sample_until_over(self) -> None:
        self._sample()
        while not self._is_over.wait(SAMPLING_S):
            self._sample()

    def _sample(self) -> None:
        driver = workers = 0
        for process in descendants(self._pid):
            if process.is_worker:
                workers += process.proportional_bytes()
                self._workers_cpu_s[process.pid] = process.cpu_s
            else:
                driver += process.proportional_bytes()
        self.driver_bytes, self.workers_bytes = max(self.driver_bytes, driver), max(self.workers_bytes, workers)
