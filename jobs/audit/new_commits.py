"""Offset commits and topic metadata that landed after rows were computed, and the stored rows that they may change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.audit.load_imbalance import AUDIT_KEY
from jobs.audit.offset_rows import has_no_places
from jobs.context import RunContext
from jobs.storage.scratch import StagedKeys
from schemas.keys import GROUP_KEY, PARTITION_KEY, TOPIC_KEY
from schemas.tables import GENERATION_AUDITS, MOVEMENTS, OFFSET_SNAPSHOTS, SUBSCRIPTION_SNAPSHOTS, TOPIC_SNAPSHOTS

READ_HERE = {name: f"{name} for {MOVEMENTS.name}" for name in (OFFSET_SNAPSHOTS.name, TOPIC_SNAPSHOTS.name)}
"""Table -> the name under which ``runs.consumed`` records how far its rows were used here; ``assign`` reads ``topic_snapshots`` too."""
ORIGINS_READ_HERE = f"origins for {MOVEMENTS.name}"
"""The same name for ``runs.origins``."""
CLOCKS_DIFFER = timedelta(days=1)
"""The most by which the clocks of commits, topic metadata and generations may differ."""


def complete_groups(snapshots: DataFrame, origins: Iterable[str]) -> DataFrame:
    """Return the groups whose partition of ``__consumer_offsets`` was read from its first record: (cluster_id, group_id).

    Args:
        origins: keys of ``runs.origins``.
    """
    origin = F.concat_ws(" ", "cluster_id", "offsets_partition")
    complete = snapshots.where(F.col("offsets_partition").isNotNull() & origin.isin(sorted(origins)))
    return complete.select(*GROUP_KEY).distinct()


def counts_from() -> Column:
    """Return the time from which on a new row of ``offset_snapshots`` may change what is known.

    A deletion of a source without places has no time of its own. It may have been stored with an earlier one, so it counts from 1970 on.
    """
    is_timeless = has_no_places() & F.col("is_deleted")
    return F.when(is_timeless, F.timestamp_millis(F.lit(0))).otherwise(F.col("observed_at"))


def _late_commits(fresh: DataFrame) -> DataFrame:
    """Return the first position and time of new commits for each partition of a group."""
    by_time = has_no_places()
    first = {"from_position": F.min("position"), "from_time": F.min(counts_from()), "by_time": F.max(by_time)}
    return fresh.groupBy(*PARTITION_KEY).agg(*[value.alias(name) for name, value in first.items()])


def _late_looks(looks: DataFrame, consumed: int) -> DataFrame:
    """Return for each topic the period in which a new metadata snapshot may be the nearest one.

    Rows: cluster_id, topic. ``first_look``, ``last_look``: times of the first and the last new one; ``look_before``, ``look_after``: of the
    old ones before and after these, null if there is none.
    """
    is_fresh = F.col("run_sequence") > consumed
    fresh = looks.where(is_fresh).groupBy(*TOPIC_KEY).agg(F.min("observed_at").alias("first_look"), F.max("observed_at").alias("last_look"))
    old = looks.where(~is_fresh).select(*TOPIC_KEY, "observed_at")
    around = (
        old.join(F.broadcast(fresh), list(TOPIC_KEY))
        .groupBy(*TOPIC_KEY)
        .agg(
            F.max(F.when(F.col("observed_at") < F.col("first_look"), F.col("observed_at"))).alias("look_before"),
            F.min(F.when(F.col("observed_at") > F.col("last_look"), F.col("observed_at"))).alias("look_after"),
        )
    )
    return fresh.join(around, list(TOPIC_KEY), "left")


def _by_topic(commits: DataFrame) -> DataFrame:
    """Return the first position and time of new commits for each topic of a group, from those of its partitions."""
    first = [F.min(name).alias(name) for name in ("from_position", "from_time")]
    return commits.groupBy(*GROUP_KEY, "topic").agg(*first, F.max("by_time").alias("by_time"))


def affected_rows(held: DataFrame, news: NewCommits, latest: Column, earliest: Column) -> DataFrame:
    """Return the held rows that new commits or topic metadata may change, and few others.

    Args:
        held: partitions, with ``PARTITION_KEY``, position, observed_at and member_id; or topics, with the same columns but partition.
        latest, earliest: limits of the time from which on a metadata snapshot gives the end of the log.
    """
    by_partition = "partition" in held.columns
    rows, is_concerned = held.where("member_id IS NOT NULL"), F.lit(False)
    if news.late_commits is not None:
        late = news.late_commits if by_partition else _by_topic(news.late_commits)
        rows = rows.join(late, list(PARTITION_KEY if by_partition else (*GROUP_KEY, "topic")), "left")
        is_later = F.when(F.col("by_time"), F.col("observed_at") >= F.col("from_time"))
        is_concerned |= F.coalesce(is_later.otherwise(F.col("position") >= F.col("from_position")), F.lit(False))
    if news.late_looks is not None:
        rows = rows.join(F.broadcast(news.late_looks), list(TOPIC_KEY), "left")
        is_before = F.coalesce(F.col("observed_at") < F.col("look_after"), F.lit(True))
        begins_otherwise = (F.col("observed_at") >= F.col("first_look")) & is_before
        ends_otherwise = (earliest <= F.col("last_look")) & F.coalesce(latest > F.col("look_before"), F.lit(True))
        is_concerned |= F.coalesce(begins_otherwise | ends_otherwise, F.lit(False))
    return rows.where(is_concerned).select(*held.columns)


def _since(commits: DataFrame | None, looks: DataFrame | None) -> datetime | None:
    """Return a time before which no movement is affected; None if a topic has its first metadata snapshot, which may affect all."""
    frames = []
    if commits is not None:
        frames.append(commits.agg(F.min("from_time").alias("first"), F.lit(False).alias("is_open")))
    if looks is not None:
        is_open = F.coalesce(F.bool_or(F.col("look_before").isNull()), F.lit(False)).alias("is_open")
        frames.append(looks.agg(F.min("look_before").alias("first"), is_open))
    rows = reduce(DataFrame.unionByName, frames).collect() if frames else []
    times = [row["first"] for row in rows if row["first"] is not None]
    return None if any(row["is_open"] for row in rows) or not times else min(times) - CLOCKS_DIFFER


@dataclass(frozen=True)
class NewCommits:
    """Offset commits and topic metadata that landed after earlier runs computed their rows, and may change these.

    Attributes:
        commits, looks: all rows of the two tables.
        late_commits: as ``_late_commits`` returns them; None if all are after the generations of earlier runs.
        late_looks: as ``_late_looks`` returns them; None if no metadata snapshot is new.
        complete, newly_complete: as ``complete_groups`` returns them; the second is None if there are none.
        since: rows before this time are not affected; None if all may be.
    """

    commits: DataFrame
    looks: DataFrame
    late_commits: DataFrame | None
    late_looks: DataFrame | None
    complete: DataFrame
    newly_complete: DataFrame | None
    since: datetime | None

    def rows_to_ask(self, context: RunContext, name: str, rewritten: StagedKeys | None = None) -> DataFrame:
        """Return the rows of earlier runs in a table that may be affected, by their time alone.

        Args:
            rewritten: keys of rows that this run has written again for another reason; None if there are none.
        """
        stored = earlier_rows(context, name, rewritten)
        return stored if self.since is None else rows_since(stored, self.since)


def rows_since(rows: DataFrame, since: datetime) -> DataFrame:
    """Return the rows of a table of facts from a time on. Spark skips the months before, and files by their statistics."""
    return rows.where((F.col("observed_month") >= F.trunc(F.lit(since), "month")) & (F.col("observed_at") >= F.lit(since)))


def retained_rows(context: RunContext, name: str) -> DataFrame:
    """Return the rows of a table, without those that are older than the commits and topic metadata which maintenance has kept."""
    rows = context.warehouse.read(name)
    return rows if context.state.retained_from is None else rows.where(F.col("observed_month") >= F.lit(context.state.retained_from))


def earlier_rows(context: RunContext, name: str, rewritten: StagedKeys | None = None) -> DataFrame:
    """Return the rows of earlier runs in a table, and those that this run has written again."""
    rows = retained_rows(context, name)
    earlier = rows.where(F.col("run_sequence") < context.run_sequence)
    if rewritten is None:
        return earlier
    again = rows.where(F.col("run_sequence") == context.run_sequence).join(rewritten.select(*AUDIT_KEY), list(AUDIT_KEY), "left_semi")
    return earlier.unionByName(again)


def has_new_commits(context: RunContext) -> bool:
    """Return whether commits, topic metadata or the beginning of a log landed since they were last used here."""
    is_unread = any(context.unread(name, reader) is not None for name, reader in READ_HERE.items())
    return is_unread or bool(_new_origins(context))


def _new_origins(context: RunContext) -> list[str]:
    return [origin for origin, sequence in context.state.origins.items() if sequence > context.state.consumed.get(ORIGINS_READ_HERE, 0)]


def read_new_commits(context: RunContext, rewritten: StagedKeys | None) -> NewCommits | None:
    """Return what landed since the last time, if it may change audits of earlier runs; else None.

    Args:
        rewritten: keys of audits of earlier runs that this run has written again; None if there are none.
    """
    warehouse = context.warehouse
    unread = {name: context.unread(name, reader) for name, reader in READ_HERE.items()}
    new_origins = _new_origins(context)
    if not context.before.written.get(GENERATION_AUDITS.name):
        return None
    commits, looks = (warehouse.read(name) for name in READ_HERE)
    late_commits = late_looks = newly_complete = None
    since = unread[OFFSET_SNAPSHOTS.name]
    if since is not None:
        late = _late_commits(warehouse.read_new(OFFSET_SNAPSHOTS.name, since))
        late = _before_audits(late, earlier_rows(context, GENERATION_AUDITS.name, rewritten))
        late_commits = warehouse.materialize_any("late_commits", late)
    since = unread[TOPIC_SNAPSHOTS.name]
    if since is not None:
        late_looks = warehouse.materialize("late_looks", _late_looks(looks, since))
    snapshots = warehouse.read(SUBSCRIPTION_SNAPSHOTS.name)
    if new_origins:
        newly_complete = complete_groups(snapshots, new_origins)
    if late_commits is None and late_looks is None and newly_complete is None:
        return None
    complete = complete_groups(snapshots, context.state.origins)
    return NewCommits(commits, looks, late_commits, late_looks, complete, newly_complete, _since(late_commits, late_looks))


def _before_audits(late_commits: DataFrame, audits: DataFrame) -> DataFrame:
    """Return the late commits that are before an audited generation of their group. Others cannot change an audit."""
    newest = audits.groupBy(*GROUP_KEY).agg(F.max("position").alias("last_position"), F.max("observed_at").alias("last_time"))
    is_before = F.when(F.col("by_time"), F.col("from_time") <= F.col("last_time"))
    is_before = is_before.otherwise(F.col("from_position") <= F.col("last_position"))
    return late_commits.join(newest, list(GROUP_KEY)).where(is_before).select(*late_commits.columns)


def differs_from_stored(columns: Iterable[str]) -> Column:
    """Return whether one of the columns differs from its stored value, which is in the column ``stored_<name>``."""
    return ~reduce(Column.__and__, [F.col(name).eqNullSafe(F.col(f"stored_{name}")) for name in columns])
