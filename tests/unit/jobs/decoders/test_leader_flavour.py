"""The client library that led a group: in every generation of the recorded capture, and in bytes that are nobody's."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pyarrow.parquet
import pytest

from jobs.decoders import consumer_offsets
from jobs.decoders.leader_client import UserData, leader_flavour
from tests.conftest import ROOT

NULL, EMPTY, BYTES = UserData.NULL, UserData.EMPTY, UserData.BYTES


def kinds_of_members() -> dict[str, str]:
    """Return member id -> the client library that the recorder started it with."""
    with gzip.open(ROOT / "tests" / "golden" / "capture_member_events.jsonl.gz", "rt") as events:
        return {event["member_id"]: event["kind"] for event in map(json.loads, events) if event.get("member_id")}


def test_client_of_every_recorded_leader_is_recognised() -> None:
    kinds = kinds_of_members()
    clients: Counter[tuple[str, str | None]] = Counter()
    for record in pyarrow.parquet.read_table(ROOT / "tests" / "golden" / "capture" / "consumer_offsets.parquet").to_pylist():
        row = consumer_offsets.decode_record(record["key"], record["value"], record["partition"], record["offset"], 0)
        snapshot = row.get("snapshot")
        if snapshot is not None and snapshot["leader_member_id"] in kinds:
            clients[kinds[snapshot["leader_member_id"]], snapshot["leader_client"]] += 1
    assert clients == {
        ("java", "java"): 125,
        ("librdkafka", "librdkafka"): 13,
        ("kafka-python", "kafka-python"): 20,
        ("franz-go", "franz-go"): 30,
        ("sarama", "sarama"): 12,
        ("kafkajs", "kafkajs"): 5,
    }


@pytest.mark.parametrize(
    ("strategy", "subscription_version", "forms"),
    [
        ("range", 3, set()),  # nobody was given anything: an empty generation
        ("range", None, {(3, NULL)}),  # the leader is no member
        ("range", 3, {(3, NULL), (0, NULL)}),
        ("range", 3, {(3, NULL), (3, EMPTY)}),
        ("range", 0, {(0, NULL)}),  # Java before 2.4, and Sarama of old
        ("cooperative-sticky", 1, {(0, NULL)}),
        ("sticky", 1, {(0, NULL), (0, BYTES)}),
        ("sticky", 0, {(0, BYTES)}),
    ],
)
def test_ambiguous_or_unknown_member_bytes_give_no_leader_client(
    strategy: str, subscription_version: int | None, forms: set[tuple[int, UserData]]
) -> None:
    assert leader_flavour(strategy, subscription_version, forms) is None
