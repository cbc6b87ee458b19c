"""How names and tables are written for a terminal. Clients can send any names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

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
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield "  ".join(cell.rjust(width) if number in numeric else cell.ljust(width) for number, (cell, width) in cells).rstrip()
