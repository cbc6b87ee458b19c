"""One query over the views of published rows, printed as a table, CSV or JSON.

Reads: whatever tables the query names, at the versions of the last published run. Writes: nothing.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from jobs.pages.figures import counted, visible
from jobs.pages.plain_text import table_lines
from jobs.pages.row_text import Row, to_csv, to_json
from jobs.runtime.errors import UsageError
from jobs.sql.options import SqlOptions
from jobs.storage.warehouse import Warehouse
from schemas.tables import ALL_TABLES

SUFFIX = "_published"
"""What the view of a table has after the name of the table."""
_MOST_REASON = 500
PYSPARK_ERRORS = "SQLQueryContextLogger"
"""PySpark's logger of refused queries."""


def answer_query(warehouse: Warehouse, options: SqlOptions) -> str:
    """Return the rows of one query, in the format that is asked for.

    Args:
        warehouse: one that has a published run.

    Raises:
        UsageError: the text is no query, is more than one, or names what is not there.
        NotAWarehouseError: nothing is published yet.
    """
    query = options.text()
    warehouse.read_published()
    create_views(warehouse, query)
    frame = checked_query(warehouse.spark, query)
    columns, rows = _collect(frame, options.limit)
    is_cut = bool(options.limit) and len(rows) > options.limit
    rows = rows[: options.limit] if is_cut else rows
    if options.format != "table":
        return "".join((to_csv if options.format == "csv" else to_json)(columns, rows)).rstrip("\n")
    return "\n".join([*_table(columns, rows), *(["", f"the first {counted(len(rows), 'row')}; --limit 0 prints all"] if is_cut else [])])


def create_views(warehouse: Warehouse, query: str) -> None:
    """Make the views of the tables that a query names, in this session only."""
    named = {name.lower() for name in re.findall(rf"(\w+){SUFFIX}\b", query, re.IGNORECASE)}
    for name in named.intersection(warehouse.table_names):
        warehouse.read(name).createOrReplaceTempView(f"{name}{SUFFIX}")


def checked_query(spark: SparkSession, query: str) -> DataFrame:
    """Return the rows of a query, not computed yet. Nothing of a text that is no query is run.

    In Spark's grammar the parentheses of a common table expression have a query and nothing else: neither a command nor two statements.
    So the text is parsed there first. After EXPLAIN nothing runs, also of a text that closes the parentheses and goes on with a command.

    Raises:
        UsageError: see ``answer_query``.
    """
    text = query.strip().rstrip(";")
    logging.getLogger(PYSPARK_ERRORS).setLevel(logging.CRITICAL)  # it would print the stack of Java
    try:
        spark.sql(f"EXPLAIN WITH query AS (\n{text}\n) SELECT 1")
        return spark.sql(text)
    except ParseException as error:
        raise UsageError(f"sql: expected one query, such as SELECT; {_reason(error)}") from None
    except AnalysisException as error:
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            name = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
            tables = sorted(f"{table}{SUFFIX}" for table in ALL_TABLES)
            near = difflib.get_close_matches(name, tables, 1, 0.85) or tables
            raise UsageError(f"sql: there is no table '{visible(name)}', expected one such as {', '.join(near)}") from None
        raise UsageError(f"sql: {_reason(error)}") from None


def _reason(error: PySparkException) -> str:
    """Return what Spark says of a query, without its copy of the query. The lines that its parser counts have one of ours before them."""
    text = re.sub(r"\(line (\d+), pos", lambda found: f"(line {int(found[1]) - 1}, pos", str(error))
    return " ".join(re.split(r"\n\s*\n|\n== SQL|;\s*\n'", text)[0].split())[:_MOST_REASON]


def _collect(frame: DataFrame, limit: int) -> tuple[list[str], list[Row]]:
    """Return the names of the columns, each once, and the rows; one row more than the limit if there are more."""
    table = (frame.limit(limit + 1) if limit else frame).toArrow()
    names: list[str] = []
    for name in table.column_names:
        numbered = (f"{name}_{number}" for number in range(2, len(table.column_names) + 2))
        names.append(name if name not in names else next(one for one in numbered if one not in (*table.column_names, *names)))
    columns = [_values(table.column(number)) for number in range(len(names))]
    return names, [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as JSON can have them."""
    values = column.to_pylist()
    if pa.types.is_map(column.type):
        values = [None if value is None else {str(key): one for key, one in value} for value in values]
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat() if value.tzinfo is not None else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _table(columns: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows as aligned columns, numbers to the right. Names are escaped."""
    cells = [[visible(name) for name in columns], *([_cell(row[name]) for name in columns] for row in rows)]
    numeric = [
        number
        for number, name in enumerate(columns)
        if all(row[name] is None or isinstance(row[name], (int, float)) for row in rows) and any(row[name] is not None for row in rows)
    ]
    yield from table_lines(cells, numeric)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    return visible(value) if isinstance(value, str) else visible(json.dumps(value, ensure_ascii=False))
