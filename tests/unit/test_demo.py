"""The demo of conf/demo is the beginning of the recorded capture, up to a look at which most groups had members."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pyarrow.parquet as pq

from tests.builders.captures import LOOKS, RECORDED
from tests.builders.demo import DEMO

ADMIN_LOOKS = RECORDED.parent / "capture_admin_looks.jsonl.gz"


def lines(name: Any) -> list[dict[str, Any]]:
    with gzip.open(name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_demo_has_the_first_looks_and_the_records_of_the_log_at_the_last_of_them() -> None:
    looks = lines(DEMO / LOOKS.name)
    assert looks == lines(LOOKS)[: len(looks)]
    end = {
        partition["partition"]: partition["end_offset"]
        for topic in looks[-1]["topics"]
        if topic["topic"] == "__consumer_offsets"
        for partition in topic["partitions"]
    }
    recorded = pq.read_table(RECORDED / "consumer_offsets.parquet").to_pylist()
    demo = pq.read_table(DEMO / "consumer_offsets.parquet").to_pylist()
    assert demo == [record for record in recorded if record["offset"] < end[record["partition"]]]
    assert max(record["timestamp"].timestamp() * 1000 for record in demo) < looks[-1]["observed_at_ms"]


def test_most_groups_of_the_cluster_have_members_at_the_end_of_the_demo() -> None:
    at_ms = lines(DEMO / LOOKS.name)[-1]["observed_at_ms"]
    (look,) = (look for look in lines(ADMIN_LOOKS) if look["from_ms"] == at_ms)
    assert Counter(group["listed_state"] for group in look["groups"].values()) == {"Stable": 8, "Empty": 3}
