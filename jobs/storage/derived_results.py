"""Results computed from snapshots, deleted when the snapshots change."""

from __future__ import annotations

from pyspark.sql import DataFrame

from jobs.storage.table_changes import TableChange
from jobs.storage.warehouse import Warehouse
from schemas.staging import AUDITED_TABLES
from schemas.tables import (
    ASSIGNMENTS,
    GENERATION_TOPICS,
    GROUP_STATES,
    SOLUTIONS,
)


def results_of(keys: DataFrame, columns: tuple[str, ...]) -> list[TableChange]:
    """Return the changes that delete all results of the snapshots whose columns equal one of the keys."""
    return [TableChange(spec.name, keys, columns) for spec in (GROUP_STATES, ASSIGNMENTS, SOLUTIONS, *AUDITED_TABLES.values())]


def forget_unnamed_topics(warehouse: Warehouse) -> int:
    """Delete the sets of topics that no solution names any more; return the number of sets."""
    key = GENERATION_TOPICS.key
    unnamed = warehouse.read(GENERATION_TOPICS.name).join(warehouse.read(SOLUTIONS.name), list(key), "left_anti").select(*key)
    return warehouse.delete(GENERATION_TOPICS.name, unnamed, key)
