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
        UsageError: it is missing, is not YAML, has a key twice, or would take too long to read: it is too large, is nested too deep, or
            has aliases, whose repeated values can exceed any memory.
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
        within: list[_Collection] = []
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise UsageError(f"{where}: {_line(event.start_mark)}found the alias *{event.anchor}, expected the value itself")
            if isinstance(event, yaml.NodeEvent) and within:
                repeated = within[-1].repeated_key(event)
                if repeated is not None:  # PyYAML would keep the last value alone
                    raise UsageError(f"{where}: {_line(event.start_mark)}found the key {repeated!r} twice, expected it once")
            if isinstance(event, yaml.CollectionStartEvent):
                within.append(_Collection(isinstance(event, yaml.MappingStartEvent)))
            elif isinstance(event, yaml.CollectionEndEvent):
                within.pop()
            if len(within) > DEEPEST_LEVELS:
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


class _Collection:
    """A mapping or a sequence whose end is still to come."""

    def __init__(self, is_mapping: bool) -> None:
        self._is_mapping = is_mapping
        self._count = 0
        self._keys: set[tuple[str, bool]] = set()

    def repeated_key(self, event: yaml.NodeEvent) -> str | None:
        """Count a member; return its text if it is a key that the mapping has already. ``1`` and ``'1'`` are two keys."""
        self._count += 1
        if not self._is_mapping or self._count % 2 == 0 or not isinstance(event, yaml.ScalarEvent):
            return None
        text, is_quoted = event.value, bool(event.style)
        has_other = (text, not is_quoted) in self._keys
        if (text, is_quoted) in self._keys or (has_other and isinstance(yaml.safe_load(text), str)):
            return text
        self._keys.add((text, is_quoted))
        return None


class _Mark(Protocol):
    """A position in a file, for both of PyYAML's classes; lines count from 0."""

    line: int


def _line(mark: _Mark | None) -> str:
    """Return the line of a mistake as the beginning of a message; empty if PyYAML does not give one."""
    return f"line {mark.line + 1}: " if mark is not None else ""
