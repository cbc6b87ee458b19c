"""Which groups an incremental run takes up again, and from where."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.assign import pending_groups
from jobs.audit import audited_groups
from schemas.tables import GENERATION_AUDITS, GROUP_STATES, SOLUTIONS
from tests.spark.frames import frame, snapshot_row, snapshots

Row = dict[str, Any]
GROUP = {"cluster_id": "c", "group_id": "g"}


# -- assign


@pytest.mark.parametrize(
    ("landed", "state_at", "expected"),
    [
        pytest.param([(1, 1), (2, 1)], None, [-1, None, False], id="a new group"),
        pytest.param([(1, 1), (2, 2)], 1, [1, b"s", False], id="a new generation behind the state"),
        pytest.param([(1, 1), (3, 1), (2, 2)], 3, [-1, None, True], id="one that arrived late"),
        pytest.param([(3, 2), (4, 2)], 3, [-1, None, True], id="the stored last one, rewritten"),
        pytest.param([(1, 1), (2, 1)], 2, None, id="nothing new"),
    ],
)
def test_groups_with_something_new_go_on_or_begin_again(
    spark: SparkSession, landed: list[tuple[int, int]], state_at: int | None, expected: list | None
) -> None:
    """``landed`` are (position, run_sequence); run 1 has been assigned already unless the group is new."""
    rows = [snapshot_row("g", position, position=position, run_sequence=run) for position, run in landed]
    states = [] if state_at is None else [{**GROUP, "position": state_at, "state": b"s"}]
    found = pending_groups(snapshots(spark, *rows), frame(spark, GROUP_STATES.schema, states), 0 if state_at is None else 1).collect()
    assert [[row["behind"], row["state"], row["is_redone"]] for row in found] == ([] if expected is None else [expected])


# -- audit


def audit_row(position: int, basis: str, strategy: str = "range", *, status: str = "solved", is_settled: bool | None = True) -> Row:
    return {**GROUP, "position": position, "basis": basis, "strategy": strategy, "status": status, "is_settled": is_settled}


def unsolved(position: int, status: str, basis: str = "counterfactual") -> Row:
    return audit_row(position, basis, "sticky", status=status, is_settled=None)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param([], 3, id="the generation before"),
        pytest.param([audit_row(3, "observed", is_settled=False)], 2, id="something was withheld in it"),
        pytest.param([unsolved(3, "no_result")], 2, id="a strategy went on from an older result"),
        pytest.param([unsolved(3, "over_budget"), unsolved(2, "kafka_error")], 1, id="twice in a row"),
        pytest.param([unsolved(3, "unsupported")], 3, id="a strategy that never has a result"),
        pytest.param([unsolved(3, "no_result", "recomputed")], 3, id="recomputed has no history of its own"),
        pytest.param([audit_row(position, "observed", is_settled=False) for position in (1, 2, 3)], -1, id="never settled"),
    ],
)
def test_the_audit_reads_from_where_everything_is_told(spark: SparkSession, changed: list[Row], expected: int) -> None:
    """Generation 4 is new; 1 to 3 are audited, and each case changes rows of them. Later audits do not count: 4 is made anew."""
    sound = [audit_row(position, basis) for position in (1, 2, 3, 4) for basis in ("observed", "recomputed", "counterfactual")]
    replaced = {(row["position"], row["basis"], row["strategy"]) for row in changed}
    audits = [row for row in sound if (row["position"], row["basis"], row["strategy"]) not in replaced] + changed
    solutions = [{**GROUP, "position": position, "run_sequence": 2 if position == 4 else 1} for position in (1, 2, 3, 4)]
    found = audited_groups(frame(spark, SOLUTIONS.schema, solutions), frame(spark, GENERATION_AUDITS.schema, audits), 1).collect()
    assert [(row["first_position"], row["read_from"]) for row in found] == [(4, expected)]


def test_groups_without_new_solutions_are_not_audited(spark: SparkSession) -> None:
    solutions = frame(spark, SOLUTIONS.schema, [{**GROUP, "position": 1, "run_sequence": 1}])
    assert audited_groups(solutions, frame(spark, GENERATION_AUDITS.schema, []), 1).isEmpty()
