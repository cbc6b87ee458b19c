"""Landing: captures -> ``group_records``, ``subscription_snapshots``, ``topic_snapshots``, ``offset_snapshots``, ``quarantine``.

Every input record ends in exactly one of landed, duplicate, skipped, quarantined; the run stops when one is unaccounted
for. Running it again on the same input adds nothing: a record is known by its cluster and its place in the log, or, for a
look, by its topic and time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from jobs import udfs
from jobs.captures import PARQUET, Capture
from jobs.context import RunContext
from jobs.errors import CountsDoNotBalanceError
from jobs.sources.consumer_offsets import PARQUET_COLUMNS
from jobs.warehouse import Warehouse
from schemas.staging import DECODED_ROWS, TARGETS
from schemas.tables import GROUP_RECORDS, QUARANTINE, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import Outcome, Source

logger = logging.getLogger(__name__)

CONFLICT = "conflicting_content"
EXPIRED = "expired"
"""Kind of the skipped records that are older than what retention keeps."""
CONSUMER_GROUP_METADATA = 3
GROUP_COLUMNS = ("cluster_id", "group_id")


def decode_captures(spark: SparkSession, captures: tuple[Capture, ...], flag: str | None, fallback: str | None) -> DataFrame:
    """Return one decoded row for each record of the captures.

    Args:
        flag: cluster id that beats the captures' own.
        fallback: cluster id of captures that have none.
    """
    frames = []
    for (source, encoding, own), paths in sorted(_grouped(captures).items(), key=str):
        raw = _read_parquet(spark, paths) if encoding == PARQUET else _read_lines(spark, paths)
        decoded = raw.mapInArrow(udfs.DECODERS[source, encoding], DECODED_ROWS)
        cluster_id = F.lit(flag) if flag else F.coalesce("cluster_id", F.lit(own or fallback or "default"))
        frames.append(decoded.withColumns({"cluster_id": cluster_id, "source": F.lit(str(source))}))
    return reduce(DataFrame.unionByName, frames)


def _grouped(captures: tuple[Capture, ...]) -> dict[tuple[Source, str, str | None], list[str]]:
    grouped: dict[tuple[Source, str, str | None], list[str]] = {}
    for capture in captures:
        grouped.setdefault((capture.source, capture.encoding, capture.cluster_id), []).append(capture.path)
    return grouped


def _read_parquet(spark: SparkSession, paths: list[str]) -> DataFrame:
    declared = ", ".join(f"{name} {kind}" for name, kind in PARQUET_COLUMNS.items())  # inferring them would cost a job
    milliseconds = F.unix_millis("timestamp").alias("timestamp_ms")
    return spark.read.schema(declared).parquet(*paths).select("key", "value", "partition", "offset", milliseconds)


def _read_lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    block = F.col("_metadata.file_block_start")
    line = F.col("value").cast("binary").alias("value")  # a line need not be UTF-8, and a string that is not would end the worker
    return spark.read.text(paths).select(line, F.col("_metadata.file_name").alias("file_name"), block.alias("block_start"))


def place_of(target: str, column: Callable[[str], Column]) -> Column:
    """Return the key of a table's row within its cluster as one text; numbers first, so that no name can imitate another key."""
    parts = {
        "group_record": ("offsets_partition", "offset"),
        "snapshot": ("position", "group_id"),
        "offset_commit": ("position", "partition", F.length(column("topic")), "topic", "group_id"),
        "look": (F.unix_millis(column("observed_at")), "topic"),
    }
    return F.concat_ws(" ", *[column(part) if isinstance(part, str) else part for part in parts[target]])


def time_column(target: str) -> str:
    """Return the column with the time of a table's row."""
    return "timestamp" if target == "group_record" else "observed_at"


def settle_outcomes(
    decoded: DataFrame, known: DataFrame | None, quarantined: DataFrame | None, retained_from: date | None = None
) -> DataFrame:
    """Return the decoded rows with their final ``outcome``, and ``is_new`` where the row has to be written.

    A record that is there already, in the warehouse or earlier in the input, is a duplicate when its content is the same. Of different
    contents at one place the one with the least fingerprint is kept and the others go to quarantine, so that it does not matter which
    came first: where a stored one has to go, ``displaced`` is its fingerprint. Quarantine takes each content at each place once. A record
    that is not there and older than what retention keeps is skipped: it would come back with every capture that still has it.

    Args:
        known: (cluster_id, target, place, known_fingerprint) of the tables; None when they are empty.
        quarantined: the keys of ``quarantine``; None when it is empty.
        retained_from: first month that retention keeps; None before any.
    """
    target = F.coalesce(*[F.when(F.col(name).isNotNull(), F.lit(name)) for name in TARGETS], F.lit(QUARANTINE.name))
    content = F.coalesce(*[F.col(f"{name}.fingerprint") for name in TARGETS], F.concat_ws(" ", "reason", "payload_hash"))
    key = F.coalesce(
        *[F.when(F.col(name).isNotNull(), place_of(name, lambda part, name=name: F.col(f"{name}.{part}"))) for name in TARGETS],
        F.col("source_position"),
    )
    place = ["cluster_id", "target", "place"]
    same_place = Window.partitionBy(*place).orderBy("fingerprint")
    same_content = Window.partitionBy(*place, "fingerprint").orderBy("source_position")
    rows = decoded.withColumns({"target": target, "fingerprint": content, "place": key}).withColumns(
        {"repeat": F.row_number().over(same_content), "first_fingerprint": F.first("fingerprint").over(same_place)}
    )
    if known is None:
        rows = rows.withColumn("known_fingerprint", F.lit(None).cast("string"))
    else:
        rows = rows.join(known, place, "left")
    is_landed, is_known = F.col("outcome") == str(Outcome.LANDED), F.col("fingerprint").eqNullSafe(F.col("known_fingerprint"))
    is_conflict = is_landed & (F.col("fingerprint") != F.least("known_fingerprint", "first_fingerprint"))
    is_duplicate = is_landed & ~is_conflict & ((F.col("repeat") > 1) | is_known)
    is_expired = F.lit(False)
    if retained_from is not None:
        moment = F.coalesce(*[F.col(f"{name}.{time_column(name)}") for name in TARGETS])
        is_expired = F.col("known_fingerprint").isNull() & F.coalesce(moment < F.lit(retained_from), F.lit(False))
    is_displacing = is_landed & ~is_conflict & (F.col("repeat") == 1) & ~is_known
    settled = rows.withColumns(
        {
            "displaced": F.when(is_displacing, F.col("known_fingerprint")),
            "outcome": F.when(is_conflict, str(Outcome.QUARANTINED))
            .when(is_duplicate, str(Outcome.DUPLICATE))
            .when(is_landed & is_expired, str(Outcome.SKIPPED))
            .otherwise(F.col("outcome")),
            "kind": F.when(is_landed & ~is_conflict & ~is_duplicate & is_expired, EXPIRED).otherwise(F.col("kind")),
            "reason": F.when(is_conflict, CONFLICT).otherwise(F.col("reason")),
            "detail": F.when(is_conflict, conflict_detail()).otherwise(F.col("detail")),
            "payload_hash": F.when(is_conflict, F.col("fingerprint")).otherwise(F.col("payload_hash")),
            # A stored row that is displaced later has no payload any more; what is in quarantine must not depend on which came first.
            "payload": F.when(~is_conflict, F.col("payload")),
        }
    )
    if quarantined is None:
        settled = settled.withColumn("is_kept", F.lit(None).cast("boolean"))
    else:
        settled = settled.join(quarantined.withColumn("is_kept", F.lit(True)), list(QUARANTINE.key), "left")
    is_first = (F.col("repeat") == 1) & F.col("is_kept").isNull()
    is_noted = F.col("group_record").isNotNull() & (F.col("repeat") == 1) & F.col("known_fingerprint").isNull() & ~is_expired
    is_new = (
        (F.col("outcome") == str(Outcome.LANDED))
        | ((F.col("outcome") == str(Outcome.QUARANTINED)) & is_first)
        | ((F.col("outcome") == str(Outcome.SKIPPED)) & is_noted)
    )
    return settled.withColumn("is_new", is_new).drop("repeat", "first_fingerprint", "known_fingerprint", "place", "is_kept")


def conflict_detail() -> Column:
    """Return what quarantine says of a content that lost its place to another; the column ``fingerprint`` is its own."""
    return F.concat(F.lit("another content was found at the same place and kept; this one's fingerprint is "), "fingerprint")


def known_places(warehouse: Warehouse) -> DataFrame | None:
    """Return the key of each landed record, with its fingerprint; None in an empty warehouse."""
    frames = [
        warehouse.read(spec.name).select(
            "cluster_id",
            F.lit(target).alias("target"),
            place_of(target, F.col).alias("place"),
            F.col("fingerprint").alias("known_fingerprint"),
        )
        for target, spec in TARGETS.items()
        if not warehouse.is_empty(spec.name)
    ]
    return reduce(DataFrame.unionByName, frames) if frames else None


def quarantined_keys(warehouse: Warehouse) -> DataFrame | None:
    """Return the keys of ``quarantine``; None when nothing was ever put there."""
    return None if warehouse.is_empty(QUARANTINE.name) else warehouse.read(QUARANTINE.name).select(*QUARANTINE.key)


def first_of_month(moment: str) -> Column:
    """Return the first day of the month of a timestamp column, as a date."""
    return F.trunc(F.col(moment), "month")


def name_incarnations(snapshots: DataFrame, tombstones: DataFrame) -> DataFrame:
    """Return the snapshots with their ``incarnation`` and ``is_conversion``.

    An incarnation ends with a tombstone, or a generation id lower than the one before; it is named by the position of its
    first known snapshot. The first classic value behind a tombstone of a consumer-protocol group, with members and a
    generation above 1, was written by the coordinator when it turned the group back: no assignor made it.

    Args:
        snapshots: at least cluster_id, group_id, position, generation, state; all of the groups concerned.
        tombstones: cluster_id, group_id, position, type.
    """
    events = snapshots.unionByName(tombstones.select(*GROUP_COLUMNS, "position", F.col("type").alias("ended")), allowMissingColumns=True)
    in_order = Window.partitionBy(*GROUP_COLUMNS).orderBy("position")
    is_snapshot = F.col("ended").isNull()
    ended_before, previous = F.lag("ended").over(in_order), F.lag("generation").over(in_order)
    starts = is_snapshot & (ended_before.isNotNull() | previous.isNull() | (F.col("generation") < previous))
    is_conversion = starts & (ended_before == CONSUMER_GROUP_METADATA) & (F.col("generation") > 1) & (F.col("state") != "Empty")
    marked = events.withColumns({"start": F.when(starts, F.col("position")), "is_conversion": F.coalesce(is_conversion, F.lit(False))})
    named = marked.withColumn("incarnation", F.last("start", ignorenulls=True).over(in_order))
    return named.where(is_snapshot).drop("ended", "start")


def _target_rows(staged: DataFrame, target: str, context: RunContext) -> DataFrame:
    """Return the new rows of one table, all but incarnations filled in."""
    content = staged.where(F.col("is_new") & (F.col("target") == target) & (F.col("outcome") != str(Outcome.QUARANTINED)))
    rows = content.select("cluster_id", "source", "source_position", "displaced", f"{target}.*")
    added = {**_run_columns(context), "observed_month": first_of_month(time_column(target))}
    if target == "snapshot":
        added["is_disputed"] = F.col("displaced").isNotNull()
    return rows.withColumns(added).drop("displaced")


def _quarantine_rows(staged: DataFrame, context: RunContext) -> DataFrame:
    rows = staged.where(F.col("is_new") & (F.col("outcome") == str(Outcome.QUARANTINED)))
    return rows.withColumns(_run_columns(context)).select(*QUARANTINE.schema.names)


def _run_columns(context: RunContext) -> dict[str, Column]:
    return {"run_sequence": F.lit(context.run_sequence).cast("bigint"), "run_id": F.lit(context.run_id)}


def _take_displaced(warehouse: Warehouse, staged: DataFrame, target: str) -> DataFrame:
    """Delete the stored rows that have to make room for another content, and return them."""
    spec = TARGETS[target]
    lost = staged.where(F.col("displaced").isNotNull() & (F.col("target") == target))
    places = lost.select("cluster_id", place_of(target, lambda part: F.col(f"{target}.{part}")).alias("place"))
    stored = warehouse.read(spec.name).withColumn("place", place_of(target, F.col))
    rows = warehouse.stage(f"displaced_{target}", stored.join(places, ["cluster_id", "place"], "left_semi").drop("place"))
    warehouse.delete(spec.name, rows.select(*spec.key), spec.key)
    return rows


def _quarantine_displaced(context: RunContext, rows: DataFrame) -> None:
    """Put rows that lost their places into quarantine, as if they had come second."""
    no_payload = F.lit(None).cast("binary")
    content = {"payload_hash": F.col("fingerprint"), "reason": F.lit(CONFLICT), "detail": conflict_detail(), "payload": no_payload}
    kept = context.warehouse.read(QUARANTINE.name).select(*QUARANTINE.key)
    lost = rows.withColumns({**content, **_run_columns(context)}).join(kept, list(QUARANTINE.key), "left_anti")
    context.warehouse.append(QUARANTINE.name, lost.select(*QUARANTINE.schema.names))


def _append_snapshots(context: RunContext, snapshots: DataFrame, disputed: DataFrame | None, touched: list[DataFrame]) -> int:
    """Append new snapshots with their incarnations, rewrite stored ones that the new records change; return how many are new.

    Args:
        disputed: cluster_id, group_id, position where other contents were found; None when there are none.
        touched: frames of further groups with stored snapshots that may change.
    """
    warehouse, name, key = context.warehouse, SUBSCRIPTION_SNAPSHOTS.name, (*GROUP_COLUMNS, "position")
    tombstones = warehouse.read(GROUP_RECORDS.name).where(F.col("value").isNull()).withColumnRenamed("offset", "position")
    if warehouse.is_empty(name):
        return warehouse.append(name, _mark_disputed(name_incarnations(snapshots, tombstones), disputed))
    stored = warehouse.read(name).join(_touched_groups(context, [snapshots, *touched]), list(GROUP_COLUMNS), "left_semi")
    old = {column: f"old_{column}" for column in ("incarnation", "is_conversion", "is_disputed")}
    events = stored.withColumnsRenamed(old).unionByName(snapshots, allowMissingColumns=True)
    events = events.withColumn("is_disputed", F.coalesce("is_disputed", "old_is_disputed"))
    is_new = F.col("run_sequence") == context.run_sequence
    is_changed = reduce(Column.__or__, [~F.col(now).eqNullSafe(F.col(before)) for now, before in old.items()])
    named = _mark_disputed(name_incarnations(events, tombstones), disputed)
    named = warehouse.stage("snapshots", named.where(is_new | is_changed))
    rewritten = named.where(~is_new)
    rewritten_count = rewritten.count()
    if rewritten_count:
        logger.info("late or conflicting records change %d stored snapshots: rewriting these", rewritten_count)
        warehouse.delete(name, rewritten.select(*key), key)
    return warehouse.append(name, named.drop(*old.values()).withColumns(_run_columns(context))) - rewritten_count


def _mark_disputed(snapshots: DataFrame, disputed: DataFrame | None) -> DataFrame:
    if disputed is None:
        return snapshots
    marked = snapshots.join(disputed.withColumn("is_found", F.lit(True)), [*GROUP_COLUMNS, "position"], "left")
    return marked.withColumn("is_disputed", F.coalesce("is_found", "is_disputed")).drop("is_found")


def _touched_groups(context: RunContext, frames: list[DataFrame]) -> DataFrame:
    fresh_tombstones = context.warehouse.read(GROUP_RECORDS.name).where(F.col("run_sequence") == context.run_sequence)
    return reduce(DataFrame.unionByName, [frame.select(*GROUP_COLUMNS) for frame in (*frames, fresh_tombstones)]).distinct()


@dataclass
class _Tally:
    """What the staged rows ask for.

    Attributes:
        to_write: rows by target.
        displacing: targets in which stored rows have to make room.
        has_disputes: snapshots lost their places to others, in this input or before.
    """

    to_write: dict[str, int] = field(default_factory=dict)
    displacing: set[str] = field(default_factory=set)
    has_disputes: bool = False


def _count(context: RunContext, staged: DataFrame) -> _Tally:
    """Return what has to be written; count where every record ended into ``context.input_counts``.

    Raises:
        CountsDoNotBalanceError: a record is unaccounted for.
    """
    is_conflict, is_displacing = F.col("reason").eqNullSafe(CONFLICT), F.col("displaced").isNotNull()
    kinds = ("source", "kind", "outcome", "target", "is_new", is_conflict.alias("is_conflict"), is_displacing.alias("is_displacing"))
    rows = staged.groupBy(*kinds).count().collect()
    counts, tally = context.input_counts, _Tally()
    for row in sorted(rows, key=str):
        outcome, is_quarantined = row["outcome"], row["outcome"] == Outcome.QUARANTINED.value
        for key in ("read", outcome, f"{row['source']}.read", f"{row['source']}.{outcome}", f"{row['source']}.{outcome}.{row['kind']}"):
            counts[key] = counts.get(key, 0) + row["count"]
        if row["is_new"]:
            target = QUARANTINE.name if is_quarantined else row["target"]
            tally.to_write[target] = tally.to_write.get(target, 0) + row["count"]
        if row["is_displacing"]:
            tally.displacing.add(row["target"])
        tally.has_disputes |= row["is_conflict"] and row["target"] == "snapshot"
    for key in ("read", *map(str, Outcome)):
        counts.setdefault(key, 0)
    _check_balance("records read", counts["read"], sum(counts[str(outcome)] for outcome in Outcome))
    return tally


def _check_balance(what: str, expected: int, found: int) -> None:
    if expected != found:
        raise CountsDoNotBalanceError(f"land: {expected} {what}, {found} accounted for; this is a defect of Evenkeel, please report it")


def run(context: RunContext) -> None:
    """Land the captures of a run; tables that get nothing new are not touched."""
    spark, warehouse = context.spark, context.warehouse
    decoded = decode_captures(spark, context.captures, context.cluster_id_flag, context.settings.cluster_id)
    staged = warehouse.stage("land", settle_outcomes(decoded, known_places(warehouse), quarantined_keys(warehouse), context.retained_from))
    tally = _count(context, staged)
    displaced = {target: _take_displaced(warehouse, staged, target) for target in TARGETS if target in tally.displacing}
    touched = [displaced["group_record"]] if "group_record" in displaced else []
    disputed = None
    if tally.has_disputes:
        lost = staged.where((F.col("target") == "snapshot") & (F.col("reason") == CONFLICT))
        disputed = lost.select("cluster_id", "snapshot.group_id", "snapshot.position").distinct()
        touched.append(disputed)
    for target, spec in TARGETS.items():
        to_write = tally.to_write.get(target, 0)
        is_touched = spec is SUBSCRIPTION_SNAPSHOTS and (tally.to_write.get("group_record") or touched)
        if not to_write and not is_touched:
            continue
        rows = _target_rows(staged, target, context)
        if spec is SUBSCRIPTION_SNAPSHOTS:
            written = _append_snapshots(context, rows, disputed, touched)
        else:
            written = warehouse.append(spec.name, rows)
        _check_balance(f"rows for {spec.name}", to_write, written)
    if tally.to_write.get(QUARANTINE.name):
        written = warehouse.append(QUARANTINE.name, _quarantine_rows(staged, context))
        _check_balance("rows for quarantine", tally.to_write[QUARANTINE.name], written)
    for rows in displaced.values():
        _quarantine_displaced(context, rows)
