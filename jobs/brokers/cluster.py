"""A live Kafka cluster: looks at it, and the records of ``__consumer_offsets``.

Nothing in the cluster changes: partitions are assigned by hand, so that no group is joined, and no offset is committed.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription

from jobs.brokers.client_properties import ClientProperties
from jobs.runtime.errors import ClusterError, CollectionBrokenError, EvenkeelError, TopicForbiddenError, UsageError
from schemas.wire.keys import COMMITTED_COLUMN, OFFSETS_TOPIC

BATCH_RECORDS = 2_500
"""Larger batches leave the processor's caches before they are done with: 1.6 instead of 1.9 CPU s for a million records."""
BATCH_SECONDS = 0.2
"""Also bounds what one batch holds, since records can be large, and how long Ctrl-C takes."""
POLL_SECONDS = 0.1
LEADER_SECONDS = 0.5
"""How long to wait for a leader before asking again: a broker that starts leads its partitions one after another."""
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What brokers before 2.8 give."""
MICROS, MILLIS = pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")

_CLIENT_ID = "evenkeel-collect"
DEFAULTS = {
    "client.id": _CLIENT_ID,
    # Once its queue is full, librdkafka by itself fetches nothing for a second: 1.5 s instead of 6.5 s for a million records.
    "fetch.queue.backoff.ms": "10",
}
_READER = {
    # librdkafka wants a name before it takes partitions by hand; without a subscription no group of this name comes to be.
    "group.id": _CLIENT_ID,
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
_NOT_HEALED_BY_TRYING_AGAIN = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_NOT_OURS_TO_SEE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)

Answer = TypeVar("Answer")
Places = list[tuple[str, int]]


@dataclass(frozen=True)
class OffsetsLog:
    """Where ``__consumer_offsets`` begins and ends, by partition.

    Attributes:
        topic_id: None before Kafka 2.8.
        begin: first offset that there can be.
        end: the offset behind the last one that a reader of committed records gets by now: that of the first open transaction, if any.
    """

    topic_id: str | None
    begin: dict[int, int]
    end: dict[int, int]


@dataclass(frozen=True)
class Batch:
    """Records in the columns of Spark's Kafka source, as they came.

    Attributes:
        next_offsets: where reading goes on, by partition; also behind markers of transactions, which are no records.
    """

    records: pa.RecordBatch
    next_offsets: dict[int, int]


class Connection:
    """How a cluster is reached, and what librdkafka tells of that."""

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
        """Return a client of librdkafka; ``own`` are the properties that nobody else may set.

        Raises:
            UsageError: librdkafka does not take the user's properties.
        """
        given = {**DEFAULTS, **self._properties.revealed(), **own, "bootstrap.servers": self.servers}
        try:
            return kind({**given, "error_cb": self._note, "logger": _own_logger(self._properties)})
        except (KafkaException, TypeError, ValueError) as error:
            text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise UsageError(self._properties.refusal(text)) from None

    def _note(self, error: KafkaError) -> None:
        """Keep what is told of connections; librdkafka goes on trying by itself."""
        text = self._properties.masked(error.str())
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._is_down = True
            self._trouble = self._trouble or text
        else:
            self._trouble = text
        if error.code() in _NOT_HEALED_BY_TRYING_AGAIN:
            self._refusal = text

    def check(self) -> None:
        """Refuse to go on with a connection that will not come about.

        Raises:
            ClusterError: the login, or our certificate or theirs, is refused.
        """
        if self._refusal:
            raise ClusterError(f"{self.servers}: the connection is refused: {self._refusal}; give other --client-properties")

    def healed(self) -> None:
        """Forget the trouble there was: an answer has come."""
        self._trouble, self._is_down = "", False

    @property
    def outage(self) -> str:
        """Return why no broker can be reached at the moment; '' while one can."""
        return self._trouble if self._is_down else ""

    def explained(self, error: KafkaError, otherwise: type[EvenkeelError] = ClusterError) -> EvenkeelError:
        """Return our error for one of Kafka's; ``otherwise`` is the kind of those that are no matter of connection or rights."""
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return TopicForbiddenError(f"{self.servers}: no right to read the topic {OFFSETS_TOPIC}")
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return ClusterError(f"{self.servers}: found no topic {OFFSETS_TOPIC}, which comes with a cluster's first consumer group")
        if error.code() in _NO_ANSWER:
            why = f" ({self._trouble})" if self._trouble else ""
            hint = "check the address, and security.protocol in --client-properties"
            return ClusterError(f"{self.servers}: no answer within {self.timeout_seconds:g} s{why}; {hint}")
        return otherwise(f"{self.servers}: {self._properties.masked(error.str())}")


class Cluster:
    """A cluster that has answered.

    Attributes:
        connection: how it is reached.
        admin: the client that asks.
        cluster_id: Kafka's own id; None of a cluster that has none.
    """

    def __init__(self, connection: Connection) -> None:
        """Connect.

        Raises:
            UsageError: librdkafka does not take the properties.
            ClusterError: no answer, or the login is refused.
        """
        self.connection = connection
        self.admin = connection.client(AdminClient, {})
        self.cluster_id: str | None = self._describe().cluster_id

    def offsets_log(self) -> OffsetsLog:
        """Return where ``__consumer_offsets`` begins and ends.

        Raises:
            ClusterError: there is none, it may not be read, or a partition has no leader.
        """
        described = self.admin.describe_topics(TopicCollection([OFFSETS_TOPIC]), request_timeout=self.connection.timeout_seconds)
        topic = self.answer(described[OFFSETS_TOPIC])
        places = [(topic.name, partition.id) for partition in topic.partitions]
        behind = time.monotonic() + self.connection.timeout_seconds
        while True:
            begin = self._offsets(places, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
            end = self._offsets(places, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
            silent = [str(place[1]) for place in places if begin[place] is None or end[place] is None]
            if not silent:
                break
            if time.monotonic() > behind:
                numbers = ", ".join(silent)
                raise ClusterError(f"{self.connection.servers}: no leader answers for {OFFSETS_TOPIC}, partitions {numbers}; try again")
            time.sleep(LEADER_SECONDS)
        return OffsetsLog(
            _topic_id(topic),
            {partition: offset for (_, partition), offset in begin.items() if offset is not None},
            {partition: offset for (_, partition), offset in end.items() if offset is not None},
        )

    def look(self) -> dict[str, Any]:
        """Return cluster id, brokers and topics as a look has them, without its time: all topics that we may describe.

        Offsets are null where no leader answers; ends are those of the log, whatever of it is committed.

        Raises:
            ClusterError: no answer.
        """
        described = self._describe()
        topics = self._topics()
        places = [(topic.name, partition.id) for topic in topics for partition in topic.partitions]
        begin = self._offsets(places, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
        end = self._offsets(places, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
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
        """Return the topics, by name; without those that went between two questions."""
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

    def _offsets(self, places: Places, which: OffsetSpec, isolation: IsolationLevel) -> dict[tuple[str, int], int | None]:
        """Return an offset of each partition, None where no leader answers; an error when none does."""
        if not places:
            return {}
        wanted = {TopicPartition(topic, partition): which for topic, partition in places}
        told = self.admin.list_offsets(wanted, isolation_level=isolation, request_timeout=self.connection.timeout_seconds)
        found: dict[tuple[str, int], int | None] = {}
        for place, asked in told.items():
            self.wait(asked)
            found[place.topic, place.partition] = asked.result().offset if asked.exception() is None else None
        if all(offset is None for offset in found.values()):
            raise self.connection.explained(asked.exception().args[0])
        return found

    def wait(self, asked: Future[Answer]) -> None:
        """Return when there is an answer or an error.

        Raises:
            ClusterError: the login is refused.
        """
        while not asked.done():
            try:
                asked.exception(POLL_SECONDS)
            except FutureTimeoutError:
                self.admin.poll(0)  # what librdkafka tells of its connections
                self.connection.check()

    def answer(self, asked: Future[Answer]) -> Answer:
        """Return the answer.

        Raises:
            ClusterError: there is none.
        """
        self.wait(asked)
        try:
            return asked.result()
        except KafkaException as error:
            raise self.connection.explained(error.args[0]) from None


class Reader:
    """Reads ``__consumer_offsets``, all partitions at once."""

    def __init__(self, connection: Connection, next_offsets: Mapping[int, int]) -> None:
        """Begin at these offsets, by partition."""
        self._connection = connection
        self._consumer = connection.client(Consumer, _READER)
        self._consumer.assign([TopicPartition(OFFSETS_TOPIC, partition, offset) for partition, offset in next_offsets.items()])

    def next_batch(self, at_most: int | None = None) -> Batch:
        """Return what has come within a moment, maybe nothing; as soon as ``at_most`` records are there.

        Raises:
            ClusterError: the topic may not be read, or the login is refused.
            CollectionBrokenError: the log is not what it was, such as an offset that is gone.
        """
        with _without_garbage_collection():
            outage = self._connection.outage
            messages = self._consumer.consume(min(BATCH_RECORDS, at_most or BATCH_RECORDS), BATCH_SECONDS)
            self._connection.check()
            ends: dict[int, int] = {}
            if any(map(Message.error, messages)):
                ends = self._ends([(message, error) for message in messages if (error := message.error()) is not None])
                messages = [message for message in messages if message.error() is None]
            # What came may have been fetched before an outage that was told just now, and is not told again.
            if (messages or ends) and self._connection.outage == outage:
                self._connection.healed()
            batch = _batch(messages, ends)
            del messages
        return batch

    def _ends(self, events: list[tuple[Message, KafkaError]]) -> dict[int, int]:
        """Return where partitions ended, by partition."""
        ended = []
        for event, error in events:
            if error.code() == KafkaError._PARTITION_EOF:
                ended.append(event)
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # librdkafka asks for a coordinator that nobody needs
                raise self._connection.explained(error, CollectionBrokenError)
        return dict(zip(*_positions(ended), strict=True))

    def remaining(self, next_offsets: Mapping[int, int]) -> int:
        """Return how many offsets are still to come, as far as the last fetches told; markers of transactions count too."""
        places = [TopicPartition(OFFSETS_TOPIC, partition, offset) for partition, offset in next_offsets.items()]
        return sum(max(0, self._consumer.get_watermark_offsets(place, cached=True)[1] - place.offset) for place in places)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Keep Python from looking for cycles among messages, of which there are none, each time that some hundreds are new.

    For a million records that takes 0.9 of 2.7 CPU s.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _batch(messages: list[Message], ends: Mapping[int, int]) -> Batch:
    """Return messages as columns; per record there is no line of Python."""
    partitions, offsets = _positions(messages)
    stamps, count = list(map(Message.timestamp, messages)), len(messages)
    kinds = list(map(itemgetter(0), stamps))
    records = pa.record_batch(
        {
            "key": pa.array(list(map(Message.key, messages)), pa.binary()),
            "value": pa.array(list(map(Message.value, messages)), pa.binary()),
            "topic": pa.repeat(OFFSETS_TOPIC, count),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": _micros(list(map(itemgetter(1), stamps))),
            # librdkafka counts from 0, which is no time at all; Kafka's Java client, and so Spark, from -1.
            "timestampType": pc.subtract(pa.array(kinds, pa.int32()), pa.scalar(1, pa.int32())),
            COMMITTED_COLUMN: pa.repeat(True, count),  # ``isolation.level`` is ours
        }
    )
    next_offsets = {partition: offset + 1 for partition, offset in dict(zip(partitions, offsets, strict=True)).items()}
    for partition, end in ends.items():
        next_offsets[partition] = max(end, next_offsets.get(partition, 0))
    return Batch(records, next_offsets)


def _positions(messages: list[Message]) -> tuple[list[int], list[int]]:
    """Return the partitions and the offsets of messages that came from a broker; only one made by hand has none."""
    return cast("list[int]", list(map(Message.partition, messages))), cast("list[int]", list(map(Message.offset, messages)))


def _micros(times_ms: list[int]) -> pa.Array:
    """Return times; null where one is too far away for microseconds: landing puts a record without time into quarantine."""
    try:
        return pa.array(times_ms, MILLIS).cast(MICROS)
    except pa.ArrowInvalid:
        limit = 2**63 // 1000
        return pa.array([time * 1000 if -limit < time < limit else None for time in times_ms], MICROS)


def _topic_id(topic: TopicDescription) -> str | None:
    """Return a topic's id as Kafka writes it, and as records of consumer groups spell it: librdkafka uses the other Base64 alphabet."""
    text = str(topic.topic_id).replace("+", "-").replace("/", "_")
    return None if text == NO_TOPIC_ID else text


def _own_logger(properties: ClientProperties) -> logging.Logger:
    """Return where librdkafka's own lines go: nowhere, since it tells its errors twice, unless the user asked for its debug lines."""
    told = logging.getLogger(f"{__name__}.librdkafka")
    told.setLevel(logging.DEBUG if "debug" in properties.values else logging.CRITICAL + 1)
    told.filters = [lambda record: _mask(record, properties)]
    return told


def _mask(record: logging.LogRecord, properties: ClientProperties) -> bool:
    record.msg, record.args = properties.masked(record.getMessage()), ()
    return True
