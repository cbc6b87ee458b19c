"""Schemas of the rows that leave the workers, before they are split into tables."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from schemas.keys import GENERATION_KEY
from schemas.tables import (
    ASSIGNMENTS,
    FINDINGS,
    GENERATION_AUDITS,
    GROUP_EVENTS,
    GROUP_RECORDS,
    MOVEMENTS,
    OFFSET_SNAPSHOTS,
    QUARANTINE,
    SCENARIO_AUDITS,
    SCENARIOS,
    SOLUTIONS,
    SUBSCRIPTION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
    TableSpec,
)
from schemas.tables.columns import BIGINT, BINARY, BOOLEAN, INT, STRING, plain

ADDED_BY_LAND = (
    *("cluster_id", "run_sequence", "run_id", "observed_month", "source", "source_position"),
    *("incarnation", "is_conversion", "has_conflict", "is_generation_inferred", "has_subscriptions", "placed_by"),
)
"""Columns that workers do not fill: the stage ``land`` adds them to every row, or derives them from other rows."""
ADDED_TO_EVENTS = ("cluster_id", "ordinal", "observed_month", "run_sequence", "run_id")
"""Columns of ``group_events`` that the stage ``land`` adds."""


def _decoded(spec: TableSpec) -> StructType:
    return StructType([StructField(column.name, column.dataType) for column in spec.schema if column.name not in ADDED_BY_LAND])


TARGETS = {
    "group_record": GROUP_RECORDS,
    "snapshot": SUBSCRIPTION_SNAPSHOTS,
    "offset_commit": OFFSET_SNAPSHOTS,
    "look": TOPIC_SNAPSHOTS,
}
"""Column of a decoded row -> the table of its content; at most one of these columns is set."""


DECODED_ROWS = StructType(
    [
        StructField("cluster_id", STRING),
        StructField("source", STRING),
        StructField("source_position", STRING),
        StructField("outcome", STRING),
        StructField("kind", STRING),
        StructField("reason", STRING),
        StructField("detail", STRING),
        StructField("payload", BINARY),
        StructField("payload_hash", STRING),
        StructField("fingerprint", STRING),
        *[StructField(name, _decoded(spec)) for name, spec in TARGETS.items()],
    ]
)
"""One row per input record, with its row for the table."""

EVENT_COLUMNS = tuple(name for name in GROUP_EVENTS.schema.names if name not in ADDED_TO_EVENTS)
REFUSED_COLUMNS = ("reason", "detail", "payload", "payload_hash")
LOGGED_ROWS = StructType(
    [
        StructField("part", STRING),
        StructField("outcome", STRING),
        StructField("kind", STRING),
        StructField("line_count", BIGINT),
        StructField("event", StructType([StructField(name, GROUP_EVENTS.schema[name].dataType) for name in EVENT_COLUMNS])),
        StructField("refused", StructType([StructField(name, QUARANTINE.schema[name].dataType) for name in REFUSED_COLUMNS])),
    ]
)
"""What is in a part of a coordinator's log: a row for each event and for each line that cannot be used, and counts of the other lines.

``part`` is the path of the file: two files of one name are two logs, and equal lines in both are one event.
Lines of other loggers have no ``outcome``.
"""

PART_ROWS = StructType([*DECODED_ROWS.fields, StructField("part", STRING), StructField("order_in_part", BIGINT)])
"""Decoded rows of a source without positions: ``order_in_part`` orders the records of one ``part``, which is a file."""

DUMPED_ROWS = StructType([*DECODED_ROWS.fields, StructField("producer_id", BIGINT), StructField("transaction_end", STRING)])
"""Decoded rows of a source with transactions: the producer of the offset commits, and of the marker with the end of the transaction."""

ALIGNED_ROWS = StructType(
    [
        StructField("cluster_id", STRING),
        StructField("group_id", STRING),
        StructField("sequence", STRING),
        StructField("part", STRING),
        StructField("order_in_part", BIGINT),
        StructField("position", BIGINT),
        StructField("time_ms", BIGINT),
        StructField("placed_by", STRING),
        StructField("is_moved", BOOLEAN),
        StructField("problem", STRING),
    ]
)
"""One row per record of a part, with its position in its group. A group whose parts do not fit has one row with a ``problem``.

``is_moved``: the record is stored with other values than these. A stored tombstone that was two records has two rows.
"""

FOLDED_ROWS = StructType(
    [*[StructField(name, STRING) for name in ("cluster_id", "source", "source_position")], *_decoded(SUBSCRIPTION_SNAPSHOTS).fields]
)
"""One row per snapshot of a consumer-protocol group (KIP-848)."""

SOLVED_ROWS = StructType(
    [
        StructField("row_kind", INT),
        StructField("cluster_id", STRING),
        StructField("group_id", STRING),
        StructField("generation", INT),
        StructField("observed_at_ms", BIGINT),
        StructField("position", BIGINT),
        StructField("basis", STRING),
        StructField("strategy", STRING),
        StructField("incarnation", BIGINT),
        StructField("status", STRING),
        StructField("detail", STRING),
        StructField("kafka_version", STRING),
        StructField("topics_hash", STRING),
        StructField("has_predecessor", BOOLEAN),
        StructField("is_rewrite", BOOLEAN),
        StructField("is_follow_up", BOOLEAN),
        StructField("rebalance_count", INT),
        StructField("cooperative_revocation_count", INT),
        StructField("conformance", STRING),
        StructField("recurrences", STRING),
        StructField("holdings", BINARY),
        StructField("member_ids", ArrayType(STRING)),
        StructField("group_instance_ids", ArrayType(STRING)),
        StructField("held_topics", ArrayType(ArrayType(STRING))),
        StructField("held_partitions", ArrayType(ArrayType(ArrayType(INT)))),
        StructField("topic_names", ArrayType(STRING)),
        StructField("topic_ids", ArrayType(STRING)),
        StructField("partition_counts", ArrayType(INT)),
        StructField("racks", ArrayType(STRING)),
        StructField("bases", ArrayType(STRING)),
        StructField("are_uncertain", ArrayType(BOOLEAN)),
        StructField("snapshot_count", BIGINT),
        StructField("is_checkpoint", BOOLEAN),
        StructField("state", BINARY),
    ]
)
"""One row per solution, set of topics of a generation, or state of a group, by ``RowKind``.

A solution also has the partitions of its members as lists if they become rows of ``assignments``.
"""

UNPACKED_ROWS = StructType(
    [
        *[
            column
            for column in ASSIGNMENTS.schema
            if column.name not in ("member_id", "group_instance_id", "partitions", "partition_count")
        ],
        *[SOLVED_ROWS[name] for name in ("member_ids", "group_instance_ids", "held_topics", "held_partitions")],
    ]
)
"""One row per solution, with the partitions of its members as lists."""

PACKED_ROWS = StructType([*[SOLUTIONS.schema[name] for name in SOLUTIONS.key], SOLVED_ROWS["holdings"]])
"""One row per solution, with the partitions of its members packed."""


def _structs(**fields: DataType) -> ArrayType:
    return ArrayType(plain(**fields))


ADDED_BY_AUDIT = ("observed_at", "observed_month", "run_sequence", "run_id")
"""Columns that the stage ``audit`` adds outside the workers."""


def _audited(spec: TableSpec) -> StructType:
    fields = [StructField(column.name, column.dataType) for column in spec.schema if column.name not in ADDED_BY_AUDIT]
    return StructType([*fields, StructField("observed_at_ms", BIGINT)])


AUDITED_TABLES = {"audit": GENERATION_AUDITS, "movement": MOVEMENTS, "finding": FINDINGS}
"""Column of an audited row -> the table of its content; exactly one of these columns is set."""

AUDITED_ROWS = StructType([StructField(name, _audited(spec)) for name, spec in AUDITED_TABLES.items()])
"""One row per audit, movement or finding."""

RESUMED_ROWS = StructType(
    [
        StructField("audit", GENERATION_AUDITS.schema),
        StructField("movement", MOVEMENTS.schema),
        AUDITED_ROWS["finding"],
        StructField("is_changed", BOOLEAN),
    ]
)
"""One row per audit or movement of an earlier run that was computed again, or per finding on the loads of a generation.

``is_changed``: it differs from the stored one; null of findings.
"""

PLAYED_ROWS = StructType(
    [
        StructField("scenario", _audited(SCENARIOS)),
        StructField(
            "outcome",
            StructType(
                [
                    *_audited(SCENARIO_AUDITS),
                    *[SOLVED_ROWS[name] for name in ("member_ids", "group_instance_ids", "held_topics", "held_partitions")],
                ]
            ),
        ),
    ]
)
"""One row per scenario of a group or per outcome. An outcome whose assignments are stored has its members' partitions as lists."""

EXPLAINED_ROWS = StructType(
    [
        *[GENERATION_AUDITS.schema[name] for name in GENERATION_KEY],
        *[GENERATION_AUDITS.schema[name] for name in ("causes", "rebalance_ms", "assignment_ms")],
    ]
)
"""One row per generation, with its causes in all sources, and what a log says about its duration."""

EXPIRED_SESSIONS = StructType(
    [
        *[GENERATION_AUDITS.schema[name] for name in GENERATION_KEY],
        StructField("member_id", STRING),
        StructField("silence_ms", BIGINT),
        StructField("session_timeout_ms", INT),
    ]
)
"""One row per member whose session has likely expired before a generation: for how long it had been silent, and its session timeout."""

PLACED_GROUPS = StructType([StructField("cluster_id", STRING), StructField("group_id", STRING), StructField("offsets_partition", INT)])
"""One row per group: the partition of ``__consumer_offsets`` that holds it."""

FOUND_ROWS = _audited(FINDINGS)
"""One row per finding."""

_EXPIRING = _structs(topic=STRING, partition_count=INT, expires_at_ms=BIGINT)
_GENERATION = [
    StructField("cluster_id", STRING),
    StructField("group_id", STRING),
    StructField("generation", INT),
    StructField("position", BIGINT),
    StructField("observed_at_ms", BIGINT),
]

COMMIT_SIGNS = StructType(
    [
        *_GENERATION,
        StructField("member_count", INT),
        StructField("rebalance_timeout_ms", INT),
        StructField("clients", _structs(member_id=STRING, client_id=STRING)),
        StructField("unsubscribed", _structs(topic=STRING, is_recent=BOOLEAN)),
        StructField(
            "waiting",
            _structs(
                member_id=STRING,
                topic=STRING,
                partition=INT,
                committed_offset=BIGINT,
                is_stopped=BOOLEAN,
                since_us=BIGINT,
                until_us=BIGINT,
                silent_ms=BIGINT,
            ),
        ),
        StructField("waiting_topics", _structs(topic=STRING, since_us=BIGINT)),
        StructField("waited_ms", BIGINT),
        StructField("expiring", _EXPIRING),
        StructField("expiring_if_deleted", _EXPIRING),
        StructField("asks_for_deletion", BOOLEAN),
    ]
)
"""One row per group whose last commits show something, see ``jobs.audit.commit_signs``.

``clients``: the members of the generation, if ``waiting`` or ``waited_ms`` is not null. ``waiting``: partitions of members that never
committed for them, or have stopped; it is a finding if records came in between the two times. ``waiting_topics``: their topics, each with
the earliest time. ``waited_ms``: how long an overdue target has been open. ``expiring_if_deleted``: the same as ``expiring`` if the group
was deleted after its newest generation, which only its records can show; ``asks_for_deletion``: whether it may have been.
"""

GROWTH_FACTS = StructType(
    [
        *_GENERATION,
        StructField("is_consumer_protocol", BOOLEAN),
        StructField("grown", _structs(topic=STRING, known_count=INT, partition_count=INT, seen_at_ms=BIGINT)),
        StructField("looked_until_ms", BIGINT),
        StructField("known_until_ms", BIGINT),
        StructField("rebalance_timeout_ms", INT),
    ]
)
"""One row per group with topics that grew after its newest generation; see ``jobs.findings.looks`` for the fields."""

STUCK_FACTS = StructType(
    [
        *_GENERATION,
        StructField("waited_ms", BIGINT),
        StructField("rebalance_timeout_ms", INT),
        StructField("poll_count", BIGINT),
        StructField("state", STRING),
        StructField("member_ids", ArrayType(STRING)),
        StructField("is_logged", BOOLEAN),
        StructField("reason", STRING),
        StructField("has_other_members", BOOLEAN),
    ]
)
"""One row per group that rebalances since its newest generation; see ``jobs.findings.stuck`` for the fields."""
