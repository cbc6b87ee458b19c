"""What a run asks the workers of a cluster before it writes; the workers here are those of a local master, which see everything."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from jobs import preflight as reach
from jobs.preflight import check_reach, unseen
from jobs.runtime.errors import InputError
from jobs.runtime.locations import PROBE_FILE


@pytest.fixture
def as_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "is_of_one_machine", lambda spark: False)


def test_workers_that_see_everything_pass(spark: SparkSession, as_a_cluster: None, tmp_path: Path) -> None:
    (tmp_path / "capture").touch()
    check_reach(spark, tmp_path / "new" / "warehouse", [str(tmp_path / "capture")])
    assert list((tmp_path / "new" / "warehouse").iterdir()) == []


def test_an_input_that_a_worker_does_not_see_is_refused(spark: SparkSession, as_a_cluster: None, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        check_reach(spark, tmp_path, [str(tmp_path), str(tmp_path / "capture")])
    assert str(refused.value).startswith(f"input {tmp_path / 'capture'}: the worker on ")
    assert not (tmp_path / PROBE_FILE).exists()


def test_driver_and_workers_are_asked_for_their_encodings(spark: SparkSession, as_a_cluster: None) -> None:
    assert reach.jvm_encodings(spark) == ["UTF-8", "UTF-8"]


def test_a_local_master_is_not_asked(spark: SparkSession, tmp_path: Path) -> None:
    check_reach(spark, tmp_path / "warehouse", [str(tmp_path / "capture")])
    assert not (tmp_path / "warehouse").exists()


@pytest.mark.parametrize(("content", "found"), [("token", []), ("another", ["mark"]), (None, ["mark"])])
def test_probe_file_of_another_run_counts_as_unseen(content: str | None, found: list[str], tmp_path: Path) -> None:
    """A folder of that name with another run's mark in it is another folder."""
    if content is not None:
        (tmp_path / "mark").write_text(content)
    batches = unseen(iter([pa.RecordBatch.from_pydict({"id": [1]})]), (str(tmp_path / "mark"), "token"), ())
    assert [Path(path).name for batch in batches for path in batch.column("path").to_pylist()] == found
