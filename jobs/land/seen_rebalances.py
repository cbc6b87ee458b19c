"""Polls that saw a classic group between two generations -> ``group_events``.

Such a poll has no assignment, so it is no snapshot, and its record counts as skipped. That the group was rebalancing then is an event.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.context import RunContext
from jobs.land.group_events import LINE, is_expired
from jobs.storage.table_changes import ChangedTables, TableChange
from schemas.tables import GROUP_EVENTS
from schemas.vocabulary import POLLS, CoordinatorEvent, GroupType, Outcome

_SEEN = "group_id string, at_ms bigint, state string, member_ids array<string>"
"""The content of ``jobs.decoders.decoded.seen_rebalancing``."""


def seen_rebalances(context: RunContext, tables: ChangedTables, decoded: DataFrame, counts: Mapping[str, int]) -> tuple[TableChange, ...]:
    """Return the change that adds the rebalances in polls; no table is written. Most runs have none, and cost nothing.

    Args:
        tables: as the lines of logs will leave them.
        decoded: staged rows of ``DECODED_ROWS``.
        counts: the outcomes of the records.
    """
    if not any(counts.get(f"{source}.{Outcome.SKIPPED}") for source in POLLS):
        return ()
    is_seen = (F.col("outcome") == str(Outcome.SKIPPED)) & F.col("payload").isNotNull()
    seen = decoded.where(is_seen & F.col("source").isin(*map(str, POLLS)))
    seen = seen.withColumn("seen", F.from_json(F.col("payload").cast("string"), _SEEN))
    values: dict[str, Column] = {
        "broker": F.lit(""),
        "logged_at": F.timestamp_millis(F.col("seen.at_ms")),
        "line_hash": F.col("payload_hash"),
        "ordinal": F.lit(0),
        "group_id": F.col("seen.group_id"),
        "event": F.lit(str(CoordinatorEvent.REBALANCE_SEEN)),
        "protocol": F.when(F.col("seen.state").isNotNull(), GroupType.CLASSIC.value),  # a notice is the same for both protocols
        "member_ids": F.col("seen.member_ids"),
        "state": F.col("seen.state"),
        "member_count": F.size("seen.member_ids"),
        "is_time_ambiguous": F.lit(False),
    }
    rows = seen.select("cluster_id", *[value.alias(name) for name, value in values.items()]).dropDuplicates(list(LINE))
    rows = rows.where(~is_expired(context)).withColumns({**context.run_columns, "observed_month": F.trunc("logged_at", "month")})
    if not tables.is_empty(GROUP_EVENTS.name):
        rows = rows.join(tables.read(GROUP_EVENTS.name).select(*LINE), list(LINE), "left_anti")
    absent = {name: F.lit(None).cast(GROUP_EVENTS.schema[name].dataType) for name in GROUP_EVENTS.schema.names if name not in rows.columns}
    rows = tables.materialize("seen_rebalances", rows.withColumns(absent).select(*GROUP_EVENTS.schema.names))
    count = rows.count()
    return (TableChange(GROUP_EVENTS.name, append=rows, append_count=count),) if count else ()
