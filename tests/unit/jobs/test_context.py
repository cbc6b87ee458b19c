"""What a run comes to, stage by stage."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import date, datetime, timezone
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobs.context import MetadataIndex, RunContext, RunState, StageResult
from jobs.storage.warehouse import Warehouse
from schemas.config import Settings

BEFORE = RunState(consumed={"solutions": 3}, written={"solutions": 4, "movements": 2}, retained_from=date(2026, 1, 1))


def context(**rows_written: int) -> RunContext:
    """Return the fifth run, which has written so many rows."""
    warehouse = cast("Warehouse", SimpleNamespace(run_sequence=5, rows_written=rows_written))
    moment = datetime(2026, 2, 1, tzinfo=timezone.utc)
    return RunContext(warehouse, Settings(), "fifth", moment, MetadataIndex(warehouse), before=BEFORE, state=BEFORE)


def test_a_stage_changes_nothing_of_the_run_before_it() -> None:
    start = context()
    later = start.after(StageResult(BEFORE.using({"solutions": 5}), {"read": 2}))
    assert (start.state, start.input_counts) == (BEFORE, {})
    assert (later.state.consumed, later.input_counts, later.before) == ({"solutions": 5}, {"read": 2}, BEFORE)
    with pytest.raises(FrozenInstanceError):
        start.state = later.state  # type: ignore[misc]


def test_counts_of_all_stages_are_kept() -> None:
    run = context().after(StageResult(BEFORE, {"read": 2}, files=("a",), file_counts={"a": 2}))
    run = run.after(StageResult(BEFORE, output_counts={"movements.dropped": 1}, files=("b",)))
    assert (run.input_counts, run.output_counts) == ({"read": 2}, {"movements.dropped": 1})
    assert (run.files, run.file_counts) == (("a", "b"), {"a": 2})


def test_files_stay_unknown_whatever_a_later_stage_has_decoded() -> None:
    assert context().after(StageResult(BEFORE, files=None)).after(StageResult(BEFORE, files=("b",))).files is None


def test_rows_of_this_run_are_unread_until_the_stage_that_uses_them_returns() -> None:
    run = context(movements=7, findings=0)
    assert run.written == {"solutions": 4, "movements": 5}
    assert (run.unread("solutions"), run.unread("movements"), run.unread("findings")) == (3, 0, None)
    assert run.unread("movements", "movements for findings") == 0
    after = run.after(StageResult(run.state.using({"movements for findings": 5})))
    assert (after.unread("movements", "movements for findings"), after.unread("movements")) == (None, 0)


@pytest.mark.parametrize(("landed_until", "expected"), [(None, None), ({"c 0": 7}, {"c 0": 7})])
def test_columns_that_an_older_release_left_null_are_noted_as_empty(landed_until: Any, expected: Any) -> None:
    row: Any = {
        "consumed": {"solutions": 3},
        "written": {},
        "positions": None,
        "origins": None,
        "landed_until": landed_until,
        "retained_from": None,
        "counterfactuals_from": None,
        "run_id": "not of the state",
    }
    noted = RunState.noted(row)
    assert (noted.positions, noted.origins, noted.landed_until) == ({}, {}, expected)
    assert RunState.noted(None) == RunState(landed_until={})
