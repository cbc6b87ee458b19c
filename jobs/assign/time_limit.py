"""A bound on the time of assignors that are not ours, which may never return.

Our own are bounded by steps: the same input has to give the same result on a slow machine as on a fast one.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from assignors.model import NoResultError

Result = TypeVar("Result")
TraceFunction = Callable[[FrameType, str, object], "TraceFunction"]

AGAIN_SECONDS = 0.2
"""A call that catches its end is ended again after this time, and again, until it is over."""


class _OutOfTimeError(BaseException):
    """Ends a call; not an ``Exception``, since a loop that retries would catch that."""


def _end_at_next_line(frame: FrameType, event: str, argument: object) -> TraceFunction:
    if event == "line":
        raise _OutOfTimeError
    return _end_at_next_line


class TimeLimit:
    """Runs calls that each have so much time; after one that took longer, further ones of its name are refused at once.

    Otherwise a function that hangs would take its time in every generation of a long history. One object serves one group, so that
    what is refused does not depend on which groups share a worker.

    The bound holds in the main thread of a process (where Spark's workers run their functions) on systems with interval timers, which
    Windows is not; elsewhere calls take as long as they take. It cannot end native code that never returns to the interpreter, nor a
    loop with one handler for everything inside another.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._refused: set[str] = set()

    def __call__(self, name: str, call: Callable[[], Result]) -> Result:
        """Return what the call returns.

        Raises:
            NoResultError: it took too long, now or before; ``is_cycle`` is False.
        """
        if name in self._refused:
            raise NoResultError(f"not asked: it gave no answer within {self._seconds:g} s before", is_cycle=False)
        try:
            return _within(self._seconds, call)
        except _OutOfTimeError:
            self._refused.add(name)
            raise NoResultError(f"no answer within {self._seconds:g} s", is_cycle=False) from None


def _within(seconds: float, call: Callable[[], Result]) -> Result:
    """Return what a call returns in time; raise ``_OutOfTimeError`` also where it caught that and went on to some other end."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return call()
    is_running, is_late = True, False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_late
        if is_running:
            if is_late and frame is not None:  # it was caught: raise once more at the next line, which is in the handler that catches
                frame.f_trace = _end_at_next_line
                sys.settrace(_end_at_next_line)
            is_late = True
            raise _OutOfTimeError

    tracer_before = sys.gettrace()
    handler_before, began = signal.signal(signal.SIGALRM, end), time.monotonic()
    delay_before, interval_before = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    try:
        try:
            return call()
        finally:
            is_running = False  # nothing must be raised in our own code, neither by a signal nor by the tracer
            if is_late:
                sys.settrace(tracer_before)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler_before)
        if delay_before:
            left = delay_before - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6), interval_before)
        if is_late:
            raise _OutOfTimeError
