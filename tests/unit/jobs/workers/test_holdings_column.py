"""What members hold comes back from its bytes as it was, and bytes that are not such are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.workers.holdings_column import TornHoldingsError, pack_holdings, unpack_holdings
from jobs.workers.packing import group_by_topic

LISTED = ["t", "u", "é"]
PARTITIONS = st.tuples(st.sampled_from([*LISTED, "unlisted", 'a "name"\n', "\ud800"]), st.integers(-(2**31), 2**31 - 1))


def packed(*lists: list[tuple[str, int]]) -> bytes:
    return pack_holdings(map(group_by_topic, lists), LISTED)


@given(st.lists(st.lists(PARTITIONS, max_size=8), max_size=6))
def test_every_list_comes_back_in_its_order(lists: list[list[tuple[str, int]]]) -> None:
    members = [f"m{number}" for number in range(len(lists))]
    found = unpack_holdings(packed(*lists), members, LISTED)
    assert list(found) == members
    for member_id, held in zip(members, lists, strict=True):
        topics, numbers = group_by_topic(held)
        assert list(found[member_id]) == [(topic, number) for topic, of_topic in zip(topics, numbers, strict=True) for number in of_topic]
    assert set(found.topics) == {topic for held in lists for topic, _ in held}, "none that nobody holds"


@pytest.mark.parametrize("number", [-(2**31), -(2**15) - 1, -(2**15), -129, -128, 127, 128, 2**15 - 1, 2**15, 2**31 - 1])
def test_numbers_at_the_bounds_of_each_width_are_unpacked_unchanged(number: int) -> None:
    assert unpack_holdings(packed([("t", number)]), ["a"], LISTED)["a"] == (("t", number),)


def test_small_numbers_take_a_byte() -> None:
    """13 of the header, a topic's place, and for each of two members its entries, the entry's topic, its length and its partitions."""
    assert len(packed([("t", 1), ("t", 2)], [("t", 0)])) == 13 + 1 + 2 + 2 + 2 + 3


@pytest.mark.parametrize(
    ("data", "members", "message"),
    [
        pytest.param(packed([("t", 1)]), ["a", "b"], "expected holdings of 2 members, found holdings of 1", id="another snapshot's"),
        pytest.param(packed([("t", 1)])[:-1], ["a"], "cannot be read", id="cut"),
        pytest.param(b"", ["a"], "cannot be read", id="nothing"),
        pytest.param(packed([("v", 1)])[:-2], ["a"], "cannot be read", id="a name is cut"),
        pytest.param(b"\x03" + packed([("t", 1)])[1:], ["a"], "cannot be read", id="no such width"),
        pytest.param(packed([("t", 1)])[:14] + b"\x05" + packed([("t", 1)])[15:], ["a"], "contradict", id="more entries than there are"),
    ],
)
def test_torn_bytes_are_refused(data: bytes, members: list[str], message: str) -> None:
    with pytest.raises(TornHoldingsError, match=message):
        unpack_holdings(data, members, LISTED)


def test_a_topic_beyond_those_listed_is_refused() -> None:
    with pytest.raises(TornHoldingsError, match="cannot be read"):
        unpack_holdings(packed([("é", 1)]), ["a"], LISTED[:2])
