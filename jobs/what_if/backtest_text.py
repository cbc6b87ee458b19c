"""A backtest as text for a terminal, and as JSON for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assignors.replay.conformance import Conformance
from jobs.backtest.judging import Differing, JudgedPredictions
from jobs.backtest.words import COMPARED, client_words, conformance_words, omission_words, reason_words, total_counts
from jobs.runtime.locations import on_one_line
from jobs.what_if.text import named, table_lines


def backtest_lines(judged: JudgedPredictions) -> Iterator[str]:
    """Yield the table, then what is not exact, then what was left out. Names are escaped."""
    backtest, differences = judged.backtest, judged.differences
    if backtest.shares:
        rows: list[Sequence[str]] = [("", "predicted", *map(conformance_words, COMPARED))]
        rows += [_row(f"{share.strategy}, {client_words(share.strategy, share.leader_client)}", share.counts) for share in backtest.shares]
        yield from table_lines([*rows, _row("in total", total_counts(backtest.shares))])
    else:
        yield "no generation can be predicted"
    if differences.count:
        yield ""
        yield f"not exact: {differences.count:,}"
        yield from (on_one_line(f"  {_difference(one)}") for one in differences.shown)
        if differences.count > len(differences.shown):
            yield f"  and {differences.count - len(differences.shown):,} more"
    if backtest.omissions:
        yield ""
        yield f"left out: {sum(backtest.omissions.values()):,}"
        yield from (f"  {count:,}: {words}" for words, count in omission_words(backtest.omissions))


def backtest_document(judged: JudgedPredictions) -> dict[str, Any]:
    """Return the same with figures as numbers, and names as they are."""
    backtest, differences = judged.backtest, judged.differences
    shares = [{"strategy": one.strategy, "leader_client": one.leader_client, **_figures(one.counts)} for one in backtest.shares]
    return {
        "shares": shares,
        "total": _figures(total_counts(backtest.shares)),
        "reasons": {reason.value: count for reason, count in backtest.reasons.items()},
        "left_out": {omission.value: count for omission, count in backtest.omissions.items()},
        "difference_count": differences.count,
        "differences": [_difference_document(one) for one in differences.shown],
    }


def _figures(counts: Mapping[Conformance, int]) -> dict[str, int]:
    return {"prediction_count": sum(counts.values()), **{f"{one.value}_count": counts.get(one, 0) for one in COMPARED}}


def _row(name: str, counts: Mapping[Conformance, int]) -> Sequence[str]:
    predicted = sum(counts.values())
    return (name, f"{predicted:,}", *(_share(counts.get(conformance, 0), predicted) for conformance in COMPARED))


def _share(count: int, of: int) -> str:
    return f"{count:,} ({count / of:.1%})" if count else "0"


def _difference(one: Differing) -> str:
    prediction = one.prediction
    client = f", {prediction.leader_client}" if prediction.leader_client is not None else ""
    reasons = "; ".join(map(reason_words, prediction.explanations))
    where = f"{named(one.key)}, generation {prediction.generation}, {prediction.strategy}{client}"
    return f"{where}: {conformance_words(prediction.conformance)}: {reasons}"


def _difference_document(one: Differing) -> dict[str, Any]:
    prediction = one.prediction
    return {
        "cluster_id": one.key.cluster_id,
        "group_id": one.key.group_id,
        "generation": prediction.generation,
        "observed_at": one.observed_at.isoformat(),
        "strategy": prediction.strategy,
        "leader_client": prediction.leader_client,
        "conformance": prediction.conformance.value,
        "reasons": [{"reason": explanation.reason.value, "names": list(explanation.names)} for explanation in prediction.explanations],
    }
