"""The lag of now: which commit and which metadata snapshot it is by, who owns the partition, and what is not known."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.report.lag_rows import largest_lags
from jobs.storage.current_lag import current_lag, group_lags, newest_assignments
from jobs.storage.last_commits import last_commits_of
from schemas.tables import ASSIGNMENTS, CURRENT_LAG, GENERATION_AUDITS, OFFSET_SNAPSHOTS
from schemas.vocabulary import MOST_LAG
from tests.builders.frames import entries, frame, look_row, looks, moment

Row = dict[str, Any]


def commit(partition: int, at_ms: int, offset: int | None, topic: str = "t", **changes: Any) -> Row:
    row = {"cluster_id": "c", "group_id": "g", "topic": topic, "partition": partition, "position": at_ms, "observed_at": moment(at_ms)}
    return {**row, "committed_offset": offset, "committed_at": moment(at_ms - 1), "is_deleted": offset is None, **changes}


def look(at_ms: int, *ends: int | None, topic: str = "t", **changes: Any) -> Row:
    partitions = [{"partition": number, "end_offset": end} for number, end in enumerate(ends)]
    return {**look_row(topic, at_ms, []), "partitions": partitions, **changes}


def lags_of(spark: SparkSession, commits: list[Row], of_topics: list[Row], held: list[Row] = [], audits: list[Row] = []) -> set[Any]:  # noqa: B006
    rows = [{"cluster_id": "c", "group_id": "g", "basis": "observed", **row} for row in held]
    generations = [{"cluster_id": "c", "group_id": "g", "basis": "observed", **row} for row in audits]
    assignments = newest_assignments(frame(spark, ASSIGNMENTS.schema, rows), frame(spark, GENERATION_AUDITS.schema, generations))
    found = current_lag(last_commits_of(frame(spark, OFFSET_SNAPSHOTS.schema, commits)), looks(spark, *of_topics), assignments)
    assert found.columns == CURRENT_LAG.schema.names
    in_ms = {name: F.unix_millis(name) for name in ("committed_at", "looked_at")}
    return {tuple(row)[2:] for row in found.withColumns(in_ms).collect()}


def test_lag_is_by_the_newest_commit_and_the_newest_metadata_snapshot(spark: SparkSession) -> None:
    """Late commits have a lower position, whatever their place among the rows; a rebalance is not needed."""
    commits = [commit(0, 20, 50), commit(0, 10, 40), commit(1, 11, 70, topic_id="id-t")]
    seen = [look(30, 90, 60), look(15, 80, 500)]
    assert lags_of(spark, commits, seen) == {
        (None, "t", 0, 50, 19, 90, 30, 40),
        (None, "t", 1, 70, 10, 60, 30, 0),  # the commit is beyond an end that was seen
    }


def test_lag_is_null_without_a_commit_or_an_end_of_the_same_topic(spark: SparkSession) -> None:
    commits = [
        commit(0, 10, 40, topic="unseen"),
        commit(0, 10, 40, topic="made anew", topic_id="old"),
        *(commit(0, 10, 40, topic="deleted"), commit(0, 11, None, topic="deleted")),
        commit(0, 10, 40, topic="ends missing since"),
    ]
    held = [{"position": 1, "member_id": "m", "partitions": entries(**{"never": [0]})}]
    seen = [look(30, 90, topic=name) for name in ("made anew", "deleted", "never")]
    seen += [look(20, 45, topic="ends missing since"), look(30, None, topic="ends missing since")]
    assert lags_of(spark, commits, seen, held, [{"position": 1}]) == {
        (None, "unseen", 0, 40, 9, None, None, None),
        (None, "made anew", 0, 40, 9, None, None, None),
        ("m", "never", 0, None, None, 90, 30, None),
        (None, "ends missing since", 0, 40, 9, 45, 20, 5),
    }


def test_end_beside_the_newest_commit_counts_until_a_later_metadata_snapshot_has_one(spark: SparkSession) -> None:
    """As the tables of the describe tool have it. The end beside an earlier commit does not count."""
    commits = [
        commit(0, 20, 50, end_offset=70),
        commit(1, 40, 50, end_offset=70),
        commit(2, 30, 50, end_offset=70),
        *(commit(3, 40, 50, end_offset=70), commit(3, 41, 60)),
        commit(0, 40, 50, topic="unseen", end_offset=70, committed_at=None),
    ]
    assert lags_of(spark, commits, [look(30, 90, 90, 90, 90)]) == {
        (None, "t", 0, 50, 19, 90, 30, 40),
        (None, "t", 1, 50, 39, 70, 40, 20),
        (None, "t", 2, 50, 29, 70, 30, 20),
        (None, "t", 3, 60, 40, 90, 30, 30),
        (None, "unseen", 0, 50, None, 70, 40, 20),
    }


def test_lag_of_a_group_is_the_sum_of_its_known_ones(spark: SparkSession) -> None:
    """Deleted commits and ends that are not known do not count; a group without a known lag has none."""
    commits = [commit(0, 10, 40), commit(1, 11, 50), commit(0, 12, 7, topic="unseen"), *(commit(2, 10, 1), commit(2, 11, None))]
    commits += [commit(0, 10, MOST_LAG - 1, group_id="far"), commit(0, 10, 7, topic="unseen", group_id="none")]
    found = group_lags(last_commits_of(frame(spark, OFFSET_SNAPSHOTS.schema, commits)), looks(spark, look(30, 90, 60, 99))).collect()
    assert sorted((row["group_id"], int(row["group_lag"])) for row in found) == [("far", 0), ("g", 50 + 10)]


def test_owner_is_that_of_the_newest_observed_generation(spark: SparkSession) -> None:
    held = [
        {"position": 1, "member_id": "earlier", "partitions": entries(t=[0, 1])},
        {"position": 2, "member_id": "now", "partitions": entries(t=[0, 0])},
        {"position": 2, "member_id": "too", "partitions": entries(t=[0])},
        {"position": 2, "member_id": "computed", "partitions": entries(t=[1]), "basis": "recomputed"},
    ]
    audits = [{"position": 1}, {"position": 2}, {"position": 3, "basis": "counterfactual"}]
    found = lags_of(spark, [commit(0, 10, 4), commit(1, 10, 4)], [look(30, 9, 9)], held, audits)
    assert sorted((owner or "", partition) for owner, _, partition, *_ in found) == [("", 1), ("now", 0), ("too", 0)]
    emptied = lags_of(spark, [commit(0, 10, 4)], [], held, [*audits, {"position": 3}])
    assert {owner for owner, *_ in emptied} == {None}


def test_lag_that_no_column_holds_is_the_largest_one(spark: SparkSession) -> None:
    ((*_, lag),) = lags_of(spark, [commit(0, 10, -5)], [look(30, MOST_LAG)])
    assert lag == MOST_LAG


def test_the_largest_lags_of_each_group_are_kept_with_the_totals_of_all(spark: SparkSession) -> None:
    rows = [{"topic": "t", "partition": number, "lag": lag} for number, lag in enumerate((3, None, 8, 5))]
    rows += [{"topic": "t", "partition": 0, "lag": None, "group_id": "other"}]
    rows += [{"topic": "t", "partition": 7, "lag": 5, "group_id": "shared", "member_id": name} for name in ("a", "b")]
    rows += [{"topic": "u", "partition": 7, "lag": 5, "group_id": "shared", "member_id": "a"}]
    lags = frame(spark, CURRENT_LAG.schema, [{"cluster_id": "c", "group_id": "g", **row} for row in rows])
    found = largest_lags(lags, 2).collect()
    assert [row["member_id"] for row in found if row["group_id"] == "shared"] == ["a", "b"]
    shown = {(row["group_id"], row["partition"], row["group_lag"], row["known_count"], row["partition_total"]) for row in found}
    assert shown == {("g", 2, 16, 3, 4), ("g", 3, 16, 3, 4), ("other", 0, None, 0, 1), ("shared", 7, 10, 2, 2)}
