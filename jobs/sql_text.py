"""Values as SQL text, for the statements that Delta does not bind parameters in."""

from __future__ import annotations

from datetime import datetime


def quoted(text: str) -> str:
    r"""Return a string literal.

    >>> print(quoted("it's"))
    'it\'s'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal(value: str | int | datetime) -> str:
    """Return a value as a literal of its type; a moment has to have a zone."""
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return quoted(value) if isinstance(value, str) else str(value)
