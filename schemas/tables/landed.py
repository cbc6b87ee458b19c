"""Tables of the stage ``land``."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, StructType

from schemas.tables.columns import (
    BATCHED_EPOCH_COUNT,
    BIGINT,
    BINARY,
    BOOLEAN,
    CLUSTER,
    EPOCH_AT,
    FINGERPRINT,
    GROUP,
    INCARNATION,
    INT,
    IS_SUPERSEDED,
    LEADER_CLIENT,
    MEMBERS,
    MONTH,
    MONTHLY,
    PARTITION,
    PARTITION_LOOKS,
    PLACED_BY,
    POSITION,
    RECONCILED_AT,
    RUN,
    SEQUENCE,
    SNAPSHOT_COLUMNS,
    SOURCE,
    SOURCE_POSITION,
    STRING,
    TIMESTAMP,
    TOPIC,
    TableSpec,
    column,
    plain,
)

GROUP_RECORDS = TableSpec(
    "group_records",
    "Group metadata records that later runs replay, and all group tombstones: one row per record.",
    ("cluster_id", "offsets_partition", "offset", "group_id"),
    StructType(
        [
            CLUSTER,
            column("offsets_partition", INT, "partition of __consumer_offsets; null if the source does not have it"),
            column("offset", BIGINT, "offset of the record, or its number in the group if the source has no offsets"),
            GROUP,
            SEQUENCE,
            MONTH,
            column("type", INT, "record type, the first two bytes of the key"),
            column("key", BINARY, "the record's key"),
            column("value", BINARY, "the record's value; null for a tombstone"),
            column("timestamp", TIMESTAMP, "time of the record, UTC"),
            SOURCE,
            SOURCE_POSITION,
            PLACED_BY,
            FINGERPRINT,
            RUN,
        ]
    ),
    MONTHLY,
)

SUBSCRIPTION_SNAPSHOTS = TableSpec(
    "subscription_snapshots",
    "One generation of a group as its source shows it, with all that is needed to compute the assignment again.",
    ("cluster_id", "group_id", "position"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            SEQUENCE,
            MONTH,
            column("group_type", STRING, "classic or consumer"),
            column("protocol_type", STRING, "consumer, or empty for a group that never had members"),
            column("state", STRING, "state of the group at that record, as Kafka names it: Stable, Empty, Assigning or Reconciling"),
            column("strategy", STRING, "name of the assignor that the group selected; null without members"),
            column("leader_member_id", STRING, "the member that ran the assignor"),
            column("joined_at", TIMESTAMP, "currentStateTimestamp of the record, or when the target was made; null if not recorded"),
            INCARNATION,
            column(
                "members",
                MEMBERS,
                "members in the order of the record, or of the coordinator's table, which is the order that the assignor saw",
            ),
            RECONCILED_AT,
            BATCHED_EPOCH_COUNT,
            EPOCH_AT,
            IS_SUPERSEDED,
            column("offsets_partition", INT, "the record's own partition of __consumer_offsets; null for other sources"),
            column(
                "is_conversion", BOOLEAN, "the coordinator wrote the record when the group changed to the other protocol; no assignor ran"
            ),
            column(
                "has_conflict",
                BOOLEAN,
                "captures disagreed about this record, or about a record of this group since the previous snapshot; see quarantine",
            ),
            column(
                "is_generation_inferred",
                BOOLEAN,
                "the source has no generations: generation counts the group's snapshots that differ from the previous one",
            ),
            column(
                "has_subscriptions",
                BOOLEAN,
                "false if the source has none: topics are then all topics of which any member of the group has partitions",
            ),
            LEADER_CLIENT,
            SOURCE,
            SOURCE_POSITION,
            PLACED_BY,
            FINGERPRINT,
            RUN,
        ]
    ),
    MONTHLY,
    {"flavour": "leader_client", "is_numbered": "is_generation_inferred", "is_disputed": "has_conflict"},
)

TOPIC_SNAPSHOTS = TableSpec(
    "topic_snapshots",
    "One topic in a metadata snapshot.",
    ("cluster_id", "topic", "observed_at"),
    StructType(
        [
            CLUSTER,
            TOPIC,
            column("observed_at", TIMESTAMP, "time of the metadata snapshot, UTC"),
            SEQUENCE,
            MONTH,
            column("topic_id", STRING, "Kafka's 22-character text form; null if the source has none"),
            column("partition_count", INT, "partitions of the topic"),
            column("partitions", PARTITION_LOOKS, "by partition number; offsets are null if the source has none"),
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
            column("observed_at", TIMESTAMP, "time of the record, UTC"),
            column("topic_id", STRING, "null if the source has none"),
            column("committed_offset", BIGINT, "next offset to read; null for a deletion"),
            column("leader_epoch", INT, "null below value version 3, or if the client sent none"),
            column("end_offset", BIGINT, "end of the partition's log that the source has beside the commit; null if it has none"),
            column("metadata", STRING, "the client's own text"),
            column("committed_at", TIMESTAMP, "commit time, UTC"),
            column("expires_at", TIMESTAMP, "expiry that the client asked for; value version 1 only"),
            column("is_deleted", BOOLEAN, "the record is a tombstone"),
            column("is_uncertain", BOOLEAN, "may belong to an aborted transaction, because the next offset is missing; null if not known"),
            column("offsets_partition", INT, "the record's own partition of __consumer_offsets; null for other sources"),
            SOURCE,
            SOURCE_POSITION,
            PLACED_BY,
            FINGERPRINT,
            RUN,
        ]
    ),
    MONTHLY,
)

COMMIT_ENTRY = plain(
    partition=INT,
    position=BIGINT,
    source=STRING,
    offsets_partition=INT,
    open_position=BIGINT,
    is_deleted=BOOLEAN,
    observed_us=BIGINT,
    committed_offset=BIGINT,
    committed_us=BIGINT,
    expires_us=BIGINT,
    topic_hash=BIGINT,
    end_offset=BIGINT,
    first_us=BIGINT,
    first_commit_us=BIGINT,
    newest_us=BIGINT,
    newest_commit_us=BIGINT,
    record_count=BIGINT,
    commit_count=BIGINT,
    is_last=BOOLEAN,
)

LAST_COMMITS = TableSpec(
    "last_commits",
    "Internal: what the commits of each partition of a group add up to, with the last of them; a thousand partitions of a topic in a row. "
    "Derived from `offset_snapshots`: readers add the commits of runs after `run_sequence`.",
    ("cluster_id", "group_id", "topic", "block"),
    StructType(
        [
            CLUSTER,
            GROUP,
            TOPIC,
            column("block", INT, "partition number divided by 1000, rounded down"),
            SEQUENCE,
            column(
                "commits",
                ArrayType(COMMIT_ENTRY),
                "by partition and position; one entry for all commits of a partition and source, and one for each commit that may be "
                "written again (open_position). Each has the last commit (is_last: of the whole partition), and of its records the first "
                "and newest time and the number, with deletions (record_count) and without (commit_count). Times are in microseconds; "
                "topic_hash is a hash of the topic's id",
            ),
        ]
    ),
    created_by="run that audits 100,000 stored commits or more",
)

QUARANTINE = TableSpec(
    "quarantine",
    "An input record that cannot be used, with the reason.",
    ("cluster_id", "payload_hash", "reason", "source_position"),
    StructType(
        [
            CLUSTER,
            column("payload_hash", STRING, "SHA-256 of the whole payload; for a conflicting record, of all that is compared"),
            column("reason", STRING, "reason code"),
            SOURCE_POSITION,
            SEQUENCE,
            SOURCE,
            column("detail", STRING, "what was found, where, and what was expected"),
            column("payload", BINARY, "first 64 KiB of the payload"),
            column("group_id", STRING, "group of a conflicting record; null for others"),
            RUN,
        ]
    ),
)
