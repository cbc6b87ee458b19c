"""The partition of ``__consumer_offsets`` that holds a group, against Kafka's own answers."""

from __future__ import annotations

import json
from pathlib import Path

from assignors.java.ordering import coordinator_partition

GOLDEN = Path(__file__).parents[3] / "golden" / "partitioning.jsonl"


def test_every_group_falls_into_kafkas_partition() -> None:
    cases = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    wrong = [
        case["id"]
        for case in cases
        if any(coordinator_partition(case["group_id"], int(count)) != found for count, found in case["partition"].items())
    ]
    print(len(cases), "group ids")
    assert cases and not wrong
