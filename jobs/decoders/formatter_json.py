"""The output of ``kafka-console-consumer`` for ``__consumer_offsets`` with its formatters (Kafka 4.0 and newer): one JSON object a record.

The tool writes nothing between the objects. If its stderr went to the same file, lines of stderr may be before, between and after them,
also directly after an object. They are ignored. A file that somebody has cut may begin within an object. The tool prints neither offset
nor time: the position of a record is computed from all parts (``jobs.decoders.formatter_merge``), and its time is the one in its value.
"""

from __future__ import annotations

import json
import re
from typing import Any

from jobs.decoders.consumer_offsets import decode_value
from jobs.decoders.decoded import quarantined
from jobs.decoders.log_lines import is_log_line
from schemas.row_types import DecodedRow
from schemas.wire import WireError, decode_key
from schemas.wire.kafka_json import encode_key, encode_value
from schemas.wire.record_fields import PRINTED_BY_FORMATTERS

_BEGIN = re.compile(r"^[ \t]*(\{\s*\"key\"\s*:)\s*(?:null|\{\s*\"(?:type|version|data)\"\s*:)", re.MULTILINE)
_BEGIN_AFTER_PIECE = re.compile(r"\}(\{\s*\"key\"\s*:)\s*\{\s*\"(?:type|version)\"\s*:")
"""The first whole object of a file that begins within another one."""
_DOCUMENT = re.compile(r"^\s*(?:#|```|~~~|<)", re.MULTILINE)
"""Beginnings of lines in Markdown, scripts and HTML, which may show an object as an example."""
_OF_JSON = re.compile(r'[{}"]')
_DECODER = json.JSONDecoder()
_TYPE = ("type", "version")
"""Names of the record's type: the tools of Kafka 4.0 print it as the key's version, which is the same number."""


def find_separator(begin: str) -> str | None:
    """Return the text that begins each object of a file and is nowhere else in it; None for a file of another kind.

    Before the first object there may be lines of stderr, and a piece of another object.
    """
    match = _BEGIN.search(begin) or _BEGIN_AFTER_PIECE.search(begin)
    return match[1] if match is not None and not _DOCUMENT.search(begin, 0, match.start()) else None


def decode_beginning(text: bytes) -> DecodedRow | None:
    """Return the row of what is before the first object of a file, if a part of it may be the end of an object; else None."""
    lines = [line for line in text.splitlines() if b"}" in line and not is_log_line(line.decode(errors="surrogateescape"))]
    if not lines:
        return None
    detail = "expected a record as Kafka's formatters print it, found the end of one: the file was cut"
    return quarantined("unreadable_object", "malformed_object", detail, b"\n".join(lines))


def decode_object(text: bytes, number: int) -> DecodedRow:
    """Return the decoded row of one object; never raises, whatever the text is.

    Args:
        number: orders the records of one file; it is used as the offset until all parts are merged.
    """
    try:
        record = _parse(text)
        key_of, value_of = record["key"], record["value"]
        record_type = next(key_of[name] for name in _TYPE if name in key_of)
        if record_type not in PRINTED_BY_FORMATTERS:
            raise ValueError(f"found record type {repr(record_type)[:100]}, expected one of {PRINTED_BY_FORMATTERS}")
        key = encode_key(record_type, key_of["data"])
        value = None if value_of is None else encode_value(record_type, value_of["version"], value_of["data"])
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        detail = f"expected a record as Kafka's formatters print it, found {type(error).__name__}: {error}"
        return quarantined("unreadable_object", "malformed_object", detail, text)
    try:
        parsed = decode_key(key)
    except WireError as error:
        return quarantined("unreadable_key", error.reason, f"key: {error.detail}", text)
    row = decode_value(parsed, key, value, None, number, None)
    if "snapshot" in row:
        row["snapshot"]["observed_at"] = row["snapshot"].get("joined_at")
    if "offset_commit" in row:
        row["offset_commit"]["observed_at"] = row["offset_commit"].get("committed_at")
    return row


def _parse(text: bytes) -> Any:
    """Return the JSON value at the beginning of a text; lines of stderr may follow.

    Raises:
        ValueError: it is not JSON in UTF-8, or the text after it may be a part of an object.
    """
    whole = text.decode(errors="surrogateescape")
    value, end = _DECODER.raw_decode(whole)
    whole[:end].encode()  # the text after it may be in any encoding
    for line in whole[end:].splitlines():
        if _OF_JSON.search(line) and not is_log_line(line):
            raise ValueError(f"text after the object that is not a line of stderr: {line.strip()[:100]!r}")
    return value
