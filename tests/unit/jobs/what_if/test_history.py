"""Sums over a history: which generations count, and what each assignor's sum is compared with."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.reading.costs import Cost, GenerationCosts
from jobs.reading.stored import GroupKey
from jobs.what_if.history import Hindsight, History, Omission, Sums, look_back, revoked
from jobs.what_if.history_text import history_lines

COST = Cost(movement_count=1, eager_revocation_count=20, cooperative_revocation_count=3, actual_revocation_count=None)


def generation(position: int, observed: Cost | None = COST, strategy: str = "range", **other: Any) -> GenerationCosts:
    """Return a generation of two members that is a settled cause, directly after the one before, unless something else is said."""
    known = {
        "generation": position,
        "previous_generation": position - 1,
        "member_count": 2,
        "missing_count": 0,
        "is_follow_up": False,
        "is_settled": True,
        "by_strategy": {},
    }
    return GenerationCosts(position=position, strategy=strategy, observed=observed, **{**known, **other})


def cost(revocations: int, movements: int) -> Cost:
    """Return what an assignor costs under either protocol."""
    return Cost(movements, revocations, revocations, None)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("range", 20), ("roundrobin", 20), ("sticky", 20), ("cooperative-sticky", 3), ("uniform", 3), ("server-range", 3), ("our-own", 20)],
)
def test_revocations_are_those_of_the_protocol(strategy: str, expected: int):
    assert revoked(strategy, COST) == expected


def test_revocations_that_claims_show_count_instead():
    assert look_back([generation(1, Cost(1, 20, 3, 0))]).observed == Sums(1, 0, 1)
    assert look_back([generation(1, COST), generation(2, Cost(1, 20, 3, 7))]) == History(Sums(2, 27, 2), by_protocol_count=1)


def test_hand_over_counts_with_its_cause():
    """The recorded group moves 7 partitions in the follow-up, each assignor at the cause."""
    under = {"sticky": cost(22, 7), "cooperative-sticky": cost(8, 7)}
    carried = dict.fromkeys(under, cost(0, 0))
    cause = generation(1, Cost(0, 22, 7, 7), "cooperative-sticky", by_strategy=under, is_settled=False)
    follow_up = generation(2, Cost(7, 0, 0, 0), "cooperative-sticky", by_strategy=carried, is_follow_up=True)
    history = look_back([cause, follow_up])
    assert history.observed == Sums(2, 7, 7)
    assert history.by_strategy == {
        "sticky": Hindsight(Sums(2, 22, 7), Sums(2, 7, 7)),
        "cooperative-sticky": Hindsight(Sums(2, 8, 7), Sums(2, 7, 7)),
    }
    # Half of it is not comparable: a span that begins with the follow-up, or ends before it.
    assert look_back([follow_up]).left_out == {Omission.BEGAN_BEFORE: 1}
    assert look_back([cause]).left_out == {Omission.UNFINISHED: 1}
    assert (look_back([follow_up]).observed, look_back([cause]).observed) == (Sums(), Sums())
    # Another rebalance that came before the follow-up has ended it all the same.
    assert look_back([cause, generation(2)]).left_out == {}


def test_follow_up_is_not_joined_to_another_cause():
    """Its own cause is before the span, or maintain has dropped it."""
    history = look_back([generation(1), generation(3, is_follow_up=True), generation(4, is_follow_up=True), generation(5)])
    assert (history.left_out, history.observed.generation_count) == ({Omission.BEGAN_BEFORE: 2}, 2)


def test_generation_after_an_unknown_one_is_left_out_with_its_follow_ups():
    history = look_back([generation(1, None), generation(2, is_follow_up=True), generation(3)])
    assert (history.left_out, history.observed.generation_count) == ({Omission.UNKNOWN_BEFORE: 2}, 1)


def test_streams_application_is_left_out():
    history = look_back([generation(1, None, "stream"), generation(2, strategy="stream", by_strategy={"sticky": COST})])
    assert (history.left_out, history.observed, history.by_strategy) == ({Omission.KAFKA_STREAMS: 2}, Sums(), {})


def test_generations_without_members_do_not_count():
    history = look_back([generation(1, COST, "", member_count=0), generation(2)])
    assert (history.observed.generation_count, history.left_out) == (1, {})


def test_assignor_is_compared_on_the_generations_that_it_has():
    generations = [
        generation(1, cost(5, 5), by_strategy={"sticky": cost(1, 1)}),
        generation(2, cost(50, 50), by_strategy={"sticky": None, "uniform": cost(2, 2)}),
        generation(3, cost(500, 500), by_strategy={"sticky": cost(3, 3)}),
    ]
    history = look_back(generations)
    assert history.by_strategy["sticky"] == Hindsight(Sums(2, 4, 4), Sums(2, 505, 505), without_result_count=1)
    assert history.by_strategy["uniform"] == Hindsight(Sums(1, 2, 2), Sums(1, 50, 50))
    assert history.left_out_by("sticky") == {Omission.NO_RESULT: 1}
    assert history.left_out_by("uniform") == {Omission.NOT_COMPUTED: 2}
    # Fewer revocations over fewer generations are no better.
    assert history.best == "sticky"


def test_best_has_the_fewest_revocations_then_movements():
    under = {"range": cost(3, 9), "roundrobin": cost(2, 9), "sticky": cost(2, 8), "cooperative-sticky": cost(2, 8)}
    assert look_back([generation(1, by_strategy=under)]).best == "sticky"
    assert look_back([generation(1)]).best is None


def test_assignors_come_in_their_usual_order():
    under = dict.fromkeys(["uniform", "sticky", "a", "range"], COST)
    assert list(look_back([generation(1, by_strategy=under)]).by_strategy) == ["range", "sticky", "a", "uniform"]


def test_missing_generations_are_counted():
    assert look_back([generation(1, missing_count=2), generation(5, None, missing_count=3)]).missing_count == 5
    empty = generation(5, strategy="", member_count=0, missing_count=3)
    assert look_back([generation(1), empty, generation(6)]) == look_back([generation(1), generation(6)]) + History(missing_count=3)


# -- any history, against a loop that knows nothing of sums

costs = st.one_of(st.none(), st.builds(Cost, *(st.integers(0, 9) for _ in range(3)), st.none() | st.integers(0, 9)))
unlikely = st.sampled_from([False, False, True])
histories = st.lists(
    st.builds(
        GenerationCosts,
        position=st.just(0),
        generation=st.sampled_from([1, 1, 1, 2]),
        previous_generation=st.sampled_from([1, 1, 1, 2, None]),
        strategy=st.sampled_from(["range", "cooperative-sticky", "uniform", "stream"]),
        member_count=st.sampled_from([0, 1, 2]),
        missing_count=st.integers(0, 2),
        is_follow_up=unlikely,
        is_settled=unlikely.map(lambda one: not one),
        observed=costs,
        by_strategy=st.dictionaries(st.sampled_from(["sticky", "cooperative-sticky"]), costs),
    ),
    max_size=8,
)


def causes(generations: list[GenerationCosts]) -> list[int]:
    """Return for each generation the number of the one that it finishes, or its own."""
    found: list[int] = []
    for number, one in enumerate(generations):
        is_joined = one.is_follow_up and found and generations[number - 1].generation == one.previous_generation
        found.append(found[-1] if is_joined else number)
    return found


def omission(generations: list[GenerationCosts], number: int) -> Omission | None:
    """Return why a generation does not count, by all that share its cause."""
    of = causes(generations)
    all_of_it = [one for one, cause in zip(generations, of, strict=True) if cause == of[number]]
    if "stream" in [one.strategy for one in all_of_it]:
        return Omission.KAFKA_STREAMS
    if generations[of[number]].is_follow_up:
        return Omission.BEGAN_BEFORE
    if of[number] == of[-1] and not generations[-1].is_settled:
        return Omission.UNFINISHED
    return Omission.UNKNOWN_BEFORE if any(one.observed is None for one in all_of_it) else None


@given(histories)
def test_every_generation_counts_or_is_left_out(generations: list[GenerationCosts]):
    history, of = look_back(generations), causes(generations)
    populated = [number for number in range(len(generations)) if generations[of[number]].member_count]
    reasons = {number: omission(generations, number) for number in populated}
    counted = [number for number in populated if reasons[number] is None]
    assert history.left_out == Counter(reason for reason in reasons.values() if reason is not None)
    assert history.observed.generation_count == len(counted)
    assert history.observed.movement_count == sum(generations[number].observed.movement_count for number in counted)
    assert history.missing_count == sum(one.missing_count for one in generations)
    for strategy, hindsight in history.by_strategy.items():
        compared = [
            number
            for number in counted
            if all(one.by_strategy.get(strategy) for one, cause in zip(generations, of, strict=True) if cause == of[number])
        ]
        assert hindsight.costs.generation_count == hindsight.observed.generation_count == len(compared)
        assert hindsight.observed.movement_count == sum(generations[number].observed.movement_count for number in compared)
        assert hindsight.costs.movement_count == sum(generations[number].by_strategy[strategy].movement_count for number in compared)
        assert len(compared) + sum(history.left_out_by(strategy).values()) == len(counted)


@given(histories, histories)
def test_histories_add_up(one: list[GenerationCosts], other: list[GenerationCosts]):
    both = look_back(one) + look_back(other)
    assert both.observed.generation_count == look_back(one).observed.generation_count + look_back(other).observed.generation_count
    for strategy, hindsight in both.by_strategy.items():
        parts = [history.by_strategy.get(strategy, Hindsight()) for history in (look_back(one), look_back(other))]
        assert hindsight.costs.revocation_count == sum(part.costs.revocation_count for part in parts)
        assert hindsight.costs.generation_count + sum(both.left_out_by(strategy).values()) == both.observed.generation_count


@pytest.mark.parametrize("omission", Omission)
def test_each_omission_is_a_sentence(omission: Omission):
    by_strategy = {"sticky": Hindsight(without_result_count=2 if omission is Omission.NO_RESULT else 0)}
    if omission in (Omission.NOT_COMPUTED, Omission.NO_RESULT):
        history = History(Sums(2), {}, by_strategy)
    else:
        history = History(left_out={omission: 2})
    found = [line for line in history_lines({GroupKey("c", "g"): history}, None) if line.startswith("left out")]
    assert len(found) == 1 and ": 2 generations: " in found[0] and omission.value not in found[0]
    assert found[0].startswith("left out for sticky: ") is bool(history.by_strategy)


def test_missing_generations_are_a_note():
    *_, note = history_lines({GroupKey("c", "g"): History(missing_count=1)}, None)
    assert note == "note: Not recorded in between: 1 generation. No figure has the cost of that."
