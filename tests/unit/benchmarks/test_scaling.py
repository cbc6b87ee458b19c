"""What runs on other machines would take, from made-up event logs whose answers are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks import scaling
from tests.benchmarks.measuring import MISSED_TARGET
from tests.benchmarks.scaling import Simulation, busy_s, line_through, read_run

Stages = dict[int, tuple[bool, list[tuple[int, int]]]]
"""Number -> whether a stage sends groups to workers, and from when to when its tasks run, in milliseconds."""


def keep_run(folder: Path, groups: int, wall_s: float, stages: Stages, cpu_s: float, others_cpu_s: float = 0, **parts: float) -> Path:
    """Write what ``fleet.py --keep`` leaves of a run; ``parts`` are the wall seconds of its own stages."""
    scope = {True: json.dumps({"id": "1", "name": "MapInArrow"}), False: json.dumps({"id": "1", "name": "Exchange"})}
    events: list[dict] = [{"Event": "SparkListenerApplicationStart", "Timestamp": 0}]
    for number, (is_by_group, tasks) in stages.items():
        events.append(
            {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": number, "RDD Info": [{"Scope": scope[is_by_group]}, {}]}}
        )
        for start, end in tasks:
            events.append({"Event": "SparkListenerTaskEnd", "Stage ID": number, "Task Info": {"Launch Time": start, "Finish Time": end}})
    (folder / "first").mkdir(parents=True)
    (folder / "first" / "events_1").write_text("\n".join(map(json.dumps, events)))
    first = {"cpu_s": cpu_s, "wall_s": wall_s, "others_cpu_s": others_cpu_s, "stages": parts}
    measured = {"groups": groups, "records": {"history": groups * 100}, "medians": {"bare": {}, "first": first}}
    (folder / "measured.json").write_text(json.dumps(measured))
    return folder


def even_run(folder: Path, groups: int, slower: int = 1) -> Path:
    """A driver of 2 + groups / 100 seconds, and tasks of groups / 10 seconds on two cores, on a machine that is so many times slower."""
    half, driver_s = groups * 50 * slower, (2 + groups / 100) * slower
    cpu_s = (driver_s + 2 * half / 1000) / slower
    stages = {1: (False, [(0, half), (0, half)])}
    return keep_run(folder, groups, half / 1000 + driver_s, stages, cpu_s, 0 if slower == 1 else 9 * cpu_s, land=1, audit=3)


def test_a_run_is_read_from_what_was_kept_of_it(tmp_path: Path) -> None:
    stages = {3: (False, [(1_000, 3_000), (1_000, 4_000)]), 4: (True, [(5_000, 6_000)])}
    run = read_run(keep_run(tmp_path, 7, 12, stages, 28, 2.7, land=4))
    assert (run.groups, run.records, run.wall_s, run.driver_s, run.task_s, run.parts) == (7, 700, 12, 8, 6, {"land": 4})
    assert (run.stretch, run.was_alone) == (0.5, True)
    assert [(stage.task_s, stage.task_count, stage.is_by_group) for stage in run.stages] == [(5, 2, False), (1, 1, True)]


def test_a_run_of_even_tasks_is_as_long_as_it_was_and_grows_by_the_lines(tmp_path: Path) -> None:
    simulation = Simulation(*(read_run(even_run(tmp_path / str(groups), groups)) for groups in (100, 200)))
    assert [simulation.wall_s(groups, 2) for groups in (100, 200, 1_000)] == pytest.approx([5 + 3, 10 + 4, 50 + 12])
    assert [simulation.cpu_s(groups) for groups in (100, 200, 1_000)] == pytest.approx([10 + 3, 20 + 4, 100 + 12])
    assert simulation.wall_s(1_000, 10) == pytest.approx(100 / 10 + 12)  # ten tasks of ten seconds


def test_other_processes_make_a_run_longer_and_change_no_forecast(tmp_path: Path) -> None:
    small, large = read_run(even_run(tmp_path / "alone", 100)), read_run(even_run(tmp_path / "busy", 200, slower=5))
    assert (small.was_alone, large.was_alone, large.wall_s) == (True, False, 5 * 14)
    assert Simulation(small, large).wall_s(1_000, 2) == pytest.approx(50 + 12)


def test_cost_of_one_more_group_is_divided_by_stages(tmp_path: Path) -> None:
    simulation = Simulation(*(read_run(even_run(tmp_path / str(groups), groups)) for groups in (100, 200)))
    assert (simulation.part_s("land"), simulation.part_s("audit")) == pytest.approx((0.11 / 4, 0.11 * 3 / 4))
    assert simulation.records == 100


def test_work_on_groups_is_cut_between_groups(tmp_path: Path) -> None:
    """One group of a thousand cannot have more than one core, and a thousand groups keep a hundred cores busy all the same."""
    stages = {1: (True, [(0, 50_000), (0, 50_000)])}
    simulation = Simulation(*(read_run(keep_run(tmp_path / str(groups), groups, 50, stages, 100)) for groups in (1_000, 2_000)))
    assert simulation.wall_s(1, 2) == pytest.approx(100)
    assert simulation.wall_s(1_000, 2) == pytest.approx(50, rel=0.1)
    assert 1 <= simulation.wall_s(100_000, 100) <= 1.5


@pytest.mark.parametrize(("groups", "slower", "exit_code"), [(400, 1, 0), (400, 5, 0), (500, 1, MISSED_TARGET), (500, 5, MISSED_TARGET)])
def test_wrong_forecast_fails_and_a_busy_machine_does_not(
    groups: int, slower: int, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The third run is of 400 groups."""
    folders = [even_run(tmp_path / "100", 100), even_run(tmp_path / "200", 200), even_run(tmp_path / "more", 400, slower)]
    measured = json.loads((folders[2] / "measured.json").read_text())
    (folders[2] / "measured.json").write_text(json.dumps(measured | {"groups": groups}))
    monkeypatch.setattr("sys.argv", ["scaling.py", *map(str, folders), "--groups", "1000", "--cores", "10"])
    assert scaling.main() == exit_code
    rows = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines()]
    assert rows[2][1:9] == ["100", "2", "13", "13", "+0%", "8", "8", "+0%"]
    assert (rows[4][5] == "+0%", rows[4][8] == "") == (groups == 400, slower == 5)
    assert rows[5][1:7] == ["1,000", "10", "112", "", "", "22"]
    assert [row[1:4] for row in rows if row[1:2] == ["land"]] == [["land", "27.5", "275 µs a record"]]
    assert rows[-1][1:4] == ["all", "110.0", "with 100 records"]


def test_forecast_extrapolates_lines_and_packs_tasks_onto_cores() -> None:
    assert line_through((1, 10), (3, 20), 5) == 30
    assert busy_s([3, 1, 1, 1], 2) == 3
    assert busy_s([1, 1, 1, 3], 2) == 4
