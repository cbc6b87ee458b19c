"""Values as SQL text, for statements in which Delta binds no parameters."""

from __future__ import annotations

from datetime import datetime


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
