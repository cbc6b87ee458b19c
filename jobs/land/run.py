"""Landing: captures and live clusters -> ``group_records``, the snapshots of subscriptions, topics and offsets, ``group_events``,
``quarantine``.

Every input record has exactly one outcome: landed, duplicate, skipped or quarantined; the run stops if a record has none. A second run on
the same input adds nothing: a record is identified by its cluster and its place in the log, topic metadata by its topic and time.

Landing first decides what to change, and then changes the tables. Each step returns its changes; later steps read the tables as if these
were applied.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.context import RunContext, StageResult
from jobs.land.aborted_transactions import CommitCertainty, mark_dumped_commits, mark_uncertain_commits
from jobs.land.comparison import landed_before, resolve, survey_log
from jobs.land.deduplication import (
    OF_GROUPS,
    conflict_columns,
    is_folded,
    is_of_log,
    quarantined_keys,
    recorded_members,
    stored_rows,
    time_column,
)
from jobs.land.formatter_order import order_formatter_records
from jobs.land.group_events import LoggedEvents, land_events, warn_of_zone
from jobs.land.group_history import Landed, freshly_recorded_groups, group_history, groups_named_by
from jobs.land.known_files import counts_to_note, find_known
from jobs.land.reading import decode_captures, decode_log, decode_look, united
from jobs.land.same_cluster import check_names
from jobs.land.seen_rebalances import seen_rebalances
from jobs.land.source_priority import keep_best_source
from jobs.storage.derived_results import forget_unnamed_topics
from jobs.storage.last_commits import forget_last_commits
from jobs.storage.table_changes import ChangedTables, TableChange, apply_changes, check_appended, check_balance
from schemas.keys import GROUP_KEY
from schemas.staging import TARGETS
from schemas.tables import OFFSET_SNAPSHOTS, QUARANTINE, SOLUTIONS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import CONFLICT, LOG_SOURCES, Outcome, Source


def first_of_month(moment: str) -> Column:
    """Return the first day of the month of a timestamp column, as a date."""
    return F.trunc(F.col(moment), "month")


def _target_rows(resolved: DataFrame, target: str, context: RunContext) -> DataFrame:
    """Return the new rows of one table, without incarnations."""
    content = resolved.where(F.col("is_new") & (F.col("target") == target) & (F.col("outcome") != str(Outcome.QUARANTINED)))
    control = ("cluster_id", "source", "source_position", *(["placed_by"] if target in OF_GROUPS else []))
    rows = content.select(*control, f"{target}.*")
    added = {**context.run_columns, "observed_month": first_of_month(time_column(target))}
    if target == "snapshot":
        added |= {"is_generation_inferred": F.col("generation").isNull(), **recorded_members(F.col("members"))}
    return rows.withColumns(added)


def _quarantine_rows(resolved: DataFrame, context: RunContext) -> DataFrame:
    rows = resolved.where(F.col("is_new") & (F.col("outcome") == str(Outcome.QUARANTINED)))
    rows = rows.withColumns(context.run_columns).select(*QUARANTINE.schema.names)
    return rows.hint("rebalance")  # few rows in many partitions: Spark would write a file for the first one, even if it is empty


@dataclass
class Tally:
    """The outcomes of a run's records, and what has to be written.

    Attributes:
        counts: as in ``runs.input_counts``.
        origins: partitions of logs whose first record was read, as in ``runs.origins``.
        to_write: number of rows by target; of quarantine under that name.
        displacing: (target, source) of stored rows that are displaced.
        has_disputes: records of groups have conflicts.
        has_new_disputes: the outcome of one of these is not known from an earlier run.
        has_folds: there are new records of consumer-protocol groups.
    """

    counts: dict[str, int] = field(default_factory=dict)
    origins: set[str] = field(default_factory=set)
    to_write: Counter[str] = field(default_factory=Counter)
    displacing: set[tuple[str, str]] = field(default_factory=set)
    has_disputes: bool = False
    has_new_disputes: bool = False
    has_folds: bool = False


def _is_dispute() -> Column:
    """Return whether a row after deduplication is of a group and has a conflict."""
    return F.col("group_id").isNotNull() & (F.col("is_contested") | F.col("reason").eqNullSafe(CONFLICT))


def _count(resolved: DataFrame) -> Tally:
    """Return the outcomes of all records, and what has to be written.

    Raises:
        CountsDoNotBalanceError: a record has no outcome.
    """
    # A record that could not be read may have been a commit of any group in the partition.
    is_read = is_of_log() & (F.col("outcome") != str(Outcome.QUARANTINED))
    is_first = is_read & F.col("source_position").endswith("@0")
    origin = F.when(is_first, F.concat_ws(" ", "cluster_id", F.substring_index("source_position", "@", 1))).alias("origin")
    kinds = ("source", "kind", "outcome", "target", "is_new", "is_displaced", _is_dispute().alias("is_dispute"), origin)
    tally = Tally()
    counts = tally.counts
    for row in sorted(resolved.groupBy(*kinds).count().collect(), key=str):
        tally.has_disputes |= row["is_dispute"]
        tally.has_new_disputes |= row["is_dispute"] and row["is_new"]
        if row["is_displaced"]:
            tally.displacing.add((row["target"], row["source"]))
        outcome, is_quarantined = row["outcome"], row["outcome"] == Outcome.QUARANTINED.value
        if outcome is None:  # not a record of the input
            continue
        for key in ("read", outcome, f"{row['source']}.read", f"{row['source']}.{outcome}", f"{row['source']}.{outcome}.{row['kind']}"):
            counts[key] = counts.get(key, 0) + row["count"]
        if row["is_new"]:
            tally.to_write[QUARANTINE.name if is_quarantined else row["target"]] += row["count"]
        if row["origin"] is not None:
            tally.origins.add(row["origin"])
        tally.has_folds |= row["is_new"] and row["target"] == "group_record" and row["kind"].startswith("consumer_group_")
    check_balance("records read", counts.get("read", 0), sum(counts.get(str(outcome), 0) for outcome in Outcome))
    return tally


def run(context: RunContext) -> StageResult:
    """Land the captures of a run; tables without new rows are not touched."""
    cluster_ids = (context.cluster_id_flag, context.settings.cluster_id)
    zone = context.settings.log_time_zone
    known = find_known(context.warehouse, context.digests, cluster_ids, zone, context.before.retained_from)
    context = replace(context, captures=known.unread)
    counts = Counter(dict.fromkeys(("read", *map(str, Outcome)), 0))
    counts.update(known.counts)
    if known.unread and not context.as_new_cluster:
        check_names(context)
    logs = tuple(capture for capture in known.unread if capture.source is Source.COORDINATOR_LOG)
    context = replace(context, captures=tuple(capture for capture in known.unread if capture not in logs))
    events = land_events(context, logs)
    counts.update(events.counts)
    if not context.captures and context.live is None:
        check_appended(events.changes, apply_changes(context.warehouse, events.changes))
        if logs:
            warn_of_zone(context)
        return StageResult(context.state, counts, files=known.keys, file_counts=counts_to_note(events.counts))
    decoded, positions = _decoded(context)
    decision = decide(context, ChangedTables(context.warehouse), decoded)
    seen = seen_rebalances(context, ChangedTables(context.warehouse, events.changes), decoded, decision.tally.counts)
    _apply(context, decision, replace(events, changes=(*events.changes, *seen)))
    if logs:
        warn_of_zone(context)
    tally = decision.tally
    counts.update(tally.counts)
    # The first run that has read a log's first record stays in origins.
    origins = dict.fromkeys(tally.origins, context.run_sequence) | dict(context.state.origins)
    state = replace(context.state, origins=origins, positions={**context.state.positions, **positions}, landed_until=decision.landed_until)
    if tally.displacing or tally.has_new_disputes:
        # Which of several records at one place stays may change with each run, and so do the outcomes of the others.
        return StageResult(state, counts, files=None)
    if context.live is not None:
        return StageResult(state, counts)
    return StageResult(state, counts, files=known.keys, file_counts=counts_to_note({**tally.counts, **events.counts}))


@dataclass(frozen=True)
class Decision:
    """The changes for decoded records, before any is applied.

    Attributes:
        changes: in the order in which they were decided.
        tally: the outcomes of all records.
        snapshot_count: how many of the new snapshots are records of their own; None if it is known only from the written table.
        rewritten_count: how many stored commits are written again, because they have become certain or uncertain.
        landed_until: up to where logs are read after the run, see ``runs.landed_until``.
    """

    changes: tuple[TableChange, ...]
    tally: Tally
    snapshot_count: int | None
    rewritten_count: int
    landed_until: dict[str, int] | None


def decide(context: RunContext, tables: ChangedTables, decoded: DataFrame) -> Decision:
    """Return the changes for decoded records; no table is written.

    Args:
        tables: without any changes.
        decoded: staged rows of ``DECODED_ROWS``, with ``placed_by``.

    Raises:
        CountsDoNotBalanceError: a record has no outcome.
    """
    kept, changes = keep_best_source(context, tables, mark_dumped_commits(decoded))
    tables = tables.after(changes)
    ordered, changes = order_formatter_records(context, tables, kept)
    tables = tables.after(changes)
    has_log = not context.sources.isdisjoint(LOG_SOURCES)
    if ordered is not decoded and has_log:  # rows that are not compared are computed once for each table
        ordered = tables.materialize("ordered", ordered)
    noted = context.before.landed_until
    if noted is None and has_log:  # the release before did not store it
        noted = landed_before(tables)
    landed_until = dict(noted or {})
    survey = survey_log(tables, ordered, landed_until)
    resolved = resolve(tables, ordered, context.sources, survey, landed_until, context.before.retained_from)
    tally = _count(resolved)
    tables = tables.after(_quarantined(context, resolved, tally))
    displaced = _make_room(context, tables, resolved, tally.displacing) if tally.displacing else _Displaced()
    tables = tables.after(displaced.changes)
    certainty = mark_uncertain_commits(context, tables, resolved, survey) if has_log else CommitCertainty()
    tables = tables.after(certainty.changes).after(_new_rows(context, resolved, tally, certainty))
    history = group_history(context, tables, _landed(context, tables, resolved, tally, displaced))
    read_until = {key: max(until, landed_until.get(key, until)) for key, until in survey.read_until.items()}
    until = None if noted is None and not read_until else landed_until | read_until
    return Decision(tables.after(history.changes).changes, tally, history.landed_count, certainty.rewritten_count, until)


def _apply(context: RunContext, decision: Decision, events: LoggedEvents) -> None:
    """Change the tables, and check that each new row was written.

    Raises:
        CountsDoNotBalanceError: a row was not written.
    """
    changes = (*decision.changes, *events.changes)
    applied = apply_changes(context.warehouse, changes)
    check_appended(changes, applied)
    landed = decision.snapshot_count
    if landed is None:
        landed = context.warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).where(~is_folded()).count()
    check_balance("new snapshots", decision.tally.to_write["snapshot"], landed)
    if applied.deleted[SOLUTIONS.name]:
        forget_unnamed_topics(context.warehouse)
    if applied.deleted[OFFSET_SNAPSHOTS.name] != decision.rewritten_count:
        forget_last_commits(context.warehouse)


def _decoded(context: RunContext) -> tuple[DataFrame, dict[str, int]]:
    """Return the decoded rows of the inputs, in scratch, and where the next run continues in a live one.

    A live log is read to its end, and its topic metadata before and after.
    """
    not_placed = F.lit(None).cast("string")
    names, frames = (context.cluster_id_flag, context.settings.cluster_id), []
    memory_mb = context.settings.workers.memory_mb
    if context.captures:
        frames.append(decode_captures(context.spark, context.captures, *names, context.as_of, memory_mb))
    if context.live is None:
        return context.warehouse.materialize("decoded", united(frames)).withColumn("placed_by", not_placed), {}
    reading = context.live.begin(context.before.positions, *names)
    frames.append(decode_look(context.spark, reading))
    if reading.work.spans:
        frames.append(decode_log(context.spark, reading, memory_mb))
    read = context.warehouse.materialize("decoded", united(frames))
    return united([read, decode_look(context.spark, reading)]).withColumn("placed_by", not_placed), reading.next_positions


@dataclass(frozen=True)
class _Displaced:
    """Stored rows that are displaced by others.

    Attributes:
        rows: of ``quarantine``, with ``target``; in scratch. None without any.
        changes: move them from their tables to quarantine.
    """

    rows: DataFrame | None = None
    changes: tuple[TableChange, ...] = ()

    def of(self, target: str) -> DataFrame:
        """Return the rows of one target."""
        assert self.rows is not None
        return self.rows.where(F.col("target") == target)


def _at_places(places: DataFrame, rows: DataFrame) -> DataFrame:
    return rows.join(places, places.columns, "left_semi")


def _make_room(context: RunContext, tables: ChangedTables, resolved: DataFrame, displacing: set[tuple[str, str]]) -> _Displaced:
    """Return the stored rows that another content displaces. They go to quarantine as if they had come second.

    Args:
        tables: with the other new rows of quarantine.
        displacing: (target, source) of these rows.
    """
    lost = resolved.where("is_displaced").select("cluster_id", "source", "target", "place", "content")
    frames = []
    for target, source in sorted(displacing):
        of_target = F.broadcast(lost.where(F.col("target") == target).drop("target"))
        stored = stored_rows(tables, target, Source(source), partial(_at_places, of_target.select("cluster_id", "place")))
        stored = stored.join(of_target, of_target.columns, "left_semi")
        key = F.struct(*TARGETS[target].key).alias(target)
        quarantined = stored.select("*", key).withColumns({**conflict_columns(), **context.run_columns})
        frames.append(quarantined.select(*QUARANTINE.schema.names, F.lit(target).alias("target"), target))
    together = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)
    quarantined_before = quarantined_keys(tables)
    is_kept = F.lit(None).cast("boolean").alias("is_kept")
    if quarantined_before is None:
        together = together.select("*", is_kept)
    else:
        kept = quarantined_before.distinct().withColumn("is_kept", F.lit(True))
        together = together.join(kept, list(QUARANTINE.key), "left")
    rows = tables.materialize("displaced", together)
    counts: dict[tuple[str, bool], int] = {}
    for row in rows.groupBy("target", F.col("is_kept").isNull().alias("comes")).count().collect():
        counts[row["target"], row["comes"]] = row["count"]
    changes = [
        TableChange(TARGETS[target].name, rows.where(F.col("target") == target).select(f"{target}.*"), TARGETS[target].key)
        for target in sorted({target for target, _ in counts})
    ]
    coming = sum(count for (_, comes), count in counts.items() if comes)
    append = rows.where("is_kept IS NULL").select(*QUARANTINE.schema.names)
    return _Displaced(rows, (*changes, TableChange(QUARANTINE.name, append=append, append_count=coming)))


def _quarantined(context: RunContext, resolved: DataFrame, tally: Tally) -> list[TableChange]:
    """Return the change that adds unusable records to quarantine."""
    count = tally.to_write[QUARANTINE.name]
    return [TableChange(QUARANTINE.name, append=_quarantine_rows(resolved, context), append_count=count)] if count else []


def _new_rows(context: RunContext, resolved: DataFrame, tally: Tally, certainty: CommitCertainty) -> list[TableChange]:
    """Return the changes that add new rows to all tables except ``subscription_snapshots``, whose rows depend on their neighbours."""
    changes = []
    for target, spec in TARGETS.items():
        if tally.to_write[target] and spec is not SUBSCRIPTION_SNAPSHOTS:
            rows = _target_rows(resolved, target, context)
            rows = certainty.mark(rows) if spec is OFFSET_SNAPSHOTS else rows
            changes.append(TableChange(spec.name, append=rows, append_count=tally.to_write[target]))
    return changes


def _landed(context: RunContext, tables: ChangedTables, resolved: DataFrame, tally: Tally, displaced: _Displaced) -> Landed:
    """Return the input of ``group_history``: new snapshots, and the groups whose stored snapshots other new records may change."""
    touched, folded = [], []
    if tally.has_disputes:
        touched.append(resolved.where(_is_dispute()).select(*GROUP_KEY))
    if tally.has_folds:
        folded.append(freshly_recorded_groups(tables))
    targets = {target for target, _ in tally.displacing}
    if "group_record" in targets:
        folded.append(displaced.of("group_record").select(*GROUP_KEY))
    if "look" in targets and not tables.is_empty(SUBSCRIPTION_SNAPSHOTS.name):
        folded.append(groups_named_by(tables, displaced.of("look")))
    gone = None
    if targets & set(OF_GROUPS):
        gone = resolved.where(F.col("is_displaced") & F.col("group_id").isNotNull()).select(*GROUP_KEY, "position", "target")
    rows = _target_rows(resolved, "snapshot", context)
    return Landed(rows, tally.to_write["snapshot"], gone, tuple(touched), tuple(folded), tally.to_write["look"] > 0)
