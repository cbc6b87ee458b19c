"""Findings on commits: each rule on a group that it is about, and on its neighbours; and what becomes of them when more lands."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import timedelta
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from jobs.audit.commit_facts import find_in_commits
from jobs.audit.commit_findings import commit_facts, newest_generations
from jobs.storage.current_lag import newest_positions
from jobs.storage.last_commits import last_commits_of
from jobs.storage.scratch import StagedKeys
from jobs.workers.guard import WorkerLimits
from schemas.config import DEFAULT_RETENTION_HOURS
from schemas.staging import FOUND_ROWS
from schemas.tables import ASSIGNMENTS, GENERATION_AUDITS, GROUP_RECORDS, OFFSET_SNAPSHOTS
from tests.builders.consumer_group_records import Log
from tests.builders.frames import entries, frame, look_row, looks, member_row, moment, snapshot_row, snapshots, unstaged
from tests.builders.tables import rows

Row = dict[str, Any]
Case = tuple[list[Row], list[Row], list[Row]]
"""Groups, commits and looks of one cluster."""
MINUTE = 60_000
MADE = 1_000
"""When the one generation of these groups was made, see ``snapshot_row``."""


def commit(topic: str, partition: int, at_ms: int, group_id: str = "g", **changes: Any) -> Row:
    row = {"cluster_id": "c", "group_id": group_id, "topic": topic, "partition": partition, "position": at_ms, "source": "consumer-offsets"}
    return {**row, "observed_at": moment(at_ms), "committed_offset": 5, "is_deleted": False, "offsets_partition": 0, **changes}


def look(at_ms: int, *ends: int | None, topic: str = "t", **changes: Any) -> Row:
    partitions = [{"partition": number, "begin_offset": 0, "end_offset": end} for number, end in enumerate(ends)]
    return {**look_row(topic, at_ms, []), "partitions": partitions, **changes}


def one_member(**changes: Any) -> Row:
    return snapshot_row("g", 1, member_row("m", assigned=entries(t=[0, 1]), client_id="app", **changes))


def led_by(*brokers: int) -> Row:
    partitions = [{"partition": number, "leader": broker} for number, broker in enumerate(brokers)]
    return {**look_row("__consumer_offsets", 5, []), "partitions": partitions}


def many(count: int, group_id: str, offsets_partition: int, at_ms: int = 10 * MINUTE) -> list[Row]:
    """Return so many offset records of one moment, as one row."""
    return [commit("t", 0, at_ms, group_id, offsets_partition=offsets_partition, copies=count)]


def all_commits(spark: SparkSession, commits: list[Row]) -> DataFrame:
    """Return commits, those with ``copies`` so many times: made by Spark, to which this many rows would be long in coming from here."""
    counted = frame(spark, StructType([*OFFSET_SNAPSHOTS.schema, StructField("copies", IntegerType())]), commits)
    copies = F.explode(F.sequence(F.lit(1), F.coalesce("copies", F.lit(1))))
    return counted.withColumns({"copies": copies, "observed_month": F.trunc("observed_at", "month")}).drop("copies")


def groups(*names: str) -> list[Row]:
    return [snapshot_row(name, 1, member_row("m")) for name in names]


OLD = commit("old", 0, 500)
LATE = commit("x", 0, MADE + 2 * MINUTE, group_id="other")
"""Of another group: up to its time it is known who commits."""
GROWS = [look(MADE + 10, 7, 0), look(MADE + MINUTE, 10, 0)]
A_HAS_TWO = snapshot_row("g", 1, member_row("a", assigned=entries(t=[0, 1])), member_row("b", assigned=entries(t=[2])))
TWO_READERS = snapshot_row("g", 1, member_row("a", assigned=entries(t=[0])), member_row("b", assigned=entries(t=[1])))
# A minute at the least: 60,000 offset records are 1,000 a second. Broker 1 leads partitions 0 and 2.
UNEVEN = [*many(20_000, "a", 0), *many(32_000, "b", 2), *many(8_000, "c", 2), *many(200, "d", 1)]
# A group of 250 partitions that commits every five seconds, for an hour, and nobody else.
EVERY_FIVE_SECONDS = [row for second in range(0, 3_600, 5) for row in many(250, "a", 0, 10 * MINUTE + 1_000 * second)]

WAITED = commit("t", 0, 2_000 + MINUTE + 1, offsets_partition=3)
"""A moment after the longest rebalance timeout of the members below."""


def reconciling(**changes: Any) -> Row:
    """Return a group of the consumer protocol with the target of epoch 2, which not all members have reached."""
    members = [member_row(name, rebalance_timeout_ms=timeout_ms) for name, timeout_ms in (("a", MINUTE // 2), ("b", MINUTE))]
    return snapshot_row("g", 2, *members, **{"group_type": "consumer", "offsets_partition": 3, **changes})


def of_members(a: tuple[int, int] | None = (1, 1), b: tuple[int, int] | None = (2, 0), *, leaves: str = "") -> list[Row]:
    """Return the records of two members: the epoch and state of each, then the tombstones of those that leave."""
    log = Log()
    for name, current in (("a", a), ("b", b)):
        log.member(name, "t")
        if current is not None:
            log.current(name, 1)
            log.current(name, *current)
    for name in leaves:
        log.leave(name)
    common = {"cluster_id": "c", "group_id": "g", "offsets_partition": 3}
    return [{**common, "type": one.key[1], "key": one.key, "value": one.value, "offset": one.offset} for one in log.records]


def timed(name: str, timeout_ms: int = 5 * MINUTE, **assigned: list[int]) -> Row:
    """Return a member with a rebalance timeout and these partitions."""
    return member_row(name, assigned=entries(**assigned), client_id="app", rebalance_timeout_ms=timeout_ms)


def one_timed(timeout_ms: int = 5 * MINUTE) -> Row:
    return snapshot_row("g", 1, timed("m", timeout_ms, t=[0, 1]), offsets_partition=0)


def read_to(end: int, minute: int = 30) -> Row:
    """Return a metadata snapshot in which the log of the groups' records ends there; ``LANDED`` has 9 records of it."""
    partitions = [{"partition": 0, "end_offset": end}]
    return {**look_row("__consumer_offsets", MADE + minute * MINUTE, []), "partitions": partitions}


def emptied(**changes: Any) -> Row:
    return snapshot_row("g", 1, **{"group_type": "classic", "joined_at": moment(500), **changes})


def deletion(offset: int, record_type: int = 2) -> Row:
    """Return the tombstone of a group."""
    return {"cluster_id": "c", "group_id": "g", "offsets_partition": 3, "type": record_type, "offset": offset}


LANDED = 9
BEFORE = [commit("t", 0, MADE + minute * MINUTE) for minute in range(1, 11)]
"""A commit a minute, for ten minutes."""
MORE = [commit("t", 0, MADE + minute * MINUTE) for minute in range(11, 41)]
LATER = commit("x", 0, MADE + 40 * MINUTE, group_id="other")
COMES_IN = [look(MADE + 11 * MINUTE, 7, 0), look(MADE + 20 * MINUTE, 12, 0)]
HOUR, DAY, WEEK = 60 * MINUTE, 1_440 * MINUTE, 7 * 1_440 * MINUTE


def times_of(looks_of_all: list[Row]) -> dict[str, list[int]]:
    """Return the times of the metadata snapshots of each cluster in milliseconds, ascending."""
    times = defaultdict(list)
    for row in sorted(looks_of_all, key=itemgetter("observed_at")):
        times[row["cluster_id"]].append((row["observed_at"] - moment(0)) // timedelta(milliseconds=1))
    return times


RECORDS: dict[str, list[Row]] = {
    "waits for one": of_members(),
    "both wait": of_members(b=(1, 0)),
    "it has written nothing": of_members(a=None),
    "the timeout is not over": of_members(),
    "nobody commits there": of_members(),
    "it has reached it": of_members(),
    "it has left": of_members(leaves="a"),
    "both have reached it since": of_members(a=(2, 0)),
    "a classic group": of_members(),
    "members without a timeout": of_members(),
    "deleted, with a commit since": [deletion(2)],
    "deleted, and empty again": [deletion(0)],
    "an admin committed": [deletion(2, record_type=3)],
}
"""Records of members, and tombstones of groups, by case."""
AN_HOUR_LATER = commit("t", 0, HOUR, committed_at=moment(HOUR))

CASES: dict[str, Case] = {
    # Members that do not reach their target.
    "waits for one": ([reconciling()], [WAITED], []),
    "both wait": ([reconciling()], [WAITED], []),
    "it has written nothing": ([reconciling()], [WAITED], []),
    "the timeout is not over": ([reconciling()], [{**WAITED, "observed_at": moment(2_000 + MINUTE)}], []),
    "nobody commits there": ([reconciling()], [{**WAITED, "offsets_partition": 4}], []),
    "it has reached it": ([reconciling(reconciled_at=moment(3_000))], [WAITED], []),
    "it has left": ([reconciling()], [WAITED], []),
    "both have reached it since": ([reconciling()], [WAITED], []),
    "a classic group": ([reconciling(group_type="classic")], [WAITED], []),
    "members without a timeout": (
        [snapshot_row("g", 2, member_row("a"), group_type="consumer", offsets_partition=3)],
        [{**WAITED, "observed_at": moment(2_000 + 5 * MINUTE)}],
        [],
    ),
    "a poll of the group": ([reconciling(offsets_partition=None)], [{**WAITED, "offsets_partition": None}], []),
    # Commits for topics that nobody subscribes to.
    "two stray topics": (
        [snapshot_row("g", 1, member_row("a", topics=["t"]), member_row("b", topics=["u"]))],
        [OLD, commit("t", 0, 500), commit("u", 3, 500), commit("older", 1, 400)],
        [],
    ),
    "still committed": ([one_member()], [OLD, commit("new", 0, 500), commit("new", 0, MADE + 1)], []),
    "in the newest generation": (
        [snapshot_row("g", 1, member_row("m", topics=["t"])), snapshot_row("g", 2, member_row("m", topics=["u"]))],
        [commit("t", 0, 500), commit("u", 0, 500)],
        [],
    ),
    "deleted since": ([one_member()], [OLD, commit("old", 0, 600, is_deleted=True, committed_offset=None)], []),
    "of another group": ([one_member()], [{**OLD, "group_id": "h"}], []),
    "nobody there": ([snapshot_row("g", 1)], [OLD], []),
    "no subscriptions known": ([{**one_member(), "has_subscriptions": False}], [OLD], []),
    # Members that never commit.
    "never commits": ([one_member()], [LATE], GROWS),
    "one of two": ([TWO_READERS], [LATE, commit("t", 0, 500)], [look(MADE + 10, 0, 0), look(MADE + MINUTE, 9, 9)]),
    "as many without commits as it has": (
        [A_HAS_TWO],
        [LATE, commit("t", 2, 500), commit("t", 3, 500)],
        [look(MADE + 10, 0, 0), look(MADE + MINUTE, 9, 9)],
    ),
    "one partition listed twice": ([snapshot_row("g", 1, member_row("m", assigned=entries(t=[0, 0])))], [LATE, commit("t", 1, 500)], GROWS),
    "offsets that no log reaches": ([one_member()], [LATE], [look(MADE + 10, -9, 0), look(MADE + MINUTE, 2**63 - 1, 2**63 - 1)]),
    "a member that is there twice": (
        [snapshot_row("g", 1, *[member_row("m", assigned=entries(t=[0]), client_id=name) for name in ("app", "other")])],
        [LATE],
        GROWS,
    ),
    "committed for another of its partitions": ([one_member()], [LATE, commit("t", 1, 500)], GROWS),
    "committed, and that was deleted": ([one_member()], [LATE, commit("t", 0, 500, is_deleted=True)], GROWS),
    "nobody's commits are known": ([one_member()], [], GROWS),
    "nobody's of that kind of source": ([one_member()], [{**LATE, "source": "snapshot"}], GROWS),
    "nothing came in": ([one_member()], [LATE], [look(MADE + 10, 7, 0), look(MADE + MINUTE, 7, 0)]),
    "all came in before": ([one_member()], [LATE], [look(0, 7, 0), look(MADE + 10, 10, 0), look(MADE + MINUTE, 10, 0)]),
    "it came in a moment ago": ([one_member()], [LATE], [GROWS[0], look(MADE + MINUTE + 1, 10, 0)]),
    "the generation is new": ([one_member()], [{**LATE, "observed_at": moment(MADE + MINUTE)}], GROWS),
    "another topic of the name": ([one_member()], [LATE], [GROWS[0], {**GROWS[1], "topic_id": "other"}]),
    "no look": ([one_member()], [LATE], []),
    "one look": ([one_member()], [LATE], GROWS[:1]),
    # Members that have stopped to commit.
    "stopped": ([one_timed()], [*BEFORE, LATER], COMES_IN),
    "stopped, and the log is read to its end": ([one_timed()], BEFORE, [*COMES_IN, read_to(7), read_to(9, 41)]),
    "stopped, one of two": (
        [snapshot_row("g", 1, timed("a", t=[0]), timed("b", t=[1]), offsets_partition=0)],
        [*BEFORE, *(commit("t", 1, MADE + minute * MINUTE) for minute in range(1, 41))],
        COMES_IN,
    ),
    "stopped, with a commit below 0": (
        [one_timed()],
        [*BEFORE, commit("t", 0, MADE + 10 * MINUTE + 1, committed_offset=-1), LATER],
        [look(MADE + 11 * MINUTE, 7, 0), look(MADE + 20 * MINUTE, 12, 2**63 - 1)],
    ),
    "stopped, one topic not seen since": (
        [snapshot_row("g", 1, {**timed("m", t=[0], u=[0]), "topics": ["t", "u"]}, offsets_partition=0)],
        [*BEFORE, *({**row, "topic": "u", "position": row["position"] + 1} for row in BEFORE), LATER],
        [*COMES_IN, look(MADE, 35, topic="u"), look(MADE + 50 * MINUTE, None, topic="u")],
    ),
    "its other partition is committed": ([one_timed()], [*BEFORE, *(commit("t", 1, row["position"] + MINUTE) for row in MORE)], COMES_IN),
    "within the timeout": ([one_timed(timeout_ms=40 * MINUTE)], [*BEFORE, LATER], COMES_IN),
    "within its intervals": ([one_timed()], [commit("t", 0, MADE), commit("t", 0, MADE + 9 * MINUTE), LATER], COMES_IN),
    "nothing came in since": ([one_timed()], [*BEFORE, LATER], [look(MADE + 11 * MINUTE, 9, 0), look(MADE + 20 * MINUTE, 9, 0)]),
    "it came in too late": ([one_timed()], [*BEFORE, LATER], [COMES_IN[0], look(MADE + 36 * MINUTE, 9, 0)]),
    "its commits are known no longer": ([one_timed()], BEFORE, [*COMES_IN, read_to(10)]),
    "another log was read further": ([one_timed()], [*BEFORE, {**LATER, "offsets_partition": 1}], COMES_IN),
    "the group is empty": ([snapshot_row("g", 1)], [*BEFORE, LATER], COMES_IN),
    "it has one commit": ([one_timed()], [BEFORE[0], LATER], COMES_IN),
    # Commits that expire within a day.
    "expire soon": ([emptied()], [commit("t", number, 500, committed_at=moment(500)) for number in (0, 1)], [look(WEEK - 23 * HOUR, 1)]),
    "expire soon, not subscribed": (
        [one_member()],
        [commit(name, 0, 500 + number, committed_at=moment(number * HOUR)) for number, name in enumerate(("t", "old"))],
        [look(WEEK - 23 * HOUR, 1)],
    ),
    "deleted, with a commit since": ([emptied()], [AN_HOUR_LATER], [look(WEEK - 23 * HOUR, 1)]),
    "deleted, and empty again": ([emptied()], [AN_HOUR_LATER], [look(WEEK - 23 * HOUR, 1)]),
    "an admin committed": ([emptied()], [AN_HOUR_LATER], [look(WEEK - 23 * HOUR, 1)]),
    "empty, consumer protocol": ([emptied(group_type="consumer")], [AN_HOUR_LATER], [look(WEEK - 23 * HOUR, 1)]),
    "made again, no members yet": ([emptied(protocol_type="")], [AN_HOUR_LATER], [look(WEEK - 23 * HOUR, 1)]),
    "expire in more than a day": ([emptied()], [commit("t", 0, 500, committed_at=moment(500))], [look(WEEK - 25 * HOUR, 1)]),
    "should have expired": ([emptied()], [commit("t", 0, 500, committed_at=moment(500))], [look(WEEK + HOUR, 1)]),
    "became empty later": ([emptied(joined_at=moment(20 * DAY))], [commit("t", 0, 500, committed_at=moment(500))], [look(WEEK - HOUR, 1)]),
    "their time is not known": ([emptied()], [commit("t", 0, 500)], [look(WEEK - HOUR, 1)]),
    "in use": ([one_member()], [commit("t", 0, 500, committed_at=moment(500))], [look(WEEK - HOUR, 1)]),
    # A broker that takes most of the offset records.
    "uneven": (groups("a", "b", "c", "d"), UNEVEN, [led_by(1, 2, 1, 3)]),
    "at a group that is known": (groups("a"), [*many(60_000, "unknown", 0), *many(1, "a", 0)], [led_by(1, 2)]),
    "just enough": (groups("a"), many(60_000, "a", 0), [led_by(1, 2)]),
    "one record less": (groups("a"), many(59_999, "a", 0), [led_by(1, 2)]),
    "one large group that commits by itself": (groups("a"), EVERY_FIVE_SECONDS, [led_by(1, 2)]),
    "one broker": (groups("a"), many(60_000, "a", 0), [led_by(1, 1)]),
    "evenly shared": (groups("a", "b"), [*many(60_000, "a", 0), *many(60_000, "b", 1)], [led_by(1, 2)]),
    "nobody knows the leaders": (groups("a"), many(60_000, "a", 0), []),
    "over more time": (groups("a"), [*many(60_000, "a", 0), *many(1, "a", 0, 11 * MINUTE + 1_000)], [led_by(1, 2)]),
    "longer ago": (groups("a"), [*many(60_000, "a", 0), *many(1, "a", 0, 80 * MINUTE)], [led_by(1, 2)]),
    "another source": (groups("a"), [{**row, "offsets_partition": None} for row in many(60_000, "a", 0)], [led_by(1, 2)]),
}
TELLING = (
    *("two stray topics", "still committed", "in the newest generation", "never commits", "one of two", "uneven"),
    *("at a group that is known", "just enough", "offsets that no log reaches", "a member that is there twice"),
    *("as many without commits as it has", "one partition listed twice"),
    *("waits for one", "both wait", "it has written nothing"),
    *(
        "stopped, with a commit below 0",
        "stopped",
        "stopped, and the log is read to its end",
        "stopped, one of two",
        "stopped, one topic not seen since",
        "expire soon",
        "expire soon, not subscribed",
        "deleted, with a commit since",
        "deleted, and empty again",
        "an admin committed",
        "empty, consumer protocol",
        "made again, no members yet",
    ),
)


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[Row]]:
    """The findings of every case, each in a cluster of its own; members have what their rows say was assigned to them."""

    def of_all(part: int) -> list[Row]:
        return [{**row, "cluster_id": name} for name, case in CASES.items() for row in case[part]]

    commit_rows = [{"source": "consumer-offsets", **row} for row in of_all(0)]
    key = ("cluster_id", "group_id", "generation", "observed_at", "position")
    audits = [{**{name: row[name] for name in key}, "basis": basis} for row in commit_rows for basis in ("observed", "recomputed")]
    given = [
        {**{name: row[name] for name in key}, "basis": basis, "member_id": member["member_id"], "partitions": member["assigned"]}
        for row in commit_rows
        for member in row["members"]
        for basis in ("observed", "counterfactual")
    ]
    commits = all_commits(spark, of_all(1))
    generations = newest_generations(newest_positions(frame(spark, GENERATION_AUDITS.schema, audits)), snapshots(spark, *commit_rows))
    limits = WorkerLimits(memory_mb=4_096, idle_timeout_s=60)
    facts = commit_facts(
        StagedKeys(generations, generations.count()),
        frame(spark, ASSIGNMENTS.schema, given),
        commits,
        commits.count(),
        last_commits_of(commits),
        looks(spark, *of_all(2)),
        times_of(of_all(2)),
        frame(spark, GROUP_RECORDS.schema, [{**row, "cluster_id": name} for name, records in RECORDS.items() for row in records]),
        unstaged,
        limits,
        {f"{name} 0": LANDED for name in CASES},
    )
    by_case = defaultdict(list)
    judge = partial(find_in_commits, retention_hours=DEFAULT_RETENTION_HOURS, limits=limits)
    for row in facts.mapInArrow(judge, FOUND_ROWS).collect():
        by_case[row["cluster_id"]].append(row.asDict())
    return by_case


def test_commits_for_unsubscribed_topics_are_an_info(found: dict[str, list[Row]]) -> None:
    (row,) = found["two stray topics"]
    assert (row["rule_id"], row["severity"], row["position"]) == ("commits_unsubscribed", "info", 1)
    assert row["message"] == "Offsets were committed for 2 topics that no member subscribes to: old, older"
    assert row["evidence"] == {"topic_count": "2", "topics": "old, older", "recent_topic_count": "0"}


def test_stray_commits_are_a_warning_while_they_go_on(found: dict[str, list[Row]]) -> None:
    (row,) = found["still committed"]
    assert (row["severity"], row["evidence"]["recent_topic_count"]) == ("warning", "1")
    assert row["message"].endswith("no member subscribes to: new, old; 1 of them since the newest generation: new")


def test_the_newest_generation_is_judged(found: dict[str, list[Row]]) -> None:
    (row,) = found["in the newest generation"]
    assert (row["generation"], row["evidence"]["topics"]) == (2, "t")


def test_member_that_never_commits_is_a_warning(found: dict[str, list[Row]]) -> None:
    (row,) = found["never commits"]
    assert (row["rule_id"], row["severity"]) == ("members_never_commit", "warning")
    assert row["message"] == (
        "1 of 1 member holds 2 partitions for which the group has never committed an offset, while 3 records came in: m"
    )
    assert row["evidence"] == {
        "silent_member_count": "1", "member_count": "1", "partition_count": "2", "record_count": "3", "members": "m", "client_ids": "app",
    }  # fmt: skip


def test_only_the_member_that_never_commits_is_named(found: dict[str, list[Row]]) -> None:
    (row,) = found["one of two"]
    assert (row["evidence"]["members"], row["evidence"]["silent_member_count"], row["evidence"]["member_count"]) == ("b", "1", "2")
    (row,) = found["as many without commits as it has"]
    assert (row["evidence"]["members"], row["evidence"]["partition_count"]) == ("a", "2")
    (row,) = found["one partition listed twice"]
    assert [row["evidence"][name] for name in ("members", "partition_count", "record_count")] == ["m", "1", "3"]


def test_impossible_offsets_and_doubled_members_are_counted_safely(found: dict[str, list[Row]]) -> None:
    (row,) = found["offsets that no log reaches"]
    assert row["evidence"]["record_count"] == str(2**63 - 1)
    (row,) = found["a member that is there twice"]
    assert (row["evidence"]["silent_member_count"], row["evidence"]["client_ids"]) == ("1", "app")


def test_coordinator_with_most_offset_records_is_an_info(found: dict[str, list[Row]]) -> None:
    (row,) = found["uneven"]
    assert (row["group_id"], row["rule_id"], row["severity"]) == ("b", "coordinator_hot", "info")
    assert row["evidence"] == {
        "broker": "1", "offsets_partition": "2", "group_count": "3", "offset_record_count": "60000",
        "partition_offset_record_count": "40000", "own_offset_record_count": "32000", "seconds": "60",
    }  # fmt: skip
    assert row["message"] == (
        "Broker 1 takes 1,000 offset records a second of 3 groups, 3.0 times the mean of all brokers; this group writes 53% of them, and "
        "partition 2 of __consumer_offsets takes 67%"
    )
    assert [row["rule_id"] for row in found["just enough"]] == ["coordinator_hot"]


def test_finding_on_a_busy_coordinator_is_at_a_known_group(found: dict[str, list[Row]]) -> None:
    (row,) = found["at a group that is known"]
    assert (row["group_id"], row["evidence"]["own_offset_record_count"], row["evidence"]["group_count"]) == ("a", "1", "2")


def test_member_that_does_not_reach_its_target_is_a_warning(found: dict[str, list[Row]]) -> None:
    (row,) = found["waits for one"]
    assert (row["rule_id"], row["severity"], row["generation"]) == ("not_reconciled", "warning", 2)
    assert row["message"] == (
        "1 of 2 members has not reached epoch 2 for 60 s, and the longest rebalance timeout is 60 s; not all partitions are given up by a"
    )
    (row,) = found["both wait"]
    assert (row["evidence"]["members"], row["evidence"]["blocking_members"]) == ("a, b", "a")
    (row,) = found["it has written nothing"]
    assert row["message"].endswith("the longest rebalance timeout is 60 s: a")


def test_member_that_has_stopped_to_commit_is_a_warning(found: dict[str, list[Row]]) -> None:
    (row,) = found["stopped"]
    assert (row["rule_id"], row["severity"]) == ("member_stalled", "warning")
    assert row["evidence"] == {
        "stalled_member_count": "1", "member_count": "1", "members": "m", "client_ids": "app", "partition_count": "2",
        "partitions": "t-0, t-1", "record_count": "5", "since": "1970-01-01T00:10:01Z", "seconds": "1800", "lag": "7",
    }  # fmt: skip
    (row,) = found["stopped, with a commit below 0"]
    assert (row["evidence"]["record_count"], row["evidence"]["lag"]) == (str(2**63 - 1), "13")
    (row,) = found["stopped, one topic not seen since"]
    assert (row["evidence"]["record_count"], row["evidence"]["lag"]) == ("5", str(7 + 30))
    (row,) = found["stopped, one of two"]
    assert (row["evidence"]["members"], row["evidence"]["member_count"]) == ("a", "2")


def test_silence_is_known_without_commits_of_others_if_the_log_is_read_to_its_end(found: dict[str, list[Row]]) -> None:
    (row,) = found["stopped, and the log is read to its end"]
    assert row["evidence"]["seconds"] == str(31 * 60)


def test_commits_that_expire_within_a_day_are_a_warning(found: dict[str, list[Row]]) -> None:
    (row,) = found["expire soon"]
    assert (row["rule_id"], row["severity"]) == ("commits_expire", "warning")
    assert row["evidence"] == {
        "partition_count": "2", "topic_count": "1", "topics": "t", "expires_at": "1970-01-08T00:00:00Z", "assumed_retention_hours": "168",
    }  # fmt: skip
    soon, stray = sorted(found["expire soon, not subscribed"], key=lambda row: row["rule_id"])
    assert (soon["evidence"]["topics"], stray["rule_id"]) == ("old", "commits_unsubscribed")
    assert soon["evidence"]["expires_at"] == "1970-01-08T01:00:00Z"


@pytest.mark.parametrize(
    ("name", "expires_at"),
    [
        ("deleted, with a commit since", "1970-01-08T01:00:00Z"),
        ("deleted, and empty again", "1970-01-08T00:00:00Z"),
        ("an admin committed", "1970-01-08T00:00:00Z"),
        ("empty, consumer protocol", "1970-01-08T01:00:00Z"),
        ("made again, no members yet", "1970-01-08T01:00:00Z"),
    ],
)
def test_retention_begins_at_the_last_commit_if_no_classic_group_became_empty_before(
    found: dict[str, list[Row]], name: str, expires_at: str
) -> None:
    (row,) = found[name]
    assert (row["rule_id"], row["evidence"]["expires_at"]) == ("commits_expire", expires_at)


@pytest.mark.parametrize("name", [name for name in CASES if name not in TELLING])
def test_healthy_groups_have_no_commit_findings(found: dict[str, list[Row]], name: str) -> None:
    assert found.get(name, []) == []


# -- when more lands


@pytest.mark.slow
def test_a_commit_that_lands_later_takes_the_finding_back(make_tables, tmp_path: Path) -> None:
    member = {"member_id": "m", "topics": ["t"], "assigned": [{"topic": "t", "partitions": [0]}]}

    def snapshot(group_id: str, at_ms: int, **changes: Any) -> Row:
        line = {"group_id": group_id, "observed_at_ms": at_ms, "group_type": "classic", "state": "Stable", "protocol_type": "consumer"}
        return {**line, "strategy": "range", "members": [member], **changes}

    def offset(topic: str) -> list[Row]:
        return [{"topic": topic, "partition": 0, "committed_offset": 3, "committed_at_ms": first + 2 * MINUTE}]

    def cluster(at_ms: int, end: int) -> Row:
        partition = {"partition": 0, "leader": 1, "replicas": [1], "begin_offset": 0, "end_offset": end}
        topic = {"topic": "t", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [partition]}
        return {"observed_at_ms": at_ms, "brokers": [{"id": 1, "rack": None}], "topics": [topic]}

    first = 1_700_000_000_000
    lands = [
        ([cluster(first - 1, 0), cluster(first + 1, 0), cluster(first + MINUTE, 9)], [snapshot("g", first)]),
        ([], [snapshot("h", first + 3 * MINUTE, offsets=offset("t"))]),
        ([], [snapshot("g", first + 4 * MINUTE, offsets=offset("t"))]),
    ]
    seen = []
    for number, (of_cluster, of_groups) in enumerate(lands):
        folder = tmp_path / f"land-{number}"
        folder.mkdir()
        for name, lines in (("cluster.jsonl", of_cluster), ("groups.jsonl", of_groups)):
            if lines:
                (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert make_tables("run", "--warehouse", tmp_path / "warehouse", "--input", folder, "--strategies", "range") == 0
        found = [row for row in rows(tmp_path / "warehouse", "findings") if row["rule_id"] == "members_never_commit"]
        seen.append([(row["group_id"], row["run_sequence"]) for row in found])
    assert seen == [[], [("g", 2)], []]
