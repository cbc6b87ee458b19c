"""Four ways to hand over the same cluster: raw records, printed records, snapshots, described groups. Common facts are equal."""

from __future__ import annotations

import bisect
import gzip
import json
from collections import defaultdict
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.builders.captures import LOOKS
from tests.builders.group_snapshots import admin_looks, envelopes_of
from tests.builders.tables import rows

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
CLUSTER = "four"
LOOKED_AT = (8, 10, 16, 30)
"""Looks that are described: the text has no time, so that each takes a run."""

Held = dict[str, frozenset[tuple[str, int]]]


@pytest.fixture(scope="module")
def snapshots(make_tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All looks of the admin client, as one file of snapshots."""
    folder = tmp_path_factory.mktemp("snapshots")
    lines = [json.dumps(envelope) for recorded in admin_looks() for envelope in envelopes_of(recorded)]
    (folder / "looks.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert make_tables("run", "--warehouse", folder / "w", "--input", folder / "looks.jsonl", LOOKS, "--cluster-id", CLUSTER) == 0
    return folder / "w"


def write_look(folder: Path, number: int) -> tuple[Path, str]:
    """Write what the command line tool printed at a look; return the folder of its texts and the time."""
    with gzip.open(GOLDEN / "describe" / "recorded.jsonl.gz", "rt", encoding="utf-8") as file:
        recorded = [json.loads(line) for line in file][number]
    described_groups = admin_looks()[number]
    assert recorded["snapshot"] == described_groups["snapshot"]
    text_folder = folder / str(number)
    text_folder.mkdir()
    for name, text in recorded["texts"].items():
        (text_folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return text_folder, datetime.fromtimestamp(described_groups["from_ms"] / 1000, timezone.utc).isoformat()


@pytest.fixture(scope="module")
def described(make_tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of these looks as the command line tool printed them."""
    folder = tmp_path_factory.mktemp("described")
    assert make_tables("land", "--warehouse", folder / "w", "--input", LOOKS, "--cluster-id", CLUSTER) == 0
    for number in LOOKED_AT:
        text_folder, as_of = write_look(folder, number)
        assert make_tables("run", "--warehouse", folder / "w", "--input", text_folder, "--cluster-id", CLUSTER, "--as-of", as_of) == 0
    return folder / "w"


def held_by_position(warehouse: Path) -> dict[tuple[str, int], tuple[str, str, Held]]:
    """Return (group, position) -> type, strategy, and what each member holds, of the snapshots that have members."""
    found = {}
    for row in rows(warehouse, "subscription_snapshots"):
        if row["members"]:
            held = {
                member["member_id"]: frozenset((entry["topic"], number) for entry in member["assigned"] for number in entry["partitions"])
                for member in row["members"]
            }
            found[row["group_id"], row["position"]] = (row["group_type"], row["strategy"], held)
    return found


@pytest.mark.parametrize("name", ["snapshots", "described"])
@pytest.mark.slow
def test_landed_snapshots_and_descriptions_pass_verify(name: str, make_tables, request: pytest.FixtureRequest) -> None:
    assert make_tables("verify", "--warehouse", request.getfixturevalue(name)) == 0


@pytest.mark.slow
def test_described_groups_are_the_admin_clients(snapshots: Path, described: Path) -> None:
    snapshot_held, printed = held_by_position(snapshots), held_by_position(described)
    times = {admin_looks()[number]["from_ms"] for number in LOOKED_AT}
    assert len(printed) > 35 and len({group for group, _ in printed}) > 20
    assert printed == {key: found for key, found in snapshot_held.items() if key[1] in times}


@pytest.mark.slow
def test_described_commits_are_the_admin_clients(snapshots: Path, described: Path) -> None:
    def commits(warehouse: Path) -> dict[tuple[Any, ...], int]:
        found = rows(warehouse, "offset_snapshots")
        return {(row["group_id"], row["topic"], row["partition"], row["position"]): row["committed_offset"] for row in found}

    times = {admin_looks()[number]["from_ms"] for number in LOOKED_AT}
    printed = commits(described)
    assert len(printed) > 40
    assert printed == {key: offset for key, offset in commits(snapshots).items() if key[-1] in times}


@pytest.mark.slow
def test_snapshot_of_a_stable_group_equals_the_last_generation_of_the_log(snapshots: Path, recorded_warehouse: Path) -> None:
    """A stable group holds what its last record before the look says; groups that convert or reconcile do not stand still."""
    log: dict[str, list[tuple[float, Held]]] = defaultdict(list)
    for row in sorted(rows(recorded_warehouse, "subscription_snapshots"), key=lambda row: row["position"]):
        held = {
            member["member_id"]: frozenset((entry["topic"], number) for entry in member["assigned"] for number in entry["partitions"])
            for member in row["members"]
        }
        log[row["group_id"]].append((row["observed_at"].timestamp() * 1000, held))
    until = {recorded["from_ms"]: recorded["until_ms"] for recorded in admin_looks()}
    compared = 0
    for row in rows(snapshots, "subscription_snapshots"):
        if row["state"] != "Stable" or not row["members"]:
            continue
        times = [time for time, _ in log[row["group_id"]]]
        before, after = bisect.bisect_right(times, row["position"]), bisect.bisect_right(times, until[row["position"]])
        if before != after:
            continue  # a generation was made while the client asked
        held = {
            member["member_id"]: frozenset((entry["topic"], number) for entry in member["assigned"] for number in entry["partitions"])
            for member in row["members"]
        }
        assert held == log[row["group_id"]][before - 1][1], (row["group_id"], row["position"])
        compared += 1
    assert compared > 150


@pytest.mark.slow
def test_committed_offsets_are_those_of_the_log(snapshots: Path, recorded_warehouse: Path) -> None:
    """At each look, but for those of the one transaction that was aborted, which the log's records do not show."""
    log: dict[tuple[str, str, int], list[tuple[float, int | None]]] = defaultdict(list)
    for row in sorted(rows(recorded_warehouse, "offset_snapshots"), key=lambda row: row["position"]):
        log[row["group_id"], row["topic"], row["partition"]].append((row["observed_at"].timestamp() * 1000, row["committed_offset"]))
    compared, strange = 0, set()
    for row in rows(snapshots, "offset_snapshots"):
        commits = log[row["group_id"], row["topic"], row["partition"]]
        before = [offset for time, offset in commits if time <= row["position"]]
        near = [offset for time, offset in commits if row["position"] < time <= row["position"] + 2_000]
        compared += 1
        if row["committed_offset"] not in [*before[-1:], *near]:
            strange.add((row["group_id"], row["topic"]))
    assert compared > 500
    assert len(strange) <= 1, strange


@pytest.mark.parametrize("first", [pytest.param("snapshot", marks=pytest.mark.slow), "describe"])
def test_the_more_detailed_source_stays_in_any_order(first: str, make_tables, spark: SparkSession, tmp_path: Path) -> None:
    """Whichever comes first; a group that only the lesser one has keeps that. Once as lines, once as Parquet."""
    text_folder, as_of = write_look(tmp_path, 16)
    lines = [json.dumps(envelope) for envelope in envelopes_of(admin_looks()[16]) if envelope["group_id"] != "mart-rack"]
    (tmp_path / "snapshots").write_text("\n".join(lines), encoding="utf-8")
    inputs = {"snapshot": tmp_path / "snapshots", "describe": text_folder}
    if first == "describe":
        inputs["snapshot"] = tmp_path / "parquet"
        spark.read.json(str(tmp_path / "snapshots")).write.parquet(str(tmp_path / "parquet"))
    for source in sorted(inputs, key=lambda source: source != first):
        arguments = ("--warehouse", tmp_path / "w", "--input", inputs[source], "--cluster-id", CLUSTER, "--as-of", as_of)
        assert make_tables("land", *arguments) == 0
        assert make_tables("assign", "--warehouse", tmp_path / "w") == 0
    sources = {row["group_id"]: row["source"] for row in rows(tmp_path / "w", "subscription_snapshots")}
    assert sources.pop("mart-rack") == "describe"
    assert set(sources.values()) == {"snapshot"}
    assert {row["source"] for row in rows(tmp_path / "w", "offset_snapshots")} == {"snapshot"}
    solved = {row["group_id"] for row in rows(tmp_path / "w", "solutions")}
    assert solved == {*sources, "mart-rack"}
    landings = [run for run in rows(tmp_path / "w", "runs") if run["command"] == "land"]
    last = dict(max(landings, key=lambda run: run["run_sequence"])["input_counts"])
    assert last["read"] == sum(last[outcome] for outcome in ("landed", "duplicate", "skipped", "quarantined"))
    assert (last["duplicate"] > 10) == (first == "snapshot")


@pytest.mark.slow
def test_described_groups_have_inferred_generations_and_no_creation(described: Path) -> None:
    """A group that was there at the first look is not created by it, and a look that shows the same again is no rebalance."""
    audits = [row for row in rows(described, "generation_audits") if row["basis"] == "observed"]
    by_group: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(audits, key=lambda row: row["position"]):
        by_group[row["group_id"]].append(row)
    snapshots = {(row["group_id"], row["position"]): row for row in rows(described, "subscription_snapshots")}
    assert all(not row["has_subscriptions"] for row in snapshots.values() if row["members"])
    again = 0
    for group, of_group in by_group.items():
        if of_group[0]["member_count"]:
            assert of_group[0]["previous_generation"] is None and of_group[0]["gained_count"] is None, group
        classic = [row["generation"] for row in of_group if snapshots[group, row["position"]]["is_generation_inferred"]]
        assert classic == sorted(classic) and (not classic or classic[0] == 1), group
        for before, row in pairwise(of_group):
            if row["generation"] == before["generation"] and row["member_count"]:
                assert (row["rebalance_count"], row["movement_count"], row["eager_revocation_count"]) == (0, 0, 0), group
                again += 1
    assert again > 0
    compared = {row["conformance"] for row in rows(described, "solutions") if row["basis"] == "recomputed"}
    assert compared == {"not_comparable"}
