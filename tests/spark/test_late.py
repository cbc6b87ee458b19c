"""Late records change rows of earlier runs: the tables are those of timely arrival."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.builders.counted_work import Work, counted_work
from tests.builders.printed_groups import GROUPS, printed, write
from tests.builders.raw_logs import commit, generation, look, written, written_text
from tests.builders.tables import OF_LANDING, assert_equal_warehouses, rows

OFFSETS_TOPIC = "__consumer_offsets"


STARTED = (
    "[1970-01-01 00:12:40,000] INFO [GroupCoordinator 1]: Preparing to rebalance group logged in state PreparingRebalance with old "
    "generation 6 (__consumer_offsets-4) (reason: Adding new member a with group instance id None) "
    "(kafka.coordinator.group.GroupCoordinator)\n"
)
"""Four minutes before the record of the generation, the first one that is known of its group."""
STABILIZED = (
    "[1970-01-01 00:16:39,000] INFO [GroupCoordinator 1]: Stabilized group logged generation 7 (__consumer_offsets-4) with 1 members "
    "(kafka.coordinator.group.GroupCoordinator)\n"
)


def log_pieces(folder: Path) -> tuple[list[Path], list[Path]]:
    """Two logs of one name that overlap, and the record of their generation with the first one."""
    for name in ("first", "second"):
        (folder / name).mkdir()
    first = written_text(folder / "first" / "server.log", STARTED)
    second = written_text(folder / "second" / "server.log", STARTED, STABILIZED)
    return [first.parent, written(folder / "logged.parquet", generation(4, 1, "logged", 7, at=1_000, a=[0]))], [second.parent]


def raw_pieces(folder: Path) -> tuple[list[Path], list[Path]]:
    """Run 2 brings the end of the pause after generation 2 and a commit from before it; and the size of the offsets topic.

    It also brings a generation whose members have joined hours before its record, between two looks of run 1.
    """
    late, timely = commit(3, 1, "g", 0, 5), commit(3, 2, "g", 1, 5)
    first, second, third = (
        generation(3, 0, "g", 1, a=[0, 1]),
        generation(3, 3, "g", 2, a=[0], b=[]),  # t-1 is held back
        generation(3, 4, "g", 3, a=[0], b=[1]),
    )
    before, after = look(2_500, t=[8, 8]), look(3_500, t=[10, 10])
    sized = look(9_000, **{OFFSETS_TOPIC: [None] * 7})
    grown = [look(at_ms, t=[10] * count) for at_ms, count in ((50_000, 3), (200_000, 4), (5_000_000, 4))]
    again = generation(6, 100, "again", 7, at=10_000, a=[0, 1, 2])
    return (
        [written(folder / "1.parquet", first, timely, second), written_text(folder / "1.jsonl", before, after, *grown)],
        [written(folder / "2.parquet", late, third, again), written_text(folder / "2.jsonl", sized)],
    )


PRINTED = printed(GROUPS)[0]


def printed_pieces(folder: Path) -> tuple[Path, Path]:
    """A printed tombstone, without and with the record after it."""
    end = json.dumps({"key": json.loads(PRINTED)["key"], "value": None}, separators=(",", ":"))
    return write(folder, "1.txt", [end]), write(folder, "2.txt", [end, PRINTED])


def snapshot_line(**changes: Any) -> str:
    members = [{"member_id": name, "assigned": [{"topic": "t", "partitions": [number]}]} for number, name in enumerate("ab")]
    line = {"observed_at_ms": 1_000, "group_type": "classic", "state": "Stable", "strategy": "range", "members": members}
    return json.dumps({**line, **changes}) + "\n"


@dataclass(frozen=True)
class Late:
    """Warehouses with the same captures, of groups that do not concern each other.

    Attributes:
        in_turn, at_once: in two runs and a landing, and in one run.
        better_in_turn, better_at_once: after these a better source of two groups has landed, and all has landed together with it.
        first, second: the work of the two runs in turn.
    """

    in_turn: Path
    at_once: Path
    better_in_turn: Path
    better_at_once: Path
    first: Work
    second: Work


@pytest.fixture(scope="module")
def late(make_tables, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Late:
    folder = tmp_path_factory.mktemp("late")
    (folder / "any.yaml").write_text("quality: {max_quarantined_ratio: 1}\n", encoding="utf-8")
    (first, second), (alone, both) = raw_pieces(folder), printed_pieces(folder)
    (xr, xs), (yr, ys) = (
        [written_text(folder / f"{group}-{name}.jsonl", snapshot_line(group_id=group, strategy=name)) for name in ("range", "sticky")]
        for group in "xy"
    )
    log = written(folder / "log.parquet", generation(5, 0, "x", 1, a=[0, 1]), generation(5, 1, "y", 1, a=[0, 1]))

    def make(name: str, command: str, *captures: Path) -> Work:
        arguments = ("--config", folder / "any.yaml", "--warehouse", folder / name, "--as-of", "2026-11-22T00:00:00Z")
        with counted_work(spark) as work:
            assert make_tables(command, *arguments, "--input", *captures) == 0
        return work

    of_log, more_of_log = log_pieces(folder)
    first, second = [*first, *of_log], [*second, *more_of_log]
    works = make("in turn", "run", *first, alone, xr, ys), make("in turn", "run", *second, both, xr, xs, yr)
    make("in turn", "land", xr, xs)
    shutil.copytree(folder / "in turn", folder / "better in turn")
    make("better in turn", "land", log)
    everything = (*first, *second, alone, both, xr, xs, yr, ys)
    make("at once", "run", *everything)
    make("better at once", "land", *everything, log)
    return Late(*(folder / name for name in ("in turn", "at once", "better in turn", "better at once")), *works)


def test_work_does_not_grow(late: Late, measured) -> None:
    """One more query costs every run up to a second, whatever it reads. Whoever needs one raises the number here.

    The second run is one of the dearest there are: late records, commits and looks. The number of Spark jobs may vary a little, as adaptive
    execution skips what turns out to be empty.
    """
    for name, work in (("first", late.first), ("second", late.second)):
        measured(f"{name} run: {work.jobs} Spark jobs, {len(work.staged)} staged writes: {', '.join(work.staged)}")
    assert late.first.jobs <= 160 and len(late.first.staged) <= 23
    assert late.second.jobs <= 465 and len(late.second.staged) <= 41


def test_late_records_make_the_tables_of_timely_ones(late: Late) -> None:
    assert_equal_warehouses(late.in_turn, late.at_once)


def test_rebalance_that_began_long_before_the_first_known_generation_has_its_log(late: Late) -> None:
    for warehouse in (late.in_turn, late.at_once):
        [audit] = [row for row in rows(warehouse, "generation_audits") if (row["group_id"], row["basis"]) == ("logged", "observed")]
        assert audit["rebalance_ms"] == 239_000
        events = [(row["event"], row["ordinal"]) for row in rows(warehouse, "group_events") if row["group_id"] == "logged"]
        assert sorted(events) == [("rebalance_started", 0), ("stabilized", 0)]


def test_partitions_that_came_after_the_members_had_joined_are_left_out(late: Late) -> None:
    for warehouse in (late.in_turn, late.at_once):
        rules = {row["rule_id"] for row in rows(warehouse, "findings") if row["group_id"] == "again"}
        assert "partitions_left_out" in rules


def test_movement_updated_for_one_reason_is_updated_for_all(late: Late) -> None:
    for warehouse in (late.in_turn, late.at_once):
        observed = [row for row in rows(warehouse, "generation_audits") if (row["group_id"], row["basis"]) == ("g", "observed")]
        [middle] = [row for row in observed if row["generation"] == 2]
        assert (middle["pause_partition_ms"], middle["lag_imbalance_ratio"]) == (1_000, 2.0)
        # "g" is 103 in Java; what the records say is 3.
        assert {row["coordinator_partition"] for row in observed} == {103 % 7}


def test_printed_tombstone_gets_its_time_from_the_next_record(late: Late) -> None:
    group = json.loads(PRINTED)["key"]["data"]["group"]
    names = ("group_records", "subscription_snapshots")
    [record], [snapshot] = ([row for row in rows(late.in_turn, name) if row["group_id"] == group] for name in names)
    assert record["timestamp"] == snapshot["joined_at"]


def test_conflict_of_snapshot_lines_lasts_until_a_better_source_lands(late: Late) -> None:
    """Two groups, one of which meets the lines in the other order. Members and fingerprints are the same in both; what lands again adds
    nothing."""
    last = dict(max(rows(late.in_turn, "runs"), key=lambda run: run["run_sequence"])["input_counts"])
    assert (last["duplicate"], last["quarantined"]) == (1, 1)
    assert sorted(row["group_id"] for row in rows(late.in_turn, "quarantine")) == ["x", "y"]
    assert_equal_warehouses(late.better_in_turn, late.better_at_once, OF_LANDING)
    assert rows(late.better_in_turn, "quarantine") == []
