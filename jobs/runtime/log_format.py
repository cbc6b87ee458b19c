"""The format of log lines: text for people, or one JSON object on each line for programs."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import datetime, timezone
from typing import TextIO

from jobs.launcher.messages import mute
from jobs.runtime.errors import EvenkeelError
from jobs.runtime.locations import on_one_line


class _TextFormatter(logging.Formatter):
    """Keeps each message on one line: names from captures and paths may contain line ends and control codes of terminals."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = f"evenkeel: {on_one_line(record.message)}"
        return coloured(line, sys.stderr) if record.levelno >= logging.WARNING else line


class _JsonFormatter(logging.Formatter):
    """One object on each line; the ``facts`` of a record are further members of it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        return json.dumps({**line, **record.__dict__.get("facts", {})}, default=str)


def coloured(text: str, stream: TextIO) -> str:
    """Return a warning or an error in yellow for a terminal; unchanged for a file, and where ``NO_COLOR`` is set (no-color.org)."""
    return f"\x1b[33m{text}\x1b[0m" if stream.isatty() and not os.environ.get("NO_COLOR") else text


def logs_json() -> bool:
    """Return whether log lines are JSON."""
    return any(isinstance(handler.formatter, _JsonFormatter) for handler in logging.getLogger("jobs").handlers)


def show_progress(text: str) -> None:
    """Show on a terminal what is in progress; the next line replaces it. Nothing with ``--quiet``."""
    if sys.stderr.isatty() and logging.getLogger("jobs").isEnabledFor(logging.INFO):
        print(f"\r\x1b[K{on_one_line(f'evenkeel: {text} ...')}", end="\r", file=sys.stderr, flush=True)


def clear_progress() -> None:
    """Remove what is in progress from the terminal."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def answer(text: str) -> None:
    """Print the answer of a command. A reader such as ``head`` may have closed the pipe, and has what it wanted.

    Raises:
        EvenkeelError: it cannot be written, for example onto a full disk.
    """
    clear_progress()
    try:
        print(text, flush=True)
    except OSError as error:
        mute(1)
        if not isinstance(error, BrokenPipeError):
            raise EvenkeelError(f"the answer cannot be written to stdout ({error.strerror})") from None


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]  # generic for the type checker alone
    """Writes to stderr, and nowhere from the first line on that cannot be written there."""

    def handleError(self, record: logging.LogRecord) -> None:
        if isinstance(sys.exc_info()[1], OSError):
            mute(2)
        else:
            super().handleError(record)


def set_up_logging(log_format: str, level: int = logging.INFO) -> None:
    """Write the log of this package to stderr only, as ``text`` or ``json``, from this level on."""
    handler = _Handler()
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    package = logging.getLogger("jobs")
    package.handlers, package.propagate = [handler], False
    package.setLevel(level)
