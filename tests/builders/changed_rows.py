"""Changes of rows in a published table that no run has made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.damages import data_files, rewrite_rows

Row = dict[str, Any]


def change_rows(warehouse: Path, name: str, change: Callable[[list[Row]], None]) -> None:
    """Change the rows of one file of a table in place, with the same column types: of the largest that has the row.

    Args:
        change: raises ``StopIteration`` if the row is not among those given.

    Raises:
        AssertionError: no file has the row.
    """
    for path in data_files(warehouse / name):
        listed = pq.read_table(path, partitioning=None).to_pylist()
        try:
            change(listed)
        except StopIteration:
            continue
        rewrite_rows(warehouse / name, partial(_table_of, listed), path=path)
        return
    raise AssertionError(f"{name}: no file has the row")


def _table_of(listed: list[Row], stored: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(listed, schema=stored.schema)
