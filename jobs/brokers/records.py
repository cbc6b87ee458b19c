"""Records of ``__consumer_offsets``, read in batches."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from jobs.brokers.cluster import CLIENT_ID, Connection
from jobs.runtime.errors import CollectionBrokenError
from schemas.wire.keys import COMMITTED_COLUMN, OFFSETS_TOPIC

BATCH_RECORDS = 2_500
"""Larger batches do not fit into the processor's caches: 1.6 instead of 1.9 CPU s for a million records."""
BATCH_SECONDS = 0.2
"""Also limits the size of a batch, since records can be large, and the time until Ctrl-C has an effect."""
MICROS, MILLIS = pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")
_READER = {
    # librdkafka needs a group name even to assign partitions by hand; without a subscription the cluster gets no such group.
    "group.id": CLIENT_ID,
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}


@dataclass(frozen=True)
class Batch:
    """Records in the columns of Spark's Kafka source, in the order in which they came.

    Attributes:
        next_offsets: where reading continues, by partition; also after markers of transactions, which are not records.
    """

    records: pa.RecordBatch
    next_offsets: dict[int, int]


class Reader:
    """Reads ``__consumer_offsets``, all partitions at once."""

    def __init__(self, connection: Connection, next_offsets: Mapping[int, int]) -> None:
        """Begin at these offsets, by partition."""
        self._connection = connection
        self._consumer = connection.client(Consumer, _READER)
        self._consumer.assign([TopicPartition(OFFSETS_TOPIC, partition, offset) for partition, offset in next_offsets.items()])

    def next_batch(self, at_most: int | None = None) -> Batch:
        """Return the records that come within ``BATCH_SECONDS``, maybe none; earlier if there are ``at_most`` records.

        Raises:
            ClusterError: the topic may not be read, or the login is refused.
            CollectionBrokenError: the log has changed, for example an offset no longer exists.
        """
        with _without_garbage_collection():
            outage = self._connection.outage
            messages = self._consumer.consume(min(BATCH_RECORDS, at_most or BATCH_RECORDS), BATCH_SECONDS)
            self._connection.check()
            ends: dict[int, int] = {}
            if any(map(Message.error, messages)):
                ends = self._ends([(message, error) for message in messages if (error := message.error()) is not None])
                messages = [message for message in messages if message.error() is None]
            # These records may have been fetched before an outage that was reported just now, and is not reported again.
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
        """Return how many offsets are left, by the ends of the last fetches; markers of transactions count too."""
        partitions = [TopicPartition(OFFSETS_TOPIC, partition, offset) for partition, offset in next_offsets.items()]
        return sum(
            max(0, self._consumer.get_watermark_offsets(topic_partition, cached=True)[1] - topic_partition.offset)
            for topic_partition in partitions
        )

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Keep Python from searching new messages for reference cycles, which they do not have.

    For a million records the search takes 0.9 of 2.7 CPU s.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _batch(messages: list[Message], ends: Mapping[int, int]) -> Batch:
    """Return messages as columns; no line of Python runs for each record."""
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
    """Return the partitions and the offsets of messages. Messages from a broker always have both."""
    return cast("list[int]", list(map(Message.partition, messages))), cast("list[int]", list(map(Message.offset, messages)))


def _micros(times_ms: list[int]) -> pa.Array:
    """Return times; null where one does not fit into microseconds: landing puts a record without time into quarantine."""
    try:
        return pa.array(times_ms, MILLIS).cast(MICROS)
    except pa.ArrowInvalid:
        limit = 2**63 // 1000
        return pa.array([time * 1000 if -limit < time < limit else None for time in times_ms], MICROS)
