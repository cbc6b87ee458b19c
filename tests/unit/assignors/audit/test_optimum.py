"""The bounds against brute force: every assignment there is; and no assignor does better than they say."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import Assignment, AssignorError, GroupProblem, Member, Topic, TopicPartition, assign
from assignors.audit.comparison import Comparison
from assignors.audit.least_movement import Least, least_movements, least_spread
from assignors.audit.max_flow import Supply, most_even_loads, most_kept, most_placed
from assignors.audit.movements import LastOwner, diff_generations
from assignors.generation.generation import Generation, Owner, owner_of
from assignors.generation.subscriptions import existing_partition_counts
from assignors.registry import BUILT_IN
from tests.builders.groups import problems, sound_assignments
from tests.builders.random_problems import random_problem, random_successor, with_topic_ids

MAX_COMBINATIONS = 3000

A, B = (False, "a"), (False, "b")


def subscribers(problem: GroupProblem, topic: str) -> list[Member]:
    return [member for member in problem.members if topic in member.topics]


def readers_of_something(problem: GroupProblem) -> list[Member]:
    existing = {name for name, topic in problem.topics.items() if topic.partition_count}
    return [member for member in problem.members if existing.intersection(member.topics)]


def count_combinations(problem: GroupProblem, partitions: list[tuple[str, int]]) -> int:
    combinations = 1
    for topic, _ in partitions:
        combinations *= len(subscribers(problem, topic))
    return combinations


def loads_by_brute_force(problem: GroupProblem, partitions: list[tuple[str, int]]) -> list[tuple[dict[str, int], tuple[Member, ...]]]:
    """Return every way to give the places to subscribers, with the loads that follow."""
    ways = []
    for owners in product(*(subscribers(problem, topic) for topic, _ in partitions)):
        loads = {member.member_id: 0 for member in readers_of_something(problem)}
        for owner in owners:
            loads[owner.member_id] += 1
        ways.append((loads, owners))
    return ways


def since(last: dict[TopicPartition, tuple[Owner, ...]], current: Generation) -> Comparison:
    """Compare with a generation in which these partitions had these owners."""
    members: dict[Owner, Member] = {}
    held: dict[str, list[TopicPartition]] = {}
    for partition, owners in last.items():
        for is_static, name in owners:
            member = Member(f"{name}, before", group_instance_id=name) if is_static else Member(name)
            held.setdefault(members.setdefault((is_static, name), member).member_id, []).append(partition)
    before = {member_id: tuple(partitions) for member_id, partitions in held.items()}
    return Comparison(Generation(1, "range", GroupProblem({}, tuple(members.values())), before), current)


def compare_least_movements(data: st.DataObject) -> None:
    problem = data.draw(problems())
    assignment = data.draw(sound_assignments(problem, is_complete=False))
    partitions = [partition for held in assignment.values() for partition in held]
    if not problem.members or count_combinations(problem, partitions) > MAX_COMBINATIONS:
        return
    owners = [*map(owner_of, problem.members), (False, "gone")]
    last = {partition: (data.draw(st.sampled_from(owners)),) for partition in partitions if data.draw(st.booleans())}
    # Some of them had been kept back in the generation before: their owners are given apart.
    withheld = {partition: LastOwner(owner, "any", 0) for partition, (owner,) in last.items() if data.draw(st.booleans())}
    loads_now = [len(assignment[member.member_id]) for member in readers_of_something(problem)]
    expected = 0
    if loads_now:
        low, high = min(loads_now), max(loads_now)
        expected = min(
            sum(partition in last and last[partition][0] != owner_of(owner) for partition, owner in zip(partitions, way, strict=True))
            for loads, way in loads_by_brute_force(problem, partitions)
            if all(low <= load <= high for load in loads.values())
        )
    owned = {partition: owners for partition, owners in last.items() if partition not in withheld}
    assert least_movements(since(owned, Generation(2, "range", problem, assignment)), withheld) == Least(expected)


@settings(max_examples=200)
@given(st.data())
def test_least_movement_is_the_least_of_all_assignments(data: st.DataObject) -> None:
    compare_least_movements(data)


@pytest.mark.slow
@settings(max_examples=5_000)
@given(st.data())
def test_least_movement_is_the_least_of_all_assignments_in_thousands_of_cases(data: st.DataObject) -> None:
    compare_least_movements(data)


def compare_least_spreads(problem: GroupProblem) -> None:
    partitions = [
        (name, partition)
        for name, topic in problem.topics.items()
        if subscribers(problem, name)
        for partition in range(topic.partition_count or 0)
    ]
    if not problem.members or count_combinations(problem, partitions) > MAX_COMBINATIONS:
        return
    # The least majorised vector is the first one when loads, largest first, are compared like words.
    even = min(sorted(loads.values(), reverse=True) for loads, _ in loads_by_brute_force(problem, partitions))
    assert least_spread(problem) == Least(even[0] - even[-1] if even else 0)
    if not even:
        return
    classes = list(dict.fromkeys(member.topics for member in readers_of_something(problem)))
    supplies = [
        Supply(tuple(number for number, topics in enumerate(classes) if name in topics), problem.topics[name].partition_count or 0)
        for name in dict(partitions)
    ]
    sizes = [sum(member.topics == topics for member in problem.members) for topics in classes]
    assert most_even_loads(supplies, sizes) == most_even_loads(supplies, sizes, most_supplies=0) == (even[-1], even[0])


@settings(max_examples=200)
@given(problems())
def test_least_spread_is_that_of_the_most_even_assignment(problem: GroupProblem) -> None:
    compare_least_spreads(problem)


@pytest.mark.slow
@settings(max_examples=5_000)
@given(problems())
def test_least_spread_is_that_of_the_most_even_assignment_in_thousands_of_cases(problem: GroupProblem) -> None:
    compare_least_spreads(problem)


def test_bounds_are_null_without_members() -> None:
    problem = GroupProblem({"t": Topic(1)})
    assert least_spread(problem) is None
    assert least_movements(since({}, Generation(2, "range", problem, {}))) is None


def test_partition_without_earlier_owner_hides_no_later_partition() -> None:
    """a had three of four and may keep two; b was given t-3, which nobody had, and then one of a's."""
    problem = GroupProblem({"t": Topic(4)}, (Member("a", ("t",)), Member("b", ("t",))))
    assignment = {"a": (("t", 0), ("t", 1)), "b": (("t", 3), ("t", 2))}
    last = {("t", number): (A,) for number in range(3)}
    assert least_movements(since(last, Generation(2, "range", problem, assignment))) == Least(1)


def test_a_withheld_partition_that_went_to_another_is_not_one_that_stayed() -> None:
    """b alone may have t-0, which a claimed before; a has to take u-0 of b's, so that both have one."""
    problem = GroupProblem({"t": Topic(1), "u": Topic(1)}, (Member("a", ("u",)), Member("b", ("t", "u"))))
    now = Generation(2, "range", problem, {"a": (("u", 0),), "b": (("t", 0),)})
    assert least_movements(since({("u", 0): (B,)}, now), {("t", 0): LastOwner(A, "a", 1)}) == Least(2)


def test_least_movement_counts_partitions_that_the_metadata_does_not_know() -> None:
    """t grew after its metadata were looked at: a held t-0 and t-1, and b has to get one of them."""
    before = Generation(1, "range", GroupProblem({"t": Topic(1)}, (Member("a", ("t",)),)), {"a": (("t", 0), ("t", 1))})
    joined = GroupProblem({"t": Topic(1)}, (Member("a", ("t",)), Member("b", ("t",))))
    now = Generation(2, "range", joined, {"a": (("t", 0),), "b": (("t", 1),)})
    assert least_movements(Comparison(before, now)) == Least(1)


def test_least_movement_is_zero_without_existing_subscribed_topics() -> None:
    problem = GroupProblem({}, (Member("a", ("gone",)),))
    assert least_spread(problem) == Least(0)
    assert least_movements(since({}, Generation(2, "range", problem, {"a": ()}))) == Least(0)


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
def test_incomplete_or_unsound_assignment_has_no_least_movement(assignment: Assignment, strategy: str, last: dict | None) -> None:
    problem = GroupProblem({"t": Topic(2), "u": Topic(1)}, (Member("a", ("t", "u"), owned=(("t", 1),)), Member("b", ("t",))))
    now = Generation(2, strategy, problem, assignment)
    assert least_movements(Comparison(None, now) if last is None else since(last, now)) is None
    whole = Generation(2, strategy, problem, {"a": (("u", 0), ("t", 0)), "b": (("t", 1),)})
    assert least_movements(since({("t", 1): (A,)}, whole)) == Least(0)


@given(st.data())
def test_no_assignment_moves_less_than_the_least(data: st.DataObject) -> None:
    problem = data.draw(problems())
    before = Generation(1, "range", problem, data.draw(sound_assignments(problem, is_complete=False)))
    now = Generation(2, "range", problem, data.draw(sound_assignments(problem)))
    unowned = {partition for held in now.assignment.values() for partition in held}
    unowned -= {partition for held in before.assignment.values() for partition in held}
    owners: list[Owner] = [*map(owner_of, problem.members), (False, "gone")]
    withheld = {partition: LastOwner(data.draw(st.sampled_from(owners)), "any", 0) for partition in sorted(unowned)}
    difference = diff_generations(Comparison(before, now), withheld)
    least = least_movements(Comparison(before, now), withheld)
    assert least is None if not problem.members else 0 <= least.count <= difference.movement_count


@pytest.mark.parametrize("strategy", sorted(name for name in BUILT_IN if not name.startswith("legacy-")))
def test_no_assignor_does_better_than_the_bounds(strategy: str) -> None:
    random, judged = Random(strategy), 0
    for _ in range(300):
        ids: dict[str, str] = {}
        problem = with_topic_ids(random, random_problem(random), ids)
        try:
            before = Generation(1, strategy, problem, assign(strategy, problem))
            problem = with_topic_ids(random, random_successor(random, problem, before.assignment), ids)
            now = Generation(2, strategy, problem, assign(strategy, problem))
        except AssignorError:
            continue
        least = least_movements(Comparison(before, now))
        if least is not None:
            judged += 1
            assert least.count <= diff_generations(Comparison(before, now)).movement_count
        loads = [len(now.assignment.get(member.member_id, ())) for member in readers_of_something(problem)]
        if sum(loads) == sum(existing_partition_counts(problem).values()) and loads and least is not None:
            assert least_spread(problem).count <= max(loads) - min(loads)
    assert judged > 100


def test_least_movement_of_a_large_group_is_a_lower_bound() -> None:
    """a and b may have t, b and c may have u; c has to keep both u, which a, who held one of them, may not have.

    The closed form, which lets anybody have anything, gives fewer movements and a smaller spread than there can be.
    """
    problem = GroupProblem({"t": Topic(1), "u": Topic(4)}, (Member("a", ("t",)), Member("b", ("t", "u")), Member("c", ("u",))))
    now = Generation(2, "range", problem, {"a": (("t", 0),), "b": (("u", 0), ("u", 1)), "c": (("u", 2), ("u", 3))})
    last = {("u", number): ((False, "c"),) for number in range(4)} | {("t", 0): (B,)}
    # Loads are 1, 2, 2: c keeps two of u, and t has to go from b to a, who needs one.
    assert least_movements(since(last, now)) == Least(3)
    assert least_movements(since(last, now), most_edges=5) == Least(2, is_exact=False)
    # Nothing moved: no flow is needed to say that nothing had to.
    stayed = {partition: ((False, name),) for name, held in now.assignment.items() for partition in held}
    assert least_movements(since(stayed, now), most_edges=0) == Least(0)
    wide = GroupProblem({"t": Topic(1), "u": Topic(5)}, problem.members)
    # Each of the two topics has two kinds of subscribers.
    assert (least_spread(wide), least_spread(wide, most_edges=4)) == (Least(2), Least(2))
    assert least_spread(wide, most_edges=3) == Least(0, is_exact=False)


def test_least_movement_shows_avoidable_movements_of_range() -> None:
    topics = {"t": Topic(12)}
    three = tuple(Member(name, ("t",)) for name in "abc")
    before = Generation(1, "sticky", GroupProblem(topics, three), assign("roundrobin", GroupProblem(topics, three)))
    joined = GroupProblem(topics, (*three, Member("d", ("t",))))
    range_now = Generation(2, "range", joined, assign("range", joined))
    assert least_movements(Comparison(before, range_now)) == Least(3)
    assert diff_generations(Comparison(before, range_now)).movement_count == 9


def test_members_that_could_take_more_than_32_bits_count_take_what_there_is() -> None:
    assert most_placed([Supply((0,), 1_000_000), Supply((0, 1), 500_000)], [4_000, 4_000], 1_000_000) == 1_500_000


def test_flow_gives_the_exact_most_placed_and_most_kept() -> None:
    """Two subscriptions share one supply; whoever is filled up sends the rest through the other."""
    supplies = [Supply((0,), 5), Supply((0, 1), 3)]
    assert [most_placed(supplies, [1, 2], load) for load in (0, 1, 2, 5, 6)] == [0, 3, 5, 8, 8]
    held_counts = {(0, 0, "a"): 4, (1, 0, "a"): 2, (1, 1, "b"): 1}
    # a takes 5 of its own at most, with 4 of them held before; then b keeps its one, and one of a's two has a place no more.
    assert most_kept(supplies, [1, 2], held_counts, 1, 5) == 5
    assert most_kept(supplies, [1, 2], held_counts, 1, 6) == 6
    with pytest.raises(RuntimeError, match="loads from 3 to 5"):
        most_kept(supplies, [1, 2], held_counts, 3, 5)
