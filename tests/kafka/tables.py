"""What the pipeline made of a collection, read from its tables without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.kafka.groups import Owned


@dataclass
class Observed:
    """What members held in one snapshot of a group, each by its id."""

    generation: int
    owned: dict[str, Owned] = field(default_factory=dict)


def rows(warehouse: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    return DeltaTable(warehouse / table).to_pyarrow_table().to_pylist()


def observed(warehouse: Path) -> dict[str, list[Observed]]:
    """Return by group its observed assignments in order; a generation twice where a static member came back in it."""
    found: dict[str, dict[int, Observed]] = {}
    for row in sorted(rows(warehouse, "assignments"), key=lambda row: row["position"]):
        if row["basis"] == "observed":
            snapshot = found.setdefault(row["group_id"], {}).setdefault(row["position"], Observed(row["generation"]))
            owned = frozenset((entry["topic"], number) for entry in row["partitions"] for number in entry["partitions"])
            snapshot.owned[row["member_id"]] = owned
    return {group_id: list(snapshots.values()) for group_id, snapshots in found.items()}
