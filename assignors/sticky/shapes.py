"""What small groups that read the same topics have in common: the partitions, fresh deals, and claims as members state them.

A cluster has thousands of small groups and few ways in which they differ, apart from their members' ids. What only depends on the rest is
remembered here, within bounds; whatever depends on ids is worked out for each group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assignors.model import Topic, TopicPartition
from assignors.ordering import sort_strings
from assignors.remembering import Memory
from assignors.sticky.partitions import deal_hands, every_partition
from assignors.sticky.user_data import MalformedUserDataError, read_previous_assignment

_LARGEST = 4096  # partitions: beyond, sharing work between groups does not show in a group's time any more
_MOST_PARTITIONS = 1 << 17  # in all shapes together: some 45 MB with hands and claims
_HANDS_PER_PARTITION = 4
_CLAIMS_PER_PARTITION = 16
_GENERATION_BYTES = 4


class Claim(NamedTuple):
    """Partitions that a member states to have held, all of them existing.

    Attributes:
        partitions: in the order in which they are kept: by number, then topic.
        places: where these are among all partitions of the group.
        bits: the places as bits of an int, added up: a place that is there twice carries.
        size: how many there are.
    """

    partitions: tuple[TopicPartition, ...]
    places: list[int]
    bits: int
    size: int


_NO_CLAIM = Claim((), [], 0, 0)


class Shape:
    """The partitions of a small group, and what has been made of them.

    Attributes:
        every: all partitions by topic, in Java's order, and number.
        every_bit: a bit for each.
    """

    __slots__ = ("_hands", "_keeping_order", "_known_claims", "_places", "every", "every_bit")

    def __init__(self, partition_counts: Mapping[str, int]) -> None:
        self.every = tuple(every_partition([(topic, partition_counts[topic]) for topic in sort_strings(partition_counts)]))
        self.every_bit = (1 << len(self.every)) - 1
        # Made when the first claims are read: many groups never claim anything.
        self._places: dict[TopicPartition, int] = {}
        self._keeping_order: list[int] = []
        self._hands: Memory[int, list[tuple[TopicPartition, ...]]] = Memory(_HANDS_PER_PARTITION * len(self.every))
        self._known_claims: Memory[bytes, Claim] = Memory(_CLAIMS_PER_PARTITION * len(self.every))

    def hands(self, count: int) -> Sequence[tuple[TopicPartition, ...]]:
        """Return what ``count`` members get, by member id, when nobody keeps anything."""
        return self._hands.find(count) or self._hands.keep(count, deal_hands(self.every, count), len(self.every) + count)

    def claims(self, user_data: Sequence[bytes | None]) -> list[Claim | None]:
        """Return what each member claims by its sticky user data.

        None stands for data that is damaged, has no generation, or claims a partition that does not exist.
        """
        # The generation comes last and matters for contested claims only. Without it, members of different groups send the same bytes.
        known, read = self._known_claims.find, self._read
        return [(known(stated := data[:-_GENERATION_BYTES]) or read(stated)) if data else _NO_CLAIM for data in user_data]

    def _read(self, stated: bytes) -> Claim | None:
        if not self._places:
            self._places = dict(zip(self.every, range(len(self.every)), strict=True))
            # By number; among equal numbers the places are in the order of topics.
            self._keeping_order = [number * len(self.every) + place for (_, number), place in self._places.items()]
        try:
            partitions, _ = read_previous_assignment(stated)
            places = list(map(self._places.__getitem__, partitions))
        except (MalformedUserDataError, KeyError):
            return None
        places.sort(key=self._keeping_order.__getitem__)
        claim = Claim(tuple([self.every[place] for place in places]), places, sum([1 << place for place in places]), len(places))
        return self._known_claims.keep(stated, claim, len(places) + 1)


_shapes: Memory[tuple[tuple[str, ...], tuple[int, ...]], Shape] = Memory(_MOST_PARTITIONS)


def find_shape(subscription: tuple[str, ...], topics: Mapping[str, Topic]) -> Shape | None:
    """Return the shape of a group in which everybody subscribes to these topics; None unless the group is small and each topic is listed
    once and exists with partitions.
    """
    try:
        counts = tuple([topics[topic].partition_count or 0 for topic in subscription])
    except KeyError:
        return None
    known = _shapes.find((subscription, counts))
    if known is not None:
        return known
    if isinstance(subscription, str) or not all(counts) or len(set(subscription)) < len(subscription) or not 0 < sum(counts) <= _LARGEST:
        return None
    return _shapes.keep((subscription, counts), Shape(dict(zip(subscription, counts, strict=True))), sum(counts))
