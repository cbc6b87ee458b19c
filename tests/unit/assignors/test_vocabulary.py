"""The stored words, and that the algorithms, which may not import them, use the same."""

from __future__ import annotations

from assignors.registry import BUILT_IN
from assignors.replay import conformance, replay
from assignors.replay import topic_metadata as topic_looks
from assignors.replay.steps import CARRIED, COUNTERFACTUAL, OBSERVED, RECOMPUTED, SOLVED
from schemas.vocabulary import STRATEGIES, Basis, Conformance, Severity, Status, TopicBasis


def test_vocabulary_word_prints_as_it_is_stored() -> None:
    assert (str(Basis.OBSERVED), f"{Basis.OBSERVED}", Basis.OBSERVED == "observed") == ("observed", "observed", True)


def test_severities_are_ranked() -> None:
    assert [severity.rank for severity in (Severity.INFO, Severity.WARNING, Severity.CRITICAL)] == [0, 1, 2]


def test_the_algorithms_use_the_stored_words() -> None:
    assert {OBSERVED, RECOMPUTED, COUNTERFACTUAL} == {word.value for word in Basis}
    assert {
        SOLVED, CARRIED, replay.NO_RESULT, replay.KAFKA_ERROR, replay.OVER_BUDGET, replay.UNSUPPORTED,
    } == {word.value for word in Status}  # fmt: skip
    assert [word.value for word in conformance.Conformance] == [word.value for word in Conformance]
    assert [word.value for word in topic_looks.LookBasis] == [word.value for word in TopicBasis]


def test_every_default_strategy_is_built_in() -> None:
    assert set(STRATEGIES) <= set(BUILT_IN)
