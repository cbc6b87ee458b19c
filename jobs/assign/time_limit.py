"""A time limit for assignors that are not ours, because they may never return.

Our own have a step budget instead: the same input must give the same result on slow and on fast machines.
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
"""A call that catches the error which ends it is ended again after this time, until it is over."""


class _OutOfTimeError(BaseException):
    """Ends a call. It is not an ``Exception``, because a loop that retries would catch that."""


def _end_at_next_line(frame: FrameType, event: str, argument: object) -> TraceFunction:
    if event == "line":
        raise _OutOfTimeError
    return _end_at_next_line


class TimeLimit:
    """Runs calls with a time limit. After a call that exceeds it, later calls of the same name are refused at once.

    Otherwise a function that hangs would use its full time in every generation of a long history. One object serves one group, so that
    a refusal does not depend on which groups share a worker.

    The limit works in the main thread of a process, where Spark's workers run their functions, on systems with interval timers. Windows
    has none; there, and in other threads, calls have no limit. The limit cannot end native code that never returns to the interpreter, or
    a loop with nested handlers that catch everything.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._refused: set[str] = set()

    def __call__(self, name: str, call: Callable[[], Result]) -> Result:
        """Return the result of the call.

        Raises:
            NoResultError: this call, or an earlier one of the name, took too long; ``is_cycle`` is False.
        """
        if name in self._refused:
            raise NoResultError(f"not called: an earlier call gave no answer within {self._seconds:g} s", is_cycle=False)
        try:
            return _within(self._seconds, call)
        except _OutOfTimeError:
            self._refused.add(name)
            raise NoResultError(f"no answer within {self._seconds:g} s", is_cycle=False) from None


def _within(seconds: float, call: Callable[[], Result]) -> Result:
    """Return the result of a call that ends in time; else raise ``_OutOfTimeError``, even if the call caught it and then ended."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return call()
    is_running, is_late = True, False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_late
        if is_running:
            if is_late and frame is not None:  # the call caught it: raise again at the next line, which is in its handler
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
            is_running = False  # neither a signal nor the tracer may raise in our own code
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
