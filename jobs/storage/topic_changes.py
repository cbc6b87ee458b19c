"""Topics that differ between metadata snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from schemas.keys import TOPIC_KEY

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
