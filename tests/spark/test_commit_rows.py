"""The commits that go to the workers of an audit: all that some generation needs, and few others."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.audit.offset_rows import BEFORE_ALL, COMMIT_FIELDS, RowOrder, commit_rows
from schemas.tables import OFFSET_SNAPSHOTS
from tests.builders.frames import frame, moment

Row = dict[str, Any]
SPAN = "cluster_id string, group_id string, first_position bigint, last_position bigint"


def commit(group: str, at: int, partition: int, **changes: Any) -> Row:
    is_deleted = changes.pop("is_deleted", False)
    return {
        "cluster_id": "c",
        "group_id": group,
        "topic": "t",
        "partition": partition,
        "position": at,
        "observed_at": moment(at),
        "committed_at": moment(at),
        "committed_offset": at * 10,
        "is_deleted": is_deleted,
        "is_uncertain": at % 5 == 0,
        "source": "consumer-offsets",
        **changes,
    }


def drawn(random: Random, group: str) -> list[Row]:
    """Return commits of one group at random: deletions, other topics of the name, and each at a place of its own."""
    return [
        commit(group, at, random.randrange(2), is_deleted=random.random() < 0.2, topic_id=random.choice(["A", "A", "B", None]))
        for at in random.sample(range(1, 60), random.randint(0, 50))
    ]


def given(spark: SparkSession, commits: list[Row], spans: list[tuple[str, str, int, int | None]] | None) -> list[Row]:
    limits = None if spans is None else spark.createDataFrame(spans, SPAN)
    found = commit_rows(frame(spark, OFFSET_SNAPSHOTS.schema, commits), limits).collect()
    return [{**row["commit"].asDict(), **row.asDict()} for row in found]


def last_commits(rows: list[Row], position: int) -> dict[int, tuple]:
    """Return of each partition the last commit up to a position, without its place, as a worker keeps it."""
    kept: dict[int, tuple] = {}
    for row in sorted(rows, key=lambda row: row["place"]):
        if row["place"] <= position:
            kept[row["partition"]] = tuple(row[name] for name in COMMIT_FIELDS)
    return kept


@pytest.mark.parametrize("is_open", [True, False])
def test_each_generation_of_the_span_finds_the_same_last_commits(spark: SparkSession, is_open: bool) -> None:
    random = Random(20261129)
    groups = [f"g{number}" for number in range(80)]
    commits = [row for group in groups for row in drawn(random, group)]
    spans = {group: sorted(random.sample(range(60), 2)) for group in groups}
    limits = [("c", group, first, None if is_open else last) for group, (first, last) in spans.items()]
    everything, needed = given(spark, commits, None), given(spark, commits, limits)
    assert len(everything) == len(commits)
    for group, (first, last) in spans.items():
        whole, part = ([row for row in rows if row["group_id"] == group] for rows in (everything, needed))
        for position in range(first, last + 1):
            assert last_commits(part, position) == last_commits(whole, position), (group, position)
        before = [(row["partition"], row["topic_id"]) for row in part if row["place"] < first]
        assert len(before) == len(set(before))
        assert is_open or all(row["place"] <= last for row in part)


def test_commits_of_other_groups_and_before_the_last_one_stay_away(spark: SparkSession) -> None:
    commits = [*(commit("a", at, 0) for at in (1, 2, 3, 7, 8)), commit("b", 4, 0)]
    found = given(spark, commits, [("c", "a", 5, 7)])
    assert sorted((row["group_id"], row["position"], row["row_order"]) for row in found) == [
        ("a", 3, RowOrder.COMMIT),
        ("a", 7, RowOrder.COMMIT),
    ]


def test_all_commits_of_a_group_are_needed_where_only_times_can_be_compared(spark: SparkSession) -> None:
    """One commit of such a source is enough: the place of another says nothing of its time."""
    commits = [commit("a", at, 0) for at in (1, 2, 9)] + [commit("a", 3, 1, source="formatter-json")]
    found = given(spark, commits, [("c", "a", 5, 7)])
    assert sorted(row["place"] for row in found) == [1, 2, 3, 9]
    assert {(row["position"], row["row_order"]) for row in found} == {(BEFORE_ALL, RowOrder.TIMED_COMMIT)}
