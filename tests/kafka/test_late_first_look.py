"""A cluster that is read for the first time after a topic has grown: nothing false is said of the generations before."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka.admin import NewPartitions

from tests.conftest import Evenkeel
from tests.kafka.broker import Broker
from tests.kafka.conftest import Collect
from tests.kafka.following import wait_for
from tests.kafka.tables import rows

GROUP, TOPIC, PARTITION_COUNT = "before-the-growth", "growing", 3


def rebalance(broker: Broker) -> None:
    """Let a second member come and go."""
    config = {"bootstrap.servers": broker.address, "group.id": GROUP, "partition.assignment.strategy": "range", "log_level": 0}
    first, second = (Consumer({**config, "session.timeout.ms": 6000, "heartbeat.interval.ms": 500}) for _ in range(2))
    first.subscribe([TOPIC])
    wait_for(lambda: first.poll(0.1) is None and len(first.assignment()) == PARTITION_COUNT, "the first member has all partitions")
    second.subscribe([TOPIC])
    wait_for(lambda: (first.poll(0.1), second.poll(0.1)) and second.assignment(), "the second member has a part")
    second.close()
    wait_for(lambda: first.poll(0.1) is None and len(first.assignment()) == PARTITION_COUNT, "the first member has all again")
    first.close()


def test_topic_growth_before_the_first_metadata_snapshot_is_no_fault(
    make_tables: Evenkeel, broker: Broker, collect: Collect, tmp_path: Path
) -> None:
    broker.make_topic(TOPIC, PARTITION_COUNT)
    rebalance(broker)
    for grown in broker.admin.create_partitions([NewPartitions(TOPIC, 2 * PARTITION_COUNT)]).values():
        grown.result()
    assert collect(tmp_path / "collected") == 0
    assert make_tables("run", "--input", tmp_path / "collected", "--warehouse", tmp_path / "warehouse") == 0
    found = {(row["rule_id"], row["severity"]) for row in rows(tmp_path / "warehouse", "findings") if row["group_id"] == GROUP}
    assert found == {("topic_basis_uncertain", "info")}
    audits = [row for row in rows(tmp_path / "warehouse", "generation_audits") if row["group_id"] == GROUP]
    generations = {row["generation"]: row["conformance"] for row in audits if row["basis"] == "recomputed"}
    assert set(generations.values()) <= {"exact", "not_comparable"} and len(generations) >= PARTITION_COUNT
    pauses = [row["pause_partition_ms"] for row in audits if row["basis"] == "observed"]
    assert all(pause in (None, 0) for pause in pauses), pauses
