"""What holds for every scenario and every group, whatever its assignor."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from assignors import AssignorError, GroupProblem, NoResultError, TopicPartition, assign
from assignors.audit.comparison import Comparison
from assignors.audit.least_movement import least_movements
from assignors.audit.movements import count_kinds
from assignors.generation.balance import measure_balance
from assignors.generation.generation import Generation, owner_of
from assignors.replay.topic_ids import with_topic_ids
from assignors.scenario.play import Outcome, Player, play
from assignors.scenario.scenario import Scenario
from tests.builders.random_problems import random_problem

EAGER = ("range", "roundrobin", "sticky")
SERVER_SIDE = ("uniform", "server-range")
STRATEGIES = (*EAGER, "cooperative-sticky", *SERVER_SIDE)
KEEPERS = ("sticky", "cooperative-sticky", "uniform")


@st.composite
def groups(draw: st.DrawFn, strategy: str, *, is_plain: bool = False) -> Generation:
    """A settled generation of a group whose members have their partitions from its own strategy.

    Members of a plain group subscribe to the same topics and have no racks. In others Kafka's sticky assignors may move something for
    nothing, and reach another balance from another start.
    """
    problem = with_topic_ids(random_problem(Random(draw(st.integers(0, 10**9)))))
    if is_plain:
        topics = problem.members[0].topics
        problem = replace(problem, members=tuple(replace(member, topics=topics, rack=None) for member in problem.members))
    try:
        first = Generation(3, strategy, problem, assign(strategy, problem))
        return play(first, Scenario()).expected.after
    except AssignorError:  # a member may subscribe to nothing that exists, which some assignors refuse
        reject()


def outcomes(generation: Generation, scenario: Scenario) -> tuple[Outcome, ...]:
    """Return what a scenario leads to; cooperative-sticky may hand over for ever when subscriptions differ, and so it does in Kafka."""
    try:
        return play(generation, scenario).outcomes
    except NoResultError:
        reject()


@st.composite
def scenarios(draw: st.DrawFn, generation: Generation) -> Scenario:
    """Members that join and leave, and a topic that grows."""
    members, topics = generation.problem.members, generation.problem.topics
    removed = draw(st.integers(0, len(members) - 1))
    grown = draw(st.sampled_from([None, *sorted({name for member in members for name in member.topics} & topics.keys())]))
    counts = {} if grown is None else {grown: (topics[grown].partition_count or 0) + draw(st.integers(1, 4))}
    return Scenario(added=draw(st.integers(0, 3)), removed=removed, partition_counts=counts, strategy=draw(st.sampled_from(STRATEGIES)))


def owners(generation: Generation) -> dict[TopicPartition, tuple[bool, str]]:
    by_id = {member.member_id: owner_of(member) for member in generation.problem.members}
    return {partition: by_id[member_id] for member_id, given in generation.assignment.items() for partition in given}


def wanted(problem: GroupProblem) -> list[TopicPartition]:
    subscribed = {name for member in problem.members for name in member.topics} & problem.topics.keys()
    return sorted((name, number) for name in subscribed for number in range(problem.topics[name].partition_count or 0))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(STRATEGIES))
def test_every_partition_has_one_owner_at_the_end_and_at_most_one_before(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    for outcome in outcomes(generation, data.draw(scenarios(generation))):
        for step in outcome.steps:
            given_out = [partition for given in step.generation.assignment.values() for partition in given]
            assert len(given_out) == len(set(given_out))
        assert sorted(given_out) == wanted(outcome.after.problem)
        assert sum(load.count for load in outcome.loads.values()) == len(given_out)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(STRATEGIES))
def test_steps_end_with_one_in_which_nobody_gives_up_anything(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    for outcome in outcomes(generation, data.draw(scenarios(generation))):
        is_eager = outcome.after.strategy in EAGER
        assert outcome.round_count == 1 or not is_eager
        assert outcome.round_count <= 2 or outcome.after.strategy == "cooperative-sticky"
        assert is_eager or outcome.round_count == 1 or not outcome.steps[-1].revocation_count
        assert not outcome.steps[-1].difference.withheld


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(KEEPERS))
def test_nothing_moves_when_nothing_changes(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy, is_plain=True))
    outcome = play(generation, Scenario()).expected
    assert (outcome.round_count, outcome.difference.movements) == (1, ())
    assert len(outcome.steps[0].stopped) == (outcome.balance.partition_count if strategy == "sticky" else 0)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_cooperative_end_is_as_even_as_eager_sticky(data: st.DataObject) -> None:
    generation = data.draw(groups("sticky", is_plain=True))
    scenario = Scenario(added=data.draw(st.integers(0, 3)), removed=data.draw(st.integers(0, len(generation.problem.members) - 1)))
    spreads = []
    for strategy in ("sticky", "cooperative-sticky"):
        changes = Scenario(added=scenario.added, removed=scenario.removed, strategy=strategy)
        spreads.append(outcomes(generation, changes)[0].balance.balance_score)
    assert spreads[0] == spreads[1]


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(("cooperative-sticky", *SERVER_SIDE)))
def test_stopped_are_exactly_the_partitions_whose_owner_changes(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    scenario = Scenario(added=data.draw(st.integers(0, 3)), removed=data.draw(st.integers(0, len(generation.problem.members) - 1)))
    for outcome in outcomes(generation, scenario):
        states = [owners(outcome.before), *(owners(step.generation) for step in outcome.steps)]
        changed = {partition for partition, owner in states[0].items() if states[-1].get(partition) != owner}
        # A cooperative assignor may take a partition from its owner and give it back in the next rebalance.
        interrupted = {partition for state in states for partition, owner in states[0].items() if state.get(partition) != owner}
        assert {partition for step in outcome.steps for partition in step.stopped} == interrupted
        assert interrupted == changed if strategy != "cooperative-sticky" else interrupted >= changed


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(STRATEGIES))
def test_measures_are_those_of_the_end(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    for outcome in outcomes(generation, data.draw(scenarios(generation))):
        before, after = owners(outcome.before), owners(outcome.after)
        moved = [partition for partition, owner in after.items() if partition in before and before[partition] != owner]
        assert outcome.difference.movement_count == outcome.counts.movement_count == len(moved)
        comparison = Comparison(outcome.before, outcome.after)
        assert (outcome.counts, outcome.least) == (count_kinds(comparison), least_movements(comparison))
        assert outcome.balance == measure_balance(outcome.after.problem, outcome.after.assignment)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(STRATEGIES))
def test_each_step_keeps_or_stops_every_partition_that_was_held(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    for outcome in outcomes(generation, data.draw(scenarios(generation))):
        before = outcome.before
        for step in outcome.steps:
            kept = owners(before).items() & owners(step.generation).items() if step.generation.strategy not in EAGER else set()
            assert sorted([*step.stopped, *(partition for partition, _ in kept)]) == sorted(owners(before))
            before = step.generation


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(EAGER))
def test_eager_group_stops_all_that_it_reads_in_its_only_step(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    scenario = replace(data.draw(scenarios(generation)), strategy=strategy)
    for outcome in outcomes(generation, scenario):
        (step,) = outcome.steps
        assert sorted(step.stopped) == sorted(owners(outcome.before))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(SERVER_SIDE))
def test_rounds_end_at_the_target_that_the_broker_computes_at_once(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    for outcome in outcomes(generation, replace(data.draw(scenarios(generation)), strategy=strategy)):
        had: dict[tuple[bool, str], list[TopicPartition]] = {}
        for partition, owner in sorted(owners(outcome.before).items()):
            had.setdefault(owner, []).append(partition)
        problem = outcome.after.problem
        members = tuple(replace(member, owned=tuple(had.get(owner_of(member), ()))) for member in problem.members)
        target = assign(strategy, GroupProblem(problem.topics, members))
        given_out = {member_id: set(held) for member_id, held in outcome.after.assignment.items()}
        assert given_out == {member.member_id: set(target.get(member.member_id, ())) for member in members}


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(STRATEGIES))
def test_movements_are_at_least_the_least_and_at_most_those_of_all_steps(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    for outcome in outcomes(generation, data.draw(scenarios(generation))):
        assert outcome.least is not None  # at the end nothing is withheld
        assert outcome.least.count <= outcome.difference.movement_count
        assert outcome.difference.movement_count <= sum(step.difference.movement_count for step in outcome.steps)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(("cooperative-sticky", *SERVER_SIDE)))
def test_nobody_gets_what_another_member_has_not_given_up_in_an_earlier_step(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    for outcome in outcomes(generation, replace(data.draw(scenarios(generation)), strategy=strategy)):
        staying = {owner_of(member) for member in outcome.after.problem.members}
        before = outcome.before
        for step in outcome.steps:
            had = owners(before)
            assert [one for one, owner in owners(step.generation).items() if had.get(one, owner) in staying - {owner}] == []
            before = step.generation


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(STRATEGIES))
def test_step_revokes_as_many_partitions_as_the_audit_counts(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    for outcome in outcomes(generation, data.draw(scenarios(generation))):
        for step in outcome.steps:
            is_eager, difference = step.generation.strategy in EAGER, step.difference
            counted = difference.eager_revocation_count if is_eager else difference.cooperative_revocation_count
            assert step.revocation_count == counted


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(STRATEGIES))
def test_strategies_that_are_played_in_a_row_have_the_outcomes_of_each_alone(data: st.DataObject, strategy: str) -> None:
    generation = data.draw(groups(strategy))
    wanted_scenarios = [data.draw(scenarios(generation)) for _ in range(2)]
    player = Player(generation)
    for scenario in wanted_scenarios:
        for other in STRATEGIES:
            one = replace(scenario, strategy=other)
            for alone, shared in zip(outcomes(generation, one), player.play(one).outcomes, strict=True):
                assert shared == alone
                assert (shared.difference, shared.balance, shared.least) == (alone.difference, alone.balance, alone.least)
