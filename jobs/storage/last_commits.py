"""The last commit of each partition of a group: what readers of now ask, however many commits are stored.

The table ``last_commits`` has what all commits up to a run add up to. Readers add the commits of later runs, so the table may be older than
the commits, or missing. A run that deletes stored commits empties it.

Commits of one partition and source are added up in one entry. A commit that a later run may write again has an entry of its own: when it
comes again, it takes the place of that entry, so that it counts once.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.storage.scratch import MOST_KEYS_SENT
from jobs.storage.table_changes import Tables
from jobs.storage.warehouse import Warehouse
from schemas.keys import GROUP_KEY, PARTITION_KEY
from schemas.tables import LAST_COMMITS, OFFSET_SNAPSHOTS
from schemas.tables.landed import COMMIT_ENTRY
from schemas.vocabulary import LOG_SOURCES

PARTITIONS_TOGETHER = 1_000
"""Most partitions of a topic in one row. A topic may have a million."""
MANY_COMMITS = 100_000
"""Stored commits from which on there is a table. Fewer are added up faster than a table is made."""
ROWS_A_COMMIT = 20
"""At most so many rows are written again for each commit that has come since. Larger tables wait until more have come."""

_ROW_KEY = (*GROUP_KEY, "topic", "block")
_ENTRY_KEY = (*PARTITION_KEY, "block", "source", "offsets_partition", "open_position")
_OF_LAST = ("is_deleted", "observed_us", "committed_offset", "committed_us", "expires_us", "topic_hash", "end_offset")
_SMALLEST, _LARGEST, _SUMMED = ("first_us", "first_commit_us"), ("newest_us", "newest_commit_us"), ("record_count", "commit_count")
_IN_ENTRY = [name for name in COMMIT_ENTRY.names if name != "is_last"]


def may_be_rewritten() -> Column:
    """Return whether a stored commit is of a raw log, and not known to be certain: newly read records beside it may show that it is."""
    is_of_log = F.col("source").isin(sorted(map(str, LOG_SOURCES)))
    return is_of_log & (F.col("is_uncertain").isNull() | F.col("is_uncertain"))  # in this form files without such rows are skipped


def last_commits_of(commits: DataFrame) -> DataFrame:
    """Return the last commit of each partition: rows of schemas.tables.LAST_COMMITS without ``run_sequence``.

    Args:
        commits: rows of schemas.tables.OFFSET_SNAPSHOTS.
    """
    return _packed(_entries_of(commits))


def with_later(stored: DataFrame, later: DataFrame, *, are_few: bool) -> DataFrame:
    """Return rows of ``last_commits_of`` with later commits added.

    Args:
        stored: rows of ``last_commits_of``.
        later: rows of schemas.tables.OFFSET_SNAPSHOTS. They may be those of open entries in ``stored``, written again.
        are_few: the keys of the later commits are sent to all tasks.
    """
    entries = _entries_of(later)
    touched = entries.select(*_ROW_KEY).distinct()
    touched = F.broadcast(touched) if are_few else touched
    again = entries.withColumn("open_position", F.col("position")).select(*_ENTRY_KEY)
    changing = stored.join(touched, list(_ROW_KEY), "left_semi").select(*_ROW_KEY, F.inline("commits")).drop("is_last")
    changed = _packed(changing.join(again, list(_ENTRY_KEY), "left_anti").unionByName(entries))
    return stored.join(touched, list(_ROW_KEY), "left_anti").unionByName(changed)


def last_of_partitions(rows: DataFrame) -> DataFrame:
    """Return one row for each partition with its last commit, or its deletion: ``PARTITION_KEY`` and the fields of that entry.

    Args:
        rows: as ``last_commits_of`` returns them.
    """
    return rows.select(*GROUP_KEY, "topic", F.inline("commits")).where("is_last").drop("is_last")


def newest_times(rows: DataFrame) -> DataFrame:
    """Return the time of the newest commit, or deletion, in each row: (cluster_id, observed_at).

    Args:
        rows: as ``last_commits_of`` returns them.
    """
    newest_us = F.array_max(F.col("commits")["newest_us"])
    return rows.select("cluster_id", F.timestamp_micros(newest_us).alias("observed_at"))


def logs_of_commits(tables: Tables) -> DataFrame:
    """Return the logs that the commits of each group are from: (cluster_id, group_id, source, offsets_partition), with repetitions.

    A log may be there whose commits the changes of this run delete. Reads few rows, however many commits are stored.
    """
    names = (*GROUP_KEY, "source", "offsets_partition")
    until = 0 if tables.is_empty(LAST_COMMITS.name) else tables.newest_sequence(LAST_COMMITS.name)
    if not until:
        return tables.read(OFFSET_SNAPSHOTS.name).select(*names)
    added_up = tables.read(LAST_COMMITS.name).select(*GROUP_KEY, F.inline("commits")).select(*names)
    return added_up.unionByName(tables.read_new(OFFSET_SNAPSHOTS.name, until).select(*names))


def read_last_commits(warehouse: Warehouse) -> DataFrame:
    """Return the last commit of each partition by all commits that are stored: rows of ``last_commits_of``."""
    until = _covered_until(warehouse)
    if not until:
        return last_commits_of(warehouse.read(OFFSET_SNAPSHOTS.name))
    stored = warehouse.read(LAST_COMMITS.name).drop("run_sequence")
    count = warehouse.count_new(OFFSET_SNAPSHOTS.name, until)
    if not count:
        return stored
    return with_later(stored, warehouse.read_new(OFFSET_SNAPSHOTS.name, until), are_few=count <= MOST_KEYS_SENT)


def write_last_commits(warehouse: Warehouse) -> None:
    """Write the table if there are many commits, and again if enough have come since for its number of rows."""
    if warehouse.is_empty(OFFSET_SNAPSHOTS.name):
        return
    later = commits_to_add(warehouse)
    if _covered_until(warehouse):
        is_due = later > 0 and later * ROWS_A_COMMIT >= warehouse.count(LAST_COMMITS.name)
    else:
        is_due = later >= MANY_COMMITS
    if is_due:
        rows = read_last_commits(warehouse).withColumn("run_sequence", F.lit(warehouse.run_sequence).cast("bigint"))
        warehouse.ensure(LAST_COMMITS.name)
        warehouse.overwrite(LAST_COMMITS.name, rows)


def forget_last_commits(warehouse: Warehouse) -> None:
    """Empty the table: stored commits were deleted that are in its sums."""
    if _covered_until(warehouse):
        warehouse.clear(LAST_COMMITS.name)


def commits_to_add(warehouse: Warehouse) -> int:
    """Return how many stored commits ``read_last_commits`` adds up."""
    return warehouse.count_new(OFFSET_SNAPSHOTS.name, _covered_until(warehouse))


def _covered_until(warehouse: Warehouse) -> int:
    """Return the ``run_sequence`` up to which the table has all commits; 0 if there is no table, or it is empty."""
    return 0 if warehouse.is_empty(LAST_COMMITS.name) else warehouse.newest_sequence(LAST_COMMITS.name)


def _entries_of(commits: DataFrame) -> DataFrame:
    """Return an entry for each commit: ``_ENTRY_KEY`` and the other fields of an entry.

    Args:
        commits: rows of schemas.tables.OFFSET_SNAPSHOTS.
    """
    observed_us, is_made = F.unix_micros("observed_at"), ~F.col("is_deleted")
    columns = {
        "block": F.floor(F.col("partition") / PARTITIONS_TOGETHER).cast("int"),
        "open_position": F.when(may_be_rewritten(), F.col("position")),
        "observed_us": observed_us,
        "committed_us": F.unix_micros("committed_at"),
        "expires_us": F.unix_micros("expires_at"),
        "topic_hash": F.when(F.col("topic_id").isNotNull(), F.xxhash64("topic_id")),
        **dict.fromkeys(("first_us", "newest_us"), observed_us),
        **dict.fromkeys(("first_commit_us", "newest_commit_us"), F.when(is_made, observed_us)),
        "record_count": F.lit(1).cast("bigint"),
        "commit_count": is_made.cast("bigint"),
    }
    names = dict.fromkeys((*_ENTRY_KEY, *_IN_ENTRY))
    return commits.select(*[columns.get(name, F.col(name)).alias(name) for name in names])


def _packed(entries: DataFrame) -> DataFrame:
    """Return entries added up, and those of a row together, by partition and position."""
    # Each column by itself, and no text: for the largest struct, or for a text, Spark would sort all commits.
    summed = entries.groupBy(*_ENTRY_KEY).agg(
        F.max("position").alias("position"),
        *[F.max_by(name, "position").alias(name) for name in _OF_LAST],
        *[F.min(name).alias(name) for name in _SMALLEST],
        *[F.max(name).alias(name) for name in _LARGEST],
        *[F.sum(name).alias(name) for name in _SUMMED],
    )
    together = F.sort_array(F.collect_list(F.struct(*_IN_ENTRY)))
    rows = summed.groupBy(*_ROW_KEY).agg(together.alias("commits"))
    commits = F.col("commits")

    def marked(entry: Column, number: Column) -> Column:
        following = F.get(commits, number + 1)["partition"]
        is_last = (number + 1 == F.size(commits)) | ~following.eqNullSafe(entry["partition"])
        return F.struct(*[entry[name].alias(name) for name in _IN_ENTRY], is_last.alias("is_last"))

    return rows.withColumn("commits", F.transform(commits, marked))
