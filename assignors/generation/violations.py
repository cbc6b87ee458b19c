"""The check of every assignment: valid, exclusive, complete, only known members, and as balanced as its strategy promises.

Kafka's own check (``verifyValidityAndBalance`` of its tests) ignores partitions without an owner, and Kafka has no check in
production. Evenkeel checks every assignment, observed or computed, so that a wrong one is not reported as good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assignors.generation.balance import topic_skews
from assignors.generation.generation import COOPERATIVE
from assignors.generation.holdings import Holdings, Owners
from assignors.generation.subscriptions import (
    Subscriptions,
    existing_partition_counts,
    foreign_entries,
    layout_of,
    owners_by_topics,
    subscriptions_of,
    thread_subscriptions_of,
)
from assignors.java.ordering import java_order, sort_strings
from assignors.model import AssignmentMapping, GroupProblem, TopicPartition

CODES = ("unknown_member", "not_existing", "not_subscribed", "multiply_owned", "unassigned", "unbalanced")
"""All codes of ``violations``, in the order of its result."""

_EVEN_WITHIN_EACH_TOPIC = frozenset({"range", "server-range", "legacy-range"})
_EVEN_WHEN_SUBSCRIPTIONS_ARE_EQUAL = frozenset({"roundrobin", "uniform", "legacy-roundrobin"})
_NOTHING_LEFT_TO_EVEN_OUT = frozenset({"sticky", "cooperative-sticky"})


def violations(problem: GroupProblem, assignment: AssignmentMapping, strategy: str | None = None) -> tuple[str, ...]:
    """Return the errors of an assignment, each a code with its place; an empty tuple if there are none.

    ========================== ==============================================================================================
    ``unknown_member c9``      the owner is neither a member nor a thread of one
    ``not_existing t-7``       an owner was given a partition that does not exist
    ``not_subscribed t-0 c1``  ``c1`` was given a partition of a topic to which it does not subscribe
    ``multiply_owned t-0``     the partition was given more than once, to one owner or to several
    ``unassigned t-0``         the partition exists, a member subscribes to its topic, and nobody was given it
    ``unbalanced t``           with a strategy: the subscribers of ``t`` have less balance than it promises
    ========================== ==============================================================================================

    What each strategy promises:

    * ``range``, ``server-range``, ``legacy-range``: within each topic the counts of its subscribers differ by at most one.
    * ``roundrobin``, ``uniform``, ``legacy-roundrobin``: if all members with existing topics subscribe to the same ones, their
      loads differ by at most one. With different subscriptions they promise nothing.
    * ``sticky``, ``cooperative-sticky`` (KIP-54): no partition could go to a subscriber that has at least two fewer.
    * any other name: nothing.

    A partition that ``cooperative-sticky`` or Kafka Streams' ``stream`` withholds is not unassigned, and what the withheld
    partitions can still even out is not unbalanced. Any owner counts: a partition of an unknown member is not also
    unassigned.

    Order: by code as in ``CODES``, then by owner, topic and partition in Java's order.
    Complexity: linear in members, subscriptions, claims and partitions.

    >>> from assignors.model import Member, Topic
    >>> problem = GroupProblem({"t": Topic(3)}, (Member("a", ("t",)), Member("b", ("t",))))
    >>> violations(problem, {"a": (("t", 0), ("t", 1)), "b": (("t", 2),)}, "range")
    ()
    >>> violations(problem, {"a": (("t", 0), ("t", 1)), "c": (("t", 1),)}, "range")
    ('unknown_member c', 'multiply_owned t-1', 'unassigned t-2', 'unbalanced t')
    """
    members = subscriptions_of(problem)
    threads = thread_subscriptions_of(problem)
    counts = existing_partition_counts(problem)
    held = Holdings.of(assignment)
    owners = held.owners_in(layout_of(problem))
    strangers = [owner for owner in held.owners if owner not in members and owner not in threads]
    foreign: dict[str, set[str]] = {}
    for owner, topic in foreign_entries(held, {**threads, **members}):
        if owner in members or owner in threads:
            foreign.setdefault(owner, set()).add(topic)
    not_subscribed = {
        (topic_partition, owner) for owner, topics in foreign.items() for topic_partition in held[owner] if topic_partition[0] in topics
    }
    withheld = withheld_partitions(problem, held) if strategy in COOPERATIVE else frozenset()
    missing = _missing(problem, owners) - withheld
    claimants = threads if strategy is not None and strategy.startswith("legacy-") else members
    return (
        *(f"unknown_member {owner}" for owner in sort_strings(strangers)),
        *(f"not_existing {topic}-{partition}" for topic, partition in _sorted(owners.strays)),
        *(f"not_subscribed {topic}-{partition} {owner}" for (topic, partition), owner in sorted(not_subscribed, key=_order)),
        *(f"multiply_owned {topic}-{partition}" for topic, partition in _sorted(owners.repeated)),
        *(f"unassigned {topic}-{partition}" for topic, partition in _sorted(missing)),
        *(f"unbalanced {topic}" for topic in _unbalanced(strategy, claimants, counts, held, len(withheld))),
    )


def withheld_partitions(problem: GroupProblem, assignment: AssignmentMapping) -> frozenset[TopicPartition]:
    """Return the partitions that a cooperative result withholds: claimed by a member and given to nobody, although they could be.

    A partition can be given if it exists and a member subscribes to its topic. The claimant gives it up when it gets the result,
    and the next rebalance hands it over (KIP-429). Only results of cooperative assignors have withheld partitions.

    >>> from assignors.model import Member, Topic
    >>> claims = Member("a", ("t",), owned=(("t", 0), ("t", 1)))
    >>> problem = GroupProblem({"t": Topic(3)}, (claims, Member("b", ("t",))))
    >>> sorted(withheld_partitions(problem, {"a": (("t", 0),), "b": ()}))
    [('t', 1)]
    """
    missing = _missing(problem, Holdings.of(assignment).owners_in(layout_of(problem)))
    if not missing:
        return frozenset()
    return frozenset(partition for member in problem.members for partition in member.owned if partition in missing)


def _missing(problem: GroupProblem, owners: Owners) -> set[TopicPartition]:
    """Return the existing partitions of subscribed topics that nobody was given."""
    return set(owners.layout.partitions(owners.free_of(existing_partition_counts(problem))))


def _unbalanced(
    strategy: str | None, subscriptions: Subscriptions, counts: Mapping[str, int], held: Holdings, withheld_count: int
) -> list[str]:
    """Return the topics whose subscribers have less balance than the strategy promises, in Java's order."""
    subscribers = owners_by_topics(subscriptions, counts)
    if strategy in _EVEN_WITHIN_EACH_TOPIC:
        uneven = [topic for topic, skew in topic_skews(subscribers, held).items() if skew > 1]
    elif strategy in _NOTHING_LEFT_TO_EVEN_OUT or (strategy in _EVEN_WHEN_SUBSCRIPTIONS_ARE_EQUAL and len(subscribers) == 1):
        uneven = _uneven_loads(subscribers, held, withheld_count)
    else:
        return []
    return sort_strings(uneven)


def _uneven_loads(subscribers: Mapping[frozenset[str], list[str]], held: Holdings, withheld_count: int) -> list[str]:
    """Return the topics with a partition whose owner has at least two more than another subscriber, withheld partitions considered.

    Withheld partitions will have an owner later. So a topic counts only if all of them together cannot lift its subscribers to one
    below the most loaded owner. For equal subscriptions that is exact; for different ones it gives no false violation.
    """
    least: dict[str, int] = {}
    for topics, owners in subscribers.items():
        lowest = min(map(held.load, owners))
        for topic in topics:
            least[topic] = min(lowest, least.get(topic, lowest))
    if max(held.loads, default=0) - min(least.values(), default=0) <= 1:
        return []  # the usual case
    most: dict[str, int] = {}
    for owner, topic, _ in held.entries():
        if topic in least:
            most[topic] = max(held.load(owner), most.get(topic, 0))
    uneven = [topic for topic in most if most[topic] - least[topic] > 1]
    if not withheld_count:
        return uneven
    return [topic for topic in uneven if _shortfall(topic, most[topic] - 1, subscribers, held) > withheld_count]


def _shortfall(topic: str, level: int, subscribers: Mapping[frozenset[str], list[str]], held: Holdings) -> int:
    """Return how many partitions are needed to lift every subscriber of the topic to the level."""
    loads = (held.load(owner) for topics, owners in subscribers.items() if topic in topics for owner in owners)
    return sum(max(0, level - load) for load in loads)


def _sorted(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return sorted(partitions, key=lambda partition: (java_order(partition[0]), partition[1]))


def _order(found: tuple[TopicPartition, str]) -> tuple[bytes, int, bytes]:
    (topic, partition), owner = found
    return java_order(topic), partition, java_order(owner)
