"""What is collected, compared with the broker's disk and with what clients received."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.wire.keys import OFFSETS_TOPIC
from tests.kafka import captures
from tests.kafka.broker import RACK, Broker
from tests.kafka.conftest import CLASSIC, COOPERATIVE, MESSAGE_COUNT, STATIC, WITH_MESSAGES, Collect, History
from tests.kafka.groups import PARTITION_COUNT, TOPIC, Commits, Transactions
from tests.kafka.log_files import TopicLog, read_topic


def written(broker: Broker) -> TopicLog:
    return read_topic(broker.log, OFFSETS_TOPIC)


@pytest.fixture(scope="module")
def collected(history: History) -> Path:
    """A folder that was collected into once."""
    return history.folder


def test_every_committed_record_is_there_once(collected: Path, history: History) -> None:
    log = history.log
    assert captures.records(collected) == log.committed
    assert log.aborted and log.markers, "nothing was given up, so nothing was tested"


def test_commits_of_transactions_that_were_given_up_are_absent(collected: Path, history: History) -> None:
    assert captures.notes(collected) == sorted(history.committed)
    assert history.aborted


def test_columns_are_those_of_sparks_kafka_source(collected: Path) -> None:
    (table,) = captures.tables(collected)
    assert {field.name: str(field.type) for field in table.schema} == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int32",
        "offset": "int64",
        "timestamp": "timestamp[us, tz=UTC]",
        "timestampType": "int32",
        "isCommitted": "bool",
    }
    assert set(table["isCommitted"].to_pylist()) == {True}
    assert set(table["topic"].to_pylist()) == {OFFSETS_TOPIC}
    assert set(table["timestampType"].to_pylist()) == {0}, "what Spark calls CreateTime"
    assert table["value"].null_count == sum(record.value is None for record in captures.records(collected))


@pytest.mark.parametrize("group_id", [CLASSIC, COOPERATIVE, STATIC])
def test_members_own_what_their_clients_received(group_id: str, collected: Path, history: History) -> None:
    generations = [row for row in captures.decoded(collected, "snapshot") if row["group_id"] == group_id]
    generations.sort(key=lambda row: row["position"])
    owned = [{member["member_id"]: owned_by(member) for member in row["members"]} for row in generations]
    for client in history.clients[group_id]:
        (member_id,) = client.member_ids
        in_log = [generation[member_id] for generation in owned if member_id in generation]
        assert client.owned_sets and [one for one in client.owned_sets if one not in in_log] == []
    assert owned[-1] == history.owned[group_id]


def owned_by(member: dict) -> frozenset[tuple[str, int]]:
    return frozenset((entry["topic"], partition) for entry in member["assigned"] for partition in entry["partitions"])


def test_a_static_member_comes_back_under_its_name(collected: Path) -> None:
    members = [member for row in captures.decoded(collected, "snapshot") if row["group_id"] == STATIC for member in row["members"]]
    ids = {member["member_id"] for member in members if member["group_instance_id"] == "s1"}
    assert len(ids) == 2


def test_metadata_snapshots_before_and_after_collecting_match_the_broker(collected: Path, broker: Broker, history: History) -> None:
    before, after = captures.looks(collected)
    assert before["observed_at_ms"] <= after["observed_at_ms"]
    (cluster_id,) = re.findall("^cluster.id=(.*)$", (broker.log / "meta.properties").read_text(), re.MULTILINE)
    topic_ids = {
        path.parent.name.rpartition("-")[0]: re.findall("^topic_id: (.*)$", path.read_text(), re.MULTILINE)[0]
        for path in broker.log.glob("*-*/partition.metadata")
        if not path.parent.name.startswith("__cluster_metadata")
    }
    for look in (before, after):
        assert look["cluster_id"] == cluster_id
        assert look["brokers"] == [{"id": 1, "rack": RACK}]
        ids = {topic["topic"]: topic["topic_id"] for topic in look["topics"]}
        assert {TOPIC, OFFSETS_TOPIC} <= ids.keys()
        assert ids.items() <= topic_ids.items()  # brokers make some of their own topics later
        (orders,) = [topic for topic in look["topics"] if topic["topic"] == TOPIC]
        ends = [MESSAGE_COUNT if number == WITH_MESSAGES else 0 for number in range(PARTITION_COUNT)]
        assert orders["partitions"] == [
            {"partition": number, "leader": 1, "replicas": [1], "begin_offset": 0, "end_offset": end} for number, end in enumerate(ends)
        ]
    (offsets,) = [topic for topic in after["topics"] if topic["topic"] == OFFSETS_TOPIC]
    log = history.log
    assert sum(partition["end_offset"] for partition in offsets["partitions"]) == len(log.committed) + len(log.aborted) + log.markers


def test_the_cluster_stays_as_it_is(collect: Collect, broker: Broker, tmp_path: Path) -> None:
    def groups() -> list[str]:
        listed = broker.admin.list_consumer_groups().result()
        assert listed.errors == []
        return sorted(group.group_id for group in listed.valid)

    before = written(broker), groups(), sorted(broker.admin.list_topics().topics)
    assert collect(tmp_path) == 0
    assert (written(broker), groups(), sorted(broker.admin.list_topics().topics)) == before


def test_last_line_of_collect_names_the_next_command(collect: Collect, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a folder"
    assert collect(folder) == 0
    printed = capsys.readouterr()
    count, (name,) = len(captures.records(folder)), [path.name for path in folder.glob("consumer_offsets-*")]
    landed = f"{count:,} records of 50 partitions of {OFFSETS_TOPIC} -> {name} in {folder}"
    assert printed.out == f"{landed}\nevenkeel run --input '{folder}' --warehouse audit\n"
    assert re.fullmatch(rf"evenkeel: cluster \S+: reading \d+ offsets from 50 partitions of {OFFSETS_TOPIC}\n", printed.err)


# -- going on


def test_next_collection_takes_only_new_records(collect: Collect, broker: Broker, commits: Commits, tmp_path: Path) -> None:
    assert collect(tmp_path, "--cluster-id", "prod") == 0
    before = captures.records(tmp_path)
    for number in range(20):
        commits.commit(number % PARTITION_COUNT, number, "more")
    assert collect(tmp_path) == 0
    after = captures.records(tmp_path)
    assert after == written(broker).committed
    assert len(after) == len(before) + 20
    assert {look["cluster_id"] for look in captures.looks(tmp_path)} == {"prod"}, "the folder knows the name"


def test_collection_without_new_records_makes_no_file(collect: Collect, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert collect(tmp_path) == 0
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("consumer_offsets-*")}
    capsys.readouterr()
    assert collect(tmp_path) == 0
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("consumer_offsets-*")} == files
    assert capsys.readouterr().out.startswith(f"0 records of 50 partitions of {OFFSETS_TOPIC} -> no new file in ")


@pytest.fixture
def transactions(broker: Broker, history: History) -> Iterator[Transactions]:
    producer = Transactions(broker.address, "of-a-test")
    yield producer
    producer.close()


def test_open_transaction_is_read_once_it_is_committed(
    collect: Collect, broker: Broker, commits: Commits, transactions: Transactions, tmp_path: Path
) -> None:
    """What comes after it in its partition waits with it, as for every reader of committed records."""
    transactions.begin(0, 1, "open")
    commits.commit(1, 1, "behind")
    assert collect(tmp_path) == 0
    log = written(broker)
    (waiting,) = log.unsettled
    assert captures.records(tmp_path) == [one for one in log.committed if one.partition != waiting.partition or one.offset < waiting.offset]
    transactions.end(commits=True)
    assert collect(tmp_path) == 0
    assert captures.records(tmp_path) == written(broker).committed
    assert {"open", "behind"} <= set(captures.notes(tmp_path))


def test_stored_position_is_after_the_last_transaction_marker(
    collect: Collect, transactions: Transactions, broker: Broker, tmp_path: Path
) -> None:
    """The end of a transaction takes an offset without being a record: a collection must not wait for one there."""
    transactions.begin(0, 1, "last")
    transactions.end(commits=True)
    assert collect(tmp_path) == 0
    (look,) = captures.looks(tmp_path)[-1:]
    (offsets,) = [topic for topic in look["topics"] if topic["topic"] == OFFSETS_TOPIC]
    ends = {str(partition["partition"]): partition["end_offset"] for partition in offsets["partitions"]}
    assert captures.positions(tmp_path)["next_offsets"] == ends


def test_files_are_rolled(collect: Collect, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.collect.folder.FILE_ROWS", 10)
    monkeypatch.setattr("jobs.collect.parquet_file.ROW_GROUP_BYTES", 1)
    monkeypatch.setattr("jobs.brokers.records.BATCH_RECORDS", 7)
    assert collect(tmp_path) == 0
    assert captures.records(tmp_path) == written(broker).committed
    sizes = [table.num_rows for table in captures.tables(tmp_path)]
    assert len(sizes) > 2 and max(sizes) < 10 + 7
