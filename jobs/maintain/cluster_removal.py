"""Remove one cluster from all tables: ``maintain --drop-cluster``.

This is a normal run: it deletes under the lock, its row in ``runs`` publishes the result, and a killed run is undone. The row no longer has
the positions up to which the cluster's logs were read. It has no known files of any cluster, since files are stored as hashes. So the
cluster's captures can land again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.context import RunContext, StageResult
from jobs.runtime.errors import UsageError
from jobs.storage.warehouse import Warehouse
from schemas.tables import RUNS

logger = logging.getLogger(__name__)


def tables_with_clusters(warehouse: Warehouse) -> tuple[str, ...]:
    """Return the tables that have a column cluster_id."""
    return tuple(name for name in warehouse.table_names if name != RUNS.name)


def row_counts(warehouse: Warehouse, cluster_id: str) -> dict[str, int]:
    """Return the number of rows of a cluster by table, without tables that have none.

    Raises:
        UsageError: no table has any; names the clusters in the tables.
    """
    frames = [
        warehouse.read(name).groupBy("cluster_id").agg(F.count(F.lit(1)).alias("rows")).withColumn("table", F.lit(name))
        for name in tables_with_clusters(warehouse)
        if not warehouse.is_empty(name)
    ]
    found = reduce(DataFrame.unionByName, frames).collect() if frames else []
    counts = {row["table"]: row["rows"] for row in found if row["cluster_id"] == cluster_id}
    if not counts:
        names = sorted({str(row["cluster_id"]) for row in found})
        raise UsageError(
            f"--drop-cluster {cluster_id}: no table has rows of this cluster; the tables have {', '.join(names) or 'no cluster'}"
        )
    return {name: counts[name] for name in tables_with_clusters(warehouse) if name in counts}


def counts_in_lines(cluster_id: str, counts: dict[str, int]) -> str:
    """Return the number of rows that would be removed, one line for each table."""
    lines, total = [f"{name} {rows}" for name, rows in counts.items()], sum(counts.values())
    return "\n".join([*lines, f"{total} {'row' if total == 1 else 'rows'} of cluster {cluster_id} in all; nothing was changed"])


def run(context: RunContext, cluster_id: str) -> StageResult:
    """Delete the rows of a cluster from all tables, and its entries in the run's row."""
    counts = {}
    keys = context.spark.createDataFrame(pa.table({"cluster_id": [cluster_id]}))
    for name in tables_with_clusters(context.warehouse):
        if context.warehouse.is_empty(name):
            continue
        rows = context.warehouse.delete(name, keys, ("cluster_id",))
        if rows:
            counts[f"{name}.dropped"] = rows
            logger.info("%s: removed %d rows", name, rows)
    state = context.state
    state = replace(
        state,
        positions=_without(state.positions, cluster_id, 2),
        origins=_without(state.origins, cluster_id, 1),
        landed_until=None if state.landed_until is None else _without(state.landed_until, cluster_id, 1),
    )
    return StageResult(state, output_counts=counts, files=None)


def _without(noted: Mapping[str, int], cluster_id: str, words: int) -> dict[str, int]:
    """Return the entries without those of a cluster, whose name may have spaces.

    Args:
        words: number of words after the name in each key.
    """
    return {key: value for key, value in noted.items() if key.rsplit(" ", words)[0] != cluster_id}
