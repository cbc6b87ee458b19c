"""Names that somebody chose to do harm, and a capture in which everything that a client may name has one of them."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

from tests.builders.records import blob, commit_key, group_key, string, topic_partitions

AT_MS = 1_795_000_000_000
PARTITIONS = 4
LONGEST = 32_767
"""Bytes of a string in a record."""

MARKUP = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</script><x-theirs>",
    "</style></title></textarea><iframe src=//evil>",
    "<!--",
    "]]>",
    "&lt;b&gt;&#0;",
    "javascript:alert(1)",
    "{{ 7 * 7 }}",
    "{% include 'x' %}",
]
OTHERS = [
    "../../etc/passwd",
    "/etc/passwd",
    "_delta_log",
    "__HIVE_DEFAULT_PARTITION__",
    "a=b/c",
    "'; DROP TABLE runs; --",
    "`x`; DROP TABLE runs",
    '" OR 1=1',
    "${env:HOME}",
    "${spark.app.name}",
    "$(touch mark)",
    "*",
    "\\",
    "%s%d%n",
    "NULL",
    "nan",
    "\x00\x01\x7f",
    "\r\nevenkeel: forged",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202egnp.exe",
    "\u200f\u2066\u2069",
    "line\u2028and\u2029paragraph",
    "\ufeff",
    "\ufffd",
    "e\u0301",
    "\u00e9",
    "\U0001f469\u200d\U0001f467\U0001f600",
    "x" * LONGEST,
    "",
    " ",
]
NAMES = [*MARKUP, *OTHERS]
LONG_TOPIC = "y" * 100_000
"""Only a look can name it: a record's strings are shorter."""


def neighbours(number: int) -> list[str]:
    """Return all other names, from the next one on: what else is in the group of that name."""
    return NAMES[number + 1 :] + NAMES[:number]


def _member(member_id: str, names: list[str], topic: str, partitions: list[int], user_data: bytes) -> bytes:
    instance_id, client_id, host, rack = names
    subscribed = struct.pack(">hi", 3, 1) + string(topic) + blob(user_data) + struct.pack(">ii", 0, -1) + string(rack)
    given = struct.pack(">h", 1) + topic_partitions(**{topic: partitions}) + blob(user_data)
    head = string(member_id) + string(instance_id) + string(client_id) + string(host)
    return head + struct.pack(">ii", 300_000, 45_000) + blob(subscribed) + blob(given)


def _group(generation: int, members: list[bytes], leader: str, protocol: str = "range", protocol_type: str = "consumer") -> bytes:
    head = struct.pack(">h", 3) + string(protocol_type) + struct.pack(">i", generation) + string(protocol) + string(leader)
    return head + struct.pack(">qi", AT_MS, len(members)) + b"".join(members)


def write_capture(folder: Path, user_data: bytes, strategies: list[str]) -> Path:
    """Write records and looks in which groups, members, clients, hosts, racks, topics and protocols have hostile names.

    Args:
        user_data: what every member and leader sends besides.
        strategies: assignors that groups of their own name, besides all the hostile names.
    """
    contents: list[tuple[bytes, bytes]] = []
    for number, name in enumerate(NAMES):
        first, second, topic, *names = neighbours(number)[:7]
        alone = _member(first, names, topic, [0, 1, 2, 3], user_data)
        both = [_member(first, names, topic, [0, 1], user_data), _member(second, names, topic, [2, 3], user_data)]
        contents += [(group_key(name), _group(1, [alone], first)), (group_key(name), _group(2, both, first))]
        metadata = struct.pack(">hqi", 3, number, 7) + string(name) + struct.pack(">q", AT_MS)
        contents.append((commit_key(name, topic, 0), metadata))
        contents.append((group_key(f"of type {number}"), _group(1, [], "", protocol_type=name or "?")))
    for number, strategy in enumerate([*strategies, *NAMES]):
        member = _member("m", NAMES[:4], "t", [0, 1, 2, 3], user_data)
        contents.append((group_key(f"of strategy {number}"), _group(1, [member], "m", strategy)))
    folder.mkdir()
    with (folder / "records.jsonl").open("w", encoding="utf-8") as file:
        for offset, (key, value) in enumerate(contents):
            place = {"partition": 0, "offset": offset, "timestamp_ms": AT_MS + offset}
            encoded = {"key_b64": base64.b64encode(key).decode(), "value_b64": base64.b64encode(value).decode()}
            file.write(json.dumps({**place, **encoded}) + "\n")
    with (folder / "looks.jsonl").open("w", encoding="utf-8") as file:
        for number, topics in enumerate([[*NAMES, "t", LONG_TOPIC], ["\ud800"]]):
            brokers = [{"id": broker, "rack": NAMES[broker]} for broker in range(PARTITIONS)]
            partitions = [{"partition": partition, "leader": partition, "replicas": [partition]} for partition in range(PARTITIONS)]
            described = [{"topic": topic, "topic_id": topic[:100], "partitions": partitions} for topic in topics]
            file.write(json.dumps({"observed_at_ms": AT_MS - 10 + number, "brokers": brokers, "topics": described}) + "\n")
    return folder
