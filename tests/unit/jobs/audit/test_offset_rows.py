"""Which commits a generation finds when a group's rows are read in the order of its log, however they are cut into batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from jobs.audit.offset_rows import BEFORE_ALL, COMMIT_FIELDS, LOOK_FIELDS, RowOrder, read_generations, read_groups
from jobs.audit.resume_offsets import GroupOffsets
from jobs.audit.topic_looks import Look
from jobs.audit.udfs import audit_history
from jobs.workers.guard import GroupFailedError, WorkerLimits

Row = dict[str, Any]
COMMIT = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("topic_id", pa.string()),
        *[(name, pa.int64()) for name in ("committed_offset", "committed_us")],
        ("is_uncertain", pa.bool_()),
        *[(name, pa.int64()) for name in ("observed_us", "place")],
    ]
)
LOOK = pa.struct(
    [
        ("topic", pa.string()),
        ("look_us", pa.int64()),
        ("topic_id", pa.string()),
        *[(name, pa.list_(pa.int64())) for name in ("partitions", "begin_offsets", "end_offsets")],
    ]
)
SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("cluster_id", "group_id")],
        *[(name, pa.int64()) for name in ("position", "row_order")],
        ("commit", COMMIT),
        ("look", LOOK),
        ("generation", pa.struct([("at_us", pa.int64())])),
        ("solution", pa.struct([("basis", pa.string()), ("strategy", pa.string())])),
    ]
)


def test_the_structs_here_are_those_of_the_rows() -> None:
    assert (tuple(COMMIT.names), tuple(LOOK.names)) == (COMMIT_FIELDS, LOOK_FIELDS)


def row(group_id: str, position: int, order: int, **content: Row) -> Row:
    return {"cluster_id": "c", "group_id": group_id, "position": position, "row_order": order, **content}


def commit(group_id: str, position: int, offset: int) -> Row:
    content = {
        "topic": "t",
        "partition": 0,
        "committed_offset": offset,
        "committed_us": position,
        "observed_us": position,
        "place": position,
    }
    return row(group_id, position, RowOrder.COMMIT, commit=content)


def timed(group_id: str, at_us: int, place: int, offset: int) -> Row:
    content = {"topic": "t", "partition": 0, "committed_offset": offset, "committed_us": at_us, "observed_us": at_us, "place": place}
    return row(group_id, BEFORE_ALL, RowOrder.TIMED_COMMIT, commit=content)


def look(group_id: str, at_us: int, end: int) -> Row:
    content = {"topic": "t", "look_us": at_us, "partitions": [0], "begin_offsets": [0], "end_offsets": [end]}
    return row(group_id, BEFORE_ALL, RowOrder.LOOK, look=content)


def generation(group_id: str, position: int, at_us: int | None = None) -> Row:
    return row(group_id, position, RowOrder.GENERATION, generation={"at_us": position if at_us is None else at_us})


def solution(group_id: str, position: int, basis: str) -> Row:
    return row(group_id, position, RowOrder.SOLUTION, solution={"basis": basis, "strategy": "range"})


def found(rows: list[Row], size: int) -> list[tuple[str, int, int | None, int | None]]:
    """Return of each generation its group and position, what was committed, and the end of the log."""
    batches = iter([pa.RecordBatch.from_pylist(rows[at : at + size], schema=SCHEMA) for at in range(0, len(rows), size)])
    answers = []
    for (_, group_id), items in read_groups(batches):
        offsets = GroupOffsets()
        for of_generation in read_generations(items, offsets):
            moment = offsets.moment(of_generation[0]["at_us"], is_complete=False, max_look_delay_s=None)
            resumed = moment.resume("t", 0, "m")
            answers.append((group_id, of_generation[0]["position"], resumed.committed_offset, resumed.end_offset))
    return answers


HISTORY = [
    look("a", 25, 90),
    look("a", 5, 70),
    commit("a", 8, 40),
    generation("a", 10),
    solution("a", 10, "observed"),
    solution("a", 10, "recomputed"),
    commit("a", 12, 50),
    commit("a", 20, 60),
    generation("a", 20),
    commit("a", 30, 99),
    commit("b", 1, 7),
    generation("b", 2),
    commit("c", 1, 8),
    look("d", 50, 9),
    generation("d", 1),
]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_a_generation_finds_the_commits_before_it_and_at_its_place(size: int) -> None:
    assert found(HISTORY, size) == [("a", 10, 40, 90), ("a", 20, 60, 90), ("b", 2, 7, None), ("d", 1, None, 9)]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_solutions_follow_their_generation(size: int) -> None:
    batches = iter([pa.RecordBatch.from_pylist(HISTORY[at : at + size], schema=SCHEMA) for at in range(0, len(HISTORY), size)])
    read = [rows for _, items in read_groups(batches) for rows in read_generations(items, GroupOffsets())]
    assert [[(one["position"], one.get("basis")) for one in rows] for rows in read] == [
        [(10, None), (10, "observed"), (10, "recomputed")],
        *([(position, None)] for position in (20, 2, 1)),
    ]


@pytest.mark.parametrize("size", [1, 100])
def test_in_a_group_without_places_commits_go_by_time_also_where_a_later_generation_has_an_earlier_time(size: int) -> None:
    """Of two commits at one time the one that comes later counts."""
    commits = [timed("a", 30, 1, 33), timed("a", 10, 3, 12), timed("a", 10, 2, 11)]
    generations = [generation("a", 1, at_us=20), generation("a", 2, at_us=30), generation("a", 3, at_us=10), generation("a", 4, at_us=9)]
    answers = [offset for _, _, offset, _ in found([*commits, *generations], size)]
    assert answers == [12, 33, 12, None]


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([solution("a", 10, "observed"), solution("a", 10, "recomputed")], "found 0 snapshots, expected one"),
        ([generation("a", 10), generation("a", 10), solution("a", 10, "observed")], "found 2 snapshots, expected one"),
        (
            [generation("a", 10), solution("a", 10, "observed"), solution("a", 10, "observed")],
            r"found 2 rows, expected one: solution \('observed', 'range'\)",
        ),
    ],
)
def test_an_audit_refuses_rows_of_a_torn_table(rows: list[Row], error: str) -> None:
    batches = iter([pa.RecordBatch.from_pylist(rows, schema=SCHEMA)])
    with pytest.raises(GroupFailedError, match=f"cluster c, group a, generation None, position 10: RepeatedKeyError: {error}"):
        list(audit_history(batches, {}, None, WorkerLimits(1_000, 60.0)))


@pytest.mark.parametrize("ends", [[7, 8], [7, None]])
def test_a_metadata_snapshot_keeps_no_view_of_its_batch(ends: list[int | None]) -> None:
    """A view would keep the batch with all its other rows, as long as the group is open."""
    numbers = pa.array(ends, pa.int64())
    before = pa.total_allocated_bytes()
    batch = pa.array(range(100_000), pa.int64())
    kept = Look(5, None, batch[:2], batch[:2], numbers)
    del batch
    assert kept.of(0) == (5, None, 0, 7)
    assert pa.total_allocated_bytes() - before < 100_000
