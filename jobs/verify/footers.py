"""What the footer of a Parquet file says twice, so that a changed byte shows: no checksum of the file's own covers the footer."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
_UNTOLD = "metadata"
"""Comments of columns, for one, which Parquet does not have."""
_TIMES = {"timestamp_ntz": "timestamp"}
"""Which of the two a time is, its older type in Parquet (INT96) does not tell."""


def footer_problem(file: pq.ParquetFile) -> str | None:
    """Return what is wrong with the names and texts in a file's footer, None when nothing is.

    Each part of a column names it again, by which Spark looks for it. Spark also puts its own schema there, a third of the footer of
    its checkpoints. Other readers refuse a text that is no UTF-8.
    """
    metadata = file.metadata
    try:
        texts = {name.decode(): text.decode() for name, text in (metadata.metadata or {}).items()}
        schema = texts.get(_SPARK_SCHEMA)
        if schema is not None and _plain(json.loads(schema)) != _plain(from_arrow_schema(file.schema_arrow).jsonValue()):
            return "a footer with the schema of other columns"
        for group, number in product(map(metadata.row_group, range(metadata.num_row_groups)), range(metadata.num_columns)):
            found, expected = group.column(number).path_in_schema, file.schema.column(number).path
            if found != expected:
                return f"a footer with the column {found} where the schema has {expected}"
    except ValueError as error:
        return f"a footer with an unreadable text ({error})"
    return None


def _plain(schema: Any) -> Any:
    """Return a schema of Spark as JSON without what Parquet need not have."""
    if isinstance(schema, dict):
        return {name: _plain(part) for name, part in schema.items() if name != _UNTOLD}
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    return _TIMES.get(schema, schema)
