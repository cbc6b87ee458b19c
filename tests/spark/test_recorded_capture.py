"""The main job on the recorded capture, compared with what the recorder and Kafka's own tools say about it."""

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
from tests.builders.captures import RECORDED
from tests.builders.tables import rows, unpacked_assignments, versions

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
def snapshots(recorded_warehouse: Path) -> list[dict]:
    return rows(recorded_warehouse, "subscription_snapshots")


def test_every_table_can_be_read_without_spark(recorded_warehouse: Path) -> None:
    declared = {name: set(spec.stored_schema.names) for name, spec in TABLES.items()}
    found = {name: rows(recorded_warehouse, name) for name in TABLES}
    assert {name: set(of_table[0]) if of_table else declared[name] for name, of_table in found.items()} == declared


def test_input_counts_balance_and_equal_the_recorders(recorded_warehouse: Path) -> None:
    (run,) = rows(recorded_warehouse, "runs")
    counts = dict(run["input_counts"])
    assert run["status"] == "published"
    assert counts["read"] == counts["landed"] + counts["duplicate"] + counts["skipped"] + counts["quarantined"]
    kinds = {key.removeprefix("consumer-offsets."): count for key, count in counts.items() if key.startswith("consumer-offsets.")}
    assert kinds["read"] == 962
    assert kinds["landed.classic_group_metadata"] == 290
    assert kinds["landed.classic_group_metadata_tombstone"] == 36
    assert kinds["skipped.classic_group_metadata:connect"] == 2
    assert kinds["landed.offset_commit"] + kinds["landed.offset_commit_tombstone"] == 223
    of_consumer_groups = {kind: count for kind, count in kinds.items() if kind.startswith("landed.consumer_group_")}
    assert sum(count for kind, count in of_consumer_groups.items() if not kind.endswith("_tombstone")) == 295
    assert sum(count for kind, count in of_consumer_groups.items() if kind.endswith("_tombstone")) == 79
    assert kinds["skipped.share_group_metadata"] == 4
    assert kinds["skipped.streams_group_metadata"] == 2


def test_snapshots_by_protocol_type(snapshots: list[dict]) -> None:
    assert Counter((row["group_type"], row["protocol_type"]) for row in snapshots) == {
        ("classic", "consumer"): 249,
        ("classic", ""): 41,
        ("consumer", "consumer"): 37,
    }
    assert Counter(row["group_type"] for row in snapshots if row["members"]) == {"classic": 208, "consumer": 32}


def test_generations_and_members_of_each_group_are_the_recorders(snapshots: list[dict], recorded: dict[str, dict]) -> None:
    expected = {
        name: (group["generations"], group["member_ids"])
        for name, group in recorded.items()
        if "consumer" in group["protocol_type"] and group["protocol_type"].startswith("(none)")
    }
    found = {}
    for name in {row["group_id"] for row in snapshots}:
        of_group = [row for row in snapshots if row["group_id"] == name and row["members"] and row["group_type"] == "classic"]
        found[name] = (
            len({row["generation"] for row in of_group}),
            len({member["member_id"] for row in of_group for member in row["members"]}),
        )
    assert {name: found[name] for name in expected} == expected
    assert found["cache-connect"] == (0, 0)


def test_a_group_of_another_protocol_type_is_left_out_of_audits(recorded_warehouse: Path) -> None:
    """cache-connect wrote one empty consumer-less snapshot like every group, then two values of type connect."""
    assert [row["group_id"] for row in rows(recorded_warehouse, "subscription_snapshots")].count("cache-connect") == 1
    assert "cache-connect" not in {row["group_id"] for row in rows(recorded_warehouse, "generation_audits")}


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


def test_commits_are_what_kafkas_formatter_prints(recorded_warehouse: Path) -> None:
    commits = rows(recorded_warehouse, "offset_snapshots")
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


def test_java_leaders_are_reproduced_exactly(recorded_warehouse: Path, snapshots: list[dict], recorded: dict[str, dict]) -> None:
    """125 values with a Java leader: 122 solved and exact, 2 static rewrites carried, 1 written by the coordinator."""
    java_led = set()
    for row in snapshots:
        leader = next((member for member in row["members"] if member["member_id"] == row["leader_member_id"]), None)
        known = recorded[row["group_id"]]["java_client_ids"]
        if row["strategy"] in OURS and leader is not None and leader["client_id"] in known:
            java_led.add((row["group_id"], row["position"]))
    found = Counter(
        (row["status"], row["conformance"])
        for row in rows(recorded_warehouse, "solutions")
        if row["basis"] == "recomputed" and (row["group_id"], row["position"]) in java_led
    )
    assert found == {("solved", "exact"): 122, ("carried", "exact"): 2, ("solved", "not_comparable"): 1}


def test_exact_means_the_same_partitions_in_the_same_order(recorded_warehouse: Path) -> None:
    """Conformance, recomputed from the stored assignments themselves."""
    held: dict[tuple, dict] = {}
    for row in unpacked_assignments(recorded_warehouse):
        if row["basis"] in ("observed", "recomputed"):
            key = (row["group_id"], row["position"], row["member_id"])
            held.setdefault(key, {})[row["basis"]] = {entry["topic"]: entry["partitions"] for entry in row["partitions"]}
    exact = {
        (row["group_id"], row["position"])
        for row in rows(recorded_warehouse, "solutions")
        if row["basis"] == "recomputed" and row["conformance"] == "exact"
    }
    compared = {key: sides for key, sides in held.items() if key[:2] in exact}
    assert len(compared) > 300
    assert [key for key, sides in compared.items() if sides["observed"] != sides["recomputed"]] == []


def test_consumer_protocol_groups_are_reproduced_exactly(recorded_warehouse: Path, snapshots: list[dict]) -> None:
    """All 32 targets, but for the one that the coordinator copied from the classic group it turned over."""
    keys = {(row["group_id"], row["position"]) for row in snapshots if row["group_type"] == "consumer" and row["members"]}
    found = Counter(
        (row["strategy"], row["status"], row["conformance"])
        for row in rows(recorded_warehouse, "solutions")
        if row["basis"] == "recomputed" and (row["group_id"], row["position"]) in keys
    )
    assert found == {
        ("uniform", "solved", "exact"): 26,
        ("uniform", "carried", "exact"): 1,
        ("uniform", "solved", "not_comparable"): 1,
        ("server-range", "solved", "exact"): 4,
    }


def test_a_group_that_changed_its_protocol_twice_has_one_history(recorded_warehouse: Path, snapshots: list[dict]) -> None:
    lives = [(row["incarnation"], row["group_type"], row["is_conversion"]) for row in snapshots if row["group_id"] == "fraud-upgrade"]
    assert Counter(lives) == {(8, "classic", False): 5, (8, "consumer", True): 1, (8, "consumer", False): 8, (8, "classic", True): 1}
    audits = [
        row for row in rows(recorded_warehouse, "generation_audits") if row["group_id"] == "fraud-upgrade" and row["basis"] == "observed"
    ]
    audits.sort(key=lambda row: row["position"])
    assert [row["generation"] for row in audits] == [0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 11, 11, 12, 13]
    assert [row["previous_generation"] for row in audits] == [None, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 11, 11, 12]
    assert [row["conformance"] for row in audits if row["member_count"]].count("not_comparable") == 2


def test_reconciliation_takes_the_time_until_the_last_member_is_there(recorded_warehouse: Path) -> None:
    audits = [row for row in rows(recorded_warehouse, "generation_audits") if row["reconciled_at"] is not None]
    assert {row["basis"] for row in audits} == {"observed"} and len(audits) == 31
    assert all(0 <= (row["reconciled_at"] - row["observed_at"]).total_seconds() < 3 for row in audits)


def test_epochs_without_a_target_of_their_own_are_no_gap(recorded_warehouse: Path) -> None:
    """The capture has the record of every epoch; seven of its targets are for two or three epochs."""
    audits = [row for row in rows(recorded_warehouse, "generation_audits") if row["batched_epoch_count"] is not None]
    assert sorted(row["batched_epoch_count"] for row in audits if row["batched_epoch_count"]) == [1] * 6 + [2]
    assert {row["basis"] for row in audits} == {"observed"} and {row["generation_gap"] for row in audits} <= {-1, 0}


def test_groups_of_assignors_that_are_not_ours_are_audited_as_observed(recorded_warehouse: Path) -> None:
    audits = [row for row in rows(recorded_warehouse, "generation_audits") if row["group_id"] == "mart-js" and row["member_count"]]
    assert {(row["basis"], row["status"], row["conformance"]) for row in audits if row["basis"] != "counterfactual"} == {
        ("observed", "solved", "not_comparable"),
        ("recomputed", "unsupported", "not_comparable"),
    }
    observed = [row for row in audits if row["basis"] == "observed"]
    assert sum(row["movement_count"] for row in observed) > 0
    assert all(row["movement_count"] is None for row in audits if row["basis"] == "recomputed")


def test_counts_of_every_audit_add_up(recorded_warehouse: Path) -> None:
    audits = rows(recorded_warehouse, "generation_audits")
    for row in audits:
        if row["retained_count"] is not None:
            assert row["partition_count"] == row["retained_count"] + row["revoked_count"] + row["reassigned_count"] + row["gained_count"]
            assert row["movement_count"] == row["revoked_count"] + row["reassigned_count"] + row["handed_over_count"]
            assert row["withheld_count"] <= row["lost_count"]
    assert len({(row["group_id"], row["position"], row["basis"], row["strategy"]) for row in audits}) == len(audits)
    of_consumer_groups = Counter(bool(row["member_count"]) for row in audits if row["strategy"] in ("uniform", "server-range"))
    assert of_consumer_groups == {True: 32 * 3}  # observed, recomputed, and counterfactual beside the four of every generation
    assert len(audits) == (289 + 37) * 6 + 32


def test_movements_are_the_audits_counts(recorded_warehouse: Path) -> None:
    kinds: dict[tuple, Counter] = {}
    for row in rows(recorded_warehouse, "movements"):
        kinds.setdefault((row["group_id"], row["position"], row["basis"]), Counter())[row["kind"]] += 1
    for row in rows(recorded_warehouse, "generation_audits"):
        is_stored = row["basis"] == "observed" or (row["basis"] == "recomputed" and row["conformance"] != "exact")
        if is_stored and row["retained_count"] is not None:
            counted = {
                kind: row[f"{kind}_count"] for kind in ("revoked", "reassigned", "gained", "lost", "orphaned") if row[f"{kind}_count"]
            }
            assert kinds.pop((row["group_id"], row["position"], row["basis"]), Counter()) == counted
    assert kinds == {}


def test_a_second_run_adds_nothing(make_tables, recorded_warehouse: Path, tmp_path: Path) -> None:
    copy = tmp_path / "warehouse"
    shutil.copytree(recorded_warehouse, copy)
    before = versions(copy)
    assert make_tables("run", "--warehouse", copy, "--input", RECORDED) == 0
    after = versions(copy)
    assert {name: version for name, version in after.items() if version != before[name]} == {"runs": before["runs"] + 1}
    newest = max(rows(copy, "runs"), key=lambda run: run["run_sequence"])
    assert dict(newest["input_counts"])["duplicate"] == 2388
    assert dict(newest["table_versions"]) == {name: version for name, version in before.items() if name != "runs"}
