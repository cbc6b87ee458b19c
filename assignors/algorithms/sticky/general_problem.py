"""The input of the sticky algorithm for different subscriptions.

Source: ``AbstractStickyAssignor.GeneralAssignmentBuilder``, Kafka 3.0 and later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress

from assignors.algorithms.sticky.claims import Claims, MemberData, stated
from assignors.algorithms.sticky.partitions import every_partition, mark, topic_of, unmarked_bytes, unmatched
from assignors.algorithms.sticky.rack_info import RackInfo
from assignors.java.ordering import order_key, ranks
from assignors.model import Member, TopicPartition


@dataclass(slots=True)
class GeneralProblem:
    """The problem to balance; members are numbers, in map order.

    Attributes:
        walk: the member numbers in the order of Kafka's map of assignments.
        claimants: the members with which that map is filled first, by ``computeIfAbsent``: the newest claimant of each partition.
        returning: the members with which it is filled next, by ``put``, before all others.
        ranks: the rank of each member by member id.
        partition_counts: existing topics.
        is_by_topic: ``every`` has the topics in the order of ``partition_counts``, and the partitions of each by number.
        subscribers: topic -> its members, each as often as it lists the topic.
        subscribed: for each member its existing topics in list order.
        current: the valid claims.
        owners: partition -> its claimant; a withdrawn claim keeps its entry. None if all members own what they claim, each partition is
            claimed at most once, and all unclaimed partitions are to be assigned.
        every: all partitions in the order in which they are visited.
        unassigned: the partitions to assign, in the order of ``every``.
        previous_owners: partition -> the member that had it in an older generation.
        is_revocation_required: a claim was withdrawn.
        counts_lists: a list as long as the list of all existing topics counts as all of them, with any content.
    """

    walk: Sequence[int]
    claimants: Sequence[int]
    returning: Sequence[int]
    ranks: list[int]
    partition_counts: Mapping[str, int]
    subscribers: dict[str, list[int]]
    subscribed: Sequence[Sequence[str]]
    current: Sequence[Sequence[TopicPartition]]
    owners: dict[TopicPartition, int] | None
    every: list[TopicPartition]
    unassigned: list[TopicPartition]
    previous_owners: dict[TopicPartition, int]
    is_revocation_required: bool
    counts_lists: bool = False
    is_by_topic: bool = False

    def max_size(self, member: int) -> int:
        """Return the most partitions that the member can have, as Kafka counts them."""
        topics = self.subscribed[member]
        if self.counts_lists and len(topics) == len(self.partition_counts):
            return len(self.every)
        return sum(map(self.partition_counts.__getitem__, topics))

    def is_regular(self) -> bool:
        """Return whether Kafka's anomalies cannot occur, so that its result can be computed faster.

        Every partition is held or unassigned once, and held by its owner; no topic is listed twice; previous owners still subscribe.
        """
        return (
            (self.owners is None or self._is_owner_known(self.owners))
            and sum(map(len, self.subscribers.values())) == sum(map(len, map(set, self.subscribers.values())))
            and all(
                topic not in self.partition_counts or topic in self.subscribed[owner] for (topic, _), owner in self.previous_owners.items()
            )
        )

    def _is_owner_known(self, owners: Mapping[TopicPartition, int]) -> bool:
        """Return whether every partition is held or unassigned once, and held by its owner."""
        kept_count = sum(map(len, self.current))
        return kept_count + len(self.unassigned) == len(self.every) == len({*self.unassigned, *chain.from_iterable(self.current)}) and all(
            owners[partition] == member for member, held in enumerate(self.current) for partition in held
        )


def state_general_problem(
    members: Sequence[Member],
    walk: Sequence[int],
    data: Sequence[MemberData],
    partition_counts: Mapping[str, int],
    claims: Claims,
    racks: RackInfo,
) -> GeneralProblem:
    """Return the problem as Kafka 3.0 and later build it."""
    existing = frozenset(partition_counts)
    subscribed = [
        member.topics if existing.issuperset(member.topics) else list(filter(existing.__contains__, member.topics)) for member in members
    ]
    subscribers = subscribers_by_topic(partition_counts, subscribed)
    key = order_key(partition_counts)
    topic_keys = {topic: (len(subscribers[topic]), key(topic)) for topic in partition_counts}
    sorted_topics = sorted(partition_counts, key=topic_keys.__getitem__)
    every = list(every_partition((topic, partition_counts[topic]) for topic in sorted_topics))

    current: list[Sequence[TopicPartition]] = [()] * len(members)
    is_revocation_required = False
    for number, owned in enumerate(claims.owned):
        if not owned:
            continue
        kept, subscription = owned, set(subscribed[number])
        if not subscription.issuperset(map(topic_of, owned)):
            kept = [partition for partition in owned if partition[0] in subscription]
        if racks.is_active:
            kept = racks.without_mismatches(number, kept)
        is_revocation_required = is_revocation_required or len(kept) < len(owned)
        current[number] = kept

    is_fresh = not any(claims.owned)
    marks = claims.marks if claims.marks is not None and not is_revocation_required else mark(current, partition_counts)
    if is_fresh:
        unassigned = every
    elif marks is not None:
        unassigned = list(compress(every, unmarked_bytes(marks, sorted_topics)))
    else:
        all_kept = sorted(chain.from_iterable(current), key=lambda partition: (topic_keys[partition[0]], partition[1]))
        unassigned = unmatched(every, all_kept)
    return GeneralProblem(
        walk=walk,
        claimants=(),
        returning=(),
        ranks=ranks([member.member_id for member in members]),
        partition_counts={topic: partition_counts[topic] for topic in sorted_topics},
        subscribers=subscribers,
        subscribed=subscribed,
        current=current,
        # If claims have marks, each partition is claimed once, by its owner.
        owners=None if is_fresh or claims.marks is not None else claimants(claims.owned),
        every=every,
        unassigned=unassigned,
        previous_owners=_previous_owners(data),
        is_revocation_required=is_revocation_required,
        counts_lists=True,
        is_by_topic=True,
    )


def claimants(owned: Sequence[Sequence[TopicPartition]]) -> dict[TopicPartition, int]:
    """Return partition -> its claimant; of two the later one."""
    return {partition: number for number, claims in enumerate(owned) for partition in claims}


def _previous_owners(data: Sequence[MemberData]) -> dict[TopicPartition, int]:
    """Return partition -> its owner in an older generation: the newest of these; of equal ones the first in map order."""
    generations = [stated(generation) for _, generation in data]
    highest = max(generations)
    owners: dict[TopicPartition, int] = {}
    for number, ((claims, _), generation) in enumerate(zip(data, generations, strict=True)):
        if generation == highest:
            continue
        for partition in claims:
            if partition not in owners or generation > generations[owners[partition]]:
                owners[partition] = number
    return owners


def subscribers_by_topic(topics: Iterable[str], subscribed: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """Return topic -> the numbers of the members that subscribe to it, ascending; topics in their order.

    Args:
        subscribed: by member number, some of ``topics``.
    """
    subscribers: dict[str, list[int]] = {topic: [] for topic in topics}
    for number, own_topics in enumerate(subscribed):
        for topic in own_topics:
            subscribers[topic].append(number)
    return subscribers
