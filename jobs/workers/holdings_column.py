"""The column ``solutions.holdings``: the partitions of all members of one solution, packed into bytes.

One row per member would cost a hundred times as much to write, to shuffle and to read. A topic is an index into the generation's row of
``generation_topics``, and members have the order of the snapshot. The bytes cannot be read without these two.

Layout, little-endian: the width of a number in bytes (1, 2 or 4, one byte); the counts of members, topics and entries (4 bytes each); then
signed numbers of that width: the index of each topic, the number of entries of each member, the topic of each entry (an index into these
topics), the number of partitions of each entry, all partitions. An entry is the partitions of one member and one topic. Names of topics
that the generation does not list follow as a JSON list; their indexes begin after those of the listed ones.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from assignors.generation.holdings import Holdings

_HEADER = struct.Struct("<BIII")
_WIDTHS = ((1, "b", 2**7), (2, "h", 2**15), (4, "i", 2**31))
"""Bytes of a number, their name in layouts, and the limit that its absolute value is below."""

GivenLists = tuple[Sequence[str], Sequence[Sequence[int]]]
"""Partitions of one member: topics, and the partitions of each topic, as ``packing.group_by_topic`` returns them."""


class TornHoldingsError(ValueError):
    """Bytes of ``solutions.holdings`` that ``pack_holdings`` has not made for this generation."""


def pack_holdings(given: Iterable[GivenLists], listed_topics: Sequence[str]) -> bytes:
    """Return the partitions of all members as bytes.

    Args:
        given: the partitions of each member, in the order of the snapshot.
        listed_topics: the topics of the generation, in the order of ``generation_topics``.
    """
    entry_counts: list[int] = []
    entry_topics: list[str] = []
    lengths: list[int] = []
    partitions: list[int] = []
    for topics, lists in given:
        entry_counts.append(len(topics))
        entry_topics += topics
        lengths += map(len, lists)
        partitions += chain.from_iterable(lists)
    used = {topic: number for number, topic in enumerate(dict.fromkeys(entry_topics))}
    listed = {topic: number for number, topic in enumerate(listed_topics)}
    unlisted = [topic for topic in used if topic not in listed]
    listed.update((topic, len(listed_topics) + number) for number, topic in enumerate(unlisted))
    values = [*map(listed.__getitem__, used), *entry_counts, *map(used.__getitem__, entry_topics), *lengths, *partitions]
    most = max(max(values), -1 - min(values)) if values else 0
    width, code = next((width, code) for width, code, bound in _WIDTHS if most < bound)
    names = json.dumps(unlisted).encode() if unlisted else b""
    header = _HEADER.pack(width, len(entry_counts), len(used), len(entry_topics))
    return header + struct.pack(f"<{len(values)}{code}", *values) + names


def unpack_holdings(packed: bytes, member_ids: Sequence[str], listed_topics: Sequence[str]) -> Holdings:
    """Return the partitions that ``pack_holdings`` packed, with the members' ids.

    Raises:
        TornHoldingsError: the bytes belong to another generation, or are damaged.
    """
    try:
        width, member_count, topic_count, entry_count = _HEADER.unpack_from(packed)
        if member_count != len(member_ids):
            raise TornHoldingsError(f"expected holdings of {len(member_ids)} members, found holdings of {member_count}")
        head = topic_count + member_count + 2 * entry_count
        numbers = np.frombuffer(packed, f"<i{width}", head, _HEADER.size).astype(np.int64)
        at = _HEADER.size + head * width
        topic_indices, entry_counts, entry_topics, lengths = np.split(
            numbers, (topic_count, topic_count + member_count, head - entry_count)
        )
        if head and numbers.min() < 0:
            raise TornHoldingsError("expected counts and indexes in holdings, found a number below 0")
        partition_count = int(lengths.sum())
        partitions = np.frombuffer(packed, f"<i{width}", partition_count, at).astype(np.int64)
        rest = packed[at + partition_count * width :]
        names = [*listed_topics, *(json.loads(rest) if rest else ())]
        topics = [names[number] for number in topic_indices.tolist()]
        if entry_counts.sum() != entry_count or (entry_count and (entry_topics.min() < 0 or entry_topics.max() >= topic_count)):
            raise TornHoldingsError("the counts of holdings contradict each other")
    except (ArithmeticError, IndexError, TypeError, ValueError, struct.error) as error:
        raise error if isinstance(error, TornHoldingsError) else TornHoldingsError(f"holdings cannot be read: {error}") from error
    return Holdings(member_ids, topics, entry_counts, entry_topics, lengths, partitions)
