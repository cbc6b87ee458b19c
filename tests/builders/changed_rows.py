"""Changes of rows in a published table that no run has made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.faults.damages import rewrite_rows

Row = dict[str, Any]


def change_rows(warehouse: Path, name: str, change: Callable[[list[Row]], None]) -> None:
    """Change the rows of a table in place, with the same column types; files without the row stay."""

    def changed(table: pa.Table) -> pa.Table:
        listed = table.to_pylist()
        try:
            change(listed)
        except (StopIteration, ValueError):  # the row is in another file
            return table
        return pa.Table.from_pylist(listed, schema=table.schema)

    rewrite_rows(warehouse / name, changed)
