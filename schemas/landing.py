"""The shape in which decoded input records leave the workers: one row a record, with the row it becomes in its table."""

from __future__ import annotations

from pyspark.sql.types import StructField, StructType

from schemas.tables import (
    BINARY,
    GROUP_RECORDS,
    OFFSET_SNAPSHOTS,
    STRING,
    SUBSCRIPTION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
    TableSpec,
)

ADDED_BY_LAND = ("cluster_id", "run_sequence", "run_id", "observed_month", "source", "source_position", "incarnation", "is_conversion")
"""Columns that no worker knows: the landing stage adds them to every row or works them out from its neighbours."""


def _decoded(spec: TableSpec) -> StructType:
    return StructType([StructField(column.name, column.dataType) for column in spec.schema if column.name not in ADDED_BY_LAND])


TARGETS = {
    "group_record": GROUP_RECORDS,
    "snapshot": SUBSCRIPTION_SNAPSHOTS,
    "offset_commit": OFFSET_SNAPSHOTS,
    "look": TOPIC_SNAPSHOTS,
}
"""Column of a decoded row -> the table that its content goes to; at most one of them is set."""

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
