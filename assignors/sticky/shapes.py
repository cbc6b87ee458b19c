"""What small groups that read the same topics have in common: the partitions, fresh deals, and claims as members state them.

A cluster has thousands of small groups and few ways in which they differ, apart from their members' ids. What only depends on the rest is
remembered here, within bounds; whatever depends on ids is worked out for each group.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from assignors.model import Topic, TopicPartition
from assignors.remembering import Memory
from assignors.sticky.partitions import deal_hands, every_partition

_LARGEST = 4096  # partitions: beyond, sharing work between groups does not show in a group's time any more
_MOST_PARTITIONS = 1 << 17  # in all shapes together: some 45 MB with hands and claims
_HANDS_PER_PARTITION = 4
_CLAIMS_PER_PARTITION = 16
_GENERATION_BYTES = 4

# Unsigned: what is below zero becomes too large. Behind a topic's numbers comes the length of the next topic's name.
_read_start = struct.Struct(">IH").unpack_from
_read_count = struct.Struct(">I").unpack_from
_read_number_and_length = struct.Struct(">IH").unpack_from


@lru_cache(maxsize=1024)
def _numbers_and_length(count: int) -> Callable[[bytes, int], tuple[int, ...]]:
    return struct.Struct(f">{count}IH").unpack_from


Claim = tuple[tuple[TopicPartition, ...], list[int], int, int]
"""Partitions that a member states to have held, all of them existing.

They are in the order in which they are kept, by number, then topic; then where these are among all partitions of the group; these places as
bits of an int, added up: a place that is there twice carries; and how many there are.
"""

_NO_CLAIM: Claim = ((), [], 0, 0)


class Shape:
    """The partitions of a small group, and what has been made of them.

    Attributes:
        every: all partitions by topic, in Java's order, and number.
        every_bit: a bit for each.
    """

    __slots__ = ("_counts", "_hands", "_keeping_order", "_known_claims", "_places_of", "every", "every_bit")

    def __init__(self, partition_counts: Mapping[str, int]) -> None:
        """Make the shape of topics with ASCII names, as all that Kafka lets anybody make: Java orders these as Python does."""
        self._counts = sorted(partition_counts.items())
        self.every = tuple(every_partition(self._counts))
        self.every_bit = (1 << len(self.every)) - 1
        # Made when the first claims are read: many groups never claim anything.
        self._places_of: dict[bytes, range] = {}
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
        return [(known(stated := data[:-_GENERATION_BYTES]) or read(stated, data)) if data else _NO_CLAIM for data in user_data]

    def _read(self, stated: bytes, data: bytes) -> Claim | None:
        """Return what ``read_previous_assignment`` reads, a topic at a time and without decoding names.

        Args:
            stated: the data without its end, a generation.
            data: all of it; after the last topic a part of the generation is read for a name's length, and not used.
        """
        places_of = self._places_of or self._number_places()
        places: list[int] = []
        try:
            topic_count, length = _read_start(data, 0)
            start = 6
            for _ in range(topic_count):
                at = start + length
                of_topic = places_of[data[start:at]]
                (count,) = _read_count(data, at)
                if count == 1:
                    number, length = _read_number_and_length(data, at + 4)
                    places.append(of_topic[number])
                else:
                    *numbers, length = _numbers_and_length(count)(data, at + 4)
                    places += [of_topic[number] for number in numbers]
                start = at + 6 + 4 * count
        except (struct.error, LookupError):
            return None
        if start - 2 > len(stated):  # a topic reaches into the generation
            return None
        places.sort(key=self._keeping_order.__getitem__)
        every = self.every
        claim = (tuple([every[place] for place in places]), places, sum([1 << place for place in places]), len(places))
        return self._known_claims.keep(stated, claim, len(places) + 1)

    def _number_places(self) -> dict[bytes, range]:
        """Return for the name of each topic where its partitions are among all; note in which order they are kept."""
        start = 0
        for place, (topic, count) in enumerate(self._counts):
            self._places_of[topic.encode()] = range(start, start + count)
            # By number; among equal numbers in the order of topics.
            self._keeping_order += range(place, place + count * len(self._counts), len(self._counts))
            start += count
        return self._places_of


_shapes: Memory[tuple[tuple[str, ...], tuple[int, ...]], Shape] = Memory(_MOST_PARTITIONS)


def find_shape(subscription: tuple[str, ...], topics: Mapping[str, Topic]) -> Shape | None:
    """Return the shape of a group in which everybody subscribes to these topics; None unless the group is small and each topic is listed
    once, exists with partitions and has an ASCII name.
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
    if not "".join(subscription).isascii():
        return None
    return _shapes.keep((subscription, counts), Shape(dict(zip(subscription, counts, strict=True))), sum(counts))
