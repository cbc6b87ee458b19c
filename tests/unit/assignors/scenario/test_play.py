"""A scenario played to its end: steps worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from assignors import Assignment, GroupProblem, Member, NoResultError, Topic
from assignors.audit.least_movement import Least
from assignors.audit.movements import LastOwner
from assignors.generation.generation import Generation
from assignors.scenario import rounds
from assignors.scenario.changes import Order
from assignors.scenario.play import Load, Outcome, play
from assignors.scenario.scenario import Scenario
from tests.builders.histories import held, short

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform", "server-range")
KEEPERS = ("sticky", "cooperative-sticky", "uniform")


def settled(strategy: str, given_out: dict[str, str], members: Iterable[Member] | None = None, **topics: int) -> Generation:
    """Return generation 5 of a group that reads topics of one letter each."""
    if members is None:
        members = [Member(name, tuple(topics)) for name in given_out]
    problem = GroupProblem({name: Topic(count) for name, count in topics.items()}, tuple(members))
    return Generation(5, strategy, problem, {name: held(text) for name, text in given_out.items()})


def holdings(outcome: Outcome) -> list[dict[str, str] | None]:
    return [short(dict(step.generation.assignment)) for step in outcome.steps]


def kinds(outcome: Outcome, step: int) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(row.kind, row.cause, row.previous_member_id, row.member_id) for row in outcome.steps[step].difference.movements]


def test_eager_group_stops_everything_in_one_round() -> None:
    outcome = play(settled("range", {"a": "t0 t1", "b": "t2 t3"}, t=4), Scenario(added=("c", "d"))).expected
    assert holdings(outcome) == [{"a": "t0", "b": "t1", "c": "t2", "d": "t3"}]
    assert (outcome.round_count, outcome.revocation_count, outcome.steps[0].stopped) == (1, 4, held("t0 t1 t2 t3"))
    assert (outcome.difference.movement_count, outcome.least) == (3, Least(2))
    assert (outcome.after.generation, outcome.before.generation) == (6, 5)


def test_cooperative_group_hands_over_in_a_second_rebalance() -> None:
    outcome = play(settled("cooperative-sticky", {"a": "t0 t1", "b": "t2 t3"}, t=4), Scenario(added=("c", "d"))).expected
    assert holdings(outcome) == [
        {"a": "t0", "b": "t2", "c": "", "d": ""},
        {"a": "t0", "b": "t2", "c": "t1", "d": "t3"},
    ]
    first, second = outcome.steps
    assert (first.revocation_count, first.stopped, second.revocation_count, second.stopped) == (2, held("t1 t3"), 0, ())
    assert first.difference.withheld[("t", 1)] == LastOwner((False, "a"), "a", 5)
    assert kinds(outcome, 0) == [("lost", "withheld", "a", None), ("lost", "withheld", "b", None)]
    assert kinds(outcome, 1) == [("gained", "handed_over", "a", "c"), ("gained", "handed_over", "b", "d")]
    assert (outcome.difference.movement_count, outcome.least, outcome.difference.revoked_count) == (2, Least(2), 2)


def test_members_of_the_consumer_protocol_revoke_before_others_get() -> None:
    outcome = play(settled("uniform", {"a": "t0 t1", "b": "t2 t3"}, t=4), Scenario(added=("c", "d"))).expected
    assert holdings(outcome)[0] == {"a": "t0", "b": "t2", "c": "", "d": ""}
    assert {frozenset(row) for row in map(str.split, (holdings(outcome)[1] or {}).values())} == {
        frozenset({name}) for name in ("t0", "t1", "t2", "t3")
    }
    first, second = outcome.steps
    assert (first.stopped, first.revocation_count, second.stopped, second.revocation_count) == (held("t1 t3"), 2, (), 0)
    assert [row[:2] for row in kinds(outcome, 0)] == [("lost", "withheld")] * 2
    assert [row[:3] for row in kinds(outcome, 1)] == [("gained", "handed_over", "a"), ("gained", "handed_over", "b")]
    assert first.difference.withheld_count == 2
    assert {step.generation.generation for step in outcome.steps} == {6}


def test_partition_of_a_member_that_left_waits_for_one_that_has_to_revoke_first() -> None:
    # server-range gives a: t0 t1, b: t2 t3 of what a: t0, b: t1 t2, c: t3 had.
    outcome = play(settled("server-range", {"a": "t0", "b": "t1 t2", "c": "t3"}, t=4), Scenario(removed="c")).expected
    assert holdings(outcome) == [{"a": "t0", "b": "t2"}, {"a": "t0 t1", "b": "t2 t3"}]
    assert kinds(outcome, 0) == [("lost", "withheld", "b", None), ("orphaned", "withheld", "c", None)]
    assert kinds(outcome, 1) == [("gained", "handed_over", "b", "a"), ("gained", "handed_over", "c", "b")]
    assert (outcome.steps[0].stopped, outcome.revocation_count) == (held("t1 t3"), 1)


def test_member_that_revokes_keeps_the_rest_and_waits_for_new_partitions() -> None:
    # server-range gives a: t0 t1 t2, b: t3 t4 t5 of six. So b has to give up t2, and t4 and t5 are nobody's meanwhile.
    outcome = play(settled("server-range", {"a": "t0 t1", "b": "t2 t3"}, t=4), Scenario(partition_counts={"t": 6})).expected
    assert holdings(outcome) == [{"a": "t0 t1", "b": "t3"}, {"a": "t0 t1 t2", "b": "t3 t4 t5"}]
    assert (outcome.steps[0].stopped, outcome.steps[1].stopped, outcome.revocation_count) == (held("t2"), (), 1)
    assert set(outcome.steps[0].difference.withheld) == {("t", 2)}  # nobody had the new partitions


def test_new_members_get_at_once_what_is_free_and_wait_for_what_others_have() -> None:
    # server-range gives a: t0 t1, c: t2 t3, d: t4. b has left, so that t3 and t4 are free. a has to give up t2.
    generation = settled("server-range", {"a": "t0 t1 t2", "b": "t3 t4"}, t=5)
    outcome = play(generation, Scenario(removed="b", added=("c", "d"))).expected
    assert holdings(outcome) == [{"a": "t0 t1", "c": "t3", "d": "t4"}, {"a": "t0 t1", "c": "t2 t3", "d": "t4"}]
    assert (outcome.steps[0].stopped, outcome.revocation_count) == (held("t2 t3 t4"), 1)


def test_consumer_protocol_needs_one_round_where_nobody_revokes() -> None:
    outcome = play(settled("uniform", {"a": "t0", "b": "t1", "c": "t2"}, t=3), Scenario(removed=1)).expected
    assert (holdings(outcome), outcome.steps[0].stopped) == ([{"a": "t0", "b": "t1 t2"}], held("t2"))


def test_change_to_the_consumer_protocol_starts_from_the_classic_assignment() -> None:
    outcome = play(settled("range", {"a": "t1 t2", "b": "t0"}, t=3), Scenario(protocol="consumer")).expected
    assert (outcome.after.strategy, outcome.round_count, outcome.difference.movement_count) == ("uniform", 1, 0)


def test_new_partitions_and_topics_are_given_out_without_movement() -> None:
    scenario = Scenario(partition_counts={"t": 4, "u": 2}, topics=("t", "u"))
    outcome = play(settled("cooperative-sticky", {"a": "t0", "b": "t1"}, t=2), scenario).expected
    assert (outcome.round_count, outcome.difference.gained_count, outcome.difference.movement_count) == (1, 4, 0)
    assert {load.count for load in outcome.loads.values()} == {3}


def test_cooperative_member_gives_up_what_it_unsubscribes_from_before_it_joins() -> None:
    """It claims nothing of u, so that no second rebalance follows, and c gets all of u at once."""
    members = [Member("a", ("t", "u")), Member("c", ("u",))]
    generation = settled("cooperative-sticky", {"a": "t0 t1 u0", "c": "u1"}, members, t=2, u=2)
    outcome = play(generation, Scenario(subscriptions={"a": ("t",)})).expected
    assert holdings(outcome) == [{"a": "t0 t1", "c": "u1 u0"}]
    assert (outcome.steps[0].stopped, outcome.revocation_count, outcome.difference.movement_count) == (held("u0"), 1, 1)
    claims = {member.member_id: member.owned for member in outcome.after.problem.members}
    assert claims == {"a": held("t0 t1"), "c": held("u1")}


def test_static_members_are_the_same_under_their_new_instance_ids() -> None:
    outcome = play(settled("range", {"a": "t0 t1", "b": "t2 t3"}, t=4), Scenario(instance_ids={"a": "y", "b": "x"})).expected
    assert holdings(outcome) == [{"a": "t2 t3", "b": "t0 t1"}]  # range goes by instance ids
    assert outcome.difference.revoked_count == 4


def test_added_members_without_names_give_a_range_of_outcomes() -> None:
    played = play(settled("range", {"a": "t0 t1", "b": "t2"}, t=3), Scenario(added=1))
    assert [outcome.order for outcome in played.outcomes] == [Order.LAST, Order.FIRST]
    assert holdings(played.expected) == [{"a": "t0", "b": "t1", "~added-1": "t2"}]
    assert holdings(played.outcomes[1]) == [{"!added-1": "t0", "a": "t1", "b": "t2"}]
    assert (played.movement_range, played.largest_load_range) == ((1, 2), (1, 1))
    assert len(play(settled("range", {"a": "t0"}, t=1), Scenario(added=("b",))).outcomes) == 1


def test_member_that_joins_among_the_others_may_move_less_than_at_either_end() -> None:
    """Range has one partition more for a. A new member after a takes t2 from b; before a it moves t0, t1 and t2, after d t3, t4 and t5."""
    generation = settled("range", {"a": "t0 t1", "b": "t2 t3", "c": "t4", "d": "t5"}, t=6)
    played = play(generation, Scenario(added=1))
    assert [outcome.counts.movement_count for outcome in played.outcomes] == [3, 3]
    assert [outcome.counts.movement_count for outcome in played.among] == [1, 1, 2]  # after a, b, c
    assert played.movement_range == (1, 3)


@pytest.mark.parametrize("strategy", KEEPERS)
def test_order_of_members_that_join_is_not_tried_where_it_does_not_matter(strategy: str) -> None:
    generation = settled(strategy, {"a": "t0 t1", "b": "t2 t3", "c": "t4", "d": "t5"}, t=6)
    assert play(generation, Scenario(added=2)).among == ()


def test_members_among_others_have_names_of_their_own() -> None:
    """Static members are ordered by instance id, and the name that is made for one between b and c is taken."""
    members = [Member("m", ("t",), group_instance_id="b"), Member("b\0added-1", ("t",), group_instance_id="c")]
    generation = settled("range", {"m": "t0 t1", "b\0added-1": "t2"}, members, t=3)
    (outcome,) = play(generation, Scenario(added=1)).among
    (added,) = (member for member in outcome.after.problem.members if member not in members)
    assert outcome.after.assignment[added.member_id] == held("t1")


def test_pattern_of_members_that_stay_matches_none_that_is_added_after_one_of_them() -> None:
    problem = GroupProblem({"t": Topic(3)}, (Member("a", ("t",)), Member("b", ("t",))))
    generation = Generation(5, "range", problem, {"a": held("t0 t1"), "b": held("t2")})
    played = play(generation, Scenario(added=1, racks={"a*": "r1"}))
    assert [[member.rack for member in outcome.after.problem.members].count("r1") for outcome in played.all_outcomes] == [1, 1, 1]


def test_largest_load_depends_on_the_order_of_a_member_that_joins() -> None:
    # The first one in order gets the only partition of t, and a alone reads u.
    members = [Member("a", ("t", "u")), Member("b", ("t",)), Member("c", ("t",))]
    generation = settled("range", {"a": "t0 u0", "b": "", "c": ""}, members, t=1, u=1)
    assert play(generation, Scenario(added=1)).largest_load_range == (1, 2)


def test_loads_by_lag_and_throughput() -> None:
    generation = settled("range", {"a": "t0 t1", "b": "t2"}, t=3)
    outcome = play(generation, Scenario(), lag={("t", 0): 5, ("t", 1): 7}, throughput={("t", 2): 1.5}).expected
    assert outcome.loads == {"a": Load(2, 12, 0), "b": Load(1, 0, 1.5)}
    assert play(generation, Scenario()).expected.loads["a"] == Load(2, None, None)


def test_racks_count_at_the_end() -> None:
    problem = GroupProblem({"t": Topic(2, (("r1",), ("r2",)))}, (Member("a", ("t",)), Member("b", ("t",))))
    generation = Generation(5, "range", problem, {"a": held("t0"), "b": held("t1")})
    assert play(generation, Scenario()).expected.balance.rack_match_ratio is None
    crossed = Scenario(racks={"a": "r2", "b": "r1"})
    assert play(generation, crossed).expected.balance.rack_match_ratio == 1
    uniform = play(generation, Scenario(racks={"a": "r2", "b": "r1"}, strategy="uniform")).expected
    assert uniform.balance.rack_match_ratio == 0


def test_more_members_than_partitions_leave_some_idle() -> None:
    outcome = play(settled("cooperative-sticky", {"a": "t0", "b": "t1"}, t=2), Scenario(added=3)).expected
    assert (outcome.balance.idle_member_count, outcome.difference.movement_count, outcome.round_count) == (3, 0, 1)


def test_hand_over_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(strategy: str, problem: GroupProblem, kafka_version: str) -> Assignment:
        one, other = problem.members
        return {one.member_id: other.owned, other.member_id: one.owned}

    monkeypatch.setattr(rounds, "assign", swap)
    with pytest.raises(NoResultError, match="cooperative-sticky still hands over after 8 calls"):
        play(settled("cooperative-sticky", {"a": "t0", "b": "t1"}, t=2), Scenario())


def test_wait_for_a_partition_that_its_owner_keeps_is_an_error() -> None:
    """Two members have t1. The target keeps it for one of them and gives it to a new member too, which never gets it."""
    members = [Member("a", ("t",)), Member("b", ("t", "u"))]
    with pytest.raises(NoResultError, match="uniform gives one partition to several members, and one waits for it forever"):
        play(settled("uniform", {"a": "t1", "b": "t0 t1"}, members, t=2, u=1), Scenario(added=1))


def test_uniform_keeps_topics_in_their_written_order_where_their_ids_share_a_bucket() -> None:
    """Ids 17 and 33 are in bucket 1 of a map of 16. A Java leader writes topics in the order of such a map too: here u before t."""
    topics = {"t": Topic(3, topic_id="AAAAAAAAAAAAAAAAAAAAEQ"), "u": Topic(3, topic_id="AAAAAAAAAAAAAAAAAAAAIQ")}
    problem = GroupProblem(topics, (Member("a", ("t", "u")), Member("b", ("t", "u"))))
    classic = Generation(5, "range", problem, {"a": held("u0 u1 t0 t1"), "b": held("u2 t2")})
    after = play(classic, Scenario(protocol="consumer")).expected.after.assignment
    assert short(dict(after)) == {"a": "t0 u0 u1", "b": "t1 t2 u2"}
