"""An assignment in columns, which makes audits of large groups fast.

An assignment of tuples costs a hash of every partition each time it is read. Columns are read as a whole: partitions have numbers
(``Layout``), and an array has the owner of each number (``Owners``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assignors.java.ordering import sort_strings
from assignors.model import Topic, TopicPartition

NOBODY = -1
"""The owner of a partition without an owner."""

Integers = NDArray[np.signedinteger[Any]]
"""Whole numbers: of 32 bits from a table, else of 64 bits."""


class Layout:
    """Numbers for the partitions of topics, from 0: by topic in Java's order, then by partition.

    Attributes:
        sizes: topic -> the number of its partitions, at least 1; topics in Java's order.
        topic_index: topic -> its index among the topics.
        counts: the sizes, and a last 0 for topics that are not here; shape (topics + 1,).
        starts: the number of each topic's first partition, and the number of all at the end; shape (topics + 1,).
        size: the number of partitions.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = {topic: sizes[topic] for topic in sort_strings(sizes)}
        self.topic_index = {topic: index for index, topic in enumerate(self.sizes)}
        self.counts = np.array([*self.sizes.values(), 0], dtype=np.int64)
        self.starts = _bounds(self.counts[:-1])
        self.size = int(self.starts[-1])

    @classmethod
    def of(cls, *topics: Mapping[str, Topic]) -> Layout:
        """Return a layout of the topics with partitions in any argument. For a topic in several, the largest partition count is used."""
        sizes: dict[str, int] = {}
        for side in topics:
            for name, topic in side.items():
                count = topic.partition_count or 0
                if count > sizes.get(name, 0):
                    sizes[name] = count
        return cls(sizes)

    def is_like(self, other: Layout) -> bool:
        """Return whether the other layout gives every partition the same number."""
        return self is other or self.sizes == other.sizes

    def number(self, topic_partition: TopicPartition) -> int | None:
        """Return the number of a partition; None if the layout does not have it."""
        topic, partition = topic_partition
        if not 0 <= partition < self.sizes.get(topic, 0):
            return None
        return int(self.starts[self.topic_index[topic]]) + partition

    def partitions(self, numbers: NDArray[np.int64]) -> Iterator[TopicPartition]:
        """Yield the partitions of these numbers."""
        yield from zip(*self.columns(numbers), strict=True)

    def columns(self, numbers: NDArray[np.int64]) -> tuple[Iterator[str], list[int]]:
        """Return the topics of these numbers, and the partitions within them."""
        names, topic_indices = list(self.sizes), self.topic_indices(numbers)
        return map(names.__getitem__, topic_indices.tolist()), (numbers - self.starts[topic_indices]).tolist()

    def topic_indices(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of the topic of each number. Topics have partitions, so no two begin at the same number."""
        return np.searchsorted(self.starts, numbers, side="right") - 1


@dataclass(frozen=True, slots=True)
class Owners:
    """The owners of the partitions of a layout.

    Attributes:
        layout: the numbers of the partitions.
        first: for each number the index of its owner among those of the holdings, ``NOBODY`` without one; of several one of them.
        free: the numbers of the partitions without an owner.
        shared: partition of the layout with several owners -> all of these in their order.
        strays: partition that is not in the layout -> its owners.
        repeated: the partitions that were given more than once, to several owners or to one.
    """

    layout: Layout
    first: NDArray[np.int32]
    free: NDArray[np.int64]
    shared: Mapping[TopicPartition, tuple[int, ...]]
    strays: Mapping[TopicPartition, tuple[int, ...]]
    repeated: Sequence[TopicPartition]

    def free_of(self, topics: Collection[str]) -> NDArray[np.int64]:
        """Return the numbers of the partitions of these topics that nobody owns."""
        if not self.free.size or self.layout.sizes.keys() <= set(topics):
            return self.free
        is_wanted = np.fromiter((topic in topics for topic in self.layout.sizes), bool, len(self.layout.sizes))
        free: NDArray[np.int64] = self.free[is_wanted[self.layout.topic_indices(self.free)]]
        return free

    def parted(self, topic: str, other: str) -> list[int]:
        """Return the partition numbers with different owners in two topics of the layout; both topics are of one size.

        Partitions that nobody owns are left out.
        """
        starts, index = self.layout.starts, self.layout.topic_index
        one, two = (self.first[starts[index[name]] : starts[index[name] + 1]] for name in (topic, other))
        parted: list[int] = np.flatnonzero((one != two) & (one != NOBODY) & (two != NOBODY)).tolist()
        return parted

    @property
    def multiply_owned(self) -> list[TopicPartition]:
        """Return the partitions with several owners. A partition that one owner was given twice has one owner."""
        return [*self.shared, *(partition for partition, owners in self.strays.items() if len(owners) > 1)]

    @property
    def partition_count(self) -> int:
        """Return the number of partitions with an owner, strays included."""
        return self.layout.size - len(self.free) + len(self.strays)


class Holdings(Mapping[str, tuple[TopicPartition, ...]]):
    """An assignment in columns. As a mapping it gives tuples; the topics of an owner are in the order of their first appearance.

    An entry is the partitions of one owner and one topic.

    Attributes:
        owners: in the assignment's order.
        topics: the topics that occur.
        loads: for each owner the number of its partitions, repeats included.
        entry_counts: for each owner the number of its entries; shape (owners,).
        entry_topics: for each entry the index of its topic; shape (entries,).
        lengths: for each entry the number of its partitions; shape (entries,).
        partitions: those of all entries, one entry after the other.
    """

    def __init__(
        self,
        owners: Sequence[str],
        topics: Sequence[str],
        entry_counts: NDArray[np.int64],
        entry_topics: NDArray[np.int64],
        lengths: Integers,
        partitions: Integers,
    ) -> None:
        self.owners = owners
        self.topics = topics
        self.entry_counts = entry_counts
        self.entry_topics = entry_topics
        self.lengths = lengths
        self.partitions = partitions
        entry_bounds = _bounds(entry_counts)
        self._entry_ends = entry_bounds[1:]
        self._bounds = _bounds(lengths)[entry_bounds]
        self._load_column = self._bounds[1:] - self._bounds[:-1]
        self.loads: list[int] = self._load_column.tolist()
        self._owner_index = {owner: index for index, owner in enumerate(owners)}
        self._owners: Owners | None = None

    @classmethod
    def of(cls, assignment: Mapping[str, Sequence[TopicPartition]]) -> Holdings:
        """Return an assignment in columns: the argument if it is one already."""
        if isinstance(assignment, cls):
            return assignment
        names: dict[str, int] = {}
        entry_counts, entry_topics, lengths, partitions = [], [], [], []
        for held in assignment.values():
            by_topic: dict[str, list[int]] = {}
            for topic, partition in held:
                by_topic.setdefault(topic, []).append(partition)
            entry_counts.append(len(by_topic))
            for topic, numbers in by_topic.items():
                entry_topics.append(names.setdefault(topic, len(names)))
                lengths.append(len(numbers))
                partitions.extend(numbers)
        columns = (np.array(column, dtype=np.int64) for column in (entry_counts, entry_topics, lengths, partitions))
        return cls(tuple(assignment), tuple(names), *columns)

    def __getitem__(self, owner: str) -> tuple[TopicPartition, ...]:
        index = self._owner_index[owner]
        return tuple(self._held(index))

    def __iter__(self) -> Iterator[str]:
        return iter(self.owners)

    def __len__(self) -> int:
        return len(self.owners)

    def load(self, owner: str) -> int:
        """Return the number of partitions of an owner, repeats included; 0 for an unknown owner."""
        index = self._owner_index.get(owner)
        return 0 if index is None else self.loads[index]

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Yield the owner of every entry, its topic, and the number of its partitions."""
        owners = np.repeat(np.arange(len(self.owners)), self.entry_counts)
        for owner, topic, length in zip(owners.tolist(), self.entry_topics.tolist(), self.lengths.tolist(), strict=True):
            yield self.owners[owner], self.topics[topic], length

    def topic_counts(self) -> dict[str, int]:
        """Return for each topic that occurs the number of its partitions that were given, repeats included."""
        counts = np.bincount(self.entry_topics, weights=self.lengths, minlength=len(self.topics))
        return dict(zip(self.topics, map(int, counts.tolist()), strict=True))

    def owners_in(self, layout: Layout) -> Owners:
        """Return the owners of the partitions of a layout. The last result is kept, so a second call is free."""
        if self._owners is None or not self._owners.layout.is_like(layout):
            self._owners = self._find_owners(layout)
        return self._owners

    def _held(self, index: int) -> Iterator[TopicPartition]:
        last = int(self._entry_ends[index])
        begin = int(self._bounds[index])
        for entry in range(last - int(self.entry_counts[index]), last):
            topic, end = self.topics[self.entry_topics[entry]], begin + int(self.lengths[entry])
            for partition in self.partitions[begin:end].tolist():
                yield topic, partition
            begin = end

    def _find_owners(self, layout: Layout) -> Owners:
        topic_indices = np.array([layout.topic_index.get(topic, NOBODY) for topic in self.topics], dtype=np.int64)
        entry_indices = topic_indices[self.entry_topics]
        numbers = layout.starts[entry_indices].repeat(self.lengths)
        numbers += self.partitions
        owners = np.arange(len(self.owners), dtype=np.int32).repeat(self._load_column)
        strays: dict[TopicPartition, tuple[int, ...]] = {}
        repeated: list[TopicPartition] = []
        sizes = layout.counts[entry_indices]
        if self.partitions.size and (self.partitions.min() < 0 or self.partitions.max() >= sizes.min()):
            is_stray = (self.partitions < 0) | (self.partitions >= np.repeat(sizes, self.lengths))
            strays, repeated = self._strays(np.flatnonzero(is_stray), owners)
            numbers, owners = numbers[~is_stray], owners[~is_stray]
        first = np.empty(layout.size, dtype=np.int32)
        first.fill(NOBODY)
        first[numbers] = owners
        shared: dict[TopicPartition, tuple[int, ...]] = {}
        free = (first == NOBODY).nonzero()[0]
        if layout.size - free.size < numbers.size:
            is_again = np.bincount(numbers)[numbers] > 1
            again = _by_partition(layout.partitions(numbers[is_again]), owners[is_again].tolist())
            repeated.extend(again)
            shared = {partition: tuple(dict.fromkeys(its_owners)) for partition, its_owners in again.items() if len(set(its_owners)) > 1}
        return Owners(layout, first, free, shared, strays, repeated)

    def _strays(
        self, indices: NDArray[np.int64], owners: NDArray[np.int32]
    ) -> tuple[dict[TopicPartition, tuple[int, ...]], list[TopicPartition]]:
        """Return the partitions at these indices of ``partitions`` with their owners, and those given out more than once."""
        entries = np.searchsorted(np.cumsum(self.lengths), indices, side="right")
        pairs = zip((self.topics[topic] for topic in self.entry_topics[entries].tolist()), self.partitions[indices].tolist(), strict=True)
        owners_of = _by_partition(pairs, owners[indices].tolist())
        repeated = [partition for partition, its_owners in owners_of.items() if len(its_owners) > 1]
        return {partition: tuple(dict.fromkeys(its_owners)) for partition, its_owners in owners_of.items()}, repeated


def _bounds(lengths: Integers) -> NDArray[np.int64]:
    """Return where parts of these lengths begin, and where the last one ends."""
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    lengths.cumsum(out=bounds[1:])
    return bounds


def _by_partition(partitions: Iterable[TopicPartition], owners: Iterable[int]) -> dict[TopicPartition, list[int]]:
    owners_of: dict[TopicPartition, list[int]] = {}
    for partition, owner in zip(partitions, owners, strict=True):
        owners_of.setdefault(partition, []).append(owner)
    return owners_of
