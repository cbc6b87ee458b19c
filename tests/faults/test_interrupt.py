"""Ctrl-C at the two moments at which Spark may go on with what Python has given up."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import pipeline
from jobs.warehouse import Warehouse
from tests.faults.harmful_assignors import POISON
from tests.spark.captures import LOOKS, of_groups
from tests.spark.tables import COMPARED, content, rows, versions

INTERRUPTED = 1


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_groups(tmp_path_factory.mktemp("records"), "one.parquet", POISON)


@pytest.fixture(scope="module")
def undisturbed(evenkeel, records: Path) -> Path:
    assert evenkeel("run", "--warehouse", records.parent / "warehouse", "--input", records, LOOKS) == 0
    return records.parent / "warehouse"


def assert_runs_on(evenkeel, warehouse: Path, records: Path, undisturbed: Path) -> None:
    assert evenkeel("run", "--warehouse", warehouse, "--input", records, LOOKS, "--run-id", "r") == 0
    for name in COMPARED:
        assert content(warehouse, name) == content(undisturbed, name), name


@pytest.mark.slow
def test_a_commit_that_lands_behind_the_recovery_is_taken_back_by_the_next_run(
    evenkeel, spark: SparkSession, records: Path, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def recover(warehouse: Warehouse) -> dict[str, int]:
        left = recovered(warehouse)
        if left["movements"]:  # behind the interrupt, not at the beginning of the run
            spark.sql(f"RESTORE TABLE delta.`{tmp_path}/movements` TO VERSION AS OF 1")  # what the run had written to it
        return left

    recovered = Warehouse.recover
    with monkeypatch.context() as patched:
        patched.setattr(pipeline.gates, "run", interrupt)
        patched.setattr(Warehouse, "recover", recover)
        assert evenkeel("run", "--warehouse", tmp_path, "--input", records, LOOKS, "--run-id", "r") == INTERRUPTED
    (failed,) = rows(tmp_path, "runs")
    assert failed["status"] == "failed"
    assert dict(failed["table_versions"])["movements"] == versions(tmp_path)["movements"] - 1
    assert_runs_on(evenkeel, tmp_path, records, undisturbed)


def test_an_interrupt_during_the_last_commit_comes_behind_it(
    evenkeel, records: Path, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        closed(*arguments)

    closed = pipeline._close
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "_close", close)
        assert evenkeel("run", "--warehouse", tmp_path, "--input", records, LOOKS, "--run-id", "r") == INTERRUPTED
    assert [row["status"] for row in rows(tmp_path, "runs")] == ["published"]
    assert_runs_on(evenkeel, tmp_path, records, undisturbed)
