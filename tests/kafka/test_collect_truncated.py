"""Records that the cluster removes before they are read: reported, never ignored."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

from jobs import cli
from schemas.wire.keys import OFFSETS_TOPIC
from tests.kafka import captures
from tests.kafka.broker import Broker
from tests.kafka.following import following, wait_for
from tests.kafka.groups import PARTITION_COUNT, TOPIC, Commits

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def own_broker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose log nobody else reads."""
    running = Broker(tmp_path_factory.mktemp("truncated"))
    running.make_topic(TOPIC, PARTITION_COUNT)
    yield running
    running.stop()


@pytest.fixture
def commits(own_broker: Broker) -> Iterator[Commits]:
    group = Commits(own_broker.address, "committing")
    yield group
    group.close()


def keep(broker: Broker, **properties: str) -> None:
    """Set properties of the offsets topic, with underscores for dots."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET) for name, value in properties.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC, incremental_configs=entries)
    for answer in broker.admin.incremental_alter_configs([resource]).values():
        answer.result()


def offsets(broker: Broker, which: OffsetSpec) -> dict[int, int]:
    specs = {TopicPartition(OFFSETS_TOPIC, number): which for number in range(50)}
    return {partition.partition: answer.result().offset for partition, answer in broker.admin.list_offsets(specs).items()}


def remove_all_records(broker: Broker) -> None:
    """Let retention take everything: brokers let nobody delete records of this topic."""
    keep(broker, cleanup_policy="delete", retention_ms="1")
    try:
        wait_for(lambda: offsets(broker, OffsetSpec.earliest()) == offsets(broker, OffsetSpec.latest()), "retention removes all records")
    finally:
        keep(broker, cleanup_policy="compact", retention_ms="-1")


def collect(broker: Broker, folder: Path) -> int:
    return cli.console_main(["collect", "--bootstrap-servers", broker.address, "--output", str(folder)])


def test_records_removed_between_two_collections_are_reported(
    own_broker: Broker, commits: Commits, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    commits.commit(0, 1, "read")
    assert collect(own_broker, tmp_path) == 0
    capsys.readouterr()
    commits.commit(0, 2, "removed")
    remove_all_records(own_broker)
    commits.commit(0, 3, "left")
    assert collect(own_broker, tmp_path) == 0
    assert "are lost: the cluster removed them before they were read" in capsys.readouterr().err
    notes = captures.notes(tmp_path)
    assert "read" in notes and "left" in notes and "removed" not in notes
    assert collect(own_broker, tmp_path) == 0
    assert "lost" not in capsys.readouterr().err


def test_records_removed_while_they_are_read_are_reported(
    own_broker: Broker, commits: Commits, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What was read is in files, the collection ends with 1, and the next one says what is gone."""
    folder = tmp_path / "f"
    commits.commit(0, 4, "before")
    with following(own_broker, folder) as collector:
        wait_for(lambda: "before" in captures.notes(folder), "what came before")
        collector.process.send_signal(signal.SIGSTOP)
        commits.commit(0, 5, "on its way")  # the broker answers the fetch that is waiting
        for number in range(3):
            commits.commit(0, 6 + number, "removed")
        remove_all_records(own_broker)
        commits.commit(0, 9, "after")
        collector.process.send_signal(signal.SIGCONT)
        assert collector.process.wait(60) == 1, collector.output
    assert "before" in captures.notes(folder)
    assert collect(own_broker, folder) == 0
    assert "are lost: the cluster removed them before they were read" in capsys.readouterr().err
    assert "after" in captures.notes(folder) and "removed" not in captures.notes(folder)
