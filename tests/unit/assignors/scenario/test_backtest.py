"""Predictions of stored generations: what they may know, and why they fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import GroupProblem, Member, Topic, assign
from assignors.algorithms.sticky.user_data import write_sticky_user_data
from assignors.audit.triggers import Trigger
from assignors.generation.generation import Generation
from assignors.replay.conformance import Conformance
from assignors.scenario.backtest import KAFKA_CLIENT, Backtest, Explanation, LeftOut, Omission, Prediction, Reason, Share, predict
from schemas.vocabulary import Flavour
from tests.builders.histories import held, member

JOINED = (Trigger.MEMBER_JOINED,)
FOUR = {"t": Topic(4)}
HALVES = {"a": "t0 t1", "b": "t2 t3"}


def generation(
    number: int, strategy: str, given_out: Mapping[str, str], *members: Member, topics: Mapping[str, Topic] | None = None
) -> Generation:
    """Return a generation; members that are not listed subscribe to ``t`` and claim nothing."""
    listed = {one.member_id: one for one in members}
    problem = GroupProblem(FOUR if topics is None else topics, tuple(listed.get(name, member(name)) for name in given_out))
    return Generation(number, strategy, problem, {name: held(text) for name, text in given_out.items()})


def recorded(
    number: int, strategy: str, *members: Member, topics: Mapping[str, Topic] | None = None, version: str | None = None
) -> Generation:
    """Return a generation in which the leader gave out what Kafka's assignor does."""
    problem = GroupProblem(FOUR if topics is None else topics, members)
    return Generation(number, strategy, problem, assign(strategy, problem, kafka_version=version))


def predicted(before: Generation, after: Generation, *triggers: Trigger, **known: Any) -> Prediction:
    found = predict(before, after, triggers or JOINED, **known)
    assert isinstance(found, Prediction)
    return found


def explained(before: Generation, after: Generation, **known: Any) -> list[tuple[Reason, tuple[str, ...]]]:
    found = predicted(before, after, **known)
    assert found.conformance is not Conformance.EXACT
    return [(explanation.reason, explanation.names) for explanation in found.explanations]


# -- what is predicted


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("range", {"a": "t0 t1", "b": "t2", "c": "t3"}),
        ("roundrobin", {"a": "t0 t3", "b": "t1", "c": "t2"}),
        ("sticky", {"a": "t0 t1", "b": "t2", "c": "t3"}),
        ("cooperative-sticky", {"a": "t0 t1", "b": "t2", "c": ""}),  # t3 is withheld
        ("server-range", {"a": "t0 t1", "b": "t2", "c": "t3"}),
        ("uniform", {"a": "t0 t1", "b": "t2", "c": "t3"}),
    ],
)
def test_member_that_joins_is_predicted_from_what_the_others_were_given(strategy: str, expected: dict[str, str]) -> None:
    found = predicted(generation(5, strategy, HALVES), generation(6, strategy, expected))
    assert (found.conformance, found.explanations, found.generation) == (Conformance.EXACT, (), 6)


def test_follow_up_is_the_next_step_after_the_recorded_one() -> None:
    half, whole = {"a": "t0 t1", "b": "t2", "c": ""}, {"a": "t0 t1", "b": "t2", "c": "t3"}
    strategy = "cooperative-sticky"
    found = predicted(generation(6, strategy, half), generation(7, strategy, whole), Trigger.COOPERATIVE_FOLLOW_UP)
    assert (found.conformance, found.is_follow_up) == (Conformance.EXACT, True)
    assert not predicted(generation(5, strategy, HALVES), generation(6, strategy, half)).is_follow_up


def test_new_partitions_are_taken_from_the_outcome() -> None:
    after = generation(6, "range", {"a": "t0 t1 t2", "b": "t3 t4 t5"}, topics={"t": Topic(6)})
    assert predicted(generation(5, "range", HALVES), after, Trigger.PARTITIONS_ADDED).conformance is Conformance.EXACT


def test_new_partitions_have_the_racks_of_the_first_ones() -> None:
    # Each member gets what has a replica in its rack, as long as that is no more than its share.
    members = (Member("a", ("t",), rack="r1"), Member("b", ("t",), rack="r2"))
    before = generation(5, "range", {"a": "t0", "b": "t1"}, *members, topics={"t": Topic(2, (("r1",), ("r2",)))})
    racks = (("r1",), ("r2",), ("r1",), ("r2",))
    after = generation(6, "range", {"a": "t0 t2", "b": "t1 t3"}, *members, topics={"t": Topic(4, racks)})
    assert predicted(before, after, Trigger.PARTITIONS_ADDED).conformance is Conformance.EXACT


def test_eager_member_of_a_cooperative_group_claims_nothing() -> None:
    # a had t0 t1 and claimed nothing in generation 5: it offers an eager assignor too. So b, which claimed what it had, keeps all that its
    # share allows, and a and c get the rest at once.
    strategy = "cooperative-sticky"
    earlier = generation(4, strategy, HALVES)
    before = generation(5, strategy, HALVES, member("b", owned="t2 t3", at=4))
    after = recorded(6, strategy, member("a"), member("b", owned="t2 t3", at=5), member("c"))
    assert predicted(before, after, earlier=earlier).conformance is Conformance.EXACT
    assert explained(before, after) == [(Reason.CLAIMED_NOTHING, ("a",))]
    rewrite = replace(earlier, generation=5)
    assert explained(before, after, earlier=rewrite) == [(Reason.CLAIMED_NOTHING, ("a",))]


def test_member_that_had_nothing_to_claim_is_not_eager() -> None:
    strategy = "cooperative-sticky"
    earlier = generation(4, strategy, {"a": "t0 t1 t2 t3", "b": ""})
    before = generation(5, strategy, HALVES, member("a", owned="t0 t1 t2 t3", at=4))
    after = recorded(6, strategy, member("a", owned="t0 t1", at=5), member("b", owned="t2 t3", at=5), member("c"))
    assert predicted(before, after, earlier=earlier).conformance is Conformance.EXACT


def test_member_that_gave_up_a_topic_is_not_eager() -> None:
    strategy, topics = "cooperative-sticky", {"t": Topic(4), "u": Topic(1)}
    earlier = generation(4, strategy, {"a": "u0", "b": "t0 t1 t2 t3"}, member("a", "u"), topics=topics)
    before = generation(5, strategy, HALVES, member("b", owned="t0 t1 t2 t3", at=4), topics=topics)
    after = recorded(6, strategy, member("a", owned="t0 t1", at=5), member("b", owned="t2 t3", at=5), member("c"), topics=topics)
    assert predicted(before, after, earlier=earlier).conformance is Conformance.EXACT


# -- what must not be known

CLAIMS = st.lists(st.sampled_from(held("t0 t1 t2 t3 u0")), unique=True, max_size=5).map(tuple)
RACKS = st.sampled_from([None, "r1", "r2", "r3"])


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(("range", "sticky", "cooperative-sticky", "uniform", "server-range")))
def test_prediction_does_not_depend_on_what_it_must_not_know(data: st.DataObject, strategy: str) -> None:
    topics = {"t": Topic(4, (("r1",), ("r2",), ("r1",), ("r2",)))}
    members = (Member("a", ("t",), rack="r1"), Member("b", ("t",), rack="r2"))
    before = generation(5, strategy, HALVES, *members, topics=topics)
    plain = generation(6, strategy, {"a": "", "b": "", "c": ""}, *members, topics=topics)
    changed = [
        replace(one, owned=data.draw(CLAIMS), owned_generation=data.draw(st.integers(-1, 9)), rack=data.draw(RACKS), user_data=user_data)
        for one in plain.problem.members
        for user_data in [write_sticky_user_data(data.draw(CLAIMS), data.draw(st.integers(0, 9)))]
    ]
    partition_racks = tuple((data.draw(RACKS),) for _ in range(4))
    shares = {name: data.draw(CLAIMS) for name in "abc"}
    other = Generation(6, strategy, GroupProblem({"t": Topic(4, partition_racks)}, tuple(changed)), shares)
    assert predicted(before, other).assignment == predicted(before, plain).assignment


# -- why predictions fail


def test_claims_of_the_record_explain_a_difference() -> None:
    strategy = "cooperative-sticky"
    before = generation(5, strategy, HALVES)
    a, b, c = (member("a", owned="t0 t1", at=5), member("b", owned="t2 t3", at=5), member("c"))
    assert explained(before, recorded(6, strategy, member("a"), b, c)) == [(Reason.CLAIMED_NOTHING, ("a",))]
    assert explained(before, recorded(6, strategy, member("a", owned="t3", at=5), member("b", owned="t2", at=5), c)) == [
        (Reason.CLAIMED_OTHERS, ("a", "b"))
    ]
    assert explained(before, recorded(6, strategy, a, b, member("c", owned="t0", at=6))) == [(Reason.JOINED_WITH_CLAIMS, ("c",))]


def test_claims_of_another_generation_explain_a_difference() -> None:
    # Up to 3.4.0 only claims of the newest generation count.
    strategy, release = "cooperative-sticky", "3.4.0"
    older = (member("a", owned="t0 t1", at=4), member("b", owned="t2 t3", at=5), member("c"))
    after = recorded(6, strategy, *older, version=release)
    assert explained(generation(5, strategy, HALVES), after, kafka_version=release) == [(Reason.CLAIMED_OLDER, ("a",))]


def test_order_of_claims_explains_a_difference() -> None:
    # Releases before 3.7.1 cut claims in their own order.
    strategy, release = "cooperative-sticky", "3.5.2"
    topics = {"t": Topic(2)}
    before = generation(5, strategy, {"a": "t0 t1"}, topics=topics)
    after = recorded(6, strategy, member("a", owned="t1 t0", at=5), member("b"), topics=topics, version=release)
    assert explained(before, after, kafka_version=release) == [(Reason.CLAIMED_IN_OTHER_ORDER, ("a",))]


def test_sticky_claims_are_read_from_user_data() -> None:
    before = generation(5, "sticky", HALVES)
    given = [replace(member("a"), user_data=write_sticky_user_data(held("t0"), 5)), member("b", owned="t2 t3", at=5), member("c")]
    after = recorded(6, "sticky", *given)  # the protocol's own claims of b do not count
    assert explained(before, after) == [(Reason.CLAIMED_NOTHING, ("b",)), (Reason.CLAIMED_OTHERS, ("a",))]


def test_racks_of_members_and_topics_explain_a_difference() -> None:
    one, two = (("r1",), ("r2",)), (("r2",), ("r1",))
    a, b = Member("a", ("t",), rack="r1"), Member("b", ("t",), rack="r2")
    before = generation(5, "range", {"a": "t0", "b": "t1"}, a, b, topics={"t": Topic(2, one)})
    moved = recorded(6, "range", a, b, topics={"t": Topic(2, two)})
    assert explained(before, moved) == [(Reason.TOPIC_RACKS, ("t",))]
    swapped = recorded(6, "range", replace(a, rack="r2"), replace(b, rack="r1"), topics={"t": Topic(2, one)})
    assert explained(before, swapped) == [(Reason.MEMBER_RACKS, ("a", "b"))]
    three = {"t": Topic(3, (("r1",), ("r3",), ("r2",)))}
    alone = generation(5, "range", {"a": "t0 t1 t2"}, a, topics=three)
    joined = recorded(6, "range", a, Member("c", ("t",), rack="r2"), Member("d", ("t",), rack="r3"), topics=three)
    assert explained(alone, joined) == [(Reason.MEMBER_RACKS, ("c", "d"))]


def test_claims_and_racks_together_explain_a_difference() -> None:
    strategy, topics = "cooperative-sticky", {"t": Topic(4, (("r1",), ("r1",), ("r1",), ("r2",)))}
    after = recorded(6, strategy, member("a"), member("b", owned="t2 t3", at=5), Member("c", ("t",), rack="r1"), topics=topics)
    reasons = [(Reason.CLAIMED_NOTHING, ("a",)), (Reason.MEMBER_RACKS, ("c",))]
    assert explained(generation(5, strategy, HALVES, topics=topics), after) == reasons


def test_what_differs_without_effect_is_no_reason() -> None:
    before = generation(5, "cooperative-sticky", HALVES)
    after = recorded(6, "cooperative-sticky", replace(member("a"), rack="r9"), member("b", owned="t2 t3", at=5), member("c"))
    assert explained(before, after) == [(Reason.CLAIMED_NOTHING, ("a",))]
    range_before = generation(5, "range", HALVES, member("a", owned="t3", at=1))
    other = generation(6, "range", {"a": "t3", "b": "t2", "c": "t0 t1"}, member("a", owned="t3", at=1))
    assert explained(range_before, other) == [(Reason.UNEXPLAINED, ())]


@pytest.mark.parametrize(
    ("leader_client", "reason"),
    [("franz-go", Reason.OTHER_CLIENT), ("java", Reason.UNEXPLAINED), (None, Reason.UNEXPLAINED)],
)
def test_difference_that_the_record_does_not_explain_comes_from_another_client(leader_client: str | None, reason: Reason) -> None:
    after = generation(6, "range", {"a": "t3", "b": "t2", "c": "t0 t1"})
    found = predicted(generation(5, "range", HALVES), after, leader_client=leader_client)
    assert (found.conformance, found.explanations) == (Conformance.EQUAL_BALANCE, (Explanation(reason),))


def test_kafkas_client_has_the_stored_name() -> None:
    assert KAFKA_CLIENT == Flavour.JAVA.value


def test_assignor_without_a_result_is_a_wrong_prediction() -> None:
    # Up to 2.2 the sticky assignor throws where a subscribed topic does not exist.
    before = generation(5, "sticky", HALVES)
    after = generation(6, "sticky", {**HALVES, "c": ""}, member("c", "u"))
    found = predicted(before, after, kafka_version="2.2.0")
    assert (found.assignment, found.conformance, found.explanations) == (None, Conformance.DIFFERS, (Explanation(Reason.UNEXPLAINED),))


# -- what is left out


@pytest.mark.parametrize(
    ("before", "after", "triggers", "omission"),
    [
        ({"a": "t0"}, {"a": "t0", "b": ""}, None, Omission.UNKNOWN_BEFORE),
        ({}, {"a": "t0"}, JOINED, Omission.NO_MEMBERS),
        ({"a": "t0"}, {}, (Trigger.MEMBER_LEFT, Trigger.GROUP_EMPTIED), Omission.NO_MEMBERS),
        ({"a": "t0"}, {"a": "t0"}, (Trigger.NONE_VISIBLE,), Omission.NO_VISIBLE_CAUSE),
        ({"a": "t0"}, {"a": "t0", "b": ""}, (*JOINED, Trigger.SUBSCRIPTION_CHANGED), Omission.OTHER_CAUSE),
        ({"a": "t0"}, {"a": "t0"}, (Trigger.STRATEGY_CHANGED,), Omission.OTHER_CAUSE),
        ({"a": "t0"}, {"a": "t0"}, (Trigger.TOPIC_DELETED,), Omission.OTHER_CAUSE),
    ],
)
def test_generation_without_a_cause_that_scenarios_say_is_left_out(
    before: dict[str, str], after: dict[str, str], triggers: tuple[Trigger, ...] | None, omission: Omission
) -> None:
    assert predict(generation(5, "range", before), generation(6, "range", after), triggers) == LeftOut(6, omission)


@pytest.mark.parametrize("strategy", ["stream", "legacy-range", "tests.builders.recording:assign_recording", ""])
def test_strategy_that_is_not_kafkas_is_left_out(strategy: str) -> None:
    assert predict(generation(5, strategy, HALVES), generation(6, strategy, HALVES), JOINED) == LeftOut(6, Omission.NO_ASSIGNOR)


def test_restarted_static_member_is_left_out_and_one_that_was_away_is_not() -> None:
    back = (Trigger.STATIC_MEMBER_RETURNED,)
    before = generation(5, "range", {"a-1": "t0 t1 t2 t3"}, member("a-1", instance="a"))
    restarted = generation(6, "range", {"a-2": "t0 t1 t2 t3"}, member("a-2", instance="a"))
    assert predict(before, restarted, back) == LeftOut(6, Omission.MEMBER_RESTARTED)
    came_back = generation(6, "range", {"a-1": "t0 t1", "b-2": "t2 t3"}, member("a-1", instance="a"), member("b-2", instance="b"))
    assert predicted(before, came_back, *back).conformance is Conformance.EXACT


# -- all together


def test_counts_by_strategy_and_client() -> None:
    before, exact = generation(5, "range", HALVES), generation(6, "range", {"a": "t0 t1", "b": "t2", "c": "t3"})
    wrong = generation(6, "range", {"a": "t3", "b": "t2", "c": "t0 t1"})
    every = [
        *(predicted(before, exact, leader_client="java") for _ in range(3)),
        predicted(before, wrong, leader_client="java"),
        predicted(before, wrong, leader_client="franz-go"),
        LeftOut(6, Omission.NO_MEMBERS),
    ]
    found = Backtest.of(every)
    assert found.shares == (
        Share("range", "franz-go", {Conformance.EQUAL_BALANCE: 1}),
        Share("range", "java", {Conformance.EXACT: 3, Conformance.EQUAL_BALANCE: 1}),
    )
    assert (found.shares[1].count, found.shares[1].of(Conformance.EXACT), found.shares[1].of(Conformance.DIFFERS)) == (4, 0.75, 0)
    assert found.reasons == {Reason.UNEXPLAINED: 1, Reason.OTHER_CLIENT: 1}
    assert found.omissions == {Omission.NO_MEMBERS: 1}
    assert Backtest.of([]) == Backtest()
