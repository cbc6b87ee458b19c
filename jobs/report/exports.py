"""The files of the report for other programs: findings, audits and the lag of now as CSV and JSON, figures for Prometheus.

Reads: findings, generation_audits; for the lag offset_snapshots, topic_snapshots and assignments.
Writes: files; no table. The driver reads rows one by one, in the order of their key, so tables can have any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from jobs.pages.row_text import to_csv, to_json
from jobs.report.prometheus import clock_lines, to_prometheus
from jobs.report.rows import ReportRows
from jobs.runtime.output_files import PROMETHEUS_FILE, export_names, write_output
from jobs.storage.current_lag import current_lag, newest_assignments
from jobs.storage.last_commits import read_last_commits
from jobs.storage.table_shape import with_former_columns
from jobs.storage.warehouse import Warehouse
from schemas.config import ExportFormat
from schemas.tables import (
    ASSIGNMENTS,
    COMPUTED_TABLES,
    CURRENT_LAG,
    GENERATION_AUDITS,
    TABLES,
    TOPIC_SNAPSHOTS,
    TableSpec,
)

_WRITERS = {".csv": to_csv, ".json": to_json}
_CONTROL = ("run_sequence", "observed_month")  # of the warehouse, not of a reader


def write_exports(warehouse: Warehouse, formats: tuple[ExportFormat, ...], folder: Path, rows: ReportRows, as_of: datetime) -> list[Path]:
    """Return the files written: tables of ``EXPORTED_KEYS`` by format, and ``PROMETHEUS_FILE``.

    Args:
        rows: the rows of the page; Prometheus gets their figures.
        as_of: the run's clock, with a time zone.

    Raises:
        EvenkeelError: a file cannot be written.
    """
    written = [folder / name for name in export_names(formats)]
    for path in written:
        write_output(to_prometheus(rows, as_of) if path.name == PROMETHEUS_FILE else _table(warehouse, path), path)
    return written


def set_clock(path: Path, as_of: datetime) -> None:
    """Set the clock in a file for Prometheus to that of this run, and keep all figures.

    Raises:
        EvenkeelError: the file cannot be written.
    """
    clock = "".join(clock_lines(as_of))
    with path.open(encoding="utf-8", newline="") as file:  # a name may have a carriage return
        figures = file.read().split("\n", clock.count("\n"))[-1]
    write_output([clock, figures], path)


def _table(warehouse: Warehouse, path: Path) -> Iterator[str]:
    """Return the table that the file's name gives, as text in the format that the name gives."""
    spec = {**TABLES, **COMPUTED_TABLES}[path.stem]
    rows = read_current_lag(warehouse) if spec is CURRENT_LAG else with_former_columns(warehouse.read(spec.name), spec)
    columns = exported_columns(spec)
    return _WRITERS[path.suffix](columns, _rows(rows, spec, columns))


def exported_columns(spec: TableSpec) -> list[str]:
    """Return the columns of a table that a reader gets, in the order of the table."""
    return [column for column in spec.stored_schema.names if column not in _CONTROL]


def read_current_lag(warehouse: Warehouse) -> DataFrame:
    """Return the lag of now of all groups: rows of schemas.tables.CURRENT_LAG."""
    looks, assignments, audits = (warehouse.read(spec.name) for spec in (TOPIC_SNAPSHOTS, ASSIGNMENTS, GENERATION_AUDITS))
    return current_lag(read_last_commits(warehouse), looks, newest_assignments(assignments, audits))


def _rows(rows: DataFrame, spec: TableSpec, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a table's rows in the order of its key; times are ISO 8601 in UTC, since collected ones would be in the driver's time zone."""
    pattern = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
    shown = [
        F.date_format(name, pattern).alias(name) if isinstance(spec.stored_schema[name].dataType, TimestampType) else F.col(name)
        for name in columns
    ]
    for row in rows.orderBy(*spec.key).select(*shown).toLocalIterator():
        yield row.asDict(recursive=True)
