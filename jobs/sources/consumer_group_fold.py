"""KIP-848 groups: their records, spread over seven types, folded in offset order into snapshots.

The coordinator never writes down a whole group. Each record changes one member, one target, one epoch; replayed in order, as the
coordinator does when it loads its partition (``GroupMetadataManager.replay``), they give the group at every offset. A snapshot is
taken at each new target assignment, at an epoch that leaves no members, and where a static member's target passes to its replacement.
"""

from __future__ import annotations

import hashlib
import json
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assignors.ordering import string_hash
from assignors.replay import UNRESOLVED
from jobs.sources.decoded import Row, micros
from schemas.vocabulary import DEFAULT_SERVER_STRATEGY, SERVER_STRATEGIES_BY_NAME, GroupState, GroupType
from schemas.wire import VALUE_DECODERS, decode_key
from schemas.wire.consumer_group import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    TopicIdPartitions,
)

EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, EXPRESSION = 3, 4, 5, 6, 7, 8, 16
RECORD_TYPES = (EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, EXPRESSION)
"""Types of the records that make up a consumer-protocol group."""

_OF_MEMBERS = (MEMBER, TARGET, CURRENT)
_STABLE = 0
_FEWEST_SLOTS = 2
_FIBONACCI = 0x9E3779B97F4A7C15


class Record(NamedTuple):
    """One stored record of a group; ``value`` None is a tombstone."""

    offsets_partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None


class _Change(NamedTuple):
    """A record, decoded; ``content`` None is a tombstone.

    Attributes:
        name: the member or the regular expression that it is about; empty for one about the whole group.
    """

    record: Record
    kind: int
    name: str
    content: Any


def fold(group_id: str, records: Iterable[Record], topic_names: dict[str, str]) -> Iterator[Row]:
    """Yield the snapshots of one group, ready for ``subscription_snapshots``.

    Of a compacted log the last record a key is left, so that a member's metadata may stand behind its target: such a member has, until
    then, the metadata that come next. A member without any is left out, as a target without a member is by the coordinator. Nor is there
    anything left of static members that were replaced: their generation is told where the last of them was, when it is whole again.

    Args:
        records: of the types above, by offset.
        topic_names: topic id -> name, as looks know them; names in the group's own records are added.
    """
    changes = [_decoded(record) for record in records]
    own = {
        topic.topic_id: topic.topic
        for change in changes
        if change.kind == TOPICS and change.content is not None
        for topic in change.content.topics
    }
    group = _Group(group_id, ChainMap(own, topic_names), _metadata_to_come(changes))
    for change in changes:
        group.replay(change)
    for snapshot in group.snapshots:
        content = json.dumps({**snapshot, "reconciled_at": None}, sort_keys=True)  # which comes from records behind it
        yield {**snapshot, "fingerprint": hashlib.sha256(content.encode()).hexdigest()}


def _decoded(record: Record) -> _Change:
    key = decode_key(record.key)
    content = None if record.value is None else VALUE_DECODERS[key.record_type](record.value)
    return _Change(record, key.record_type, key.member_id or key.regular_expression or "", content)


def _metadata_to_come(changes: Sequence[_Change]) -> dict[int, ConsumerGroupMemberMetadata]:
    """Return for each record that names a member before its metadata do, by offset, the first metadata behind it."""
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


class _Group:
    """A group at one offset, and the snapshots taken until then."""

    def __init__(self, group_id: str, names: Mapping[str, str], to_come: Mapping[int, ConsumerGroupMemberMetadata]) -> None:
        self.snapshots: list[Row] = []
        self._group_id, self._names, self._to_come = group_id, names, to_come
        self._forget()

    def _forget(self) -> None:
        self._first = len(self.snapshots)
        self._epoch: int | None = None
        self._target_epoch: int | None = None
        self._made_at_ms = 0
        self._members: dict[str, ConsumerGroupMemberMetadata] = {}
        self._targets: dict[str, tuple[TopicIdPartitions, ...]] = {}
        self._currents: dict[str, ConsumerGroupCurrentMemberAssignment] = {}
        self._expressions: dict[str, tuple[str, ...]] = {}
        self._left_instances: set[str] = set()
        self._open: Row | None = None

    def replay(self, change: _Change) -> None:
        """Take in one record."""
        record, kind, name, content = change
        if record.offset in self._to_come:
            self._members[name] = self._to_come[record.offset]
        if kind == EPOCH:
            if content is None:
                return self._forget()
            self._epoch = content.epoch
            self._left_instances.clear()
            if not self._members:
                self._take(change, content.epoch)
        elif kind == MEMBER:
            self._change_member(name, content)
        elif kind == TARGET_EPOCH:
            self._target_epoch = None if content is None else content.assignment_epoch
            if content is not None:
                self._made_at_ms = content.assignment_timestamp_ms
                if self._members:
                    self._take_back(content.assignment_epoch)  # its epoch left no members: those that it has stand behind it
                self._take(change, content.assignment_epoch)
        elif kind == TARGET:
            is_new, epoch = content is not None and name not in self._targets, self._target_epoch
            _put(self._targets, name, content and content.partitions)
            if is_new and epoch is not None:
                if self._replaces_forgotten_member(name):
                    self._take_back(epoch)
                    self._take(change, epoch)
                elif self._replaces_static_member(name):
                    self._take(change, epoch)
        elif kind == CURRENT:
            _put(self._currents, name, content)
        elif kind == EXPRESSION:
            _put(self._expressions, name, content and content.topics)
        self._settle(record.timestamp_ms)
        return None

    def _change_member(self, member_id: str, metadata: ConsumerGroupMemberMetadata | None) -> None:
        left = self._members.get(member_id)
        _put(self._members, member_id, metadata)
        if metadata is None and left is not None and left.group_instance_id is not None:
            self._left_instances.add(left.group_instance_id)

    def _replaces_static_member(self, member_id: str) -> bool:
        """Return whether a target passes to a member that took over an instance id, within one epoch."""
        member = self._members.get(member_id)
        if member is None or member.group_instance_id not in self._left_instances:
            return False
        self._left_instances.discard(member.group_instance_id)
        return True

    def _replaces_forgotten_member(self, member_id: str) -> bool:
        """Return whether a target passes to a static member from one of which compaction has left nothing.

        The coordinator gives new members a target together with a new epoch, and within an epoch only in place of another member.
        """
        member = self._members.get(member_id)
        if member is None or member.group_instance_id is None or self._left_instances:
            return False
        return self._epoch in (None, self._target_epoch)

    def _take_back(self, generation: int) -> None:
        """Forget the snapshots that were taken of a generation before its members were known."""
        while len(self.snapshots) > self._first and self.snapshots[-1]["generation"] == generation:
            self.snapshots.pop()

    def _settle(self, now_ms: int) -> None:
        """Note when every member has reached the target of the last snapshot."""
        if self._open is not None and self._members and self._have_all_reconciled():
            self._open["reconciled_at"], self._open = micros(now_ms), None

    def _have_all_reconciled(self) -> bool:
        currents = [self._currents.get(member_id) for member_id in self._members]
        return all(one is not None and (one.state, one.member_epoch) == (_STABLE, self._target_epoch) for one in currents)

    def _state(self) -> GroupState:
        if not self._members:
            return GroupState.EMPTY
        if self._epoch is not None and self._target_epoch is not None and self._epoch > self._target_epoch:
            return GroupState.ASSIGNING
        return GroupState.STABLE if self._have_all_reconciled() else GroupState.RECONCILING

    def _take(self, change: _Change, generation: int) -> None:
        record = change.record
        content: Row = {
            "group_id": self._group_id,
            "generation": generation,
            "observed_at": micros(record.timestamp_ms),
            "position": record.offset,
            "group_type": GroupType.CONSUMER.value,
            "protocol_type": "consumer",
            "state": self._state().value,
            "strategy": self._strategy(),
            "joined_at": micros(self._made_at_ms) if self._members and self._made_at_ms else None,
            "members": [self._member(member_id) for member_id in table_order(self._members)],
            "reconciled_at": None,
            "offsets_partition": record.offsets_partition,
            "source_position": f"{record.offsets_partition}@{record.offset}",
        }
        self.snapshots.append(content)
        self._open = content if self._members else None

    def _strategy(self) -> str | None:
        """Return the assignor that most members ask for, the broker's default where none does; None without members."""
        if not self._members:
            return None
        asked = Counter(member.server_assignor for member in self._members.values() if member.server_assignor)
        name = asked.most_common(1)[0][0] if asked else DEFAULT_SERVER_STRATEGY
        return SERVER_STRATEGIES_BY_NAME.get(name, name)

    def _member(self, member_id: str) -> Row:
        metadata, current = self._members[member_id], self._currents.get(member_id)
        resolved = self._expressions.get(metadata.topic_regex, ()) if metadata.topic_regex else ()
        held = self._entries(current.assigned) if current is not None else []
        classic = metadata.classic if metadata.classic is not None and metadata.classic.supported_protocols else None
        if classic is not None:
            strategies = [protocol.name for protocol in classic.supported_protocols]
        else:
            strategies = [metadata.server_assignor] if metadata.server_assignor else []
        return {
            "member_id": member_id,
            "group_instance_id": metadata.group_instance_id,
            "client_id": metadata.client_id,
            "client_host": metadata.client_host,
            "rack": metadata.rack,
            "session_timeout_ms": classic.session_timeout_ms if classic is not None else None,
            "rebalance_timeout_ms": metadata.rebalance_timeout_ms,
            "topics": list(dict.fromkeys((*metadata.topics, *resolved))),
            "topic_regex": metadata.topic_regex or None,
            "strategies": strategies,
            "owned": held,
            "owned_generation": current.member_epoch if current is not None else None,
            "assigned": self._entries(self._targets.get(member_id, ())),
            "current": held,
            "pending_revocation": self._entries(current.pending_revocation) if current is not None else [],
        }

    def _entries(self, partitions: Iterable[TopicIdPartitions]) -> list[Row]:
        """Return partitions by topic name; those of a topic that was deleted and made again under its name share one entry."""
        by_topic: dict[str, list[int]] = {}
        for entry in partitions:
            by_topic.setdefault(self._names.get(entry.topic_id, f"{UNRESOLVED}{entry.topic_id}"), []).extend(entry.partitions)
        return [{"topic": topic, "partitions": list(dict.fromkeys(numbers))} for topic, numbers in by_topic.items()]


def table_order(member_ids: Collection[str]) -> list[str]:
    """Return member ids in the order of the coordinator's own table, from which its assignor is fed.

    Kafka's ``TimelineHashMap`` (4.3.1) holds at most four keys on three slots; a key's slot is in the top bits of its hash times a
    constant, and the last key put into a slot is the first to be read. It never shrinks, so that a group that was larger once may have
    another order: no record tells since when the coordinator has had its table.

    Args:
        member_ids: in the order in which they joined.
    """
    slots = _FEWEST_SLOTS
    while len(member_ids) * 3 > slots * 4:
        slots *= 2

    def slot(member_id: str) -> int:
        return (string_hash(member_id) * _FIBONACCI & (1 << 64) - 1) >> 65 - slots.bit_length()

    return sorted(reversed(list(member_ids)), key=slot)


def _put(table: dict[str, Any], name: str, content: Any) -> None:
    if content is None:
        table.pop(name, None)
    else:
        table[name] = content
