"""The format of log lines: text for people, or one JSON object on each line for programs."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone

from jobs.runtime.locations import on_one_line


class _TextFormatter(logging.Formatter):
    """Keeps each message on one line: names from captures and paths may contain line ends and control codes of terminals."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return f"evenkeel: {on_one_line(record.message)}"


class _JsonFormatter(logging.Formatter):
    """One object on each line; the ``facts`` of a record are further members of it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        return json.dumps({**line, **record.__dict__.get("facts", {})}, default=str)


def logs_json() -> bool:
    """Return whether log lines are JSON."""
    return any(isinstance(handler.formatter, _JsonFormatter) for handler in logging.getLogger("jobs").handlers)


def set_up_logging(log_format: str) -> None:
    """Write the log of this package to stderr only, as ``text`` or ``json``."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    package = logging.getLogger("jobs")
    package.handlers, package.propagate = [handler], False
    package.setLevel(logging.INFO)
