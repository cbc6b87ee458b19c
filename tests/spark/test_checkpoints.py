"""What arrives late redoes its group from the last checkpoint before it, and nothing of what is older."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable

from schemas.tables import TABLES
from tests.builders.captures import LOOKS, RECORDED
from tests.builders.tables import assert_equal_warehouses, rows

pytestmark = pytest.mark.slow

SEED = 20261122
INTERVAL = 3
GroupKey = tuple[str, str]


def group_of(row: dict[str, Any]) -> GroupKey:
    return row["cluster_id"], row["group_id"]


def late_records(recorded_warehouse: Path) -> set[tuple[int, int]]:
    """Return the places in the log of up to two snapshots or tombstones of each group, chosen by lot."""
    random = Random(SEED)
    places = [(group_of(row), row["offsets_partition"], row["position"]) for row in rows(recorded_warehouse, "subscription_snapshots")]
    tombstones = [row for row in rows(recorded_warehouse, "group_records") if row["value"] is None]
    places += [(group_of(row), row["offsets_partition"], row["offset"]) for row in tombstones]
    of_groups = [list(of_group) for _, of_group in groupby(sorted(places), key=lambda place: place[0])]
    return {place[1:] for of_group in of_groups for place in random.sample(of_group, min(len(of_group), random.choice([0, 1, 1, 2])))}


@pytest.fixture(scope="module")
def late(recorded_warehouse: Path) -> set[tuple[int, int]]:
    return late_records(recorded_warehouse)


@pytest.fixture(scope="module")
def warehouse(late: set[tuple[int, int]], make_tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse to which the late records came in a second run."""
    folder = tmp_path_factory.mktemp("late")
    table = pq.read_table(RECORDED / "consumer_offsets.parquet")
    is_late = pa.array([place in late for place in zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)])
    (folder / "settings.yaml").write_text(yaml.safe_dump({"assign": {"checkpoint_generations": INTERVAL}}), encoding="utf-8")
    for name, chosen in (("most", pa.compute.invert(is_late)), ("late", is_late)):
        pq.write_table(table.filter(chosen), folder / f"{name}.parquet")
        inputs = ("--input", folder / f"{name}.parquet", LOOKS)
        assert make_tables("run", "--config", folder / "settings.yaml", "--warehouse", folder / "warehouse", *inputs) == 0
    return folder / "warehouse"


def snapshots_by_group(warehouse: Path) -> dict[GroupKey, list[dict[str, Any]]]:
    by_group: dict[GroupKey, list[dict[str, Any]]] = defaultdict(list)
    audited = {group_of(row) for row in rows(warehouse, "solutions")}  # others are known under other protocol types only
    for row in sorted(rows(warehouse, "subscription_snapshots"), key=lambda row: row["position"]):
        if group_of(row) in audited:
            by_group[group_of(row)].append(row)
    return by_group


def redone_after(snapshots: list[dict[str, Any]], late: set[tuple[int, int]]) -> int | None:
    """Return the position after which the second run had to compute a group; None when it had nothing to do.

    New to it is what came late, and what has another incarnation since: land wrote both in the second run.
    """
    first_new = min((row["position"] for row in snapshots if row["run_sequence"] == 2), default=None)
    if first_new is None:
        return None
    in_first_run = [row["position"] for row in snapshots if (row["offsets_partition"], row["position"]) not in late]
    states = in_first_run[INTERVAL - 1 :: INTERVAL] + in_first_run[-1:]
    return max((position for position in states if position < first_new), default=-1)


def test_tables_are_those_of_sorted_arrival(warehouse: Path, recorded_warehouse: Path) -> None:
    assert_equal_warehouses(warehouse, recorded_warehouse)


def newly_known(warehouse: Path) -> set[tuple]:
    """Return the keys of movements whose outcome was unknown after the first run and is known now.

    The first record of a log may come late. Before it no group of the log is known to have no earlier commit.
    """
    first_run = min(rows(warehouse, "runs"), key=lambda run: run["run_sequence"])
    version = dict(first_run["table_versions"])["movements"]
    key, unknown = TABLES["movements"].key, "unknown"
    before = DeltaTable(str(warehouse / "movements"), version=version).to_pyarrow_table().to_pylist()
    unknown_before = {tuple(row[name] for name in key) for row in before if row["resume_outcome"] == unknown}
    known_now = {tuple(row[name] for name in key) for row in rows(warehouse, "movements") if row["resume_outcome"] != unknown}
    return unknown_before & known_now


def test_only_generations_after_the_checkpoint_are_computed_again(warehouse: Path, late: set[tuple[int, int]]) -> None:
    checkpoints = {key: redone_after(snapshots, late) for key, snapshots in snapshots_by_group(warehouse).items()}
    kinds = [None if position is None else position < 0 for position in checkpoints.values()]
    assert min(kinds.count(None), kinds.count(True), kinds.count(False)) > 3, "untouched, from the beginning, from a checkpoint"
    known_later = newly_known(warehouse)
    for name in ("solutions", "assignments", "generation_audits", "movements", "findings"):
        for row in rows(warehouse, name):
            position = checkpoints[group_of(row)]
            if name == "generation_audits" and row["basis"] == "observed" and row["position"] == position:
                continue  # when its follow-up and its pause ended follows from the next generation, which is another one now
            is_known_later = name == "movements" and tuple(row[column] for column in TABLES[name].key) in known_later
            expected = 1 if (position is None or row["position"] <= position) and not is_known_later else 2
            assert row["run_sequence"] == expected, f"{name}: {row['group_id']} at {row['position']}, redone after {position}"


def test_stored_states_equal_those_of_sorted_arrival(warehouse: Path) -> None:
    expected = []
    for key, snapshots in snapshots_by_group(warehouse).items():
        for count, row in enumerate(snapshots, start=1):
            if count % INTERVAL == 0 or count == len(snapshots):
                expected.append((*key, row["position"], row["generation"], row["incarnation"], count, count % INTERVAL == 0))
    columns = ("cluster_id", "group_id", "position", "generation", "incarnation", "snapshot_count", "is_checkpoint")
    assert sorted(tuple(row[name] for name in columns) for row in rows(warehouse, "group_states")) == sorted(expected)
