"""Where moved partitions are read on: case by case, drawn at random, over the recorded capture, and when commits or metadata come late."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.audit.late_offsets import resumed_rows
from jobs.audit.new_commits import NewCommits, _late_commits, _late_looks, affected_rows, complete_groups
from jobs.audit.resume_offsets import RESUME_COLUMNS
from jobs.storage.scratch import StagedKeys
from jobs.workers.guard import WorkerLimits
from schemas.tables import ASSIGNMENTS, GENERATION_AUDITS, MOVEMENTS, OFFSET_SNAPSHOTS, SUBSCRIPTION_SNAPSHOTS, TOPIC_SNAPSHOTS
from tests.builders.captures import LOOKS, RECORDED
from tests.builders.frames import frame, moment
from tests.builders.tables import rows
from tests.oracles import resume_oracle

Row = dict[str, Any]
GROUP = {"cluster_id": "c", "group_id": "g"}
PARTITION = {**GROUP, "topic": "t", "partition": 0}
LIMITS = WorkerLimits(memory_mb=4_096, idle_timeout_s=60)


def movement(at: int, **changes: Any) -> Row:
    """Return a movement whose position and time are both ``at``."""
    return {**PARTITION, "generation": 1, "position": at, "observed_at": moment(at), "basis": "observed", "member_id": "m", **changes}


def commit(at: int, offset: int | None, **changes: Any) -> Row:
    row = {"position": at, "observed_at": moment(at), "committed_at": None if offset is None else moment(at), "run_sequence": 1}
    row |= {"committed_offset": offset, "is_deleted": offset is None, "is_uncertain": None, "source": "consumer-offsets"}
    return {**PARTITION, **row, **changes}


def look(at: int, begin: int, end: int, **changes: Any) -> Row:
    partition = {"partition": 0, "begin_offset": begin, "end_offset": end}
    row = {"observed_at": moment(at), "partitions": [partition], "topic_id": "A", "run_sequence": 1}
    return {"cluster_id": "c", "topic": "t", **row, **changes}


def is_complete(group_id: str) -> bool:
    """Return whether the log of a group is taken to have been read from its first record on."""
    return "from the first record" in group_id or group_id.endswith("7")


def resumed(
    spark: SparkSession, movements: list[Row], commits: list[Row], looks: list[Row], max_look_delay_s: float | None = None
) -> list[Row]:
    asked = frame(spark, MOVEMENTS.schema, movements)
    names = sorted({row["group_id"] for row in movements})
    groups = [{**GROUP, "group_id": name, "offsets_partition": 4 if is_complete(name) else 5} for name in names]
    found = resumed_rows(
        StagedKeys(frame(spark, GENERATION_AUDITS.schema, []), 0),
        StagedKeys(asked, len(movements)),
        frame(spark, ASSIGNMENTS.schema, []),
        frame(spark, OFFSET_SNAPSHOTS.schema, commits),
        frame(spark, TOPIC_SNAPSHOTS.schema, looks),
        complete_groups(frame(spark, SUBSCRIPTION_SNAPSHOTS.schema, groups), {"c 4": 1, "x 5": 2}),
        None,
        max_look_delay_s,
        LIMITS,
    )
    return [row.asDict() for row in found.select("movement.*").collect()]


CASES = {
    "inside the log": ([commit(5, 50)], [look(1, 10, 60), look(20, 10, 80)], (50, 10, 80, "committed", 30)),
    "ahead of the look before": ([commit(5, 70)], [look(1, 10, 60), look(20, 10, 80)], (70, 10, 80, "committed", 10)),
    "ahead of the only look": ([commit(5, 70)], [look(1, 10, 60)], (70, 10, None, "committed", None)),
    "below the log": ([commit(5, 9)], [look(1, 10, 60), look(20, 30, 80)], (9, 10, 80, "reset_out_of_range", 71)),
    "below the log later on": ([commit(5, 20)], [look(1, 10, 60), look(20, 30, 80)], (20, 10, 80, "committed", 60)),
    "above the log": ([commit(5, 90)], [look(1, 10, 60), look(20, 10, 80)], (90, 10, 80, "reset_out_of_range", 0)),
    "above the log before it moved": ([commit(3, 90)], [look(5, 10, 60)], (90, 10, None, "reset_out_of_range", None)),
    "above the log at the moment of the commit": ([commit(5, 90)], [look(5, 10, 60)], (90, 10, None, "reset_out_of_range", None)),
    "above the log of another topic before it moved": (
        [commit(3, 90, topic_id="A")], [look(5, 10, 60, topic_id="B")], (90, None, None, "unknown", None)
    ),
    "above the log of another topic": (
        [commit(5, 90)], [look(1, 10, 60), look(20, 0, 3, topic_id="B")], (90, 10, None, "committed", None)
    ),
    "of another topic": (
        [commit(5, 90, topic_id="A")], [look(6, 95, 99, topic_id="B"), look(20, 0, 3, topic_id="B")], (90, None, None, "unknown", None)
    ),
    "no commit": ([], [look(1, 10, 60), look(20, 10, 80)], (None, 10, 80, "unknown", None)),
    "no commit from the first record on": ([], [look(1, 10, 60), look(20, 10, 80)], (None, 10, 80, "reset_none", None)),
    "perhaps a commit from the first record on": (
        [commit(5, 50, is_uncertain=True)], [look(1, 10, 60)], (50, 10, None, "unknown", None)
    ),
    "a tombstone": ([commit(5, 50), commit(6, None)], [look(1, 10, 60)], (None, 10, None, "reset_none", None)),
    "the source says that there is none": ([commit(5, None, is_deleted=False)], [look(1, 10, 60)], (None, 10, None, "reset_none", None)),
    "a commit below every log": (
        [commit(5, -(2**63))], [look(1, 10, 60), look(20, 10, 80)], (-(2**63), 10, 80, "reset_out_of_range", 2**63 - 1)
    ),
    "a commit just below 0": ([commit(5, -1)], [look(1, 10, 60), look(20, 10, 80)], (-1, 10, 80, "reset_out_of_range", 81)),
    "a log that ends below 0": (
        [commit(5, 2**63 - 1)], [look(1, 10, 60), look(20, 10, -(2**63))], (2**63 - 1, 10, -(2**63), "reset_out_of_range", 0)
    ),
    "no look": ([commit(5, 50)], [], (50, None, None, "unknown", None)),
    "a look of the same instant": ([commit(5, 50)], [look(10, 10, 60)], (50, 10, 60, "committed", 10)),
    "the last commit counts, up to the movement": (
        [commit(3, 30), commit(5, 50), commit(10, 51), commit(11, 60)], [look(1, 10, 60)], (51, 10, None, "committed", None)
    ),
    "perhaps taken back": ([commit(5, 50, is_uncertain=True)], [look(1, 10, 60)], (50, 10, None, "unknown", None)),
    "a partition that the look does not have": ([commit(5, 50)], [look(1, 10, 60, partitions=[])], (50, None, None, "unknown", None)),
    "a commit with a later clock": (
        [commit(5, 50, committed_at=moment(30))], [look(1, 10, 40), look(20, 10, 45), look(40, 10, 80)], (50, 10, 80, "committed", 30)
    ),
    "a source without places goes by time": (
        [commit(1000, 50, observed_at=moment(5), source="formatter-json"), commit(1, 60, observed_at=moment(11), source="formatter-json")],
        [look(1, 10, 60)],
        (50, 10, None, "committed", None),
    ),
}  # fmt: skip


DELAYS = {
    "looks every 20 seconds": ([look(1, 10, 60), look(15, 10, 80), look(35, 10, 900)], (30, 5, True)),
    "the first look much later": ([look(1, 10, 60), look(790, 10, 9_000)], (8_950, 780, True)),
    "a look of the same instant": ([look(10, 10, 60)], (10, 0, False)),
    "nothing came in between": ([look(1, 10, 80), look(20, 10, 80)], (30, 10, False)),
    "nothing came in, into two topics of one name": ([look(1, 0, 60, topic_id="B"), look(20, 10, 60)], (10, 10, True)),
    "nothing waits": ([look(1, 10, 40), look(20, 10, 50)], (0, 10, False)),
    "no look": ([look(1, 10, 60)], (None, None, None)),
}
"""What looks say to a movement at 10, of a group that has committed 50: lag, end_offset_delay_ms, lag_is_upper_bound."""


def test_lag_by_a_later_end_offset_is_an_upper_bound_with_its_delay(spark: SparkSession) -> None:
    movements = [movement(10, group_id=name, topic=name) for name in DELAYS]
    commits = [commit(5, 50, group_id=name, topic=name, topic_id="A") for name in DELAYS]
    looks = [{**row, "topic": name} for name, (of_looks, _) in DELAYS.items() for row in of_looks]
    names = ("lag", "end_offset_delay_ms", "lag_is_upper_bound")
    found = {row["group_id"]: tuple(row[name] for name in names) for row in resumed(spark, movements, commits, looks)}
    assert found == {name: expected for name, (_, expected) in DELAYS.items()}
    found = {row["group_id"]: tuple(row[name] for name in names) for row in resumed(spark, movements, commits, looks, 0.01)}
    late = {name: (None, 780, None) for name in DELAYS if "much later" in name}
    assert found == {name: expected for name, (_, expected) in DELAYS.items()} | late


def test_resume_case_by_case(spark: SparkSession) -> None:
    """Each case is a group of its own; what moves at 10 is asked for."""
    movements, commits, looks, expected = [], [], [], {}
    for name, (of_commits, of_looks, answer) in CASES.items():
        own = {"group_id": name, "topic": name}
        movements.append(movement(10, **own))
        commits += [{**row, **own} for row in of_commits]
        looks += [{**row, "topic": name} for row in of_looks]
        expected[name] = answer
    found = resumed(spark, movements, commits, looks)
    assert {row["group_id"]: tuple(row[name] for name in RESUME_COLUMNS[:5]) for row in found} == expected


def test_lost_partition_has_no_resume_offset(spark: SparkSession) -> None:
    """Observed, the partition is lost; the assignor would have given it to b."""
    bases = [movement(10, member_id=None, kind="lost"), movement(10, member_id="b", kind="revoked", basis="recomputed")]
    lost, revoked = sorted(resumed(spark, bases, [commit(5, 50)], [look(1, 10, 60)]), key=lambda row: row["basis"])
    assert {lost[name] for name in RESUME_COLUMNS} == {None}
    assert (lost["kind"], lost["position"]) == ("lost", 10)
    assert (revoked["kind"], revoked["committed_offset"], revoked["resume_outcome"]) == ("revoked", 50, "committed")


def drawn(random: Random, group: str) -> tuple[list[Row], list[Row], list[Row]]:
    """Return movements, commits and looks of one group at random: equal times, other clocks, other topics of the name, no ids."""
    own = {"group_id": group, "topic": group}
    source = random.choice(["consumer-offsets", "consumer-offsets", "formatter-json"])
    ids = random.choice([["A"], ["A", "B"], ["A", None], [None]])
    movements = [movement(at, **own, member_id=random.choice(["m", "m", None])) for at in random.sample(range(30), 4)]
    commits = [
        commit(
            at,
            random.choice([None, 0, 5, 20, 40]),
            **own,
            observed_at=moment(max(0, at + random.choice([-6, 0, 0, 6]))),
            source=source,
            topic_id=random.choice([None, *ids]),
            run_sequence=random.choice([1, 1, 2]),
        )
        for at in random.sample(range(30), random.randint(0, 5))
    ]
    for row in commits:
        row["committed_at"] = None if row["is_deleted"] else row["observed_at"]
    looks = [
        look(
            at,
            random.choice([0, 10]),
            random.choice([10, 30, 50]),
            topic=group,
            topic_id=random.choice(ids),
            run_sequence=random.choice([1, 1, 2]),
        )
        for at, run in zip(random.sample(range(35), random.randint(0, 5)), random.choices([1, 1, 2], k=5), strict=False)
    ]
    return movements, commits, looks


@pytest.fixture(scope="module")
def histories() -> tuple[list[Row], list[Row], list[Row]]:
    random = Random(20261122)
    parts = [drawn(random, f"g{number}") for number in range(300)]
    return tuple([row for part in parts for row in part[which]] for which in range(3))


def oracles(movements: list[Row], commits: list[Row], looks: list[Row]) -> list[tuple]:
    return [
        resume_oracle.resume(
            row,
            [other for other in commits if all(other[name] == row[name] for name in PARTITION)],
            [other for other in looks if other["topic"] == row["topic"]],
            is_complete=is_complete(row["group_id"]),
        )
        for row in movements
    ]


def answers(found: list[Row], movements: list[Row]) -> list[tuple]:
    by_key = {(row["group_id"], row["position"]): tuple(row[name] for name in RESUME_COLUMNS) for row in found}
    assert len(by_key) == len(found)
    return [by_key[row["group_id"], row["position"]] for row in movements]


def comparable(found: list[tuple]) -> list[tuple]:
    """Times come back without a zone, which is the machine's."""
    return [(*row[:5], None if row[5] is None else row[5].timestamp()) for row in found]


def test_resume_is_the_oracles(spark: SparkSession, histories: tuple[list[Row], list[Row], list[Row]]) -> None:
    wanted = oracles(*histories)
    assert comparable(answers(resumed(spark, *histories), histories[0])) == comparable(wanted)
    outcomes = Counter(row[3] for row in wanted)
    assert min(outcomes[name] for name in ("committed", "reset_none", "reset_out_of_range", "unknown", None)) >= 20


def test_late_commits_and_metadata_select_every_movement_that_they_change(
    spark: SparkSession, histories: tuple[list[Row], list[Row], list[Row]]
) -> None:
    """Told first without the commits and looks of run 2; what these change has to be among what is asked again, and much else is not."""
    movements, commits, looks = histories
    early = [[row for row in part if row["run_sequence"] == 1] for part in (commits, looks)]
    before, now = oracles(movements, *early), oracles(movements, commits, looks)
    stored = [{**row, **dict(zip(RESUME_COLUMNS, answer, strict=True))} for row, answer in zip(movements, before, strict=True)]
    all_looks = frame(spark, TOPIC_SNAPSHOTS.schema, looks)
    late_commits = _late_commits(frame(spark, OFFSET_SNAPSHOTS.schema, commits).where("run_sequence > 1"))
    news = NewCommits(late_commits, all_looks, late_commits, _late_looks(all_looks, 1), late_commits, None, None)
    moment = F.greatest("observed_at", "committed_at")
    found = affected_rows(frame(spark, MOVEMENTS.schema, stored), news, moment, moment).collect()
    asked = {(row["group_id"], row["position"]) for row in found}
    changed = {(row["group_id"], row["position"]) for row, old, new in zip(movements, before, now, strict=True) if old != new}
    assert len(changed) > 200
    assert changed <= asked
    assert len(asked) < len(movements) * 0.8


@pytest.mark.parametrize(("source", "expected"), [("formatter-json", [2_000, 5_000]), ("consumer-offsets", [])])
def test_deletion_that_gets_a_later_time_was_believed_before_it(spark: SparkSession, source: str, expected: list[int]) -> None:
    """It was stored at 1,000 ms, the time of the record before it. Run 2 brings a later one of another partition, and it is at 9,000."""
    fresh = [commit(9_000, None, source=source, run_sequence=2), commit(9_000, 7, source=source, run_sequence=2, partition=1)]
    late, nothing = _late_commits(frame(spark, OFFSET_SNAPSHOTS.schema, fresh)), frame(spark, OFFSET_SNAPSHOTS.schema, [])
    news = NewCommits(nothing, nothing, late, None, nothing, None, None)
    stored = frame(spark, MOVEMENTS.schema, [movement(2_000), movement(5_000), movement(5_000, partition=1)])
    found = affected_rows(stored, news, F.col("observed_at"), F.col("observed_at")).collect()
    assert sorted(row["position"] for row in found) == expected


def test_rows_before_all_that_is_new_are_not_asked(spark: SparkSession) -> None:
    """Nor are those of the same month: a run costs what is new."""
    times = (1_000, 2_000, 3_000)
    stored = frame(spark, MOVEMENTS.schema, [movement(at, observed_month=moment(0).date(), run_sequence=1) for at in times])
    context: Any = SimpleNamespace(
        warehouse=SimpleNamespace(read=lambda name: stored), state=SimpleNamespace(retained_from=None), run_sequence=2
    )
    nothing = frame(spark, OFFSET_SNAPSHOTS.schema, [])
    for since, expected in ((moment(2_000), [2_000, 3_000]), (None, list(times))):
        news = NewCommits(nothing, nothing, None, None, nothing, None, since)
        assert [row["position"] for row in news.rows_to_ask(context, MOVEMENTS.name).sort("position").collect()] == expected


def test_every_movement_of_the_capture_resumes_as_the_oracle_says(recorded_warehouse: Path) -> None:
    commits, looks = (rows(recorded_warehouse, name) for name in ("offset_snapshots", "topic_snapshots"))
    movements = rows(recorded_warehouse, "movements")
    log = pq.read_table(RECORDED / "consumer_offsets.parquet", columns=["partition", "offset"]).to_pylist()
    begun = {row["partition"] for row in log if row["offset"] == 0}
    complete = {row["group_id"] for row in rows(recorded_warehouse, "subscription_snapshots") if row["offsets_partition"] in begun}
    different = []
    for row in movements:
        of_partition = [other for other in commits if all(other[name] == row[name] for name in ("cluster_id", *list(PARTITION)[1:]))]
        of_topic = [other for other in looks if other["topic"] == row["topic"]]
        wanted = resume_oracle.resume(row, of_partition, of_topic, is_complete=row["group_id"] in complete)
        found = tuple(row[name] for name in RESUME_COLUMNS)
        if wanted != found:
            different.append((row["group_id"], row["position"], row["topic"], row["partition"], wanted, found))
    assert different == []
    assert {"committed", "reset_none", None} <= {row["resume_outcome"] for row in movements}


@pytest.mark.slow
def test_the_first_record_may_come_last(make_tables, recorded_warehouse: Path, tmp_path: Path) -> None:
    """A capture without the first record of a partition, and then that record: the same movements, known late."""
    log = pq.read_table(RECORDED / "consumer_offsets.parquet")
    is_first = pc.equal(log["offset"], 0)
    for name, part in (("rest", log.filter(pc.invert(is_first))), ("first", log.filter(is_first))):
        (tmp_path / name).mkdir()
        pq.write_table(part, tmp_path / name / "records.parquet")
    warehouse, seen = tmp_path / "warehouse", []
    for inputs in ([tmp_path / "rest", LOOKS], [tmp_path / "first"]):
        assert make_tables("land", "--warehouse", warehouse, "--input", *inputs) == 0
        assert make_tables("assign", "--warehouse", warehouse, "--strategies", "range") == 0
        assert make_tables("audit", "--warehouse", warehouse) == 0
        seen.append(Counter(row["resume_outcome"] for row in rows(warehouse, "movements")))
    assert seen[0]["unknown"] > 0
    assert seen[1] == Counter(row["resume_outcome"] for row in rows(recorded_warehouse, "movements"))
    assert seen[1]["unknown"] < seen[0]["unknown"]
