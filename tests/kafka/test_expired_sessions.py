"""Which members that lost their session are found without a log of the coordinator, by the commits of real clients, and that no others are.

Each group has a member of one client library and protocol to which something happens, and one that stays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from jobs import cli
from tests.conftest import Evenkeel
from tests.kafka.broker import Broker
from tests.kafka.clients import Java, KafkaPython
from tests.kafka.conversions import Coordinator
from tests.kafka.groups import Groups, empty_groups
from tests.kafka.libraries import NEW_PROTOCOL, Joining, Library, Mortal, OfJava, OfKafkaPython, OfLibrdkafka
from tests.kafka.tables import rows

pytestmark = pytest.mark.slow
KILLED = ("killed", "replaced")
"""Fates of members in processes that are killed. The second is replaced at once, as by a supervisor: the others then wait for it."""
FATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("java", "classic"): ("killed", "replaced", "closed", "idle-closed", "stalled", "waits"),
    ("java", "consumer"): ("killed", "idle-closed", "stalled"),
    ("librdkafka", "classic"): ("killed", "replaced", "idle-closed", "idle-unsubscribed", "idle-stays", "stalled"),
    ("librdkafka", "consumer"): ("killed", "closed", "idle-closed"),
    ("kafka-python", "classic"): ("killed", "replaced", "idle-unsubscribed"),
}
"""What happens to members. Idle ones have had no records for longer than a session; then they leave, or one more member takes over some of
their partitions. One that waits leaves while the group waits for a member that does not poll."""
MANUAL = ("idle-closed", "idle-stays")
"""Fates of librdkafka's members that commit by themselves after records. A consumer that commits automatically does so once more when it
gives up partitions."""
CONSUMER_SESSION_S = 10
"""What the broker has; a setting says so to the product."""
AUTOMATIC = {"enable.auto.commit": "true", "auto.commit.interval.ms": "500"}
SHORT_POLLS = {"max.poll.interval.ms": "9000"}
COOPERATIVE = {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"}
PARTITION_COUNT = 4
COMMIT_S, REGULAR_S, IDLE_S, AFTER_S = 0.5, 8.0, 7.0, 6.0
"""Seconds between commits; with records for all; between the last records of idle members and their end; and for the new owners."""

Lost = tuple[str, str, str]
"""Client library, protocol and fate of a member that has lost its session."""
LOST: set[Lost] = {(*client, fate) for client, fates in FATES.items() for fate in fates if fate in KILLED}


@dataclass
class Group:
    """A group whose members have client ids: one that stays, one that is called after its fate, and others that it needs."""

    name: str
    protocol: str
    fate: str
    library: Library
    members: dict[str, Any] = field(default_factory=dict)

    @property
    def group_id(self) -> str:
        """Also the name of its topic."""
        return f"{self.name}-{self.protocol}-{self.fate}"

    @property
    def is_manual(self) -> bool:
        """Whether the member with the fate commits by itself."""
        return self.name == "librdkafka" and self.fate in MANUAL

    @property
    def first(self) -> set[str]:
        """The client ids of the members that are there at first."""
        return {"stays", self.fate} | ({"busy"} if self.fate == "waits" else set())

    def joining(self, client_id: str) -> Joining:
        """Return a member of the group."""
        properties = {"auto.offset.reset": "earliest"} | ({} if self.is_manual and client_id == self.fate else AUTOMATIC)
        properties |= NEW_PROTOCOL if self.protocol == "consumer" else {}
        properties |= SHORT_POLLS if client_id in ("stalled", "busy") else {}
        properties |= COOPERATIVE if self.fate == "waits" else {}
        return Joining(self.group_id, [self.group_id], client_id, properties)

    def join(self, client_id: str) -> None:
        """Add a member."""
        self.members[client_id] = self.library.join(*self.joining(client_id))


class Records:
    """Writes records into the topics of all groups, until it is stopped."""

    def __init__(self, address: str, topics: list[str]) -> None:
        self.idle: set[tuple[str, int]] = set()
        self._topics, self._ended = topics, threading.Event()
        self._producer = Producer({"bootstrap.servers": address, "log_level": 0})
        self._thread = threading.Thread(target=self._produce)
        self._thread.start()

    def _produce(self) -> None:
        while not self._ended.wait(COMMIT_S / 2):
            for topic in self._topics:
                for partition in range(PARTITION_COUNT):
                    if (topic, partition) not in self.idle:
                        self._producer.produce(topic, b"record", partition=partition)
            self._producer.poll(0)

    def stop(self) -> None:
        """Write no more."""
        self._ended.set()
        self._thread.join()


class Play:
    """All groups, and all that happens to their members."""

    def __init__(self, broker: Broker, ending: ExitStack) -> None:
        self._coordinator, java = Coordinator(broker), Java(broker.address)
        self._librdkafka, kafka_python = Groups(broker.address), KafkaPython(broker.address)
        libraries: dict[str, Library] = {
            "java": OfJava(java),
            "librdkafka": OfLibrdkafka(self._librdkafka, broker.address),
            "kafka-python": OfKafkaPython(kafka_python, broker.address),
        }
        self.groups = [Group(*client, fate, libraries[client[0]]) for client, fates in FATES.items() for fate in fates]
        for group in self.groups:
            broker.make_topic(group.group_id, PARTITION_COUNT)
        self._positions: dict[str, list[int]] = {}
        self._apart: list[Mortal] = []
        ending.callback(empty_groups, broker.address, [group.group_id for group in self.groups])
        for client in (self._coordinator, self._librdkafka, kafka_python, java):
            ending.callback(client.close)
        ending.callback(self._kill)
        self._records = Records(broker.address, [group.group_id for group in self.groups])
        ending.callback(self._records.stop)

    def run(self) -> None:
        """Have everything happen."""
        killed = [group for group in self.groups if group.fate in KILLED]
        for library in {id(group.library): group.library for group in killed}.values():
            self._apart.append(library.join_apart(*[group.joining(group.fate) for group in killed if group.library is library]))
        for group in self.groups:
            for client_id in sorted(group.first - {group.fate} if group in killed else group.first):
                group.join(client_id)
        self._wait_until(lambda group, present: present == group.first)
        self._poll_for(REGULAR_S)
        self._records.idle |= {one for group in self.groups if group.fate.startswith("idle-") for one in group.members[group.fate].owned}
        idle_until = time.monotonic() + IDLE_S
        self._kill()
        for group in self.groups:
            self._begin(group)
        self._poll_for(idle_until - time.monotonic())
        for group in self.groups:
            self._end(group)
            self._poll()
        self._wait_until(lambda group, present: "joins" in present if group.fate == "idle-stays" else group.fate not in present)
        self._poll_for(AFTER_S)

    def _begin(self, group: Group) -> None:
        if group.fate == "replaced":
            group.join("replaces")
        elif group.fate == "stalled":
            group.library.stall(group.members["stalled"])
        elif group.fate == "waits":
            group.library.stall(group.members["busy"])
            group.library.leave(group.members["waits"])

    def _end(self, group: Group) -> None:
        if group.fate in ("closed", "idle-closed"):
            group.library.leave(group.members[group.fate])
        elif group.fate == "idle-unsubscribed":
            group.library.unsubscribe(group.members[group.fate])
        elif group.fate == "idle-stays":
            group.join("joins")

    def _kill(self) -> None:
        while self._apart:
            self._apart.pop().kill()

    def _poll(self) -> None:
        self._librdkafka.poll()
        for group in self.groups:
            if group.is_manual and group.members[group.fate] in self._librdkafka.members:
                self._commit(group.group_id, group.members[group.fate].consumer)

    def _commit(self, group_id: str, consumer: Any) -> None:
        """Commit what has been read since the last time, if it is anything."""
        positions = [one.offset for one in consumer.position(consumer.assignment())]
        if positions and positions != self._positions.get(group_id):
            self._positions[group_id] = positions
            if max(positions) > 0:
                consumer.commit(asynchronous=True)

    def _poll_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._poll()

    def _wait_until(self, is_ready: Callable[[Group, set[str]], bool]) -> None:
        """Wait until each group is ready by its present client ids. Members are polled after each look at one group."""
        waiting = list(self.groups)

        def next_is_ready() -> bool | None:
            snapshots = self._coordinator.snapshots(waiting[0].group_id)
            present = {member["client_id"] for snapshot in snapshots[-1:] for member in snapshot["members"]}
            if is_ready(waiting[0], present):
                waiting.pop(0)
            return not waiting or None

        self._coordinator.wait_for(next_is_ready, self._poll)


@pytest.fixture(scope="module")
def warehouse(broker: Broker, make_tables: Evenkeel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with what the groups have written, audited."""
    folder = tmp_path_factory.mktemp("expired")
    with ExitStack() as ending:
        Play(broker, ending).run()
        command = ["collect", "--bootstrap-servers", broker.address, "--output", str(folder / "collected")]
        assert cli.console_main(command) == 0
    settings = folder / "cluster.yaml"
    settings.write_text(f"audit: {{consumer_session_timeout_s: {CONSUMER_SESSION_S}}}\n")
    assert make_tables("run", "--input", folder / "collected", "--warehouse", folder / "warehouse", "--config", settings) == 0
    return folder / "warehouse"


def test_members_that_are_killed_are_found_by_their_commits_and_no_others(warehouse: Path, measured: Callable[[str], None]) -> None:
    known = rows(warehouse, "subscription_snapshots")
    clients = {(row["group_id"], member["member_id"]): member["client_id"] for row in known for member in row["members"]}
    group_ids = {"-".join((*client, fate)) for client, fates in FATES.items() for fate in fates}
    inferred = [
        (audit["group_id"], clients[audit["group_id"], cause["member_id"]], cause["cause"])
        for audit in rows(warehouse, "generation_audits")
        for cause in audit["causes"] or ()
        if cause["source"] == "inferred" and audit["group_id"] in group_ids
    ]
    lost = {("-".join(one), one[-1], "session_expired") for one in LOST}
    measured(f"found {len(lost & set(inferred))} of {len(lost)} members that were killed, and {len(set(inferred) - lost)} others")
    assert sorted(inferred) == sorted(lost)
