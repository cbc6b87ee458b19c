"""Commits that the coordinator is going to delete soon, because nobody reads their partitions any more.

Since Kafka 2.1 (KIP-211) the retention of a classic group's commits begins when the group becomes empty, also for later commits of an
admin. For a topic to which nobody subscribes any more it begins at the last commit. In groups of the consumer protocol, and in groups that
never had members since they were deleted, it always begins at the last commit. ``tests/kafka/test_commits_expire.py`` compares all this
with a broker.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.keys import GROUP_KEY
from schemas.wire.keys import CLASSIC_GROUP_METADATA

HOURS_AHEAD = 24
HOUR_MS = 3_600_000


def _deleted_groups(empty: DataFrame, records: DataFrame) -> DataFrame:
    """Return the groups that were deleted after their newest generation and have commits since, with ``is_deleted_group``.

    Args:
        empty: commits of empty groups; only later ones than ``emptied_at`` can be of a group that was deleted.
        records: rows of ``group_records``.
    """
    asked = empty.where("committed_at > emptied_at").select(*GROUP_KEY, "position").distinct()
    tombstones = records.where((F.col("type") == CLASSIC_GROUP_METADATA) & F.col("value").isNull())
    deleted = tombstones.join(F.broadcast(asked), list(GROUP_KEY)).where("offset > position").select(*GROUP_KEY).distinct()
    return deleted.withColumn("is_deleted_group", F.lit(True))


def expiring_commits(generations: DataFrame, last: DataFrame, records: DataFrame, moments: DataFrame, retention_hours: int) -> DataFrame:
    """Return the topics whose commits expire within a day of the newest moment of their cluster.

    Rows: (cluster_id, group_id); ``expiring`` has topic, partition_count and expires_at_ms (of the first of them), by topic. Commits that
    should have expired before are left out: as they are still there, the broker keeps them for longer than assumed. Commits without a time
    of their own are left out too, as are those of groups that never had members.

    Args:
        generations: as ``commit_findings.newest_generations`` returns them.
        last: as ``commit_findings.last_commits`` returns them.
        records: rows of ``group_records``.
        moments: as ``jobs.storage.current_lag.newest_moments`` returns them.
    """
    columns = ("position", "member_count", "has_subscriptions", "subscribed", "emptied_at")
    live = last.where("NOT is_deleted AND committed_at IS NOT NULL").join(generations.select(*GROUP_KEY, *columns), list(GROUP_KEY))
    is_empty = F.col("member_count") == 0
    deleted = _deleted_groups(live.where(is_empty), records)
    unread = live.where(is_empty | (F.col("has_subscriptions") & ~F.array_contains("subscribed", F.col("topic"))))
    unread = unread.join(F.broadcast(deleted), list(GROUP_KEY), "left")
    begin = F.coalesce(F.when(is_empty & F.col("is_deleted_group").isNull(), F.col("emptied_at")), F.col("committed_at"))
    expires_ms = F.coalesce(F.unix_millis("expires_at"), F.unix_millis(begin) + F.lit(retention_hours * HOUR_MS))
    timed = unread.withColumn("expires_ms", expires_ms).join(F.broadcast(moments), "cluster_id")
    soon = timed.where(F.col("expires_ms").between(F.col("newest_at_ms") + 1, F.col("newest_at_ms") + HOURS_AHEAD * HOUR_MS))
    by_topic = soon.groupBy(*GROUP_KEY, "topic").agg(
        F.count(F.lit(1)).cast("int").alias("partition_count"), F.min("expires_ms").alias("expires_at_ms")
    )
    topic = F.struct("topic", "partition_count", "expires_at_ms")
    return by_topic.groupBy(*GROUP_KEY).agg(F.sort_array(F.collect_list(topic)).alias("expiring"))
