"""Which members that left have likely lost their session, as their commits show, and which have not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.audit.expired_sessions import find_expired_sessions
from jobs.audit.inferred_causes import commits_around, refresh, silent_departures, with_inferred
from jobs.audit.run import _append_audits
from jobs.storage.scratch import StagedKeys
from jobs.workers.guard import WorkerLimits
from schemas.config import parse_settings
from schemas.staging import EXPIRED_SESSIONS
from schemas.tables import GENERATION_AUDITS, MOVEMENTS, OFFSET_SNAPSHOTS, SUBSCRIPTION_SNAPSHOTS
from tests.builders.frames import Row, StoredInMemory, frame, member_row, moment, snapshot_row, snapshots

HELD_S, GONE_S = 100, 1_000
"""Times of the generation with the member ``a``, and of the one without it; commits of ``b`` go on in between."""
SESSION_S = 45
CONSUMER_SESSION_MS = 45_000
LIMITS = WorkerLimits(memory_mb=4_096, idle_timeout_s=60)
Commits = dict[float, float]
"""Time of each commit in seconds -> its offset: a record a second, where it says nothing else."""


def regular(last_s: float, every_s: float = 5, count: int = 20) -> Commits:
    return {last_s - every_s * number: last_s - every_s * number for number in range(count)}


def unchanged(last_s: float) -> Commits:
    return dict.fromkeys(regular(last_s), 7)


SILENT, B_GOES_ON = regular(GONE_S - 50), regular(GONE_S - 1, count=60)
WAITS = regular(GONE_S - 48)
"""The last commit of ``b`` if it waits for ``a`` to join again, as the members of eager assignors do."""
USUAL = {"session_timeout_ms": SESSION_S * 1_000, "rebalance_timeout_ms": 300_000}
OF_CONSUMER = {"session_timeout_ms": None, "group_type": "consumer"}
CASES: dict[str, tuple[Commits, Commits, dict[str, Any]]] = {
    "expired": (SILENT, B_GOES_ON, {}),
    "others joined again late": (regular(GONE_S - 60), B_GOES_ON, {}),
    "others wait": (SILENT, WAITS, {}),
    "alone": (SILENT, {}, {}),
    "commits without records": (unchanged(GONE_S - 50), B_GOES_ON, {"next": {}}),
    "the owner before committed once more": ({HELD_S + 1: HELD_S + 1, **regular(GONE_S - 50)}, B_GOES_ON, {"older": {}}),
    "consumer protocol": (regular(GONE_S - 42), B_GOES_ON, OF_CONSUMER),
    "the next target is late, consumer protocol": (regular(GONE_S - 65), B_GOES_ON, OF_CONSUMER),
    # All others have not lost their session.
    "closed": (regular(GONE_S - 3), B_GOES_ON, {}),
    "closed, others joined again late": (regular(GONE_S - 63), B_GOES_ON, {}),
    "closed, others waited for another": (regular(GONE_S - 53), WAITS, {}),
    "within its session": (regular(GONE_S - 44), B_GOES_ON, {}),
    "closed, the next target is late, consumer protocol": (regular(GONE_S - 68), B_GOES_ON, OF_CONSUMER),
    "within its session, consumer protocol": (regular(GONE_S - 39), B_GOES_ON, OF_CONSUMER),
    "as long as a poll may take": (SILENT, B_GOES_ON, {"rebalance_timeout_ms": 50_000}),
    "committed after its last poll": (SILENT, B_GOES_ON, {"rebalance_timeout_ms": 54_000}),
    "idle": (SILENT, B_GOES_ON, {"next": {GONE_S + 3: GONE_S - 50}}),
    "idle, and nobody commits": (SILENT, B_GOES_ON, {"next": {}}),
    "idle, and records come in again": (SILENT, B_GOES_ON, {"next": {GONE_S + 20: GONE_S - 30}}),
    "records are seen too late": (SILENT, B_GOES_ON, {"next": {GONE_S + 26: GONE_S + 26}}),
    "idle, and two commits without records": (
        {**SILENT, GONE_S - 60: GONE_S - 55, GONE_S - 55: GONE_S - 55, GONE_S - 50: GONE_S - 55},
        B_GOES_ON,
        {"next": {}},
    ),
    "still there": (SILENT, B_GOES_ON, {"stays": True}),
    "never committed": ({}, B_GOES_ON, {}),
    "commits of the owner before": (regular(HELD_S - 1), B_GOES_ON, {"rebalance_timeout_ms": 10_000_000, "session_timeout_ms": 890_000}),
    "commits rarely": (regular(GONE_S - 50, every_s=60, count=12), B_GOES_ON, {}),
    "commits now and then": (regular(GONE_S - 50, every_s=26), B_GOES_ON, {}),
    "too few commits": (regular(GONE_S - 50, count=8), B_GOES_ON, {}),
    "commits rarely at first": ({HELD_S + 1: HELD_S + 1, HELD_S + 9: HELD_S + 9, **regular(GONE_S - 50)}, B_GOES_ON, {"older": {}}),
    "no session timeout": (SILENT, B_GOES_ON, {"session_timeout_ms": None}),
    "long session": (SILENT, B_GOES_ON, {"session_timeout_ms": 60_000}),
}
"""Group -> commits of ``a`` and of ``b``; timeouts of ``a``, and what else is not as usual: ``next`` are the commits for the partitions of
``a`` after it, ``older`` those on its other partition."""
EXPIRED = {
    "expired": 50,
    "others joined again late": 60,
    "others wait": 50,
    "alone": 50,
    "commits without records": 50,
    "the owner before committed once more": 50,
    "consumer protocol": 42,
    "the next target is late, consumer protocol": 65,
}
"""The members that have lost their session, with their silence in seconds."""


def group_rows() -> Iterator[tuple[str, Row]]:
    """Yield rows of tables: in each group ``b`` takes over both partitions of ``a``, of which one has a single commit, an older one."""
    for group, (of_a, of_b, changes) in CASES.items():
        timeouts = {name: value for name, value in (USUAL | changes).items() if name in USUAL}
        for generation, at_s, names in ((1, HELD_S, "ab"), (2, GONE_S, "ab" if changes.get("stays") else "b")):
            members = [member_row(name, **(timeouts if name == "a" else USUAL)) for name in names]
            group_type = changes.get("group_type", "classic")
            yield "snapshots", snapshot_row(group, generation, *members, observed_at=moment(at_s * 1_000), group_type=group_type)
        key = {"cluster_id": "c", "group_id": group, "generation": 2, "observed_at": moment(GONE_S * 1_000), "position": 2}
        older = changes.get("older", {min(of_a) + 1: min(of_a) + 1} if of_a else {})
        for partition, last_s in ((0, max(of_a, default=None)), (1, max(older, default=None))):
            committed_at = None if last_s is None else moment(int(last_s * 1_000))
            owners = {"previous_generation": 1, "previous_member_id": "a", "member_id": "b", "kind": "reassigned"}
            taken_over = {"topic": "t", "partition": partition, "committed_at": committed_at, **owners}
            yield "movements", {**key, "basis": "observed", "strategy": "range", **taken_over}
        following = changes.get("next", {GONE_S + 3: GONE_S})
        for partition, made in {0: {**of_a, **following}, 1: older, 2: of_b}.items():
            for at_s, offset in made.items():
                at = moment(int(at_s * 1_000))
                commit = {
                    "topic": "t",
                    "partition": partition,
                    "position": int(at_s * 1_000),
                    "committed_at": at,
                    "committed_offset": int(offset),
                }
                yield "commits", {"cluster_id": "c", "group_id": group, "observed_at": at, "is_deleted": False, **commit}


def rows_of_groups() -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for table, row in group_rows():
        rows.setdefault(table, []).append(row)
    return rows


@pytest.fixture(scope="module")
def expired(spark: SparkSession) -> DataFrame:
    rows = rows_of_groups()
    movements = frame(spark, MOVEMENTS.schema, rows["movements"])
    silent = silent_departures(movements, snapshots(spark, *rows["snapshots"]), CONSUMER_SESSION_MS)
    around = commits_around(silent, movements, frame(spark, OFFSET_SNAPSHOTS.schema, rows["commits"]))
    return around.mapInArrow(partial(find_expired_sessions, limits=LIMITS), EXPIRED_SESSIONS).cache()


def test_only_a_member_that_stops_while_its_records_go_on_has_lost_its_session(expired: DataFrame) -> None:
    found = {row["group_id"]: row["silence_ms"] / 1000 for row in expired.collect()}
    assert found == EXPIRED
    assert {row["member_id"] for row in expired.collect()} == {"a"}


def test_commits_of_one_millisecond_come_by_offset_in_whatever_order_they_landed(spark: SparkSession) -> None:
    rows = {table: [row for row in of_all if row["group_id"] == "expired"] for table, of_all in rows_of_groups().items()}
    last = max((row for row in rows["commits"] if row["partition"] == 0), key=itemgetter("observed_at"))
    together = [{**last, "position": -number, "committed_offset": 100_000 - number} for number in range(1, 9)]
    movements = frame(spark, MOVEMENTS.schema, rows["movements"])
    silent = silent_departures(movements, snapshots(spark, *rows["snapshots"]), CONSUMER_SESSION_MS)
    around = commits_around(silent, movements, frame(spark, OFFSET_SNAPSHOTS.schema, [*together, *rows["commits"]])).collect()
    of_last = [row["committed_offset"] for row in around if row["committed_us"] == max(row["committed_us"] for row in around)]
    assert of_last == sorted(of_last) and len(of_last) == 9


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


@pytest.mark.parametrize(("after_s", "expected"), [(3, [LIKELY]), (3 * 3_600, None)])
def test_commits_that_land_after_a_generation_show_that_its_records_went_on(
    spark: SparkSession, after_s: int, expected: list[Any] | None
) -> None:
    rows = {table: [row for row in of_all if row["group_id"] == "expired"] for table, of_all in rows_of_groups().items()}
    month = {"observed_month": moment(0).date()}
    commits = [{**row, **month, "run_sequence": 1} for row in rows["commits"] if row["observed_at"] < moment(GONE_S * 1_000)]
    at = moment((GONE_S + after_s) * 1_000)
    late = {**commits[0], "partition": 0, "committed_at": at, "observed_at": at, "committed_offset": GONE_S + after_s, "run_sequence": 2}
    key = {"cluster_id": "c", "group_id": "expired", "generation": 2, "observed_at": moment(GONE_S * 1_000), "position": 2}
    audit = {**key, "basis": "observed", "strategy": "range", "triggers": ["member_left"], "causes": [], "run_sequence": 1}
    tables = {
        GENERATION_AUDITS.name: frame(spark, GENERATION_AUDITS.schema, [audit]),
        MOVEMENTS.name: frame(spark, MOVEMENTS.schema, rows["movements"]),
        OFFSET_SNAPSHOTS.name: frame(spark, OFFSET_SNAPSHOTS.schema, [*commits, late]),
        SUBSCRIPTION_SNAPSHOTS.name: snapshots(spark, *rows["snapshots"]),
    }
    warehouse = StoredInMemory(tables)
    context: Any = SimpleNamespace(
        warehouse=warehouse,
        unread=lambda table, reader: 1,
        before=SimpleNamespace(written={GENERATION_AUDITS.name: 1}),
        state=SimpleNamespace(retained_from=None),
        settings=parse_settings({}, "f"),
        worker_limits=LIMITS,
        run_sequence=2,
        run_columns={"run_sequence": F.lit(2).cast("bigint")},
    )
    refresh(context)
    assert [row["causes"] for row in warehouse.replaced] == ([] if expected is None else [expected])


@pytest.mark.parametrize("departure", [1, 2])
def test_causes_and_pauses_that_change_are_written_with_the_new_audits(spark: SparkSession, departure: int) -> None:
    """A third generation ends the pause of the second one; new commits change the causes of one of the two."""

    def audit(generation: int, **changes: Any) -> Row:
        figures = {"unassigned_count": 2, "causes": [], "is_follow_up": False, "previous_generation": generation - 1, "run_sequence": 1}
        key = {"cluster_id": "c", "group_id": "g", "generation": generation, "position": generation}
        return {**key, "observed_at": moment(generation * 1_000), "basis": "observed", "strategy": "range", **figures, **changes}

    stored = [audit(1, pause_partition_ms=2_000), audit(2)]
    warehouse = StoredInMemory({GENERATION_AUDITS.name: frame(spark, GENERATION_AUDITS.schema, stored)})
    otherwise = frame(spark, GENERATION_AUDITS.schema, [{**stored[departure - 1], "causes": [LIKELY]}])
    groups = StagedKeys(frame(spark, GENERATION_AUDITS.schema, [audit(3)]).select("cluster_id", "group_id"), 1)
    context: Any = SimpleNamespace(warehouse=warehouse, run_sequence=2, run_columns={"run_sequence": F.lit(2).cast("bigint")})
    new = frame(spark, GENERATION_AUDITS.schema, [audit(3, run_sequence=2)])
    rewritten = _append_audits(context, new, groups, StagedKeys(otherwise, 1))
    found = sorted((row["position"], row["pause_partition_ms"], bool(row["causes"]), row["run_sequence"]) for row in warehouse.replaced)
    first = [(1, 2_000, True, 2)] if departure == 1 else []
    assert found == [*first, (2, 2_000, departure == 2, 2), (3, None, False, 2)]
    assert rewritten is not None
    assert sorted(row["position"] for row in rewritten.rows.collect()) == [position for position, *_ in found[:-1]]
