"""Two captures of one log that disagree."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.captures import LOOKS, RECORDED

GROUP_METADATA, OFFSET_COMMIT = b"\x00\x02", b"\x00\x01"


def conflicting_captures(folder: Path) -> tuple[list[Path], list[Path]]:
    """Write two captures to a folder: the busiest partition of the recorded log with looks, and other contents at some of its places."""
    table = pq.read_table(RECORDED / "consumer_offsets.parquet")
    busiest, _ = Counter(table["partition"].to_pylist()).most_common(1)[0]
    records = [row for row in table.to_pylist() if row["partition"] == busiest]
    others = []
    for kind in (GROUP_METADATA, OFFSET_COMMIT):
        of_kind = [row for row in records if row["key"].startswith(kind) and row["value"]]
        for key in sorted({row["key"] for row in of_kind})[:3]:
            of_key = [row for row in of_kind if row["key"] == key]
            others += [{**row, "value": other["value"]} for row, other in itertools.pairwise(of_key)][:2]
    for row in others[::2]:
        row["timestamp"] += timedelta(days=40)  # of another month
    assert {row["key"][:2] for row in others} == {GROUP_METADATA, OFFSET_COMMIT}
    for name, content in (("a.parquet", records), ("b.parquet", others)):
        pq.write_table(pa.Table.from_pylist(content, schema=table.schema), folder / name)
    with gzip.open(LOOKS, "rt", encoding="utf-8") as file:
        looks = [json.loads(line) for line in file][:3]
    (folder / "a.jsonl").write_text("".join(json.dumps(look) + "\n" for look in looks), encoding="utf-8")
    topic = next(topic for topic in looks[1]["topics"] if topic["topic"] == "__consumer_offsets")
    topic["partitions"][0]["end_offset"] += 1
    (folder / "b.jsonl").write_text(json.dumps(looks[1]) + "\n", encoding="utf-8")
    return [folder / "a.parquet", folder / "a.jsonl"], [folder / "b.parquet", folder / "b.jsonl"]
