"""KIP-848 groups: their records of seven types, folded in offset order into snapshots.

The coordinator never writes a whole group. Each record changes one member, one target or one epoch. Replayed in order, as the coordinator
does when it loads its partition (``GroupMetadataManager.replay``), they give the group at every offset. A snapshot is taken at each new
target assignment, at an epoch without members, and when a static member's target passes to its replacement.

Not every group epoch gets a target. A member that leaves only raises the epoch, and brokers since 4.3 make one target for several epochs.
Since 4.5 they may compute a target from an older copy of the group (``group.consumer.assignor.offload.enable``). The members and
subscriptions of a snapshot are those of the epoch of its target, if the record of that epoch exists.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assignors.java.hash_map import HashMapSimulation
from assignors.java.ordering import java_order, string_hash
from assignors.replay.replay import UNRESOLVED
from jobs.decoders.compacted_groups import Change, LostMembers, Record, expressions_to_come, metadata_to_come
from jobs.decoders.coordinator_table import FEWEST_SLOTS, capacity_of_copy, slots_after_put, table_order
from jobs.decoders.decoded import micros
from jobs.decoders.versioned_table import VersionedTable
from schemas.row_types import FoldedRow, MemberRow, TopicPartitions
from schemas.vocabulary import DEFAULT_SERVER_STRATEGY, SERVER_STRATEGIES_BY_NAME, GroupState, GroupType
from schemas.wire import decode_key, decode_value
from schemas.wire.consumer_group import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    TopicIdPartitions,
)
from schemas.wire.keys import CURRENT, EPOCH, EXPRESSION, MEMBER, TARGET, TARGET_EPOCH, TOPICS

WORKED_OUT = ("reconciled_at", "batched_epoch_count", "epoch_at", "is_superseded")
"""Columns of a snapshot from earlier or later records. Its fingerprint does not include them."""

_STABLE = 0


def fold(group_id: str, records: Iterable[Record], topic_names: dict[str, str]) -> Iterator[FoldedRow]:
    """Yield the snapshots of one group, ready for ``subscription_snapshots``.

    A compacted log has only the last record of each key, so a member's metadata may come after its target. Such a member has the next
    metadata until then, and mostly also the next topics of its regular expression (see ``expressions_to_come``). A member without metadata
    is left out, as the coordinator leaves out a target without a member. Compaction also removes replaced static members: their generation
    becomes a snapshot at the last replacement, when its members are complete again. And it removes tombstones: see ``LostMembers``.

    Args:
        records: of the types above, by offset.
        topic_names: topic id -> name, from topic metadata; names in the group's own records are added.
    """
    changes = [_decoded(record) for record in records]
    own = {
        topic.topic_id: topic.topic
        for change in changes
        if change.kind == TOPICS and change.content is not None
        for topic in change.content.topics
    }
    group = _Group(group_id, ChainMap(own, topic_names), metadata_to_come(changes), LostMembers(changes))
    group.resolve(expressions_to_come(changes))
    for change in changes:
        group.replay(change)
    for snapshot in group.snapshots:
        recorded = {name: value for name, value in snapshot.items() if name not in WORKED_OUT}
        content = json.dumps({**recorded, "reconciled_at": None}, sort_keys=True)  # null, so that stored fingerprints stay as they are
        yield {**snapshot, "fingerprint": hashlib.sha256(content.encode()).hexdigest()}


def _decoded(record: Record) -> Change:
    key = decode_key(record.key)
    content = None if record.value is None else decode_value(key.record_type, record.value)
    return Change(record, key.record_type, key.member_id or key.regular_expression or "", content)


class _Group:
    """A group at one offset, and the snapshots taken until then."""

    def __init__(
        self, group_id: str, names: Mapping[str, str], to_come: Mapping[int, ConsumerGroupMemberMetadata], lost: LostMembers
    ) -> None:
        self.snapshots: list[FoldedRow] = []
        self._group_id, self._names, self._to_come, self._lost = group_id, names, to_come, lost
        self._forget()

    def _forget(self) -> None:
        self._first = len(self.snapshots)
        self._epoch: int | None = None
        self._target_epoch: int | None = None
        self._made_at_ms = 0
        self._epochs: list[int] = []
        self._begun_at_ms: dict[int, int] = {}
        self._members: VersionedTable[ConsumerGroupMemberMetadata] = VersionedTable()
        self._slots = FEWEST_SLOTS
        self._targets: dict[str, tuple[TopicIdPartitions, ...]] = {}
        self._currents: dict[str, ConsumerGroupCurrentMemberAssignment] = {}
        self._expressions: VersionedTable[tuple[str, ...]] = VersionedTable()
        self._left_instances: set[str] = set()
        self._recorded: dict[str, None] = {}
        """Members with metadata since the last epoch or target, the only ones that a group made again has."""
        self._open: FoldedRow | None = None
        self._awaited: tuple[str, ...] = ()
        self._unready_place = 0
        self._changed: str | None = None
        self._began: str | None = None
        """The member whose record began the epoch; None for one that left."""

    def resolve(self, expressions: Mapping[str, tuple[str, ...]]) -> None:
        """Set the topics of regular expressions."""
        for name, topics in expressions.items():
            self._expressions.put(name, topics)

    def replay(self, change: Change) -> None:
        """Apply one record."""
        record, kind, name, content = change
        if record.offset in self._to_come:
            self._put_member(name, self._to_come[record.offset])
        if kind == EPOCH:
            if content is None:
                return self._forget()
            self._begin_epoch(content.epoch, record.timestamp_ms)
            if not self._members.now:
                self._take(change, content.epoch)
        elif kind == MEMBER:
            self._change_member(name, content)
        elif kind == TARGET_EPOCH:
            before, self._target_epoch = self._target_epoch, None
            if content is not None:
                self._forget_if_later_than(content.assignment_epoch, before)
                self._recorded.clear()
                self._target_epoch = content.assignment_epoch
                self._made_at_ms = content.assignment_timestamp_ms
                for lost in self._lost.at_target(record.timestamp_ms, self._members.now, self._targets):
                    self._members.put(lost, None)
                    self._targets.pop(lost, None)
                if self._members.now:
                    self._take_back(content.assignment_epoch)  # its epoch had no members: the records of its members came later
                if not self._is_overtaken(content.assignment_epoch):
                    self._take(change, content.assignment_epoch)
        elif kind == TARGET:
            is_new, epoch = content is not None and name not in self._targets, self._target_epoch
            _put(self._targets, name, content and content.partitions)
            if is_new and epoch is not None:
                if self._replaces_forgotten_member(name):
                    self._take_back(epoch)
                    self._take(change, epoch)
                elif self._take_over_instance(name):
                    self._take(change, epoch)
        elif kind == CURRENT:
            _put(self._currents, name, content)
            if name in self._members.now:
                self._slots = slots_after_put(self._slots, len(self._members.now))
        elif kind == EXPRESSION:
            self._expressions.put(name, content and content.topics)
        self._end_epoch(record.timestamp_ms)
        return None

    def _begin_epoch(self, epoch: int, at_ms: int) -> None:
        self._forget_if_later_than(epoch, self._epoch)
        self._recorded.clear()
        self._epoch = epoch
        self._began, self._changed = self._changed, None
        self._left_instances.clear()
        if not self._epochs or epoch > self._epochs[-1]:
            self._epochs.append(epoch)
            self._begun_at_ms[epoch] = at_ms
        self._members.begin(epoch)
        self._expressions.begin(epoch)

    def _forget_if_later_than(self, epoch: int, before: int | None) -> None:
        """Forget a group that was made again, except for its new members: its epoch is lower than the one before.

        Compaction may have removed the tombstone. A broker forgets an empty group even without one, when a former member that it refuses
        joins by the classic protocol (``classicGroupJoinToClassicGroup``, 4.3.1).
        """
        if before is None or before <= epoch:
            return
        now, changed = self._members.now, self._changed
        new = [(name, now[name], self._targets.get(name), self._currents.get(name)) for name in self._recorded if name in now]
        self._forget()
        self._changed = changed
        for member_id, metadata, target, current in new:
            self._put_member(member_id, metadata)
            _put(self._targets, member_id, target)
            _put(self._currents, member_id, current)

    def _is_overtaken(self, target_epoch: int) -> bool:
        """Return whether a later epoch without members has begun while the target was computed."""
        return len(self.snapshots) > self._first and self.snapshots[-1]["generation"] > target_epoch

    def _change_member(self, member_id: str, metadata: ConsumerGroupMemberMetadata | None) -> None:
        left = self._members.now.get(member_id)
        self._put_member(member_id, metadata)
        self._changed = None if metadata is None else member_id
        if metadata is None and left is not None and left.group_instance_id is not None:
            self._left_instances.add(left.group_instance_id)

    def _put_member(self, member_id: str, metadata: ConsumerGroupMemberMetadata | None) -> None:
        if metadata is not None:
            self._slots = slots_after_put(self._slots, len(self._members.now))
            self._recorded[member_id] = None
        self._members.put(member_id, metadata)

    def _assignor_order(self, members: Mapping[str, ConsumerGroupMemberMetadata]) -> list[str]:
        """Return the members in the order in which the assignor got them.

        The target of an epoch that began with a new member is computed before this member is in the coordinator's table: it comes last.
        """
        new = [self._began] if self._began is not None and self._began in members and self._began not in self._currents else []
        return table_order([member_id for member_id in members if member_id not in new], self._slots) + new

    def _take_over_instance(self, member_id: str) -> bool:
        """Give the instance id of a member that left in this epoch to this member; return whether there was one."""
        member = self._members.now.get(member_id)
        if member is None or member.group_instance_id not in self._left_instances:
            return False
        self._left_instances.discard(member.group_instance_id)
        return True

    def _replaces_forgotten_member(self, member_id: str) -> bool:
        """Return whether a target passes to a static member from one whose records compaction has removed.

        The coordinator gives a new member a target only with a new epoch, or within an epoch as the replacement of another member.
        """
        member = self._members.now.get(member_id)
        if member is None or member.group_instance_id is None or self._left_instances:
            return False
        return self._epoch in (None, self._target_epoch)

    def _take_back(self, generation: int) -> None:
        """Remove the snapshots of a generation that were taken before its members were known."""
        while len(self.snapshots) > self._first and self.snapshots[-1]["generation"] == generation:
            self.snapshots.pop()

    def _end_epoch(self, now_ms: int) -> None:
        """Set ``reconciled_at`` when every remaining member of the last snapshot has reached its target."""
        if self._open is None:
            return
        # From the member on that was not ready last time: most records leave it so, and a group may have thousands of members.
        count = len(self._awaited)
        for place in range(self._unready_place, self._unready_place + count):
            member_id = self._awaited[place % count]
            if member_id in self._members.now and not self._has_reconciled(member_id):
                self._unready_place = place % count
                return
        if any(member_id in self._members.now for member_id in self._awaited):
            self._open["reconciled_at"], self._open["is_superseded"], self._open = micros(now_ms), False, None

    def _has_reconciled(self, member_id: str) -> bool:
        current = self._currents.get(member_id)
        return current is not None and (current.state, current.member_epoch) == (_STABLE, self._target_epoch)

    def _state(self) -> GroupState:
        if not self._members.now:
            return GroupState.EMPTY
        if self._epoch is not None and self._target_epoch is not None and self._epoch > self._target_epoch:
            return GroupState.ASSIGNING
        return GroupState.STABLE if all(map(self._has_reconciled, self._members.now)) else GroupState.RECONCILING

    def _batched_epoch_count(self, generation: int) -> int | None:
        """Return how many epochs since the snapshot before have a record and no target; None for the first snapshot."""
        if len(self.snapshots) == self._first:
            return None
        previous = self.snapshots[-1]["generation"]
        return max(0, bisect_left(self._epochs, generation) - bisect_right(self._epochs, previous))

    def _take(self, change: Change, generation: int) -> None:
        record = change.record
        is_of_older_copy = self._epoch is not None and generation < self._epoch
        members = self._members.as_of(generation) if is_of_older_copy else self._members.now
        expressions = self._expressions.as_of(generation) if is_of_older_copy else self._expressions.now
        begun_at_ms = self._begun_at_ms.get(generation)
        content: FoldedRow = {
            "group_id": self._group_id,
            "generation": generation,
            "observed_at": micros(record.timestamp_ms),
            "position": record.offset,
            "group_type": GroupType.CONSUMER.value,
            "protocol_type": "consumer",
            "state": self._state().value,
            "strategy": _strategy_of(members, None if is_of_older_copy else self._began),
            "joined_at": micros(self._made_at_ms) if members and self._made_at_ms else None,
            "members": [self._member(member_id, members[member_id], expressions) for member_id in self._assignor_order(members)],
            "reconciled_at": None,
            "batched_epoch_count": self._batched_epoch_count(generation),
            "epoch_at": None if begun_at_ms is None else micros(begun_at_ms),
            "is_superseded": None,
            "offsets_partition": record.offsets_partition,
            "source_position": f"{record.offsets_partition}@{record.offset}",
        }
        if self._open is not None and self._open["generation"] != generation:
            self._open["is_superseded"] = True
        self.snapshots.append(content)
        self._open, self._awaited = (content, tuple(members)) if members else (None, ())
        self._unready_place = 0
        self._members.forget_until(generation)
        self._expressions.forget_until(generation)

    def _member(self, member_id: str, metadata: ConsumerGroupMemberMetadata, expressions: Mapping[str, tuple[str, ...]]) -> MemberRow:
        current = self._currents.get(member_id)
        resolved = expressions.get(metadata.topic_regex, ()) if metadata.topic_regex else ()
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

    def _entries(self, partitions: Iterable[TopicIdPartitions]) -> list[TopicPartitions]:
        """Return partitions by topic name; a deleted topic and a new one of the same name share one entry."""
        by_topic: dict[str, list[int]] = {}
        for entry in partitions:
            by_topic.setdefault(self._names.get(entry.topic_id, f"{UNRESOLVED}{entry.topic_id}"), []).extend(entry.partitions)
        return [{"topic": topic, "partitions": list(dict.fromkeys(numbers))} for topic, numbers in by_topic.items()]


def _strategy_of(members: Mapping[str, ConsumerGroupMemberMetadata], changed: str | None) -> str | None:
    """Return the assignor that most members request, else the broker's default; None without members.

    Among equals the first one counts in the table of Kafka's ``computePreferredServerAssignor`` (4.3.1). It is a copy of the group's own
    table, in which the member that changes is counted last.

    Args:
        changed: the member whose change began the epoch; None if it is not known.
    """
    if not members:
        return None
    asked = Counter(member.server_assignor for member in members.values() if member.server_assignor)
    if not asked:
        return SERVER_STRATEGIES_BY_NAME.get(DEFAULT_SERVER_STRATEGY, DEFAULT_SERVER_STRATEGY)
    known = dict.fromkeys(one.server_assignor for member_id, one in members.items() if member_id != changed and one.server_assignor)
    counts: HashMapSimulation[str] = HashMapSimulation(capacity_of_copy(len(known)))
    for name in table_order(known):
        counts.put(name, string_hash(name), java_order)
    last = None if changed is None or changed not in members else members[changed].server_assignor
    if last:
        counts.compute_if_absent(last, string_hash(last), java_order)
    name = max(counts.keys(), key=lambda one: asked[one])
    return SERVER_STRATEGIES_BY_NAME.get(name, name)


def _put(table: dict[str, Any], name: str, content: Any) -> None:
    if content is None:
        table.pop(name, None)
    else:
        table[name] = content
