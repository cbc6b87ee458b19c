"""Hashes of many strings together, beside Java's definition one unit at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.java.string_hash import hash_low_bytes, string_hashes


def defined_hash(text: str) -> int:
    """Return ``s[0] * 31**(n-1) + ... + s[n-1]`` over UTF-16 units, in 32 bits with a sign."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for at in range(0, len(encoded), 2):
        total = 31 * total + int.from_bytes(encoded[at : at + 2], "big")
    return int.from_bytes((total % 2**32).to_bytes(4, "big"), "big", signed=True)


any_text = st.text(st.characters(exclude_categories=()), max_size=70)
ascii_text = st.text(st.characters(max_codepoint=127), max_size=70)  # blanks, which padding uses, and zeros among them


@given(st.one_of(st.lists(any_text, max_size=20), st.lists(ascii_text, max_size=20)))
def test_hashes_of_mixed_strings_are_independent_of_each_other(texts: list[str]) -> None:
    hashes = list(map(defined_hash, texts))
    assert string_hashes(texts) == hashes
    assert list(hash_low_bytes(tuple(texts))) == [(value ^ (value % 2**32) >> 16) & 0xFF for value in hashes]


@pytest.mark.parametrize("texts", [("a", "longer-than-eight"), ("longer-than-eight", "a"), ("a b", "longer than eight"), ("%s", "%%")])
def test_the_first_string_need_not_be_as_wide_as_the_others(texts: tuple[str, ...]) -> None:
    assert string_hashes(texts) == list(map(defined_hash, texts))


@pytest.mark.parametrize("unit", ["\xff", "\uffff", "\U0010ffff"])
@pytest.mark.parametrize("length", [7, 8, 9, 64, 65, 256, 257, 5000])
def test_the_largest_units_do_not_spill_into_the_next_string(unit: str, length: int) -> None:
    texts = ["", unit * length, "a", unit * (length - 1)]
    assert string_hashes(texts) == list(map(defined_hash, texts))


def test_hashes_of_several_batches_keep_the_order_of_the_strings() -> None:
    texts = [f"consumer-{number}" for number in range(600)]
    assert string_hashes(texts) == list(map(defined_hash, texts))
