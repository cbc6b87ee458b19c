"""Landing decides the same whatever order records arrive in: pieces of logs, one after another, against all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.context import MetadataIndex, RunContext, RunState
from jobs.land.run import Decision, decide
from jobs.storage.table_changes import ChangedTables
from jobs.storage.warehouse import Warehouse
from schemas.config import Settings
from schemas.tables import GROUP_RECORDS, OFFSET_SNAPSHOTS, QUARANTINE, SUBSCRIPTION_SNAPSHOTS, TABLES
from schemas.vocabulary import Source
from tests.builders.decoded_rows import bad, commit, record, snapshot, tombstone
from tests.builders.frames import TablesInMemory, decoded, moment

Row = dict[str, Any]
LANDED = (GROUP_RECORDS.name, OFFSET_SNAPSHOTS.name, SUBSCRIPTION_SNAPSHOTS.name, QUARANTINE.name)
OF_RUN = ("run_sequence", "run_id")


@dataclass
class Tables(TablesInMemory):
    """Tables that take what is decided, and a number for the run that decides."""

    run_sequence: int = 0

    def read(self, name: str) -> DataFrame:
        return self.tables[name] if name in self.tables else SparkSession.active().createDataFrame([], TABLES[name].schema)

    def apply(self, decision: Decision) -> None:
        changed = ChangedTables(self, decision.changes)
        names = {change.table for change in decision.changes if change.table in LANDED}
        self.tables |= {name: changed.read(name).localCheckpoint() for name in names}

    def content(self) -> dict[str, list[str]]:
        """Return the rows of each table as text, without what says which run wrote them."""
        return {name: sorted(str(row) for row in rows.drop(*OF_RUN).collect()) for name, rows in self.tables.items() if not rows.isEmpty()}


def drawn(random: Random) -> list[Row]:
    """Return the records of two partitions of a log: few offsets, two groups in each, and now and then two contents at one offset."""
    rows: list[Row] = []
    for offset in range(12):
        for partition in (0, 1):
            for content in random.choice(("", "x", "x", "xy")):
                make = random.choice((commit, commit, record, tombstone, snapshot))
                position, time = f"{partition}@{offset}", moment(1_000 * offset)
                if random.random() < 0.1:
                    row = bad(position, content)
                else:
                    row = make(offset, content)
                    content_row = row[next(name for name in ("offset_commit", "snapshot", "group_record") if name in row)]
                    content_row |= {"group_id": f"g{partition}{random.randrange(2)}", "offsets_partition": partition}
                    content_row |= {"recorded_at": time} if make in (record, tombstone) else {"observed_at": time}
                rows.append({**row, "source_position": position, "source": str(Source.CONSUMER_OFFSETS)})
    return rows


def land(spark: SparkSession, pieces: list[list[Row]]) -> dict[str, list[str]]:
    """Return the tables after some runs, one a piece."""
    tables = Tables()
    warehouse = cast("Warehouse", tables)
    state = RunState()
    for number, piece in enumerate(pieces, 1):
        tables.run_sequence = number
        captures = (cast("Any", SimpleNamespace(source=Source.CONSUMER_OFFSETS)),)
        context = RunContext(
            warehouse, Settings(), f"run-{number}", moment(0), MetadataIndex(warehouse), before=state, state=state, captures=captures
        )
        rows = decoded(spark, *piece).withColumn("placed_by", F.lit(None).cast("string")).localCheckpoint()
        decision = decide(context, ChangedTables(tables), rows)
        tables.apply(decision)
        state = replace(state, landed_until=decision.landed_until)
    return tables.content()


def cut(random: Random, rows: list[Row]) -> list[list[Row]]:
    """Return the rows in two pieces in any order, with some of them in both."""
    shuffled = random.sample(rows, len(rows))
    half = len(rows) // 2
    return [shuffled[:half], shuffled[half:] + random.sample(rows, 3)]


@pytest.mark.parametrize("seed", [1, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 13)]])
def test_records_land_the_same_in_any_order(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    rows = drawn(random)
    assert land(spark, cut(random, rows)) == land(spark, [rows])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_log_lands_the_same_from_its_end_to_its_beginning(spark: SparkSession, seed: int) -> None:
    rows = drawn(Random(seed))
    later, earlier = (
        [row for row in rows if (int(row["source_position"].partition("@")[2]) < 6) is is_early] for is_early in (False, True)
    )
    assert land(spark, [later, earlier]) == land(spark, [rows])
