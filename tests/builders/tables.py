"""Reads warehouse tables in tests as a user without Spark does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from jobs.workers.holdings_column import unpack_holdings
from jobs.workers.packing import group_by_topic
from schemas.tables import TABLES

OF_THE_RUN = {"run_id", "run_sequence", "source", "source_position"}
"""Columns in which equal warehouses may differ."""


def rows(warehouse: Path, name: str, version: int | None = None) -> list[dict[str, Any]]:
    """Return all rows of a table as plain dicts, at its newest version by default."""
    return DeltaTable(str(warehouse / name), version).to_pyarrow_table().to_pylist()


def unpacked_assignments(warehouse: Path) -> list[dict[str, Any]]:
    """Return one row per member of each solution with a result: its key, and ``partitions`` as in ``assignments``."""
    members = {
        _generation_key(row): [member["member_id"] for member in row["members"]] for row in rows(warehouse, "subscription_snapshots")
    }
    topics = {row["topics_hash"]: [topic["topic"] for topic in row["topics"]] for row in rows(warehouse, "generation_topics")}
    found = []
    for row in rows(warehouse, "solutions"):
        if row["holdings"] is None:
            continue
        holdings = unpack_holdings(row["holdings"], members[_generation_key(row)], topics[row["topics_hash"]])
        for member_id, held in holdings.items():
            lists = zip(*group_by_topic(held), strict=True)
            partitions = [{"topic": topic, "partitions": numbers} for topic, numbers in lists]
            key = {name: row[name] for name in ("cluster_id", "group_id", "generation", "position", "basis", "strategy", "observed_month")}
            found.append({**key, "member_id": member_id, "partitions": partitions})
    return found


def _generation_key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["cluster_id"], row["group_id"], row["position"]


def versions(warehouse: Path) -> dict[str, int]:
    """Return the newest version of every table."""
    return {name: DeltaTable(str(warehouse / name)).version() for name in TABLES}


def content(warehouse: Path, name: str, version: int | None = None) -> list[str]:
    """Return the rows of a table in a fixed order, without the columns that differ between equal warehouses."""
    kept = [{key: value for key, value in row.items() if key not in OF_THE_RUN} for row in rows(warehouse, name, version)]
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in kept)


COMPARED = tuple(name for name in TABLES if name not in ("runs", "group_states"))
"""The tables that make two warehouses equal."""
OF_LANDING = ("subscription_snapshots", "group_records", "offset_snapshots", "topic_snapshots", "quarantine")
"""Those that landing writes of records and looks."""


def assert_equal_warehouses(found: Path, expected: Path, names: Sequence[str] = COMPARED) -> None:
    """Fail with the first rows that only one of two warehouses has."""
    for name in names:
        ours, theirs = content(found, name), content(expected, name)
        is_equal = ours == theirs  # pytest would search for the shortest difference of two lists, which takes hours for long ones
        strange = [list(Counter(side) - Counter(other))[:2] for side, other in ((ours, theirs), (theirs, ours))]
        strange_rows = f"not expected: {json.dumps(strange[0])[:1500]}; missing: {json.dumps(strange[1])[:1500]}"
        assert is_equal, f"{name}: {len(ours)} rows, expected {len(theirs)}; {strange_rows}"
