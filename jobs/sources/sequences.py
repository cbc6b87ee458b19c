"""Parts of one sequence of records that do not tell their places, put together by the records that they share.

Kafka's formatters print records without offset and time. Outputs of one log hold equal records where they overlap; laid over each other
there, they are one sequence again.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

Key = tuple[str, int]
"""A record by its content, and by how many equal ones stand before it."""


ADRIFT = 1 << 62
"""The position of the first tombstone of which no part tells where it stands; all others stay below it."""


class Event(NamedTuple):
    """One record of a part.

    Attributes:
        token: its content; different records have different ones, but for repeated ones and tombstones.
        is_end: a tombstone: alike every other of its key, it goes by the record before it.
        time_ms: the time that the record tells; None where it tells none.
        is_adrift: a tombstone of which no part has told yet where it stands.
    """

    token: str
    is_end: bool
    time_ms: int | None
    is_adrift: bool = False


class Place(NamedTuple):
    """Where a record stands in the whole, or, adrift behind it, among the others that are.

    ``time_ms`` is its own, else that of the last one before it, else of the first of all.
    """

    index: int
    time_ms: int | None
    is_adrift: bool = False


class UnalignableError(ValueError):
    """Parts that contradict each other, or of which nothing tells which comes first."""


class _Part:
    """The records of one part that tell something, the runs of tombstones between them, and how many of each tombstone are adrift."""

    def __init__(self, events: Sequence[Event]) -> None:
        has_values = not all(event.is_end for event in events)
        seen: Counter[str] = Counter()
        in_run: Counter[str] = Counter()
        self.values: list[Key] = []
        self.times: dict[Key, int] = {}
        self.runs: dict[int, list[Key]] = defaultdict(list)
        self.adrift: Counter[str] = Counter()
        self._places: list[tuple[int | None, Key | None]] = []
        for event in events:
            if event.is_adrift or not has_values:
                self._places.append((None, (event.token, self.adrift[event.token])))
                self.adrift[event.token] += 1
            elif event.is_end:
                end = (event.token, in_run[event.token])
                in_run[event.token] += 1
                self.runs[len(self.values)].append(end)
                self._places.append((len(self.values), end))
            else:
                in_run.clear()
                key = (event.token, seen[event.token])
                seen[event.token] += 1
                self._places.append((len(self.values), None))
                self.values.append(key)
                if event.time_ms is not None:
                    self.times[key] = event.time_ms

    def gap(self, number: int, order: Mapping[Key, int]) -> int:
        """Return how many values of the whole stand before the tombstones behind the first ``number`` values of this part."""
        return order[self.values[number - 1]] + 1 if number else order[self.values[0]]

    def places(self) -> Iterable[tuple[int | None, Key | None]]:
        """Yield for each record how many values stand before it, and for a tombstone its key within its run; None and its key adrift."""
        return self._places


def align(parts: Sequence[Sequence[Event]]) -> list[list[Place]]:
    """Return for each part the places of its records in the sequence that all parts together make, counted from 0.

    The same whatever the order of the parts, and whether some of them were put together before. Parts that share no record follow each
    other by time. Tombstones of one key that stand between the same two records are the same ones. A part of nothing but tombstones does
    not tell where they stand: they are those that other parts place, and what there are more of is adrift, behind all.

    Raises:
        UnalignableError: two parts have the same records in another order, or share none and their times overlap or are not told.
    """
    known = [_Part(events) for events in parts]
    order = {key: index for index, key in enumerate(key for component in _by_time(known) for key in _merged(component))}
    runs: dict[int, list[list[Key]]] = defaultdict(list)
    for part in known:
        for number, run in part.runs.items():
            runs[part.gap(number, order)].append(run)
    united = {gap: _united(runs[gap]) for gap in sorted(runs)}
    ends_before = [0, *accumulate(len(united.get(gap, ())) for gap in range(len(order) + 1))]
    times: list[int | None] = [None] * (len(order) + ends_before[-1])
    told = {key: time for part in known for key, time in part.times.items()}
    for key, index in order.items():
        times[index + ends_before[index + 1]] = told.get(key)
    times = _filled(times)
    ends: dict[str, list[int]] = defaultdict(list)
    for gap, run in united.items():
        for (token, _), index in run.items():
            ends[token].append(gap + ends_before[gap] + index)

    def index_of(part: _Part, number: int, end: Key | None) -> int:
        if end is None:
            index = order[part.values[number]]
            return index + ends_before[index + 1]
        gap = part.gap(number, order)
        return gap + ends_before[gap] + united[gap][end]

    # What a part has adrift are, in order, the tombstones that it has not placed itself, and then others that nobody has.
    in_parts = [[(number, end, None if number is None else index_of(part, number, end)) for number, end in part.places()] for part in known]
    unplaced = []
    for part, places in zip(known, in_parts, strict=True):
        own = {index for _, _, index in places}
        unplaced.append({token: [index for index in ends[token] if index not in own] for token in part.adrift})
    left = Counter[str]()
    for part, others in zip(known, unplaced, strict=True):
        left |= Counter({token: count - len(others[token]) for token, count in part.adrift.items()})
    first_adrift = dict(zip(sorted(left), accumulate((left[token] for token in sorted(left)), initial=0), strict=False))
    last_time = times[-1] if times else None

    def place_of(others: Mapping[str, list[int]], end: Key | None, index: int | None) -> Place:
        if index is None:
            token, nth = end
            if nth >= len(others[token]):
                return Place(first_adrift[token] + nth - len(others[token]), last_time, True)
            index = others[token][nth]
        return Place(index, times[index], False)

    return [[place_of(others, end, index) for _, end, index in places] for others, places in zip(unplaced, in_parts, strict=True)]


def positions(stored: Mapping[int, int], count: int) -> list[int]:
    """Return a strictly rising position for each of ``count`` places: those of stored records where they are, if there is room.

    Args:
        stored: index of a place -> the position it has. Between these positions there may be gaps, where old records were dropped.
    """
    found: list[int] = []
    for index in sorted(stored):
        new = index - len(found)
        first_free = found[-1] + 1 if found else 0
        here = max(stored[index], first_free + new)
        found += range(here - new, here + 1)
    first_free = found[-1] + 1 if found else 0
    return [*found, *range(first_free, first_free + count - len(found))]


def _by_time(parts: Sequence[_Part]) -> list[list[_Part]]:
    """Return the parts, those that hang together by equal records as one, in the order of their times."""
    components: list[tuple[set[Key], list[_Part]]] = []
    for part in parts:
        keys, together = set(part.values), [part]
        apart = []
        for others, component in components:
            if keys.isdisjoint(others):
                apart.append((others, component))
            else:
                keys, together = keys | others, component + together
        components = [*apart, (keys, together)] if part.values else components
    if len(components) == 1:
        return [components[0][1]]
    spans = []
    for _, component in components:
        told = [time for part in component for time in part.times.values()]
        if not told:
            raise UnalignableError("they share no record, and have no times that tell which comes first")
        spans.append((min(told), max(told), len(spans)))
    spans.sort()
    for (_, last, _), (first, _, _) in pairwise(spans):
        if first < last:
            raise UnalignableError(f"they share no record, and their times overlap: one begins at {first} ms, another ends at {last} ms")
    return [components[place][1] for _, _, place in spans]


def _merged(parts: Sequence[_Part]) -> list[Key]:
    """Return the records of parts in an order in which each part has them; what no part decides goes by time, then by content."""
    following: dict[Key, set[Key]] = defaultdict(set)
    moments: dict[Key, int] = {}
    for part in parts:
        moment = next(iter(part.times.values()), 0)
        for key in part.values:
            moment = part.times.get(key, moment)
            moments[key] = max(moments.get(key, 0), moment)
        for key, after in pairwise(part.values):
            following[key].add(after)
    waiting_for = Counter(after for others in following.values() for after in others)
    ready = [(moment, key) for key, moment in moments.items() if not waiting_for[key]]
    heapq.heapify(ready)
    merged = []
    while ready:
        _, key = heapq.heappop(ready)
        merged.append(key)
        for after in following[key]:
            waiting_for[after] -= 1
            if not waiting_for[after]:
                heapq.heappush(ready, (moments[after], after))
    if len(merged) < len(moments):
        raise UnalignableError("they have the same records in different order")
    return merged


def _united(runs: Sequence[list[Key]]) -> dict[Key, int]:
    """Return the tombstones of several runs at one place, the longest run first, each with its index."""
    longest_first = sorted(runs, key=lambda run: (-len(run), run))
    return {end: index for index, end in enumerate(dict.fromkeys(end for run in longest_first for end in run))}


def _filled(times: Sequence[int | None]) -> list[int | None]:
    """Return times in which a missing one is the last before it, or, at the beginning, the first of all."""
    filled, last = [], next((time for time in times if time is not None), None)
    for time in times:
        last = last if time is None else time
        filled.append(last)
    return filled
