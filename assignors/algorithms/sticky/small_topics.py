"""The partitions of a small sticky group, without claims or as its members claim them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from typing import Any

from assignors.algorithms.sticky.partitions import deal_hands
from assignors.java.cache import BoundedCache
from assignors.model import Topic, TopicPartition

_LARGEST = 4096  # partitions, with all topics as large as the largest; beyond, the work saved here no longer matters
_LONGEST_NAME = 249  # Kafka's limit for topic names
_MOST_TOPICS = 255  # the largest count in a byte of a set, if claims repeat a topic
_HANDS_PER_PARTITION = 4
_REMEMBERED_BYTES = 1 << 16  # of the claims of a group
_REMEMBERED_NUMBERS = 1 << 18  # bytes, for each number of topics
_GENERATION_BYTES = 4

# The first bytes of a claim have the number of its topics. To look up how often to loop takes a third of the time of reading them.
_RANGES = {count.to_bytes(4, "big"): range(count) for count in range(_MOST_TOPICS + 1)}

PartitionSet = int
"""A set of partitions: one byte of value 1 for each, at its index by number, then topic, which is the order in which claims are kept.

Bytes, not bits, because ``compress`` takes bytes. Sets without a common partition can be added.
"""

Claim = tuple[tuple[TopicPartition, ...], PartitionSet]
"""The partitions that a member claims, in the order in which they are kept, and the same partitions as a set."""

_NO_CLAIM: Claim = ((), 0)


class SmallTopics:
    """The topics of a small group in which all members subscribe to all of them.

    Results are kept from the second use on. The topics of a group alone are often used once. To keep their partitions would make the next
    group work in cold memory.

    Attributes:
        partition_count: number of their partitions.
    """

    __slots__ = ("_by_number", "_counts", "_every", "_hands", "_known_claims", "_places_of", "partition_count")

    def __init__(self, counts: list[tuple[str, int]]) -> None:
        """Take topics and their partition counts, by name. The names are ASCII, which Java and Python order alike."""
        self._counts = counts
        self.partition_count = sum([count for _, count in counts])
        # Made when they are needed: a group either claims something or does not.
        self._hands: BoundedCache[int, Sequence[tuple[TopicPartition, ...]]] | None = None
        self._by_number: list[TopicPartition | None] = []
        self._known_claims: BoundedCache[bytes, Claim] | None = None

    def hands(self, member_count: int) -> Sequence[tuple[TopicPartition, ...]]:
        """Return the partitions of members, by member id, if no member keeps any."""
        known = self._hands.find(member_count) if self._hands else None
        if known is not None:
            return known
        # The partitions are not those that all assignors share, which are kept.
        every = tuple([(topic, number) for topic, count in self._counts for number in range(count)])
        hands = deal_hands(every, member_count)
        if self._hands:
            return self._hands.keep(member_count, hands, self.partition_count + member_count)
        self._hands = BoundedCache(_HANDS_PER_PARTITION * self.partition_count)
        return hands

    def claims(self, user_data: Sequence[bytes | None]) -> list[Claim | None]:
        """Return the claim of each member in its sticky user data.

        None stands for data that is damaged, has no generation, or claims a partition twice or one that does not exist.
        """
        if not self._by_number:
            self._prepare_claims()
            return list(self._read(user_data))
        if not self._known_claims:
            self._known_claims = BoundedCache(_REMEMBERED_BYTES)
        # The generation comes last, and matters for contested claims only. The other bytes stay the same until a partition moves.
        known = self._known_claims.find
        return [(known(data[:-_GENERATION_BYTES]) or next(self._read((data,)))) if data else _NO_CLAIM for data in user_data]

    def others(self, bits: PartitionSet) -> list[TopicPartition]:
        """Return the partitions that are not in a set of existing ones, by topic and number."""
        if bits == self._every:
            return []
        others: Any = compress(self._by_number, (self._every - bits).to_bytes(len(self._by_number), "little"))
        return sorted(others)

    def _prepare_claims(self) -> None:
        most = max([count for _, count in self._counts])
        self._by_number = [(topic, number) if number < count else None for number in range(most) for topic, count in self._counts]
        self._every: PartitionSet = int.from_bytes(bytes(map(bool, self._by_number)), "little")
        # Name of each topic, with its length in front -> number of bits by which its partitions come after those of the first topic.
        self._places_of = {len(topic).to_bytes(2, "big") + topic.encode(): 8 * index for index, (topic, _) in enumerate(self._counts)}

    def _read(self, user_data: Iterable[bytes | None]) -> Iterator[Claim | None]:
        """Yield the result of ``read_previous_assignment`` for each data, without decoding a name or making a list.

        Of lengths and counts only the last byte is read first; then all bytes are looked up together.
        """
        topic_count, every, by_number = len(self._counts), self._every, self._by_number
        places_of, numbers, known_claims = self._places_of, _numbers_of(topic_count), self._known_claims
        known = numbers.find
        for data in user_data:
            if not data:
                yield _NO_CLAIM
                continue
            bits: PartitionSet = 0
            at = 4
            try:
                for _ in _RANGES[data[:at]]:
                    name_end = at + 2 + data[at + 1]
                    shift = places_of[data[at:name_end]]
                    at = name_end + 4 + 4 * data[name_end + 3]
                    listed = data[name_end:at]
                    bits += (known(listed) or _read_numbers(listed, numbers, topic_count)) << shift
            except LookupError:
                yield None
                continue
            if at != len(data) - _GENERATION_BYTES or bits & every != bits:
                yield None
                continue
            # A set of existing partitions selects existing partitions only.
            partitions: Any = tuple(compress(by_number, bits.to_bytes(len(by_number), "little")))
            claim = partitions, bits
            yield known_claims.keep(data[:at], claim, at) if known_claims else claim


def _read_numbers(listed: bytes, known: BoundedCache[bytes, PartitionSet], topic_count: int) -> PartitionSet:
    """Return the set of partitions of the first topic, from their numbers, which follow their count.

    Raises:
        LookupError: there are more or fewer bytes than the count needs, or a number occurs twice, or is too large for a small group.
    """
    count, *numbers = struct.unpack(f">{len(listed) // 4}I", listed[: len(listed) // 4 * 4])
    if count != len(numbers) or len(set(numbers)) < count or max(numbers, default=0) * topic_count >= _LARGEST:
        raise LookupError
    bits = sum([1 << 8 * topic_count * number for number in numbers])
    return known.keep(listed, bits, len(listed) + bits.bit_length() // 8)


@lru_cache(maxsize=64)
def _numbers_of(topic_count: int) -> BoundedCache[bytes, PartitionSet]:
    """Return the cache of lists of numbers for groups with that many topics."""
    return BoundedCache(_REMEMBERED_NUMBERS)


def find_small_topics(subscription: tuple[str, ...], topics: Mapping[str, Topic]) -> SmallTopics | None:
    """Return the topics of a group in which all members subscribe to these; None unless the group is small and each topic is listed once,
    has partitions, and has a name that Kafka allows.
    """
    try:
        return _small_topics(subscription, tuple([topics[topic].partition_count or 0 for topic in subscription]))
    except (KeyError, TypeError):  # a topic that does not exist, or topics that are no tuple: the general algorithm says so
        return None


@lru_cache(maxsize=64)  # strategies and generations of a group follow one another
def _small_topics(subscription: tuple[str, ...], counts: tuple[int, ...]) -> SmallTopics | None:
    if isinstance(subscription, str) or not 0 < len(counts) * max(counts, default=0) <= _LARGEST or 0 in counts:
        return None
    if not len(set(subscription)) == len(subscription) <= _MOST_TOPICS:
        return None
    names = "".join(subscription)
    if not names.isascii() or (len(names) > _LONGEST_NAME and max(map(len, subscription)) > _LONGEST_NAME):
        return None
    return SmallTopics(sorted(zip(subscription, counts, strict=True)))
