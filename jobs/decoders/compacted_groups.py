"""What compaction has removed from the records of a consumer-protocol group, as far as those that are left show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.wire.consumer_group import ConsumerGroupMemberMetadata, TopicIdPartitions
from schemas.wire.keys import CURRENT, EPOCH, EXPRESSION, MEMBER, TARGET

LONGEST_SESSION_MS = 300_000
"""More than the session timeout that brokers allow, and the default of the rebalance timeout."""

_OF_MEMBERS = (MEMBER, TARGET, CURRENT)


class Record(NamedTuple):
    """One stored record of a group; ``value`` None is a tombstone."""

    offsets_partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None


class Change(NamedTuple):
    """A record, decoded; ``content`` None is a tombstone.

    Attributes:
        name: the member or the regular expression of the record; empty for a record of the whole group.
    """

    record: Record
    kind: int
    name: str
    content: Any


def metadata_to_come(changes: Sequence[Change]) -> dict[int, ConsumerGroupMemberMetadata]:
    """Return by offset the first later metadata, for each record that names a member before the member's metadata."""
    found: dict[int, ConsumerGroupMemberMetadata] = {}
    known: set[str] = set()
    waiting: dict[str, int] = {}
    for change in changes:
        member_id, kind = change.name, change.kind
        if kind not in _OF_MEMBERS:
            continue
        if kind == MEMBER:
            first = waiting.pop(member_id, None)
            if change.content is None:
                known.discard(member_id)
            else:
                known.add(member_id)
                if first is not None:
                    found[first] = change.content
        elif change.content is not None and member_id not in known:
            waiting.setdefault(member_id, change.record.offset)
    return found


def expressions_to_come(changes: Sequence[Change]) -> dict[str, tuple[str, ...]]:
    """Return the topics of each regular expression that matched them before its first record.

    The coordinator resolves an expression every ten minutes and writes a record each time. So in a compacted log the record is mostly later
    than the newest target. If its topics are others than before, the group gets an epoch in the same batch.
    """
    firsts: dict[str, Change] = {}
    begun: dict[int, int] = {}
    for change in changes:
        if change.kind == EXPRESSION:
            firsts.setdefault(change.name, change)
        elif change.kind == EPOCH and change.content is not None:
            begun[change.record.timestamp_ms] = change.record.offset
    return {
        name: first.content.topics
        for name, first in firsts.items()
        if first.content is not None and begun.get(first.record.timestamp_ms, -1) < first.record.offset
    }


class LostMembers:
    """Members that had left before a target was made, though no tombstone shows it.

    A capture may continue another one after compaction has removed tombstones. Each member answers a new target with a record of its
    current assignment, or the coordinator removes it after its session timeout or its rebalance timeout. So a member without a record
    since a target has left, if the group has records that are later than that. At the end of a log a member has left that was silent for
    as long before the target, if a partition of it is now in the target of a member with later records.
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        self._last_ms = {change.name: change.record.timestamp_ms for change in changes if change.kind in _OF_MEMBERS}
        self._end_ms = max((change.record.timestamp_ms for change in changes), default=0)

    def at_target(
        self, made_ms: int, members: Mapping[str, ConsumerGroupMemberMetadata], targets: Mapping[str, Sequence[TopicIdPartitions]]
    ) -> list[str]:
        """Return the members that had left before the target.

        Args:
            made_ms: time of the target's record.
            members, targets: of the group with this target.
        """
        silent = {member_id: _patience_ms(one) for member_id, one in members.items() if self._last_ms[member_id] < made_ms}
        lost = [member_id for member_id, patience_ms in silent.items() if self._end_ms > made_ms + patience_ms]
        doubtful = [one for one in silent if one not in lost and made_ms > self._last_ms[one] + silent[one]]
        if doubtful:
            newest: dict[tuple[str, int], int] = {}
            for member_id in members:
                for partition in _partitions(targets.get(member_id, ())):
                    newest[partition] = max(newest.get(partition, 0), self._last_ms[member_id])
            lost += [one for one in doubtful if any(newest[at] > self._last_ms[one] for at in _partitions(targets.get(one, ())))]
        return lost


def _patience_ms(member: ConsumerGroupMemberMetadata) -> int:
    """Return twice the time after which the coordinator removes a member that does not answer."""
    session_ms = member.classic.session_timeout_ms if member.classic is not None else 0
    return 2 * max(member.rebalance_timeout_ms, session_ms, LONGEST_SESSION_MS)


def _partitions(entries: Sequence[TopicIdPartitions]) -> Iterator[tuple[str, int]]:
    return ((entry.topic_id, partition) for entry in entries for partition in entry.partitions)
