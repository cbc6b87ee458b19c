"""Tables of the stage ``assign``."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, StructType

from schemas.tables.columns import (
    BASIS,
    BIGINT,
    BINARY,
    BOOLEAN,
    CLUSTER,
    GENERATION,
    GROUP,
    INCARNATION,
    INT,
    KAFKA_VERSION,
    MONTH,
    MONTHLY,
    POSITION,
    RESOLVED_TOPICS,
    RUN,
    SEQUENCE,
    SNAPSHOT_COLUMNS,
    SNAPSHOT_KEY,
    STRATEGY,
    STRING,
    TOPIC_PARTITIONS,
    TOPICS_HASH,
    TableSpec,
    column,
)

GROUP_STATES = TableSpec(
    "group_states",
    "Internal: the state of each group after its last snapshot (the row with the largest position), and its checkpoints for "
    "late arrivals. Derived; `assign --recompute` rebuilds it.",
    ("cluster_id", "group_id", "position"),
    StructType(
        [
            CLUSTER,
            GROUP,
            POSITION,
            SEQUENCE,
            GENERATION,
            INCARNATION,
            column("snapshot_count", BIGINT, "number of snapshots of the group up to this one"),
            column(
                "is_checkpoint",
                BOOLEAN,
                "true: the row stays when later snapshots land, so that a late arrival does not take the group back to its first snapshot",
            ),
            column("topics", ArrayType(STRING), "topics whose partitions members had; the next generation resolves them too"),
            column("state", BINARY, "encoded: the last snapshot, the last result of each strategy, and what recurred within a day"),
        ]
    ),
)

GENERATION_TOPICS = TableSpec(
    "generation_topics",
    "The topics of a generation as its assignor is taken to have seen them. Equal topics share one row.",
    ("cluster_id", "topics_hash"),
    StructType(
        [
            CLUSTER,
            TOPICS_HASH,
            SEQUENCE,
            column(
                "topics",
                RESOLVED_TOPICS,
                "subscribed topics and those held in the generation before, by name; basis: their metadata snapshot, or inferred",
            ),
        ]
    ),
)

ASSIGNMENTS = TableSpec(
    "assignments",
    "The partitions of one member in one generation: observed, and recomputed if that differs. Members without partitions have rows too.",
    (*SNAPSHOT_KEY, "basis", "strategy", "member_id"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            BASIS,
            STRATEGY,
            column("member_id", STRING, "the member"),
            SEQUENCE,
            MONTH,
            column("group_instance_id", STRING, "set for a static member"),
            column("partitions", TOPIC_PARTITIONS, "in the assignor's order, one entry per topic"),
            column("partition_count", INT, "number of partitions of the member"),
            KAFKA_VERSION,
            RUN,
        ]
    ),
    MONTHLY,
)

SOLUTIONS = TableSpec(
    "solutions",
    "The result of one assignor for one generation on one basis, also if it is no assignment.",
    (*SNAPSHOT_KEY, "basis", "strategy"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            BASIS,
            STRATEGY,
            SEQUENCE,
            MONTH,
            INCARNATION,
            column("status", STRING, "solved, carried, no_result, kafka_error, over_budget or unsupported"),
            column("detail", STRING, "why there is no result"),
            KAFKA_VERSION,
            TOPICS_HASH,
            column("has_predecessor", BOOLEAN, "false if the generation before is not known, as after log compaction or a conversion"),
            column(
                "is_rewrite",
                BOOLEAN,
                "the snapshot repeats a generation and no assignor ran: a static member returned, or the group was observed again",
            ),
            column("is_follow_up", BOOLEAN, "the generation only finishes a cooperative rebalance; it has no cause of its own"),
            column("rebalance_count", INT, "calls of the assignor; in counterfactual rows 0 if the generation before is not known"),
            column(
                "cooperative_revocation_count",
                INT,
                "revocations under the cooperative protocol, summed over the calls; counterfactual rows only",
            ),
            column("conformance", STRING, "how equal the recomputed and the observed assignment are; null in counterfactual rows"),
            column(
                "recurrences",
                STRING,
                "observed rows: what recurred within an hour or a day, as JSON for the audit; null if nothing did",
            ),
            column(
                "holdings",
                BINARY,
                "partitions of all members, packed; `assign --expand` shows them. Null without a result, and after maintain dropped them",
            ),
            RUN,
        ]
    ),
    MONTHLY,
)
