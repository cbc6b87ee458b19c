"""Commits and metadata snapshots among the rows of generations, for workers that resolve resume offsets, and back.

All rows of a group come in one partition, in the order of its log. So a worker has read the commits before a generation when it comes to
it, and keeps only the last one of each partition. The columns of each kind of row are in a struct of their own, which is null in the other
rows: a commit is a small row in a shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial, reduce
from itertools import groupby, starmap
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.audit.resume_offsets import Commit, GroupOffsets, TimedCommit
from jobs.audit.topic_looks import Look
from jobs.storage.hashed_keys import hashed
from jobs.workers.batches import Batches
from schemas.keys import GENERATION_KEY, GROUP_KEY, TOPIC_KEY
from schemas.vocabulary import Source

Row = dict[str, Any]


class RowOrder(IntEnum):
    """The order of the rows at one position of a group."""

    LOOK = -3
    TIMED_COMMIT = -2
    COMMIT = -1
    GENERATION = 0
    SOLUTION = 1


CONTENT = {RowOrder.GENERATION: "generation", RowOrder.SOLUTION: "solution"}
"""The struct with the columns of a row that is neither a commit nor a metadata snapshot."""


BEFORE_ALL = -(2**63)
"""The position of rows that come before all generations of a group."""
COMMIT_FIELDS = ("topic", "partition", "topic_id", "committed_offset", "committed_us", "is_uncertain", "observed_us", "place")
LOOK_FIELDS = ("topic", "look_us", "topic_id", "partitions", "begin_offsets", "end_offsets")


def has_no_places() -> Column:
    """Return whether the source of a row numbers commits and generations separately, so that only their times can be compared."""
    return F.col("source") == str(Source.FORMATTER_JSON)


def _made(name: str) -> Column:
    """Return a column of commits; null in deletions."""
    return F.when(~F.col("is_deleted"), F.col(name))


def commit_rows(commits: DataFrame, spans: DataFrame | None = None) -> DataFrame:
    """Return offset commits as rows of their groups: ``GENERATION_KEY``, row_order, ``commit`` with ``COMMIT_FIELDS``.

    In a group with commits of a source without places only times can be compared, so that all its commits come first.

    Args:
        commits: rows of ``offset_snapshots``, all of their groups.
        spans: the generations of each group that commits are needed for: (cluster_id, group_id); ``first_position``, ``last_position``,
            null without an upper limit. Commits that none of these needs are left out, and those of other groups. None: all are needed.
    """
    if spans is not None:
        commits = commits.join(spans, list(GROUP_KEY))
    by_time = commits.where(has_no_places()).select(*GROUP_KEY).distinct().withColumn("by_time", F.lit(True))
    fields = {
        "committed_offset": _made("committed_offset"),
        "committed_us": F.unix_micros(_made("committed_at")),
        "observed_us": F.unix_micros("observed_at"),
        "place": F.col("position"),
    }
    values = [fields.get(name, F.col(name)).alias(name) for name in COMMIT_FIELDS]
    limits = [] if spans is None else ["first_position", "last_position"]
    marked = commits.join(F.broadcast(by_time), list(GROUP_KEY), "left").select(*GROUP_KEY, "by_time", *values, *limits)
    needed = marked if spans is None else _needed(marked)
    position = F.when(F.col("by_time"), F.lit(BEFORE_ALL)).otherwise(F.col("place")).alias("position")
    order = F.when(F.col("by_time"), RowOrder.TIMED_COMMIT.value).otherwise(F.lit(RowOrder.COMMIT.value)).alias("row_order")
    return needed.select(*GROUP_KEY, position, order, F.struct(*COMMIT_FIELDS).alias("commit"))


def _needed(commits: DataFrame) -> DataFrame:
    """Return the last commit of each partition before the first position, and those from there to the last one.

    A group may have a million stored commits, and one new generation. Of the commits before that one the worker keeps only these.
    """
    by_time = F.coalesce("by_time", F.lit(False))
    is_needed = by_time | F.coalesce(F.col("place") <= F.col("last_position"), F.lit(True))
    later = F.when(by_time | (F.col("place") >= F.col("first_position")), F.col("place")).alias("later_place")
    key = (*GROUP_KEY, "by_time", "topic", "partition", "topic_id")  # with the id: Spark would sort for the last value of a text
    values = [name for name in COMMIT_FIELDS if name not in (*key, "place")]
    last = [F.max_by(name, "place").alias(name) for name in values]
    return commits.where(is_needed).groupBy(*key, later).agg(F.max("place").alias("place"), *last)


def look_column() -> Column:
    """Return a row of ``topic_snapshots`` as the struct ``look`` with ``LOOK_FIELDS``."""
    partitions = F.col("partitions")
    fields = {
        "look_us": F.unix_micros("observed_at"),
        "partitions": partitions["partition"],
        "begin_offsets": partitions["begin_offset"],
        "end_offsets": partitions["end_offset"],
    }
    return F.struct(*[fields.get(name, F.col(name)).alias(name) for name in LOOK_FIELDS]).alias("look")


def look_rows(topics: DataFrame, looks: DataFrame, is_bounded: bool) -> DataFrame:
    """Return metadata snapshots as rows of the groups with their topics: ``GENERATION_KEY``, row_order, ``look`` with ``LOOK_FIELDS``.

    Args:
        topics: distinct rows of cluster_id, group_id, topic; with ``from_time`` if ``is_bounded``.
        looks: rows of ``topic_snapshots``.
        is_bounded: leave out the metadata snapshots that are before the last one up to the earliest ``from_time`` of the topic.
    """
    content = looks
    if is_bounded:
        first = topics.groupBy(*TOPIC_KEY).agg(F.min("from_time").alias("from_time"))
        is_before = F.col("observed_at") <= F.col("from_time")
        times = looks.select(*TOPIC_KEY, "observed_at").join(first, list(TOPIC_KEY))
        since = times.groupBy(*TOPIC_KEY).agg(F.max(F.when(is_before, F.col("observed_at"))).alias("since"))
        content = looks.join(since, list(TOPIC_KEY)).where(F.coalesce(F.col("observed_at") >= F.col("since"), F.lit(True)))
    place = [F.lit(BEFORE_ALL).alias("position"), F.lit(RowOrder.LOOK.value).alias("row_order")]
    return (
        topics.select(*GROUP_KEY, "topic")
        .join(content.select(*TOPIC_KEY, look_column()), list(TOPIC_KEY))
        .select(*GROUP_KEY, *place, "look")
    )


def in_log_order(parts: Mapping[RowOrder, DataFrame], commits: DataFrame, looks: DataFrame) -> DataFrame:
    """Return the rows of generations, commits and metadata snapshots together, not yet sorted.

    Args:
        parts: by keys of ``CONTENT`` the rows of generations: ``GENERATION_KEY``, and other columns, which become those of the struct.
        commits: as ``commit_rows`` returns them.
        looks: as ``look_rows`` returns them.
    """

    def packed(order: RowOrder, rows: DataFrame) -> DataFrame:
        others = [name for name in rows.columns if name not in GENERATION_KEY]
        return rows.select(*GENERATION_KEY, F.lit(order.value).alias("row_order"), F.struct(*others).alias(CONTENT[order]))

    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), [*starmap(packed, parts.items()), commits, looks])


def sorted_by_log(rows: DataFrame, *others: Column) -> DataFrame:
    """Return rows of ``in_log_order`` sorted in each partition.

    Args:
        others: further columns to sort by, of rows with the same position and row_order.
    """
    return rows.sortWithinPartitions(*hashed(*GROUP_KEY), "position", "row_order", *others)


@dataclass(frozen=True)
class CommitRun:
    """Commits of one group that follow one another, in the order of the log.

    Attributes:
        columns: those of ``COMMIT_FIELDS``.
        is_timed: whether only their times can be compared with those of generations.
    """

    columns: Sequence[Sequence[Any]]
    is_timed: bool

    def add_to(self, offsets: GroupOffsets) -> None:
        """Add these commits to those of the group."""
        topics, partitions, *values, observed, places = self.columns
        keys, commits = zip(topics, partitions, strict=True), map(Commit, *values)
        if self.is_timed:
            offsets.add_timed(map(TimedCommit, observed, places, keys, commits))
        else:
            offsets.add_commits(zip(keys, commits, strict=True))


@dataclass(frozen=True)
class SeenTopic:
    """One metadata snapshot of a topic that a group has."""

    topic: str
    look: Look

    def add_to(self, offsets: GroupOffsets) -> None:
        """Add it to the metadata snapshots of the group."""
        offsets.add_look(self.topic, self.look)


Item = Row | CommitRun | SeenTopic


def read_groups(batches: Batches) -> Iterator[tuple[tuple[str, str], Iterator[Item]]]:
    """Yield each group of sorted rows, with its items: a dictionary for each row of a generation, commits in runs."""
    keyed = groupby(_keyed_items(batches), key=itemgetter(0))
    for key, items in keyed:
        yield key, map(itemgetter(1), items)


def _keyed_items(batches: Batches) -> Iterator[tuple[tuple[str, str], Item]]:
    for batch in batches:
        keys = list(zip(*(batch.column(name).to_pylist() for name in GROUP_KEY), strict=True))
        positions, orders = (batch.column(name).to_pylist() for name in ("position", "row_order"))
        commits = [column.to_pylist() for column in batch.column("commit").flatten()]
        at = 0
        for (key, order), run in groupby(zip(keys, orders, strict=True)):
            count = sum(1 for _ in run)
            if order == RowOrder.LOOK:
                yield from ((key, look) for look in seen_topics(batch, at, count))
            elif order < 0:
                yield key, CommitRun([column[at : at + count] for column in commits], order == RowOrder.TIMED_COMMIT)
            else:
                # To drop the nulls of all other rows takes longer than a slice.
                rows: list[Row] = batch.column(CONTENT[RowOrder(order)]).slice(at, count).to_pylist()
                for row, position in zip(rows, positions[at : at + count], strict=True):
                    yield key, row | {"cluster_id": key[0], "group_id": key[1], "position": position, "row_order": order}
            at += count


def seen_topics(batch: pa.RecordBatch, at: int, count: int) -> Iterator[SeenTopic]:
    """Yield the metadata snapshots in some rows of a batch, whose column ``look`` is ``look_column``.

    Args:
        at: the first of these rows.
        count: how many there are.
    """
    topics, times, ids, *lists = batch.column("look").slice(at, count).flatten()
    for place in range(count):
        numbers = [column[place].values for column in lists]
        yield SeenTopic(topics[place].as_py(), Look(times[place].as_py(), ids[place].as_py(), *numbers))


def read_rows(items: Iterable[Item], offsets: GroupOffsets) -> Iterator[Row]:
    """Yield the rows of a group's generations; ``offsets`` has then the commits before each, and the metadata snapshots."""
    for item in items:
        if isinstance(item, dict):
            yield item
        else:
            item.add_to(offsets)


def read_generations(items: Iterable[Item], offsets: GroupOffsets) -> Iterator[list[Row]]:
    """Yield the rows at each position of a group; ``offsets`` has then the commits before it, and the metadata snapshots."""
    rows: list[Row] = []
    for item in items:
        if isinstance(item, dict):
            if rows and rows[0]["position"] != item["position"]:
                yield rows
                rows = []
            rows.append(item)
        else:
            if rows:
                yield rows
                rows = []
            item.add_to(offsets)
    if rows:
        yield rows
