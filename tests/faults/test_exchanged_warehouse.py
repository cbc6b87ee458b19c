"""Another warehouse replaces a run's own between its last stage and its row in ``runs``."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from jobs import pipeline
from jobs.runtime.locations import RUN_LOCK
from jobs.storage.commit_guard import SIGNATURE
from jobs.verify.folder import check_folder
from schemas.tables import IDENTITY_PROPERTY, RUNS
from tests.builders.tables import rows, versions

Exchange = Callable[[Path, Path], None]


def identity(warehouse: Path) -> str:
    """Return the id in the properties of ``runs``."""
    return str(DeltaTable(str(warehouse / RUNS.name)).metadata().configuration[IDENTITY_PROPERTY])


def rewrite(log: Path, before: str, after: str) -> None:
    """Replace a text in the commits of a log and in what Delta has noted of their versions."""
    for path in log.glob("0*"):
        path.write_text(path.read_text().replace(before, after))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # what Hadoop has noted of the bytes


def give_another_identity(warehouse: Path) -> None:
    rewrite(warehouse / RUNS.name / "_delta_log", identity(warehouse), uuid.uuid4().hex)


def exchange_folders(own: Path, other: Path) -> None:
    own.rename(own.with_name("moved away"))
    other.rename(own)


def exchange_tables(own: Path, other: Path) -> None:
    """Leave the folder and its hidden files, as ``mv own/* away`` does."""
    shutil.copytree(own, own.with_name("moved away"))
    for path in own.iterdir():
        if not path.name.startswith("."):
            shutil.rmtree(path)
            (other / path.name).rename(path)


@pytest.mark.parametrize(
    ("exchange", "is_copy", "found"),
    [
        (exchange_folders, False, "expected the folder that this run has locked, found another one"),
        (exchange_folders, True, "expected the folder that this run has locked, found another one"),
        (exchange_tables, False, "expected the one with the id {own}, found {other}"),
    ],
    ids=["another folder", "a copy's folder", "another one's tables"],
)
def test_a_run_whose_warehouse_is_exchanged_publishes_nothing(
    make_tables,
    empty_warehouse: Path,
    tmp_path: Path,
    exchange: Exchange,
    is_copy: bool,
    found: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for warehouse in (own, other):
        shutil.copytree(empty_warehouse, warehouse)
    if not is_copy:
        give_another_identity(other)
    ids = {"own": identity(own), "other": identity(other)}
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "prepare_views", lambda *_: exchange(own, other))
        assert make_tables("audit", "--warehouse", own) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("evenkeel: warehouse")]
    assert len(lines) == 1 and found.format(**ids) in lines[0] and "publishes nothing" in lines[0]
    for warehouse in (own, own.with_name("moved away")):
        assert set(versions(warehouse).values()) == {0}, warehouse
    assert make_tables("audit", "--warehouse", own) == 0
    assert [run["warehouse_id"] for run in rows(own, "runs")] == [ids["other"]]


def test_a_row_of_another_warehouse_is_refused_and_found(
    make_tables, empty_warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exchange within the last commit cannot be seen in time; later runs would take the tables back to the versions of that row."""
    warehouse = tmp_path / "warehouse"
    shutil.copytree(empty_warehouse, warehouse)
    for log in warehouse.glob("*/_delta_log"):  # as if a run had made the tables
        rewrite(log, '"commitInfo":{', f'"commitInfo":{{"userMetadata":"{SIGNATURE}first",')
    assert make_tables("audit", "--warehouse", warehouse) == 0
    assert check_folder(warehouse).damages == []
    wrote = identity(warehouse)
    give_another_identity(warehouse)
    before = versions(warehouse)
    assert make_tables("audit", "--warehouse", warehouse) == 1
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert f"on warehouse {wrote}, expected only runs on this one, {identity(warehouse)}; restore all tables" in last_line
    assert versions(warehouse) == before
    (finding,) = check_folder(warehouse).damages
    assert str(finding).startswith("unknown_run runs version 1")
    assert f"found a run of warehouse {wrote}, expected runs of this one, {identity(warehouse)}" in str(finding)


def test_copied_or_moved_warehouse_runs_with_any_lock_file(make_tables, empty_warehouse: Path, tmp_path: Path) -> None:
    """A copy with a stale lock file, and a moved warehouse, are as good as any other once no run is at work."""
    copy = tmp_path / "copy"
    shutil.copytree(empty_warehouse, copy)
    assert make_tables("audit", "--warehouse", copy) == 0
    moved = copy.rename(tmp_path / "moved")
    (moved / RUN_LOCK).unlink()
    assert make_tables("audit", "--warehouse", moved) == 0
    assert [run["warehouse_id"] for run in rows(moved, "runs")] == [identity(empty_warehouse)] * 2
