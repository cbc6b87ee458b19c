"""``what-if --save``: what workers play is what a person is shown without Spark, and its tables are kept like others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.runtime.errors import UsageError
from jobs.what_if import save
from jobs.what_if.options import WhatIfOptions
from schemas.tables import GENERATION_AUDITS, REHEARSED_TABLES, TABLES
from tests.builders.frames import TablesInMemory, frame
from tests.builders.tables import content, rows

COUNTS = ("--members", "2..4", "--strategies", "range,roundrobin,sticky,cooperative-sticky,uniform,server-range")
Key = tuple[str, str, str]


@pytest.fixture(scope="module")
def saved(evenkeel: Any, demo_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the demo in which two changes of all groups are saved, by one run each."""
    warehouse = tmp_path_factory.mktemp("saved") / "warehouse"
    shutil.copytree(demo_warehouse, warehouse)
    assert evenkeel("what-if", "--all", *COUNTS, "--save", "--warehouse", warehouse, "--run-id", "counts") == 0
    assert evenkeel("what-if", "alerts*", "--static-ids", "--save", "--warehouse", warehouse, "--run-id", "static") == 0
    return warehouse


def shown(warehouse: Path, capsys: pytest.CaptureFixture[str], evenkeel: Any, *words: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert evenkeel("what-if", "--all", *words, "--json", "--warehouse", warehouse) == 0
    return json.loads(capsys.readouterr().out)


def ends(values: list[Any]) -> dict[str, Any]:
    return {"low": min(values), "high": max(values)}


def test_saved_figures_are_those_that_are_shown_without_spark(saved: Path, evenkeel: Any, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes: dict[Key, dict[str, list[dict[str, Any]]]] = {}
    for row in rows(saved, "scenario_audits"):
        if row["run_id"] == "counts":
            outcomes.setdefault((row["group_id"], row["scenario"], row["cluster_id"]), {}).setdefault(row["strategy"], []).append(row)
    documents = shown(saved, capsys, evenkeel, *COUNTS)
    assert len(documents) > 20
    for document in documents:
        for count in document["curve"]["counts"]:
            stored = outcomes.pop((document["group_id"], f"members={count['members']}", document["cluster_id"]))
            assert stored.keys() == {strategy["strategy"] for strategy in count["strategies"]}
            for strategy in count["strategies"]:
                found = stored[strategy["strategy"]]
                assert {row["detail"] for row in found} == {strategy["refusal"]}
                assert {row["is_cheapest"] for row in found if row["status"] == "solved"} <= {strategy["strategy"] == count["cheapest"]}
                if strategy["refusal"] is None:
                    for name in ("movement_count", "stopped_count", "round_count"):
                        assert ends([row[name] for row in found]) == strategy[name]
                    assert ends([row["partitions_per_member_max"] for row in found]) == strategy["loads"]["most"]
                    expected = next(row for row in found if row["member_order"] == "last")
                    assert expected["least_movement_count"] == strategy["least_movement_count"]
    assert outcomes == {}


def test_every_partition_of_an_outcome_is_held_by_one_of_its_members(saved: Path) -> None:
    held: dict[tuple[Any, ...], list[tuple[str, int]]] = {}
    members: dict[tuple[Any, ...], int] = {}
    for row in rows(saved, "scenario_assignments"):
        key = (row["run_id"], row["cluster_id"], row["group_id"], row["scenario"], row["strategy"])
        partitions = [(entry["topic"], partition) for entry in row["partitions"] for partition in entry["partitions"]]
        assert len(partitions) == row["partition_count"]
        held.setdefault(key, []).extend(partitions)
        members[key] = members.get(key, 0) + 1
    for row in rows(saved, "scenario_audits"):
        if row["status"] == "solved" and row["member_order"] == "last":
            key = (row["run_id"], row["cluster_id"], row["group_id"], row["scenario"], row["strategy"])
            assert len(held[key]) == len(set(held[key])) == row["partition_count"]
            assert members[key] == row["member_count"]


def test_scenarios_name_their_changes_and_the_generation_before(saved: Path) -> None:
    newest = {
        (row["cluster_id"], row["group_id"]): row["position"]
        for row in sorted(rows(saved, "generation_audits"), key=lambda row: row["position"])
        if row["basis"] == "observed" and row["is_settled"] and row["member_count"] and row["strategy"] != "stream"
    }
    scenarios = rows(saved, "scenarios")
    assert {(row["scenario"], row["run_id"]) for row in scenarios} == {
        *((f"members={count}", "counts") for count in (2, 3, 4)),
        ("", "static"),
    }
    assert {row["changes"] for row in scenarios if row["run_id"] == "static"} == {'{"static_ids": true}'}
    assert {row["group_id"] for row in scenarios if row["run_id"] == "static"} == {name for _, name in newest if name.startswith("alerts")}
    assert all(newest[row["cluster_id"], row["group_id"]] == row["position"] for row in scenarios)


def test_groups_of_kafka_streams_are_counted_in_the_log(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    key = {"cluster_id": "c", "basis": "observed", "is_settled": True, "member_count": 1, "topics_hash": "t"}
    strategies = {"a": ["range", "stream"], "b": ["stream"], "c": ["stream", "range"], "d": [None]}
    audits = [{**key, "group_id": name, "position": at, "strategy": one} for name, of in strategies.items() for at, one in enumerate(of)]
    newest = save.newest_settled(frame(spark, GENERATION_AUDITS.schema, audits))
    assert sorted(save.without_streams(newest).collect()) == [("c", "c", 1, "t"), ("c", "d", 0, "t")]
    assert caplog.messages == ["not played: 2 groups of Kafka Streams, which deals out tasks"]


def test_named_groups_without_members_are_refused_only_where_no_other_can_be_played(spark: SparkSession) -> None:
    key = {"basis": "observed", "position": 1, "is_settled": True}
    audits = [{**key, "cluster_id": cluster, "group_id": "g", "member_count": count} for cluster, count in (("one", 2), ("two", 0))]
    tables: Any = TablesInMemory({"generation_audits": frame(spark, GENERATION_AUDITS.schema, audits)})
    keys, refusals = save.choose_groups(tables, WhatIfOptions(groups=("g",)))
    assert keys == {("one", "g")}
    assert list(map(str, refusals)) == ["group 'g' of cluster 'two': found no settled generation with members"]
    with pytest.raises(UsageError, match=r"^group 'g' of cluster 'two': found no settled generation with members$"):
        save.choose_groups(tables, WhatIfOptions(groups=("g",), cluster_id="two"))
    with pytest.raises(UsageError, match=r"^groups of cluster 'three': found none, expected at least one"):
        save.choose_groups(tables, WhatIfOptions(all=True, cluster_id="three"))


def test_first_run_that_saves_makes_the_tables_and_its_row_publishes_them(saved: Path, demo_warehouse: Path) -> None:
    assert not any((demo_warehouse / name).exists() for name in REHEARSED_TABLES)
    runs = {row["run_id"]: row for row in rows(saved, "runs")}
    versions = {run_id: dict(row["table_versions"]) for run_id, row in runs.items()}
    assert versions["demo"].keys() == TABLES.keys() - {"runs"}
    assert versions["counts"] == {**versions["demo"], **dict.fromkeys(REHEARSED_TABLES, 1)}
    assert versions["static"] == {**versions["demo"], **dict.fromkeys(REHEARSED_TABLES, 2)}
    assert (runs["static"]["command"], runs["static"]["status"]) == ("what-if", "published")
    assert dict(runs["static"]["consumed"]) == dict(runs["demo"]["consumed"])


def test_repeated_run_and_wrong_groups_write_nothing(saved: Path, evenkeel: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(rows(saved, "runs"))
    words = ("what-if", "alerts*", "--static-ids", "--save", "--warehouse", saved, "--run-id")
    assert evenkeel(*words, "static") == 0
    assert "saved by run static: " in capsys.readouterr().out
    assert evenkeel("what-if", "feed*", "--static-ids", "--save", "--warehouse", saved, "--run-id", "static") == 4
    assert evenkeel("what-if", "feed-cop", "--save", "--warehouse", saved) == 2
    assert "group 'feed-cop': not among the groups of the warehouse, the nearest names are" in capsys.readouterr().err
    assert len(rows(saved, "runs")) == before


@pytest.mark.slow
def test_other_commands_keep_saved_scenarios(saved: Path, evenkeel: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = tmp_path / "warehouse"
    shutil.copytree(saved, warehouse)
    assert evenkeel("verify", "--warehouse", warehouse) == 0
    assert evenkeel("maintain", "--warehouse", warehouse, "--run-id", "kept", "--as-of", "2026-11-22T00:00:00Z") == 0
    for name in REHEARSED_TABLES:
        assert content(warehouse, name) == content(saved, name)
    assert REHEARSED_TABLES.keys() <= dict(max(rows(warehouse, "runs"), key=lambda row: row["run_sequence"])["table_versions"]).keys()
    (cluster_id,) = {row["cluster_id"] for row in rows(saved, "scenarios")}
    assert evenkeel("maintain", "--warehouse", warehouse, "--drop-cluster", cluster_id) == 0
    assert [rows(warehouse, name) for name in REHEARSED_TABLES] == [[], [], []]
