"""A table's log without Spark: its properties, and what is left wherever cutting it is interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.delta_log import cut_before, local_properties
from jobs.errors import WarehouseDamagedError

SUFFIXES = (".json", ".crc", ".checkpoint.parquet")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Versions 0 to 3, each with all files that there can be of one."""
    for version in range(4):
        for name in (f"{version:020}{suffix}" for suffix in SUFFIXES):
            (tmp_path / name).write_text("")
            (tmp_path / f".{name}.crc").write_text("")
    return tmp_path


def trace(path: Path) -> int:
    return int(path.name.lstrip(".")[:20])


@pytest.mark.parametrize("steps", range(13))
def test_wherever_cutting_is_interrupted_no_commit_is_gone_that_left_a_trace(
    steps: int, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink, done = Path.unlink, []

    def unlink_some(path: Path) -> None:
        if len(done) == steps:
            raise KeyboardInterrupt
        done.append(path)
        unlink(path)

    monkeypatch.setattr(Path, "unlink", unlink_some)
    if steps < 12:
        with pytest.raises(KeyboardInterrupt):
            cut_before(log, 2)
    else:
        assert cut_before(log, 2) == 2
    left = list(log.iterdir())
    assert {trace(path) for path in left} == {trace(path) for path in left if path.suffix == ".json"} >= {2, 3}


@pytest.mark.parametrize("noted", ["", "{", "7", "null", "[]", '{"metadata": 7}', "{}"])
def test_a_checksum_that_tells_nothing_is_as_none(noted: str, tmp_path: Path) -> None:
    commit = {"metaData": {"configuration": {"a": "b"}}}
    (tmp_path / f"{0:020}.json").write_text(json.dumps(commit))
    (tmp_path / f"{0:020}.crc").write_text(noted)
    assert local_properties(tmp_path, 0) == {"a": "b"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"{", "not JSON", id="cut"),
        pytest.param(b"\xff", "not JSON", id="no text"),
        *((line, "a line is no action") for line in (b"7", b"null", b"[]", b'"metaData"', b'{"metaData": 7}')),
    ],
)
def test_a_commit_that_is_none_is_told_with_its_file(content: bytes, problem: str, tmp_path: Path) -> None:
    commit = tmp_path / f"{0:020}.json"
    commit.write_bytes(content)
    with pytest.raises(WarehouseDamagedError, match=f"{commit.name}: {problem}"):
        local_properties(tmp_path, 0)


def test_a_commit_that_cannot_be_opened_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.json").mkdir()
    with pytest.raises(WarehouseDamagedError, match="cannot be read"):
        local_properties(tmp_path, 0)
