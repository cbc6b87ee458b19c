"""What ``collect`` decides: where it goes on, when it publishes, and how it ends. The cluster is one that plays a part."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.brokers.client_properties import ClientProperties
from jobs.brokers.cluster import OffsetsLog
from jobs.brokers.records import Batch
from jobs.collect import records as collect_records
from jobs.collect import run as collect
from jobs.collect import session as collection
from jobs.collect.options import CollectOptions
from jobs.collect.records import resume
from jobs.collect.session import saved_in_words
from jobs.runtime.errors import CaptureFolderError, ClusterError, CollectionBrokenError, InterruptedRunError
from schemas.positions import Positions
from schemas.wire.keys import OFFSETS_TOPIC

ROOT = Path(__file__).parents[4]
Step = Batch | Exception | Callable[[], None]


def positions(next_offsets: dict[int, int], **changes: Any) -> Positions:
    return Positions(
        **{"cluster_id": "c", "cluster_name": "n", "topic": OFFSETS_TOPIC, "topic_id": "i", "next_offsets": next_offsets, **changes}
    )


# -- where to go on


def test_a_new_folder_begins_at_the_beginning_under_kafkas_name() -> None:
    log = OffsetsLog("i", {0: 3, 1: 0}, {0: 9, 1: 0})
    assert resume(None, log, "c", None) == positions({0: 3, 1: 0}, cluster_name="c")
    assert resume(None, log, "c", "prod") == positions({0: 3, 1: 0}, cluster_name="prod")
    assert resume(None, log, None, None) == positions({0: 3, 1: 0}, cluster_id=None, cluster_name=None)


def test_collection_resumes_at_stored_positions_and_begins_new_partitions(caplog: pytest.LogCaptureFixture) -> None:
    stored = positions({0: 5, 1: 9})
    assert resume(stored, OffsetsLog("i", {0: 0, 1: 0, 2: 4}, {0: 5, 1: 20, 2: 8}), "c", None) == positions({0: 5, 1: 9, 2: 4})
    assert resume(stored, OffsetsLog("i", {0: 5, 1: 9}, {0: 5, 1: 9}), "c", "n") == stored
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("stored", "log", "name", "message"),
    [
        (positions({0: 5}, cluster_id="b"), OffsetsLog("i", {0: 0}, {0: 9}), None, "the folder belongs to cluster b, this is cluster c"),
        (positions({0: 5}), OffsetsLog("i", {0: 0}, {0: 9}), "m", "the cluster's name is 'n' in the folder, and 'm' with --cluster-id"),
        (positions({0: 5}), OffsetsLog("j", {0: 0}, {0: 9}), None, "was deleted and made again (its id was i, is j)"),
        (positions({0: 5, 1: 0}), OffsetsLog("i", {0: 0}, {0: 9}), None, "was deleted and made again"),
        (
            positions({0: 5, 1: 8, 2: 3}),
            OffsetsLog("i", {0: 0, 1: 0, 2: 0}, {0: 4, 1: 8, 2: 0}),
            None,
            "was read beyond its end: partition 0 up to 5, its end is 4, partition 2 up to 3, its end is 0. ",
        ),
    ],
)
def test_log_other_than_the_one_read_before_is_refused(stored: Positions, log: OffsetsLog, name: str | None, message: str) -> None:
    with pytest.raises(CaptureFolderError) as refused:
        resume(stored, log, "c", name)
    assert message in str(refused.value) and "name another folder with --output" in str(refused.value)


def test_offsets_removed_before_they_were_read_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert resume(positions({0: 5, 1: 9}), OffsetsLog("i", {0: 8, 1: 9}, {0: 20, 1: 9}), "c", None) == positions({0: 8, 1: 9})
    assert caplog.messages == [f"offsets 5 to 7 of {OFFSETS_TOPIC}, partition 0, are lost: the cluster removed them before they were read"]


# -- reading


def batch(next_offset: int, *offsets: int) -> Batch:
    """Return records of the only partition, and where it goes on."""
    count = len(offsets)
    columns = {"key": pa.array([b"k"] * count, pa.binary()), "offset": pa.array(offsets, pa.int64())}
    return Batch(pa.record_batch(columns), {0: next_offset})


NOTHING = Batch(batch(0).records, {})


class Play:
    """A cluster with one partition: what it answers, and what has been asked of it."""

    def __init__(self) -> None:
        self.cluster_id = "c"
        self.connection = self
        self.log = OffsetsLog("i", {0: 0}, {0: 4})
        self.steps: list[Step] = []
        self.looks: list[dict[str, Any] | Exception] = []
        self.outage = ""
        self.began_at: dict[int, int] = {}
        self.is_closed = False
        self.moment = 0.0

    def offsets_log(self) -> OffsetsLog:
        return self.log

    def read_metadata_snapshot(self) -> dict[str, Any]:
        scripted = self.looks.pop(0) if self.looks else look()
        if isinstance(scripted, Exception):
            raise scripted
        return scripted

    def next_batch(self) -> Batch:
        step = self.steps.pop(0) if self.steps else NOTHING
        if isinstance(step, Exception):
            raise step
        if isinstance(step, Batch):
            return step
        step()
        return NOTHING

    def remaining(self, next_offsets: dict[int, int]) -> int:
        return 10 - next_offsets[0]

    def close(self) -> None:
        self.is_closed = True

    def wait(self, seconds: float) -> Step:
        """Return a step in which this time passes."""
        return lambda: setattr(self, "moment", self.moment + seconds)


def look(**changes: Any) -> dict[str, Any]:
    topic = {"topic": OFFSETS_TOPIC, "topic_id": "i", "partitions": [{"partition": 0}]}
    return {"cluster_id": "c", "brokers": [], "topics": [topic], **changes}


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    playing = Play()

    def read(connection: Play, next_offsets: dict[int, int]) -> Play:
        playing.began_at = dict(next_offsets)
        return playing

    monkeypatch.setattr(collect, "Connection", lambda *_: playing)
    monkeypatch.setattr(collect, "Cluster", lambda _: playing)
    monkeypatch.setattr(collect_records, "Reader", read)
    for module in (collect_records, collection):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: playing.moment))
    yield playing
    assert playing.steps == []


def run(folder: Path, **changes: Any) -> str:
    options = CollectOptions(bootstrap_servers="b:1", output=folder, **changes)
    return collect.run(options, ClientProperties({}, {}), lambda: datetime(2026, 11, 22, tzinfo=timezone.utc))


def files(folder: Path) -> list[list[int]]:
    paths = sorted(folder.glob("consumer_offsets-*"), key=lambda path: path.stat().st_mtime_ns)
    return [pq.ParquetFile(path).read()["offset"].to_pylist() for path in paths]


def saved(folder: Path) -> dict[int, int]:
    return Positions.model_validate_json((folder / "_positions.json").read_bytes()).next_offsets


def look_count(folder: Path) -> int:
    return len(list(folder.glob("cluster_metadata-*")))


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_reading_ends_where_the_log_ended(play: Play, tmp_path: Path) -> None:
    """Behind the last record there is the end of a transaction, so that the position comes without a record."""
    play.steps = [NOTHING, batch(2, 0, 1), batch(3, 2), batch(4)]
    summary = run(tmp_path)
    assert (files(tmp_path), saved(tmp_path), look_count(tmp_path)) == ([[0, 1, 2]], {0: 4}, 2)
    assert summary.startswith(f"3 records of 1 partition of {OFFSETS_TOPIC} -> consumer_offsets-20261122T000000.000000Z.parquet in ")
    assert play.began_at == {0: 0} and play.is_closed


def test_a_log_without_anything_new_is_not_waited_for(play: Play, tmp_path: Path) -> None:
    play.log = OffsetsLog("i", {0: 4}, {0: 4})
    assert run(tmp_path).startswith("0 records of 1 partition")
    assert (files(tmp_path), saved(tmp_path)) == ([], {0: 4})


def test_a_full_file_is_published_and_the_next_one_begins(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.collect.folder.FILE_ROWS", 2)
    play.steps = [batch(2, 0, 1), lambda: check(files(tmp_path) == [[0, 1]] and saved(tmp_path) == {0: 2}), batch(3, 2), batch(4, 3)]
    assert "2 files, consumer_offsets-" in run(tmp_path)
    assert files(tmp_path) == [[0, 1], [2, 3]]


def test_a_file_is_published_when_its_first_record_has_waited_long_enough(play: Play, tmp_path: Path) -> None:
    play.steps = [
        play.wait(0.3),  # an open file without records does not age
        batch(1, 0),
        lambda: check(files(tmp_path) == []),
        play.wait(0.3),
        lambda: check(files(tmp_path) == [[0]] and saved(tmp_path) == {0: 1}),
        batch(2, 1),
        interrupt,
    ]
    run(tmp_path, follow=True, roll_interval=0.2)
    assert (files(tmp_path), saved(tmp_path)) == ([[0], [1]], {0: 2})


def check(condition: bool) -> None:
    assert condition


@pytest.mark.parametrize("error", [CollectionBrokenError("b:1: broken"), ClusterError("b:1: refused")])
def test_an_error_in_the_middle_saves_what_was_read(error: Exception, play: Play, tmp_path: Path) -> None:
    play.steps = [batch(2, 0, 1), error]
    with pytest.raises(type(error), match=f"^{error}; 2 records are saved, call again to continue after them$"):
        run(tmp_path)
    assert (files(tmp_path), saved(tmp_path)) == ([[0, 1]], {0: 2})
    assert play.is_closed


def test_a_cluster_that_sends_nothing_is_given_up(play: Play, tmp_path: Path) -> None:
    play.outage = "gone"
    play.steps = [batch(2, 0, 1), play.wait(0.3)]
    with pytest.raises(CollectionBrokenError, match=r"^b:1: no records came for 0\.2 s, 2 offsets are left \(gone\); 2 records are saved"):
        run(tmp_path, timeout=0.2)
    assert saved(tmp_path) == {0: 2}


def test_following_waits_as_long_as_it_takes(play: Play, tmp_path: Path) -> None:
    play.steps = [play.wait(0.3), batch(9, 8), interrupt]
    run(tmp_path, follow=True, timeout=0.1)
    assert files(tmp_path) == [[8]]


def test_outage_is_logged_once_until_the_cluster_answers(play: Play, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def outage(text: str) -> Callable[[], None]:
        return lambda: setattr(play, "outage", text)

    play.steps = [outage("first"), outage("second"), outage(""), outage("third"), interrupt]
    with caplog.at_level(logging.INFO, "jobs"):
        run(tmp_path, follow=True)
    assert caplog.messages[1:] == [
        "no broker can be reached, trying again: first",
        "the cluster answers again",
        "no broker can be reached, trying again: third",
    ]


# -- looks


def test_failed_metadata_snapshot_while_following_is_logged_and_repeated(
    play: Play, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    play.looks = [look(), ClusterError("b:1: no answer")]
    play.steps = [play.wait(0.15), play.wait(0.15), lambda: check(look_count(tmp_path) == 2), interrupt]
    run(tmp_path, follow=True, metadata_interval=0.1)
    assert "could not read the topic metadata, trying again later: b:1: no answer" in caplog.messages
    assert look_count(tmp_path) == 3


def test_failed_last_metadata_snapshot_is_an_error_after_saving(play: Play, tmp_path: Path) -> None:
    play.looks = [look(), ClusterError("b:1: no answer")]
    play.steps = [batch(4, 3)]
    with pytest.raises(ClusterError, match=r"^b:1: no answer; 1 record is saved"):
        run(tmp_path)
    assert saved(tmp_path) == {0: 4}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (look(cluster_id="d"), "cluster d answers now, cluster c answered before"),
        (look(topics=[]), f"{OFFSETS_TOPIC} was deleted, or deleted and made again"),
        (look(topics=[{**look()["topics"][0], "topic_id": "j"}]), f"{OFFSETS_TOPIC} was deleted, or deleted and made again"),
        (look(topics=[{**look()["topics"][0], "partitions": [{}, {}]}]), f"{OFFSETS_TOPIC} has 2 partitions now, it had 1 when "),
    ],
)
def test_metadata_snapshot_of_another_log_ends_following(changed: dict[str, Any], message: str, play: Play, tmp_path: Path) -> None:
    play.looks = [look(), changed]
    play.steps = [batch(9, 8), play.wait(0.15)]
    with pytest.raises(CollectionBrokenError, match=message):
        run(tmp_path, follow=True, metadata_interval=0.1)
    assert (files(tmp_path), look_count(tmp_path)) == ([[8]], 1)


def test_metadata_snapshots_have_the_given_cluster_id(play: Play, tmp_path: Path) -> None:
    from jobs.decoders.captures import find_captures

    play.steps = [batch(4, 3)]
    run(tmp_path, cluster_id="prod")
    for path in tmp_path.glob("consumer_offsets-*"):
        path.unlink()
    assert {capture.cluster_id for capture in find_captures((str(tmp_path),))} == {"prod"}


# -- signals


def test_interrupt_saves_the_records_read_and_says_so(play: Play, tmp_path: Path) -> None:
    play.steps = [batch(2, 0, 1), interrupt]
    with pytest.raises(InterruptedRunError, match=r"^interrupted; 2 records are saved, call again to continue after them$"):
        run(tmp_path)
    assert (files(tmp_path), saved(tmp_path)) == ([[0, 1]], {0: 2})


def test_the_second_interrupt_ends_at_once(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt_again(*_: Any) -> None:
        interrupt()

    monkeypatch.setattr("jobs.collect.folder.CaptureFolder.publish", interrupt_again)
    play.steps = [batch(2, 0, 1), interrupt]
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, follow=True)
    assert list(tmp_path.glob("*.parquet")) == []


def test_signal_handlers_are_restored_after_collecting(play: Play, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    play.steps = [batch(4, 3)]
    run(tmp_path)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


# -- what it needs


def test_collecting_needs_no_spark() -> None:
    script = "import sys, jobs.cli, jobs.collect.run; print([name for name in ('pyspark', 'py4j', 'pandas') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_missing_confluent_kafka_is_named_with_the_install_command(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['confluent_kafka'] = None; from jobs import cli;"
        "raise SystemExit(cli.console_main(['collect', '--bootstrap-servers', 'b:1', '--output', sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "f"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    message = f"evenkeel: collect needs the package confluent-kafka, Evenkeel's extra kafka; install it: {sys.executable} -m pip install"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{message} confluent-kafka\n")
    assert not (tmp_path / "f").exists()


def test_one_record_that_is_saved_is_one() -> None:
    assert saved_in_words(1, "record") == "1 record is saved, call again to continue after it"
    assert saved_in_words(2_000, "change", " of groups") == "2,000 changes of groups are saved, call again to continue after them"
