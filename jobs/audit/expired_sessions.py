"""Whether a member that left has lost its session, by the commits around its departure.

A member that commits regularly stops, its records go on, and when its session timeout is over it is gone. None of these is enough alone.
A consumer without new records may commit nothing for hours and then close. A member that leaves also seems silent if another one joins
again late: the generation without it comes only then. So the silence has to be about as long as the session timeout. A member that has
polled nothing for its rebalance timeout leaves by itself.

``tests/kafka/test_expired_sessions.py`` compares all this with members of real clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

from pyspark.sql.pandas.types import to_arrow_schema

from jobs.workers.batches import Batches, to_batches
from jobs.workers.guard import Guard, WorkerLimits
from schemas.computed_row_types import ExpiredSession
from schemas.keys import GROUP_KEY
from schemas.staging import EXPIRED_SESSIONS

FEWEST_COMMITS = 10
"""How often a member must have committed before. With fewer commits a random pause is often as long as a session."""
TIMES_LONGEST_GAP = 2
"""A silence must be this many times as long as the longest one before."""
SLACK = 0.25
"""The part of its session timeout by which the generation may be later: the others join again at their next heartbeat and poll."""
LEAST_SLACK_MS = 1_000
"""The same where all others have waited for the member: they had joined again before."""
LEAST_GROWTH = 0.5
"""The part of the usual number of records that must have come in since the last commit. An idle member had none."""
UNCHANGED_COMMITS = 3
"""A client that has committed the same offsets so often also commits without records. Then its silence does not mean that none came."""
DEPARTURE_FIELDS = ("position", "member_id", "observed_us", "last_us", "session_timeout_ms", "rebalance_timeout_ms", "heartbeat_ms")
COMMIT_FIELDS = ("committed_us", "topic", "partition", "committed_offset", "is_own")


class Departure(NamedTuple):
    """A member that left after it had been silent. Times are in microseconds.

    Attributes:
        position: of the generation without it.
        observed_us: the time of that generation.
        last_us: the time of its last commit.
        heartbeat_ms: how long before its last commit its session may have begun.
    """

    position: int
    member_id: str
    observed_us: int
    last_us: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_ms: int

    @property
    def silence_ms(self) -> int:
        """The time from its last commit to the generation without it."""
        return self.observed_us // 1_000 - self.last_us // 1_000


class NearCommit(NamedTuple):
    """A commit of the group near a departure. ``is_own``: of a partition that others took over from the member."""

    committed_us: int
    topic: str
    partition: int
    committed_offset: int | None
    is_own: bool


@dataclass
class _Progress:
    """The first and the last commit of a partition before a departure, and the last one after it: pairs of time and offset."""

    first: tuple[int, int | None] | None = None
    last: tuple[int, int | None] | None = None
    after: tuple[int, int | None] | None = None

    def add(self, commit: NearCommit, *, is_before: bool) -> None:
        seen = commit.committed_us // 1_000, commit.committed_offset
        if not is_before:
            self.after = seen
        else:
            self.first, self.last = self.first or seen, seen

    def goes_on(self) -> bool:
        """Return whether about as many records as usual came after the last commit of the member."""
        if self.first is None or self.last is None or self.after is None:
            return False
        (first_ms, first), (last_ms, last), (after_ms, after) = self.first, self.last, self.after
        if first is None or last is None or after is None:
            return False
        usual, usual_ms, since, since_ms = last - first, last_ms - first_ms, after - last, after_ms - last_ms
        return usual > 0 and since * usual_ms >= LEAST_GROWTH * usual * since_ms


def has_expired(departure: Departure, commits: Iterable[NearCommit]) -> bool:
    """Return whether a silent member had committed regularly, its records went on, and it left when its session timeout was over.

    The pause after the first commit does not count: the owner before commits once more when it gives up its partitions, and the member
    itself begins later.

    Args:
        commits: by time: of all partitions before the departure, of the member's own ones also soon after it.
    """
    own_count = unchanged_count = longest_gap_ms = 0
    own_ms: int | None = None
    others_ms: int | None = None
    offsets: dict[tuple[str, int], int | None] = {}
    progress: dict[tuple[str, int], _Progress] = {}
    for committed_us, request in groupby(commits, key=attrgetter("committed_us")):  # one request commits many partitions
        is_before, is_own, repeats = committed_us < departure.observed_us, False, []
        for commit in request:
            key = commit.topic, commit.partition
            if key in offsets:
                repeats.append(offsets[key] == commit.committed_offset)
            offsets[key] = commit.committed_offset
            if commit.is_own:
                is_own = True
                progress.setdefault(key, _Progress()).add(commit, is_before=is_before)
        at_ms = committed_us // 1_000
        if is_before and is_own:
            own_count += 1
            unchanged_count += bool(repeats) and all(repeats)
            if own_ms is not None and own_count > 2:
                longest_gap_ms = max(longest_gap_ms, at_ms - own_ms)
            own_ms = at_ms
        elif is_before:
            others_ms = at_ms
    silence_ms, session_ms = departure.silence_ms, departure.session_timeout_ms
    is_regular = own_count >= FEWEST_COMMITS and silence_ms >= TIMES_LONGEST_GAP * longest_gap_ms
    polled_in_time = silence_ms + longest_gap_ms < departure.rebalance_timeout_ms
    had_records = unchanged_count >= UNCHANGED_COMMITS or any(one.goes_on() for one in progress.values())
    others_went_on = others_ms is not None and others_ms - departure.last_us // 1_000 > session_ms / 2
    slack_ms = session_ms * SLACK if others_went_on else LEAST_SLACK_MS
    is_in_time = silence_ms <= session_ms + longest_gap_ms + slack_ms + departure.heartbeat_ms
    return is_regular and polled_in_time and had_records and is_in_time


def find_expired_sessions(batches: Batches, limits: WorkerLimits) -> Batches:
    """Yield the members whose session has likely expired, as rows of ``EXPIRED_SESSIONS``.

    Args:
        batches: rows of ``inferred_causes.commits_around``; those of a departure come together, by time.
        limits: limits of a worker.

    Raises:
        GroupFailedError: any unexpected error, with its cluster and group.
    """

    def rows(guard: Guard) -> Iterator[ExpiredSession]:
        for ((cluster_id, group_id), departure), near in groupby(_near_commits(batches), key=itemgetter(0)):
            judge = partial(_expired, cluster_id, group_id, departure)
            yield from guard.compute(f"cluster {cluster_id}, group {group_id}", map(itemgetter(1), near), judge)

    with Guard(limits) as guard:
        yield from to_batches(rows(guard), to_arrow_schema(EXPIRED_SESSIONS), 2_000)


def _near_commits(batches: Batches) -> Iterator[tuple[tuple[tuple[str, str], Departure], NearCommit]]:
    for batch in batches:
        groups, departures, commits = (
            zip(*(batch.column(name).to_pylist() for name in names), strict=True) for names in (GROUP_KEY, DEPARTURE_FIELDS, COMMIT_FIELDS)
        )
        for group, departure, commit in zip(groups, departures, commits, strict=True):
            yield (group, Departure(*departure)), NearCommit(*commit)


def _expired(cluster_id: str, group_id: str, departure: Departure, commits: Iterable[NearCommit]) -> Iterator[ExpiredSession]:
    if has_expired(departure, commits):
        yield {
            "cluster_id": cluster_id,
            "group_id": group_id,
            "position": departure.position,
            "member_id": departure.member_id,
            "silence_ms": departure.silence_ms,
            "session_timeout_ms": departure.session_timeout_ms,
        }
