"""Topics that differ between metadata snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.storage.table_changes import Tables
from schemas.keys import TOPIC_KEY
from schemas.tables import QUARANTINE, TOPIC_SNAPSHOTS
from schemas.vocabulary import CONFLICT, Source

Times = Mapping[str, tuple[int, ...]]
"""Cluster id -> times of metadata snapshots in ms, ascending."""


def is_from(first_ms: Mapping[str, int]) -> Column:
    """Return whether a metadata snapshot is of one of these clusters, at that time or later."""
    observed_ms = F.unix_millis("observed_at")
    are_from = [(F.col("cluster_id") == cluster) & (observed_ms >= at) for cluster, at in first_ms.items()]
    return reduce(Column.__or__, are_from, F.lit(False))


def by_cluster(values: Mapping[str, int]) -> Column:
    """Return the number of a row's cluster."""
    pairs = ((F.lit(cluster), F.lit(number).cast("bigint")) for cluster, number in values.items())
    return F.element_at(F.create_map(*chain.from_iterable(pairs)), F.col("cluster_id"))


def looks_with_news(tables: Tables, consumed: int) -> DataFrame:
    """Return the metadata snapshots with rows newer than ``consumed``: (cluster_id, at_ms, is_known).

    ``is_known``: a row of the same time was there before, or lost its position to another one. Such a metadata snapshot was read without
    its new rows, so those topics may differ from what was read although they are the same in all metadata snapshots now.

    Args:
        consumed: a run_sequence.
    """
    is_new = F.col("run_sequence") > consumed
    rows = tables.read(TOPIC_SNAPSHOTS.name).select("cluster_id", F.unix_millis("observed_at").alias("at_ms"), is_new.alias("is_new"))
    if not tables.is_empty(QUARANTINE.name):
        lost = tables.read(QUARANTINE.name)
        lost = lost.where((F.col("reason") == CONFLICT) & (F.col("source") == str(Source.CLUSTER_METADATA)))
        at_ms = F.split_part("source_position", F.lit(" "), F.lit(2)).try_cast("bigint")  # see deduplication.place_of
        rows = rows.unionByName(lost.select("cluster_id", at_ms.alias("at_ms"), F.lit(False).alias("is_new")))
    by_look = rows.groupBy("cluster_id", "at_ms").agg(F.bool_or("is_new").alias("is_new"), F.bool_or(~F.col("is_new")).alias("is_known"))
    return by_look.where("is_new").drop("is_new")


def topics_at(looks: DataFrame, times_ms: Mapping[str, Sequence[int]], consumed: int) -> DataFrame:
    """Return (cluster_id, topic) of the rows newer than ``consumed`` in the metadata snapshots at some times.

    Args:
        looks: rows of ``topic_snapshots``.
        times_ms: by cluster.
    """
    at_ms = F.unix_millis("observed_at")
    are_at = [(F.col("cluster_id") == cluster) & at_ms.isin(*times) for cluster, times in times_ms.items() if times]
    rows = looks.where((F.col("run_sequence") > consumed) & reduce(Column.__or__, are_at, F.lit(False)))
    return rows.select(*TOPIC_KEY).distinct()


def changed_topics(looks: DataFrame, compared: Times, shown: Column) -> DataFrame:
    """Return (cluster_id, topic) of the topics that differ between the compared metadata snapshots, or are missing in one.

    Args:
        looks: rows of ``topic_snapshots``.
        compared: times of the metadata snapshots to compare, by cluster: always the newest ones of the cluster.
        shown: the value to compare, never null.
    """
    shows = (
        looks.where(is_from({cluster: times[0] for cluster, times in compared.items()}))
        .select(*TOPIC_KEY, shown.alias("shown"))
        .groupBy(*TOPIC_KEY)
        .agg(F.min("shown").alias("least"), F.max("shown").alias("most"), F.count(F.lit(1)).alias("look_count"))
    )
    is_absent = F.col("look_count") < by_cluster({cluster: len(times) for cluster, times in compared.items()})
    return shows.where((F.col("least") < F.col("most")) | is_absent).select(*TOPIC_KEY)
