"""How evenly one assignment spreads partitions over a group's members."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import sqrt

from assignors.model import Assignment, GroupProblem, TopicPartition
from assignors.subscriptions import existing_partition_counts, owners_by_topics, subscriptions_of, thread_id

_INT_SIGN = 1 << 31


@dataclass(frozen=True, slots=True)
class Balance:
    """The measures of one assignment, as the columns of the same names.

    The load of a member is the number of partitions in its list, those of its threads together. **All** members of the group count
    for minimum, maximum, mean, standard deviation, gini, imbalance ratio and balance score, also those that subscribe to nothing.

    Attributes:
        partition_count: distinct partitions with an owner.
        unassigned_count: existing partitions of subscribed topics without an owner, withheld ones included.
        multiply_owned_count: partitions given out more than once.
        idle_member_count: members without partitions that subscribe to an existing topic.
        partitions_per_member_min, partitions_per_member_max, partitions_per_member_mean: of the loads; None without members.
        partitions_per_member_stddev: of the whole population; None without members.
        imbalance_ratio: largest load by mean load, 1 is even; None without members or partitions.
        gini: 0 for equal loads, nearing 1 when one of many members holds everything; None without members or partitions.
        topic_skew_max: the largest difference of two subscribers' counts within one topic; 0 without subscribed topics.
        balance_score: the sum of differences over all pairs of members in 32-bit arithmetic that wraps around, as Kafka's sticky
            assignors compute it; 0 without members.
        rack_match_ratio: the share of partitions with a replica in their owner's rack, of those whose owner has a rack and whose
            replicas' racks are known; None when there are none.
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


def measure_balance(problem: GroupProblem, assignment: Assignment) -> Balance:
    """Return every measure of balance of one assignment.

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
    subscribers = owners_by_topics(subscriptions_of(problem), counts)
    held = _held_by_member(problem, assignment)
    loads = sorted(map(len, held.values()))
    total, member_count = sum(loads), len(loads)
    pair_differences = sum(load * (2 * place - member_count + 1) for place, load in enumerate(loads))
    copies = Counter(place for partitions in assignment.values() for place in partitions)
    existing_owned_count = sum(1 for topic, partition in copies if 0 <= partition < counts.get(topic, 0))
    has_loads = total > 0
    return Balance(
        partition_count=len(copies),
        unassigned_count=sum(counts.values()) - existing_owned_count,
        multiply_owned_count=sum(1 for copy_count in copies.values() if copy_count > 1),
        idle_member_count=sum(1 for owners in subscribers.values() for owner in owners if not held[owner]),
        partitions_per_member_min=loads[0] if loads else None,
        partitions_per_member_max=loads[-1] if loads else None,
        partitions_per_member_mean=total / member_count if loads else None,
        partitions_per_member_stddev=_standard_deviation(loads, total) if loads else None,
        imbalance_ratio=loads[-1] * member_count / total if has_loads else None,
        gini=pair_differences / (member_count * total) if has_loads else None,
        topic_skew_max=max(topic_skews(subscribers, held).values(), default=0),
        balance_score=(pair_differences + _INT_SIGN) % (2 * _INT_SIGN) - _INT_SIGN,
        rack_match_ratio=_rack_match_ratio(problem, held),
    )


def topic_skews(subscribers: Mapping[frozenset[str], Sequence[str]], held: Mapping[str, Sequence[TopicPartition]]) -> dict[str, int]:
    """Return for each topic the difference between the most and the fewest of its partitions that one of its subscribers holds.

    Args:
        subscribers: owners by the topics they subscribe to, as ``subscriptions.owners_by_topics`` gives them.
        held: owner -> its partitions; those of topics to which the owner does not subscribe are ignored.
    """
    subscriber_counts: dict[str, int] = defaultdict(int)
    counts_by_topic: dict[str, list[int]] = defaultdict(list)
    for topics, owners in subscribers.items():
        for topic in topics:
            subscriber_counts[topic] += len(owners)
        for owner in owners:
            counts: dict[str, int] = defaultdict(int)
            for topic, _ in held.get(owner, ()):
                counts[topic] += 1
            for topic in counts.keys() & topics:
                counts_by_topic[topic].append(counts[topic])
    skews = dict.fromkeys(subscriber_counts, 0)
    for topic, counts_held in counts_by_topic.items():
        fewest = min(counts_held) if len(counts_held) == subscriber_counts[topic] else 0
        skews[topic] = max(counts_held) - fewest
    return skews


def _held_by_member(problem: GroupProblem, assignment: Assignment) -> dict[str, Sequence[TopicPartition]]:
    """Return each member's partitions, its threads' ones included; owners that are neither members nor threads are left out."""
    held: dict[str, Sequence[TopicPartition]] = {}
    for member in problem.members:
        threads = range(max((member.streams or {}).values(), default=0))
        owners = [member.member_id, *(thread_id(member, number) for number in threads)]
        held[member.member_id] = tuple(chain.from_iterable(assignment.get(owner, ()) for owner in owners))
    return held


def _standard_deviation(loads: Sequence[int], total: int) -> float:
    # Whole numbers up to the root: the same result whatever the order of the loads.
    return sqrt(len(loads) * sum(load * load for load in loads) - total * total) / len(loads)


def _rack_match_ratio(problem: GroupProblem, held: Mapping[str, Sequence[TopicPartition]]) -> float | None:
    """Return the rack match ratio; as in Kafka an empty ``client.rack`` is none, and a replica without a rack matches nobody's."""
    racks_of = {name: topic.partition_racks for name, topic in problem.topics.items() if topic.partition_racks is not None}
    if not racks_of:
        return None
    matching = known = 0
    for member in problem.members:
        if not member.rack:
            continue
        for topic, partition in held[member.member_id]:
            racks = racks_of.get(topic, ())
            if 0 <= partition < len(racks) and any(rack is not None for rack in racks[partition]):
                known += 1
                matching += member.rack in racks[partition]
    return matching / known if known else None
