"""How evenly lag and throughput are shared: case by case, over the recorded capture, and when commits or metadata snapshots come late."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs.audit.late_offsets import racks_of_audits, resumed_rows
from jobs.audit.load_imbalance import Weights
from jobs.storage.scratch import StagedKeys
from jobs.workers.guard import WorkerLimits
from schemas.tables import (
    ASSIGNMENTS,
    GENERATION_AUDITS,
    GENERATION_TOPICS,
    MOVEMENTS,
    OFFSET_SNAPSHOTS,
    SUBSCRIPTION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
)
from tests.builders.frames import frame, moment
from tests.builders.tables import rows
from tests.oracles import resume_oracle

Row = dict[str, Any]
RATIOS = Weights._fields[:2]
LIMITS = WorkerLimits(memory_mb=4_096, idle_timeout_s=60)
SNAPSHOT = {"cluster_id": "c", "group_id": "g", "generation": 1, "position": 10, "observed_at": moment(10), "basis": "observed"}


def given(member_id: str, *partitions: int, **changes: Any) -> Row:
    entries = [{"topic": "t", "partitions": list(partitions)}] if partitions else []
    return {**SNAPSHOT, "member_id": member_id, "partitions": entries, **changes}


def commits(**offsets: int) -> list[Row]:
    row = {"cluster_id": "c", "group_id": "g", "topic": "t", "position": 5, "observed_at": moment(5), "committed_at": moment(5)}
    row |= {"is_deleted": False, "source": "consumer-offsets"}
    return [{**row, "partition": int(name[1:]), "committed_offset": offset} for name, offset in offsets.items()]


def look(at: int, *ends: int, topic_id: str = "A") -> Row:
    partitions = [{"partition": number, "begin_offset": 0, "end_offset": end} for number, end in enumerate(ends)]
    return {"cluster_id": "c", "topic": "t", "observed_at": moment(at), "topic_id": topic_id, "partitions": partitions}


Case = tuple[list[Row], list[Row], list[Row], tuple]


def weighed(spark: SparkSession, cases: dict[str, Case]) -> dict[str, tuple]:
    """Return both ratios of the one observed generation of each case, a group of its own."""
    audits = [{**SNAPSHOT, "group_id": name, "member_count": 2} for name in cases]
    assignments, of_commits, looks = [], [], []
    for name, (of_members, of_partitions, of_topic, _) in cases.items():
        for row in of_members:
            assignments.append({**row, "group_id": name, "partitions": [{**entry, "topic": name} for entry in row["partitions"]]})
        of_commits += [{**row, "group_id": name, "topic": name} for row in of_partitions]
        looks += [{**row, "topic": name} for row in of_topic]
    found = resumed(spark, audits, assignments, of_commits, looks)
    assert len(found) == len(audits)
    return {row["group_id"]: tuple(row[name] for name in RATIOS) for row in found}


def resumed(spark: SparkSession, audits: list[Row], assignments: list[Row], commits: list[Row], looks: list[Row]) -> list[Row]:
    """Return audits weighed again."""
    rows = resumed_frame(spark, audits, assignments, commits, looks)
    return [row.asDict() for row in rows.where("audit IS NOT NULL").select("audit.*").collect()]


def resumed_frame(
    spark: SparkSession,
    audits: list[Row],
    assignments: list[Row],
    commits: list[Row],
    looks: list[Row],
    snapshots: list[Row] = [],  # noqa: B006
    topics: list[Row] = [],  # noqa: B006
) -> DataFrame:
    keys = StagedKeys(frame(spark, GENERATION_AUDITS.schema, audits), len(audits))
    given = (frame(spark, SUBSCRIPTION_SNAPSHOTS.schema, snapshots), frame(spark, GENERATION_TOPICS.schema, topics))
    return resumed_rows(
        keys,
        StagedKeys(frame(spark, MOVEMENTS.schema, []), 0),
        frame(spark, ASSIGNMENTS.schema, assignments),
        frame(spark, OFFSET_SNAPSHOTS.schema, commits),
        frame(spark, TOPIC_SNAPSHOTS.schema, looks),
        frame(spark, SUBSCRIPTION_SNAPSHOTS.schema, []),
        racks_of_audits(keys, *given),
        None,
        LIMITS,
    )


CASES = {
    # a waits for 30 + 10, b for 10; in ten seconds 20 + 20 and 0 records came in.
    "known of all": (
        [given("a", 0, 1), given("b", 2)], commits(p0=90, p1=90, p2=90), [look(5, 100, 80, 100), look(15, 120, 100, 100)], (1.6, 2)
    ),
    "of all members, idle ones too": ([given("a", 0, 1), given("b")], commits(p0=90, p1=90), [look(5, 90, 90), look(15, 99, 99)], (2, 2)),
    "only what is known": ([given("a", 0), given("b", 1)], commits(p0=90), [look(5, 90, 90), look(15, 99, 99)], (2, 1)),
    "a look before alone": ([given("a", 0), given("b", 1)], commits(p0=90, p1=9), [look(5, 90, 90)], (None, None)),
    "only a later look": ([given("a", 0), given("b", 1)], commits(p0=90, p1=90), [look(15, 93, 91)], (1.5, None)),
    "nothing waits and nothing comes": (
        [given("a", 0), given("b", 1)], commits(p0=90, p1=90), [look(5, 90, 90), look(15, 90, 90)], (None, None)
    ),
    "another topic of the name": (
        [given("a", 0), given("b", 1)], [], [look(5, 1, 1, topic_id="A"), look(15, 9, 5, topic_id="B")], (None, None)
    ),
    "a log that got shorter": ([given("a", 0), given("b", 1)], [], [look(5, 90, 90), look(15, 20, 99)], (None, 2)),
    "what the assignor would have given": (
        [given("a", 0), given("b", 1), given("a", 0, 1, basis="recomputed")], [], [look(5, 0, 0), look(15, 9, 9)], (None, 1)
    ),
    "offsets that no log reaches": (
        [given("a", 0, 1), given("b", 2)],
        commits(p0=0, p1=0, p2=0),
        [look(5, 0, 0, -9), look(15, *[2**63 - 1] * 3)],
        (pytest.approx(4 / 3), 2),
    ),
    "commits below every log": (
        [given("a", 0, 1), given("b", 2)],
        commits(p0=-(2**63), p1=2**63 - 1, p2=-(2**63)),
        [look(5, 0, 0, 0), look(15, 2**63 - 1, -(2**63), 5)],
        (1, pytest.approx(2)),
    ),
    "nobody": ([], commits(p0=90), [look(5, 90), look(15, 99)], (None, None)),
    # One record an hour is not nothing: both members have as much of it.
    "a slow topic beside a fast one": ([given("a", 0), given("b", 1)], [], [look(0, 0, 0), look(3_600, 1, 1)], (None, 1)),
}  # fmt: skip


def test_weights_case_by_case(spark: SparkSession) -> None:
    assert weighed(spark, CASES) == {name: expected for name, (*_, expected) in CASES.items()}


def test_an_audit_is_changed_only_where_its_weights_differ_from_the_stored_ones(spark: SparkSession) -> None:
    """Weighed for the first time it is. Weighed again, it is only after another commit."""
    held, looks = [given("a", 0), given("b", 1)], [look(5, 90, 90), look(15, 99, 120)]

    def weighed_again(audits: list[Row], of_partitions: list[Row]) -> Row:
        rows = resumed_frame(spark, audits, held, of_partitions, looks).where("audit IS NOT NULL")
        (row,) = rows.select("audit.*", "is_changed").collect()
        return row.asDict(recursive=True)

    first = weighed_again([{**SNAPSHOT, "member_count": 2}], commits(p0=80, p1=80))
    assert (first.pop("is_changed"), first["weighed_until"].timestamp()) == (True, moment(10).timestamp())
    assert weighed_again([first], commits(p0=80, p1=80))["is_changed"] is False
    assert weighed_again([first], commits(p0=80, p1=90))["is_changed"] is True


def audited_as(group_id: str, **changes: Any) -> Row:
    figures = {"strategy": "sticky", "partition_count": 3, "partitions_per_member_min": 1, "partitions_per_member_max": 2}
    return {
        **SNAPSHOT,
        "group_id": group_id,
        "member_count": 2,
        "is_settled": True,
        "throughput_imbalance_ratio": 1.5,
        **figures,
        **changes,
    }


def test_generations_that_are_weighed_again_are_judged_again(spark: SparkSession) -> None:
    """Both members of "uneven" have a partition, and only one gets records."""
    audits = [audited_as("uneven"), audited_as("not settled", is_settled=False)]
    held = [given(name, number, group_id=audit["group_id"]) for audit in audits for number, name in enumerate("ab")]
    found = resumed_frame(spark, audits, held, [], [look(5, 0, 0), look(15, 9_000, 0)]).where("finding IS NOT NULL").select("finding.*")
    (row,) = found.collect()
    assert (row["group_id"], row["rule_id"], row["observed_at_ms"], row["evidence"]["member"]) == ("uneven", "hot_partition", 10, "a")


def test_racks_of_generations_that_are_weighed_again_are_those_of_their_members_and_topics(spark: SparkSession) -> None:
    audits = [audited_as(name, rack_match_ratio=ratio, topics_hash="h") for name, ratio in (("g", 0.5), ("near", 1.0))]
    held = [given(name, number, group_id=audit["group_id"]) for audit in audits for number, name in enumerate("ab")]
    snapshot = {name: value for name, value in SNAPSHOT.items() if name != "basis"}
    snapshot["members"] = [{"member_id": name, "rack": "eu-a"} for name in "ab"]
    topic = {"topic": "t", "partition_count": 2, "partition_racks": [["eu-a"], ["eu-b"]]}
    topics = [{"cluster_id": "c", "topics_hash": "h", "topics": [topic]}]
    rows = resumed_frame(
        spark, audits, held, [], [look(5, 0, 0), look(15, 9_000, 9_000)], [{**snapshot, "group_id": name} for name in ("g", "near")], topics
    )
    (row,) = rows.where("finding IS NOT NULL").select("finding.*").collect()
    assert (row["group_id"], row["rule_id"], row["evidence"]["partition_count"]) == ("g", "records_cross_racks", "1")


@pytest.mark.parametrize("changes", [{"rack_match_ratio": 1.0}, {"rack_match_ratio": 0.5, "is_settled": False}, {}])
def test_racks_are_read_only_for_generations_that_may_be_judged_by_them(spark: SparkSession, changes: Row) -> None:
    audits = StagedKeys(frame(spark, GENERATION_AUDITS.schema, [audited_as("g", topics_hash="h", **changes)]), 1)
    nothing = (frame(spark, SUBSCRIPTION_SNAPSHOTS.schema, []), frame(spark, GENERATION_TOPICS.schema, []))
    assert racks_of_audits(audits, *nothing) is None


@pytest.mark.parametrize(("committed_at", "expected"), [(4, 10), (12, 12)])
def test_a_generation_is_weighed_until_its_last_commit_where_clocks_differ(spark: SparkSession, committed_at: int, expected: int) -> None:
    made = [{**commits(p0=90)[0], "committed_at": moment(committed_at)}, commits(p1=3)[0]]
    (row,) = resumed(spark, [{**SNAPSHOT, "member_count": 1}], [given("a", 0, 1)], made, [])
    assert row["weighed_until"].timestamp() == moment(expected).timestamp()


def rates(partition: tuple[str, int], at: Any, looks: list[Row]) -> Fraction | None:
    """Return records a second, from the looks around a time to which no commit is later."""
    before = max((one for one in looks if one["observed_at"] <= at), key=lambda one: one["observed_at"], default=None)
    after = min((one for one in looks if one["observed_at"] >= at), key=lambda one: one["observed_at"], default=None)
    if before is None or after is None or before["topic_id"] != after["topic_id"] or before["observed_at"] == after["observed_at"]:
        return None
    ends = [{one["partition"]: one["end_offset"] for one in look["partitions"]}.get(partition[1]) for look in (before, after)]
    if None in ends or ends[1] < ends[0]:
        return None
    milliseconds = round((after["observed_at"] - before["observed_at"]).total_seconds() * 1000)
    return Fraction((ends[1] - ends[0]) * 10**9 // milliseconds)  # in whole millionths of a record


def test_every_generation_of_the_capture_is_weighed_as_the_oracle_says(recorded_warehouse: Path) -> None:
    commits_of, looks_of, held_in = defaultdict(list), defaultdict(list), defaultdict(list)
    for row in rows(recorded_warehouse, "offset_snapshots"):
        commits_of[row["group_id"], row["topic"], row["partition"]].append(row)
    for row in rows(recorded_warehouse, "topic_snapshots"):
        looks_of[row["topic"]].append(row)
    for row in rows(recorded_warehouse, "assignments"):
        if row["basis"] == "observed":
            held_in[row["group_id"], row["position"]].append(row)
    different, known = [], Counter()
    for audit in rows(recorded_warehouse, "generation_audits"):
        shares: dict[str, Counter[str]] = {name: Counter() for name in RATIOS}
        latest = audit["observed_at"]
        for row in held_in[audit["group_id"], audit["position"]] if audit["basis"] == "observed" else ():
            for topic, number in ((entry["topic"], number) for entry in row["partitions"] for number in entry["partitions"]):
                asked = {**row, "partition": number}
                resumed = resume_oracle.resume(asked, commits_of[row["group_id"], topic, number], looks_of[topic])
                lag, committed_at = resumed[4:6]
                latest = latest if committed_at is None else max(latest, committed_at)
                shares[RATIOS[0]][row["member_id"]] += lag or 0
                shares[RATIOS[1]][row["member_id"]] += rates((topic, number), row["observed_at"], looks_of[topic]) or 0
        for name, of_members in shares.items():
            total = sum(of_members.values())
            wanted = float(Fraction(max(of_members.values()) * audit["member_count"], total)) if total else None
            known[name, wanted is not None] += 1
            if audit[name] is not wanted and audit[name] != pytest.approx(wanted, rel=1e-12):
                different.append((audit["group_id"], audit["position"], name, wanted, audit[name]))
        assert audit["weighed_until"] == (latest if audit["basis"] == "observed" else None)
    assert different == []
    assert all(known[name, True] for name in RATIOS)
