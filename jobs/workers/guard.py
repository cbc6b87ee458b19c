"""What a Spark worker does about a group that would take it down: one that needs all the memory, never ends, or ends the process.

Spark tries a task again when its worker dies, but whatever killed the first worker kills the next, and after the last try all that is
left is "worker exited unexpectedly": one group of a hundred thousand has stopped the run, and nobody knows which. So a second try is
a careful one: each group is computed in a process of its own, whose end the worker lives to tell.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from pyspark import TaskContext

Input = TypeVar("Input")
Row = TypeVar("Row")

ROWS_AT_ONCE = 200
"""Rows that a group's own process hands over together, and sooner when it is slow."""
HAND_OVER_SECONDS = 1.0
_FORK = multiprocessing.get_context("fork")  # the child has to know what the worker knows: functions, settings, the rows read so far


@dataclass(frozen=True)
class WorkerLimits:
    """What one worker may use; plain values, since they travel with every task.

    Attributes:
        memory_mb: MiB of address space beyond what the worker has when its task begins.
        idle_timeout_s: seconds that may pass without a row.
    """

    memory_mb: int
    idle_timeout_s: float


class GroupFailedError(RuntimeError):
    """A group could not be computed; says which, and what happened."""


def out_of_memory(memory_mb: int) -> str:
    """Return what a MemoryError in a worker means."""
    return f"out of memory: it takes more than the {memory_mb} MiB that workers.memory_mb allows"


class DecodingFailedError(RuntimeError):
    """Records could not be decoded; says where they are, and what happened."""


@contextmanager
def limited_memory(memory_mb: int) -> Iterator[None]:
    """Let this process take so many MiB beyond what it has, and no more: an allocation that would raises MemoryError.

    Needs Linux; never lifts a bound that Spark has set (``spark.executor.pyspark.memory``).
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


class Guard:
    """Holds one task to its limits, as a context manager around all that it does.

    A worker that makes no row for ``idle_timeout_s`` ends itself, with its stack on stderr, so that Spark tries the task again. Memory is
    bound as ``limited_memory`` does.
    """

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self._exit_stack = ExitStack()
        context = TaskContext.get()
        self._is_careful = context is not None and context.attemptNumber() > 0
        self._armed_at = 0.0

    def __enter__(self) -> Guard:
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
            where: names the group in messages.
            inputs: what belongs to the group; on a second try read to its end first, since a child must not read from the JVM.
            work: makes rows of it.

        Raises:
            GroupFailedError: anything unexpected; on a second try also that the group's process ended, or had to be ended.
        """
        try:
            if self._is_careful:
                yield from self._in_own_process(where, partial(work, list(inputs)))
                return
            for row in work(inputs):
                if time.monotonic() - self._armed_at > self._limits.idle_timeout_s / 10:  # arming starts a thread: not for every row
                    self._arm()
                yield row
        except GroupFailedError:
            raise
        except Exception as error:
            raise GroupFailedError(f"{where}: {self.explain(error)}") from error

    def explain(self, error: Exception) -> str:
        """Return what an error in a worker means."""
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
                        f"{where}: no result for {self._limits.idle_timeout_s:g} s; raise workers.idle_timeout_s if it only needs longer"
                    )
                rows, failure, is_done = reader.recv()
                if failure is not None:
                    raise GroupFailedError(failure if failure.startswith(where) else f"{where}: {failure}")
                yield from rows
                if is_done:
                    return
        except (EOFError, OSError):  # the latter where it ended in the middle of what it sent
            child.join()
            end = _name_of_end(child.exitcode)
            raise GroupFailedError(
                f"{where}: its process ended with {end}, perhaps for want of memory on its machine, or through an assignor of your own"
            ) from None
        finally:
            child.kill()
            child.join()
            reader.close()


def _hand_over(work: Callable[[], Iterator[Row]], explain: Callable[[Exception], str], writer: Connection) -> None:
    """Send (rows, failure, is_done) until the work is done; in the group's own process."""
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
        names = {one.value: one.name for one in signal.Signals}  # real-time signals have numbers alone
        return f"signal {names.get(-exit_code, -exit_code)}"
    return f"exit code {exit_code}"
