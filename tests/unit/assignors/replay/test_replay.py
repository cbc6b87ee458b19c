"""A group's history played again, generation by generation: every expected result is worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from assignors import (
    Assignment,
    GroupProblem,
    KafkaAssignorError,
    KafkaVersionError,
    MalformedProblemError,
    Member,
    NoResultError,
    Topic,
    UnknownStrategyError,
    assign,
)
from assignors.algorithms.sticky.user_data import write_sticky_user_data
from assignors.generation.generation import WITHOUT_CLAIMS
from assignors.generation.subscriptions import with_claims
from assignors.registry import BUILT_IN
from assignors.replay import replay
from assignors.replay.conformance import Conformance
from assignors.replay.replay import NEWEST_KAFKA, Replay
from assignors.replay.steps import Snapshot
from assignors.replay.topic_metadata import ClusterLooks, LookBasis, TopicRun
from tests.builders import recording
from tests.builders.histories import counterfactual, held, looks, member, of_basis, play, short, snapshot, statuses
from tests.builders.recording import RECORDING

COOPERATIVE = "cooperative-sticky"


@pytest.fixture(autouse=True)
def nothing_recorded() -> Iterator[None]:
    recording.asked.clear()
    recording.failures.clear()
    yield


# -- first snapshots


@pytest.mark.parametrize(
    ("first", "is_known"),
    [
        pytest.param(snapshot(0, {}), True, id="the empty generation that every group writes first"),
        pytest.param(snapshot(1, {"a": "t0 t1"}), True, id="generation 1"),
        pytest.param(snapshot(7, {}), True, id="empty, whatever its generation"),
        pytest.param(snapshot(2, {"a": "t0 t1"}), False, id="what a compacted log has left"),
        pytest.param(snapshot(1, {"a": "t0 t1"}, strategy="uniform"), True, id="a broker's first target"),
        pytest.param(snapshot(2, {"a": "t0 t1"}, strategy="uniform"), True, id="a broker's first target, by another release"),
        pytest.param(snapshot(2, {"a": "t0 t1"}, member("a", owned="t0"), strategy="uniform"), False, id="it had a target before"),
        pytest.param(snapshot(2, {"a": "t0 t1"}, strategy="uniform", is_conversion=True), False, id="a group that was classic"),
        pytest.param(snapshot(3, {"a": "t0 t1"}, strategy="uniform"), False, id="a compacted log: what members have comes after it"),
    ],
)
def test_only_a_later_generation_with_members_lacks_its_predecessor(first: Snapshot, is_known: bool) -> None:
    (step,) = play(Replay(("range",)), looks(t=2), first)
    assert step.has_predecessor is is_known


def test_first_generation_has_no_claims() -> None:
    (step,) = play(Replay((RECORDING,)), looks(t=2), snapshot(1, {"a": "t0", "b": "t1"}))
    assert recording.claims() == {}
    assert statuses([step], RECORDING) == [("solved", 1)]


def test_a_first_snapshot_without_predecessor_is_computed_by_every_strategy() -> None:
    """t and u have one partition each. Range gives both to a; the others spread them; no call counts as a cost of the group."""
    first = snapshot(5, {"a": "t0 u0", "b": ""}, member("a", "tu"), member("b", "tu"))
    (step,) = play(Replay(("range", "roundrobin", "sticky", COOPERATIVE)), looks(t=1, u=1), first)
    found = {one.strategy: one for one in step.solutions if one.basis == "counterfactual"}
    assert {name: short(one.assignment) for name, one in found.items()} == {
        "range": {"a": "t0 u0", "b": ""},
        "roundrobin": {"a": "t0", "b": "u0"},
        "sticky": {"a": "t0", "b": "u0"},
        COOPERATIVE: {"a": "t0", "b": "u0"},
    }
    results = {(one.status, one.kafka_version, one.rebalance_count, one.cooperative_revocation_count) for one in found.values()}
    assert results == {("solved", NEWEST_KAFKA, 0, None)}
    assert not step.has_predecessor


def test_an_unknown_past_begins_with_the_observed_assignment_where_nobody_claims() -> None:
    first = snapshot(5, {"a": "t1", "b": "t0"})
    steps = play(Replay((RECORDING, "sticky")), looks(t=2), first)
    assert recording.claims() == {"a": (held("t1"), 5), "b": (held("t0"), 5)}
    assert short(counterfactual(steps[0], "sticky").assignment) == {"a": "t1", "b": "t0"}
    steps = play(Replay((RECORDING,)), looks(t=2), first, snapshot(6, {"a": "t0", "b": "t1"}))
    assert recording.claims() == {"a": (held("t0"), 5), "b": (held("t1"), 5)}, "the next step goes on from the computed result"
    assert steps[1].has_predecessor


def test_an_unknown_past_begins_with_the_recorded_claims() -> None:
    """b claims both, and t0 is taken from it for a, which is new. The cooperative strategy hands it over to the end."""
    members = member("a"), member("b", owned="t0 t1", at=4)
    first = snapshot(5, {"a": "", "b": "t1"}, *members, strategy=COOPERATIVE)
    (step,) = play(Replay((RECORDING, COOPERATIVE)), looks(t=2), first)
    assert recording.claims() == {"a": ((), 5), "b": (held("t0 t1"), 5)}
    assert short(counterfactual(step, COOPERATIVE).assignment) == {"a": "t1", "b": "t0"}
    in_user_data = replace(members[1], owned=(), owned_generation=None, user_data=write_sticky_user_data(held("t0 t1"), 4))
    play(Replay((RECORDING,)), looks(t=2), snapshot(5, {"a": "", "b": "t1"}, members[0], in_user_data, strategy="sticky"))
    assert recording.claims() == {"a": ((), 5), "b": (held("t0 t1"), 5)}


def test_older_of_two_recorded_claims_does_not_count() -> None:
    members = member("a", owned="t0 t1", at=3), member("b", owned="t1", at=4)
    play(Replay((RECORDING,)), looks(t=2), snapshot(5, {"a": "t0", "b": "t1"}, *members, strategy=COOPERATIVE))
    assert recording.claims() == {"a": (held("t0"), 5), "b": (held("t1"), 5)}


def test_a_first_step_that_failed_leaves_the_claims_that_it_began_with() -> None:
    replay_, cluster = Replay((RECORDING,)), looks(t=2)
    recording.failures.append(NoResultError("the same state again", is_cycle=True))
    state = replay_.advance(None, snapshot(5, {"a": "t1", "b": "t0"}), cluster)
    assert counterfactual(state.step, RECORDING).status == "no_result"
    replay_.advance(state, snapshot(6, {"a": "t1", "b": "t0"}), cluster)
    assert recording.claims() == {"a": (held("t1"), 5), "b": (held("t0"), 5)}


def test_a_seeded_generation_is_recomputed_all_the_same() -> None:
    (step,) = play(Replay(()), looks(t=2), snapshot(5, {"a": "t0", "b": "t1"}))
    assert (of_basis(step, "recomputed").status, of_basis(step, "recomputed").conformance) == ("solved", Conformance.EXACT)


def test_an_empty_generation_is_solved_by_nobody() -> None:
    (step,) = play(Replay((RECORDING,)), looks(t=2), snapshot(0, {}))
    assert [(one.basis, one.strategy, one.status, one.assignment, one.rebalance_count) for one in step.solutions] == [
        ("observed", "", "solved", {}, 0),
        ("recomputed", "", "solved", {}, 0),
        ("counterfactual", RECORDING, "solved", {}, 0),
    ]
    assert recording.asked == []
    assert of_basis(step, "observed").conformance is Conformance.NOT_COMPARABLE


def test_a_new_incarnation_knows_nothing_of_the_one_before() -> None:
    first = snapshot(1, {"a": "t0 t1"})
    second = snapshot(1, {"a": "t0 t1"}, position=9, incarnation=9)
    steps = play(Replay((RECORDING,)), looks(t=2), first, second)
    assert recording.claims() == {}
    assert steps[1].has_predecessor and not steps[1].is_rewrite


# -- the strategies of a step


@pytest.mark.parametrize(
    ("strategy", "configured", "expected"),
    [
        pytest.param("range", ("sticky",), ["sticky", "range"], id="the group's own is added"),
        pytest.param("range", ("range", "sticky"), ["range", "sticky"], id="once"),
        pytest.param("RoundRobinAssigner", ("range",), ["range"], id="one that is not ours is not"),
    ],
)
def test_every_configured_strategy_and_the_groups_own_have_a_counterfactual(strategy: str, configured: tuple, expected: list) -> None:
    (step,) = play(Replay(configured), looks(t=2), snapshot(1, {"a": "t0 t1"}, strategy=strategy))
    assert [one.strategy for one in step.solutions if one.basis == "counterfactual"] == expected


# -- claims


def test_a_strategy_is_fed_with_its_own_last_result_and_not_with_the_recorded_claims() -> None:
    """Observed are t0 for a and t1 for b; range gives a both partitions of t at first, since b does not subscribe yet."""
    play(
        Replay((RECORDING,)),
        looks(t=2),
        snapshot(1, {"a": "t0", "b": "t1"}, member("b", "")),
        snapshot(2, {"a": "t0", "b": "t1"}, member("a", owned="t0", at=1), member("b", owned="t1", at=1)),
    )
    assert recording.claims() == {"a": (held("t0 t1"), 1), "b": ((), 1)}


def test_claims_are_sorted_by_topic_and_partition() -> None:
    """The result lists them the other way round; a consumer's claims come from a sorted set."""
    history = (snapshot(generation, {"a": ""}, member("a", "ut")) for generation in (1, 2))
    steps = play(Replay((RECORDING,)), looks(t=2, u=1), *history)
    assert short(counterfactual(steps[0], RECORDING).assignment) == {"a": "u0 t1 t0"}
    assert recording.claims() == {"a": (held("t0 t1 u0"), 1)}


def test_static_member_claims_the_partitions_of_its_instance_id() -> None:
    play(
        Replay((RECORDING,)),
        looks(t=1),
        snapshot(1, {"x-1": "t0"}, member("x-1", instance="x")),
        snapshot(2, {"x-2": "t0"}, member("x-2", instance="x")),
    )
    assert recording.claims() == {"x-2": (held("t0"), 1)}


def test_partitions_of_vanished_topics_stay_claimed_once() -> None:
    """Two looks: u is there before 50 ms and gone after it."""
    cluster = ClusterLooks([0, 50], {"t": [TopicRun(0, 1, 1)], "u": [TopicRun(0, 0, 1)]})
    history = (
        snapshot(1, {"a": "t0 u0"}, member("a", "tu"), joined_at_ms=10),
        snapshot(2, {"a": "t0"}, member("a", "tu"), joined_at_ms=60),
        snapshot(3, {"a": "t0"}, member("a", "tu"), joined_at_ms=70),
    )
    play(Replay((RECORDING,)), cluster, *history[:2])
    assert recording.claims() == {"a": (held("t0 u0"), 1)}
    play(Replay((RECORDING,)), cluster, *history)
    assert recording.claims() == {"a": (held("t0"), 2)}


def test_an_empty_snapshot_clears_the_chain() -> None:
    play(Replay((RECORDING,)), looks(t=1), snapshot(1, {"a": "t0"}), snapshot(2, {}), snapshot(3, {"a": "t0"}))
    assert recording.claims() == {}


def test_claims_cleared_by_an_empty_snapshot_stay_cleared_after_a_failed_step() -> None:
    replay_, cluster = Replay((RECORDING,)), looks(t=1)
    state = replay_.advance(None, snapshot(1, {"a": "t0"}), cluster)
    state = replay_.advance(state, snapshot(2, {}), cluster)
    recording.failures.append(NoResultError("the same state again", is_cycle=True))
    state = replay_.advance(state, snapshot(3, {"a": "t0"}), cluster)
    replay_.advance(state, snapshot(4, {"a": "t0"}), cluster)
    assert recording.claims() == {}


def test_a_strategy_that_the_group_comes_back_to_claims_nothing() -> None:
    """It was not compared in generation 2, so that it has no result of the snapshot before."""
    own = (snapshot(number, {"a": "t0"}, strategy=strategy) for number, strategy in enumerate(("range", "sticky", "range"), 1))
    state = None
    chains = []
    for one in own:
        state = Replay((RECORDING,)).advance(state, one, looks(t=1))
        chains.append(sorted(state.chains))
    assert chains == [["range", RECORDING], ["sticky", RECORDING], ["range", RECORDING]]


def test_a_failed_step_keeps_the_last_result_for_owners_of_the_snapshot_before() -> None:
    """Generation 2 fails; in generation 3 only a, which is in the snapshot of generation 2, still claims what generation 1 gave."""
    replay_, cluster = Replay((RECORDING,)), looks(t=3)
    one = replay_.advance(None, snapshot(1, {"a": "", "b": "", "c": ""}), cluster)
    recording.failures.append(NoResultError("the same state again", is_cycle=True))
    two = replay_.advance(one, snapshot(2, {"a": ""}), cluster)
    failed = counterfactual(two.step, RECORDING)
    assert (failed.status, failed.assignment, failed.detail) == ("no_result", None, "the same state again")
    three = replay_.advance(two, snapshot(3, {"a": "", "b": ""}), cluster)
    assert recording.claims() == {"a": (held("t0"), 1)}
    assert counterfactual(three.step, RECORDING).status == "solved"


def test_sticky_claims_travel_in_its_user_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout of sticky's user data, version 1: a topic array, then the generation; here t with partition 0, generation 1."""
    asked: list[GroupProblem] = []

    def record(strategy: str, problem: GroupProblem, **_: Any) -> Assignment:
        asked.append(problem)
        return {one.member_id: held("t0") if one.member_id == "a" else () for one in problem.members}

    monkeypatch.setattr(replay, "assign", record)
    first, second = snapshot(1, {"a": "t0"}, strategy="other"), snapshot(2, {"a": "t0", "b": ""}, strategy="other")
    play(Replay(("sticky",)), looks(t=1), first, second)
    expected = bytes.fromhex("00000001000174000000010000000000000001")
    assert [(one.user_data, one.owned_generation) for one in asked[-1].members] == [(expected, 1), (None, None)]


# -- cooperative hand-over


def hand_over(**changes: Any) -> list[Snapshot]:
    """Return a cooperative hand-over: a has t0 and t1, b joins, a gives up t1 (generation 2), b gets it (generation 3)."""
    third = {"a": "t0", "b": "t1"}
    members = changes.pop("members", (member("a", owned="t0", at=2), member("b", at=2)))
    return [
        snapshot(1, {"a": "t0 t1"}, strategy=COOPERATIVE),
        snapshot(2, {"a": "t0", "b": ""}, member("a", owned="t0 t1", at=1), strategy=COOPERATIVE),
        snapshot(3, {one.member_id: third.get(one.member_id, "") for one in members}, *members, **{"strategy": COOPERATIVE, **changes}),
    ]


def test_the_second_half_of_a_cooperative_hand_over_is_no_cause() -> None:
    steps = play(Replay((RECORDING, COOPERATIVE)), looks(t=2), *hand_over())
    assert [step.is_follow_up for step in steps] == [False, False, True]
    assert statuses(steps, COOPERATIVE) == [("solved", 1), ("solved", 2), ("carried", 0)]
    assert statuses(steps, RECORDING) == [("solved", 1), ("solved", 1), ("carried", 0)]
    for strategy in (COOPERATIVE, RECORDING):
        assert counterfactual(steps[2], strategy).assignment == counterfactual(steps[1], strategy).assignment
        assert counterfactual(steps[2], strategy).cooperative_revocation_count is None


def test_failed_step_stays_failed_in_the_second_half_of_a_hand_over() -> None:
    replay_, cluster = Replay((RECORDING,)), looks(t=2)
    first, second, third = hand_over()
    state = replay_.advance(None, first, cluster)
    recording.failures.append(NoResultError("the same state again", is_cycle=True))
    for one in (second, third):
        state = replay_.advance(state, one, cluster)
    failed = counterfactual(state.step, RECORDING)
    assert state.step.is_follow_up
    assert (failed.status, failed.assignment, failed.rebalance_count) == ("no_result", None, 0)


def test_kafka_streams_hands_over_in_two_rebalances_as_well() -> None:
    """With ``upgrade.from`` below 2.4 its members claim nothing, and give everything up before each rebalance."""
    history = [replace(one, strategy="stream") for one in hand_over()]
    assert [step.is_follow_up for step in play(Replay((RECORDING,)), looks(t=2), *history)] == [False, False, True]
    eager = [replace(one, members=tuple(replace(each, owned=()) for each in one.members)) for one in history]
    assert [step.is_follow_up for step in play(Replay((RECORDING,)), looks(t=2), *eager)] == [False, False, False]


def test_cooperative_counterfactual_runs_until_the_hand_over_is_done() -> None:
    """Call 1 takes t1 from a and gives it to nobody, call 2 gives it to b; one partition was given up in all."""
    steps = play(Replay((COOPERATIVE,)), looks(t=2), *hand_over()[:2])
    settled = counterfactual(steps[1], COOPERATIVE)
    assert short(settled.assignment) == {"a": "t0", "b": "t1"}
    assert (settled.rebalance_count, settled.cooperative_revocation_count) == (2, 1)
    assert short(of_basis(steps[1], "recomputed").assignment) == {"a": "t0", "b": ""}, "recomputed is the one call that there was"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"members": (member("a", owned="t0", at=2), member("b", at=2), member("c"))}, id="a member joined"),
        pytest.param({"members": (member("a", owned="t0", at=2),)}, id="a member left"),
        pytest.param({"members": (member("a", owned="t0", at=2), member("b", "tu", at=2))}, id="a subscription changed"),
        pytest.param({"members": (member("a", owned="t0", at=2), member("b", at=2, instance="y"))}, id="a member became static"),
        pytest.param({"strategy": "sticky"}, id="the strategy changed"),
    ],
)
def test_a_hand_over_in_which_something_else_changed_is_a_cause(changes: dict) -> None:
    steps = play(Replay((COOPERATIVE,)), looks(t=2, u=1), *hand_over(**changes))
    assert not steps[2].is_follow_up
    assert counterfactual(steps[2], COOPERATIVE).status == "solved"


def test_a_hand_over_in_which_a_topic_grew_is_a_cause() -> None:
    cluster = ClusterLooks([0, 200], {"t": [TopicRun(0, 0, 2), TopicRun(1, 1, 3)]})
    steps = play(Replay(()), cluster, *hand_over(joined_at_ms=300, members=(member("a", owned="t0", at=2), member("b", owned="t2", at=2))))
    assert not steps[2].is_follow_up


def test_an_eager_generation_is_never_followed_up() -> None:
    history = [
        snapshot(1, {"a": "t0 t1"}),
        snapshot(2, {"a": "t0", "b": "t1"}, member("a", owned="t0 t1", at=1)),
        snapshot(3, {"a": "t0", "b": "t1"}),
    ]
    assert [step.is_follow_up for step in play(Replay(()), looks(t=2), *history)] == [False, False, False]


def test_a_cooperative_generation_in_which_nobody_gave_up_anything_is_not_followed_up() -> None:
    history = [snapshot(number, {"a": "t0", "b": "t1"}, strategy=COOPERATIVE) for number in (1, 2)]
    assert not play(Replay(()), looks(t=2), *history)[1].is_follow_up


def test_chain_after_a_follow_up_continues_from_the_settled_result() -> None:
    fourth = snapshot(4, {"a": "t0", "b": "t1", "c": ""}, strategy=COOPERATIVE)
    steps = play(Replay((RECORDING,)), looks(t=2), *hand_over(), fourth)
    assert recording.claims() == {"a": (held("t0"), 2), "b": (held("t1"), 2)}
    assert not steps[3].is_follow_up


def test_a_hand_over_without_end_is_over_budget_after_eight_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """An assignor that gives each member what the other one claims never comes to rest."""
    calls: list[str] = []

    def swap(strategy: str, problem: GroupProblem, **_: Any) -> Assignment:
        calls.append(strategy)
        one, other = problem.members
        return {one.member_id: other.owned or held("t0"), other.member_id: one.owned or held("t1")}

    monkeypatch.setattr(replay, "assign", swap)
    first, second = (snapshot(number, {"a": "t0", "b": "t1"}, strategy="other") for number in (1, 2))
    steps = play(Replay((COOPERATIVE,)), looks(t=2), first, second)
    endless = counterfactual(steps[1], COOPERATIVE)
    assert (endless.status, endless.assignment, endless.rebalance_count) == ("over_budget", None, 8)
    assert endless.detail == "members still give up partitions after 8 calls"


# -- static rewrites


def rewrite(**changes: Any) -> list[Snapshot]:
    """Return a group whose static member x comes back as x-2 in the same generation."""
    second = {"given": {"b": "t0", "x-2": "t1"}, "instance": "x", "generation": 1, **changes}
    return [
        snapshot(1, {"b": "t0", "x-1": "t1"}, member("x-1", instance="x")),
        snapshot(second["generation"], second["given"], member("x-2", instance=second["instance"]), position=5, joined_at_ms=300),
    ]


def test_a_static_member_that_came_back_makes_no_assignor_run() -> None:
    """Range gives x its partitions first, being static; observed was the other way round."""
    steps = play(Replay((RECORDING,)), looks(t=2), *rewrite())
    assert [step.is_rewrite for step in steps] == [False, True]
    assert len(recording.asked) == 1
    assert [(one.basis, one.status, one.rebalance_count, one.cooperative_revocation_count) for one in steps[1].solutions] == [
        ("observed", "solved", 0, None),
        ("recomputed", "carried", 0, None),
        ("counterfactual", "carried", 0, None),
        ("counterfactual", "carried", 0, None),
    ]
    assert short(of_basis(steps[1], "observed").assignment) == {"b": "t0", "x-2": "t1"}
    assert short(of_basis(steps[1], "recomputed").assignment) == {"x-2": "t0", "b": "t1"}
    assert of_basis(steps[1], "recomputed").conformance is of_basis(steps[0], "recomputed").conformance is Conformance.EQUAL_BALANCE
    assert of_basis(steps[1], "observed").conformance is Conformance.EQUAL_BALANCE


@pytest.mark.parametrize(
    ("again", "is_rewrite"),
    [
        pytest.param("t16 t1 t17", True, id="the order of another set"),
        pytest.param("t1 t16", False, id="one less"),
        pytest.param("t1 t16 t18", False, id="another one"),
    ],
)
def test_the_target_that_a_static_member_takes_over_may_list_its_partitions_otherwise(again: str, is_rewrite: bool) -> None:
    history = (
        snapshot(7, {"x-1": "t1 t16 t17"}, member("x-1", instance="x"), strategy="uniform"),
        snapshot(7, {"x-2": again}, member("x-2", instance="x"), strategy="uniform", position=9),
    )
    step = play(Replay(()), looks(t=19), *history)[1]
    assert step.is_rewrite is is_rewrite
    assert short(of_basis(step, "observed").assignment) == {"x-2": again}


def test_failed_step_stays_failed_in_a_rewrite() -> None:
    recording.failures.append(NoResultError("the same state again", is_cycle=True))
    steps = play(Replay((RECORDING,)), looks(t=2), *rewrite())
    assert statuses(steps, RECORDING) == [("no_result", 1), ("no_result", 0)]


def test_a_rewrite_sees_the_topics_of_the_generation_it_rewrites() -> None:
    """t grew between the join at 100 ms and the rewrite at 300 ms, and the rewrite shows the same generation."""
    cluster = ClusterLooks([0, 200], {"t": [TopicRun(0, 0, 2), TopicRun(1, 1, 4)]})
    steps = play(Replay(()), cluster, *rewrite())
    assert [step.topics[0].partition_count for step in steps] == [2, 2]


def test_chain_continues_after_a_rewrite() -> None:
    third = snapshot(2, {"b": "t0", "x-2": "t1"}, member("x-2", instance="x"), position=6)
    play(Replay((RECORDING,)), looks(t=2), *rewrite(), third)
    assert recording.claims() == {"x-2": (held("t0"), 1), "b": (held("t1"), 1)}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"given": {"b": "t1", "x-2": "t0"}}, id="assigned anew"),
        pytest.param({"instance": "y"}, id="another instance"),
        pytest.param({"instance": None}, id="a dynamic member under a new id"),
        pytest.param({"given": {"b": "t0", "x-2": "t1", "c": ""}}, id="a member more"),
        pytest.param({"generation": 2}, id="another generation"),
    ],
)
def test_snapshot_with_any_other_change_is_no_rewrite(changes: dict) -> None:
    steps = play(Replay(()), looks(t=2), *rewrite(**changes))
    assert not steps[1].is_rewrite
    assert of_basis(steps[1], "recomputed").status == "solved"


def test_a_repeated_generation_with_the_same_members_is_no_static_rewrite() -> None:
    same = [snapshot(1, {"x-1": "t0"}, member("x-1", instance="x"), position=position) for position in (1, 2)]
    assert not play(Replay(()), looks(t=1), *same)[1].is_rewrite


def test_a_repeated_empty_generation_is_no_static_rewrite() -> None:
    assert not play(Replay(()), looks(t=1), snapshot(2, {}, position=1), snapshot(2, {}, position=2))[1].is_rewrite


# -- recomputed: release and conformance


def test_recomputed_uses_the_recorded_claims_and_not_the_chain() -> None:
    """b holds both by its recorded claims, so sticky lets it keep one of them; fresh it would have given t0 to a."""
    claiming = member("b", owned="t0 t1", at=1)
    (step,) = play(Replay(()), looks(t=2), snapshot(1, {"a": "t1", "b": "t0"}, member("a"), claiming, strategy=COOPERATIVE))
    assert dict(of_basis(step, "recomputed").assignment) == {"a": (), "b": held("t0")}


class FakeReleases:
    """Stands for the assignors: only some releases give what was observed."""

    def __init__(self, observed: Assignment, exact: set[str], errors: dict[str, Exception] | None = None) -> None:
        self.observed, self.exact, self.errors, self.tried = observed, exact, errors or {}, []

    def __call__(self, strategy: str, problem: GroupProblem, kafka_version: str, step_budget: int | None) -> Assignment:
        self.tried.append(kafka_version)
        if kafka_version in self.errors:
            raise self.errors[kafka_version]
        return self.observed if kafka_version in self.exact else dict.fromkeys(self.observed, ())


def recomputed_by(monkeypatch: pytest.MonkeyPatch, releases: FakeReleases, one: Snapshot, rules: Replay) -> tuple[str | None, str, str]:
    monkeypatch.setattr(replay, "assign", releases)
    (step,) = play(rules, looks(t=1), one)
    assert of_basis(step, "counterfactual").kafka_version == NEWEST_KAFKA
    found = of_basis(step, "recomputed")
    return found.kafka_version, found.status, found.conformance.value


@pytest.mark.parametrize(
    ("version", "first"),
    [(0, "2.3.1"), (1, "3.3.2"), (2, NEWEST_KAFKA), (3, NEWEST_KAFKA), (9, NEWEST_KAFKA), (None, NEWEST_KAFKA), (-1, NEWEST_KAFKA)],
)
def test_the_leaders_subscription_version_bounds_the_release(monkeypatch: pytest.MonkeyPatch, version: int | None, first: str) -> None:
    releases = FakeReleases({"a": held("t0")}, {first})
    assert recomputed_by(monkeypatch, releases, snapshot(1, {"a": "t0"}, version=version), Replay(())) == (first, "solved", "exact")
    assert releases.tried[0] == first
    assert len(set(releases.tried)) == len(releases.tried), "each is called once"


def test_the_version_that_counts_is_the_leaders() -> None:
    one = snapshot(1, {"a": "t0", "b": "t1"}, leader="b")
    old_leader = Snapshot(**{**{name: getattr(one, name) for name in one.__slots__}, "subscription_versions": {"a": 3, "b": 0}})
    (step,) = play(Replay(()), looks(t=2), old_leader)
    assert of_basis(step, "recomputed").kafka_version == "2.3.1"


def test_the_first_release_that_is_exact_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    newest_fails = {NEWEST_KAFKA: KafkaAssignorError("NullPointerException", "of the newest")}
    releases = FakeReleases({"a": held("t0")}, {"3.4.1", "3.5.1"}, newest_fails)
    assert recomputed_by(monkeypatch, releases, snapshot(1, {"a": "t0"}), Replay(())) == ("3.4.1", "solved", "exact")


def test_without_an_exact_kafka_release_the_likeliest_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    releases = FakeReleases({"a": held("t0")}, set())
    assert recomputed_by(monkeypatch, releases, snapshot(1, {"a": "t0"}), Replay(())) == (NEWEST_KAFKA, "solved", "differs")
    assert set(releases.tried) == {NEWEST_KAFKA, "3.4.1", "3.7.0", "3.5.1", "3.4.0"}, "every one that fits was tried"


def test_a_setting_overrides_the_release_by_the_leaders_client_id(monkeypatch: pytest.MonkeyPatch) -> None:
    releases = FakeReleases({"a": held("t0")}, {NEWEST_KAFKA})
    rules = Replay((), version_override={"client-a": "2.8.0"}.get)
    assert recomputed_by(monkeypatch, releases, snapshot(1, {"a": "t0"}), rules) == ("2.8.0", "solved", "differs")
    assert releases.tried == ["2.8.0", NEWEST_KAFKA], "no other release is tried; the second call is the counterfactual"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoResultError("a state repeats", is_cycle=True), "no_result"),
        (NoResultError("out of steps", is_cycle=False), "over_budget"),
        (KafkaAssignorError("NullPointerException", "no topic"), "kafka_error"),
        (KafkaVersionError("too old"), "unsupported"),
        (UnknownStrategyError("no such"), "unsupported"),
        (MalformedProblemError("twice the same member"), "unsupported"),
    ],
)
def test_error_of_an_assignor_becomes_a_status(monkeypatch: pytest.MonkeyPatch, error: Exception, status: str) -> None:
    def refuse(*_: Any, **__: Any) -> Assignment:
        raise error

    monkeypatch.setattr(replay, "assign", refuse)
    (step,) = play(Replay(("sticky",)), looks(t=1), snapshot(1, {"a": "t0"}))
    assert [(one.status, one.assignment, one.detail) for one in step.solutions[1:]] == [(status, None, str(error))] * 3
    assert of_basis(step, "observed").status == "solved"
    assert of_basis(step, "observed").conformance is Conformance.NOT_COMPARABLE


def test_plug_in_that_raises_affects_only_its_own_solution() -> None:
    recording.failures.append(ZeroDivisionError("a bug of the user"))
    (step,) = play(Replay((RECORDING, "range")), looks(t=1), snapshot(1, {"a": "t0"}))
    failed = counterfactual(step, RECORDING)
    assert (failed.status, failed.detail) == ("no_result", "the assignor raised ZeroDivisionError: a bug of the user")
    assert counterfactual(step, "range").status == "solved"


def test_a_defect_of_a_built_in_assignor_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Assignment:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(replay, "assign", fail)
    with pytest.raises(ZeroDivisionError, match="a bug of ours"):
        play(Replay(("range",)), looks(t=1), snapshot(1, {"a": "t0"}))


def test_a_group_with_a_foreign_assignor_is_observed_only() -> None:
    (step,) = play(Replay(("range",)), looks(t=1), snapshot(1, {"a": "t0"}, strategy="RoundRobinAssigner"))
    assert [(one.basis, one.status, one.conformance) for one in step.solutions[:2]] == [
        ("observed", "solved", Conformance.NOT_COMPARABLE),
        ("recomputed", "unsupported", Conformance.NOT_COMPARABLE),
    ]


@pytest.mark.parametrize(("configured", "status", "asked"), [((), "unsupported", 0), ((RECORDING,), "solved", 2)])
def test_a_record_cannot_name_code_that_the_settings_do_not(configured: tuple, status: str, asked: int) -> None:
    (step,) = play(Replay(configured), looks(t=1), snapshot(1, {"a": "t0"}, strategy=RECORDING))
    recomputed = of_basis(step, "recomputed")
    assert (recomputed.status, recomputed.conformance, len(recording.asked)) == (status, Conformance.NOT_COMPARABLE, asked)
    assert (recomputed.detail is None) == bool(configured)


def test_conversion_is_not_comparable() -> None:
    """The observed assignment is what range would give, but no assignor gave it."""
    (step,) = play(Replay(()), looks(t=1), snapshot(11, {"a": "t0"}, is_conversion=True))
    assert of_basis(step, "recomputed").conformance is Conformance.NOT_COMPARABLE
    assert of_basis(step, "observed").rebalance_count == 0


def test_inferred_counts_of_a_subscribed_topic_compare_nothing() -> None:
    (step,) = play(Replay(()), looks(u=1), snapshot(1, {"a": "t0"}))
    assert step.topics[0].basis is LookBasis.INFERRED
    assert short(of_basis(step, "recomputed").assignment) == {"a": "t0"}
    assert of_basis(step, "recomputed").conformance is Conformance.NOT_COMPARABLE


def test_inferred_counts_of_another_topic_do_not_matter() -> None:
    """a is given a partition of u, to which nobody subscribes and which no look has: range does not give it, so it differs."""
    (step,) = play(Replay(()), looks(t=1), snapshot(1, {"a": "t0 u0"}))
    assert [topic.topic for topic in step.topics] == ["t"]
    assert of_basis(step, "recomputed").conformance is Conformance.DIFFERS


def test_without_a_fitting_partition_count_nothing_is_compared() -> None:
    """t7 is in no look: range over three partitions gives others, over eight it might have given these."""
    (step,) = play(Replay(()), looks(t=3), snapshot(1, {"a": "t0 t7"}))
    assert step.topics[0].is_uncertain
    assert of_basis(step, "recomputed").conformance is Conformance.NOT_COMPARABLE


def test_topic_that_may_have_grown_before_the_first_metadata_is_not_compared() -> None:
    """Six partitions at 200 ms, when the cluster was read for the first time; three of them were given out at 100 ms."""
    (step,) = play(Replay(()), ClusterLooks([200], {"t": [TopicRun(0, 0, 6)]}), snapshot(1, {"a": "t0 t1", "b": "t2"}))
    assert (step.topics[0].partition_count, step.topics[0].is_uncertain) == (3, True)
    assert short(of_basis(step, "recomputed").assignment) == {"a": "t0 t1", "b": "t2"}
    assert of_basis(step, "recomputed").conformance is Conformance.NOT_COMPARABLE


def brokers(given: dict[str, str], *members: Member, ids: bool, generation: int = 1) -> Conformance:
    """Return how far a group of the consumer protocol is what ``uniform`` gives over t and u, with four partitions each."""
    names = {"t": "AAAAAAAAAAEAAAAAAAAAAg", "u": "AAAAAAAAAAEAAAAAAAAAAw"}
    cluster = ClusterLooks([0], {name: [TopicRun(0, 0, 4, names[name] if ids else None)] for name in names})
    (step,) = play(Replay(()), cluster, snapshot(generation, given, *members, strategy="uniform"))
    return of_basis(step, "recomputed").conformance


@pytest.mark.parametrize("ids", [True, False])
def test_a_brokers_assignor_deals_out_one_topic_whatever_its_id(ids: bool) -> None:
    assert brokers({"a": "t0 t1 t2 t3"}, ids=ids) is Conformance.EXACT
    assert brokers({"a": "t0", "b": "t1 t2 t3"}, ids=ids) is Conformance.DIFFERS


def test_topics_without_ids_that_uniform_deals_out_otherwise_compare_nothing() -> None:
    """Their order decides who is given what; only an assignment that needs no order, or happens to have it, is the same."""
    uneven = {"a": "t0 t1 t2 t3 u0 u1 u2", "b": "u3"}
    members = member("a", "tu"), member("b", "tu")
    assert brokers(uneven, *members, ids=True) is Conformance.DIFFERS
    assert brokers(uneven, *members, ids=False) is Conformance.NOT_COMPARABLE
    assert brokers({"a": "t0 t1 t2 t3 u0 u1 u2 u3"}, members[0], ids=False) is Conformance.EXACT


def test_differing_first_target_with_unknown_past_is_not_comparable() -> None:
    """a alone reads u. uniform from nothing gives it u alone; had it held t0 before, it might have kept that.

    With equal subscriptions no target before explains loads of three and one.
    """
    given = {"a": "u0 u1 u2 u3 t0", "b": "t1 t2 t3"}
    unequal = member("a", "tu"), member("b", "t")
    assert brokers(given, *unequal, ids=True, generation=1) is Conformance.DIFFERS
    assert brokers(given, *unequal, ids=True, generation=7) is Conformance.NOT_COMPARABLE
    assert brokers({"a": "t0 t1 t2", "b": "t3"}, ids=True, generation=7) is Conformance.DIFFERS


# -- topics of a step


def test_step_has_subscribed_topics_and_topics_owned_before() -> None:
    """In generation 2 nobody subscribes to u any more; that it still exists makes it an abandoned topic and no deleted one."""
    cluster = ClusterLooks([0], {"t": [TopicRun(0, 0, 1)], "u": [TopicRun(0, 0, 2)]})
    steps = play(Replay(()), cluster, snapshot(1, {"a": "t0 u0 u1"}, member("a", "ut")), snapshot(2, {"a": "t0"}))
    assert [[(topic.topic, topic.partition_count) for topic in step.topics] for step in steps] == [[("t", 1), ("u", 2)]] * 2


@pytest.mark.parametrize(
    "cluster", [pytest.param(ClusterLooks([], {}), id="no look at all"), pytest.param(looks(t=1), id="looks, and none shows it")]
)
def test_abandoned_topic_without_metadata_is_uncertain(cluster: ClusterLooks) -> None:
    """In generation 2 nobody subscribes to u any more. Looks that never showed it do not say that it is gone."""
    step = play(Replay(()), cluster, snapshot(1, {"a": "t0 u0"}, member("a", "ut")), snapshot(2, {"a": "t0"}))[1]
    (abandoned,) = [topic for topic in step.topics if topic.topic == "u"]
    assert (abandoned.partition_count, abandoned.basis, abandoned.is_uncertain) == (0, LookBasis.INFERRED, True)


def test_claimed_partitions_count_when_a_metadata_snapshot_is_chosen() -> None:
    """Nobody was given t2, but a claims it: only the later look has it."""
    cluster = ClusterLooks([0, 200], {"t": [TopicRun(0, 0, 2), TopicRun(1, 1, 3)]})
    (step,) = play(Replay(()), cluster, snapshot(2, {"a": "t0"}, member("a", owned="t2", at=1), strategy=COOPERATIVE))
    assert (step.topics[0].partition_count, step.topics[0].basis) == (3, LookBasis.AFTER)


@pytest.mark.parametrize("strategy", sorted(BUILT_IN))
def test_strategies_without_claims_give_the_same_whatever_is_claimed(strategy: str) -> None:
    """b claims what a has to have, if nobody claims anything."""
    topics = {"t": Topic(3, topic_id="AAAAAAAAAAEAAAAAAAAAAg")}
    members = tuple(Member(name, ("t",), streams={"t": 1}) for name in "ab")
    fresh = GroupProblem(topics, members)
    claims = [((("t", 2),), 1, write_sticky_user_data((("t", 2),), 1)), ((("t", 0),), 1, write_sticky_user_data((("t", 0),), 1))]
    given = [assign(strategy, problem) for problem in (fresh, with_claims(fresh, claims))]
    assert (given[0] == given[1]) is (strategy in WITHOUT_CLAIMS or strategy == "server-range")


def test_other_claims_change_nothing_else_of_a_member() -> None:
    member = Member("a", ("t",), "instance", "rack", (("t", 0),), 1, b"data", {"t": 1})
    (changed,) = with_claims(GroupProblem({"t": Topic(1)}, (member,)), [((), None, None)]).members
    assert changed == replace(member, owned=(), owned_generation=None, user_data=None)


def test_a_poll_that_names_an_instance_no_more_shows_another_member() -> None:
    """Two tools may describe a group, of which one leaves the instance out: the second poll shows a generation, and no rewrite."""
    static = replace(snapshot(5, {"a": "t0"}, member("a", instance="i"), position=1), has_subscriptions=False)
    dynamic = replace(snapshot(5, {"a": "t0"}, member("a"), position=2), has_subscriptions=False)
    assert static.is_poll and dynamic.is_poll
    steps = play(Replay(("range",)), looks(t=1), static, dynamic, replace(static, position=3))
    assert [step.is_rewrite for step in steps] == [False, False, False]


def test_a_poll_may_list_the_partitions_of_a_member_in_another_order() -> None:
    polls = [replace(snapshot(5, {"a": given}, position=at), has_subscriptions=False) for at, given in enumerate(("t0 t1", "t1 t0"))]
    assert [step.is_rewrite for step in play(Replay(("range",)), looks(t=2), *polls)] == [False, True]


# -- facts that the assignor saw, and that are not known


@pytest.mark.parametrize("is_empty", [False, True], ids=["no racks at all", "partitions without replicas"])
def test_assignment_by_racks_that_no_snapshot_shows_is_not_comparable(is_empty: bool) -> None:
    """Kafka's RangeAssignor goes by racks since 3.5. Without them it gives other loads here."""
    racks = {"t": (("r1",), ("r2",), ("r1",)), "u": (("r2",), ("r2",), ("r1",), ("r2",), ("r1",))}
    members = Member("a", ("t", "u"), rack="r2"), Member("b", ("t", "u"), rack="r1")
    given = assign("range", GroupProblem({name: Topic(len(one), one) for name, one in racks.items()}, members))
    recorded = Snapshot(1, 1, 100, 0, "range", "a", False, members, dict(given), {"a": 3, "b": 3}, {})
    unknown = {name: ((),) * len(one) if is_empty else None for name, one in racks.items()}
    for shown, expected in ((racks, Conformance.EXACT), (unknown, Conformance.NOT_COMPARABLE)):
        runs = {name: [TopicRun(0, 0, len(racks[name]), None, one)] for name, one in shown.items()}
        (step,) = play(Replay(()), ClusterLooks([0], runs), recorded)
        assert of_basis(step, "observed").conformance is expected


@pytest.mark.parametrize(("version", "expected"), [(None, Conformance.NOT_COMPARABLE), (1, Conformance.DIFFERS)])
def test_assignment_by_claims_that_a_poll_leaves_out_is_not_comparable(version: int | None, expected: Conformance) -> None:
    """n joins a and b, who keep what they had. Whether they claimed it is not known where the source names no subscription version."""
    topics = {"t": Topic(4), "u": Topic(3), "v": Topic(2)}
    old, new = (Member("a", ("t",)), Member("b", ("t", "u"))), Member("n", ("u", "v"))
    first = assign(COOPERATIVE, GroupProblem(topics, old))
    claiming = tuple(replace(one, owned=tuple(sorted(first[one.member_id])), owned_generation=1) for one in old)
    polls = [
        Snapshot(at, at, 100 + at, 0, COOPERATIVE, None, False, who, dict(given), {one.member_id: version for one in who}, {}, True, True)
        for at, who, given in ((1, old, first), (2, (*old, new), assign(COOPERATIVE, GroupProblem(topics, (*claiming, new)))))
    ]
    steps = play(Replay(()), looks(t=4, u=3, v=2), *polls)
    assert [of_basis(step, "observed").conformance for step in steps] == [Conformance.EXACT, expected]


@pytest.mark.parametrize(("epoch", "is_poll"), [(4, False), (3, True), (3, False)])
def test_target_after_one_that_is_not_known_is_not_comparable(epoch: int, is_poll: bool) -> None:
    """In an epoch without a record, or that no poll saw, x was a member. A broker's assignor starts from the target of that epoch."""
    ids = {"t": "AAAAAAAAAAEAAAAAAAAAAg", "u": "4GeQdCG4KapIgM28ULGOlQ"}
    topics = {"t": Topic(1, topic_id=ids["t"]), "u": Topic(2, topic_id=ids["u"])}
    cluster = ClusterLooks([0], {name: [TopicRun(0, 0, topic.partition_count, topic.topic_id)] for name, topic in topics.items()})
    both = Member("m0", ("t", "u")), Member("m1", ("t", "u"))

    def target(members: tuple[Member, ...], before: Assignment) -> Assignment:
        return assign("uniform", GroupProblem(topics, tuple(replace(one, owned=before.get(one.member_id, ())) for one in members)))

    first, now = target(both, {}), (*both, Member("n", ("t",)))
    last = target(now, target((*both, Member("x", ("t", "u"))), first))
    targets = [
        Snapshot(number, number, 100 + number, 0, "uniform", None, False, who, dict(given), {}, {}, True, is_poll)
        for number, who, given in ((2, both, first), (epoch, now, last))
    ]
    expected = Conformance.NOT_COMPARABLE if is_poll or epoch > 3 else Conformance.DIFFERS
    assert [of_basis(step, "observed").conformance for step in play(Replay(()), cluster, *targets)] == [Conformance.EXACT, expected]


def test_member_that_left_and_came_back_between_two_targets_has_no_part_of_the_target_before() -> None:
    """It was away longer than its poll interval, and is back under its id before the next target."""
    cluster = ClusterLooks([0], {"t": [TopicRun(0, 0, 7, "AAAAAAAAAAEAAAAAAAAAAg")]})
    first = snapshot(2, {"a": "t0 t1 t2 t3 t4 t5 t6"}, member("a"), strategy="uniform")
    second = snapshot(3, {"a": "t0 t1 t2 t3", "b": "t4 t5 t6"}, member("a", at=2), member("b"), strategy="uniform", joined_at_ms=110)
    back = {"b": "t3 t4 t5 t6", "a": "t0 t1 t2"}
    third = snapshot(5, back, member("b", at=3), member("a"), strategy="uniform", joined_at_ms=120)
    stayed = snapshot(5, back, member("b", at=3), member("a", at=3), strategy="uniform", joined_at_ms=120)
    steps = [play(Replay(()), cluster, first, second, last)[-1] for last in (third, stayed)]
    recomputed = [of_basis(step, "recomputed").conformance for step in steps]
    assert recomputed == [Conformance.EXACT, Conformance.EQUAL_BALANCE]


def test_claims_do_not_keep_a_deleted_topic() -> None:
    """Members of a cooperative group claim the partitions of a topic until they get an assignment without it."""
    cluster = ClusterLooks([0, 150, 250], {"t": [TopicRun(0, 2, 1)], "u": [TopicRun(0, 1, 2)]})
    given = {"a": "t0 u0", "b": "u1"}
    first = snapshot(1, given, member("a", "tu"), member("b", "tu"), strategy="cooperative-sticky")
    claiming = (member("a", "tu", owned="t0 u0", at=1), member("b", "tu", owned="u1", at=1))
    second = snapshot(2, {"a": "t0", "b": ""}, *claiming, strategy="cooperative-sticky", joined_at_ms=200)
    _, step = play(Replay(()), cluster, first, second)
    (deleted,) = [topic for topic in step.topics if topic.topic == "u"]
    assert (deleted.partition_count, deleted.basis, deleted.is_uncertain) == (0, LookBasis.AFTER, False)


def test_a_group_without_members_does_not_show_that_its_topic_was_deleted() -> None:
    cluster = ClusterLooks([0, 150, 250], {"t": [TopicRun(0, 1, 2)]})
    _, step = play(Replay(()), cluster, snapshot(1, {"a": "t0 t1"}), snapshot(2, {}, joined_at_ms=200))
    assert [(topic.partition_count, topic.basis) for topic in step.topics] == [(2, LookBasis.BEFORE)]


def test_claims_do_not_keep_a_topic_that_was_deleted_long_before() -> None:
    """The generation before had u. The two metadata snapshots before this one do not."""
    cluster = ClusterLooks([0, 120, 150, 250], {"t": [TopicRun(0, 3, 1)], "u": [TopicRun(0, 0, 2)]})
    first = snapshot(1, {"a": "t0 u0 u1"}, member("a", "tu"), strategy=COOPERATIVE)
    second = snapshot(2, {"a": "t0"}, member("a", "tu", owned="t0 u0 u1", at=1), strategy=COOPERATIVE, joined_at_ms=200)
    _, step = play(Replay(()), cluster, first, second)
    assert [(topic.partition_count, topic.is_uncertain) for topic in step.topics] == [(1, False), (0, False)]
