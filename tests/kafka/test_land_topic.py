"""A live cluster as an input of landing: every record once, whatever ends a run, and no secret anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import cli
from jobs.brokers.client_properties import ClientProperties
from jobs.brokers.live_input import LiveInput, Reading
from jobs.land.offsets_topic_source import read_offsets_topic
from jobs.runtime.errors import GateFailedError
from schemas.wire.keys import OFFSETS_TOPIC
from tests.builders.tables import COMPARED, content, rows
from tests.conftest import Evenkeel
from tests.kafka.broker import USERS, Broker
from tests.kafka.conftest import Collect, History
from tests.kafka.groups import Commits, Transactions
from tests.kafka.log_files import Record, read_topic
from tests.kafka.logins import LOGIN, allowed, log_in

MEMORY_MB = 64
"""The least that settings allow."""


class Live:
    """Lands the broker's log into one warehouse."""

    def __init__(self, make_tables: Evenkeel, broker: Broker, warehouse: Path) -> None:
        self._make_tables, self._broker, self.warehouse = make_tables, broker, warehouse

    def land(self, *options: str | Path) -> int:
        """Return the exit code of one run."""
        return self._make_tables("land", "--bootstrap-servers", self._broker.address, "--warehouse", self.warehouse, *options)

    def last(self) -> dict[str, Any]:
        """Return the newest row of ``runs``, its maps as dicts."""
        newest = max(rows(self.warehouse, "runs"), key=lambda row: row["run_sequence"])
        return {name: dict(value) if isinstance(value, list) and name != "gates" else value for name, value in newest.items()}

    def next_offsets(self) -> dict[int, int]:
        """Return where the last run says that reading goes on."""
        return {int(key.rsplit(" ", 1)[1]): offset for key, offset in self.last()["positions"].items()}


@pytest.fixture
def live(make_tables: Evenkeel, broker: Broker, history: History, tmp_path: Path) -> Live:
    return Live(make_tables, broker, tmp_path / "warehouse")


def in_log(broker: Broker) -> list[Record]:
    return read_topic(broker.log, OFFSETS_TOPIC).committed


# -- what lands


def test_live_landing_gives_the_rows_of_a_collection(
    live: Live, collect: Collect, make_tables: Evenkeel, broker: Broker, tmp_path: Path
) -> None:
    captures, warehouse = tmp_path / "captures", tmp_path / "collected"
    assert live.land() == 0
    assert collect(captures) == 0
    assert make_tables("land", "--input", captures, "--warehouse", warehouse) == 0
    (of_captures,) = rows(warehouse, "runs")
    counts = live.last()["input_counts"]
    assert counts == dict(of_captures["input_counts"])
    assert counts["consumer-offsets.read"] == len(in_log(broker)) > 0
    for name in COMPARED:
        if name != "topic_snapshots":
            assert content(live.warehouse, name) == content(warehouse, name), name
    live_looks, captured_looks = (
        {(row["topic"], row["fingerprint"], row["cluster_id"]) for row in rows(folder, "topic_snapshots")}
        for folder in (live.warehouse, warehouse)
    )
    assert live_looks == captured_looks
    assert len({row["observed_at"] for row in rows(live.warehouse, "topic_snapshots")}) == 2
    assert dict(of_captures["positions"]) == {}


def test_next_live_landing_reads_only_new_records(live: Live, broker: Broker, commits: Commits) -> None:
    assert live.land() == 0
    before = len(rows(live.warehouse, "offset_snapshots"))
    for number in range(7):
        commits.commit(number % 4, number, "more")
    assert live.land() == 0
    counts = live.last()["input_counts"]
    assert (counts["consumer-offsets.read"], counts["consumer-offsets.landed"], counts["duplicate"]) == (7, 7, 0)
    assert len(rows(live.warehouse, "offset_snapshots")) == before + 7
    positions = live.last()["positions"]
    assert live.land() == 0
    assert "consumer-offsets.read" not in live.last()["input_counts"], "nothing was new"
    assert live.last()["positions"] == positions and len(positions) == 50


@pytest.fixture
def transactions(broker: Broker, history: History) -> Iterator[Transactions]:
    producer = Transactions(broker.address, "of-a-test")
    yield producer
    producer.close()


@pytest.mark.slow
def test_an_open_transaction_waits_for_a_later_run(live: Live, broker: Broker, commits: Commits, transactions: Transactions) -> None:
    assert live.land() == 0
    transactions.begin(0, 1, "open")
    commits.commit(1, 1, "behind")
    assert live.land() == 0
    first = live.last()["input_counts"].get("consumer-offsets.read", 0)
    transactions.end(commits=True)
    assert live.land() == 0
    assert first + live.last()["input_counts"]["consumer-offsets.read"] == 2
    notes = {(row["metadata"] or "").removesuffix("\0") for row in rows(live.warehouse, "offset_snapshots")}
    assert {"open", "behind"} <= notes
    looks = [row for row in rows(live.warehouse, "topic_snapshots") if row["topic"] == OFFSETS_TOPIC]
    last = max(looks, key=lambda row: row["observed_at"])
    ends = {partition["partition"]: partition["end_offset"] for partition in last["partitions"]}
    assert live.next_offsets() == ends, "markers of transactions have been read too"


@pytest.mark.slow
def test_live_records_and_captures_are_counted_together(live: Live, history: History, broker: Broker) -> None:
    assert live.land("--input", history.folder) == 0
    counts = live.last()["input_counts"]
    captured = len(history.log.committed)
    assert (counts["consumer-offsets.read"], counts["consumer-offsets.duplicate"]) == (captured + len(in_log(broker)), captured)


@pytest.mark.slow
def test_a_cluster_under_another_name_is_read_from_its_beginning(live: Live, broker: Broker) -> None:
    assert live.land() == 0
    assert live.land("--cluster-id", "other name") == 0
    assert live.last()["input_counts"]["consumer-offsets.landed"] == len(in_log(broker))
    assert len(live.last()["positions"]) == 100
    assert live.land("--cluster-id", "other name") == 0
    assert "consumer-offsets.read" not in live.last()["input_counts"]
    assert {row["cluster_id"] for name in ("topic_snapshots", "offset_snapshots") for row in rows(live.warehouse, name)} >= {"other name"}


# -- whatever ends a run


def refused(*_: Any) -> None:
    raise GateFailedError("a gate of a test")


def killed(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["refused", "killed"])
def test_a_run_that_is_not_published_loses_and_doubles_nothing(
    ending: str, live: Live, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert live.land() == 0
    before = {name: content(live.warehouse, name) for name in COMPARED}
    positions = live.last()["positions"]
    commits.commit(0, 1, ending)
    with monkeypatch.context() as patched:
        if ending == "refused":
            patched.setattr("jobs.gates.check_quarantine", refused)  # the gates themselves are left out here
        else:  # the tables are written, and nobody takes them back or writes the run's row
            patched.setattr("jobs.pipeline._close", killed)
            patched.setattr("jobs.pipeline._undo", lambda *_: None)
        assert live.land() != 0
    assert content(live.warehouse, "offset_snapshots") != before["offset_snapshots"] or ending == "refused"
    assert live.last()["positions"] == positions
    assert live.land() == 0
    counts = live.last()["input_counts"]
    assert (counts["consumer-offsets.read"], counts["consumer-offsets.landed"]) == (1, 1)
    assert len(content(live.warehouse, "offset_snapshots")) == len(before["offset_snapshots"]) + 1


@pytest.mark.slow
def test_a_retry_under_the_same_name_does_nothing(live: Live, commits: Commits) -> None:
    assert live.land("--run-id", "r") == 0
    published = rows(live.warehouse, "runs")
    commits.commit(0, 1, "in between")
    assert live.land("--run-id", "r") == 0
    assert rows(live.warehouse, "runs") == published


# -- on the executors


def reading(broker: Broker, properties: ClientProperties, servers: str | None = None) -> Reading:
    cluster = LiveInput(servers or broker.address, properties, lambda: datetime.now(timezone.utc))
    return cluster.begin({}, None, None)


def test_each_partition_of_the_topic_is_a_partition_of_spark(spark: SparkSession, broker: Broker, history: History) -> None:
    records = read_offsets_topic(spark, reading(broker, ClientProperties({}, {})).work, MEMORY_MB)
    found = records.groupBy(F.spark_partition_id().alias("task"), "partition").count().collect()
    counts = {row["partition"]: row["count"] for row in found}
    log = in_log(broker)
    assert counts == {number: sum(record.partition == number for record in log) for number in {record.partition for record in log}}
    assert len({row["task"] for row in found}) == len(found) > 1
    assert records.rdd.getNumPartitions() == len(reading(broker, ClientProperties({}, {})).work.spans)


# -- secrets


def test_secret_is_in_no_plan_log_line_or_file(
    spark: SparkSession, live: Live, broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In no plan, in nothing that Spark's UI or event log shows, in no log line, and in nothing that the run writes."""
    secret, file = USERS["reader"], tmp_path / "client.properties"
    file.write_text(f"{LOGIN}sasl.username=reader\nsasl.password={secret}\n")
    monkeypatch.setattr(broker, "address", broker.login_address)
    with allowed(broker, "reader", AclOperation.READ):
        assert live.land("--client-properties", file) == 0
        assert live.last()["input_counts"]["consumer-offsets.read"] > 0
        work = reading(broker, cli.read_client_properties(file, {})).work
        read_offsets_topic(spark, work, MEMORY_MB).explain("extended")
        read_offsets_topic(spark, work, MEMORY_MB).explain("cost")
    printed = capfd.readouterr()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    shown = "\n".join(executions.apply(number).physicalPlanDescription() for number in range(executions.size()))
    plans = printed.out + printed.err + shown
    assert "evenkeel_offsets_topic" in printed.out and "evenkeel_offsets_topic" in shown, "nothing was looked at"
    in_bytes = re.compile(r"\b" + r",\s*".join(map(str, secret.encode())) + r"\b")
    assert secret not in plans and not in_bytes.search(plans)
    files = [path for path in live.warehouse.rglob("*") if path.is_file()]
    assert len(files) > 20 and [path for path in files if secret.encode() in path.read_bytes()] == []


# -- refused, before anything is made


@pytest.fixture
def refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Lands what cannot be read, and returns the line that says so."""
    monkeypatch.setattr("jobs.brokers.live_input.TIMEOUT_SECONDS", 2.0)

    def land(servers: str, *options: str | Path) -> str:
        warehouse = tmp_path / "refused"
        code = cli.console_main(["land", "--bootstrap-servers", servers, "--warehouse", str(warehouse), *map(str, options)])
        printed = capsys.readouterr()
        assert (code, printed.out, warehouse.exists()) == (2, "", False), printed
        (line,) = printed.err.splitlines()
        return line

    return land


def test_unreachable_broker_is_refused(refusal) -> None:
    assert refusal("127.0.0.1:9").startswith("evenkeel: 127.0.0.1:9: no broker can be reached (")


def test_wrong_password_is_refused(refusal, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{LOGIN}sasl.username=reader\nsasl.password=wrong-password\n")
    line = refusal(broker.login_address, "--client-properties", file)
    assert f"evenkeel: {broker.login_address}: the connection is refused: " in line and "wrong-password" not in line


@pytest.mark.parametrize("right", [None, AclOperation.DESCRIBE])
def test_user_without_read_right_is_refused(
    refusal, right: AclOperation | None, broker: Broker, history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    log_in(monkeypatch, file, "stranger")
    with allowed(broker, "stranger", right or AclOperation.DESCRIBE_CONFIGS):
        line = refusal(broker.login_address, "--client-properties", file)
    assert line.startswith(f"evenkeel: {broker.login_address}: no right to read the topic {OFFSETS_TOPIC}; ")
