"""Tables that assigning writes."""

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
            column("snapshot_count", BIGINT, "snapshots of the group up to this one"),
            column("is_checkpoint", BOOLEAN, "kept when the group goes on, so that a late arrival need not begin at the beginning"),
            column("topics", ArrayType(STRING), "topics that members held, to be looked up for the next generation too"),
            column("state", BINARY, "the last snapshot, every strategy's last result, and what recurred within a day, coded"),
        ]
    ),
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
            column("topics", RESOLVED_TOPICS, "subscribed topics by name; basis says which look gave the partitions"),
        ]
    ),
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
            column("member_id", STRING, "the member"),
            SEQUENCE,
            MONTH,
            column("group_instance_id", STRING, "set for a static member"),
            column("partitions", TOPIC_PARTITIONS, "in the assignor's order, one entry a topic"),
            column("partition_count", INT, "partitions held"),
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
            column("status", STRING, "solved, carried, no_result, kafka_error, over_budget or unsupported"),
            column("detail", STRING, "what the assignor said when it had no result"),
            KAFKA_VERSION,
            TOPICS_HASH,
            column("has_predecessor", BOOLEAN, "false when the generation before is not known (a compacted log, a conversion)"),
            column("is_rewrite", BOOLEAN, "the same generation again, no assignor ran: a static member came back, or another look"),
            column("is_follow_up", BOOLEAN, "the second half of a cooperative rebalance: no new cause"),
            column("rebalance_count", INT, "calls of the assignor; counterfactual rows: 0 without a known predecessor"),
            column("cooperative_revocation_count", INT, "summed over the calls; counterfactual rows only"),
            column("conformance", STRING, "recomputed compared with observed; null on counterfactual rows"),
            column(
                "recurrences",
                STRING,
                "observed rows: what happened again and again within an hour or a day, as JSON for the audit; null where nothing did",
            ),
            column("holdings", BINARY, "what members hold, packed: `assign --expand` shows it; null without a result, and once dropped"),
            RUN,
        ]
    ),
    MONTHLY,
)
