"""Causes and durations in coordinators' logs -> the audits of the generations that they are about.

A log may land before or after the records of its groups. So each run reads the events that are new since the last one, and the audits that
it has written itself. It looks at the generations of these groups from the first of both on, and changes the audits that have other causes.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.audit import udfs as audit_udfs
from jobs.audit.causes import CLOCKS_MS, EVENT_FIELDS, FIRST_MS
from jobs.audit.load_imbalance import AUDIT_KEY
from jobs.audit.new_commits import retained_rows
from jobs.context import RunContext
from jobs.workers.partitions import spread_groups
from schemas.keys import GENERATION_KEY, GROUP_KEY
from schemas.staging import EXPLAINED_ROWS
from schemas.tables import GENERATION_AUDITS, GROUP_EVENTS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import Basis, CoordinatorEvent

logger = logging.getLogger(__name__)

READ_HERE = f"{GROUP_EVENTS.name} for {GENERATION_AUDITS.name}"
"""The name under which ``runs.consumed`` records how far events were used."""
EXPLAINED = ("causes", "rebalance_ms", "assignment_ms")
_CLOCKS = timedelta(milliseconds=CLOCKS_MS)
_FIRST = timedelta(milliseconds=FIRST_MS)


def refresh(context: RunContext) -> None:
    """Update audits by the events of their groups."""
    warehouse, spec = context.warehouse, GENERATION_AUDITS
    if warehouse.is_empty(GROUP_EVENTS.name) or warehouse.is_empty(spec.name):
        return
    audits = retained_rows(context, spec.name).where(F.col("basis") == str(Basis.OBSERVED))  # of older ones the events are gone
    lines = warehouse.read(GROUP_EVENTS.name).where(F.col("event") != str(CoordinatorEvent.REBALANCE_SEEN))
    events = with_groups(lines)
    groups = warehouse.materialize_keys("explained_groups", _groups(context, audits, events))
    rows = _rows(warehouse.read(SUBSCRIPTION_SNAPSHOTS.name), audits, events, groups.select(*GROUP_KEY, "from_time"))
    explain = partial(audit_udfs.explain_generations, limits=context.worker_limits)
    # Lines of one millisecond are in the order of their content: that in which they were stored depends on when each piece of a log landed.
    in_order = spread_groups(rows).sortWithinPartitions(*GROUP_KEY, "order_ms", "is_generation", "position", *EVENT_FIELDS)
    found = in_order.mapInArrow(explain, EXPLAINED_ROWS)
    found = found.select(*GENERATION_KEY, *[F.col(name).alias(f"found_{name}") for name in EXPLAINED])
    joined = audits.join(found, list(GENERATION_KEY))
    differs = F.lit(False)
    for name in EXPLAINED:
        differs = differs | ~F.col(name).eqNullSafe(F.col(f"found_{name}"))
    now = {name: F.col(f"found_{name}") for name in EXPLAINED}
    rows_now = joined.where(differs).withColumns({**now, **context.run_columns}).select(*spec.schema.names)
    changed = warehouse.materialize_any("explained", rows_now)
    if changed is None:
        return
    count, _ = warehouse.replace(spec.name, changed, AUDIT_KEY, changed)
    logger.info("%d generations have causes or durations from coordinators' logs", count)


def with_groups(events: DataFrame) -> DataFrame:
    """Return the events of groups. The line of a member that is fenced does not name its group, but that of its replacement does."""
    is_named = F.col("group_id").isNotNull()
    replaced = events.where(is_named & (F.col("event") == str(CoordinatorEvent.STATIC_REPLACED)))
    of_member = replaced.groupBy("cluster_id", F.col("previous_member_id").alias("member_id")).agg(
        F.min("group_id").alias("group_id"), F.max("group_id").alias("last_group_id")
    )
    certain = of_member.where(F.col("group_id") == F.col("last_group_id")).drop("last_group_id")
    fenced = events.where(~is_named & (F.col("event") == str(CoordinatorEvent.STATIC_FENCED))).drop("group_id")
    return events.where(is_named).unionByName(fenced.join(certain, ["cluster_id", "member_id"]))


def _groups(context: RunContext, audits: DataFrame, events: DataFrame) -> DataFrame:
    """Return the groups to look at, with the time from which on: (cluster_id, group_id, ``from_time``)."""
    consumed = context.state.consumed.get(READ_HERE, 0)
    fresh = events.where(F.col("run_sequence") > consumed).groupBy(*GROUP_KEY).agg(F.min("logged_at").alias("from_time"))
    audited = audits.where(F.col("run_sequence") == context.run_sequence).groupBy(*GROUP_KEY).agg(F.min("observed_at").alias("from_time"))
    known = events.select(*GROUP_KEY).distinct()
    both = fresh.unionByName(audited.join(known, list(GROUP_KEY), "left_semi"))
    return both.groupBy(*GROUP_KEY).agg((F.min("from_time") - F.lit(_CLOCKS)).alias("from_time"))


def _rows(snapshots: DataFrame, audits: DataFrame, events: DataFrame, groups: DataFrame) -> DataFrame:
    """Return the events and the generations of groups. ``is_asked`` marks the generations to explain.

    The last generation before ``from_time`` is among them, since the next one is compared with it. By ``order_ms`` generations are in the
    order of their positions, which times are not where the clock of the coordinator steps back: it is the latest time so far.
    """
    named = snapshots.join(groups, list(GROUP_KEY))
    is_before = F.col("observed_at") < F.col("from_time")
    last_before = F.max(F.when(is_before, F.struct("position", "observed_at")))
    first = named.groupBy(*GROUP_KEY, "from_time").agg(
        F.coalesce(last_before["position"], F.min("position")).alias("first_position"),
        F.coalesce(last_before["observed_at"], F.min("from_time") - F.lit(_FIRST)).alias("events_from"),
    )
    kept = snapshots.join(first, list(GROUP_KEY)).where(F.col("position") >= F.col("first_position"))
    at_ms = F.unix_millis("observed_at")
    so_far = Window.partitionBy(*GROUP_KEY).orderBy("position").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    generations = kept.select(
        *GENERATION_KEY,
        at_ms.alias("at_ms"),
        F.max(at_ms).over(so_far).alias("order_ms"),
        F.lit(1).alias("is_generation"),
        (F.col("observed_at") >= F.col("from_time")).alias("is_asked"),
        *("generation", "incarnation"),
        F.col("members")["member_id"].alias("member_ids"),
        F.col("members")["group_instance_id"].alias("instance_ids"),
    ).join(audits.select(*GENERATION_KEY, "causes", "triggers"), list(GENERATION_KEY), "left")
    logged = (
        events.join(first, list(GROUP_KEY))
        .where(F.col("logged_at") >= F.col("events_from") - F.lit(_CLOCKS))
        .withColumn("at_ms", F.unix_millis("logged_at"))
        .select(*GROUP_KEY, "at_ms", F.col("at_ms").alias("order_ms"), F.lit(0).alias("is_generation"), *EVENT_FIELDS)
    )
    return generations.unionByName(logged, allowMissingColumns=True)
