"""Findings that each run computes again: only changes are written."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.storage.warehouse import Warehouse
from schemas.tables import FINDINGS


def replace_findings(warehouse: Warehouse, stored: DataFrame | None, found: DataFrame, name: str) -> None:
    """Write the findings that are not stored yet, and delete the stored ones that were not found again.

    A finding with another severity, message, evidence or advice counts as another finding.

    Args:
        stored: the stored findings of these rules; None if there are none.
        found: materialized rows of ``findings``.
        name: part of the names of materialized rows.
    """
    new = found
    if stored is not None:
        said = {"said": F.to_json(F.struct("severity", "message", "evidence", "advice"))}
        same = [*FINDINGS.key, "said"]
        before, now = stored.withColumns(said), found.withColumns(said)
        gone = warehouse.materialize(f"past_{name}", before.join(now.select(*same), same, "left_anti").select(*FINDINGS.key))
        new = warehouse.materialize(f"new_{name}", now.join(before.select(*same), same, "left_anti").drop("said"))
        if not gone.isEmpty():
            warehouse.delete(FINDINGS.name, gone, FINDINGS.key)
    if not new.isEmpty():
        warehouse.append(FINDINGS.name, new)
