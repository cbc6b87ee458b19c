"""What recurs over hours is carried from run to run: the second finds what the first alone, and the second alone, would not."""

from __future__ import annotations

from pathlib import Path

from tests.builders.situations import SITUATIONS
from tests.builders.tables import rows

FIRST = 9
"""Records of the first run: until then the member was back four times, and three times behind them."""


def test_a_loop_that_began_in_an_earlier_run_is_found(make_tables, tmp_path: Path) -> None:
    loop, rolling = SITUATIONS / "member-put-out-by-max-poll", SITUATIONS / "rolling-restart"
    lines = (loop / "consumer_offsets.ndjson").read_text().splitlines()[:15]
    for name, piece in (("first", lines[:FIRST]), ("second", lines[FIRST:])):
        (tmp_path / f"{name}.ndjson").write_text("".join(f"{line}\n" for line in piece))
        inputs = [tmp_path / f"{name}.ndjson", *loop.glob("cluster*"), *(rolling.glob("*") if name == "first" else [])]
        assert make_tables("run", "--warehouse", tmp_path / "warehouse", "--cluster-id", "c", "--input", *inputs) == 0
    found = [(row["group_id"], row["generation"], row["rule_id"]) for row in rows(tmp_path / "warehouse", "findings")]
    about = {"restart_loop", "rebalance_storm", "partition_flapping"}
    assert sorted(one for one in found if one[2] in about) == [("g36", generation, "restart_loop") for generation in (11, 13, 15)]
    recurring = {
        (row["group_id"], row["generation"], row["basis"]) for row in rows(tmp_path / "warehouse", "solutions") if row["recurrences"]
    }
    assert recurring == {("g36", generation, "observed") for generation in (11, 13, 15)}
