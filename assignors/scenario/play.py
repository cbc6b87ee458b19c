"""A scenario played until nothing moves any more, and what that leads to: movements, loads, balance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

from assignors.audit.comparison import Comparison
from assignors.audit.least_movement import Least, least_movements
from assignors.audit.movements import Difference, KindCounts, count_kinds, diff_generations
from assignors.generation.balance import Balance, measure_balance
from assignors.generation.generation import SERVER_SIDE, Generation
from assignors.generation.holdings import Holdings
from assignors.generation.subscriptions import layout_of, subscribers_of
from assignors.model import AssignorError, GroupProblem, TopicPartition
from assignors.replay.chains import Written, claiming, held_by_owner
from assignors.replay.replay import NEWEST_KAFKA
from assignors.replay.topic_ids import with_topic_ids
from assignors.scenario.changes import Changed, Order, Places, change_members, places_among, strategy_of
from assignors.scenario.rounds import PlayedStep, rebalanced, reconciled, still_claimed
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


@dataclass(frozen=True)
class Outcome:
    """What one order of the members leads to. Figures are computed when they are asked for.

    Attributes:
        order: whether added members without names are the last or the first; without meaning in ``Played.among``.
        before: what members held before the changes.
        steps: at least one, in order.
        lag, throughput: figures by partition, see ``Weights``; None where they were not given.
    """

    order: Order
    before: Generation
    steps: tuple[PlayedStep, ...]
    lag: Weights | None
    throughput: Weights | None
    _compare: Callable[[Generation], Comparison] = field(repr=False, compare=False)
    _alike: Outcome | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _comparison(self) -> Comparison:
        return self._compare(self.after)

    @cached_property
    def counts(self) -> KindCounts:
        """Return how many partitions have another owner at the end than in ``before``, by kind."""
        if self._alike is not None:
            return self._alike.counts
        return count_kinds(self._comparison)

    @cached_property
    def difference(self) -> Difference:
        """Return the movements from ``before`` to the end."""
        return diff_generations(self._comparison)

    @cached_property
    def balance(self) -> Balance:
        """Return the balance at the end, see ``balance.Balance``; ``rack_match_ratio`` and ``idle_member_count`` are there."""
        if self._alike is not None:
            return self._alike.balance
        return measure_balance(self.after.problem, self._comparison.held)

    @cached_property
    def least(self) -> Least | None:
        """Return the fewest movements for the balance at the end, see ``least_movement.least_movements``."""
        if self._alike is not None:
            return self._alike.least
        return least_movements(self._comparison)

    @cached_property
    def loads(self) -> dict[str, Load]:
        """Return member id -> its load at the end, in record order."""
        return {member.member_id: self._load(self.after.assignment.get(member.member_id, ())) for member in self.after.problem.members}

    def _load(self, held: tuple[TopicPartition, ...]) -> Load:
        sums = [
            sum(figures.get(partition, 0) for partition in held) if figures is not None else None for figures in (self.lag, self.throughput)
        ]
        return Load(len(held), *sums)

    @property
    def is_like_another(self) -> bool:
        """Return whether another order of the members leads to the same but for the names of added ones."""
        return self._alike is not None

    @property
    def after(self) -> Generation:
        """Return the generation at the end."""
        return self.steps[-1].generation

    @property
    def round_count(self) -> int:
        """Return the number of steps."""
        return len(self.steps)

    @property
    def stopped_count(self) -> int:
        """Return how many partitions stop being read at once: in the step in which these are the most."""
        return max(len(step.stopped) for step in self.steps)

    @property
    def revocation_count(self) -> int:
        """Return how many partitions members that stay have to give up, all steps together."""
        return sum(step.revocation_count for step in self.steps)


@dataclass(frozen=True)
class Played:
    """What a scenario leads to.

    Attributes:
        outcomes: first the one in which added members are last. If nobody named them, then the one in which they are first.
        play_among: what ``among`` returns.
    """

    outcomes: tuple[Outcome, ...]
    play_among: Callable[[], Iterable[Outcome]] = field(default=tuple, repr=False, compare=False)

    @cached_property
    def among(self) -> tuple[Outcome, ...]:
        """Return some outcomes in which added members are among the others, see ``changes.places_among``. They are played when asked for.

        None where the first two outcomes differ by the names of added members alone.
        """
        return tuple(self.play_among())

    @property
    def expected(self) -> Outcome:
        """Return the outcome in which added members are last."""
        return self.outcomes[0]

    @property
    def all_outcomes(self) -> tuple[Outcome, ...]:
        """Return the outcomes of all orders that are played."""
        return (*self.outcomes, *self.among)

    @property
    def movement_range(self) -> tuple[int, int]:
        """Return the fewest and the most movements of all outcomes."""
        counts = [outcome.counts.movement_count for outcome in self.all_outcomes]
        return min(counts), max(counts)

    @property
    def largest_load_range(self) -> tuple[int, int]:
        """Return the largest load of a member in partitions, in the best and in the worst outcome."""
        counts = [max(load.count for load in outcome.loads.values()) for outcome in self.all_outcomes]
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
    return Player(generation, lag=lag, throughput=throughput).play(scenario, kafka_version)


_OF_BROKERS = "brokers"


class Player:
    """Plays scenarios of one generation. What several strategies of a scenario share is computed once, if they are played in a row."""

    def __init__(self, generation: Generation, *, lag: Weights | None = None, throughput: Weights | None = None) -> None:
        """Take a generation and its figures, see ``play``."""
        self._generation = generation
        self._in_columns = replace(generation, assignment=Holdings.of(generation.assignment))
        self._lag, self._throughput = lag, throughput
        self._held = _Held(generation)
        self._changes: tuple[object, ...] | None = None
        self._starts: tuple[_Start, ...] = ()
        self._starts_among: Callable[[], tuple[_Start, ...]] = tuple

    def play(self, scenario: Scenario, kafka_version: str = NEWEST_KAFKA) -> Played:
        """Return what a scenario leads to, see ``play``."""
        strategy = strategy_of(self._generation, scenario)
        changes = _changes_of(scenario)
        if changes != self._changes:
            self._starts = tuple(self._start(scenario, order) for order in _orders(scenario))
            self._starts_among = cache(partial(self._start_among, scenario))
            self._changes = changes
        outcomes: list[Outcome] = []
        for start in self._starts:
            outcomes.append(self._outcome(start, strategy, kafka_version, outcomes[0] if outcomes else None))
        last, *first = outcomes
        if not first or first[0].is_like_another:
            return Played(tuple(outcomes))
        return Played(tuple(outcomes), partial(self._among, self._starts_among, strategy, kafka_version, last))

    def _start_among(self, scenario: Scenario) -> tuple[_Start, ...]:
        return tuple(self._start(scenario, Order.LAST, places) for places in places_among(self._generation, scenario))

    def _among(self, starts: Callable[[], tuple[_Start, ...]], strategy: str, kafka_version: str, last: Outcome) -> Iterator[Outcome]:
        for start in starts():
            try:
                yield self._outcome(start, strategy, kafka_version, last)
            except AssignorError:  # the orders that have a result still say something
                continue

    def _start(self, scenario: Scenario, order: Order, places: Places = ()) -> _Start:
        before, problem = change_members(self._generation, scenario, order, places)
        subscribers_of(problem), layout_of(problem)  # known from here on, also to problems that differ in claims alone
        held = self._held if before is self._generation else _Held(before)
        return _Start(order, before, replace(self._in_columns, problem=before.problem), problem, held)

    def _outcome(self, start: _Start, strategy: str, kafka_version: str, last: Outcome | None) -> Outcome:
        is_server_side = strategy in SERVER_SIDE
        changed = Changed(start.before, start.problem_with_ids if is_server_side else start.problem, strategy)
        steps = tuple((reconciled if is_server_side else rebalanced)(changed, kafka_version, start.asked(changed)))
        alike = last if last is not None and _is_renamed(self._generation, last.after, steps[-1].generation) else None
        return Outcome(start.order, start.before_in_columns, steps, self._lag, self._throughput, start.compare, alike)


@dataclass
class _Start:
    """A group before and after the changes, whatever the strategy.

    Attributes:
        before_in_columns: as ``before``, quicker to compare.
        held: what members hold before.
    """

    order: Order
    before: Generation
    before_in_columns: Generation
    problem: GroupProblem
    held: _Held
    _first: Comparison | None = None

    def compare(self, after: Generation) -> Comparison:
        """Return the comparison of ``before`` with the end of one strategy."""
        comparison = Comparison(self.before_in_columns, after, self._first)
        self._first = self._first or comparison
        return comparison

    @cached_property
    def problem_with_ids(self) -> GroupProblem:
        return with_topic_ids(self.problem)

    def asked(self, changed: Changed) -> GroupProblem:
        """Return the problem of the first call of an assignor, see ``rounds.claiming_what_is_held``."""
        return self.held.claiming(changed.strategy, changed.problem)


class _Held:
    """What owners hold before changes, and how they claim it: alike whoever joins or leaves."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._by_owner = held_by_owner(generation.problem.members, generation.assignment)
        self._written: dict[str, Written] = {}

    def claiming(self, strategy: str, problem: GroupProblem) -> GroupProblem:
        """Return a problem in which the members that stay claim what they have."""
        kind = _OF_BROKERS if strategy in SERVER_SIDE else strategy  # brokers' assignors read the same claims
        held = still_claimed(strategy, problem, self._by_owner)
        return claiming(strategy, problem, held, self._generation.generation, self._written.setdefault(kind, {}))


def _is_renamed(before: Generation, last: Generation, first: Generation) -> bool:
    """Return whether two results differ by nothing but the names of added members: then all counts of them are the same.

    Args:
        before: the generation before the changes.
        last: the result in which added members are last.
        first: the one in which they are first.
    """
    known = {member.member_id for member in before.problem.members}
    sides = []
    for result in (last, first):
        staying, added = [], []
        for member in result.problem.members:
            held = result.assignment.get(member.member_id, ())
            if member.member_id in known:
                staying.append((member.member_id, held))
            else:
                added.append((held, member.rack or "", member.topics))
        if len(staying) + len(added) != len(result.assignment):
            return False  # an owner that is no member, or a member without an entry
        sides.append((staying, sorted(added)))
    return sides[0] == sides[1]


def _changes_of(scenario: Scenario) -> tuple[object, ...]:
    """Return all of a scenario but its strategy and protocol."""
    members = (scenario.added, scenario.removed, scenario.topics, scenario.subscriptions, scenario.instance_ids, scenario.racks)
    return (*members, scenario.partition_counts)


def _orders(scenario: Scenario) -> tuple[Order, ...]:
    depends_on_order = isinstance(scenario.added, int) and scenario.added > 0
    return (Order.LAST, Order.FIRST) if depends_on_order else (Order.LAST,)
