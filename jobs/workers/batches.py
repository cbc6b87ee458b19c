"""Rows, and the Arrow batches in which workers receive and return them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from jobs.workers.guard import GroupFailedError

Batches = Iterator[pa.RecordBatch]
Table = TypeVar("Table")
Rows = Sequence[Mapping[str, Any]]

_ROW_KEYS = ("cluster_id", "group_id", "generation", "position", "source_position")


def to_batches(
    rows: Iterable[Mapping[str, Any]], schema: pa.Schema, size: int, weight: Callable[[Mapping[str, Any]], int] = lambda row: 1
) -> Batches:
    """Yield record batches that end at the row with which they have ``size`` rows; an absent key is a null.

    Args:
        weight: as how many rows a row counts.

    Raises:
        GroupFailedError: a row does not fit the schema.
    """

    def made(batch: Rows) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(batch, schema=schema)

    batch: list[Mapping[str, Any]] = []
    total = 0
    for row in rows:
        batch.append(row)
        total += weight(row)
        if total >= size:
            yield table_of(batch, made)
            batch, total = [], 0
    if batch:
        yield table_of(batch, made)


def table_of(rows: Rows, make: Callable[[Rows], Table]) -> Table:
    """Return the table that ``make`` makes of rows.

    Raises:
        GroupFailedError: it fails on one of them. The message names the row, because a table has rows of many groups.
    """
    try:
        return make(rows)
    except (ArithmeticError, TypeError, ValueError):
        for row in rows:
            try:
                make([row])
            except (ArithmeticError, TypeError, ValueError) as error:
                raise GroupFailedError(f"{_where(row)}: a row does not fit its columns ({type(error).__name__}: {error})") from error
        raise


def _where(row: Mapping[str, Any]) -> str:
    """Return the keys of a row, from its own columns or from a row inside it, as text for messages."""
    inner = [value for value in row.values() if isinstance(value, dict)]
    values = {name: one[name] for one in (*inner, row) for name in _ROW_KEYS if one.get(name) is not None}
    return ", ".join(f"{name.removesuffix('_id')} {values[name]}" for name in _ROW_KEYS if name in values) or "a row without a place"
