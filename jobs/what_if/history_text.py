"""What a span would have cost under other assignors, as text for a terminal and as JSON for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from jobs.pages.figures import counted
from jobs.reading.stored import GroupKey
from jobs.runtime.locations import on_one_line
from jobs.what_if.history import Hindsight, History, Omission
from jobs.what_if.text import UNKNOWN, named, table_lines

_HEAD = ("", "generations", "revocations", "instead of", "movements", "instead of")
_WHY = {
    Omission.UNKNOWN_BEFORE: "the generation before is not known",
    Omission.BEGAN_BEFORE: "they finish a rebalance that began before",
    Omission.UNFINISHED: "the newest rebalance still hands over partitions",
    Omission.KAFKA_STREAMS: "Kafka Streams deals out tasks, which no assignor of partitions can",
    Omission.NOT_COMPUTED: "no run has computed it there",
    Omission.NO_RESULT: "it has no result there, or its own history begins there",
}


def history_lines(histories: Mapping[GroupKey, History], since: datetime | None) -> Iterator[str]:
    """Yield a block of lines for each group, then one in total for several. Names are escaped."""
    for number, (key, history) in enumerate(histories.items()):
        if number:
            yield ""
        yield from _block(named(key), history, since)
    if len(histories) > 1:
        yield ""
        yield from _block(f"in total, {len(histories):,} groups", total_of(histories), since)


def history_document(histories: Mapping[GroupKey, History], since: datetime | None) -> dict[str, Any]:
    """Return the same with figures as numbers, and names as they are."""
    groups = [{"cluster_id": key.cluster_id, "group_id": key.group_id, **_document(history)} for key, history in histories.items()]
    return {"since": None if since is None else since.isoformat(), "groups": groups, "total": _document(total_of(histories))}


def total_of(histories: Mapping[GroupKey, History]) -> History:
    """Return all histories together."""
    return sum(histories.values(), History())


def _document(history: History) -> dict[str, Any]:
    return {
        "observed": asdict(history.observed),
        "left_out": _counts(history.left_out),
        "by_protocol_count": history.by_protocol_count,
        "missing_count": history.missing_count,
        "best": history.best,
        "strategies": [
            {
                "strategy": strategy,
                **asdict(hindsight.costs),
                "observed_revocation_count": hindsight.observed.revocation_count,
                "observed_movement_count": hindsight.observed.movement_count,
                "left_out": _counts(history.left_out_by(strategy)),
            }
            for strategy, hindsight in history.by_strategy.items()
        ],
    }


def _counts(left_out: Mapping[Omission, int]) -> dict[str, int]:
    return {omission.value: count for omission, count in left_out.items()}


def _block(title: str, history: History, since: datetime | None) -> Iterator[str]:
    span = "over all that is stored" if since is None else f"since {since:%Y-%m-%d %H:%M:%S} UTC"
    yield on_one_line(f"{title}, {span}")
    yield ""
    observed = history.observed
    then = (f"{observed.generation_count:,}", f"{observed.revocation_count:,}", UNKNOWN, f"{observed.movement_count:,}", UNKNOWN)
    yield from table_lines([_HEAD, ("as it was", *then), *(_row(name, one) for name, one in history.by_strategy.items())])
    yield from _sentences(history, span)


def _row(strategy: str, hindsight: Hindsight) -> Sequence[str]:
    costs, observed = hindsight.costs, hindsight.observed
    pairs = ((costs.revocation_count, observed.revocation_count), (costs.movement_count, observed.movement_count))
    return (strategy, f"{costs.generation_count:,}", *(f"{figure:,}" for pair in pairs for figure in pair))


def _sentences(history: History, span: str) -> Iterator[str]:
    yield ""
    best = history.best
    if best is not None:
        costs, observed = history.by_strategy[best].costs, history.by_strategy[best].observed
        yield on_one_line(
            f"under {best} {span}: {counted(costs.revocation_count, 'revocation')} instead of {observed.revocation_count:,}, "
            f"{counted(costs.movement_count, 'movement')} instead of {observed.movement_count:,}"
        )
    else:
        yield "no generation can be compared"
    if history.by_protocol_count:
        yield (
            f"note: The claims of {_generations(history.by_protocol_count)} do not show what members gave up. There the first line "
            "counts all that they had under an eager assignor, and what moved away from them under a cooperative one."
        )
    if history.missing_count:
        yield f"note: Not recorded in between: {_generations(history.missing_count)}. No figure has the cost of that."
    for omission, count in history.left_out.items():
        yield f"left out: {_generations(count)}: {_WHY[omission]}"
    for strategy in history.by_strategy:
        for omission, count in history.left_out_by(strategy).items():
            yield on_one_line(f"left out for {strategy}: {_generations(count)}: {_WHY[omission]}")


def _generations(count: int) -> str:
    return counted(count, "generation")
