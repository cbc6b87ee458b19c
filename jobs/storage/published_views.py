"""Views of published rows, ``<table>_published``, for warehouses that are a schema of a catalog; a path has none.

One commit, that of the row in ``runs``, switches all views to the new run: before it each view is prepared to check for that row.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructField

from jobs.runtime.locations import is_path
from jobs.storage.sql_literals import quoted
from jobs.storage.warehouse import Warehouse
from schemas.tables import ALL_TABLES, RUNS
from schemas.vocabulary import RunStatus


def prepare_views(warehouse: Warehouse, versions: Mapping[str, int]) -> None:
    """Make every view show these versions as soon as the run in progress has its row, and until then those published before."""
    if is_path(warehouse.location):
        return
    newest = warehouse.newest_run(RunStatus.PUBLISHED)
    left = dict(newest["table_versions"]) if newest is not None else {}
    row = f"run_sequence = {warehouse.run_sequence} AND run_id = {quoted(warehouse.run_id)} AND status = {quoted(str(RunStatus.PUBLISHED))}"
    is_there = f"EXISTS (SELECT 1 FROM {warehouse.identifier(RUNS.name)} WHERE {row})"
    for name, version in versions.items():
        before = left.get(name, 0)
        if version == before:
            warehouse.replace_view(name, query_at(warehouse, name, version))
        else:
            new = f"{query_at(warehouse, name, version)} WHERE {is_there}"
            warehouse.replace_view(name, f"{new} UNION ALL {query_at(warehouse, name, before)} WHERE NOT {is_there}")


def publish_views(warehouse: Warehouse) -> None:
    """Make every view read only the published version; for a warehouse with a published run."""
    if is_path(warehouse.location):
        return
    newest = warehouse.newest_run(RunStatus.PUBLISHED)
    assert newest is not None
    for name, version in dict(newest["table_versions"]).items():
        warehouse.replace_view(name, query_at(warehouse, name, version))


def query_at(warehouse: Warehouse, name: str, version: int) -> str:
    """Return the SQL of a table at a version, with null for columns that were added later."""
    at = f"{warehouse.identifier(name)} VERSION AS OF {version}"
    known = warehouse.spark.sql(f"SELECT * FROM {at}").columns
    spec = ALL_TABLES[name]
    other_names = dict(spec.former) | {new: old for old, new in spec.former.items()}

    def selected(column: StructField) -> str:
        if column.name in known:
            return f"`{column.name}`"
        other = other_names.get(column.name)
        value = f"`{other}`" if other in known else f"CAST(NULL AS {column.dataType.simpleString()})"
        return f"{value} AS `{column.name}`"

    return f"SELECT {', '.join(map(selected, spec.stored_schema))} FROM {at}"
