"""Tables of a terminal."""

from __future__ import annotations

from jobs.pages.plain_text import table_lines


def test_columns_are_aligned_with_letters_that_take_two_places_or_none() -> None:
    """The second column begins at place 8 of the terminal: after six places of the longest name, and two blanks."""
    rows = [("group", "n"), ("\u65e5\u672c\u8a9e", "1"), ("e\u0301cart", "22"), ("plain", "3")]
    assert list(table_lines(rows, {1})) == ["group    n", "\u65e5\u672c\u8a9e   1", "e\u0301cart   22", "plain    3"]
    assert list(table_lines([("\uff21", "x"), ("ab", "y")])) == ["\uff21  x", "ab  y"]
