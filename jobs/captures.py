"""Which files a run takes in: found, recognised by content, and refused with a reason before Spark starts on them."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from jobs.errors import InputError
from jobs.location import is_table, is_warehouse, objection, on_one_line, table_around, told
from jobs.output_files import without_report_files
from jobs.sources.consumer_offsets import COMMITTED_COLUMN, PARQUET_COLUMNS
from jobs.sources.describe import find_lost_topic_names, looks_like_describe
from jobs.sources.formatter_json import find_separator
from schemas.snapshot import SNAPSHOT_MARKS, line_cluster_id, recognise_line
from schemas.vocabulary import SOURCES_OF_GROUPS, Source

logger = logging.getLogger(__name__)

PARQUET, NDJSON, OBJECTS, TEXT = "parquet", "ndjson", "objects", "text"
HEAD_BYTES = 1 << 16
"""What the kind of a text is recognised by."""
LONGEST_TEXT_BYTES = 1 << 28
"""The most that is read at once, a line or a description: more than a look at a million partitions has."""
_KINDS = ", ".join(map(str, Source))
_AGAIN = "it may have been cut short: copy or collect it again, or leave it out"
_SPARK_PASSES_OVER = (".", "_")
"""What the names of files begin with that Spark takes for hidden ones, or for marks of its own."""
_UNFINISHED = "._COPYING_"
"""What the names of files end with that Hadoop's tools are still writing; Spark passes over them."""
_UNPACKED_BY_SPARK = (".bz2", ".deflate", ".lz4", ".snappy", ".zst")
_TIME = "timestamp"
_LAST_MS = ((1 << 63) - 1) // 1000
"""Milliseconds beyond are more microseconds than Spark has room for: it would give up on the file."""
_ARROW_TYPES = {"binary": ("binary", "large_binary"), "int": ("int32",), "bigint": ("int64",), "timestamp": ("timestamp",)}


@dataclass(frozen=True)
class Capture:
    """One input file.

    Attributes:
        path: as Spark reads it.
        source: which kind of capture it is.
        encoding: ``parquet``, ``ndjson``, ``objects`` (JSON with nothing between) or ``text``.
        size_bytes: size of the file.
        cluster_id: the capture's own id, or that of the captures beside it; None when there is none.
        separator: the text with which each of the ``objects`` begins; None for other encodings.
        has_odd_times: its timestamps are milliseconds, some of them too large for a timestamp of Spark's.
    """

    path: str
    source: Source
    encoding: str
    size_bytes: int
    cluster_id: str | None = None
    separator: str | None = None
    has_odd_times: bool = False


def find_captures(inputs: tuple[str, ...], forced: Source | None = None) -> tuple[Capture, ...]:
    """Return the captures in the given files and folders, in a fixed order.

    Files of other kinds in a folder are passed over with a log line; a file that was named itself must be a capture.

    Args:
        forced: kind of the captures; looks that lie in a folder with them are taken too. None for all kinds.

    Raises:
        InputError: nothing there, an empty or unreadable file, a kind that is not known, missing columns.
    """
    found: dict[Path, Capture] = {}
    for name in inputs:
        root = _root(name)
        is_folder = root.is_dir()
        _refuse_table(root)
        paths = _files(root) if is_folder else (root,)
        captures = [capture for path in paths if (capture := _recognise(path, forced, is_named=not is_folder))]
        if not captures:
            raise InputError(f"input {name}: no capture in this folder; expected files of one of {_KINDS}")
        found.update((Path(capture.path), capture) for capture in captures)
    if not found:
        raise InputError("no input: name captures with --input, or under inputs in the settings")
    return _with_cluster_ids([found[path] for path in sorted(found)])


def _root(name: str) -> Path:
    """Return the path of an input that is there, as Spark reads it.

    Raises:
        InputError: it is not.
    """
    try:
        Path(name).stat()
    except FileNotFoundError:
        raise InputError(f"input {told(name)}: no such file or folder; correct --input, or inputs in the settings") from None
    except (OSError, ValueError) as error:
        raise InputError(f"input {told(name)}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    return Path(name).absolute()


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


def fingerprint(captures: tuple[Capture, ...]) -> str:
    """Return a SHA-256 over what the captures hold, whatever their names and folders are."""
    digest = hashlib.sha256()
    for content in sorted(_digest(Path(capture.path)) for capture in captures):
        digest.update(content)
    return digest.hexdigest()


def _digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder by name; Spark's own marks and hidden files are none.

    Raises:
        InputError: a folder in it cannot be read: passed over, its captures would be missing.
    """
    try:
        yield from without_report_files(sorted(_walked(folder)))
    except OSError as error:
        raise InputError(
            f"input {told(error.filename or str(folder))}: cannot be read ({error.strerror or error}); let us read it, or move it elsewhere"
        ) from None


def _walked(folder: Path) -> Iterator[Path]:
    def give_up(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, onerror=give_up):
        folders[:] = _without_tables(parent, [name for name in folders if not name.startswith(_SPARK_PASSES_OVER)])
        for path in (Path(parent, name) for name in names if not name.startswith(_SPARK_PASSES_OVER)):
            if path.name.endswith(_UNFINISHED):
                logger.warning("passed over %s: still being copied, by its name", path)
            elif path.is_file():
                yield path


def _without_tables(parent: str, names: list[str]) -> list[str]:
    """Return the names of folders but those of Delta tables: of a warehouse, or of a copy, which would pass for captures of snapshots."""
    tables = [name for name in names if is_table(Path(parent, name))]
    if tables:
        what = "warehouse" if is_warehouse(Path(parent)) else "folder"
        logger.info("passed over Delta tables, which are no captures: %d in the %s %s, such as %s", len(tables), what, parent, min(tables))
    return [name for name in names if name not in tables]


def _recognise(path: Path, forced: Source | None, *, is_named: bool) -> Capture | None:
    try:
        size = path.stat().st_size
        if size == 0:
            raise InputError(f"input {path}: the file is empty; write the capture again, or leave the file out")
        with path.open("rb") as file:
            magic = file.read(4)
        is_printed = is_named and forced is Source.DESCRIBE
        is_gzip = magic[:2] == b"\x1f\x8b"
        capture = _parquet_capture(path, size) if magic == b"PAR1" else _text_capture(path, size, is_printed=is_printed, is_gzip=is_gzip)
    except OSError as error:
        raise InputError(f"input {path}: cannot be read ({error.strerror or error})") from None
    except _OtherKindError as error:
        if is_named:
            raise InputError(f"input {path}: {error}; expected one of {_KINDS}") from None
        logger.info("passed over %s: %s", path, error)
        return None
    # Looks tell of no group: they go with every kind that does.
    if forced in (None, capture.source) or (not is_named and capture.source is Source.CLUSTER_METADATA and forced in SOURCES_OF_GROUPS):
        return capture
    if is_named:
        raise InputError(f"input {path}: asked to read it as {forced}, found {capture.source}; leave out --format, or name the other")
    logger.info("passed over %s: asked for %s, found %s", path, forced, capture.source)
    return None


class _OtherKindError(Exception):
    """A readable file that is no capture; fine beside one, wrong when it was named."""


def _parquet_capture(path: Path, size: int) -> Capture:
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            return _capture_of_columns(path, size, file)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        found = "the name of a column is not UTF-8" if isinstance(error, UnicodeDecodeError) else on_one_line(str(error)[:300])
        raise InputError(f"input {path}: not a readable Parquet file ({found}); {_AGAIN}") from None


def _capture_of_columns(path: Path, size: int, file: pyarrow.parquet.ParquetFile) -> Capture:
    columns = {field.name: str(field.type) for field in file.schema_arrow}
    if len({name.lower() for name in file.schema_arrow.names}) < len(file.schema_arrow.names):
        raise InputError(
            f"input {path}: found columns whose names differ in nothing but case, which Spark does not tell apart; rename them"
        )
    found = Source.SNAPSHOT if SNAPSHOT_MARKS <= columns.keys() else Source.CONSUMER_OFFSETS
    if found is Source.SNAPSHOT:
        _refuse_types(path, file, lambda name: True)
        return Capture(_readable_by_spark(path), found, PARQUET, size)
    missing = [f"{name} {kind}" for name, kind in PARQUET_COLUMNS.items() if not columns.get(name, "").startswith(_ARROW_TYPES[kind])]
    if columns.get(COMMITTED_COLUMN, "bool") != "bool":
        missing.append(f"{COMMITTED_COLUMN} boolean")
    if missing:
        told_columns = on_one_line(", ".join(f"{name} {kind}" for name, kind in columns.items()))[:1000]
        raise InputError(
            f"input {path}: expected the columns of Spark's Kafka source, missing or of another type: {', '.join(missing)}; "
            f"found {told_columns}"
        )
    _refuse_types(path, file, lambda name: name == _TIME)
    has_odd_times = columns[_TIME].startswith("timestamp[ms") and _has_odd_times(file)
    return Capture(_readable_by_spark(path), found, PARQUET, size, has_odd_times=has_odd_times)


def _refuse_types(path: Path, file: pyarrow.parquet.ParquetFile, is_read: Callable[[str], bool]) -> None:
    """Refuse columns, or fields within them, of types that Spark has not; Arrow shows times of 96 bits, which Spark has, as the same.

    Args:
        is_read: whether Spark has to read the column of a name.
    """
    for column in map(file.schema.column, range(len(file.schema))):
        kind = column.logical_type.type
        is_in_ns = kind == "TIMESTAMP" and '"nanoseconds"' in column.logical_type.to_json()
        if is_read(column.path.partition(".")[0]) and (is_in_ns or kind in ("TIME", "FLOAT16")):
            found = "nanoseconds" if is_in_ns else kind
            remedy = "write it in microseconds (pyarrow: coerce_timestamps='us')" if is_in_ns else "write the file without it"
            raise InputError(f"input {path}: column {on_one_line(column.path)[:200]} is of {found}, which Spark cannot read; {remedy}")


def _has_odd_times(file: pyarrow.parquet.ParquetFile) -> bool:
    for batch in file.iter_batches(columns=[_TIME]):
        times = batch.column(0).cast(pyarrow.int64())
        ends = pyarrow.compute.min_max(times).as_py()
        if ends["min"] is not None and not -_LAST_MS <= ends["min"] <= ends["max"] <= _LAST_MS:
            return True
    return False


def _read_through(path: Path, content: BufferedIOBase, ends: tuple[bytes, ...]) -> None:
    """Read a text to its end: a gzip file that was cut short would else end the run in the middle, with Spark's words.

    Args:
        ends: what may end a line; one that lies across two blocks is overlooked, which adds two lines up.

    Raises:
        InputError: a line is longer than ``LONGEST_TEXT_BYTES``, such as the zeros to which some packed files unpack without end.
    """
    before = 0
    while block := content.read(1 << 20):
        found = [(block.find(end), block.rfind(end)) for end in ends if end in block]
        if before + min((first for first, _ in found), default=len(block)) > LONGEST_TEXT_BYTES:
            raise InputError(f"input {path}: a line is longer than {LONGEST_TEXT_BYTES} bytes; {_AGAIN}")
        before = len(block) - max(last for _, last in found) if found else before + len(block)


def _first_line(begin: bytes) -> str:
    """Return the first line of a file as text; what is behind it may be damaged, which lands in quarantine line by line.

    Raises:
        _OtherKindError: a file of another kind, such as an image, whose lines have no end, or one that unpacks to no end of zeros.
        UnicodeDecodeError: another kind of file too.
    """
    if len(begin) > LONGEST_TEXT_BYTES:
        raise _OtherKindError(f"the first line is longer than {LONGEST_TEXT_BYTES} bytes")
    return begin.decode().partition("\r")[0].strip()


def _text_capture(path: Path, size: int, *, is_printed: bool, is_gzip: bool) -> Capture:
    try:
        with gzip.open(path) if is_gzip else path.open("rb") as content:
            head = content.read(HEAD_BYTES)
            text = head.decode(errors="replace")
            separator = find_separator(text)
            if separator is not None:
                capture = Capture(str(path), Source.FORMATTER_JSON, OBJECTS, size, separator=separator)
            elif is_printed or looks_like_describe(text):
                content.seek(0)
                _refuse_lost_names(path, content.read(LONGEST_TEXT_BYTES + 1))
                capture = Capture(str(path), Source.DESCRIBE, TEXT, size)
            else:
                content.seek(0)
                capture = _ndjson_capture(path, size, _first_line(content.readline(LONGEST_TEXT_BYTES + 1)))
            if capture.encoding != TEXT and (is_gzip or size > LONGEST_TEXT_BYTES):
                content.seek(0)
                _read_through(path, content, (b"\n", b"\r") if separator is None else (separator.encode(),))
    except (EOFError, zlib.error) as error:
        raise InputError(f"input {path}: damaged gzip data ({error}); {_AGAIN}") from None
    except UnicodeDecodeError as error:
        raise _OtherKindError(f"not a text file ({error})") from None
    if is_gzip != (path.suffix == ".gz"):
        found = "gzip data under another name" if is_gzip else "a file called .gz that is not gzip"
        raise InputError(f"input {path}: found {found}; Spark goes by the name: rename it")
    if path.name.endswith(_UNPACKED_BY_SPARK):
        raise InputError(f"input {path}: found text under the name of a packed file; Spark goes by the name: rename it")
    return replace(capture, path=_readable_by_spark(path))


def _refuse_lost_names(path: Path, content: bytes) -> None:
    if len(content) > LONGEST_TEXT_BYTES:
        raise InputError(f"input {path}: more than {LONGEST_TEXT_BYTES} bytes of text; describe fewer groups at a time, into several files")
    lost = find_lost_topic_names(content.decode(errors="surrogateescape"))
    if lost is not None:
        raise InputError(f"input {path}: {lost}")


def _ndjson_capture(path: Path, size: int, first: str) -> Capture:
    source, problem = recognise_line(first)
    if source is None:
        raise _OtherKindError(problem)
    if problem:
        raise InputError(f"input {path}: {problem}")
    return Capture(str(path), source, NDJSON, size, line_cluster_id(first) if source is Source.CLUSTER_METADATA else None)
