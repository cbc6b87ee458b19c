"""Late records change rows of earlier runs: the tables are those of timely arrival."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.builders.printed_groups import GROUPS, printed, write
from tests.builders.raw_logs import commit, generation, look, written, written_text
from tests.builders.tables import assert_equal_warehouses, rows

OFFSETS_TOPIC = "__consumer_offsets"


def test_movement_updated_for_one_reason_is_updated_for_all(make_tables, tmp_path: Path) -> None:
    """Run 2 brings the end of the pause behind generation 2 and a commit from before it; and the size of the offsets topic."""
    late, timely = commit(3, 1, "g", 0, 5), commit(3, 2, "g", 1, 5)
    first, second, third = (
        generation(3, 0, "g", 1, a=[0, 1]),
        generation(3, 3, "g", 2, a=[0], b=[]),  # t-1 is held back
        generation(3, 4, "g", 3, a=[0], b=[1]),
    )
    before, after = look(2_500, t=[8, 8]), look(3_500, t=[10, 10])
    sized = look(9_000, **{OFFSETS_TOPIC: [None] * 7})
    pieces = [
        [written(tmp_path / "1.parquet", first, timely, second), written_text(tmp_path / "1.jsonl", before, after)],
        [written(tmp_path / "2.parquet", late, third), written_text(tmp_path / "2.jsonl", sized)],
    ]
    assert make_tables("run", "--warehouse", tmp_path / "at once", "--input", *pieces[0], *pieces[1]) == 0
    for piece in pieces:
        assert make_tables("run", "--warehouse", tmp_path / "pieces", "--input", *piece) == 0
    for name in ("at once", "pieces"):
        observed = [row for row in rows(tmp_path / name, "generation_audits") if row["basis"] == "observed"]
        [middle] = [row for row in observed if row["generation"] == 2]
        assert (middle["pause_partition_ms"], middle["lag_imbalance_ratio"]) == (1_000, 2.0)
        # "g" is 103 in Java; what the records say is 3.
        assert {row["coordinator_partition"] for row in observed} == {103 % 7}
    assert_equal_warehouses(tmp_path / "pieces", tmp_path / "at once")


def test_printed_tombstone_gets_its_time_from_the_next_record(make_tables, tmp_path: Path) -> None:
    value = printed(GROUPS)[0]
    end = json.dumps({"key": json.loads(value)["key"], "value": None}, separators=(",", ":"))
    alone, both = write(tmp_path, "1.txt", [end]), write(tmp_path, "2.txt", [end, value])
    for name, pieces in {"at once": [[alone, both]], "pieces": [[alone], [both]]}.items():
        for piece in pieces:
            assert make_tables("land", "--warehouse", tmp_path / name, "--input", *piece, "--as-of", "2026-11-22T00:00:00Z") == 0
    assert_equal_warehouses(tmp_path / "pieces", tmp_path / "at once")
    [record], [snapshot] = (rows(tmp_path / "pieces", name) for name in ("group_records", "subscription_snapshots"))
    assert record["timestamp"] == snapshot["joined_at"]


def snapshot_line(**changes: Any) -> str:
    members = [{"member_id": name, "assigned": [{"topic": "t", "partitions": [number]}]} for number, name in enumerate("ab")]
    line = {"group_id": "g", "observed_at_ms": 1_000, "group_type": "classic", "state": "Stable", "strategy": "range", "members": members}
    return json.dumps({**line, **changes}) + "\n"


def test_conflict_of_snapshot_lines_lasts_until_a_better_source_lands(make_tables, tmp_path: Path) -> None:
    """Two groups, one of which meets the lines in the other order. Members and fingerprints are the same in both; what lands again adds
    nothing."""
    (tmp_path / "any.yaml").write_text("quality: {max_quarantined_ratio: 1}\n", encoding="utf-8")
    (gx, gy), (hx, hy) = (
        [written_text(tmp_path / f"{group}-{name}.jsonl", snapshot_line(group_id=group, strategy=name)) for name in ("range", "sticky")]
        for group in "gh"
    )
    log = written(tmp_path / "log.parquet", generation(3, 0, "g", 1, a=[0, 1]), generation(3, 1, "h", 1, a=[0, 1]))

    def land(name: str, *pieces: list[Path]) -> Path:
        for piece in pieces:
            assert make_tables("land", "--config", tmp_path / "any.yaml", "--warehouse", tmp_path / name, "--input", *piece) == 0
        return tmp_path / name

    in_turn = land("in turn", [gx, hy], [gx, gy, hx], [gx, gy])
    assert_equal_warehouses(in_turn, land("at once", [gx, gy, hx, hy]))
    last = dict(max(rows(in_turn, "runs"), key=lambda run: run["run_sequence"])["input_counts"])
    assert (last["duplicate"], last["quarantined"]) == (1, 1)
    assert sorted(row["group_id"] for row in rows(in_turn, "quarantine")) == ["g", "h"]
    assert_equal_warehouses(land("in turn", [log]), land("all", [gx, gy, hx, hy, log]))
    assert rows(in_turn, "quarantine") == []
