"""What a collection has written, read back."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.decoders.captures import find_captures
from jobs.decoders.consumer_offsets import decode_record
from jobs.decoders.snapshot_lines import decode_line
from schemas.snapshot import GroupSnapshot, recognise_line
from schemas.vocabulary import Outcome, Source
from tests.kafka.log_files import Record


def tables(folder: Path) -> list[pa.Table]:
    """Return the files of records that landing would take."""
    captures = find_captures((str(folder),))
    return [pq.ParquetFile(capture.path).read() for capture in captures if capture.source is Source.CONSUMER_OFFSETS]


def records(folder: Path) -> list[Record]:
    """Return all records, by their places; a record twice where it is there twice."""
    found = []
    for table in tables(folder):
        times = table["timestamp"].cast(pa.int64()).to_pylist()
        columns = [table[name].to_pylist() for name in ("partition", "offset", "key", "value")]
        rows = zip(*columns, times, strict=True)
        found += [Record(partition, offset, time // 1000, key, value) for partition, offset, key, value, time in rows]
    return sorted(found, key=lambda record: (record.partition, record.offset))


def looks(folder: Path) -> list[dict[str, Any]]:
    """Return the looks at the cluster in the order of their files."""
    found = []
    for path in sorted(folder.glob("cluster_metadata-*.jsonl.gz")):
        (line,) = gzip.decompress(path.read_bytes()).decode().splitlines()
        assert recognise_line(line) == (Source.CLUSTER_METADATA, "")
        found.append(json.loads(line))
    return found


def polls(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of all polls in the order of their files; each is one that landing takes whole."""
    files = sorted(folder.glob("group_snapshots-*.jsonl.gz"))
    lines = [line for path in files for line in gzip.decompress(path.read_bytes()).splitlines()]
    for line in lines:
        GroupSnapshot.model_validate_json(line)
        assert {row["outcome"] for row in decode_line(line)} == {Outcome.LANDED}
    return [json.loads(line) for line in lines]


def decoded(folder: Path, target: str) -> list[dict[str, Any]]:
    """Return the rows of one kind that landing would make of the records."""
    rows = [decode_record(record.key, record.value, record.partition, record.offset, record.timestamp_ms) for record in records(folder)]
    return [row[target] for row in rows if row.get(target) is not None]


def notes(folder: Path) -> list[str]:
    """Return the metadata of all commits; the client adds the end of its C string."""
    return sorted(row["metadata"].removesuffix("\0") for row in decoded(folder, "offset_commit") if row["metadata"])


def positions(folder: Path) -> dict[str, Any]:
    """Return how far the folder says that it goes."""
    return json.loads((folder / "_positions.json").read_text())
