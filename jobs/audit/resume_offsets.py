"""Resume offsets: where the owner of a partition continues to read at some moment, and what waits for it there.

The resume offset of a partition needs the last commit up to the moment, the last metadata snapshot up to it, which has the beginning of the
log, and the first one since moment and commit, which has its end. Workers resolve it, group by group: they read a group's commits and its
generations in the order of the log, so that each generation finds the last commits in a dictionary.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from math import floor, inf
from typing import NamedTuple

from assignors.model import TopicPartition
from jobs.audit.topic_looks import Look, Seen
from schemas.vocabulary import MOST_LAG, ResumeOutcome

MOST_NUMBER = 2**63 - 1
"""The largest whole number that a column can hold."""
MILLISECOND_US = 1_000


class Commit(NamedTuple):
    """The last commit of a partition. Offset and time are None if it is a deletion, or if the source says that there is none."""

    topic_id: str | None
    committed_offset: int | None
    committed_us: int | None
    is_uncertain: bool | None


class TimedCommit(NamedTuple):
    """A commit of a group in which only times can be compared with those of generations."""

    observed_us: int
    position: int
    partition: TopicPartition
    commit: Commit


class Resumption(NamedTuple):
    """Where the owner of a partition continues to read, in the columns of ``movements`` with these names.

    ``resume_outcome`` is one of:

    * ``committed``: the commit is not below the beginning of the log.
    * ``reset_out_of_range``: it is below, or above the end of the log in a metadata snapshot since the commit, for the same topic. A
      commit above the end in an earlier metadata snapshot is not out of range, because the log had grown since.
    * ``reset_none``: the group is known to have no commit: by a tombstone, by a source that says so, or because its partition of
      ``__consumer_offsets`` was read from the first record.
    * ``unknown``: anything else.

    ``lag`` is null without a metadata snapshot since moment and commit. It is an upper bound if that is later than the moment, because
    records may have arrived in between. None did if the lag is 0, or if the metadata snapshot before has the same end of the log.
    ``committed_at`` is in microseconds.
    """

    committed_offset: int | None
    begin_offset: int | None
    end_offset: int | None
    resume_outcome: str | None
    lag: int | None
    committed_at: int | None
    end_offset_delay_ms: int | None
    lag_is_upper_bound: bool | None


RESUME_COLUMNS = Resumption._fields
WITHOUT_OWNER = Resumption(*[None] * len(RESUME_COLUMNS))
"""The values if nobody owns the partition."""
NO_COMMIT = Commit(None, None, None, None)


class Load(NamedTuple):
    """What waits for the owner of a partition, and what comes in.

    Attributes:
        lag: None if it is not known.
        rate: how fast the log grew between the metadata snapshots before and after the moment, in millionths of a record per second; whole,
            so that sums do not depend on the order of their terms. None if one of them is missing, or has another topic of the name, or a
            shorter log, or an impossible one.
        end_from_us: since when a metadata snapshot has the end of the log: the moment, or the time of the last commit if that is later.
    """

    lag: int | None
    rate: int | None
    end_from_us: int


def waiting_records(committed: int | None, end: int | None) -> int | None:
    """Return how many records come after a committed offset, up to the end of the log; 0 if the commit is beyond it.

    None if one of the two is. A capture may have commits below 0, with which the number would not fit into a column.

    >>> waiting_records(5, 8), waiting_records(8, 5), waiting_records(-(2**63), 8) == 2**63 - 1, waiting_records(None, 8)
    (3, 0, True, None)
    """
    return None if committed is None or end is None else min(max(end - committed, 0), MOST_LAG)


class Moment:
    """The time of a generation: what its group has committed up to then, and the metadata snapshots around it.

    Attributes:
        at_us: in microseconds.
    """

    def __init__(self, offsets: GroupOffsets, at_us: int, is_complete: bool, max_look_delay_s: float | None) -> None:
        self._commits = offsets.commits_at(at_us)
        self._looks = offsets.looks
        self.at_us = at_us
        self._is_complete = is_complete
        self._max_delay_ms = None if max_look_delay_s is None else round(max_look_delay_s * 1000)
        self._around: dict[tuple[str, int], tuple[Look | None, Look | None]] = {}
        self._ends: dict[tuple[Look | None, Look | None], _EndsAround] = {}

    def resume(self, topic: str, partition: int, member_id: str | None) -> Resumption:
        """Return where the owner of a partition continues to read; ``WITHOUT_OWNER`` if nobody owns it."""
        if member_id is None:
            return WITHOUT_OWNER
        commit = self._commits.get((topic, partition))
        topic_id, committed, committed_us, is_uncertain = commit or NO_COMMIT
        before, after = self._seen_around(topic, partition, committed_us)
        # Offsets of an earlier or later topic with the same name do not count.
        begin = before.begin_offset if before is not None and _may_be_one(topic_id, before.topic_id) else None
        topic_id = _known_topic(topic_id, before)
        end = _end(topic_id, after)
        if (commit is None and not self._is_complete) or is_uncertain:
            outcome = ResumeOutcome.UNKNOWN
        elif committed is None:
            outcome = ResumeOutcome.RESET_NONE
        elif (
            (begin is not None and committed < begin)
            or (after is not None and end is not None and committed > end and topic_id == after.topic_id)
            or _was_ahead(before, topic_id, committed, committed_us)
        ):
            outcome = ResumeOutcome.RESET_OUT_OF_RANGE
        else:
            outcome = ResumeOutcome.UNKNOWN if begin is None else ResumeOutcome.COMMITTED
        delay_ms = None if end is None or after is None else _milliseconds(self.at_us, after.at_us)
        lag, is_bound = self._lag(committed, end, after), None
        if lag is not None and delay_ms is not None:
            is_bound = delay_ms > 0 and lag > 0 and not _stood_still(before, after)
        return Resumption(committed, begin, end, str(outcome), lag, committed_us, delay_ms, is_bound)

    def loads(self, topic: str, partitions: Iterable[int]) -> Iterator[Load]:
        """Yield what waits for the owner of each of these partitions, and what comes in."""
        commits, at_us, ends_now = self._commits, self.at_us, self._ends_around(topic, self.at_us)
        for partition in partitions:
            topic_id, committed, committed_us, _ = commits.get((topic, partition)) or NO_COMMIT
            end_from_us = self._end_from_us(committed_us)
            ends = ends_now if end_from_us == at_us else self._ends_around(topic, end_from_us)
            yield Load(ends.lag(partition, topic_id, committed), ends.rate(partition), end_from_us)

    def _lag(self, committed: int | None, end: int | None, after: Seen | None) -> int | None:
        """Return the waiting records; None if the metadata snapshot with the end of the log is later than it may be."""
        lag = waiting_records(committed, end)
        return None if after is not None and self._is_late(after.at_us) else lag

    def _is_late(self, look_us: int) -> bool:
        """Return whether a metadata snapshot is so late that no lag is known from it."""
        return self._max_delay_ms is not None and _milliseconds(self.at_us, look_us) > self._max_delay_ms

    def _end_from_us(self, committed_us: int | None) -> int:
        return self.at_us if committed_us is None or committed_us < self.at_us else committed_us

    def _seen_around(self, topic: str, partition: int, committed_us: int | None) -> tuple[Seen | None, Seen | None]:
        """Return what the last metadata snapshot up to the moment says, and the first one since moment and commit.

        One of the same instant counts as both: the log cannot have been different.
        """
        before, after = self._looks_around(topic, self._end_from_us(committed_us))
        return None if before is None else before.of(partition), None if after is None else after.of(partition)

    def _looks_around(self, topic: str, end_from_us: int) -> tuple[Look | None, Look | None]:
        around = self._around.get((topic, end_from_us))
        if around is None:
            looks = self._looks.get(topic, ())
            first, second = bisect_right(looks, self.at_us, key=_time), bisect_left(looks, end_from_us, key=_time)
            around = looks[first - 1] if first else None, looks[second] if second < len(looks) else None
            self._around[topic, end_from_us] = around
        return around

    def _ends_around(self, topic: str, end_from_us: int) -> _EndsAround:
        looks = self._looks_around(topic, end_from_us)
        ends = self._ends.get(looks)
        if ends is None:
            after = looks[1]
            ends = self._ends[looks] = _EndsAround(*looks, is_late=after is not None and self._is_late(after.at_us))
        return ends


class _EndsAround:
    """The ends of a topic's logs in two metadata snapshots around a moment, either of which may be missing.

    Args:
        is_late: the second one is so late that no lag is known.
    """

    def __init__(self, before: Look | None, after: Look | None, *, is_late: bool) -> None:
        self._before_id, self._after_id = (None if look is None else look.topic_id for look in (before, after))
        self._before: Mapping[int, int | None] = {} if before is None else before.ends()
        self._after: Mapping[int, int | None] = {} if after is None else after.ends()
        self._is_late = is_late
        self._grown_ms = 0
        if before is not None and after is not None and before.topic_id == after.topic_id:
            self._grown_ms = _milliseconds(before.at_us, after.at_us)

    def lag(self, partition: int, topic_id: str | None, committed: int | None) -> int | None:
        """Return the records that wait after a commit to a topic with this id; None if they are not known."""
        end = self._after.get(partition)
        if committed is None or end is None or self._is_late:
            return None
        known_id = self._before_id if topic_id is None and partition in self._before else topic_id
        return waiting_records(committed, end) if _may_be_one(known_id, self._after_id) else None

    def rate(self, partition: int) -> int | None:
        """Return ``Load.rate``."""
        milliseconds = self._grown_ms
        if milliseconds <= 0:
            return None
        first, last = self._before.get(partition), self._after.get(partition)
        if first is None or last is None:
            return None
        growth = last - first
        return min(floor(growth * 1e9 / milliseconds), MOST_NUMBER) if 0 <= growth <= MOST_NUMBER else None


def _may_be_one(topic_id: str | None, other: str | None) -> bool:
    return topic_id is None or other is None or topic_id == other


def _known_topic(topic_id: str | None, before: Seen | None) -> str | None:
    """Return the id of a commit's topic: its own, or that of the metadata snapshot before."""
    return before.topic_id if topic_id is None and before is not None else topic_id


def _end(topic_id: str | None, after: Seen | None) -> int | None:
    return after.end_offset if after is not None and _may_be_one(topic_id, after.topic_id) else None


def _was_ahead(before: Seen | None, topic_id: str | None, committed: int, committed_us: int | None) -> bool:
    """Return whether a commit is above the end of the same topic's log in the metadata snapshot before, which was made since the commit."""
    if before is None or before.end_offset is None or committed_us is None:
        return False
    return committed > before.end_offset and topic_id == before.topic_id and before.at_us >= committed_us


def _stood_still(before: Seen | None, after: Seen | None) -> bool:
    """Return whether no record came between two metadata snapshots."""
    if before is None or after is None or before.end_offset is None:
        return False
    return (before.topic_id, before.end_offset) == (after.topic_id, after.end_offset)


def _milliseconds(start_us: int, end_us: int) -> int:
    """Return the time between two moments, each in whole milliseconds, as Spark's ``unix_millis`` gives them."""
    return end_us // MILLISECOND_US - start_us // MILLISECOND_US


def _time(look: Look) -> int:
    return look.at_us


class GroupOffsets:
    """The commits of a group, up to the generation that is read, and the metadata snapshots of its topics.

    Attributes:
        looks: topic -> its metadata snapshots, by time.
    """

    def __init__(self) -> None:
        self.looks: dict[str, list[Look]] = {}
        self._commits: dict[TopicPartition, Commit] = {}
        self._timed: list[TimedCommit] = []
        self._timed_count, self._timed_until_us = 0, -inf
        self._is_sorted = True

    def add_look(self, topic: str, look: Look) -> None:
        """Add a metadata snapshot; all come before the first generation, in any order."""
        self.looks.setdefault(topic, []).append(look)
        self._is_sorted = False

    def add_commits(self, commits: Iterable[tuple[TopicPartition, Commit]]) -> None:
        """Add commits in the order of the log; those of generations that follow."""
        self._commits.update(commits)

    def add_timed(self, commits: Iterable[TimedCommit]) -> None:
        """Add commits of a group in which only times can be compared; all come before the first generation, in any order."""
        self._timed.extend(commits)
        self._is_sorted = False

    def moment(self, at_us: int, is_complete: bool, max_look_delay_s: float | None) -> Moment:
        """Return a generation's moment; it is valid until the next commits are added.

        Args:
            at_us: time of the generation, in microseconds.
            is_complete: whether the group's commits are known from the first record of its log.
            max_look_delay_s: a lag is None if its metadata snapshot is later than the moment by more seconds; None: no limit.
        """
        return Moment(self, at_us, is_complete, max_look_delay_s)

    def commits_at(self, at_us: int) -> dict[TopicPartition, Commit]:
        """Return the last commit of each partition: up to the generation that is read, or up to a time if only times can be compared."""
        if not self._is_sorted:
            for looks in self.looks.values():
                looks.sort(key=_time)
            self._timed.sort(key=lambda one: (one.observed_us, one.position))
            self._is_sorted = True
        if self._timed:
            if at_us < self._timed_until_us:  # a later generation with an earlier time
                self._commits, self._timed_count = {}, 0
            self._timed_until_us = at_us
            while self._timed_count < len(self._timed) and self._timed[self._timed_count].observed_us <= at_us:
                one = self._timed[self._timed_count]
                self._commits[one.partition] = one.commit
                self._timed_count += 1
        return self._commits
