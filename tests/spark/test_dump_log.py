"""A dump of the log lands as the raw records do, and these replace it. Its markers decide which commits are certain."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.staging import TARGETS
from schemas.wire.keys import COMMITTED_COLUMN
from tests.builders.captures import LOOKS, RECORDED
from tests.builders.tables import OF_THE_RUN, assert_equal_warehouses, rows

DUMPS = Path(__file__).resolve().parents[1] / "golden" / "dump_log"
BINARY = {"snapshot": {"fingerprint", "leader_client", "flavour"}}
"""Target -> columns that depend on bytes which a dump does not show: the version of assignments."""
TRANSACTIONS = {0: False, 1: False, 3: False, 5: False, 2: True, 7: False, 8: True, 10: False}
"""Offset of a commit -> whether it may have been taken back: one that was aborted, and one whose transaction is still open."""
Land = Callable[..., int]


@pytest.fixture(scope="module")
def raw(make_tables: Land, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded log, read with ``read_committed``."""
    folder = tmp_path_factory.mktemp("raw")
    records = pq.read_table(RECORDED / "consumer_offsets.parquet")
    pq.write_table(records.append_column(COMMITTED_COLUMN, pa.array([True] * len(records))), folder / "log.parquet")
    assert make_tables("land", "--warehouse", folder / "w", "--input", folder / "log.parquet", LOOKS, "--cluster-id", "c") == 0
    return folder / "w"


@pytest.fixture(scope="module")
def dumped(make_tables: Land, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same log as a dump, beside another partition's, of which a shorter dump landed before."""
    folder = tmp_path_factory.mktemp("dumped")
    text = (DUMPS / "transactions-4.3.1.txt").read_text(encoding="utf-8")
    short, _ = text.split("baseOffset: 4 ")
    (folder / "short").write_text(short, encoding="utf-8")
    assert make_tables("land", "--warehouse", folder / "w", "--input", folder / "short", "--cluster-id", "c") == 0
    assert uncertain(folder / "w") == {0: False, 1: True, 2: True, 3: True}
    (folder / "whole").write_text(text, encoding="utf-8")
    (folder / "log").write_bytes(gzip.decompress((DUMPS / "kafka-4.3.1.txt.gz").read_bytes()))
    inputs = (folder / "whole", folder / "log", LOOKS)
    assert make_tables("land", "--warehouse", folder / "w", "--input", *inputs, "--cluster-id", "c") == 0
    return folder / "w"


def uncertain(warehouse: Path) -> dict[int, bool | None]:
    return {row["position"]: row["is_uncertain"] for row in rows(warehouse, "offset_snapshots") if row["offsets_partition"] == 7}


def landed(warehouse: Path, target: str) -> list[str]:
    """Return the rows of a table but for those of partition 7, without what may differ, in a fixed order."""
    unlike = OF_THE_RUN - {"source_position"} | BINARY.get(target, set())
    found: list[dict[str, Any]] = [row for row in rows(warehouse, TARGETS[target].name) if row.get("offsets_partition") != 7]
    return sorted(repr({name: value for name, value in row.items() if name not in unlike}) for row in found)


def test_dump_has_the_rows_of_the_raw_log(raw: Path, dumped: Path) -> None:
    """KIP-848 groups too, whose snapshots are folded out of records; places, times and incarnations included."""
    for target in TARGETS:
        ours, expected = landed(dumped, target), landed(raw, target)
        assert len(ours) == len(expected) > 20 and ours == expected, target
    sources = {row["source"] for name in ("subscription_snapshots", "offset_snapshots", "group_records") for row in rows(dumped, name)}
    assert sources == {"dump-log"}
    last = max(rows(dumped, "runs"), key=lambda run: run["run_sequence"])
    first = rows(raw, "runs")[0]
    assert {key for key, _ in first["origins"]} < {key for key, _ in last["origins"]}
    assert dict(first["landed_until"]).items() < dict(last["landed_until"]).items()
    assert dict(last["input_counts"])["dump-log.skipped.transaction_marker"] == 3
    assert dict(last["input_counts"])["dump-log.duplicate"] == 4


def test_transaction_markers_decide_which_commits_are_certain(dumped: Path) -> None:
    """Those that landed before their marker too."""
    assert uncertain(dumped) == TRANSACTIONS


def test_raw_log_replaces_a_dump(make_tables: Land, raw: Path, dumped: Path, tmp_path: Path) -> None:
    """Its groups begin anew; those that only the dump tells of stay."""
    log = raw.parent / "log.parquet"
    assert make_tables("land", "--warehouse", dumped, "--input", log, LOOKS, "--cluster-id", "c") == 0
    others = {row["group_id"] for row in rows(dumped, "offset_snapshots") if row["source"] == "dump-log"}
    assert others == {"plain", "eos-a", "eos-b"} and uncertain(dumped) == TRANSACTIONS
    assert_equal_warehouses(dumped, raw, ("subscription_snapshots", "group_records", "topic_snapshots", "quarantine"))
