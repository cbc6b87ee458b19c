"""Landings whose driver, or whose Spark, dies anywhere; see ``crashes``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.faults.conftest import TwoRuns, commits
from tests.faults.crashes import STEPS_OF_ANY_RUN, check_crashes, instants
from tests.faults.readers import published_state


def test_repeated_crashes_of_landing_are_recovered(evenkeel, measured, two_landings: TwoRuns, tmp_path: Path) -> None:
    """The first two of the instants below. The run after a killed one is killed too, on one warehouse."""
    check_crashes(evenkeel, measured, two_landings, tmp_path, [tuple(instants(two_landings, 2))])


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_crash_at_any_instant_of_landing_is_recovered(first: int, evenkeel, measured, two_landings: TwoRuns, tmp_path: Path) -> None:
    check_crashes(evenkeel, measured, two_landings, tmp_path, instants(two_landings, 10, first))


@pytest.mark.slow
def test_crash_at_each_step_of_landing_is_recovered(evenkeel, measured, two_landings: TwoRuns, tmp_path: Path) -> None:
    check_crashes(evenkeel, measured, two_landings, tmp_path, STEPS_OF_ANY_RUN)


def test_a_log_without_a_commit_is_no_warehouse(evenkeel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a run leaves it that was killed while it made ``runs``; that the next one goes on with it is shown in test_warehouse.py."""
    warehouse = tmp_path / "warehouse"
    (warehouse / "runs" / "_delta_log").mkdir(parents=True)
    assert evenkeel("report", "--warehouse", warehouse) == 2
    assert "no tables here" in capsys.readouterr().err


@pytest.mark.slow
def test_a_log_without_a_commit_is_landed_on(make_tables, two_landings: TwoRuns, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    (warehouse / "runs" / "_delta_log").mkdir(parents=True)
    assert make_tables(*two_landings.first_run(warehouse)) == 0
    assert published_state(warehouse) == two_landings.before


def test_written_tables_without_runs_are_left_alone(
    evenkeel, two_landings: TwoRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(two_landings.first, warehouse)
    shutil.rmtree(warehouse / "runs")
    before = commits(warehouse)
    assert evenkeel(*two_landings.second_run(warehouse)) == 1
    assert "runs: found no commit in the Delta log, although runs have written" in capsys.readouterr().err
    assert sorted(commits(warehouse)) == sorted(before)
