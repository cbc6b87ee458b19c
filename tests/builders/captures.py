"""Parts of the recorded capture, as captures of their own."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

RECORDED = Path(__file__).resolve().parents[1] / "golden" / "capture"
"""The recorded capture: ``consumer_offsets.parquet`` and the looks at its cluster."""
LOOKS = RECORDED / "cluster_metadata.jsonl.gz"


def piece(folder: Path, name: str, first: int, end: int, *, earlier: timedelta = timedelta(0)) -> Path:
    """Write the records whose place in their own partition lies in a range, in eighths of the partition's length.

    Args:
        earlier: how much to take off their times.
    """
    table = pq.read_table(RECORDED / "consumer_offsets.parquet")
    places = list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    length: dict[int, int] = {}
    for partition, offset in places:
        length[partition] = max(length.get(partition, 0), offset + 1)
    keep = [first * length[partition] <= 8 * offset < end * length[partition] for partition, offset in places]
    times = pc.subtract(table["timestamp"], pa.scalar(earlier, pa.duration(table.schema.field("timestamp").type.unit)))
    table = table.set_column(table.schema.get_field_index("timestamp"), table.schema.field("timestamp"), times)
    pq.write_table(table.filter(pa.array(keep)), folder / name)
    return folder / name


FEW = (2, 16, 24, 45)
"""Partitions of the offsets topic with eight groups, among them one with a tombstone and one without snapshots."""


def few(folder: Path, name: str, first: int, end: int, *, earlier: timedelta = timedelta(0)) -> Path:
    """Write a small part of the recorded capture as ``piece`` does, which a run processes quickly."""
    path = piece(folder, name, first, end, earlier=earlier)
    pq.write_table(pq.read_table(path, filters=[("partition", "in", FEW)]), path)
    return path


def of_groups(folder: Path, name: str, *group_ids: str) -> Path:
    """Write the records of some groups: those whose key begins with a version and one of the names, each with its length before it."""
    table = pq.read_table(RECORDED / "consumer_offsets.parquet")
    named = tuple(len(group_id).to_bytes(2, "big") + group_id.encode() for group_id in group_ids)
    pq.write_table(table.filter(pa.array([key[2:].startswith(named) for key in table["key"].to_pylist()])), folder / name)
    return folder / name
