"""The broker's ``uniform`` assignor for members whose subscriptions differ.

Members and owners are numbers here, in the broker's map order. The number decides every tie.

Source: ``org.apache.kafka.coordinator.group.assignor.UniformHeterogeneousAssignmentBuilder`` as of KAFKA-17710, releases 4.0.0 to 4.3.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

_MAX_ROUNDS = 16


def place_partitions(
    topics: Sequence[str],
    subscribers: Mapping[str, Sequence[int]],
    owners: Mapping[str, Sequence[int | None]],
    member_count: int,
    sharers: Mapping[str, Mapping[int, set[int]]],
) -> dict[str, list[int]]:
    """Return topic -> the owner of each partition: missing owners are filled in, then each topic is balanced.

    Worked example: t0p0..t0p3 are free and 0, 1 read t0; 1 holds t1p0. Level by level: t0p0 to 0, then both have one: t0p1 to 0, t0p2 to
    1, t0p3 to 0.

    Order: topics as given; least loaded member first, then the lower number.
    Complexity: O(members log members + partitions) per topic and round, at most 16 rounds.

    Args:
        topics: in the order in which they are assigned and balanced.
        subscribers: topic -> its subscribers.
        owners: topic -> the owner of each partition, None if there is none.
        member_count: number of members; owners are below it.
        sharers: topic -> partition -> further members whose targets have it. They keep it, and it counts for their load. The final
            owner is removed from the set.

    >>> owners = {"t0": [None] * 4, "t1": [1]}
    >>> place_partitions(["t0", "t1"], {"t0": [0, 1], "t1": [1]}, owners, 2, {})
    {'t0': [0, 0, 1, 0], 't1': [1]}
    """
    loads = [0] * member_count
    for topic in topics:
        for owner in owners[topic]:
            if owner is not None:
                loads[owner] += 1
    for sharing in chain.from_iterable(partitions.values() for partitions in sharers.values()):
        for member in sharing:
            loads[member] += 1
    placed = {topic: _filled(_by_load(subscribers[topic], loads), owners[topic], loads) for topic in topics}

    shared = [topic for topic in topics if len(subscribers[topic]) > 1]
    last_changed = None
    for round_number in range(_MAX_ROUNDS):
        for topic in shared:
            if round_number > 0 and topic == last_changed:
                return placed  # a whole round without a move
            if _even_out(_by_load(subscribers[topic], loads), placed[topic], loads, sharers.get(topic, {})):
                last_changed = topic
        if last_changed is None:
            break
    return placed


def _by_load(members: Sequence[int], loads: Sequence[int]) -> list[int]:
    return sorted(members, key=lambda member: (loads[member], member))


def _filled(members: list[int], owners: Sequence[int | None], loads: list[int]) -> list[int]:
    """Return the owners, with every free partition given to the next member of the lowest level."""
    filled = [owner for owner in owners if owner is not None]
    if len(filled) == len(owners):
        return filled
    filled.clear()
    lowest = _LowestLevel(members, loads)
    for owner in owners:
        if owner is None:
            owner = lowest.next()
            loads[owner] += 1
        filled.append(owner)
    return filled


def _even_out(members: list[int], owners: list[int], loads: list[int], sharers: Mapping[int, set[int]]) -> bool:
    """Move partitions of one topic from its most to its least loaded subscribers; return whether any moved."""
    if loads[members[-1]] - loads[members[0]] <= 1:
        return False
    held: dict[int, list[int]] = defaultdict(list)
    for partition, owner in enumerate(owners):
        held[owner].append(partition)
    lowest, highest = _LowestLevel(members, loads), _HighestLevel(members, loads)
    has_moved = False
    while (giver := highest.next_with(held)) is not None:
        taker = lowest.next()
        # Only now both levels are as far as this pair needs.
        if highest.load - lowest.load <= 1:
            break
        partition = held[giver].pop()
        owners[partition] = taker
        if partition in sharers:
            sharers[partition].discard(taker)
        loads[giver] -= 1
        loads[taker] += 1
        has_moved = True
    return has_moved


class _LowestLevel:
    """The members with the lowest load, each once. Then the level rises, and members that already have that load are added."""

    def __init__(self, members: Sequence[int], loads: Sequence[int]) -> None:
        self._members = members
        self._loads = loads
        self._end = 0
        self._next = 0
        self.load = loads[members[0]]
        self._extend()

    def next(self) -> int:
        """Return the next member that gets a partition."""
        if self._next == self._end:
            self.load += 1
            self._extend()
            self._next = 0
        self._next += 1
        return self._members[self._next - 1]

    def _extend(self) -> None:
        while self._end < len(self._members) and self._loads[self._members[self._end]] == self.load:
            self._end += 1


class _HighestLevel:
    """The members with the highest load, each once from the last. Then the level falls, and members that already have that load are added.

    A member with nothing to give is swapped to the end of the level and left out from then on. If a level becomes empty that way, the
    next lower load that occurs is the new level.
    """

    def __init__(self, members: list[int], loads: Sequence[int]) -> None:
        self._members = members
        self._loads = loads
        self._start = self._end = len(members)
        self._next = self._end - 1
        self.load = loads[members[-1]]
        self._extend()

    def next_with(self, held: Mapping[int, Sequence[int]]) -> int | None:
        """Return the next member that has partitions; None if none is left."""
        while True:
            if self._next < self._start:
                if self._start < self._end:
                    self.load -= 1
                elif self._start > 0:
                    self.load = self._loads[self._members[self._start - 1]]
                else:
                    return None
                self._extend()
                self._next = self._end - 1
                continue
            member = self._members[self._next]
            self._next -= 1
            if held.get(member):
                return member
            last = self._end - 1
            self._members[self._next + 1], self._members[last] = self._members[last], member
            self._end = last

    def _extend(self) -> None:
        while self._start > 0 and self._loads[self._members[self._start - 1]] == self.load:
            self._start -= 1
