"""Which files a run takes in: found, recognised by content, and refused with a reason before Spark starts on them."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from errno import ELOOP
from heapq import heappop, heappush
from io import BufferedIOBase
from pathlib import Path

from jobs.decoders import text_pieces
from jobs.decoders.describe import find_lost_topic_names, looks_like_describe
from jobs.decoders.dump_log import NO_PARTITION, lacks_partition, looks_like_dump, with_headings
from jobs.decoders.formatter_json import find_separator
from jobs.decoders.other_formats import name_format, name_old_table
from jobs.decoders.parquet_captures import AGAIN, ENCRYPTED_MAGIC, PLAIN_MAGIC, parquet_facts
from jobs.decoders.text_pieces import WHOLE, Piece, RecordTooLongError
from jobs.runtime.errors import InputError
from jobs.runtime.location import is_table, is_warehouse, objection, table_around, told
from jobs.runtime.output_files import without_report_files
from jobs.runtime.sidecars import checksum_problem
from schemas.snapshot import line_cluster_id, recognise_line
from schemas.vocabulary import SOURCES_OF_GROUPS, Source

logger = logging.getLogger(__name__)

PARQUET, LINES, OBJECTS, TEXT = "parquet", "lines", "objects", "text"
HEAD_BYTES = 1 << 16
"""What the kind of a text is recognised by."""
LONGEST_TEXT_BYTES = 1 << 28
"""The most that is read at once, a line or a description: more than a look at a million partitions has."""
_KINDS = ", ".join(map(str, Source))
_SPARK_PASSES_OVER = (".", "_")
"""What the names of files begin with that Spark takes for hidden ones, or for marks of its own."""
_UNFINISHED = "._COPYING_"
"""What the names of files end with that Hadoop's tools are still writing; Spark passes over them."""
_MOST_NAMED = 20
"""Files that are passed over, of each kind, which the log names."""
_ODD_FILES = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_ENCRYPTED = "a Parquet file with an encrypted footer"
_NO_CAPTURE, _NOT_ASKED_FOR, _READ_ALREADY = "no capture", "of another kind than was asked for", "a folder that is read already"
_KNOWN_FORMAT = "of a format that is not taken"
_EXPECTED = (_NO_CAPTURE, _NOT_ASKED_FOR, _READ_ALREADY)
"""Why files are passed over without anybody having to worry."""


@dataclass(frozen=True)
class Capture:
    """One input file.

    Attributes:
        path: as Spark reads it.
        source: which kind of capture it is.
        encoding: ``parquet``, ``lines`` (a record each), ``objects`` (JSON with nothing between) or ``text``.
        size_bytes: size of the file.
        cluster_id: the capture's own id, or that of the captures beside it; None when there is none.
        separator: the text with which each of the ``objects`` begins; None for other encodings.
        has_odd_times, types: see ``ParquetFacts``.
        name: the path below the folder that was named as an input; of a file that was named itself, its own name.
        is_gzip: it is a packed text.
        pieces: in which a text is read, line by line or object by object; none for other encodings.
        offsets_partition: of a dump the partition of ``__consumer_offsets``, for segments whose names do not tell it; None for no such.
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

    Files of other kinds in a folder are passed over, which the log says by name and reason; a file that was named itself must be a
    capture.

    Args:
        forced: kind of the captures; looks that lie in a folder with them are taken too. None for all kinds.
        offsets_partition: of dumps that do not tell theirs; None where all have to.

    Raises:
        InputError: nothing there, an empty or unreadable file, a kind that is not known, missing columns.
    """
    found: dict[Path, Capture] = {}
    passed_over = _PassedOver()
    for name in inputs:
        root = _root(name)
        is_folder = root.is_dir()
        _refuse_table(root)
        paths = _files(root, passed_over) if is_folder else (root,)
        captures = [
            replace(capture, name=str(path.relative_to(root if is_folder else root.parent)))
            for path in paths
            if (capture := _recognise(path, forced, offsets_partition, None if not is_folder else passed_over))
        ]
        if not captures:
            passed_over.tell()
            other = passed_over.first(_KNOWN_FORMAT, root)
            raise InputError(f"input {name}: no capture in this folder; {other or f'expected files of one of {_KINDS}'}")
        for capture in captures:  # in whatever order inputs are named, the outermost folder gives a file its name
            known = found.get(Path(capture.path))
            if known is None or len(known.name) < len(capture.name):
                found[Path(capture.path)] = capture
    passed_over.tell()
    if not found:
        raise InputError("no input: name captures with --input, or under inputs in the settings")
    return _with_cluster_ids([found[path] for path in sorted(found)])


class _PassedOver:
    """What folders hold beside captures, by the reason for which it is not taken."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}

    def add(self, path: Path, reason: str, detail: str = "") -> None:
        """Note a file; ``detail`` says more than the reason, which many files share."""
        self._counts[reason] += 1
        if self._counts[reason] <= _MOST_NAMED:
            self._first.setdefault(reason, []).append(f"{path}: {detail or reason}")

    def first(self, reason: str, folder: Path) -> str | None:
        """Return the name of the first file of a folder with this reason, with its detail; None where there is none."""
        return next((file for file in self._first.get(reason, ()) if file.startswith(f"{folder}/")), None)

    def tell(self) -> None:
        """Log the first files of each reason by name, and how many there are of each."""
        for reason, files in self._first.items():
            for file in files:
                logger.log(_level(reason), "passed over %s", file)
        if self._counts.total() > 1:
            counts = "; ".join(f"{reason}: {count}" for reason, count in self._counts.items())
            logger.log(max(map(_level, self._counts)), "passed over %d files, links and folders in all (%s)", self._counts.total(), counts)


def _level(reason: str) -> int:
    return logging.INFO if reason in _EXPECTED else logging.WARNING


def _root(name: str) -> Path:
    """Return the path of an input that is there, as Spark reads it.

    Raises:
        InputError: it is not, or is neither a file nor a folder.
    """
    try:
        kind = stat.S_IFMT(Path(name).stat().st_mode)
    except FileNotFoundError:
        found = f"a symbolic link to {told(os.readlink(name))}, which is not there" if Path(name).is_symlink() else "no such file or folder"
        raise InputError(f"input {told(name)}: {found}; correct --input, or inputs in the settings") from None
    except (OSError, ValueError) as error:
        raise InputError(f"input {told(name)}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if kind in _ODD_FILES:
        raise InputError(f"input {told(name)}: {_ODD_FILES[kind]}; expected a file or a folder: write what comes from it to a file")
    path = Path(name).absolute()
    return path.resolve() if ".." in path.parts else path  # Hadoop would go up by the text alone, past symbolic links


def _refuse_table(root: Path) -> None:
    """Refuse an input within a Delta table, where files lie that its newest version has no more.

    Raises:
        InputError: naming the table.
    """
    table = table_around(root.resolve())
    if table is not None:
        remedy = "write its rows into a folder of their own as Parquet, and name that"
        raise InputError(f"input {told(str(root))}: found the Delta table {told(str(table))}, expected captures; {remedy}")


def _readable_by_spark(path: Path) -> str:
    """Return the name of a capture for Spark.

    Raises:
        InputError: Spark would look for another file, or for several.
    """
    problem = objection(str(path))
    if problem is None and ":" in path.name:
        problem = "Spark cannot read a file with ':' in its name; rename it"
    if problem is None and (path.name.startswith(_SPARK_PASSES_OVER) or path.name.endswith(_UNFINISHED)):
        problem = f"Spark passes over files whose name begins with '.' or '_' or ends with {_UNFINISHED}; rename it"
    if problem is not None:
        raise InputError(f"input {told(str(path))}: {problem}")
    return str(path)


def _with_cluster_ids(captures: list[Capture]) -> tuple[Capture, ...]:
    """Return the captures, those without an id with the one that the smallest folder around them names.

    So files of one folder belong together, also below a folder of several clusters, and also when they are named one by one.
    """
    ids: dict[Path, set[str]] = {}
    for capture in captures:
        if capture.cluster_id is not None:
            for folder in Path(capture.path).parents:
                ids.setdefault(folder, set()).add(capture.cluster_id)
    return tuple(replace(capture, cluster_id=capture.cluster_id or _id_around(capture, ids)) for capture in captures)


def _id_around(capture: Capture, ids: dict[Path, set[str]]) -> str | None:
    known = next((ids[folder] for folder in Path(capture.path).parents if folder in ids), set())
    if len(known) > 1:
        logger.warning("%s has no cluster id, and those beside it differ: %s; name one with --cluster-id", capture.path, sorted(known))
    return min(known) if len(known) == 1 else None


def fingerprint(digests: Iterable[bytes]) -> str:
    """Return a SHA-256 over what captures hold, whatever their names and folders are.

    Args:
        digests: of each, as ``content_digest`` returns it.
    """
    digest = hashlib.sha256()
    for content in sorted(digests):
        digest.update(content)
    return digest.hexdigest()


def content_digest(capture: Capture) -> bytes:
    """Return the SHA-256 of what a capture holds."""
    digest = hashlib.sha256()
    with Path(capture.path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


def _files(folder: Path, passed_over: _PassedOver) -> Iterator[Path]:
    """Yield the files of a folder by name; Spark's own marks and hidden files are none.

    Raises:
        InputError: a folder in it cannot be read: passed over, its captures would be missing.
    """
    try:
        yield from without_report_files(sorted(_walked(folder, passed_over)))
    except OSError as error:
        raise InputError(
            f"input {told(error.filename or str(folder))}: cannot be read ({error.strerror or error}); let us read it, or move it elsewhere"
        ) from None


def _walked(folder: Path, passed_over: _PassedOver) -> Iterator[Path]:
    """Yield the files of a folder and of all below it; of one that has several names once, by its own rather than by a link's."""
    folders, links, seen = [folder], list[Path](), set[tuple[int, int]]()
    while folders or links:
        parent = folders.pop() if folders else heappop(links)
        status = parent.stat()
        if (status.st_dev, status.st_ino) in seen:
            passed_over.add(parent, _READ_ALREADY)
            continue
        seen.add((status.st_dev, status.st_ino))
        tables = []
        with os.scandir(parent) as entries:
            for entry in entries:
                path = parent / entry.name
                kind = 0 if entry.name.startswith(_SPARK_PASSES_OVER) else _kind(path, passed_over)
                if stat.S_ISDIR(kind) and is_table(path):
                    tables.append(entry.name)
                elif stat.S_ISDIR(kind) and entry.is_symlink():
                    heappush(links, path)
                elif stat.S_ISDIR(kind):
                    folders.append(path)
                elif kind in _ODD_FILES:
                    passed_over.add(path, _ODD_FILES[kind])
                elif kind and path.name.endswith(_UNFINISHED):
                    passed_over.add(path, "still being copied, by its name")
                elif kind:
                    yield path
        _name_tables(parent, tables)


def _name_tables(parent: Path, tables: Sequence[str]) -> None:
    """Log the Delta tables in a folder, which are left out: a warehouse's, or copies, which would pass for captures of snapshots."""
    if tables:
        what = "warehouse" if is_warehouse(parent) else "folder"
        logger.info("passed over Delta tables, which are no captures: %d in the %s %s, such as %s", len(tables), what, parent, min(tables))


def _kind(path: Path, passed_over: _PassedOver) -> int:
    """Return what a path is, or its link leads to, in the words of ``stat``; 0 where there is nothing."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except OSError as error:
        if not isinstance(error, FileNotFoundError) and error.errno != ELOOP:
            raise
        if path.is_symlink():  # else it is gone since the folder was read
            passed_over.add(path, "a symbolic link to nothing")
        return 0


def _recognise(path: Path, forced: Source | None, offsets_partition: int | None, passed_over: _PassedOver | None) -> Capture | None:
    """Return a file as a capture; None for one that is none.

    Args:
        offsets_partition: see ``find_captures``.
        passed_over: gets what is no capture; None where the file was named itself, and must be one.
    """
    try:
        size = path.stat().st_size
        if size == 0:
            raise InputError(f"input {path}: the file is empty; write the capture again, or leave the file out")
        with path.open("rb") as file:
            magic = file.read(4)
        if magic == ENCRYPTED_MAGIC:
            raise _OtherKindError(_ENCRYPTED)
        is_printed = passed_over is None and forced is Source.DESCRIBE
        is_gzip = magic[:2] == b"\x1f\x8b"
        is_read_whole = is_gzip or text_pieces.mark_of(magic) is not None
        capture = (
            _parquet_capture(path, size)
            if magic == PLAIN_MAGIC
            else _text_capture(path, size, offsets_partition, is_printed=is_printed, is_gzip=is_gzip, is_read_whole=is_read_whole)
        )
        damage = checksum_problem(path)
    except OSError as error:
        raise InputError(f"input {path}: cannot be read ({error.strerror or error})") from None
    except _KnownFormatError as error:
        if passed_over is None:
            raise InputError(f"input {path}: {error}") from None
        passed_over.add(path, _KNOWN_FORMAT, str(error))
        return None
    except _OtherKindError as error:
        if passed_over is None:
            raise InputError(f"input {path}: {error}; expected one of {_KINDS}") from None
        reason = str(error)
        passed_over.add(path, reason if reason == _ENCRYPTED else _NO_CAPTURE, reason)
        return None
    # Metadata tell of no group: they go with every kind that does.
    goes_with = passed_over is not None and capture.source is Source.CLUSTER_METADATA and forced in SOURCES_OF_GROUPS
    if forced not in (None, capture.source) and not goes_with:
        if passed_over is None:
            raise InputError(f"input {path}: asked to read it as {forced}, found {capture.source}; leave out --format, or name the other")
        passed_over.add(path, _NOT_ASKED_FOR, f"asked for {forced}, found {capture.source}")
        return None
    if damage is not None:
        raise InputError(f"input {path}: found {damage}; copy it again, or delete .{path.name}.crc if the file is as it should be")
    return capture


class _OtherKindError(Exception):
    """A readable file that is no capture; fine beside one, wrong when it was named."""


class _KnownFormatError(_OtherKindError):
    """It tells of groups in a format that is not taken; says which, and what to write instead."""


def _parquet_capture(path: Path, size: int) -> Capture:
    facts = parquet_facts(path)
    return Capture(_readable_by_spark(path), facts.source, PARQUET, size, has_odd_times=facts.has_odd_times, types=facts.types)


def _first_line(begin: bytes) -> str:
    """Return the first line of a file as text; what is behind it may be damaged, which lands in quarantine line by line.

    Raises:
        _OtherKindError: a file of another kind, such as an image, whose lines have no end, or one that unpacks to no end of zeros.
        UnicodeDecodeError: another kind of file too.
    """
    if len(begin) > LONGEST_TEXT_BYTES:
        raise _OtherKindError(f"the first line is longer than {LONGEST_TEXT_BYTES} bytes")
    return begin.decode().partition("\r")[0].strip()


def _text_capture(path: Path, size: int, offsets_partition: int | None, *, is_printed: bool, is_gzip: bool, is_read_whole: bool) -> Capture:
    try:
        with text_pieces.opened(str(path), is_gzip=is_gzip) as content:
            head = content.read(HEAD_BYTES)
            text = head.decode(errors="replace")
            separator = find_separator(text)
            content.seek(0)
            if separator is not None:
                capture = Capture(str(path), Source.FORMATTER_JSON, OBJECTS, size, separator=separator)
            elif looks_like_dump(text):
                if offsets_partition is None and lacks_partition(text):
                    raise InputError(f"input {path}: {NO_PARTITION}")
                capture = Capture(str(path), Source.DUMP_LOG, LINES, size, offsets_partition=offsets_partition)
            elif (old := name_old_table(text)) is not None:
                raise _KnownFormatError(old)
            elif is_printed or looks_like_describe(text):
                _refuse_lost_names(path, content.read(LONGEST_TEXT_BYTES + 1))
                capture = Capture(str(path), Source.DESCRIBE, TEXT, size)
            else:
                capture = _ndjson_capture(path, size, _first_line(content.readline(LONGEST_TEXT_BYTES + 1)), text)
            content.seek(0)
            pieces = () if capture.encoding == TEXT else _pieces(content, capture, is_read_whole=is_read_whole)
    except (EOFError, zlib.error) as error:
        raise InputError(f"input {path}: damaged gzip data ({error}); {AGAIN}") from None
    except UnicodeDecodeError as error:
        raise _OtherKindError(f"not a text file ({error})") from None
    except RecordTooLongError:
        raise InputError(f"input {path}: a line is longer than {LONGEST_TEXT_BYTES} bytes; {AGAIN}") from None
    return replace(capture, path=_readable_by_spark(path), is_gzip=is_gzip, pieces=pieces)


def _pieces(content: BufferedIOBase, capture: Capture, *, is_read_whole: bool) -> tuple[Piece, ...]:
    """Return the pieces of a text; one that can be read from its beginning only has one, and is read through for damage."""
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


def _ndjson_capture(path: Path, size: int, first: str, begin: str) -> Capture:
    source, problem = recognise_line(first)
    if source is None:
        other = name_format(begin)
        raise _OtherKindError(problem) if other is None else _KnownFormatError(other)
    if problem:
        raise InputError(f"input {path}: {problem}")
    return Capture(str(path), source, LINES, size, line_cluster_id(first) if source is Source.CLUSTER_METADATA else None)
