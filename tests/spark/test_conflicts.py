"""Captures that disagree on what the log holds: whichever comes first, the same content stays, and it is told."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.captures import DEMO, LOOKS
from tests.spark.tables import assert_equal_warehouses, rows

GROUP_METADATA, OFFSET_COMMIT = b"\x00\x02", b"\x00\x01"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[Path]]:
    """The busiest partition of the demo's log with a few looks, and a capture that has other contents at some of its places."""
    folder = tmp_path_factory.mktemp("captures")
    table = pq.read_table(DEMO / "consumer_offsets.parquet")
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


@pytest.mark.slow
def test_it_does_not_matter_which_content_lands_first(evenkeel, captures: tuple[list[Path], list[Path]], tmp_path: Path) -> None:
    a, b = captures
    (tmp_path / "any.yaml").write_text("quality: {max_quarantined_ratio: 1}\n", encoding="utf-8")
    for name, pieces in {"at once": [a + b], "a first": [a, b], "b first": [b, a]}.items():
        for piece in pieces:
            assert evenkeel("run", "--config", tmp_path / "any.yaml", "--warehouse", tmp_path / name, "--input", *piece) == 0
    expected = tmp_path / "at once"
    disputed = {row["position"] for row in rows(expected, "subscription_snapshots") if row["is_disputed"]}
    found = [row for row in rows(expected, "findings") if row["rule_id"] == "conflicting_records"]
    assert disputed and {row["position"] for row in found} == disputed
    quarantined = [row for row in rows(expected, "quarantine") if row["reason"] == "conflicting_content"]
    assert len(quarantined) == pq.read_metadata(b[0]).num_rows + 1
    for name in ("a first", "b first"):
        assert_equal_warehouses(tmp_path / name, expected)
    before = len(rows(expected, "quarantine"))
    assert evenkeel("run", "--warehouse", expected, "--input", *a) == 0
    assert len(rows(expected, "quarantine")) == before
