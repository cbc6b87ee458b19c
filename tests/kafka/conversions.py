"""Groups that move to the consumer protocol (KIP-848), and what their coordinator writes about them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import NewPartitions

from jobs.decoders.consumer_group_replay import Record, fold
from jobs.decoders.consumer_offsets import decode_record
from jobs.reading.groups import stored_generation
from jobs.reading.stored import Client, StoredGeneration
from schemas.wire.keys import OFFSETS_TOPIC, RECORD_TYPES
from tests.builders.stored_groups import stored_group
from tests.kafka.broker import Broker
from tests.kafka.groups import LONGEST_REBALANCE_S, Owned
from tests.kafka.libraries import Library

TOPIC_SIZE = 3

Snapshot = dict[str, Any]
Found = TypeVar("Found")


class Coordinator:
    """A broker's groups, as it writes them into ``__consumer_offsets``."""

    def __init__(self, broker: Broker) -> None:
        self._admin = broker.admin
        self._broker = broker
        self._topic_names: dict[str, str] = {}
        self._classic: dict[str, list[Snapshot]] = defaultdict(list)
        self._records: dict[str, list[Record]] = defaultdict(list)
        config = {"bootstrap.servers": broker.address, "log_level": 0, "group.id": "reader", "enable.auto.commit": False}
        self._consumer = Consumer(config)
        self._make_offsets_topic()
        partitions = self._admin.list_topics(OFFSETS_TOPIC).topics[OFFSETS_TOPIC].partitions
        self._consumer.assign([TopicPartition(OFFSETS_TOPIC, number, 0) for number in partitions])

    def _make_offsets_topic(self) -> None:
        """Ask for a coordinator, which makes a broker make the topic; return when the coordinator answers."""
        deadline = time.monotonic() + LONGEST_REBALANCE_S
        while True:
            try:
                self._consumer.committed([TopicPartition("none", 0)], timeout=LONGEST_REBALANCE_S)
                return
            except KafkaException as error:
                assert error.args[0].code() in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS), error
                assert time.monotonic() < deadline, error
                time.sleep(0.1)

    def make_topics(self, prefix: str, count: int) -> list[str]:
        """Make topics of ``TOPIC_SIZE`` partitions each."""
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            self._broker.make_topic(name, TOPIC_SIZE)
        return names

    def resize_topic(self, topic: str, partition_count: int) -> None:
        """Give a topic more partitions."""
        for resized in self._admin.create_partitions([NewPartitions(topic, partition_count)]).values():
            resized.result()

    def _topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return topics as ``generation_topics`` has them."""
        described = {name: answer.result() for name, answer in self._admin.describe_topics(TopicCollection(list(names))).items()}
        ids = {name: str(one.topic_id).replace("+", "-").replace("/", "_") for name, one in described.items()}  # as Kafka spells them
        return [
            {"topic": name, "topic_id": ids[name], "partition_count": len(one.partitions), "partition_racks": None}
            for name, one in described.items()
        ]

    def settled(self, group_id: str, library: Library, members: Mapping[str, Any], topics: Sequence[str]) -> StoredGeneration:
        """Return the newest classic generation, as soon as these members share the topics by it and own what it says.

        Args:
            members: client id -> member.
        """
        partition_count = len(topics) * TOPIC_SIZE

        def found() -> Snapshot | None:
            owned = {client_id: member.owned for client_id, member in members.items()}
            is_shared = all(owned.values()) and sum(map(len, owned.values())) == partition_count
            return next((one for one in self._classic[group_id][-1:] if is_shared and target(one) == owned), None)

        snapshot = self.wait_for(found, library.poll)
        rows, known = snapshot["members"], self._topics(topics)
        self._topic_names |= {row["topic_id"]: row["topic"] for row in known}
        return replace(
            stored_group({}, {}, group_id=group_id, leader_client=snapshot["leader_client"]),
            generation=stored_generation(snapshot, known),
            clients={one["member_id"]: Client(one["client_id"], one["client_host"], one["session_timeout_ms"]) for one in rows},
        )

    def converted(self, group_id: str) -> list[Snapshot]:
        """Return what is written by now of a group of the consumer protocol: a snapshot for each target, and each that passes on."""
        self._read()
        return list(fold(group_id, self._records[group_id], self._topic_names))

    def snapshots(self, group_id: str) -> list[Snapshot]:
        """Return what is written by now of a group that has had one protocol only."""
        self._read()
        return self._classic[group_id] + self.converted(group_id)

    def wait_for(self, found: Callable[[], Found | None], poll: Callable[[], object]) -> Found:
        """Return what is there once records are read; members are polled until then."""
        deadline = time.monotonic() + LONGEST_REBALANCE_S
        while True:
            self._read()
            result = found()
            if result is not None:
                return result
            assert time.monotonic() < deadline, found
            poll()

    def _read(self) -> None:
        while messages := self._consumer.consume(500, timeout=0.05):
            for message in messages:
                error = message.error()
                assert error is None, error
                record = Record(message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value())
                row = decode_record(record.key, record.value, record.offsets_partition, record.offset, record.timestamp_ms)
                if "snapshot" in row:
                    self._classic[row["snapshot"]["group_id"]].append(row["snapshot"])
                elif "group_record" in row and row["group_record"]["type"] in RECORD_TYPES:
                    self._records[row["group_record"]["group_id"]].append(record)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


def target(snapshot: Snapshot) -> dict[str, Owned]:
    """Return the assignment of a stored snapshot by client id."""
    return {
        member["client_id"]: frozenset((entry["topic"], number) for entry in member["assigned"] for number in entry["partitions"])
        for member in snapshot["members"]
    }
