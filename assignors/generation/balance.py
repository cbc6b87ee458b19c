"""How evenly an assignment spreads partitions over the members of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from assignors.generation.holdings import Holdings
from assignors.generation.subscriptions import existing_partition_counts, foreign_entries, layout_of, subscribers_of, thread_id
from assignors.model import AssignmentMapping, GroupProblem, TopicPartition

_INT_SIGN = 1 << 31


@dataclass(frozen=True, slots=True)
class Balance:
    """The measures of one assignment. The columns of audits have the same names.

    The load of a member is the number of partitions in its list, or in the lists of all its threads. **All** members of the group count
    for minimum, maximum, mean, standard deviation, gini, imbalance ratio and balance score, even those that subscribe to nothing.

    Attributes:
        partition_count: distinct partitions with an owner.
        unassigned_count: existing partitions of subscribed topics without an owner, withheld ones included.
        multiply_owned_count: partitions with several owners.
        idle_member_count: members without partitions that subscribe to an existing topic.
        partitions_per_member_min, partitions_per_member_max, partitions_per_member_mean: of the loads; None without members.
        partitions_per_member_stddev: population standard deviation of the loads; None without members.
        imbalance_ratio: largest load / mean load, 1 is even; None without members or partitions.
        gini: 0 for equal loads, near 1 if one of many members has everything; None without members or partitions.
        topic_skew_max: the largest spread of the subscribers of one topic, within that topic; 0 without subscribed topics.
        balance_score: the sum of the load differences of all pairs of members, in 32-bit arithmetic that wraps around, as in
            Kafka's sticky assignors; 0 without members.
        rack_match_ratio: the share of partitions with a replica in their owner's rack, among those whose owner has a rack and whose
            replicas' racks are known; None if there are none.
    """

    partition_count: int
    unassigned_count: int
    multiply_owned_count: int
    idle_member_count: int
    partitions_per_member_min: int | None
    partitions_per_member_max: int | None
    partitions_per_member_mean: float | None
    partitions_per_member_stddev: float | None
    imbalance_ratio: float | None
    gini: float | None
    topic_skew_max: int
    balance_score: int
    rack_match_ratio: float | None


def measure_balance(problem: GroupProblem, assignment: AssignmentMapping) -> Balance:
    """Return the measures of one assignment.

    Complexity: linear in members, subscriptions and partitions, apart from sorting the loads.

    >>> from assignors.model import Member, Topic
    >>> problem = GroupProblem({"t": Topic(4)}, (Member("a", ("t",)), Member("b", ("t",))))
    >>> balance = measure_balance(problem, {"a": (("t", 0), ("t", 1), ("t", 2)), "b": ()})
    >>> balance.partitions_per_member_mean, balance.imbalance_ratio, balance.gini, balance.topic_skew_max
    (1.5, 2.0, 0.5, 3)
    >>> balance.partition_count, balance.unassigned_count, balance.idle_member_count, balance.balance_score
    (3, 1, 1, 3)
    """
    counts = existing_partition_counts(problem)
    subscribers = subscribers_of(problem)
    held = Holdings.of(assignment)
    owners = held.owners_in(layout_of(problem))
    by_member = _by_member(problem, held)
    is_in_full = len(by_member.owners) == len(problem.members)  # each member is an owner: the usual case
    loads = sorted(by_member.loads if is_in_full else (by_member.load(member.member_id) for member in problem.members))
    total, member_count = sum(loads), len(loads)
    pair_differences = sum(load * (2 * rank - member_count + 1) for rank, load in enumerate(loads))
    has_loads = total > 0
    return Balance(
        partition_count=owners.partition_count,
        unassigned_count=len(owners.free_of(counts)),
        multiply_owned_count=len(owners.multiply_owned),
        idle_member_count=_idle_count(subscribers, by_member) if loads and not loads[0] else 0,
        partitions_per_member_min=loads[0] if loads else None,
        partitions_per_member_max=loads[-1] if loads else None,
        partitions_per_member_mean=total / member_count if loads else None,
        partitions_per_member_stddev=_standard_deviation(loads, total) if loads else None,
        imbalance_ratio=loads[-1] * member_count / total if has_loads else None,
        gini=pair_differences / (member_count * total) if has_loads else None,
        topic_skew_max=max(topic_skews(subscribers, by_member).values(), default=0),
        balance_score=(pair_differences + _INT_SIGN) % (2 * _INT_SIGN) - _INT_SIGN,
        rack_match_ratio=_rack_match_ratio(problem, by_member),
    )


def _idle_count(subscribers: Mapping[frozenset[str], Sequence[str]], held: Holdings) -> int:
    return sum(1 for members in subscribers.values() for member_id in members if not held.load(member_id))


def topic_skews(subscribers: Mapping[frozenset[str], Sequence[str]], held: Holdings) -> dict[str, int]:
    """Return for each topic the difference between the most and the fewest of its partitions that a subscriber has.

    Args:
        subscribers: owners by the topics they subscribe to, as ``subscriptions.owners_by_topics`` gives them.
        held: partitions by owner; those of topics to which the owner does not subscribe are ignored.
    """
    subscriber_counts: Counter[str] = Counter()
    for topics, owners in subscribers.items():
        for topic in topics:
            subscriber_counts[topic] += len(owners)
    skews = dict.fromkeys(subscriber_counts, 0)
    topic_indices, lengths = held.entry_topics, held.lengths
    is_subscribed = _subscribed_entries(subscribers, held)
    if is_subscribed is not None:
        topic_indices, lengths = topic_indices[is_subscribed], lengths[is_subscribed]
    most, counts = np.zeros(len(held.topics), dtype=np.int64), np.bincount(topic_indices, minlength=len(held.topics))
    fewest = np.full(len(held.topics), np.iinfo(np.int64).max)
    np.maximum.at(most, topic_indices, lengths)
    np.minimum.at(fewest, topic_indices, lengths)
    for topic, high, low, count in zip(held.topics, most.tolist(), fewest.tolist(), counts.tolist(), strict=True):
        if count:
            skews[topic] = high - (low if count == subscriber_counts[topic] else 0)
    return skews


def _subscribed_entries(subscribers: Mapping[frozenset[str], Sequence[str]], held: Holdings) -> NDArray[np.bool_] | None:
    """Return a mask of the entries of topics to which their owner subscribes; None if these are all entries."""
    topics_of = {owner: topics for topics, owners in subscribers.items() for owner in owners}
    if not any(foreign_entries(held, topics_of)):
        return None
    return np.array([topic in topics_of.get(owner, ()) for owner, topic, _ in held.entries()], dtype=bool)


def _by_member(problem: GroupProblem, held: Holdings) -> Holdings:
    """Return each member's partitions, with those of its threads. Owners that are neither members nor threads are left out."""
    if {member.member_id for member in problem.members}.issuperset(held.owners):
        return held  # the usual case
    by_member: dict[str, tuple[TopicPartition, ...]] = {}
    for member in problem.members:
        threads = range(max((member.streams or {}).values(), default=0))
        owners = [member.member_id, *(thread_id(member, number) for number in threads)]
        by_member[member.member_id] = tuple(chain.from_iterable(held.get(owner, ()) for owner in owners))
    return Holdings.of(by_member)


def _standard_deviation(loads: Sequence[int], total: int) -> float:
    # Whole numbers up to the root: the result does not depend on the order of the loads.
    return sqrt(len(loads) * sum(load * load for load in loads) - total * total) / len(loads)


def _rack_match_ratio(problem: GroupProblem, held: Holdings) -> float | None:
    """Return the rack match ratio. As in Kafka, an empty ``client.rack`` is no rack, and a replica without a rack matches none."""
    racks_of = {name: topic.partition_racks for name, topic in problem.topics.items() if topic.partition_racks is not None}
    if not racks_of:
        return None
    matching = known = 0
    for member in problem.members:
        if not member.rack:
            continue
        for topic, partition in held.get(member.member_id, ()):
            racks = racks_of.get(topic, ())
            if 0 <= partition < len(racks) and any(rack is not None for rack in racks[partition]):
                known += 1
                matching += member.rack in racks[partition]
    return matching / known if known else None
