"""All orders that Kafka's results depend on: Java strings, Java hashes, ``java.util.HashMap`` iteration, members.

Kafka's assignors iterate hash maps, and in the sticky ones that order decides who keeps a partition. The order is not
random: it follows from the keys' hash codes, their insertion order and the largest size that the map ever had. No other
module may sort strings or members by a rule of its own.

Source: ``java.lang.String``, ``java.util.HashMap`` (JDK 8 to 21), ``org.apache.kafka.common.TopicPartition`` and ``Uuid``,
``AbstractPartitionAssignor.MemberInfo``.
"""

from __future__ import annotations

import base64
import struct
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from operator import or_
from typing import Any, TypeVar

from assignors.java.hash_map import TREEIFY_LENGTH, HashMapSimulation
from assignors.java.string_hash import hash_low_bytes, string_hashes
from assignors.model import Member, TopicPartition

Key = TypeVar("Key", bound=Hashable)

DEFAULT_CAPACITY = 16
_MOST_WITHOUT_GROWTH = 12
_BUCKETS = bytes(value % DEFAULT_CAPACITY * DEFAULT_CAPACITY for value in range(256))
_POSITIONS = bytes(value % DEFAULT_CAPACITY for value in range(256))
_MASK = 0xFFFFFFFF
_SIGN = 0x80000000


def java_order(text: str) -> bytes:
    """Return a sort key for the order of ``String.compareTo``, which compares UTF-16 units, then lengths.

    >>> "\\U0001F600" > "\\uFFFD", java_order("\\U0001F600") > java_order("\\uFFFD")
    (True, False)
    """
    return text.encode("utf-16-be", "surrogatepass")


def order_key(texts: Collection[str]) -> Callable[[str], Any]:
    """Return a function whose values order these strings as Java does. Values of different calls are not comparable.

    Python orders by code point, which is the same unless a string needs a surrogate pair.

    >>> sorted({"b", "a", "B"}, key=order_key({"b", "a", "B"}))
    ['B', 'a', 'b']
    """
    return str if "".join(texts).isascii() else java_order


def sort_strings(texts: Collection[str]) -> list[str]:
    """Return the strings in Java's order.

    >>> sort_strings({"b", "a", "B"})
    ['B', 'a', 'b']
    """
    key = order_key(texts)
    return sorted(texts) if key is str else sorted(texts, key=key)


def ranks(texts: Sequence[str]) -> list[int]:
    """Return the rank of each string in Java's order.

    >>> ranks(["b", "a", "c"])
    [1, 0, 2]
    """
    result = [0] * len(texts)
    for rank, position in enumerate(sort_positions(texts)):
        result[position] = rank
    return result


def sort_positions(texts: Sequence[str]) -> list[int]:
    """Return the positions of the strings in Java's order.

    >>> sort_positions(["b", "c", "a"])
    [2, 0, 1]
    """
    key = order_key(texts)
    keys = texts if key is str else list(map(key, texts))
    return sorted(range(len(texts)), key=keys.__getitem__)


def partition_order(topics: Collection[str]) -> Callable[[TopicPartition], Any] | None:
    """Return a sort key that orders partitions of these topics by topic, then number; None if their natural order is the same."""
    key = order_key(topics)
    return None if key is str else lambda partition: (key(partition[0]), partition[1])


@lru_cache(maxsize=1 << 17)  # a group's ids return with every generation
def string_hash(text: str) -> int:
    """Return ``String.hashCode`` as a signed 32-bit number.

    >>> string_hash("orders"), string_hash("polygenelubricants"), string_hash("")
    (-1008770331, -2147483648, 0)
    """
    return string_hashes((text,))[0]


def coordinator_partition(group_id: str, partition_count: int) -> int:
    """Return the partition of ``__consumer_offsets`` that holds the group. Its leader is the coordinator of the group.

    Differs from Java's ``Math.abs``: Kafka's ``Utils.abs`` turns -2**31, the hash of ``polygenelubricants``, into 0.

    Args:
        group_id: the group id.
        partition_count: partitions of the topic: ``offsets.topic.num.partitions`` at its creation, by default 50.

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
    """Return a sort key for the order of Kafka's ``Uuid.compareTo``: two signed 64-bit numbers, the higher half first.

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
    """Return a sort key for the order of ``MemberInfo``: static members by instance id, then the others by member id.

    Range and round robin use it; the sticky assignors order by member id alone.

    >>> members = [Member("a"), Member("c", group_instance_id="x"), Member("b", group_instance_id="y")]
    >>> [member.member_id for member in sorted(members, key=member_order)]
    ['c', 'b', 'a']
    """
    if member.group_instance_id is not None:
        return (False, java_order(member.group_instance_id))
    return (True, java_order(member.member_id))


def table_capacity(largest_size: int, initial_capacity: int = DEFAULT_CAPACITY) -> int:
    """Return the number of buckets of a map that once held ``largest_size`` keys. It doubles when more than three quarters full.

    >>> [table_capacity(size) for size in (0, 12, 13, 24, 25)]
    [16, 16, 32, 32, 64]
    """
    capacity = initial_capacity
    while 4 * largest_size > 3 * capacity:
        capacity *= 2
    return capacity


def hash_map_order(
    keys: Iterable[Key],
    hash_of: Callable[[Key], int] = string_hash,
    order_of: Callable[[Key], Any] = java_order,  # type: ignore[assignment]  # keys that are not strings need their own
    *,
    largest_size: int = 0,
    initial_capacity: int = DEFAULT_CAPACITY,
    copies: int = 0,
) -> list[Key]:
    """Return the distinct keys in the iteration order of a ``HashMap`` or ``HashSet`` filled by ``put`` in the given order.

    Worked example: ``consumer1``, ``consumer2``, ``consumer3`` fall into buckets 12, 11, 10, so iteration starts with
    ``consumer3``.

    Order: buckets ascending, within a bucket by insertion. If a bucket reaches nine keys, other rules apply (the table
    doubles early, or the bucket becomes a tree); then the insertions are simulated one by one.

    Complexity: O(n log n) with a sort in C; in Python only the hash of each key.

    Args:
        keys: in insertion order; a repeated key keeps its first position.
        hash_of: a key's Java hash code.
        order_of: a key's ``compareTo`` as a sort key, used in tree bins only.
        largest_size: the most keys that the map ever held, if more than now: tables never shrink.
        initial_capacity: the number of buckets before the first insertion.
        copies: number of further maps, each filled from the one before; they change the order within trees only.

    >>> hash_map_order(["consumer1", "consumer2", "consumer3"])
    ['consumer3', 'consumer2', 'consumer1']
    """
    distinct = list(dict.fromkeys(keys))
    if len(distinct) < 2:
        return distinct
    capacity = table_capacity(max(len(distinct), largest_size), initial_capacity)
    spreads = _spreads(distinct, hash_of)
    if _reaches(spreads, TREEIFY_LENGTH, capacity, initial_capacity):
        for _ in range(copies + 1):
            simulation: HashMapSimulation[Key] = HashMapSimulation(initial_capacity)
            for key in distinct:
                simulation.put(key, hash_of(key), order_of)
            distinct = simulation.keys()
        return distinct
    return [distinct[position] for position in _by_bucket(spreads, capacity)]


def string_map_order(keys: tuple[str, ...]) -> tuple[Sequence[int], bool]:
    """Return the iteration order of a default ``HashMap`` of strings, and whether a map filled in that order has the same order.

    It has, unless a bucket ever held nine keys: then the JDK builds a tree, and each copy of a tree has another order.

    Args:
        keys: distinct, in insertion order.

    Returns:
        The positions of the keys in iteration order, and whether a copy has the same order.

    >>> string_map_order(("consumer1", "consumer2", "consumer3"))
    (b'\\x02\\x01\\x00', True)
    """
    if len(keys) <= _MOST_WITHOUT_GROWTH:
        # Most groups are that small. To cache them costs more than it saves. A byte has all that their table needs of a hash, and bytes
        # of bucket and position sort faster than positions by bucket.
        placed = sorted(map(or_, hash_low_bytes(keys).translate(_BUCKETS), range(len(keys))))
        # If nine keys share a bucket, the ninth and the ninth from the end are among them.
        if len(keys) < TREEIFY_LENGTH or (placed[TREEIFY_LENGTH - 1] ^ placed[-TREEIFY_LENGTH]) >= DEFAULT_CAPACITY:
            return bytes(placed).translate(_POSITIONS), True
    return _grown_map_order(keys)


@lru_cache(maxsize=256)  # all strategies, and most generations, have the same members
def _grown_map_order(keys: tuple[str, ...]) -> tuple[tuple[int, ...], bool]:
    capacity = table_capacity(len(keys))
    spreads = [value ^ ((value & _MASK) >> 16) for value in string_hashes(keys)]
    if _reaches(spreads, TREEIFY_LENGTH, capacity, DEFAULT_CAPACITY):
        positions = {key: position for position, key in enumerate(keys)}
        return tuple(positions[key] for key in hash_map_order(keys)), False
    order = tuple(_by_bucket(spreads, capacity))
    is_stable = capacity == DEFAULT_CAPACITY or not _reaches(
        [spreads[position] for position in order], TREEIFY_LENGTH, capacity, DEFAULT_CAPACITY
    )
    return order, is_stable


def computed_hash_map_order(calls: Iterable[str], *, puts: Iterable[str] = ()) -> list[str]:
    """Return the distinct keys in the iteration order of a default ``HashMap`` filled by ``computeIfAbsent``, then by ``put``.

    Order: buckets ascending, within a bucket the newest key first. The table grows at the *entry* of a call, one call later than
    with ``put``. A call for a present key can be that call, so the argument has all calls, repeats included.

    Args:
        calls: the keys of ``computeIfAbsent``.
        puts: the keys of ``put``; keys that the map already has are not put again.

    >>> computed_hash_map_order(["Aa", "BB", "Aa"]), hash_map_order(["Aa", "BB", "Aa"])
    (['BB', 'Aa'], ['Aa', 'BB'])
    >>> computed_hash_map_order(["Aa"], puts=["BB", "Aa"])
    ['Aa', 'BB']
    """
    sequence = list(calls)
    known = dict.fromkeys(sequence)
    computed = list(known)
    put = [key for key in dict.fromkeys(puts) if key not in known]
    # The size at the entry of the last call decides the capacity; with a ``put``, the size after it.
    found = len(computed) - (1 if sequence and sequence.index(sequence[-1]) == len(sequence) - 1 else 0)
    capacity = table_capacity(len(computed) + len(put) if put else found)
    # In a bucket the newest computed key is first, and the newest key of ``put`` is last.
    chained = computed[::-1] + put
    if len(chained) < 2:
        return chained
    chained_spreads = _spreads(chained, string_hash)
    spreads = chained_spreads[: len(computed)][::-1] + chained_spreads[len(computed) :]
    if _reaches(spreads, TREEIFY_LENGTH - 1, capacity, DEFAULT_CAPACITY):
        return filled_map(sequence, put).keys()
    return [chained[position] for position in _by_bucket(chained_spreads, capacity)]


def has_crowded_bucket(keys: Sequence[str]) -> bool:
    """Return whether a default ``HashMap`` filled in this order, in any way, may have a bucket with nine keys or a tree.

    >>> has_crowded_bucket(["Aa", "BB"])
    False
    >>> has_crowded_bucket(["AaAaAa", "AaAaBB", "AaBBAa", "AaBBBB", "BBAaAa", "BBAaBB", "BBBBAa", "BBBBBB"])
    True
    """
    return len(keys) >= TREEIFY_LENGTH - 1 and _reaches(
        _spreads(keys, string_hash), TREEIFY_LENGTH - 1, table_capacity(len(keys)), DEFAULT_CAPACITY
    )


def filled_map(calls: Iterable[str], *puts: Iterable[str]) -> HashMapSimulation[str]:
    """Return a default ``HashMap`` filled by ``computeIfAbsent``, then by ``put`` with one sequence of keys after the other."""
    simulation: HashMapSimulation[str] = HashMapSimulation(DEFAULT_CAPACITY)
    for key in calls:
        simulation.compute_if_absent(key, string_hash(key), java_order)
    for keys in puts:
        put_all(simulation, keys)
    return simulation


def put_all(simulation: HashMapSimulation[str], keys: Iterable[str]) -> None:
    """Put keys into a map."""
    for key in keys:
        simulation.put(key, string_hash(key), java_order)


def first_in_hash_set(topic: str, partitions: Iterable[int], largest_size: int) -> int:
    """Return the first partition in the iteration of a ``HashSet`` of partitions of one topic.

    Args:
        topic: the topic of all partitions.
        partitions: the partition numbers in insertion order, at least one.
        largest_size: the most elements that the set ever held.

    >>> first_in_hash_set("topic-7", range(100), 100), first_in_hash_set("topic-7", range(1000), 1000)
    (2, 770)
    """
    mask = table_capacity(largest_size) - 1
    base = 31 * 31 + string_hash(topic)

    def index(partition: int) -> int:
        value = (base + 31 * partition) & _MASK
        return (value ^ (value >> 16)) & mask

    return min(partitions, key=index)


def _spreads(keys: Iterable[Key], hash_of: Callable[[Key], int]) -> list[int]:
    return [value ^ ((value & _MASK) >> 16) for value in map(hash_of, keys)]


def _by_bucket(spreads: Sequence[int], capacity: int) -> list[int]:
    """Return the positions by bucket, within a bucket in their order."""
    mask = capacity - 1
    return sorted(range(len(spreads)), key=[spread & mask for spread in spreads].__getitem__)


def _reaches(spreads: list[int], length: int, capacity: int, initial_capacity: int) -> bool:
    """Return whether a bucket ever holds ``length`` keys while the table grows to ``capacity``."""
    size = initial_capacity
    while len(spreads) >= length:
        mask = size - 1
        slots = [spread & mask for spread in islice(spreads, len(spreads) if size >= capacity else 3 * size // 4 + 1)]
        # If few keys share a bucket, no count is needed.
        if len(slots) - len(set(slots)) >= length - 1 and max(Counter(slots).values()) >= length:
            return True
        if size >= capacity:
            return False
        size *= 2
    return False


def _signed(value: int) -> int:
    return ((value + _SIGN) & _MASK) - _SIGN
