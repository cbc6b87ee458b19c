"""Values as SQL text, for statements in which Delta binds no parameters, and for conditions with thousands of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

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
    """Return whether a row has the values of one of ``rows`` in the columns ``names``; the first condition lets Delta skip files.

    It is SQL text, since each value as a column would be several calls of the JVM, and there are thousands of values.
    """
    if not rows:
        return F.lit(False)
    groups = ", ".join(sorted({quoted(row["group_id"]) for row in rows}))
    texts = ([quoted(row[name]) if isinstance(row[name], str) else f"{row[name]}L" for name in names] for row in rows)
    keys = ", ".join(f"({', '.join(values)})" for values in texts)
    return F.expr(f"group_id IN ({groups}) AND ({', '.join(names)}) IN ({keys})")
