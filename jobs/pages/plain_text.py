"""How names and tables are written for a terminal. Clients can send any names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from unicodedata import combining, east_asian_width

from jobs.pages.figures import cut, visible

LONGEST_NAME = 60
"""Characters of a name in a table or a sentence; the middle of a longer one is left out."""


def plain(name: str | None) -> str:
    r"""Return a name for a terminal; a dash for none, quotes around one that shows nothing.

    >>> print(plain("a\x1b[31m"), plain(None), plain(" "))
    a\x1b[31m - ' '
    """
    if name is None:
        return "-"
    return cut(visible(name), LONGEST_NAME) if name.strip() else f"'{visible(name)}'"


def table_lines(rows: Sequence[Sequence[str]], numeric: Collection[int] = ()) -> Iterator[str]:
    """Yield rows as aligned columns. The first row has the headings; all texts are escaped already.

    Args:
        numeric: numbers of the columns that are aligned to the right.
    """
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, (width - _width(cell) for cell, width in zip(row, widths, strict=True)), strict=True))
        yield "  ".join(" " * missing + cell if number in numeric else cell + " " * missing for number, (cell, missing) in cells).rstrip()


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: wide letters two, marks on a letter before them none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
