"""Parts of one sequence, put together by the records that they share: what was cut out of a known sequence gives it back."""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from jobs.decoders.formatter_merge import ADRIFT, Event, UnalignableError, align, positions
from schemas.vocabulary import PlacedBy


def events(text: str, clock: int = 10) -> list[Event]:
    """Return a record for each letter; ``+`` is a tombstone of the group, a digit that of a partition. Later letters have later times."""
    return [Event(letter, not letter.isalpha(), None if not letter.isalpha() else clock * ord(letter)) for letter in text]


def indices(*parts: str) -> list[list[int]]:
    return [[merged.index for merged in part] for part in align([events(part) for part in parts])]


def whole(*parts: str) -> str:
    """Return the sequence that parts make, as letters."""
    placed = {(merged.is_adrift, merged.index): letter for part, of_part in zip(parts, align([events(p) for p in parts]), strict=True)
              for letter, merged in zip(part, of_part, strict=True)}  # fmt: skip
    for is_adrift in (False, True):
        indices_found = sorted(index for adrift, index in placed if adrift is is_adrift)
        assert indices_found == list(range(len(indices_found)))
    return "".join(placed[merged] for merged in sorted(placed))


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
        (("ab", "bc", "+"), "abc+"),
        (("a+b", "+"), "a+b"),
        (("a+b", "++", "+"), "a+b+"),
        (("a+b", "b++c", "++"), "a+b++c"),
        (("a1b", "21"), "a1b2"),
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


def test_equal_records_of_overlapping_parts_have_one_index() -> None:
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


def test_parts_within_one_millisecond_have_one_order_whatever_the_order_of_arrival() -> None:
    """A commit of several partitions has one time, and a file may end within it."""
    for parts in permutations(("ca", "b", "d+")):
        placed = align([events(part, clock=0) for part in parts])
        indices = {
            letter: merged.index for part, of_part in zip(parts, placed, strict=True) for letter, merged in zip(part, of_part, strict=True)
        }
        assert indices == {"c": 0, "a": 1, "b": 2, "d": 3, "+": 4}


def test_parts_without_times_need_a_common_record() -> None:
    timeless = [[Event(letter, False, None) for letter in part] for part in ("ab", "cd")]
    with pytest.raises(UnalignableError, match="no times"):
        align(timeless)
    assert [[merged.index for merged in part] for part in align([timeless[0], [Event("b", False, None), *timeless[1]]])] == [
        [0, 1],
        [1, 2, 3],
    ]


def test_record_without_time_gets_the_previous_time_else_the_next() -> None:
    of_part = align([[Event("+", True, None), Event("a", False, 5), Event("+", True, None), Event("b", False, 9), Event("c", False, None)]])
    assert [merged.time_ms for merged in of_part[0]] == [5, 5, 5, 9, 9]


class Stored(NamedTuple):
    """What a run leaves of a record for the next."""

    event: Event
    time_ms: int | None
    placed_by: PlacedBy | None

    def events(self, position: int) -> list[Event]:
        """Return it as what was put together before, a tombstone that both its neighbours place as one of each."""
        sides = {PlacedBy.NEXT: [True], PlacedBy.BOTH: [False, True]}.get(self.placed_by, [False])
        return [self.event._replace(is_adrift=position >= ADRIFT, leads=leads) for leads in sides]


def folded(*parts: list[Event]) -> dict[int, Stored]:
    """Return the records by position when each part comes in a run of its own, with times that tombstones have of others."""
    stored: dict[int, Stored] = {}
    for part in parts:
        known = [(position, event) for position, record in sorted(stored.items()) for event in record.events(position)]
        placed = align([[event for _, event in known], part])
        kept = {merged.index: position for (position, _), merged in zip(known, placed[0], strict=True) if position < ADRIFT}
        found = positions(kept, 1 + max((merged.index for of_part in placed for merged in of_part if not merged.is_adrift), default=-1))
        assert len(set(placed[1])) == len(placed[1])  # no two records of one part are one
        events_of_all = [*[event for _, event in known], *part]
        stored = {
            ADRIFT + merged.index if merged.is_adrift else found[merged.index]: Stored(
                event._replace(is_adrift=False, leads=False), merged.time_ms, merged.placed_by
            )
            for event, merged in zip(events_of_all, [*placed[0], *placed[1]], strict=True)
        }
    return stored


def at_once(*parts: list[Event]) -> dict[int, Stored]:
    """Return the records by position when all parts come together."""
    return {
        merged.index + (ADRIFT if merged.is_adrift else 0): Stored(event, merged.time_ms, merged.placed_by)
        for part, of_part in zip(parts, align(parts), strict=True)
        for event, merged in zip(part, of_part, strict=True)
    }


@given(st.data())
def test_parts_one_by_one_make_what_they_make_at_once(data: st.DataObject) -> None:
    """Windows of a log with tombstones of two keys, some of them of nothing else, in any order; some records have no time."""
    letters = "".join(chr(ord("a") + number) for number in range(data.draw(st.integers(1, 4))))
    text = "".join(letter + data.draw(st.text("12", max_size=3)) for letter in ["", *letters])
    silent = data.draw(st.sets(st.sampled_from(letters), max_size=2))
    log = [event._replace(time_ms=None) if event.token in silent else event for event in events(text)]
    cuts = st.tuples(st.integers(0, len(log)), st.integers(0, len(log))).map(sorted)
    windows = [log[first:last] for first, last in data.draw(st.lists(cuts, min_size=1, max_size=5))]
    windows = [part for part in windows if part] or [log]
    try:
        one_by_one = folded(*data.draw(st.permutations(windows)))
    except UnalignableError:  # nothing shows yet which of two parts comes first
        assert silent
        reject()
    assert one_by_one == at_once(*windows)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("+d", "a", "ab"), "ab+d"),
        (("a+", "d", "ab"), "a+bd"),
        (("a+", "+d", "a+b"), "a+b+d"),
        (("ab", "ef", "cd"), "abcdef"),
        (("ab+", "+ef", "cd"), "ab+cd+ef"),
        (("a1", "23b"), "a123b"),
        (("a12", "23b"), "a123b"),
        (("a1", "23d", "a1c"), "a1c23d"),
    ],
)
def test_merge_keeps_the_order_known_from_each_part(parts: tuple[str, ...], expected: str) -> None:
    """Records that come between others later find the tombstones where the parts that have them show that they are."""
    for order in permutations(parts):
        found = folded(*[events(part) for part in order])
        assert "".join(found[position].event.token for position in sorted(found)) == expected
        assert sorted(found) == list(range(len(expected)))


def test_tombstone_gets_its_time_from_a_later_landing() -> None:
    end, value = Event("+", True, None), Event("a", False, 5)
    assert folded([end], [end, value]) == {0: Stored(end, 5, PlacedBy.NEXT), 1: Stored(value, 5, PlacedBy.NEXT)}


def test_many_tombstones_in_a_row_are_counted_once_each() -> None:
    """A token is compared with no other one: how many equal ones stand before it is counted along."""

    class Token(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Token.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    tokens = [Token(number % 5) for number in range(10_000)]
    (of_part,) = align([[Event(token, True, None) for token in tokens]])
    assert sorted(merged.index for merged in of_part) == list(range(len(tokens)))
    assert Token.compared < 100 * len(tokens)


@given(st.data())
def test_overlapping_windows_are_merged_to_the_whole_sequence(data: st.DataObject) -> None:
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
