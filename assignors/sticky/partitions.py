"""Walking over all partitions of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from assignors.model import TopicPartition


def every_partition(topics: Iterable[tuple[str, int]]) -> Iterator[TopicPartition]:
    """Return all partitions of the topics, given with their partition counts, in their order.

    >>> list(every_partition([("t", 2), ("u", 1)]))
    [('t', 0), ('t', 1), ('u', 0)]
    """
    return chain.from_iterable(zip((topic,) * count, range(count), strict=True) for topic, count in topics)


def unmatched(every: Iterable[TopicPartition], kept: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return what Kafka takes for unassigned: it walks all partitions with one pointer into the kept ones.

    Both are in the same order. A kept partition that is never met, because its number does not exist or because it is kept
    twice, stops the pointer, and everything behind it counts as unassigned.

    >>> unmatched([("t", 0), ("t", 1), ("u", 0)], [("t", 1)])
    [('t', 0), ('u', 0)]
    >>> unmatched([("t", 0), ("t", 1), ("u", 0)], [("t", 0), ("t", 7), ("u", 0)])
    [('t', 1), ('u', 0)]
    """
    rest = iter(kept)
    awaited = next(rest, None)
    unassigned = []
    for partition in every:
        if partition == awaited:
            awaited = next(rest, None)
        else:
            unassigned.append(partition)
    return unassigned
