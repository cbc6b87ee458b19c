"""A live cluster as an input: where a run begins and ends, what a task reads, and what is refused. The cluster plays a part."""

from __future__ import annotations

import json
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from jobs import cli
from jobs.brokers import cluster as kafka
from jobs.brokers import live_input as live
from jobs.brokers import records
from jobs.brokers.client_properties import ClientProperties
from jobs.brokers.cluster import OffsetsLog
from jobs.brokers.records import Batch
from jobs.brokers.spans import Span, Work
from jobs.decoders.offset_commit_columns import RAW_COLUMNS
from jobs.land.offsets_topic_source import CLIENT_MB, SCHEMA, read_span
from jobs.parser import parse
from jobs.runtime.errors import ClusterError, CollectionBrokenError, InputError, UsageError, explain
from jobs.settings import load_settings
from jobs.workers.guard import DecodingFailedError
from schemas.wire.keys import OFFSETS_TOPIC

ROOT = Path(__file__).parents[2]
NO_PROPERTIES = ClientProperties({}, {})
MEMORY_MB = 512
NOW = datetime(2026, 11, 22, 12, 0, 0, 5000, tzinfo=timezone.utc)


def batch(next_offset: int, *offsets: int, partition: int = 0) -> Batch:
    """Return records of one partition, and where it goes on."""
    count = len(offsets)
    columns = {
        "key": pa.array([b"k%d" % offset for offset in offsets], pa.binary()),
        "value": pa.nulls(count, pa.binary()),
        "topic": pa.array([OFFSETS_TOPIC] * count, pa.string()),
        "partition": pa.array([partition] * count, pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array([1_700_000_000_123_000 + offset * 1000 for offset in offsets], pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * count, pa.int32()),
        "isCommitted": pa.array([True] * count, pa.bool_()),
    }
    return Batch(pa.record_batch(columns), {partition: next_offset})


NOTHING = Batch(batch(0).records, {})


class Play:
    """A cluster: what it answers, and what has been asked of it."""

    def __init__(self) -> None:
        self.cluster_id: str | None = "c"
        self.log = OffsetsLog("i", {0: 2, 1: 0}, {0: 9, 1: 0})
        self.steps: list[Batch | Exception] = []
        self.topic: dict[str, Any] = {"topic": OFFSETS_TOPIC, "topic_id": "i", "partitions": [{"partition": 0}, {"partition": 1}]}
        self.began_at: list[dict[int, int]] = []
        self.asked_for: list[int | None] = []
        self.closed = 0
        self.outage = ""
        self.moment = 0.0

    def offsets_log(self) -> OffsetsLog:
        return self.log

    def read_metadata_snapshot(self) -> dict[str, Any]:
        return {"cluster_id": self.cluster_id, "brokers": [], "topics": [self.topic]}

    def next_batch(self, at_most: int | None = None) -> Batch:
        self.asked_for.append(at_most)
        self.moment += 0.2
        step = self.steps.pop(0) if self.steps else NOTHING
        if isinstance(step, Exception):
            raise step
        return step

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    playing = Play()

    def read(_: Any, next_offsets: dict[int, int]) -> Play:
        playing.began_at.append(dict(next_offsets))
        return playing

    monkeypatch.setattr(live, "Cluster", lambda _: playing)
    for module in (live, kafka):
        monkeypatch.setattr(module, "Connection", lambda *_: playing)
    for module in (live, records):
        monkeypatch.setattr(module, "Reader", read)
    clock = SimpleNamespace(monotonic=lambda: playing.moment)
    monkeypatch.setattr(live, "time", clock)
    monkeypatch.setattr("jobs.land.offsets_topic_source.time", clock)
    return playing


def begin(play: Play, stored: dict[str, int], name: str | None = None, fallback: str | None = None) -> live.Reading:
    play.steps.insert(0, batch(9))
    return live.LiveInput("b:1", NO_PROPERTIES, lambda: NOW).begin(stored, name, fallback)


# -- where a run begins and ends


def test_the_first_run_reads_from_the_beginning_to_the_end(play: Play) -> None:
    reading = begin(play, {"other i 0": 5})
    assert (reading.cluster_id, reading.work.spans) == ("c", (Span(0, 2, 9),)), "nothing is to be read of partition 1"
    assert reading.next_positions == {"c i 0": 9, "c i 1": 0}


def test_next_run_reads_from_the_stored_positions(play: Play) -> None:
    play.log = OffsetsLog("i", {0: 2, 1: 0, 2: 4}, {0: 9, 1: 3, 2: 6})
    reading = begin(play, {"c i 0": 9, "c i 1": 1})
    assert reading.work.spans == (Span(1, 1, 3), Span(2, 4, 6))
    assert reading.next_positions == {"c i 0": 9, "c i 1": 3, "c i 2": 6}


@pytest.mark.parametrize(
    ("own", "name", "fallback", "expected"),
    [("c", None, "f", "c"), ("c", "a b", "f", "a b"), (None, None, "f", "f"), (None, None, None, "default")],
)
def test_cluster_id_comes_from_option_cluster_or_default(
    own: str | None, name: str | None, fallback: str | None, expected: str, play: Play
) -> None:
    play.cluster_id = own
    reading = begin(play, {f"{expected} i 0": 8}, name, fallback)
    assert (reading.cluster_id, reading.work.spans) == (expected, (Span(0, 8, 9),))
    assert json.loads(reading.read_metadata_line())["cluster_id"] == expected


def test_topic_without_an_id_keeps_its_positions(play: Play) -> None:
    play.log = OffsetsLog(None, {0: 0}, {0: 4})
    first = begin(play, {})
    assert begin(play, first.next_positions).work.spans == ()


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"c j 0": 3}, f"{OFFSETS_TOPIC} was deleted and made again (its id was j, is i)"),
        ({"c i 0": 3, "c i 2": 1}, f"{OFFSETS_TOPIC} was deleted and made again"),
        ({"c i 0": 10}, f"{OFFSETS_TOPIC} was read beyond its end: partition 0 up to 10, its end is 9. "),
    ],
)
def test_log_other_than_the_one_read_before_is_refused(stored: dict[str, int], message: str, play: Play) -> None:
    with pytest.raises(InputError) as refused:
        begin(play, stored)
    assert str(refused.value).startswith(f"b:1: {message}")
    assert str(refused.value).endswith("land cluster c under another name, with --cluster-id")


def test_offsets_removed_before_they_were_read_are_logged(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    assert begin(play, {"c i 0": 0, "c i 1": 0}).work.spans == (Span(0, 2, 9),)
    assert caplog.messages[0] == f"offsets 0 to 1 of {OFFSETS_TOPIC}, partition 0, are lost: the cluster removed them before they were read"


def test_metadata_snapshot_has_the_time_it_was_taken(play: Play) -> None:
    look = json.loads(begin(play, {}).read_metadata_line())
    assert look == {"observed_at_ms": int(NOW.timestamp() * 1000), "cluster_id": "c", "brokers": [], "topics": [play.topic]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda play: setattr(play, "cluster_id", "d"), "cluster d answers now, cluster c answered before"),
        (lambda play: play.topic.update(topic_id="j"), "was deleted, or deleted and made again, while it was being read"),
        (lambda play: play.topic["partitions"].append({}), "has 3 partitions now, it had 2 when reading began"),
    ],
)
def test_log_that_changes_while_it_is_read_ends_the_run(change: Callable[[Play], None], message: str, play: Play) -> None:
    reading = begin(play, {})
    change(play)
    with pytest.raises(CollectionBrokenError, match=message):
        reading.read_metadata_line()


def test_the_right_to_read_is_tried_at_the_end_of_a_partition(play: Play) -> None:
    begin(play, {})
    assert (play.began_at, play.closed) == ([{0: 9}], 1)
    play.steps = [ClusterError("no right")]
    with pytest.raises(ClusterError, match="no right"):
        live.LiveInput("b:1", NO_PROPERTIES, lambda: NOW)
    assert play.closed == 2


def test_a_broker_that_sends_nothing_is_not_waited_for(play: Play) -> None:
    with pytest.raises(
        ClusterError, match=rf"^b:1: no answer to a read of {OFFSETS_TOPIC} within 30 s \(the brokers answer other requests\)"
    ):
        live.LiveInput("b:1", NO_PROPERTIES, lambda: NOW)
    assert 30 < play.moment < 31


# -- what a task reads


def read(*spans: Span) -> list[dict[str, Any]]:
    work = Work("b:1", NO_PROPERTIES, 3.0, spans)
    return [row for span in spans for part in read_span(work, span, MEMORY_MB) for row in part.to_pylist()]


def test_a_span_ends_before_its_end(play: Play) -> None:
    play.steps = [batch(5, 3, 4), NOTHING, batch(8, 5, 6, 7)]
    assert [row["offset"] for row in read(Span(0, 3, 7))] == [3, 4, 5, 6]
    assert (play.began_at, play.closed, play.steps) == ([{0: 3}], 1, [])
    assert play.asked_for == [4, 2, 2]


def test_markers_and_compacted_records_end_a_span_too(play: Play) -> None:
    play.steps = [batch(5, 3), batch(9)]
    assert [row["offset"] for row in read(Span(0, 3, 9))] == [3]


def test_rows_have_the_columns_that_are_declared(play: Play) -> None:
    play.steps = [batch(4, 3, partition=7)]
    work = Work("b:1", NO_PROPERTIES, 3.0, ())
    (part,) = read_span(work, Span(7, 3, 4), MEMORY_MB)
    types = {"binary": "binary", "int": "int32", "bigint": "int64", "boolean": "bool"}
    declared = [tuple(column.split()) for column in SCHEMA.split(", ")]
    assert [(field.name, str(field.type)) for field in part.schema] == [(name, types[kind]) for name, kind in declared]
    assert tuple(part.schema.names) == RAW_COLUMNS
    expected = {"key": b"k3", "value": None, "partition": 7, "offset": 3, "timestamp_ms": 1_700_000_000_126, "is_committed": True}
    assert part.to_pylist() == [expected]


def test_silent_broker_is_an_error_with_the_partition(play: Play) -> None:
    play.steps, play.outage = [batch(5, 3, 4)], "no route"
    with pytest.raises(CollectionBrokenError) as broken:
        read(Span(0, 3, 9))
    assert str(broken.value) == "b:1: no records of partition 0 came for 3 s, 4 offsets are left (no route); try again"
    assert play.closed == 1


def test_slow_consumer_of_records_is_no_timeout(play: Play) -> None:
    play.steps = [batch(4, 3), NOTHING, batch(5, 4)]
    taken = []
    for part in read_span(Work("b:1", NO_PROPERTIES, 3.0, ()), Span(0, 3, 5), MEMORY_MB):
        play.moment += 60
        taken += part["offset"].to_pylist()
    assert taken == [3, 4]


def test_reader_out_of_memory_names_partition_and_offset(play: Play) -> None:
    """Bound from the first records on: before them the client's threads have not all set aside what they may need."""
    before, bounds = resource.getrlimit(resource.RLIMIT_AS), []
    steps = [lambda: batch(4, 3), lambda: NOTHING, lambda: bytes(4 * (MEMORY_MB + CLIENT_MB) * 2**20)]

    def next_batch(_: int | None = None) -> Batch:
        bounds.append(resource.getrlimit(resource.RLIMIT_AS))
        return steps.pop(0)()

    play.next_batch = next_batch
    with pytest.raises(DecodingFailedError) as failed:
        read(Span(0, 3, 9))
    message = "out of memory: it takes more than the 512 MiB that workers.memory_mb allows"
    assert str(failed.value) == f"b:1: reading partition 0 from offset 4 on: {message}"
    assert bounds[0] == before and bounds[1][0] != before[0] and resource.getrlimit(resource.RLIMIT_AS) == before
    assert play.closed == 1


def test_an_executor_without_confluent_kafka_says_so() -> None:
    script = (
        "import sys; sys.modules['confluent_kafka'] = None; from jobs.land.offsets_topic_source import *;"
        "work = pickle.loads(sys.stdin.buffer.read()); next(read_span(work, work.spans[0], 512))"
    )
    work = Work("b:1", NO_PROPERTIES, 3.0, (Span(0, 3, 9),))
    done = subprocess.run(
        [sys.executable, "-c", f"import pickle; {script}"], cwd=ROOT, input=pickle.dumps(work), capture_output=True, timeout=60
    )
    explained = explain(RuntimeError(done.stderr.decode()))
    assert explained.startswith("executor on ") and explained.endswith(
        "found no package confluent-kafka, Evenkeel's extra kafka; install it on all executors"
    )


# -- the command line


def settings(*options: str) -> Any:
    return load_settings(parse(["land", *options])[1], ROOT / "conf")


def test_without_input_option_a_live_run_reads_the_cluster_only() -> None:
    assert settings().inputs
    assert settings("--bootstrap-servers", "b:1").inputs == ()
    assert settings("--bootstrap-servers", "b:1", "--input", "f").inputs == ("f",)


def test_properties_go_with_servers() -> None:
    with pytest.raises(UsageError, match=r"^--client-properties needs --bootstrap-servers$"):
        cli.main(["run", "--client-properties", "f"])


def test_missing_confluent_kafka_is_named_with_the_install_command(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['confluent_kafka'] = None; from jobs import cli;"
        "raise SystemExit(cli.console_main(['land', '--bootstrap-servers', 'b:1', '--warehouse', sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "w"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    message = f"evenkeel: land needs the package confluent-kafka, Evenkeel's extra kafka; install it: {sys.executable} -m pip"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{message} install confluent-kafka\n")
    assert not (tmp_path / "w").exists()
