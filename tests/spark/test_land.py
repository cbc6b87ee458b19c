"""Landing on three to six rows: where each record ends."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.land.deduplication import CONFLICT, place_of, resolve_duplicates, with_identity
from schemas.staging import TARGETS
from schemas.tables import QUARANTINE
from tests.builders.decoded_rows import bad, commit, record, snapshot, tombstone
from tests.builders.frames import decoded, member_row, moment

# -- outcomes


def printed(offset: int, content: str, **changes: Any) -> dict[str, Any]:
    """Return a commit of a source that has no places in a log, so that records are known by their keys."""
    return commit(offset, content, source="formatter-json", source_position=f"f line {offset}", **changes)


def resolved(
    spark: SparkSession, *rows: dict[str, Any], known: DataFrame | None = None, quarantined: DataFrame | None = None
) -> list[tuple]:
    """Return (place in the capture, outcome, whether it is written, reason) of each record, in a fixed order."""
    found = resolve_duplicates(decoded(spark, *rows), known, quarantined).collect()
    assert [row for row in found if row["is_new"] is None] == []
    read = [row for row in found if row["outcome"] is not None]
    return sorted((row["source_position"], row["outcome"], row["is_new"], row["reason"] or "") for row in read)


def resolved_apart(spark: SparkSession, inputs: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, list[str]]:
    """Return the outcomes of the records of each input, sorted; each is a cluster of its own, so that they do not meet."""
    rows = [{**row, "cluster_id": name} for name, of_input in inputs.items() for row in of_input]
    found: dict[str, list[str]] = {name: [] for name in inputs}
    for row in resolve_duplicates(decoded(spark, *rows), None, None).collect():
        found[row["cluster_id"]].append(row["outcome"])
    return {name: sorted(outcomes) for name, outcomes in found.items()}


def kept(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Return what ``quarantine`` holds after a first run on these rows."""
    found = resolve_duplicates(decoded(spark, *rows), None, None).where("is_new and outcome = 'quarantined'")
    return found.select(*QUARANTINE.key).localCheckpoint()


def landed_before(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Return what the tables have of these rows when they have landed."""
    columns = ("cluster_id", "source", "target", "group_id", "position", "place", "group_place", "content")
    return with_identity(decoded(spark, *rows)).select(*columns, F.lit(True).alias("is_known"), "is_lost")


def test_the_same_record_twice_lands_once(spark: SparkSession) -> None:
    rows = [commit(1, "x"), commit(1, "x"), commit(2, "x")]  # the same place twice; the same content at another place
    assert resolved(spark, *rows) == [("3@1", "duplicate", False, ""), ("3@1", "landed", True, ""), ("3@2", "landed", True, "")]


def test_a_record_that_landed_before_is_a_duplicate(spark: SparkSession) -> None:
    known = landed_before(spark, commit(1, "x"))
    assert resolved(spark, commit(1, "x"), commit(1, "x"), commit(2, "y"), known=known) == [
        ("3@1", "duplicate", False, ""),
        ("3@1", "duplicate", False, ""),
        ("3@2", "landed", True, ""),
    ]


def test_every_part_of_the_key_makes_another_record(spark: SparkSession) -> None:
    """Where a log's places are not known; where they are, one place has one record, whatever its key."""
    changes: dict[str, Any] = {"group_id": "h", "topic": "u", "partition": 1, "position": 9}
    pairs = {name: [printed(1, "x"), printed(1, "y", **{name: value})] for name, value in changes.items()}
    pairs["nothing"] = [printed(1, "x"), printed(1, "y")]
    expected = {name: ["landed", "landed"] for name in changes}
    assert resolved_apart(spark, pairs) == {**expected, "nothing": ["landed", "quarantined"]}


def test_keys_cannot_imitate_each_other(spark: SparkSession) -> None:
    """Group ids may hold spaces: the topic 'a' of 'b c' is not the topic 'a b' of 'c'."""
    found = resolved(spark, printed(1, "x", topic="a", group_id="b c"), printed(1, "y", topic="a b", group_id="c"))
    assert [outcome for _, outcome, _, _ in found] == ["landed", "landed"]


def test_record_keys_of_sources_and_tables_do_not_collide(spark: SparkSession) -> None:
    """A printed tombstone of the group '5', its third record, is not the record 3@5; nor is it the group's third snapshot."""
    of_group = {"source": "formatter-json", "source_position": "f line 3"}
    printed_end = {**tombstone(3, "x", group="5"), **of_group}
    printed_value = {**snapshot(3, "y", group_id="5"), **of_group}
    found = resolved(spark, printed_end, printed_value, record(5, "z"), commit(3, "c", group_id="5", source_position="4@3"))
    assert {outcome for _, outcome, _, _ in found} == {"landed", "skipped"}


RAW = {
    "a commit": commit(1, "b"),
    "another one's": commit(1, "c", group_id="h"),
    "another topic's": commit(1, "b", topic="u"),
    "at another time": commit(1, "b", observed_at=moment(5)),
    "a snapshot": snapshot(1, "d"),
    "a foreign group's": record(1, "e"),
    "another foreign one's": record(1, "f", group="h"),
    "a tombstone": tombstone(1, "a"),
    "of another partition": tombstone(1, "g", offsets_partition=4) | {"source_position": "4@1"},
}


def test_one_offset_of_the_log_has_one_record_of_whatever_kind(spark: SparkSession) -> None:
    """At once and in two runs the same one of two stays; each two in a cluster of their own."""
    of_h = {"another one's", "another foreign one's"}
    pairs = [(one, other) for one, other in itertools.combinations(RAW, 2) if one not in of_h or other != "of another partition"]
    clusters = [f"{one} and {other}" for one, other in pairs]
    firsts, seconds = (
        [{**RAW[pair[which]], "cluster_id": cluster} for pair, cluster in zip(pairs, clusters, strict=True)] for which in (0, 1)
    )

    def lost(*rows: dict[str, Any], known: DataFrame | None = None) -> list[tuple[str, str]]:
        found = resolve_duplicates(decoded(spark, *rows), known, None)
        return sorted((row["cluster_id"], row["payload_hash"]) for row in found.where(f"reason = '{CONFLICT}'").collect())

    at_once = lost(*firsts, *seconds)
    assert [cluster for cluster, _ in at_once] == sorted(clusters)
    assert lost(*seconds, known=landed_before(spark, *firsts)) == at_once
    assert lost(*firsts, known=landed_before(spark, *seconds)) == at_once
    again = resolved(spark, *firsts, known=landed_before(spark, *firsts))
    assert {(outcome, is_new) for _, outcome, is_new, _ in again} == {("duplicate", False), ("skipped", False)}


SNAPSHOT = {
    "group_type": "classic",
    "state": "Stable",
    "strategy": "range",
    "observed_at": moment(1),
    "joined_at": moment(1),
    "members": [member_row("a"), member_row("b")],
}


CHANGES: list[dict[str, Any]] = [
    {"strategy": "sticky"},
    {"generation": 2},
    {"generation": None},
    {"joined_at": moment(2)},
    {"observed_at": moment(2)},
    {"members": [member_row("b"), member_row("a")]},
    {"members": [member_row("a", topics=None), member_row("b", topics=None)]},
]


def test_every_stored_field_of_a_snapshot_counts_in_its_fingerprint(spark: SparkSession) -> None:
    """Its fingerprint is of what members hold, in whatever order; what else is stored must not depend on which of two came first."""
    same = snapshot(1, "x", source="snapshot", **SNAPSHOT)
    pairs = {str(changes): [same, snapshot(1, "x", source="snapshot", **{**SNAPSHOT, **changes})] for changes in CHANGES}
    expected = {name: ["landed", "quarantined"] for name in pairs}
    assert resolved_apart(spark, {**pairs, "nothing": [same, same]}) == {**expected, "nothing": ["duplicate", "landed"]}


def test_equal_offsets_of_two_clusters_do_not_conflict(spark: SparkSession) -> None:
    found = resolved(spark, commit(1, "x"), {**commit(1, "y"), "cluster_id": "d"})
    assert [outcome for _, outcome, _, _ in found] == ["landed", "landed"]


def test_different_content_at_one_offset_is_a_conflict(spark: SparkSession) -> None:
    """Which of them lands does not depend on their order in the input."""
    rows = [commit(1, "y"), commit(1, "v"), commit(1, "y")]
    expected = [
        ("3@1", "landed", True, ""),
        ("3@1", "quarantined", False, "conflicting_content"),
        ("3@1", "quarantined", True, "conflicting_content"),
    ]
    assert resolved(spark, *rows) == resolved(spark, *rows[::-1]) == expected
    (conflict,) = resolve_duplicates(decoded(spark, *rows), None, None).where("is_new and outcome = 'quarantined'").collect()
    assert conflict["detail"] == "another record at the same position was kept; the fingerprint of this one is y"
    assert not conflict["is_displaced"]


def test_a_conflict_is_kept_once_however_often_it_is_landed(spark: SparkSession) -> None:
    rows = [commit(1, "v"), commit(1, "y")]
    again = resolved(spark, *rows, known=landed_before(spark, rows[0]), quarantined=kept(spark, *rows))
    assert again == [("3@1", "duplicate", False, ""), ("3@1", "quarantined", False, "conflicting_content")]


def test_same_content_stays_whichever_landed_first(spark: SparkSession) -> None:
    """A stored one that has to go is put into quarantine where it is deleted, not for the equal one of the input."""
    y_was_first = resolved(spark, commit(1, "v"), commit(1, "y"), known=landed_before(spark, commit(1, "y")))
    assert y_was_first == [("3@1", "landed", True, ""), ("3@1", "quarantined", False, "conflicting_content")]
    found = resolve_duplicates(decoded(spark, commit(1, "v")), landed_before(spark, commit(1, "y")), None).where("is_displaced").collect()
    assert [row["place"] for row in found] == ["3@1"]
    v_was_first = resolved(spark, commit(1, "y"), known=landed_before(spark, commit(1, "v")))
    assert v_was_first == [("3@1", "quarantined", True, "conflicting_content")]


def test_quarantine_keeps_each_content_of_a_line_once(spark: SparkSession) -> None:
    """Two files of one name have their first lines at the same place."""
    rows = [bad("f line 1", "p"), bad("f line 1", "q"), bad("f line 1", "p"), bad("f line 2", "p")]
    assert resolved(spark, *rows) == [
        ("f line 1", "quarantined", False, "truncated"),
        ("f line 1", "quarantined", True, "truncated"),
        ("f line 1", "quarantined", True, "truncated"),
        ("f line 2", "quarantined", True, "truncated"),
    ]
    again = resolved(spark, *rows, bad("f line 2", "r"), quarantined=kept(spark, *rows))
    assert [position for position, _, is_new, _ in again if is_new] == ["f line 2"]


def test_skipped_records_are_written_nowhere(spark: SparkSession) -> None:
    skipped = {"outcome": "skipped", "kind": "unknown_99", "source_position": "3@1"}
    assert resolved(spark, skipped, skipped, bad("3@1", "p")) == [
        ("3@1", "quarantined", True, "truncated"),
        ("3@1", "skipped", False, ""),
        ("3@1", "skipped", False, ""),
    ]


def test_records_older_than_the_retained_months_are_skipped(spark: SparkSession) -> None:
    """Older than the first kept month: what is still there is known, a foreign group's record is not noted again either."""
    day = 86_400_000
    old, young = commit(1, "x", observed_at=moment(day - 1)), commit(2, "y", observed_at=moment(day))
    known = commit(3, "z", observed_at=moment(0))
    noted = {"outcome": "skipped", "kind": "classic_group_metadata:connect", "source_position": "3@4"}
    noted["group_record"] = {"offsets_partition": 3, "offset": 4, "group_id": "g", "timestamp": moment(0), "fingerprint": "c"}
    rows = decoded(spark, old, young, known, noted, bad("3@5", "p"))
    found = resolve_duplicates(rows, landed_before(spark, known), None, date(1970, 1, 2)).collect()
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
    frame_ = decoded(spark, *({"source": "formatter-json", **row} for row in rows))
    places = [frame_.where(frame_[name].isNotNull()).select(place_of(name, frame_[name].getField)).collect()[0][0] for name in TARGETS]
    assert places == ["group_record 9 g", "snapshot 9 g", "offset_commit 9 0 1 t g", "look 1000 t"]
