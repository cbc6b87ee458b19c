"""What the reader of a cluster makes of librdkafka's events when they come at the same moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from jobs.brokers.client_properties import ClientProperties
from jobs.brokers.cluster import Cluster, Connection, check_reachable
from jobs.brokers.records import Reader
from jobs.runtime.errors import ClusterError
from schemas.wire.keys import OFFSETS_TOPIC

DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN)


class Play:
    """A consumer: in each step it has messages, and reports errors to the connection while it fetches them."""

    def __init__(self, steps: list[tuple[list[Message], list[KafkaError]]]) -> None:
        self.steps = steps
        self.report: Callable[[KafkaError], None] = lambda error: None

    def assign(self, partitions: list[Any]) -> None:
        pass

    def consume(self, count: int, seconds: float) -> list[Message]:
        messages, errors = self.steps.pop(0)
        for error in errors:
            self.report(error)
        return messages


def outages(steps: list[tuple[list[Message], list[KafkaError]]]) -> list[bool]:
    """Return after each step whether the cluster counts as away."""
    connection, consumer = Connection("b:1", ClientProperties({}, {}), 1.0), Play(steps)

    def client(kind: Any, own: dict[str, Any]) -> Play:
        consumer.report = connection._note
        return consumer

    connection.client = client  # type: ignore[method-assign]
    reader, found = Reader(connection, {0: 0}), []
    while steps:
        reader.next_batch()
        found.append(bool(connection.outage))
    return found


def message(offset: int) -> Message:
    return Message(topic=OFFSETS_TOPIC, partition=0, offset=offset, key=b"k", value=b"v", timestamp=(1, 0))


def test_an_outage_ends_with_the_next_record() -> None:
    assert outages([([], [DOWN]), ([], []), ([message(0)], [])]) == [True, True, False]


def test_outage_after_the_last_record_is_reported() -> None:
    assert outages([([message(0)], [DOWN]), ([], []), ([message(1)], [])]) == [True, True, False]


def test_brokers_of_which_none_listens_are_refused_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        check_reachable(address)
        check_reachable(f"127.0.0.1:1,{address}")
    with pytest.raises(ClusterError, match=rf"^{address}: no broker can be reached \(Connection refused\); correct --bootstrap-servers$"):
        check_reachable(address)


def test_broker_that_says_nothing_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: Any, timeout: float) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", wait)
    check_reachable("10.0.0.1:9092")


@pytest.mark.parametrize("beginning", ["HTTP", "SSH-"])
def test_port_that_is_no_brokers_is_named_as_such(beginning: str) -> None:
    size = int.from_bytes(beginning.encode(), "big")
    text = f"b:1/bootstrap: Receive failed: Invalid response size {size} (0..100000000): increase receive.message.max.bytes (after 1ms)"
    connection = Connection("b:1", ClientProperties({}, {}), 8.0)
    connection._note(KafkaError(KafkaError._TRANSPORT, text))
    line = str(connection.explained(KafkaError(KafkaError._TIMED_OUT)))
    found = f"found an answer that is not Kafka's (it begins with '{beginning}'), expected the port of a broker (after 1ms)"
    assert line.startswith(f"b:1: no answer within 8 s (b:1/bootstrap: Receive failed: {found}); ")


class GoneController:
    """A client whose requests wait for a broker that is gone, until metadata names another one."""

    def __init__(self) -> None:
        self.asked: Future[str] = Future()
        self.answers_in_time = False

    def poll(self, seconds: float) -> None:
        pass

    def list_topics(self, timeout: float) -> None:
        if not self.answers_in_time:
            self.answers_in_time = True
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self.asked.set_result("answer")


def test_waiting_finds_the_broker_that_took_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.brokers.cluster.POLL_SECONDS", 0.001)
    monkeypatch.setattr("jobs.brokers.cluster.REFRESH_SECONDS", 0.002)
    cluster = Cluster.__new__(Cluster)
    cluster.connection, cluster.admin = Connection("b:1", ClientProperties({}, {}), 1.0), GoneController()
    deadline = threading.Timer(5.0, cluster.admin.asked.cancel)
    deadline.start()
    assert cluster.answer(cluster.admin.asked) == "answer"
    deadline.cancel()
