"""How close two assignments are: the farthest pair that each class still takes in."""

from __future__ import annotations

import pytest

from assignors.replay.conformance import Divergence, compare_assignments, divergences
from tests.builders.histories import held


@pytest.mark.parametrize(
    ("observed", "computed", "expected"),
    [
        pytest.param({"a": "t0 t1"}, {"a": "t0 t1"}, "exact", id="the same lists"),
        pytest.param({"a": "t0 t1 u0"}, {"a": "u0 t0 t1"}, "exact", id="the order of topics does not count"),
        pytest.param({"a": "t0 u0 t1"}, {"a": "t0 t1 u0"}, "exact", id="nor how topics are interleaved"),
        pytest.param({"a": "t0", "b": ""}, {"a": "t0"}, "exact", id="nothing is the same as not being listed"),
        pytest.param({}, {}, "exact", id="nobody"),
        pytest.param({"a": "t1 t0"}, {"a": "t0 t1"}, "equal_sets", id="the order within a topic counts"),
        pytest.param({"a": "t0 t0"}, {"a": "t0"}, "equal_sets", id="a partition listed twice"),
        pytest.param({"a": "t0 t1", "b": "t2"}, {"a": "t2", "b": "t0 t1"}, "equal_balance", id="the same loads on other members"),
        pytest.param({"a": "t0", "b": "t1"}, {"a": "t0", "b": "t2"}, "differs", id="the same loads over other partitions"),
        pytest.param({"a": "t0 t1", "b": ""}, {"a": "t0", "b": "t1"}, "differs", id="other loads over the same partitions"),
        pytest.param({"a": "t0", "b": "t1"}, {"a": "t0", "b": ""}, "differs", id="a partition less"),
    ],
)
def test_conformance_is_the_closest_relation_that_holds(observed: dict[str, str], computed: dict[str, str], expected: str) -> None:
    one, other = ({member: held(text) for member, text in side.items()} for side in (observed, computed))
    assert compare_assignments(one, other).value == expected
    assert compare_assignments(other, one).value == expected


def test_partition_that_only_one_assignment_gives_out_is_a_divergence() -> None:
    """t-0 is the same in both, t-2 goes to another member, and either assignment leaves one out."""
    observed, computed = {"a": held("t0 t1"), "b": held("t2")}, {"a": held("t0 t2"), "b": held("t3")}
    assert divergences(observed, computed) == [
        Divergence("t", 1, ("a",), ()),
        Divergence("t", 2, ("b",), ("a",)),
        Divergence("t", 3, (), ("b",)),
    ]
