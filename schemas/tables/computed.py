"""Tables that are not stored: readers of the report's exports get them."""

from __future__ import annotations

from pyspark.sql.types import StructType

from schemas.tables.columns import BIGINT, CLUSTER, GROUP, PARTITION, STRING, TIMESTAMP, TOPIC, TableSpec, column

CURRENT_LAG = TableSpec(
    "current_lag",
    "The lag of every partition with a commit or an owner. It is by the newest commit and the newest end of the log that have landed. So "
    "it needs no rebalance. A partition with several owners has a row for each. Not stored: `report --export` computes it.",
    ("cluster_id", "group_id", "member_id", "topic", "partition"),
    StructType(
        [
            CLUSTER,
            GROUP,
            column("member_id", STRING, "the owner in the newest generation; null if there is none"),
            TOPIC,
            PARTITION,
            column("committed_offset", BIGINT, "next offset to read; null if the group has no commit, or deleted it"),
            column("committed_at", TIMESTAMP, "time of that commit, UTC; null without one"),
            column(
                "end_offset",
                BIGINT,
                "end of the log in the newest metadata snapshot that has ends of this topic, or beside the newest commit if that is later; "
                "null without one, or if the name is that of another topic there",
            ),
            column("looked_at", TIMESTAMP, "time of that metadata snapshot or commit, UTC; null without end_offset"),
            column(
                "lag",
                BIGINT,
                "records still to read; 0 if the commit is later and beyond that end, null without a commit or without end_offset",
            ),
        ]
    ),
)
