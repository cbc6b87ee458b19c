"""Parts of one sequence, put together by the records that they share: what was cut out of a known sequence gives it back."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.sources.sequences import Event, UnalignableError, align, positions


def events(text: str, clock: int = 10) -> list[Event]:
    """Return a record for each letter; ``+`` is a tombstone of the group, a digit that of a partition. Later letters have later times."""
    return [Event(letter, not letter.isalpha(), None if not letter.isalpha() else clock * ord(letter)) for letter in text]


def indices(*parts: str) -> list[list[int]]:
    return [[place.index for place in part] for part in align([events(part) for part in parts])]


def whole(*parts: str) -> str:
    """Return the sequence that parts make, as letters."""
    placed = {place.index: letter for part, places in zip(parts, align([events(p) for p in parts]), strict=True)
              for letter, place in zip(part, places, strict=True)}  # fmt: skip
    assert sorted(placed) == list(range(len(placed)))
    return "".join(placed[index] for index in sorted(placed))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("abcd",), "abcd"),
        (("abcd", "cdef"), "abcdef"),
        (("abc", "def"), "abcdef"),
        (("abcdef", "cd"), "abcdef"),
        (("ace", "abcde"), "abcde"),
        (("abd", "acd"), "abcd"),
        (("ab", "bc", "cd"), "abcd"),
        (("ab+c", "+cd"), "ab+cd"),
        (("ab+", "ab+c"), "ab+c"),
        (("ab++c", "b++cd"), "ab++cd"),
        (("ab", "+"), "ab+"),
        (("+", "+a"), "+a"),
        (("ab12+c", "2+cd"), "ab12+cd"),
        (("a1b", "ab2"), "a1b2"),
        (("", "ab"), "ab"),
        (("+",), "+"),
        ((), ""),
    ],
)
def test_parts_make_one_sequence_in_any_order(parts: tuple[str, ...], expected: str) -> None:
    assert {whole(*order) for order in permutations(parts)} == {expected}


def test_equal_records_of_parts_have_one_place() -> None:
    assert indices("ab+c", "b+cd") == [[0, 1, 2, 3], [1, 2, 3, 4]]


def test_a_repeated_record_is_two() -> None:
    assert indices("aba", "abac") == [[0, 1, 2], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("parts", "said"),
    [(("abc", "acb"), "different order"), (("ac", "bd"), "times overlap"), (("abc", "cba"), "different order")],
)
def test_parts_that_contradict_each_other_are_refused(parts: tuple[str, ...], said: str) -> None:
    for order in permutations(parts):
        with pytest.raises(UnalignableError, match=said):
            align([events(part) for part in order])


def test_parts_without_times_need_a_common_record() -> None:
    timeless = [[Event(letter, False, None) for letter in part] for part in ("ab", "cd")]
    with pytest.raises(UnalignableError, match="no times"):
        align(timeless)
    assert [[place.index for place in part] for part in align([timeless[0], [Event("b", False, None), *timeless[1]]])] == [
        [0, 1],
        [1, 2, 3],
    ]


def test_a_record_without_time_has_the_one_before_it_else_the_one_behind() -> None:
    places = align([[Event("+", True, None), Event("a", False, 5), Event("+", True, None), Event("b", False, 9), Event("c", False, None)]])
    assert [place.time_ms for place in places[0]] == [5, 5, 5, 9, 9]


@given(st.data())
def test_windows_of_a_sequence_give_it_back(data: st.DataObject) -> None:
    """Windows that overlap by a record at least, with tombstones anywhere, handed over in any order."""
    letters = "".join(chr(ord("a") + number) for number in range(data.draw(st.integers(2, 20))))
    text = "".join(letter + "+" * data.draw(st.integers(0, 2)) for letter in letters)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(letters) - 1), max_size=4)))
    starts, ends = [0, *cuts], [*cuts, len(letters) - 1]
    windows = [text[text.index(letters[first]) : text.index(letters[last]) + 1] for first, last in zip(starts, ends, strict=True)]
    windows[-1] = text[text.index(letters[starts[-1]]) :]
    assert whole(*data.draw(st.permutations(windows))) == text


@pytest.mark.parametrize(
    ("stored", "count", "expected"),
    [
        ({}, 3, [0, 1, 2]),
        ({0: 0, 1: 1}, 4, [0, 1, 2, 3]),
        ({1: 0, 2: 1}, 3, [0, 1, 2]),
        ({0: 7, 1: 8}, 3, [7, 8, 9]),
        ({1: 7, 2: 8}, 3, [6, 7, 8]),
        ({0: 0, 2: 5}, 3, [0, 4, 5]),
        ({0: 0, 2: 1}, 3, [0, 1, 2]),
    ],
)
def test_stored_records_keep_their_positions_where_there_is_room(stored: dict[int, int], count: int, expected: list[int]) -> None:
    assert positions(stored, count) == expected
