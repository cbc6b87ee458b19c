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
        found: rows of ``findings``; computed once.
        name: of the materialized rows.
    """
    if stored is None:
        new = warehouse.materialize_any(name, found)
        if new is not None:
            warehouse.append(FINDINGS.name, new)
        return
    said = F.to_json(F.struct("severity", "message", "evidence", "advice")).alias("said")
    both = stored.withColumn("is_stored", F.lit(True)).unionByName(found.withColumn("is_stored", F.lit(False)))
    sides = both.groupBy(*FINDINGS.key, said).agg(
        F.count(F.lit(1)).alias("count"),
        F.first("is_stored").alias("is_stored"),
        F.first(F.struct(*FINDINGS.schema.names)).alias("finding"),
    )
    changed = warehouse.materialize_any(name, sides.where("count = 1").select("is_stored", "finding.*"))
    if changed is not None:
        new = changed.where("NOT is_stored").drop("is_stored")
        warehouse.replace(FINDINGS.name, changed.where("is_stored"), FINDINGS.key, new)
