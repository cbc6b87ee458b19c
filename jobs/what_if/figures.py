"""The figures of a group as it is, and as a scenario leaves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from assignors.generation.balance import Balance, measure_balance
from assignors.generation.generation import SERVER_SIDE, Generation
from assignors.model import TopicPartition
from assignors.replay.steps import SOLVED
from assignors.scenario.play import Outcome, Played
from jobs.reading.stored import PartitionWeights

Number = TypeVar("Number", int, float)
_Weights = Mapping[TopicPartition, float]


@dataclass(frozen=True)
class Span(Generic[Number]):
    """A figure of several outcomes: the smallest and the largest; both are the same where the order of members does not matter."""

    low: Number
    high: Number

    @classmethod
    def of(cls, values: Iterable[Number]) -> Span[Number]:
        """Return the span of at least one value."""
        ordered = sorted(values)
        return cls(ordered[0], ordered[-1])


@dataclass(frozen=True)
class Loads:
    """How evenly members share the partitions of one generation.

    Attributes:
        member_count, idle_count: members, and those among them that subscribe and have no partition.
        fewest, most: partitions of a member.
        imbalance: largest load by mean load, 1 is even; None without partitions.
        lag_imbalance, throughput_imbalance: the same by the weights of partitions; None where none is known, or all are 0.
        rack_match: share of partitions with a replica in their owner's rack; None where racks are not known.
    """

    member_count: int
    idle_count: int
    fewest: int
    most: int
    imbalance: float | None
    lag_imbalance: float | None
    throughput_imbalance: float | None
    rack_match: float | None


@dataclass(frozen=True)
class Answer:
    """What one strategy makes of a scenario.

    Attributes:
        strategy: the assignor.
        played: all outcomes; None where there is none.
        release: whose assignor it was; None without an outcome.
        loads: of each outcome, in their order.
        status: as in ``solutions``; ``unsupported`` also where the change does not fit the group.
        refusal: why there is no outcome; None where there is one.
    """

    strategy: str
    played: Played | None
    release: str | None = None
    loads: tuple[Loads, ...] = ()
    status: str = SOLVED
    refusal: str | None = None

    def span(self, figure: Callable[[Loads], float | None]) -> Span[float] | None:
        """Return the span of a figure of the loads; None where an outcome has none."""
        values = [value for loads in self.loads if (value := figure(loads)) is not None]
        return Span.of(values) if values and len(values) == len(self.loads) else None

    def counted(self, figure: Callable[[Outcome], int]) -> Span[int]:
        """Return the span of a figure of the outcomes, with added members last and first; there has to be one."""
        return Span.of(map(figure, self.played.outcomes if self.played is not None else ()))

    def tried(self, figure: Callable[[Outcome], int]) -> Span[int]:
        """Return the span of a figure, also with added members among the others; there has to be an outcome."""
        return Span.of(map(figure, self.played.all_outcomes if self.played is not None else ()))

    @property
    def movements(self) -> Span[int]:
        """Return how many partitions have another owner at the end."""
        return self.counted(lambda outcome: outcome.counts.movement_count)

    @property
    def stopped(self) -> Span[int]:
        """Return how many partitions stop being read at once: in the step in which these are the most."""
        return self.counted(lambda outcome: outcome.stopped_count)

    @property
    def tried_movements(self) -> Span[int]:
        """Return as ``movements``, also with added members among the others."""
        return self.tried(lambda outcome: outcome.counts.movement_count)

    @property
    def tried_stopped(self) -> Span[int]:
        """Return as ``stopped``, also with added members among the others."""
        return self.tried(lambda outcome: outcome.stopped_count)

    @property
    def rounds(self) -> Span[int]:
        """Return the number of rebalances, or of rounds of heartbeats."""
        return self.counted(lambda outcome: outcome.round_count)


def measure_loads(generation: Generation, weights: PartitionWeights) -> Loads:
    """Return how evenly the members of a generation share its partitions."""
    return _loads(generation, measure_balance(generation.problem, generation.assignment), weights)


def loads_of(outcome: Outcome, weights: PartitionWeights) -> Loads:
    """Return how evenly the members share the partitions at the end of an outcome."""
    return _loads(outcome.after, outcome.balance, weights)


def _loads(generation: Generation, balance: Balance, weights: PartitionWeights) -> Loads:
    return Loads(
        member_count=len(generation.problem.members),
        idle_count=balance.idle_member_count,
        fewest=balance.partitions_per_member_min or 0,
        most=balance.partitions_per_member_max or 0,
        imbalance=balance.imbalance_ratio,
        lag_imbalance=_imbalance(generation, weights.lag),
        throughput_imbalance=_imbalance(generation, weights.throughput),
        rack_match=balance.rack_match_ratio,
    )


def _imbalance(generation: Generation, weights: _Weights) -> float | None:
    if not weights:
        return None
    sums = [sum(weights.get(one, 0) for one in generation.assignment.get(member.member_id, ())) for member in generation.problem.members]
    total = sum(sums)
    return max(sums) * len(sums) / total if total else None


def cheapest(answers: Iterable[Answer], own: str) -> Answer | None:
    """Return the answer that is as even as any and stops the fewest partitions at once; None without any outcome.

    Among equals the one counts that moves fewer partitions, then that of the group's protocol, then that of fewer rounds, then the group's
    own strategy. Rounds of two protocols are different things.
    """

    def cost(answer: Answer) -> tuple[float, int, int, bool, int, bool]:
        imbalance = answer.span(lambda loads: loads.imbalance)
        evenness = round(imbalance.high, 6) if imbalance is not None else 0.0
        is_other_protocol = (answer.strategy in SERVER_SIDE) != (own in SERVER_SIDE)
        moving = (answer.tried_stopped.high, answer.tried_movements.high)
        return evenness, *moving, is_other_protocol, answer.rounds.high, answer.strategy != own

    return min((answer for answer in answers if answer.played is not None), key=cost, default=None)
