"""Lost commits, which are empty or cut: which readers of a version need them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.runtime.errors import WarehouseDamagedError
from jobs.runtime.lost_commits import lost_commit, refuse_lost_commit

EMPTY, WRITE = "", '{"commitInfo": {"operation": "WRITE", "operationParameters": {"mode": "Append"}}}\n'
CUT = '{"commitInfo": {"operation": "WRITE", "operationMetrics": {"numFiles": "1", "numOutputRows": "1"}}}\n'
WHOLE, NO_ROWS = CUT + '{"add": {"path": "a.parquet"}}\n', CUT.replace('"1"', '"0"')


def restore(version: int) -> str:
    return json.dumps({"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": str(version), "timestamp": None}}}) + "\n"


@pytest.mark.parametrize(
    ("commits", "checkpoint", "version", "lost"),
    [
        pytest.param([WRITE, EMPTY], None, 1, 1, id="the newest"),
        pytest.param([WRITE, EMPTY], None, 0, None, id="one after the version"),
        pytest.param([WRITE, EMPTY, WRITE], None, 2, 1, id="one before the newest"),
        pytest.param([WRITE, EMPTY, WRITE, WRITE], 2, 3, None, id="a checkpoint has its content"),
        pytest.param([WRITE, WRITE, EMPTY], 1, 2, 2, id="after a checkpoint"),
        pytest.param([WRITE, EMPTY, WRITE], 2, 1, 1, id="a later checkpoint"),
        pytest.param([WRITE, EMPTY, restore(0), WRITE], None, 3, None, id="of a dead run, and taken back"),
        pytest.param([WRITE, EMPTY, WRITE, restore(1)], None, 3, 1, id="the table was taken back to it"),
        pytest.param([EMPTY, EMPTY, restore(0)], None, 2, 0, id="two, one of them taken back"),
        pytest.param([WRITE, EMPTY, "{"], None, 2, 1, id="before one that cannot be read"),
        pytest.param([WRITE, WRITE], None, 1, None, id="none"),
        pytest.param([WHOLE, CUT], None, 1, 1, id="cut after its first line"),
        pytest.param([WHOLE, CUT, restore(0), WHOLE], None, 3, None, id="cut, of a dead run"),
        pytest.param([WHOLE, CUT, WHOLE], 1, 2, None, id="cut, and in a checkpoint"),
        pytest.param([WHOLE, NO_ROWS], None, 1, None, id="none, as one wrote no rows"),
    ],
)
def test_lost_commit_is_found_where_a_reader_needs_it(
    tmp_path: Path, commits: list[str], checkpoint: int | None, version: int, lost: int | None
) -> None:
    log = tmp_path / "movements" / "_delta_log"
    log.mkdir(parents=True)
    for number, content in enumerate(commits):
        (log / f"{number:020}.json").write_text(content)
        (log / f".{number:020}.json.crc").touch()
    if checkpoint is not None:
        (log / f"{checkpoint:020}.checkpoint.parquet").touch()
    assert lost_commit(log, version) == (None if lost is None else log / f"{lost:020}.json")
    if lost is not None:
        found = "names no file of the rows that it wrote" if commits[lost] else "has no content"
        with pytest.raises(WarehouseDamagedError, match=f"{lost:020}.json: the commit {found}, .*; restore the folder from a copy"):
            refuse_lost_commit(tmp_path / "movements", version)


def test_table_without_a_log_is_left_to_its_reader(tmp_path: Path) -> None:
    assert lost_commit(tmp_path / "nothing", 3) is None
