"""Kafka's JSON form of ``__consumer_offsets`` records, encoded as the bytes that the broker wrote.

Kafka's tools print this form: ``kafka-console-consumer`` with a formatter (4.0 and newer), ``kafka-dump-log --offsets-decoder`` (3.8 and
newer). It has the version and every field, so that the bytes are exactly the broker's. The decoders of this package then read them.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from typing import Any

from schemas.wire.record_fields import ASSIGNMENT, FIRST_FLEXIBLE, KEYS, LAST_VERSION, SUBSCRIPTION, VALUES, Field


def encode_key(record_type: int, data: Mapping[str, Any]) -> bytes:
    """Return the key of a record.

    Raises:
        ValueError: a field is missing, of another kind, or too large; or the fields of the type are not known.
    """
    if type(record_type) is not int or record_type not in KEYS:  # True and 2.0 are keys of the table too
        raise ValueError(f"found record type {repr(record_type)[:100]}, expected one of {', '.join(map(str, KEYS))}")
    return struct.pack(">h", record_type) + _encode(KEYS[record_type], data, 0, False)


def encode_value(record_type: int, version: int, data: Mapping[str, Any]) -> bytes:
    """Return the value of a record of a known type.

    Raises:
        ValueError: a field is missing, of another kind, or too large; or no broker writes the version.
    """
    last = LAST_VERSION.get(record_type, 0)
    if type(version) is not int or not 0 <= version <= last:
        raise ValueError(f"found value version {repr(version)[:100]}, expected 0 to {last}")
    is_flexible = record_type > 0 and version >= FIRST_FLEXIBLE.get(record_type, 0)
    return struct.pack(">h", version) + _encode(VALUES[record_type], data, version, is_flexible)


def encode_subscription(data: Mapping[str, Any]) -> bytes:
    """Return a member's subscription in the version that has the fields of ``data``.

    Raises:
        ValueError: a field is missing, of another kind, or too large.
    """
    version = max(field.since for field in SUBSCRIPTION if field.since == 0 or field.name in data)
    return struct.pack(">h", version) + _encode(SUBSCRIPTION, data, version, False)


def encode_assignment(data: Mapping[str, Any]) -> bytes:
    """Return a member's assignment in version 0: JSON does not have the version, and all versions have the same fields.

    Raises:
        ValueError: a field is missing, of another kind, or too large.
    """
    return struct.pack(">h", 0) + _encode(ASSIGNMENT, data, 0, False)


def _encode(fields: tuple[Field, ...], data: Mapping[str, Any], version: int, is_flexible: bool) -> bytes:
    parts: list[bytes] = []
    tags: list[bytes] = []
    for field in fields:
        if not field.since <= version <= field.until:
            continue
        if field.name not in data:
            if field.tag is not None:
                continue
            raise ValueError(f"{field.name} is missing")
        try:
            encoded = _encode_field(field, data[field.name], version, is_flexible)
        except (TypeError, ValueError, struct.error, AttributeError) as error:
            raise ValueError(f"{field.name}: {error}") from None
        if field.tag is None:
            parts.append(encoded)
        elif encoded != field.default:
            tags.append(_varint(field.tag) + _varint(len(encoded)) + encoded)
    return b"".join([*parts, _varint(len(tags)), *tags] if is_flexible else parts)


def _encode_field(field: Field, value: Any, version: int, is_flexible: bool) -> bytes:
    if field.kind == "struct?":  # always a tagged field
        return b"\0" if value is None else b"\1" + _encode(field.items, value, version, is_flexible)
    if field.kind == "struct[]":
        return _array(value, is_flexible, lambda item: _encode(field.items, item, version, is_flexible))
    if field.kind.endswith("[]"):
        encode = _ENCODERS[field.kind.removesuffix("[]")]
        return _array(value, is_flexible, lambda item: encode(item, is_flexible))
    if field.kind.endswith("?") and value is None:
        return b"\0" if is_flexible else struct.pack(">h" if field.kind == "string?" else ">i", -1)
    return _ENCODERS[field.kind.removesuffix("?")](value, is_flexible)


def _array(items: Any, is_flexible: bool, encode: Callable[[Any], bytes]) -> bytes:
    if not isinstance(items, list):
        raise ValueError(f"expected a list, found {repr(items)[:100]}")
    count = _varint(len(items) + 1) if is_flexible else struct.pack(">i", len(items))
    return count + b"".join(map(encode, items))


def _string(text: Any, is_flexible: bool) -> bytes:
    if not isinstance(text, str):
        raise ValueError(f"expected a string, found {repr(text)[:100]}")
    data = text.encode("utf-8", errors="replace")  # as Java writes half a surrogate pair
    return (_varint(len(data) + 1) if is_flexible else struct.pack(">h", len(data))) + data


def _bytes(content: Any, is_flexible: bool) -> bytes:
    data = content if isinstance(content, bytes) else base64.b64decode(content, validate=True)
    return (_varint(len(data) + 1) if is_flexible else struct.pack(">i", len(data))) + data


def _integer(code: str) -> Callable[[Any, bool], bytes]:
    def encode(number: Any, is_flexible: bool) -> bytes:
        if type(number) is not int:
            raise ValueError(f"expected a whole number, found {repr(number)[:100]}")
        return struct.pack(code, number)

    return encode


def _uuid(text: Any, is_flexible: bool) -> bytes:
    raw = base64.urlsafe_b64decode(f"{text}==")
    if len(raw) != 16:
        raise ValueError(f"expected 22 characters, found {repr(text)[:100]}")
    return raw


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


_ENCODERS: dict[str, Callable[[Any, bool], bytes]] = {
    "string": _string,
    "bytes": _bytes,
    "int8": _integer(">b"),
    "int32": _integer(">i"),
    "int64": _integer(">q"),
    "uuid": _uuid,
}
