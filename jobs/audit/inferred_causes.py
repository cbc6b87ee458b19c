"""Causes that no log says and commits make likely: the session of a member expired.

A member that commits regularly stops, the members around it go on, and after its session timeout it is gone. None of these is enough alone.
A consumer without new records may commit nothing for hours and then close. A member whose last commit is older than its rebalance timeout
gets no cause, because it may have left after a poll that took too long.

The last commit of a member is that of the partitions that others took over, which ``movements`` has. Commits themselves are read only for
members that have been silent for longer than their session timeout, and at most ``LOOK_BACK`` far.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from assignors.audit.movements import REASSIGNED
from assignors.audit.triggers import Trigger
from jobs.audit.causes import OF_DEPARTURES
from jobs.audit.load_imbalance import AUDIT_KEY
from jobs.audit.new_commits import CLOCKS_DIFFER, NewCommits, earlier_rows
from jobs.context import RunContext
from schemas.keys import GENERATION_KEY, GROUP_KEY, PARTITION_KEY
from schemas.tables import GENERATION_AUDITS, MOVEMENTS, OFFSET_SNAPSHOTS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import Basis, Cause, CauseSource

logger = logging.getLogger(__name__)

FEWEST_COMMITS = 10
"""How often a member must have committed before. With fewer commits a random pause is often as long as a session."""
LOOK_BACK = timedelta(hours=1)
"""How far before a generation commits are read."""
TIMES_LONGEST_GAP = 2
"""A silence must be this many times as long as the longest one before."""
MEMBER_KEY = (*GENERATION_KEY, "member_id")


def silent_departures(movements: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return the members that left, and whose last commit is older than their session timeout and younger than their rebalance timeout.

    Rows: ``MEMBER_KEY``; observed_at, since (time of the generation in which the member had its partitions), last_at (of its last commit),
    session_timeout_ms. Members that have not committed since then are left out, as are those without recorded timeouts: under the consumer
    protocol the coordinator decides them.

    Args:
        movements: observed ones of the generations to look at.
        snapshots: rows of ``subscription_snapshots``.
    """
    taken_over = movements.where((F.col("kind") == REASSIGNED) & F.col("committed_at").isNotNull())
    gone = taken_over.groupBy(*GENERATION_KEY, "observed_at", F.col("previous_member_id").alias("member_id")).agg(
        F.max("previous_generation").alias("held_generation"), F.max("committed_at").alias("last_at")
    )
    held = snapshots.select(
        *GROUP_KEY,
        F.col("generation").alias("held_generation"),
        F.col("position").alias("held_position"),
        F.col("observed_at").alias("since"),
        F.inline(
            F.arrays_zip(*[F.col("members")[name].alias(name) for name in ("member_id", "session_timeout_ms", "rebalance_timeout_ms")])
        ),
    )
    before = gone.join(held, [*GROUP_KEY, "held_generation", "member_id"]).where("held_position < position")
    newest = before.groupBy(*MEMBER_KEY, "observed_at", "last_at").agg(
        *[F.max_by(name, "held_position").alias(name) for name in ("since", "session_timeout_ms", "rebalance_timeout_ms")]
    )
    silence_ms = F.unix_millis("observed_at") - F.unix_millis("last_at")
    is_silent = (silence_ms > F.col("session_timeout_ms")) & (silence_ms < F.col("rebalance_timeout_ms"))
    return newest.where(is_silent & (F.col("last_at") > F.col("since"))).drop("rebalance_timeout_ms")


def likely_expired(silent: DataFrame, movements: DataFrame, commits: DataFrame) -> DataFrame:
    """Return the silent members that had committed regularly, while others of their group went on.

    Rows: ``MEMBER_KEY``; silence_ms, session_timeout_ms.

    Args:
        silent: as ``silent_departures`` returns them.
        movements: the same as there.
        commits: rows of ``offset_snapshots`` from ``LOOK_BACK`` before the generations on.
    """
    own = (
        movements.where(F.col("kind") == REASSIGNED)
        .withColumn("member_id", F.col("previous_member_id"))
        .join(F.broadcast(silent.select(*MEMBER_KEY)), list(MEMBER_KEY), "left_semi")
        .select(*PARTITION_KEY, "position", "member_id", F.lit(True).alias("is_own"))
    )
    asked = silent.withColumn("from_time", F.greatest("since", F.col("observed_at") - F.lit(LOOK_BACK)))
    made = commits.where("NOT is_deleted AND committed_at IS NOT NULL").select(*PARTITION_KEY, "committed_at")
    around = made.join(F.broadcast(asked), list(GROUP_KEY)).where("committed_at > from_time AND committed_at < observed_at")
    marked = around.join(F.broadcast(own), [*PARTITION_KEY, "position", "member_id"], "left")
    # One request commits many partitions.
    is_own = F.coalesce(F.bool_or("is_own"), F.lit(False)).alias("is_own")
    requests = marked.groupBy(*MEMBER_KEY, "observed_at", "last_at", "session_timeout_ms", "committed_at").agg(is_own)
    in_order = Window.partitionBy(*MEMBER_KEY, "is_own").orderBy("committed_at")
    gap_ms = F.unix_millis("committed_at") - F.unix_millis(F.lag("committed_at").over(in_order))
    by_member = (
        requests.withColumn("gap_ms", gap_ms)
        .groupBy(*MEMBER_KEY, "observed_at", "last_at", "session_timeout_ms")
        .agg(
            F.count_if("is_own").alias("own_count"),
            F.max(F.when(F.col("is_own"), F.col("gap_ms"))).alias("gap_ms"),
            F.max(F.when(~F.col("is_own"), F.col("committed_at"))).alias("others_at"),
        )
    )
    silence_ms = F.unix_millis("observed_at") - F.unix_millis("last_at")
    is_regular = (F.col("own_count") >= FEWEST_COMMITS) & (silence_ms >= TIMES_LONGEST_GAP * F.col("gap_ms"))
    others_went_on = F.unix_millis("others_at") - F.unix_millis("last_at") > F.col("session_timeout_ms") / 2
    return by_member.where(is_regular & others_went_on).select(*MEMBER_KEY, silence_ms.alias("silence_ms"), "session_timeout_ms")


def _is_logged_departure(cause: Column) -> Column:
    is_departure = cause["cause"].isin(sorted(one.value for one in OF_DEPARTURES))
    return is_departure & (cause["source"] == str(CauseSource.LOG)) & cause["member_id"].isNotNull()


def with_inferred(audits: DataFrame, expired: DataFrame | None) -> DataFrame:
    """Return audits with the causes that are inferred now, after the others. A member whose departure is in a log gets none.

    Args:
        expired: as ``likely_expired`` returns them; None if there are none.
    """
    known = F.filter("causes", lambda one: one["source"] != str(CauseSource.INFERRED))
    if expired is None:
        return audits.withColumn("causes", known)
    seconds = [F.format_string("%.0f s", F.col(name) / 1000) for name in ("silence_ms", "session_timeout_ms")]
    detail = F.concat(F.lit("likely: its last commit was "), seconds[0], F.lit(" before, and its session timeout is "), seconds[1])
    values = {
        "cause": F.lit(Cause.SESSION_EXPIRED.value),
        "member_id": F.col("member_id"),
        "source": F.lit(CauseSource.INFERRED.value),
        "detail": detail,
    }
    cause = F.struct(*[value.alias(name) for name, value in values.items()])
    by_generation = expired.groupBy(*GENERATION_KEY).agg(F.sort_array(F.collect_list(cause)).alias("found"))
    columns = {
        "known": known,
        "gone": F.transform(F.filter("causes", _is_logged_departure), lambda one: one["member_id"]),
    }
    joined = audits.join(F.broadcast(by_generation), list(GENERATION_KEY), "left").withColumns(columns)
    found = F.filter(F.coalesce("found", F.array()), lambda one: ~F.array_contains("gone", one["member_id"]))
    return joined.withColumn("causes", F.concat("known", found)).select(*audits.columns)


def _since(silent: DataFrame) -> datetime | None:
    """Return a time before which no commit is needed; None without a silent member."""
    (row,) = silent.agg(F.min("observed_at").alias("first")).collect()
    return None if row["first"] is None else row["first"] - LOOK_BACK - CLOCKS_DIFFER


def find_expired(context: RunContext, movements: DataFrame) -> DataFrame | None:
    """Return the members of generations whose session has likely expired, as ``likely_expired`` does; None if there are none.

    Args:
        movements: all of the generations to look at, stored.
    """
    warehouse = context.warehouse
    if warehouse.is_empty(OFFSET_SNAPSHOTS.name):
        return None
    observed = movements.where(F.col("basis") == str(Basis.OBSERVED))
    departures = silent_departures(observed, warehouse.read(SUBSCRIPTION_SNAPSHOTS.name))
    silent = warehouse.materialize_any("silent_departures", departures)
    if silent is None:
        return None
    commits = warehouse.read(OFFSET_SNAPSHOTS.name).where(F.col("observed_month") >= F.trunc(F.lit(_since(silent)), "month"))
    return warehouse.materialize_any("expired_sessions", likely_expired(silent, observed, commits))


def refresh(context: RunContext, news: NewCommits) -> None:
    """Change the inferred causes of earlier generations that new commits affect."""
    if news.late_commits is None:
        return
    warehouse, spec = context.warehouse, GENERATION_AUDITS
    groups = news.late_commits.groupBy(*GROUP_KEY).agg(F.min("from_time").alias("from_time"))
    left = F.array(*[F.lit(trigger.value) for trigger in (Trigger.MEMBER_LEFT, Trigger.MEMBER_REPLACED)])
    has_left = (F.col("basis") == str(Basis.OBSERVED)) & F.arrays_overlap("triggers", left)
    audits = earlier_rows(context, spec.name).where(has_left)
    affected = audits.join(F.broadcast(groups), list(GROUP_KEY)).where("observed_at > from_time").select(*audits.columns)
    movements = warehouse.read(MOVEMENTS.name).join(affected.select(*GENERATION_KEY), list(GENERATION_KEY), "left_semi")
    expired = find_expired(context, movements)
    now = with_inferred(affected.withColumn("stored_causes", F.col("causes")), expired)
    otherwise = now.where(~F.col("causes").eqNullSafe(F.col("stored_causes"))).withColumns(context.run_columns)
    changed = warehouse.materialize_any("inferred_otherwise", otherwise.select(*spec.schema.names))
    if changed is None:
        return
    count, _ = warehouse.replace(spec.name, changed, AUDIT_KEY, changed)
    logger.info("newly landed commits change the likely causes of %d generations of earlier runs", count)
