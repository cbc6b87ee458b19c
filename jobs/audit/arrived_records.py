"""Members that do not commit, although records come into their partitions: those that never did, and those that have stopped.

How many records came into a partition is the difference of the ends of its log in two metadata snapshots.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from jobs.audit.topic_looks import Look, Seen
from jobs.findings.commits import SilentMember, StalledMember
from schemas.vocabulary import MOST_LAG

PARTITIONS_NAMED = 5


class WaitingPartition(NamedTuple):
    """A partition of a member that does not commit, as ``COMMIT_SIGNS`` has it. Times are in microseconds.

    Attributes:
        committed_offset: its last commit; None if there is none.
        is_stopped: whether the member has stopped to commit; else it never has.
        since_us, until_us: it is a finding if records came in between these times.
        silent_ms: for how long the member has been silent; None if it never has committed.
    """

    member_id: str
    topic: str
    partition: int
    committed_offset: int | None
    is_stopped: bool
    since_us: int
    until_us: int
    silent_ms: int | None


class TopicEnds:
    """Where the logs of one topic ended, by its metadata snapshots. It keeps only those that matter: a topic may have a year of them.

    A metadata snapshot matters if it is the first since a time that is asked for, or the last up to one. So do both of two that follow one
    another with different partitions, and the newest that has ends.

    Args:
        asked: pairs of times between which records are counted, in microseconds.
    """

    def __init__(self, asked: Iterable[tuple[int, int]]) -> None:
        pairs = set(asked)
        self._sinces = sorted({since_us for since_us, _ in pairs})
        self._untils = sorted({until_us for _, until_us in pairs})
        self._looks: list[Look] = []
        self._are_kept: list[bool] = []
        self._newest: Look | None = None

    def add(self, look: Look) -> None:
        """Add a metadata snapshot, by time."""
        is_needed = True
        if self._looks:
            last = self._looks[-1]
            is_other = not look.has_partitions_of(last)
            is_last = bisect_left(self._untils, look.at_us) > bisect_left(self._untils, last.at_us)
            if not (self._are_kept[-1] or is_other or is_last):
                self._looks.pop()
                self._are_kept.pop()
            is_needed = is_other or bisect_right(self._sinces, look.at_us) > bisect_right(self._sinces, last.at_us)
        self._looks.append(look)
        self._are_kept.append(is_needed)
        if look.has_ends():
            self._newest = look

    def record_count(self, partition: int, since_us: int, until_us: int) -> int:
        """Return how many records came in, from the first metadata snapshot since a time to the last one up to another.

        0 if there are no two metadata snapshots, or if they have different topics of the name, or a shorter log.
        """
        between = [look for look in self._looks if since_us <= look.at_us <= until_us]
        first, final = _first_of(partition, between), _first_of(partition, reversed(between))
        if first is None or final is None or first.topic_id != final.topic_id:
            return 0
        if first.end_offset is None or final.end_offset is None:
            return 0
        return max(final.end_offset - first.end_offset, 0)

    def lag(self, partition: int, committed_offset: int | None) -> int | None:
        """Return how many records come after a commit in the newest metadata snapshot that has ends; None if that is not known."""
        seen = None if self._newest is None else self._newest.of(partition)
        if seen is None or seen.end_offset is None or committed_offset is None:
            return None
        return min(max(seen.end_offset - committed_offset, 0), MOST_LAG)


def _first_of(partition: int, looks: Iterable[Look]) -> Seen | None:
    return next((seen for look in looks if (seen := look.of(partition)) is not None), None)


def ends_of(waiting: Iterable[WaitingPartition]) -> dict[str, TopicEnds]:
    """Return the topics of partitions of one group, each without a metadata snapshot so far."""
    asked: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for one in waiting:
        asked[one.topic].add((one.since_us, one.until_us))
    return {topic: TopicEnds(times) for topic, times in asked.items()}


def silent_members(waiting: Iterable[WaitingPartition], ends: Mapping[str, TopicEnds]) -> list[SilentMember]:
    """Return the members for whose partitions the group never committed an offset, although records arrived, by member id.

    Args:
        waiting: partitions of one group, those without ``is_stopped``.
        ends: by topic, of all their topics.
    """
    return [SilentMember(member_id, len(own), _record_count(own, ends)) for member_id, own, _ in _with_records(waiting, ends)]


def stalled_members(waiting: Iterable[WaitingPartition], ends: Mapping[str, TopicEnds]) -> list[StalledMember]:
    """Return the members that have stopped to commit although records came in early enough, by member id.

    Args:
        waiting: partitions of one group, those with ``is_stopped``.
        ends: by topic, of all their topics.
    """
    return [_stalled(member_id, own, any_of_all, ends) for member_id, own, any_of_all in _with_records(waiting, ends)]


def _with_records(
    waiting: Iterable[WaitingPartition], ends: Mapping[str, TopicEnds]
) -> Iterator[tuple[str, Sequence[WaitingPartition], WaitingPartition]]:
    """Yield the members to which records came, by member id: their partitions without those of members before, and any of all of them.

    A partition with several owners is counted at the first.
    """
    of_members: dict[str, list[WaitingPartition]] = defaultdict(list)
    for one in waiting:
        of_members[one.member_id].append(one)
    counted: set[tuple[str, int]] = set()
    for member_id, partitions in sorted(of_members.items()):
        if _record_count(partitions, ends):
            yield member_id, [one for one in partitions if (one.topic, one.partition) not in counted], partitions[0]
            counted.update((one.topic, one.partition) for one in partitions)


def _record_count(partitions: Iterable[WaitingPartition], ends: Mapping[str, TopicEnds]) -> int:
    """Return how many records came into partitions, at most what a column holds."""
    return min(sum(ends[one.topic].record_count(one.partition, one.since_us, one.until_us) for one in partitions), MOST_LAG)


def _stalled(
    member_id: str, partitions: Sequence[WaitingPartition], any_of_all: WaitingPartition, ends: Mapping[str, TopicEnds]
) -> StalledMember:
    names = sorted(f"{one.topic}-{one.partition}" for one in partitions)[:PARTITIONS_NAMED]
    lags = [ends[one.topic].lag(one.partition, one.committed_offset) for one in partitions]
    known = [lag for lag in lags if lag is not None]
    silent_ms = any_of_all.silent_ms
    assert silent_ms is not None
    return StalledMember(
        member_id=member_id,
        partition_count=len(partitions),
        partitions=names,
        record_count=_record_count(partitions, ends),
        lag=min(sum(known), MOST_LAG) if known else None,
        since_ms=any_of_all.since_us // 1_000,
        silent_ms=silent_ms,
    )
