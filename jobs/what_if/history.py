"""What a span of a group's history would have cost under other assignors, from the audits of what happened.

A cause and the follow-ups after it count as one rebalance. A recorded hand-over moves partitions in its follow-up, while the history of an
assignor has its settled result at the cause. So a rebalance counts as a whole or not at all, and both sides count the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from assignors.generation.generation import COOPERATIVE, SERVER_SIDE, STREAMS
from jobs.reading.costs import Cost, GenerationCosts
from schemas.vocabulary import STRATEGIES


class Omission(str, Enum):
    """Why a generation does not count.

    For every assignor: ``unknown_before``: the generation before is not known. ``began_before``: a follow-up whose cause is not in the
    span. ``unfinished``: the newest rebalance, which still hands over. ``kafka_streams``: no assignor of partitions could take its part.
    For one assignor: ``not_computed``: its counterfactual was not asked for. ``no_result``: it has none, or its own history begins there.
    """

    UNKNOWN_BEFORE = "unknown_before"
    BEGAN_BEFORE = "began_before"
    UNFINISHED = "unfinished"
    KAFKA_STREAMS = "kafka_streams"
    NOT_COMPUTED = "not_computed"
    NO_RESULT = "no_result"


@dataclass(frozen=True, slots=True)
class Sums:
    """Costs of several generations."""

    generation_count: int = 0
    revocation_count: int = 0
    movement_count: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.generation_count + other.generation_count,
            self.revocation_count + other.revocation_count,
            self.movement_count + other.movement_count,
        )


@dataclass(frozen=True, slots=True)
class Hindsight:
    """One assignor over a history.

    Attributes:
        costs: what it would have cost.
        observed: what the same generations did cost.
        without_result_count: generations for which it has no result.
    """

    costs: Sums = Sums()
    observed: Sums = Sums()
    without_result_count: int = 0

    def __add__(self, other: Hindsight) -> Hindsight:
        without_result_count = self.without_result_count + other.without_result_count
        return Hindsight(self.costs + other.costs, self.observed + other.observed, without_result_count)


@dataclass(frozen=True)
class History:
    """What happened in a span, and what each assignor would have made of it. Generations without members are not counted.

    Attributes:
        observed: the generations that can be compared, as they happened.
        left_out: those that cannot be, whichever the assignor.
        by_strategy: only assignors with a counterfactual.
        by_protocol_count: generations in ``observed`` whose claims do not show what was revoked: the strategy's protocol says it instead.
        missing_count: generations in between that are not recorded, before empty ones too. No sum has their cost.
    """

    observed: Sums = Sums()
    left_out: Mapping[Omission, int] = field(default_factory=dict)
    by_strategy: Mapping[str, Hindsight] = field(default_factory=dict)
    by_protocol_count: int = 0
    missing_count: int = 0

    def __add__(self, other: History) -> History:
        strategies = sorted({*self.by_strategy, *other.by_strategy}, key=_usual_order)
        both = {name: self.by_strategy.get(name, Hindsight()) + other.by_strategy.get(name, Hindsight()) for name in strategies}
        return History(
            self.observed + other.observed,
            dict(Counter(self.left_out) + Counter(other.left_out)),
            both,
            self.by_protocol_count + other.by_protocol_count,
            self.missing_count + other.missing_count,
        )

    def left_out_by(self, strategy: str) -> dict[Omission, int]:
        """Return which generations in ``observed`` an assignor is not compared on."""
        hindsight = self.by_strategy[strategy]
        not_computed = self.observed.generation_count - hindsight.costs.generation_count - hindsight.without_result_count
        counts = {Omission.NOT_COMPUTED: not_computed, Omission.NO_RESULT: hindsight.without_result_count}
        return {omission: count for omission, count in counts.items() if count}

    @property
    def best(self) -> str | None:
        """Return the assignor with the fewest revocations, then movements, of those that cover most generations; None without any."""
        most = max((one.costs.generation_count for one in self.by_strategy.values()), default=0)
        covering = {name: one.costs for name, one in self.by_strategy.items() if most and one.costs.generation_count == most}
        return min(covering, key=lambda name: (covering[name].revocation_count, covering[name].movement_count), default=None)


def look_back(generations: Sequence[GenerationCosts]) -> History:
    """Return the history of one group.

    Args:
        generations: all of a span, in order.
    """
    rebalances = list(_rebalances(generations))
    strategies = {strategy for one in generations for strategy in one.by_strategy}
    history = History()
    for rebalance in rebalances:
        if rebalance[0].member_count:
            history += _history_of(rebalance, strategies, is_newest=rebalance is rebalances[-1])
        else:
            history += History(missing_count=_missing_count(rebalance))
    return history


def _rebalances(generations: Iterable[GenerationCosts]) -> Iterator[list[GenerationCosts]]:
    """Yield each cause with its follow-ups. A follow-up whose predecessor is not there begins a rebalance of its own."""
    rebalance: list[GenerationCosts] = []
    for one in generations:
        if rebalance and not (one.is_follow_up and one.previous_generation == rebalance[-1].generation):
            yield rebalance
            rebalance = []
        rebalance.append(one)
    if rebalance:
        yield rebalance


def _history_of(rebalance: Sequence[GenerationCosts], strategies: Iterable[str], *, is_newest: bool) -> History:
    missing_count = _missing_count(rebalance)
    omission = _omission(rebalance, is_newest=is_newest)
    observed = [one.observed for one in rebalance if one.observed is not None]
    if omission is not None or len(observed) < len(rebalance):
        return History(left_out={omission or Omission.UNKNOWN_BEFORE: len(rebalance)}, missing_count=missing_count)
    revocations = [revoked(one.strategy, cost) for one, cost in zip(rebalance, observed, strict=True)]
    sums = Sums(len(rebalance), sum(revocations), sum(cost.movement_count for cost in observed))
    by_protocol_count = sum(1 for cost in observed if cost.actual_revocation_count is None)
    by_strategy = {strategy: _hindsight(rebalance, sums, strategy) for strategy in sorted(strategies, key=_usual_order)}
    return History(sums, {}, by_strategy, by_protocol_count, missing_count)


def _missing_count(rebalance: Iterable[GenerationCosts]) -> int:
    return sum(one.missing_count for one in rebalance)


def _omission(rebalance: Sequence[GenerationCosts], *, is_newest: bool) -> Omission | None:
    if any(one.strategy == STREAMS for one in rebalance):
        return Omission.KAFKA_STREAMS
    if rebalance[0].is_follow_up:
        return Omission.BEGAN_BEFORE
    return Omission.UNFINISHED if is_newest and not rebalance[-1].is_settled else None


def _hindsight(rebalance: Sequence[GenerationCosts], observed: Sums, strategy: str) -> Hindsight:
    if any(strategy not in one.by_strategy for one in rebalance):
        return Hindsight()
    costs = [cost for one in rebalance if (cost := one.by_strategy[strategy]) is not None]
    if len(costs) < len(rebalance):
        return Hindsight(without_result_count=len(rebalance))
    revocations = sum(revoked(strategy, cost) for cost in costs)
    return Hindsight(Sums(len(rebalance), revocations, sum(cost.movement_count for cost in costs)), observed)


def revoked(strategy: str, cost: Cost) -> int:
    """Return the revocations of one generation: what members did give up, else what the protocol of the assignor makes them give up."""
    if cost.actual_revocation_count is not None:
        return cost.actual_revocation_count
    keeps = strategy in COOPERATIVE or strategy in SERVER_SIDE
    return cost.cooperative_revocation_count if keeps else cost.eager_revocation_count


def _usual_order(strategy: str) -> tuple[int, str]:
    return (STRATEGIES.index(strategy) if strategy in STRATEGIES else len(STRATEGIES), strategy)
