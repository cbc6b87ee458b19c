"""Since when a classic group rebalances, and until when that is known: by the log of its coordinator, by polls, and by both."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs.audit.stuck_findings import READ_HERE, open_rebalances, refresh, stuck_facts
from jobs.context import MetadataIndex, RunContext, RunState
from jobs.storage.warehouse import Warehouse
from schemas.config import Settings
from schemas.keys import GENERATION_KEY
from schemas.tables import GENERATION_AUDITS, GROUP_EVENTS, GROUP_RECORDS, SUBSCRIPTION_SNAPSHOTS
from schemas.wire.keys import CLASSIC_GROUP_METADATA
from tests.builders.frames import Row, StoredInMemory, frame, member_row, moment, snapshot_row, snapshots

GENERATION_S = 100
"""The time of the newest generation of each group; broker 1 writes its last line at 900 s, broker 2 at 150 s."""
Event = tuple[int, str, str]
STARTED, SEEN = "rebalance_started", "rebalance_seen"
CASES: dict[str, list[Event]] = {
    "logged": [(110, STARTED, "1")],
    "logged before the generation": [(99, STARTED, "1")],
    "twice without an assignment": [(110, STARTED, "1"), (120, "stabilized", "1"), (130, STARTED, "1")],
    "assigned": [(110, STARTED, "1"), (111, "assignment_received", "1")],
    "begun again": [(110, STARTED, "1"), (111, "assignment_received", "1"), (300, STARTED, "1")],
    "empty": [(110, STARTED, "1"), (111, "emptied", "1")],
    "moved": [(110, STARTED, "1"), (120, "group_loaded", "2")],
    "of a log that ends": [(110, STARTED, "2")],
    "seen": [(110, SEEN, ""), (170, SEEN, ""), (230, SEEN, "")],
    "logged and seen": [(105, STARTED, "2"), (230, SEEN, "")],
    "seen, with records": [(110, SEEN, ""), (170, SEEN, ""), (230, SEEN, "")],
    "logged and seen, with records": [(105, SEEN, ""), (110, STARTED, "2"), (230, SEEN, "")],
    "consumer": [(110, STARTED, "1")],
    "deleted": [(110, STARTED, "1")],
    "deleted before": [(110, STARTED, "1")],
    "other lines": [(900, "member_left", "1"), (150, "member_left", "2")],
}
DELETED = {"deleted": 120, "deleted before": 105}
"""Group -> when a record deletes it."""
EXPECTED = {
    "deleted before": (110, 900, 0),
    "logged": (110, 900, 0),
    "twice without an assignment": (110, 900, 0),
    "begun again": (300, 900, 0),
    "of a log that ends": (110, 150, 0),
    "seen": (110, 230, 3),
    "logged and seen": (105, 230, 1),
    "logged and seen, with records": (110, 150, 0),
}
"""Group -> since and until when it rebalances, and the number of polls; the others do not."""


def event_row(group: str, event: Event) -> Row:
    at_s, word, broker = event
    key = {"cluster_id": "c", "group_id": group, "broker": broker, "logged_at": moment(at_s * 1_000), "event": word}
    seen = {"state": f"seen at {at_s}", "member_ids": [f"m{at_s}"]} if word == SEEN else {"reason": f"began at {at_s}"}
    return key | seen


def facts(spark: SparkSession) -> dict[str, dict[str, Any]]:
    return facts_of(spark, [event_row(group, event) for group, of_group in CASES.items() for event in of_group])


def facts_of(spark: SparkSession, rows_of_events: list[Row]) -> dict[str, dict[str, Any]]:
    events, (audits, of_groups) = frame(spark, GROUP_EVENTS.schema, rows_of_events), generations(spark)
    begun = open_rebalances(events, deletions(spark))
    rows = stuck_facts(begun, events, audits, of_groups).collect()
    assert len({row["group_id"] for row in rows}) == len(rows)
    return {row["group_id"]: row.asDict() for row in rows}


def deletions(spark: SparkSession) -> DataFrame:
    """Return the records that delete groups, and one of another group that is none."""
    key = {"cluster_id": "c", "type": CLASSIC_GROUP_METADATA}
    records = [{**key, "group_id": group, "timestamp": moment(at_s * 1_000)} for group, at_s in DELETED.items()]
    return frame(spark, GROUP_RECORDS.schema, [*records, {**key, "group_id": "logged", "timestamp": moment(120_000), "value": b"-"}])


def generations(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Return the audits and the snapshots of two generations of each group."""
    of_groups = [
        snapshot_row(
            group,
            generation,
            *[member_row(name, rebalance_timeout_ms=timeout_ms) for name, timeout_ms in (("a", 60_000), ("b", None), ("d", 90_000))],
            observed_at=moment((GENERATION_S - 2 + generation) * 1_000),
            source="consumer-offsets" if group.endswith("with records") else "snapshot",
            group_type="consumer" if group == "consumer" else "classic",
        )
        for group in CASES
        for generation in (1, 2)
    ]
    of_audits = {"basis": "observed", "strategy": "range"}
    audits = [{**of_audits, **{name: row[name] for name in GENERATION_KEY}, "observed_at": row["observed_at"]} for row in of_groups]
    return frame(spark, GENERATION_AUDITS.schema, audits), snapshots(spark, *of_groups)


def test_rebalance_lasts_from_its_first_sign_to_the_last_one(spark: SparkSession) -> None:
    found = facts(spark)
    assert {group: (row["waited_ms"], row["poll_count"]) for group, row in found.items()} == {
        group: ((until_s - since_s) * 1_000, poll_count) for group, (since_s, until_s, poll_count) in EXPECTED.items()
    }
    assert {(row["generation"], row["observed_at_ms"], row["rebalance_timeout_ms"]) for row in found.values()} == {(2, 100_000, 90_000)}
    assert {group for group, row in found.items() if not row["is_logged"]} == {"seen"}
    of_log, of_polls, of_both = found["twice without an assignment"], found["seen"], found["logged and seen"]
    assert (of_log["reason"], of_log["state"], of_log["member_ids"]) == ("began at 110", None, ["a", "b", "d"])
    assert (of_polls["reason"], of_polls["state"], of_polls["member_ids"]) == (None, "seen at 230", ["m230"])
    assert (of_both["reason"], of_both["state"], of_both["member_ids"]) == ("began at 105", "seen at 230", ["m230"])


@pytest.mark.parametrize(
    ("members", "differ"),
    [([["a", "b"], ["b", "a"]], False), ([["a", "b"], ["a", "c"]], True), ([None, None], False)],
    ids=["in another order", "another one", "not known"],
)
def test_polls_see_whether_the_members_change(spark: SparkSession, members: list[list[str] | None], differ: bool) -> None:
    polls = [event_row("seen", (at_s, SEEN, "")) | {"member_ids": ids} for at_s, ids in zip((110, 170), members, strict=True)]
    assert facts_of(spark, polls)["seen"]["has_other_members"] is differ


@pytest.mark.parametrize("word", [SEEN, STARTED])
def test_of_events_in_one_millisecond_the_same_one_counts_in_any_order(spark: SparkSession, word: str) -> None:
    pair = [event_row("seen", (110, word, broker)) | {"line_hash": broker, "state": broker, "reason": broker} for broker in "12"]
    first, second = (facts_of(spark, rows)["seen"] for rows in (pair, pair[::-1]))
    assert first == second
    assert (first["state"], first["reason"]) == (("2", None) if word == SEEN else (None, "1"))


@pytest.mark.parametrize(("used_until", "expected"), [(2, ["logged"]), (3, [])], ids=["landed by the run before", "used before"])
def test_events_that_another_run_has_landed_are_used_once(spark: SparkSession, used_until: int, expected: list[str]) -> None:
    """The third run was ``land``, and the fourth one is ``audit``."""
    audits, of_groups = generations(spark)
    events = frame(
        spark, GROUP_EVENTS.schema, [event_row("logged", (110, STARTED, "1")), event_row("other lines", (900, "member_left", "1"))]
    )
    tables = {GROUP_EVENTS.name: events, GENERATION_AUDITS.name: audits, SUBSCRIPTION_SNAPSHOTS.name: of_groups}
    tables[GROUP_RECORDS.name] = deletions(spark)
    stored = StoredInMemory(tables)
    warehouse = cast("Warehouse", stored)
    state = RunState(dict.fromkeys(READ_HERE.values(), used_until), {GENERATION_AUDITS.name: 2, GROUP_EVENTS.name: 3})
    refresh(RunContext(warehouse, Settings(), "fourth", moment(0), MetadataIndex(warehouse), before=state, state=state))
    assert [row["group_id"] for row in stored.appended] == expected
