"""The judge: every fault is found where it is, Kafka's own sound results are never accused."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import Assignment, GroupProblem, MalformedProblemError, Member, Topic, assign, violations
from assignors.generation.violations import CODES, withheld_partitions
from tests.builders.golden_vectors import STRATEGIES, problem_of, read_vectors
from tests.builders.groups import broken_assignments, problems, sound_assignments

ORDERS = GroupProblem(
    {"audit": Topic(2), "orders": Topic(4)},
    (Member("c1", ("orders", "audit")), Member("c2", ("orders", "audit")), Member("c3", ("orders",))),
)
SOUND = assign("roundrobin", ORDERS)


def with_changes(**changes: tuple) -> Assignment:
    return {**SOUND, **changes}


def test_assignment_that_the_fault_tests_change_is_sound() -> None:
    assert SOUND == {
        "c1": (("audit", 0), ("orders", 1)),
        "c2": (("audit", 1), ("orders", 2)),
        "c3": (("orders", 0), ("orders", 3)),
    }
    assert violations(ORDERS, SOUND, "roundrobin") == ()


@pytest.mark.parametrize(
    ("mutated", "found"),
    [
        pytest.param(with_changes(c3=(("orders", 0),)), ("unassigned orders-3",), id="a partition dropped"),
        pytest.param({"c1": SOUND["c1"], "c2": SOUND["c2"]}, ("unassigned orders-0", "unassigned orders-3"), id="a member dropped"),
        pytest.param(with_changes(c3=(*SOUND["c3"], ("orders", 0))), ("multiply_owned orders-0",), id="twice in one list"),
        pytest.param(with_changes(c1=(*SOUND["c1"], ("orders", 0))), ("multiply_owned orders-0",), id="two owners"),
        pytest.param(with_changes(c9=()), ("unknown_member c9",), id="a stranger with nothing"),
        pytest.param(
            {"c1": SOUND["c1"], "c2": SOUND["c2"], "c9": SOUND["c3"]}, ("unknown_member c9",), id="a stranger in a member's place"
        ),
        pytest.param(
            with_changes(c1=(("orders", 1),), c3=(*SOUND["c3"], ("audit", 0))), ("not_subscribed audit-0 c3",), id="not subscribed"
        ),
        pytest.param(with_changes(c1=(*SOUND["c1"], ("orders", 4))), ("not_existing orders-4",), id="a partition too many"),
        pytest.param(with_changes(c1=(*SOUND["c1"], ("orders", -1))), ("not_existing orders--1",), id="a negative partition"),
        pytest.param(
            with_changes(c1=(*SOUND["c1"], ("gone", 0))), ("not_existing gone-0", "not_subscribed gone-0 c1"), id="an unknown topic"
        ),
    ],
)
def test_one_fault_is_reported_once_with_member_and_partition(mutated: Assignment, found: tuple[str, ...]) -> None:
    assert violations(ORDERS, mutated) == found


def test_violations_are_in_a_fixed_order() -> None:
    # Java compares UTF-16 units: the surrogates of an emoji come before U+FFFD, Python's code points say otherwise.
    problem = GroupProblem({"\U0001f600": Topic(11), "\ufffd": Topic(1)}, (Member("m", ("\ufffd", "\U0001f600")),))
    everything_wrong = {"z": (), "m": (("x", 0), ("\U0001f600", 0), ("\U0001f600", 0)), "y": ()}
    assert violations(problem, everything_wrong, "range") == (
        "unknown_member y",
        "unknown_member z",
        "not_existing x-0",
        "not_subscribed x-0 m",
        "multiply_owned \U0001f600-0",
        *(f"unassigned \U0001f600-{partition}" for partition in range(1, 11)),
        "unassigned \ufffd-0",
    )


def test_a_text_as_subscription_is_refused_with_the_member_that_has_it() -> None:
    problem = GroupProblem({"t": Topic(1)}, (Member("sound", ("t",)), Member("faulty", "t")))  # type: ignore[arg-type]
    with pytest.raises(MalformedProblemError, match=r"^member faulty subscribes to the string 't', expected a tuple of topic names"):
        violations(problem, {"sound": (("t", 0),)})


def test_threads_are_owners_only_as_far_as_streams_go() -> None:
    problem = GroupProblem({"t": Topic(2)}, (Member("c", ("t",), streams={"t": 2}), Member("d", ("t",))))
    assert violations(problem, {"c-0": (("t", 0),), "c-1": (("t", 1),)}) == ()
    assert violations(problem, {"c-0": (("t", 0),), "c-2": (("t", 1),)}) == ("unknown_member c-2",)
    assert violations(problem, {"c": (("t", 0),), "d-0": (("t", 1),)}) == ("unknown_member d-0",)


@given(st.data())
def test_faults_are_those_of_the_definition(data: st.DataObject) -> None:
    problem = data.draw(problems())
    assignment = data.draw(broken_assignments(problem))
    members = {member.member_id: member for member in problem.members}
    existing = {(name, number) for name, topic in problem.topics.items() for number in range(topic.partition_count or 0)}
    copies = Counter(partition for held in assignment.values() for partition in held)
    expected = {f"unknown_member {owner}" for owner in assignment if owner not in members}
    expected |= {f"not_existing {topic}-{number}" for topic, number in copies if (topic, number) not in existing}
    expected |= {
        f"not_subscribed {topic}-{number} {owner}"
        for owner, held in assignment.items()
        for topic, number in held
        if owner in members and topic not in members[owner].topics
    }
    expected |= {f"multiply_owned {topic}-{number}" for (topic, number), count in copies.items() if count > 1}
    expected |= {
        f"unassigned {topic}-{number}"
        for topic, number in existing - copies.keys()
        if any(topic in member.topics for member in problem.members)
    }
    found = violations(problem, assignment)
    assert sorted(found) == sorted(expected)
    codes = [CODES.index(entry.split(" ")[0]) for entry in found]
    assert codes == sorted(codes)


@given(st.data())
def test_withheld_partitions_are_no_fault_of_the_cooperative_assignor_alone(data: st.DataObject) -> None:
    problem = data.draw(problems())
    assignment = data.draw(sound_assignments(problem, is_complete=False))
    claimed = {partition for member in problem.members for partition in member.owned}
    unassigned = {entry for entry in violations(problem, assignment) if entry.startswith("unassigned ")}
    excused = {entry for entry in unassigned if entry in {f"unassigned {topic}-{number}" for topic, number in claimed}}
    cooperative = {entry for entry in violations(problem, assignment, "cooperative-sticky") if entry.startswith("unassigned ")}
    assert cooperative == unassigned - excused
    assert {f"unassigned {topic}-{number}" for topic, number in withheld_partitions(problem, assignment)} == excused


@pytest.mark.parametrize(
    ("strategy", "found"),
    [("cooperative-sticky", ("unassigned t-2",)), ("stream", ("unassigned t-2",)), ("sticky", ("unassigned t-1", "unassigned t-2"))],
)
def test_only_cooperative_assignors_may_withhold_claimed_partitions(strategy: str, found: tuple[str, ...]) -> None:
    problem = GroupProblem({"t": Topic(3)}, (Member("a", ("t",), owned=(("t", 0), ("t", 1))), Member("b", ("t",))))
    assert violations(problem, {"a": (("t", 0),), "b": ()}, strategy) == found


def subscribed_topics(problem: GroupProblem) -> set[str]:
    return {topic for member in problem.members for topic in member.topics}


def kinds_of_subscription(problem: GroupProblem) -> int:
    """Return how many different sets of existing topics members subscribe to."""
    existing = {name for name, topic in problem.topics.items() if topic.partition_count}
    return len({frozenset(existing.intersection(member.topics)) for member in problem.members} - {frozenset()})


def uneven(problem: GroupProblem, assignment: Assignment) -> set[str]:
    """Return the topics with a partition that could go to a subscriber that has at least two fewer (KIP-54), by trying all."""
    return {
        topic
        for held in assignment.values()
        for topic, _ in held
        if any(topic in other.topics and len(held) - len(assignment[other.member_id]) >= 2 for other in problem.members)
    }


@given(st.data())
def test_balance_claims_are_those_of_the_definition(data: st.DataObject) -> None:
    problem = data.draw(problems())
    assignment = data.draw(sound_assignments(problem))

    def unbalanced(strategy: str) -> set[str]:
        return {entry.removeprefix("unbalanced ") for entry in violations(problem, assignment, strategy)}

    counts = {
        topic: [sum(name == topic for name, _ in assignment[member.member_id]) for member in problem.members if topic in member.topics]
        for topic in subscribed_topics(problem)
    }
    assert unbalanced("range") == unbalanced("server-range") == {topic for topic, loads in counts.items() if max(loads) - min(loads) > 1}
    assert unbalanced("sticky") == uneven(problem, assignment)
    assert (
        unbalanced("roundrobin") == unbalanced("uniform") == (uneven(problem, assignment) if kinds_of_subscription(problem) == 1 else set())
    )
    assert unbalanced("some.module:assignor") == set()


@given(st.data())
def test_withheld_partitions_may_still_even_out_what_is_uneven(data: st.DataObject) -> None:
    problem = data.draw(problems())
    assignment = data.draw(sound_assignments(problem, is_complete=False))
    withheld = sorted(withheld_partitions(problem, assignment))
    takers = [[member.member_id for member in problem.members if topic in member.topics] for topic, _ in withheld]
    can_settle = False
    for owners in product(*takers):
        settled = {member_id: list(held) for member_id, held in assignment.items()}
        for partition, owner in zip(withheld, owners, strict=True):
            settled[owner].append(partition)
        can_settle = can_settle or not uneven(problem, settled)
    is_accused = any(entry.startswith("unbalanced ") for entry in violations(problem, assignment, "cooperative-sticky"))
    if can_settle:
        assert not is_accused
    elif kinds_of_subscription(problem) == 1:
        assert is_accused


@pytest.mark.parametrize(
    ("loads", "withheld_count", "is_accused"),
    [
        ((3, 2), 0, False),
        ((3, 1), 0, True),
        ((3, 1), 1, False),
        ((3, 0), 1, True),
        ((4, 1, 2), 2, True),
        ((4, 1, 2), 3, False),
    ],
)
def test_withheld_partitions_excuse_as_much_as_they_can_fill_up(loads: tuple[int, ...], withheld_count: int, is_accused: bool) -> None:
    partitions = [("t", number) for number in range(sum(loads) + withheld_count)]
    starts = [sum(loads[:number]) for number in range(len(loads))]
    assignment = {f"m{n}": tuple(partitions[start : start + load]) for n, (start, load) in enumerate(zip(starts, loads, strict=True))}
    claims = tuple(partitions[sum(loads) :])
    members = tuple(Member(member_id, ("t",), owned=claims if member_id == "m0" else ()) for member_id in assignment)
    found = violations(GroupProblem({"t": Topic(len(partitions))}, members), assignment, "cooperative-sticky")
    assert found == (("unbalanced t",) if is_accused else ())


# family: how many of Kafka's own results break a rule, by codes. What is not listed is sound.
FAULTS_OF_KAFKA = {
    "range": {},
    "range_rack": {},
    "roundrobin": {},
    "static_members": {},
    "sticky_constrained": {},
    "sticky_constrained_rack": {},
    "sticky_general": {("not_subscribed",): 3},
    "sticky_general_rack": {("not_subscribed",): 3},
    "cooperative_sticky": {},
    "cooperative_sticky_rack": {},
    "chains": {},
    "legacy": {},
    "server_range": {},
    "server_uniform": {("unassigned",): 1},
}


@pytest.mark.parametrize("family", FAULTS_OF_KAFKA)
def test_recorded_results_of_kafka_have_only_their_known_violations(family: str) -> None:
    faults: Counter[tuple[str, ...]] = Counter()
    for vector in read_vectors(family):
        if vector["expected"]["kind"] == "assignment":
            strategy = STRATEGIES.get(family, {}).get(vector["assignor"], vector["assignor"])
            assignment = {owner: tuple(map(tuple, held)) for owner, held in vector["expected"]["assignment"].items()}
            found = violations(problem_of(vector), assignment, strategy)
            faults[tuple(sorted({entry.split(" ")[0] for entry in found}))] += 1
    del faults[()]
    assert faults == FAULTS_OF_KAFKA[family]
