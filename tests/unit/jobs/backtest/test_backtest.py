"""Which generations are predicted from which, and what becomes of the results."""

from __future__ import annotations

from typing import Any

import pytest

from assignors import GroupProblem
from assignors.audit.triggers import Trigger
from assignors.generation.generation import Generation
from assignors.replay.conformance import Conformance
from assignors.replay.replay import NEWEST_KAFKA
from assignors.scenario.backtest import Backtest, Explanation, LeftOut, Omission, Prediction, Reason
from jobs.backtest import judging
from jobs.backtest.judging import Differences, Differing, JudgedPredictions, judge_predictions, predictions
from jobs.reading.generations import RecordedGeneration
from jobs.reading.stored import GroupKey
from jobs.what_if.backtest_text import backtest_lines
from tests.builders.published_warehouse import at

JOINED = (Trigger.MEMBER_JOINED,)


def recorded(
    group: str,
    number: int,
    *,
    is_next: bool = True,
    after: int | None = None,
    triggers: tuple[Trigger, ...] | None = JOINED,
    release: str | None = None,
) -> RecordedGeneration:
    """Return a generation without members, whose number is its time; it came after the number before it, unless something else is said."""
    return RecordedGeneration(
        key=GroupKey("c", group),
        position=number,
        observed_at=at(number),
        generation=Generation(number, "range", GroupProblem({}, ()), {}),
        is_next=is_next,
        previous_generation=number - 1 if after is None else after,
        triggers=triggers,
        leader_client=f"client of {number}",
        kafka_version=release,
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return what ``predict`` is asked for: by its turn a prediction is exact, or differs."""
    calls: list[tuple[Any, ...]] = []

    def predict(before: Generation, after: Generation, triggers: Any, **known: Any) -> Prediction:
        earlier = known["earlier"].generation if known["earlier"] is not None else None
        calls.append((earlier, before.generation, after.generation, triggers, known["leader_client"], known["kafka_version"]))
        conformance = Conformance.DIFFERS if len(calls) % 2 == 0 else Conformance.EXACT
        return Prediction(after.generation, "range", known["leader_client"], triggers, {}, conformance, ())

    monkeypatch.setattr(judging, "predict", predict)
    return calls


def test_generation_is_predicted_from_the_one_before(asked: list[tuple[Any, ...]]):
    steps = [recorded("g", 1, release="3.1.0"), recorded("g", 2), recorded("g", 3, release="3.7.0")]
    assert [one for one, _ in predictions(steps)] == steps
    assert asked == [(None, 1, 2, JOINED, "client of 2", "3.1.0"), (1, 2, 3, JOINED, "client of 3", NEWEST_KAFKA)]


def test_history_of_predictions_ends_with_a_gap_and_with_the_group(asked: list[tuple[Any, ...]]):
    steps = [recorded("g", 1), recorded("g", 2), recorded("g", 4, is_next=False), recorded("g", 5), recorded("h", 6), recorded("h", 7)]
    results = dict(zip((1, 2, 4, 5, 6, 7), (result for _, result in predictions(steps)), strict=True))
    assert [call[:3] for call in asked] == [(None, 1, 2), (None, 4, 5), (None, 6, 7)]
    unknown = {number for number, result in results.items() if result == LeftOut(number, Omission.UNKNOWN_BEFORE)}
    assert unknown == {1, 4, 6}


def test_generation_is_not_predicted_from_one_before_those_that_were_dropped(asked: list[tuple[Any, ...]]):
    """Retention keeps the first generation of a group, and drops those of old months after it."""
    steps = [recorded("g", 1), recorded("g", 51), recorded("g", 51, after=51), recorded("g", 52)]
    results = [result for _, result in predictions(steps)]
    assert [call[:3] for call in asked] == [(None, 51, 51), (51, 51, 52)]
    assert results[:2] == [LeftOut(1, Omission.UNKNOWN_BEFORE), LeftOut(51, Omission.UNKNOWN_BEFORE)]


def test_generation_that_created_its_group_had_no_members_before():
    ((_, result),) = predictions([recorded("g", 1, is_next=False, triggers=(Trigger.GROUP_CREATED, *JOINED))])
    assert result == LeftOut(1, Omission.NO_MEMBERS)
    ((_, result),) = predictions([recorded("g", 1, is_next=False, triggers=None)])
    assert result == LeftOut(1, Omission.UNKNOWN_BEFORE)


def test_only_what_counts_is_predicted_and_from_what_does_not_count(asked: list[tuple[Any, ...]]):
    judged = judge_predictions([recorded("g", number) for number in range(1, 7)], lambda one: one.observed_at >= at(4))
    assert [call[:3] for call in asked] == [(2, 3, 4), (3, 4, 5), (4, 5, 6)]
    assert (judged.backtest.omissions, sum(share.count for share in judged.backtest.shares)) == ({}, 3)
    assert [one.prediction.generation for one in judged.differences.shown] == [5]


def test_first_differences_are_kept_and_all_are_counted(asked: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judging, "MOST_DIFFERENCES", 2)
    differences = judge_predictions(recorded("g", number) for number in range(1, 9)).differences
    assert ([one.prediction.generation for one in differences.shown], differences.count) == ([3, 5], 3)
    assert (differences.shown[0].position, differences.shown[0].observed_at) == (3, at(3))


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_is_a_sentence_with_the_first_names(reason: Reason):
    explanations = (Explanation(reason, tuple("abcde")), Explanation(Reason.UNEXPLAINED))
    prediction = Prediction(7, "sticky", "sarama", JOINED, None, Conformance.EQUAL_SETS, explanations)
    differences = Differences([Differing(GroupKey("c", "g"), 7, at(7), prediction)], 1)
    found = list(backtest_lines(JudgedPredictions(Backtest.of([prediction]), differences)))[-1]
    assert found.startswith("  g of cluster c, generation 7, sticky, sarama: equal sets: ")
    assert found.endswith(": a, b, c, 2 more; nothing in the record explains it")
    assert reason.value not in found


@pytest.mark.parametrize("omission", Omission)
def test_each_omission_is_a_sentence(omission: Omission):
    *_, found = backtest_lines(JudgedPredictions(Backtest.of([LeftOut(1, omission)] * 2), Differences()))
    assert found.startswith("  2: ") and omission.value not in found


def test_library_of_the_leader_is_in_the_table():
    predicted = [
        Prediction(1, strategy, client, JOINED, {}, Conformance.EXACT, ())
        for strategy, client in (("range", None), ("range", "java"), ("uniform", None))
    ]
    names = [line.partition("  ")[0] for line in backtest_lines(JudgedPredictions(Backtest.of(predicted), Differences()))]
    assert names == ["", "range, unknown client", "range, java", "uniform, brokers", "in total"]
