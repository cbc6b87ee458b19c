"""Merges parts of one sequence of records without positions, by the records that they share.

Kafka's formatters print records without offset and time. Outputs of one log have equal records where they overlap. Matched there, they
become one sequence again.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from schemas.vocabulary import PlacedBy

Key = tuple[str, int]
"""A record: its content, and the number of equal records before it."""


ADRIFT = 1 << 62
"""The position of the first tombstone that no part places; all other positions are below it."""


class Event(NamedTuple):
    """One record of a part.

    Attributes:
        token: its content; only repeated records and tombstones have equal ones.
        is_end: a tombstone: equal to every other of its key, so it is identified by the record beside it.
        time_ms: the time in the record; None without one.
        is_adrift: a tombstone that no part has placed yet.
        leads: the record before it is unknown, as at the beginning of every part. After several parts were merged, a value that leads is
            placed after the others by its time only, and a tombstone that leads is placed by the value after it.
    """

    token: str
    is_end: bool
    time_ms: int | None
    is_adrift: bool = False
    leads: bool = False


class MergedRecord(NamedTuple):
    """The place of a record in the merged sequence; if it is adrift, among the adrift ones after that sequence.

    ``time_ms`` is its own, else that of the last record before it with a time, else the first time of all. ``placed_by`` is the neighbour
    by which the parts place it; None if it is adrift.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which is of no use here
    time_ms: int | None
    placed_by: PlacedBy | None

    @property
    def is_adrift(self) -> bool:
        """Whether no part places it."""
        return self.placed_by is None


class UnalignableError(ValueError):
    """Parts that contradict each other, or whose order is unknown."""


class _Spot(NamedTuple):
    """The place of a record in a part.

    Attributes:
        value: the record's own key; of a tombstone the key of the value beside it, None if it is adrift.
        end: of a tombstone its content, and the number of equal ones between it and that value; if it is adrift, the number before it.
        leads: as in an event.
    """

    value: Key | None
    end: Key | None
    leads: bool


class _Part:
    """The records of one part: their places, the chains of its values, and how many of each tombstone are adrift."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.spots: list[_Spot] = []
        self.chains: list[list[Key]] = []
        self.times: dict[Key, int] = {}
        self.adrift: Counter[str] = Counter()
        seen, following = Counter[str](), Counter[str]()
        last_value = max((number for number, event in enumerate(events) if not event.is_end), default=-1)
        waiting: list[int] = []  # the tombstones that lead, up to the next value
        for number, event in enumerate(events):
            leads = event.leads or not self.chains
            if event.is_end and (event.is_adrift or (leads and number > last_value)):
                self.spots.append(_Spot(None, _assign_number(event.token, self.adrift), leads))
            elif event.is_end and leads:
                waiting.append(number)
                self.spots.append(_Spot(None, (event.token, 0), leads))
            elif event.is_end:
                self.spots.append(_Spot(self.chains[-1][-1], _assign_number(event.token, following), leads))
            else:
                value = _assign_number(event.token, seen)
                following.clear()
                in_front = Counter[str]()
                for index in reversed(waiting):
                    self.spots[index] = _Spot(value, _assign_number(events[index].token, in_front), True)
                waiting.clear()
                self.spots.append(_Spot(value, None, leads))
                if leads:
                    self.chains.append([])
                self.chains[-1].append(value)
                if event.time_ms is not None:
                    self.times[value] = event.time_ms

    def runs(self) -> dict[tuple[Key, bool], list[Key]]:
        """Return the tombstones beside each value, in order: before it (True) or after it (False)."""
        found: dict[tuple[Key, bool], list[Key]] = defaultdict(list)
        for value, end, leads in self.spots:
            if value is not None and end is not None:
                found[value, leads].append(end)
        return found


def _assign_number(token: str, so_far: Counter[str]) -> Key:
    """Return the key of the next record with a content, and count it."""
    key = (token, so_far[token])
    so_far[token] += 1
    return key


class _Run:
    """The tombstones between two values, merged from those that parts have after the first value and before the next one.

    Of each content there are as many as in the part with the most of them. Tombstones after the first value are the beginning of the run,
    those before the next value are its end.

    Attributes:
        ends: each with the number of equal ones before it, in order.
    """

    def __init__(self, runs: Sequence[tuple[bool, list[Key]]]) -> None:
        self._counts: Counter[str] = Counter()
        for _, run in runs:
            self._counts |= Counter(token for token, _ in run)
        longest_first = sorted(runs, key=lambda run: (run[0], -len(run[1]), run[1]))
        self.ends = list(dict.fromkeys(self._counted_from_front(end, leads) for leads, run in longest_first for end in run))
        self._indices = {end: index for index, end in enumerate(self.ends)}

    def __len__(self) -> int:
        return len(self.ends)

    def _counted_from_front(self, end: Key, leads: bool) -> Key:
        token, nth = end
        return (token, self._counts[token] - 1 - nth) if leads else end

    def index_of(self, end: Key, leads: bool) -> int:
        """Return the index of a tombstone, by its number after the previous value or, if it leads, before the next value."""
        return self._indices[self._counted_from_front(end, leads)]


class _Whole:
    """The merged sequence of all parts, without tombstones that are adrift.

    Attributes:
        times: of each record, filled in if the record has none.
        ends: content of tombstones -> their indexes.
        placed_by: for each record, the neighbour that places it.
    """

    def __init__(self, parts: Sequence[_Part]) -> None:
        known_times = {value: time for part in parts for value, time in part.times.items()}
        chains = _by_time([chain for part in parts for chain in part.chains], known_times)
        self._order = {value: index for index, value in enumerate(value for together in chains for value in _merged(together, known_times))}
        runs: dict[int, list[tuple[bool, list[Key]]]] = defaultdict(list)
        for part in parts:
            for (value, leads), ends in part.runs().items():
                runs[self._gap(value, leads)].append((leads, ends))
        self._runs = {gap: _Run(runs[gap]) for gap in sorted(runs)}
        self._ends_before = [0, *accumulate(len(self._runs.get(gap, ())) for gap in range(len(self._order) + 1))]
        times: list[int | None] = [None] * (len(self._order) + self._ends_before[-1])
        for value, index in self._order.items():
            times[index + self._ends_before[index + 1]] = known_times.get(value)
        self.times = _filled(times)
        self.ends: dict[str, list[int]] = defaultdict(list)
        for gap, run in self._runs.items():
            for index, (token, _) in enumerate(run.ends):
                self.ends[token].append(gap + self._ends_before[gap] + index)
        self.placed_by: list[PlacedBy | None] = [None] * len(times)
        for spot in (spot for part in parts for spot in part.spots):
            if spot.value is not None:
                index = self.index_of(spot.value, spot.end, spot.leads)
                self.placed_by[index] = _placed_by(self.placed_by[index], spot)

    def _gap(self, value: Key, leads: bool) -> int:
        """Return the number of values before the tombstones that precede a value (``leads``) or follow it."""
        return self._order[value] + (not leads)

    def index_of(self, value: Key, end: Key | None, leads: bool) -> int:
        """Return the index of a record that is not adrift, by its spot."""
        if end is None:
            index = self._order[value]
            return index + self._ends_before[index + 1]
        gap = self._gap(value, leads)
        return gap + self._ends_before[gap] + self._runs[gap].index_of(end, leads)


def _placed_by(known: PlacedBy | None, spot: _Spot) -> PlacedBy:
    """Return ``placed_by`` of a record after another part with it; a value that follows another one in any part does not lead."""
    placed_by = PlacedBy.NEXT if spot.leads else PlacedBy.PREVIOUS
    if known is None or known is placed_by:
        return placed_by
    return PlacedBy.PREVIOUS if spot.end is None else PlacedBy.BOTH


def align(parts: Sequence[Sequence[Event]]) -> list[list[MergedRecord]]:
    """Return for each part the places of its records in the merged sequence of all parts, counted from 0.

    The result does not depend on the order of the parts, or on which of them were merged before. Parts that share no record follow each
    other by time. Tombstones of one key between the same two records are the same ones. A part with only tombstones does not place them:
    they are those that other parts place, and any further ones are adrift, after all others.

    Parts that were merged before are one part. Its tombstones that both neighbours place come as two events. If other records are between
    these neighbours now, there were two tombstones, and each gets a place.

    Raises:
        UnalignableError: two parts have the same records in another order, or share none and their times overlap or are missing.
    """
    known = [_Part(events) for events in parts]
    whole = _Whole(known)
    # The adrift tombstones of a part are, in order, those that other parts place, and then those that no part places.
    unplaced = [_others(part, whole) for part in known]
    left = Counter[str]()
    for part, others in zip(known, unplaced, strict=True):
        left |= Counter({token: count - len(others[token]) for token, count in part.adrift.items()})
    first_adrift = dict(zip(sorted(left), accumulate((left[token] for token in sorted(left)), initial=0), strict=False))
    last_time = whole.times[-1] if whole.times else None

    def merged_record(spot: _Spot, others: Mapping[str, list[int]]) -> MergedRecord:
        if spot.value is not None:
            index = whole.index_of(spot.value, spot.end, spot.leads)
        else:
            assert spot.end is not None  # only tombstones are adrift
            token, nth = spot.end
            if nth >= len(others[token]):
                return MergedRecord(first_adrift[token] + nth - len(others[token]), last_time, None)
            index = others[token][nth]
        return MergedRecord(index, whole.times[index], whole.placed_by[index])

    return [[merged_record(spot, others) for spot in part.spots] for part, others in zip(known, unplaced, strict=True)]


def _others(part: _Part, whole: _Whole) -> dict[str, list[int]]:
    """Return the indexes of the tombstones that a part has adrift, without those that it places itself."""
    placed = (whole.index_of(spot.value, spot.end, spot.leads) for spot in part.spots if spot.value is not None)
    own = set(placed) if part.adrift else ()
    return {token: [index for index in whole.ends[token] if index not in own] for token in part.adrift}


def positions(stored: Mapping[int, int], count: int) -> list[int]:
    """Return a strictly rising position for each of ``count`` places; stored records keep theirs if there is room.

    Args:
        stored: index of a place -> its position. These positions may have gaps, from old records that were deleted.
    """
    found: list[int] = []
    for index in sorted(stored):
        new = index - len(found)
        first_free = found[-1] + 1 if found else 0
        here = max(stored[index], first_free + new)
        found += range(here - new, here + 1)
    first_free = found[-1] + 1 if found else 0
    return [*found, *range(first_free, first_free + count - len(found))]


def _by_time(chains: Sequence[list[Key]], known_times: Mapping[Key, int]) -> list[list[list[Key]]]:
    """Return the chains in the order of their times; chains with equal records are together."""
    components: list[tuple[set[Key], list[list[Key]]]] = []
    for chain in chains:
        keys, together = set(chain), [chain]
        apart = []
        for others, component in components:
            if keys.isdisjoint(others):
                apart.append((others, component))
            else:
                keys, together = keys | others, component + together
        components = [*apart, (keys, together)]
    if len(components) == 1:
        return [components[0][1]]
    spans: list[tuple[int, int, Key, int]] = []
    for keys, _ in components:
        times = [known_times[key] for key in keys if key in known_times]
        if not times:
            raise UnalignableError("they share no record, and have no times to order them by")
        spans.append((min(times), max(times), min(keys), len(spans)))  # by content, if all of two are in one millisecond
    spans.sort()
    for (_, last, *_), (first, *_) in pairwise(spans):
        if first < last:
            raise UnalignableError(f"they share no record, and their times overlap: one begins at {first} ms, another ends at {last} ms")
    return [components[index][1] for *_, index in spans]


def _merged(chains: Sequence[list[Key]], known_times: Mapping[Key, int]) -> list[Key]:
    """Return the records of chains in an order that agrees with each chain; where no chain decides, by time, then by content."""
    following: dict[Key, set[Key]] = defaultdict(set)
    moments: dict[Key, int] = {}
    for chain in chains:
        moment = next((known_times[key] for key in chain if key in known_times), 0)
        for key in chain:
            moment = known_times.get(key, moment)
            moments[key] = max(moments.get(key, 0), moment)
        for key, after in pairwise(chain):
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


def _filled(times: Sequence[int | None]) -> list[int | None]:
    """Return times without gaps: a missing time is the last one before it or, at the beginning, the first of all."""
    filled, last = [], next((time for time in times if time is not None), None)
    for time in times:
        last = last if time is None else time
        filled.append(last)
    return filled
