"""YAML that a person wrote: read within bounds, and refused in one line that names the line of the mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import yaml

from jobs.runtime.errors import UsageError

LARGEST_BYTES = 1 << 20
"""PyYAML takes some seconds for these."""
DEEPEST_LEVELS = 20
"""Ours have three levels. PyYAML's time grows with the square of them."""


def read_yaml(path: Path, option: str) -> Any:
    """Return what a YAML file holds.

    Args:
        option: the one that named the file, for messages.

    Raises:
        UsageError: it is missing, no YAML, or takes too long to read: it is too large, nested too deep, or has aliases, since what they
            repeat can grow beyond any memory.
    """
    where = f"{option} {path}"
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            raise UsageError(f"{where}: expected a file")
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise UsageError(f"{where}: expected at most {LARGEST_BYTES} bytes; name folders under inputs, not their files")
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
    except yaml.MarkedYAMLError as error:  # its own text quotes the file, where a password may stand
        what = " ".join(filter(None, (error.context, error.problem)))
        raise UsageError(f"{where}: {_line(error.problem_mark)}not YAML ({what})") from None
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # All but the first come out of PyYAML too: of a month 13, of `!!bool maybe`, of brackets nested too deep.
        raise UsageError(f"{where}: not YAML ({' '.join(str(error).split())})") from None


class _Mark(Protocol):
    """A point of a file, in both of PyYAML's forms; lines count from 0."""

    line: int


def _line(mark: _Mark | None) -> str:
    """Return the line of a mistake, to go before what is wrong with it; empty where PyYAML does not say."""
    return f"line {mark.line + 1}: " if mark is not None else ""
