"""Values as SQL text, for statements in which Delta binds no parameters, and for conditions with thousands of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F


def quoted(text: str) -> str:
    r"""Return a string literal. Spark would replace ``${name}`` by a setting or an environment variable.

    >>> print(quoted("it's"), quoted("${HOME}"))
    'it\'s' '\u0024{HOME}'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def literal(value: str | int | datetime) -> str:
    """Return a value as a literal of its type; a time must have a zone."""
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return quoted(value) if isinstance(value, str) else str(value)


def is_one_of(rows: Sequence[Mapping[str, Any]], *names: str) -> Column:
    """Return whether a row has the values of one of ``rows`` in the columns ``names``, which are not null; see ``keys_condition``."""
    if not rows:
        return F.lit(False)
    condition = keys_condition(pa.Table.from_pylist([{name: row[name] for name in names} for row in rows]))
    assert condition is not None, names
    return F.expr(condition)


def keys_condition(keys: pa.Table) -> str | None:
    """Return the condition that the columns of a row equal those of one of the keys; None if a value has no literal, such as a null.

    The conditions on single columns let Delta skip files.

    >>> keys_condition(pa.table({"group_id": ["a", "b"], "position": pa.array([1, 2], pa.int64())}))
    "group_id IN ('a', 'b') AND position IN (1L, 2L) AND (group_id, position) IN (('a', 1L), ('b', 2L))"
    """
    columns: dict[str, list[str]] = {}
    for field in keys.schema:
        texts = _literals(keys[field.name].to_pylist(), field.type)
        if texts is None:
            return None
        columns[field.name] = texts
    conditions = [f"{name} IN ({', '.join(sorted(set(texts)))})" for name, texts in columns.items()]
    if len(columns) > 1:
        rows = sorted({f"({', '.join(row)})" for row in zip(*columns.values(), strict=True)})
        conditions.append(f"({', '.join(columns)}) IN ({', '.join(rows)})")
    return " AND ".join(conditions)


def _literals(values: Sequence[Any], kind: pa.DataType) -> list[str] | None:
    if None in values:
        return None
    if pa.types.is_integer(kind):
        least, suffix = (-(2**63), "L") if pa.types.is_int64(kind) else (-(2**31), "")
        return None if least in values else [f"{value}{suffix}" for value in values]  # the parser reads the sign apart
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_timestamp(kind):
        return [literal(value) for value in values]
    return None
