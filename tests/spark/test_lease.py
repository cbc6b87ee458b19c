"""One writer at a time where file locks do not reach: two runs and a lease, on a clock that the tests turn."""

from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs import work
from jobs.context import RunContext, StageResult
from jobs.runtime.errors import LeaseLostError, WarehouseBusyError
from jobs.runtime.file_lock import Holder
from jobs.storage import lease as lease_module
from jobs.storage import table_versions
from jobs.storage.lease import EXPIRY, Lease, leased, wait_until_free
from tests.builders.tables import versions

START = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


class Clock:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "it's a warehouse")


@pytest.fixture(scope="module")
def made_lease(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A location with a lease that nobody has had yet; tests copy it."""
    folder = tmp_path_factory.mktemp("lease")
    assert lease_of(spark, str(folder), Clock())._ensure_made()
    return folder


@pytest.fixture
def made(made_lease: Path, location: str) -> str:
    """The location, where the lease's table is made already."""
    shutil.copytree(made_lease, location)
    return location


def lease_of(spark: SparkSession, location: str, clock: Clock, run_id: str = "r") -> Lease:
    return Lease(spark, location, Holder(run_id, "host-1", 17, clock.at.isoformat()), clock)


def test_busy_lease_names_its_holder(spark: SparkSession, made: str, clock: Clock) -> None:
    with leased(spark, made, Holder("it's first", "host-1", 17, START.isoformat()), 0, clock):
        clock.at += timedelta(seconds=90)
        with pytest.raises(WarehouseBusyError, match=r"held by run it's first \(process 17 on host-1\), started 90 s ago; wait"):
            lease_of(spark, made, clock).acquire(0)
    second = lease_of(spark, made, clock)
    second.acquire(0)
    second.release()
    (row,) = spark.table(second.table).collect()
    assert (row["nonce"], row["token"]) == (None, 2)


def test_one_of_many_simultaneous_runs_gets_the_lease(spark: SparkSession, location: str, clock: Clock) -> None:
    contenders = [lease_of(spark, location, clock, f"r{number}") for number in range(4)]
    ready = threading.Barrier(len(contenders))

    def contend(lease: Lease) -> bool:
        ready.wait()
        try:
            lease.acquire(0)
        except WarehouseBusyError:
            return False
        return True

    with ThreadPoolExecutor(len(contenders)) as pool:
        winners = [lease for lease, won in zip(contenders, pool.map(contend, contenders), strict=True) if won]
    assert len(winners) == 1
    winners[0].check()
    winners[0].release()


def test_lease_that_is_being_taken_cannot_be_taken_by_another_run(
    spark: SparkSession, made: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read that it is free, and the log of an S3 bucket would let either commit stand."""
    first, second = lease_of(spark, made, clock, "first"), lease_of(spark, made, clock, "second")
    assert first._ensure_made()
    update, tried = first._update, []

    def while_others_try(assignments: str, condition: str) -> None:
        if not tried:
            tried.append(second._take())
        update(assignments, condition)

    monkeypatch.setattr(first, "_update", while_others_try)
    first.acquire(0)
    assert tried == [False]
    with pytest.raises(WarehouseBusyError, match="held by run first"):
        second.acquire(0)
    first.release()
    second.acquire(0)
    second.release()
    assert claims(made) == ["2.0"]


def claims(location: str) -> list[str]:
    return sorted(path.name for path in Path(location, "_lease", "_claims").iterdir())


def test_a_run_that_dies_before_it_has_what_it_claimed_lets_go(
    spark: SparkSession, location: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its claims to make the table, and to take the lease that it is."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(lease_module, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(lease_module, "TAKING_SECONDS", 2)
    for token, made in enumerate((False, True)):
        claim = Path(location, "_lease", "_claims", f"{token}.0")
        claim.parent.mkdir(parents=True, exist_ok=True)
        claim.touch()
        os.utime(claim, (clock.at.timestamp(), clock.at.timestamp()))
        assert (Path(location, "_lease", "_delta_log").exists()) is made
        slept.clear()
        with pytest.raises(WarehouseBusyError, match="another run has tried to take it for 2 s"):
            lease_of(spark, location, clock).acquire(0)
        assert slept == [0.5] * 4
        clock.at += EXPIRY + timedelta(seconds=1)
        heir = lease_of(spark, location, clock)
        heir.acquire(0)
        heir.release()
        shutil.rmtree(location if not made else claim.parent)
        if not made:
            assert lease_of(spark, location, clock)._ensure_made()
            shutil.rmtree(claim.parent)


def test_run_that_fails_to_take_the_lease_removes_its_claim(
    spark: SparkSession, made: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(assignments: str, condition: str) -> None:
        raise PySparkException("the store is away")

    first, second = lease_of(spark, made, clock), lease_of(spark, made, clock)
    monkeypatch.setattr(first, "_update", refuse)
    with pytest.raises(PySparkException, match="away"):
        first.acquire(0)
    assert claims(made) == []
    assert second._ensure_made()
    assert second._take()


def test_a_log_without_a_commit_is_no_lease_yet(spark: SparkSession, location: str, clock: Clock) -> None:
    """A run leaves it that dies while it makes the lease."""
    log = Path(location, "_lease", "_delta_log")
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.0c.tmp").write_text('{"commitInfo"')
    lease = lease_of(spark, location, clock)
    lease.acquire(0)
    lease.check()
    lease.release()


def test_a_lease_that_has_ended_is_not_renewed_while_another_run_takes_it(spark: SparkSession, made: str, clock: Clock) -> None:
    asleep = lease_of(spark, made, clock, "asleep")
    asleep.acquire(0)
    clock.at += EXPIRY + timedelta(seconds=1)
    heir = lease_of(spark, made, clock, "heir")
    assert heir._claim(2)
    with pytest.raises(LeaseLostError, match="the lease had ended, and another run is taking it"):
        asleep.check()
    asleep.release()


def test_the_lease_of_a_dead_run_ends_and_the_dead_cannot_publish(spark: SparkSession, made: str, clock: Clock) -> None:
    """Its clock stands still: what its heart has found counts, however short a time ago it last renewed the lease."""
    dead, heir = lease_of(spark, made, Clock(), "dead"), lease_of(spark, made, clock, "heir")
    dead.acquire(0)
    clock.at += EXPIRY
    with pytest.raises(WarehouseBusyError):
        heir.acquire(0)
    clock.at += timedelta(seconds=1)
    heir.acquire(0)
    with pytest.raises(LeaseLostError, match="run heir on host-1 has taken the lease; nothing was published"):
        dead.check()
    with pytest.raises(LeaseLostError), dead.committing():
        pytest.fail("a commit by a run that lost its lease")
    dead.release()
    heir.check()
    heir.release()


def test_a_machine_that_was_suspended_asks_before_it_commits(spark: SparkSession, made: str, clock: Clock) -> None:
    """Its heart may not have beaten yet when the lease is another's already."""
    asleep, heir = lease_of(spark, made, clock, "asleep"), lease_of(spark, made, clock, "heir")
    asleep.acquire(0)
    clock.at += EXPIRY + timedelta(seconds=1)
    heir.acquire(0)
    with pytest.raises(LeaseLostError, match="run heir on host-1 has taken the lease"), asleep.committing():
        pytest.fail("a commit by a run that lost its lease")
    asleep.release()
    heir.release()
    clock.at += EXPIRY
    awake = lease_of(spark, made, clock, "awake")
    awake.acquire(0)
    clock.at += EXPIRY
    with awake.committing():  # nobody has taken it
        pass
    awake.release()


def test_a_reader_waits_for_a_run_and_not_for_a_dead_one(spark: SparkSession, location: str, clock: Clock) -> None:
    wait_until_free(spark, location, 0, clock)
    assert not Path(location).exists()
    with leased(spark, location, Holder("first", "host-1", 17, START.isoformat()), 0, clock):
        with pytest.raises(WarehouseBusyError, match="held by run first"):
            wait_until_free(spark, location, 0, clock)
        clock.at += EXPIRY + timedelta(seconds=1)
        wait_until_free(spark, location, 0, clock)
    clock.at = START
    wait_until_free(spark, location, 0, clock)


def test_run_waits_for_the_lease_as_long_as_asked(spark: SparkSession, made: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(lease_module, "time", SimpleNamespace(sleep=slept.append))
    with leased(spark, made, Holder("first", "host-1", 17, START.isoformat()), 0, clock):
        with pytest.raises(WarehouseBusyError):
            lease_of(spark, made, clock).acquire(12)
        assert slept == [5, 5, 2]
        with pytest.raises(WarehouseBusyError):
            wait_until_free(spark, made, 7, clock)
        assert slept[3:] == [5, 2]


def test_a_lease_that_is_renewed_does_not_end(spark: SparkSession, made: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "HEARTBEAT_SECONDS", 0.2)
    first = lease_of(spark, made, clock)
    first.acquire(0)
    clock.at += EXPIRY * 2
    renewed = threading.Semaphore(0)
    monkeypatch.setattr(first, "_renew", lambda renew=first._renew: (renew(), renewed.release()))
    assert all(renewed.acquire(timeout=60) for _ in range(2))
    with pytest.raises(WarehouseBusyError):
        lease_of(spark, made, clock).acquire(0)
    first.release()


def test_a_lease_is_renewed_while_the_runs_own_tasks_wait_for_slots(
    spark: SparkSession, made: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First in, first out, its small jobs would wait until the last of the long ones has begun."""
    began = tmp_path / "began"

    def work(_: int) -> None:
        began.touch()
        time.sleep(1)

    first = lease_of(spark, made, clock)
    first.acquire(0)
    monkeypatch.setattr(lease_module, "HEARTBEAT_SECONDS", 0.1)
    count = 60 * spark.sparkContext.defaultParallelism
    with ThreadPoolExecutor(1) as pool:
        stage = pool.submit(lambda: spark.sparkContext.parallelize(range(count), count).foreach(work))
        try:
            deadline = time.monotonic() + 300
            while not began.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            clock.at += timedelta(seconds=1)
            threading.Thread(target=first._heartbeat_loop, daemon=True).start()
            while first._renewed_at < clock.at and time.monotonic() < deadline:
                time.sleep(0.1)
            assert first._renewed_at == clock.at
            assert not stage.done()
        finally:
            first._ended.set()
            spark.sparkContext.cancelAllJobs()
    first.release()


def test_a_lease_that_cannot_be_renewed_is_given_up_when_it_has_run_out(
    spark: SparkSession, made: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lease_of(spark, made, clock)
    first.acquire(0)
    monkeypatch.setattr(first, "table", "delta.`/nowhere/at/all`")
    clock.at += EXPIRY
    first.check()  # the store may be back in a moment
    clock.at += timedelta(seconds=1)
    with pytest.raises(LeaseLostError, match="the lease could not be renewed for 601 s"):
        first.check()
    first.release()


def test_a_run_that_lost_its_lease_does_not_take_back_what_its_heir_wrote(
    evenkeel, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def overtaken(context: RunContext) -> StageResult:
        late = Clock()
        late.at = datetime.now(timezone.utc) + EXPIRY * 2
        heirs.append(Lease(spark, str(warehouse), Holder("heir", "host-2", 18, late.at.isoformat()), late))
        heirs[0].acquire(0)
        spark.sql(f"ALTER TABLE delta.`{warehouse}/movements` SET TBLPROPERTIES ('mark' = 'of the heir')")
        return StageResult(context.state, dict.fromkeys(("read", "landed", "duplicate", "skipped", "quarantined"), 0))

    heirs: list[Lease] = []
    warehouse = tmp_path / "shared"
    monkeypatch.setattr(table_versions, "is_shared", lambda folder: True)
    monkeypatch.setattr(work.land, "run", overtaken)
    assert evenkeel("land", "--warehouse", warehouse, "--run-id", "overtaken") == 3
    heirs[0].release()
    assert "run heir on host-2 has taken the lease" in capsys.readouterr().err
    assert versions(warehouse)["movements"] == 1
    assert versions(warehouse)["runs"] == 0
