"""The folder of a collection: when a file has its name, when positions move, and what a crash in between leaves."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.collect import folder as capture_folder
from jobs.collect import parquet_file as record_file
from jobs.collect.folder import CaptureFolder, open_folder
from jobs.decoders.captures import find_captures
from jobs.runtime.atomic_file import UNFINISHED
from jobs.runtime.errors import CaptureFolderError, InputError
from schemas.positions import Positions
from tests.builders import records

START = datetime(2026, 11, 22, 4, 5, 6, 789, timezone.utc)
FIRST_NAME = "consumer_offsets-20261122T040506.000789Z.parquet"


class CrashError(BaseException):
    """The process is gone."""


def positions(offset: int) -> Positions:
    return Positions(cluster_id="c", cluster_name="n", topic="t", topic_id="i", next_offsets={0: offset, 11: 5})


def batch(*offsets: int) -> pa.RecordBatch:
    count = len(offsets)
    return pa.record_batch(
        {
            "key": pa.array([b"k"] * count),
            "value": pa.array([None] * count, pa.binary()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([START] * count, pa.timestamp("us", "UTC")),
        }
    )


@contextmanager
def opened(path: Path, *, step: timedelta = timedelta(0)) -> Iterator[CaptureFolder]:
    moment = [START]

    def now() -> datetime:
        moment[0] += step
        return moment[0]

    with open_folder(path, now) as folder:
        yield folder


def offsets(path: Path) -> list[list[int]]:
    return [pq.ParquetFile(file).read()["offset"].to_pylist() for file in sorted(path.glob("[!_.]*.parquet"))]


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_file, "ROW_GROUP_BYTES", 1)
    with opened(tmp_path / "a" / "b") as folder:
        folder.add(batch(1, 2))
        folder.add(batch(3))
        assert folder.open_row_count == 3
        with pytest.raises(InputError, match="no capture in this folder"):
            find_captures((str(folder.path),))
        folder.publish(positions(4))
        assert (folder.files, folder.record_count, folder.open_row_count) == ([FIRST_NAME], 3, 0)
    assert offsets(folder.path) == [[1, 2, 3]]
    assert [Path(capture.path).name for capture in find_captures((str(folder.path),))] == [FIRST_NAME]


def test_positions_are_kept_beside_the_files(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        assert folder.positions() is None
        folder.publish(positions(4))
        assert folder.files == []
    with opened(tmp_path) as folder:
        assert folder.positions() == positions(4)
    assert json.loads((tmp_path / "_positions.json").read_text()) == {
        "cluster_id": "c",
        "cluster_name": "n",
        "topic": "t",
        "topic_id": "i",
        "next_offsets": {"0": 4, "11": 5},
    }


def test_file_names_differ_when_the_clock_does_not_move(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        for number in range(3):
            folder.add(batch(number))
            folder.publish(positions(number + 1))
    assert len(set(folder.files)) == 3 and folder.files == sorted(folder.files, key=len)
    assert sorted(offsets(tmp_path)) == [[0], [1], [2]]


@pytest.mark.parametrize("renamed_before", [0, 1])
def test_a_crash_makes_duplicates_and_no_gap(renamed_before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the file has its name, and between that and the positions."""
    replace, renamed = os.replace, []

    def crash(*names: Path) -> None:
        if len(renamed) == renamed_before:
            raise CrashError
        replace(*names)
        renamed.append(names)

    with opened(tmp_path, step=timedelta(seconds=1)) as folder:
        folder.add(batch(1, 2))
        folder.publish(positions(3))
    with pytest.raises(CrashError), opened(tmp_path, step=timedelta(minutes=1)) as folder:
        folder.add(batch(3, 4))
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", crash)
            folder.publish(positions(5))
    with opened(tmp_path, step=timedelta(hours=1)) as folder:
        assert folder.positions() == positions(3)
        folder.add(batch(3, 4, 5))
        folder.publish(positions(6))
    assert offsets(tmp_path) == [[1, 2], *([[3, 4]] if renamed_before else []), [3, 4, 5]]


def test_unfinished_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / f"{UNFINISHED}0").write_bytes(b"half")
    with opened(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [".evenkeel.collect.lock"]


def test_a_file_is_full_by_rows_or_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as folder:
        monkeypatch.setattr(capture_folder, "FILE_ROWS", 3)
        folder.add(batch(1, 2))
        assert not folder.is_full
        folder.add(batch(3))
        assert folder.is_full
        folder.publish(positions(4))
        assert not folder.is_full
        monkeypatch.setattr(capture_folder, "FILE_BYTES", batch(4).nbytes)
        folder.add(batch(4))
        assert folder.is_full


def test_rows_of_a_file_lie_in_few_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_file, "ROW_GROUP_BYTES", 3 * batch(1).nbytes)
    with opened(tmp_path) as folder:
        for number in range(7):
            folder.add(batch(number))
        folder.publish(positions(7))
    about = pq.ParquetFile(tmp_path / FIRST_NAME).metadata
    assert [about.row_group(number).num_rows for number in range(about.num_row_groups)] == [3, 3, 1]


def test_published_metadata_snapshot_is_a_capture(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.publish_look(records.look(cluster_id="own"))
    (capture,) = find_captures((str(tmp_path),))
    assert (Path(capture.path).name, capture.cluster_id) == ("cluster_metadata-20261122T040506.000789Z.jsonl.gz", "own")
    assert json.loads(gzip.decompress(Path(capture.path).read_bytes())) == records.look(cluster_id="own")


def test_folder_in_use_is_refused_with_its_process(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(CaptureFolderError) as refused, opened(tmp_path):
        pass
    assert f"--output {tmp_path}: run collect (process {os.getpid()} on " in str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "Invalid JSON: EOF while parsing"),
        (b"[]", "Input should be an object"),
        (b'{"cluster_id": "c"}', "cluster_name: Field required"),
        (positions(1).model_dump_json().replace("5}", "-5}").encode(), "next_offsets.11: Input should be greater than or equal to 0"),
        (positions(1).model_dump_json().replace('"11"', '"x"').encode(), "next_offsets.x.[key]: Input should be a valid integer"),
        (positions(1).model_dump_json().replace('"topic"', '"topi"').encode(), "topic: Field required"),
    ],
)
def test_positions_that_cannot_be_read_are_not_taken_for_none(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "_positions.json").write_bytes(content)
    with opened(tmp_path) as folder, pytest.raises(CaptureFolderError) as refused:
        folder.positions()
    assert f"{tmp_path / '_positions.json'}: {message}" in str(refused.value)
    assert "expected what collect wrote there" in str(refused.value)


@pytest.mark.parametrize("entry", [".", "observed_month=2026-11"])
def test_a_table_is_no_folder_for_captures(entry: str, tmp_path: Path) -> None:
    (tmp_path / "movements" / "_delta_log").mkdir(parents=True)
    with pytest.raises(CaptureFolderError, match=f"found the Delta table {tmp_path}/movements, expected a folder for captures; name"):
        with opened(tmp_path / "movements" / entry):
            pass
    assert [path.name for path in (tmp_path / "movements").iterdir()] == ["_delta_log"]


def test_a_link_that_somebody_planted_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("kept")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "_positions.json").symlink_to(tmp_path / "theirs")
    with open_folder(tmp_path / "folder", lambda: START) as folder:
        folder.publish(positions(4))
        assert folder.positions() == positions(4)
    assert (tmp_path / "theirs").read_text() == "kept"


def test_output_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CaptureFolderError, match=r"^--output .*/file/f: cannot be written \(Not a directory\); name another folder$"):
        with opened(tmp_path / "file" / "f"):
            pass


@pytest.mark.parametrize("there", ["", "a", "a/b"])
def test_failed_collection_leaves_no_folder_of_its_own(tmp_path: Path, there: str) -> None:
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    before = {path for path in tmp_path.rglob("*") if path.is_dir()}
    with pytest.raises(CrashError), opened(tmp_path / "a" / "b"):
        raise CrashError
    assert {path for path in tmp_path.rglob("*") if path.is_dir()} == before


def test_collection_that_has_written_keeps_its_folder(tmp_path: Path) -> None:
    with pytest.raises(CrashError), opened(tmp_path / "new") as folder:
        folder.add(batch(1))
        folder.publish(positions(2))
        raise CrashError
    assert (tmp_path / "new" / FIRST_NAME).exists()
