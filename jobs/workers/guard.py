"""Protection of a Spark worker from a group that needs all the memory, never ends, or ends the process.

Spark repeats a task when its worker dies, but the same group kills the next worker too. After the last try the message is only "worker
exited unexpectedly": one group of a hundred thousand has stopped the run, and nobody knows which. So a second try computes each group in
a process of its own. The worker survives the end of that process and can name the group.
"""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from zipimport import zipimporter

from pyspark import TaskContext

Input = TypeVar("Input")
Row = TypeVar("Row")

ROWS_AT_ONCE = 200
"""Rows that a group's own process sends together. A slow process sends fewer."""
HAND_OVER_SECONDS = 1.0
_FORK = multiprocessing.get_context("fork")  # the child needs the worker's functions, settings and the rows read so far


@dataclass(frozen=True)
class WorkerLimits:
    """Limits of one worker: plain values, because every task carries them.

    Attributes:
        memory_mb: MiB of address space in addition to those at the start of the task.
        idle_timeout_s: the most seconds without a row.
    """

    memory_mb: int
    idle_timeout_s: float


class GroupFailedError(RuntimeError):
    """A group could not be computed; the message has the group and the reason."""


def out_of_memory(memory_mb: int) -> str:
    """Return the message for a MemoryError in a worker."""
    return f"out of memory: it takes more than the {memory_mb} MiB that workers.memory_mb allows"


class DecodingFailedError(RuntimeError):
    """Records could not be decoded; the message has their place and the reason."""


@contextmanager
def limited_memory(memory_mb: int) -> Iterator[None]:
    """Let this process allocate at most so many MiB more; an allocation beyond raises MemoryError.

    Needs Linux. It never raises a limit that Spark has set (``spark.executor.pyspark.memory``).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    statm = Path("/proc/self/statm")
    if statm.exists():
        wanted = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize() + memory_mb * 1024 * 1024
        known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min([wanted, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


OBJECTS_PER_COLLECTION = 100_000
"""After how many new objects a worker looks for cycles; Python's own number is 700, made for programs with few objects."""


@contextmanager
def few_collections() -> Iterator[None]:
    """Let this process look for cycles of objects more rarely.

    Rows have no cycles, and are freed without a collection. To look through those that wait took a tenth of a worker's time.
    """
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def forget_archives() -> None:
    """Let Python's import system forget the archives on the path until it imports from them again.

    At the start of each task, Spark's worker has it read the list of files of each archive that it remembers: 26 ms for a jar and a zip
    of Spark's own, which are on the path of each worker. A module that is imported later is still found there.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


class Guard:
    """Applies the limits to one task: a context manager around all its work.

    A worker that yields no row for ``idle_timeout_s`` ends itself, with its stack on stderr, so that Spark repeats the task. Memory is
    limited by ``limited_memory``.
    """

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self._exit_stack = ExitStack()
        context = TaskContext.get()
        self._is_careful = context is not None and context.attemptNumber() > 0
        self._armed_at = 0.0

    def __enter__(self) -> Guard:
        forget_archives()
        self._exit_stack.enter_context(few_collections())
        self._exit_stack.enter_context(limited_memory(self._limits.memory_mb))
        self._exit_stack.callback(faulthandler.cancel_dump_traceback_later)
        if not self._is_careful:
            self._arm()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._exit_stack.close()

    def compute(self, where: str, inputs: Iterator[Input], work: Callable[[Iterable[Input]], Iterator[Row]]) -> Iterator[Row]:
        """Yield the rows of one group.

        Args:
            where: name of the group for messages.
            inputs: rows of the group; a second try first reads them all, because a child must not read from the JVM.
            work: yields the results.

        Raises:
            GroupFailedError: any unexpected error; on a second try also the end of the group's process, by itself or by the limit.
        """
        try:
            if self._is_careful:
                yield from self._in_own_process(where, partial(work, list(inputs)))
                return
            for row in work(inputs):
                if time.monotonic() - self._armed_at > self._limits.idle_timeout_s / 10:  # arming starts a thread, so not for every row
                    self._arm()
                yield row
        except GroupFailedError:
            raise
        except Exception as error:
            raise GroupFailedError(f"{where}: {self.explain(error)}") from error

    def explain(self, error: Exception) -> str:
        """Return the message for an error in a worker."""
        if isinstance(error, MemoryError):
            return out_of_memory(self._limits.memory_mb)
        return f"{type(error).__name__}: {error}"

    def _arm(self) -> None:
        self._armed_at = time.monotonic()
        faulthandler.dump_traceback_later(self._limits.idle_timeout_s, exit=True)

    def _in_own_process(self, where: str, work: Callable[[], Iterator[Row]]) -> Iterator[Row]:
        reader, writer = _FORK.Pipe(duplex=False)
        child = _FORK.Process(target=_hand_over, args=(work, self.explain, writer), daemon=True)
        child.start()
        writer.close()
        try:
            while True:
                if not reader.poll(self._limits.idle_timeout_s):
                    raise GroupFailedError(
                        f"{where}: no result for {self._limits.idle_timeout_s:g} s; raise workers.idle_timeout_s if it needs longer"
                    )
                rows, failure, is_done = reader.recv()
                if failure is not None:
                    raise GroupFailedError(failure if failure.startswith(where) else f"{where}: {failure}")
                yield from rows
                if is_done:
                    return
        except (EOFError, OSError):  # OSError if it ended in the middle of a message
            child.join()
            end = _name_of_end(child.exitcode)
            raise GroupFailedError(
                f"{where}: its process ended with {end}; its machine may have too little memory, or an assignor of your own ended it"
            ) from None
        finally:
            child.kill()
            child.join()
            reader.close()


def _hand_over(work: Callable[[], Iterator[Row]], explain: Callable[[Exception], str], writer: Connection) -> None:
    """Send (rows, failure, is_done) until the work is done; runs in the group's own process."""
    rows: list[Row] = []
    sent_at = time.monotonic()
    try:
        for row in work():
            rows.append(row)
            if len(rows) == ROWS_AT_ONCE or time.monotonic() - sent_at > HAND_OVER_SECONDS:
                writer.send((rows, None, False))
                rows, sent_at = [], time.monotonic()
        writer.send((rows, None, True))
    except Exception as error:
        rows.clear()
        writer.send(([], str(error) if isinstance(error, GroupFailedError) else explain(error), True))


def _name_of_end(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        names = {one.value: one.name for one in signal.Signals}  # real-time signals have only numbers
        return f"signal {names.get(-exit_code, -exit_code)}"
    return f"exit code {exit_code}"
