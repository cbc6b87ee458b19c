"""The history of each group from landed records: KIP-848 records are folded into snapshots, and snapshots get their incarnations.

Records may land in any order. The history of a group with new records is computed again from all its records, and rows that differ from
the stored ones are written. So the tables are the same as if everything had landed at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import date
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from assignors.replay.replay import UNRESOLVED
from jobs.context import RunContext
from jobs.decoders.consumer_group_replay import WORKED_OUT
from jobs.land import udfs as decode_udfs
from jobs.land.deduplication import conflict_positions, is_folded
from jobs.storage.derived_results import results_of
from jobs.storage.scratch import StagedKeys
from jobs.storage.table_changes import ChangedTables, TableChange, Tables
from jobs.workers.partitions import keep_together
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.staging import FOLDED_ROWS
from schemas.tables import GROUP_RECORDS, SUBSCRIPTION_SNAPSHOTS, TOPIC_SNAPSHOTS
from schemas.vocabulary import GroupState, GroupType
from schemas.wire.keys import CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA, RECORD_TYPES

logger = logging.getLogger(__name__)

COMPARED = ("generation", "incarnation", "is_conversion", "has_conflict", *WORKED_OUT, "fingerprint")
"""Columns by which a stored snapshot is compared with its new version."""


def ends_of_groups(records: DataFrame, classic: DataFrame) -> DataFrame:
    """Return the tombstones that ended a group or its protocol: cluster_id, group_id, position, type, is_handover.

    ``is_handover`` if a value of the other protocol follows in the same batch: the coordinator converted the group, and its history
    continues. A batch is a row of records at consecutive offsets.

    Args:
        records: ``group_records``.
        classic: snapshots of the classic protocol.
    """
    words = records.select(*GROUP_KEY, "offset", "type", F.col("value").isNotNull().alias("is_value")).unionByName(
        classic.select(
            *GROUP_KEY, F.col("position").alias("offset"), F.lit(CLASSIC_GROUP_METADATA).alias("type"), F.lit(True).alias("is_value")
        )
    )
    in_order = Window.partitionBy(*GROUP_KEY).orderBy("offset")
    batches = words.withColumn("batch", F.col("offset") - F.row_number().over(in_order))
    # The last value of a batch, not the values after each row: Spark would go through the rest of the batch again for each row.
    of_batch, is_value = Window.partitionBy(*GROUP_KEY, "batch"), F.col("is_value")
    is_classic = F.col("type") == CLASSIC_GROUP_METADATA
    has_classic, has_consumer = (
        F.max(F.when(is_value & of_protocol, F.col("offset"))).over(of_batch) > F.col("offset") for of_protocol in (is_classic, ~is_classic)
    )
    is_handover = F.coalesce(F.when(is_classic, has_consumer).otherwise(has_classic), F.lit(False))
    is_end = ~is_value & F.col("type").isin(CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA)
    ends = batches.withColumn("is_handover", is_handover).where(is_end)
    return ends.select(*GROUP_KEY, F.col("offset").alias("position"), "type", "is_handover")


def assign_incarnations(snapshots: DataFrame, ends: DataFrame, retained_from: date | None = None) -> DataFrame:
    """Return the snapshots with their ``incarnation`` and ``is_conversion``.

    An incarnation ends with a tombstone that is not a handover, or with a generation id lower than the one before. Its name is the position
    of its first known snapshot. At a conversion the coordinator itself writes the first classic value with members, and the first
    consumer-protocol snapshot if that repeats the generation: no assignor made them. It does not repeat the last known generation if a
    rebalance was open. Then the snapshot follows the classic tombstone, and its members are all of the classic protocol and at no epoch yet
    (``ConsumerGroup.fromClassicGroup``, 4.3.1). A group that takes the place of an empty one may repeat its generation too, and its
    target has an assignor. A first known target with a new member of the consumer protocol is none: a classic group
    without members, which only committed offsets, has a tombstone too when its first member comes.

    Args:
        snapshots: at least cluster_id, group_id, position, generation, state, group_type, members; all snapshots of the groups.
        ends: see ``ends_of_groups``.
        retained_from: first month that retention keeps; snapshots before it keep their values, since some of their records are deleted.
    """
    events = snapshots.unionByName(
        ends.select(*GROUP_KEY, "position", F.col("type").alias("ended"), "is_handover"), allowMissingColumns=True
    )
    in_order = Window.partitionBy(*GROUP_KEY).orderBy("position")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    is_snapshot = F.col("ended").isNull()
    is_end = ~is_snapshot & ~F.col("is_handover")

    def last(condition: Column, value: str) -> Column:
        return F.last(F.when(condition, F.col(value)), ignorenulls=True).over(before)

    events = events.withColumns(
        {
            "generation_before": last(is_snapshot, "generation"),
            "type_before": last(is_snapshot, "group_type"),
            "state_before": last(is_snapshot, "state"),
            "has_ended": F.coalesce(last(is_end, "position") > F.coalesce(last(is_snapshot, "position"), F.lit(-1)), F.lit(False)),
            "ended_before": F.lag("ended").over(in_order),
            "handed_over": F.coalesce(F.lag("is_handover").over(in_order), F.lit(False)),
        }
    )
    is_lower = F.col("generation_before").isNull() | (F.col("generation") < F.col("generation_before"))
    starts = is_snapshot & (F.col("has_ended") | is_lower)
    is_classic = F.col("group_type") == str(GroupType.CLASSIC)
    was_consumer = F.when(starts, F.col("ended_before") == CONSUMER_GROUP_METADATA).otherwise(
        F.col("type_before") == str(GroupType.CONSUMER)
    )
    turned_back = is_classic & was_consumer & (F.col("generation") > 1)
    is_of_classic_members = (F.size("members") > 0) & F.forall(
        "members", lambda member: member["session_timeout_ms"].isNotNull() & member["owned_generation"].isNull()
    )
    is_repeated = (F.col("generation") == F.col("generation_before")) & (F.col("state_before") != str(GroupState.EMPTY))
    was_classic = F.when(starts, F.col("ended_before") == CLASSIC_GROUP_METADATA).otherwise(
        (F.col("type_before") == str(GroupType.CLASSIC)) & (is_repeated | (F.col("handed_over") & is_of_classic_members))
    )
    has_newcomer = F.exists("members", lambda member: member["session_timeout_ms"].isNull() & member["owned_generation"].isNull())
    is_first_known = F.col("handed_over") & F.col("generation_before").isNull() & ~F.coalesce(has_newcomer, F.lit(False))
    turned_over = ~is_classic & was_classic & (~starts | is_first_known)
    is_conversion = is_snapshot & (F.col("state") != str(GroupState.EMPTY)) & (turned_back | turned_over)
    start, is_conversion = F.when(starts, F.col("position")), F.coalesce(is_conversion, F.lit(False))
    if retained_from is not None:
        is_settled = F.coalesce(F.col("observed_month") < F.lit(retained_from), F.lit(False))
        start = F.when(is_settled, F.col("incarnation")).otherwise(start)
        is_conversion = F.when(is_settled, F.col("is_conversion")).otherwise(is_conversion)
    marked = events.withColumns({"start": start, "is_conversion": is_conversion})
    named = marked.withColumn("incarnation", F.last("start", ignorenulls=True).over(in_order))
    return named.where(is_snapshot).drop(
        *("ended", "is_handover", "start", "generation_before", "type_before", "state_before"),
        *("has_ended", "ended_before", "handed_over"),
    )


def number_generations(snapshots: DataFrame, retained_from: date | None = None) -> DataFrame:
    """Return the snapshots, with those of a source without generations numbered from 1: each change of the fingerprint adds 1.

    Args:
        snapshots: at least cluster_id, group_id, position, generation, fingerprint, is_generation_inferred; all snapshots of the groups.
        retained_from: first month that retention keeps; snapshots before it, and the first that is left, keep their numbers.
    """
    in_order = Window.partitionBy(*GROUP_KEY, "is_generation_inferred").orderBy("position")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    before = F.lag("fingerprint").over(in_order)
    together = snapshots.repartition(*GROUP_KEY)  # so that the windows of whole groups need no other shuffle
    counted = together.withColumn("is_other", F.coalesce(F.col("fingerprint") != before, F.lit(False)).cast("int"))
    counted = counted.withColumn("others", F.sum("is_other").over(so_far))
    first = F.lit(1)
    if retained_from is not None:
        is_settled = (F.col("observed_month") < F.lit(retained_from)) | (F.row_number().over(in_order) == 1)
        counted = counted.withColumn("anchor", F.when(is_settled, F.col("generation") - F.col("others")))
        first = F.coalesce(F.last("anchor", ignorenulls=True).over(so_far), first)
    number = F.when(F.col("is_generation_inferred"), first + F.col("others")).otherwise(F.col("generation"))
    return counted.withColumn("generation", number.cast("int")).drop("is_other", "others", "anchor")


def _fold(context: RunContext, tables: Tables, records: DataFrame) -> DataFrame:
    """Return the snapshots of the KIP-848 groups among the records, from the first month that retention keeps."""
    looks = tables.read(TOPIC_SNAPSHOTS.name).where(F.col("topic_id").isNotNull())
    names: dict[str, dict[str, str]] = {}
    for cluster_id, topic_id, topic in looks.select("cluster_id", "topic_id", "topic").distinct().collect():
        names.setdefault(cluster_id, {})[topic_id] = topic
    of_protocol = records.where(F.col("type").isin(*RECORD_TYPES))
    columns = (*GROUP_KEY, "source", "offsets_partition", "offset", F.unix_millis("timestamp").alias("timestamp_ms"), "key", "value")
    in_order = keep_together(of_protocol.select(*columns), *GROUP_KEY).sortWithinPartitions(*GROUP_KEY, "offset")
    folded = in_order.mapInArrow(partial(decode_udfs.fold_groups, topic_names=names, limits=context.worker_limits), FOLDED_ROWS)
    added = {"observed_month": F.trunc("observed_at", "month")}
    added |= {"is_generation_inferred": F.lit(False), "has_subscriptions": F.lit(True), "placed_by": F.lit(None).cast("string")}
    folded = folded.withColumns(added)
    return folded if context.before.retained_from is None else folded.where(F.col("observed_month") >= F.lit(context.before.retained_from))


@dataclass(frozen=True)
class GroupHistories:
    """The changes that new records make to the histories of their groups.

    Attributes:
        landed_count: number of rows to write that are new snapshots; None if it is known only from the written table.
    """

    changes: tuple[TableChange, ...] = ()
    landed_count: int | None = 0


@dataclass(frozen=True)
class Landed:
    """What a run lands about groups and is not in ``ChangedTables``.

    Attributes:
        snapshots: new ones as they landed; none of them is folded.
        snapshot_count: their number.
        displaced: cluster_id, group_id, position, target of stored records that are displaced; None without any.
        touched: frames of other groups with stored snapshots that may change.
        folded: frames of the groups whose KIP-848 records have to be folded.
        has_looks: there is new topic metadata, which may have names for topic ids.
    """

    snapshots: DataFrame
    snapshot_count: int
    displaced: DataFrame | None
    touched: tuple[DataFrame, ...]
    folded: tuple[DataFrame, ...]
    has_looks: bool


def freshly_recorded_groups(tables: ChangedTables) -> DataFrame:
    """Return (cluster_id, group_id) of the KIP-848 groups with records of this run."""
    records = tables.appended(GROUP_RECORDS.name)
    assert records is not None, "asked only where there are some"
    return records.where(F.col("type").isin(*RECORD_TYPES)).select(*GROUP_KEY)


def _newly_named_groups(tables: ChangedTables, looks: DataFrame) -> DataFrame:
    """Return (cluster_id, group_id) of snapshots with a topic id that has a name in some topic metadata."""
    named = looks.select("cluster_id", F.concat(F.lit(UNRESOLVED), "topic_id").alias("topic")).distinct()
    members = F.col("members")
    entries = F.flatten(F.concat(members["assigned"], members["current"], members["pending_revocation"]))
    snapshots = tables.read(SUBSCRIPTION_SNAPSHOTS.name).where(is_folded())
    unresolved = snapshots.select(*GROUP_KEY, F.explode(entries["topic"]).alias("topic")).where(F.col("topic").startswith(UNRESOLVED))
    return unresolved.join(named, ["cluster_id", "topic"], "left_semi").select(*GROUP_KEY)


def groups_named_by(tables: Tables, looks: DataFrame) -> DataFrame:
    """Return (cluster_id, group_id) of the snapshots whose topic names may come from removed topic metadata."""
    snapshots = tables.read(SUBSCRIPTION_SNAPSHOTS.name).where(is_folded())
    return snapshots.join(looks.select("cluster_id").distinct(), ["cluster_id"], "left_semi").select(*GROUP_KEY)


def group_history(context: RunContext, tables: ChangedTables, landed: Landed) -> GroupHistories:
    """Return the new snapshots with the columns that depend on their neighbours, and the changes of stored snapshots.

    Args:
        tables: as after the run, without the changes of snapshots.
    """
    name = SUBSCRIPTION_SNAPSHOTS.name
    if tables.is_empty(name):
        return _first_history(context, tables, landed)
    looks = tables.appended(TOPIC_SNAPSHOTS.name) if landed.has_looks else None
    groups, has_folds = _touched_groups(tables, landed, looks)
    if groups is None:
        return GroupHistories()
    changed = _changed_snapshots(context, tables, landed, groups, has_folds)
    is_new = F.col("old_fingerprint").isNull()
    kinds = ("is_vanished", is_new.alias("is_new"), is_folded().alias("is_folded"))
    counts: Counter[str] = Counter()
    for row in changed.groupBy(*kinds).count().collect():
        kind = "vanished" if row["is_vanished"] else "folded" if row["is_folded"] else "landed"
        counts[kind if row["is_new"] or row["is_vanished"] else "rewritten"] += row["count"]
    if counts["rewritten"]:
        logger.info("rewriting %d stored snapshots that late or conflicting records change", counts["rewritten"])
    rows = changed.where(~F.col("is_vanished"))
    has_stored = counts["rewritten"] + counts["vanished"] > 0
    keys = changed.where(F.col("is_vanished") | ~is_new).select(*GENERATION_KEY) if has_stored else None
    append = rows.select(*SUBSCRIPTION_SNAPSHOTS.schema.names)
    changes = [TableChange(name, keys, GENERATION_KEY, append, counts["landed"] + counts["folded"] + counts["rewritten"])]
    if counts["vanished"]:
        logger.info("removing %d stored snapshots that late or conflicting records invalidate", counts["vanished"])
        changes += results_of(changed.where("is_vanished").select(*GENERATION_KEY), GENERATION_KEY)
    return GroupHistories(tuple(changes), counts["landed"])


def _first_history(context: RunContext, tables: ChangedTables, landed: Landed) -> GroupHistories:
    """Return all snapshots as new ones, since none are stored."""
    records = tables.read(GROUP_RECORDS.name)
    snapshots = landed.snapshots
    if landed.folded:
        snapshots = snapshots.unionByName(_fold(context, tables, records), allowMissingColumns=True)
    elif not landed.snapshot_count:
        return GroupHistories()
    named = assign_incarnations(number_generations(snapshots), ends_of_groups(records, landed.snapshots))
    marked = mark_conflicts(named, conflict_positions(tables, landed.snapshots))
    count = None if landed.folded else landed.snapshot_count
    return GroupHistories(
        (TableChange(SUBSCRIPTION_SNAPSHOTS.name, append=marked.withColumns(context.run_columns), append_count=count),), count
    )


def _touched_groups(tables: ChangedTables, landed: Landed, looks: DataFrame | None) -> tuple[StagedKeys | None, bool]:
    """Return the groups whose history has to be computed again, and whether any of them has ``is_refolded``.

    ``is_refolded`` is true if the records of the group have to be folded. The groups are None without any.
    """
    moved = [rows for rows in map(tables.appended, (GROUP_RECORDS.name, SUBSCRIPTION_SNAPSHOTS.name)) if rows is not None]
    others = [*landed.touched, *moved, *([landed.snapshots] if landed.snapshot_count else [])]
    named = [_newly_named_groups(tables, looks)] if looks is not None else []
    frames = [frame.select(*GROUP_KEY, F.lit(False).alias("is_refolded")) for frame in others]
    frames += [frame.select(*GROUP_KEY, F.lit(True).alias("is_refolded")) for frame in (*landed.folded, *named)]
    if not frames:
        return None, False
    together = reduce(DataFrame.unionByName, frames).groupBy(*GROUP_KEY)
    groups = tables.materialize_keys("touched_groups", together.agg(F.bool_or("is_refolded").alias("is_refolded")))
    if not groups.count:
        return None, False
    return groups, bool(landed.folded) or (bool(named) and not groups.rows.where("is_refolded").isEmpty())


def _changed_snapshots(context: RunContext, tables: ChangedTables, landed: Landed, groups: StagedKeys, has_folds: bool) -> DataFrame:
    """Return the snapshots of some groups that are new or differ from the stored ones.

    ``is_vanished`` is true for stored snapshots that no longer exist. These have only their key.
    """
    records = tables.read(GROUP_RECORDS.name).join(groups.select(*GROUP_KEY), list(GROUP_KEY), "left_semi")
    stored = tables.read(SUBSCRIPTION_SNAPSHOTS.name).join(groups.select(*GROUP_KEY, "is_refolded"), list(GROUP_KEY))
    old = {column: f"old_{column}" for column in COMPARED}
    stored = stored.withColumns({alias: F.col(column) for column, alias in old.items()})
    stored = stored.withColumn("old_has_conflict", F.coalesce("old_has_conflict", F.lit(False)))  # of older releases
    gone = [] if landed.displaced is None else [landed.displaced.select(*GENERATION_KEY, "target")]
    if not has_folds:
        events = stored.drop("is_refolded").unionByName(landed.snapshots, allowMissingColumns=True)
    else:
        is_stale = is_folded() & F.col("is_refolded")
        if context.before.retained_from is not None:  # records before it are incomplete after maintenance
            is_stale &= F.col("observed_month") >= F.lit(context.before.retained_from)
        kept = stored.where(~is_stale).drop("is_refolded")
        before = stored.where(is_stale).select(*GENERATION_KEY, *old.values())
        refolded = groups.select(*GROUP_KEY, "is_refolded").where("is_refolded").select(*GROUP_KEY)
        of_folds = records.join(refolded, list(GROUP_KEY), "left_semi")
        folded = tables.materialize("folded", _fold(context, tables, of_folds))
        now = folded.join(before, list(GENERATION_KEY), "left")
        events = kept.unionByName(landed.snapshots, allowMissingColumns=True).unionByName(now, allowMissingColumns=True)
        gone.append(before.join(folded, list(GENERATION_KEY), "left_anti").select(*GENERATION_KEY, F.lit("snapshot").alias("target")))
    numbered = number_generations(events, context.before.retained_from)
    classic = numbered.where(F.col("group_type") == str(GroupType.CLASSIC))
    named = assign_incarnations(numbered, ends_of_groups(records, classic), context.before.retained_from)
    named = mark_conflicts(named, conflict_positions(tables, landed.snapshots, groups.select(*GROUP_KEY)), context.before.retained_from)
    is_changed = reduce(Column.__or__, [~F.col(column).eqNullSafe(F.col(then)) for column, then in old.items()])
    if not gone:
        changed = named.where(is_changed).withColumn("is_vanished", F.lit(False))
        return tables.materialize("snapshots", changed.withColumns(context.run_columns))
    # Later stages cannot see that a row was removed. So the generation before it and all after it count as written again.
    missing = reduce(DataFrame.unionByName, gone)
    named = named.join(missing.groupBy(*GROUP_KEY).agg(F.min("position").alias("gone_from")), list(GROUP_KEY), "left")
    is_before = F.col("position") < F.col("gone_from")
    last_before = F.max(F.when(is_before, F.col("position"))).over(Window.partitionBy(*GROUP_KEY))
    named = named.withColumn("redo_from", F.when(F.col("gone_from").isNotNull(), F.coalesce(last_before, F.lit(-1))))
    is_changed |= F.coalesce(F.col("position") >= F.col("redo_from"), F.lit(False))
    changed = named.where(is_changed).withColumns({"is_vanished": F.lit(False), **context.run_columns})
    vanished = (
        missing.where(F.col("target") == "snapshot")
        .select(*GENERATION_KEY)
        .distinct()
        .join(events.select(*GENERATION_KEY), list(GENERATION_KEY), "left_anti")
    )
    vanished = vanished.withColumn("is_vanished", F.lit(True))
    return tables.materialize("snapshots", changed.unionByName(vanished, allowMissingColumns=True))


def mark_conflicts(snapshots: DataFrame, conflicts: DataFrame | None, retained_from: date | None = None) -> DataFrame:
    """Return the snapshots with ``has_conflict``: the first one at or after a position where contents differed, else the group's last.

    Args:
        snapshots: all snapshots of the groups.
        conflicts: as ``conflict_positions`` returns them.
        retained_from: first month that retention keeps; snapshots before it keep their values, since quarantine may have lost its rows.
    """
    has_conflict = F.lit(False)
    if conflicts is not None:
        in_order = Window.partitionBy(*GROUP_KEY).orderBy("position")
        of_group = conflicts.groupBy(*GROUP_KEY).agg(F.collect_set("position").alias("disputes"))
        around = {"before": F.coalesce(F.lag("position").over(in_order), F.lit(-1)), "after": F.lead("position").over(in_order)}
        snapshots = snapshots.withColumns(around).join(of_group, list(GROUP_KEY), "left")
        is_near = F.exists(
            "disputes", lambda position: (position > F.col("before")) & ((position <= F.col("position")) | F.col("after").isNull())
        )
        has_conflict = F.coalesce(is_near, F.lit(False))
    if retained_from is not None:
        has_conflict = F.when(F.col("observed_month") < F.lit(retained_from), F.col("old_has_conflict")).otherwise(has_conflict)
    return snapshots.withColumn("has_conflict", has_conflict).drop("before", "after", "disputes")
