"""Ctrl-C: what is true of the tables afterwards, in one line, and the end of the process in time."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType

from jobs.launcher.messages import INTERRUPTED, TABLES_AS_BEFORE

LONGEST_SECONDS = 3.5
"""How long a command may take to restore its tables after an interrupt; after that the next run restores them."""
SAME_INTERRUPT_SECONDS = 1.0
"""Signals that come this soon after the first one belong to it: some programs signal a process and then its group."""


class TableState(Enum):
    """What is true of the tables if a command ends now; the value is the text for users."""

    AS_BEFORE = TABLES_AS_BEFORE
    UNPUBLISHED = "the next run takes the tables back"
    PUBLISHED = "the run is published, and only its last steps, such as the report, may be missing"


class Interruption:
    """The end of one command by SIGINT, SIGTERM or SIGHUP.

    Attributes:
        tables: what is true of the tables now; the command keeps it up to date.
        cancel: ends what other processes do for the command, such as jobs of Spark.
        at_limit: says the text to the user if the command does not end in time.
    """

    def __init__(self) -> None:
        """Prepare without handling any signal yet."""
        self.tables = TableState.AS_BEFORE
        self.cancel: Callable[[], None] = lambda: None
        self.at_limit: Callable[[], None] = lambda: None
        self._is_limited = False
        self._timer: threading.Timer | None = None
        self._began = 0.0

    @property
    def text(self) -> str:
        """Return the line for the user."""
        return f"interrupted; {self.tables.value}"

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt in the main thread; a second signal ends the process at once.

        Raises:
            KeyboardInterrupt: always.
        """
        now = time.monotonic()
        if self._timer is not None:
            if now - self._began < SAME_INTERRUPT_SECONDS:
                return
            self._end()
        self._began = now
        if self._is_limited:
            self._timer = threading.Timer(LONGEST_SECONDS, self._end)
            self._timer.daemon = True
            self._timer.start()
            # How the tables are restored is of no interest now, nor is Py4J's stack trace of the call that was interrupted.
            logging.disable(logging.CRITICAL)
        self.cancel()
        raise KeyboardInterrupt

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals during the block, and end the process if the block takes too long after one of them.

        Only the main thread can do so. SIGTERM and SIGHUP do what SIGINT does at that moment: a run delays SIGINT during its last commit.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def pass_on(number: int, frame: FrameType | None) -> None:
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                handler(number, frame)

        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        # A script that starts a command with & makes it ignore SIGINT; who sends that signal all the same means it. nohup ignores SIGHUP.
        taken = [number for number, handler in before.items() if number == signal.SIGINT or handler is not signal.SIG_IGN]
        for number in taken:
            signal.signal(number, self.handle if number == signal.SIGINT else pass_on)
        self._is_limited = True
        try:
            yield
        finally:
            self._is_limited = False
            logging.disable(logging.NOTSET)
            if self._timer is not None:
                self._timer.cancel()
            for number in taken:
                signal.signal(number, before[number])

    def _end(self) -> None:
        """End the process as it is; the next run restores the tables as after a crash."""
        try:
            self.at_limit()
        finally:
            os._exit(INTERRUPTED)
