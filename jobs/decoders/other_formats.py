"""Formats about groups that Evenkeel does not read: each is refused by its name, with a format to use instead."""

from __future__ import annotations

import re
from typing import NamedTuple

_DESCRIBE = "kafka-consumer-groups --describe --members --verbose"
_RECORDS = "print __consumer_offsets with the formatters of Kafka 4.0 or newer, or read the cluster with collect or --bootstrap-servers"
_GROUPS = f"use {_DESCRIBE}, or read the cluster with collect"


class _Format(NamedTuple):
    """A format; ``begin`` matches at the beginning of a line, ``inside`` anywhere (None: not needed)."""

    name: str
    begin: re.Pattern[str]
    inside: re.Pattern[str] | None
    way_out: str


_OLD_COLUMNS = r"TOPIC +PARTITION +CURRENT-OFFSET +LOG-END-OFFSET +LAG"
_OLD_TABLE = re.compile(
    r"^[ \t]*(?:GROUP, TOPIC, PARTITION, CURRENT OFFSET, LOG END OFFSET, LAG, OWNER"
    rf"|GROUP +{_OLD_COLUMNS} +OWNER|{_OLD_COLUMNS}(?P<gap> +)CONSUMER-ID +HOST +CLIENT-ID)[ \t\r]*$",
    re.MULTILINE,
)
_NOT_AUDITED = "such groups are not audited; collect reads the other groups of the cluster"
_OLD_NOTE = re.compile(r"^Note: This will (?:only|not) show information about ", re.MULTILINE)
_GAP, _OLD_GAP = " " * 13, " " * 8
"""The padding of LAG since Kafka 2.0, and before."""

_FORMATS = (
    _Format(
        "records as Kafka's formatters printed them before 4.0",
        re.compile(
            r"^(?:\[[^\]\n]{3,600},[0-9]+\]::(?:\[?OffsetMetadata\[|\[?OffsetAndMetadata\(|NULL)"
            r"|[^\n]{1,249}::(?:GroupMetadata\(|\[[^\n]{1,249},Some\(|NULL[ \t\r]*$))",
            re.MULTILINE,
        ),
        None,
        _RECORDS,
    ),
    _Format(
        "the output of kafka-dump-log before 3.8, without --offsets-decoder, or cut before its first record",
        re.compile(r"^(?:Dumping [^\n]+\.log|(?:Log s|S)tarting offset: [0-9]+|\|? ?(?:baseO|o)ffset: [0-9]+ \S+: )", re.MULTILINE),
        re.compile(r"\b(?:isvalid|keysize|keySize|payload|baseOffset):|\bStarting offset:|\bLog starting offset:"),
        f"dump the segment with kafka-dump-log --offsets-decoder of Kafka 3.8 or newer, {_RECORDS}",
    ),
    _Format(
        "records as kcat -J prints them, as text, which loses bytes of keys and values",
        re.compile(r'^\{"topic":"[^"\n]{1,249}","partition":[0-9]+,"offset":[0-9]+,"tstype":', re.MULTILINE),
        None,
        _RECORDS,
    ),
    _Format(
        "the metadata that kcat -L prints, without offsets and topic ids",
        re.compile(r'^(?:\{"originating_broker":|Metadata for (?:all topics|\S{1,249}) \(from broker )', re.MULTILINE),
        None,
        "collect writes topics, partitions, racks and offsets as a metadata snapshot",
    ),
    _Format(
        "the metrics of a lag exporter, which have no assignment",
        re.compile(r"^(?:# (?:HELP|TYPE) )?(?:kafka_consumergroup_|kminion_kafka_consumer_group_)\w+[ {]", re.MULTILINE),
        None,
        _GROUPS,
    ),
    _Format(
        "the output of kaf group describe",
        re.compile(r"^Group ID:[ \t]", re.MULTILINE),
        re.compile(r"^Protocol Type:[ \t]", re.MULTILINE),
        _GROUPS,
    ),
    _Format(
        "an answer of Confluent's REST API, which has no assignment",
        re.compile(r'^[ \t]*\{\s*"kind"\s*:\s*"KafkaConsumer', re.MULTILINE),
        None,
        _GROUPS,
    ),
    _Format(
        "the output of rpk group describe",
        re.compile(r"^(?:TOTAL-LAG +[0-9]|BALANCER(?: |$))", re.MULTILINE),
        re.compile(r"^(?:STATE|MEMBERS) ", re.MULTILINE),
        f"{_GROUPS}; both work with Redpanda",
    ),
    _Format(
        "the output of ConsumerOffsetChecker",
        re.compile(r"^[ \t]*Group +Topic +Pid +Offset +logSize +Lag +Owner[ \t\r]*$", re.MULTILINE),
        None,
        "describe the group with kafka-consumer-groups of Kafka 2.0 to 3.7; groups that ZooKeeper coordinates cannot be audited",
    ),
    _Format(
        "an answer of Burrow, which has no assignment",
        re.compile(r'^[ \t]*\{\s*"error"\s*:\s*(?:true|false)\s*,\s*"message"\s*:', re.MULTILINE),
        None,
        _GROUPS,
    ),
    _Format(
        "the output of kafka-share-groups",
        re.compile(
            r"^[ \t]*(?:GROUP +TOPIC +PARTITION +(?:LEADER-EPOCH +)?START-OFFSET"
            r"|GROUP +CONSUMER-ID +HOST +CLIENT-ID +(?:#PARTITIONS +)?(?:MEMBER-EPOCH +)?ASSIGNMENT|Share group ')",
            re.MULTILINE,
        ),
        None,
        _NOT_AUDITED,
    ),
    _Format(
        "the output of kafka-streams-groups",
        re.compile(
            r"^[ \t]*(?:GROUP +(?:MEMBER +PROCESS|TARGET-ASSIGNMENT-EPOCH +TOPOLOGY-EPOCH)|Streams group '"
            r"|GROUP +TOPIC +PARTITION +(?:(?:LEADER-EPOCH|CURRENT-OFFSET|LOG-END-OFFSET) +){0,3}OFFSET-LAG)",
            re.MULTILINE,
        ),
        None,
        _NOT_AUDITED,
    ),
    _Format(
        "the output of kafka-share-groups or kafka-streams-groups",
        re.compile(r"^[ \t]*GROUP +COORDINATOR \(ID\) +STATE ", re.MULTILINE),
        None,
        _NOT_AUDITED,
    ),
    _Format(
        "the output of kafka-groups, which has the names of groups alone",
        re.compile(r"^[ \t]*GROUP +TYPE +PROTOCOL[ \t\r]*$", re.MULTILINE),
        None,
        _GROUPS,
    ),
    _Format(
        "a table of kafka-consumer-groups with a part of its columns",
        re.compile(r"^[ \t]*(?:GROUP +)?TOPIC +PARTITION +CURRENT-OFFSET +LOG-END-OFFSET +LAG[ \t\r]*$", re.MULTILINE),
        None,
        f"save all columns; or {_GROUPS}",
    ),
    _Format(
        "rows of kafka-consumer-groups without the header of their table",
        re.compile(
            r"^[ \t]*(?:\S{1,249} +)?[\w.-]{1,249} +[0-9]{1,9}(?: +(?:-?[0-9]{1,19}|-)){3}"
            r" +(?:-(?: +-){2}|\S{1,600} +[\w.-]*/\S{1,99} +\S{1,249})[ \t\r]*$",
            re.MULTILINE,
        ),
        None,
        f"save the line that begins with GROUP too; or {_GROUPS}",
    ),
    _Format(
        "the output of kafka-topics --describe, which has no offsets of the log",
        re.compile(r"^[ \t]*Topic: ?\S{1,249}[ \t].{0,200}\bPartitionCount:", re.MULTILINE),
        None,
        "collect writes topics, partitions, racks and offsets as a metadata snapshot",
    ),
    _Format(
        "messages of kafka-console-consumer without records that a formatter of __consumer_offsets printed",
        re.compile(
            r"^(?:Processed a total of [0-9]+ messages[ \t\r]*$"
            r"|(?:[\w-]+\.)+(?:\w+\$)?\w*MessageFormatter[ \t\r]*\n(?:[^\n]+\n)?Option +Description)",
            re.MULTILINE,
        ),
        None,
        _RECORDS,
    ),
    _Format(
        "a group of Kafbat UI, which leaves out members without partitions",
        re.compile(r"^[ \t]*[\[{]", re.MULTILINE),
        re.compile(r'"groupId"\s*:[^}]{1,2000}"(?:partitionAssignor|consumerLag)"\s*:'),
        _GROUPS,
    ),
)

_CLIENT_LOG = re.compile(
    r"^.{0,400}(?:\[Consumer (?:instanceId=[^\],]{1,249}, )?clientId=[^\],]{0,249}, groupId=|\[thrd:[^\]]{1,249}\]: "
    r"|\bkafka\.coordinator(?:\.consumer)?\b(?!\.group\.):?.{0,99}\bgroup\b|\"logger\":\"kafkajs\"|\[sarama\]|consumergroup/session/)",
    re.MULTILINE,
)


def name_client_log(begin: str) -> str | None:
    """Return a message if a text is the log of a client; else None. It must have no line of a coordinator: a file may have several logs.

    Args:
        begin: the beginning of a text.
    """
    if not _CLIENT_LOG.search(begin):
        return None
    return (
        "found the log of a client, which has what one member saw, and which Evenkeel does not read; land the logs of the brokers, or read"
        " the cluster with collect"
    )


def name_old_table(begin: str) -> str | None:
    """Return a message if a text has a table of kafka-consumer-groups before Kafka 2.0; else None.

    Their rows cannot be read: id and host run together, and members without partitions have rows of dashes.

    Args:
        begin: the beginning of a text.
    """
    is_noted = _OLD_NOTE.search(begin) is not None
    for match in _OLD_TABLE.finditer(begin):
        if match["gap"] in (None, _OLD_GAP) or (is_noted and match["gap"] != _GAP):
            line = begin.count("\n", 0, match.start()) + 1
            return (
                f"line {line}: found a table of kafka-consumer-groups from before Kafka 2.0, expected one of 2.0 to 4.3; describe the group"
                " again with the tools of Kafka 2.0 to 3.7, which work with older brokers"
            )
    return None


_AGAIN = "unpack it, or pack its text with gzip alone"
_PACKED = (
    (0, b"PK\x03\x04", "a zip archive", "unpack it into a folder"),
    *((257, mark, "a tar archive", "unpack it into a folder") for mark in (b"ustar\x0000", b"ustar  \x00")),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it into a folder"),
    (0, b"\x28\xb5\x2f\xfd", "data packed with zstd", _AGAIN),
    (0, b"\x04\x22\x4d\x18", "data packed with lz4", _AGAIN),
    (0, b"\xfd7zXZ\x00", "data packed with xz", _AGAIN),
    (4, b"1AY&SY", "data packed with bzip2", _AGAIN),
    (0, b"\x1f\x8b", "data packed with gzip twice", _AGAIN),
    (0, b"PAR1", "a Parquet file packed with gzip", "unpack it"),
)
"""Where the mark of a format is -> the mark, its name and what to do."""
_SEGMENT_MAGIC = slice(16, 17), b"\x02"
"""Where a segment of Kafka's log has the version of its first batch, after the base offset, the length and the leader epoch."""


def name_binary(begin: bytes) -> str | None:
    """Return a message if a file is packed, an archive, text of UTF-16 without its mark or of UTF-32, or a segment of a log; else None.

    Args:
        begin: the beginning of a file, unpacked if it is packed with gzip.
    """
    for at, mark, name, way_out in _PACKED:
        if begin.startswith(mark, at):
            return f"found {name}, which Evenkeel does not read; {way_out}"
    first = begin[:64]
    if any(not any(first[half::2]) and all(first[1 - half :: 2]) for half in (0, 1)) and len(first) > 1:
        return "found UTF-32, or UTF-16 without a byte order mark, which Evenkeel does not read; write it as UTF-8"
    where, magic = _SEGMENT_MAGIC
    if begin[where] == magic and b"\0" in first[:8] and len(first) > 60:
        return (
            "found a segment of a log of Kafka, which Evenkeel does not read; print it with kafka-dump-log --offsets-decoder of Kafka 3.8"
            " or newer"
        )
    return None


def name_format(begin: str) -> str | None:
    """Return a message if a text has a known format that is not a capture; else None.

    Args:
        begin: the beginning of a text.
    """
    for name, pattern, inside, way_out in _FORMATS:
        if pattern.search(begin) and (inside is None or inside.search(begin)):
            return f"found {name}, which Evenkeel does not read; {way_out}"
    return None
