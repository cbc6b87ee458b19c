"""The wire codec against Kafka's own reader: golden vectors, damaged bytes, and hand-made edge cases.

``java_utf8.jsonl`` holds what ``new String(bytes, UTF_8)`` of Java 17 returns; ``wire.jsonl`` is described beside it.
"""

from __future__ import annotations

import json
import pickle
import struct
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.wire import (
    VALUE_DECODERS,
    Key,
    Reason,
    WireError,
    decode_assignment,
    decode_group_metadata,
    decode_key,
    decode_legacy_offset_commit,
    decode_offset_commit,
    decode_subscription,
    decode_value,
    decode_written_subscription,
)
from schemas.wire.consumer_group import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupPartitionMetadata,
    SubscribedTopic,
    TopicIdPartitions,
    decode_consumer_group_member_metadata,
)
from schemas.wire.reader import Reader, java_text
from tests.builders import wire_fields
from tests.builders.wire_fields import unb64

GOLDEN = Path(__file__).parents[2] / "golden"
PROTOCOL = {
    "ConsumerProtocolSubscription": (decode_subscription, wire_fields.subscription),
    "ConsumerProtocolAssignment": (decode_assignment, wire_fields.assignment),
}
DECODERS = [decode_key, decode_subscription, decode_assignment, *VALUE_DECODERS.values()]
# Written by releases before or after the one that made the vectors, which therefore does not know them.
OTHER_RELEASES = {9, 18, 24}


def vectors() -> list[dict]:
    return [json.loads(line) for line in (GOLDEN / "wire.jsonl").read_text().splitlines()]


VECTORS = vectors()


def outcome(vector: dict) -> str:
    """Return what a vector shows; raise AssertionError where the codec and Kafka's reader differ."""
    name = vector["type"]
    if name == "record":
        return record_outcome(vector)
    data = unb64(vector["bytes_b64"])
    if name in PROTOCOL:
        decode, fields = PROTOCOL[name]
        if "error" in vector:
            assert raises(decode, data), vector["id"]
            return "refused"
        message = decode(data)
        assert fields(message) == vector["decoded"], vector["id"]
        assert vector.get("version", message.version) == message.version, vector["id"]
        return "equal"
    record_type = vector["record_type"]
    if name.endswith("Key"):
        assert decode_key(data).record_type == record_type
        assert wire_fields.key(decode_key(data)) == vector["fields"], vector["id"]
        return "equal"
    if record_type not in VALUE_DECODERS:
        return "value not decoded"
    assert wire_fields.VALUE_FIELDS[record_type](VALUE_DECODERS[record_type](data)) == vector["fields"], vector["id"]
    return "equal"


def record_outcome(vector: dict) -> str:
    key, value = unb64(vector["key_b64"]), unb64(vector["value_b64"])
    if raises(decode_key, key):
        assert "error" in vector, vector["id"]
        return "refused"
    decoded = decode_key(key)
    is_unknown = decoded.kind == f"unknown_{decoded.record_type}" or decoded.record_type in OTHER_RELEASES
    assert is_unknown == (vector.get("error") == "UnknownRecordTypeException"), vector["id"]
    if is_unknown:
        return "unknown kind"
    if "decoded" in vector:
        assert wire_fields.key(decoded) == vector["decoded"]["key"], vector["id"]
        if value is None:
            assert vector["decoded"]["value"] is None, vector["id"]
            return "equal"
    if decoded.record_type not in VALUE_DECODERS:
        return "value not decoded"
    decode = VALUE_DECODERS[decoded.record_type]
    if "error" in vector:
        assert raises(decode, value), vector["id"]
        return "refused"
    assert wire_fields.VALUE_FIELDS[decoded.record_type](decode(value)) == vector["decoded"]["value"], vector["id"]
    return "equal"


def raises(decode, data: bytes) -> bool:
    try:
        decode(data)
    except WireError:
        return True
    return False


@pytest.mark.parametrize("name", sorted({vector["type"] for vector in VECTORS if not vector["type"].endswith("StickyUserData")}))
def test_every_vector_is_read_as_kafka_reads_it(name: str) -> None:
    outcomes = Counter(outcome(vector) for vector in VECTORS if vector["type"] == name)
    print(name, dict(outcomes))
    assert sum(outcomes.values()) > 0


def test_no_more_than_share_and_streams_values_are_left_undecoded() -> None:
    values = [vector for vector in VECTORS if vector["type"].endswith("Value")]
    skipped = {vector["type"] for vector in values if outcome(vector) == "value not decoded"}
    assert skipped and all(name.startswith(("ShareGroup", "StreamsGroup")) for name in skipped)


@pytest.mark.parametrize("line", (GOLDEN / "java_utf8.jsonl").read_text().splitlines())
def test_malformed_text_is_replaced_as_java_does(line: str) -> None:
    case = json.loads(line)
    assert java_text(bytes.fromhex(case["bytes"])) == case["text"]


# The bytes are built here by struct and not by the codec.
def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def topics(*entries: tuple[str, list[int]]) -> bytes:
    packed = [text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in entries]
    return struct.pack(">i", len(entries)) + b"".join(packed)


NULL_BYTES = struct.pack(">i", -1)
OWNED = (("t", (1,)),)


def test_a_topic_listed_twice_becomes_one_entry() -> None:
    entries = topics(("b", [3]), ("a", [5, 1]), ("none", []), ("b", [0, 3]))
    merged = (("b", (3, 0, 3)), ("a", (5, 1)))
    assert decode_assignment(b"\0\1" + entries + NULL_BYTES).partitions == merged
    assert decode_subscription(b"\0\1" + topics() + NULL_BYTES + entries).owned == merged


def test_a_subscription_of_a_later_version_is_read_as_version_3() -> None:
    data = struct.pack(">h", 9) + struct.pack(">i", 1) + text("t") + NULL_BYTES + topics(("t", [1])) + struct.pack(">i", 7) + text("r1")
    assert decode_subscription(data + b"later fields") == (9, ("t",), None, (("t", (1,)),), 7, "r1")


def test_a_subscription_as_clients_write_it_may_end_after_each_field() -> None:
    """kafka-go writes version 1, and Faust version 4, in the layout of version 0."""
    data, ends = struct.pack(">hi", 4, 1) + text("t"), []
    for field in (NULL_BYTES, topics(("t", [1])), struct.pack(">i", 7), text("r1")):
        data += field
        ends.append(len(data))
    expected = [(4, ("t",), None, (), None, None), (4, ("t",), None, OWNED, None, None), (4, ("t",), None, OWNED, 7, None)]
    assert [decode_written_subscription(data[:end]) for end in ends[:-1]] == [(one, False) for one in expected]
    assert decode_written_subscription(data + b"later") == ((4, ("t",), None, OWNED, 7, "r1"), True)
    assert all(raises(decode_written_subscription, data[:end]) for end in range(len(data)) if end not in ends)


@pytest.mark.parametrize(("generation", "expected"), [(-1, None), (-7, None), (0, 0), (2**31 - 1, 2**31 - 1)])
def test_a_negative_generation_is_absent(generation: int, expected: int | None) -> None:
    data = b"\0\2" + topics() + NULL_BYTES + topics() + struct.pack(">i", generation)
    assert decode_subscription(data).owned_generation == expected


def test_minus_one_in_classic_records_is_null() -> None:
    group = struct.pack(">h", 3) + text("consumer") + struct.pack(">ihhq", 4, -1, -2, -1) + struct.pack(">i", 1)
    member = text("m") + struct.pack(">h", -1) + text("c") + text("/h") + struct.pack(">iiii", -1, 10_000, 0, 0)
    decoded = decode_group_metadata(group + member)
    assert decoded == (3, "consumer", 4, None, None, None, (("m", None, "c", "/h", None, 10_000, b"", b""),))
    commit = struct.pack(">hqi", 3, 5, -1) + text("") + struct.pack(">q", 9)
    assert decode_offset_commit(commit) == (3, 5, None, "", 9, None, None)


def test_null_and_left_out_classic_metadata_differ() -> None:
    head = bytes.fromhex("0000 00 00 01 01 01 00 00000005 00")
    assert decode_consumer_group_member_metadata(head + bytes.fromhex("01 00 01 00")).classic is None
    assert decode_consumer_group_member_metadata(head + bytes.fromhex("00")).classic == (0, ())


def test_unknown_tagged_fields_are_skipped() -> None:
    commit = bytes.fromhex("0004 0000000000000005 00000001 01 0000000000000009 02 05 03 aabbcc 00 10") + bytes(range(16))
    assert decode_offset_commit(commit).topic_id == "AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"\0\2" + text("g"), Key(2, "classic_group_metadata", "g")),
        (b"\0\0" + text("g") + text("t") + struct.pack(">i", 3), Key(0, "offset_commit", "g", "t", 3)),
        (b"\0\x07" + text("g") + text("m"), Key(7, "consumer_group_target_assignment_member", "g", member_id="m")),
        (b"\0\x0b" + text("g"), Key(11, "share_group_metadata", "g")),
        (b"\0\x17" + text("g"), Key(23, "streams_group_topology", "g")),
        (b"\0\x63" + b"anything", Key(99, "unknown_99")),
        (b"\xff\xff", Key(-1, "unknown_-1")),
        (b"\0\0\0\0", Key(0, "transaction_marker")),
        (b"\0\0\0\1", Key(0, "transaction_marker")),
        (b"\0\0" + text("my-transactional-id"), Key(0, "transaction_state")),
    ],
)
def test_a_key_names_its_kind_and_group(key: bytes, expected: Key) -> None:
    assert decode_key(key) == expected


@pytest.mark.parametrize(
    ("decode", "data", "reason", "detail"),
    [
        (decode_key, "", "truncated", "expected 2 bytes at byte 0, found 0"),
        (
            decode_key,
            "0002 0005 6731",
            "length_beyond_end",
            "found string length 5 before byte 4, expected at most the 2 bytes that are left",
        ),
        (
            decode_key,
            "0002 ffff",
            "negative_length",
            "found string length -1 before byte 4, expected 0 or more in a field that cannot be null",
        ),
        (decode_key, "0001 0001 67 0001 74 0000", "truncated", "expected 4 bytes at byte 8, found 2"),
        (decode_key, "0000 0001 67 00", "truncated", "expected 2 bytes at byte 5, found 1"),
        (decode_group_metadata, "0005", "unsupported_version", "found version 5 at byte 0, expected 0 to 4"),
        (decode_legacy_offset_commit, "0001", "unsupported_version", "found version 1 at byte 0, expected 0 to 0"),
        (decode_subscription, "ffff", "unsupported_version", "found version -1 at byte 0, expected 0 or more"),
        (
            decode_subscription,
            "0003 7fffffff",
            "length_beyond_end",
            "found array count 2147483647 before byte 6, expected at most the 0 bytes that are left",
        ),
        (decode_group_metadata, "0004 ffffffffff", "bad_varint", "the varint at byte 2 has more than 5 bytes"),
        (
            decode_group_metadata,
            "0004 818002" + "61" * 0x8000,
            "string_too_long",
            "the string at byte 5 has 32768 bytes, expected at most 32767",
        ),
    ],
)
def test_wire_error_names_reason_and_byte(decode, data: str, reason: str, detail: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(bytes.fromhex(data))
    assert (caught.value.reason, caught.value.detail) == (reason, detail)
    assert str(pickle.loads(pickle.dumps(caught.value))) == f"{reason}: {detail}"


@pytest.mark.parametrize(
    ("varint", "expected"), [("00", 0), ("7f", 127), ("8001", 128), ("ffffffff07", 2**31 - 1), ("8080808008", -(2**31))]
)
def test_a_varint_is_a_java_int(varint: str, expected: int) -> None:
    assert Reader(bytes.fromhex(varint)).unsigned_varint() == expected


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for element in value:
            yield from strings(element)


def check(decode, data: bytes) -> None:
    try:
        message = decode(data)
    except WireError as error:
        assert error.reason in get_args(Reason)
    else:
        for string in strings(message):
            string.encode()


@settings(max_examples=300)
@given(st.sampled_from(DECODERS), st.binary(max_size=80))
def test_arbitrary_bytes_decode_or_raise_a_wire_error(decode, data: bytes) -> None:
    check(decode, data)


SAMPLES = [unb64(vector["bytes_b64"]) for vector in VECTORS if "bytes_b64" in vector and not vector.get("malformed")]
EDITS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 2), st.binary(min_size=1, max_size=5)), min_size=1, max_size=4)


@settings(max_examples=1500)
@given(st.sampled_from(DECODERS), st.sampled_from(SAMPLES), EDITS)
def test_damaged_records_decode_or_raise_a_wire_error(decode, sample: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    data = bytearray(sample)
    for index, kind, patch in edits:
        start = index % (len(data) + 1)
        # Overwrite, insert, or cut off.
        data[start : (start + len(patch), start, len(data))[kind]] = (patch, patch, b"")[kind]
    check(decode, bytes(data))


WRITTEN_BY_3_7 = {
    4: "0000000000050200000000000000010000000000000002027400000003010000",
    5: "000001010263032f6802027401000493e008756e69666f726d0100",
    8: "0000000000050000000400000006020000000000000001000000000000000203000000000000000100"
    "0200000000000000010000000000000002020000000200010000000100",
}
"""Record type -> a value written by the classes of Kafka 3.7.1, which those of 3.8 and later refuse."""


@pytest.mark.parametrize("record_type", WRITTEN_BY_3_7)
def test_value_of_a_consumer_group_of_kafka_3_7(record_type: int) -> None:
    value, topic_id = bytes.fromhex(WRITTEN_BY_3_7[record_type]), "AAAAAAAAAAEAAAAAAAAAAg"
    expected = {
        4: ConsumerGroupPartitionMetadata((SubscribedTopic(topic_id, "t", 3, ()),)),
        5: ConsumerGroupMemberMetadata("", "", "c", "/h", ("t",), "", 300_000, "uniform", None),
        8: ConsumerGroupCurrentMemberAssignment(5, 4, 1, (TopicIdPartitions(topic_id, (0, 1)),), (TopicIdPartitions(topic_id, (2,)),)),
    }
    with pytest.raises(WireError):
        VALUE_DECODERS[record_type](value)
    assert decode_value(record_type, value) == expected[record_type]
    for damaged in (value[:-1], value + b"\0"):
        with pytest.raises(WireError):
            decode_value(record_type, damaged)


def test_every_truncation_of_a_record_is_refused_or_shorter() -> None:
    for vector in VECTORS:
        if vector["type"] in ("GroupMetadataValue", "OffsetCommitValue"):
            data = unb64(vector["bytes_b64"])
            for size in range(len(data)):
                assert raises(VALUE_DECODERS[vector["record_type"]], data[:size]), (vector["id"], size)


def test_a_forged_count_allocates_nothing() -> None:
    forged = b"\0\1" + topics() + NULL_BYTES + struct.pack(">i", 1) + text("t") + struct.pack(">i", 2**31 - 1)
    tracemalloc.start()
    assert raises(decode_subscription, forged)
    assert raises(decode_subscription, b"\0\1" + struct.pack(">i", 2**31 - 1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_one_topic_in_very_many_entries_takes_linear_time() -> None:
    # Tuples concatenated one by one would copy 20 billion numbers here.
    count = 200_000
    data = b"\0\3" + struct.pack(">i", count) + (text("t") + struct.pack(">ii", 1, 7)) * count + NULL_BYTES
    assert decode_assignment(data).partitions == (("t", (7,) * count),)
