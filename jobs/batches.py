"""Rows and the Arrow batches in which workers get them and hand them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class IntegerLists:
    """Lists of whole numbers as Arrow has them.

    Attributes:
        lengths: of each list.
        values: of all lists, one behind the other.
    """

    lengths: np.ndarray
    values: np.ndarray


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
    """Yield record batches of at most ``size`` rows; an absent key is a null."""
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield pa.RecordBatch.from_pylist(batch, schema=schema)
            batch = []
    if batch:
        yield pa.RecordBatch.from_pylist(batch, schema=schema)
