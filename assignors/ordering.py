"""Every order that Kafka's answer depends on: Java strings, Java hashes, ``java.util.HashMap`` iteration, members.

Kafka's assignors iterate hash maps, and the sticky ones let that order decide who keeps a partition. The order is no
accident: it follows from the keys' hash codes, their insertion order and the largest size the map ever had. Nothing else in
this project may sort strings or members by a rule of its own.

Source: ``java.lang.String``, ``java.util.HashMap`` (JDK 8 to 21), ``org.apache.kafka.common.TopicPartition`` and ``Uuid``,
``AbstractPartitionAssignor.MemberInfo``.
"""

from __future__ import annotations

import base64
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from operator import mul
from sys import byteorder
from typing import Any, TypeVar

from assignors.hash_map import TREEIFY_LENGTH, HashMapSimulation
from assignors.model import Member, TopicPartition

Key = TypeVar("Key", bound=Hashable)

DEFAULT_CAPACITY = 16
_LONGEST_PRECOMPUTED = 512
_MASK = 0xFFFFFFFF
_SIGN = 0x80000000
_POWERS_OF_31 = tuple(pow(31, exponent, 1 << 32) for exponent in range(_LONGEST_PRECOMPUTED - 1, -1, -1))


def java_order(text: str) -> bytes:
    """Return a sort key with the order of ``String.compareTo``, which compares UTF-16 units, then lengths.

    >>> "\\U0001F600" > "\\uFFFD", java_order("\\U0001F600") > java_order("\\uFFFD")
    (True, False)
    """
    return text.encode("utf-16-be", "surrogatepass")


def order_key(texts: Collection[str]) -> Callable[[str], Any]:
    """Return a function whose values order these strings as Java does; not comparable with another call's values.

    Python orders by code point, which is the same as long as no string needs a surrogate pair.

    >>> sorted({"b", "a", "B"}, key=order_key({"b", "a", "B"}))
    ['B', 'a', 'b']
    """
    return str if all(map(str.isascii, texts)) else java_order


def sort_strings(texts: Collection[str]) -> list[str]:
    """Return the strings in Java's order.

    >>> sort_strings({"b", "a", "B"})
    ['B', 'a', 'b']
    """
    return sorted(texts, key=order_key(texts))


def ranks(texts: Sequence[str]) -> list[int]:
    """Return for each string its place in Java's order.

    >>> ranks(["b", "a", "c"])
    [1, 0, 2]
    """
    key = order_key(texts)
    result = [0] * len(texts)
    for rank, position in enumerate(sorted(range(len(texts)), key=[key(text) for text in texts].__getitem__)):
        result[position] = rank
    return result


def partition_order(topics: Collection[str]) -> Callable[[TopicPartition], Any] | None:
    """Return a sort key that orders partitions of these topics by topic, then number; None when their natural order does."""
    key = order_key(topics)
    return None if key is str else lambda partition: (key(partition[0]), partition[1])


@lru_cache(maxsize=1 << 17)  # a group's ids return with every generation; a look-up is an order of magnitude cheaper than the sum
def string_hash(text: str) -> int:
    """Return ``String.hashCode`` as a signed 32-bit number.

    >>> string_hash("orders"), string_hash("polygenelubricants"), string_hash("")
    (-1008770331, -2147483648, 0)
    """
    try:
        units: Any = text.encode("latin-1")
    except UnicodeEncodeError:
        units = array("H", text.encode("utf-16-le", "surrogatepass"))
        if byteorder == "big":
            units.byteswap()
    size = len(units)
    if size <= _LONGEST_PRECOMPUTED:
        return _signed(sum(map(mul, units, _POWERS_OF_31[_LONGEST_PRECOMPUTED - size :])))
    total = 0
    for unit in units:
        total = (31 * total + unit) & _MASK
    return _signed(total)


def coordinator_partition(group_id: str, partition_count: int) -> int:
    """Return the partition of ``__consumer_offsets`` that holds the group, and so decides which broker coordinates it.

    Differs from Java's ``Math.abs``: Kafka's ``Utils.abs`` turns -2**31, the hash of ``polygenelubricants``, into 0.

    Args:
        group_id: the group.
        partition_count: partitions of the topic, ``offsets.topic.num.partitions`` when it was created (default 50).

    >>> coordinator_partition("g1", 50), coordinator_partition("polygenelubricants", 50)
    (42, 0)
    """
    group_hash = string_hash(group_id)
    return 0 if group_hash == -_SIGN else abs(group_hash) % partition_count


def topic_partition_hash(topic: str, partition: int) -> int:
    """Return ``TopicPartition.hashCode`` as a signed 32-bit number.

    >>> topic_partition_hash("topic1", 0), topic_partition_hash("topic1", 7)
    (-868033373, -868033156)
    """
    return _signed(31 * (31 + partition) + string_hash(topic))


def uuid_order(text: str) -> tuple[int, int]:
    """Return a sort key with the order of Kafka's ``Uuid.compareTo``: two signed 64-bit numbers, the higher half first.

    Args:
        text: Kafka's 22-character text form, URL-safe base64 without padding.

    >>> uuid_order("AAAAAAAAAAEAAAAAAAAAAg")
    (1, 2)
    """
    return struct.unpack(">qq", base64.urlsafe_b64decode(text + "=="))


def uuid_hash(text: str) -> int:
    """Return Kafka's ``Uuid.hashCode`` as a signed 32-bit number.

    >>> uuid_hash("AAAAAAAAAAEAAAAAAAAAAg")
    3
    """
    high, low = uuid_order(text)
    mixed = high ^ low
    return _signed((mixed >> 32) ^ mixed)


def member_order(member: Member) -> tuple[bool, bytes]:
    """Return a sort key with the order of ``MemberInfo``: static members by instance id, then the others by member id.

    Range and round robin use it; the sticky assignors go by member id alone.

    >>> members = [Member("a"), Member("c", group_instance_id="x"), Member("b", group_instance_id="y")]
    >>> [member.member_id for member in sorted(members, key=member_order)]
    ['c', 'b', 'a']
    """
    if member.group_instance_id is not None:
        return (False, java_order(member.group_instance_id))
    return (True, java_order(member.member_id))


def table_capacity(largest_size: int, initial_capacity: int = DEFAULT_CAPACITY) -> int:
    """Return the number of buckets of a map that once held ``largest_size`` keys: it doubles above three quarters.

    >>> [table_capacity(size) for size in (0, 12, 13, 24, 25)]
    [16, 16, 32, 32, 64]
    """
    capacity = initial_capacity
    while 4 * largest_size > 3 * capacity:
        capacity *= 2
    return capacity


def bucket(key_hash: int, capacity: int) -> int:
    """Return the bucket of a signed or unsigned 32-bit hash in a table of ``capacity`` buckets (a power of two).

    >>> [bucket(string_hash(name), 16) for name in ("consumer1", "consumer2", "consumer3")]
    [12, 11, 10]
    """
    return (key_hash ^ ((key_hash & _MASK) >> 16)) & (capacity - 1)


def hash_map_order(
    keys: Iterable[Key],
    hash_of: Callable[[Key], int] = string_hash,  # type: ignore[assignment]
    order_of: Callable[[Key], Any] = java_order,  # type: ignore[assignment]
    *,
    largest_size: int = 0,
    initial_capacity: int = DEFAULT_CAPACITY,
    copies: int = 0,
) -> list[Key]:
    """Return the distinct keys in the iteration order of a ``HashMap`` or ``HashSet`` filled by ``put`` in the given order.

    Worked example: ``consumer1``, ``consumer2``, ``consumer3`` fall into buckets 12, 11, 10, so iteration starts with
    ``consumer3``.

    Order: buckets ascending, within a bucket by insertion. A bucket that reaches nine keys changes the rules (the table
    doubles early or the bucket becomes a tree); then the insertions are replayed one by one.

    Complexity: O(n log n) with a C sort; no step per key in Python beyond the hash.

    Args:
        keys: in insertion order; a repeated key keeps its first place.
        hash_of: a key's Java hash code.
        order_of: a key's ``compareTo`` as a sort key, used in tree bins only.
        largest_size: the most keys the map ever held, when that is more than now: tables never shrink.
        initial_capacity: the number of buckets before the first insertion.
        copies: how many more maps of the same kind are filled one from the other; that changes the order within trees only.

    >>> hash_map_order(["consumer1", "consumer2", "consumer3"])
    ['consumer3', 'consumer2', 'consumer1']
    """
    distinct = list(dict.fromkeys(keys))
    capacity = table_capacity(max(len(distinct), largest_size), initial_capacity)
    if len(distinct) < 2:
        return distinct
    spreads = [(value ^ ((value & _MASK) >> 16)) for value in map(hash_of, distinct)]
    if len(distinct) >= TREEIFY_LENGTH and _reaches(spreads, TREEIFY_LENGTH, capacity, initial_capacity):
        for _ in range(copies + 1):
            simulation = HashMapSimulation(initial_capacity)
            for key in distinct:
                simulation.put(key, hash_of(key), order_of)
            distinct = simulation.keys()
        return distinct
    mask = capacity - 1
    indexed = [spread & mask for spread in spreads]
    return [distinct[position] for position in sorted(range(len(distinct)), key=indexed.__getitem__)]


def computed_hash_map_order(
    calls: Iterable[Key],
    hash_of: Callable[[Key], int] = string_hash,  # type: ignore[assignment]
    order_of: Callable[[Key], Any] = java_order,  # type: ignore[assignment]
) -> list[Key]:
    """Return the distinct keys in the iteration order of a default ``HashMap`` filled by ``computeIfAbsent``.

    Order: buckets ascending, within a bucket the newest key first. The table grows at the *entry* of a call, one call later than
    ``put`` would, and a call for a key that is already there can be that call: hence the argument is all calls, repeats included.

    >>> computed_hash_map_order(["Aa", "BB", "Aa"]), hash_map_order(["Aa", "BB", "Aa"])
    (['BB', 'Aa'], ['Aa', 'BB'])
    """
    sequence = list(calls)
    distinct = list(dict.fromkeys(sequence))
    # The size that the last call found on entry decides the capacity.
    found = len(distinct) - (1 if sequence and sequence.index(sequence[-1]) == len(sequence) - 1 else 0)
    capacity = table_capacity(found)
    spreads = [(value ^ ((value & _MASK) >> 16)) for value in map(hash_of, distinct)]
    if len(distinct) >= TREEIFY_LENGTH - 1 and _reaches(spreads, TREEIFY_LENGTH - 1, capacity, DEFAULT_CAPACITY):
        simulation = HashMapSimulation(DEFAULT_CAPACITY)
        for key in sequence:
            simulation.compute_if_absent(key, hash_of(key), order_of)
        return simulation.keys()
    mask = capacity - 1
    indexed = [spread & mask for spread in spreads]
    return [distinct[position] for position in sorted(range(len(distinct) - 1, -1, -1), key=indexed.__getitem__)]


def first_in_hash_set(topic: str, partitions: Iterable[int], largest_size: int) -> int:
    """Return the partition that the iterator of a ``HashSet`` of one topic's partitions gives first.

    Args:
        topic: the topic of all partitions.
        partitions: the partition numbers in insertion order, at least one.
        largest_size: the most elements the set ever held.

    >>> first_in_hash_set("topic-7", range(100), 100), first_in_hash_set("topic-7", range(1000), 1000)
    (2, 770)
    """
    mask = table_capacity(largest_size) - 1
    base = 31 * 31 + string_hash(topic)

    def index(partition: int) -> int:
        value = (base + 31 * partition) & _MASK
        return (value ^ (value >> 16)) & mask

    return min(partitions, key=index)


def _reaches(spreads: list[int], length: int, capacity: int, initial_capacity: int) -> bool:
    """Return whether any bucket holds ``length`` keys at any time while the table grows to ``capacity``."""
    size = initial_capacity
    while True:
        mask = size - 1
        held = len(spreads) if size >= capacity else 3 * size // 4 + 1
        counts = Counter([spread & mask for spread in islice(spreads, held)])
        if max(counts.values()) >= length:
            return True
        if size >= capacity:
            return False
        size *= 2


def _signed(value: int) -> int:
    return ((value + _SIGN) & _MASK) - _SIGN
