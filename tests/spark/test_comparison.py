"""Comparing only what has to be compared ends as comparing everything with everything."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.land import comparison
from jobs.land.comparison import LogSurvey, compared_sources, landed_before, log_key, resolve, survey_log
from jobs.land.deduplication import CONFLICT, known_places, quarantined_keys, resolve_duplicates
from schemas.staging import TARGETS
from schemas.tables import QUARANTINE
from schemas.vocabulary import Source
from tests.builders.decoded_rows import bad, commit, record, snapshot, tombstone
from tests.builders.frames import TablesInMemory, decoded

Row = dict[str, Any]
MADE = {"commit": commit, "record": record, "tombstone": tombstone, "snapshot": snapshot}
ANSWERS = ("cluster_id", "source_position", "outcome", "kind", "reason", "target", "is_new", "is_displaced", "is_contested")


def drawn(random: Random, clusters: int, partitions: int) -> list[Row]:
    """Return some records of each of several clusters: at few offsets, of few groups, of few contents, in one or several partitions."""
    rows = []
    for number in range(clusters):
        for _ in range(random.randint(0, 5)):
            partition, offset = random.randrange(partitions), random.randrange(4)
            position = f"{partition}@{offset}"
            if random.random() < 0.1:
                row = bad(position, random.choice("pq"))
            else:
                kind = random.choice(list(MADE))
                group_id = random.choice("gh") if partitions > 1 else f"{'gh'[partition]}"
                row = MADE[kind](offset, random.choice("xy"))
                content = row[{"commit": "offset_commit", "snapshot": "snapshot"}.get(kind, "group_record")]
                content |= {"group_id": group_id, "offsets_partition": partition}
                row["source_position"] = position
            rows.append({**row, "cluster_id": f"c{number}", "source": str(Source.CONSUMER_OFFSETS)})
    return rows


def stored(warehouse: TablesInMemory, staged: DataFrame) -> None:
    """Keep what landing would write."""
    new = staged.where("is_new")
    for target, spec in TARGETS.items():
        rows = new.where((F.col("target") == target) & (F.col("outcome") != "quarantined"))
        if not rows.isEmpty():
            extra = {"is_generation_inferred": F.lit(False), "has_subscriptions": F.lit(True)} if target == "snapshot" else {}
            landed = rows.select("cluster_id", "source", "source_position", f"{target}.*").withColumns(extra)
            warehouse.tables[spec.name] = landed.localCheckpoint()
    rows = new.where("outcome = 'quarantined'")
    if not rows.isEmpty():
        columns = [name for name in QUARANTINE.schema.names if name in rows.columns]
        warehouse.tables[QUARANTINE.name] = rows.select(*columns).localCheckpoint()


def answers(staged: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in staged.select(*ANSWERS).collect()), key=repr)


@dataclass(frozen=True)
class Inputs:
    """Two inputs of a warehouse one after another, and what comparing everything with everything answers.

    Attributes:
        warehouse: as the first input leaves it.
        landed_until: what the run of the first has noted.
        expected: the answers to the first and to the second.
    """

    first: DataFrame
    second: DataFrame
    warehouse: TablesInMemory
    landed_until: dict[str, int]
    expected: tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]


@pytest.fixture(scope="module", params=[1, 2], ids=["groups stay in their partition", "groups do not"])
def inputs(request: pytest.FixtureRequest, spark: SparkSession) -> Inputs:
    """Of 80 small logs."""
    random, warehouse, sources = Random(request.param), TablesInMemory(), {Source.CONSUMER_OFFSETS}
    first, second = (decoded(spark, *drawn(random, 80, request.param)).localCheckpoint() for _ in range(2))
    landed_until = survey_log(warehouse, first, {}).read_until
    resolved = resolve_duplicates(first, None, None).localCheckpoint()
    stored(warehouse, resolved)
    known = known_places(warehouse, sources, lambda rows: rows)
    again = answers(resolve_duplicates(second, known, quarantined_keys(warehouse)))
    return Inputs(first, second, warehouse, landed_until, (answers(resolved), again))


@pytest.mark.parametrize("most_set_apart", [comparison.MOST_SET_APART, 0])
def test_comparing_only_candidates_equals_comparing_all_records(
    most_set_apart: int, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "MOST_SET_APART", most_set_apart)
    empty, sources = TablesInMemory(), {Source.CONSUMER_OFFSETS}
    survey = survey_log(empty, inputs.first, {})
    assert survey.read_until == inputs.landed_until
    assert answers(resolve(empty, inputs.first, sources, survey, {})) == inputs.expected[0]
    warehouse, second, landed_until = inputs.warehouse, inputs.second, inputs.landed_until
    found = answers(resolve(warehouse, second, sources, survey_log(warehouse, second, landed_until), landed_until))
    assert found == inputs.expected[1]
    assert {row[ANSWERS.index("reason")] for row in found} >= {CONFLICT, None}
    assert any(row[ANSWERS.index("is_displaced")] for row in found)
    noted = landed_before(warehouse)
    assert answers(resolve(warehouse, second, sources, survey_log(warehouse, second, noted), noted)) == inputs.expected[1]


def test_records_beyond_the_landed_log_are_not_compared(spark: SparkSession) -> None:
    rows = [{**commit(offset, "x", offsets_partition=3), "cluster_id": "c"} for offset in (5, 6, 8)]
    warehouse, staged = TablesInMemory(), decoded(spark, *rows).localCheckpoint()
    assert survey_log(warehouse, staged, {log_key("c", 3): 5}) == LogSurvey({log_key("c", 3): 9}, False, (), (), 0, 3)
    assert survey_log(warehouse, staged, {log_key("c", 3): 6}).has_earlier


def test_stored_records_of_logs_are_read_only_where_a_record_of_a_log_is_compared() -> None:
    """Those of dumps and of raw logs together, since both have the same places."""
    raw, dump, looks = Source.CONSUMER_OFFSETS, Source.DUMP_LOG, Source.CLUSTER_METADATA
    assert compared_sources({raw, looks}, is_log_alone=True) == {looks}
    assert compared_sources({raw, looks}, is_log_alone=False) == {raw, dump, looks}
    assert compared_sources({dump}, is_log_alone=False) == {raw, dump}
    assert compared_sources({looks, Source.SNAPSHOT}, is_log_alone=True) == {looks, Source.SNAPSHOT}
