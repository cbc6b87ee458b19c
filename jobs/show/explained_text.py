"""An explanation as text for a terminal, and as Markdown for tickets and chats. Names are escaped for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from jobs.pages.figures import moment, visible
from jobs.pages.plain_text import plain
from jobs.show.explained import Explained
from jobs.show.markdown_names import code, sentence
from jobs.show.statements import Name, Quoted, Rows, Statement

SECTIONS = (("What happened", "happened"), ("Why", "why"), ("What to change", "change"))


def explained_lines(explained: Explained) -> Iterator[str]:
    """Yield it for a terminal; numbers in brackets lead to the rows at the end."""
    rows = numbered_rows(explained)
    for title, name in SECTIONS:
        yield title
        for statement in getattr(explained, name):
            yield f"  {statement_text(statement)} {' '.join(f'[{rows[_identity(one)]}]' for one in statement.rows)}"
        yield ""
    yield "Rows"
    yield from (f"  [{number}] {_row_text(one, plain)}" for number, one in enumerate(all_rows(explained), 1))


def explained_markdown(explained: Explained) -> Iterator[str]:
    """Yield it as Markdown. Names are code spans, so that nothing in them is markup, a link or a mention."""
    rows, group = numbered_rows(explained), explained.described.group
    yield f"### Group {code(group.key.group_id)} of cluster {code(group.key.cluster_id)}, generation {group.audit['generation']}"
    for title, name in SECTIONS:
        yield from ("", f"**{title}**", "")
        for statement in getattr(explained, name):
            text = "".join(_in_markdown(part) for part in statement.parts)
            yield f"* {text} ({', '.join(f'row {rows[_identity(one)]}' for one in statement.rows)})"
    yield from ("", "**Rows**", "", "| row | table | rows | key |", "|---|---|---|---|")
    for number, one in enumerate(all_rows(explained), 1):
        key = ", ".join(f"{code(name)} = {code(_value_text(value))}" for name, value in one.key.items())
        yield f"| {number} | {code(one.table)} | {one.row_count} | {key} |"


def all_rows(explained: Explained) -> list[Rows]:
    """Return what shows the statements, each once, in the order of the statements."""
    found = (one for _, name in SECTIONS for statement in getattr(explained, name) for one in statement.rows)
    return list({_identity(one): one for one in found}.values())


def numbered_rows(explained: Explained) -> dict[tuple[object, ...], int]:
    """Return the number of each of these, from 1."""
    return {_identity(one): number for number, one in enumerate(all_rows(explained), 1)}


def row_numbers(explained: Explained, statement: Statement) -> tuple[int, ...]:
    """Return the numbers of the rows that show a statement."""
    numbers = numbered_rows(explained)
    return tuple(numbers[_identity(one)] for one in statement.rows)


def statement_text(statement: Statement) -> str:
    """Return a statement as plain text on one line."""
    return "".join(_in_text(part) for part in statement.parts)


def _identity(rows: Rows) -> tuple[object, ...]:
    return (rows.table, *sorted(rows.key.items()))


def _in_text(part: object) -> str:
    if isinstance(part, Name):
        return plain(part.name)
    return visible(part.text) if isinstance(part, Quoted) else str(part)


def _in_markdown(part: object) -> str:
    if isinstance(part, Name):
        return code(part.name)
    return sentence(part.text) if isinstance(part, Quoted) else str(part)


def _row_text(rows: Rows, write: Callable[[str], str]) -> str:
    key = ", ".join(f"{name}={write(_value_text(value))}" for name, value in rows.key.items())
    count = f" ({rows.row_count:,} rows)" if rows.row_count != 1 else ""
    return f"{rows.table}{count}: {key}"


def _value_text(value: object) -> str:
    return moment(value) if isinstance(value, datetime) else str(value)
