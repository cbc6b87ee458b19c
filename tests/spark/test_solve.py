"""The replay in the workers: the same rows however Spark cuts the data up, and a loud end where a group was cut wrongly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from assignors import Assignment
from assignors.replay.replay import Replay
from assignors.replay.steps import State
from jobs.assign import run as assign
from jobs.assign import udfs
from jobs.assign.state_codec import decode_state
from jobs.assign.udfs import SolveSettings, solve_chunks
from jobs.context import MetadataIndex, RunContext
from jobs.workers.guard import GroupFailedError, WorkerLimits
from jobs.workers.holdings_column import unpack_holdings
from jobs.workers.packing import pack_chunks, runs_by_group, topic_runs, unpack_runs, unpack_snapshots
from schemas.computed_row_types import RowKind
from schemas.config import Settings
from schemas.keys import GROUP_KEY
from schemas.staging import SOLVED_ROWS
from schemas.tables import GROUP_STATES
from tests.builders.frames import entries, frame, look_row, looks, member_row, moment, snapshot_row, snapshots

LOOKS = [look_row("t", at, [["r1"]] * 4) for at in (0, 2_500)] + [look_row("u", 0, [["r2"], [None]])]
STRATEGIES = ("sticky", "cooperative-sticky")
SETTINGS = SolveSettings(STRATEGIES, None, 60, (), {"c": (0, 2_500)}, 500, False, WorkerLimits(4096, 3600))


def history() -> list[dict[str, Any]]:
    """Return three groups of five, three and one generations: static, cooperative, emptied, and without any known topic."""
    static = member_row("x", group_instance_id="i", topics=["t", "u"], assigned=entries(t=[0, 1], u=[0, 1]))
    a, b = member_row("a", assigned=entries(t=[2, 3])), member_row("b")
    return [
        snapshot_row("g", 0),
        snapshot_row("g", 1, static, a),
        snapshot_row("g", 2, static, a, b),
        snapshot_row("g", 3),
        snapshot_row("g", 4, b),
        snapshot_row("h", 1, a, strategy="cooperative-sticky"),
        snapshot_row("h", 2, member_row("a", owned=entries(t=[2, 3]), owned_generation=1), b, strategy="cooperative-sticky"),
        snapshot_row("h", 3, a, b, strategy="cooperative-sticky"),
        snapshot_row("k", 7, member_row("m", topics=["gone"], assigned=entries(gone=[1]))),
    ]


@contextmanager
def conf(spark: SparkSession, **settings: int) -> Iterator[None]:
    names = {"partitions": "spark.sql.shuffle.partitions", "batch": "spark.sql.execution.arrow.maxRecordsPerBatch"}
    before = {names[name]: spark.conf.get(names[name]) for name in settings}
    for name, value in settings.items():
        spark.conf.set(names[name], value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def solve(
    spark: SparkSession, rows: list[dict], max_generations: int = 500, states: DataFrame | None = None, count: int | None = None
) -> list[dict]:
    """Return what ``assign.solve`` gives; ``count`` is the number of snapshots, if it is known."""
    settings = Settings(strategies=STRATEGIES, assign={"max_generations_per_chunk": max_generations, "checkpoint_generations": 2})
    warehouse = SimpleNamespace(read=lambda name: looks(spark, *LOOKS))
    context = RunContext(warehouse, settings, "test", moment(0), MetadataIndex(warehouse))
    return assign.solve(context, snapshots(spark, *rows), states, count).toArrow().to_pylist()


def lines(rows: list[dict], kind: RowKind) -> list[str]:
    """Return the rows of a kind as text, in a fixed order."""
    return sorted(json.dumps(row, default=repr) for row in rows if row["row_kind"] == kind)


def test_solved_rows_do_not_depend_on_how_spark_cuts_the_data(spark: SparkSession) -> None:
    rows = history()
    with conf(spark, partitions=1, batch=200):
        reference = solve(spark, rows)
    assert len(lines(reference, RowKind.SOLUTION)) == 9 * 2 + 9 * 2 + 4  # range has a counterfactual where it is the group's own
    for partitions, batch, max_generations in ((3, 1, 1), (7, 2, 2), (1, 1, 2), (3, 2, 500)):
        Random(partitions).shuffle(rows)
        with conf(spark, partitions=partitions, batch=batch):
            found = solve(spark, rows, max_generations)
        for kind in (RowKind.SOLUTION, RowKind.STATE):
            assert lines(found, kind) == lines(reference, kind), f"{partitions} partitions, {batch} a batch, {max_generations} a chunk"


def test_solved_rows_do_not_depend_on_balanced_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = history()
    reference = solve(spark, rows)
    monkeypatch.setattr(assign, "MANY_GENERATIONS", 1)
    with conf(spark, partitions=3, batch=1):
        found = solve(spark, rows, 2, count=len(rows))
    for kind in (RowKind.SOLUTION, RowKind.STATE):
        assert lines(found, kind) == lines(reference, kind)


def test_run_continues_from_every_stored_state(spark: SparkSession) -> None:
    """The first run sees generations 0 to 2 of g, and leaves a checkpoint after 1 and its last state after 2.

    Generation 3 is empty and names no topic; that u and t, held before, still exist has to be known all the same.
    """
    rows = [row for row in history() if row["group_id"] == "g"]
    whole, first = solve(spark, rows), solve(spark, rows[:3])
    states = [{**row, "topics": row["topic_names"]} for row in first if row["row_kind"] == RowKind.STATE]
    assert [(one["position"], one["snapshot_count"], one["is_checkpoint"]) for one in states] == [(1, 2, True), (2, 3, False)]
    for state in states:
        assert decode_state(state["state"]).step.snapshot.generation == state["generation"]
        second = solve(spark, rows[state["snapshot_count"] :], states=frame(spark, GROUP_STATES.schema, [of_table(state)]))
        for kind in (RowKind.SOLUTION, RowKind.STATE):
            assert lines(second, kind) == lines([row for row in whole if (row["position"] or 0) > state["position"]], kind)


def of_table(state: dict[str, Any]) -> dict[str, Any]:
    return {name: state[name] for name in GROUP_STATES.schema.names if name in state}


def test_state_is_kept_every_n_snapshots_and_after_the_last(spark: SparkSession) -> None:
    states = [row for row in solve(spark, history()) if row["row_kind"] == RowKind.STATE]
    kept = sorted((row["group_id"], row["position"], row["snapshot_count"], row["is_checkpoint"]) for row in states)
    of_g = [("g", 1, 2, True), ("g", 3, 4, True), ("g", 4, 5, False)]
    assert kept == [*of_g, ("h", 2, 2, True), ("h", 3, 3, False), ("k", 7, 1, False)]


# -- in this process, chunk by chunk


@pytest.fixture(scope="module")
def chunks(spark: SparkSession) -> list[dict[str, Any]]:
    """Chunks of one generation each, as a worker gets them."""
    history_ = snapshots(spark, *history())
    runs = runs_by_group(history_, topic_runs(looks(spark, *LOOKS)))
    packed = pack_chunks(history_, 1, 2**23).join(runs, list(GROUP_KEY), "left").orderBy(*GROUP_KEY, "ordinal")
    return [{**chunk, "state": None, "snapshot_count": 0} for chunk in packed.toArrow().to_pandas().to_dict("records")]


def run(*batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    frames = solve_chunks(iter([pd.DataFrame(batch) for batch in batches]), SETTINGS)
    return [row for rows in frames for row in rows.to_dict("records")]


def test_solutions_are_those_of_the_replay(chunks: list[dict[str, Any]]) -> None:
    """What the worker writes for a group is what a plain loop over its snapshots gives."""
    of_g = [chunk for chunk in chunks if chunk["group_id"] == "g"]
    replay, state, expected = SETTINGS.replay_of("c", "g"), None, []
    members = {}
    for chunk in of_g:
        ((snapshot, _),) = unpack_snapshots(chunk)
        members[snapshot.position] = [member.member_id for member in snapshot.members]
        state: State | None = replay.advance(state, snapshot, udfs.ClusterLooks((0, 2_500), unpack_runs(of_g[0])))
        expected += [
            (snapshot.position, one.basis, one.strategy, one.status, one.rebalance_count, grouped(one.assignment))
            for one in state.step.solutions
        ]
    rows = run(of_g)
    topics = {row["topics_hash"]: row["topic_names"] for row in rows if row["row_kind"] == RowKind.TOPICS}
    found = [
        (
            *(row[name] for name in ("position", "basis", "strategy", "status", "rebalance_count")),
            None
            if row["holdings"] is None
            else grouped(unpack_holdings(row["holdings"], members[row["position"]], topics[row["topics_hash"]])),
        )
        for row in rows
        if row["row_kind"] == RowKind.SOLUTION
    ]
    assert found == expected


def grouped(assignment: Assignment | None) -> dict[str, dict[str, list[int]]] | None:
    if assignment is None:
        return None
    held: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in assignment}
    for member_id, partitions in assignment.items():
        for topic, partition in partitions:
            held[member_id].setdefault(topic, []).append(partition)
    return held


@pytest.mark.parametrize("keeps_all_rows", [False, True])
def test_only_what_happened_has_lists_unless_all_is_kept(chunks: list[dict[str, Any]], keeps_all_rows: bool) -> None:
    settings = replace(SETTINGS, keeps_all_rows=keeps_all_rows)
    frames = solve_chunks(iter([pd.DataFrame(chunks)]), settings)
    rows = [row for rows in frames for row in rows.to_dict("records") if row["row_kind"] == RowKind.SOLUTION]
    listed = {(row["basis"], row["conformance"]) for row in rows if row["held_topics"] is not None}
    unlisted = {(row["basis"], row["conformance"]) for row in rows if row["held_topics"] is None}
    happened = {(basis, word) for basis, word in listed | unlisted if basis == "observed" or (basis == "recomputed" and word != "exact")}
    assert {("recomputed", "exact"), ("counterfactual", None)} <= listed | unlisted
    assert listed == (listed | unlisted if keeps_all_rows else happened)
    for row in rows:
        if row["held_topics"] is not None:
            assert len(row["member_ids"]) == len(row["group_instance_ids"]) == len(row["held_topics"]) == len(row["held_partitions"])


def test_topics_are_written_once_a_task(chunks: list[dict[str, Any]]) -> None:
    topics = [row for row in run(chunks) if row["row_kind"] == RowKind.TOPICS]
    names = [(row["topic_names"], row["bases"], row["are_uncertain"]) for row in topics]
    assert len({row["topics_hash"] for row in topics}) == len(topics)
    assert (["gone"], ["inferred"], [True]) in names
    assert names.count((["t"], ["before"], [False])) == 1, "g and h see the same t"


@pytest.mark.parametrize(
    ("order", "message"),
    [
        pytest.param([1], "expected the chunk from snapshot 0, found 1", id="the first is missing"),
        pytest.param([0, 2], "expected the chunk from snapshot 1, found 2", id="one is missing"),
        pytest.param([0, 0], "expected the chunk from snapshot 1, found 0", id="one comes twice"),
        pytest.param([0, 2, 1], "expected the chunk from snapshot 1, found 2", id="out of order"),
        pytest.param([0, 5, 1], "expected the chunk from snapshot 0, found 1", id="another group between"),
    ],
)
@pytest.mark.parametrize("is_one_batch", [True, False])
def test_missing_or_disordered_chunks_stop_the_run(
    chunks: list[dict[str, Any]], order: list[int], message: str, is_one_batch: bool
) -> None:
    chosen = [chunks[index] for index in order]
    with pytest.raises(GroupFailedError, match=f"cluster c, group g: {message}"):
        run(chosen) if is_one_batch else run(*[[chunk] for chunk in chosen])


def test_an_unexpected_error_names_where_it_happened(chunks: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    advance = Replay.advance

    def fail_at_two(self: Replay, state: Any, snapshot: Any, looks: Any) -> Any:
        if snapshot.generation == 2:
            raise ZeroDivisionError("a defect")
        return advance(self, state, snapshot, looks)

    monkeypatch.setattr(Replay, "advance", fail_at_two)
    with pytest.raises(GroupFailedError, match=r"^cluster c, group g, generation 2, position 2: ZeroDivisionError: a defect$"):
        run(chunks)


def test_large_numbers_and_absent_ones_share_a_column() -> None:
    """Beside a null pandas would turn 2**53 + 1 into 2**53."""
    rows = [{"row_kind": RowKind.SOLUTION, "position": 2**53 + 1}, {"row_kind": RowKind.TOPICS}]
    (frame_,) = udfs._to_frames(rows, SOLVED_ROWS)
    assert frame_["position"].tolist() == [2**53 + 1, pd.NA]
    assert list(frame_.columns) == SOLVED_ROWS.names


@pytest.mark.parametrize("column", ["holdings", "state"])
def test_a_frame_ends_where_it_holds_enough_and_the_next_begins_empty(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a group with many members are large, however few they are."""
    monkeypatch.setattr(udfs, "FRAME_BYTES", 8)
    rows = [
        {"row_kind": RowKind.SOLUTION, "position": number, column: packed}
        for number, packed in enumerate((bytes(5), None, bytes(3), bytes(7)))
    ]
    assert [frame["position"].tolist() for frame in udfs._to_frames(rows, SOLVED_ROWS)] == [[0, 1, 2], [3]]


def test_row_that_does_not_fit_a_frame_names_its_group() -> None:
    other, odd = {"group_id": "other", "generation": 1}, {"cluster_id": "c", "group_id": "g", "position": 3, "generation": 2**31}
    with pytest.raises(GroupFailedError, match=r"^cluster c, group g, generation 2147483648, position 3: a row does not fit its columns"):
        list(udfs._to_frames([other, odd, other], SOLVED_ROWS))


@pytest.mark.parametrize(
    ("cluster", "group", "client", "expected"),
    [
        pytest.param("eu", "billing-1", "x", "2.8.2", id="the group's pattern"),
        pytest.param("us", "billing-1", "x", None, id="another cluster"),
        pytest.param("eu", "orders", "java-7", "3.3.2", id="the client's pattern"),
        pytest.param("eu", "billing-1", "java-7", "2.8.2", id="the first that matches"),
        pytest.param("eu", "Billing-1", "x", None, id="upper and lower case differ"),
    ],
)
def test_first_matching_release_pattern_gives_the_version(cluster: str, group: str, client: str, expected: str | None) -> None:
    versions = (("2.8.2", "eu", "billing-*", "*"), ("3.3.2", "*", "*", "java-*"))
    settings = SolveSettings((), None, 60, versions, {}, 500, False, WorkerLimits(4096, 3600))
    assert settings.replay_of(cluster, group).version_override(client) == expected
