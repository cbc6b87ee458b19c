"""Captures in Parquet: their kind, and checks for content that Spark cannot read, before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from jobs.decoders.consumer_offsets import PARQUET_COLUMNS
from jobs.runtime.errors import InputError
from jobs.runtime.locations import on_one_line
from schemas.snapshot import SNAPSHOT_MARKS, GroupSnapshot
from schemas.vocabulary import Source
from schemas.wire.keys import COMMITTED_COLUMN

AGAIN = "it may have been cut short: copy or collect it again, or leave it out"
PLAIN_MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"
"""Beginnings of files with a readable footer, and with an encrypted one."""
_TIME = "timestamp"
_LAST_MS = ((1 << 63) - 1) // 1000
"""Larger times do not fit into Spark's microseconds: Spark would fail on the file."""
_ARROW_TYPES = {"binary": ("binary", "large_binary"), "int": ("int32",), "bigint": ("int64",), "timestamp": ("timestamp",)}
_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "LZ4_RAW", "ZSTD"})
"""Codecs that Spark can read with its own jars."""
_NOT_DECODED = frozenset({"BYTE_STREAM_SPLIT"})
"""Encodings that Spark's column readers do not support."""
_SIGNATURE_BYTES = 28
"""Bytes after a readable footer if columns are encrypted: 12 of nonce and 16 of signature."""


@dataclass(frozen=True)
class ParquetFacts:
    """The facts that are needed to read a file.

    Attributes:
        source: the kind of the capture.
        has_odd_times: its timestamps are milliseconds, some of them too large for Spark's timestamp type.
        types: the types of a snapshot's columns; files with equal ones can be read together. None for other kinds.
    """

    source: Source
    has_odd_times: bool = False
    types: str | None = None


def parquet_facts(path: Path) -> ParquetFacts:
    """Return the facts that are needed to read a Parquet file.

    Raises:
        InputError: it is not a Parquet file, it does not have the columns of a capture, or Spark cannot read one of them.
    """
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _refuse_encrypted_columns(path, file)
            return _facts_of_columns(path, file)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        found = "the name of a column is not UTF-8" if isinstance(error, UnicodeDecodeError) else on_one_line(str(error)[:300])
        raise InputError(f"input {path}: not a readable Parquet file ({found}); {AGAIN}") from None


def _refuse_encrypted_columns(path: Path, file: pyarrow.parquet.ParquetFile) -> None:
    """Refuse a file with encrypted columns before one is read: pyarrow would end the process."""
    with path.open("rb") as raw:
        raw.seek(-8, 2)
        length = int.from_bytes(raw.read(4), "little")
    if length == file.metadata.serialized_size + _SIGNATURE_BYTES:
        raise InputError(f"input {path}: some of its columns are encrypted; write the file without encryption")


def _facts_of_columns(path: Path, file: pyarrow.parquet.ParquetFile) -> ParquetFacts:
    columns = {field.name: str(field.type) for field in file.schema_arrow}
    if len({name.lower() for name in file.schema_arrow.names}) < len(file.schema_arrow.names):
        raise InputError(f"input {path}: found columns whose names differ only in case, which Spark ignores; rename them")
    if columns.keys() >= SNAPSHOT_MARKS:
        _refuse_types(path, file, frozenset(columns))
        _refuse_encodings(path, file, frozenset(GroupSnapshot.model_fields))
        return ParquetFacts(Source.SNAPSHOT, types=_types(file))
    missing = [f"{name} {kind}" for name, kind in PARQUET_COLUMNS.items() if not columns.get(name, "").startswith(_ARROW_TYPES[kind])]
    if columns.get(COMMITTED_COLUMN, "bool") != "bool":
        missing.append(f"{COMMITTED_COLUMN} boolean")
    if missing:
        found_columns = on_one_line(", ".join(f"{name} {kind}" for name, kind in columns.items()))[:1000]
        raise InputError(
            f"input {path}: expected the columns of Spark's Kafka source, missing or of another type: {', '.join(missing)}; "
            f"found {found_columns}"
        )
    _refuse_types(path, file, frozenset({_TIME}))
    _refuse_encodings(path, file, frozenset({*PARQUET_COLUMNS, COMMITTED_COLUMN}))
    return ParquetFacts(Source.CONSUMER_OFFSETS, columns[_TIME].startswith("timestamp[ms") and _has_odd_times(file))


def _columns(file: pyarrow.parquet.ParquetFile, names: frozenset[str]) -> Iterator[tuple[int, pyarrow.parquet.ColumnSchema]]:
    """Yield the leaves of the columns with these names, each with its number."""
    for number in range(len(file.schema)):
        column = file.schema.column(number)
        if column.path.partition(".")[0] in names:
            yield number, column


def _refuse_types(path: Path, file: pyarrow.parquet.ParquetFile, read: frozenset[str]) -> None:
    """Refuse columns, or fields within them, of types that Spark does not have. It has INT96 times, which Arrow shows as nanoseconds too.

    Args:
        read: the columns that Spark has to read.
    """
    for _, column in _columns(file, read):
        kind = column.logical_type.type
        is_in_ns = kind == "TIMESTAMP" and '"nanoseconds"' in column.logical_type.to_json()
        if is_in_ns or kind in ("TIME", "FLOAT16"):
            found = "nanoseconds" if is_in_ns else kind
            remedy = "write it in microseconds (pyarrow: coerce_timestamps='us')" if is_in_ns else "write the file without it"
            raise InputError(f"input {path}: column {on_one_line(column.path)[:200]} is of {found}, which Spark cannot read; {remedy}")


def _refuse_encodings(path: Path, file: pyarrow.parquet.ParquetFile, read: frozenset[str]) -> None:
    """Refuse columns that any part of the file packs or encodes in a way that Spark does not support."""
    numbers = [number for number, _ in _columns(file, read)]
    for part in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
        for column in map(part.column, numbers):
            odd = sorted({column.compression} - _CODECS) or sorted(_NOT_DECODED & set(column.encodings))
            if odd:
                where = f"input {path}: column {on_one_line(column.path_in_schema)[:200]}"
                raise InputError(f"{where} is written with {odd[0]}, which Spark cannot read; write it again, with Snappy or Zstandard")


def _types(file: pyarrow.parquet.ParquetFile) -> str:
    columns = (column for _, column in _columns(file, frozenset(GroupSnapshot.model_fields)))
    levels = ((one.path, one.physical_type, one.logical_type, one.max_definition_level, one.max_repetition_level) for one in columns)
    return "; ".join(" ".join(map(str, column)) for column in levels)


def _has_odd_times(file: pyarrow.parquet.ParquetFile) -> bool:
    for batch in file.iter_batches(columns=[_TIME]):
        times = batch.column(0).cast(pyarrow.int64())
        ends = pyarrow.compute.min_max(times).as_py()
        if ends["min"] is not None and not -_LAST_MS <= ends["min"] <= ends["max"] <= _LAST_MS:
            return True
    return False
