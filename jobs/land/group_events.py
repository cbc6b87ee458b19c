"""What coordinators have logged about groups -> ``group_events``.

A line has no position of its own: logs are rotated, copied while they grow, and exported in parts. So it is identified by its broker, its
time and its content. Equal lines of one millisecond are counted in each file, and the largest count is the number of their rows. So neither
the order in which parts arrive, nor parts that overlap, change the table.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.context import RunContext
from jobs.decoders.captures import Capture
from jobs.decoders.log_times import GenerationLine, fitting_zone
from jobs.land.deduplication import quarantined_keys
from jobs.land.reading import decode_coordinator_logs
from jobs.storage.table_changes import ChangedTables, TableChange, check_balance
from schemas.tables import GROUP_EVENTS, QUARANTINE, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import EXPIRED, CoordinatorEvent, Outcome, Source

logger = logging.getLogger(__name__)

LINE = ("cluster_id", "broker", "logged_at", "line_hash")
"""What equal lines have in common."""
OTHER_LINES = "other_lines"
"""The count of lines of other loggers, after the source in ``runs.input_counts``; they are not records."""
MOST_COMPARED = 1_000
"""How many lines are compared with the records of their generations to find a wrong time zone."""
MOST_LISTED = 20
"""How many files are named in the log of a run."""


@dataclass(frozen=True)
class LoggedEvents:
    """The changes for the logs of a run, and the outcomes of their lines as in ``runs.input_counts``."""

    changes: tuple[TableChange, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def land_events(context: RunContext, logs: tuple[Capture, ...]) -> LoggedEvents:
    """Return the changes for the logs of coordinators; no table is written.

    Raises:
        CountsDoNotBalanceError: a line has no outcome.
    """
    if not logs:
        return LoggedEvents()
    tables = ChangedTables(context.warehouse)
    settings = context.settings
    names, zone, memory_mb = (context.cluster_id_flag, settings.cluster_id), settings.log_time_zone, settings.workers.memory_mb
    decoded = tables.materialize("logged", decode_coordinator_logs(context.spark, logs, *names, zone, memory_mb))
    event_count, counts = _counted(decoded, {log.path: log.name for log in logs})
    events = tables.materialize("logged_lines", _with_stored(tables, _lines(decoded)))
    summed = _sums(events, context)
    check_balance("lines of events", event_count, summed["read"])
    landed, expired = summed["landed"], summed["expired"]
    _add(counts, Outcome.LANDED, "event", landed)
    _add(counts, Outcome.SKIPPED, EXPIRED, expired)
    _add(counts, Outcome.DUPLICATE, "event", event_count - landed - expired)
    changes = []
    if landed:
        changes.append(TableChange(GROUP_EVENTS.name, append=_event_rows(context, events), append_count=landed))
    if counts[f"{Source.COORDINATOR_LOG}.{Outcome.QUARANTINED}"]:
        changes.append(TableChange(QUARANTINE.name, append=_refused_rows(context, tables, decoded)))
    return LoggedEvents(tuple(changes), counts)


def _add(counts: Counter[str], outcome: Outcome, kind: str, count: int) -> None:
    if not count:
        return
    source = Source.COORDINATOR_LOG
    for key in ("read", str(outcome), f"{source}.read", f"{source}.{outcome}", f"{source}.{outcome}.{kind}"):
        counts[key] += count


def _counted(decoded: DataFrame, names: Mapping[str, str]) -> tuple[int, Counter[str]]:
    """Return the number of events, and the outcomes of all other lines; log lines say what the first files have.

    Args:
        names: path of a log -> its name, which logs of several inputs may share.
    """
    counts: Counter[str] = Counter()
    by_file: dict[str, Counter[str]] = {}
    kinds = decoded.groupBy("part", "outcome", "kind").agg(F.sum("line_count").alias("count")).collect()
    for row in sorted(kinds, key=str):
        of_file = by_file.setdefault(row["part"], Counter())
        if row["outcome"] is None:
            counts[f"{Source.COORDINATOR_LOG}.{OTHER_LINES}"] += row["count"]
        elif row["outcome"] != Outcome.LANDED.value:
            _add(counts, Outcome(row["outcome"]), row["kind"], row["count"])
        of_file[row["outcome"] or OTHER_LINES] += row["count"]
    for part, of_file in sorted(by_file.items())[:MOST_LISTED]:
        logger.info(
            "%s: %d lines about groups, %d other lines of coordinators, %d lines of other loggers, %d lines that cannot be used",
            names[part],
            of_file[str(Outcome.LANDED)],
            of_file[str(Outcome.SKIPPED)],
            of_file[OTHER_LINES],
            of_file[str(Outcome.QUARANTINED)],
        )
    if len(by_file) > MOST_LISTED:
        logger.info("and %d more logs", len(by_file) - MOST_LISTED)
    return sum(of_file[str(Outcome.LANDED)] for of_file in by_file.values()), counts


def _lines(decoded: DataFrame) -> DataFrame:
    """Return one row for all equal lines, with their largest number in one file and their number in all files."""
    of_event = [F.col(f"event.{name}").alias(name) for name in LINE[1:]]
    in_files = (
        decoded.where("event IS NOT NULL")
        .groupBy("cluster_id", *of_event, "part")
        .agg(F.count(F.lit(1)).alias("file_count"), F.first("event").alias("event"))
    )
    return in_files.groupBy(*LINE).agg(
        F.max("file_count").alias("line_count"), F.sum("file_count").alias("read_count"), F.first("event").alias("event")
    )


def _with_stored(tables: ChangedTables, lines: DataFrame) -> DataFrame:
    """Return the lines with the number of their stored rows, ``stored_count``."""
    if tables.is_empty(GROUP_EVENTS.name):
        return lines.withColumn("stored_count", F.lit(0))
    stored = tables.read(GROUP_EVENTS.name).groupBy(*LINE).agg((F.max("ordinal") + 1).alias("stored_count"))
    return lines.join(stored, list(LINE), "left").fillna(0, ["stored_count"])


def is_expired(context: RunContext) -> Column:
    """Return whether a line is older than the months that retention keeps."""
    kept_from = context.before.retained_from
    return F.lit(False) if kept_from is None else F.col("logged_at") < F.lit(kept_from).cast("timestamp")


def _sums(events: DataFrame, context: RunContext) -> Mapping[str, int]:
    is_old = is_expired(context)
    fresh = F.greatest(F.col("line_count") - F.col("stored_count"), F.lit(0))
    row = events.agg(
        F.sum("read_count").alias("read"),
        F.sum(F.when(~is_old, fresh)).alias("landed"),
        F.sum(F.when(is_old, F.col("read_count"))).alias("expired"),
    ).collect()[0]
    return {name: count or 0 for name, count in row.asDict().items()}


def _event_rows(context: RunContext, events: DataFrame) -> DataFrame:
    fresh = events.where(~is_expired(context) & (F.col("line_count") > F.col("stored_count")))
    ordinal = F.explode(F.sequence("stored_count", (F.col("line_count") - 1).cast("int"))).alias("ordinal")
    rows = fresh.select("cluster_id", "event.*", ordinal)
    return rows.withColumns({**context.run_columns, "observed_month": F.trunc("logged_at", "month")}).select(*GROUP_EVENTS.schema.names)


def _refused_rows(context: RunContext, tables: ChangedTables, decoded: DataFrame) -> DataFrame:
    """Return the lines that cannot be used and are not in quarantine yet. Parts of a log overlap, so they are no position of a line."""
    rows = decoded.where("refused IS NOT NULL").select("cluster_id", "refused.*").dropDuplicates(["cluster_id", "payload_hash", "reason"])
    source, no_group = F.lit(str(Source.COORDINATOR_LOG)), F.lit(None).cast("string")
    rows = rows.withColumns({"source": source, "source_position": source, "group_id": no_group, **context.run_columns})
    stored = quarantined_keys(tables)
    rows = rows if stored is None else rows.join(stored, list(QUARANTINE.key), "left_anti")
    return rows.select(*QUARANTINE.schema.names).hint("rebalance")


def warn_of_zone(context: RunContext) -> None:
    """Log a warning for each broker whose lines fit the records of their generations only in another time zone.

    It reads at most ``MOST_COMPARED`` lines of this run and the snapshots of their groups.
    """
    warehouse, zone = context.warehouse, context.settings.log_time_zone
    is_compared = F.col("event").isin(str(CoordinatorEvent.STABILIZED), str(CoordinatorEvent.ASSIGNMENT_RECEIVED))
    events = warehouse.read(GROUP_EVENTS.name).where((F.col("run_sequence") == context.run_sequence) & is_compared)
    logged_at = F.unix_millis("logged_at").alias("logged_at_ms")
    lines = events.select("cluster_id", "broker", "group_id", "generation", logged_at).limit(MOST_COMPARED).collect()
    if not lines or warehouse.is_empty(SUBSCRIPTION_SNAPSHOTS.name):
        return
    is_named = F.col("cluster_id").isin({row["cluster_id"] for row in lines}) & F.col("group_id").isin({row["group_id"] for row in lines})
    recorded_at = F.unix_millis("observed_at").alias("recorded_at_ms")
    snapshots = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).where(is_named)
    times: dict[str, dict[tuple[str, int], list[int]]] = {}
    for row in snapshots.select("cluster_id", "group_id", "generation", recorded_at).collect():
        times.setdefault(row["cluster_id"], {}).setdefault((row["group_id"], row["generation"]), []).append(row["recorded_at_ms"])
    for cluster_id, of_cluster in times.items():
        named = [GenerationLine(*row[1:]) for row in lines if row["cluster_id"] == cluster_id]
        for broker, minutes in fitting_zone(named, of_cluster).items():
            logger.warning(
                "cluster %s, log of broker %s: its times are %+d minutes from the records of the same generations, if they are of zone %s."
                " Nothing was shifted. Land the log again with --log-time-zone and a zone that is %s",
                cluster_id,
                broker or "without an id",
                minutes,
                zone or "UTC",
                _offset_that_fits(zone, minutes, named[0].logged_at_ms),
            )


def _offset_that_fits(zone: str | None, minutes: int, at_ms: int) -> str:
    """Return the offset from UTC of the zone that fits, as text.

    >>> _offset_that_fits("Europe/Berlin", -60, 1_764_000_000_000)
    'UTC+00:00'
    """
    local = datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone or "UTC")).utcoffset() or timedelta()
    offset = int(local.total_seconds()) // 60 + minutes
    return f"UTC{'-' if offset < 0 else '+'}{abs(offset) // 60:02}:{abs(offset) % 60:02}"
