"""Whether racks affect an assignment (KIP-881), and the racks of a partition's replicas.

Source: ``AbstractPartitionAssignor.useRackAwareAssignment``, Kafka 3.5 and later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from assignors.model import Topic


def partition_racks(topic: Topic) -> list[frozenset[str]]:
    """Return for each partition the racks with a replica. A replica on a broker without a rack adds none.

    An empty string is a rack here, but not for a consumer.
    """
    if topic.partition_racks is None:
        return [frozenset()] * (topic.partition_count or 0)
    # Few sets of brokers have many partitions. To make each set once takes a tenth of the time.
    known = {racks: frozenset(rack for rack in racks if rack is not None) for racks in set(topic.partition_racks)}
    return list(map(known.__getitem__, topic.partition_racks))


def is_rack_aware(consumer_racks: Iterable[str], racks_of_partitions: Collection[frozenset[str]]) -> bool:
    """Return whether racks can affect the assignment: a consumer and a partition share a rack, and not every partition is in all racks.

    >>> everywhere, only_a = frozenset("ab"), frozenset("a")
    >>> [is_rack_aware(*case) for case in (({"a"}, [everywhere, only_a]), ({"a"}, [everywhere]), ({"c"}, [everywhere, only_a]))]
    [True, False, False]
    """
    all_racks = frozenset().union(*racks_of_partitions)
    if all_racks.isdisjoint(consumer_racks):
        return False
    return any(racks != all_racks for racks in racks_of_partitions)
