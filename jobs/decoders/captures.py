"""Finds the captures of a run, recognises them by content, and refuses unusable files with a reason before Spark starts."""

from __future__ import annotations

import gzip
import hashlib
import logging
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path

from jobs.decoders import text_pieces
from jobs.decoders.coordinator_log import has_coordinator_line, looks_like_coordinator_log
from jobs.decoders.describe import find_fold, find_lost_topic_names, looks_like_describe
from jobs.decoders.dump_log import NO_PARTITION, is_dump_after_markers, lacks_partition, looks_like_dump, with_headings
from jobs.decoders.folders import (
    KNOWN_FORMAT,
    MOST_NAMED,
    NO_CAPTURE,
    NOT_ASKED_FOR,
    PassedOver,
    files_below,
    readable_by_spark,
    refuse_table,
    root_of,
)
from jobs.decoders.formatter_json import find_separator
from jobs.decoders.other_formats import name_binary, name_client_log, name_format, name_old_table
from jobs.decoders.parquet_captures import AGAIN, ENCRYPTED_MAGIC, PLAIN_MAGIC, parquet_facts
from jobs.decoders.plain_lines import plain_lines
from jobs.decoders.text_pieces import WHOLE, Piece, RecordTooLongError
from jobs.runtime.errors import InputError
from jobs.runtime.sidecars import checksum_problem
from schemas.snapshot import line_cluster_id, recognise_line
from schemas.vocabulary import SOURCES_OF_GROUPS, Source

logger = logging.getLogger(__name__)

PARQUET, LINES, OBJECTS, TEXT = "parquet", "lines", "objects", "text"
HEAD_BYTES = 1 << 16
"""The part of a text by which its kind is recognised."""
LONGEST_TEXT_BYTES = 1 << 28
"""The longest line or description that is read at once: longer than the metadata of a million partitions."""
DECIDING_LINES = 5
"""How many lines may show the kind of JSON lines: the first one may be cut, or a message of the program that printed them."""
_DIGEST_BYTES = 1 << 20
"""The size of one read of a digest."""
_MOST_IDS = 5
"""How many ids of clusters a line of the log names."""
_KINDS = ", ".join(map(str, Source))
_ENCRYPTED = "a Parquet file with an encrypted footer"


@dataclass(frozen=True)
class Capture:
    """One input file.

    Attributes:
        path: as Spark reads it.
        source: the kind of the capture.
        encoding: ``parquet``, ``lines`` (a record each), ``objects`` (JSON with nothing between) or ``text``.
        size_bytes: size of the file.
        cluster_id: the capture's own id, or that of the captures beside it; None when there is none.
        separator: the text at the beginning of each of the ``objects``; None for other encodings.
        has_odd_times, types: see ``ParquetFacts``.
        name: the path below the input folder; for an input that is a file, its own name.
        is_gzip: it is a packed text.
        pieces: the parts in which a text is read, line by line or object by object; none for other encodings.
        offsets_partition: of a dump the partition of ``__consumer_offsets`` for segments without it in their names; None if not given.
    """

    path: str
    source: Source
    encoding: str
    size_bytes: int
    cluster_id: str | None = None
    separator: str | None = None
    has_odd_times: bool = False
    types: str | None = None
    name: str = ""
    is_gzip: bool = False
    pieces: tuple[Piece, ...] = ()
    offsets_partition: int | None = None


def find_captures(inputs: tuple[str, ...], forced: Source | None = None, offsets_partition: int | None = None) -> tuple[Capture, ...]:
    """Return the captures in the given files and folders, in a fixed order.

    Files of other kinds in a folder are passed over, and the log has their names and reasons. An input that is a file must be a capture.

    Args:
        forced: kind of the captures; topic metadata in a folder with them is taken too. None for all kinds.
        offsets_partition: of dumps without a partition; None if all must have one.

    Raises:
        InputError: no capture, an empty or unreadable file, an unknown kind, missing columns.
    """
    found: dict[Path, Capture] = {}
    passed_over = PassedOver()
    for name in inputs:
        root = root_of(name)
        is_folder = root.is_dir()
        refuse_table(root)
        paths = files_below(root, passed_over) if is_folder else (root,)
        captures = [
            replace(capture, name=str(path.relative_to(root if is_folder else root.parent)))
            for path in paths
            if (capture := _recognise(path, forced, offsets_partition, None if not is_folder else passed_over))
        ]
        if not captures:
            passed_over.log()
            other = passed_over.first(KNOWN_FORMAT, root)
            raise InputError(f"input {name}: no capture in this folder; {other or f'expected files of one of {_KINDS}'}")
        for capture in captures:  # the outermost folder gives a file its name, in any order of inputs
            known = found.get(Path(capture.path))
            if known is None or len(known.name) < len(capture.name):
                found[Path(capture.path)] = capture
    passed_over.log()
    if not found:
        raise InputError("no input: name captures with --input, or under inputs in the settings")
    return _with_cluster_ids([found[path] for path in sorted(found)])


def _with_cluster_ids(captures: list[Capture]) -> tuple[Capture, ...]:
    """Return the captures; one without an id gets the id of the captures in the smallest folder around it.

    So files of one folder belong together, also below a folder of several clusters, and also if each is an input of its own.
    """
    ids: dict[Path, set[str]] = {}
    for capture in captures:
        if capture.cluster_id is not None:
            for folder in Path(capture.path).parents:
                ids.setdefault(folder, set()).add(capture.cluster_id)
    around = [_ids_around(capture, ids) if capture.cluster_id is None else {capture.cluster_id} for capture in captures]
    unclear = [(capture.path, known) for capture, known in zip(captures, around, strict=True) if len(known) > 1]
    for path, known in unclear[:MOST_NAMED]:
        listed = ", ".join(sorted(known)[:_MOST_IDS]) + (f" and {len(known) - _MOST_IDS} more" if len(known) > _MOST_IDS else "")
        logger.warning("%s has no cluster id, and the captures in its folder name several: %s; name one with --cluster-id", path, listed)
    if len(unclear) > MOST_NAMED:
        logger.warning("%d captures in all have no cluster id, and several in their folders", len(unclear))
    return tuple(
        replace(capture, cluster_id=next(iter(known)) if len(known) == 1 else None) for capture, known in zip(captures, around, strict=True)
    )


def _ids_around(capture: Capture, ids: dict[Path, set[str]]) -> set[str]:
    return next((ids[folder] for folder in Path(capture.path).parents if folder in ids), set())


def fingerprint(digests: Iterable[bytes]) -> str:
    """Return a SHA-256 of the contents of captures, independent of their names and folders.

    Args:
        digests: of each, as ``content_digest`` returns it.
    """
    digest = hashlib.sha256()
    for content in sorted(digests):
        digest.update(content)
    return digest.hexdigest()


def content_digest(capture: Capture) -> bytes:
    """Return the SHA-256 of the content of a capture, as far as its pieces go: a log may have grown since they were cut."""
    digest = hashlib.sha256()
    left = capture.pieces[-1].end if capture.pieces else None
    with Path(capture.path).open("rb") as file:
        while block := file.read(_DIGEST_BYTES if left is None else min(_DIGEST_BYTES, left)):
            digest.update(block)
            left = None if left is None else left - len(block)
    return digest.digest()


def _recognise(path: Path, forced: Source | None, offsets_partition: int | None, passed_over: PassedOver | None) -> Capture | None:
    """Return a file as a capture; None for a file that is not one.

    Args:
        offsets_partition: see ``find_captures``.
        passed_over: takes files that are not captures; None for an input that is a file, which must be a capture.
    """
    try:
        size = path.stat().st_size
        if size == 0 and passed_over is not None:
            passed_over.add(path, "an empty file")
            return None
        if size == 0:
            raise InputError(f"input {path}: the file is empty; write the capture again, or leave the file out")
        with path.open("rb") as file:
            magic = file.read(4)
        if magic == ENCRYPTED_MAGIC:
            raise _OtherKindError(_ENCRYPTED)
        asked_for = forced if passed_over is None else None
        is_gzip = magic[:2] == b"\x1f\x8b"
        is_read_whole = is_gzip or text_pieces.mark_of(magic) is not None
        capture = (
            _parquet_capture(path, size)
            if magic == PLAIN_MAGIC
            else _text_capture(path, size, offsets_partition, asked_for, is_gzip=is_gzip, is_read_whole=is_read_whole)
        )
        damage = checksum_problem(path)
    except OSError as error:
        raise InputError(f"input {path}: cannot be read ({error.strerror or error}); make it readable, or leave it out") from None
    except _KnownFormatError as error:
        if passed_over is None:
            raise InputError(f"input {path}: {error}") from None
        passed_over.add(path, KNOWN_FORMAT, str(error))
        return None
    except _OtherKindError as error:
        if passed_over is None:
            raise InputError(f"input {path}: {error}; expected one of {_KINDS}") from None
        reason = str(error)
        passed_over.add(path, reason if reason == _ENCRYPTED else NO_CAPTURE, reason)
        return None
    # Topic metadata has no groups: it goes with every kind that has some.
    goes_with = passed_over is not None and capture.source is Source.CLUSTER_METADATA and forced in SOURCES_OF_GROUPS
    if forced not in (None, capture.source) and not goes_with:
        if passed_over is None:
            raise InputError(
                f"input {path}: expected {forced} by --format, found {capture.source}; leave out --format, or name {capture.source}"
            )
        passed_over.add(path, NOT_ASKED_FOR, f"expected {forced}, found {capture.source}")
        return None
    if damage is not None:
        raise InputError(f"input {path}: found {damage}; copy it again, or delete .{path.name}.crc if the file is correct")
    return capture


class _OtherKindError(Exception):
    """A readable file that is not a capture: passed over in a folder, refused as an input of its own."""


class _KnownFormatError(_OtherKindError):
    """A file about groups in a format that Evenkeel does not read; the message names it, and what to write instead."""


def _parquet_capture(path: Path, size: int) -> Capture:
    facts = parquet_facts(path)
    return Capture(readable_by_spark(path), facts.source, PARQUET, size, has_odd_times=facts.has_odd_times, types=facts.types)


def _first_lines(content: BufferedIOBase) -> Iterator[str]:
    """Yield the first lines of a text that are not blank, at most ``DECIDING_LINES``.

    Raises:
        _OtherKindError: a file of another kind without line ends, such as an image, or one that unpacks to zeros without end.
        UnicodeDecodeError: a file of another kind.
    """
    count, error = 0, None
    while count < DECIDING_LINES and (begin := content.readline(LONGEST_TEXT_BYTES + 1)):
        if len(begin) > LONGEST_TEXT_BYTES:
            raise _OtherKindError(f"the first line is longer than {LONGEST_TEXT_BYTES} bytes")
        try:
            text = begin.decode()
        except UnicodeDecodeError as found:  # a line that was cut may begin within a character
            text, error = begin.decode(errors="replace"), found if count == 0 else error
        for line in filter(str.strip, text.split("\r")[: DECIDING_LINES - count]):
            count += 1
            yield line.strip()
    if error is not None:
        raise error


def _text_capture(
    path: Path, size: int, offsets_partition: int | None, asked_for: Source | None, *, is_gzip: bool, is_read_whole: bool
) -> Capture:
    """Return a text as a capture.

    Args:
        asked_for: what it is if its content does not show another kind; None if nobody said so.
    """
    try:
        with text_pieces.opened(str(path), is_gzip=is_gzip) as content:
            head = content.read(HEAD_BYTES)
            if (packed := name_binary(head)) is not None:
                raise _KnownFormatError(packed)
            text = head.decode(errors="replace")
            separator = find_separator(text)
            content.seek(0)
            if separator is not None:
                capture = Capture(str(path), Source.FORMATTER_JSON, OBJECTS, size, separator=separator)
            elif looks_like_coordinator_log(head):
                capture = Capture(str(path), Source.COORDINATOR_LOG, LINES, size)
            elif looks_like_dump(text) or is_dump_after_markers(text, content):
                if offsets_partition is None and lacks_partition(text):
                    raise InputError(f"input {path}: {NO_PARTITION}")
                capture = Capture(str(path), Source.DUMP_LOG, LINES, size, offsets_partition=offsets_partition)
            elif (old := name_old_table("\n".join(plain_lines(text)))) is not None:
                raise _KnownFormatError(old)
            elif (folded := find_fold(text)) is not None:
                raise _KnownFormatError(folded)
            elif asked_for is Source.DESCRIBE or looks_like_describe(text):
                content.seek(0)
                _refuse_lost_names(path, content.read(LONGEST_TEXT_BYTES + 1))
                capture = Capture(str(path), Source.DESCRIBE, TEXT, size)
            else:
                content.seek(0)
                capture = _lines_capture(path, size, content, text, is_log=asked_for is Source.COORDINATOR_LOG)
            content.seek(0)
            pieces = () if capture.encoding == TEXT else _pieces(content, capture, is_read_whole=is_read_whole)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"input {path}: damaged gzip data ({error}); {AGAIN}") from None
    except UnicodeDecodeError as error:
        raise _OtherKindError(f"not a text file ({error})") from None
    except RecordTooLongError:
        raise InputError(f"input {path}: a line is longer than {LONGEST_TEXT_BYTES} bytes; {AGAIN}") from None
    return replace(capture, path=readable_by_spark(path), is_gzip=is_gzip, pieces=pieces)


def _pieces(content: BufferedIOBase, capture: Capture, *, is_read_whole: bool) -> tuple[Piece, ...]:
    """Return the pieces of a text. A text that can be read only from its beginning has one; it is read once to find damage."""
    if not is_read_whole and capture.size_bytes <= text_pieces.PIECE_BYTES:
        return (Piece(0, capture.size_bytes, 1),)
    separator = None if capture.separator is None else capture.separator.encode()
    pieces = tuple(text_pieces.cut(content, separator, LONGEST_TEXT_BYTES))
    if is_read_whole:
        return (WHOLE,)
    return tuple(with_headings(content, pieces)) if capture.source is Source.DUMP_LOG else pieces


def _refuse_lost_names(path: Path, content: bytes) -> None:
    if len(content) > LONGEST_TEXT_BYTES:
        raise InputError(f"input {path}: more than {LONGEST_TEXT_BYTES} bytes of text; describe fewer groups at a time, into several files")
    lost = find_lost_topic_names(content.decode(errors="surrogateescape"))
    if lost is not None:
        raise InputError(f"input {path}: {lost}")


def _lines_capture(path: Path, size: int, content: BufferedIOBase, begin: str, *, is_log: bool) -> Capture:
    """Return JSON lines, or a log of a broker whose first line of a coordinator comes late.

    Raises:
        _OtherKindError: it is neither, and ``is_log`` is false.
    """
    try:
        return _ndjson_capture(path, size, content, begin)
    except _KnownFormatError:
        raise
    except _OtherKindError:
        content.seek(0)
        if not is_log and not has_coordinator_line(content):
            if (of_client := name_client_log(begin)) is not None:
                raise _KnownFormatError(of_client) from None
            raise
        return Capture(str(path), Source.COORDINATOR_LOG, LINES, size)


def _ndjson_capture(path: Path, size: int, content: BufferedIOBase, begin: str) -> Capture:
    """Return JSON lines. The first line that can be read shows their kind: those before it land in quarantine, as later ones do."""
    problems: list[tuple[Source | None, str]] = []
    for line in _first_lines(content):
        source, problem = recognise_line(line)
        if source is not None and not problem:
            return Capture(str(path), source, LINES, size, line_cluster_id(line) if source is Source.CLUSTER_METADATA else None)
        problems.append((source, problem))
        if line in ("[", "{"):  # a document that is spread over lines
            break
    source, problem = problems[0] if problems else recognise_line("")
    other = name_format(begin)
    if other is not None:
        raise _KnownFormatError(other)
    if source is None:
        raise _OtherKindError(problem)
    raise InputError(f"input {path}: {problem}")
