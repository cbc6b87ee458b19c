"""Members of consumer groups in other clients than librdkafka: Kafka's own, and kafka-python. Both know which generation they are in."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

from tests.kafka.broker_jars import jvm
from tests.kafka.groups import LONGEST_REBALANCE_S, PARTITION_COUNT, TOPIC, Owned

CALM_S = 1.5
SESSION = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}


@dataclass
class Witness:
    """What the callbacks of one member got.

    Attributes:
        owned: what it owns by now.
        member_id: by which the group knows it by now.
        owned_in: by generation and member id all that it owned in it, one after the other.
    """

    group_id: str
    owned: Owned = frozenset()
    member_id: str = ""
    owned_in: dict[tuple[int, str], list[Owned]] = field(default_factory=dict)
    changed_at: float = field(default_factory=time.monotonic)

    def has(self, generation: int, member_id: str, owned: Iterable[tuple[str, int]]) -> None:
        """Take all that a callback leaves the member with."""
        self.owned, self.member_id, self.changed_at = frozenset(owned), member_id, time.monotonic()
        self.owned_in.setdefault((generation, member_id), []).append(self.owned)

    def gives(self, taken: Iterable[tuple[str, int]]) -> None:
        """Take what a callback takes away."""
        self.owned, self.changed_at = self.owned - set(taken), time.monotonic()


class Client(Protocol):
    """A client library."""

    def join(self, group_id: str, properties: dict[str, str]) -> Witness:
        """Add a member that subscribes to the topic."""

    def leave(self, witness: Witness) -> None:
        """Have a member close: it leaves its group, unless it is a static one."""


def wait_until_shared(witnesses: list[Witness]) -> None:
    """Wait until these members of one group share the topic, each with a part of it, and nothing moves."""
    everything = {(TOPIC, number) for number in range(PARTITION_COUNT)}
    deadline = time.monotonic() + LONGEST_REBALANCE_S
    while True:
        parts = [witness.owned for witness in witnesses]
        is_shared = all(parts) and sum(map(len, parts)) == PARTITION_COUNT and set().union(*parts) == everything
        if is_shared and time.monotonic() - max(witness.changed_at for witness in witnesses) > CALM_S:
            return
        assert time.monotonic() < deadline, witnesses
        time.sleep(0.05)


class Java:
    """Kafka's own client, all members in one JVM."""

    def __init__(self, address: str) -> None:
        command = [*jvm("error"), str(Path(__file__).parent / "Members.java")]
        self.address, self._witnesses = address, dict[str, Witness]()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, what, generation, member_id, partitions = line.rstrip("\n").split(" ")
            spelled = [partition.rsplit(":", 1) for partition in partitions.split(",") if partition]
            owned = [(topic, int(number)) for topic, number in spelled]
            if what == "has":
                self._witnesses[name].has(int(generation), member_id, owned)
            else:
                self._witnesses[name].gives(owned)

    def _order(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")

    def join(self, group_id: str, properties: dict[str, str], order: str = "join", topics: Iterable[str] = (TOPIC,)) -> Witness:
        """Add a member that subscribes to the topics; of a share group with the order ``share``."""
        name, witness = f"m{len(self._witnesses)}", Witness(group_id)
        self._witnesses[name] = witness
        given = {"bootstrap.servers": self.address, "group.id": group_id, **properties}
        self._order(order, name, ",".join(topics), *(f"{key}={value}" for key, value in given.items()))
        return witness

    def leave(self, witness: Witness) -> None:
        """Have a member close; it goes on by itself."""
        self._order("leave", self._name_of(witness))

    def unsubscribe(self, witness: Witness) -> None:
        """Have a member unsubscribe from everything, and stay open."""
        self._order("unsubscribe", self._name_of(witness))

    def stall(self, witness: Witness) -> None:
        """Have a member poll no more."""
        self._order("stall", self._name_of(witness))

    def enforce(self, witness: Witness, reason: str) -> None:
        """Have a member ask for a rebalance; the consumer protocol has no such request."""
        self._order("enforce", self._name_of(witness), reason)

    def remove(self, group_id: str, group_instance_id: str, reason: str) -> None:
        """Have an admin remove a static member: an admin of Kafka's own client names no others."""
        self._order("remove", self.address, group_id, group_instance_id, reason)

    def _name_of(self, witness: Witness) -> str:
        return next(name for name, one in self._witnesses.items() if one is witness)

    def kill(self) -> None:
        """End the JVM as ``kill -9`` does."""
        self._process.kill()
        self._process.wait()
        self._listener.join()

    def close(self) -> None:
        """End all members."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(LONGEST_REBALANCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._listener.join()


@dataclass
class _Orders:
    """What a member has been ordered to do."""

    leaves: threading.Event = field(default_factory=threading.Event)
    stalls: threading.Event = field(default_factory=threading.Event)
    unsubscribes: threading.Event = field(default_factory=threading.Event)


class KafkaPython:
    """kafka-python, a thread a member."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._living: dict[int, tuple[_Orders, threading.Thread]] = {}

    def join(self, group_id: str, properties: dict[str, Any], topics: Iterable[str] = (TOPIC,)) -> Witness:
        """Add a member that subscribes to the topics."""
        witness, orders = Witness(group_id), _Orders()
        thread = threading.Thread(target=self._live, args=(witness, orders, properties, list(topics)))
        self._living[id(witness)] = orders, thread
        thread.start()
        return witness

    def _live(self, witness: Witness, orders: _Orders, properties: dict[str, Any], topics: list[str]) -> None:
        usual = {"enable_auto_commit": False, "session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
        consumer = KafkaConsumer(bootstrap_servers=self._address, group_id=witness.group_id, **{**usual, **properties})

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
                group = consumer.group_metadata()
                witness.has(
                    group.generation_id, group.member_id, ((partition.topic, partition.partition) for partition in consumer.assignment())
                )

            def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
                witness.gives((partition.topic, partition.partition) for partition in revoked)

        consumer.subscribe(topics, listener=Listener())
        while not (orders.leaves.is_set() or orders.stalls.is_set() or orders.unsubscribes.is_set()):
            consumer.poll(timeout_ms=50)
        if orders.unsubscribes.is_set():
            consumer.unsubscribe()
        orders.leaves.wait()
        consumer.close()

    def leave(self, witness: Witness) -> None:
        """Have a member close, and return when it has."""
        orders, thread = self._living.pop(id(witness))
        orders.leaves.set()
        thread.join(LONGEST_REBALANCE_S)

    def unsubscribe(self, witness: Witness) -> None:
        """Have a member unsubscribe from everything, and stay open."""
        self._living[id(witness)][0].unsubscribes.set()

    def stall(self, witness: Witness) -> None:
        """Have a member poll no more."""
        self._living[id(witness)][0].stalls.set()

    def close(self) -> None:
        """End all members."""
        for orders, _ in self._living.values():
            orders.leaves.set()
        for _, thread in self._living.values():
            thread.join(LONGEST_REBALANCE_S)
