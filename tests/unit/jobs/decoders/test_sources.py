"""What becomes of one input record: its one outcome, and the row that lands."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given

from jobs.decoders import cluster_metadata, consumer_offsets, formatter_json
from jobs.decoders.decoded import DETAIL_BYTES, LAST_MS, PAYLOAD_BYTES, micros, quarantined
from schemas.vocabulary import Outcome
from tests.builders import records

TARGETS = {"group_record", "snapshot", "offset_commit", "look"}


def decode(key: bytes | None, value: bytes | None, partition: int | None = 3, offset: int | None = 9, at_ms: int = 1_000) -> dict:
    return consumer_offsets.decode_record(key, value, partition, offset, at_ms)


def assert_has_one_outcome(row: dict[str, Any]) -> None:
    """Check that a row is exactly one of landed, skipped and quarantined, with all that belongs to it and nothing else."""
    targets = TARGETS & row.keys()
    assert row["outcome"] in {"landed", "skipped", "quarantined"}
    assert row["kind"]
    if row["kind"].startswith("classic_group_metadata:"):  # a group of another protocol type is skipped, and noted as one
        assert (row["outcome"], targets) == (Outcome.SKIPPED.value, {"group_record"})
    else:
        assert (len(targets) == 1) == (row["outcome"] == Outcome.LANDED.value)
    reasons = {name for name in ("reason", "detail", "payload", "payload_hash") if row.get(name) is not None}
    assert reasons == ({"reason", "detail", "payload", "payload_hash"} if row["outcome"] == Outcome.QUARANTINED.value else set())
    assert all(row[name].get("fingerprint") for name in targets)


@given(records.raw_records())
def test_any_record_has_exactly_one_outcome(record: tuple) -> None:
    assert_has_one_outcome(consumer_offsets.decode_record(*record))


@given(records.lines(json.loads(records.record_line())))
def test_any_line_of_records_has_exactly_one_outcome(line: bytes) -> None:
    assert_has_one_outcome(consumer_offsets.decode_line(line))


@given(records.lines(records.look()))
def test_any_line_of_cluster_metadata_has_one_outcome_per_topic(line: bytes) -> None:
    rows = list(cluster_metadata.decode_line(line))
    assert rows
    for row in rows:
        assert_has_one_outcome(row)


FORMATTED = {
    "key": {"type": 2, "data": {"group": "g"}},
    "value": {
        "version": 3,
        "data": {
            **{"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "a", "currentStateTimestamp": 1},
            "members": [
                {
                    **{"memberId": "a", "groupInstanceId": None, "clientId": "c", "clientHost": "/h", "rebalanceTimeout": 1},
                    **{"sessionTimeout": 1, "subscription": base64.b64encode(records.subscription("t")).decode(), "assignment": ""},
                }
            ],
        },
    },
}


@given(records.lines(FORMATTED))
def test_any_printed_object_has_exactly_one_outcome(line: bytes) -> None:
    assert formatter_json.decode_object(json.dumps(FORMATTED).encode(), 1)["outcome"] == "landed"
    row = formatter_json.decode_object(line, 1)
    assert_has_one_outcome(row)
    assert_is_text(row.get("detail"))


@pytest.mark.parametrize(
    "following",
    [
        b"Processed a total of 3 messages\n",
        b"\r\nProcessed a total of 3 messages\r\n",
        b'\n[2025-03-01 10:00:30,123] ERROR {"x": 1} (a.B$)\njava.util.concurrent.TimeoutException\n\tat a.B.c(B.java:1)\n',
        b"\nV\xe9rifi\xe9\n",
        b"\ncommand terminated with exit code 1\n",
    ],
)
def test_stderr_lines_after_a_printed_object_are_ignored(following: bytes) -> None:
    printed = json.dumps(FORMATTED).encode()
    assert formatter_json.decode_object(printed + following, 1) == formatter_json.decode_object(printed, 1)


@pytest.mark.parametrize("following", [b"}", b'\n"leaderEpoch":0}', b'\n{"type":1}'])
def test_printed_object_followed_by_other_text_is_quarantined(following: bytes) -> None:
    row = formatter_json.decode_object(json.dumps(FORMATTED).encode() + following, 1)
    assert row["reason"] == "malformed_object"
    assert row["detail"].endswith(f"text after the object that is not a line of stderr: {following.decode().strip()!r}")


def assert_is_text(detail: str | None) -> None:
    """Check that a column can hold a detail."""
    assert detail is None or len(detail.encode()) <= DETAIL_BYTES


def test_a_detail_is_cut_where_it_is_too_long_and_escaped_where_no_column_can_hold_it() -> None:
    assert quarantined("kind", "reason", "found \ud800", b"")["detail"] == "found \\ud800"
    assert quarantined("kind", "reason", "x" + "é" * DETAIL_BYTES, b"")["detail"] == "x" + "é" * (DETAIL_BYTES // 2 - 1)


# -- raw records


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param(records.group_key("g"), records.group_value(0), ("landed", "classic_group_metadata"), id="an empty group"),
        pytest.param(
            records.group_key("g"), records.group_value(0, protocol_type=""), ("landed", "classic_group_metadata"), id="a new group"
        ),
        pytest.param(
            records.group_key("g"),
            records.group_value(3, protocol_type="connect"),
            ("skipped", "classic_group_metadata:connect"),
            id="a group of another protocol",
        ),
        pytest.param(records.group_key("g"), None, ("landed", "classic_group_metadata_tombstone"), id="the end of a classic group"),
        pytest.param(records.group_key("g", 3), None, ("landed", "consumer_group_metadata_tombstone"), id="the end of a consumer group"),
        pytest.param(
            records.group_key("g", 3), b"\0\0\0\0\0\5\0", ("landed", "consumer_group_metadata"), id="an epoch of a consumer group"
        ),
        pytest.param(records.group_key("g", 3), b"\0\0", ("quarantined", "consumer_group_metadata"), id="an epoch cut short"),
        pytest.param(records.group_key("g", 17), b"\0\0", ("skipped", "streams_group_metadata"), id="an epoch of a Streams group"),
        pytest.param(records.commit_key("g", "t", 0), records.commit_value(5, 1), ("landed", "offset_commit"), id="a commit"),
        pytest.param(records.commit_key("g", "t", 0), None, ("landed", "offset_commit_tombstone"), id="a commit deleted"),
        pytest.param(b"\x00\x63", b"", ("skipped", "unknown_99"), id="a type of a later release"),
    ],
)
def test_every_kind_of_record_has_its_outcome(key: bytes, value: bytes | None, expected: tuple[str, str]) -> None:
    row = decode(key, value)
    assert (row["outcome"], row["kind"]) == expected
    assert row["source_position"] == "3@9"


@pytest.mark.parametrize(
    ("arguments", "kind", "reason", "detail"),
    [
        pytest.param((None, b"v"), "no_key", "missing_key", "found a record without a key", id="no key"),
        pytest.param((b"k", b"v", None, 9), "no_position", "missing_position", "found partition None, offset 9, expected", id="no place"),
        pytest.param((b"k", b"v", 3, -1), "no_position", "missing_position", "found partition 3, offset -1, expected", id="negative"),
        pytest.param(
            (b"k", b"v", 3, 2**63 - 1), "no_position", "offset_out_of_range", f"found offset {2**63 - 1}, expected at most", id="too large"
        ),
        pytest.param((b"\0", b""), "unreadable_key", "truncated", "key: ", id="a key that ends early"),
        pytest.param((b"\0\x02", b"", 3, 9), "unreadable_key", "truncated", "key: ", id="a key without group"),
        pytest.param(
            (records.commit_key("g", "t", 0), b"\0\x03\0"), "offset_commit", "truncated", "group 'g', ", id="a value that ends early"
        ),
        pytest.param(
            (records.group_key("g"), records.group_value(1, records.group_member("a", b"\0", b""))),
            "classic_group_metadata",
            "truncated",
            "group 'g', member 'a': ",
            id="one unreadable subscription",
        ),
        pytest.param(
            (records.commit_key("g", "t", 0), None, 3, 9, LAST_MS),
            "offset_commit",
            "timestamp_out_of_range",
            f"found {LAST_MS} ms, expected a time from 1970 to 2200",
            id="a time after 2199",
        ),
        pytest.param(
            (records.commit_key("g", "t", -5), records.commit_value(5, 1)),
            "offset_commit",
            "negative_partition",
            "group 'g', topic 't': found partition -5, expected 0 or more",
            id="a commit for no partition",
        ),
        pytest.param(
            (records.commit_key("g", "t", -1), None), "offset_commit", "negative_partition", "group 'g', topic 't'", id="nor its end"
        ),
        pytest.param(
            (records.group_key("g"), records.group_value(-(2**31))),
            "classic_group_metadata",
            "negative_generation",
            f"group 'g': found generation {-(2**31)}, expected 0 or more",
            id="a generation below 0",
        ),
        pytest.param(
            (records.group_key("g", 3), b"\0\0\xff\xff\xff\xff\0"),
            "consumer_group_metadata",
            "negative_generation",
            "group 'g': found generation -1",
            id="an epoch below 0",
        ),
        pytest.param(
            (records.group_key("g", 6), b"\0\0\x80\0\0\0\0"),
            "consumer_group_target_assignment_metadata",
            "negative_generation",
            f"group 'g': found generation {-(2**31)}",
            id="a target of an epoch below 0",
        ),
        pytest.param(
            (records.group_key("g"), None, 3, 9, -1), "classic_group_metadata", "timestamp_out_of_range", "found -1 ms", id="no time"
        ),
    ],
)
def test_unusable_record_is_quarantined_with_its_reason(arguments: tuple, kind: str, reason: str, detail: str) -> None:
    row = decode(*arguments)
    assert (row["outcome"], row["kind"], row["reason"]) == ("quarantined", kind, reason)
    assert row["detail"].startswith(detail)
    assert row["source_position"], "quarantine finds a record by its place"


def test_a_snapshot_row_has_all_that_is_needed_to_compute_it_again() -> None:
    subscribed = records.subscription("t", "u", "t", t=[1, 0], generation=4)
    members = (
        records.group_member("a", subscribed, records.assignment(t=[1, 0], u=[2]), instance_id="i"),
        records.group_member("b", records.subscription("t", version=0), b""),
    )
    snapshot = decode(records.group_key("grüppe"), records.group_value(5, *members, at_ms=900))["snapshot"]
    first, second = snapshot.pop("members")
    assert snapshot == {
        "group_id": "grüppe", "generation": 5, "observed_at": 1_000_000, "position": 9, "group_type": "classic",
        "protocol_type": "consumer", "state": "Stable", "strategy": "range", "leader_member_id": "a", "joined_at": 900_000,
        "offsets_partition": 3, "leader_client": "java",
        "fingerprint": hashlib.sha256(records.group_value(5, *members, at_ms=900)).hexdigest(),
    }  # fmt: skip
    assert first == {
        "member_id": "a", "group_instance_id": "i", "client_id": "client-a", "client_host": "/10.0.0.1", "rack": "r1",
        "session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000, "topics": ["t", "u", "t"], "subscription_version": 3,
        "owned": [{"topic": "t", "partitions": [1, 0]}], "owned_generation": 4, "user_data": b"u",
        "assigned": [{"topic": "t", "partitions": [1, 0]}, {"topic": "u", "partitions": [2]}],
    }  # fmt: skip
    assert (second["assigned"], second["owned"], second["owned_generation"], second["rack"]) == ([], [], None, None)


def test_an_empty_group_says_so() -> None:
    snapshot = decode(records.group_key("g"), records.group_value(4, at_ms=-1))["snapshot"]
    assert (snapshot["state"], snapshot["strategy"], snapshot["members"], snapshot["joined_at"]) == ("Empty", None, [], None)


def test_offset_commit_row_has_its_fields_and_deletions() -> None:
    commit = decode(records.commit_key("g", "t", 2), records.commit_value(2**53 + 1, 800))["offset_commit"]
    content = {"group_id": "g", "topic": "t", "partition": 2, "position": 9, "observed_at": 1_000_000, "offsets_partition": 3}
    assert commit.items() >= {**content, "committed_offset": 2**53 + 1, "leader_epoch": 7, "metadata": "m", "committed_at": 800_000}.items()
    assert commit["is_deleted"] is False
    deleted = decode(records.commit_key("g", "t", 2), None)["offset_commit"]
    assert deleted == {**content, "is_deleted": True, "fingerprint": hashlib.sha256(b"").hexdigest()}


def test_a_tombstone_row_keeps_type_and_key() -> None:
    key = records.group_key("g", 3)
    row = decode(key, None)["group_record"]
    assert (row["type"], row["group_id"], row["key"], row["value"], row["offset"], row["offsets_partition"]) == (3, "g", key, None, 9, 3)


# -- lines of records


def test_record_line_is_decoded_like_its_record() -> None:
    record = json.loads(records.record_line())
    key, value = (base64.b64decode(record[name]) for name in ("key_b64", "value_b64"))
    assert consumer_offsets.decode_line(records.record_line().encode()) == decode(key, value)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("{", id="no JSON"),
        pytest.param(b'{"partition\xff": 3}', id="no UTF-8"),
        pytest.param(b"\xed\xa0\x80", id="half a surrogate pair"),
        pytest.param("[1]", id="no object"),
        pytest.param('"text"', id="a string"),
        pytest.param("[" * 200_000, id="nested too deep"),
        pytest.param(records.record_line(key_b64="%%%"), id="no base64"),
        pytest.param(records.record_line(key_b64=7), id="a number for a key"),
        pytest.param(records.record_line(offset=1e400), id="an infinite offset"),
        pytest.param(records.record_line(offset=2**63), id="an offset that no column holds"),
        pytest.param(records.record_line(partition=2**31), id="a partition that no column holds"),
        pytest.param(records.record_line(partition="3"), id="a string for a partition"),
        pytest.param(records.record_line(partition=True), id="a boolean for a partition"),
        pytest.param(records.record_line(offset=1.5), id="half an offset"),
        pytest.param(json.dumps({"key_b64": None, "value_b64": None}), id="no place"),
    ],
)
def test_malformed_record_line_is_quarantined_with_its_reason(line: str | bytes) -> None:
    line = line.encode() if isinstance(line, str) else line
    row = consumer_offsets.decode_line(line)
    assert (row["outcome"], row["kind"], row["reason"]) == ("quarantined", "unreadable_line", "malformed_line")
    assert row["payload"] == line[:PAYLOAD_BYTES]
    assert row["payload_hash"] == hashlib.sha256(line).hexdigest()
    assert "source_position" not in row, "the caller knows file and line"


# -- looks


def test_metadata_snapshot_is_one_row_per_topic() -> None:
    sound = records.look()
    sound["topics"].append({"topic": "u", "partitions": []})
    first, second = cluster_metadata.decode_line(json.dumps(sound).encode())
    look = first["look"]
    assert first.keys() >= {"outcome", "kind", "look"}
    assert (first["source_position"], first["cluster_id"]) == ("1000 t", "own")
    assert (look["topic"], look["observed_at"], look["topic_id"], look["partition_count"]) == ("t", 1_000_000, "AAAAAAAAAAEAAAAAAAAAAg", 2)
    assert look["partitions"] == [
        {"partition": 0, "leader": 1, "leader_rack": "r1", "replica_racks": ["r1", None, None], "begin_offset": 3, "end_offset": 2**53 + 1},
        {"partition": 1, "leader": -1, "leader_rack": None, "replica_racks": [None], "begin_offset": None, "end_offset": None},
    ]
    assert (second["look"]["partition_count"], second["look"]["topic_id"]) == (0, None)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("AAAAAAAAAAAAAAAAAAAAAA", None),
        ("h4iV23IwTGSB+oQ1ykZb/w", "h4iV23IwTGSB-oQ1ykZb_w"),
        ("h4iV23IwTGSB-oQ1ykZb_w", "h4iV23IwTGSB-oQ1ykZb_w"),
    ],
)
def test_topic_id_is_stored_as_records_have_it(written: str, stored: str | None) -> None:
    """Brokers before 2.8 return zeros for every topic, and librdkafka writes ids in the other Base64 alphabet."""
    topic = {"topic": "t", "topic_id": written, "partitions": []}
    (row,) = cluster_metadata.decode_line(json.dumps(records.look(topics=[topic])).encode())
    assert row["look"]["topic_id"] == stored


@pytest.mark.parametrize("unknown", [-1, -1001])
def test_negative_offset_of_the_log_is_null(unknown: int) -> None:
    partition = {"partition": 0, "leader": -1, "begin_offset": unknown, "end_offset": unknown}
    (row,) = cluster_metadata.decode_line(json.dumps(records.look(topics=[{"topic": "t", "partitions": [partition]}])).encode())
    (found,) = row["look"]["partitions"]
    assert (found["begin_offset"], found["end_offset"]) == (None, None)


def test_metadata_snapshot_without_topics_is_skipped_and_counted() -> None:
    (row,) = cluster_metadata.decode_line(json.dumps(records.look(topics=[])).encode())
    assert row == {"outcome": "skipped", "kind": "look_without_topics", "cluster_id": "own", "source_position": "1000"}


def test_metadata_snapshot_without_cluster_id_leaves_it_to_the_capture() -> None:
    (row,) = cluster_metadata.decode_line(json.dumps(records.look(cluster_id=None)).encode())
    assert "cluster_id" not in row


def test_fingerprint_of_topic_metadata_is_of_its_content() -> None:
    def fingerprint(**changes: Any) -> str:
        (row,) = cluster_metadata.decode_line(json.dumps(records.look(**changes)).encode())
        return row["look"]["fingerprint"]

    partitions = records.look()["topics"][0]["partitions"]
    other_id = [{"topic": "t", "topic_id": "other", "partitions": partitions}]
    disordered = [{**records.look()["topics"][0], "partitions": partitions[::-1]}]
    assert fingerprint() == fingerprint(topics=disordered)
    assert fingerprint() != fingerprint(topics=other_id)


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        pytest.param({"observed_at_ms": LAST_MS}, "expected a time from 1970 to 2200", id="a time after 2199"),
        pytest.param({"observed_at_ms": 1e400}, "found inf", id="an infinite time"),
        pytest.param({"topics": [{"topic": "t", "partitions": [{"partition": 1}]}]}, "found partitions [1], expected 0 to 0", id="a gap"),
        pytest.param({"topics": [{"topic": "\ud800", "partitions": []}]}, "surrogates not allowed", id="half a surrogate pair"),
        pytest.param({"topics": [{"topic": 5, "partitions": []}]}, "expected a string, found 5", id="a number for a topic"),
        pytest.param({"brokers": [{"id": 1, "rack": ["r1"]}]}, "expected a string, found ['r1']", id="a list for a rack"),
        pytest.param({"brokers": None}, "expected a list, found None", id="no brokers"),
        pytest.param({"topics": {}}, "expected a list, found {}", id="topics by name"),
        pytest.param({"topics": [7]}, "TypeError", id="a number for a topic and all it has"),
    ],
)
def test_metadata_line_with_one_mistake_is_quarantined(changes: dict, detail: str) -> None:
    (row,) = cluster_metadata.decode_line(json.dumps(records.look(**changes)).encode())
    assert (row["outcome"], row["kind"], row["reason"]) == ("quarantined", "unreadable_line", "malformed_line")
    assert detail in row["detail"]


# -- what they share


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [(None, None), (-1, None), (0, 0), (1, 1_000), (LAST_MS - 1, (LAST_MS - 1) * 1_000), (LAST_MS, None)],
)
def test_times_outside_1970_to_2200_are_null(milliseconds: int | None, expected: int | None) -> None:
    assert micros(milliseconds) == expected


def test_a_payload_is_cut_but_hashed_whole() -> None:
    payload = b"x" * (PAYLOAD_BYTES + 1)
    row = quarantined("kind", "reason", "detail", payload)
    assert (len(row["payload"]), row["payload_hash"]) == (PAYLOAD_BYTES, hashlib.sha256(payload).hexdigest())


@pytest.mark.parametrize(("topic", "readings"), [("remembered", 1), ("x" * consumer_offsets.REMEMBERED_BYTES, 2)])
def test_equal_member_bytes_are_decoded_once_unless_long(topic: str, readings: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    for name in ("decode_written_subscription", "decode_assignment"):
        decoder = getattr(consumer_offsets, name)
        monkeypatch.setattr(consumer_offsets, name, lambda data, decoder=decoder: read.append(data) or decoder(data))
    subscribed, given = records.subscription(topic), records.assignment(**{topic: [0, 2]})
    rows = [decode(records.group_key("g"), records.group_value(5, records.group_member(member, subscribed, given))) for member in "ab"]
    for row, member_id in zip(rows, "ab", strict=True):
        (member,) = row["snapshot"]["members"]
        assert (member["member_id"], member["topics"]) == (member_id, [topic])
        assert member["assigned"] == [{"topic": topic, "partitions": [0, 2]}]
    assert sorted(read) == sorted([subscribed, given] * readings)


def test_group_of_a_client_whose_layout_is_of_a_lower_version_lands_without_a_leader_client() -> None:
    """kafka-go writes version 1 in the layout of version 0. Its assignment looks as one of Java's."""
    subscribed = b"\0\1" + records.subscription("t", version=0)[2:]
    row = decode(records.group_key("g"), records.group_value(5, records.group_member("a", subscribed, records.assignment(t=[0]))))
    (member,) = row["snapshot"]["members"]
    assert (member["topics"], member["assigned"], member["subscription_version"]) == (["t"], [{"topic": "t", "partitions": [0]}], 1)
    assert (member["owned"], member["owned_generation"], row["snapshot"]["leader_client"]) == ([], None, None)
