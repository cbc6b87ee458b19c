"""Members that have stopped to commit, although records come into their partitions.

A commit does not say which member made it. So a member is taken to be silent since the last commit of any of its partitions, or since its
generation began, if that is later.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.audit.open_targets import LOG_KEY
from jobs.storage.current_lag import newest_ends, waiting_records
from jobs.storage.scratch import StagedKeys
from schemas.keys import GENERATION_KEY, GROUP_KEY, PARTITION_KEY, TOPIC_KEY
from schemas.vocabulary import MOST_LAG, Basis
from schemas.wire.keys import OFFSETS_TOPIC

COMMIT_INTERVALS = 5
"""How many of its own mean intervals between commits a member must be silent. One batch may take longer than the others."""
PARTITIONS_NAMED = 5


def known_until(commits: DataFrame, looks: DataFrame, landed_until: Mapping[str, int]) -> DataFrame:
    """Return up to when all commits of each log are known: ``LOG_KEY``, until_ms. Other sources are one log a cluster.

    It is the time of the last commit there. It is that of a later metadata snapshot if all records up to its end of the log have landed:
    if everybody in a log is silent, there is no later commit.

    Args:
        landed_until: see ``runs.landed_until``.
    """
    number = F.coalesce("offsets_partition", F.lit(-1)).alias("offsets_partition")
    logs = commits.select("cluster_id", "source", number, F.unix_millis("observed_at").alias("at_ms"))
    until = logs.groupBy(*LOG_KEY).agg(F.max("at_ms").alias("last_ms"))
    if not landed_until:
        return until.withColumnRenamed("last_ms", "until_ms")
    landed = F.create_map(*[F.lit(value) for item in landed_until.items() for value in item])
    ends = looks.where(F.col("topic") == OFFSETS_TOPIC).select("cluster_id", "observed_at", F.inline("partitions"))
    is_read = F.col("end_offset") <= landed[F.concat_ws(" ", "cluster_id", "partition")]
    read = ends.where(is_read).groupBy("cluster_id", F.col("partition").alias("offsets_partition"))
    seen = read.agg(F.max(F.unix_millis("observed_at")).alias("seen_ms"))
    both = until.join(seen, ["cluster_id", "offsets_partition"], "left")
    return both.select(*LOG_KEY, F.greatest("last_ms", "seen_ms").alias("until_ms"))  # greatest ignores a null


def _wait_ms(timeout_ms: Column, interval_ms: Column) -> Column:
    """Return how long a member must be silent. One that calls poll less often than its rebalance timeout says leaves the group."""
    return F.greatest(timeout_ms.cast("bigint"), interval_ms * COMMIT_INTERVALS)


def _interval_ms() -> Column:
    """Return the mean time between the commits of a partition; null if there is only one."""
    span_ms = F.unix_millis("commit_at") - F.unix_millis("first_commit_at")
    return F.when((F.col("commit_count") > 1) & (span_ms > 0), F.floor(span_ms / (F.col("commit_count") - 1)))


def quiet_groups(generations: StagedKeys, last: DataFrame, until: DataFrame) -> DataFrame:
    """Return the groups with members and a partition whose commits have stopped for longer than members take.

    Rows: (cluster_id, group_id); until_ms. They are few, and only their partitions are looked at one by one.

    Args:
        generations: as ``commit_findings.newest_generations`` returns them.
        last: as ``commit_findings.last_commits`` returns them.
        until: as ``known_until`` returns it.
    """
    columns = (*GROUP_KEY, "source", "offsets_partition", "member_count", "rebalance_timeout_ms")
    asked = generations.select(*columns).where("member_count > 0")
    asked = asked.withColumn("offsets_partition", F.coalesce("offsets_partition", F.lit(-1)))
    stopped = last.where("NOT is_deleted").join(asked, list(GROUP_KEY)).join(F.broadcast(until), list(LOG_KEY))
    silent_ms = F.col("until_ms") - F.unix_millis("commit_at")
    is_quiet = silent_ms > _wait_ms(F.col("rebalance_timeout_ms"), _interval_ms())
    return stopped.where(_interval_ms().isNotNull() & is_quiet).select(*GROUP_KEY, "until_ms").distinct()


def stopped_partitions(quiet: DataFrame, generations: DataFrame, assignments: DataFrame, last: DataFrame) -> DataFrame:
    """Return the partitions of members of which no partition has been committed for too long.

    Rows: ``PARTITION_KEY``, member_id; since, until (the time in which records must have come in), silent_ms and committed_offset.

    Args:
        quiet: as ``quiet_groups`` returns them.
    """
    asked = generations.join(quiet, list(GROUP_KEY)).select(
        *GENERATION_KEY, "rebalance_timeout_ms", "until_ms", F.unix_millis("observed_at").alias("made_ms")
    )
    given = assignments.where(F.col("basis") == str(Basis.OBSERVED)).join(F.broadcast(asked), list(GENERATION_KEY))
    entries = given.select(*GROUP_KEY, "member_id", "rebalance_timeout_ms", "until_ms", "made_ms", F.inline("partitions"))
    held = entries.withColumn("partition", F.explode(F.array_distinct("partitions"))).drop("partitions")
    live = last.where("NOT is_deleted").select(
        *PARTITION_KEY, "committed_offset", F.unix_millis("commit_at").alias("commit_ms"), _interval_ms().alias("interval_ms")
    )
    of_member = Window.partitionBy(*GROUP_KEY, "member_id")
    columns = {
        "since_ms": F.greatest(F.max("commit_ms").over(of_member), F.col("made_ms")),
        "wait_ms": _wait_ms(F.col("rebalance_timeout_ms"), F.min("interval_ms").over(of_member)),
        "known_count": F.count("interval_ms").over(of_member),
    }
    marked = held.join(live, list(PARTITION_KEY), "left").withColumns(columns)
    stopped = marked.where("known_count > 0 AND until_ms - since_ms > wait_ms")
    times = {
        "since": F.timestamp_millis("since_ms"),
        "until": F.timestamp_millis(F.col("until_ms") - F.col("wait_ms")),
        "silent_ms": F.col("until_ms") - F.col("since_ms"),
    }
    return stopped.withColumns(times).select(*PARTITION_KEY, "member_id", "committed_offset", *times)


def _sum(name: str) -> Column:
    """Return the sum of a column, at most the largest number that a column can hold; null if no value is known."""
    total = F.sum(F.col(name).cast("decimal(38,0)"))
    return F.when(total > MOST_LAG, F.lit(MOST_LAG)).otherwise(total.cast("bigint"))  # least ignores a null


def stalled_members(grown: DataFrame, looks: DataFrame) -> DataFrame:
    """Return the members that have stopped to commit although records came in, long enough before their commits are no longer known.

    Rows: (cluster_id, group_id); ``stalled`` has the fields of ``jobs.findings.commits.StalledMember``, by member id.

    Args:
        grown: as ``stopped_partitions`` returns them, with record_count, the records that came in from ``since`` to ``until``.
    """
    ends = newest_ends(looks).select(*TOPIC_KEY, "partition", "end_offset")
    with_lag = grown.join(ends, [*TOPIC_KEY, "partition"], "left").withColumn(
        "lag", waiting_records(F.col("committed_offset"), F.col("end_offset"))
    )
    names = F.sort_array(F.collect_list(F.concat_ws("-", "topic", "partition")))
    by_member = with_lag.groupBy(*GROUP_KEY, "member_id", "since", "silent_ms").agg(
        F.count(F.lit(1)).cast("int").alias("partition_count"),
        F.slice(names, 1, PARTITIONS_NAMED).alias("partitions"),
        *[_sum(name).alias(name) for name in ("record_count", "lag")],
    )
    since_ms = F.unix_millis("since").alias("since_ms")
    member = F.struct("member_id", "partition_count", "partitions", "record_count", "lag", since_ms, "silent_ms")
    return by_member.where("record_count > 0").groupBy(*GROUP_KEY).agg(F.sort_array(F.collect_list(member)).alias("stalled"))
