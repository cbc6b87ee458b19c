"""The output of ``kafka-dump-log --offsets-decoder`` for segments of ``__consumer_offsets`` (Kafka 3.8 and newer).

A dump begins with the name of the segment file, whose folder has the partition in its name. A line for each batch shows whether it is of a
transaction. A line for each record has its offset, its time, and key and value as typed JSON. A dump also has the markers that end
transactions, which no consumer sees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedIOBase
from typing import Any, NamedTuple

from jobs.decoders.consumer_offsets import decode_record
from jobs.decoders.decoded import quarantined, skipped
from jobs.decoders.log_lines import is_log_line
from jobs.decoders.text_pieces import Piece
from schemas.row_types import DecodedRow
from schemas.wire import VALUE_DECODERS
from schemas.wire.kafka_json import encode_assignment, encode_key, encode_subscription, encode_value
from schemas.wire.keys import kind_of
from schemas.wire.record_fields import GROUP_METADATA, KEYS

_SEGMENT = re.compile(r"Dumping (?P<file>.*\S)")
_FOLDER = re.compile(r"(?:^|[/\\])__consumer_offsets-(\d{1,9})[/\\][^/\\]+$")
_BATCH = re.compile(
    r"baseOffset: -?\d+ .*?\bproducerId: (?P<producer_id>-?\d{1,18}) .*?\bisTransactional: (?P<is_transactional>true|false)"
    r" isControl: (?P<is_control>true|false)\b"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>-?\d{1,19}) (?P<time_type>CreateTime|LogAppendTime|NoTimestampType): (?P<time_ms>-?\d{1,19})"
    r" keySize: -?\d+ valueSize: (?P<value_size>-?\d+)(?: sequence: -?\d+ headerKeys: \[.*?\])?(?: isValid: \w+ crc: \d+\}?)?"
    r"(?= key: | \w+: |$)(?P<rest>.*)"
)
_MARKER = re.compile(r" endTxnMarker: (?P<end>COMMIT|ABORT) coordinatorEpoch: -?\d+")
_UNKNOWN_TYPE = re.compile(r" key: Unknown record type (\d+) at offset \d+, skipping\.")
_ERROR = re.compile(r" key: Error at offset \d+, skipping\. ?(.*)")
_KEY, _PAYLOAD, _DELETED = " key: ", " payload: ", "<DELETE>"
_OTHER_LINES = re.compile(
    r"(?:Log s|S)tarting offset: \d+|Found \d+ invalid bytes at the end of .*|Non-consecutive offsets in .*|  -?\d+ is followed by -?\d+"
    r"|Mismatches in :.*|  Index offset: .*|offset: \d+ position: \d+(?: .*)?"
    r"|timestamp: -?\d+ offset: \d+|producerId: -?\d+ producerEpoch: .*"
    r"|Found timestamp mismatch in :.*|Found out of order timestamp in :.*|  Index timestamp: .*|Ignoring unknown file .*"
    r"|The following indexed offsets are not found in the log\.|Indexed offset: \d+, found log offset: -?\d+"
)
"""Lines about a whole file, on stdout and stderr, about a batch or an index without transactions, and of files beside the log."""
_FIRST_RECORD = re.compile(
    rf"^\| offset: -?\d+ \w+: -?\d+ [^\n]{{0,400}}?{_KEY}(?:\{{\"type\":\"\d+\",\"data\":|Unknown record type \d|Error at offset \d)",
    re.MULTILINE,
)
_MARKER_LINE = re.compile(r"^\| offset: -?\d+ \w+: -?\d+ [^\n]{0,400}? endTxnMarker: ", re.MULTILINE)
_OTHER_RECORD = re.compile(r"^\| offset: (?![^\n]* endTxnMarker: )[^\n]*\n", re.MULTILINE)
_DECODER = json.JSONDecoder()
COMMITTED = "COMMIT"
"""The marker of a transaction that was not aborted."""
NO_PARTITION = (
    "found no line 'Dumping .../__consumer_offsets-N/...', which has the partition, before the first record; dump the segment in its folder"
    " again, or name the partition with --offsets-partition"
)


class _Batch(NamedTuple):
    """Facts in the line of a batch; ``producer_id`` is None if its records are of no transaction."""

    is_control: bool
    producer_id: int | None


def looks_like_dump(begin: str) -> bool:
    """Return whether the beginning of a text is from a dump with typed JSON; dumps of tools before 3.8 have none."""
    return _FIRST_RECORD.search(begin) is not None


def is_dump_after_markers(begin: str, content: BufferedIOBase) -> bool:
    """Return whether a text is a dump whose beginning has only markers of transactions, from a known partition.

    Compaction keeps markers for a day, and removes the commits before them.

    Args:
        content: the whole text; it is read on to the first record that is no marker.
    """
    if _MARKER_LINE.search(begin) is None or _OTHER_RECORD.search(begin) is not None or lacks_partition(begin):
        return False
    lines = (line.decode(errors="replace") for line in content)
    record = next((line for line in lines if _OTHER_RECORD.match(line) is not None), None)
    return record is None or looks_like_dump(record)


def lacks_partition(begin: str) -> bool:
    """Return whether no line before the first record of a dump has the partition."""
    first = _FIRST_RECORD.search(begin)
    lines = begin[: first.start() if first else None].splitlines()
    return not any(_partition_of(match["file"]) is not None for line in lines if (match := _SEGMENT.fullmatch(line)))


def _partition_of(file: str) -> int | None:
    folder = _FOLDER.search(file)
    return None if folder is None else int(folder[1])


def with_headings(content: BufferedIOBase, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces of a dump, each with the earlier lines that name the file and the batch of its first records."""
    heading = ""
    for piece in pieces:
        yield piece._replace(heading=heading)
        content.seek(piece.start)
        heading = _heading_after(heading, content.read(None if piece.end is None else piece.end - piece.start))


def _heading_after(heading: str, text: bytes) -> str:
    """Return the heading of the piece after a text.

    Args:
        heading: of the text itself: at most one line that names a file, and after it one that names a batch.
    """
    segment, batch = _last_line(text, b"Dumping "), _last_line(text, b"baseOffset: ")
    lines = {line[:1]: line for line in heading.splitlines()}
    if segment is not None:
        lines = {"D": segment[1]}
    if batch is not None and (segment is None or batch[0] > segment[0]):
        lines["b"] = batch[1]
    return "".join(f"{line}\n" for line in lines.values())


def _last_line(text: bytes, word: bytes) -> tuple[int, str] | None:
    """Return the last line of a text that begins with a word, with its start; None without one."""
    before = text.rfind(b"\n" + word)
    start = before + 1 if before >= 0 else 0 if text.startswith(word) else None
    if start is None:
        return None
    end = text.find(b"\n", start)
    return start, text[start : end if end >= 0 else None].decode(errors="replace").rstrip()


class DumpReader:
    """Reads the lines of one dump in their order."""

    def __init__(self, default_partition: int | None) -> None:
        """Begin a dump.

        Args:
            default_partition: of files without a partition in their names.
        """
        self._default = self._partition = default_partition
        self._batch: _Batch | None = None

    def rows(self, lines: Iterable[tuple[int, bytes]], name: str) -> Iterator[DecodedRow]:
        """Yield the decoded rows of numbered lines; never raises, whatever the lines are.

        A commit of a transaction, and the marker that ends one, have ``producer_id``; ``transaction_end`` of a marker is ``COMMIT`` or
        ``ABORT``. Such a commit is uncertain until its marker is found. Without a line about its batch, ``is_uncertain`` is not set.
        Lines without a record have no row.

        Args:
            name: of the file, for rows without the position of their record.
        """
        for number, line in lines:
            row = self._row(line)
            if row is not None:
                yield {"source_position": f"{name} line {number}", **row}

    def skip(self, heading: str) -> None:
        """Read the heading of a piece, as ``with_headings`` returns it."""
        for line in heading.splitlines():
            self._take_heading(line)

    def _row(self, line: bytes) -> DecodedRow | None:
        try:
            text = line.decode().rstrip()
        except UnicodeDecodeError as error:
            return quarantined("unreadable_line", "malformed_line", f"expected a line of kafka-dump-log in UTF-8, found {error}", line)
        record = _RECORD.fullmatch(text)
        if record is not None:
            return self._record(record, line)
        if self._take_heading(text) or _OTHER_LINES.fullmatch(text) or is_log_line(text):
            return None
        detail = "expected a line of kafka-dump-log --offsets-decoder with an offset, a time, and a key as typed JSON"
        return quarantined("unreadable_line", "malformed_line", f"{detail}, found {text[:100]!r}", line)

    def _take_heading(self, line: str) -> bool:
        """Read a line that names the file or the batch of the next records; return whether it is one."""
        segment = _SEGMENT.fullmatch(line)
        if segment is not None:
            named = _partition_of(segment["file"])
            self._partition, self._batch = self._default if named is None else named, None
            return True
        batch = _BATCH.match(line)
        if batch is not None:
            producer_id = int(batch["producer_id"]) if batch["is_transactional"] == "true" else None
            self._batch = _Batch(batch["is_control"] == "true", producer_id)
        return batch is not None

    def _record(self, record: re.Match[str], line: bytes) -> DecodedRow:
        offset, rest = int(record["offset"]), record["rest"]
        columns: DecodedRow = {} if self._partition is None else {"source_position": f"{self._partition}@{offset}"}
        producer: DecodedRow = {} if self._batch is None or self._batch.producer_id is None else {"producer_id": self._batch.producer_id}
        marker = _MARKER.fullmatch(rest)
        if marker is not None:
            return {**skipped("transaction_marker"), **columns, **producer, "transaction_end": marker["end"]}
        if self._batch is not None and self._batch.is_control:
            return {**skipped("control_record"), **columns}
        row = _decode(rest, record["value_size"] != "-1", self._partition, offset, int(record["time_ms"]), line)
        if self._batch is not None and "offset_commit" in row:
            row["offset_commit"]["is_uncertain"] = bool(producer)
            row |= producer
        row.pop("source_position", None)  # without a partition it is not a position
        return {**row, **columns}


def _decode(rest: str, has_value: bool, partition: int | None, offset: int, time_ms: int, line: bytes) -> DecodedRow:
    """Return the row of a record from the part of its line after the sizes."""
    unknown, error = _UNKNOWN_TYPE.fullmatch(rest), _ERROR.fullmatch(rest)
    if unknown is not None:
        record_type = int(unknown[1])
        if record_type not in VALUE_DECODERS:
            return skipped(kind_of(record_type) if has_value else f"{kind_of(record_type)}_tombstone")
        detail = f"found record type {record_type}, which kafka-dump-log did not know; dump the log with the tool of the broker's release"
        return quarantined(kind_of(record_type), "unknown_to_tool", detail, line)
    if error is not None:
        return quarantined(
            "unreadable_record", "unreadable_to_tool", f"found a record that kafka-dump-log could not read: {error[1]}", line
        )
    try:
        record_type, key, value = _parse(rest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        detail = f"expected a key and a payload as kafka-dump-log --offsets-decoder of 3.8 or newer prints them, found {problem}"
        return quarantined("unreadable_record", "malformed_object", detail, line)
    if key is None:
        return skipped(kind_of(record_type) if value is not None else f"{kind_of(record_type)}_tombstone")
    row = decode_record(key, value, partition, offset, time_ms)
    if "snapshot" in row:  # the client library is not known without the version of an assignment, which is not printed
        row["snapshot"]["leader_client"] = None
    return row


def _parse(rest: str) -> tuple[int, bytes | None, bytes | None]:
    """Return type, key and value of a record; the key is None for a type that is not used.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, RecursionError: key or payload is not as the tool prints it.
    """
    if not rest.startswith(_KEY):
        raise ValueError("no key")
    key_of, end = _DECODER.raw_decode(rest, len(_KEY))
    if not rest.startswith(_PAYLOAD, end):
        raise ValueError(f"{rest[end : end + 100]!r} after the key")
    payload = rest[end + len(_PAYLOAD) :]
    is_deleted = payload == _DELETED
    value_of: Any = None if is_deleted else json.loads(payload)
    record_type = _number(key_of["type"])
    if record_type not in KEYS:
        return record_type, None, None if is_deleted else b""
    key = encode_key(record_type, key_of["data"])
    if is_deleted:
        return record_type, key, None
    data = value_of["data"]
    if record_type == GROUP_METADATA:
        data = {**data, "members": [_member(member) for member in data["members"]]}
    return record_type, key, encode_value(record_type, _number(value_of["version"]), data)


def _number(text: Any) -> int:
    if not isinstance(text, str) or not text.isascii() or not text.isdigit():
        raise ValueError(f"expected a number in quotes, found {repr(text)[:100]}")
    return int(text[:10])


def _member(member: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a member with bytes in place of the objects that the tool prints; bytes that it could not read are already base64."""
    encoded = dict(member)
    for name, encode in (("subscription", encode_subscription), ("assignment", encode_assignment)):
        if isinstance(member.get(name), dict):
            encoded[name] = encode(member[name])
    return encoded
