"""Landing: captures and live clusters -> ``group_records``, the snapshots of subscriptions, topics and offsets, ``quarantine``.

Every input record ends in exactly one of landed, duplicate, skipped, quarantined; the run stops when one is unaccounted
for. Running it again on the same input adds nothing: a record is known by its cluster and its place in the log, or, for a
look, by its topic and time.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs import histories
from jobs.alignment import align_records
from jobs.comparison import landed_before, resolve, survey_log
from jobs.context import RunContext
from jobs.errors import CountsDoNotBalanceError
from jobs.known_files import counts_to_note, find_known
from jobs.packing import GROUP
from jobs.reading import decode_captures, decode_log, decode_look, united
from jobs.same_cluster import check_names
from jobs.settling import (
    CONFLICT,
    OF_GROUPS,
    conflict_columns,
    is_of_log,
    is_older,
    stored_rows,
    time_column,
    told_members,
)
from jobs.superseding import sources_in_play, supersede
from jobs.transactions import Verdicts, mark_dumped_commits
from jobs.warehouse import Warehouse
from schemas.staging import TARGETS
from schemas.tables import OFFSET_SNAPSHOTS, QUARANTINE, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import LOG_SOURCES, Outcome, Source

logger = logging.getLogger(__name__)


def first_of_month(moment: str) -> Column:
    """Return the first day of the month of a timestamp column, as a date."""
    return F.trunc(F.col(moment), "month")


def _target_rows(staged: DataFrame, target: str, context: RunContext) -> DataFrame:
    """Return the new rows of one table, all but incarnations filled in."""
    content = staged.where(F.col("is_new") & (F.col("target") == target) & (F.col("outcome") != str(Outcome.QUARANTINED)))
    told = ("cluster_id", "source", "source_position", *(["placed_by"] if target in OF_GROUPS else []))
    rows = content.select(*told, f"{target}.*")
    added = {**context.run_columns, "observed_month": first_of_month(time_column(target))}
    if target == "snapshot":
        added |= {"is_numbered": F.col("generation").isNull(), **told_members(F.col("members"))}
    return rows.withColumns(added)


def _quarantine_rows(staged: DataFrame, context: RunContext) -> DataFrame:
    rows = staged.where(F.col("is_new") & (F.col("outcome") == str(Outcome.QUARANTINED)))
    rows = rows.withColumns(context.run_columns).select(*QUARANTINE.schema.names)
    return rows.hint("rebalance")  # few rows in many partitions: Spark would write a file for the first one, even if it is empty


def _take_displaced(warehouse: Warehouse, staged: DataFrame, target: str) -> DataFrame:
    """Delete the stored rows that have to make room for another content, and return them."""
    spec = TARGETS[target]
    lost = staged.where(F.col("is_displaced") & (F.col("target") == target)).select("cluster_id", "source", "place", "content")
    sources = [Source(row["source"]) for row in lost.select("source").distinct().collect()]
    places = F.broadcast(lost.select("cluster_id", "place"))
    frames = [stored_rows(warehouse, target, source, lambda rows: rows.join(places, places.columns, "left_semi")) for source in sources]
    stored = reduce(DataFrame.unionByName, frames)
    rows = warehouse.stage(f"displaced_{target}", stored.join(F.broadcast(lost), lost.columns, "left_semi"))
    warehouse.delete(spec.name, rows.select(*spec.key), spec.key)
    return rows


def _quarantine_displaced(context: RunContext, rows: DataFrame) -> None:
    """Put rows that lost their places into quarantine, as if they had come second."""
    kept = context.warehouse.read(QUARANTINE.name).select(*QUARANTINE.key)
    lost = rows.withColumns({**conflict_columns(), **context.run_columns}).join(kept, list(QUARANTINE.key), "left_anti")
    context.warehouse.append(QUARANTINE.name, lost.select(*QUARANTINE.schema.names))


@dataclass
class _Tally:
    """What the staged rows ask for.

    Attributes:
        to_write: rows by target.
        displacing: targets in which stored rows have to make room.
        has_disputes: records of groups have lost their places to others.
        has_folds: there are new records of consumer-protocol groups.
    """

    to_write: dict[str, int] = field(default_factory=dict)
    displacing: set[str] = field(default_factory=set)
    has_disputes: bool = False
    has_folds: bool = False


def _is_dispute() -> Column:
    """Return whether a settled row is of a group and was at one place with another."""
    return F.col("group_id").isNotNull() & (F.col("is_contested") | F.col("reason").eqNullSafe(CONFLICT))


def _count(context: RunContext, staged: DataFrame) -> tuple[dict[str, int], _Tally]:
    """Return where every record ended, as ``runs.input_counts`` has it, and what has to be written.

    Raises:
        CountsDoNotBalanceError: a record is unaccounted for.
    """
    # One that could not be read may have been a commit of any of the partition's groups.
    is_read = is_of_log() & (F.col("outcome") != str(Outcome.QUARANTINED))
    is_first = is_read & F.col("source_position").endswith("@0")
    origin = F.when(is_first, F.concat_ws(" ", "cluster_id", F.substring_index("source_position", "@", 1))).alias("origin")
    kinds = ("source", "kind", "outcome", "target", "is_new", "is_displaced", _is_dispute().alias("is_dispute"), origin)
    rows = staged.groupBy(*kinds).count().collect()
    counts: dict[str, int] = {}
    tally = _Tally()
    for row in sorted(rows, key=str):
        tally.has_disputes |= row["is_dispute"]
        if row["is_displaced"]:
            tally.displacing.add(row["target"])
        outcome, is_quarantined = row["outcome"], row["outcome"] == Outcome.QUARANTINED.value
        if outcome is None:  # no record of the input
            continue
        for key in ("read", outcome, f"{row['source']}.read", f"{row['source']}.{outcome}", f"{row['source']}.{outcome}.{row['kind']}"):
            counts[key] = counts.get(key, 0) + row["count"]
        if row["is_new"]:
            target = QUARANTINE.name if is_quarantined else row["target"]
            tally.to_write[target] = tally.to_write.get(target, 0) + row["count"]
        if row["origin"] is not None:
            context.origins_read[row["origin"]] = context.run_sequence
        tally.has_folds |= row["is_new"] and row["target"] == "group_record" and row["kind"].startswith("consumer_group_")
    _check_balance("records read", counts.get("read", 0), sum(counts.get(str(outcome), 0) for outcome in Outcome))
    return counts, tally


def _check_balance(what: str, expected: int, found: int) -> None:
    if expected != found:
        raise CountsDoNotBalanceError(f"land: {expected} {what}, {found} accounted for; this is a defect of Evenkeel, please report it")


def run(context: RunContext) -> None:
    """Land the captures of a run; tables that get nothing new are not touched."""
    cluster_ids = (context.cluster_id_flag, context.settings.cluster_id)
    known = find_known(context.warehouse, context.digests, cluster_ids, context.retained_from)
    context.captures = known.unread
    counts = Counter(dict.fromkeys(("read", *map(str, Outcome)), 0))
    counts.update(known.counts)
    if known.unread and not context.as_new_cluster:
        check_names(context)
    if known.unread or context.live is not None:
        found, tally = _land(context)
        counts.update(found)
        if tally.displacing or tally.has_disputes:
            # Whose record stays of several at one place may change with each run, and where the others end with it.
            context.files = None
        elif context.live is None:
            context.files, context.file_counts = list(known.keys), counts_to_note(found)
    context.input_counts |= counts


def _land(context: RunContext) -> tuple[dict[str, int], _Tally]:
    """Land what this run decodes; return where every record ended, and what that asked for."""
    warehouse = context.warehouse
    decoded, moved = _ordered(context)
    has_log = not context.sources.isdisjoint(LOG_SOURCES)
    if context.landed_until_before is None and has_log:  # the release before did not note it
        context.landed_until_before = landed_before(warehouse)
    landed_until = context.landed_until_before or {}
    survey = survey_log(warehouse, decoded, landed_until)
    context.read_until = survey.read_until
    staged = resolve(warehouse, decoded, context.sources, survey, landed_until, context.retained_from)
    counts, tally = _count(context, staged)
    displaced = {target: _take_displaced(warehouse, staged, target) for target in TARGETS if target in tally.displacing}
    verdicts = Verdicts(context, staged, survey) if has_log else None
    for target, spec in TARGETS.items():
        to_write = tally.to_write.get(target, 0)
        if to_write and spec is not SUBSCRIPTION_SNAPSHOTS:
            rows = _target_rows(staged, target, context)
            rows = verdicts.of_new(rows) if verdicts is not None and spec is OFFSET_SNAPSHOTS else rows
            _check_balance(f"rows for {spec.name}", to_write, warehouse.append(spec.name, rows))
    if verdicts is not None:
        verdicts.rewrite_stored()
    if tally.to_write.get(QUARANTINE.name):
        written = warehouse.append(QUARANTINE.name, _quarantine_rows(staged, context))
        _check_balance("rows for quarantine", tally.to_write[QUARANTINE.name], written)
    for rows in displaced.values():
        _quarantine_displaced(context, rows)
    _write_histories(context, staged, tally, displaced, moved)
    return counts, tally


def _ordered(context: RunContext) -> tuple[DataFrame, DataFrame | None]:
    """Return the decoded rows of the inputs, each group's of one source and with positions; and the groups whose stored rows moved."""
    decoded = _decoded(context)
    has_several, has_parts, is_dumped = len(sources_in_play(context)) > 1, "part" in decoded.columns, "producer_id" in decoded.columns
    if context.live is None:  # else it is staged already
        decoded = context.warehouse.stage("decoded", decoded)
    if is_dumped:
        decoded = mark_dumped_commits(decoded)
    if has_several:
        decoded = supersede(context, decoded, is_older(context.retained_from))
    if has_parts:
        decoded, moved = align_records(context, decoded)
    else:
        decoded, moved = decoded.withColumn("placed_by", F.lit(None).cast("string")), None
    is_changed = has_several or has_parts or is_dumped
    if is_changed and not context.sources.isdisjoint(LOG_SOURCES):  # what is not compared is asked for once a table
        decoded = context.warehouse.stage("ordered", decoded)
    return decoded, moved


def _decoded(context: RunContext) -> DataFrame:
    """Return the decoded rows of the inputs; a live one is read to its end, and looked at before and after."""
    names, frames = (context.cluster_id_flag, context.settings.cluster_id), []
    memory_mb = context.settings.workers.memory_mb
    if context.captures:
        frames.append(decode_captures(context.spark, context.captures, *names, context.as_of, memory_mb))
    if context.live is None:
        return united(frames)
    reading = context.live.begin(context.positions_before, *names)
    frames.append(decode_look(context.spark, reading))
    if reading.work.spans:
        frames.append(decode_log(context.spark, reading, memory_mb))
    read = context.warehouse.stage("decoded", united(frames))
    context.positions_read = reading.next_positions
    return united([read, decode_look(context.spark, reading)])


def _write_histories(
    context: RunContext, staged: DataFrame, tally: _Tally, displaced: Mapping[str, DataFrame], moved: DataFrame | None
) -> None:
    """Write new snapshots, and what the other new records make of those that are stored.

    Args:
        displaced: by target the rows that had to make room.
        moved: groups whose stored snapshots have other positions now.
    """
    touched, folds, gone = [moved] if moved is not None else [], [], None
    if tally.has_disputes:
        touched.append(staged.where(_is_dispute()).select(*GROUP))
    if tally.has_folds:
        folds.append(histories.freshly_recorded_groups(context))
    if "group_record" in displaced:
        folds.append(displaced["group_record"])
    if not context.warehouse.is_empty(SUBSCRIPTION_SNAPSHOTS.name):
        if tally.to_write.get("look"):
            named = context.warehouse.stage("newly_named", histories.newly_named_groups(context))
            folds.extend([] if named.isEmpty() else [named])
        if "look" in displaced:
            folds.append(histories.groups_named_by(context, displaced["look"]))
    if displaced.keys() & set(OF_GROUPS):
        gone = staged.where(F.col("is_displaced") & F.col("group_id").isNotNull()).select(*GROUP, "position", "target")
    to_write = tally.to_write.get("snapshot", 0)
    if to_write or touched or folds or tally.to_write.get("group_record"):
        rows = _target_rows(staged, "snapshot", context)
        written = histories.rewrite_histories(context, rows, gone, touched, folds)
        _check_balance(f"rows for {SUBSCRIPTION_SNAPSHOTS.name}", to_write, written)
