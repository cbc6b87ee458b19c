"""Look findings: topic metadata, the newest generation of each group -> ``findings`` on partitions that topics have gained since.

If a topic grows and its group does not rebalance, there is no new generation. Only topic metadata shows that nobody reads the new
partitions. The stage checks groups with a topic whose partition count differs between the metadata snapshots that are new or may be next
to a new generation. It also checks groups with such a finding: a newer generation ends it, and it grows more severe with time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial, reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.audit import udfs as audit_udfs
from jobs.audit.found_rows import found_in
from jobs.audit.new_commits import CLOCKS_DIFFER, rows_since
from jobs.audit.open_targets import longest_timeout_ms
from jobs.context import RunContext
from jobs.findings.looks import SEEN_AT
from jobs.storage.changed_findings import replace_findings
from jobs.storage.topic_changes import Times, by_cluster, changed_topics, is_from, looks_with_news, topics_at
from schemas.keys import GENERATION_KEY, GROUP_KEY, TOPIC_KEY
from schemas.staging import GROWTH_FACTS
from schemas.tables import (
    FINDINGS,
    GENERATION_AUDITS,
    GENERATION_TOPICS,
    OFFSET_SNAPSHOTS,
    SOLUTIONS,
    SUBSCRIPTION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
)
from schemas.vocabulary import Basis, GroupType, Rule

SOURCE_KEY = ("cluster_id", "source")
READ_HERE = {name: f"{name} for {FINDINGS.name}" for name in (TOPIC_SNAPSHOTS.name, OFFSET_SNAPSHOTS.name)}
"""Table -> the name under which ``runs.consumed`` records how far its rows were used here."""


def looks_to_compare(times_ms: Times, first_new_ms: Mapping[str, int] | None) -> dict[str, tuple[int, ...]]:
    """Return the metadata snapshots to compare: from the last one before new data on, for clusters with two or more of these.

    Args:
        first_new_ms: cluster id -> earliest time of new data; None if all data is new.

    >>> looks_to_compare({"c": (10, 20, 30, 40), "d": (10,), "e": (10, 20)}, {"c": 35, "d": 5})
    {'c': (30, 40)}
    """
    if first_new_ms is None:
        return {cluster: times for cluster, times in times_ms.items() if len(times) > 1}
    compared = {cluster: times_ms[cluster][max(bisect_left(times_ms[cluster], at) - 1, 0) :] for cluster, at in first_new_ms.items()}
    return {cluster: times for cluster, times in compared.items() if len(times) > 1}


def newest_with_topics(audits: DataFrame, topics: DataFrame) -> DataFrame:
    """Return the topics of the newest audited generation of each group, if it has members and is settled.

    Rows: (cluster_id, group_id, topic); position, known_count. Topics whose partition count no metadata snapshot confirms are left out.
    """
    facts = F.struct("position", "topics_hash", "member_count", "is_settled")
    newest = audits.where(F.col("basis") == str(Basis.OBSERVED)).groupBy(*GROUP_KEY).agg(F.max_by(facts, "position").alias("newest"))
    settled = newest.select(*GROUP_KEY, "newest.*").where("member_count > 0 AND is_settled").drop("member_count", "is_settled")
    entries = settled.join(topics, ["cluster_id", "topics_hash"]).select(*GENERATION_KEY, F.inline("topics")).where("NOT is_uncertain")
    return entries.select(*GENERATION_KEY, "topic", F.col("partition_count").alias("known_count"))


def grown_topics(newest: DataFrame, looks: DataFrame, times_ms: Times) -> DataFrame:
    """Return the topics that have more partitions in the newest metadata snapshot than in the generation.

    Rows: as ``newest``; partition_count.
    """
    last = looks.where(is_from({cluster: times[-1] for cluster, times in times_ms.items()})).select(*TOPIC_KEY, "partition_count")
    return newest.join(last, list(TOPIC_KEY)).where("partition_count > known_count")


def with_first_seen(grown: DataFrame, looks: DataFrame, stored: DataFrame | None = None) -> DataFrame:
    """Return grown topics with ``seen_at_ms``, the time of the first metadata snapshot since which the topic has more partitions.

    If no metadata snapshot with fewer partitions is left, retention may have removed the first one with more. Then the time in a stored
    finding on the same partitions counts if it is earlier.

    Args:
        grown: as ``grown_topics`` returns them, materialized: they are few, and used several times.
        stored: findings as ``of_looks`` returns them; None if no metadata snapshot has been removed, or there are none.
    """
    asked = grown.select(*TOPIC_KEY, "known_count").distinct()
    seen = looks.select(*TOPIC_KEY, F.unix_millis("observed_at").alias("look_ms"), F.col("partition_count").alias("count"))
    is_small = F.col("count") <= F.col("known_count")
    of_topic = Window.partitionBy(*TOPIC_KEY, "known_count")
    both = seen.join(F.broadcast(asked), list(TOPIC_KEY)).withColumn("small_ms", F.max(F.when(is_small, F.col("look_ms"))).over(of_topic))
    larger = both.where("look_ms > coalesce(small_ms, -1)")
    first = larger.groupBy(*TOPIC_KEY, "known_count").agg(F.min("look_ms").alias("seen_at_ms"), F.max("small_ms").alias("small_ms"))
    seen_now = grown.join(first, [*TOPIC_KEY, "known_count"])
    if stored is None:
        return seen_now.drop("small_ms")
    evidence = F.col("evidence")
    seen_before = stored.select(
        *GENERATION_KEY,
        F.unix_millis(F.to_timestamp(evidence[SEEN_AT])).alias("stored_ms"),
        F.split(evidence["partitions"], ", ").alias("names"),
    )
    is_same = F.array_contains("names", F.concat_ws("-", "topic", "known_count"))
    is_earlier = F.col("stored_ms") + 1_000 <= F.col("seen_at_ms")  # findings have seconds
    kept_ms = F.when(F.col("small_ms").isNull() & is_same & is_earlier, F.col("stored_ms"))
    both = seen_now.join(seen_before, list(GENERATION_KEY), "left").withColumn("seen_at_ms", F.coalesce(kept_ms, "seen_at_ms"))
    return both.drop("small_ms", "stored_ms", "names")


def growth_facts(grown: DataFrame, snapshots: DataFrame, commits: DataFrame, times_ms: Times) -> DataFrame:
    """Return the facts for the rule: one row per group with a finding, of ``schemas.staging.GROWTH_FACTS``.

    Topics to which nobody subscribes any more are left out. If the source has no subscriptions, a member has partitions of each topic.

    Args:
        grown: as ``with_first_seen`` returns them.
    """
    clusters = grown.select("cluster_id").distinct()
    records = [rows.join(F.broadcast(clusters), "cluster_id").select(*SOURCE_KEY, "observed_at") for rows in (snapshots, commits)]
    until = reduce(DataFrame.unionByName, records).groupBy(*SOURCE_KEY).agg(F.max(F.unix_millis("observed_at")).alias("known_until_ms"))
    subscribed = grown.join(snapshots.where("NOT is_conversion"), list(GENERATION_KEY)).where(
        F.array_contains(F.flatten(F.col("members.topics")), F.col("topic"))
    )
    topic = F.struct("topic", "known_count", "partition_count", "seen_at_ms")
    observed_at_ms = F.unix_millis("observed_at").alias("observed_at_ms")
    timeout_ms = F.when(F.col("group_type") == str(GroupType.CONSUMER), F.lit(0)).otherwise(longest_timeout_ms())
    rows = subscribed.groupBy(*GENERATION_KEY, "generation", observed_at_ms, "source", "group_type").agg(
        F.sort_array(F.collect_list(topic)).alias("grown"), F.max(timeout_ms).alias("rebalance_timeout_ms")
    )
    columns = {
        "is_consumer_protocol": F.col("group_type") == str(GroupType.CONSUMER),
        "looked_until_ms": by_cluster({cluster: times[-1] for cluster, times in times_ms.items()}),
    }
    return rows.join(until, list(SOURCE_KEY), "left").withColumns(columns).select(*GROWTH_FACTS.names)


def begun_at(snapshots: DataFrame) -> DataFrame:
    """Return the times from which on generations have their topics, ``at_ms``, with cluster_id.

    The members of a generation have joined before its record, mostly by seconds. A record that was written again, as for a static member
    that came back, keeps the time at which they joined.
    """
    return snapshots.select("cluster_id", F.unix_millis(F.least("joined_at", "observed_at")).alias("at_ms"))


@dataclass(frozen=True)
class _News:
    """What is new since the last audit.

    Attributes:
        first_ms: cluster id -> earliest time of a new metadata snapshot or generation; None if no run has audited before.
        known_ms: cluster id -> times of metadata snapshots with new rows that were read without these before.
    """

    first_ms: dict[str, int] | None
    known_ms: dict[str, list[int]] = field(default_factory=dict)


def _news(context: RunContext, solutions_consumed: int | None, looks_consumed: int | None) -> _News:
    if not context.before.written.get(GENERATION_AUDITS.name):
        return _News(None)
    warehouse = context.warehouse
    parts: list[DataFrame] = []
    if solutions_consumed is not None:
        solved = warehouse.read_new(SOLUTIONS.name, solutions_consumed)
        (row,) = solved.agg(F.min("observed_at").alias("first")).collect()
        if row["first"] is not None:  # else maintenance has dropped them
            recent = rows_since(warehouse.read(SUBSCRIPTION_SNAPSHOTS.name), row["first"] - CLOCKS_DIFFER)
            parts.append(begun_at(recent.join(solved.select(*GENERATION_KEY).distinct(), list(GENERATION_KEY), "left_semi")))
    if looks_consumed is not None:
        parts.append(looks_with_news(warehouse, looks_consumed))
    if not parts:
        return _News({})
    times = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), [parts[-1], *parts[:-1]])
    known_ms = F.collect_list(F.when(F.col("is_known"), F.col("at_ms"))) if looks_consumed is not None else F.lit(None)
    rows = times.groupBy("cluster_id").agg(F.min("at_ms").alias("first_ms"), known_ms.alias("known_ms")).collect()
    rows = [row for row in rows if row["cluster_id"] in context.metadata_index.times_ms]
    return _News(
        {row["cluster_id"]: row["first_ms"] for row in rows}, {row["cluster_id"]: row["known_ms"] for row in rows if row["known_ms"]}
    )


def topics_to_ask(context: RunContext, solutions_consumed: int | None, looks_consumed: int | None) -> DataFrame | None:
    """Return (cluster_id, topic) of the topics whose groups are checked; None if no cluster has metadata snapshots to compare.

    Their partition counts differ between these, or one of them was read without its new row of the topic before.

    Args:
        solutions_consumed, looks_consumed: solutions and metadata snapshots with a larger run_sequence are new; None if there are none.
    """
    news = _news(context, solutions_consumed, looks_consumed)
    compared = looks_to_compare(context.metadata_index.times_ms, news.first_ms)
    if not compared:
        return None
    looks = context.warehouse.read(TOPIC_SNAPSHOTS.name)
    changed = changed_topics(looks, compared, F.col("partition_count"))
    if looks_consumed is None or not news.known_ms:
        return changed
    return changed.unionByName(topics_at(looks, news.known_ms, looks_consumed)).distinct()


def of_looks(findings: DataFrame) -> DataFrame:
    """Return the findings of the rules of this module."""
    return findings.where((F.col("rule_id") == str(Rule.PARTITIONS_LEFT_OUT)) & F.col("evidence")[SEEN_AT].isNotNull())


def refresh(context: RunContext, solutions_consumed: int | None) -> None:
    """Write the findings that follow from new topic metadata or generations, and delete those that no longer hold.

    New commits add no finding. They show until when a group with a finding has records, and its severity depends on that.

    Args:
        solutions_consumed: solutions with a larger run_sequence are new; None if there are no new ones.
    """
    consumed = {name: context.unread(name, reader) for name, reader in READ_HERE.items()}
    if solutions_consumed is None and not any(sequence is not None for sequence in consumed.values()):
        return
    warehouse, times_ms = context.warehouse, context.metadata_index.times_ms
    if not any(len(times) > 1 for times in times_ms.values()):
        return
    audits, topics, looks, findings = (
        warehouse.read(spec.name) for spec in (GENERATION_AUDITS, GENERATION_TOPICS, TOPIC_SNAPSHOTS, FINDINGS)
    )
    changed = topics_to_ask(context, solutions_consumed, consumed[TOPIC_SNAPSHOTS.name])
    is_changed = changed is not None and not changed.isEmpty()
    stored = of_looks(findings)
    is_stored = bool(context.before.written.get(FINDINGS.name)) and not stored.isEmpty()
    if not is_changed and not is_stored:
        return
    newest = newest_with_topics(audits, topics)
    asked = [newest.join(changed, list(TOPIC_KEY), "left_semi").select(*GROUP_KEY)] if changed is not None and is_changed else []
    asked += [stored.select(*GROUP_KEY)] if is_stored else []
    newest = newest.join(reduce(DataFrame.unionByName, asked).distinct(), list(GROUP_KEY), "left_semi")
    grown = warehouse.materialize_together("grown_topics", grown_topics(newest, looks, times_ms))
    seen_before = stored if is_stored and context.state.retained_from is not None else None
    grown = warehouse.materialize_together("grown_topics_seen", with_first_seen(grown, looks, seen_before))
    facts = growth_facts(grown, warehouse.read(SUBSCRIPTION_SNAPSHOTS.name), warehouse.read(OFFSET_SNAPSHOTS.name), times_ms)
    found = found_in(context, facts, audit_udfs.find_in_looks)
    own = findings.where((F.col("rule_id") == str(Rule.PARTITIONS_LEFT_OUT)) & F.col("evidence")[SEEN_AT].isNull())
    found = found.join(own, list(FINDINGS.key), "left_anti")
    replace_findings(warehouse, stored if is_stored else None, found, "look_findings")
