"""Puts records of sources without positions in order, together with those that have landed before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.context import RunContext
from jobs.land import udfs as decode_udfs
from jobs.land.udfs import STORED
from jobs.runtime.errors import InputError
from jobs.storage.derived_results import results_of
from jobs.storage.table_changes import TableChange, Tables
from jobs.workers.partitions import keep_together
from schemas.keys import GROUP_KEY
from schemas.staging import ALIGNED_ROWS
from schemas.tables import GROUP_RECORDS, OFFSET_SNAPSHOTS, SUBSCRIPTION_SNAPSHOTS, TableSpec
from schemas.vocabulary import Source

logger = logging.getLogger(__name__)

OF_GROUP, OF_COMMITS = "group", "commits"
"""Two tools print a group's own records and its offset commits: two sequences without a common order."""


@dataclass(frozen=True)
class _Target:
    """How the records of one table are ordered; columns are taken by name from a row, or from a struct column that contains it.

    Attributes:
        sequence: the sequence of the records.
        position, time: the columns with the position and the time of a record.
        recorded: the column with the time in the record itself; None if it has none, and ``time`` is that of another record.
        token: the columns that are its content.
        is_end: whether it is a tombstone.
    """

    spec: TableSpec
    sequence: str
    position: str
    time: str
    recorded: str | None
    token: tuple[str, ...]
    is_end: Callable[[Callable[[str], Column]], Column]

    def event(self, field: Callable[[str], Column]) -> list[Column]:
        """Return the columns for ``decode_udfs.align_groups``, without part and order_in_part."""
        return [
            field("group_id").alias("group_id"),
            F.lit(self.sequence).alias("sequence"),
            F.concat_ws(" ", *[field(name) for name in self.token]).alias("token"),
            self.is_end(field).alias("is_end"),
            F.unix_millis(self.recorded_time(field)).alias("time_ms"),
        ]

    def recorded_time(self, field: Callable[[str], Column]) -> Column:
        """Return the time in the record itself; null for a record without one."""
        return F.lit(None).cast("timestamp") if self.recorded is None else field(self.recorded)


_TARGETS = {
    "group_record": _Target(GROUP_RECORDS, OF_GROUP, "offset", "timestamp", None, ("fingerprint",), lambda field: field("value").isNull()),
    "snapshot": _Target(
        SUBSCRIPTION_SNAPSHOTS, OF_GROUP, "position", "observed_at", "joined_at", ("fingerprint",), lambda field: F.lit(False)
    ),
    "offset_commit": _Target(
        OFFSET_SNAPSHOTS,
        OF_COMMITS,
        "position",
        "observed_at",
        "committed_at",
        ("partition", "topic", "fingerprint"),
        lambda field: field("is_deleted"),
    ),
}


def order_formatter_records(context: RunContext, tables: Tables, decoded: DataFrame) -> tuple[DataFrame, tuple[TableChange, ...]]:
    """Return the decoded rows with positions and times, and the changes of stored rows that get other ones.

    ``part`` and ``order_in_part`` are gone, and ``placed_by`` is filled. A stored record keeps its position, unless
    older unknown records land: then the group's rows get new positions, and their results are deleted. A record without a time has that of
    the last record before it with one, and gets another time if such a record lands.

    Args:
        decoded: staged rows of all sources; those with a ``part`` get positions. Without that column they are returned unchanged.

    Raises:
        InputError: parts of a group's records do not fit together.
    """
    if "part" not in decoded.columns:
        return decoded, ()
    aligned = tables.materialize("aligned", _aligned(context, tables, decoded))
    is_problem = F.col("problem").isNotNull()
    found = aligned.agg(F.count_if(is_problem).alias("problems"), F.count_if("is_moved").alias("moved")).collect()[0]
    if found["problems"]:
        first = aligned.where(is_problem).orderBy(*GROUP_KEY).limit(1).collect()[0]
        where, files = f"cluster {first['cluster_id']}, group {first['group_id']}", first["part"]
        raise InputError(
            f"{where}: the records in {files} cannot be put in one order: {first['problem']}; land them into different warehouses, "
            "or leave one out"
        )
    positions = aligned.where(F.col("part") != STORED).select("part", "order_in_part", "position", "time_ms", "placed_by")
    placed = decoded.drop("placed_by").join(positions, ["part", "order_in_part"], "left")
    time = F.coalesce(F.timestamp_millis("time_ms"), F.lit(context.as_of))
    columns = {}
    for name, target in _TARGETS.items():
        row = F.col(name)
        known = row.withField(target.position, F.col("position")).withField(target.time, F.coalesce(row[target.time], time))
        columns[name] = F.when(F.col("position").isNotNull(), known).otherwise(row)
    rows = placed.withColumns(columns).drop("part", "order_in_part", "position", "time_ms")
    return rows, _move(context, tables, aligned.where("is_moved")) if found["moved"] else ()


def _aligned(context: RunContext, tables: Tables, decoded: DataFrame) -> DataFrame:
    new = [
        decoded.where(F.col("part").isNotNull() & F.col(name).isNotNull()).select(
            "cluster_id",
            *target.event(F.col(name).__getitem__),
            "part",
            "order_in_part",
            F.lit(None).cast("bigint").alias("stored_ms"),
            F.lit(None).cast("string").alias("placed_by"),
        )
        for name, target in _TARGETS.items()
    ]
    events = reduce(DataFrame.unionByName, new)
    groups = events.select(*GROUP_KEY).distinct()
    stored = [
        _stored(tables, target)
        .join(groups, list(GROUP_KEY), "left_semi")
        .select(
            "cluster_id",
            *target.event(F.col),
            F.lit(STORED).alias("part"),
            F.col(target.position).alias("order_in_part"),
            F.when(target.recorded_time(F.col).isNull(), F.unix_millis(target.time)).alias("stored_ms"),
            "placed_by",
        )
        for target in _TARGETS.values()
        if not tables.is_empty(target.spec.name)
    ]
    together = keep_together(reduce(DataFrame.unionByName, [events, *stored]), *GROUP_KEY)
    in_order = together.sortWithinPartitions(*decode_udfs.SEQUENCE, "part", "order_in_part")
    return in_order.mapInArrow(partial(decode_udfs.align_groups, limits=context.worker_limits), ALIGNED_ROWS)


def _stored(tables: Tables, target: _Target) -> DataFrame:
    return tables.read(target.spec.name).where(F.col("source") == str(Source.FORMATTER_JSON))


def _move(context: RunContext, tables: Tables, moved: DataFrame) -> tuple[TableChange, ...]:
    """Return the changes that give stored rows their new positions and times, as rows of this run, and delete the results of their groups.

    A commit that moves does not change the results of snapshots.
    """
    frames = []
    for name, target in _TARGETS.items():
        moves = moved.where(F.col("sequence") == target.sequence).withColumnRenamed("position", "position_now")
        moves = moves.select(*GROUP_KEY, "order_in_part", "position_now", "time_ms", "placed_by")
        stored = (
            _stored(tables, target)
            .drop("placed_by")
            .withColumn("order_in_part", F.col(target.position))
            .join(moves, [*GROUP_KEY, "order_in_part"])
        )
        time = F.coalesce(target.recorded_time(F.col), F.timestamp_millis("time_ms"), target.time)
        rows = stored.withColumns({target.time: time, target.position: F.col("position_now"), **context.run_columns})
        rows = rows.withColumn("observed_month", F.trunc(target.time, "month"))
        row = F.struct(*target.spec.schema.names).alias(name)
        frames.append(rows.select(*GROUP_KEY, "order_in_part", F.lit(name).alias("target"), row))
    rows = tables.materialize("moved", reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames))
    counts: dict[str, int] = {row["target"]: row["count"] for row in rows.groupBy("target").count().collect()}
    logger.info("giving %d stored records new positions or times, because older records have landed", sum(counts.values()))
    changes: list[TableChange] = []
    for name in counts:
        target, of_target = _TARGETS[name], rows.where(F.col("target") == name)
        keys = of_target.select(*GROUP_KEY, F.col("order_in_part").alias(target.position))
        changes.append(TableChange(target.spec.name, keys, (*GROUP_KEY, target.position), of_target.select(f"{name}.*"), counts[name]))
        if target.spec is SUBSCRIPTION_SNAPSHOTS:
            changes += results_of(of_target.select(*GROUP_KEY), GROUP_KEY)
    return tuple(changes)
