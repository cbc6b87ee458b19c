"""The general problem as releases before 3.0 build it, partition by partition.

Up to 2.5.0 there is no other algorithm. 0.11 to 2.2 have no generations: a member that claims a partition has it. From 2.3 on the newest
claim counts, and the second newest gives the previous owner (KIP-341). The claims then have the order of a hash map of partitions, so the
lists of these releases look shuffled.

Source: ``StickyAssignor`` of 0.11 to 2.3, ``AbstractStickyAssignor`` of 2.4 to 2.8. Differs from source: partitions of different
topics with equal hash codes in a bucket of nine or more keep insertion order; Java orders them by identity.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise

from assignors.algorithms.releases import ClientBehaviour
from assignors.algorithms.sticky.claims import MemberData, stated
from assignors.algorithms.sticky.general_problem import GeneralProblem, subscribers_by_topic
from assignors.algorithms.sticky.partitions import every_partition
from assignors.java.ordering import computed_hash_map_order, hash_map_order, order_key, ranks, topic_partition_hash
from assignors.model import KafkaAssignorError, Member, TopicPartition


def state_early_general_problem(
    members: Sequence[Member], data: Sequence[MemberData], partition_counts: Mapping[str, int], behaviour: ClientBehaviour
) -> GeneralProblem:
    """Return the problem as the release builds it.

    Args:
        members: in map order.
        data: their claims and generations.
        partition_counts: existing topics, in the order of Kafka's map of them.
        behaviour: behaviour of the release.

    Raises:
        KafkaAssignorError: ``NoSuchElementException`` without members, and before 2.3 with user data but without partitions;
            ``NullPointerException`` before 2.3 on a subscribed topic without metadata.
    """
    if not members:
        raise KafkaAssignorError("NoSuchElementException", "a group without members has no last member")
    if not behaviour.tolerates_missing_topics and any(topic not in partition_counts for member in members for topic in member.topics):
        raise KafkaAssignorError("NullPointerException", "a subscribed topic has no metadata")
    member_ids = [member.member_id for member in members]
    subscribed = [[topic for topic in member.topics if topic in partition_counts] for member in members]
    subscribers = subscribers_by_topic(partition_counts, subscribed)

    if behaviour.reads_generation:
        claimed, previous_owners, claimants = _newest_claims(data)
        returning: list[int] = []
        map_order = computed_hash_map_order(map(member_ids.__getitem__, claimants), puts=member_ids)
    else:
        claimed, previous_owners, claimants = [list(claims) for claims, _ in data], {}, []
        returning = [number for number, member in enumerate(members) if member.user_data]
        if returning and not partition_counts:
            raise KafkaAssignorError("NoSuchElementException", "there are previous assignments, but no partitions")
        map_order = hash_map_order([*map(member_ids.__getitem__, returning), *member_ids])
    # The map of assignments is filled first with the members that had one.
    is_fresh = not (claimants or returning)
    numbers = {member_id: number for number, member_id in enumerate(member_ids)}
    walk = [numbers[member_id] for member_id in map_order]
    owners = {partition: number for number in walk for partition in claimed[number]}

    rank = ranks(member_ids)
    if behaviour.has_constrained_path or is_fresh or not _are_subscriptions_identical(subscribers, subscribed):
        key = order_key(partition_counts)
        topics = sorted(partition_counts, key=lambda topic: (len(subscribers[topic]), key(topic)))
        every = list(every_partition((topic, partition_counts[topic]) for topic in topics))
    else:
        every = _partitions_by_holder(claimed, previous_owners, partition_counts, walk, rank)
    existing = set(every)
    current: list[list[TopicPartition]] = [[] for _ in members]
    kept: dict[TopicPartition, int] = {}
    is_revocation_required = False
    for number in walk:
        subscription = set(members[number].topics)
        for partition in claimed[number]:
            if partition not in existing:
                owners.pop(partition, None)
            elif partition[0] not in subscription:
                is_revocation_required = True
            else:
                current[number].append(partition)
                kept[partition] = kept.get(partition, 0) + 1
    unassigned = []
    for partition in every:
        if kept.get(partition, 0):
            kept[partition] -= 1
        else:
            unassigned.append(partition)

    return GeneralProblem(
        walk=walk,
        claimants=claimants,
        returning=returning,
        ranks=rank,
        partition_counts=partition_counts,
        subscribers=subscribers,
        subscribed=subscribed,
        current=current,
        owners=owners,
        every=every,
        unassigned=unassigned,
        previous_owners=previous_owners,
        is_revocation_required=is_revocation_required,
    )


def _newest_claims(data: Sequence[MemberData]) -> tuple[list[list[TopicPartition]], dict[TopicPartition, int], list[int]]:
    """Return each member's claims of partitions that nobody claims in a newer generation, the second newest claimants, and the newest
    claimant of each partition in the order in which Kafka iterates the partitions.
    """
    claimants: dict[TopicPartition, dict[int, int]] = {}
    for number, (claims, generation) in enumerate(data):
        for partition in claims:
            by_generation = claimants.setdefault(partition, {})
            # Within a generation the first claimant counts; without a generation, the last.
            if generation is None or generation not in by_generation:
                by_generation[stated(generation)] = number
    claimed: list[list[TopicPartition]] = [[] for _ in data]
    previous_owners: dict[TopicPartition, int] = {}
    newest_claimants = []
    for partition in _partition_map_order(claimants):
        newest, *older = sorted(claimants[partition], reverse=True)
        newest_claimants.append(claimants[partition][newest])
        claimed[claimants[partition][newest]].append(partition)
        if older:
            previous_owners[partition] = claimants[partition][older[0]]
    return claimed, previous_owners, newest_claimants


def _partition_map_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return hash_map_order(partitions, lambda partition: topic_partition_hash(*partition), lambda partition: 0)


def _are_subscriptions_identical(subscribers: Mapping[str, Sequence[int]], subscribed: Sequence[Sequence[str]]) -> bool:
    """Return whether all topics have the same subscribers and all members the same topics."""
    return all(set(one) == set(other) for one, other in chain(pairwise(subscribers.values()), pairwise(subscribed)))


def _partitions_by_holder(
    claimed: Sequence[Sequence[TopicPartition]],
    previous_owners: Mapping[TopicPartition, int],
    partition_counts: Mapping[str, int],
    walk: Sequence[int],
    rank: Sequence[int],
) -> list[TopicPartition]:
    """Return all partitions: one at a time from the largest member, those with a previous owner first; unclaimed ones last."""
    every = list(every_partition(partition_counts.items()))
    existing = set(every)
    remaining = {number: [partition for partition in claimed[number] if partition in existing] for number in walk}
    returnable = _partition_map_order(previous_owners)
    result = []
    queue = sorted((len(partitions), rank[number], number) for number, partitions in remaining.items())
    while queue:
        number = queue.pop()[2]
        mine = remaining[number]
        if not mine:
            continue
        partition = next((partition for partition in returnable if partition in mine), mine[0])
        mine.remove(partition)
        result.append(partition)
        insort(queue, (len(mine), rank[number], number))
    listed = set(result)
    return result + [partition for partition in _partition_map_order(every) if partition not in listed]
