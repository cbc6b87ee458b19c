"""The bounds against brute force: every assignment there is; and no assignor does better than they say."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import Assignment, AssignorError, GroupProblem, Member, Topic, assign
from assignors.flow import FlowNetwork
from assignors.generations import Generation, Owner, owner_of
from assignors.movement import LastOwner, diff_generations, last_owners
from assignors.optimum import least_movement_count, least_spread
from assignors.registry import BUILT_IN
from assignors.subscriptions import existing_partition_counts
from tests.random_problems import random_problem, random_successor
from tests.unit.groups import problems, sound_assignments

MAX_COMBINATIONS = 3000

A, B = (False, "a"), (False, "b")


def subscribers(problem: GroupProblem, topic: str) -> list[Member]:
    return [member for member in problem.members if topic in member.topics]


def readers_of_something(problem: GroupProblem) -> list[Member]:
    existing = {name for name, topic in problem.topics.items() if topic.partition_count}
    return [member for member in problem.members if existing.intersection(member.topics)]


def count_combinations(problem: GroupProblem, places: list[tuple[str, int]]) -> int:
    combinations = 1
    for topic, _ in places:
        combinations *= len(subscribers(problem, topic))
    return combinations


def loads_by_brute_force(problem: GroupProblem, places: list[tuple[str, int]]) -> list[tuple[dict[str, int], tuple[Member, ...]]]:
    """Return every way to give the places to subscribers, with the loads that follow."""
    ways = []
    for owners in product(*(subscribers(problem, topic) for topic, _ in places)):
        loads = {member.member_id: 0 for member in readers_of_something(problem)}
        for owner in owners:
            loads[owner.member_id] += 1
        ways.append((loads, owners))
    return ways


@settings(max_examples=200)
@given(st.data())
def test_least_movement_is_the_least_of_all_assignments(data: st.DataObject) -> None:
    problem = data.draw(problems())
    assignment = data.draw(sound_assignments(problem, is_complete=False))
    places = [place for held in assignment.values() for place in held]
    if not problem.members or count_combinations(problem, places) > MAX_COMBINATIONS:
        return
    owners = [*map(owner_of, problem.members), (False, "gone")]
    last = {place: (data.draw(st.sampled_from(owners)),) for place in places if data.draw(st.booleans())}
    loads_now = [len(assignment[member.member_id]) for member in readers_of_something(problem)]
    expected = 0
    if loads_now:
        low, high = min(loads_now), max(loads_now)
        expected = min(
            sum(place in last and last[place][0] != owner_of(owner) for place, owner in zip(places, way, strict=True))
            for loads, way in loads_by_brute_force(problem, places)
            if all(low <= load <= high for load in loads.values())
        )
    assert least_movement_count(Generation(2, "range", problem, assignment), last) == expected


@settings(max_examples=200)
@given(problems())
def test_least_spread_is_that_of_the_most_even_assignment(problem: GroupProblem) -> None:
    places = [
        (name, partition)
        for name, topic in problem.topics.items()
        if subscribers(problem, name)
        for partition in range(topic.partition_count or 0)
    ]
    if not problem.members or count_combinations(problem, places) > MAX_COMBINATIONS:
        return
    # The least majorised vector is the first one when loads, largest first, are compared like words.
    even = min(sorted(loads.values(), reverse=True) for loads, _ in loads_by_brute_force(problem, places))
    assert least_spread(problem) == (even[0] - even[-1] if even else 0)


def test_nothing_is_least_without_members() -> None:
    problem = GroupProblem({"t": Topic(1)})
    assert least_spread(problem) is None
    assert least_movement_count(Generation(2, "range", problem, {}), {}) is None


def test_nothing_has_to_move_where_nobody_subscribes_to_anything_existing() -> None:
    problem = GroupProblem({}, (Member("a", ("gone",)),))
    assert least_spread(problem) == 0
    assert least_movement_count(Generation(2, "range", problem, {"a": ()}), {}) == 0


@pytest.mark.parametrize(
    ("assignment", "strategy", "last"),
    [
        pytest.param({"a": (("t", 0),), "b": (("t", 1),)}, "range", None, id="no generation before"),
        pytest.param({"a": (("t", 0),), "b": (("t", 0),)}, "range", {}, id="multiply owned"),
        pytest.param({"a": (("t", 0), ("t", 0)), "b": ()}, "range", {}, id="twice in one list"),
        pytest.param({"a": (("t", 0),), "b": (("u", 0),)}, "range", {}, id="not subscribed"),
        pytest.param({"a": (("t", 0),), "z": (("t", 1),)}, "range", {}, id="a stranger"),
        pytest.param({"a": (("t", 0),), "b": ()}, "cooperative-sticky", {}, id="withheld"),
        pytest.param({"a": (("t", 0),), "b": ()}, "range", {("t", 0): (A, B)}, id="multiply owned before"),
    ],
)
def test_no_bound_for_what_is_not_a_whole_assignment(assignment: Assignment, strategy: str, last: dict | None) -> None:
    problem = GroupProblem({"t": Topic(2), "u": Topic(1)}, (Member("a", ("t", "u"), owned=(("t", 1),)), Member("b", ("t",))))
    assert least_movement_count(Generation(2, strategy, problem, assignment), last) is None
    whole = Generation(2, strategy, problem, {"a": (("u", 0), ("t", 0)), "b": (("t", 1),)})
    assert least_movement_count(whole, {("t", 1): (A,)}) == 0


@given(st.data())
def test_no_assignment_moves_less_than_the_least(data: st.DataObject) -> None:
    problem = data.draw(problems())
    before = Generation(1, "range", problem, data.draw(sound_assignments(problem, is_complete=False)))
    now = Generation(2, "range", problem, data.draw(sound_assignments(problem)))
    unowned = {place for held in now.assignment.values() for place in held}
    unowned -= {place for held in before.assignment.values() for place in held}
    owners: list[Owner] = [*map(owner_of, problem.members), (False, "gone")]
    withheld = {place: LastOwner(data.draw(st.sampled_from(owners)), "any", 0) for place in sorted(unowned)}
    difference = diff_generations(before, now, withheld)
    least = least_movement_count(now, last_owners(before, now, withheld))
    assert least is None if not problem.members else 0 <= least <= difference.movement_count


@pytest.mark.parametrize("strategy", sorted(name for name in BUILT_IN if not name.startswith("legacy-")))
def test_no_assignor_does_better_than_the_bounds(strategy: str) -> None:
    random, judged = Random(strategy), 0
    for _ in range(300):
        problem = random_problem(random)
        try:
            before = Generation(1, strategy, problem, assign(strategy, problem))
            problem = random_successor(random, problem, before.assignment)
            now = Generation(2, strategy, problem, assign(strategy, problem))
        except AssignorError:
            continue
        least = least_movement_count(now, last_owners(before, now))
        if least is not None:
            judged += 1
            assert least <= diff_generations(before, now).movement_count
        loads = [len(now.assignment.get(member.member_id, ())) for member in readers_of_something(problem)]
        if sum(loads) == sum(existing_partition_counts(problem).values()) and loads and least is not None:
            assert least_spread(problem) <= max(loads) - min(loads)
    assert judged > 100


def test_a_flow_that_would_take_too_long_is_not_sent() -> None:
    """a keeps one of t, and could keep two: b has u to give. The closed form allows more than stayed, so that only the flow can tell."""
    problem = GroupProblem({"t": Topic(2), "u": Topic(2)}, (Member("a", ("t",)), Member("b", ("t", "u")), Member("c", ("u",))))
    now = Generation(2, "range", problem, {"a": (("t", 0),), "b": (("t", 1), ("u", 0)), "c": (("u", 1),)})
    last = {("t", 0): (A,), ("t", 1): (A,)}
    assert (least_movement_count(now, last), least_movement_count(now, last, step_budget=10)) == (0, None)
    # Nothing moved: no flow is needed to say that nothing had to.
    assert least_movement_count(now, {("t", 0): (A,), ("t", 1): (B,)}, step_budget=0) == 0
    assert (least_spread(problem), least_spread(problem, step_budget=10)) == (1, None)


def test_bound_shows_what_range_moves_in_vain() -> None:
    topics = {"t": Topic(12)}
    three = tuple(Member(name, ("t",)) for name in "abc")
    before = Generation(1, "sticky", GroupProblem(topics, three), assign("roundrobin", GroupProblem(topics, three)))
    joined = GroupProblem(topics, (*three, Member("d", ("t",))))
    range_now = Generation(2, "range", joined, assign("range", joined))
    assert least_movement_count(range_now, last_owners(before, range_now)) == 3
    assert diff_generations(before, range_now).movement_count == 9


def test_flow_finds_the_cheaper_way_even_when_it_has_to_undo_one() -> None:
    # The cheapest path 0-1-2-3 blocks both others; the best flow of 2 takes 0-1-3 and 0-2-3.
    network = FlowNetwork(4)
    for start, end, cost in ((0, 1, 1), (1, 2, 1), (2, 3, 1), (0, 2, 4), (1, 3, 4)):
        network.add_edge(start, end, 1, cost)
    assert network.send(0, 3) == (2, 10)


def test_flow_undoes_all_that_several_paths_have_sent() -> None:
    # Two paths of different cost share 1-2, one unit each; the largest flow of 4 fills every other edge and leaves 1-2 empty.
    network = FlowNetwork(4)
    for start, end, capacity, cost in ((0, 1, 1, 1), (0, 1, 1, 2), (1, 2, 2, 0), (2, 3, 2, 1), (0, 2, 2, 5), (1, 3, 2, 5)):
        network.add_edge(start, end, capacity, cost)
    assert network.send(0, 3) == (4, 25)


@pytest.mark.parametrize("detour_cost", [0, 3])
def test_flow_takes_a_longer_way_that_is_cheaper(detour_cost: int) -> None:
    # 1 is reached from 0 for 4 before it is reached from 2 for less.
    network = FlowNetwork(4)
    for start, end, cost in ((0, 1, 4), (0, 2, 0), (2, 1, detour_cost), (1, 3, 0)):
        network.add_edge(start, end, 1, cost)
    assert network.send(0, 3) == (1, detour_cost)
