"""Checks that a data file agrees with the log: it exists, with its size, its bits, its number of rows and its bounds.

There are several checks, since each has gaps. Hadoop's checksums cover every byte, but copies without hidden files lose them. The checksums
of Parquet's pages cover all values, but not the footer, of which only repeated parts are compared. The statistics in the log cover the
columns by which readers skip files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.runtime.sidecars import checksum_problem
from jobs.verify.damage import Code, Damage, first_line, unreadable
from jobs.verify.footers import footer_problem
from jobs.verify.state import Action
from schemas.tables import TableSpec

BATCH_ROWS = 10_000
STATISTICS_PRECISION = timedelta(milliseconds=1)
"""Delta cuts times in statistics to milliseconds, the largest one too."""


def check_file(spec: TableSpec, folder: Path, version: int, add: Action) -> Damage | None:
    """Return the damage of the file of one ``add`` action, None if there is none.

    Args:
        folder: the table's.
        version: the newest one with this file.
    """
    path_in_table = unquote(add["path"])
    path = folder / path_in_table
    expected_size = int(add["size"])

    def damage(code: Code, found: str, expected: str) -> Damage:
        return Damage(code, spec.name, version, path_in_table, found, expected)

    if not path.is_file():
        return damage(Code.MISSING_FILE, "no such file", f"{expected_size} bytes")
    size = path.stat().st_size
    if size != expected_size:
        return damage(Code.TRUNCATED_FILE if size < expected_size else Code.CHANGED_FILE, f"{size} bytes", f"{expected_size} bytes")
    try:
        problem = checksum_problem(path)
        if problem is not None:
            return damage(Code.CHANGED_FILE, problem, "the file as it was written")
        problem = _content_problem(spec, path, add.get("stats"))
    except PermissionError as error:
        return unreadable(spec.name, version, path_in_table, error)
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = f"no readable Parquet ({first_line(error)})"
    return None if problem is None else damage(Code.CHANGED_FILE, problem, "the rows that the log describes")


def _content_problem(spec: TableSpec, path: Path, stats_text: str | None) -> str | None:
    """Return how the rows of a file differ from the table's columns and the file's statistics; reads every page."""
    file = pq.ParquetFile(path, page_checksum_verification=True)
    needed = [name for name in spec.skipping_columns if name not in spec.partitioning]
    stored = set(file.schema_arrow.names)
    # A column that a later release has added is not in older files; Delta reads nulls there.
    if not set(needed) <= stored <= set(spec.stored_schema.names):
        return f"the columns {', '.join(file.schema_arrow.names)}"
    problem = footer_problem(file)
    if problem is not None:
        return problem
    bounds = _Bounds(needed)
    for batch in file.iter_batches(BATCH_ROWS):
        bounds.take(batch)
    if stats_text is None:
        return None
    try:
        return next(bounds.problems(json.loads(stats_text)), None)
    except (ValueError, TypeError, AttributeError) as error:
        return f"unreadable statistics in the log ({error})"


class _Bounds:
    """Row count, nulls, smallest and largest value of some columns, batch by batch."""

    def __init__(self, columns: list[str]) -> None:
        self.row_count = 0
        self.nulls = dict.fromkeys(columns, 0)
        self.least: dict[str, Any] = {}
        self.most: dict[str, Any] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        self.row_count += batch.num_rows
        for name in self.nulls:
            column = batch.column(name)
            self.nulls[name] += column.null_count
            found = pc.min_max(column).as_py()
            if found["min"] is not None:
                self.least[name] = min(found["min"], self.least.get(name, found["min"]))
                self.most[name] = max(found["max"], self.most.get(name, found["max"]))

    def problems(self, stats: dict[str, Any]) -> Iterator[str]:
        """Yield what contradicts the statistics. They are bounds, not equal values: Delta shortens long texts outwards."""
        if self.row_count != stats.get("numRecords", self.row_count):
            yield f"{self.row_count} rows where the log has {stats['numRecords']}"
        for name, count in self.nulls.items():
            if count != stats.get("nullCount", {}).get(name, count):
                yield f"{count} nulls in {name} where the log has {stats['nullCount'][name]}"
            least, most = stats.get("minValues", {}).get(name), stats.get("maxValues", {}).get(name)
            if least is not None and name in self.least and _is_below(self.least[name], _like(least, self.least[name])):
                yield f"{self.least[name]!s} in {name}, below the log's {least}"
            if most is not None and name in self.most and _is_below(_like(most, self.most[name]), self.most[name]):
                yield f"{self.most[name]!s} in {name}, above the log's {most}"


def _like(text: Any, value: Any) -> Any:
    """Return a value of the log's statistics in the type of a value of the file."""
    if isinstance(value, datetime):
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        return moment if value.tzinfo is not None else moment.replace(tzinfo=None)
    return date.fromisoformat(text) if isinstance(value, date) else text


def _is_below(one: Any, other: Any) -> bool:
    if isinstance(one, str):
        return bool(one.encode(errors="surrogatepass") < other.encode(errors="surrogatepass"))  # Delta orders texts by their UTF-8 bytes
    return bool(one + STATISTICS_PRECISION < other if isinstance(one, datetime) else one < other)
