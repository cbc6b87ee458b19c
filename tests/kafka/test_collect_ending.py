"""However a collection ends, the next one goes on without a gap; with --follow, signals end it in good order."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from schemas.wire.keys import OFFSETS_TOPIC
from tests.kafka import captures
from tests.kafka.broker import Broker
from tests.kafka.conftest import Collect, History
from tests.kafka.following import Collector, following, wait_for
from tests.kafka.groups import PARTITION_COUNT, Commits
from tests.kafka.log_files import Record, read_topic

DEFAULT_SEED = 17
KILLS, MOST_KILLS = 6, 30


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
    random, folder, files, longest_s = Random(seed), tmp_path / "captures", [0], 2.0
    while len(files) <= KILLS or files[-1] <= KILLS:
        assert len(files) <= MOST_KILLS, f"hardly a collector came to write something: {files}"
        with following(broker, folder, "--metadata-interval", "0.2", roll_interval="0.1") as collector:
            deadline = time.monotonic() + random.uniform(0.0, longest_s)
            while time.monotonic() < deadline:
                commits.commit(random.randrange(PARTITION_COUNT), random.randrange(1000), "killed")
            assert collector.end(signal.SIGKILL) == -signal.SIGKILL
        files.append(collector.file_count())
        if files[-1] == files[-2]:  # on a busy machine each takes longer to get anywhere
            longest_s *= 1.5
    assert collect(folder) == 0
    found = captures.records(folder)
    assert sorted(set(found)) == committed(broker)
    hidden = {path.name for path in folder.iterdir() if path.name.startswith(("_", "."))}
    assert hidden == {".evenkeel.collect.lock", "_positions.json"}
    with capsys.disabled():
        print(f"{len(found)} records in {files[1:]} files, {len(found) - len(set(found))} of them twice", end=" ")


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
        assert collector.end(number) == 0, collector.output
    assert_positions_fit(folder, committed(broker))
    counted, command = collector.output.splitlines()[-2:]
    assert f"{len(captures.records(folder)):,} records of 50 partitions" in counted and f"run --input {folder}" in command
    assert collect(folder) == 0
    assert captures.records(folder) == committed(broker), "none is there twice, since none was read twice"


def test_a_signal_before_the_first_file_saves_what_was_read(broker: Broker, history: History, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder, "--metadata-interval", "0.3", roll_interval="3600") as collector:
        wait_for(lambda: " 0 offsets are left" in collector.output, "all records are read")
        assert collector.file_count() == 0
        assert collector.end(signal.SIGINT) == 0, collector.output
    assert collector.file_count() == 1
    assert captures.records(folder) == committed(broker)


def test_following_writes_a_metadata_snapshot_each_interval(broker: Broker, history: History, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder, "--metadata-interval", "0.5") as collector:
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
            assert collector.end(signal.SIGINT) == 130
            assert time.monotonic() - started < 5.0
    assert collector.output.splitlines()[-1] == "evenkeel: interrupted; the tables are as before"
    assert_positions_fit(folder, committed(broker))


def test_signal_before_the_cluster_has_answered_ends_collect(broker: Broker, history: History, tmp_path: Path) -> None:
    with broker.paused():
        collector = Collector(broker.address, tmp_path / "captures", tmp_path / "log")
        wait_for((tmp_path / "captures").exists, "its folder")
        time.sleep(1.0)
        assert collector.end(signal.SIGINT) == 0, collector.output
    assert collector.output == "interrupted before anything was read\n"


def test_two_collectors_do_not_share_a_folder(collect: Collect, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder) as collector:
        assert collect(folder) == 2
        printed = capsys.readouterr().err
        assert f"--output {folder}: run collect (process {collector.process.pid} on " in printed
        assert "collects into this folder; wait for its end, or name another folder" in printed
        collector.end(signal.SIGINT)
    assert collect(folder) == 0


def test_following_outlives_a_broker_that_restarts(broker: Broker, history: History, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder) as collector:
        broker.stop()
        wait_for(lambda: "no broker can be reached, trying again: " in collector.output, "the outage is logged")
        broker.start()
        commits = Commits(broker.address, "of-a-restart")
        commits.commit(0, 77, "after the restart")
        commits.close()
        wait_for(lambda: "after the restart" in captures.notes(folder), "what came after the restart")
        assert "the cluster answers again" in collector.output
        assert collector.end(signal.SIGINT) == 0, collector.output
    assert_positions_fit(folder, committed(broker))
