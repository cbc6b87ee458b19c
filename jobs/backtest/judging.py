"""Predictions of what has happened: each stored generation from the one before it, to learn how good other predictions are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from assignors.audit.triggers import Trigger
from assignors.replay.conformance import Conformance
from assignors.replay.replay import NEWEST_KAFKA
from assignors.scenario.backtest import Backtest, LeftOut, Omission, Prediction, predict
from jobs.reading.generations import RecordedGeneration
from jobs.reading.stored import GroupKey

Counts = Callable[[RecordedGeneration], bool]
"""Whether the prediction of a generation counts."""

MOST_DIFFERENCES = 100
"""Predictions that are not exact and are shown one by one; the rest is counted."""


@dataclass(frozen=True)
class Differing:
    """A prediction that is not exact."""

    key: GroupKey
    position: int
    observed_at: datetime
    prediction: Prediction


@dataclass
class Differences:
    """The predictions that were not exact.

    Attributes:
        shown: the first ``MOST_DIFFERENCES``.
        count: all of them.
    """

    shown: list[Differing] = field(default_factory=list)
    count: int = 0

    def note(self, recorded: RecordedGeneration, result: Prediction | LeftOut) -> Prediction | LeftOut:
        """Return the result of a generation; one that is a prediction and not exact is noted."""
        if isinstance(result, Prediction) and result.conformance is not Conformance.EXACT:
            self.count += 1
            if len(self.shown) < MOST_DIFFERENCES:
                self.shown.append(Differing(recorded.key, recorded.position, recorded.observed_at, result))
        return result


@dataclass(frozen=True)
class JudgedPredictions:
    """A backtest of stored generations, with its differences."""

    backtest: Backtest
    differences: Differences


def every_one(_: RecordedGeneration) -> bool:
    """Let the prediction of every generation count."""
    return True


def judge_predictions(generations: Iterable[RecordedGeneration], counts: Counts = every_one) -> JudgedPredictions:
    """Return how well generations are predicted.

    Args:
        generations: those of a group in their order, one group after another; read once and not kept.
        counts: whether a generation is predicted. The others are what it may be predicted from.
    """
    differences = Differences()
    backtest = Backtest.of(differences.note(one, result) for one, result in predictions(generations, counts))
    return JudgedPredictions(backtest, differences)


def predictions(
    generations: Iterable[RecordedGeneration], counts: Counts = every_one
) -> Iterator[tuple[RecordedGeneration, Prediction | LeftOut]]:
    """Yield each generation that counts with what comes of predicting it from the one before."""
    earlier: RecordedGeneration | None = None
    before: RecordedGeneration | None = None
    for one in generations:
        if before is None or not one.follows(before):
            earlier = before = None
        if counts(one):
            yield one, _predicted(earlier, before, one)
        earlier, before = before, one


def _predicted(earlier: RecordedGeneration | None, before: RecordedGeneration | None, one: RecordedGeneration) -> Prediction | LeftOut:
    if before is None:
        is_created = one.triggers is not None and Trigger.GROUP_CREATED in one.triggers
        return LeftOut(one.generation.generation, Omission.NO_MEMBERS if is_created else Omission.UNKNOWN_BEFORE)
    return predict(
        before.generation,
        one.generation,
        one.triggers,
        earlier=None if earlier is None else earlier.generation,
        leader_client=one.leader_client,
        kafka_version=before.kafka_version or NEWEST_KAFKA,
    )
