"""Sentences on a generation, and the rows that show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Name:
    """A name as a client sent it; every format escapes it in its own way."""

    name: str


@dataclass(frozen=True)
class Quoted:
    """A stored sentence that may have names in it."""

    text: str


Part = str | Name | Quoted
"""What a sentence is made of; a plain text is ours and has no names in it."""


@dataclass(frozen=True)
class Rows:
    """Rows of a table that show something.

    Attributes:
        key: columns of the table's key with their values. They name one row if they are the whole key, else several.
        row_count: how many rows these are.
    """

    table: str
    key: Mapping[str, Any]
    row_count: int = 1


@dataclass(frozen=True)
class Statement:
    """One sentence, or a few that belong together.

    Attributes:
        parts: see ``Part``.
        rows: what shows it.
    """

    parts: tuple[Part, ...]
    rows: tuple[Rows, ...]


def listed(names: Iterable[str], most: int) -> list[Part]:
    """Return names with commas between them; those after the first few are counted."""
    names = list(names)
    parts: list[Part] = []
    for name in names[:most]:
        parts += [", ", Name(name)] if parts else [Name(name)]
    return parts if len(names) <= most else [*parts, f" and {len(names) - most:,} more"]
