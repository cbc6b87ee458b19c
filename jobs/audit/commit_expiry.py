"""The last commit of each partition of a group, and when the coordinator deletes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

HOUR_MS = 3_600_000
AHEAD_MS = 24 * HOUR_MS
"""How far ahead of the newest moment of a cluster commits are looked for that expire."""


class LastCommit(NamedTuple):
    """The last commit of a partition, or its deletion; first time and count are of all its commits. Times are in microseconds."""

    topic: str
    partition: int
    is_deleted: bool
    commit_us: int
    first_commit_us: int | None
    commit_count: int
    committed_offset: int | None
    committed_us: int | None
    expires_us: int | None


@dataclass
class _Expiring:
    """The commits of a topic that expire soon."""

    partition_count: int = 0
    expires_at_ms: int | None = None

    def add(self, expires_ms: int) -> None:
        self.partition_count += 1
        self.expires_at_ms = expires_ms if self.expires_at_ms is None else min(self.expires_at_ms, expires_ms)


class Expiry:
    """When the coordinator deletes the commits of a group, because nobody reads their partitions any more.

    Since Kafka 2.1 (KIP-211) the retention of a classic group's commits begins when the group becomes empty, also for later commits of an
    admin. For a topic to which nobody subscribes any more it begins at the last commit. In groups of the consumer protocol, and in groups
    that never had members since they were deleted, it always begins at the last commit. ``tests/kafka/test_commits_expire.py`` compares
    all this with a broker.

    Commits that should have expired before are left out: as they are still there, the broker keeps them for longer than assumed. Commits
    without a time of their own are left out too, as are those of groups that never had members.
    """

    def __init__(self, generation: Mapping[str, Any], newest_ms: int, retention_ms: int) -> None:
        self._is_empty = generation["member_count"] == 0
        self._emptied_us: int | None = generation["emptied_us"] if self._is_empty else None
        self._has_subscriptions = generation["has_subscriptions"]
        self._subscribed = set(generation["subscribed"])
        self._newest_ms = newest_ms
        self._retention_ms = retention_ms

    def asks_for_deletion(self, commits: Iterable[LastCommit]) -> bool:
        """Return whether a commit is later than the group became empty: the group may have been deleted in between."""
        emptied_us = self._emptied_us
        return emptied_us is not None and any(emptied_us < commit.committed_us for commit in commits if commit.committed_us is not None)

    def by_topic(self, commits: Iterable[LastCommit], *, is_deleted_group: bool) -> list[dict[str, Any]] | None:
        """Return the topics whose commits expire within a day of the newest moment of the cluster, by name; None without one.

        Args:
            is_deleted_group: whether the group was deleted after its newest generation.
        """
        found: dict[str, _Expiring] = {}
        for commit in commits:
            if commit.is_deleted or commit.committed_us is None or not (self._is_empty or self._is_stray(commit.topic)):
                continue
            begin_us = commit.committed_us if is_deleted_group or self._emptied_us is None else self._emptied_us
            expires_us = commit.expires_us
            expires_ms = begin_us // 1_000 + self._retention_ms if expires_us is None else expires_us // 1_000
            if self._newest_ms < expires_ms <= self._newest_ms + AHEAD_MS:
                found.setdefault(commit.topic, _Expiring()).add(expires_ms)
        return [{"topic": topic, **vars(found[topic])} for topic in sorted(found)] or None

    def _is_stray(self, topic: str) -> bool:
        return self._has_subscriptions and topic not in self._subscribed
