"""Measures of balance against closed forms and against their definitions."""

from __future__ import annotations

import statistics
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import GroupProblem, Member, Topic
from assignors.generation.balance import Balance, measure_balance
from tests.builders.groups import broken_assignments, problems, sound_assignments


def loads_of(*loads: int) -> Balance:
    """Return the balance of members with these loads of one topic."""
    given, start = {}, 0
    for number, load in enumerate(loads):
        given[f"m{number}"] = tuple(("t", partition) for partition in range(start, start + load))
        start += load
    members = tuple(Member(member_id, ("t",)) for member_id in given)
    return measure_balance(GroupProblem({"t": Topic(start)}, members), given)


@pytest.mark.parametrize("member_count", [1, 2, 7])
def test_equal_loads_are_even(member_count: int) -> None:
    balance = loads_of(*[3] * member_count)
    assert (balance.partitions_per_member_min, balance.partitions_per_member_max) == (3, 3)
    assert (balance.partitions_per_member_mean, balance.partitions_per_member_stddev) == (3.0, 0.0)
    assert (balance.imbalance_ratio, balance.gini, balance.topic_skew_max, balance.balance_score) == (1.0, 0.0, 0, 0)


@pytest.mark.parametrize("member_count", [2, 5, 100])
def test_measures_of_one_member_with_all_partitions_equal_their_closed_forms(member_count: int) -> None:
    balance = loads_of(10, *[0] * (member_count - 1))
    assert balance.imbalance_ratio == member_count
    assert balance.gini == (member_count - 1) / member_count
    assert balance.idle_member_count == member_count - 1
    assert balance.balance_score == 10 * (member_count - 1)
    assert balance.topic_skew_max == 10


def test_measures_of_loads_one_to_n_equal_their_closed_forms() -> None:
    count = 20
    balance = loads_of(*range(1, count + 1))
    assert balance.gini == pytest.approx((count - 1) / (3 * count))
    assert balance.partitions_per_member_stddev == pytest.approx(((count**2 - 1) / 12) ** 0.5)
    assert balance.balance_score == (count - 1) * count * (count + 1) // 6


def test_balance_score_wraps_around_as_in_java() -> None:
    # 47,000 pairs of members that differ by 47,000 partitions each: 2,209,000,000 does not fit into 32 bits.
    everything = tuple(("t", partition) for partition in range(47_000))
    members = tuple(Member(f"m{number}", ("t",)) for number in range(47_001))
    balance = measure_balance(GroupProblem({"t": Topic(47_000)}, members), {"m0": everything})
    assert balance.balance_score == 2_209_000_000 - 2**32


def test_group_without_members_has_no_loads() -> None:
    balance = measure_balance(GroupProblem({"t": Topic(3)}), {})
    assert balance == Balance(0, 0, 0, 0, None, None, None, None, None, None, 0, 0, None)


def test_members_without_partitions_have_loads_but_no_ratios() -> None:
    balance = measure_balance(GroupProblem({"t": Topic(3)}, (Member("a", ("t",)), Member("b", ("gone",)))), {"a": (), "b": ()})
    assert balance == Balance(0, 3, 0, 1, 0, 0, 0.0, 0.0, None, None, 0, 0, None)


def test_rack_match_counts_where_both_racks_are_known() -> None:
    topics = {"t": Topic(4, (("r1",), ("r2", None), (None,), ("r1", "r2"))), "u": Topic(1)}
    members = (Member("a", ("t", "u"), rack="r1"), Member("b", ("t",), rack=""), Member("c", ("t",)))
    problem = GroupProblem(topics, members)
    # t-0 matches, t-1 does not, t-2 has no known rack, of u no racks are known; b and c have none.
    assert measure_balance(problem, {"a": (("t", 0), ("t", 1), ("t", 2), ("u", 0)), "b": (("t", 3),)}).rack_match_ratio == 0.5
    assert measure_balance(problem, {"a": (("t", 0),)}).rack_match_ratio == 1
    assert measure_balance(problem, {"a": (("t", 2), ("u", 0)), "b": (("t", 0),), "c": (("t", 3),)}).rack_match_ratio is None


def test_only_what_several_own_is_multiply_owned() -> None:
    """t-0 is twice in one list, t-1 in two; t-9, in two, and t-8, twice in one, do not exist."""
    problem = GroupProblem({"t": Topic(3)}, (Member("a", ("t",)), Member("b", ("t",))))
    assignment = {"a": (("t", 0), ("t", 0), ("t", 1), ("t", 9)), "b": (("t", 1), ("t", 2), ("t", 9), ("t", 8), ("t", 8))}
    assert measure_balance(problem, assignment).multiply_owned_count == 2


def test_topic_skew_is_a_whole_number() -> None:
    """Its column takes no other, and to Python 3.0 == 3."""
    assert str(loads_of(1, 4).topic_skew_max) == "3"


def test_threads_count_for_their_member() -> None:
    problem = GroupProblem({"t": Topic(3)}, (Member("c", ("t",), streams={"t": 2}), Member("d", ("t",), streams={"t": 1})))
    balance = measure_balance(problem, {"c-0": (("t", 0),), "c-1": (("t", 1),), "d-0": (("t", 2),)})
    assert (balance.partitions_per_member_min, balance.partitions_per_member_max, balance.topic_skew_max) == (1, 2, 1)


@given(st.data())
def test_counts_are_those_of_the_definition(data: st.DataObject) -> None:
    problem = data.draw(problems())
    assignment = data.draw(st.one_of(broken_assignments(problem), sound_assignments(problem)))
    given_out = [partition for held in assignment.values() for partition in held]
    wanted = {
        (topic, partition)
        for member in problem.members
        for topic in member.topics
        if topic in problem.topics
        for partition in range(problem.topics[topic].partition_count or 0)
    }
    balance = measure_balance(problem, assignment)
    assert balance.partition_count == len(set(given_out))
    assert balance.unassigned_count == len(wanted.difference(given_out))
    once_a_list = [partition for held in assignment.values() for partition in set(held)]
    assert balance.multiply_owned_count == len({partition for partition in once_a_list if once_a_list.count(partition) > 1})
    assert balance.idle_member_count == sum(
        not assignment[member.member_id] and any(topic in member.topics for topic, _ in wanted) for member in problem.members
    )
    skews = [
        [sum(name == topic for name, _ in assignment[member.member_id]) for member in problem.members if topic in member.topics]
        for topic in {topic for topic, _ in wanted}
    ]
    assert balance.topic_skew_max == max((max(counts) - min(counts) for counts in skews), default=0)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any))
def test_spread_is_that_of_the_definition(loads: list[int]) -> None:
    balance = loads_of(*loads)
    differences = sum(abs(one - other) for one, other in combinations(loads, 2))
    mean = statistics.fmean(loads)
    assert balance.partitions_per_member_min == min(loads)
    assert balance.partitions_per_member_max == max(loads)
    assert balance.partitions_per_member_mean == pytest.approx(mean)
    assert balance.partitions_per_member_stddev == pytest.approx(statistics.pstdev(loads))
    assert balance.imbalance_ratio == pytest.approx(max(loads) / mean)
    assert balance.gini == pytest.approx(differences / (len(loads) ** 2 * mean))
    assert balance.balance_score == differences
