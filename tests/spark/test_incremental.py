"""Which groups an incremental run takes up again, and from where."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs.assign.run import first_fresh, pending_groups, snapshots_near_new_metadata, topics_seen_first
from jobs.audit.run import audited_groups, solution_rows, with_pauses
from jobs.storage.scratch import StagedKeys
from schemas.tables import GENERATION_AUDITS, GENERATION_TOPICS, GROUP_STATES, QUARANTINE, SOLUTIONS, TOPIC_SNAPSHOTS
from tests.builders.frames import TablesInMemory, frame, look_row, looks, member_row, moment, snapshot_row, snapshots

Row = dict[str, Any]
GROUP = {"cluster_id": "c", "group_id": "g"}


# -- assign


def test_topic_is_new_only_in_the_first_run_with_its_metadata(spark: SparkSession) -> None:
    """What no look has shown is inferred, until one does. A count that stays unconfirmed after that look is not asked for again."""
    seen = looks(
        spark,
        look_row("old", 1_000, [[]], run_sequence=1),
        look_row("old", 2_000, [[]], run_sequence=2),
        look_row("new", 2_000, [[]], run_sequence=2),
    )
    assert [tuple(row) for row in topics_seen_first(seen, 1).collect()] == [("c", "new")]


LOOKS_MS = (1_000, 2_000, 3_000)


@pytest.mark.parametrize(
    ("seen_before", "displaced", "expected"),
    [
        pytest.param({"u": LOOKS_MS, "t": LOOKS_MS[::2]}, [], [1], id="the second one was read without t"),
        pytest.param({"t": LOOKS_MS[::2]}, ["look 2000 t"], [1], id="it had another content of t, and nothing else"),
        pytest.param({"t": LOOKS_MS[::2]}, ["look 1000 t"], [], id="it is new, and as the others are"),
    ],
)
def test_topic_that_a_known_metadata_snapshot_shows_late_is_resolved_again(
    spark: SparkSession, seen_before: dict[str, tuple[int, ...]], displaced: list[str], expected: list[int]
) -> None:
    """Run 2 brings ``t`` at 2,000 ms. Now all metadata snapshots show it as the same, and generation 1 was resolved by what they showed."""
    rows = [look_row(topic, at, [[]] * 3, run_sequence=1) for topic, times in seen_before.items() for at in times]
    conflict = {"cluster_id": "c", "source": "cluster-metadata", "reason": "conflicting_content"}
    entry = {"topic": "t", "partition_count": 0, "basis": "before", "is_uncertain": False}
    tables = {
        TOPIC_SNAPSHOTS.name: looks(spark, *rows, look_row("t", 2_000, [[]] * 3, run_sequence=2)),
        SOLUTIONS.name: frame(spark, SOLUTIONS.schema, [{**GROUP, "position": 1, "basis": "observed", "topics_hash": "h"}]),
        GENERATION_TOPICS.name: frame(spark, GENERATION_TOPICS.schema, [{"cluster_id": "c", "topics_hash": "h", "topics": [entry]}]),
        QUARANTINE.name: frame(spark, QUARANTINE.schema, [{**conflict, "source_position": place} for place in displaced]),
    }
    generation = snapshots(spark, snapshot_row("g", 1, member_row("a"), observed_at=moment(2_500)))
    context = SimpleNamespace(warehouse=TablesInMemory(tables), metadata_index=SimpleNamespace(times_ms={"c": LOOKS_MS}))
    found = snapshots_near_new_metadata(cast(Any, context), generation, 1).collect()
    assert [row["position"] for row in found] == expected


ONWARDS, AGAIN = False, True


@pytest.mark.parametrize(
    ("fresh", "states_at", "expected"),
    [
        pytest.param([1, 2], [], (-1, None, 0, ONWARDS), id="a new group"),
        pytest.param([4], [3], (3, b"at 3", 30, ONWARDS), id="a new generation after the state"),
        pytest.param([7, 8], [2, 4, 6], (6, b"at 6", 60, ONWARDS), id="likewise, with checkpoints before it"),
        pytest.param([2], [3], (-1, None, 0, AGAIN), id="one that arrived late, and no checkpoint"),
        pytest.param([5, 9], [2, 4, 6, 8], (4, b"at 4", 40, AGAIN), id="one that arrived late after a checkpoint"),
        pytest.param([1, 5], [2, 4, 6], (-1, None, 0, AGAIN), id="two late ones, the first before every checkpoint"),
        pytest.param([3, 4], [3], (-1, None, 0, AGAIN), id="the stored last one, rewritten"),
        pytest.param([4], [2, 4, 6], (2, b"at 2", 20, AGAIN), id="the one of a checkpoint, rewritten"),
        pytest.param([], [3], None, id="nothing new"),
    ],
)
def test_group_continues_from_the_newest_state_before_new_snapshots(
    spark: SparkSession, fresh: list[int], states_at: list[int], expected: tuple | None
) -> None:
    """``fresh`` are the positions that run 2 landed, beside those of run 1, which have all been played."""
    played = range(1, max(states_at, default=0) + 1)
    assert goes_on(spark, fresh, states_at, list(played)) == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("fresh", "states_at", "expected"),
    [
        pytest.param([3], [], (-1, None, 0, AGAIN), id="and with it the only state"),
        pytest.param([5], [2], (2, b"at 2", 20, AGAIN), id="and a checkpoint is left"),
    ],
)
def test_results_are_made_again_where_the_last_snapshot_has_vanished(
    spark: SparkSession, fresh: list[int], states_at: list[int], expected: tuple
) -> None:
    """Its state goes with it; results before it stay, and those after the state that is left would be there twice."""
    assert goes_on(spark, fresh, states_at, played=[1, 2, 3, 4]) == [expected]


def goes_on(spark: SparkSession, fresh: list[int], states_at: list[int], played: list[int]) -> list[tuple]:
    """Return what ``pending_groups`` says of a group whose positions ``played`` have results; another has some too."""
    landed = [(position, 1) for position in played if position not in fresh]
    rows = [snapshot_row("g", position, run_sequence=run) for position, run in [*landed, *((position, 2) for position in fresh)]]
    of_another = {**GROUP, "group_id": "h", "position": 1, "snapshot_count": 1, "state": b"of h"}
    states = [{**GROUP, "position": at, "snapshot_count": at * 10, "state": f"at {at}".encode()} for at in states_at]
    results = [{**GROUP, "position": at, "basis": "observed"} for at in played]
    results += [{**GROUP, "group_id": "h", "position": 9, "basis": "observed"}]
    fresh_rows = snapshots(spark, *rows).where("run_sequence > 1")
    stored = (frame(spark, GROUP_STATES.schema, [*states, of_another]), frame(spark, SOLUTIONS.schema, results))
    begins = first_fresh(fresh_rows)
    found = pending_groups(StagedKeys(begins, begins.count()), *stored).collect()
    return [(row["played_until"], row["state"], row["snapshot_count"], row["is_redone"]) for row in found]


# -- audit


HOUR_MS = 3_600_000


def audit_row(
    position: int, basis: str, strategy: str = "range", *, status: str = "solved", is_settled: bool | None = True, **changes: Any
) -> Row:
    row = {**GROUP, "position": position, "basis": basis, "strategy": strategy, "status": status, "is_settled": is_settled}
    return {**row, "member_count": 1, "observed_at": moment(position * HOUR_MS), **changes}


def solution_row(position: int, minutes: int = 0) -> Row:
    """Return a solution of run 1, or of run 2 from generation 4 on; each generation is an hour after the one before."""
    at = moment(position * HOUR_MS + minutes * 60_000)
    return {**GROUP, "position": position, "run_sequence": 2 if position >= 4 else 1, "observed_at": at}


def groups_to_audit(spark: SparkSession, solutions: list[Row], audits: list[Row]) -> DataFrame:
    """Return the groups that run 2 audits."""
    new = [row for row in solutions if row["run_sequence"] > 1]
    return audited_groups(frame(spark, SOLUTIONS.schema, new), frame(spark, GENERATION_AUDITS.schema, audits))


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
        pytest.param([audit_row(3, "observed", member_count=0)], 2, id="it was empty: an older one shows the assignor"),
    ],
)
def test_audit_reads_back_to_a_generation_that_all_strategies_continue_from(spark: SparkSession, changed: list[Row], expected: int) -> None:
    """Generation 4 is new; 1 to 3 are audited, and each case changes rows of them. Later audits do not count: 4 is made anew."""
    sound = [audit_row(position, basis) for position in (1, 2, 3, 4) for basis in ("observed", "recomputed", "counterfactual")]
    replaced = {(row["position"], row["basis"], row["strategy"]) for row in changed}
    audits = [row for row in sound if (row["position"], row["basis"], row["strategy"]) not in replaced] + changed
    solutions = [solution_row(position) for position in (1, 2, 3, 4)]
    found = groups_to_audit(spark, solutions, audits).collect()
    assert [(row["first_position"], row["read_from"]) for row in found] == [(4, expected)]


@pytest.mark.parametrize(
    ("minutes", "late", "expected"),
    [
        pytest.param({}, 0, 3, id="who left is not expected back"),
        pytest.param({3: 50}, 0, 2, id="who left in 3 may be back in 4: 2 shows who was there"),
        pytest.param({3: 49}, 0, 3, id="not a minute later"),
        pytest.param({2: 110, 3: 55}, 0, 1, id="who left in 2 or 3"),
        pytest.param({1: 170, 2: 110, 3: 50}, 0, 1, id="the first known has nobody before it"),
        pytest.param({2: 110, 3: 0}, 0, 1, id="by the records' clocks 3 is long ago, and 2 is not"),
        pytest.param({3: 40}, -70, 2, id="5, which is new too, has an earlier time than 4"),
    ],
)
def test_the_audit_reads_from_where_members_left_that_may_be_back(
    spark: SparkSession, minutes: dict[int, int], late: int, expected: int
) -> None:
    """Generations 4 and 5 are new; ``minutes`` later than on the hour are others, and ``late`` is 5."""
    audits = [
        audit_row(position, basis, observed_at=moment(position * HOUR_MS + minutes.get(position, 0) * 60_000))
        for position in (1, 2, 3)
        for basis in ("observed", "recomputed", "counterfactual")
    ]
    solutions = [*(solution_row(position) for position in (1, 2, 3, 4)), solution_row(5, late)]
    found = groups_to_audit(spark, solutions, audits).collect()
    assert [(row["first_position"], row["read_from"]) for row in found] == [(4, expected)]
    assert found[0]["from_time"].timestamp() == moment(min(4 * HOUR_MS, 5 * HOUR_MS + late * 60_000)).timestamp()


def test_counterfactuals_are_read_from_the_generation_that_new_ones_are_compared_with(spark: SparkSession) -> None:
    """A member that left in 3 may be back in 4, so 2 is read for its members. Maintenance may have cleared its counterfactual holdings."""
    times = {1: 60, 2: 120, 3: 230, 4: 240}
    at = {position: {"observed_at": moment(minutes * 60_000), "topics_hash": "h"} for position, minutes in times.items()}
    audits = [audit_row(position, basis, **at[position]) for position in (1, 2, 3) for basis in ("observed", "counterfactual")]
    solved = [{**solution_row(position), "basis": basis, **at[position]} for position in times for basis in ("observed", "counterfactual")]
    groups = groups_to_audit(spark, solved, audits)
    topics = frame(spark, GENERATION_TOPICS.schema, [{"cluster_id": "c", "topics_hash": "h", "topics": []}])
    tables = TablesInMemory({SOLUTIONS.name: frame(spark, SOLUTIONS.schema, solved), GENERATION_TOPICS.name: topics})
    read = solution_rows(cast(Any, tables), StagedKeys(groups, 1)).collect()
    found = {basis: sorted(row["position"] for row in read if row["basis"] == basis) for basis in ("observed", "counterfactual")}
    assert found == {"observed": [2, 3, 4], "counterfactual": [3, 4]}


def test_metadata_is_read_from_the_earliest_generation_that_is_audited_again(spark: SparkSession) -> None:
    """Generation 4 is new; 5 was audited before, and the clock went back by two hours in between. 3 is not audited again."""
    audits = [audit_row(3, "observed", observed_at=moment(0)), audit_row(5, "observed", observed_at=moment(3 * HOUR_MS))]
    (found,) = groups_to_audit(spark, [solution_row(4)], audits).collect()
    assert found["from_time"].timestamp() == moment(3 * HOUR_MS).timestamp()


def test_groups_without_new_solutions_are_not_audited(spark: SparkSession) -> None:
    assert groups_to_audit(spark, [{**GROUP, "position": 1, "run_sequence": 1}], []).isEmpty()


@pytest.mark.parametrize(("audited", "is_stale"), [([1, 2], False), ([1, 2, 4], True), ([4, 5], True), ([], False)])
def test_audits_from_the_first_new_solution_on_are_stale(spark: SparkSession, audited: list[int], is_stale: bool) -> None:
    (found,) = groups_to_audit(spark, [solution_row(4)], [audit_row(position, "observed") for position in audited]).collect()
    assert (found["is_stale"], found["read_from"]) == (is_stale, 2 if 2 in audited else -1)


def test_a_pause_lasts_until_the_next_generation_of_the_incarnation(spark: SparkSession) -> None:
    """2 parts are without owner in 1 and 2, which 3 only completes; the clock goes back at 4; 6 begins a new incarnation."""
    generations = [
        {"unassigned_count": 2},
        {"unassigned_count": 2, "previous_generation": 1},
        {"unassigned_count": 0, "previous_generation": 2, "is_follow_up": True},
        {"unassigned_count": 1, "previous_generation": 3, "observed_at": moment(5 * HOUR_MS + 1)},
        {"unassigned_count": 1, "previous_generation": 4},
        {"unassigned_count": 3, "previous_generation": None},
    ]
    audits = [audit_row(number, "observed", **{"is_follow_up": False, **one}) for number, one in enumerate(generations, 1)]
    found = with_pauses(frame(spark, GENERATION_AUDITS.schema, audits)).orderBy("position").collect()
    assert [(row["follow_up_ms"], row["pause_partition_ms"]) for row in found] == [
        (None, 2 * HOUR_MS),
        (HOUR_MS, 2 * HOUR_MS),
        (None, 0),
        (None, 0),
        (None, None),
        (None, None),
    ]
