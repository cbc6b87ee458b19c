"""Which topics are asked for, and which of them have grown since the newest generation of a group: on a few rows of each table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.audit.look_findings import grown_topics, growth_facts, newest_with_topics, topics_to_ask, with_first_seen
from jobs.storage.topic_changes import changed_topics
from schemas.tables import FINDINGS, GENERATION_AUDITS, GENERATION_TOPICS, OFFSET_SNAPSHOTS, QUARANTINE, TOPIC_SNAPSHOTS
from tests.builders.frames import TablesInMemory, entries, frame, look_row, looks, member_row, moment, snapshot_row, snapshots

Row = dict[str, Any]


def seen(topic: str, **counts: int) -> list[Row]:
    """Return looks at a topic: ``seen("t", at_10=2)`` is one at 10 ms with two partitions."""
    return [look_row(topic, int(name.removeprefix("at_")), [[]] * count) for name, count in counts.items()]


LOOKS = [
    *seen("same", at_10=2, at_20=2, at_30=2),
    *seen("grew", at_10=2, at_20=2, at_30=3),
    *seen("grew_before", at_10=1, at_20=2, at_30=2),
    *seen("shrank", at_10=4, at_20=4, at_30=3),
    *seen("created", at_30=1),
    *seen("deleted", at_10=1, at_20=1),
    *seen("again", at_10=3, at_20=2, at_30=3),
]


@pytest.mark.parametrize(
    ("compared", "expected"),
    [
        pytest.param((20, 30), {"grew", "shrank", "created", "deleted", "again"}, id="the newest and the one before"),
        pytest.param((10, 20, 30), {"grew", "grew_before", "shrank", "created", "deleted", "again"}, id="all"),
    ],
)
def test_only_topics_whose_count_differs_are_asked_for(spark: SparkSession, compared: tuple[int, ...], expected: set[str]) -> None:
    assert {row["topic"] for row in changed_topics(looks(spark, *LOOKS), {"c": compared}, F.col("partition_count")).collect()} == expected


@pytest.mark.parametrize(
    ("others", "displaced", "expected"),
    [
        pytest.param(seen("u", at_10=1, at_20=1, at_30=1), [], {"t"}, id="the newest one was read without t"),
        pytest.param([], ["look 30 t"], {"t"}, id="it had another content of t, and nothing else"),
        pytest.param([], [], set(), id="it is new, and as the one before"),
    ],
)
def test_topic_that_a_known_metadata_snapshot_shows_late_is_asked_for(
    spark: SparkSession, others: list[Row], displaced: list[str], expected: set[str]
) -> None:
    """``t`` has grown at 20 ms. What run 2 brings at 30 ms shows it as the one before."""
    rows = [{**row, "run_sequence": 1} for row in (*seen("t", at_10=3, at_20=5), *others)]
    rows += [{**row, "run_sequence": 2} for row in seen("t", at_30=5)]
    conflict = {"cluster_id": "c", "source": "cluster-metadata", "reason": "conflicting_content"}
    lost = [{**conflict, "source_position": place} for place in displaced]
    tables = TablesInMemory({TOPIC_SNAPSHOTS.name: looks(spark, *rows), QUARANTINE.name: frame(spark, QUARANTINE.schema, lost)})
    before = SimpleNamespace(written={GENERATION_AUDITS.name: 1})
    context = SimpleNamespace(warehouse=tables, before=before, metadata_index=SimpleNamespace(times_ms={"c": (10, 20, 30)}))
    asked = topics_to_ask(cast(Any, context), None, 1)
    assert asked is not None and {row["topic"] for row in asked.collect()} == expected


def topics_row(topics_hash: str, **counts: int) -> Row:
    """Return the topics of a generation; those whose name begins with ``maybe`` are not confirmed."""
    entry = {"topic_id": None, "partition_racks": None, "basis": "before"}
    topics = [
        {**entry, "topic": name, "partition_count": count, "is_uncertain": name.startswith("maybe")} for name, count in counts.items()
    ]
    return {"cluster_id": "c", "topics_hash": topics_hash, "topics": topics}


def audit_row(group_id: str, position: int, topics_hash: str, **changes: Any) -> Row:
    row = {"cluster_id": "c", "group_id": group_id, "position": position, "basis": "observed", "topics_hash": topics_hash}
    return {**row, "member_count": 1, "is_settled": True, **changes}


def test_newest_generation_has_the_partition_counts_it_was_assigned_with(spark: SparkSession) -> None:
    audits = [
        audit_row("g", 1, "old"),
        audit_row("g", 2, "new"),
        audit_row("empty", 1, "old"),
        audit_row("empty", 2, "new", member_count=0),
        audit_row("handing over", 1, "new", is_settled=False),
    ]
    topics = [topics_row("old", t=1), topics_row("new", t=2, maybe=1)]
    found = newest_with_topics(frame(spark, GENERATION_AUDITS.schema, audits), frame(spark, GENERATION_TOPICS.schema, topics))
    assert [(row["group_id"], row["position"], row["topic"], row["known_count"]) for row in found.collect()] == [("g", 2, "t", 2)]


def test_topic_has_grown_if_the_newest_metadata_has_more_partitions(spark: SparkSession) -> None:
    """``again`` had three at 10 ms, two at 20 ms and three again: what is there now was first seen at 30 ms."""
    newest = spark.createDataFrame(
        [("c", "g", 1, name, known) for name, known in {"same": 2, "grew": 2, "shrank": 4, "created": 0, "deleted": 1, "again": 2}.items()],
        "cluster_id string, group_id string, position bigint, topic string, known_count int",
    )
    grown = with_first_seen(grown_topics(newest, looks(spark, *LOOKS), {"c": (10, 20, 30)}), looks(spark, *LOOKS))
    found = {row["topic"]: (row["known_count"], row["partition_count"], row["seen_at_ms"]) for row in grown.collect()}
    assert found == {"grew": (2, 3, 30), "created": (0, 1, 30), "again": (2, 3, 30)}


def test_time_of_a_metadata_snapshot_that_retention_has_removed_is_kept(spark: SparkSession) -> None:
    """Each topic has three partitions in all that is left, from 50 s on; ``h`` has been seen with two at 60 s and has grown again since."""
    left = [*seen("t", at_50000=3), *seen("u", at_50000=3), *seen("h", at_50000=3, at_60000=2, at_70000=3)]
    cases = {"kept": ("t", 2), "of other partitions": ("t", 1), "of another topic": ("u", 2), "grown again": ("h", 2), "later": ("t", 2)}
    grown = spark.createDataFrame(
        [("c", group, 1, topic, known, 3) for group, (topic, known) in cases.items()],
        "cluster_id string, group_id string, position bigint, topic string, known_count int, partition_count int",
    )
    texts = {group: "1970-01-01T00:00:30Z" for group in cases} | {"later": "1970-01-01T00:00:50Z"}
    names = {"of another topic": "t-2", "grown again": "h-2"}
    stored = [
        {"cluster_id": "c", "group_id": group, "position": 1, "evidence": {"seen_at": text, "partitions": names.get(group, "s-1, t-2")}}
        for group, text in texts.items()
    ]
    found = with_first_seen(grown, looks(spark, *left), frame(spark, FINDINGS.schema, stored)).collect()
    expected = {"kept": 30_000, "of other partitions": 50_000, "of another topic": 50_000, "grown again": 70_000, "later": 50_000}
    assert {row["group_id"]: row["seen_at_ms"] for row in found} == expected


def test_growth_facts_are_of_topics_that_members_read(spark: SparkSession) -> None:
    """Records of the group's source go on until 5,000 ms, those of another one until 9,000."""
    members = [member_row("m", assigned=entries(t=[0]), rebalance_timeout_ms=90_000), member_row("n", rebalance_timeout_ms=60_000)]
    topics = [
        snapshot_row("g", 1, *members, source="consumer-offsets", group_type="classic"),
        snapshot_row("brokers", 1, *members, source="consumer-offsets", group_type="consumer"),
        snapshot_row("untold", 1, member_row("m"), source="describe", group_type="classic", has_subscriptions=False),
        snapshot_row("converted", 1, member_row("m"), source="consumer-offsets", group_type="classic", is_conversion=True),
    ]
    commit = {"cluster_id": "c", "group_id": "h", "topic": "t", "partition": 0, "position": 7}
    commits = [
        {**commit, "source": "consumer-offsets", "observed_at": moment(5_000)},
        {**commit, "source": "snapshot", "observed_at": moment(9_000)},
    ]
    grown = spark.createDataFrame(
        [("c", group, 1, topic, 1, 2, 20) for group in ("g", "brokers", "untold", "converted") for topic in ("t", "left")],
        "cluster_id string, group_id string, position bigint, topic string, known_count int, partition_count int, seen_at_ms bigint",
    )
    facts = growth_facts(grown, snapshots(spark, *topics), frame(spark, OFFSET_SNAPSHOTS.schema, commits), {"c": (10, 20)})
    brokers, row, untold = sorted(facts.collect(), key=lambda row: row["group_id"])
    assert (untold["group_id"], untold["grown"], untold["known_until_ms"]) == ("untold", row["grown"], 1_000)
    assert (row["group_id"], row["generation"], row["observed_at_ms"], row["is_consumer_protocol"]) == ("g", 1, 1_000, False)
    assert [one.asDict() for one in row["grown"]] == [{"topic": "t", "known_count": 1, "partition_count": 2, "seen_at_ms": 20}]
    assert (row["looked_until_ms"], row["known_until_ms"]) == (20, 5_000)
    assert [one["rebalance_timeout_ms"] for one in (row, untold, brokers)] == [90_000, 300_000, 0]
