"""Consumer groups of a real client, all in one thread, which write down what their members are given."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, ConsumerGroupState, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, OffsetSpec
from kafka.admin import KafkaAdminClient, MemberToRemove

from assignors.java.ordering import coordinator_partition
from schemas.wire.keys import OFFSETS_TOPIC

LONGEST_REBALANCE_S = 60.0
CALM_S = 0.5
LONGEST_CLOSE_S = 15.0
TOPIC, PARTITION_COUNT = "orders", 4

Owned = frozenset[tuple[str, int]]


@dataclass
class Member:
    """One consumer.

    Attributes:
        member_ids: each id that it has had while it owned something.
        owned: what it owns by now, by its callbacks.
        owned_sets: what it owned after each callback that gave it something.
        errors: what its polls returned instead of records.
    """

    consumer: Consumer
    group_id: str
    member_ids: set[str] = field(default_factory=set)
    owned: Owned = frozenset()
    owned_sets: list[Owned] = field(default_factory=list)
    errors: list[KafkaError] = field(default_factory=list)

    def assigned(self, partitions: Iterable[TopicPartition], *, adds: bool) -> None:
        """Take what a callback gives; ``adds`` with cooperative and KIP-848 groups."""
        given = frozenset((one.topic, one.partition) for one in partitions)
        self.owned = self.owned | given if adds else given
        self.owned_sets.append(self.owned)
        self.member_ids.add(self.consumer.memberid())

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Take what a callback takes away."""
        self.owned -= {(one.topic, one.partition) for one in partitions}


class Groups:
    """The members of all groups of a broker."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._group_ids: set[str] = set()
        self.members: list[Member] = []
        self._stalled: list[Member] = []

    def join(self, group_id: str, *, protocol: str = "classic", topics: Iterable[str] = (TOPIC,), **properties: str) -> Member:
        """Add a member that subscribes to the topics; ``properties`` with underscores for dots."""
        config = {"bootstrap.servers": self._address, "log_level": 0, "enable.auto.commit": False}
        # Nobody polls once a group is settled.
        config |= {"group.id": group_id, "group.protocol": protocol, "max.poll.interval.ms": 900_000}
        if protocol == "classic":
            config |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
        config |= {name.replace("_", "."): value for name, value in properties.items()}
        member = Member(Consumer(config), group_id)
        adds = protocol == "consumer" or properties.get("partition_assignment_strategy") == "cooperative-sticky"
        member.consumer.subscribe(
            list(topics),
            on_assign=lambda _, partitions: member.assigned(partitions, adds=adds),
            on_revoke=lambda _, partitions: member.revoked(partitions),
            on_lost=lambda _, partitions: member.revoked(partitions),
        )
        self.members.append(member)
        self._group_ids.add(group_id)
        return member

    def leave(self, member: Member) -> None:
        """Have a member close: it leaves its group, unless it is a static one.

        librdkafka waits for ever in close() if the callback of a rebalance is still to come: it asks for the protocol of a thread that has
        ended by then. So a member closes when nothing has come for a moment.
        """
        self._wait_until_calm([member])
        member.consumer.close()
        self.members.remove(member)

    def _wait_until_calm(self, members: Sequence[Member]) -> None:
        """Poll until no callback of these members has come for a moment."""

        def callbacks() -> list[tuple[int, Owned]]:
            return [(len(member.owned_sets), member.owned) for member in members]

        calm_since, deadline = time.monotonic(), time.monotonic() + LONGEST_REBALANCE_S
        while time.monotonic() - calm_since < CALM_S and time.monotonic() < deadline:
            before = callbacks()
            self.poll()
            if before != callbacks():
                calm_since = time.monotonic()

    def unsubscribe(self, member: Member) -> None:
        """Have a member unsubscribe from everything: it leaves its group, and is polled on."""
        member.consumer.unsubscribe()

    def stall(self, member: Member) -> None:
        """Poll a member no more."""
        self.members.remove(member)
        self._stalled.append(member)

    def of(self, group_id: str) -> list[Member]:
        """Return the members that a group has by now."""
        return [member for member in self.members if member.group_id == group_id]

    def wait_until_shared(self, *group_ids: str) -> None:
        """Poll until the members of these groups share the topic, each with a part of it, and nothing moves for a second."""
        everything = {(TOPIC, number) for number in range(PARTITION_COUNT)}

        def is_shared(group_id: str) -> bool:
            parts = [member.owned for member in self.of(group_id)]
            return not parts or (all(parts) and sum(map(len, parts)) == PARTITION_COUNT and set().union(*parts) == everything)

        deadline, calm_since = time.monotonic() + LONGEST_REBALANCE_S, time.monotonic()
        while time.monotonic() - calm_since < 1.0:
            before = [member.owned for member in self.members]
            self.poll()
            if not all(map(is_shared, group_ids)) or before != [member.owned for member in self.members]:
                calm_since = time.monotonic()
            assert time.monotonic() < deadline, [(member.group_id, member.owned) for member in self.members]

    def poll(self) -> None:
        """Let every member go on for a moment; errors of connections are for the client to get over."""
        for member in self.members:
            message = member.consumer.poll(0.02)
            while message is not None:
                error = message.error()
                if error is not None:
                    member.errors.append(error)
                message = member.consumer.poll(0)

    def close(self) -> None:
        """End all members, and return when the broker has seen them go.

        All close at once, each in a thread of its own: so none closes during the rebalance that another one causes. One that waits for
        ever all the same (see ``leave``) sends no heartbeat any more, and the broker removes it. But one that waits in the callback of a
        rebalance has the interpreter's lock, and all threads wait with it. So those that were not polled are polled again, and all
        callbacks come before.
        """
        self.members += self._stalled
        self._stalled.clear()
        self._wait_until_calm(self.members)
        closing = [threading.Thread(target=member.consumer.close, daemon=True) for member in self.members]
        for thread in closing:
            thread.start()
        deadline = time.monotonic() + LONGEST_CLOSE_S
        for thread in closing:
            thread.join(max(0.0, deadline - time.monotonic()))
        self.members.clear()
        empty_groups(self._address, self._group_ids)


def empty_groups(address: str, group_ids: Iterable[str]) -> None:
    """Remove the static members of groups, and return when the broker has seen all members go: it writes nothing of them then.

    Their clients have closed. A static member would otherwise stay for its session timeout.
    """
    admin, deadline = AdminClient({"bootstrap.servers": address, "log_level": 0}), time.monotonic() + LONGEST_REBALANCE_S
    while True:
        groups = [answer.result() for answer in admin.describe_consumer_groups(sorted(group_ids)).values()]
        states = {group.state for group in groups}
        if states <= {ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD}:
            return
        assert time.monotonic() < deadline, states
        for group in groups:
            _remove_static_members(address, group)
        time.sleep(0.1)


def _remove_static_members(address: str, group: ConsumerGroupDescription) -> None:
    static = [MemberToRemove(group_instance_id=one.group_instance_id) for one in group.members if one.group_instance_id]
    if static:
        admin = KafkaAdminClient(bootstrap_servers=address)
        admin.remove_group_members(group.group_id, static)
        admin.close()


class Transactions:
    """A producer that commits offsets of a group without members in transactions."""

    def __init__(self, address: str, group_id: str) -> None:
        self._producer = Producer({"bootstrap.servers": address, "transactional.id": group_id, "log_level": 0})
        self._producer.init_transactions()
        self._consumer = Consumer({"bootstrap.servers": address, "log_level": 0, "group.id": group_id})
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        self._group_id = group_id

    def begin(self, partition: int, offset: int, note: str) -> None:
        """Write an offset into a new transaction."""
        self._producer.begin_transaction()
        offset_commit = TopicPartition(TOPIC, partition, offset, metadata=note)
        self._producer.send_offsets_to_transaction([offset_commit], self._consumer.consumer_group_metadata())

    def end(self, *, commits: bool) -> None:
        """Commit the transaction, or give it up; return when its marker is in the log: the broker answers before it writes that."""
        (self._producer.commit_transaction if commits else self._producer.abort_transaction)()
        partitions = self._admin.list_topics(OFFSETS_TOPIC).topics[OFFSETS_TOPIC].partitions
        log = TopicPartition(OFFSETS_TOPIC, coordinator_partition(self._group_id, len(partitions)))
        deadline = time.monotonic() + LONGEST_REBALANCE_S
        while self._end_offset(log, IsolationLevel.READ_COMMITTED) < self._end_offset(log, IsolationLevel.READ_UNCOMMITTED):
            assert time.monotonic() < deadline, log
            time.sleep(0.02)

    def _end_offset(self, log: TopicPartition, isolation: IsolationLevel) -> int:
        (answer,) = self._admin.list_offsets({log: OffsetSpec.latest()}, isolation_level=isolation).values()
        return int(answer.result().offset)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


class Commits:
    """A consumer that only commits, for a group that has no members."""

    def __init__(self, address: str, group_id: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": address, "log_level": 0, "group.id": group_id, "enable.auto.commit": False})

    def commit(self, partition: int, offset: int, note: str) -> None:
        """Commit an offset, with a note as its metadata, and return when it is in the log."""
        offset_commit, deadline = TopicPartition(TOPIC, partition, offset, metadata=note), time.monotonic() + LONGEST_REBALANCE_S
        while True:
            try:
                (committed,) = self._consumer.commit(offsets=[offset_commit], asynchronous=False)
                assert committed.error is None, committed.error
                return
            except KafkaException as error:  # a broker that has just started looks for its groups
                assert error.args[0].code() in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS), error
                assert time.monotonic() < deadline, error
                time.sleep(0.1)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()
