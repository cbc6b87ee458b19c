"""How good predictions are: shares by assignor and client library, and each prediction that is not exact."""

from __future__ import annotations

from collections.abc import Mapping

from assignors.replay.conformance import Conformance
from jobs.backtest.judging import Differing
from jobs.backtest.words import COMPARED, client_words, omission_words, reason_words, total_counts
from jobs.pages.figures import count, cut, moment, visible
from jobs.report.anchors import anchor, generation_anchor
from jobs.report.ranking import GroupKey, Ranking
from jobs.report.rows import Predicted
from jobs.report.view import Count, DifferenceView, PredictionLine, PredictionsView


def predictions_view(predicted: Predicted | None, ranked: Ranking) -> PredictionsView | None:
    """Return what the page shows of predictions; all names are masked.

    Args:
        ranked: all groups, with masked names.
    """
    if predicted is None:
        return None
    backtest, differences = predicted.judged.backtest, predicted.judged.differences
    total = total_counts(backtest.shares)
    lines = [_line(share.strategy, client_words(share.strategy, share.leader_client), share.counts) for share in backtest.shares]
    if lines:
        lines.append(_line("in total", "", total))
    ranks = ranked.ranks_of({_shown_key(one) for one in differences.shown})
    return PredictionsView(
        lines=tuple(lines),
        predictable=count(sum(number for (number,) in ranked.values("predictable_count"))),
        chosen=count(predicted.chosen_count),
        predicted=count(sum(total.values())),
        omissions=tuple(Count(words, count(number)) for words, number in omission_words(backtest.omissions)),
        differences=tuple(_difference(one, ranks) for one in differences.shown),
        difference_count=count(differences.count),
    )


def _line(strategy: str, leader: str, counts: Mapping[Conformance, int]) -> PredictionLine:
    total = sum(counts.values())
    shares = ((one, counts.get(one, 0)) for one in COMPARED)
    return PredictionLine(
        strategy=visible(strategy),
        leader=visible(leader),
        total=count(total),
        counts=tuple(
            Count(one.value, count(number), round(100 * number / total, 2), f"{number / total:.1%}" if number else "")
            for one, number in shares
        ),
    )


def _difference(one: Differing, ranks: Mapping[GroupKey, int]) -> DifferenceView:
    key, prediction = _shown_key(one), one.prediction
    group_anchor = anchor(*key)
    return DifferenceView(
        anchor=generation_anchor(group_anchor, one.position),
        cluster_id=key[0],
        group_id=key[1],
        group_anchor=group_anchor,
        is_listed=key in ranks,
        generation=str(prediction.generation),
        at=moment(one.observed_at),
        strategy=visible(prediction.strategy),
        leader=visible(client_words(prediction.strategy, prediction.leader_client)),
        mark=prediction.conformance.value,
        reasons="; ".join(reason_words(explanation, _shown_name) for explanation in prediction.explanations),
    )


def _shown_key(one: Differing) -> GroupKey:
    return visible(one.key.cluster_id), visible(one.key.group_id)


def _shown_name(name: str) -> str:
    return cut(visible(name))
