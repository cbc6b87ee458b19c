"""Rows as the Arrow batches in which worker functions hand them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]


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
