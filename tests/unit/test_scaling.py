"""What runs on other machines would take, from made-up event logs whose answers are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.scaling import Simulation, busy_s, line_through, read_run


def write_log(folder: Path, end_ms: int, stages: dict[int, tuple[bool, list[tuple[int, int]]]]) -> Path:
    """Write the event log of a run of so many milliseconds.

    Args:
        stages: number -> whether it sends groups to workers, and from when to when its tasks run.
    """
    scope = {True: json.dumps({"id": "1", "name": "MapInArrow"}), False: json.dumps({"id": "1", "name": "Exchange"})}
    events: list[dict] = [{"Event": "SparkListenerApplicationStart", "Timestamp": 0}]
    for number, (is_by_group, tasks) in stages.items():
        events.append(
            {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": number, "RDD Info": [{"Scope": scope[is_by_group]}, {}]}}
        )
        for start, end in tasks:
            events.append({"Event": "SparkListenerTaskEnd", "Stage ID": number, "Task Info": {"Launch Time": start, "Finish Time": end}})
    events.append({"Event": "SparkListenerApplicationEnd", "Timestamp": end_ms})
    folder.mkdir()
    (folder / "events_1").write_text("\n".join(map(json.dumps, events)))
    return folder


def test_a_run_is_read_from_its_event_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", 10_000, {3: (False, [(1_000, 3_000), (1_000, 4_000)]), 4: (True, [(5_000, 6_000)])})
    run = read_run(7, log)
    assert (run.groups, run.wall_s, run.driver_s, run.task_s) == (7, 10, 6, 6)
    assert [(stage.task_s, stage.task_count, stage.is_by_group) for stage in run.stages] == [(5, 2, False), (1, 1, True)]


def test_a_run_of_even_tasks_is_as_long_as_it_was_and_grows_by_the_lines(tmp_path: Path) -> None:
    """A driver of 2 + groups / 100 seconds, and tasks of groups / 10 seconds on two cores."""
    runs = []
    for groups in (100, 200):
        half = groups * 50
        stages = {1: (False, [(0, half), (0, half)])}
        runs.append(read_run(groups, write_log(tmp_path / str(groups), half + 2_000 + groups * 10, stages)))
    simulation = Simulation(*runs)
    assert [simulation.wall_s(groups, 2) for groups in (100, 200, 1_000)] == pytest.approx([5 + 3, 10 + 4, 50 + 12])
    assert simulation.wall_s(1_000, 10) == pytest.approx(100 / 10 + 12)  # ten tasks of ten seconds


def test_work_on_groups_is_cut_between_groups(tmp_path: Path) -> None:
    """One group of a thousand cannot have more than one core, and a thousand groups keep a hundred cores busy all the same."""
    stages = {1: (True, [(0, 50_000), (0, 50_000)])}
    runs = [read_run(groups, write_log(tmp_path / str(groups), 50_000, stages)) for groups in (1_000, 2_000)]
    simulation = Simulation(*runs)
    assert simulation.wall_s(1, 2) == pytest.approx(100)
    assert simulation.wall_s(1_000, 2) == pytest.approx(50, rel=0.1)
    assert 1 <= simulation.wall_s(100_000, 100) <= 1.5


def test_straight_lines_and_busy_cores() -> None:
    assert line_through((1, 10), (3, 20), 5) == 30
    assert busy_s([3, 1, 1, 1], 2) == 3
    assert busy_s([1, 1, 1, 3], 2) == 4
