"""Groups of the consumer protocol (KIP-848) in a made-up fleet, and the records of them that a broker of Kafka 4.3 writes.

The coordinator never writes such a group as a whole. Members that leave or join are written one by one, and each raises the epoch of the
group. Then come the targets that have changed, and the epoch and the time of the target. In the seconds that follow, each member revokes
what it has to give away and gets what others have released.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from assignors import Assignment, GroupProblem, Member, TopicPartition
from jobs.decoders.coordinator_table import table_order
from schemas.vocabulary import DEFAULT_SERVER_STRATEGY, SERVER_STRATEGIES_BY_NAME
from schemas.wire.keys import CURRENT, EPOCH, MEMBER, TARGET, TARGET_EPOCH
from tests.benchmarks.fleet_groups import CLIENT_HOST, EPOCH_MS, Group, Record
from tests.builders.consumer_group_records import NOT_CLASSIC, array, compact, held
from tests.builders.records import string

STABLE, UNREVOKED, UNRELEASED = 0, 1, 2
"""States of a member: it holds its target; it has to revoke partitions; it waits for those of other members."""
MOST_ROUNDS = 6
"""Heartbeats of a member after which it waits for the next rebalance, however far it is."""
HEARTBEAT_MS = 1_000
REBALANCE_TIMEOUT_MS = 300_000
METADATA_HASH = 0x1234567890ABCDE
"""Of the metadata of the group's topics. The coordinator compares it; nothing here does, so it is always the same."""

_VERSION = b"\0\0"
_NO_TAGS = b"\0"
_ASKED_ASSIGNORS = {strategy: name for name, strategy in SERVER_STRATEGIES_BY_NAME.items()}


@dataclass(slots=True)
class Holding:
    """What a member has on its way to its target.

    Attributes:
        epoch: of the member: the last target towards which it has revoked everything.
        state: STABLE, UNREVOKED or UNRELEASED.
        assigned: the partitions that it may read.
        pending: the partitions that it has yet to revoke.
    """

    epoch: int
    state: int = STABLE
    assigned: set[TopicPartition] = field(default_factory=set)
    pending: set[TopicPartition] = field(default_factory=set)


class ConsumerGroup(Group):
    """A group of the consumer protocol. Its assignment is the target; members need not hold it yet.

    Static members do not restart. One that comes back takes the target of its predecessor, without a new epoch.
    """

    __slots__ = ("_client_ids", "_epoch", "_holdings", "_target_epoch", "_topic_ids")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._epoch = self._target_epoch = 0
        self._holdings: dict[str, Holding] = {}
        self._client_ids: dict[str, str] = {}
        self._topic_ids = {topic.name: topic.topic_id for topic in self.plan.topics}

    def client_of(self, member: Member) -> str:
        """Return the client id of a member."""
        return self._client_ids[member.member_id]

    def rebalance_records(self, moment: int) -> Iterator[Record]:
        """Go to the next target, and yield its records.

        Members come first, those that left and then those that joined. Each raises the epoch. All epochs have one target.

        Args:
            moment: milliseconds since the epoch of the fleet.
        """
        before = {member.member_id: self._target(member.member_id) for member in self.members}
        self.rebalance()
        targets = {member.member_id: self._target(member.member_id) for member in self.members}
        left = [member_id for member_id in before if member_id not in targets]
        joined = [member for member in self.members if member.member_id not in before]
        for member_id in left:
            del self._holdings[member_id]
            for record_type in (CURRENT, TARGET, MEMBER):
                yield self._record(moment, record_type, None, member_id)
            yield self._next_epoch(moment)
        for member in joined:
            self._holdings[member.member_id] = Holding(self._target_epoch)
            yield self._record(moment, MEMBER, self._member_value(member), member.member_id)
            yield self._next_epoch(moment)
            yield self._current(moment, member.member_id)
        if not left and not joined:
            yield self._next_epoch(moment)  # the coordinator has seen that the metadata of a topic changed
        for member_id, target in targets.items():
            if target != before.get(member_id):
                yield self._record(moment, TARGET, self._held(target) + _NO_TAGS, member_id)
        self._target_epoch = self._epoch
        made_at = _tag_0(struct.pack(">q", EPOCH_MS + moment))
        yield self._record(moment, TARGET_EPOCH, struct.pack(">i", self._target_epoch) + made_at)

    def reconciliation_records(self, start_ms: int, end_ms: int) -> Iterator[Record]:
        """Let members go towards their targets, and yield what changes; with each heartbeat a member makes one step.

        Args:
            start_ms: when the target was made, since the epoch of the fleet.
            end_ms: when the next rebalance begins; members stay where they are then.
        """
        waiting = [member.member_id for member in self.members]
        taken = {partition for one in self._holdings.values() for partition in one.assigned | one.pending}
        for moment in range(start_ms + HEARTBEAT_MS, min(end_ms, start_ms + MOST_ROUNDS * HEARTBEAT_MS + 1), HEARTBEAT_MS):
            self.random.shuffle(waiting)
            for member_id in waiting:
                if self._step(member_id, taken):
                    yield self._current(moment, member_id)
            waiting = [member_id for member_id in waiting if self._holdings[member_id].state != STABLE]

    def _step(self, member_id: str, taken: set[TopicPartition]) -> bool:
        """Let a member make one step towards its target; return whether anything changed.

        Args:
            taken: what members had when the target was made, and have not released since; what this one releases is removed.
        """
        holding, target = self._holdings[member_id], self._target(member_id)
        if holding.state == UNREVOKED:
            taken -= holding.pending
            holding.pending = set()
        revoked = holding.assigned - target
        if revoked:
            holding.assigned, holding.pending, holding.state = holding.assigned & target, revoked, UNREVOKED
            return True
        before = holding.epoch, holding.state, len(holding.assigned)
        fresh = target - holding.assigned - taken
        holding.assigned |= fresh
        holding.epoch, holding.state = self._target_epoch, STABLE if holding.assigned == target else UNRELEASED
        return before != (holding.epoch, holding.state, len(holding.assigned))

    def _target(self, member_id: str) -> set[TopicPartition]:
        return set(self.assignment.get(member_id, ()))

    # -- how members come and go

    def _member_id(self, client_id: str, digits: str) -> str:
        member_id = base64.urlsafe_b64encode(bytes.fromhex(digits))[:22].decode()
        self._client_ids[member_id] = client_id
        return member_id

    @property
    def _events(self) -> tuple[str, ...]:
        return ("join", "leave", "rejoin") if self.plan.is_static else super()._events

    def _rejoined(self, member: Member) -> Member:
        """Return the member with its target, from which the brokers' assignor goes on."""
        return replace(member, owned=tuple(self.assignment.get(member.member_id, ())))

    def _assign(self, problem: GroupProblem) -> Assignment:
        """Return the assignment of the brokers' assignor, which gets the members in the order of the coordinator's table."""
        members = {member.member_id: member for member in problem.members}
        return super()._assign(GroupProblem(problem.topics, tuple(members[member_id] for member_id in table_order(members))))

    # -- single records

    def _record(self, moment: int, record_type: int, content: bytes | None, member_id: str | None = None) -> Record:
        key = struct.pack(">h", record_type) + string(self.plan.group_id) + (b"" if member_id is None else string(member_id))
        return moment, key, None if content is None else _VERSION + content

    def _next_epoch(self, moment: int) -> Record:
        self._epoch += 1
        return self._record(moment, EPOCH, struct.pack(">i", self._epoch) + _tag_0(struct.pack(">q", METADATA_HASH)))

    def _member_value(self, member: Member) -> bytes:
        """Return the metadata of a member, which has no rack and no regular expression; it asks for no default assignor."""
        strategy = self.plan.strategy
        asked = None if strategy == DEFAULT_SERVER_STRATEGY else _ASKED_ASSIGNORS[strategy]
        names = compact(member.group_instance_id) + compact(None) + compact(self.client_of(member)) + compact(CLIENT_HOST)
        rest = array(map(compact, member.topics)) + compact("") + struct.pack(">i", REBALANCE_TIMEOUT_MS) + compact(asked)
        return names + rest + NOT_CLASSIC

    def _current(self, moment: int, member_id: str) -> Record:
        holding = self._holdings[member_id]
        head = struct.pack(">iib", holding.epoch, max(0, holding.epoch - 1), holding.state)
        content = head + self._held(holding.assigned) + self._held(holding.pending) + _NO_TAGS
        return self._record(moment, CURRENT, content, member_id)

    def _held(self, partitions: Iterable[TopicPartition]) -> bytes:
        by_topic: dict[str, list[int]] = {}
        for topic, number in sorted(partitions):
            by_topic.setdefault(self._topic_ids[topic], []).append(number)
        return held(by_topic)


def _tag_0(content: bytes) -> bytes:
    """Return the tagged fields of a record that has one, of tag 0."""
    return b"\1\0" + bytes([len(content)]) + content
