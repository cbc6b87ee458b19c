"""Rows and the Arrow batches in which workers get them and hand them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jobs.worker_guard import GroupFailedError

Batches = Iterator[pa.RecordBatch]
Table = TypeVar("Table")
Rows = list[dict[str, Any]]

_PLACE = ("cluster_id", "group_id", "generation", "position", "source_position")


@dataclass(frozen=True, slots=True)
class IntegerLists:
    """Lists of whole numbers as Arrow has them.

    Attributes:
        lengths: of each list.
        values: of all lists, one behind the other.
    """

    lengths: NDArray[np.int32]
    values: NDArray[np.int32]


def to_rows(batch: pa.RecordBatch, *columns: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as plain Python values; the columns named, of lists of lists, as ``IntegerLists``, null ones as None."""
    plain = batch.select([name for name in batch.schema.names if name not in columns]).to_pylist()
    lists = [_integer_lists(batch.column(name)) for name in columns]
    for row, *of_row in zip(plain, *lists, strict=True):
        yield {**row, **dict(zip(columns, of_row, strict=True))}


def _integer_lists(column: pa.ListArray) -> Iterator[IntegerLists | None]:
    offsets, inner = column.offsets.to_numpy().tolist(), column.values
    bounds, values = inner.offsets.to_numpy(), inner.values.to_numpy()
    lengths = np.diff(bounds)
    for place, is_valid in enumerate(column.is_valid().to_pylist()):
        first, last = offsets[place], offsets[place + 1]
        yield IntegerLists(lengths[first:last], values[bounds[first] : bounds[last]]) if is_valid else None


def to_batches(rows: Iterable[dict[str, Any]], schema: pa.Schema, size: int) -> Batches:
    """Yield record batches of at most ``size`` rows; an absent key is a null.

    Raises:
        GroupFailedError: a row does not fit the schema.
    """

    def made(batch: Rows) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(batch, schema=schema)

    batch: Rows = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield table_of(batch, made)
            batch = []
    if batch:
        yield table_of(batch, made)


def table_of(rows: Rows, make: Callable[[Rows], Table]) -> Table:
    """Return what ``make`` makes of rows.

    Raises:
        GroupFailedError: it cannot, for one of them; says which, since rows of many groups go into one table.
    """
    try:
        return make(rows)
    except (ArithmeticError, TypeError, ValueError):
        for row in rows:
            try:
                make([row])
            except (ArithmeticError, TypeError, ValueError) as error:
                raise GroupFailedError(f"{_place(row)}: a row does not fit its columns ({type(error).__name__}: {error})") from error
        raise


def _place(row: dict[str, Any]) -> str:
    """Return where a row belongs, which it tells itself, or a row within it."""
    inner = [value for value in row.values() if isinstance(value, dict)]
    told = {name: one[name] for one in (*inner, row) for name in _PLACE if one.get(name) is not None}
    return ", ".join(f"{name.removesuffix('_id')} {told[name]}" for name in _PLACE if name in told) or "a row without a place"
