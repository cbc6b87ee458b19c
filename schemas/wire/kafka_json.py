"""Kafka's JSON form of ``__consumer_offsets`` records turned back into the bytes they were made of.

``kafka-console-consumer`` prints records in it (``GroupMetadataMessageFormatter``, ``OffsetsMessageFormatter``, Kafka 4.0 and newer). The
form tells version and every field, so that these are the very bytes that the broker wrote: what they mean is decided in one place,
by the decoders of this package. Types 1 and 2, all that the tool prints.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

OFFSET_COMMIT, GROUP_METADATA = 1, 2


class _Field(NamedTuple):
    """One field of a message: its name, its kind, and the versions that have it, the last one included."""

    name: str
    kind: str
    since: int = 0
    until: int = 99


_MEMBER = (
    _Field("memberId", "string"),
    _Field("groupInstanceId", "nullable", 3),
    _Field("clientId", "string"),
    _Field("clientHost", "string"),
    _Field("rebalanceTimeout", "int32", 1),
    _Field("sessionTimeout", "int32"),
    _Field("subscription", "bytes"),
    _Field("assignment", "bytes"),
)
_VALUES = {
    OFFSET_COMMIT: (
        _Field("offset", "int64"),
        _Field("leaderEpoch", "int32", 3),
        _Field("metadata", "string"),
        _Field("commitTimestamp", "int64"),
        _Field("expireTimestamp", "int64", 1, 1),
        _Field("topicId", "tagged uuid", 4),
    ),
    GROUP_METADATA: (
        _Field("protocolType", "string"),
        _Field("generation", "int32"),
        _Field("protocol", "nullable"),
        _Field("leader", "nullable"),
        _Field("currentStateTimestamp", "int64", 2),
        _Field("members", "members"),
    ),
}
_KEYS = {
    OFFSET_COMMIT: (_Field("group", "string"), _Field("topic", "string"), _Field("partition", "int32")),
    GROUP_METADATA: (_Field("group", "string"),),
}
_LAST_VERSION, _FIRST_FLEXIBLE = 4, 4
_NO_TOPIC_ID = bytes(16)


def encode_key(record_type: int, data: Mapping[str, Any]) -> bytes:
    """Return the key of a record.

    Raises:
        ValueError: a field is missing, of another kind, or too large; a type that the tool does not print.
    """
    if type(record_type) is not int or record_type not in _KEYS:  # True and 2.0 are keys of the table too
        found = repr(record_type)[:100]
        raise ValueError(f"found record type {found}, expected {OFFSET_COMMIT} (offset commit) or {GROUP_METADATA} (group metadata)")
    return struct.pack(">h", record_type) + _encode(_KEYS[record_type], data, 0, is_flexible=False)


def encode_value(record_type: int, version: int, data: Mapping[str, Any]) -> bytes:
    """Return the value of a record of a known type.

    Raises:
        ValueError: a field is missing, of another kind, or too large; a version that no broker writes.
    """
    if type(version) is not int or not 0 <= version <= _LAST_VERSION:
        raise ValueError(f"found value version {repr(version)[:100]}, expected 0 to {_LAST_VERSION}")
    return struct.pack(">h", version) + _encode(_VALUES[record_type], data, version, is_flexible=version >= _FIRST_FLEXIBLE)


def _encode(fields: tuple[_Field, ...], data: Mapping[str, Any], version: int, *, is_flexible: bool) -> bytes:
    parts, tags = [], b"\0"
    for name, kind, since, until in fields:
        if not since <= version <= until:
            continue
        if name not in data:
            if kind == "tagged uuid":
                continue
            raise ValueError(f"{name} is missing")
        try:
            if kind == "tagged uuid":
                tags = _topic_id_tags(data[name])
            else:
                parts.append(_ENCODERS[kind](data[name], version, is_flexible))
        except (TypeError, ValueError, struct.error, AttributeError) as error:
            raise ValueError(f"{name}: {error}") from None
    return b"".join(parts) + (tags if is_flexible else b"")


def _string(text: Any, version: int, is_flexible: bool) -> bytes:
    if not isinstance(text, str):
        raise ValueError(f"expected a string, found {repr(text)[:100]}")
    data = text.encode("utf-8", errors="replace")  # as Java writes half a surrogate pair
    return (_varint(len(data) + 1) if is_flexible else struct.pack(">h", len(data))) + data


def _nullable(text: Any, version: int, is_flexible: bool) -> bytes:
    if text is None:
        return b"\0" if is_flexible else struct.pack(">h", -1)
    return _string(text, version, is_flexible)


def _bytes(text: Any, version: int, is_flexible: bool) -> bytes:
    data = base64.b64decode(text, validate=True)
    return (_varint(len(data) + 1) if is_flexible else struct.pack(">i", len(data))) + data


def _members(members: Any, version: int, is_flexible: bool) -> bytes:
    if not isinstance(members, list):
        raise ValueError(f"expected a list, found {repr(members)[:100]}")
    count = _varint(len(members) + 1) if is_flexible else struct.pack(">i", len(members))
    return count + b"".join(_encode(_MEMBER, member, version, is_flexible=is_flexible) for member in members)


def _integer(code: str) -> Callable[[Any, int, bool], bytes]:
    def encode(number: Any, version: int, is_flexible: bool) -> bytes:
        if type(number) is not int:
            raise ValueError(f"expected a whole number, found {repr(number)[:100]}")
        return struct.pack(code, number)

    return encode


def _topic_id_tags(text: Any) -> bytes:
    raw = base64.urlsafe_b64decode(f"{text}==")
    if len(raw) != len(_NO_TOPIC_ID):
        raise ValueError(f"expected 22 characters, found {repr(text)[:100]}")
    return b"\0" if raw == _NO_TOPIC_ID else b"\1\0\x10" + raw  # left out when it is zero


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


_ENCODERS: dict[str, Callable[[Any, int, bool], bytes]] = {
    "string": _string,
    "nullable": _nullable,
    "bytes": _bytes,
    "members": _members,
    "int32": _integer(">i"),
    "int64": _integer(">q"),
}
