"""New captures of a cluster only add what is new, and pieces give what the whole gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from tests.builders.captures import LOOKS, RECORDED, piece
from tests.builders.raw_logs import generation, written
from tests.builders.tables import OF_LANDING, assert_equal_warehouses, rows, versions


@pytest.mark.slow
@pytest.mark.parametrize("order", ["late", "in order", "overlapping"])
def test_pieces_give_what_the_whole_gives(order: str, make_tables, recorded_warehouse: Path, tmp_path: Path) -> None:
    """The second piece goes on from stored states, or, when it is the earlier one, plays its groups again."""
    halves = [piece(tmp_path, "a.parquet", 0, 5 if order == "overlapping" else 4), piece(tmp_path, "b.parquet", 4, 8)]
    if order == "late":
        halves.reverse()
    warehouse = tmp_path / "warehouse"
    for half in halves:
        assert make_tables("run", "--warehouse", warehouse, "--input", half, LOOKS) == 0
    runs = sorted(rows(warehouse, "runs"), key=lambda run: run["run_sequence"])
    assert [run["status"] for run in runs] == ["published", "published"]
    if order == "overlapping":
        assert dict(runs[1]["input_counts"])["consumer-offsets.duplicate"] > 0
    assert_equal_warehouses(warehouse, recorded_warehouse)


def shuffled_pieces(folder: Path, count: int, seed: int) -> list[Path]:
    """Write each record into one of so many pieces, and every tenth into another one too; in no order at all."""
    table, random = pq.read_table(RECORDED / "consumer_offsets.parquet"), Random(seed)
    members: list[list[int]] = [[] for _ in range(count)]
    for row in range(table.num_rows):
        for piece_number in random.sample(range(count), 2 if random.random() < 0.1 else 1):
            members[piece_number].append(row)
    paths = []
    for number, taken in enumerate(members):
        random.shuffle(taken)
        paths.append(folder / f"{number}.parquet")
        pq.write_table(table.take(taken), paths[-1])
    return paths


def check_landed(warehouse: Path, recorded: Path) -> None:
    """Compare what all landings together have counted with what one has."""
    [whole] = [dict(run["input_counts"]) for run in rows(recorded, "runs")]
    counts = [dict(run["input_counts"]) for run in rows(warehouse, "runs") if run["command"] == "land"]
    assert sum(count["consumer-offsets.landed"] for count in counts) == whole["consumer-offsets.landed"]
    assert sum(count.get("consumer-offsets.duplicate", 0) for count in counts) > 80


def test_twenty_shuffled_pieces_land_as_the_whole_does(make_tables, recorded_warehouse: Path, tmp_path: Path) -> None:
    pieces, warehouse = shuffled_pieces(tmp_path, 20, seed=20), tmp_path / "warehouse"
    for inputs in (pieces[:10], [*pieces[10:], LOOKS]):
        assert make_tables("land", "--warehouse", warehouse, "--input", *inputs) == 0
    assert_equal_warehouses(warehouse, recorded_warehouse, OF_LANDING)
    check_landed(warehouse, recorded_warehouse)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [10, 5, 1])
def test_twenty_shuffled_pieces_give_what_the_whole_gives(at_once: int, make_tables, recorded_warehouse: Path, tmp_path: Path) -> None:
    """Landed some at a time, assigned and audited in between and at the end."""
    pieces, warehouse = shuffled_pieces(tmp_path, 20, seed=20), tmp_path / "warehouse"
    for first in range(0, 20, at_once):
        looks = [LOOKS] if first == 10 else []
        assert make_tables("land", "--warehouse", warehouse, "--input", *pieces[first : first + at_once], *looks) == 0
        if first in (5, 10, 20 - at_once):
            assert make_tables("assign", "--warehouse", warehouse) == 0
            assert make_tables("audit", "--warehouse", warehouse) == 0
    assert_equal_warehouses(warehouse, recorded_warehouse)
    check_landed(warehouse, recorded_warehouse)


def looks_between(folder: Path, name: str, first: int, end: int) -> Path:
    """Write some of the looks, counted by time."""
    with gzip.open(LOOKS, "rt", encoding="utf-8") as file:
        lines = sorted(file, key=lambda line: json.loads(line)["observed_at_ms"])
    (folder / name).write_text("".join(lines[first:end]), encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("order", ["looks last", "looks backwards"])
@pytest.mark.slow
def test_late_metadata_snapshots_give_equal_tables(order: str, make_tables, recorded_warehouse: Path, tmp_path: Path) -> None:
    """A look changes how the topics of generations around it are resolved, and those of all that were inferred without it."""
    records = RECORDED / "consumer_offsets.parquet"
    if order == "looks last":
        pieces = [(records,), (LOOKS,)]
    else:
        pieces = [(records, looks_between(tmp_path, "later.jsonl", 20, 10**6)), (looks_between(tmp_path, "earlier.jsonl", 0, 20),)]
    warehouse = tmp_path / "warehouse"
    for inputs in pieces:
        assert make_tables("run", "--warehouse", warehouse, "--input", *inputs) == 0
    assert_equal_warehouses(warehouse, recorded_warehouse)


@pytest.mark.slow
def test_stages_one_by_one_give_what_the_run_gives(evenkeel, recorded_warehouse: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    assert evenkeel("land", "--warehouse", warehouse, "--input", RECORDED) == 0
    assert evenkeel("assign", "--warehouse", warehouse) == 0
    assert evenkeel("audit", "--warehouse", warehouse) == 0
    assert evenkeel("report", "--warehouse", warehouse) == 0
    assert (warehouse / "report.html").stat().st_size > 10_000
    assert_equal_warehouses(warehouse, recorded_warehouse)
    before = versions(warehouse)
    assert evenkeel("assign", "--warehouse", warehouse) == 0
    assert evenkeel("audit", "--warehouse", warehouse) == 0
    assert {name for name, version in versions(warehouse).items() if version != before[name]} == {"runs"}
    assert evenkeel("assign", "--recompute", "--warehouse", warehouse) == 0
    assert evenkeel("audit", "--warehouse", warehouse) == 0
    assert_equal_warehouses(warehouse, recorded_warehouse)


def test_recomputing_groups_since_a_time_assigns_all_that_has_landed(make_tables, tmp_path: Path) -> None:
    """What has landed is used afterwards, also that of groups whose generations are all older."""
    old, new = 1_600_000_000, 1_700_000_000
    first = written(tmp_path / "1.parquet", generation(3, 0, "g", 1, at=new, a=[0, 1]), generation(4, 0, "old", 1, at=old, a=[0, 1]))
    second = written(
        tmp_path / "2.parquet", generation(4, 1, "old", 2, at=old + 9, a=[0], b=[1]), generation(5, 0, "late", 1, at=old, a=[0, 1])
    )
    warehouse = tmp_path / "warehouse"
    for words in (("land", "--input", first), ("assign",), ("land", "--input", second), ("assign", "--recompute", "--since", "2023-01-01")):
        assert make_tables(*words, "--warehouse", warehouse) == 0
    solved = [(row["group_id"], row["generation"]) for row in rows(warehouse, "solutions") if row["basis"] == "observed"]
    assert sorted(solved) == [("g", 1), ("late", 1), ("old", 1), ("old", 2)]
    again = {row["group_id"] for row in rows(warehouse, "solutions") if row["run_sequence"] == 4}
    assert again == {"g", "late", "old"}
