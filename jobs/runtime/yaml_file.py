"""Reads YAML files within bounds. An error is one line that names the line of the mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import yaml

from jobs.runtime.errors import UsageError

LARGEST_BYTES = 1 << 20
"""PyYAML needs some seconds to read that much."""
DEEPEST_LEVELS = 20
"""Settings of Evenkeel have three levels. PyYAML's time grows with the square of the levels."""


def read_yaml(path: Path, option: str) -> Any:
    """Return the content of a YAML file.

    Args:
        option: the one that named the file, for messages.

    Raises:
        UsageError: it is missing, is not YAML, or would take too long to read: it is too large, is nested too deep, or has aliases,
            whose repeated values can exceed any memory.
    """
    where = f"{option} {path}"
    try:
        if path.exists() and not path.is_file():  # reading a pipe could wait forever
            raise UsageError(f"{where}: expected a file, found a folder or a device")
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise UsageError(f"{where}: expected at most {LARGEST_BYTES} bytes, found more; name folders under inputs, not their files")
        text = content.decode()
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise UsageError(f"{where}: {_line(event.start_mark)}found the alias *{event.anchor}, expected the value itself")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST_LEVELS:
                raise UsageError(f"{where}: {_line(event.start_mark)}expected at most {DEEPEST_LEVELS} levels, found more")
        return yaml.safe_load(text)
    except OSError as error:
        raise UsageError(f"{where}: cannot be read ({error.strerror})") from None
    except yaml.MarkedYAMLError as error:  # its own text quotes the file, which may contain a password
        what = " ".join(filter(None, (error.context, error.problem)))
        raise UsageError(f"{where}: {_line(error.problem_mark)}not YAML ({what})") from None
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # PyYAML raises the others too: for a month 13, for `!!bool maybe`, for brackets nested too deep.
        raise UsageError(f"{where}: not YAML ({' '.join(str(error).split())})") from None


class _Mark(Protocol):
    """A position in a file, for both of PyYAML's classes; lines count from 0."""

    line: int


def _line(mark: _Mark | None) -> str:
    """Return the line of a mistake as the beginning of a message; empty if PyYAML does not give one."""
    return f"line {mark.line + 1}: " if mark is not None else ""
