"""Captures that disagree on what the log holds: whichever comes first, the same content stays, and the conflict is marked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.builders import records
from tests.builders.conflicting_captures import conflicting_captures
from tests.builders.consumer_group_records import TOPIC_IDS, Log
from tests.builders.raw_logs import Row, commit, foreign, generation, look, raw, tombstone, written, written_text
from tests.builders.tables import assert_equal_warehouses, rows

GROUP_METADATA, OFFSET_COMMIT = b"\x00\x02", b"\x00\x01"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[Path]]:
    return conflicting_captures(tmp_path_factory.mktemp("captures"))


@pytest.mark.slow
def test_conflict_result_does_not_depend_on_which_content_lands_first(
    make_tables, captures: tuple[list[Path], list[Path]], tmp_path: Path
) -> None:
    a, b = captures
    (tmp_path / "any.yaml").write_text("quality: {max_quarantined_ratio: 1}\n", encoding="utf-8")
    for name, pieces in {"at once": [a + b], "a first": [a, b], "b first": [b, a]}.items():
        for piece in pieces:
            assert make_tables("run", "--config", tmp_path / "any.yaml", "--warehouse", tmp_path / name, "--input", *piece) == 0
    expected = tmp_path / "at once"
    disputed = {row["position"] for row in rows(expected, "subscription_snapshots") if row["has_conflict"]}
    found = [row for row in rows(expected, "findings") if row["rule_id"] == "conflicting_records"]
    assert disputed and {row["position"] for row in found} == disputed
    quarantined = [row for row in rows(expected, "quarantine") if row["reason"] == "conflicting_content"]
    assert len(quarantined) == pq.read_metadata(b[0]).num_rows + 1
    for name in ("a first", "b first"):
        assert_equal_warehouses(tmp_path / name, expected)
    before = len(rows(expected, "quarantine"))
    assert make_tables("run", "--warehouse", expected, "--input", *a) == 0
    assert len(rows(expected, "quarantine")) == before


# -- every kind of record against every other


def folded(partition: int, *values: dict[str, list[int]]) -> list[Row]:
    """Return the records of a KIP-848 group ``g`` of one member, a target for each of the values."""
    log = Log()
    log.member("a", "t")
    for number, held in enumerate(values, 1):
        log.epoch(number)
        log.target("a", **held)
        log.target_epoch(number)
        log.current("a", number, **held)
    return [raw(partition, record.offset, record.key, record.value) for record in log.records]


def sound() -> list[Row]:
    """Return what all of the captures have: of each group a beginning and an end."""
    log = [
        generation(number, offset, f"g{number}", offset, a=[0], **more)
        for number in range(8)
        for offset, more in ((1, {}), (2, {"b": [1]}))
    ]
    log += [generation(number, 6, f"g{number}", 3, a=[0]) for number in range(7)]
    log += [generation(first + number, 1, f"{name}{first}", 1, a=[0]) for first in range(20, 32, 2) for number, name in enumerate("ab")]
    return [*log, *folded(9, {"t": [0, 1]}, {"t": [0]})]


CONTESTED = [
    *([commit(0, 4, "g0", number, 7)] for number in (0, 1, 2)),  # of three keys
    *([foreign(1, 4, "f", at_ms)] for at_ms in (1, 2, 3)),  # of a group of another type, in three versions
    *([tombstone(2, 4, "g2")], [foreign(2, 4, "g2", 5)], [commit(2, 4, "g2", 0, 5)]),
    *([generation(3, 4, "g3", 5, a=[0])], [generation(3, 4, "g3", 5, a=[0], b=[1])], [generation(3, 4, "h3", 5, a=[0])]),
    *([tombstone(4, 4, "g4")], [generation(4, 4, "g4", 5, a=[0])], [generation(4, 4, "g4", 5, at=9, a=[0])]),
    *([commit(5, 4, "g5", 0, 7)], [commit(5, 4, "g5", 0, 8)], [commit(5, 4, "h5", 0, 9)]),
    *([tombstone(7, 8, "g7")], [foreign(7, 8, "g7", 5)], [commit(7, 8, "g7", 0, 5)]),  # after all it has
    *([generation(9, 7, "g", 9, a=[0])], [raw(9, 7, records.group_key("g", 6), None)], [commit(9, 7, "g", 0, 1)]),  # at a target epoch
    *([raw(9, 2, folded(9, {"t": [0]})[2]["key"], None)], [], []),  # at a target
    *(
        [generation(number, 4, f"{name}{first}", 5, a=[0])]
        for first in range(20, 32, 2)  # chains: the second is at the first one's place, and at the third one's offset of its group
        for number, name in ((first, "a"), (first, "b"), (first + 1, "b"))
    ),
]
"""Of each place three contents, one a capture."""
CONTENDERS = [
    *((group, 4) for group in ("g0", "f", "g2", "g3", "h3", "g4", "g5", "h5")),
    *((f"{name}{first}", 4) for first in range(20, 32, 2) for name in "ab"),
    *(("g7", 8), ("g", 7), ("g", 2)),
]
"""The groups that these are of, and their offsets."""


@pytest.fixture(scope="module")
def contested(tmp_path_factory: pytest.TempPathFactory) -> list[list[Path]]:
    """Three captures of which no two hold the same at the contested places, nor the same id of the topic."""
    folder, captures = tmp_path_factory.mktemp("contested"), []
    for number, topic_id in enumerate(TOPIC_IDS.values()):
        of_capture = [row for rows_there in CONTESTED[number::3] for row in rows_there]
        log = written(folder / f"{number}.parquet", *sound(), *of_capture)
        captures.append([log, written_text(folder / f"{number}.jsonl", look(0, topic_id, t=[None, None]))])
    return captures


def check_conflicts(warehouse: Path) -> None:
    """Look for the marks of conflicts.

    They are after the place where there is a generation, else at the last; of the groups whose records stayed, and of those whose did not.
    """
    disputed = {(row["group_id"], row["position"]) for row in rows(warehouse, "subscription_snapshots") if row["has_conflict"]}
    positions: dict[str, list[int]] = {}
    for row in rows(warehouse, "subscription_snapshots"):
        positions.setdefault(row["group_id"], []).append(row["position"])
    expected = {
        (group, min((position for position in positions[group] if position >= position_of_conflict), default=max(positions[group])))
        for group, position_of_conflict in CONTENDERS
        if group in positions
    }
    assert disputed == expected and {group for group, _ in expected} >= {"g", "g0", "g2", "g3", "g4", "g5", "g7", "a20", "b20"}


@pytest.fixture(scope="module")
def in_order(make_tables, contested: list[list[Path]], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Makes a warehouse by a command for each of the captures in an order, or by one for all of them if none is given; each once."""
    folder = tmp_path_factory.mktemp("orders")
    (folder / "any.yaml").write_text("quality: {max_quarantined_ratio: 1}\n", encoding="utf-8")

    def make(command: str, order: str = "") -> Path:
        warehouse = folder / f"{command} {order}"
        inputs = [contested[int(number)] for number in order] or [[path for capture in contested for path in capture]]
        if not warehouse.exists():
            for captures in inputs:
                assert make_tables(command, "--config", folder / "any.yaml", "--warehouse", warehouse, "--input", *captures) == 0
        return warehouse

    return make


def test_conflicts_of_any_kinds_of_records_land_the_same_in_any_order(in_order: Callable[..., Path]) -> None:
    assert_equal_warehouses(in_order("land", "210"), in_order("land"))
    check_conflicts(in_order("land"))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["210", "012", "120", "201"])
def test_conflicts_of_any_kinds_of_records_give_equal_tables_in_any_order(order: str, in_order: Callable[..., Path]) -> None:
    assert_equal_warehouses(in_order("run", order), in_order("run"))
    check_conflicts(in_order("run"))


def test_files_with_a_conflict_are_known_from_the_second_run_on(make_tables, tmp_path: Path) -> None:
    """In the first run the outcome of the conflict is new, so that no file is noted; then it stays as it is."""
    first, second = (written(tmp_path / f"{number}.parquet", commit(3, 1, "g", 0, number)) for number in (5, 7))
    settings = tmp_path / "any.yaml"
    settings.write_text("quality: {max_quarantined_ratio: 1}\n", encoding="utf-8")
    for _ in range(3):
        assert make_tables("land", "--config", settings, "--warehouse", tmp_path / "w", "--input", first, second) == 0
    runs = sorted(rows(tmp_path / "w", "runs"), key=lambda run: run["run_sequence"])
    assert [None if run["files"] is None else len(run["files"]) for run in runs] == [None, 2, 0]
    counts = [{name: dict(run["input_counts"])[name] for name in ("read", "landed", "duplicate", "quarantined")} for run in runs]
    assert counts[1] == counts[2] == {"read": 2, "landed": 0, "duplicate": 1, "quarantined": 1}
