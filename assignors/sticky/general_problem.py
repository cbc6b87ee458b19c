"""What the sticky algorithm for differing subscriptions has to balance.

Source: ``AbstractStickyAssignor.GeneralAssignmentBuilder``, Kafka 3.0 and later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress

from assignors.model import Member, TopicPartition
from assignors.ordering import order_key, ranks
from assignors.sticky.claims import Claims, MemberData, stated
from assignors.sticky.partitions import every_partition, mark, unmarked_bytes, unmatched
from assignors.sticky.rack_info import RackInfo


@dataclass(slots=True)
class GeneralProblem:
    """What there is to balance; members by number, in map order.

    Attributes:
        walk: the member numbers in the order of Kafka's map of assignments.
        claimants: with whom that map is filled first, by ``computeIfAbsent``: the newest claimant of each partition in turn.
        returning: with whom it is filled next, by ``put``, before all others.
        ranks: each member's place by member id.
        partition_counts: existing topics.
        subscribers: topic -> its members, once for every time a member lists it.
        subscribed: for each member its existing topics in list order.
        max_sizes: for each member the most partitions it could have, as Kafka counts them.
        current: the claims that stand.
        owners: partition -> who claims it; a claim that was taken back leaves its entry.
        every: all partitions in the order in which they are looked at.
        unassigned: the partitions to place, in the order of ``every``.
        previous_owners: partition -> the member that had it in an older generation.
        is_revocation_required: a claim was taken back.
        is_told_apart: all partitions are known to be held or unassigned once, and held by their owners.
    """

    walk: Sequence[int]
    claimants: Sequence[int]
    returning: Sequence[int]
    ranks: list[int]
    partition_counts: Mapping[str, int]
    subscribers: dict[str, list[int]]
    subscribed: list[list[str]]
    max_sizes: list[int]
    current: list[list[TopicPartition]]
    owners: dict[TopicPartition, int]
    every: list[TopicPartition]
    unassigned: list[TopicPartition]
    previous_owners: dict[TopicPartition, int]
    is_revocation_required: bool
    is_told_apart: bool = False

    def is_regular(self) -> bool:
        """Return whether Kafka's accidents cannot show, so that its result has a faster equivalent.

        Every partition is held or unassigned once, and held by its owner; no topic is listed twice; previous owners still subscribe.
        """
        return (
            (self.is_told_apart or self._tells_apart())
            and all(len(topics) == len(set(topics)) for topics in self.subscribed)
            and all(
                topic not in self.partition_counts or topic in self.subscribed[owner] for (topic, _), owner in self.previous_owners.items()
            )
        )

    def _tells_apart(self) -> bool:
        """Return whether every partition is held or unassigned once, and held by its owner."""
        kept_count = sum(map(len, self.current))
        return kept_count + len(self.unassigned) == len(self.every) == len({*self.unassigned, *chain.from_iterable(self.current)}) and all(
            self.owners[partition] == member for member, held in enumerate(self.current) for partition in held
        )


def state_general_problem(
    members: Sequence[Member],
    walk: Sequence[int],
    data: Sequence[MemberData],
    partition_counts: Mapping[str, int],
    claims: Claims,
    racks: RackInfo,
) -> GeneralProblem:
    """Return the problem as Kafka 3.0 and later states it."""
    subscribed = [[topic for topic in member.topics if topic in partition_counts] for member in members]
    subscribers: dict[str, list[int]] = {topic: [] for topic in partition_counts}
    for number, topics in enumerate(subscribed):
        for topic in topics:
            subscribers[topic].append(number)
    owners = {partition: number for number, owned in enumerate(claims.owned) for partition in owned}

    current = []
    is_revocation_required = False
    for number, owned in enumerate(claims.owned):
        subscription = set(subscribed[number])
        kept = [partition for partition in owned if partition[0] in subscription]
        if racks.is_active:
            kept = racks.without_mismatches(number, kept)
        is_revocation_required = is_revocation_required or len(kept) < len(owned)
        current.append(kept)

    key = order_key(partition_counts)
    topic_keys = {topic: (len(subscribers[topic]), key(topic)) for topic in partition_counts}
    sorted_topics = sorted(partition_counts, key=topic_keys.__getitem__)
    every = list(every_partition((topic, partition_counts[topic]) for topic in sorted_topics))
    marks = mark(current, partition_counts)
    if marks is not None:
        unassigned = list(compress(every, unmarked_bytes(marks, sorted_topics)))
    else:
        kept = sorted(chain.from_iterable(current), key=lambda partition: (topic_keys[partition[0]], partition[1]))
        unassigned = unmatched(every, kept)
    return GeneralProblem(
        walk=walk,
        claimants=(),
        returning=(),
        ranks=ranks([member.member_id for member in members]),
        partition_counts=partition_counts,
        subscribers=subscribers,
        subscribed=subscribed,
        # A list as long as all existing topics counts as all of them, whatever is in it.
        max_sizes=[
            len(every) if len(topics) == len(partition_counts) else sum(map(partition_counts.__getitem__, topics)) for topics in subscribed
        ],
        current=current,
        owners=owners,
        every=every,
        unassigned=unassigned,
        previous_owners=_previous_owners(data),
        is_revocation_required=is_revocation_required,
        # Where claims have marks, each partition is claimed once, by its owner.
        is_told_apart=claims.marks is not None or not owners,
    )


def _previous_owners(data: Sequence[MemberData]) -> dict[TopicPartition, int]:
    """Return who had a partition in an older generation; the newest of these, the first in map order of equal ones."""
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
