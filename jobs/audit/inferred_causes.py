"""Causes that no log says and commits make likely: the session of a member expired.

A member that commits regularly stops, its records go on, and when its session timeout is over it is gone. None of these is enough alone.
A consumer without new records may commit nothing for hours and then close. A member that leaves also seems silent if another one joins
again late: the generation without it comes only then. So the silence has to be about as long as the session timeout. A member that has
polled nothing for its rebalance timeout leaves by itself.

The last commit of a member is that of the partitions that others took over, which ``movements`` has. Commits themselves are read only for
members that have been silent for longer than their session timeout, at most ``LOOK_BACK`` before the generation and ``LOOK_AHEAD`` after
it. ``tests/kafka/test_expired_sessions.py`` compares all this with members of real clients.
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
from jobs.audit.new_commits import CLOCKS_DIFFER, READ_HERE, earlier_rows
from jobs.context import RunContext
from jobs.storage.scratch import StagedKeys
from schemas.keys import GENERATION_KEY, GROUP_KEY, PARTITION_KEY
from schemas.tables import GENERATION_AUDITS, MOVEMENTS, OFFSET_SNAPSHOTS, SUBSCRIPTION_SNAPSHOTS
from schemas.vocabulary import Basis, Cause, CauseSource, GroupType

logger = logging.getLogger(__name__)

FEWEST_COMMITS = 10
"""How often a member must have committed before. With fewer commits a random pause is often as long as a session."""
LOOK_BACK = timedelta(hours=1)
"""How far before a generation commits are read."""
LOOK_AHEAD = timedelta(minutes=2)
"""How far after a generation commits of the new owners are read, and at most half of the silence."""
TIMES_LONGEST_GAP = 2
"""A silence must be this many times as long as the longest one before."""
SLACK = 0.25
"""The part of its session timeout by which the generation may be later: the others join again at their next heartbeat and poll."""
LEAST_SLACK_MS = 1_000
"""The same where all others have waited for the member: they had joined again before."""
LEAST_GROWTH = 0.5
"""The part of the usual number of records that must have come in since the last commit. An idle member had none."""
UNCHANGED_COMMITS = 3
"""A client that has committed the same offsets so often also commits without records. Then its silence does not mean that none came."""
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

    Rows: the columns of ``silent``; topic, partition, committed_at, committed_offset, ``is_own`` (of a partition that was taken over from
    the member), ``is_before`` (the departure), ``is_unchanged`` (as the commit before of the partition; null for the first).

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
    }
    made = commits.where("NOT is_deleted AND committed_at IS NOT NULL").select(*PARTITION_KEY, "committed_at", "committed_offset")
    near = made.join(F.broadcast(silent.withColumns(times)), list(GROUP_KEY))
    around = near.where("committed_at > from_time AND committed_at <= to_time")
    marked = around.join(F.broadcast(own), [*PARTITION_KEY, "position", "member_id"], "left").withColumns(
        {"is_own": F.coalesce("is_owned", F.lit(False)), "is_before": F.col("committed_at") < F.col("observed_at")}
    )
    of_partition = Window.partitionBy(*MEMBER_KEY, "topic", "partition").orderBy("committed_at")
    is_unchanged = F.col("committed_offset") == F.lag("committed_offset").over(of_partition)
    return marked.where("is_before OR is_own").withColumn("is_unchanged", is_unchanged).drop("is_owned", "from_time", "to_time")


def _with_records(around: DataFrame) -> DataFrame:
    """Return the members for some of whose partitions the new owners soon committed about as many records as usual: ``MEMBER_KEY``.

    Args:
        around: as ``commits_around`` returns them.
    """
    before, after = F.when(F.col("is_before"), F.col("committed_at")), F.when(~F.col("is_before"), F.col("committed_at"))
    ends = around.where("is_own").groupBy(*MEMBER_KEY, "topic", "partition")
    chosen = {
        "first": F.min_by(F.struct("committed_offset", "committed_at"), before),
        "last": F.max_by(F.struct("committed_offset", "committed_at"), before),
        "next": F.max_by(F.struct("committed_offset", "committed_at"), after),
    }
    by_partition = ends.agg(*[column.alias(name) for name, column in chosen.items()])

    def between(start: str, end: str) -> tuple[Column, Column]:
        first, last = F.col(start), F.col(end)
        records = last["committed_offset"].cast("double") - first["committed_offset"].cast("double")
        return records, (F.unix_millis(last["committed_at"]) - F.unix_millis(first["committed_at"])).cast("double")

    (usual, usual_ms), (since, since_ms) = between("first", "last"), between("last", "next")
    goes_on = (usual > 0) & (since * usual_ms >= F.lit(LEAST_GROWTH) * usual * since_ms)
    return by_partition.where(goes_on).select(*MEMBER_KEY).distinct().withColumn("has_records", F.lit(True))


def likely_expired(around: DataFrame) -> DataFrame:
    """Return the silent members that had committed regularly and whose records went on, if they left when their session timeout was over.

    Rows: ``MEMBER_KEY``; silence_ms, session_timeout_ms.

    Args:
        around: as ``commits_around`` returns them.
    """
    of_member = (*MEMBER_KEY, "observed_at", "last_at", *TIMEOUTS)
    # One request commits many partitions.
    requests = (
        around.where("is_before")
        .groupBy(*of_member, "committed_at")
        .agg(F.bool_or("is_own").alias("is_own"), F.bool_and("is_unchanged").alias("is_unchanged"))
    )
    in_order = Window.partitionBy(*MEMBER_KEY, "is_own").orderBy("committed_at")
    gap_ms = F.unix_millis("committed_at") - F.unix_millis(F.lag("committed_at").over(in_order))
    by_member = (
        requests.withColumn("gap_ms", gap_ms)
        .groupBy(*of_member)
        .agg(
            F.count_if("is_own").alias("own_count"),
            F.count_if(F.col("is_own") & F.col("is_unchanged")).alias("unchanged_count"),
            F.max(F.when(F.col("is_own"), F.col("gap_ms"))).alias("gap_ms"),
            F.max(F.when(~F.col("is_own"), F.col("committed_at"))).alias("others_at"),
        )
        .join(F.broadcast(_with_records(around)), list(MEMBER_KEY), "left")
    )
    silence_ms, session_ms, gap = _silence_ms(), F.col("session_timeout_ms"), F.col("gap_ms")
    is_regular = (F.col("own_count") >= FEWEST_COMMITS) & (silence_ms >= TIMES_LONGEST_GAP * gap)
    polled_in_time = silence_ms + gap < F.col("rebalance_timeout_ms")
    had_records = F.col("has_records").isNotNull() | (F.col("unchanged_count") >= UNCHANGED_COMMITS)
    others_went_on = F.coalesce(F.unix_millis("others_at") - F.unix_millis("last_at") > session_ms / 2, F.lit(False))
    slack_ms = F.when(others_went_on, session_ms * SLACK).otherwise(F.lit(LEAST_SLACK_MS))
    is_in_time = silence_ms <= session_ms + gap + slack_ms + F.col("heartbeat_ms")
    likely = by_member.where(is_regular & polled_in_time & had_records & is_in_time)
    return likely.select(*MEMBER_KEY, silence_ms.alias("silence_ms"), "session_timeout_ms")


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


def find_expired(context: RunContext, movements: DataFrame, groups: StagedKeys | None) -> DataFrame | None:
    """Return the members of generations whose session has likely expired, as ``likely_expired`` does; None if there are none.

    Args:
        movements: all of the generations to look at, stored.
        groups: at least their groups; None if these are all or most groups.
    """
    warehouse = context.warehouse
    if warehouse.is_empty(OFFSET_SNAPSHOTS.name):
        return None
    observed = movements.where(F.col("basis") == str(Basis.OBSERVED))
    consumer_session_ms = round(context.settings.audit.consumer_session_timeout_s * 1000)
    snapshots = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name)
    if groups is not None:
        snapshots = snapshots.join(groups.distinct(*GROUP_KEY), list(GROUP_KEY), "left_semi")
    departures = silent_departures(observed, snapshots, consumer_session_ms)
    silent = warehouse.materialize_any("silent_departures", departures)
    if silent is None:
        return None
    commits = warehouse.read(OFFSET_SNAPSHOTS.name).where(F.col("observed_month") >= F.trunc(F.lit(_since(silent)), "month"))
    around = warehouse.materialize_any("commits_around", commits_around(silent, observed, commits))
    return None if around is None else warehouse.materialize_any("expired_sessions", likely_expired(around))


def refresh(context: RunContext) -> None:
    """Change the inferred causes of earlier generations that new commits affect, which may be up to ``LOOK_AHEAD`` later."""
    warehouse, spec = context.warehouse, GENERATION_AUDITS
    since = context.unread(OFFSET_SNAPSHOTS.name, READ_HERE[OFFSET_SNAPSHOTS.name])
    if since is None or not context.before.written.get(spec.name):
        return
    left = F.array(*[F.lit(trigger.value) for trigger in (Trigger.MEMBER_LEFT, Trigger.MEMBER_REPLACED)])
    has_left = (F.col("basis") == str(Basis.OBSERVED)) & F.arrays_overlap("triggers", left)
    fresh = warehouse.read_new(OFFSET_SNAPSHOTS.name, since)
    groups = fresh.groupBy(*GROUP_KEY).agg(F.min("observed_at").alias("from_time"))
    audits = earlier_rows(context, spec.name).where(has_left)
    is_near = F.col("observed_at") + F.lit(LOOK_AHEAD) > F.col("from_time")
    near = audits.join(F.broadcast(groups), list(GROUP_KEY)).where(is_near).select(*audits.columns)
    affected = warehouse.materialize_keys("departures_near_commits", near)
    if not affected.count:
        return
    movements = warehouse.read(MOVEMENTS.name).join(affected.select(*GENERATION_KEY), list(GENERATION_KEY), "left_semi")
    expired = find_expired(context, movements, affected)
    now = with_inferred(affected.rows.withColumn("stored_causes", F.col("causes")), expired)
    otherwise = now.where(~F.col("causes").eqNullSafe(F.col("stored_causes"))).withColumns(context.run_columns)
    changed = warehouse.materialize_any("inferred_otherwise", otherwise.select(*spec.schema.names))
    if changed is None:
        return
    count, _ = warehouse.replace(spec.name, changed, AUDIT_KEY, changed)
    logger.info("newly landed commits change the likely causes of %d generations of earlier runs", count)
