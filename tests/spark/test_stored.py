"""Files as Spark's JVM lists them, on its local file system; tests/deploy/test_object_store.py has them in S3."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.storage import lease_claims as claims_module
from jobs.storage.hadoop_files import has_stored_files, remove_stored, store_once, stored_names
from jobs.storage.lease_claims import FencingFiles

AT = datetime(2026, 11, 21, 12, 30, 15, tzinfo=timezone.utc)


def test_files_of_a_folder_are_listed_with_their_times(spark: SparkSession, tmp_path: Path) -> None:
    assert stored_names(spark, f"file:{tmp_path}/none") == {}
    assert stored_names(spark, f"file:{tmp_path}") == {}
    for name in ("a", "b"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (AT.timestamp(), AT.timestamp()))
    assert stored_names(spark, f"file:{tmp_path}") == {"a": AT, "b": AT}


def test_folders_and_hidden_files_do_not_count_as_stored_files(spark: SparkSession, tmp_path: Path) -> None:
    assert not has_stored_files(spark, f"file:{tmp_path}/none")
    log = tmp_path / "table" / "_delta_log"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.5f.tmp").touch()
    assert not has_stored_files(spark, f"file:{tmp_path}")
    (log / "00000000000000000000.json").touch()
    assert has_stored_files(spark, f"file:{tmp_path}")


def test_a_file_is_made_once(spark: SparkSession, tmp_path: Path) -> None:
    folder = f"file:{tmp_path}/new/a file"
    assert [store_once(spark, folder), store_once(spark, folder)] == [True, False]
    remove_stored(spark, folder)
    assert not Path(tmp_path, "new", "a file").exists()
    assert store_once(spark, folder)
    remove_stored(spark, f"file:{tmp_path}/new")
    assert os.listdir(tmp_path) == []


def test_claims_in_a_store_are_as_those_in_a_folder(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "local_folder", lambda folder: None)
    first, second = (FencingFiles(spark, f"file:{tmp_path}/claims") for _ in range(2))
    assert [first.make(1, AT), second.make(1, AT), first.make(2, AT)] == [True, False, True]
    assert [name for name in os.listdir(tmp_path / "claims") if not name.startswith(".")] == ["2.0"]
    assert not second.make(2, AT)
    first.give_up()
    assert second.make(2, AT)
    os.utime(tmp_path / "claims" / "2.0", (0, 0))
    assert first.make(2, AT)
