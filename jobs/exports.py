"""What the report writes for other programs: findings and audits as CSV and JSON, figures for Prometheus.

Reads: findings, generation_audits.
Writes: files; no table. Rows come one after the other, in the order of their key, so that tables of any size fit through the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from jobs.reporting.prometheus import to_prometheus
from jobs.reporting.row_text import to_csv, to_json
from jobs.reporting.view import ReportRows
from jobs.text_file import write_text
from jobs.warehouse import Warehouse
from schemas.config import ExportFormat
from schemas.tables import FINDINGS, GENERATION_AUDITS, TableSpec

PROMETHEUS_FILE = "evenkeel.prom"
"""The ending is what node_exporter's textfile collector asks for."""

_WRITERS = {"csv": to_csv, "json": to_json}
_CONTROL = ("run_sequence", "observed_month")  # of the warehouse, not of a reader


def write_exports(warehouse: Warehouse, formats: tuple[ExportFormat, ...], folder: Path, rows: ReportRows, as_of: datetime) -> list[Path]:
    """Return the files written: ``findings`` and ``generation_audits`` by format, and ``PROMETHEUS_FILE``.

    Args:
        rows: what was collected for the page; Prometheus gets its figures.
        as_of: the run's clock, with a time zone.

    Raises:
        EvenkeelError: a file cannot be written.
    """
    written = []
    for name, writer in _WRITERS.items():
        for spec in (FINDINGS, GENERATION_AUDITS) if name in formats else ():
            columns = [column for column in spec.schema.names if column not in _CONTROL]
            written.append(folder / f"{spec.name}.{name}")
            write_text(writer(columns, _rows(warehouse, spec, columns)), written[-1])
    if "prometheus" in formats:
        written.append(folder / PROMETHEUS_FILE)
        write_text(to_prometheus(rows, as_of), written[-1])
    return written


def _rows(warehouse: Warehouse, spec: TableSpec, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a table's rows in the order of its key; times as ISO 8601 in UTC, since a collected one would come in the driver's own zone."""
    pattern = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
    shown = [
        F.date_format(name, pattern).alias(name) if isinstance(spec.schema[name].dataType, TimestampType) else F.col(name)
        for name in columns
    ]
    for row in warehouse.read(spec.name).orderBy(*spec.key).select(*shown).toLocalIterator():
        yield row.asDict(recursive=True)
