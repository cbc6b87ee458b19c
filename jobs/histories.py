"""Each group's history out of what has landed: KIP-848 records folded into snapshots, incarnations named.

Records may land in any order. A group that got any is worked out again from all its records, and what differs from the stored rows is
written: so the tables come out as if everything had landed at once.
"""

from __future__ import annotations

import logging
from datetime import date
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from assignors.replay import UNRESOLVED
from jobs import decode_udfs
from jobs.assign import forget_results
from jobs.context import RunContext
from jobs.packing import GROUP
from jobs.settling import disputed_places, is_folded
from jobs.sources.consumer_group_fold import RECORD_TYPES, WORKED_OUT
from jobs.sources.consumer_offsets import CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA
from schemas.staging import FOLDED_ROWS
from schemas.tables import GROUP_RECORDS, SUBSCRIPTION_SNAPSHOTS, TOPIC_SNAPSHOTS
from schemas.vocabulary import GroupState, GroupType

logger = logging.getLogger(__name__)

KEY = (*GROUP, "position")
COMPARED = ("generation", "incarnation", "is_conversion", "is_disputed", *WORKED_OUT, "fingerprint")
"""Columns by which a stored snapshot is told from what it should be now."""


def ends_of_groups(records: DataFrame, classic: DataFrame) -> DataFrame:
    """Return the tombstones that ended a group or its protocol: cluster_id, group_id, position, type, is_handover.

    ``is_handover`` where the same batch goes on with a value of the other protocol: the coordinator turned the group over, and its
    history goes on. A batch is what stands at consecutive offsets.

    Args:
        records: ``group_records``.
        classic: snapshots of the classic protocol.
    """
    is_value = F.col("value").isNotNull()
    words = records.select(*GROUP, "offset", "type", is_value.alias("is_value")).unionByName(
        classic.select(
            *GROUP, F.col("position").alias("offset"), F.lit(CLASSIC_GROUP_METADATA).alias("type"), F.lit(True).alias("is_value")
        )
    )
    in_order = Window.partitionBy(*GROUP).orderBy("offset")
    batches = words.withColumn("batch", F.col("offset") - F.row_number().over(in_order))
    behind = Window.partitionBy(*GROUP, "batch").orderBy("offset").rowsBetween(1, Window.unboundedFollowing)
    is_classic = F.col("type") == CLASSIC_GROUP_METADATA
    has_classic = F.max(F.col("is_value") & is_classic).over(behind)
    has_consumer = F.max(F.col("is_value") & ~is_classic).over(behind)
    is_handover = F.coalesce(F.when(is_classic, has_consumer).otherwise(has_classic), F.lit(False))
    is_end = ~F.col("is_value") & F.col("type").isin(CLASSIC_GROUP_METADATA, CONSUMER_GROUP_METADATA)
    ends = batches.withColumn("is_handover", is_handover).where(is_end)
    return ends.select(*GROUP, F.col("offset").alias("position"), "type", "is_handover")


def name_incarnations(snapshots: DataFrame, ends: DataFrame, retained_from: date | None = None) -> DataFrame:
    """Return the snapshots with their ``incarnation`` and ``is_conversion``.

    An incarnation ends with a tombstone that is no handover, or a generation id lower than the one before; it is named by the position
    of its first known snapshot. Where the protocol changes, the coordinator wrote the first classic value with members itself, and the
    first consumer-protocol snapshot too when it repeats the generation: no assignor made them.

    Args:
        snapshots: at least cluster_id, group_id, position, generation, state, group_type; all of the groups concerned.
        ends: see ``ends_of_groups``.
        retained_from: first month that retention keeps; snapshots before it keep what they have, since not all that told it is left.
    """
    events = snapshots.unionByName(ends.select(*GROUP, "position", F.col("type").alias("ended"), "is_handover"), allowMissingColumns=True)
    in_order = Window.partitionBy(*GROUP).orderBy("position")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    is_snapshot = F.col("ended").isNull()
    is_end = ~is_snapshot & ~F.col("is_handover")

    def last(condition: Column, value: str) -> Column:
        return F.last(F.when(condition, F.col(value)), ignorenulls=True).over(before)

    events = events.withColumns(
        {
            "generation_before": last(is_snapshot, "generation"),
            "type_before": last(is_snapshot, "group_type"),
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
    was_classic = F.when(starts, F.col("ended_before") == CLASSIC_GROUP_METADATA).otherwise(
        (F.col("type_before") == str(GroupType.CLASSIC)) & (F.col("generation") == F.col("generation_before"))
    )
    turned_over = ~is_classic & was_classic & (~starts | (F.col("handed_over") & F.col("generation_before").isNull()))
    is_conversion = is_snapshot & (F.col("state") != str(GroupState.EMPTY)) & (turned_back | turned_over)
    start, is_conversion = F.when(starts, F.col("position")), F.coalesce(is_conversion, F.lit(False))
    if retained_from is not None:
        is_settled = F.coalesce(F.col("observed_month") < F.lit(retained_from), F.lit(False))
        start = F.when(is_settled, F.col("incarnation")).otherwise(start)
        is_conversion = F.when(is_settled, F.col("is_conversion")).otherwise(is_conversion)
    marked = events.withColumns({"start": start, "is_conversion": is_conversion})
    named = marked.withColumn("incarnation", F.last("start", ignorenulls=True).over(in_order))
    return named.where(is_snapshot).drop(
        "ended", "is_handover", "start", "generation_before", "type_before", "has_ended", "ended_before", "handed_over"
    )


def number_generations(snapshots: DataFrame, retained_from: date | None = None) -> DataFrame:
    """Return the snapshots, those of a source without generations numbered from 1: each that differs from the one before counts one more.

    Args:
        snapshots: at least cluster_id, group_id, position, generation, fingerprint, is_numbered; all of the groups concerned.
        retained_from: first month that retention keeps; snapshots before it, and the first that is left, keep the number they have.
    """
    in_order = Window.partitionBy(*GROUP, "is_numbered").orderBy("position")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    before = F.lag("fingerprint").over(in_order)
    counted = snapshots.withColumn("is_other", F.coalesce(F.col("fingerprint") != before, F.lit(False)).cast("int"))
    counted = counted.withColumn("others", F.sum("is_other").over(so_far))
    first = F.lit(1)
    if retained_from is not None:
        is_settled = (F.col("observed_month") < F.lit(retained_from)) | (F.row_number().over(in_order) == 1)
        counted = counted.withColumn("anchor", F.when(is_settled, F.col("generation") - F.col("others")))
        first = F.coalesce(F.last("anchor", ignorenulls=True).over(so_far), first)
    number = F.when(F.col("is_numbered"), first + F.col("others")).otherwise(F.col("generation"))
    return counted.withColumn("generation", number.cast("int")).drop("is_other", "others", "anchor")


def _fold(context: RunContext, records: DataFrame) -> DataFrame:
    """Return the snapshots of the KIP-848 groups among the records, from the first month on that retention keeps."""
    looks = context.warehouse.read(TOPIC_SNAPSHOTS.name).where(F.col("topic_id").isNotNull())
    names: dict[str, dict[str, str]] = {}
    for cluster_id, topic_id, topic in looks.select("cluster_id", "topic_id", "topic").distinct().collect():
        names.setdefault(cluster_id, {})[topic_id] = topic
    of_protocol = records.where(F.col("type").isin(*RECORD_TYPES))
    columns = (*GROUP, "source", "offsets_partition", "offset", F.unix_millis("timestamp").alias("timestamp_ms"), "key", "value")
    in_order = of_protocol.select(*columns).repartition(*GROUP).sortWithinPartitions(*GROUP, "offset")
    folded = in_order.mapInArrow(partial(decode_udfs.fold_groups, topic_names=names, limits=context.worker_limits), FOLDED_ROWS)
    added = {"observed_month": F.trunc("observed_at", "month")}
    added |= {"is_numbered": F.lit(False), "has_subscriptions": F.lit(True), "placed_by": F.lit(None).cast("string")}
    folded = folded.withColumns(added)
    return folded if context.retained_from is None else folded.where(F.col("observed_month") >= F.lit(context.retained_from))


def _groups_of(frames: list[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, [frame.select(*GROUP) for frame in frames]).distinct()


def freshly_recorded_groups(context: RunContext) -> DataFrame:
    """Return (cluster_id, group_id) of the KIP-848 groups with records of this run."""
    records = context.warehouse.read(GROUP_RECORDS.name)
    return records.where((F.col("run_sequence") == context.run_sequence) & F.col("type").isin(*RECORD_TYPES)).select(*GROUP).distinct()


def newly_named_groups(context: RunContext) -> DataFrame:
    """Return (cluster_id, group_id) of snapshots with a topic id that looks of this run have a name for."""
    warehouse = context.warehouse
    looks = warehouse.read(TOPIC_SNAPSHOTS.name).where(F.col("run_sequence") == context.run_sequence)
    named = looks.select("cluster_id", F.concat(F.lit(UNRESOLVED), "topic_id").alias("topic")).distinct()
    members = F.col("members")
    entries = F.flatten(F.concat(members["assigned"], members["current"], members["pending_revocation"]))
    snapshots = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).where(is_folded())
    unresolved = snapshots.select(*GROUP, F.explode(entries["topic"]).alias("topic")).where(F.col("topic").startswith(UNRESOLVED))
    return unresolved.join(named, ["cluster_id", "topic"], "left_semi").select(*GROUP).distinct()


def groups_named_by(context: RunContext, looks: DataFrame) -> DataFrame:
    """Return (cluster_id, group_id) of the snapshots whose topics may have got their names from looks that are gone."""
    snapshots = context.warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).where(is_folded())
    return snapshots.join(looks.select("cluster_id").distinct(), ["cluster_id"], "left_semi").select(*GROUP).distinct()


def rewrite_histories(
    context: RunContext, snapshots: DataFrame, displaced: DataFrame | None, touched: list[DataFrame], folded: list[DataFrame]
) -> int:
    """Write what the new records of this run make of their groups' histories; return how many of ``snapshots`` were written.

    Args:
        snapshots: new snapshots as they landed; none of them is folded.
        displaced: cluster_id, group_id, position, target of stored records that had to make room; None when there are none.
        touched: frames of further groups with stored snapshots that may change.
        folded: frames of the groups whose KIP-848 records have to be folded.
    """
    warehouse, name = context.warehouse, SUBSCRIPTION_SNAPSHOTS.name
    records = warehouse.read(GROUP_RECORDS.name)
    if warehouse.is_empty(name):  # nothing to compare with: written at once
        named = name_incarnations(
            number_generations(snapshots.unionByName(_fold(context, records), allowMissingColumns=True) if folded else snapshots),
            ends_of_groups(records, snapshots),
        )
        marked = mark_disputed(named, disputed_places(warehouse, snapshots))
        written = warehouse.append(name, marked.withColumns(context.run_columns))
        return written if not folded else warehouse.read(name).where(~is_folded()).count()
    fresh = records.where(F.col("run_sequence") == context.run_sequence)
    groups = warehouse.stage("touched_groups", _groups_of([snapshots, fresh, *touched, *folded]))
    folds = warehouse.stage("folded_groups", _groups_of(folded)) if folded else None
    named, vanished = _histories(context, snapshots, displaced, groups, folds)
    is_new = F.col("old_fingerprint").isNull()
    counted = named.groupBy(is_new.alias("is_new"), is_folded().alias("is_folded")).count().collect()
    counts: dict[tuple[bool, bool], int] = {(row["is_new"], row["is_folded"]): row["count"] for row in counted}
    rewritten = sum(count for (is_first, _), count in counts.items() if not is_first)
    if rewritten:
        logger.info("late or conflicting records change %d stored snapshots: rewriting these", rewritten)
        warehouse.delete(name, named.where(~is_new).select(*KEY), KEY)
    if vanished is not None:
        _take_back(context, vanished)
    warehouse.append(name, named.select(*SUBSCRIPTION_SNAPSHOTS.schema.names))
    return counts.get((True, False), 0)


def _histories(
    context: RunContext, snapshots: DataFrame, displaced: DataFrame | None, groups: DataFrame, folds: DataFrame | None
) -> tuple[DataFrame, DataFrame | None]:
    """Return the snapshots of the groups that are new or not as they are stored, and the places of stored ones that are none any more."""
    warehouse = context.warehouse
    records = warehouse.read(GROUP_RECORDS.name).join(groups, list(GROUP), "left_semi")
    stored = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name).join(groups, list(GROUP), "left_semi")
    old = {column: f"old_{column}" for column in COMPARED}
    stored = stored.withColumns({alias: F.col(column) for column, alias in old.items()})
    stored = stored.withColumn("old_is_disputed", F.coalesce("old_is_disputed", F.lit(False)))  # of older releases
    gone = []
    if folds is None:
        events = stored.unionByName(snapshots, allowMissingColumns=True)
    else:
        is_stale = is_folded()
        if context.retained_from is not None:  # what maintenance has left of the records before it gives these no more
            is_stale &= F.col("observed_month") >= F.lit(context.retained_from)
        stored = stored.join(folds.withColumn("is_refolded", F.lit(True)), list(GROUP), "left")
        is_stale &= F.coalesce("is_refolded", F.lit(False))
        kept = stored.where(~is_stale)
        before = stored.where(is_stale).select(*KEY, *old.values())
        folded = warehouse.stage("folded", _fold(context, records.join(folds, list(GROUP), "left_semi")))
        events = (
            kept.drop("is_refolded")
            .unionByName(snapshots, allowMissingColumns=True)
            .unionByName(folded.join(before, list(KEY), "left"), allowMissingColumns=True)
        )
        gone.append(before.join(folded, list(KEY), "left_anti").select(*KEY, F.lit("snapshot").alias("target")))
    if displaced is not None:
        gone.append(displaced.select(*KEY, "target"))
    events = number_generations(events, context.retained_from)
    classic = events.where(F.col("group_type") == str(GroupType.CLASSIC))
    named = name_incarnations(events, ends_of_groups(records, classic), context.retained_from)
    named = mark_disputed(named, disputed_places(warehouse, snapshots, groups), context.retained_from)
    is_changed = reduce(Column.__or__, [~F.col(now).eqNullSafe(F.col(then)) for now, then in old.items()])
    missing = warehouse.stage("gone", reduce(DataFrame.unionByName, gone)) if gone else None
    if missing is None or missing.isEmpty():
        return warehouse.stage("snapshots", named.where(is_changed).withColumns(context.run_columns)), None
    # Nothing tells later stages that something is gone: so the generation before it counts as written anew, and all behind it.
    first = missing.groupBy(*GROUP).agg(F.min("position").alias("gone_from"))
    named = named.join(first, list(GROUP), "left")
    is_before = F.col("position") < F.col("gone_from")
    last_before = F.max(F.when(is_before, F.col("position"))).over(Window.partitionBy(*GROUP))
    named = named.withColumn("redo_from", F.when(F.col("gone_from").isNotNull(), F.coalesce(last_before, F.lit(-1))))
    is_changed |= F.coalesce(F.col("position") >= F.col("redo_from"), F.lit(False))
    vanished = missing.where(F.col("target") == "snapshot").select(*KEY).distinct().join(events, list(KEY), "left_anti")
    vanished = warehouse.stage("vanished", vanished)
    changed = warehouse.stage("snapshots", named.where(is_changed).withColumns(context.run_columns))
    return changed, None if vanished.isEmpty() else vanished


def _take_back(context: RunContext, vanished: DataFrame) -> None:
    """Delete snapshots that a part of the log seemed to show, and all that was worked out of them."""
    logger.info("late records show that %d stored snapshots were none: taking them back", vanished.count())
    context.warehouse.delete(SUBSCRIPTION_SNAPSHOTS.name, vanished, KEY)
    forget_results(context.warehouse, vanished, KEY)


def mark_disputed(snapshots: DataFrame, places: DataFrame | None, retained_from: date | None = None) -> DataFrame:
    """Return the snapshots with ``is_disputed``: the first one at or behind a place where contents differed, else the group's last.

    Args:
        snapshots: all of the groups concerned.
        places: as ``disputed_places`` returns them.
        retained_from: first month that retention keeps; snapshots before it keep what they have, since quarantine may have lost its rows.
    """
    is_disputed = F.lit(False)
    if places is not None:
        in_order = Window.partitionBy(*GROUP).orderBy("position")
        of_group = places.groupBy(*GROUP).agg(F.collect_set("position").alias("disputes"))
        around = {"before": F.coalesce(F.lag("position").over(in_order), F.lit(-1)), "behind": F.lead("position").over(in_order)}
        snapshots = snapshots.withColumns(around).join(of_group, list(GROUP), "left")
        is_near = F.exists("disputes", lambda place: (place > F.col("before")) & ((place <= F.col("position")) | F.col("behind").isNull()))
        is_disputed = F.coalesce(is_near, F.lit(False))
    if retained_from is not None:
        is_disputed = F.when(F.col("observed_month") < F.lit(retained_from), F.col("old_is_disputed")).otherwise(is_disputed)
    return snapshots.withColumn("is_disputed", is_disputed).drop("before", "behind", "disputes")
