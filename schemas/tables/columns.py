"""How tables are declared: one ``TableSpec`` per table, one line per field, and the comment that Delta shows.

All columns are nullable, because a null in another column raises a ``NullPointerException`` without the name of the
column. The gates check the keys instead. Key columns and ``run_sequence`` come first: Delta keeps statistics for data
skipping of them only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

STRING, BINARY, BOOLEAN = StringType(), BinaryType(), BooleanType()
INT, BIGINT, DOUBLE = IntegerType(), LongType(), DoubleType()
DATE, TIMESTAMP = DateType(), TimestampType()


@dataclass(frozen=True)
class TableSpec:
    """One table: the single source of its DDL, of every check before a write, and of ``docs/tables.md``.

    Attributes:
        name: table name, a plural noun.
        comment: what one row is.
        key: columns that identify a row.
        schema: all columns, key and ``run_sequence`` first.
        partitioning: ``("observed_month",)`` for facts, else empty.
        former: former name of a column -> its name. Both are stored with the same values until release 1.0.
        created_by: the kind of run that creates the table; empty if every warehouse has it.
    """

    name: str
    comment: str
    key: tuple[str, ...]
    schema: StructType
    partitioning: tuple[str, ...] = field(default=())
    former: Mapping[str, str] = field(default_factory=dict)
    created_by: str = ""

    @property
    def skipping_columns(self) -> tuple[str, ...]:
        """Return the columns of which Delta keeps minimum and maximum: the key and ``run_sequence``."""
        return tuple(dict.fromkeys([*(name for name in self.key if name not in self.partitioning), "run_sequence"]))

    @property
    def stored_schema(self) -> StructType:
        """Return all columns of the table: those of ``schema``, and their copies under former names."""
        comment = "former name of {}; both have the same values until release 1.0"
        return StructType(
            [*self.schema, *[column(old, self.schema[name].dataType, comment.format(name)) for old, name in self.former.items()]]
        )


def column(name: str, data_type: DataType, comment: str) -> StructField:
    """Return a nullable column with the comment that Delta shows."""
    return StructField(name, data_type, nullable=True, metadata={"comment": comment})


def plain(**fields: DataType) -> StructType:
    """Return a struct of these fields without comments."""
    return StructType([StructField(name, data_type) for name, data_type in fields.items()])


TOPIC_PARTITIONS = ArrayType(plain(topic=STRING, partitions=ArrayType(INT)))
"""Partitions grouped by topic: one entry per topic, topics by first appearance, partitions in list order."""

MEMBERS = ArrayType(
    plain(
        member_id=STRING,
        group_instance_id=STRING,
        client_id=STRING,
        client_host=STRING,
        rack=STRING,
        session_timeout_ms=INT,
        rebalance_timeout_ms=INT,
        topics=ArrayType(STRING),
        topic_regex=STRING,
        strategies=ArrayType(STRING),
        subscription_version=INT,
        owned=TOPIC_PARTITIONS,
        owned_generation=INT,
        user_data=BINARY,
        assigned=TOPIC_PARTITIONS,
        current=TOPIC_PARTITIONS,
        pending_revocation=TOPIC_PARTITIONS,
    )
)

PARTITION_LOOKS = ArrayType(
    plain(
        partition=INT,
        leader=INT,
        leader_rack=STRING,
        replica_racks=ArrayType(STRING),
        begin_offset=BIGINT,
        end_offset=BIGINT,
    )
)

PARTITION_RACKS = ArrayType(ArrayType(STRING))

RESOLVED_TOPICS = ArrayType(
    plain(
        topic=STRING,
        topic_id=STRING,
        partition_count=INT,
        partition_racks=PARTITION_RACKS,
        basis=STRING,
        is_uncertain=BOOLEAN,
    )
)

CLUSTER = column("cluster_id", STRING, "the Kafka cluster")
GROUP = column("group_id", STRING, "the consumer group")
GENERATION = column("generation", INT, "classic generation id, or group epoch of a consumer-protocol group")
OBSERVED_AT = column("observed_at", TIMESTAMP, "time of the record, UTC")
POSITION = column(
    "position",
    BIGINT,
    "orders the snapshots of one group without ties: offset of the record, its number in the group, or a time in milliseconds, by source",
)
SEQUENCE = column("run_sequence", BIGINT, "number of the run that wrote the row")
MONTH = column("observed_month", DATE, "first day of the month of observed_at, UTC")
RUN = column("run_id", STRING, "the run that wrote the row")
SOURCE = column("source", STRING, "kind of capture")
SOURCE_POSITION = column(
    "source_position",
    STRING,
    "where the record is: partition@offset in the log. For other sources: what the record is about, or its file (the path below the "
    "input) with line, object or row",
)
PLACED_BY = column(
    "placed_by",
    STRING,
    "output of formatters: the neighbour that gives the record its position (previous, next or both); null without one, and for other "
    "sources",
)
FINGERPRINT = column("fingerprint", STRING, "SHA-256 of the record's content")
BASIS = column("basis", STRING, "observed, recomputed or counterfactual")
STRATEGY = column("strategy", STRING, "the assignor; in observed and recomputed rows that of the record, '' if it has none")
TOPIC = column("topic", STRING, "topic name")
PARTITION = column("partition", INT, "partition number")
KAFKA_VERSION = column("kafka_version", STRING, "Kafka release whose behaviour was computed; null in observed rows")
TOPICS_HASH = column("topics_hash", STRING, "key of the generation's topics in generation_topics")
RECONCILED_AT = column("reconciled_at", TIMESTAMP, "when the last member reached its target, UTC; consumer-protocol groups only")
BATCHED_EPOCH_COUNT = column(
    "batched_epoch_count",
    INT,
    "consumer-protocol groups: group epochs since the snapshot before that have a record and no target of their own; null in the first "
    "known snapshot",
)
EPOCH_AT = column(
    "epoch_at", TIMESTAMP, "when the group epoch of the target began, UTC; consumer-protocol groups only; null if its record is absent"
)
IS_SUPERSEDED = column(
    "is_superseded",
    BOOLEAN,
    "consumer-protocol groups: another target came before all members had reached this one; null if neither is known",
)
INCARNATION = column("incarnation", BIGINT, "position of the first known snapshot of this incarnation of the group")

LEADER_CLIENT = column(
    "leader_client",
    STRING,
    "client library of the leader, if its bytes show it: java, librdkafka, kafka-python, franz-go, sarama or kafkajs",
)

SNAPSHOT_KEY = ("cluster_id", "group_id", "generation", "observed_at", "position")
SNAPSHOT_COLUMNS = [CLUSTER, GROUP, GENERATION, OBSERVED_AT, POSITION]
MONTHLY = ("observed_month",)
