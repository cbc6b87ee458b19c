"""A dump of the log lands as the raw records do, and these replace it. Its markers decide which commits are certain."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.staging import TARGETS
from schemas.wire.keys import COMMITTED_COLUMN
from tests.builders.captures import LOOKS, RECORDED
from tests.builders.raw_logs import commit, written
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
    """Its groups begin anew; those that only the dump has stay."""
    log = raw.parent / "log.parquet"
    assert make_tables("land", "--warehouse", dumped, "--input", log, LOOKS, "--cluster-id", "c") == 0
    others = {row["group_id"] for row in rows(dumped, "offset_snapshots") if row["source"] == "dump-log"}
    assert others == {"plain", "eos-a", "eos-b"} and uncertain(dumped) == TRANSACTIONS
    assert_equal_warehouses(dumped, raw, ("subscription_snapshots", "group_records", "topic_snapshots", "quarantine"))


def dumped_commit(offset: int, group: str) -> str:
    """Return the two lines of a commit outside a transaction."""
    key = json.dumps({"type": "1", "data": {"group": group, "topic": "t", "partition": 0}}, separators=(",", ":"))
    data = {"offset": 5, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 1_000 * offset}
    value = json.dumps({"version": "3", "data": data}, separators=(",", ":"))
    return (
        f"baseOffset: {offset} lastOffset: {offset} count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: 0 "
        "partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 "
        f"CreateTime: {1_000 * offset} size: 113 magic: 2\n"
        f"| offset: {offset} CreateTime: {1_000 * offset} keySize: 26 valueSize: 29 sequence: -1 headerKeys: [] "
        f"key: {key} payload: {value}\n"
    )


def test_dump_and_raw_log_that_contradict_each_other_end_alike_in_any_order(make_tables: Land, tmp_path: Path) -> None:
    """At offset 7 both have another group. At 6 only the dump has a record, of a group of which the raw log has more."""
    dump, log, settings = tmp_path / "dump.txt", tmp_path / "log.parquet", tmp_path / "any.yaml"
    heading = "Dumping /kafka/__consumer_offsets-12/00000000000000000000.log\n"
    lines = [heading, dumped_commit(5, "g"), dumped_commit(6, "g"), dumped_commit(7, "d")]
    dump.write_text("".join(lines), encoding="utf-8")
    written(log, commit(12, 5, "g", 0, 5), commit(12, 7, "h", 0, 5))
    settings.write_text("quality: {max_quarantined_ratio: 1}\n", encoding="utf-8")
    ends = {}
    for name, pieces in {"at once": [(dump, log)], "dump first": [(dump,), (log,)], "log first": [(log,), (dump,)]}.items():
        for inputs in pieces:
            assert make_tables("land", "--config", settings, "--warehouse", tmp_path / name, "--input", *inputs, "--cluster-id", "c") == 0
        commits = {(row["group_id"], row["position"]): row["is_uncertain"] for row in rows(tmp_path / name, "offset_snapshots")}
        ends[name] = commits, len(rows(tmp_path / name, "quarantine"))
    assert ends["dump first"] == ends["log first"] == ends["at once"]
