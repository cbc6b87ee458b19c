"""Lag and throughput of a group's partitions, from commits and metadata snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.reading.groups import read_groups
from jobs.reading.published import PublishedTables, open_published
from jobs.reading.stored import PartitionWeights
from jobs.reading.weights import read_weights
from schemas.vocabulary import MOST_LAG
from tests.builders.published_warehouse import at, commit, generation, member, metadata, write_warehouse

GENERATION = generation("g", 10, [member("a-1", ["t"], {"t": [0, 1]})], {"t": 2})


def weights(folder: Path, *parts: Any) -> PartitionWeights:
    """Return the weights of the group in a warehouse of these parts."""
    tables = open_published(str(write_warehouse(folder, GENERATION, *parts)))
    (group,) = read_groups(tables, ["g"])
    return read_weights(tables, [group])[group.key]


def test_lag_and_throughput_come_from_the_newest_snapshots(tmp_path: Path):
    looks = [metadata("t", 1, [0, 0]), metadata("t", 20, [50, 60]), metadata("t", 30, [100, 60])]
    found = weights(tmp_path, *looks, commit("g", "t", 0, 15, 70), commit("g", "t", 0, 25, 90), commit("h", "t", 1, 25, 1))
    assert found == PartitionWeights({("t", 0): 10}, {("t", 0): 5.0, ("t", 1): 0.0}, at(30), {"t": 2})


def test_partitions_are_counted_in_the_newest_snapshot_before_the_next_generation(tmp_path: Path):
    looks = [metadata("t", 1, [0, 0]), metadata("t", 11, [0] * 4), metadata("t", 50, [0] * 9), metadata("u", 11, [0])]
    assert weights(tmp_path, *looks, generation("g", 40, [], {})).partition_counts == {"t": 4}


def test_commit_after_the_snapshot_does_not_count(tmp_path: Path):
    found = weights(tmp_path, metadata("t", 20, [100, 0]), commit("g", "t", 0, 15, 70), commit("g", "t", 0, 25, 90))
    assert found.lag == {("t", 0): 30}


def test_snapshots_after_the_next_generation_do_not_count(tmp_path: Path):
    looks = [metadata("t", 1, [0, 0]), metadata("t", 11, [10, 0]), metadata("t", 50, [999, 999])]
    found = weights(tmp_path, *looks, commit("g", "t", 0, 11, 4), generation("g", 40, [], {}))
    assert found == PartitionWeights({("t", 0): 6}, {("t", 0): 1.0, ("t", 1): 0.0}, at(11), {"t": 2})


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([commit("g", "t", 0, 15, None)], None),
        ([commit("g", "t", 0, 15, 70, topic_id="old")], None),
        ([commit("g", "t", 0, 15, 70, topic_id="new")], 30),
        ([commit("g", "t", 0, 15, 170)], 0),
        ([commit("g", "t", 0, 15, -MOST_LAG)], MOST_LAG),
        ([commit("g", "t", 0, 15, 70), commit("g", "t", 0, 16, None)], None),
        ([], None),
    ],
    ids=["deletion", "topic made anew", "same topic", "commit ahead", "no room", "deleted since", "no commit"],
)
def test_lag_is_known_only_by_a_commit_of_the_topic(tmp_path: Path, parts: list[Any], expected: int | None):
    found = weights(tmp_path, metadata("t", 20, [100, 0], topic_id="new"), *parts)
    assert found.lag.get(("t", 0)) == expected


@pytest.mark.parametrize(
    "before",
    [metadata("t", 1, [0], "old"), metadata("t", 1, [101], "new"), metadata("t", 1, [None], "new")],
    ids=["anew", "shorter", "no end"],
)
def test_throughput_is_unknown_where_two_snapshots_are_not_of_one_log(tmp_path: Path, before: Any):
    assert weights(tmp_path, before, metadata("t", 20, [100], topic_id="new")).throughput == {}


def test_only_commits_for_topics_with_a_snapshot_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    parts = [commit("g", topic, 0, 15, 70) for topic in ("t", "u", "gone")]
    both = generation("g", 10, [member("a-1", ["t", "u"], {"t": [0], "u": [0]})], {"t": 1, "u": 1})
    tables = open_published(str(write_warehouse(tmp_path, both, metadata("t", 20, [100]), *parts)))
    read: list[Any] = []
    rows = PublishedTables.rows
    monkeypatch.setattr(PublishedTables, "rows", lambda *given: read.append((given[1], found := rows(*given))) or found)
    groups = read_groups(tables, ["g"])
    assert [found.lag for found in read_weights(tables, groups).values()] == [{("t", 0): 30}]
    assert [row["topic"] for table, found in read if table == "offset_snapshots" for row in found] == ["t"]


def test_nothing_is_known_without_snapshots(tmp_path: Path):
    assert weights(tmp_path, commit("g", "t", 0, 15, 70)) == PartitionWeights()
