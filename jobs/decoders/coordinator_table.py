"""The order of members in the coordinator's own table, Kafka's ``TimelineHashMap`` (4.3.1), and the size of its copies."""

from __future__ import annotations

from collections.abc import Collection

from assignors.java.ordering import DEFAULT_CAPACITY, string_hash

FEWEST_SLOTS = 2
_FIBONACCI = 0x9E3779B97F4A7C15


def slots_after_put(slots: int, size: int) -> int:
    """Return the number of slots after a put.

    The table grows before it looks whether the key is new (``BaseHashTable.baseAddOrReplace``). So it also grows when a member is replaced
    by a newer version of itself, as every record of a member's current assignment does.

    Args:
        slots: number of slots before it.
        size: number of keys before it.
    """
    return slots * 2 if (size + 1) * 3 > slots * 4 else slots


def table_order(member_ids: Collection[str], slots: int = FEWEST_SLOTS) -> list[str]:
    """Return member ids in the order in which the table is read.

    The slot of a key is in the top bits of its hash times a constant, and the last key put into a slot is read first. The table never
    shrinks. A coordinator that loads the group from a compacted log may have a smaller one than all records give; no record shows it.

    Args:
        member_ids: in the order in which they joined.
        slots: that the table has at least; there are at most four keys for three slots.
    """
    while len(member_ids) * 3 > slots * 4:
        slots *= 2

    def slot(member_id: str) -> int:
        return (string_hash(member_id) * _FIBONACCI & (1 << 64) - 1) >> 65 - slots.bit_length()

    return sorted(reversed(list(member_ids)), key=slot)


def capacity_of_copy(size: int) -> int:
    """Return the number of buckets of Java's ``HashMap`` that is made of another map of this size."""
    return 1 << (int(size / 0.75 + 1) - 1).bit_length() if size else DEFAULT_CAPACITY
