"""The metadata snapshot that shows a topic as the leader of a generation saw it.

The leader's own metadata is not stored. Metadata snapshots are from before and after; the assignment shows which of them are possible.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum

MOST_INFERRED = 100_000
"""The most partitions of a topic that are inferred from members alone. A controller creates at most 10,000 at once. A damaged or forged
record may have any number up to 2147483647, and all partitions below it would be assigned and reported one by one."""


class LookBasis(str, Enum):
    """Where the partitions of a topic come from."""

    BEFORE = "before"
    AFTER = "after"
    EARLIER = "earlier"
    INFERRED = "inferred"


@dataclass(frozen=True, slots=True)
class TopicRun:
    """A topic that is the same in a run of consecutive metadata snapshots.

    Attributes:
        first_look, last_look: indexes into the times of all metadata snapshots of the cluster, both included.
        partition_count: partitions are numbered from 0.
        topic_id: None if the source has none.
        partition_racks: racks of each partition's replicas; None if not known.
    """

    first_look: int
    last_look: int
    partition_count: int
    topic_id: str | None = None
    partition_racks: tuple[tuple[str | None, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class ResolvedTopic:
    """A topic as a generation is taken to have seen it.

    Attributes:
        partition_count: 0 for a topic that did not exist.
        is_uncertain: no metadata snapshot fits the members' partitions and claims, or it may be from after the topic grew.
    """

    topic: str
    partition_count: int
    topic_id: str | None
    partition_racks: tuple[tuple[str | None, ...], ...] | None
    basis: LookBasis
    is_uncertain: bool


class ClusterLooks:
    """All metadata snapshots of one cluster, by time.

    Args:
        times_ms: the time of each metadata snapshot, ascending.
        runs: topic -> its runs, ascending; a topic that is in no metadata snapshot has none.
    """

    def __init__(self, times_ms: Sequence[int], runs: Mapping[str, Sequence[TopicRun]]) -> None:
        self._times_ms = times_ms
        self._runs = runs

    def resolve(
        self,
        topic: str,
        joined_at_ms: int,
        given: Set[int],
        claimed: Set[int] = frozenset(),
        *,
        existing_before: tuple[int, int] = (0, 0),
        is_abandoned: bool = False,
        is_empty: bool = False,
    ) -> ResolvedTopic:
        """Return the topic as in the first metadata snapshot that fits: the last before, the first after, the second last before.

        A metadata snapshot fits if it has every partition that members have or claim. A claim is of the generation before. So a claimed
        partition may have been deleted since, if nobody has it now. It existed in an earlier one of the three, or in the generation before
        if the metadata snapshot is from after that. If a metadata snapshot has other partitions too, its neighbour in time must not lack
        exactly these. An earlier neighbour would if they were added after the generation, a later one if the topic was deleted before it.
        If none fits, the last one before is used. If none has the topic, its partitions are inferred from those that members have or claim.
        Numbers that no topic can have are ignored, so that their owners have partitions that do not exist.

        If the first metadata snapshot with the topic is a later one, and nobody has or claims the topic's last partitions, they may have
        been added since. Then the count is inferred too: up to the last partition that a member has or claims.

        Args:
            joined_at_ms: when the members had joined.
            given: partitions of the topic that members have.
            claimed: partitions of the topic that members claim.
            existing_before: when the members of the generation before had joined, and the topic's partition count there.
            is_abandoned: the topic existed in the generation before, and nobody subscribes to it now. If no metadata snapshot has it, it
                may still exist.
            is_empty: the group has no members. That nobody has a partition does not show that the topic was deleted.

        >>> looks = ClusterLooks([10, 20, 30], {"t": [TopicRun(0, 1, 3), TopicRun(2, 2, 6)]})
        >>> looks.resolve("t", 25, {0, 1, 2}).partition_count, looks.resolve("t", 25, {0, 5}).basis.value
        (3, 'after')
        """
        runs = self._runs.get(topic, ())
        needed = given | claimed
        if not self._times_ms or (not runs and (needed or is_abandoned)):
            inferred_count = max((partition + 1 for partition in needed if 0 <= partition < MOST_INFERRED), default=0)
            return ResolvedTopic(topic, inferred_count, None, None, LookBasis.INFERRED, is_uncertain=True)
        before = bisect_right(self._times_ms, joined_at_ms) - 1
        candidates = (
            (before, before + 1, LookBasis.BEFORE),
            (before + 1, before, LookBasis.AFTER),
            (before - 1, before, LookBasis.EARLIER),
        )
        known = [candidate for candidate in candidates if self._exists(candidate[0])]
        for number, neighbour, basis in known:
            count = self._count(runs, number) or 0
            deleted_from = max((self._count(runs, earlier) or 0 for earlier in range(before - 1, number)), default=0)
            if self._times_ms[number] >= existing_before[0]:
                deleted_from = max(deleted_from, existing_before[1])
            if not _has_all(count, given, claimed, deleted_from):
                continue
            is_later = neighbour > number
            if (is_empty and is_later) or not _is_lacking(self._count(runs, neighbour), count, given if is_later else needed):
                found = self._resolved(topic, runs, number, basis)
                return _cut(found, len(needed)) if runs and runs[0].first_look > before and _lack_the_last(count, needed) else found
        number, _, basis = known[0]
        return self._resolved(topic, runs, number, basis, is_uncertain=True)

    def _exists(self, number: int) -> bool:
        return 0 <= number < len(self._times_ms)

    def _count(self, runs: Sequence[TopicRun], number: int) -> int | None:
        if not self._exists(number):
            return None
        run = _run_at(runs, number)
        return 0 if run is None else run.partition_count

    def _resolved(
        self, topic: str, runs: Sequence[TopicRun], number: int, basis: LookBasis, *, is_uncertain: bool = False
    ) -> ResolvedTopic:
        run = _run_at(runs, number)
        if run is None:
            return ResolvedTopic(topic, 0, None, None, basis, is_uncertain)
        return ResolvedTopic(topic, run.partition_count, run.topic_id, run.partition_racks, basis, is_uncertain)


def _run_at(runs: Sequence[TopicRun], number: int) -> TopicRun | None:
    at = bisect_right(runs, number, key=lambda run: run.first_look) - 1
    return runs[at] if at >= 0 and number <= runs[at].last_look else None


def _lack_the_last(count: int, needed: Set[int]) -> bool:
    """Return whether the partitions that are not needed are the last ones of the topic."""
    return len(needed) < count and needed == set(range(len(needed)))


def _cut(topic: ResolvedTopic, count: int) -> ResolvedTopic:
    """Return a topic with the partition count that members show."""
    racks = None if topic.partition_racks is None else topic.partition_racks[:count]
    return replace(topic, partition_count=count, partition_racks=racks, basis=LookBasis.INFERRED, is_uncertain=True)


def _has_all(count: int, given: Set[int], claimed: Set[int], deleted_from: int) -> bool:
    """Return whether a topic has every partition that members have or claim, apart from claimed ones that were deleted.

    Args:
        deleted_from: the partition count at an earlier moment.
    """
    numbers = given | claimed
    if not numbers or 0 <= min(numbers) <= max(numbers) < count:
        return True
    return all(0 <= number < count or (number not in given and 0 <= number < deleted_from) for number in numbers)


def _is_lacking(neighbour_count: int | None, count: int, needed: Set[int]) -> bool:
    """Return whether a topic's neighbour in time lacks just those partitions that are not needed."""
    if neighbour_count is None or neighbour_count >= count:
        return False
    existing = [number for number in needed if number < count]
    return len(existing) == neighbour_count and all(number < neighbour_count for number in existing)
