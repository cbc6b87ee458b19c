"""Metadata snapshots of topics, as workers keep them beside the commits of a group."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa


class Seen(NamedTuple):
    """What a metadata snapshot says of one partition: its topic's id, and the first offset and the end of its log. Either may be None."""

    at_us: int
    topic_id: str | None
    begin_offset: int | None
    end_offset: int | None


class Look:
    """A metadata snapshot of one topic. It keeps its numbers as arrays: a group may have thousands of them.

    Attributes:
        at_us: its time, in microseconds.
        topic_id: None if the source has none.
    """

    __slots__ = ("_begins", "_ends", "_places", "at_us", "topic_id")

    def __init__(self, at_us: int, topic_id: str | None, partitions: pa.Array, begins: pa.Array, ends: pa.Array) -> None:
        self.at_us = at_us
        self.topic_id = topic_id
        self._begins = _Numbers(begins)
        self._ends = _Numbers(ends)
        listed = partitions.to_pylist()
        is_dense = listed == list(range(len(listed)))
        self._places = None if is_dense else {partition: place for place, partition in enumerate(listed)}

    def has_ends(self) -> bool:
        """Return whether it says where the log of any partition ends."""
        return self._ends.has_any()

    def has_partitions_of(self, other: Look) -> bool:
        """Return whether it has the same partitions as another metadata snapshot of its topic."""
        return len(self._ends.values) == len(other._ends.values) and self._places == other._places

    def ends(self) -> dict[int, int | None]:
        """Return where the log of each of its partitions ends; the dictionary is the caller's, since it takes much more memory."""
        ends = self._ends.listed()
        return dict(enumerate(ends) if self._places is None else zip(self._places, ends, strict=True))

    def of(self, partition: int) -> Seen | None:
        """Return what it says of a partition; None if it does not have the partition."""
        place = partition if self._places is None else self._places.get(partition, -1)
        if not 0 <= place < len(self._ends.values):
            return None
        return Seen(self.at_us, self.topic_id, self._begins.at(place), self._ends.at(place))


class _Numbers:
    """Whole numbers of an Arrow array, some perhaps null."""

    __slots__ = ("_are_null", "values")

    def __init__(self, numbers: pa.Array) -> None:
        self._are_null = numbers.is_null().to_numpy(zero_copy_only=False) if numbers.null_count else None
        # A copy: a view would keep the whole batch.
        self.values = numbers.fill_null(0).to_numpy(zero_copy_only=False) if numbers.null_count else numbers.to_numpy().copy()

    def has_any(self) -> bool:
        """Return whether any number is not null."""
        return bool(len(self.values)) and (self._are_null is None or not self._are_null.all())

    def listed(self) -> list[int | None]:
        """Return all numbers."""
        values: list[int | None] = self.values.tolist()
        if self._are_null is not None:
            values = [None if is_null else value for value, is_null in zip(values, self._are_null.tolist(), strict=True)]
        return values

    def at(self, place: int) -> int | None:
        return None if self._are_null is not None and self._are_null[place] else self.values.item(place)
