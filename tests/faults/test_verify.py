"""`verify` on damaged warehouses: each kind of damage in each table is found, called by its name and placed; nothing is changed."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from jobs.runtime.file_lock import exclusive, this_process
from jobs.runtime.locations import RUN_LOCK
from jobs.verify.damage import Code, Damage
from jobs.verify.folder import check_folder
from jobs.verify.versions import LastRun, check_signatures, check_versions, standing
from schemas.tables import RUNS, TABLES
from tests.faults import damages

Inflict = Callable[[Path], str]

KINDS: list[tuple[Inflict, Code]] = [
    (damages.torn_commit, Code.TORN_COMMIT),
    (damages.empty_commit, Code.EMPTY_COMMIT),
    (damages.missing_last_commit, Code.MISSING_COMMIT),
    (damages.missing_first_commit, Code.MISSING_COMMIT),
    (damages.flipped_commit, Code.CHANGED_COMMIT),
    (damages.commit_cut_between_lines, Code.CHANGED_COMMIT),
    (damages.foreign_commit, Code.FOREIGN_COMMIT),
    (damages.foreign_commit_without_info, Code.FOREIGN_COMMIT),
    (damages.commit_of_another_run, Code.FOREIGN_COMMIT),
    (damages.commit_is_a_directory, Code.MISSING_COMMIT),
    (damages.dangling_commit, Code.MISSING_COMMIT),
    (damages.sidecar_is_a_directory, Code.CHANGED_COMMIT),
    (damages.commit_far_away, Code.MISSING_COMMIT),
    (damages.mistyped_action, Code.TORN_COMMIT),
    (damages.commit_that_makes_no_table, Code.CHANGED_COMMIT),
    (damages.file_of_another_partition, Code.CHANGED_COMMIT),
    (damages.version_checksum_of_other_metadata, Code.CHANGED_COMMIT),
    (damages.missing_first_commit_before_a_checkpoint, Code.MISSING_COMMIT),
    (damages.damaged_checkpoint, Code.DAMAGED_CHECKPOINT),
    (damages.flipped_checkpoint, Code.DAMAGED_CHECKPOINT),
    (damages.checkpoint_of_another_state, Code.DAMAGED_CHECKPOINT),
    (damages.checkpoint_without_statistics, Code.DAMAGED_CHECKPOINT),
    (damages.checkpoint_of_other_partitions, Code.DAMAGED_CHECKPOINT),
    (damages.checkpoint_of_other_metadata, Code.DAMAGED_CHECKPOINT),
    (damages.checkpoint_of_another_table, Code.DAMAGED_CHECKPOINT),
    (damages.checkpoint_of_another_protocol, Code.DAMAGED_CHECKPOINT),
    (damages.checkpoint_with_another_schema_in_its_footer, Code.DAMAGED_CHECKPOINT),
    (damages.dangling_checkpoint_pointer, Code.DAMAGED_CHECKPOINT),
    (damages.damaged_version_checksum, Code.DAMAGED_VERSION_CHECKSUM),
    (damages.missing_file, Code.MISSING_FILE),
    (damages.truncated_file, Code.TRUNCATED_FILE),
    (damages.lengthened_file, Code.CHANGED_FILE),
    (damages.flipped_file, Code.CHANGED_FILE),
    (damages.flipped_page_without_checksums, Code.CHANGED_FILE),
    (damages.unreadable_footer_without_checksums, Code.CHANGED_FILE),
    (damages.changed_schema_in_a_footer_without_checksums, Code.CHANGED_FILE),
    (damages.file_with_fewer_rows, Code.CHANGED_FILE),
    (damages.file_with_nulls_in_its_key, Code.CHANGED_FILE),
    (damages.values_below_the_statistics, Code.CHANGED_FILE),
    (damages.values_above_the_statistics, Code.CHANGED_FILE),
    (damages.file_of_other_columns, Code.CHANGED_FILE),
    (damages.missing_table, Code.MISSING_TABLE),
    (damages.folder_without_commits, Code.MISSING_TABLE),
    (damages.wrong_schema, Code.WRONG_SCHEMA),
    (damages.wrong_properties, Code.WRONG_PROPERTIES),
    (damages.newer_contract, Code.WRONG_PROPERTIES),
    (damages.behind_runs, Code.BEHIND_RUNS),
    (damages.ahead_of_runs, Code.AHEAD_OF_RUNS),
]
AGAINST_RUNS = {Code.BEHIND_RUNS, Code.AHEAD_OF_RUNS}
NEEDS_ROWS = {
    *(damages.foreign_commit, damages.commit_of_another_run, damages.file_of_another_partition),
    *(damages.checkpoint_of_another_state, damages.checkpoint_without_statistics, damages.checkpoint_of_other_partitions),
}
"""Damage to the log that there is only where rows have been written."""


def applies(table: str, inflict: Inflict, code: Code) -> bool:
    if table == RUNS.name and (code in AGAINST_RUNS or inflict is damages.commit_of_another_run):
        return False  # runs is what the others are compared with
    return bool(TABLES[table].partitioning) or "partition" not in inflict.__name__


SHORT_PROFILE = 4
"""Each kind of damage is inflicted on every fourth table, each time others; on every table by ``-m slow`` as well."""
CASES = [
    pytest.param(
        table, inflict, code, id=f"{table}-{inflict.__name__}", marks=[pytest.mark.slow] if (number + kind) % SHORT_PROFILE else []
    )
    for number, table in enumerate(TABLES)
    for kind, (inflict, code) in enumerate(KINDS)
    if applies(table, inflict, code)
]


def of_kind(found: list[Damage], code: Code, table: str) -> list[str]:
    return [damage.where for damage in found if (damage.code, damage.table) == (code, table)]


@pytest.mark.parametrize(("table", "inflict", "code"), CASES)
def test_each_kind_of_damage_is_found_in_each_table(table: str, inflict: Inflict, code: Code, copied: Callable[..., Path]) -> None:
    warehouse = copied(table)
    where = inflict(warehouse / table)
    found = check_folder(warehouse).damages
    assert where in of_kind(found, code, table), found
    assert all(damage.table == table for damage in found if damage.code not in AGAINST_RUNS), found


@pytest.mark.parametrize(
    "table", [pytest.param(name, marks=[pytest.mark.slow] if where % SHORT_PROFILE else []) for where, name in enumerate(TABLES)]
)
def test_log_damage_of_an_empty_table_is_found(table: str, copied: Callable[..., Path]) -> None:
    warehouse = copied(table)
    damages.empty(warehouse / table)
    shutil.copytree(warehouse / table, warehouse.parent / "empty")
    assert [damage.code for damage in check_folder(warehouse).damages if damage.code not in AGAINST_RUNS] == []
    of_files = (Code.MISSING_FILE, Code.TRUNCATED_FILE, Code.CHANGED_FILE, *AGAINST_RUNS)
    for inflict, code in KINDS:
        if code in of_files or inflict in NEEDS_ROWS or not applies(table, inflict, code):
            continue
        where = inflict(warehouse / table)
        found = check_folder(warehouse).damages
        assert where in of_kind(found, code, table), (inflict.__name__, found)
        shutil.rmtree(warehouse / table, ignore_errors=True)
        shutil.copytree(warehouse.parent / "empty", warehouse / table)


def test_each_kind_of_damage_to_log_and_files_is_inflicted() -> None:
    of_rows = {code for code in Code if code.name.startswith(("UNREADABLE", "UNBALANCED", "UNKNOWN", "DUPLICATE", "MISSING_ROWS", "STRAY"))}
    of_rows |= {Code.WRONG_COUNT, Code.WRONG_VIOLATIONS, Code.WRONG_MOVEMENTS}
    assert {code for _, code in KINDS} == set(Code) - of_rows


def test_sound_warehouse_has_no_damage(full_warehouse: Path) -> None:
    checked = check_folder(full_warehouse)
    assert checked.damages == [] == checked.skipped
    assert checked.counts["tables"] == len(TABLES)
    assert checked.counts["files"] >= len(TABLES), "a table without a file would be damaged in vain"


def test_sound_copy_without_checksums_has_no_damage(copied: Callable[..., Path]) -> None:
    warehouse = copied()
    for table in TABLES:
        damages.forget_checksums(warehouse / table)
    checked = check_folder(warehouse)
    assert checked.damages == []
    assert checked.skipped == [f"every byte of the Parquet files: {checked.counts['files']} of them have no hidden checksum file"]


@pytest.mark.parametrize("table", list(TABLES))
def test_a_log_may_begin_with_a_checkpoint(table: str, copied: Callable[..., Path]) -> None:
    warehouse = copied(table)
    damages.DeltaTable(str(warehouse / table)).create_checkpoint()
    assert check_folder(warehouse).damages == []
    for path in (warehouse / table / "_delta_log").glob(f"*{0:020}.*"):
        path.unlink()
    assert check_folder(warehouse).damages == []


def test_all_damages_of_several_tables_are_reported(copied: Callable[..., Path]) -> None:
    warehouse = copied("runs", "movements", "findings")
    for table, inflict in (("runs", damages.torn_commit), ("movements", damages.flipped_file), ("findings", damages.missing_file)):
        inflict(warehouse / table)
    checked = check_folder(warehouse)
    assert {(damage.code, damage.table) for damage in checked.damages} == {
        (Code.TORN_COMMIT, "runs"),
        (Code.CHANGED_FILE, "movements"),
        (Code.MISSING_FILE, "findings"),
    }
    assert checked.skipped == ["the tables' versions against runs, which is damaged"]


def test_a_finding_says_everything_in_one_line(copied: Callable[..., Path]) -> None:
    warehouse = copied("movements")
    damages.torn_commit(warehouse / "movements")
    (damage,) = check_folder(warehouse).damages
    assert str(damage) == (
        "torn_commit movements version 1, _delta_log/00000000000000000001.json: found line 2 is not JSON, "
        "expected one JSON action a line; restore the table's folder from a copy, or rebuild the warehouse from its captures"
    )


def test_before_any_run_has_ended_tables_are_as_they_were_created() -> None:
    assert [damage.code for damage in check_versions({"movements": 0, "findings": 1, "runs": 0}, None)] == [Code.AHEAD_OF_RUNS]
    last = LastRun("r", 3, "failed", {"movements": 2})
    assert [damage.code for damage in check_versions({"movements": 1, "findings": 0, "runs": 3}, last)] == [Code.BEHIND_RUNS]


@pytest.mark.parametrize(
    ("foreign", "restores", "expected"),
    [
        pytest.param([2], [], [2], id="it stands"),
        pytest.param([2], [(3, 1)], [], id="taken back"),
        pytest.param([2], [(3, 2)], [2], id="restored to itself"),
        pytest.param([4], [(3, 1)], [4], id="written after the restore"),
    ],
)
def test_foreign_commits_count_unless_a_later_restore_took_them_back(
    foreign: list[int], restores: list[tuple[int, int]], expected: list[int]
) -> None:
    assert standing(foreign, restores) == expected


# -- any bit


def flips(warehouse: Path, count: int) -> list[tuple[Path, int, int]]:
    """Places all over the tables, the same in every run; checksum files and Delta's own derived files aside."""
    files = sorted(path for name in TABLES for path in (warehouse / name).rglob("*") if path.is_file() and path.suffix != ".crc")
    draw = random.Random(20261121)
    picked = draw.choices(files, k=count)
    return [(path.relative_to(warehouse), draw.randrange(path.stat().st_size), draw.randrange(8)) for path in picked]


def check_flips(measured: Callable[[str], None], warehouse: Path, full_warehouse: Path, count: int) -> None:
    for path, offset, bit in flips(full_warehouse, count):
        damages.flip_bit(warehouse / path, offset, bit)
        found = check_folder(warehouse).damages
        assert any(damage.table == path.parts[0] and damage.where.endswith(path.name) for damage in found), (path, offset, bit, found)
        shutil.copy2(full_warehouse / path, warehouse / path)
    measured(f"{count:,} bits, each found")


def test_any_flipped_bit_is_found_or_changes_no_value(measured, copied: Callable[..., Path], full_warehouse: Path) -> None:
    check_flips(measured, copied(), full_warehouse, 60)


@pytest.mark.slow
def test_many_flipped_bits_are_found_or_change_no_value(measured, copied: Callable[..., Path], full_warehouse: Path) -> None:
    check_flips(measured, copied(), full_warehouse, 2_000)


def test_any_changed_byte_of_a_checkpoint_raises_nothing(copied: Callable[..., Path], full_warehouse: Path) -> None:
    """Of a checkpoint without checksums: what lies in the footer and its indexes may change no value; nothing raises, the rest goes on."""
    warehouse = copied("movements", "findings")
    damages.missing_file(warehouse / "findings")
    path = damages.make_checkpoint(warehouse / "movements")
    content = path.read_bytes()
    for offset in range(4, len(content), len(content) // 60):
        damages.invert(path, offset)
        found = {(damage.code, damage.table) for damage in check_folder(warehouse).damages}
        assert found - {(Code.DAMAGED_CHECKPOINT, "movements")} == {(Code.MISSING_FILE, "findings")}, offset
        path.write_bytes(content)


@pytest.mark.parametrize(
    "action",
    [
        {"add": {"path": None, "partitionValues": {}, "size": 1, "modificationTime": 1}},
        {"add": {"path": "x", "partitionValues": {}, "size": "1", "modificationTime": 1}},
        {"add": {"path": "x", "partitionValues": {}, "size": 1, "modificationTime": 1, "stats": {}}},
        {"add": {"path": "x", "partitionValues": {}, "size": 1, "modificationTime": 1, "stats": "[1]"}},
        {"remove": {"path": 1}},
        {"commitInfo": {"operation": "RESTORE", "operationParameters": None, "userMetadata": "evenkeel run full x"}},
        {"protocol": {"minReaderVersion": None}},
        7,
    ],
    ids=str,
)
def test_json_of_other_types_ends_no_check(action: object, copied: Callable[..., Path]) -> None:
    warehouse = copied("movements", "findings")
    damages.missing_file(warehouse / "findings")
    damages.write_actions(warehouse / "movements", 2, [action])
    assert {damage.table for damage in check_folder(warehouse).damages} == {"movements", "findings"}


def test_unforeseen_damage_of_one_table_does_not_end_the_check(copied: Callable[..., Path]) -> None:
    """A row of ``runs`` that names no versions."""
    warehouse = copied("movements", "findings", "runs")
    damages.missing_file(warehouse / "findings")
    damages.rewrite_rows(warehouse / "runs", lambda rows: damages.without_values(rows, "table_versions"))
    checked = check_folder(warehouse)
    assert {(damage.code, damage.table) for damage in checked.damages} == {
        (Code.UNREADABLE_TABLE, "runs"),
        (Code.MISSING_FILE, "findings"),
    }
    assert checked.skipped == [
        "the tables' versions against runs, which is damaged",
        "every byte of the Parquet files: 1 of them have no hidden checksum file",
    ]


def test_a_name_too_long_for_checksums_beside_it_ends_no_check(copied: Callable[..., Path]) -> None:
    warehouse = copied("movements")
    (warehouse / "movements" / "_delta_log" / f"{'x' * 245}.parquet").touch()
    checked = check_folder(warehouse)
    assert checked.damages == []
    assert checked.skipped == ["every byte of the Parquet files: 1 of them have no hidden checksum file"]


def test_each_gap_in_the_log_is_reported_once(copied: Callable[..., Path]) -> None:
    warehouse = copied("movements")
    commit = damages.log_file(warehouse / "movements", 1)
    for version in (5, 9):
        shutil.copy(commit, damages.log_file(warehouse / "movements", version))
    missing = [damage for damage in check_folder(warehouse).damages if damage.code is Code.MISSING_COMMIT]
    assert [(damage.version, damage.found) for damage in missing] == [(2, "none of the commits 2 to 4"), (6, "none of the commits 6 to 8")]


def test_a_first_run_that_died_is_run_again(copied: Callable[..., Path]) -> None:
    warehouse = copied()
    for table in TABLES:
        damages.empty(warehouse / table)
    for table in ("quarantine", "runs"):
        shutil.rmtree(warehouse / table)
    found = check_folder(warehouse).damages
    assert [(damage.code, damage.table) for damage in found] == [(Code.MISSING_TABLE, "runs"), (Code.MISSING_TABLE, "quarantine")]
    assert all("run again, which makes the missing tables" in str(damage) for damage in found)


def test_an_older_contract_is_no_damage(copied: Callable[..., Path]) -> None:
    warehouse = copied()
    for table in TABLES:
        damages.older_contract(warehouse / table)
    checked = check_folder(warehouse)
    assert checked.damages == []
    assert checked.contracts == {"0"}


# -- signatures


def test_commits_with_unknown_signatures_are_found() -> None:
    signed = {0: "c", 1: "a", 2: "b", 3: "a", 4: "z"}

    def strange(known: str, restores: tuple[tuple[int, int], ...] = (), left: int = 3) -> list[int | None]:
        return [damage.version for damage in check_signatures("movements", signed, restores, set(known), left)]

    assert strange("ab") == [], "the run that made the table may have died, and commits after the last run have a code of their own"
    assert strange("a") == [2]
    assert strange("a", ((3, 1),)) == [], "a run that died, taken back"
    assert strange("b") == [1], "the first of two"
    assert strange("ab", left=4) == [4]


# -- the command


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Everything in a folder, with its time of change and content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in folder.rglob("*")
    }


@pytest.mark.slow
def test_a_sound_warehouse_ends_with_0_and_is_not_touched(evenkeel, copied, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = copied()
    before = tree(warehouse)
    assert evenkeel("verify", "--warehouse", warehouse) == 0
    assert tree(warehouse) == before
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("checked 13 tables, ") and line.endswith(" 48 invariants: sound")


def test_damage_ends_with_1_and_is_not_mended(evenkeel, copied, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = copied()
    damages.missing_table(warehouse / "runs")
    damages.flipped_file(warehouse / "movements")
    before = tree(warehouse)
    assert evenkeel("verify", "--warehouse", warehouse) == 1
    assert tree(warehouse) == before
    out, err = capsys.readouterr()
    assert [line.split(" ")[:2] for line in out.splitlines()] == [
        ["changed_file", "movements"],
        ["missing_table", "runs:"],
        ["not", "checked:"],
        ["not", "checked:"],
        ["checked", "13"],
    ]
    assert f"evenkeel: {warehouse}: 2 findings in movements, runs; docs/recovery.md describes what to do about each" in err


def test_verify_without_a_warehouse_ends_with_2(evenkeel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    assert evenkeel("verify", "--warehouse", tmp_path) == 2
    assert f"evenkeel: warehouse {tmp_path}: no tables here" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_a_run_in_progress_ends_with_3(evenkeel, copied, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = copied()
    now = datetime.now(timezone.utc)
    with exclusive(warehouse, RUN_LOCK, this_process("busy", now), 0, lambda: now):
        assert evenkeel("verify", "--warehouse", warehouse) == 3
    assert f"evenkeel: warehouse {warehouse} is held by run busy" in capsys.readouterr().err
