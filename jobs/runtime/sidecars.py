"""Hadoop's checksums beside each local file: a CRC-32 for each 512 bytes, which finds one flipped bit and its block."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

_MAGIC = b"crc\0"
_HEADER = struct.Struct(">4sI")


def has_checksums(path: Path) -> bool:
    """Return whether a file has a checksum file beside it, correct or not; False if that cannot be read."""
    try:
        _sidecar(path).stat()
    except OSError:
        return False
    return True


def _sidecar(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def checksum_problem(path: Path) -> str | None:
    """Return how a file differs from its checksums in ``.<name>.crc``; None if it does not, or has none.

    Spark writes them on local file systems and refuses to read a file that does not match them. Copies without hidden files have none.
    Files of writers without Hadoop have none either.
    """
    sidecar = _sidecar(path)
    try:
        content = sidecar.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"an unreadable checksum file {sidecar.name} ({error.strerror})"
    size = path.stat().st_size
    if len(content) < _HEADER.size or content[: len(_MAGIC)] != _MAGIC:
        return f"an unreadable checksum file {sidecar.name}"
    _, block_size = _HEADER.unpack_from(content)
    count = (len(content) - _HEADER.size) // 4
    if not block_size or count != -(-size // block_size):
        return f"{size} bytes, which are not the {count} blocks of {block_size} bytes of its checksums"
    with path.open("rb") as file:
        for number, (checksum,) in enumerate(struct.iter_unpack(">I", content[_HEADER.size :][: count * 4])):
            if zlib.crc32(file.read(block_size)) != checksum:
                return f"bytes {number * block_size}-{min(size, (number + 1) * block_size) - 1} that do not match their checksum"
    return None
