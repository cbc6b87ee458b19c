"""Functions over all partitions of a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, count, repeat, starmap
from operator import itemgetter
from typing import Any

from assignors.java.cache import partitions_of
from assignors.model import TopicPartition

topic_of: Callable[[TopicPartition], str] = itemgetter(0)
by_number = itemgetter(1)
"""A sort key: a partition's number."""


def every_partition(topics: Iterable[tuple[str, int]]) -> Iterator[TopicPartition]:
    """Yield all partitions of the topics, which are given with their partition counts, in their order.

    >>> list(every_partition([("t", 2), ("u", 1)]))
    [('t', 0), ('t', 1), ('u', 0)]
    """
    return chain.from_iterable(starmap(partitions_of, topics))


def deal_hands(every: Sequence[TopicPartition], member_count: int) -> list[tuple[TopicPartition, ...]]:
    """Return the partitions of each member if all are given in turn: each gets every n-th one.

    >>> deal_hands((("t", 0), ("t", 1), ("t", 2)), 2)
    [(('t', 0), ('t', 2)), (('t', 1),)]
    """
    return [tuple(every[index::member_count]) for index in range(member_count)]


def picker(indices: Sequence[int]) -> Callable[[Sequence[Any]], Any]:
    """Return a function that returns the items at these places, of which there is one at least; in C, in a third of the time of a loop.

    >>> picker([2, 0])("abc"), picker([1])(("a", "b"))
    (('c', 'a'), ('b',))
    """
    return itemgetter(*indices) if len(indices) > 1 else itemgetter(slice(indices[0], indices[0] + 1))


def mark(holdings: Collection[Sequence[TopicPartition]], partition_counts: Mapping[str, int]) -> dict[str, bytearray] | None:
    """Return topic -> one byte per partition, set if it is held; None if a partition is held twice or does not exist.

    Bytes are ten times smaller and several times faster than a set of a million partitions.

    >>> mark([[("t", 1)], []], {"t": 3})
    {'t': bytearray(b'\\x00\\x01\\x00')}
    >>> mark([[("t", 1)], [("t", 1)]], {"t": 3}), mark([[("t", 7)]], {"t": 3}), mark([[("t", -1)]], {"t": 3})
    (None, None, None)
    """
    marks = {topic: bytearray(partition_count) for topic, partition_count in partition_counts.items()}
    try:
        for topic, number in chain.from_iterable(holdings):
            if number < 0:
                return None
            marks[topic][number] = 1
    except LookupError:
        return None
    # A count at the end takes a tenth less time than a check before each mark.
    return marks if sum([row.count(1) for row in marks.values()]) == sum(map(len, holdings)) else None


def unmarked(marks: Mapping[str, bytearray], topics: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions that are not marked, by topic as given and number.

    >>> unmarked({"t": bytearray(b"\\x00\\x01\\x00")}, ["t"])
    [('t', 0), ('t', 2)]
    """
    return list(chain.from_iterable(map(_unmarked_of, topics, map(marks.__getitem__, topics))))


def unmarked_bytes(marks: Mapping[str, bytearray], topics: Sequence[str]) -> bytes:
    """Return one byte per partition, by topic as given and number, set if it is not marked.

    >>> unmarked_bytes({"t": bytearray(b"\\x00\\x01\\x00")}, ["t"])
    b'\\x01\\x00\\x01'
    """
    return b"".join(map(marks.__getitem__, topics)).translate(_FLIPPED)


def _unmarked_of(topic: str, row: bytearray) -> Iterable[TopicPartition]:
    # Selection in C takes a fifth of the time of a loop; most topics have nothing to select.
    return () if all(row) else compress(zip(repeat(topic), count()), row.translate(_FLIPPED))


_FLIPPED = bytes([1]) + bytes(255)


def unmatched(every: Iterable[TopicPartition], kept: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that Kafka treats as unassigned: it iterates all partitions with one pointer into the kept ones.

    Both are in the same order. A kept partition that never matches, because its number does not exist or because it is kept
    twice, stops the pointer. Then all later partitions count as unassigned.

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
