"""The demo of conf/demo: the recorded capture until one of its looks. ``python -m tests.builders.demo`` makes its files anew."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.captures import LOOKS, RECORDED

DEMO = Path(__file__).resolve().parents[2] / "conf" / "demo"
LOOK_COUNT = 24
"""The demo ends with the 24th look. It is the last one that sees a rebalance storm, and later looks see fewer groups with members."""


def write_demo(folder: Path) -> None:
    """Write the first looks of the recorded capture, and the records that the log had at the last of them."""
    folder.mkdir(parents=True, exist_ok=True)
    looks = gzip.decompress(LOOKS.read_bytes()).splitlines(keepends=True)[:LOOK_COUNT]
    (folder / LOOKS.name).write_bytes(gzip.compress(b"".join(looks), mtime=0))
    (log,) = (topic for topic in json.loads(looks[-1])["topics"] if topic["topic"] == "__consumer_offsets")
    ends = {partition["partition"]: partition["end_offset"] for partition in log["partitions"]}
    records = pq.read_table(RECORDED / "consumer_offsets.parquet")
    places = zip(records["partition"].to_pylist(), records["offset"].to_pylist(), strict=True)
    kept = records.filter(pa.array([offset < ends[partition] for partition, offset in places]))
    pq.write_table(kept, folder / "consumer_offsets.parquet", compression="zstd")


if __name__ == "__main__":
    write_demo(DEMO)
