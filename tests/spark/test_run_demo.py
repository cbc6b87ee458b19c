"""The main job on the recorded capture, held against what the recorder and Kafka's own tools say about it."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from schemas.tables import TABLES
from schemas.wire import decode_assignment, decode_subscription
from tests.spark.tables import rows, versions

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
OURS = {"range", "roundrobin", "sticky", "cooperative-sticky"}


def read_golden(name: str) -> list[dict]:
    path = GOLDEN / name
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def recorded() -> dict[str, dict]:
    """What the recorder counted, by group."""
    return {group["group"]: group for group in read_golden("capture_groups.jsonl")}


@pytest.fixture(scope="module")
def snapshots(demo_warehouse: Path) -> list[dict]:
    return rows(demo_warehouse, "subscription_snapshots")


def test_every_table_can_be_read_without_spark(demo_warehouse: Path) -> None:
    assert {
        name: set(rows(demo_warehouse, name)[0] if rows(demo_warehouse, name) else spec.schema.names) for name, spec in TABLES.items()
    } == {name: set(spec.schema.names) for name, spec in TABLES.items()}


def test_input_counts_balance_and_equal_the_recorders(demo_warehouse: Path) -> None:
    (run,) = rows(demo_warehouse, "runs")
    counts = dict(run["input_counts"])
    assert run["status"] == "published"
    assert counts["read"] == counts["landed"] + counts["duplicate"] + counts["skipped"] + counts["quarantined"]
    kinds = {key.removeprefix("consumer-offsets."): count for key, count in counts.items() if key.startswith("consumer-offsets.")}
    assert kinds["read"] == 962
    assert kinds["landed.classic_group_metadata"] == 290
    assert kinds["landed.classic_group_metadata_tombstone"] == 36
    assert kinds["skipped.classic_group_metadata:connect"] == 2
    assert kinds["landed.offset_commit"] + kinds["landed.offset_commit_tombstone"] == 223
    assert kinds["skipped.share_group_metadata"] == 4
    assert kinds["skipped.streams_group_metadata"] == 2


def test_snapshots_by_protocol_type(snapshots: list[dict]) -> None:
    assert Counter(row["protocol_type"] for row in snapshots) == {"consumer": 249, "": 41}
    assert sum(1 for row in snapshots if row["members"]) == 208


def test_generations_and_members_of_each_group_are_the_recorders(snapshots: list[dict], recorded: dict[str, dict]) -> None:
    expected = {
        name: (group["generations"], group["member_ids"])
        for name, group in recorded.items()
        if "consumer" in group["protocol_type"] and group["protocol_type"].startswith("(none)")
    }
    found = {}
    for name in {row["group_id"] for row in snapshots}:
        of_group = [row for row in snapshots if row["group_id"] == name and row["members"]]
        found[name] = (
            len({row["generation"] for row in of_group}),
            len({member["member_id"] for row in of_group for member in row["members"]}),
        )
    assert {name: found[name] for name in expected} == expected
    assert found["cache-connect"] == (0, 0)


def test_a_group_of_another_protocol_type_is_left_out_of_audits(demo_warehouse: Path) -> None:
    """cache-connect wrote one empty consumer-less snapshot like every group, then two values of type connect."""
    assert [row["group_id"] for row in rows(demo_warehouse, "subscription_snapshots")].count("cache-connect") == 1
    assert "cache-connect" not in {row["group_id"] for row in rows(demo_warehouse, "generation_audits")}


def test_snapshots_are_what_kafkas_formatter_prints(snapshots: list[dict]) -> None:
    """Every value of Kafka's GroupMetadataMessageFormatter, member by member, in the record's order."""
    ours = Counter(json.dumps(_as_formatted(row), sort_keys=True) for row in snapshots)
    printed = [record for record in read_golden("capture_group_metadata_formatter.jsonl.gz") if record["value"] is not None]
    theirs = Counter(
        json.dumps(_as_decoded(record), sort_keys=True) for record in printed if record["value"]["data"]["protocolType"] in ("", "consumer")
    )
    assert sum(theirs.values()) == 286  # the tool ran some seconds before the log was dumped: 4 values fewer
    assert not theirs - ours


def _as_formatted(row: dict) -> dict:
    joined_at = row["joined_at"]
    members = [
        [
            member["member_id"],
            member["group_instance_id"],
            member["client_id"],
            member["topics"],
            _entries(member["owned"]),
            _entries(member["assigned"]),
        ]
        for member in row["members"]
    ]
    head = [
        row["group_id"],
        row["generation"],
        row["strategy"],
        row["leader_member_id"],
        round(joined_at.timestamp() * 1000) if joined_at else -1,
    ]
    return {"head": head, "members": members}


def _as_decoded(record: dict) -> dict:
    data = record["value"]["data"]
    members = []
    for member in data["members"]:
        subscription = decode_subscription(base64.b64decode(member["subscription"]))
        assigned = base64.b64decode(member["assignment"])
        held = decode_assignment(assigned).partitions if assigned else ()
        owned = [[topic, list(numbers)] for topic, numbers in subscription.owned]
        given = [[topic, list(numbers)] for topic, numbers in held]
        members.append([member["memberId"], member["groupInstanceId"], member["clientId"], list(subscription.topics), owned, given])
    head = [record["key"]["data"]["group"], data["generation"], data["protocol"], data["leader"], data["currentStateTimestamp"]]
    return {"head": head, "members": members}


def _entries(entries: list[dict]) -> list[list]:
    return [[entry["topic"], entry["partitions"]] for entry in entries]


def test_commits_are_what_kafkas_formatter_prints(demo_warehouse: Path) -> None:
    commits = rows(demo_warehouse, "offset_snapshots")
    ours = Counter(
        (row["group_id"], row["topic"], row["partition"], row["committed_offset"], row["topic_id"], row["metadata"], row["is_deleted"])
        for row in commits
    )
    theirs = Counter()
    for record in read_golden("capture_offsets_formatter.jsonl.gz"):
        key, value = record["key"]["data"], record["value"]
        data = value["data"] if value is not None else {}
        theirs[
            key["group"], key["topic"], key["partition"], data.get("offset"), data.get("topicId"), data.get("metadata"), value is None
        ] += 1
    assert ours == theirs


def test_java_leaders_are_reproduced_exactly(demo_warehouse: Path, snapshots: list[dict], recorded: dict[str, dict]) -> None:
    """125 values with a Java leader: 122 solved and exact, 2 static rewrites carried, 1 written by the coordinator."""
    java_led = set()
    for row in snapshots:
        leader = next((member for member in row["members"] if member["member_id"] == row["leader_member_id"]), None)
        known = recorded[row["group_id"]]["java_client_ids"]
        if row["strategy"] in OURS and leader is not None and leader["client_id"] in known:
            java_led.add((row["group_id"], row["position"]))
    found = Counter(
        (row["status"], row["conformance"])
        for row in rows(demo_warehouse, "solutions")
        if row["basis"] == "recomputed" and (row["group_id"], row["position"]) in java_led
    )
    assert found == {("solved", "exact"): 122, ("carried", "exact"): 2, ("solved", "not_comparable"): 1}


def test_exact_means_the_same_partitions_in_the_same_order(demo_warehouse: Path) -> None:
    """Conformance, recomputed from the stored assignments themselves."""
    held: dict[tuple, dict] = {}
    for row in rows(demo_warehouse, "assignments"):
        if row["basis"] in ("observed", "recomputed"):
            key = (row["group_id"], row["position"], row["member_id"])
            held.setdefault(key, {})[row["basis"]] = {entry["topic"]: entry["partitions"] for entry in row["partitions"]}
    exact = {
        (row["group_id"], row["position"])
        for row in rows(demo_warehouse, "solutions")
        if row["basis"] == "recomputed" and row["conformance"] == "exact"
    }
    compared = {key: sides for key, sides in held.items() if key[:2] in exact}
    assert len(compared) > 300
    assert [key for key, sides in compared.items() if sides["observed"] != sides["recomputed"]] == []


def test_the_group_turned_back_from_the_consumer_protocol_begins_anew(demo_warehouse: Path) -> None:
    audits = [row for row in rows(demo_warehouse, "generation_audits") if row["group_id"] == "fraud-upgrade" and row["basis"] == "observed"]
    by_generation = {row["generation"]: row for row in audits}
    assert by_generation[11]["conformance"] == "not_comparable"
    assert by_generation[11]["previous_generation"] is None and by_generation[11]["movement_count"] is None
    assert by_generation[12]["previous_generation"] == 11


def test_groups_of_assignors_that_are_not_ours_are_audited_as_observed(demo_warehouse: Path) -> None:
    audits = [row for row in rows(demo_warehouse, "generation_audits") if row["group_id"] == "mart-js" and row["member_count"]]
    assert {(row["basis"], row["status"], row["conformance"]) for row in audits if row["basis"] != "counterfactual"} == {
        ("observed", "solved", "not_comparable"),
        ("recomputed", "unsupported", "not_comparable"),
    }
    observed = [row for row in audits if row["basis"] == "observed"]
    assert sum(row["movement_count"] for row in observed) > 0
    assert all(row["movement_count"] is None for row in audits if row["basis"] == "recomputed")


def test_counts_of_every_audit_add_up(demo_warehouse: Path) -> None:
    audits = rows(demo_warehouse, "generation_audits")
    for row in audits:
        if row["retained_count"] is not None:
            assert row["partition_count"] == row["retained_count"] + row["revoked_count"] + row["reassigned_count"] + row["gained_count"]
            assert row["movement_count"] == row["revoked_count"] + row["reassigned_count"] + row["handed_over_count"]
            assert row["withheld_count"] <= row["lost_count"]
    assert len({(row["group_id"], row["position"], row["basis"], row["strategy"]) for row in audits}) == len(audits) == 289 * 6


def test_movements_are_the_audits_counts(demo_warehouse: Path) -> None:
    kinds: dict[tuple, Counter] = {}
    for row in rows(demo_warehouse, "movements"):
        kinds.setdefault((row["group_id"], row["position"], row["basis"]), Counter())[row["kind"]] += 1
    for row in rows(demo_warehouse, "generation_audits"):
        is_stored = row["basis"] == "observed" or (row["basis"] == "recomputed" and row["conformance"] != "exact")
        if is_stored and row["retained_count"] is not None:
            counted = {
                kind: row[f"{kind}_count"] for kind in ("revoked", "reassigned", "gained", "lost", "orphaned") if row[f"{kind}_count"]
            }
            assert kinds.pop((row["group_id"], row["position"], row["basis"]), Counter()) == counted
    assert kinds == {}


def test_a_second_run_adds_nothing(evenkeel, demo_warehouse: Path, tmp_path: Path) -> None:
    copy = tmp_path / "warehouse"
    shutil.copytree(demo_warehouse, copy)
    before = versions(copy)
    assert evenkeel("run", "--warehouse", copy) == 0
    after = versions(copy)
    assert {name: version for name, version in after.items() if version != before[name]} == {"runs": before["runs"] + 1}
    newest = max(rows(copy, "runs"), key=lambda run: run["run_sequence"])
    assert dict(newest["input_counts"])["duplicate"] == 2018
    assert dict(newest["table_versions"]) == {name: version for name, version in before.items() if name != "runs"}
