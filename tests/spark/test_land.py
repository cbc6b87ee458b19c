"""Landing on three to six rows: where each record ends."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs.land import place_of, settle_outcomes
from schemas.staging import TARGETS
from schemas.tables import QUARANTINE
from tests.spark.frames import decoded, moment

# -- outcomes


def commit(offset: int, content: str, **changes: Any) -> dict[str, Any]:
    place = {"group_id": "g", "topic": "t", "partition": 0, "position": offset, "fingerprint": content}
    position = changes.pop("source_position", f"3@{offset}")
    return {"outcome": "landed", "kind": "offset_commit", "source_position": position, "offset_commit": {**place, **changes}}


def bad(position: str, payload_hash: str, reason: str = "truncated") -> dict[str, Any]:
    texts = {"kind": "offset_commit", "reason": reason, "detail": "cut", "payload_hash": payload_hash}
    return {"outcome": "quarantined", "source_position": position, **texts}


def settled(
    spark: SparkSession, *rows: dict[str, Any], known: DataFrame | None = None, quarantined: DataFrame | None = None
) -> list[tuple]:
    """Return (place in the capture, outcome, whether it is written, reason) of each record, in a fixed order."""
    found = settle_outcomes(decoded(spark, *rows), known, quarantined)
    assert found.where("is_new is null").isEmpty()
    return sorted((row["source_position"], row["outcome"], row["is_new"], row["reason"] or "") for row in found.collect())


def kept(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Return what ``quarantine`` holds after a first run on these rows."""
    found = settle_outcomes(decoded(spark, *rows), None, None).where("is_new and outcome = 'quarantined'")
    return found.select(*QUARANTINE.key).localCheckpoint()


def landed_before(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Return the keys that the tables hold after these rows landed."""
    commits = decoded(spark, *rows).select("cluster_id", "offset_commit.*")
    place = place_of("offset_commit", commits.__getitem__)
    return commits.selectExpr("cluster_id", "'offset_commit' AS target", "*").select(
        "cluster_id", "target", place.alias("place"), commits["fingerprint"].alias("known_fingerprint")
    )


def test_the_same_record_twice_lands_once(spark: SparkSession) -> None:
    rows = [commit(1, "x"), commit(1, "x"), commit(2, "x")]  # the same place twice; the same content at another place
    assert settled(spark, *rows) == [("3@1", "duplicate", False, ""), ("3@1", "landed", True, ""), ("3@2", "landed", True, "")]


def test_a_record_that_landed_before_is_a_duplicate(spark: SparkSession) -> None:
    known = landed_before(spark, commit(1, "x"))
    assert settled(spark, commit(1, "x"), commit(1, "x"), commit(2, "y"), known=known) == [
        ("3@1", "duplicate", False, ""),
        ("3@1", "duplicate", False, ""),
        ("3@2", "landed", True, ""),
    ]


@pytest.mark.parametrize(
    "changes",
    [{"group_id": "h"}, {"topic": "u"}, {"partition": 1}, {"position": 9}],
)
def test_every_part_of_the_key_makes_another_record(spark: SparkSession, changes: dict[str, Any]) -> None:
    found = settled(spark, commit(1, "x"), commit(1, "y", **changes))
    assert [outcome for _, outcome, _, _ in found] == ["landed", "landed"]


def test_keys_cannot_imitate_each_other(spark: SparkSession) -> None:
    """Group ids may hold spaces: the topic 'a' of 'b c' is not the topic 'a b' of 'c'."""
    found = settled(spark, commit(1, "x", topic="a", group_id="b c"), commit(1, "y", topic="a b", group_id="c"))
    assert [outcome for _, outcome, _, _ in found] == ["landed", "landed"]


def test_other_clusters_have_the_same_places(spark: SparkSession) -> None:
    found = settled(spark, commit(1, "x"), {**commit(1, "y"), "cluster_id": "d"})
    assert [outcome for _, outcome, _, _ in found] == ["landed", "landed"]


def test_another_content_at_the_same_place_is_a_conflict(spark: SparkSession) -> None:
    """Which of them lands does not depend on their order in the input."""
    rows = [commit(1, "y"), commit(1, "x"), commit(1, "y")]
    expected = [
        ("3@1", "landed", True, ""),
        ("3@1", "quarantined", False, "conflicting_content"),
        ("3@1", "quarantined", True, "conflicting_content"),
    ]
    assert settled(spark, *rows) == settled(spark, *rows[::-1]) == expected
    (conflict,) = settle_outcomes(decoded(spark, *rows), None, None).where("is_new and outcome = 'quarantined'").collect()
    assert conflict["detail"] == "another content was found at the same place and kept; this one's fingerprint is y"
    assert (conflict["payload_hash"], conflict["displaced"]) == ("y", None)


def test_a_conflict_is_kept_once_however_often_it_is_landed(spark: SparkSession) -> None:
    rows = [commit(1, "x"), commit(1, "y")]
    again = settled(spark, *rows, known=landed_before(spark, rows[0]), quarantined=kept(spark, *rows))
    assert again == [("3@1", "duplicate", False, ""), ("3@1", "quarantined", False, "conflicting_content")]


def test_which_content_stays_does_not_depend_on_which_landed_first(spark: SparkSession) -> None:
    y_was_first = settled(spark, commit(1, "x"), commit(1, "y"), known=landed_before(spark, commit(1, "y")))
    assert y_was_first == [("3@1", "landed", True, ""), ("3@1", "quarantined", True, "conflicting_content")]
    displaced = settle_outcomes(decoded(spark, commit(1, "x")), landed_before(spark, commit(1, "y")), None).select("displaced").collect()
    assert [row["displaced"] for row in displaced] == ["y"]
    x_was_first = settled(spark, commit(1, "y"), known=landed_before(spark, commit(1, "x")))
    assert x_was_first == [("3@1", "quarantined", True, "conflicting_content")]


def test_quarantine_keeps_each_content_at_each_place_once(spark: SparkSession) -> None:
    """Two files of one name have their first lines at the same place."""
    rows = [bad("f line 1", "p"), bad("f line 1", "q"), bad("f line 1", "p"), bad("f line 2", "p")]
    assert settled(spark, *rows) == [
        ("f line 1", "quarantined", False, "truncated"),
        ("f line 1", "quarantined", True, "truncated"),
        ("f line 1", "quarantined", True, "truncated"),
        ("f line 2", "quarantined", True, "truncated"),
    ]
    again = settled(spark, *rows, bad("f line 2", "r"), quarantined=kept(spark, *rows))
    assert [place for place, _, is_new, _ in again if is_new] == ["f line 2"]


def test_skipped_records_are_written_nowhere(spark: SparkSession) -> None:
    skipped = {"outcome": "skipped", "kind": "unknown_99", "source_position": "3@1"}
    assert settled(spark, skipped, skipped, bad("3@1", "p")) == [
        ("3@1", "quarantined", True, "truncated"),
        ("3@1", "skipped", False, ""),
        ("3@1", "skipped", False, ""),
    ]


def test_what_retention_dropped_is_skipped(spark: SparkSession) -> None:
    """Older than the first kept month: what is still there is known, a foreign group's record is not noted again either."""
    day = 86_400_000
    old, young = commit(1, "x", observed_at=moment(day - 1)), commit(2, "y", observed_at=moment(day))
    known = commit(3, "z", observed_at=moment(0))
    noted = {"outcome": "skipped", "kind": "classic_group_metadata:connect", "source_position": "3@4"}
    noted["group_record"] = {"offsets_partition": 3, "offset": 4, "group_id": "g", "timestamp": moment(0), "fingerprint": "c"}
    rows = decoded(spark, old, young, known, noted, bad("3@5", "p"))
    found = settle_outcomes(rows, landed_before(spark, known), None, date(1970, 1, 2)).collect()
    assert sorted((row["source_position"], row["outcome"], row["kind"], row["is_new"]) for row in found) == [
        ("3@1", "skipped", "expired", False),
        ("3@2", "landed", "offset_commit", True),
        ("3@3", "duplicate", "offset_commit", False),
        ("3@4", "skipped", "classic_group_metadata:connect", False),
        ("3@5", "quarantined", "offset_commit", True),
    ]


def test_every_target_has_a_key(spark: SparkSession) -> None:
    rows = [
        {"group_record": {"offsets_partition": 3, "offset": 9, "group_id": "g"}},
        {"snapshot": {"group_id": "g", "position": 9}},
        {"offset_commit": {"group_id": "g", "topic": "t", "partition": 0, "position": 9}},
        {"look": {"topic": "t", "observed_at": moment(1_000)}},
    ]
    assert {name for row in rows for name in row} == set(TARGETS)
    frame_ = decoded(spark, *rows)
    places = [frame_.where(frame_[name].isNotNull()).select(place_of(name, frame_[name].getField)).collect()[0][0] for name in TARGETS]
    assert sorted(places) == sorted(["3 9", "9 g", "9 0 1 t g", "1000 t"])
