"""Which members that left have likely lost their session, as their commits show, and which have not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs.audit.inferred_causes import likely_expired, silent_departures, with_inferred
from schemas.tables import GENERATION_AUDITS, MOVEMENTS, OFFSET_SNAPSHOTS
from tests.builders.frames import Row, frame, member_row, moment, snapshot_row, snapshots

HELD_S, GONE_S = 100, 1_000
"""Times of the generation with the member ``a``, and of the one without it; commits of ``b`` go on in between."""


def regular(last_s: float, every_s: float = 5, count: int = 20) -> list[float]:
    return [last_s - every_s * number for number in range(count)]


B_GOES_ON = regular(GONE_S - 1, count=60)
CASES: dict[str, tuple[Sequence[float], Sequence[float], dict[str, Any]]] = {
    "expired": (regular(GONE_S - 50), B_GOES_ON, {}),
    "closed": (regular(GONE_S - 3), B_GOES_ON, {}),
    "within its session": (regular(GONE_S - 44), B_GOES_ON, {}),
    "as long as a poll may take": (regular(GONE_S - 300), B_GOES_ON, {}),
    "never committed": ([], B_GOES_ON, {}),
    "commits of the owner before": (regular(HELD_S - 1), B_GOES_ON, {"rebalance_timeout_ms": 10_000_000}),
    "commits rarely": (regular(GONE_S - 50, every_s=60, count=12), B_GOES_ON, {}),
    "commits now and then": (regular(GONE_S - 50, every_s=26), B_GOES_ON, {}),
    "too few commits": (regular(GONE_S - 50, count=8), B_GOES_ON, {}),
    "all are silent": (regular(GONE_S - 50), regular(GONE_S - 48), {}),
    "alone": (regular(GONE_S - 50), [], {}),
    "no session timeout": (regular(GONE_S - 50), B_GOES_ON, {"session_timeout_ms": None}),
    "long session": (regular(GONE_S - 50), B_GOES_ON, {"session_timeout_ms": 60_000}),
}
"""Group -> times of the commits of ``a`` and of ``b`` in seconds, and the timeouts of ``a``. Only the first member has lost its session."""


def group_rows() -> Iterator[tuple[str, Row]]:
    """Yield rows of tables: in each group ``b`` takes over both partitions of ``a``, of which one has a single commit, an older one."""
    for group, (of_a, of_b, timeouts) in CASES.items():
        usual = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000}
        for generation, at_s, names in ((1, HELD_S, "ab"), (2, GONE_S, "b")):
            members = [member_row(name, **usual | (timeouts if name == "a" else {})) for name in names]
            yield "snapshots", snapshot_row(group, generation, *members, observed_at=moment(at_s * 1_000))
        key = {"cluster_id": "c", "group_id": group, "generation": 2, "observed_at": moment(GONE_S * 1_000), "position": 2}
        times = {0: of_a, 1: [of_a[1] + 1] if of_a else [], 2: of_b}
        for partition, last_s in ((0, max(of_a, default=None)), (1, max(times[1], default=None))):
            committed_at = None if last_s is None else moment(int(last_s * 1_000))
            owners = {"previous_generation": 1, "previous_member_id": "a", "member_id": "b", "kind": "reassigned"}
            taken_over = {"topic": "t", "partition": partition, "committed_at": committed_at, **owners}
            yield "movements", {**key, "basis": "observed", "strategy": "range", **taken_over}
        for partition, seconds in times.items():
            for at_s in seconds:
                at = moment(int(at_s * 1_000))
                commit = {"topic": "t", "partition": partition, "position": int(at_s * 1_000), "committed_at": at}
                yield "commits", {"cluster_id": "c", "group_id": group, "observed_at": at, "is_deleted": False, **commit}


@pytest.fixture(scope="module")
def expired(spark: SparkSession) -> DataFrame:
    rows: dict[str, list[Row]] = {}
    for table, row in group_rows():
        rows.setdefault(table, []).append(row)
    movements = frame(spark, MOVEMENTS.schema, rows["movements"])
    silent = silent_departures(movements, snapshots(spark, *rows["snapshots"]))
    return likely_expired(silent, movements, frame(spark, OFFSET_SNAPSHOTS.schema, rows["commits"])).cache()


def test_only_a_member_that_stops_among_others_has_lost_its_session(expired: DataFrame) -> None:
    found = [row.asDict() for row in expired.select("group_id", "member_id", "silence_ms", "session_timeout_ms").collect()]
    assert found == [{"group_id": "expired", "member_id": "a", "silence_ms": 50_000, "session_timeout_ms": 45_000}]


def cause(word: str, source: str, member_id: str | None = "a", detail: str | None = None) -> dict[str, str | None]:
    return {"cause": word, "member_id": member_id, "source": source, "detail": detail}


LIKELY = cause("session_expired", "inferred", "a", "likely: its last commit was 50 s before, and its session timeout is 45 s")
JOINED = cause("joined", "records", "z")


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([], [LIKELY]),
        ([JOINED], [JOINED, LIKELY]),
        ([JOINED, LIKELY], [JOINED, LIKELY]),
        ([cause("closed", "log", "z")], [cause("closed", "log", "z"), LIKELY]),
        ([cause("closed", "log")], [cause("closed", "log")]),
        ([cause("hand_over", "log", None)], [cause("hand_over", "log", None), LIKELY]),
        (None, None),
    ],
)
def test_cause_in_a_log_replaces_the_likely_one(
    spark: SparkSession, expired: DataFrame, stored: list[Any] | None, expected: list[Any] | None
) -> None:
    key = {"cluster_id": "c", "group_id": "expired", "generation": 2, "observed_at": moment(GONE_S * 1_000), "position": 2}
    audits = frame(spark, GENERATION_AUDITS.schema, [{**key, "basis": "observed", "strategy": "range", "causes": stored}])
    (row,) = with_inferred(audits, expired).collect()
    assert (None if row["causes"] is None else [one.asDict() for one in row["causes"]]) == expected


def test_likely_cause_that_no_longer_holds_goes(spark: SparkSession) -> None:
    audits = frame(spark, GENERATION_AUDITS.schema, [{"group_id": "expired", "causes": [JOINED, LIKELY]}])
    (row,) = with_inferred(audits, None).collect()
    assert [one.asDict() for one in row["causes"]] == [JOINED]
