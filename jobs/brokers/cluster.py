"""A live Kafka cluster: its metadata snapshots, and where ``__consumer_offsets`` begins and ends.

Evenkeel changes nothing in the cluster: it assigns partitions by hand, so it joins no group, and it commits no offset.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription

from jobs.brokers.client_properties import ClientProperties
from jobs.runtime.errors import ClusterError, EvenkeelError, TopicForbiddenError, UsageError
from schemas.wire.keys import OFFSETS_TOPIC, topic_id_text

POLL_SECONDS = 0.1
LEADER_SECONDS = 0.5
"""How long to wait for a leader before the next request: a starting broker becomes the leader of one partition after another."""
REACH_SECONDS = 3.0
"""How long to wait for a connection before it is left to librdkafka."""
REFRESH_SECONDS, REFRESH_WAIT_SECONDS = 3.0, 0.5
"""How long to wait for an answer before another broker is asked which brokers there are; and how long to wait for that one."""

CLIENT_ID = "evenkeel-collect"
DEFAULTS = {
    "client.id": CLIENT_ID,
    # When its queue is full, librdkafka by default fetches nothing for a second: 1.5 s instead of 6.5 s for a million records.
    "fetch.queue.backoff.ms": "10",
}
_NOT_HEALED_BY_TRYING_AGAIN = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_NOT_OURS_TO_SEE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)
_NO_ANSWER_OF_KAFKA = re.compile(r"Invalid response size (-?\d+) \(.*\): increase receive\.message\.max\.bytes")
"""How librdkafka reports the first four bytes of an answer that is too long for it, such as ``HTTP``."""

Answer = TypeVar("Answer")
Partitions = list[tuple[str, int]]


@dataclass(frozen=True)
class OffsetsLog:
    """Where ``__consumer_offsets`` begins and ends, by partition.

    Attributes:
        topic_id: None before Kafka 2.8.
        begin: first offset that the log can have.
        end: the offset after the last one that a reader of committed records gets now: that of the first open transaction, if any.
    """

    topic_id: str | None
    begin: dict[int, int]
    end: dict[int, int]


class Connection:
    """How a cluster is reached, and the errors that librdkafka reports about it."""

    def __init__(self, servers: str, properties: ClientProperties, timeout_seconds: float) -> None:
        """Set up, without connecting.

        Args:
            servers: ``host:port``, several ones separated by commas.
            timeout_seconds: how long to wait for each answer.
        """
        self.servers, self.timeout_seconds = servers, timeout_seconds
        self._properties = properties
        self._refusal = self._trouble = ""
        self._is_down = False

    def client(self, kind: Callable[[dict[str, Any]], Any], own: dict[str, Any]) -> Any:
        """Return a client of librdkafka; ``own`` are the properties that users cannot set.

        Raises:
            UsageError: librdkafka refuses the user's properties.
        """
        given = {**DEFAULTS, **self._properties.revealed(), **own, "bootstrap.servers": self.servers}
        try:
            return kind({**given, "error_cb": self._note, "logger": _configure_logger(self._properties)})
        except (KafkaException, TypeError, ValueError) as error:
            text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise UsageError(self._properties.refusal(text)) from None

    def _note(self, error: KafkaError) -> None:
        """Store an error about connections; librdkafka tries again by itself."""
        text = _NO_ANSWER_OF_KAFKA.sub(_beginning, self._properties.masked(error.str()))
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._is_down = True
            self._trouble = self._trouble or text
        else:
            self._trouble = text
        if error.code() in _NOT_HEALED_BY_TRYING_AGAIN:
            self._refusal = text

    def check(self) -> None:
        """Raise an error for a connection that can never work.

        Raises:
            ClusterError: the login, or the certificate of one side, is refused.
        """
        if self._refusal:
            raise ClusterError(f"{self.servers}: the connection is refused: {self._refusal}; correct --client-properties")

    def healed(self) -> None:
        """Forget earlier errors, since an answer has come."""
        self._trouble, self._is_down = "", False

    @property
    def outage(self) -> str:
        """Return why no broker can be reached now; '' while one can."""
        return self._trouble if self._is_down else ""

    def explained(self, error: KafkaError, otherwise: type[EvenkeelError] = ClusterError) -> EvenkeelError:
        """Return Evenkeel's error for one of Kafka's; ``otherwise`` is its type if it is not about connections or rights."""
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return TopicForbiddenError(f"{self.servers}: no right to read the topic {OFFSETS_TOPIC}")
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return ClusterError(f"{self.servers}: found no topic {OFFSETS_TOPIC}; a cluster creates it with its first consumer group")
        if error.code() in _NO_ANSWER:
            why = f" ({self._trouble})" if self._trouble else ""
            hint = "check the address, and security.protocol in --client-properties"
            return ClusterError(f"{self.servers}: no answer within {self.timeout_seconds:g} s{why}; {hint}")
        return otherwise(f"{self.servers}: {self._properties.masked(error.str())}")


class Cluster:
    """A cluster that has answered.

    Attributes:
        connection: how it is reached.
        admin: the client for requests.
        cluster_id: Kafka's own id; None for a cluster without one.
    """

    def __init__(self, connection: Connection) -> None:
        """Connect.

        Raises:
            UsageError: librdkafka refuses the properties.
            ClusterError: no broker can be reached, none answers, or the login is refused.
        """
        self.connection = connection
        self.admin = connection.client(AdminClient, {})
        check_reachable(connection.servers)
        self.cluster_id: str | None = self._describe().cluster_id

    def offsets_log(self) -> OffsetsLog:
        """Return where ``__consumer_offsets`` begins and ends.

        Raises:
            ClusterError: the topic does not exist or may not be read, or a partition has no leader.
        """
        described = self.admin.describe_topics(TopicCollection([OFFSETS_TOPIC]), request_timeout=self.connection.timeout_seconds)
        topic = self.answer(described[OFFSETS_TOPIC])
        partitions = [(topic.name, partition.id) for partition in topic.partitions]
        deadline = time.monotonic() + self.connection.timeout_seconds
        while True:
            begin = self._offsets(partitions, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
            end = self._offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
            silent = [
                str(topic_partition[1]) for topic_partition in partitions if begin[topic_partition] is None or end[topic_partition] is None
            ]
            if not silent:
                break
            if time.monotonic() > deadline:
                numbers = ", ".join(silent)
                raise ClusterError(f"{self.connection.servers}: no leader answers for {OFFSETS_TOPIC}, partitions {numbers}; try again")
            time.sleep(LEADER_SECONDS)
        return OffsetsLog(
            _topic_id(topic),
            {partition: offset for (_, partition), offset in begin.items() if offset is not None},
            {partition: offset for (_, partition), offset in end.items() if offset is not None},
        )

    def read_metadata_snapshot(self) -> dict[str, Any]:
        """Return cluster id, brokers and topics as a metadata snapshot has them, without its time: all topics that we may describe.

        Offsets are null where no leader answers; ends are those of the log, including records that are not committed.

        Raises:
            ClusterError: no answer.
        """
        described = self._describe()
        topics = self._topics()
        partitions = [(topic.name, partition.id) for topic in topics for partition in topic.partitions]
        begin = self._offsets(partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
        end = self._offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        self.connection.healed()
        return {
            "cluster_id": described.cluster_id,
            "brokers": [{"id": node.id, "rack": node.rack} for node in sorted(described.nodes, key=lambda node: node.id)],
            "topics": [
                {
                    "topic": topic.name,
                    "topic_id": _topic_id(topic),
                    "partitions": [
                        {
                            "partition": partition.id,
                            "leader": None if partition.leader is None else partition.leader.id,
                            "replicas": [replica.id for replica in partition.replicas],
                            "begin_offset": begin[topic.name, partition.id],
                            "end_offset": end[topic.name, partition.id],
                        }
                        for partition in topic.partitions
                    ],
                }
                for topic in topics
            ],
        }

    def _describe(self) -> Any:
        return self.answer(self.admin.describe_cluster(request_timeout=self.connection.timeout_seconds))

    def _topics(self) -> list[TopicDescription]:
        """Return the topics, by name; without those that were deleted between two requests."""
        seconds = self.connection.timeout_seconds
        try:
            names = sorted(self.admin.list_topics(timeout=seconds).topics)
        except KafkaException as error:
            raise self.connection.explained(error.args[0]) from None
        topics = []
        for asked in self.admin.describe_topics(TopicCollection(names), request_timeout=seconds).values() if names else ():
            self.wait(asked)
            problem = asked.exception()
            if problem is None:
                topics.append(asked.result())
            elif problem.args[0].code() not in _NOT_OURS_TO_SEE:
                raise self.connection.explained(problem.args[0])
        return sorted(topics, key=lambda topic: topic.name)

    def _offsets(self, partitions: Partitions, which: OffsetSpec, isolation: IsolationLevel) -> dict[tuple[str, int], int | None]:
        """Return an offset of each partition, None where no leader answers; an error when none does."""
        if not partitions:
            return {}
        wanted = {TopicPartition(topic, partition): which for topic, partition in partitions}
        futures = self.admin.list_offsets(wanted, isolation_level=isolation, request_timeout=self.connection.timeout_seconds)
        found: dict[tuple[str, int], int | None] = {}
        for topic_partition, asked in futures.items():
            self.wait(asked)
            found[topic_partition.topic, topic_partition.partition] = asked.result().offset if asked.exception() is None else None
        if all(offset is None for offset in found.values()):
            raise self.connection.explained(asked.exception().args[0])
        return found

    def wait(self, asked: Future[Answer]) -> None:
        """Wait for an answer or an error.

        librdkafka sends most requests to the controller, and keeps to it until it gets metadata, though that broker may be gone.

        Raises:
            ClusterError: the login is refused.
        """
        refreshed_at = time.monotonic()
        while not asked.done():
            try:
                asked.exception(POLL_SECONDS)
            except FutureTimeoutError:
                self.admin.poll(0)  # reports errors about connections
                self.connection.check()
                if time.monotonic() - refreshed_at >= REFRESH_SECONDS:
                    with suppress(KafkaException):  # the answer counts, not whether it comes in time
                        self.admin.list_topics(timeout=REFRESH_WAIT_SECONDS)
                    refreshed_at = time.monotonic()

    def answer(self, asked: Future[Answer]) -> Answer:
        """Return the answer.

        Raises:
            ClusterError: there is no answer.
        """
        self.wait(asked)
        try:
            return asked.result()
        except KafkaException as error:
            raise self.connection.explained(error.args[0]) from None


def check_reachable(servers: str) -> None:
    """Refuse brokers of which none listens: librdkafka would try for as long as it may wait for an answer.

    Args:
        servers: ``host:port``, several ones separated by commas.

    Raises:
        ClusterError: every address has no machine, or its machine refuses the connection. One that says nothing may only be slow.
    """
    causes = {}
    for address in servers.split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_SECONDS).close()
        except TimeoutError:
            return
        except (OSError, OverflowError, UnicodeError) as error:
            causes[address] = getattr(error, "strerror", None) or str(error)
        else:
            return
    raise ClusterError(f"{servers}: no broker can be reached ({'; '.join(dict.fromkeys(causes.values()))}); correct --bootstrap-servers")


def _beginning(invalid_size: re.Match[str]) -> str:
    """Return words for an answer whose length cannot be one, with its beginning."""
    beginning = (int(invalid_size[1]) & 0xFFFFFFFF).to_bytes(4, "big")
    return f"found an answer that is not Kafka's (it begins with {repr(beginning)[1:]}), expected the port of a broker"


def _topic_id(topic: TopicDescription) -> str | None:
    return topic_id_text(str(topic.topic_id))


def _configure_logger(properties: ClientProperties) -> logging.Logger:
    """Return the logger for librdkafka's own lines. It drops them, since errors are reported twice, unless the user sets ``debug``."""
    own_logger = logging.getLogger(f"{__name__}.librdkafka")
    own_logger.setLevel(logging.DEBUG if "debug" in properties.values else logging.CRITICAL + 1)
    own_logger.filters = [lambda record: _mask(record, properties)]
    return own_logger


def _mask(record: logging.LogRecord, properties: ClientProperties) -> bool:
    record.msg, record.args = properties.masked(record.getMessage()), ()
    return True
