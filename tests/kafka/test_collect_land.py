"""What is collected lands as it is: every record is accounted for, and the tables have what clients were told."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from tests.conftest import Evenkeel
from tests.kafka import captures
from tests.kafka.conftest import CLASSIC, COOPERATIVE, NEXT_GENERATION, STATIC, History
from tests.kafka.groups import TOPIC


def test_a_collection_lands(evenkeel: Evenkeel, history: History, tmp_path: Path) -> None:
    folder, warehouse = history.folder, tmp_path / "warehouse"
    assert evenkeel("land", "--input", folder, "--warehouse", warehouse) == 0

    (run,) = rows(warehouse, "runs")
    counts = dict(run["input_counts"])
    assert counts["consumer-offsets.read"] == len(captures.records(folder))
    assert counts["cluster-metadata.read"] == sum(len(look["topics"]) for look in captures.looks(folder))
    assert (counts["duplicate"], counts["quarantined"]) == (0, 0)

    snapshots = sorted(rows(warehouse, "subscription_snapshots"), key=lambda row: row["position"])
    last = {row["group_id"]: row for row in snapshots}
    for group_id in (CLASSIC, COOPERATIVE, STATIC, NEXT_GENERATION):
        assigned = {member["member_id"]: owned_by(member) for member in last[group_id]["members"]}
        assert assigned == history.owned[group_id], group_id
    assert {last[name]["group_type"] for name in (CLASSIC, NEXT_GENERATION)} == {"classic", "consumer"}

    notes = {row["metadata"].removesuffix("\0") for row in rows(warehouse, "offset_snapshots") if row["metadata"]}
    assert set(history.committed) <= notes and not notes & set(history.aborted)
    assert {row["topic"] for row in rows(warehouse, "topic_snapshots")} >= {TOPIC}


def rows(warehouse: Path, table: str) -> list[dict]:
    return DeltaTable(warehouse / table).to_pyarrow_table().to_pylist()


def owned_by(member: dict) -> frozenset[tuple[str, int]]:
    return frozenset((entry["topic"], partition) for entry in member["assigned"] for partition in entry["partitions"])
