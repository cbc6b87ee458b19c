"""What retention keeps of a group's history and of metadata snapshots, on a handful of rows."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.maintain.retention import first_kept_month, kept_commits, kept_history, kept_looks, superseded_records
from schemas.tables import GENERATION_AUDITS, GROUP_RECORDS, OFFSET_SNAPSHOTS
from tests.builders.frames import frame, look_row, looks, member_row, moment, snapshot_row, snapshots

Row = dict[str, Any]
OLD, MIDDLE, NEW = date(2020, 1, 1), date(2021, 1, 1), date(2022, 1, 1)
"""Before both bounds, before that of counterfactuals only, and after both."""


@pytest.mark.parametrize(
    ("days", "expected"),
    [(21, date(2026, 11, 1)), (22, date(2026, 10, 1)), (730, date(2024, 11, 1))],
)
def test_the_month_in_which_the_kept_days_begin_stays(days: int, expected: date) -> None:
    assert first_kept_month(datetime(2026, 11, 22, 12, tzinfo=timezone.utc), days) == expected


def history(
    spark: SparkSession,
    generations: list[tuple[int, date, int]],
    unsettled: set[int],
    unread: list[int],
    *,
    is_audited: bool = True,
    empty: frozenset[int] = frozenset(),
):
    """Return (needed_from, named, dropped_until, states_from) of one group.

    Args:
        generations: (position, month, incarnation) of its snapshots.
        unsettled: positions at which something is withheld.
        unread: positions that have not been assigned or audited yet.
        empty: positions without members.
    """
    rows = [snapshot_row("g", position, position=position, observed_month=month, incarnation=life) for position, month, life in generations]
    audited = [position for position, _, _ in generations if is_audited and position not in unread]
    key = {"cluster_id": "c", "group_id": "g"}
    audits = [
        {
            **key,
            "position": position,
            "basis": "observed",
            "is_settled": position not in unsettled,
            "member_count": int(position not in empty),
        }
        for position in audited
    ]
    fresh = spark.createDataFrame([("c", "g", position) for position in unread], "cluster_id string, group_id string, position bigint")
    (row,) = kept_history(snapshots(spark, *rows), frame(spark, GENERATION_AUDITS.schema, audits), fresh, MIDDLE, NEW).collect()
    return row["needed_from"], row["named"], row["dropped_until"], row["states_from"]


ONE_LIFE = [(1, OLD, 1), (2, OLD, 1), (3, OLD, 1), (4, MIDDLE, 1), (5, NEW, 1), (6, NEW, 1)]


@pytest.mark.parametrize(
    ("generations", "unsettled", "unread", "expected"),
    [
        pytest.param(ONE_LIFE, set(), [], (6, [1], None, 5), id="the first of a life that goes on names it"),
        pytest.param(ONE_LIFE[:3], set(), [], (3, [1], None, 3), id="a group that has long been quiet keeps its last"),
        pytest.param(ONE_LIFE, {6}, [], (5, [1], None, 5), id="the last is handing over: the one before is compared with"),
        pytest.param(ONE_LIFE, {5, 6}, [], (4, [1], None, 4), id="no state is left without the counterfactuals before it"),
        pytest.param(ONE_LIFE, {1, 2, 3, 4, 5, 6}, [], (-1, [1], None, -1), id="never settled: everything is needed"),
        pytest.param(ONE_LIFE, set(), [3], (2, [1], None, 2), id="a late one is still to be assigned"),
        pytest.param(ONE_LIFE, set(), [1], (-1, [1], None, -1), id="a late first one"),
        pytest.param(
            [(1, OLD, 1), (2, OLD, 1), (4, OLD, 4), (5, NEW, 4)], set(), [], (5, [4], 2, 5), id="a life that is over goes as a whole"
        ),
        pytest.param([(1, OLD, 1), (2, NEW, 1), (4, NEW, 4)], set(), [], (4, [1, 4], None, 2), id="a life that is over, but not for long"),
    ],
)
def test_retention_keeps_what_later_runs_need_of_a_group(
    spark: SparkSession, generations: list[tuple[int, date, int]], unsettled: set[int], unread: list[int], expected: tuple
) -> None:
    assert history(spark, generations, unsettled, unread) == expected


def test_empty_group_keeps_its_last_generation_with_members(spark: SparkSession) -> None:
    """Whether a group has another assignor when its members are back follows from the last generation that had any."""
    assert history(spark, ONE_LIFE[:3], set(), [], empty=frozenset({3})) == (2, [1], None, 2)


def test_group_that_is_never_audited_keeps_its_last_snapshot(spark: SparkSession) -> None:
    """Empty snapshots of a group of another protocol type are read and never audited."""
    assert history(spark, ONE_LIFE[:3], set(), [], is_audited=False) == (3, [1], None, 3)


# -- commits


def test_two_commits_of_each_partition_are_kept(spark: SparkSession) -> None:
    """With one of them alone, a member that has stopped to commit looks like one that never committed twice."""
    made = {0: [(1, False), (2, False), (5, False)], 1: [(3, False)], 2: [(4, False), (6, True), (7, True)], 3: [(8, True), (9, True)]}
    rows = [
        {"cluster_id": "c", "group_id": "g", "topic": "t", "partition": partition, "position": position, "is_deleted": is_deleted}
        for partition, commits in made.items()
        for position, is_deleted in commits
    ]
    found = kept_commits(frame(spark, OFFSET_SNAPSHOTS.schema, rows)).collect()
    assert {row["partition"]: row["kept_from"] for row in found} == {0: 2, 1: 3, 2: 4, 3: 9}


# -- looks

MONTH = date(1970, 1, 2)
DAY_MS = 86_400_000
"""Milliseconds from the epoch to ``MONTH``, for once not the first of a month."""


def kept(spark: SparkSession, times: list[int], *rows: Row, offsets_at: int | None = None) -> tuple[Any, Any]:
    found = [look_row("t", at, [["r1"]]) for at in times]
    found += [] if offsets_at is None else [look_row("__consumer_offsets", offsets_at, [["r1"]])]
    (row,) = (
        kept_looks(looks(spark, *found), snapshots(spark, *rows), MONTH)
        .selectExpr("unix_millis(needed_from) AS needed_from", "unix_millis(offsets_look_at) AS offsets_look_at")
        .collect()
    )
    return row["needed_from"], row["offsets_look_at"]


def standing(joined_at_ms: int, *, instance: str | None = "i", generation: int = 1) -> Row:
    return snapshot_row("g", generation, member_row("m", group_instance_id=instance), joined_at=moment(joined_at_ms))


@pytest.mark.parametrize(
    ("times", "rows", "expected"),
    [
        pytest.param([1, 2, 3, DAY_MS + 1], [], 2, id="two looks before the bound"),
        pytest.param([1, 2, 3, DAY_MS], [], 3, id="one of them at the bound"),
        pytest.param([1, DAY_MS + 1], [], None, id="there are not two"),
        pytest.param([1, 2, 3, 4, DAY_MS], [standing(3)], 2, id="two before a generation that may be rewritten"),
        pytest.param([1, 2, 3, 4, DAY_MS], [standing(3, instance=None)], 4, id="a dynamic member cannot come back to it"),
        pytest.param([1, 2, 3, 4, DAY_MS], [standing(3), standing(4, generation=2)], 3, id="only the last generation can be"),
    ],
)
def test_metadata_snapshots_that_later_generations_need_are_kept(
    spark: SparkSession, times: list[int], rows: list[Row], expected: int | None
) -> None:
    assert kept(spark, times, *rows) == (expected, None)


def test_newest_metadata_of_the_offsets_topic_is_kept(spark: SparkSession) -> None:
    """Where it is older than all other kept looks, the coordinator's partition would no longer be known."""
    assert kept(spark, [5, 6, 7], offsets_at=1) == (6, 1)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([(1, 2, b"c"), (2, 2, b"c"), (3, 2, b"c"), (4, 2, None)], [1, 2], id="the last value has the protocol type"),
        pytest.param([(1, 8, b"v"), (2, 8, b"v"), (3, 8, None)], [1, 2], id="nothing is left of a key that ended"),
        pytest.param([(1, 5, b"v"), (2, 5, b"v"), (3, 5, b"v")], [], id="a member's metadata since it joined"),
        pytest.param([(1, 5, b"v"), (2, 5, None), (3, 5, b"v"), (4, 5, b"v")], [1], id="but not of its life before"),
        pytest.param([(1, 3, b"v"), (2, 6, b"v"), (3, 3, b"v"), (4, 3, b"v")], [1, 2], id="group epochs since the last target"),
        pytest.param([(1, 2, None), (2, 8, b"v"), (3, 8, b"v"), (4, 8, b"v")], [3], id="what shows that a group was turned over"),
        pytest.param([(1, 2, None), (3, 8, b"v"), (4, 8, b"v")], [3], id="but not in another batch"),
    ],
)
def test_retention_drops_superseded_group_records(spark: SparkSession, records: list[tuple], expected: list[int]) -> None:
    """Those of other keys and groups do not count, nor those of kept months."""

    def row(offset: int, kind: int, value: bytes | None, **changes: Any) -> Row:
        return {
            **{"cluster_id": "c", "offsets_partition": 3, "offset": offset, "type": kind, "group_id": "g", "key": b"k", "value": value},
            **{"observed_month": OLD, **changes},
        }

    rows = [row(*record) for record in records]
    rows += [
        row(100 + row_found, 8, b"v", **other) for row_found, other in enumerate(({"key": b"l"}, {"group_id": "h"}, {"cluster_id": "d"}))
    ]
    rows += [row(200, records[0][1], b"v", observed_month=NEW), row(201, records[0][1], None, observed_month=NEW)]
    found = superseded_records(frame(spark, GROUP_RECORDS.schema, rows), MIDDLE).collect()
    assert sorted(tuple(row_found) for row_found in found) == [("c", 3, offset, "g") for offset in expected]
