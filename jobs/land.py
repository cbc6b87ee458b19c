"""Landing: captures and live clusters -> ``group_records``, the snapshots of subscriptions, topics and offsets, ``quarantine``.

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

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs import histories
from jobs.alignment import align_records
from jobs.context import RunContext
from jobs.errors import CountsDoNotBalanceError
from jobs.reading import decode_captures, decode_log, decode_look, united
from jobs.superseding import sources_in_play, supersede
from jobs.transactions import Verdicts
from jobs.warehouse import Warehouse
from schemas.staging import TARGETS
from schemas.tables import OFFSET_SNAPSHOTS, QUARANTINE, SUBSCRIPTION_SNAPSHOTS, TOPIC_PARTITIONS
from schemas.vocabulary import Outcome, Source

logger = logging.getLogger(__name__)

CONFLICT = "conflicting_content"
EXPIRED = "expired"
"""Kind of the skipped records that are older than what retention keeps."""


def place_of(target: str, column: Callable[[str], Column]) -> Column:
    """Return the key of a table's row within its cluster as one text; numbers first, so that no name can imitate another key."""
    parts = {
        # Where no partition is told, an offset is the group's own.
        "group_record": ("offsets_partition", "offset", F.when(column("offsets_partition").isNull(), column("group_id"))),
        "snapshot": ("position", "group_id"),
        "offset_commit": ("position", "partition", F.length(column("topic")), "topic", "group_id"),
        "look": (F.unix_millis(column("observed_at")), "topic"),
    }
    return F.concat_ws(" ", *[column(part) if isinstance(part, str) else part for part in parts[target]])


def time_column(target: str) -> str:
    """Return the column with the time of a table's row."""
    return "timestamp" if target == "group_record" else "observed_at"


def is_older(than: date | None) -> Column:
    """Return whether a decoded row is from before a day; false for what has no time, and where there is no day."""
    moment = F.coalesce(*[F.col(f"{name}.{time_column(name)}") for name in TARGETS])
    return F.lit(False) if than is None else F.coalesce(moment < F.lit(than), F.lit(False))


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
    is_expired = F.col("known_fingerprint").isNull() & is_older(retained_from)
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


def _target_rows(staged: DataFrame, target: str, context: RunContext) -> DataFrame:
    """Return the new rows of one table, all but incarnations filled in."""
    content = staged.where(F.col("is_new") & (F.col("target") == target) & (F.col("outcome") != str(Outcome.QUARANTINED)))
    rows = content.select("cluster_id", "source", "source_position", "displaced", f"{target}.*")
    added = {**context.run_columns, "observed_month": first_of_month(time_column(target))}
    if target == "snapshot":
        added |= {"is_disputed": F.col("displaced").isNotNull(), "is_numbered": F.col("generation").isNull(), **told_members()}
    return rows.withColumns(added).drop("displaced")


def told_members() -> dict[str, Column]:
    """Return ``members`` without nulls for lists, and ``has_subscriptions``.

    Where a source does not tell what a member subscribes to, it gets all topics that any one of its group holds; and no claims where it
    tells none, as a member whose subscription is too old for them.
    """
    members = F.col("members")
    is_whole = F.forall(members, lambda member: member["topics"].isNotNull() & member["owned"].isNotNull())
    held = F.array_sort(F.array_distinct(F.flatten(members["assigned"])["topic"]))
    none = F.array().cast(TOPIC_PARTITIONS)
    filled = F.transform(
        members,
        lambda member: member.withField("topics", F.coalesce(member["topics"], held)).withField("owned", F.coalesce(member["owned"], none)),
    )
    return {
        "members": F.when(is_whole, members).otherwise(filled),
        "has_subscriptions": F.forall(members, lambda member: member["topics"].isNotNull()),
    }


def _quarantine_rows(staged: DataFrame, context: RunContext) -> DataFrame:
    rows = staged.where(F.col("is_new") & (F.col("outcome") == str(Outcome.QUARANTINED)))
    return rows.withColumns(context.run_columns).select(*QUARANTINE.schema.names)


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
    lost = rows.withColumns({**content, **context.run_columns}).join(kept, list(QUARANTINE.key), "left_anti")
    context.warehouse.append(QUARANTINE.name, lost.select(*QUARANTINE.schema.names))


@dataclass
class _Tally:
    """What the staged rows ask for.

    Attributes:
        to_write: rows by target.
        displacing: targets in which stored rows have to make room.
        has_disputes: snapshots lost their places to others, in this input or before.
        has_folds: there are new records of consumer-protocol groups.
    """

    to_write: dict[str, int] = field(default_factory=dict)
    displacing: set[str] = field(default_factory=set)
    has_disputes: bool = False
    has_folds: bool = False


def _count(context: RunContext, staged: DataFrame) -> _Tally:
    """Return what has to be written; count where every record ended into ``context.input_counts``.

    Raises:
        CountsDoNotBalanceError: a record is unaccounted for.
    """
    is_conflict, is_displacing = F.col("reason").eqNullSafe(CONFLICT), F.col("displaced").isNotNull()
    # One that could not be read may have been a commit of any of the partition's groups.
    is_read = (F.col("source") == str(Source.CONSUMER_OFFSETS)) & (F.col("outcome") != str(Outcome.QUARANTINED))
    is_first = is_read & F.col("source_position").endswith("@0")
    origin = F.when(is_first, F.concat_ws(" ", "cluster_id", F.substring_index("source_position", "@", 1))).alias("origin")
    is_conflict, is_displacing = is_conflict.alias("is_conflict"), is_displacing.alias("is_displacing")
    kinds = ("source", "kind", "outcome", "target", "is_new", is_conflict, is_displacing, origin)
    rows = staged.groupBy(*kinds).count().collect()
    counts, tally = context.input_counts, _Tally()
    for row in sorted(rows, key=str):
        outcome, is_quarantined = row["outcome"], row["outcome"] == Outcome.QUARANTINED.value
        for key in ("read", outcome, f"{row['source']}.read", f"{row['source']}.{outcome}", f"{row['source']}.{outcome}.{row['kind']}"):
            counts[key] = counts.get(key, 0) + row["count"]
        if row["is_new"]:
            target = QUARANTINE.name if is_quarantined else row["target"]
            tally.to_write[target] = tally.to_write.get(target, 0) + row["count"]
        if row["origin"] is not None:
            context.origins_read[row["origin"]] = context.run_sequence
        if row["is_displacing"]:
            tally.displacing.add(row["target"])
        tally.has_disputes |= row["is_conflict"] and row["target"] == "snapshot"
        tally.has_folds |= row["is_new"] and row["target"] == "group_record" and row["kind"].startswith("consumer_group_")
    for key in ("read", *map(str, Outcome)):
        counts.setdefault(key, 0)
    _check_balance("records read", counts["read"], sum(counts[str(outcome)] for outcome in Outcome))
    return tally


def _check_balance(what: str, expected: int, found: int) -> None:
    if expected != found:
        raise CountsDoNotBalanceError(f"land: {expected} {what}, {found} accounted for; this is a defect of Evenkeel, please report it")


def run(context: RunContext) -> None:
    """Land the captures of a run; tables that get nothing new are not touched."""
    warehouse = context.warehouse
    decoded, moved = _ordered(context)
    staged = warehouse.stage("land", settle_outcomes(decoded, known_places(warehouse), quarantined_keys(warehouse), context.retained_from))
    tally = _count(context, staged)
    displaced = {target: _take_displaced(warehouse, staged, target) for target in TARGETS if target in tally.displacing}
    verdicts = Verdicts(context, staged) if Source.CONSUMER_OFFSETS in context.sources else None
    for target, spec in TARGETS.items():
        to_write = tally.to_write.get(target, 0)
        if to_write and spec is not SUBSCRIPTION_SNAPSHOTS:
            rows = _target_rows(staged, target, context)
            rows = verdicts.of_new(rows) if verdicts is not None and spec is OFFSET_SNAPSHOTS else rows
            _check_balance(f"rows for {spec.name}", to_write, warehouse.append(spec.name, rows))
    if verdicts is not None:
        verdicts.rewrite_stored()
    _write_histories(context, staged, tally, displaced.get("group_record"), moved)
    if tally.to_write.get(QUARANTINE.name):
        written = warehouse.append(QUARANTINE.name, _quarantine_rows(staged, context))
        _check_balance("rows for quarantine", tally.to_write[QUARANTINE.name], written)
    for rows in displaced.values():
        _quarantine_displaced(context, rows)


def _ordered(context: RunContext) -> tuple[DataFrame, DataFrame | None]:
    """Return the decoded rows of the inputs, each group's of one source and with positions; and the groups whose stored rows moved."""
    decoded = _decoded(context)
    has_several = len(sources_in_play(context)) > 1
    if not has_several and "part" not in decoded.columns:
        return decoded, None
    if context.live is None:  # else it is staged already
        decoded = context.warehouse.stage("decoded", decoded)
    if has_several:
        decoded = supersede(context, decoded, is_older(context.retained_from))
    return align_records(context, decoded) if "part" in decoded.columns else (decoded, None)


def _decoded(context: RunContext) -> DataFrame:
    """Return the decoded rows of the inputs; a live one is read to its end, and looked at before and after."""
    names, frames = (context.cluster_id_flag, context.settings.cluster_id), []
    if context.captures:
        frames.append(decode_captures(context.spark, context.captures, *names, context.as_of))
    if context.live is None:
        return united(frames)
    reading = context.live.begin(context.positions_before, *names)
    frames.append(decode_look(context.spark, reading))
    if reading.work.spans:
        frames.append(decode_log(context.spark, reading))
    read = context.warehouse.stage("decoded", united(frames))
    context.positions_read = reading.next_positions
    return united([read, decode_look(context.spark, reading)])


def _write_histories(context: RunContext, staged: DataFrame, tally: _Tally, displaced: DataFrame | None, moved: DataFrame | None) -> None:
    """Write new snapshots, and what the other new records make of those that are stored.

    Args:
        displaced: group records that had to make room.
        moved: groups whose stored snapshots have other positions now.
    """
    touched, folds, disputed = [moved] if moved is not None else [], [], None
    if tally.has_disputes:
        lost = staged.where((F.col("target") == "snapshot") & (F.col("reason") == CONFLICT))
        disputed = lost.select("cluster_id", "snapshot.group_id", "snapshot.position").distinct()
        touched.append(disputed)
    if tally.has_folds:
        folds.append(histories.freshly_recorded_groups(context))
    if displaced is not None:
        folds.append(displaced)
    if tally.to_write.get("look") and not context.warehouse.is_empty(SUBSCRIPTION_SNAPSHOTS.name):
        named = context.warehouse.stage("newly_named", histories.newly_named_groups(context))
        folds.extend([] if named.isEmpty() else [named])
    to_write = tally.to_write.get("snapshot", 0)
    if to_write or touched or folds or tally.to_write.get("group_record"):
        rows = _target_rows(staged, "snapshot", context)
        written = histories.rewrite_histories(context, rows, disputed, touched, folds)
        _check_balance(f"rows for {SUBSCRIPTION_SNAPSHOTS.name}", to_write, written)
