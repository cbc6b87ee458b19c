"""Whole runs whose driver, or whose Spark, dies anywhere; see ``crashes``. Landings stand apart, for two processes to share the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.conftest import TwoRuns
from tests.faults.crashes import STEPS_OF_WHOLE_RUNS, check_crashes, instants


@pytest.mark.slow
@pytest.mark.parametrize("first", range(30, 60, 10))
def test_crash_at_any_instant_of_a_whole_run_is_recovered(first: int, evenkeel, measured, two_runs: TwoRuns, tmp_path: Path) -> None:
    check_crashes(evenkeel, measured, two_runs, tmp_path, instants(two_runs, 10, first))


@pytest.mark.slow
def test_repeated_crashes_of_whole_runs_are_recovered(evenkeel, measured, two_runs: TwoRuns, tmp_path: Path) -> None:
    check_crashes(evenkeel, measured, two_runs, tmp_path, [tuple(instants(two_runs, 3))])


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(STEPS_OF_WHOLE_RUNS), 7))
def test_crash_at_each_step_of_a_whole_run_is_recovered(first: int, evenkeel, measured, two_runs: TwoRuns, tmp_path: Path) -> None:
    check_crashes(evenkeel, measured, two_runs, tmp_path, STEPS_OF_WHOLE_RUNS[first : first + 7])
