"""Checks of repeated parts in the footer of a Parquet file, to find a changed byte: Parquet has no checksum of the footer."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
_IGNORED = "metadata"
"""For example comments of columns, which Parquet does not have."""
_TIMES = {"timestamp_ntz": "timestamp"}
"""The older type of times in Parquet (INT96) is the same for both."""


def footer_problem(file: pq.ParquetFile) -> str | None:
    """Return what is wrong with the names and texts in a file's footer, None if nothing is.

    Each part of a column repeats the column's name, by which Spark finds it. Spark also writes its own schema there, a third of the footer
    of its checkpoints. Other readers refuse a text that is not UTF-8.
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
    """Return a schema of Spark as JSON, without parts that Parquet may not have."""
    if isinstance(schema, dict):
        return {name: _plain(part) for name, part in schema.items() if name != _IGNORED}
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    return _TIMES.get(schema, schema)
