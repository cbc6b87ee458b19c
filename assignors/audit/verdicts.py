"""What an observed balance is owed to: to the assignor, to what there was to assign, or to neither."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from assignors.generation.balance import Balance
from assignors.generation.generation import SERVER_SIDE, STREAMS
from assignors.registry import BUILT_IN
from assignors.replay.conformance import Conformance


class Cause(str, Enum):
    """Why loads are as they are.

    Attributes:
        INHERENT: no strategy compared that the group could use has a smaller imbalance, or no assignment has: as far as these
            tell, it comes from subscriptions and partition counts.
        BETTER_ELSEWHERE: another strategy that it could use would have a smaller one.
        UNEXPECTED: not even the group's own assignor gives this assignment.
    """

    INHERENT = "inherent"
    BETTER_ELSEWHERE = "better_elsewhere"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Alternative:
    """What one strategy gave over its own history of the group.

    Attributes:
        balance: None where it gave nothing.
        violations: of its assignment; None where it gave nothing.
    """

    strategy: str
    balance: Balance | None
    violations: tuple[str, ...] | None

    @property
    def is_whole(self) -> bool:
        """Return whether every partition is given once and to a subscriber; how evenly does not count."""
        return self.violations is not None and all(text.startswith("unbalanced ") for text in self.violations)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cause, and who would do best.

    Attributes:
        better_strategy: the one with the smallest imbalance; None where none has a smaller one than the group's own. It is
            named for an unexpected assignment too.
        better_gain: by how much the imbalance ratio would be smaller, above 0; None with ``better_strategy``.
    """

    cause: Cause
    better_strategy: str | None = None
    better_gain: float | None = None


def could_use(strategy: str, other: str, *, is_consumer_protocol: bool) -> bool:
    """Return whether a group could have another assignor than its own by settings: clients and protocol stay as they are.

    Members of a classic group run the clients' assignors, brokers their own for groups of the consumer protocol (KIP-848); an
    assignor that is not Kafka's may be written for either. Kafka Streams brings its assignor along and takes no other.

    >>> [could_use("range", other, is_consumer_protocol=False) for other in ("range", "sticky", "uniform", "my.package:assignor")]
    [True, True, False, True]
    >>> [could_use("server-range", other, is_consumer_protocol=True) for other in ("server-range", "sticky", "uniform")]
    [True, False, True]
    >>> could_use("stream", "sticky", is_consumer_protocol=False)
    False
    """
    if strategy in (other, STREAMS):
        return strategy == other
    return other not in BUILT_IN or (other in SERVER_SIDE) is is_consumer_protocol


def judge(
    observed: Balance,
    strategy: str,
    conformance: str | None,
    alternatives: Iterable[Alternative],
    *,
    is_consumer_protocol: bool,
    least_spread: int | None,
) -> Verdict | None:
    """Return the verdict on a settled generation; None where nothing tells it.

    Strategies are compared with each other, each by what it made of its own history: the group's own among them. Where that gave
    nothing, or is none of ours, what was observed stands for it. The measure is the imbalance ratio, the largest load by the mean.

    There is no verdict without members or partitions, and none on Kafka Streams, whose tasks these strategies do not deal out. Without
    another strategy to compare with there is none either, unless no assignment has a smaller imbalance.

    **Order**: of equal imbalances the smallest gini, then the order of the alternatives.

    Args:
        observed: of the group's assignment.
        strategy: the group's own.
        conformance: a ``Conformance`` value, of what was observed; None where nothing was recomputed.
        alternatives: in the order of preference; those that are not whole, and those that the group could not use, are passed over.
        is_consumer_protocol: the group is of the consumer protocol, KIP-848.
        least_spread: see ``optimum.least_spread``; None where it is not known.

    >>> from assignors.generation.balance import measure_balance
    >>> from assignors.model import GroupProblem, Member, Topic
    >>> problem = GroupProblem({"t": Topic(1), "u": Topic(1)}, (Member("a", ("t", "u")), Member("b", ("t", "u"))))
    >>> by_range = measure_balance(problem, {"a": (("t", 0), ("u", 0)), "b": ()})
    >>> by_turns = measure_balance(problem, {"a": (("t", 0),), "b": (("u", 0),)})
    >>> alternatives = [Alternative("range", by_range, ()), Alternative("roundrobin", by_turns, ())]
    >>> judge(by_range, "range", "exact", alternatives, is_consumer_protocol=False, least_spread=0)
    Verdict(cause=<Cause.BETTER_ELSEWHERE: 'better_elsewhere'>, better_strategy='roundrobin', better_gain=1.0)
    """
    if observed.imbalance_ratio is None or strategy == STREAMS:
        return None
    usable = [one for one in alternatives if could_use(strategy, one.strategy, is_consumer_protocol=is_consumer_protocol)]
    whole = [(one.strategy, one.balance) for one in usable if one.is_whole and one.balance is not None]
    measures = [
        (balance.imbalance_ratio, balance.gini, name)
        for name, balance in whole
        if balance.imbalance_ratio is not None and balance.gini is not None
    ]
    own = next((imbalance for imbalance, _, name in measures if name == strategy), observed.imbalance_ratio)
    best = min(measures, key=lambda measured: measured[:2], default=None)
    better = best if best is not None and best[0] < own else None
    is_compared = any(name != strategy for _, _, name in measures)
    if conformance == Conformance.DIFFERS:
        cause = Cause.UNEXPECTED
    elif better is not None:
        cause = Cause.BETTER_ELSEWHERE
    elif is_compared or _is_most_even(observed, least_spread):
        cause = Cause.INHERENT
    else:
        return None
    return Verdict(cause) if better is None else Verdict(cause, better[2], own - better[0])


def _is_most_even(observed: Balance, least_spread: int | None) -> bool:
    """Return whether no assignment has a smaller largest load: the least spread has the least maximum at its upper end."""
    most, least = observed.partitions_per_member_max, observed.partitions_per_member_min
    return most is not None and least is not None and least_spread is not None and most - least <= least_spread
