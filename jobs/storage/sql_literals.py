"""Values as SQL text, for the statements that Delta does not bind parameters in."""

from __future__ import annotations

from datetime import datetime


def quoted(text: str) -> str:
    r"""Return a string literal. Spark would put a setting, or a variable of the environment, in place of what looks like ``${name}``.

    >>> print(quoted("it's"), quoted("${HOME}"))
    'it\'s' '\u0024{HOME}'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def literal(value: str | int | datetime) -> str:
    """Return a value as a literal of its type; a moment has to have a zone."""
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return quoted(value) if isinstance(value, str) else str(value)
