"""Groups of Kafka Connect: a record without members does not show that; a later one that does takes their results back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders.captures import LOOKS, of_groups
from tests.builders.tables import COMPARED, content, rows

CONSUMERS, CONNECT = "feed-rr", "cache-connect"
FIRST_WITH_MEMBERS = 15
"""Offset of the record that shows it; the one before it has no members and no protocol type."""


@pytest.mark.slow
@pytest.mark.parametrize("is_late", [pytest.param(True, id="the empty one first"), pytest.param(False, id="the other one first")])
def test_either_order_gives_the_tables_of_one_run(make_tables, tmp_path: Path, is_late: bool) -> None:
    whole = of_groups(tmp_path, "whole.parquet", CONSUMERS, CONNECT)
    table = pq.read_table(whole)
    members_known = [
        CONNECT.encode() in key and offset >= FIRST_WITH_MEMBERS
        for key, offset in zip(table["key"].to_pylist(), table["offset"].to_pylist(), strict=True)
    ]
    pq.write_table(table.filter(pa.array([has_members != is_late for has_members in members_known])), tmp_path / "first.parquet")
    runs = {"pieces": (tmp_path / "first.parquet", whole), "at_once": (whole,)}
    for name, captures in runs.items():
        for capture in captures:
            assert make_tables("run", "--warehouse", tmp_path / name, "--input", capture, LOOKS) == 0
        assert make_tables("verify", "--warehouse", tmp_path / name) == 0
    for table_name in COMPARED:
        assert content(tmp_path / "pieces", table_name) == content(tmp_path / "at_once", table_name), table_name
    assert {row["group_id"] for row in rows(tmp_path / "pieces", "group_states")} == {CONSUMERS}
    assert CONNECT in {row["group_id"] for row in rows(tmp_path / "pieces", "subscription_snapshots")}
