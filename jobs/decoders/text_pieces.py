"""Cuts texts into pieces, and reads them piece by piece: the records of a text, each with its number in the file.

Spark's own reader numbers lines within its block, so that the number of a line would depend on how the file is cut. Here the driver cuts
at ends of records, and stores the number of the first record of each piece. So a record has one number, however the text is cut and in
whatever order the pieces are read.
"""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Iterator
from io import BufferedIOBase, BufferedReader, RawIOBase
from typing import Any, NamedTuple

PIECE_BYTES = 4 << 20
"""The approximate size of a piece: a second of work."""
BLOCK_BYTES = 1 << 20
"""The size of one read."""


_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be", codecs.BOM_UTF8: "utf-8"}
"""Byte order mark at the beginning of a text -> its encoding. Shells of Windows write such texts."""


class Piece(NamedTuple):
    """A part of a text that begins and ends where records do.

    Attributes:
        start: its first byte in the unpacked text.
        end: the byte after its last one; None for the end of the text.
        number: the number of its first record in the file, counted from 1.
        heading: earlier lines that are needed to read its records; empty if none are.
    """

    start: int
    end: int | None
    number: int
    heading: str = ""


WHOLE = Piece(0, None, 1)


class RecordTooLongError(ValueError):
    """A record is longer than allowed, such as the endless zeros in some packed files."""


def cut(content: BufferedIOBase, separator: bytes | None, longest_bytes: int) -> Iterator[Piece]:
    r"""Yield the pieces of a text; reads it to its end, which finds any damage.

    Args:
        separator: the beginning of each record; None for lines, which end with ``\n``, ``\r\n`` or ``\r``.
        longest_bytes: the most bytes of one record.

    Raises:
        RecordTooLongError: a record has more.
    """
    text, start, number, searched = bytearray(), 0, 1, 0
    while block := content.read(min(PIECE_BYTES, longest_bytes)):
        text += block
        if len(text) > longest_bytes and not _has_end(text, separator, longest_bytes):
            raise RecordTooLongError
        end = _last_end(text, searched, separator)
        searched = 0 if end else max(0, len(text) - len(separator or b"\n"))
        if end:
            yield Piece(start, start + end, number)
            number += _count(text, end, separator)
            start += end
            del text[:end]
    if text:
        yield Piece(start, start + len(text), number)


def _has_end(text: bytearray, separator: bytes | None, within: int) -> bool:
    """Return whether the first record of a text has at most so many bytes, or may have if its end is not read yet."""
    if separator is not None:
        return len(text) < within + len(separator) or text.find(separator, 1, within + len(separator)) > 0
    return any(text.find(end, 0, within + 1) >= 0 for end in (b"\n", b"\r"))


def _last_end(text: bytearray, searched: int, separator: bytes | None) -> int:
    """Return how many bytes of a text are complete records; ``searched`` bytes are known to have no end."""
    if separator is not None:
        return max(0, text.rfind(separator, max(1, searched)))
    # A carriage return at the very end may be the first half of a line end.
    return 1 + max(text.rfind(b"\n", searched), text.rfind(b"\r", searched, len(text) - 1))


def _count(text: bytearray, end: int, separator: bytes | None) -> int:
    """Return how many records of a text end at ``end`` or before."""
    if separator is not None:
        return text.count(separator, 0, end)
    returns = text.count(b"\r", 0, end)
    return text.count(b"\n", 0, end) + (returns - text.count(b"\r\n", 0, end) if returns else 0)


def read(path: str, piece: Piece, separator: bytes | None, *, is_gzip: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a piece, each with its number; blank lines count and are left out.

    Args:
        path: a file that this machine has.
        separator: as for ``cut``.

    Raises:
        OSError: the file cannot be read.
    """
    with opened(path, is_gzip=is_gzip) as content:
        content.seek(piece.start)
        size = None if piece.end is None else piece.end - piece.start
        for number, record in enumerate(_records(content, size, separator), piece.number):
            if record.strip():
                yield number, record


def read_beginning(path: str, separator: bytes, *, is_gzip: bool) -> bytes:
    """Return the text before the first separator, which ``read`` leaves out.

    Raises:
        OSError: the file cannot be read.
    """
    text = b""
    with opened(path, is_gzip=is_gzip) as content:
        while separator not in text and (block := content.read(BLOCK_BYTES)):
            text += block
    return text.partition(separator)[0]


def read_blocks(path: str, piece: Piece, block_bytes: int, *, is_gzip: bool) -> Iterator[bytes]:
    """Yield the text of a piece in blocks of whole lines; a longer line is a block of its own.

    Args:
        path: a file that this machine has.

    Raises:
        OSError: the file cannot be read.
    """
    with opened(path, is_gzip=is_gzip) as content:
        content.seek(piece.start)
        size = None if piece.end is None else piece.end - piece.start
        rest = b""
        while block := content.read(block_bytes if size is None else min(block_bytes, size)):
            size = None if size is None else size - len(block)
            text = rest + block
            end = _last_end(bytearray(text), len(rest), None)
            if end:
                yield text[:end]
            rest = text[end:]
        if rest:
            yield rest


def read_whole(path: str, *, is_gzip: bool) -> bytes:
    """Return all of a text.

    Raises:
        OSError: the file cannot be read.
    """
    with opened(path, is_gzip=is_gzip) as content:
        return content.read()


def opened(path: str, *, is_gzip: bool) -> BufferedIOBase:
    """Return a text, unpacked, without a byte order mark, and as UTF-8 if it has a mark of UTF-16.

    Raises:
        OSError: the file cannot be read.
    """
    name = path.encode(errors="surrogateescape")  # names of captures are in UTF-8; a worker may have another locale
    file: gzip.GzipFile | BufferedReader = gzip.open(name) if is_gzip else open(name, "rb")
    try:
        begin = file.peek(3)[:3]
    except BaseException:
        file.close()
        raise
    mark = mark_of(begin)
    return file if mark is None else BufferedReader(_Marked(file, mark))


def mark_of(begin: bytes) -> bytes | None:
    """Return the byte order mark of a text; None for most texts. A text with a mark can be read only from its beginning."""
    return next((mark for mark in _MARKS if begin.startswith(mark)), None)


class _Marked(RawIOBase):
    """The bytes of a text after its mark as UTF-8; damaged UTF-16 becomes bytes that are not UTF-8."""

    def __init__(self, file: BufferedIOBase, mark: bytes) -> None:
        self._file, self._mark = file, mark
        self._begin()

    def _begin(self) -> None:
        self._file.seek(len(self._mark))
        encoding = _MARKS[self._mark]
        # Half a surrogate pair stays one, which UTF-8 does not allow.
        self._decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)("surrogatepass")
        self._rest, self._position = b"", 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go back to the beginning.

        Raises:
            OSError: another offset was given.
        """
        if (offset, whence) != (0, 0):
            raise OSError("a text with a byte order mark is read from its beginning")
        self._begin()
        return 0

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        while not self._rest:
            block = self._file.read(len(target))
            if self._decoder is None:
                self._rest = block
            elif block:
                self._rest = self._decoder.decode(block).encode(errors="surrogatepass")
            elif self._decoder.getstate()[0]:  # the text ends within a character
                self._decoder.reset()
                self._rest = b"\xff"
            if not block and not self._rest:
                return 0
        part, self._rest = self._rest[: len(target)], self._rest[len(target) :]
        target[: len(part)] = part
        self._position += len(part)
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


def _records(content: BufferedIOBase, size: int | None, separator: bytes | None) -> Iterator[bytes]:
    """Yield all records, lines without their ends."""
    ends = (b"\n", b"\r") if separator is None else (separator,)
    begun: list[bytes] = []
    while block := content.read(BLOCK_BYTES if size is None else min(BLOCK_BYTES, size)):
        size = None if size is None else size - len(block)
        begun.append(block)
        if any(end in block for end in ends):
            *whole, rest = _split(b"".join(begun), separator)
            yield from map(_without_end, whole) if separator is None else whole
            begun = [rest]
    last = _split(b"".join(begun), separator)
    yield from map(_without_end, last) if separator is None else last


def _split(text: bytes, separator: bytes | None) -> list[bytes]:
    """Return the records of a text, lines with their ends; the last one may be incomplete."""
    if separator is None:
        return text.splitlines(keepends=True)
    return [separator + rest for rest in text.split(separator)[1:]]  # for the text before the first one of a file see read_beginning


def _without_end(line: bytes) -> bytes:
    return line.rstrip(b"\r\n")
