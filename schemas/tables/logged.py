"""The table of what coordinators log about groups, and of polls that see a group rebalance."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, StructType

from schemas.tables.columns import (
    BIGINT,
    BOOLEAN,
    CLUSTER,
    DATE,
    INT,
    MONTHLY,
    RUN,
    SEQUENCE,
    STRING,
    TIMESTAMP,
    TableSpec,
    column,
)

_OF_REASON = "; null if the line has none"

GROUP_EVENTS = TableSpec(
    "group_events",
    "One line about a group in the log of its coordinator, or one poll that saw the group rebalance.",
    ("cluster_id", "broker", "logged_at", "line_hash", "ordinal"),
    StructType(
        [
            CLUSTER,
            column("broker", STRING, "id of the broker in the line; empty if it has none, and for polls"),
            column("logged_at", TIMESTAMP, "time of the line or poll, UTC; lines without a zone are in that of --log-time-zone"),
            column("line_hash", STRING, "hash of the line, or of what the poll saw"),
            column("ordinal", INT, "number of the line among equal lines of one broker and millisecond, from 0"),
            column("group_id", STRING, "the consumer group; null if the line names members only"),
            SEQUENCE,
            column("observed_month", DATE, "first day of the month of logged_at, UTC"),
            column("event", STRING, "what happened, one word for each kind of line; rebalance_seen for polls"),
            column("protocol", STRING, "classic or consumer; null if the line is written for both"),
            column("generation", INT, "generation id or group epoch in the line; of rebalance_started the old one"),
            column("member_id", STRING, "the member that the line is about; null if it has only an instance id"),
            column("previous_member_id", STRING, "the member id that a static member had before"),
            column("group_instance_id", STRING, "instance id of the member"),
            column("member_ids", ArrayType(STRING), "members of a line about several, or of the group in a poll"),
            column("state", STRING, "state of the group or of the member, as the line names it"),
            column("reason", STRING, "the coordinator's reason" + _OF_REASON),
            column("reason_kind", STRING, "one word for each kind of reason" + _OF_REASON),
            column("reason_member_id", STRING, "the member in the reason" + _OF_REASON),
            column("client_reason", STRING, "reason that the client sent (KIP-800); null if it sent none"),
            column("strategy", STRING, "name of the assignor"),
            column("member_count", INT, "members of the group"),
            column("duration_ms", BIGINT, "how long the assignor ran, or how long the coordinator waited for a member"),
            column("offsets_partition", INT, "partition of __consumer_offsets that holds the group; null if the line does not have it"),
            column("is_time_ambiguous", BOOLEAN, "the local time occurs twice, or not at all, because clocks were changed"),
            RUN,
        ]
    ),
    MONTHLY,
    created_by="run that lands a coordinator's log, snapshots, or texts of kafka-consumer-groups",
)
