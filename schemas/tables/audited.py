"""Tables that auditing writes."""

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
            column("previous_generation", INT, "generation in which the previous owner held it; without one, the generation before"),
            column("previous_member_id", STRING, "null when nobody held it"),
            column("member_id", STRING, "null when nobody holds it"),
            column("kind", STRING, "revoked, reassigned, gained, lost (no longer owned, for one since it is withheld) or orphaned"),
            column("cause", STRING, "why gained, lost or orphaned; null elsewhere"),
            column("committed_offset", BIGINT, "as of the movement; like all that follows null where nobody holds the partition now"),
            column("begin_offset", BIGINT, "first offset of the log as of the movement"),
            column("end_offset", BIGINT, "end of the log at or after the movement"),
            column("resume_outcome", STRING, "committed, reset_none, reset_out_of_range or unknown"),
            column("lag", BIGINT, "messages still to read; null where the look is later than audit.max_look_delay_s allows"),
            column("committed_at", TIMESTAMP, "time of that commit, UTC"),
            column("end_offset_delay_ms", BIGINT, "how long after the movement the look was that told end_offset; null without one"),
            column(
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
            column("previous_generation", INT, "generation of the snapshot before in the same incarnation"),
            column(
                "generation_gap",
                INT,
                "generations between the two that are not known; of a consumer-protocol group the epochs in between without a record",
            ),
            column("is_follow_up", BOOLEAN, "the second half of a cooperative rebalance: no new cause"),
            column("is_settled", BOOLEAN, "false while something is withheld"),
            column("rebalance_count", INT, "calls of the assignor; counterfactual rows: 0 without a known predecessor"),
            column("member_count", INT, "members"),
            column("idle_member_count", INT, "members without partitions that subscribe to an existing topic"),
            column("partition_count", INT, "distinct partitions with an owner"),
            column("retained_count", INT, _MOVED + "same owner"),
            column("revoked_count", INT, _MOVED + "taken from a member that is still there"),
            column("reassigned_count", INT, _MOVED + "taken over from a member that left"),
            column("gained_count", INT, _MOVED + "had no owner"),
            column("lost_count", INT, _MOVED + "has no owner, its last one is still a member"),
            column("orphaned_count", INT, _MOVED + "has no owner, its last one left"),
            column("withheld_count", INT, "part of lost_count: kept back by the cooperative assignor until given up"),
            column("handed_over_count", INT, "part of gained_count: withheld before, another owner now"),
            column("returned_count", INT, "part of gained_count: withheld before, the same owner again"),
            column("movement_count", INT, "revoked + reassigned + handed over"),
            column("least_movement_count", INT, "fewest movements with all loads within the smallest and largest; null unless settled"),
            column("avoidable_movement_count", INT, "movement_count - least_movement_count"),
            column("unassigned_count", INT, "existing partitions of subscribed topics without owner"),
            column("multiply_owned_count", INT, "partitions with more than one owner"),
            column("eager_revocation_count", INT, "partitions that members present in both would give up under the eager protocol"),
            column("cooperative_revocation_count", INT, "those of them not given back to the same owner"),
            column("actual_revocation_count", INT, "observed rows: what the members did give up; null where claims cannot tell"),
            column("is_eager", BOOLEAN, "observed rows: every live member gave up everything; null where claims cannot tell"),
            column("partitions_per_member_min", INT, _LOADS + "smallest load"),
            column("partitions_per_member_max", INT, _LOADS + "largest load"),
            column("partitions_per_member_mean", DOUBLE, _LOADS + "mean load"),
            column("partitions_per_member_stddev", DOUBLE, _LOADS + "population standard deviation"),
            column("imbalance_ratio", DOUBLE, "largest load / mean load; 1 is even, null without partitions"),
            column("gini", DOUBLE, "Gini coefficient of the loads, 0 is even; null without partitions"),
            column("topic_skew_max", INT, "largest max - min within one topic over its subscribers"),
            column("balance_score", BIGINT, "Kafka's: sum of load differences over all pairs of members"),
            column("least_spread", INT, "smallest possible max - min of the loads of members that could be given something"),
            column(
                "is_lower_bound",
                BOOLEAN,
                "least_movement_count or least_spread may be less than any assignment has: subscriptions differ too much to tell exactly",
            ),
            column(
                "lag_imbalance_ratio",
                DOUBLE,
                "observed rows: largest / mean lag of a member, of the partitions whose lag is known; null where none waits",
            ),
            column("rack_match_ratio", DOUBLE, "share of partitions with a replica in the owner's rack"),
            TOPICS_HASH,
            column("coordinator_partition", INT, "partition of __consumer_offsets that holds the group"),
            column("triggers", ArrayType(STRING), "what changed since the generation before"),
            KAFKA_VERSION,
            column("conformance", STRING, "recomputed compared with observed; null on counterfactual rows"),
            column("violations", ArrayType(STRING), "what is wrong with the assignment; empty when sound, null without one"),
            column("status", STRING, "solved, carried, no_result, kafka_error, over_budget or unsupported"),
            column(
                "verdict",
                STRING,
                "observed rows, settled: what the imbalance is owed to; inherent, better_elsewhere or unexpected; null where subscriptions "
                "are not known, for Kafka Streams, and where nothing was there to compare with",
            ),
            column("better_strategy", STRING, "the strategy with the smallest imbalance_ratio, where that is below the own one's"),
            column("better_gain", DOUBLE, "by how much its imbalance_ratio is smaller, both counterfactual"),
            LEADER_CLIENT,
            column("follow_up_ms", BIGINT, "observed rows: time until the next generation, where that is a follow-up"),
            column("pause_partition_ms", BIGINT, "observed rows: unassigned_count times milliseconds until the next generation"),
            column(
                "throughput_imbalance_ratio",
                DOUBLE,
                "observed rows: largest / mean records a second of a member, by the looks before and after the generation",
            ),
            column(
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
    {"flavour": "leader_client"},
)

FINDINGS = TableSpec(
    "findings",
    "Something a person should know about one generation.",
    (*SNAPSHOT_KEY, "rule_id"),
    StructType(
        [
            *SNAPSHOT_COLUMNS,
            column("rule_id", STRING, "the rule that found it"),
            SEQUENCE,
            MONTH,
            column("severity", STRING, "info, warning or critical"),
            column("message", STRING, "what was found"),
            column("evidence", MapType(STRING, STRING), "the figures behind it"),
            column("advice", STRING, "what to do"),
            RUN,
        ]
    ),
    MONTHLY,
)
