"""Ctrl-C: at the two moments at which Spark may go on with what Python has given up, and in a run of its own as a terminal sends it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import pipeline
from jobs.storage.warehouse import Warehouse
from jobs.verify.folder import check_folder
from tests.builders.captures import LOOKS, of_groups
from tests.builders.tables import assert_equal_warehouses, rows, versions
from tests.faults.drivers import INSTALLATION, linked_checkout, wait_until
from tests.faults.harmful_assignors import POISON

INTERRUPTED = 130


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_groups(tmp_path_factory.mktemp("records"), "one.parquet", POISON)


def test_an_interrupt_ends_the_running_jobs_and_what_follows_gets_its_own_answers(spark: SparkSession) -> None:
    """A run takes its tables back after it, in the same session. The JVM keeps the connections of other threads."""
    tracker, group = spark.sparkContext.statusTracker(), "to interrupt"
    client: Any = spark.sparkContext._gateway._gateway_client
    is_noticed, is_over = threading.Event(), threading.Event()
    connections: list[Any] = []

    def interrupt() -> None:
        while not tracker.getJobIdsForGroup(group):
            time.sleep(0.1)
        connections.append(client.get_thread_connection())
        os.kill(os.getpid(), signal.SIGINT)
        # Python may get the signal just before it waits for the JVM, and then sees it when the JVM answers: here never.
        while not is_noticed.wait(60):
            os.kill(os.getpid(), signal.SIGINT)
        is_over.wait()
        tracker.getActiveJobsIds()
        connections.append(client.get_thread_connection())

    spark.sparkContext.setJobGroup(group, "never ends by itself")
    other = threading.Thread(target=interrupt)
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            spark.range(1 << 50).selectExpr("max(id)").collect()
        is_noticed.set()
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        assert [spark.range(number).count() for number in (5, 6)] == [5, 6]
    finally:
        is_noticed.set()
        is_over.set()
        other.join()
    assert connections[0] is connections[1]
    wait_until(lambda: not tracker.getActiveJobsIds(), "the interrupted job ends")


@pytest.mark.slow
def test_next_run_takes_back_a_commit_that_came_after_the_recovery(
    evenkeel, spark: SparkSession, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted, undisturbed = tmp_path / "interrupted", tmp_path / "undisturbed"
    command = ("run", "--input", records, LOOKS, "--run-id", "r")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def recover(warehouse: Warehouse) -> dict[str, int]:
        left = recovered(warehouse)
        if left["movements"]:  # after the interrupt, not at the beginning of the run
            spark.sql(f"RESTORE TABLE delta.`{interrupted}/movements` TO VERSION AS OF 1")  # what the run had written to it
        return left

    recovered = Warehouse.recover
    with monkeypatch.context() as patched:
        patched.setattr(pipeline.gates, "run", interrupt)
        patched.setattr(Warehouse, "recover", recover)
        assert evenkeel(*command, "--warehouse", interrupted) == INTERRUPTED
    (failed,) = rows(interrupted, "runs")
    assert failed["status"] == "failed"
    assert dict(failed["table_versions"])["movements"] == versions(interrupted)["movements"] - 1
    for warehouse in (interrupted, undisturbed):
        assert evenkeel(*command, "--warehouse", warehouse) == 0
    assert_equal_warehouses(interrupted, undisturbed)


@pytest.mark.slow
def test_interrupt_during_the_last_commit_leaves_a_published_run(
    evenkeel, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command ends by the same commit; landing is the quickest."""

    def close(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        closed(*arguments)

    command = ("land", "--warehouse", tmp_path, "--input", records, LOOKS, "--run-id", "r")
    closed = pipeline._close
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "_close", close)
        assert evenkeel(*command) == INTERRUPTED
    assert [row["status"] for row in rows(tmp_path, "runs")] == ["published"]
    before = versions(tmp_path)
    assert evenkeel(*command) == 0
    assert versions(tmp_path) == before, "the run was published, so that nothing is left to do"
    assert check_folder(tmp_path).damages == []


AS_BEFORE, TAKEN_BACK = "evenkeel: interrupted; the tables are as before", "evenkeel: interrupted; the next run takes the tables back"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "lines"),
    [("settings for a small run", {AS_BEFORE}), ("evenkeel: open ", {AS_BEFORE, TAKEN_BACK})],
    ids=["Spark starts", "landing"],
)
def test_interrupt_of_a_process_group_ends_in_one_line_and_leaves_no_process(
    tmp_path: Path, records: Path, moment: str, lines: set[str]
) -> None:
    """The terminal signals the JVM, the driver and the workers at once."""
    log, command = tmp_path / "stderr", (linked_checkout(tmp_path), "land", "--warehouse", tmp_path / "w", "--input", records, LOOKS)
    with log.open("w") as stderr:
        call = subprocess.Popen(
            command, env={**os.environ, **INSTALLATION}, stdin=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
    try:
        wait_until(lambda: moment in log.read_text() or call.poll() is not None, moment)
        before = log.read_text()
        os.killpg(call.pid, signal.SIGINT)
        interrupted_at = time.monotonic()
        wait_until(lambda: "interrupted" in log.read_text(), "the line")
        said_after = time.monotonic() - interrupted_at
        assert call.wait(60) in (INTERRUPTED, -signal.SIGINT)  # a shell gives 130 for both; the second if Spark's own script was running
        wait_until(lambda: not is_group_alive(call.pid), "the group has ended")
        assert (said_after < 5.0, time.monotonic() - interrupted_at < 15.0) == (True, True)
        (line,) = log.read_text().removeprefix(before).splitlines()
        assert line in lines
    finally:
        if is_group_alive(call.pid):
            os.killpg(call.pid, signal.SIGKILL)


def is_group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
