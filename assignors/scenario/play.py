"""A scenario played until nothing moves any more, and what that leads to: movements, loads, balance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assignors.audit.comparison import Comparison
from assignors.audit.least_movement import Least, least_movements
from assignors.audit.movements import Difference, diff_generations
from assignors.generation.balance import Balance, measure_balance
from assignors.generation.generation import SERVER_SIDE, Generation
from assignors.model import TopicPartition
from assignors.replay.replay import NEWEST_KAFKA
from assignors.scenario.changes import Order, apply_changes
from assignors.scenario.rounds import PlayedStep, rebalanced, reconciled
from assignors.scenario.scenario import Scenario

Weights = Mapping[TopicPartition, float]
"""Partition -> its lag in records or its throughput in records a second; a partition that is not here counts as 0."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one member has to read.

    Attributes:
        count: its partitions.
        lag, throughput: the sums over its partitions; None where the weights were not given.
    """

    count: int
    lag: float | None
    throughput: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one order of the members leads to.

    Attributes:
        order: whether added members without names are the last or the first.
        before: what members held before the changes.
        steps: at least one, in order.
        difference: from ``before`` to the end.
        balance: at the end, see ``balance.Balance``; ``rack_match_ratio`` and ``idle_member_count`` are there.
        loads: member id -> its load at the end, in record order.
        least: the fewest movements for the balance at the end, see ``least_movement.least_movements``.
    """

    order: Order
    before: Generation
    steps: tuple[PlayedStep, ...]
    difference: Difference
    balance: Balance
    loads: dict[str, Load]
    least: Least | None

    @property
    def after(self) -> Generation:
        """Return the generation at the end."""
        return self.steps[-1].generation

    @property
    def round_count(self) -> int:
        """Return the number of steps."""
        return len(self.steps)

    @property
    def revocation_count(self) -> int:
        """Return how many partitions members that stay have to give up, all steps together."""
        return sum(step.revocation_count for step in self.steps)


@dataclass(frozen=True, slots=True)
class Played:
    """What a scenario leads to.

    Attributes:
        outcomes: first the one in which added members are last. If nobody named them, then the one in which they are first.
    """

    outcomes: tuple[Outcome, ...]

    @property
    def expected(self) -> Outcome:
        """Return the outcome in which added members are last."""
        return self.outcomes[0]

    @property
    def movement_range(self) -> tuple[int, int]:
        """Return the fewest and the most movements of all outcomes."""
        counts = [outcome.difference.movement_count for outcome in self.outcomes]
        return min(counts), max(counts)

    @property
    def largest_load_range(self) -> tuple[int, int]:
        """Return the largest load of a member in partitions, in the best and in the worst outcome."""
        counts = [max(load.count for load in outcome.loads.values()) for outcome in self.outcomes]
        return min(counts), max(counts)


def play(
    generation: Generation,
    scenario: Scenario,
    *,
    lag: Weights | None = None,
    throughput: Weights | None = None,
    kafka_version: str = NEWEST_KAFKA,
) -> Played:
    """Return what a scenario leads to.

    Members that stay claim what they hold. A change of strategy, protocol or instance ids takes restarts of the members: these are not
    played, only the rebalance after them.

    Args:
        generation: the newest settled one of the group.
        lag, throughput: figures by partition, see ``Weights``.
        kafka_version: release of the leader's client, or of the broker for the consumer protocol.

    Raises:
        ValueError: the scenario does not fit the group.
        AssignorError: the assignor has no result; ``NoResultError`` also if it still hands over after ``replay.MOST_CALLS`` calls.

    >>> from assignors.model import GroupProblem, Member, Topic
    >>> one = GroupProblem({"t": Topic(2)}, (Member("a", ("t",)),))
    >>> settled = Generation(1, "cooperative-sticky", one, {"a": (("t", 0), ("t", 1))})
    >>> outcome = play(settled, Scenario(added=1)).expected
    >>> [step.generation.assignment for step in outcome.steps]
    [{'a': (('t', 0),), '~added-1': ()}, {'a': (('t', 0),), '~added-1': (('t', 1),)}]
    >>> outcome.difference.movement_count, outcome.revocation_count, outcome.least
    (1, 1, Least(count=1, is_exact=True))
    """
    depends_on_order = isinstance(scenario.added, int) and scenario.added > 0
    orders = (Order.LAST, Order.FIRST) if depends_on_order else (Order.LAST,)
    return Played(tuple(_outcome(generation, scenario, order, lag, throughput, kafka_version) for order in orders))


def _outcome(
    generation: Generation, scenario: Scenario, order: Order, lag: Weights | None, throughput: Weights | None, kafka_version: str
) -> Outcome:
    changed = apply_changes(generation, scenario, order)
    steps = tuple((reconciled if changed.strategy in SERVER_SIDE else rebalanced)(changed, kafka_version))
    after = steps[-1].generation
    comparison = Comparison(changed.before, after)
    loads = {member.member_id: _load(after.assignment.get(member.member_id, ()), lag, throughput) for member in after.problem.members}
    difference, balance = diff_generations(comparison), measure_balance(after.problem, after.assignment)
    return Outcome(order, changed.before, steps, difference, balance, loads, least_movements(comparison))


def _load(held: tuple[TopicPartition, ...], lag: Weights | None, throughput: Weights | None) -> Load:
    sums = [sum(figures.get(partition, 0) for partition in held) if figures is not None else None for figures in (lag, throughput)]
    return Load(len(held), *sums)
