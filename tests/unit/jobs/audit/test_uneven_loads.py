"""Which generations the rules on loads look at, and which loads and racks they get."""

from __future__ import annotations

from typing import Any

import pytest

from assignors.model import Topic
from jobs.audit.load_imbalance import HeldTopic, Weighed, Weights, is_judged
from jobs.audit.uneven_loads import Racks, find_uneven_loads, load_facts

MILLION = 10**6
AUDIT: dict[str, Any] = {
    "strategy": "sticky",
    "member_count": 2,
    "partition_count": 3,
    "partitions_per_member_min": 1,
    "partitions_per_member_max": 2,
    "is_settled": True,
    "rack_match_ratio": None,
}
HOT = ["hot_partition"]
UNEVEN = [("a", 0, 50), ("a", 1, 30), ("b", 2, 60)]
"""Member, partition, and how many records a second come into it. The member with the most has not the busiest partition."""


def loads(entries: list[tuple[str, int, int | None]]) -> tuple[list[HeldTopic], list[list[int | None]]]:
    held = [HeldTopic(member_id, "t", [partition]) for member_id, partition, _ in entries]
    return held, [[rate if rate is None else rate * MILLION] for *_, rate in entries]


@pytest.mark.parametrize(
    ("expected", "ratio", "member_count", "is_settled", "rack_match_ratio"),
    [
        pytest.param(True, 1.5, 2, True, None, id="uneven"),
        pytest.param(False, 1.4, 2, True, None, id="even enough"),
        pytest.param(False, 1.5, 2, False, None, id="not settled"),
        pytest.param(False, 1.5, 2, None, None, id="not known to be settled"),
        pytest.param(False, 1.5, 1, True, None, id="alone"),
        pytest.param(False, None, 2, True, 0.5, id="no rate is known"),
        pytest.param(True, 1.0, 1, True, 0.5, id="a partition crosses racks"),
        pytest.param(False, 1.0, 2, True, 1.0, id="none crosses racks"),
    ],
)
def test_rules_on_loads_look_at_generations_that_are_uneven_or_cross_racks(
    expected: bool, ratio: float | None, member_count: int, is_settled: bool | None, rack_match_ratio: float | None
) -> None:
    assert is_judged(Weights(9.0, ratio, 0), member_count, is_settled, rack_match_ratio) is expected


def test_loads_name_the_busiest_member_and_partition() -> None:
    facts = load_facts(AUDIT, *loads(UNEVEN), None)
    assert facts is not None
    assert (facts.member_id, facts.member_rate, facts.total_rate, facts.least, facts.most) == ("a", 80.0, 140.0, 1, 2)
    assert (facts.topic, facts.partition, facts.partition_rate, facts.owner) == ("t", 2, 60.0, "b")
    assert (facts.crossing_rate, facts.crossing_count) == (None, None)


def test_entries_of_one_member_are_added_up() -> None:
    held = [HeldTopic("a", "t", [0, 1]), HeldTopic("a", "u", [0]), HeldTopic("b", "t", [2])]
    facts = load_facts(AUDIT, held, [[1, 2], [4], [5]], None)
    assert facts is not None
    assert (facts.member_id, facts.member_rate * MILLION, facts.topic) == ("a", 7, "t")


def test_of_equal_loads_the_largest_name_counts() -> None:
    facts = load_facts(AUDIT, *loads([("b", 1, 30), ("a", 0, 30)]), None)
    assert facts is not None
    assert (facts.member_id, facts.partition, facts.owner) == ("b", 1, "b")


@pytest.mark.parametrize("entries", [[("a", 0, 50), ("a", 1, None), ("b", 2, 10)], [("a", 0, 0)], []])
def test_without_a_rate_or_with_one_missing_nothing_is_said(entries: list[tuple[str, int, int | None]]) -> None:
    assert load_facts(AUDIT, *loads(entries), None) is None


def test_records_cross_racks_where_no_replica_is_in_the_rack_of_the_reader() -> None:
    """Members without a rack, partitions whose replicas have none, and replicas of which one is near do not count."""
    of_partitions = (("eu-a", "eu-b"), ("eu-b", "eu-c"), ("eu-b", None), (None, None), ("eu-b",))
    racks = Racks.of([("a", "eu-a"), ("b", None), ("c", "")], {"t": Topic(5, of_partitions), "u": Topic(1)})
    held = [("a", 0, 1), ("a", 1, 2), ("a", 2, 4), ("a", 3, 8), ("b", 4, 16), ("c", 1, 32), ("a", 5, 64), ("gone", 1, 128)]
    facts = load_facts(AUDIT, *loads(held), racks)
    assert facts is not None
    assert (facts.crossing_rate, facts.crossing_count) == (6.0, 2)
    near = load_facts(AUDIT, *loads([("a", 0, 1)]), racks)
    assert near is not None
    assert (near.crossing_rate, near.crossing_count) == (None, None)
    assert not racks.are_far("a", "u", 0)


@pytest.mark.parametrize(("ratio", "asked", "rules"), [(None, 0, HOT), (1.0, 0, HOT), (0.5, 1, [*HOT, "records_cross_racks"])])
def test_racks_are_asked_for_only_where_a_partition_crosses_them(ratio: float | None, asked: int, rules: list[str]) -> None:
    calls = []

    def racks_of() -> Racks:
        calls.append(1)
        return Racks({"a": "eu-a", "b": "eu-a"}, {"t": [["eu-b"], ["eu-a"]]})

    held, rates = loads([("a", 0, 5_000), ("b", 1, 10)])
    found = find_uneven_loads({**AUDIT, "rack_match_ratio": ratio}, held, Weighed(Weights(None, 2.0, 0), rates), racks_of)
    assert (sorted(str(one.rule_id) for one in found), len(calls)) == (rules, asked)


def test_even_loads_are_not_looked_at() -> None:
    held, rates = loads([("a", 0, 5_000), ("b", 1, 10)])
    assert find_uneven_loads(AUDIT, held, Weighed(Weights(None, 1.0, 0), rates), lambda: Racks({}, {})) == []
