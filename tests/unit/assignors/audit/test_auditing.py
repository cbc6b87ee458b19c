"""Which generation each audit compares with, and which of its figures are unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import GroupProblem, Member, Topic
from assignors.audit.audit import Audit, AuditedGeneration, AuditedSolution, GroupAudit
from assignors.replay.steps import COUNTERFACTUAL, OBSERVED, RECOMPUTED
from tests.builders.evidence import evidence
from tests.builders.histories import held, member

COOPERATIVE = "cooperative-sticky"
Given = Mapping[str, str] | None


def solution(basis: str, given: Given, strategy: str = "range", revoked: int | None = None) -> AuditedSolution:
    assignment = None if given is None else {member_id: held(text) for member_id, text in given.items()}
    return AuditedSolution(basis, strategy, assignment, revoked)


def generation(number: int, *solutions: AuditedSolution, members: tuple[Member, ...] | str = "ab", **changes: Any) -> AuditedGeneration:
    """Return a generation of members that subscribe to ``t``, which has two partitions unless ``topics`` says otherwise."""
    listed = tuple(member(name) for name in members) if isinstance(members, str) else members
    topics = changes.pop("topics", {"t": Topic(2)})
    defaults = {
        "incarnation": 0, "gone_topics": (), "claims_are_known": True, "has_predecessor": True, "is_rewrite": False, "is_follow_up": False,
        "evidence": evidence(number),
    }  # fmt: skip
    return AuditedGeneration(number, problem=GroupProblem(topics, listed), solutions=solutions, **{**defaults, **changes})


def audits(*generations: AuditedGeneration) -> list[list[Audit]]:
    group = GroupAudit()
    return [group.advance(one) for one in generations]


def rows(audit: Audit) -> list[tuple]:
    return [(row.partition, row.previous_member_id, row.member_id, row.kind, row.cause) for row in audit.difference.movements]


def test_first_known_generation_gains_all_partitions() -> None:
    ((audit,),) = audits(generation(1, solution(OBSERVED, {"a": "t0", "b": "t1"})))
    assert audit.previous_generation is None
    assert (audit.difference.gained_count, audit.difference.movement_count, audit.difference.eager_revocation_count) == (2, 0, 0)


@pytest.mark.parametrize(("number", "batched", "gap"), [(8, 0, 0), (12, 0, 4), (12, 3, 1), (7, 0, -1)])
def test_generation_gap_counts_generations_without_a_record(number: int, batched: int, gap: int) -> None:
    first, second = (solution(OBSERVED, {"a": "t0", "b": "t1"}) for _ in range(2))
    ((before,), (audit,)) = audits(generation(7, first), generation(number, second, batched_epoch_count=batched))
    assert (before.previous_generation, before.generation_gap) == (None, None)
    assert (audit.previous_generation, audit.generation_gap) == (7, gap)


def test_a_first_generation_with_unknown_past_has_no_movements_but_loads() -> None:
    ((audit,),) = audits(generation(7, solution(OBSERVED, {"a": "t0 t1", "b": ""}), has_predecessor=False))
    assert (audit.previous_generation, audit.difference) == (None, None)
    assert (audit.balance.partition_count, audit.balance.idle_member_count, audit.is_settled) == (2, 1, True)
    assert audit.violations == ("unbalanced t",)


def test_recomputed_is_compared_with_what_was_observed_before() -> None:
    """Recomputed gave b everything in generation 1; its generation 2 still moves nothing, since observed held t0 and t1 likewise."""
    first = generation(1, solution(OBSERVED, {"a": "t0", "b": "t1"}), solution(RECOMPUTED, {"a": "", "b": "t0 t1"}))
    second = generation(2, solution(OBSERVED, {"a": "t1", "b": "t0"}), solution(RECOMPUTED, {"a": "t0", "b": "t1"}))
    observed, recomputed = audits(first, second)[1]
    assert (observed.difference.movement_count, recomputed.difference.movement_count) == (2, 0)
    assert observed.previous_generation == recomputed.previous_generation == 1


def test_a_counterfactual_is_compared_with_its_own_last_result() -> None:
    """The failed generation 2 is left out of the chain, though not out of ``previous_generation``."""
    history = audits(
        generation(1, solution(OBSERVED, {"a": "t0", "b": "t1"}), solution(COUNTERFACTUAL, {"a": "t0 t1", "b": ""}, "sticky")),
        generation(2, solution(OBSERVED, {"a": "t0", "b": "t1"}), solution(COUNTERFACTUAL, None, "sticky")),
        generation(3, solution(OBSERVED, {"a": "t0", "b": "t1"}), solution(COUNTERFACTUAL, {"a": "t0", "b": "t1"}, "sticky")),
    )
    failed, later = history[1][1], history[2][1]
    assert (failed.difference, failed.balance, failed.is_settled, failed.violations) == (None, None, None, None)
    assert failed.previous_generation == 1
    assert rows(later) == [(1, "a", "b", "revoked", None)]
    assert later.previous_generation == 2


def test_strategies_do_not_see_each_others_results() -> None:
    results = (
        solution(COUNTERFACTUAL, {"a": "t0 t1", "b": ""}, "range"),
        solution(COUNTERFACTUAL, {"a": "", "b": "t0 t1"}, "sticky"),
    )
    again = audits(generation(1, *results), generation(2, *results))[1]
    assert [audit.difference.retained_count for audit in again] == [2, 2]


def test_a_strategy_that_is_compared_from_now_on_has_no_movements_yet() -> None:
    first = generation(1, solution(OBSERVED, {"a": "t0 t1", "b": ""}))
    second = generation(2, solution(OBSERVED, {"a": "t0 t1", "b": ""}), solution(COUNTERFACTUAL, {"a": "t0", "b": "t1"}, "sticky"))
    assert audits(first, second)[1][1].difference is None


def compared(number: int, own: str, assignment: Given) -> AuditedGeneration:
    """Return a generation with a row of ``sticky``, which is configured, and one of the group's own strategy, which is not."""
    observed, other = solution(OBSERVED, {"a": "t0", "b": "t1"}, own), solution(COUNTERFACTUAL, {"a": "t0", "b": "t1"}, "sticky")
    return generation(number, observed, other, solution(COUNTERFACTUAL, assignment, own))


EMPTY = generation(2, solution(OBSERVED, {}, ""), solution(COUNTERFACTUAL, {}, "sticky"), members=())


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([compared(1, "uniform", {"a": "t0 t1", "b": ""}), EMPTY], id="it had something before"),
        pytest.param([EMPTY], id="it comes for the first time"),
        pytest.param([EMPTY, compared(3, "uniform", None)], id="it failed since, and a failed step keeps what was before"),
    ],
)
def test_after_an_empty_generation_every_strategy_starts_without_owners(history: list[AuditedGeneration]) -> None:
    """An empty generation has no row of the group's own strategy; its history is cleared like those of the others."""
    audit = audits(*history, compared(4, "uniform", {"a": "t0", "b": "t1"}))[-1][2]
    assert rows(audit) == [(0, None, "a", "gained", None), (1, None, "b", "gained", None)]
    assert (audit.difference.eager_revocation_count, audit.difference.cooperative_revocation_count) == (0, 0)


def test_a_strategy_that_the_group_comes_back_to_begins_anew() -> None:
    """What range would have given in generation 2 is not known. An audit that begins there finds the same."""
    history = [
        compared(1, "range", {"a": "t0 t1", "b": ""}),
        compared(2, "roundrobin", {"a": "t0", "b": "t1"}),
        compared(3, "range", {"a": "t0", "b": "t1"}),
    ]
    whole, later = audits(*history)[-1], audits(*history[1:])[-1]
    assert whole == later
    assert [audit.difference is None for audit in whole] == [False, False, True]


def test_a_new_incarnation_forgets_owners_and_what_was_withheld() -> None:
    withheld = generation(2, solution(OBSERVED, {"a": "t0", "b": ""}, COOPERATIVE), members=(member("a", owned="t0 t1", at=1), member("b")))
    again = generation(1, solution(OBSERVED, {"a": "t0", "b": "t1"}, COOPERATIVE), incarnation=9)
    first = generation(1, solution(OBSERVED, {"a": "t0 t1"}, COOPERATIVE), members="a")
    audit = audits(first, withheld, again)[2][0]
    assert (audit.previous_generation, rows(audit)) == (None, [(0, None, "a", "gained", None), (1, None, "b", "gained", None)])


def test_revocations_of_all_calls_of_one_step_are_summed() -> None:
    """A cooperative step of two calls took one partition away in between, which the settled results do not show."""
    first = generation(1, solution(COUNTERFACTUAL, {"a": "t0", "b": "t1"}, COOPERATIVE))
    second = generation(2, solution(COUNTERFACTUAL, {"a": "t0", "b": "t1"}, COOPERATIVE, revoked=1))
    difference = audits(first, second)[1][0].difference
    assert (difference.cooperative_revocation_count, difference.eager_revocation_count, difference.movement_count) == (1, 2, 0)


def test_a_counterfactual_is_judged_without_the_recorded_claims() -> None:
    """a claims t1 in the record; in its own history the strategy withholds nothing, it leaves t1 out."""
    claiming = (member("a", owned="t0 t1", at=1), member("b"))
    first = generation(1, solution(COUNTERFACTUAL, {"a": "t0 t1", "b": ""}, COOPERATIVE))
    second = generation(2, solution(COUNTERFACTUAL, {"a": "t0", "b": ""}, COOPERATIVE), members=claiming)
    audit = audits(first, second)[1][0]
    assert rows(audit) == [(1, "a", None, "lost", "left_out")]
    assert (audit.is_settled, audit.violations) == (True, ("unassigned t-1",))


def test_every_solution_has_the_triggers_of_its_generation() -> None:
    """Whether there is an assignment or not, and for recomputed and counterfactual ones as for the observed one."""
    failed = (solution(OBSERVED, {"a": "t0 t1"}), solution(RECOMPUTED, {"a": "t0 t1"}), solution(COUNTERFACTUAL, None, "sticky"))
    first = generation(1, solution(OBSERVED, {"a": "t0 t1"}), evidence=evidence(1, "a"))
    second = generation(2, *failed, evidence=evidence(2, "a", "b"))
    assert [audit.triggers for audit in audits(first, second)[1]] == [("member_joined",)] * 3


def test_triggers_need_a_predecessor() -> None:
    """A generation that may be the first, and is not known to be: in a log that is compacted it stands for what was before it."""
    given = solution(OBSERVED, {"a": "t0 t1"})
    known, unknown = (generation(1, given, evidence=evidence(1, "a"), has_predecessor=has) for has in (True, False))
    assert [audits(one)[0][0].triggers for one in (known, unknown)] == [("group_created", "member_joined"), None]


def test_member_of_an_earlier_incarnation_is_no_returning_member() -> None:
    """The same place and time, and member b left a moment before; but the group ended since."""
    given = solution(OBSERVED, {"a": "t0 t1"})
    before = [generation(1, given, evidence=evidence(1, "a", "b")), generation(2, given, evidence=evidence(2, "a"))]
    goes_on = generation(3, given, evidence=evidence(3, "a", "c"))
    again = [
        generation(0, given, evidence=evidence(0, "a"), incarnation=9),
        generation(1, given, evidence=evidence(1, "a", "c"), incarnation=9),
    ]
    assert audits(*before, goes_on)[-1][0].triggers == ("member_returned",)
    assert audits(*before, *again)[-1][0].triggers == ("member_joined",)


def hand_over(*between: AuditedGeneration) -> list[list[Audit]]:
    """Return the audits of a hand-over of t1 from x to b, x being static, with something between its halves."""
    joined = (member("x-1", owned="t0 t1", at=1, instance="x"), member("b"))
    return audits(
        generation(1, solution(OBSERVED, {"x-1": "t0 t1"}, COOPERATIVE), members=(member("x-1", instance="x"),)),
        generation(2, solution(OBSERVED, {"x-1": "t0", "b": ""}, COOPERATIVE), members=joined),
        *between,
        generation(3, solution(OBSERVED, {"x-2": "t0", "b": "t1"}, COOPERATIVE), members=(member("x-2", instance="x"), member("b"))),
    )


def test_a_hand_over_names_the_last_owner_and_its_generation() -> None:
    given_up, handed_over = (step[0] for step in hand_over()[1:])
    assert (rows(given_up), given_up.is_settled) == ([(1, "x-1", None, "lost", "withheld")], False)
    assert rows(handed_over) == [(1, "x-1", "b", "gained", "handed_over")]
    assert handed_over.difference.movements[0].previous_generation == 1
    assert (handed_over.difference.movement_count, handed_over.is_settled) == (1, True)


def test_a_hand_over_that_had_begun_when_a_log_begins_is_a_movement() -> None:
    """Nothing is known of generation 4 but what a claims of it."""
    given_up = generation(
        5,
        solution(OBSERVED, {"a": "t0", "b": ""}, COOPERATIVE),
        members=(member("a", owned="t0 t1", at=4), member("b")),
        has_predecessor=False,
    )
    (first,), (second,) = audits(given_up, generation(6, solution(OBSERVED, {"a": "t0", "b": "t1"}, COOPERATIVE)))
    assert (first.difference, first.is_settled) == (None, False)
    assert rows(second) == [(1, "a", "b", "gained", "handed_over")]
    assert (second.difference.movements[0].previous_generation, second.difference.movement_count) == (4, 1)


def test_a_rewrite_between_the_halves_of_a_hand_over_loses_nothing() -> None:
    """The restarted member claims nothing, yet what was withheld from it still is, and its hand-over still is a movement."""
    rewritten = generation(
        2, solution(OBSERVED, {"x-2": "t0", "b": ""}, COOPERATIVE), members=(member("x-2", instance="x"), member("b")), is_rewrite=True
    )
    rewrite, handed_over = (step[0] for step in hand_over(rewritten)[2:])
    assert (rewrite.is_settled, rows(rewrite)) == (False, [])
    assert rows(handed_over) == [(1, "x-1", "b", "gained", "handed_over")]


def test_a_rewrite_moves_and_revokes_nothing_on_any_basis() -> None:
    """Recomputed differs from observed: its movements were counted in the generation that is rewritten."""
    first = generation(
        1,
        solution(OBSERVED, {"a": "t0", "x-1": "t1"}),
        solution(COUNTERFACTUAL, {"a": "", "x-1": "t0 t1"}),
        members=(member("a"), member("x-1", instance="x")),
    )
    rewritten = generation(
        1,
        solution(OBSERVED, {"a": "t0", "x-2": "t1"}),
        solution(RECOMPUTED, {"a": "t1", "x-2": "t0"}),
        solution(COUNTERFACTUAL, {"a": "", "x-2": "t0 t1"}),
        members=(member("a", owned="t0", at=1), member("x-2", instance="x")),
        is_rewrite=True,
        claims_are_known=False,
    )
    differences = [audit.difference for audit in audits(first, rewritten)[1]]
    for difference in differences:
        assert (difference.retained_count, difference.movements, difference.movement_count) == (2, (), 0)
        assert not any(getattr(difference, f"{kind}_count") for kind in ("gained", "lost", "orphaned", "withheld", "returned"))
        assert (difference.eager_revocation_count, difference.cooperative_revocation_count, difference.is_eager) == (0, 0, None)
    # Claims cannot show it, but nobody was asked to give up anything.
    assert [difference.actual_revocation_count for difference in differences] == [0, None, None]


def test_a_counterfactual_has_no_part_in_what_the_recorded_assignor_withheld() -> None:
    """t1 was withheld in the record and in nobody's hands in its own history, where it comes from nobody; nor is it unsettled."""
    joined = (member("a", owned="t0 t1", at=1), member("b"))
    withheld = (solution(OBSERVED, {"a": "t0", "b": ""}, COOPERATIVE), solution(COUNTERFACTUAL, {"a": "t0", "b": ""}))
    given = (solution(OBSERVED, {"a": "t0", "b": "t1"}, COOPERATIVE), solution(COUNTERFACTUAL, {"a": "t0", "b": "t1"}))
    observed, counterfactual = audits(generation(2, *withheld, members=joined), generation(3, *given))[1]
    assert rows(observed) == [(1, "a", "b", "gained", "handed_over")]
    assert rows(counterfactual) == [(1, None, "b", "gained", None)]
    observed, counterfactual = audits(generation(2, *withheld, members=joined), generation(2, *withheld, is_rewrite=True))[1]
    assert (observed.is_settled, counterfactual.is_settled) == (False, True)


def test_a_conversion_revokes_nothing_that_stays() -> None:
    """The coordinator writes it when a group becomes classic. Members claim nothing until they join the next generation."""
    of_brokers = generation(1, solution(OBSERVED, {"a": "t0", "b": "t1"}, "uniform"), solution(COUNTERFACTUAL, {"a": "t0", "b": "t1"}))
    kept = [solution(basis, {"a": "t0", "b": "t1"}) for basis in (OBSERVED, COUNTERFACTUAL)]
    converted = generation(1, *kept, evidence=evidence(1, is_conversion=True))
    revoked = [[audit.difference for audit in step] for step in audits(of_brokers, converted, generation(2, *kept))[1:]]
    assert [[one.eager_revocation_count for one in step] for step in revoked] == [[0, 0], [2, 2]]
    assert [[one.actual_revocation_count for one in step] for step in revoked] == [[0, None], [2, None]]
    assert [[one.is_eager for one in step] for step in revoked] == [[None, None], [True, None]]
    other = generation(1, solution(OBSERVED, {"a": "t0", "b": ""}), evidence=evidence(1, is_conversion=True))
    assert audits(of_brokers, other)[1][0].difference.actual_revocation_count == 1


def test_actual_revocations_are_known_for_observed_rows_only() -> None:
    claiming = (member("a", owned="t0", at=1), member("b"))
    given = {"a": "t0", "b": "t1"}
    first = generation(1, solution(OBSERVED, given))
    bases = (solution(OBSERVED, given), solution(RECOMPUTED, given))
    observed, recomputed = (audit.difference for audit in audits(first, generation(2, *bases, members=claiming))[1])
    assert (observed.actual_revocation_count, observed.is_eager) == (1, False)
    assert (recomputed.actual_revocation_count, recomputed.is_eager) == (None, None)
    (blind,) = audits(first, generation(2, bases[0], members=claiming, claims_are_known=False))[1]
    assert (blind.difference.actual_revocation_count, blind.difference.is_eager) == (None, None)


def test_a_follow_up_costs_nothing_under_an_eager_protocol() -> None:
    given = {"a": "t0", "b": "t1"}
    (follow_up,) = audits(generation(2, solution(OBSERVED, given)), generation(3, solution(OBSERVED, given), is_follow_up=True))[1]
    assert follow_up.difference.eager_revocation_count == 0


def test_deleted_topic_and_unsubscribed_topic_are_different_causes() -> None:
    """Nobody subscribes to u or v any more, but only u is gone."""
    first = generation(1, solution(OBSERVED, {"a": "u0 v0", "b": ""}), members=(member("a", "uv"), member("b", "v")))
    second = generation(2, solution(OBSERVED, {"a": "", "b": ""}), gone_topics=("u",))
    (audit,) = audits(first, second)[1]
    assert [(row.topic, row.cause) for row in audit.difference.movements] == [("u", "topic_deleted"), ("v", "unsubscribed")]


def test_avoidable_movements_are_those_that_balance_does_not_need() -> None:
    """c has to get one of the four; what else moved could have stayed. Each strategy is judged by its own history."""
    topics = {"t": Topic(4)}
    first = generation(
        1, solution(OBSERVED, {"a": "t0 t1", "b": "t2 t3"}), solution(COUNTERFACTUAL, {"a": "t2 t3", "b": "t0 t1"}), topics=topics
    )
    given = {"a": "t0 t1", "b": "t2", "c": "t3"}
    later = [
        generation(2, solution(OBSERVED, given), solution(COUNTERFACTUAL, given), members="abc", topics=topics),
        generation(3, solution(OBSERVED, given), solution(COUNTERFACTUAL, None), members="abc", topics=topics),
    ]
    bounds = [
        [(audit.least_movement_count, audit.avoidable_movement_count, audit.least_spread) for audit in step]
        for step in audits(first, *later)
    ]
    assert bounds == [[(None, None, 0)] * 2, [(1, 0, 1), (1, 3, 1)], [(0, 0, 1), (None, None, None)]]


def test_nothing_is_avoidable_before_all_is_settled_nor_in_a_rewrite() -> None:
    """A recomputed assignment of a rewrite differs from the observed one, yet nobody computed it then."""
    open_half, settled = (step[0] for step in hand_over()[1:])
    assert (open_half.least_movement_count, open_half.avoidable_movement_count) == (None, None)
    assert (settled.least_movement_count, settled.avoidable_movement_count) == (1, 0)
    first = generation(1, solution(OBSERVED, {"a": "t0", "b": "t1"}))
    rewritten = generation(1, solution(OBSERVED, {"a": "t0", "b": "t1"}), solution(RECOMPUTED, {"a": "t1", "b": "t0"}), is_rewrite=True)
    assert [(audit.least_movement_count, audit.avoidable_movement_count) for audit in audits(first, rewritten)[1]] == [(0, 0)] * 2


GIVEN = [{"a": first, "b": second, "c": third} for first in ("t0", "t0 t1", "") for second in ("t1", "") for third in ("t2", "t0 t2", "")]
"""Whole assignments of three partitions, and some that leave one out or give it twice."""


@st.composite
def expected_generations(draw: st.DrawFn) -> list[AuditedGeneration]:
    """Generations of three members, with results of which some are the same object."""
    results = [{name: held(text) for name, text in given.items()} for given in GIVEN]
    pool = st.sampled_from(results)
    history = []
    for number in range(1, draw(st.integers(2, 4)) + 1):
        own = draw(st.sampled_from(["range", "sticky", COOPERATIVE]))
        pairs = [(COUNTERFACTUAL, name) for name in ("range", "sticky", COOPERATIVE, "plugin")] + [(OBSERVED, own), (RECOMPUTED, own)]
        few = draw(st.lists(pool, min_size=2, max_size=2))
        solutions = [AuditedSolution(*pair, draw(st.sampled_from(few))) for pair in pairs]
        members = tuple(member(name, owned=draw(st.sampled_from(["", "t0", "t1 t2"]))) for name in "abc")
        flags = {name: draw(st.booleans()) for name in ("claims_are_known", "is_rewrite", "is_follow_up")}
        history.append(generation(number, *solutions, members=members, topics={"t": Topic(3)}, **flags))
    return history


@settings(max_examples=200, deadline=None)
@given(expected_generations())
def test_shared_assignment_objects_are_audited_like_equal_copies(history: list[AuditedGeneration]) -> None:
    apart = [replace(one, solutions=[replace(s, assignment=dict(s.assignment)) for s in one.solutions]) for one in history]
    assert audits(*history) == audits(*apart)
