"""What the pipeline made of a collection, read from its tables without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.kafka.groups import Owned

Generations = dict[str, dict[int, dict[str, Owned]]]
"""By group, generation and member what each one owned."""


def rows(warehouse: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    return DeltaTable(warehouse / table).to_pyarrow_table().to_pylist()


def observed(warehouse: Path) -> Generations:
    """Return the observed assignments; of several of one generation, as when a static member comes back, the last."""
    found: Generations = {}
    for row in sorted(rows(warehouse, "assignments"), key=lambda row: row["position"]):
        if row["basis"] == "observed":
            owned = frozenset((entry["topic"], number) for entry in row["partitions"] for number in entry["partitions"])
            found.setdefault(row["group_id"], {}).setdefault(row["generation"], {})[row["member_id"]] = owned
    return found
