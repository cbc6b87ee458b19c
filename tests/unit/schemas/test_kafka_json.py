"""Kafka's JSON form of records back into bytes: those that Kafka's own classes wrote, and those of the recorded cluster."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from schemas.wire import VALUE_DECODERS, decode_assignment, decode_key, decode_subscription
from schemas.wire.kafka_json import encode_assignment, encode_key, encode_subscription, encode_value
from schemas.wire.record_fields import GROUP_METADATA, OFFSET_COMMIT

ROOT = Path(__file__).parents[3]
VECTORS = [json.loads(line) for line in (ROOT / "tests/golden/wire.jsonl").read_text(encoding="utf-8").splitlines()]


def of_type(*names: str) -> list[dict[str, Any]]:
    return [vector for vector in VECTORS if vector["type"] in names]


def of_known_types(part: str) -> list[dict[str, Any]]:
    """Return the vectors of keys, or of values, of all types that are decoded."""
    return [vector for vector in VECTORS if vector["type"].endswith(part) and vector.get("record_type") in VALUE_DECODERS]


def test_encoded_keys_equal_kafkas_bytes() -> None:
    vectors = of_known_types("Key")
    assert {vector["record_type"] for vector in vectors} == set(VALUE_DECODERS) and len(vectors) == 80
    for vector in vectors:
        assert encode_key(vector["record_type"], vector["fields"]) == base64.b64decode(vector["bytes_b64"]), vector["id"]


def test_encoded_values_of_every_version_equal_kafkas_bytes() -> None:
    vectors = of_known_types("Value")
    versions = {(vector["record_type"], vector["version"]) for vector in vectors}
    assert versions == {(kind, version) for kind in VALUE_DECODERS for version in range(5 if kind in (1, 2) else 1)}
    for vector in vectors:
        encoded = encode_value(vector["record_type"], vector["version"], vector["fields"])
        assert encoded == base64.b64decode(vector["bytes_b64"]), vector["id"]


def entries(named: list[list[Any]]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": [number]} for topic, number in named]


def test_subscriptions_and_assignments_are_read_as_kafkas() -> None:
    """Each version of a subscription is known by its fields; all versions of an assignment have the same."""
    subscriptions, assignments = of_type("ConsumerProtocolSubscription"), of_type("ConsumerProtocolAssignment")
    versions = Counter(vector["version"] for vector in subscriptions if "fields" in vector)
    assert set(versions) == set(range(4))
    for vector in (*subscriptions, *assignments):
        if "fields" not in vector:
            continue
        fields, expected = vector["fields"], base64.b64decode(vector["bytes_b64"])
        if vector in assignments:
            printed = {"assignedPartitions": entries(fields["partitions"]), "userData": fields["user_data_b64"]}
            assert decode_assignment(encode_assignment(printed))[1:] == decode_assignment(expected)[1:], vector["id"]
            continue
        printed = {"topics": fields["topics"], "userData": fields["user_data_b64"], "ownedPartitions": entries(fields["owned"])}
        printed |= {"generationId": -1 if fields["generation"] is None else fields["generation"], "rackId": fields["rack"]}
        printed = dict(list(printed.items())[: 2 + vector["version"]])
        ours, kafkas = decode_subscription(encode_subscription(printed)), decode_subscription(expected)
        assert ours._replace(topics=(), owned=()) == kafkas._replace(topics=(), owned=()), vector["id"]
        assert sorted(ours.topics) == sorted(kafkas.topics)
        assert {topic: sorted(numbers) for topic, numbers in ours.owned} == {topic: sorted(numbers) for topic, numbers in kafkas.owned}


def printed(name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file that the tool printed, with nothing between them."""
    with gzip.open(ROOT / "tests/golden" / name, "rt", encoding="utf-8") as file:
        text, at, decoder = file.read(), 0, json.JSONDecoder()
    while at < len(text):
        record, at = decoder.raw_decode(text, at)
        yield record
        at += len(text[at:]) - len(text[at:].lstrip()) if text[at : at + 1].isspace() else 0


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [("capture_group_metadata_formatter.jsonl.gz", GROUP_METADATA, 324), ("capture_offsets_formatter.jsonl.gz", OFFSET_COMMIT, 223)],
)
def test_printed_records_encode_to_the_records_of_the_log(name: str, kind: int, count: int) -> None:
    """Record by record of each group, but for the last ones of those in which the tools themselves read: ``console-consumer-*``."""
    ours, logged = defaultdict(list), defaultdict(list)
    for record in printed(name):
        key = encode_key(record["key"]["type"], record["key"]["data"])
        value = record["value"] and encode_value(kind, record["value"]["version"], record["value"]["data"])
        ours[decode_key(key).group_id].append((key, value))
    for row in sorted(pq.read_table(ROOT / "tests/golden/capture/consumer_offsets.parquet").to_pylist(), key=lambda row: row["offset"]):
        key = decode_key(row["key"])
        if key.record_type == kind:
            logged[key.group_id].append((row["key"], row["value"]))
    assert sum(map(len, ours.values())) == count
    assert sum(map(len, logged.values())) - count == (4 if kind == GROUP_METADATA else 0)
    assert ours.keys() <= logged.keys()
    for group, records in logged.items():
        assert ours[group] == (records[: len(ours[group])] if group.startswith("console-consumer-") else records), group


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"generation": None}, "generation: expected a whole number, found None"),
        ({"generation": True}, "generation: expected a whole number, found True"),
        ({"generation": 2**31}, "generation: "),
        ({"protocolType": 7}, "protocolType: expected a string, found 7"),
        ({"members": {}}, "members: expected a list"),
        ({"members": [{"memberId": "m"}]}, "members: groupInstanceId is missing"),
        ({"members": [None]}, "members: "),
        ({"leader": "x" * 40_000}, "leader: "),
    ],
)
def test_wrong_or_missing_json_field_is_named(changes: dict[str, Any], said: str) -> None:
    sound = {"protocolType": "consumer", "generation": 1, "protocol": None, "leader": None, "currentStateTimestamp": 1, "members": []}
    encode_value(GROUP_METADATA, 3, sound)
    with pytest.raises(ValueError, match=f"^{said}"):
        encode_value(GROUP_METADATA, 3, sound | changes)
    with pytest.raises(ValueError, match="is missing"):
        encode_value(GROUP_METADATA, 3, {name: field for name, field in sound.items() if name not in changes})


@pytest.mark.parametrize("version", [-1, 5, None, True, "3"])
def test_unknown_record_version_is_refused(version: Any) -> None:
    with pytest.raises(ValueError, match="expected 0 to 4"):
        encode_value(OFFSET_COMMIT, version, {})


@pytest.mark.parametrize("record_type", [9, 2.0, 1.0, True, "2", "\ud800", None, "x" * 100_000])
def test_unknown_record_type_is_refused(record_type: Any) -> None:
    with pytest.raises(ValueError, match="found record type ") as raised:
        encode_key(record_type, {"group": "g"})
    assert len(str(raised.value).encode()) < 300


@pytest.mark.parametrize("topic_id", ["AAAA", 7, None, "*" * 22])
def test_a_topic_id_is_22_characters(topic_id: Any) -> None:
    commit = {"offset": 1, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 1}
    with pytest.raises(ValueError, match="topicId"):
        encode_value(OFFSET_COMMIT, 4, commit | {"topicId": topic_id})
