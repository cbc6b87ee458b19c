"""Where the topic may not be read, the groups are polled: the lines, compared with what real clients received."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from schemas.wire.keys import OFFSETS_TOPIC
from tests.conftest import Evenkeel
from tests.kafka import captures
from tests.kafka.broker import USERS, Broker
from tests.kafka.conftest import Collect
from tests.kafka.following import following, wait_for
from tests.kafka.groups import TOPIC, Commits, Groups, Member, Owned
from tests.kafka.tables import observed, rows

CLASSIC, KIP848, SIMPLE = "polled-classic", "polled-next-generation", "polled-committing"
LINE = {
    *("cluster_id", "group_id", "observed_at_ms", "generation", "group_type", "protocol_type", "state", "strategy", "leader_member_id"),
    *("joined_at_ms", "reconciled_at_ms", "members", "offsets"),
}
MEMBER = {
    *("member_id", "group_instance_id", "client_id", "client_host", "rack", "session_timeout_ms", "rebalance_timeout_ms", "topics"),
    *("topic_regex", "strategies", "subscription_version", "owned", "owned_generation", "user_data_b64", "assigned", "current"),
    "pending_revocation",
}


@pytest.fixture(scope="module")
def groups(broker: Broker, collect: Collect) -> Iterator[Groups]:
    """Groups that no other test knows: one a protocol, and one that only commits."""
    living = Groups(broker.address)
    living.join(CLASSIC, partition_assignment_strategy="roundrobin", client_rack="r1")
    living.join(CLASSIC, partition_assignment_strategy="roundrobin", group_instance_id="s1")
    living.join(KIP848, protocol="consumer")
    living.join(KIP848, protocol="consumer")
    living.wait_until_shared(CLASSIC, KIP848)
    commits = Commits(broker.address, SIMPLE)
    commits.commit(2, 40, "a note")
    commits.close()
    yield living
    living.close()


@pytest.fixture(scope="module", autouse=True)
def rights(broker: Broker) -> Iterator[None]:
    """The user ``reader`` may describe all groups and the topic, but not read ``__consumer_offsets``."""
    may = "User:reader", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW
    resources = [(ResourceType.GROUP, "polled-", ResourcePatternType.PREFIXED), (ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL)]
    for made in broker.admin.create_acls([AclBinding(*resource, *may) for resource in resources]).values():
        made.result()
    yield
    for gone in broker.admin.delete_acls([AclBindingFilter(*resource, *may) for resource in resources]).values():
        gone.result()


@pytest.fixture
def login(broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the options with which a collection runs as ``reader``."""
    properties = tmp_path / "client.properties"
    properties.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=reader\n")
    monkeypatch.setenv("EVENKEEL_KAFKA_SASL_PASSWORD", USERS["reader"])
    return ["--client-properties", str(properties)]


def last(lines: list[dict[str, Any]], group_id: str) -> dict[str, Any]:
    return [line for line in lines if line["group_id"] == group_id][-1]


def held(line: dict[str, Any], name: str = "assigned") -> dict[str, Owned]:
    return {
        member["member_id"]: frozenset((entry["topic"], number) for entry in member[name] for number in entry["partitions"])
        for member in line["members"]
    }


def owned(members: list[Member]) -> dict[str, Owned]:
    return {member_id: member.owned for member in members for member_id in member.member_ids}


def test_without_read_right_on_the_topic_collect_warns_and_polls_groups(
    collect: Collect, broker: Broker, groups: Groups, login: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "f"
    assert collect(folder, *login, servers=broker.login_address) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        f"evenkeel: {broker.login_address}: no right to read the topic {OFFSETS_TOPIC}: polling the groups instead, which misses "
        "changes between two polls",
        f"evenkeel: cluster {captures.looks(folder)[0]['cluster_id']}: polled 3 groups",
    ]
    (name,) = [path.name for path in folder.glob("group_snapshots-*.jsonl.gz")]
    assert printed.out == f"3 changes of 3 groups -> {name} in {folder}\nevenkeel run --input {folder} --warehouse audit\n"
    assert re.fullmatch(r"group_snapshots-\d{8}T\d{6}\.\d{6}Z\.jsonl\.gz", name)
    assert list(folder.glob("consumer_offsets-*")) == [] and not (folder / "_positions.json").exists()

    lines = captures.polls(folder)
    assert {line["group_id"] for line in lines} == {CLASSIC, KIP848, SIMPLE}
    assert all(set(line) == LINE and all(set(member) == MEMBER for member in line["members"] or ()) for line in lines)
    assert {(line["cluster_id"], line["generation"]) for line in lines} == {(captures.looks(folder)[0]["cluster_id"], None)}


def test_a_classic_group_shows_what_its_members_subscribe_to(collect: Collect, groups: Groups, tmp_path: Path) -> None:
    assert collect(tmp_path, "--poll") == 0
    line = last(captures.polls(tmp_path), CLASSIC)
    assert (line["group_type"], line["protocol_type"], line["state"], line["strategy"]) == ("classic", "consumer", "Stable", "roundrobin")
    assert held(line) == owned(groups.of(CLASSIC))
    assert [member["topics"] for member in line["members"]] == [[TOPIC], [TOPIC]]
    assert {member["rack"] for member in line["members"]} == {"r1", None}
    assert {member["group_instance_id"] for member in line["members"]} == {"s1", None}
    assert {member["client_host"] for member in line["members"]} == {"/127.0.0.1"}


def test_polled_kip848_group_has_target_and_current_assignment(collect: Collect, groups: Groups, tmp_path: Path) -> None:
    assert collect(tmp_path, "--poll") == 0
    line = last(captures.polls(tmp_path), KIP848)
    assert (line["group_type"], line["state"], line["strategy"]) == ("consumer", "Stable", "uniform")
    assert held(line) == held(line, "current") == owned(groups.of(KIP848))
    assert [member["topics"] for member in line["members"]] == [None, None]


def test_a_group_that_only_commits_shows_its_offsets(collect: Collect, groups: Groups, tmp_path: Path) -> None:
    assert collect(tmp_path, "--poll") == 0
    line = last(captures.polls(tmp_path), SIMPLE)
    nothing = {"leader_epoch": None, "committed_at_ms": None, "topic_id": None}
    assert line["members"] is None
    assert line["offsets"] == [{"topic": TOPIC, "partition": 2, "committed_offset": 40, "metadata": None, **nothing}]


def test_next_poll_writes_only_changes(
    collect: Collect, broker: Broker, groups: Groups, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(tmp_path, "--poll", "--cluster-id", "prod") == 0
    first = captures.polls(tmp_path)
    capsys.readouterr()
    assert collect(tmp_path) == 0
    assert "0 changes of " in capsys.readouterr().out, "what it once polled, a folder goes on polling"

    commits = Commits(broker.address, SIMPLE)
    commits.commit(1, 7, "more")
    commits.close()
    leaves = groups.join(CLASSIC, partition_assignment_strategy="roundrobin")
    groups.wait_until_shared(CLASSIC)
    assert collect(tmp_path) == 0
    joined, committed = sorted(captures.polls(tmp_path)[len(first) :], key=lambda line: line["group_id"])
    assert (joined["group_id"], held(joined)) == (CLASSIC, owned(groups.of(CLASSIC)))
    assert (committed["group_id"], committed["members"]) == (SIMPLE, None)
    assert [(entry["partition"], entry["committed_offset"]) for entry in committed["offsets"]] == [(1, 7)]
    assert {line["cluster_id"] for line in captures.polls(tmp_path)} == {"prod"}

    groups.leave(leaves)
    groups.wait_until_shared(CLASSIC)
    assert collect(tmp_path) == 0
    assert held(captures.polls(tmp_path)[-1]) == owned(groups.of(CLASSIC))


def test_following_sees_what_happens_and_publishes_now_and_then(broker: Broker, groups: Groups, tmp_path: Path) -> None:
    folder = tmp_path / "captures"

    def members() -> list[dict[str, Owned]]:
        return [held(line) for line in captures.polls(folder) if line["group_id"] == KIP848 and line["members"] is not None]

    with following(broker, folder, "--poll", "--poll-interval", "0.2", roll_interval="0.5") as collector:
        wait_for(members, "the first file")
        joins = groups.join(KIP848, protocol="consumer")
        groups.wait_until_shared(KIP848)
        wait_for(lambda: owned(groups.of(KIP848)) in members(), "the third member")
        groups.leave(joins)
        groups.wait_until_shared(KIP848)
        before = len(list(folder.glob("group_snapshots-*")))
        assert collector.end(signal.SIGINT) == 0, collector.output
    times = [line["observed_at_ms"] for line in captures.polls(folder)]
    assert times == sorted(times)
    assert before <= len(list(folder.glob("group_snapshots-*"))) <= before + 1


def test_an_end_publishes_at_once(broker: Broker, groups: Groups, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder, "--poll", roll_interval="3600") as collector:
        assert list(folder.glob("group_snapshots-*")) == []
        assert collector.end(signal.SIGTERM) == 0, collector.output
    assert held(last(captures.polls(folder), CLASSIC)) == owned(groups.of(CLASSIC))


def test_a_folder_of_records_is_not_polled_into(
    collect: Collect, broker: Broker, login: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "f"
    assert collect(folder) == 0
    before = sorted(path.name for path in folder.iterdir())
    capsys.readouterr()
    assert collect(folder, "--poll") == 2
    assert capsys.readouterr().err == (
        f"evenkeel: --output {folder}: found records of {OFFSETS_TOPIC}, expected a folder without them for polls; "
        "name another folder with --output\n"
    )
    assert collect(folder, *login, servers=broker.login_address) == 2
    assert capsys.readouterr().err == (
        f"evenkeel: {broker.login_address}: no right to read the topic {OFFSETS_TOPIC}, and the folder already has records of it; to poll, "
        "name another folder with --output\n"
    )
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_cluster_that_is_away_ends_no_following(broker: Broker, groups: Groups, tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    with following(broker, folder, "--poll", "--poll-interval", "0.3", "--timeout", "0.5", roll_interval="0.1") as collector:
        with broker.paused():
            wait_for(lambda: "could not poll the groups, trying again later: " in collector.output, "the outage is logged")
        commits = Commits(broker.address, SIMPLE)
        commits.commit(3, 99, "after the pause")
        commits.close()
        wait_for(lambda: any(entry["committed_offset"] == 99 for entry in last(captures.polls(folder), SIMPLE)["offsets"]), "what came")
        assert collector.end(signal.SIGINT) == 0, collector.output


@pytest.mark.slow
def test_polls_go_through_the_pipeline(make_tables: Evenkeel, collect: Collect, groups: Groups, tmp_path: Path) -> None:
    captured, warehouse = tmp_path / "captures", tmp_path / "warehouse"
    assert collect(captured, "--poll") == 0
    before = owned(groups.of(CLASSIC))
    leaves = groups.join(CLASSIC, partition_assignment_strategy="roundrobin")
    groups.wait_until_shared(CLASSIC)
    assert collect(captured) == 0
    after = owned(groups.of(CLASSIC))
    assert make_tables("run", "--input", captured, "--warehouse", warehouse) == 0
    groups.leave(leaves)

    (run,) = rows(warehouse, "runs")
    assert dict(run["input_counts"])["quarantined"] == 0
    snapshots = observed(warehouse)
    assert [snapshot.owned for snapshot in snapshots[CLASSIC]] == [before, after]
    assert [snapshot.owned for snapshot in snapshots[KIP848]] == [owned(groups.of(KIP848))]
    recomputed = [row for row in rows(warehouse, "solutions") if row["group_id"] == CLASSIC and row["basis"] == "recomputed"]
    assert {row["status"] for row in recomputed} == {"solved"}, "what classic members subscribe to is known"
    commits = [row for row in rows(warehouse, "offset_snapshots") if row["group_id"] == SIMPLE]
    assert (2, 40) in {(row["partition"], row["committed_offset"]) for row in commits}
