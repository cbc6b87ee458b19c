"""However a collection ends, the next one goes on without a gap; with --follow, signals end it in good order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from jobs.sources.consumer_offsets import OFFSETS_TOPIC
from tests.kafka import captures
from tests.kafka.broker import Broker
from tests.kafka.conftest import Collect, History
from tests.kafka.groups import PARTITION_COUNT, Commits
from tests.kafka.log_files import Record, read_topic

ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 120.0
DEFAULT_SEED = 17
KILLS = 6
START = """
import sys
from jobs import cli, collect
from jobs.sources import cluster
collect.FOLLOW_FILE_SECONDS, cluster.BATCH_SECONDS = float(sys.argv[1]), 0.02
raise SystemExit(cli.console_main(sys.argv[2:]))
"""


def wait_for(condition: Callable[[], object], what: str) -> None:
    behind = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < behind, f"{what}: not within {LONGEST_S:.0f} s"
        time.sleep(0.05)


class Collector:
    """A process that follows a broker."""

    def __init__(self, address: str, folder: Path, log: Path, file_seconds: float, *options: str) -> None:
        self.folder, self.log = folder, log
        follow = ["collect", "--bootstrap-servers", address, "--output", str(folder), "--follow", *options]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, str(file_seconds), *follow],
                cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    @property
    def told(self) -> str:
        """What it has printed."""
        return self.log.read_text()

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.told
        return "offsets to go" in self.told

    def file_count(self) -> int:
        return len(list(self.folder.glob("consumer_offsets-*")))

    def end(self, number: int) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(LONGEST_S)


@contextmanager
def following(broker: Broker, folder: Path, *options: str, file_seconds: float = 0.3) -> Iterator[Collector]:
    """A collector that has begun to read."""
    log = folder.with_suffix(f".{time.monotonic_ns()}.log")
    collector = Collector(broker.address, folder, log, file_seconds, *options)
    try:
        wait_for(collector.is_ready, "the collector begins to read")
        yield collector
    finally:
        if collector.process.poll() is None:
            collector.process.kill()
            collector.process.wait()


def committed(broker: Broker) -> list[Record]:
    return read_topic(broker.log, OFFSETS_TOPIC).committed


def assert_positions_fit(folder: Path, log: list[Record]) -> None:
    """In the files is exactly what lies before the positions, each record once."""
    next_offsets = captures.positions(folder)["next_offsets"]
    assert captures.records(folder) == [record for record in log if record.offset < next_offsets[str(record.partition)]]


def test_a_collector_that_is_killed_at_any_moment_loses_nothing(
    collect: Collect, broker: Broker, commits: Commits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("EVENKEEL_SEED", DEFAULT_SEED))
    with capsys.disabled():
        print(f"\nEVENKEEL_SEED={seed}", end=" ", flush=True)
    random, folder, files = Random(seed), tmp_path / "captures", []
    for _ in range(KILLS):
        with following(broker, folder, "--look-every", "0.2", file_seconds=0.02) as collector:
            behind = time.monotonic() + random.uniform(0.0, 2.0)
            while time.monotonic() < behind:
                commits.commit(random.randrange(PARTITION_COUNT), random.randrange(1000), "killed")
            assert collector.end(signal.SIGKILL) == -signal.SIGKILL
        files.append(collector.file_count())
    assert collect(folder) == 0
    assert files[-1] > KILLS, f"hardly a collector came to write something: {files}"
    found = captures.records(folder)
    assert sorted(set(found)) == committed(broker)
    assert [path.name for path in folder.iterdir() if path.name.startswith("_")] == ["_positions.json"]
    with capsys.disabled():
        print(f"{len(found)} records in {files} files, {len(found) - len(set(found))} of them twice", end=" ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_following_in_good_order(
    number: signal.Signals, collect: Collect, broker: Broker, commits: Commits, tmp_path: Path
) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder) as collector:
        for offset in range(40):
            commits.commit(offset % PARTITION_COUNT, offset, "before a file")
        wait_for(lambda: collector.file_count() > 0, "a file")
        for offset in range(40):
            commits.commit(offset % PARTITION_COUNT, offset, "before the signal")
        assert collector.end(number) == 0, collector.told
    assert_positions_fit(folder, committed(broker))
    last = collector.told.splitlines()[-1]
    assert f"{len(captures.records(folder)):,} records of 50 partitions" in last and f"run --input {folder}" in last
    assert collect(folder) == 0
    assert captures.records(folder) == committed(broker), "none is there twice, since none was read twice"


def test_a_signal_before_the_first_file_saves_what_was_read(broker: Broker, history: History, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder, file_seconds=3600.0) as collector:
        time.sleep(1.5)
        assert collector.file_count() == 0
        assert collector.end(signal.SIGINT) == 0, collector.told
    assert collector.file_count() == 1
    assert captures.records(folder) == committed(broker)


def test_following_looks_now_and_then(broker: Broker, history: History, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder, "--look-every", "0.5") as collector:
        wait_for(lambda: len(captures.looks(folder)) >= 4, "looks")
        collector.end(signal.SIGINT)
    times = [look["observed_at_ms"] for look in captures.looks(folder)]
    assert times == sorted(times)
    assert all(later - earlier > 400 for earlier, later in pairwise(times[:-1])), times


def test_the_second_signal_ends_at_once(broker: Broker, history: History, tmp_path: Path) -> None:
    """The first one has saved what was read, and waits for a last look at a cluster that does not answer."""
    folder = tmp_path / "captures"
    with following(broker, folder) as collector:
        wait_for(lambda: collector.file_count() > 0, "a file")
        with broker.paused():
            collector.process.send_signal(signal.SIGINT)
            time.sleep(1.0)
            assert collector.process.poll() is None
            started = time.monotonic()
            assert collector.end(signal.SIGINT) == 1
            assert time.monotonic() - started < 5.0
    assert collector.told.splitlines()[-1] == "evenkeel: interrupted"
    assert_positions_fit(folder, committed(broker))


def test_a_signal_before_the_cluster_has_answered(broker: Broker, history: History, tmp_path: Path) -> None:
    with broker.paused():
        collector = Collector(broker.address, tmp_path / "captures", tmp_path / "log", 0.3)
        wait_for((tmp_path / "captures").exists, "its folder")
        time.sleep(1.0)
        assert collector.end(signal.SIGINT) == 0, collector.told
    assert collector.told == "interrupted before anything was read\n"


def test_two_collectors_do_not_share_a_folder(collect: Collect, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder) as collector:
        assert collect(folder) == 2
        told = capsys.readouterr().err
        assert f"--output {folder}: run collect (process {collector.process.pid} on " in told
        assert "collects into this folder; wait for it, or name another" in told
        collector.end(signal.SIGINT)
    assert collect(folder) == 0


def test_following_outlives_a_broker_that_restarts(broker: Broker, history: History, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder) as collector:
        broker.stop()
        wait_for(lambda: "no broker can be reached, trying again: " in collector.told, "the outage is told")
        broker.start()
        commits = Commits(broker.address, "of-a-restart")
        commits.commit(0, 77, "after the restart")
        commits.close()
        wait_for(lambda: "after the restart" in captures.notes(folder), "what came after the restart")
        assert "the cluster answers again" in collector.told
        assert collector.end(signal.SIGINT) == 0, collector.told
    assert_positions_fit(folder, committed(broker))
