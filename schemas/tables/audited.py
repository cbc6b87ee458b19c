"""Tables of the stage ``audit``."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, MapType, StructType

from schemas.tables.columns import (
    BASIS,
    BATCHED_EPOCH_COUNT,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    EPOCH_AT,
    INT,
    IS_SUPERSEDED,
    KAFKA_VERSION,
    LEADER_CLIENT,
    MONTH,
    MONTHLY,
    PARTITION,
    RECONCILED_AT,
    RUN,
    SEQUENCE,
    SNAPSHOT_COLUMNS,
    SNAPSHOT_KEY,
    STRATEGY,
    STRING,
    TIMESTAMP,
    TOPIC,
    TOPICS_HASH,
    TableSpec,
    column,
    plain,
)

CAUSES = ArrayType(plain(cause=STRING, member_id=STRING, source=STRING, detail=STRING))

MOVEMENTS = TableSpec(
    "movements",
    "One partition whose owner is not the one of the generation before.",
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
            column(
                "previous_generation", INT, "generation in which the previous owner had it; without a previous owner, the generation before"
            ),
            column("previous_member_id", STRING, "the previous owner; null if nobody owned the partition"),
            column("member_id", STRING, "the owner now; null if nobody owns the partition"),
            column("kind", STRING, "revoked, reassigned, gained, lost (without an owner, for example withheld) or orphaned"),
            column("cause", STRING, "why it was gained, lost or orphaned; else null"),
            column(
                "committed_offset",
                BIGINT,
                "offset that was committed at the movement; this column and the next seven are null if nobody owns the partition now",
            ),
            column("begin_offset", BIGINT, "first offset of the log, from the last metadata snapshot up to the movement"),
            column("end_offset", BIGINT, "end of the log, from the first metadata snapshot since movement and commit"),
            column("resume_outcome", STRING, "where the new owner continues: committed, reset_none, reset_out_of_range or unknown"),
            column(
                "lag",
                BIGINT,
                "records still to read; null if not known, or if that metadata snapshot is later than audit.max_look_delay_s allows",
            ),
            column("committed_at", TIMESTAMP, "time of the commit, UTC"),
            column("end_offset_delay_ms", BIGINT, "time from the movement to the metadata snapshot that has end_offset; null without one"),
            column(
                "lag_is_upper_bound",
                BOOLEAN,
                "the lag was at most this: records may have arrived between the movement and that metadata snapshot; null without a lag",
            ),
            RUN,
        ]
    ),
    MONTHLY,
)

_MOVED = "; null if the generation before is not known"
_LOADS = "; null without members"

GENERATION_AUDITS = TableSpec(
    "generation_audits",
    "All figures of one generation on one basis and strategy. Its assignment is compared with the one before: a recomputed one with "
    "the observed one, a counterfactual one with that of the same strategy.",
    (*SNAPSHOT_KEY, "basis", "strategy"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            BASIS,
            STRATEGY,
            SEQUENCE,
            MONTH,
            column("previous_generation", INT, "generation of the snapshot before, in the same incarnation"),
            column(
                "generation_gap",
                INT,
                "unknown generations between the two; for a consumer-protocol group the epochs between them without a record",
            ),
            column("is_follow_up", BOOLEAN, "the generation only finishes a cooperative rebalance; it has no cause of its own"),
            column("is_settled", BOOLEAN, "nothing is withheld"),
            column("rebalance_count", INT, "calls of the assignor; in counterfactual rows 0 if the generation before is not known"),
            column("member_count", INT, "number of members"),
            column("idle_member_count", INT, "members without partitions that subscribe to an existing topic"),
            column("partition_count", INT, "distinct partitions with an owner"),
            column("retained_count", INT, "partitions with the same owner as before" + _MOVED),
            column("revoked_count", INT, "partitions taken from a member that is still in the group" + _MOVED),
            column("reassigned_count", INT, "partitions taken over from a member that left" + _MOVED),
            column("gained_count", INT, "partitions that had no owner before" + _MOVED),
            column("lost_count", INT, "partitions without an owner, whose last owner is still a member" + _MOVED),
            column("orphaned_count", INT, "partitions without an owner, whose last owner left" + _MOVED),
            column("withheld_count", INT, "part of lost_count: withheld by the cooperative assignor until the owner gives them up"),
            column("handed_over_count", INT, "part of gained_count: withheld before, now with another owner"),
            column("returned_count", INT, "part of gained_count: withheld before, now with the same owner again"),
            column("movement_count", INT, "revoked + reassigned + handed over"),
            column(
                "least_movement_count",
                INT,
                "fewest movements that leave all loads between the smallest and the largest; null unless settled",
            ),
            column("avoidable_movement_count", INT, "movement_count - least_movement_count"),
            column("unassigned_count", INT, "existing partitions of subscribed topics without an owner"),
            column("multiply_owned_count", INT, "partitions with more than one owner"),
            column("eager_revocation_count", INT, "partitions that members of both generations would give up under the eager protocol"),
            column("cooperative_revocation_count", INT, "the part of these that the same owner does not get again"),
            column("actual_revocation_count", INT, "observed rows: partitions that the members did give up; null if claims do not show it"),
            column(
                "is_eager", BOOLEAN, "observed rows: every member of both generations gave up everything; null if claims do not show it"
            ),
            column("partitions_per_member_min", INT, "smallest load of a member" + _LOADS),
            column("partitions_per_member_max", INT, "largest load of a member" + _LOADS),
            column("partitions_per_member_mean", DOUBLE, "mean load of all members" + _LOADS),
            column("partitions_per_member_stddev", DOUBLE, "population standard deviation of the loads" + _LOADS),
            column("imbalance_ratio", DOUBLE, "largest load / mean load; 1 is even; null without partitions"),
            column("gini", DOUBLE, "Gini coefficient of the loads; 0 is even; null without partitions"),
            column("topic_skew_max", INT, "largest spread within one topic, over its subscribers"),
            column("balance_score", BIGINT, "Kafka's balance score: sum of the load differences of all pairs of members"),
            column("least_spread", INT, "smallest possible spread of the members that subscribe to an existing topic"),
            column(
                "is_lower_bound",
                BOOLEAN,
                "least_movement_count or least_spread may be below that of any assignment: subscriptions differ too much for exact values",
            ),
            column(
                "lag_imbalance_ratio",
                DOUBLE,
                "observed rows: largest / mean lag of a member, over partitions with a known lag; null if none is above 0",
            ),
            column("rack_match_ratio", DOUBLE, "share of partitions with a replica in the owner's rack"),
            TOPICS_HASH,
            column("coordinator_partition", INT, "partition of __consumer_offsets that holds the group"),
            column("triggers", ArrayType(STRING), "visible reasons for the rebalance: what changed since the generation before"),
            KAFKA_VERSION,
            column("conformance", STRING, "how equal the recomputed and the observed assignment are; null in counterfactual rows"),
            column("violations", ArrayType(STRING), "what is wrong with the assignment; empty if nothing is, null without an assignment"),
            column("status", STRING, "solved, carried, no_result, kafka_error, over_budget or unsupported"),
            column(
                "verdict",
                STRING,
                "settled observed rows: cause of the imbalance, inherent, better_elsewhere or unexpected. Null if subscriptions are not "
                "known, for Kafka Streams, and with nothing to compare with",
            ),
            column(
                "better_strategy",
                STRING,
                "the strategy with the smallest imbalance_ratio; null if that of the group's own strategy is as small",
            ),
            column(
                "better_gain",
                DOUBLE,
                "how much smaller its imbalance_ratio is; both are counterfactual, the own one observed if it has no such result",
            ),
            LEADER_CLIENT,
            column("follow_up_ms", BIGINT, "observed rows: time until the next generation, if that is a follow-up"),
            column("pause_partition_ms", BIGINT, "observed rows: unassigned_count times the milliseconds until the next generation"),
            column(
                "throughput_imbalance_ratio",
                DOUBLE,
                "observed rows: largest / mean records per second of a member, from the metadata snapshots before and after the generation",
            ),
            column(
                "weighed_until",
                TIMESTAMP,
                "observed rows: observed_at, or the time of the last offset commit for a partition of a member if that is later. The first "
                "metadata snapshot from then on gives the lag. Null in rows of contract versions before 13",
            ),
            RECONCILED_AT,
            BATCHED_EPOCH_COUNT,
            EPOCH_AT,
            IS_SUPERSEDED,
            column(
                "causes",
                CAUSES,
                "observed rows: why the generation came about. The source is log, records, or inferred (only likely). "
                "Null if triggers are, unless a log has a cause",
            ),
            column("rebalance_ms", BIGINT, "observed rows: from the beginning of the rebalance until all members were in; from logs"),
            column(
                "assignment_ms",
                BIGINT,
                "observed rows: from there until the leader's assignment came, or how long the broker's assignor ran; from logs",
            ),
            column("reconciled_ms", BIGINT, "observed rows: from the group epoch until the last member had its target"),
            RUN,
        ]
    ),
    MONTHLY,
    {"flavour": "leader_client"},
)

FINDINGS = TableSpec(
    "findings",
    "Something that a person should know of one generation.",
    (*SNAPSHOT_KEY, "rule_id"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            column("rule_id", STRING, "the rule that found it"),
            SEQUENCE,
            MONTH,
            column("severity", STRING, "info, warning or critical"),
            column("message", STRING, "what was found"),
            column("evidence", MapType(STRING, STRING), "the figures of the finding"),
            column("advice", STRING, "what to do"),
            RUN,
        ]
    ),
    MONTHLY,
)
