"""Kafka's primitive encodings, read with bounds checks from one ``bytes`` object.

There are two families: the classic one (int16 string length, int32 array count) and the flexible one of KIP-482 (unsigned
varints of length + 1, tagged fields after every struct). Both behave like the readers that Kafka generates from its message
definitions: they accept the same bytes with the same result, and raise ``WireError`` for others.
"""

from __future__ import annotations

import re
import struct
from binascii import b2a_base64
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

Reason = Literal[
    "truncated",  # a field of fixed size, or a varint, needs more bytes than there are
    "negative_length",  # a field that cannot be null has a negative length or count
    "length_beyond_end",  # a length or count is larger than the number of bytes left
    "string_too_long",  # a flexible string has more than 32767 bytes
    "bad_varint",  # an unsigned varint has more than five bytes
    "unsupported_version",  # no layout is known for the version at the start
]
"""Why bytes could not be decoded. The codes are stable, so that they can be stored and counted."""

_T = TypeVar("_T")

_LONGEST_STRING = 0x7FFF
_LONGEST_VARINT = 5
_INT8 = struct.Struct(">b")
_UNPACK_INT16 = struct.Struct(">h").unpack_from
_UNPACK_INT32 = struct.Struct(">i").unpack_from
_UNPACK_INT64 = struct.Struct(">q").unpack_from
_PREPARED_COUNTS = 64
_UNPACK_INT32S = tuple([struct.Struct(f">{count}i").unpack_from for count in range(_PREPARED_COUNTS)])
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
# Java decodes a UTF-8 encoded surrogate, even an incomplete one, to a single U+FFFD. Python would give one for each byte.
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


class WireError(ValueError):
    """Bytes that Kafka's own reader refuses.

    Attributes:
        reason: a stable code, see ``Reason``.
        detail: what was found at which byte, and what was expected.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


def java_text(raw: bytes) -> str:
    """Return ``raw`` as Java's ``new String(raw, UTF_8)`` does: malformed sequences become U+FFFD.

    The result never holds a lone surrogate, so it can always be encoded as UTF-8 again (Arrow, Parquet, JSON).
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, raw).decode("utf-8", "replace")


def uuid_text(raw: bytes) -> str:
    """Return 16 bytes as a topic id in Kafka's text form: 22 characters, URL-safe base64 without padding."""
    return b2a_base64(raw, newline=False)[:22].translate(_URL_SAFE).decode()


class Reader:
    """A position in ``data``. Each call returns the next field and moves the position to its end.

    Attributes:
        data: the bytes being read.
        offset: the position of the next field.
    """

    __slots__ = ("_size", "data", "offset")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0
        self._size = len(data)

    def version(self, latest: int) -> int:
        """Return the version, an int16; raise ``WireError`` unless it is in ``0 .. latest``."""
        version = self.int16()
        if not 0 <= version <= latest:
            raise WireError("unsupported_version", f"found version {version} at byte {self.offset - 2}, expected 0 to {latest}")
        return version

    def int8(self) -> int:
        """Return a signed 8-bit integer."""
        value: int
        (value,) = self.fixed(_INT8)
        return value

    def int16(self) -> int:
        """Return a signed 16-bit integer."""
        value: int
        try:
            (value,) = _UNPACK_INT16(self.data, self.offset)
        except struct.error:
            raise self._truncated(2) from None
        self.offset += 2
        return value

    def int32(self) -> int:
        """Return a signed 32-bit integer."""
        value: int
        try:
            (value,) = _UNPACK_INT32(self.data, self.offset)
        except struct.error:
            raise self._truncated(4) from None
        self.offset += 4
        return value

    def int64(self) -> int:
        """Return a signed 64-bit integer."""
        value: int
        try:
            (value,) = _UNPACK_INT64(self.data, self.offset)
        except struct.error:
            raise self._truncated(8) from None
        self.offset += 8
        return value

    def fixed(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return the fields of ``layout``: one call for several fields of fixed size."""
        try:
            values = layout.unpack_from(self.data, self.offset)
        except struct.error:
            raise self._truncated(layout.size) from None
        self.offset += layout.size
        return values

    def uuid(self) -> str:
        """Return a topic id in Kafka's text form."""
        end = self.offset + 16
        if end > self._size:
            raise self._truncated(16)
        raw = self.data[self.offset : end]
        self.offset = end
        return uuid_text(raw)

    # Classic encodings: a negative length is null where null is allowed.

    def string(self) -> str:
        """Return a string with an int16 length."""
        # One flat function: a record is mostly short strings, and calls cost more than the decoding.
        try:
            (length,) = _UNPACK_INT16(self.data, self.offset)
        except struct.error:
            raise self._truncated(2) from None
        self.offset = start = self.offset + 2
        end = start + length
        if length < 0 or end > self._size:
            raise self._bad_length("string length", length)
        self.offset = end
        raw = self.data[start:end]
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return java_text(raw)

    def nullable_string(self) -> str | None:
        """Return a string with an int16 length; None for a negative length."""
        if self.data[self.offset : self.offset + 1] >= b"\x80":
            self.int16()
            return None
        return self.string()

    def blob(self) -> bytes:
        """Return bytes with an int32 length."""
        return self._sized(self.int32())

    def nullable_blob(self) -> bytes | None:
        """Return bytes with an int32 length; None for a negative length."""
        length = self.int32()
        return None if length < 0 else self._sized(length)

    def array(self, element: Callable[[], _T]) -> tuple[_T, ...]:
        """Return the elements of an array with an int32 count, each read by ``element``."""
        return tuple([element() for _ in range(self._count(self.int32()))])

    def int32_array(self) -> tuple[int, ...]:
        """Return an array of int32 with an int32 count."""
        return self._int32s(self.int32())

    # Flexible encodings (KIP-482).

    def unsigned_varint(self) -> int:
        """Return a varint as Java's int, which is negative if bit 31 is set."""
        value = 0
        shift = 0
        for offset in range(self.offset, self.offset + _LONGEST_VARINT):
            if offset == self._size:
                raise self._truncated(offset - self.offset + 1)
            byte = self.data[offset]
            if byte < 0x80:
                self.offset = offset + 1
                return byte if shift == 0 else _as_int32(value | byte << shift)
            value |= (byte & 0x7F) << shift
            shift += 7
        raise WireError("bad_varint", f"the varint at byte {self.offset} has more than {_LONGEST_VARINT} bytes")

    def compact_string(self) -> str:
        """Return a string with a varint length."""
        return java_text(self._sized_string(self._compact_length()))

    def compact_nullable_string(self) -> str | None:
        """Return a string with a varint length, None for null."""
        length = self._compact_length()
        return None if length < 0 else java_text(self._sized_string(length))

    def compact_blob(self) -> bytes:
        """Return bytes with a varint length."""
        return self._sized(self._compact_length())

    def compact_array(self, element: Callable[[], _T]) -> tuple[_T, ...]:
        """Return the elements of an array with a varint count, each read by ``element``."""
        return tuple([element() for _ in range(self._count(self._compact_length()))])

    def compact_int32_array(self) -> tuple[int, ...]:
        """Return an array of int32 with a varint count."""
        return self._int32s(self._compact_length())

    def tags(self) -> Iterator[tuple[int, int]]:
        """Yield (tag, size) of each tagged field. The caller reads the field or skips ``size`` bytes before the next one.

        Kafka's reader does not check the size of a tag that it knows against the bytes it reads. The caller must not check it either.
        """
        for _ in range(self.unsigned_varint()):
            yield self.unsigned_varint(), self.unsigned_varint()

    def skip(self, size: int) -> None:
        """Skip ``size`` bytes."""
        self._sized(size)

    def skip_tags(self) -> None:
        """Skip a section of tagged fields of which no tag is known."""
        for _, size in self.tags():
            self._sized(size)

    def _compact_length(self) -> int:
        return _as_int32(self.unsigned_varint() - 1)

    def _sized(self, length: int) -> bytes:
        end = self.offset + length
        if length < 0 or end > self._size:
            raise self._bad_length("length", length)
        taken = self.data[self.offset : end]
        self.offset = end
        return taken

    def _sized_string(self, length: int) -> bytes:
        if length > _LONGEST_STRING:
            raise WireError("string_too_long", f"the string at byte {self.offset} has {length} bytes, expected at most {_LONGEST_STRING}")
        return self._sized(length)

    def _count(self, count: int) -> int:
        # Checked before anything is allocated: a forged count may claim two billion elements. Each element has at least one byte.
        if not 0 <= count <= self._size - self.offset:
            raise self._bad_length("array count", count)
        return count

    def _int32s(self, count: int) -> tuple[int, ...]:
        end = self.offset + 4 * count
        if count < 0 or end > self._size:
            raise self._bad_length("int32 array count", count)
        unpack = _UNPACK_INT32S[count] if count < _PREPARED_COUNTS else struct.Struct(f">{count}i").unpack_from
        values = unpack(self.data, self.offset)
        self.offset = end
        return values

    def _truncated(self, size: int) -> WireError:
        return WireError("truncated", f"expected {size} bytes at byte {self.offset}, found {self._size - self.offset}")

    def _bad_length(self, what: str, length: int) -> WireError:
        where = f"found {what} {length} before byte {self.offset}"
        if length < 0:
            return WireError("negative_length", f"{where}, expected 0 or more in a field that cannot be null")
        return WireError("length_beyond_end", f"{where}, expected at most the {self._size - self.offset} bytes that are left")


def _as_int32(value: int) -> int:
    return ((value + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000
