"""Causes that no log says and commits make likely: the session of a member expired; see ``expired_sessions``.

The last commit of a member is that of the partitions that others took over, which ``movements`` has. Commits themselves are read only for
members that have been silent for longer than their session timeout, at most ``LOOK_BACK`` before the generation and ``LOOK_AHEAD`` after
it.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from assignors.audit.movements import REASSIGNED
from assignors.audit.triggers import Trigger
from jobs.audit.causes import OF_DEPARTURES
from jobs.audit.expired_sessions import COMMIT_FIELDS, DEPARTURE_FIELDS, find_expired_sessions
from jobs.audit.load_imbalance import AUDIT_KEY
from jobs.audit.new_commits import CLOCKS_DIFFER, READ_HERE, counts_from, retained_rows, rows_since
from jobs.context import RunContext
from jobs.storage.hashed_keys import hashed
from jobs.storage.scratch import MOST_KEYS_SENT, StagedKeys
from jobs.workers.partitions import keep_together
from schemas.keys import GENERATION_KEY, GROUP_KEY, PARTITION_KEY
from schemas.staging import EXPIRED_SESSIONS
from schemas.tables import GENERATION_AUDITS, MOVEMENTS, OFFSET_SNAPSHOTS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import Basis, Cause, CauseSource, GroupType

logger = logging.getLogger(__name__)

LOOK_BACK = timedelta(hours=1)
"""How far before a generation commits are read."""
LOOK_AHEAD = timedelta(minutes=2)
"""How far after a generation commits of the new owners are read, and at most half of the silence."""
HEARTBEAT_MS = 5_000
"""Kafka's default of ``group.consumer.heartbeat.interval.ms``. Under the consumer protocol a session begins at the last heartbeat, which
may be so much before the last commit. The next target may be made so much after its end, at a heartbeat of another member. Under the
classic protocol a commit counts as a heartbeat."""
MEMBER_KEY = (*GENERATION_KEY, "member_id")
TIMEOUTS = ("session_timeout_ms", "rebalance_timeout_ms", "heartbeat_ms")


def silent_departures(movements: DataFrame, snapshots: DataFrame, consumer_session_ms: int) -> DataFrame:
    """Return the members that left, and whose last commit is older than their session timeout and younger than their rebalance timeout.

    Rows: ``MEMBER_KEY``; observed_at, since (time of the generation in which the member had its partitions), last_at (of its last commit),
    session_timeout_ms, rebalance_timeout_ms, heartbeat_ms (see ``HEARTBEAT_MS``; 0 under the classic protocol). Members that have not
    committed since then are left out, as are those without recorded timeouts.

    Args:
        movements: observed ones of the generations to look at.
        snapshots: rows of ``subscription_snapshots``.
        consumer_session_ms: session timeout of members of the consumer protocol. The coordinator decides it, and no record has it.
    """
    taken_over = movements.where((F.col("kind") == REASSIGNED) & F.col("committed_at").isNotNull())
    moved = taken_over.groupBy(*GENERATION_KEY, "observed_at", F.col("previous_member_id").alias("member_id")).agg(
        F.max("previous_generation").alias("held_generation"), F.max("committed_at").alias("last_at")
    )
    present = snapshots.select(*GENERATION_KEY, F.col("members.member_id").alias("present"))
    gone = moved.join(present, list(GENERATION_KEY)).where(~F.array_contains("present", F.col("member_id"))).drop("present")
    held = snapshots.select(
        *GROUP_KEY,
        "group_type",
        F.col("generation").alias("held_generation"),
        F.col("position").alias("held_position"),
        F.col("observed_at").alias("since"),
        F.inline(
            F.arrays_zip(*[F.col("members")[name].alias(name) for name in ("member_id", "session_timeout_ms", "rebalance_timeout_ms")])
        ),
    )
    is_of_consumer = F.coalesce(F.col("group_type") == str(GroupType.CONSUMER), F.lit(False))
    assumed_ms = F.coalesce("session_timeout_ms", F.when(is_of_consumer, F.lit(consumer_session_ms)))
    timed = held.withColumns({"session_timeout_ms": assumed_ms, "heartbeat_ms": F.when(is_of_consumer, HEARTBEAT_MS).otherwise(F.lit(0))})
    before = gone.join(timed, [*GROUP_KEY, "held_generation", "member_id"]).where("held_position < position")
    names = ("since", *TIMEOUTS)
    newest = before.groupBy(*MEMBER_KEY, "observed_at", "last_at").agg(*[F.max_by(name, "held_position").alias(name) for name in names])
    is_silent = _silence_ms() + F.col("heartbeat_ms") > F.col("session_timeout_ms")
    return newest.where(is_silent & (_silence_ms() < F.col("rebalance_timeout_ms")) & (F.col("last_at") > F.col("since")))


def _silence_ms() -> Column:
    return F.unix_millis("observed_at") - F.unix_millis("last_at")


def commits_around(silent: DataFrame, movements: DataFrame, commits: DataFrame) -> DataFrame:
    """Return the commits of their groups around the departures of silent members: those before, and those of the new owners after it.

    Rows: (cluster_id, group_id), ``DEPARTURE_FIELDS`` and ``COMMIT_FIELDS``; those of a departure come in one partition, by time,
    and those of one millisecond by offset.

    Args:
        silent: as ``silent_departures`` returns them.
        movements: the same as there.
        commits: rows of ``offset_snapshots`` from ``LOOK_BACK`` before the generations on.
    """
    own = (
        movements.where(F.col("kind") == REASSIGNED)
        .withColumn("member_id", F.col("previous_member_id"))
        .join(F.broadcast(silent.select(*MEMBER_KEY)), list(MEMBER_KEY), "left_semi")
        .select(*PARTITION_KEY, "position", "member_id", F.lit(True).alias("is_owned"))
    )
    ahead_ms = F.least(_silence_ms() / 2, F.lit(LOOK_AHEAD.total_seconds() * 1000)).cast("bigint")
    times = {
        "from_time": F.greatest("since", F.col("observed_at") - F.lit(LOOK_BACK)),
        "to_time": F.timestamp_millis(F.unix_millis("observed_at") + ahead_ms),
        "observed_us": F.unix_micros("observed_at"),
        "last_us": F.unix_micros("last_at"),
    }
    made = commits.where("NOT is_deleted AND committed_at IS NOT NULL").select(
        *PARTITION_KEY, "committed_at", "committed_offset", F.unix_micros("committed_at").alias("committed_us")
    )
    near = made.join(F.broadcast(silent.withColumns(times)), list(GROUP_KEY))
    around = near.where("committed_at > from_time AND committed_at <= to_time")
    marked = around.join(F.broadcast(own), [*PARTITION_KEY, "position", "member_id"], "left")
    marked = marked.withColumn("is_own", F.coalesce("is_owned", F.lit(False))).where("is_own OR committed_us < observed_us")
    chosen = marked.select(*GROUP_KEY, *DEPARTURE_FIELDS, *COMMIT_FIELDS)
    return keep_together(chosen, *MEMBER_KEY).sortWithinPartitions(
        *hashed(*MEMBER_KEY), "committed_us", "topic", "partition", "committed_offset"
    )


def _is_logged_departure(cause: Column) -> Column:
    is_departure = cause["cause"].isin(sorted(one.value for one in OF_DEPARTURES))
    return is_departure & (cause["source"] == str(CauseSource.LOG)) & cause["member_id"].isNotNull()


def with_inferred(audits: DataFrame, expired: DataFrame | None) -> DataFrame:
    """Return audits with the causes that are inferred now, after the others. A member whose departure is in a log gets none.

    Args:
        expired: rows of ``EXPIRED_SESSIONS``; None if there are none.
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


def _since(silent: DataFrame) -> datetime:
    """Return a time before which no commit is needed.

    Args:
        silent: one member at least.
    """
    (row,) = silent.agg(F.min("observed_at").alias("first")).collect()
    first: datetime = row["first"]
    return first - LOOK_BACK - CLOCKS_DIFFER


def find_expired(context: RunContext, groups: StagedKeys | None, departures: StagedKeys | None, *, with_new: bool) -> DataFrame | None:
    """Return the members of generations whose session has likely expired, as rows of ``EXPIRED_SESSIONS``; None if there are none.

    The movements of these generations are stored already.

    Args:
        groups: at least the groups of new audits; None if these are all or most groups.
        departures: stored audits to look at, see ``departures_near_commits``; None if there are none.
        with_new: also look at the generations that this run audits.
    """
    warehouse = context.warehouse
    if warehouse.is_empty(OFFSET_SNAPSHOTS.name):
        return None
    parts = [warehouse.read_new(MOVEMENTS.name, context.run_sequence - 1)] if with_new else []
    if departures is not None:
        parts.append(warehouse.read(MOVEMENTS.name).join(departures.select(*GENERATION_KEY), list(GENERATION_KEY), "left_semi"))
    observed = reduce(DataFrame.unionByName, parts).where(F.col("basis") == str(Basis.OBSERVED))
    consumer_session_ms = round(context.settings.audit.consumer_session_timeout_s * 1000)
    snapshots = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name)
    if groups is not None or not with_new:
        keys = [one for one in (groups, departures) if one is not None]
        together = reduce(DataFrame.unionByName, [one.rows.select(*GROUP_KEY) for one in keys])
        are_few = sum(one.count for one in keys) <= MOST_KEYS_SENT
        snapshots = snapshots.join(F.broadcast(together) if are_few else together, list(GROUP_KEY), "left_semi")
    kept = warehouse.materialize_keys("silent_departures", silent_departures(observed, snapshots, consumer_session_ms))
    if not kept.count:
        return None
    silent = kept.rows
    commits = rows_since(warehouse.read(OFFSET_SNAPSHOTS.name), _since(silent))
    find = partial(find_expired_sessions, limits=context.worker_limits)
    expired = commits_around(silent, observed, commits).mapInArrow(find, EXPIRED_SESSIONS)
    return warehouse.materialize_any("expired_sessions", expired)


def departures_near_commits(context: RunContext) -> StagedKeys | None:
    """Return the stored audits whose inferred causes new commits may change; None if there are none.

    The commits may be up to ``LOOK_AHEAD`` later.
    """
    warehouse, name = context.warehouse, GENERATION_AUDITS.name
    since = context.unread(OFFSET_SNAPSHOTS.name, READ_HERE[OFFSET_SNAPSHOTS.name])
    if since is None or not context.before.written.get(name):
        return None
    left = F.array(*[F.lit(trigger.value) for trigger in (Trigger.MEMBER_LEFT, Trigger.MEMBER_REPLACED)])
    has_left = (F.col("basis") == str(Basis.OBSERVED)) & F.arrays_overlap("triggers", left)
    fresh = warehouse.read_new(OFFSET_SNAPSHOTS.name, since)
    groups = fresh.groupBy(*GROUP_KEY).agg(F.min(counts_from()).alias("from_time"))
    audits = retained_rows(context, name).where(has_left)
    is_near = F.col("observed_at") + F.lit(LOOK_AHEAD) > F.col("from_time")
    near = audits.join(F.broadcast(groups), list(GROUP_KEY)).where(is_near).select(*audits.columns)
    departures = warehouse.materialize_keys("departures_near_commits", near)
    return departures if departures.count else None


def inferred_otherwise(
    context: RunContext, departures: StagedKeys, expired: DataFrame | None, name: str = "inferred_otherwise"
) -> StagedKeys | None:
    """Return the audits of earlier runs whose inferred causes change, as they are now; None if there are none.

    Args:
        departures: as ``departures_near_commits`` returns them.
        expired: as ``find_expired`` returns them.
        name: of these rows in scratch.
    """
    now = with_inferred(departures.rows.withColumn("stored_causes", F.col("causes")), expired)
    otherwise = now.where(~F.col("causes").eqNullSafe(F.col("stored_causes")))
    changed = context.warehouse.materialize_keys(name, otherwise.select(*GENERATION_AUDITS.schema.names))
    if not changed.count:
        return None
    logger.info("newly landed commits change the likely causes of %d generations of earlier runs", changed.count)
    return changed


def refresh(context: RunContext) -> None:
    """Change the inferred causes of stored audits that new commits affect."""
    departures = departures_near_commits(context)
    if departures is None:
        return
    expired = find_expired(context, None, departures, with_new=False)
    changed = inferred_otherwise(context, departures, expired, "inferred_later")
    if changed is not None:
        context.warehouse.replace(GENERATION_AUDITS.name, changed.rows, AUDIT_KEY, changed.rows.withColumns(context.run_columns))
