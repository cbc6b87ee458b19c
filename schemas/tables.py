"""Shapes of all Delta tables: one ``TableSpec`` each, a field a line, and the comment that Delta shows.

Columns are declared nullable, since a null in a column that is not becomes a ``NullPointerException`` without a column
name; the keys are checked by the gates instead. Key columns and ``run_sequence`` come first: Delta keeps statistics of
them, and of nothing else, for data skipping.
"""

from __future__ import annotations

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
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

CONTRACT_VERSION = 13
"""What the tables promise to those who read them; grows by one when a column is added or a meaning changes."""
CONTRACT_PROPERTY = "evenkeel.contractVersion"
"""Property of every table: the ``CONTRACT_VERSION`` it was made or migrated with; 0 where it is missing."""
IDENTITY_PROPERTY = "evenkeel.warehouseId"
"""Property of the table ``runs``: the id of its warehouse, made once. A copy of the warehouse has the same."""

STRING, BINARY, BOOLEAN = StringType(), BinaryType(), BooleanType()
INT, BIGINT, DOUBLE = IntegerType(), LongType(), DoubleType()
DATE, TIMESTAMP = DateType(), TimestampType()


@dataclass(frozen=True)
class TableSpec:
    """What one table is: the single source of its DDL, of every write check and of ``docs/tables.md``.

    Attributes:
        name: table name, a plural noun.
        comment: what one row is.
        key: columns that identify a row.
        schema: all columns, key and ``run_sequence`` first.
        partitioning: ``("observed_month",)`` for facts, else empty.
    """

    name: str
    comment: str
    key: tuple[str, ...]
    schema: StructType
    partitioning: tuple[str, ...] = field(default=())

    @property
    def skipping_columns(self) -> tuple[str, ...]:
        """Return the columns that Delta keeps minimum and maximum of: the key and ``run_sequence``."""
        return (*[name for name in self.key if name not in self.partitioning], "run_sequence")


def _column(name: str, data_type: DataType, comment: str) -> StructField:
    return StructField(name, data_type, nullable=True, metadata={"comment": comment})


def _plain(**fields: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in fields.items()])


TOPIC_PARTITIONS = ArrayType(_plain(topic=STRING, partitions=ArrayType(INT)))
"""Partitions grouped by topic: one entry a topic, topics by first appearance, partitions in list order."""

MEMBERS = ArrayType(
    _plain(
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
    _plain(
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
    _plain(
        topic=STRING,
        topic_id=STRING,
        partition_count=INT,
        partition_racks=PARTITION_RACKS,
        basis=STRING,
        is_uncertain=BOOLEAN,
    )
)

CLUSTER = _column("cluster_id", STRING, "the Kafka cluster")
GROUP = _column("group_id", STRING, "the consumer group")
GENERATION = _column("generation", INT, "classic generation id, or group epoch of a consumer-protocol group")
OBSERVED_AT = _column("observed_at", TIMESTAMP, "time of the record, UTC")
POSITION = _column(
    "position",
    BIGINT,
    "orders the snapshots of one group strictly: the record's offset, its ordinal in the group, or a time in ms, by source",
)
SEQUENCE = _column("run_sequence", BIGINT, "the run that wrote the row")
MONTH = _column("observed_month", DATE, "first day of the month of observed_at, UTC")
RUN = _column("run_id", STRING, "the run that wrote the row")
SOURCE = _column("source", STRING, "kind of capture")
SOURCE_POSITION = _column(
    "source_position",
    STRING,
    "where the record is: partition@offset of the log; else what it is of, or file and line, object or row, the file by its path below "
    "the input",
)
PLACED_BY = _column(
    "placed_by",
    STRING,
    "what the formatters' outputs tell the position by: the record before it (previous), the one behind it (next), or both; null: none "
    "tells it, or another source",
)
FINGERPRINT = _column("fingerprint", STRING, "SHA-256 of the record's content")
BASIS = _column("basis", STRING, "observed, recomputed or counterfactual")
STRATEGY = _column("strategy", STRING, "the assignor; the record's own for observed and recomputed, '' when it has none")
TOPIC = _column("topic", STRING, "topic name")
PARTITION = _column("partition", INT, "partition number")
KAFKA_VERSION = _column("kafka_version", STRING, "release whose behaviour was computed; null for observed rows")
TOPICS_HASH = _column("topics_hash", STRING, "names the topics of the generation in generation_topics")
RECONCILED_AT = _column("reconciled_at", TIMESTAMP, "when the last member reached its target, UTC; consumer-protocol groups only")
BATCHED_EPOCH_COUNT = _column(
    "batched_epoch_count",
    INT,
    "consumer-protocol groups: group epochs since the snapshot before whose record is there and that got no target of their own; null for "
    "a first known one",
)
EPOCH_AT = _column(
    "epoch_at", TIMESTAMP, "when the group epoch of the target began, UTC; consumer-protocol groups only; null where its record is absent"
)
IS_SUPERSEDED = _column(
    "is_superseded",
    BOOLEAN,
    "consumer-protocol groups: another target came before all members had reached this one; null where neither is known",
)
INCARNATION = _column("incarnation", BIGINT, "position of the first known snapshot of this life of the group")

FLAVOUR = _column(
    "flavour",
    STRING,
    "client library of the leader, as far as its bytes tell: java, librdkafka, kafka-python, franz-go, sarama or kafkajs",
)

SNAPSHOT_KEY = ("cluster_id", "group_id", "generation", "observed_at", "position")
SNAPSHOT_COLUMNS = [CLUSTER, GROUP, GENERATION, OBSERVED_AT, POSITION]
MONTHLY = ("observed_month",)


GROUP_RECORDS = TableSpec(
    "group_records",
    "Group metadata records that folding needs again, and all group tombstones: one row a record.",
    ("cluster_id", "offsets_partition", "offset", "group_id"),
    StructType(
        [
            CLUSTER,
            _column("offsets_partition", INT, "partition of __consumer_offsets; null where the source does not tell it"),
            _column("offset", BIGINT, "offset of the record, or its ordinal in its group where the source tells none"),
            GROUP,
            SEQUENCE,
            MONTH,
            _column("type", INT, "record type, the first two bytes of the key"),
            _column("key", BINARY, "the record's key"),
            _column("value", BINARY, "the record's value; null is a tombstone"),
            _column("timestamp", TIMESTAMP, "time of the record, UTC"),
            SOURCE,
            SOURCE_POSITION,
            PLACED_BY,
            FINGERPRINT,
            RUN,
        ]
    ),
    MONTHLY,
)

GROUP_STATES = TableSpec(
    "group_states",
    "Internal carry-over: where each group stands after its last snapshot, the row of the largest position; and where it "
    "stood at checkpoints before, for late arrivals. Derived, rebuilt by assign --recompute.",
    ("cluster_id", "group_id", "position"),
    StructType(
        [
            CLUSTER,
            GROUP,
            POSITION,
            SEQUENCE,
            GENERATION,
            INCARNATION,
            _column("snapshot_count", BIGINT, "snapshots of the group up to this one"),
            _column("is_checkpoint", BOOLEAN, "kept when the group goes on, so that a late arrival need not begin at the beginning"),
            _column("topics", ArrayType(STRING), "topics that members held, to be looked up for the next generation too"),
            _column("state", BINARY, "the last snapshot, every strategy's last result, and what recurred within a day, coded"),
        ]
    ),
)

SUBSCRIPTION_SNAPSHOTS = TableSpec(
    "subscription_snapshots",
    "One generation of a group as its coordinator stored it: all that is needed to compute it again.",
    ("cluster_id", "group_id", "position"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            SEQUENCE,
            MONTH,
            _column("group_type", STRING, "classic or consumer"),
            _column("protocol_type", STRING, "consumer, or empty for a group that never had members"),
            _column("state", STRING, "state of the group at that record, as Kafka names it: Stable, Empty, Assigning or Reconciling"),
            _column("strategy", STRING, "name of the assignor that the group selected; null without members"),
            _column("leader_member_id", STRING, "the member that ran the assignor"),
            _column("joined_at", TIMESTAMP, "the value's currentStateTimestamp, or when the target was made; null where none is recorded"),
            INCARNATION,
            _column("members", MEMBERS, "members in the order of the record, or of the coordinator's table: the order the assignor saw"),
            RECONCILED_AT,
            BATCHED_EPOCH_COUNT,
            EPOCH_AT,
            IS_SUPERSEDED,
            _column("offsets_partition", INT, "the record's own partition of __consumer_offsets; null for other sources"),
            _column("is_conversion", BOOLEAN, "written by the coordinator when it turned the group to the other protocol: no assignor ran"),
            _column(
                "is_disputed", BOOLEAN, "several contents, one of this group, were found at its place or at one since the snapshot before"
            ),
            _column(
                "is_numbered", BOOLEAN, "the source has no generation: it counts the group's snapshots that differ from the one before"
            ),
            _column(
                "has_subscriptions", BOOLEAN, "false where the source tells none: topics are then all that any member of the group holds"
            ),
            FLAVOUR,
            SOURCE,
            SOURCE_POSITION,
            PLACED_BY,
            FINGERPRINT,
            RUN,
        ]
    ),
    MONTHLY,
)

GENERATION_TOPICS = TableSpec(
    "generation_topics",
    "The topics of a generation as the assignor is taken to have seen them, named by content.",
    ("cluster_id", "topics_hash"),
    StructType(
        [
            CLUSTER,
            TOPICS_HASH,
            SEQUENCE,
            _column("topics", RESOLVED_TOPICS, "subscribed topics by name; basis says which look gave the partitions"),
        ]
    ),
)

TOPIC_SNAPSHOTS = TableSpec(
    "topic_snapshots",
    "A look: one topic at one moment.",
    ("cluster_id", "topic", "observed_at"),
    StructType(
        [
            CLUSTER,
            TOPIC,
            _column("observed_at", TIMESTAMP, "time of the look, UTC"),
            SEQUENCE,
            MONTH,
            _column("topic_id", STRING, "Kafka's 22-character text form; null when the source has none"),
            _column("partition_count", INT, "partitions of the topic"),
            _column("partitions", PARTITION_LOOKS, "by partition number; offsets null when the source has none"),
            SOURCE,
            SOURCE_POSITION,
            FINGERPRINT,
            RUN,
        ]
    ),
    MONTHLY,
)

OFFSET_SNAPSHOTS = TableSpec(
    "offset_snapshots",
    "One offset commit, or its deletion.",
    ("cluster_id", "group_id", "topic", "partition", "position"),
    StructType(
        [
            CLUSTER,
            GROUP,
            TOPIC,
            PARTITION,
            POSITION,
            SEQUENCE,
            MONTH,
            _column("observed_at", TIMESTAMP, "time of the record, UTC"),
            _column("topic_id", STRING, "null when the source has none"),
            _column("committed_offset", BIGINT, "next offset to read; null for a deletion"),
            _column("leader_epoch", INT, "null below value version 3 or when the client sent none"),
            _column("metadata", STRING, "the client's own text"),
            _column("committed_at", TIMESTAMP, "commit time, UTC"),
            _column("expires_at", TIMESTAMP, "value version 1 only"),
            _column("is_deleted", BOOLEAN, "the record is a tombstone"),
            _column("is_uncertain", BOOLEAN, "may be of an aborted transaction: the next offset is missing; null: not known"),
            _column("offsets_partition", INT, "the record's own partition of __consumer_offsets; null for other sources"),
            SOURCE,
            SOURCE_POSITION,
            PLACED_BY,
            FINGERPRINT,
            RUN,
        ]
    ),
    MONTHLY,
)

ASSIGNMENTS = TableSpec(
    "assignments",
    "What one member holds in one generation, observed, or recomputed otherwise than observed; also members without partitions.",
    (*SNAPSHOT_KEY, "basis", "strategy", "member_id"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            BASIS,
            STRATEGY,
            _column("member_id", STRING, "the member"),
            SEQUENCE,
            MONTH,
            _column("group_instance_id", STRING, "set for a static member"),
            _column("partitions", TOPIC_PARTITIONS, "in the assignor's order, one entry a topic"),
            _column("partition_count", INT, "partitions held"),
            KAFKA_VERSION,
            RUN,
        ]
    ),
    MONTHLY,
)

SOLUTIONS = TableSpec(
    "solutions",
    "How the assignment of one basis and strategy came about, also where there is none.",
    (*SNAPSHOT_KEY, "basis", "strategy"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            BASIS,
            STRATEGY,
            SEQUENCE,
            MONTH,
            INCARNATION,
            _column("status", STRING, "solved, carried, no_result, kafka_error, over_budget or unsupported"),
            _column("detail", STRING, "what the assignor said when it had no result"),
            KAFKA_VERSION,
            TOPICS_HASH,
            _column("has_predecessor", BOOLEAN, "false when the generation before is not known (a compacted log, a conversion)"),
            _column("is_rewrite", BOOLEAN, "the same generation again, no assignor ran: a static member came back, or another look"),
            _column("is_follow_up", BOOLEAN, "the second half of a cooperative rebalance: no new cause"),
            _column("rebalance_count", INT, "calls of the assignor; counterfactual rows: 0 without a known predecessor"),
            _column("cooperative_revocation_count", INT, "summed over the calls; counterfactual rows only"),
            _column("conformance", STRING, "recomputed compared with observed; null on counterfactual rows"),
            _column(
                "recurrences",
                STRING,
                "observed rows: what happened again and again within an hour or a day, as JSON for the audit; null where nothing did",
            ),
            _column("holdings", BINARY, "what members hold, packed: `assign --expand` shows it; null without a result, and once dropped"),
            RUN,
        ]
    ),
    MONTHLY,
)

MOVEMENTS = TableSpec(
    "movements",
    "One partition whose owner changed between a generation and the one before.",
    (*SNAPSHOT_KEY, "basis", "strategy", "topic", "partition"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            BASIS,
            STRATEGY,
            TOPIC,
            PARTITION,
            SEQUENCE,
            MONTH,
            _column("previous_generation", INT, "generation in which the previous owner held it; without one, the generation before"),
            _column("previous_member_id", STRING, "null when nobody held it"),
            _column("member_id", STRING, "null when nobody holds it"),
            _column("kind", STRING, "revoked, reassigned, gained, lost (no longer owned, for one since it is withheld) or orphaned"),
            _column("cause", STRING, "why gained, lost or orphaned; null elsewhere"),
            _column("committed_offset", BIGINT, "as of the movement; like all that follows null where nobody holds the partition now"),
            _column("begin_offset", BIGINT, "first offset of the log as of the movement"),
            _column("end_offset", BIGINT, "end of the log at or after the movement"),
            _column("resume_outcome", STRING, "committed, reset_none, reset_out_of_range or unknown"),
            _column("lag", BIGINT, "messages still to read; null where the look is later than audit.max_look_delay_s allows"),
            _column("committed_at", TIMESTAMP, "time of that commit, UTC"),
            _column("end_offset_delay_ms", BIGINT, "how long after the movement the look was that told end_offset; null without one"),
            _column(
                "lag_is_upper_bound",
                BOOLEAN,
                "records may have come in between the movement and that look: the lag was at most so much; null without a lag",
            ),
            RUN,
        ]
    ),
    MONTHLY,
)

_MOVED = "partitions of this row's assignment compared with the one before; null without a known predecessor: "
_LOADS = "over all members; null without members: "

GENERATION_AUDITS = TableSpec(
    "generation_audits",
    "Every figure about one generation on one basis and strategy.",
    (*SNAPSHOT_KEY, "basis", "strategy"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            BASIS,
            STRATEGY,
            SEQUENCE,
            MONTH,
            _column("previous_generation", INT, "generation of the snapshot before in the same incarnation"),
            _column(
                "generation_gap",
                INT,
                "generations between the two that are not known; of a consumer-protocol group the epochs in between without a record",
            ),
            _column("is_follow_up", BOOLEAN, "the second half of a cooperative rebalance: no new cause"),
            _column("is_settled", BOOLEAN, "false while something is withheld"),
            _column("rebalance_count", INT, "calls of the assignor; counterfactual rows: 0 without a known predecessor"),
            _column("member_count", INT, "members"),
            _column("idle_member_count", INT, "members without partitions that subscribe to an existing topic"),
            _column("partition_count", INT, "distinct partitions with an owner"),
            _column("retained_count", INT, _MOVED + "same owner"),
            _column("revoked_count", INT, _MOVED + "taken from a member that is still there"),
            _column("reassigned_count", INT, _MOVED + "taken over from a member that left"),
            _column("gained_count", INT, _MOVED + "had no owner"),
            _column("lost_count", INT, _MOVED + "has no owner, its last one is still a member"),
            _column("orphaned_count", INT, _MOVED + "has no owner, its last one left"),
            _column("withheld_count", INT, "part of lost_count: kept back by the cooperative assignor until given up"),
            _column("handed_over_count", INT, "part of gained_count: withheld before, another owner now"),
            _column("returned_count", INT, "part of gained_count: withheld before, the same owner again"),
            _column("movement_count", INT, "revoked + reassigned + handed over"),
            _column("least_movement_count", INT, "fewest movements with all loads within the smallest and largest; null unless settled"),
            _column("avoidable_movement_count", INT, "movement_count - least_movement_count"),
            _column("unassigned_count", INT, "existing partitions of subscribed topics without owner"),
            _column("multiply_owned_count", INT, "partitions with more than one owner"),
            _column("eager_revocation_count", INT, "partitions that members present in both would give up under the eager protocol"),
            _column("cooperative_revocation_count", INT, "those of them not given back to the same owner"),
            _column("actual_revocation_count", INT, "observed rows: what the members did give up; null where claims cannot tell"),
            _column("is_eager", BOOLEAN, "observed rows: every live member gave up everything; null where claims cannot tell"),
            _column("partitions_per_member_min", INT, _LOADS + "smallest load"),
            _column("partitions_per_member_max", INT, _LOADS + "largest load"),
            _column("partitions_per_member_mean", DOUBLE, _LOADS + "mean load"),
            _column("partitions_per_member_stddev", DOUBLE, _LOADS + "population standard deviation"),
            _column("imbalance_ratio", DOUBLE, "largest load / mean load; 1 is even, null without partitions"),
            _column("gini", DOUBLE, "Gini coefficient of the loads, 0 is even; null without partitions"),
            _column("topic_skew_max", INT, "largest max - min within one topic over its subscribers"),
            _column("balance_score", BIGINT, "Kafka's: sum of load differences over all pairs of members"),
            _column("least_spread", INT, "smallest possible max - min of the loads of members that could be given something"),
            _column(
                "is_lower_bound",
                BOOLEAN,
                "least_movement_count or least_spread may be less than any assignment has: subscriptions differ too much to tell exactly",
            ),
            _column(
                "lag_imbalance_ratio",
                DOUBLE,
                "observed rows: largest / mean lag of a member, of the partitions whose lag is known; null where none waits",
            ),
            _column("rack_match_ratio", DOUBLE, "share of partitions with a replica in the owner's rack"),
            TOPICS_HASH,
            _column("coordinator_partition", INT, "partition of __consumer_offsets that holds the group"),
            _column("triggers", ArrayType(STRING), "what changed since the generation before"),
            KAFKA_VERSION,
            _column("conformance", STRING, "recomputed compared with observed; null on counterfactual rows"),
            _column("violations", ArrayType(STRING), "what is wrong with the assignment; empty when sound, null without one"),
            _column("status", STRING, "solved, carried, no_result, kafka_error, over_budget or unsupported"),
            _column(
                "verdict",
                STRING,
                "observed rows, settled: what the imbalance is owed to; inherent, better_elsewhere or unexpected; null where subscriptions "
                "are not known, for Kafka Streams, and where nothing was there to compare with",
            ),
            _column("better_strategy", STRING, "the strategy with the smallest imbalance_ratio, where that is below the own one's"),
            _column("better_gain", DOUBLE, "by how much its imbalance_ratio is smaller, both counterfactual"),
            FLAVOUR,
            _column("follow_up_ms", BIGINT, "observed rows: time until the next generation, where that is a follow-up"),
            _column("pause_partition_ms", BIGINT, "observed rows: unassigned_count times milliseconds until the next generation"),
            _column(
                "throughput_imbalance_ratio",
                DOUBLE,
                "observed rows: largest / mean records a second of a member, by the looks before and after the generation",
            ),
            _column(
                "weighed_until",
                TIMESTAMP,
                "observed rows: observed_at, or the commit time of a held partition's last commit where that is later; the first look from "
                "then on tells lag; null in rows of contract versions before 13",
            ),
            RECONCILED_AT,
            BATCHED_EPOCH_COUNT,
            EPOCH_AT,
            IS_SUPERSEDED,
            RUN,
        ]
    ),
    MONTHLY,
)

FINDINGS = TableSpec(
    "findings",
    "Something a person should know about one generation.",
    (*SNAPSHOT_KEY, "rule_id"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            _column("rule_id", STRING, "the rule that found it"),
            SEQUENCE,
            MONTH,
            _column("severity", STRING, "info, warning or critical"),
            _column("message", STRING, "what was found"),
            _column("evidence", MapType(STRING, STRING), "the figures behind it"),
            _column("advice", STRING, "what to do"),
            RUN,
        ]
    ),
    MONTHLY,
)

QUARANTINE = TableSpec(
    "quarantine",
    "An input record that could not be used, kept with the reason.",
    ("cluster_id", "payload_hash", "reason", "source_position"),
    StructType(
        [
            CLUSTER,
            _column("payload_hash", STRING, "SHA-256 of the whole payload; of a conflicting record that of all that is compared of it"),
            _column("reason", STRING, "reason code"),
            SOURCE_POSITION,
            SEQUENCE,
            SOURCE,
            _column("detail", STRING, "what was found where, and what was expected"),
            _column("payload", BINARY, "first 64 KiB of the payload"),
            _column("group_id", STRING, "group that a conflicting record tells of; null for others"),
            RUN,
        ]
    ),
)

GATE_RESULTS = ArrayType(
    _plain(
        suite=STRING,
        table=STRING,
        expectation=STRING,
        severity=STRING,
        success=BOOLEAN,
        unexpected_count=BIGINT,
    )
)

RUNS = TableSpec(
    "runs",
    "One run; its row is the last commit of the run and publishes the versions that readers use.",
    ("run_id",),
    StructType(
        [
            _column("run_id", STRING, "name of the run"),
            SEQUENCE,
            _column("command", STRING, "what was run"),
            _column("started_at", TIMESTAMP, "UTC"),
            _column("finished_at", TIMESTAMP, "UTC"),
            _column("status", STRING, "published, failed or refused"),
            _column("input_counts", MapType(STRING, BIGINT), "records read and where they ended"),
            _column("output_counts", MapType(STRING, BIGINT), "rows written by table; maintain: rows dropped, files before and after"),
            _column("table_versions", MapType(STRING, BIGINT), "the version of every table that readers use"),
            _column("consumed", MapType(STRING, BIGINT), "by table: run_sequence up to which its rows have been used"),
            _column("written", MapType(STRING, BIGINT), "by table: the last run_sequence that wrote rows"),
            _column(
                "positions",
                MapType(STRING, BIGINT),
                "where reading of a live `__consumer_offsets` goes on: 'cluster_id topic_id partition' -> next offset; "
                "empty where only captures landed",
            ),
            _column(
                "origins",
                MapType(STRING, BIGINT),
                "partitions of `__consumer_offsets` whose first record was read: 'cluster_id partition' -> run_sequence of who read it",
            ),
            _column(
                "landed_until",
                MapType(STRING, BIGINT),
                "'cluster partition' of `__consumer_offsets` -> highest offset + 1 that a run has read, whatever became of the record; "
                "null in rows from before version 10",
            ),
            _column(
                "files",
                ArrayType(STRING),
                "names by content of the raw logs and looks that the run decoded: a later run does not decode them again; "
                "null where it has to, and in rows from before version 11",
            ),
            _column("file_counts", MapType(STRING, BIGINT), "where the records of what the run decoded ended; as input_counts"),
            _column("retained_from", DATE, "first month that the last maintain kept; landing skips records before it; null before any"),
            _column(
                "counterfactuals_from",
                DATE,
                "first month of which the last maintain kept counterfactual assignments; null before any",
            ),
            _column("gates", GATE_RESULTS, "results of the expectations"),
            _column("warehouse_id", STRING, "id of the warehouse that the run wrote to; null in rows from before version 9"),
            _column("input_fingerprint", STRING, "SHA-256 of what the input files hold"),
            _column("settings_fingerprint", STRING, "SHA-256 of the settings"),
            _column(
                "software_versions",
                MapType(STRING, STRING),
                "evenkeel, python, spark, pyspark; also java and delta, but for runs over Spark Connect",
            ),
        ]
    ),
)

TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        GROUP_RECORDS,
        GROUP_STATES,
        SUBSCRIPTION_SNAPSHOTS,
        GENERATION_TOPICS,
        TOPIC_SNAPSHOTS,
        OFFSET_SNAPSHOTS,
        ASSIGNMENTS,
        SOLUTIONS,
        MOVEMENTS,
        GENERATION_AUDITS,
        FINDINGS,
        QUARANTINE,
        RUNS,
    )
}
"""Every table by name, in the order in which a run writes them; ``runs`` is last, since its row publishes."""
