"""Rows of a table as text for other programs: CSV and JSON, one row after the other, for any number of rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a formula begins, or what is dropped before one; spreadsheets with some East Asian settings accept the wide forms too."""


def to_csv(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """Yield a heading and a line for each row, as in RFC 4180: null is empty, arrays and maps are JSON.

    A text that a spreadsheet would run as a formula gets an apostrophe before it, since a member can have any name.
    """
    line = io.StringIO()
    writer = csv.writer(line)
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in names])
        yield line.getvalue()
        line.seek(0)
        line.truncate()
    yield line.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return json.dumps(value, sort_keys=True) if isinstance(value, (list, dict)) else value


def to_json(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """Yield one JSON array, an object for each line, in ASCII."""
    separator = "[\n"
    for row in rows:
        yield separator + json.dumps({name: row[name] for name in names}, sort_keys=True)
        separator = ",\n"
    yield "\n]\n" if separator == ",\n" else "[]\n"
