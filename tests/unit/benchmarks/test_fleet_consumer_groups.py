"""Groups of the consumer protocol in made-up fleets: how many there are, and that their records are those of groups that rebalance."""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.decoders import cluster_metadata
from jobs.decoders.consumer_group_replay import Record, fold
from jobs.decoders.consumer_offsets import decode_record
from schemas.wire import VALUE_DECODERS, decode_key
from schemas.wire.keys import CURRENT, MEMBER, RECORD_TYPES, TARGET
from tests.benchmarks.fleet import fleet_name
from tests.benchmarks.fleet_consumer_groups import ConsumerGroup
from tests.benchmarks.fleet_groups import FleetTopic, GroupPlan, every_nth, plan_fleet
from tests.benchmarks.fleet_records import METADATA_FILE, RECORDS_FILE, history, make_fleet, next_pieces

GROUPS, GENERATIONS, CHANGING, SHARE = 40, 6, 8, 50
Snapshots = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def plans() -> dict[str, GroupPlan]:
    """The plans of the groups of the consumer protocol by group."""
    return {plan.group_id: plan for plan in plan_fleet(GROUPS, 1, SHARE) if plan.has_consumer_protocol}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the history of a fleet and the pieces that follow."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet = plan_fleet(GROUPS, 1, SHARE)
    make_fleet(folder, fleet, [history(GENERATIONS), *next_pieces(fleet, CHANGING)])
    return folder


def records(piece: Path) -> Iterator[Record]:
    for one in pq.read_table(piece / RECORDS_FILE).to_pylist():
        yield Record(one["partition"], one["offset"], int(one["timestamp"].timestamp() * 1000), one["key"], one["value"])


def by_group(piece: Path) -> dict[str, list[Record]]:
    """Return the records of each group of the consumer protocol in their order, without its commits."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records(piece):
        key = decode_key(record.key)
        if key.record_type in RECORD_TYPES:
            assert key.group_id is not None
            groups[key.group_id].append(record)
    return groups


def topic_names(fleet: Path) -> dict[str, str]:
    with gzip.open(fleet / "history" / METADATA_FILE) as file:
        looks = [row["look"] for row in cluster_metadata.decode_line(next(file))]
    return {look["topic_id"]: look["topic"] for look in looks}


@pytest.fixture(scope="module")
def snapshots(fleet: Path) -> Snapshots:
    """What the history of each group of the consumer protocol gives."""
    names = topic_names(fleet)
    return {group_id: list(fold(group_id, found, names)) for group_id, found in by_group(fleet / "history").items()}


def with_members(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [snapshot for snapshot in found if snapshot["members"]]


@pytest.mark.parametrize(("groups", "share", "expected"), [(40, 50, 20), (300, 7, 21), (300, 0, 0), (300, 100, 300), (3, 10, 0)])
def test_share_is_the_one_that_was_asked_for(groups: int, share: int, expected: int) -> None:
    assert sum(plan.has_consumer_protocol for plan in plan_fleet(groups, 1, share)) == expected


def test_groups_of_both_protocols_have_all_sizes_and_are_among_those_that_rebalance_later() -> None:
    plans = plan_fleet(1000, 1, SHARE)
    assert [sum(plan.has_consumer_protocol for plan in plans[start : start + 100]) for start in range(0, 1000, 100)] == [50] * 10
    for changing in (every_nth(plans, 50), every_nth(list(reversed(plans)), 50)):
        assert 10 < sum(plan.has_consumer_protocol for plan in plans if plan.group_id in changing) < 40


def test_other_groups_are_those_of_the_fleet_without_a_share() -> None:
    plans = plan_fleet(GROUPS, 1, SHARE)
    assert [plan for plan in plans if not plan.has_consumer_protocol] == [
        without for plan, without in zip(plans, plan_fleet(GROUPS, 1), strict=True) if not plan.has_consumer_protocol
    ]


def test_most_groups_have_the_assignor_that_brokers_have_by_default() -> None:
    strategies = Counter(plan.strategy for plan in plan_fleet(1000, 1, 100))
    assert strategies.keys() == {"uniform", "server-range"}
    assert strategies["uniform"] / 1000 == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("piece", ["history", "generation", "commits"])
def test_land_reads_every_record(fleet: Path, piece: str) -> None:
    rows = [decode_record(one.key, one.value, one.offsets_partition, one.offset, one.timestamp_ms) for one in records(fleet / piece)]
    assert {row["outcome"] for row in rows} == {"landed"}
    assert {"classic_group_metadata", "consumer_group_metadata", "offset_commit"} < {row["kind"] for row in rows}


def test_each_rebalance_is_one_snapshot_with_members(plans: dict[str, GroupPlan], snapshots: Snapshots) -> None:
    assert snapshots.keys() == plans.keys()
    assert {group_id: len(with_members(found)) for group_id, found in snapshots.items()} == dict.fromkeys(plans, GENERATIONS)
    assert all(found[-1]["strategy"] == plans[group_id].strategy for group_id, found in snapshots.items())


def test_later_pieces_go_on_with_the_groups(plans: dict[str, GroupPlan], fleet: Path) -> None:
    fleet_plans = plan_fleet(GROUPS, 1, SHARE)
    changing = {"generation": every_nth(fleet_plans, CHANGING), "commits": every_nth(list(reversed(fleet_plans)), CHANGING)}
    pieces = {name: by_group(fleet / name) for name in ("history", "generation", "commits")}
    for name, groups in changing.items():
        assert pieces[name].keys() == groups & plans.keys() != set()
    names = topic_names(fleet)
    for group_id in plans:
        found = list(fold(group_id, chain.from_iterable(piece.get(group_id, ()) for piece in pieces.values()), names))
        later = sum(group_id in groups for groups in changing.values())
        assert len(with_members(found)) == GENERATIONS + later
        assert all(before["generation"] < after["generation"] for before, after in pairwise(found))


def test_target_gives_each_partition_to_one_member(plans: dict[str, GroupPlan], snapshots: Snapshots) -> None:
    for group_id, found in snapshots.items():
        topics = [(topic.name, number) for topic in plans[group_id].topics for number in range(topic.partition_count)]
        for snapshot in with_members(found):
            assigned = [entry for member in snapshot["members"] for entry in member["assigned"]]
            assert sorted((entry["topic"], number) for entry in assigned for number in entry["partitions"]) == sorted(topics)


def test_most_groups_reach_their_last_target(snapshots: Snapshots) -> None:
    reached = [found[-1]["reconciled_at"] is not None for found in snapshots.values()]
    assert sum(reached) >= 0.9 * len(reached)


def test_no_partition_has_two_members_at_a_time(fleet: Path) -> None:
    states = set()
    for found in by_group(fleet / "history").values():
        held: dict[str, set[tuple[str, int]]] = {}
        for record in found:
            key = decode_key(record.key)
            if key.record_type != CURRENT or key.member_id is None:
                continue
            held.pop(key.member_id, None)
            if record.value is not None:
                content = VALUE_DECODERS[CURRENT](record.value)
                states.add(content.state)
                entries = (*content.assigned, *content.pending_revocation)
                held[key.member_id] = {(entry.topic_id, number) for entry in entries for number in entry.partitions}
            assert sum(map(len, held.values())) == len(set().union(*held.values()))
    assert states == {0, 1, 2}  # of members that hold their target, that have to revoke partitions, and that wait for them


def test_static_members_do_not_restart(snapshots: Snapshots, plans: dict[str, GroupPlan]) -> None:
    static = [found for group_id, found in snapshots.items() if plans[group_id].is_static]
    assert static
    for found in static:
        ids = {(member["group_instance_id"], member["member_id"]) for snapshot in found for member in snapshot["members"]}
        instances = [instance for instance, _ in ids]
        assert None not in instances and len(set(instances)) == len(instances)


def test_one_member_may_have_many_partitions() -> None:
    topics = (FleetTopic("t" * 200, 20_000, 1, 1),)
    group = ConsumerGroup(GroupPlan("one-large-group", 1, "uniform", 1, topics, False, False, False, True))
    written = {decode_key(key).record_type: value for _, key, value in group.rebalance_records(0)}
    (entry,) = VALUE_DECODERS[TARGET](written[TARGET] or b"").partitions
    assert (entry.topic_id, entry.partitions) == (topics[0].topic_id, tuple(range(20_000)))
    assert VALUE_DECODERS[MEMBER](written[MEMBER] or b"").topics == (topics[0].name,)


def test_name_of_a_fleet_has_the_share_that_is_not_0() -> None:
    assert fleet_name(300, 6, 0) == "300 groups, 6 generations"
    assert fleet_name(300, 6, 50) == "300 groups, 6 generations, 50 % of the consumer protocol"
