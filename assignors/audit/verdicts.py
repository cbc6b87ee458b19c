"""The cause of an observed imbalance: the assignor, the subscriptions and partition counts, or neither."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from assignors.generation.balance import Balance
from assignors.generation.generation import SERVER_SIDE, STREAMS
from assignors.registry import BUILT_IN
from assignors.replay.conformance import Conformance


class Cause(str, Enum):
    """The cause of the loads of members.

    Attributes:
        INHERENT: no compared strategy that the group could use has a smaller imbalance, or no assignment has. So it comes from
            subscriptions and partition counts, as far as the comparison shows.
        BETTER_ELSEWHERE: another strategy that the group could use has a smaller imbalance.
        UNEXPECTED: the group's own assignor gives another assignment.
    """

    INHERENT = "inherent"
    BETTER_ELSEWHERE = "better_elsewhere"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Alternative:
    """The result of one strategy over its own history of the group.

    Attributes:
        balance: None if it has no result.
        violations: of its assignment; None if it has no result.
    """

    strategy: str
    balance: Balance | None
    violations: tuple[str, ...] | None

    @property
    def is_whole(self) -> bool:
        """Return whether every partition is given once, to a subscriber. Balance does not count."""
        return self.violations is not None and all(text.startswith("unbalanced ") for text in self.violations)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cause, and the best strategy.

    Attributes:
        better_strategy: the one with the smallest imbalance; None if none has a smaller one than the group's own. An
            unexpected assignment can have one too.
        better_gain: how much smaller its imbalance ratio is, above 0; None if ``better_strategy`` is.
    """

    cause: Cause
    better_strategy: str | None = None
    better_gain: float | None = None


def could_use(strategy: str, other: str, *, is_consumer_protocol: bool) -> bool:
    """Return whether a group could change to another assignor by settings, with the same clients and protocol.

    Members of a classic group run the clients' assignors. Brokers run their own for groups of the consumer protocol (KIP-848). An
    assignor that is not Kafka's may be for either. Kafka Streams has its own assignor and takes no other.

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
    """Return the verdict on a settled generation; None if there is none.

    Strategies are compared by the results of their own histories, the group's own strategy included. If that has no result, or is not
    one of ours, the observed assignment takes its place. The measure is the imbalance ratio: largest load / mean load.

    There is no verdict without members or partitions, and none on Kafka Streams, whose tasks these strategies do not assign. There is also
    none without another strategy to compare with, unless no assignment has a smaller imbalance.

    **Order**: of equal imbalances the smallest gini, then the order of the alternatives.

    Args:
        observed: of the group's assignment.
        strategy: the group's own.
        conformance: a ``Conformance`` value of the observed assignment; None if nothing was recomputed.
        alternatives: in the order of preference; those that are not whole, or that the group could not use, are ignored.
        is_consumer_protocol: the group uses the consumer protocol (KIP-848).
        least_spread: see ``least_movement.least_spread``; None if it is not known.

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
    """Return whether no assignment has a smaller largest load: the least spread has the smallest possible maximum."""
    most, least = observed.partitions_per_member_max, observed.partitions_per_member_min
    return most is not None and least is not None and least_spread is not None and most - least <= least_spread
