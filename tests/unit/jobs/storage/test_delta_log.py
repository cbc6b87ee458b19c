"""A table's log without Spark: its properties, and what is left wherever cutting it is interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from jobs.runtime.errors import WarehouseDamagedError
from jobs.storage.delta_log import cut_before, files_of, local_properties

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
def test_interrupted_cut_of_a_log_leaves_no_file_without_its_commit(steps: int, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("noted", ["", "{", "7", "null", "[]", '{"metadata": 7}', '{"metadata": {"configuration": null}}', "{}"])
def test_checksum_without_metadata_is_ignored(noted: str, tmp_path: Path) -> None:
    commit = {"metaData": {"configuration": {"a": "b"}}}
    (tmp_path / f"{0:020}.json").write_text(json.dumps(commit))
    (tmp_path / f"{0:020}.crc").write_text(noted)
    assert local_properties(tmp_path, 0) == {"a": "b"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"{", "not JSON", id="cut"),
        pytest.param(b"\xff", "not JSON", id="no text"),
        *(
            (line, "a line is not an action")
            for line in (b"7", b"null", b"[]", b'"metaData"', b'{"metaData": 7}', b'{"metaData": {"configuration": null}}')
        ),
    ],
)
def test_damaged_commit_is_named_by_its_file(content: bytes, problem: str, tmp_path: Path) -> None:
    commit = tmp_path / f"{0:020}.json"
    commit.write_bytes(content)
    with pytest.raises(WarehouseDamagedError, match=f"{commit.name}: {problem}"):
        local_properties(tmp_path, 0)


def test_commit_that_cannot_be_opened_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.json").mkdir()
    with pytest.raises(WarehouseDamagedError, match="cannot be read"):
        local_properties(tmp_path, 0)


def test_checkpoint_of_a_cut_log_has_the_properties(tmp_path: Path) -> None:
    """The checksum of the newest version is damaged, and is removed as docs/recovery.md says."""
    rows, named = pa.table({"number": [1]}), {"delta.appendOnly": "false", "delta.dataSkippingNumIndexedCols": "3"}
    write_deltalake(tmp_path, rows, configuration=named)
    for _ in range(2):
        write_deltalake(tmp_path, rows, mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    log = tmp_path / "_delta_log"
    cut_before(log, 2)
    assert local_properties(log, 2) == named
    (log / f"{2:020}.checkpoint.parquet").write_bytes(b"PAR1")
    with pytest.raises(WarehouseDamagedError, match="no commit has the table's properties"):
        local_properties(log, 2)


# -- files of a version


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """A partitioned table of appends, an overwrite, a delete and a checkpoint between them; a value of the partition has odd characters."""
    folder = tmp_path / "a table"
    for number, day in enumerate(["1", "a b/%", "1", "2"]):
        write_deltalake(folder, pa.table({"day": [day], "number": [number]}), partition_by=["day"], mode="append")
        if number == 1:
            DeltaTable(folder).create_checkpoint()
    DeltaTable(folder).delete("number = 0")
    write_deltalake(folder, pa.table({"day": ["3"], "number": [9]}), partition_by=["day"], mode="overwrite")
    return DeltaTable(folder)


def log_of(table: DeltaTable) -> Path:
    return Path(unquote(urlsplit(table.table_uri).path)) / "_delta_log"


def test_the_files_of_each_version_are_those_that_another_reader_finds(table: DeltaTable) -> None:
    log = log_of(table)
    for version in range(table.version() + 1):
        table.load_as_version(version)
        found = files_of(log, version)
        assert found is not None
        names = [str(path.relative_to(log.parent)) for path in found]
        assert sorted(names) == sorted(uri[uri.index("/day=") + 1 :] for uri in table.file_uris())
        assert all(path.is_file() for path in found)


def test_checkpoint_replaces_the_commits_before_it(table: DeltaTable) -> None:
    log = log_of(table)
    expected = files_of(log, 3)
    (log / f"{0:020}.json").unlink()
    assert files_of(log, 3) == expected
    assert files_of(log, 0) is None


def change_last(log: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = max(log.glob("*.json"))
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        change(action)
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda action: action.get("add", {}).update(deletionVector={"storageType": "u"}), id="rows are deleted aside"),
        pytest.param(lambda action: action.get("add", {}).update(path="s3://elsewhere/part"), id="a file elsewhere"),
        pytest.param(lambda action: action.update(protocol={"minReaderVersion": 3, "minWriterVersion": 7}), id="a newer protocol"),
        pytest.param(lambda action: action.get("add", {}).pop("path", None), id="no path"),
    ],
)
def test_log_that_only_delta_can_read_is_left_to_delta(table: DeltaTable, change: Callable[[dict[str, Any]], None]) -> None:
    log = log_of(table)
    change_last(log, change)
    assert files_of(log, table.version()) is None


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("{"), lambda path: path.write_text("[]\n")])
def test_a_damaged_log_is_left_to_delta(table: DeltaTable, damage: Callable[[Path], Any]) -> None:
    log = log_of(table)
    damage(log / f"{4:020}.json")
    assert files_of(log, 3) is not None
    assert files_of(log, table.version()) is None


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"PAR1"), lambda path: path.write_bytes(path.read_bytes()[:-20])])
def test_a_damaged_checkpoint_is_left_to_delta(table: DeltaTable, damage: Callable[[Path], Any]) -> None:
    log = log_of(table)
    damage(log / f"{1:020}.checkpoint.parquet")
    assert files_of(log, 0) is not None
    assert files_of(log, 2) is None
