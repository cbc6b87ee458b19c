"""Made-up fleets: their means, their rebalances, and that land reads each of their records."""

from __future__ import annotations

import gzip
import itertools
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from assignors import GroupProblem, Member, Topic, assign
from assignors.java.ordering import coordinator_partition
from jobs.decoders import cluster_metadata
from jobs.decoders.consumer_offsets import decode_record
from tests.benchmarks.fleet_groups import OFFSETS_PARTITION_COUNT, GroupPlan, every_nth, plan_fleet
from tests.benchmarks.fleet_records import FEWEST_GROUPS_FOR_PROCESSES, METADATA_FILE, RECORDS_FILE, history, make_fleet, next_pieces

ROOT = Path(__file__).parents[3]
GROUPS, GENERATIONS, CHANGING = FEWEST_GROUPS_FOR_PROCESSES, 6, 10
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def plans() -> list[GroupPlan]:
    return plan_fleet(GROUPS, seed=1)


@pytest.fixture(scope="module")
def fleet(plans: list[GroupPlan], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the history of a fleet and the pieces that follow."""
    folder = tmp_path_factory.mktemp("fleet")
    make_fleet(folder, plans, [history(GENERATIONS), *next_pieces(plans, CHANGING)])
    return folder


def records(folder: Path) -> Rows:
    return pq.read_table(folder / RECORDS_FILE).to_pylist()


def decoded(folder: Path) -> Rows:
    """Return what land makes of the records of a piece."""
    return [
        decode_record(one["key"], one["value"], one["partition"], one["offset"], int(one["timestamp"].timestamp() * 1000))
        for one in records(folder)
    ]


def metadata(folder: Path) -> Rows:
    with gzip.open(folder / METADATA_FILE) as file:
        return [row for line in file for row in cluster_metadata.decode_line(line)]


@pytest.fixture(scope="module")
def rows(fleet: Path) -> Rows:
    return decoded(fleet / "history")


@pytest.fixture(scope="module")
def generations(rows: Rows) -> dict[str, Rows]:
    """The snapshots of each group in their order."""
    groups: dict[str, Rows] = defaultdict(list)
    for row in rows:
        if row["kind"] == "classic_group_metadata":
            groups[row["snapshot"]["group_id"]].append(row["snapshot"])
    return groups


def test_sizes_have_the_means_and_the_heavy_tail_of_a_large_cluster() -> None:
    plans = plan_fleet(5000, seed=3)
    members = [plan.member_count for plan in plans]
    partitions = sorted(plan.partition_count for plan in plans)
    assert (min(members), max(members)) == (1, 200)
    assert sum(members) / len(plans) == pytest.approx(8, rel=0.01)
    assert sum(partitions) / len(plans) == pytest.approx(40, rel=0.01)
    assert 0.2 <= sum(partitions[-50:]) / sum(partitions) <= 0.3
    assert sum(plan.has_differing_subscriptions for plan in plans) == 250


def test_names_are_long_and_unique(plans: list[GroupPlan]) -> None:
    names = [plan.group_id for plan in plans] + [name for name in {topic.name for plan in plans for topic in plan.topics}]
    assert len(set(names)) == len(names)
    assert {20, 60} <= {len(name) for name in names} <= set(range(20, 61))


def test_cluster_has_at_most_200_000_partitions() -> None:
    topics = {topic.name: topic.partition_count for plan in plan_fleet(20_000, seed=1) for topic in plan.topics}
    assert sum(topics.values()) == pytest.approx(200_000, rel=0.01)


def test_land_reads_every_record(rows: Rows) -> None:
    assert Counter((row["outcome"], row["kind"]) for row in rows).keys() == {
        ("landed", "classic_group_metadata"),
        ("landed", "offset_commit"),
    }


def test_a_generation_has_thirty_records_and_forty_seven_assignments(rows: Rows, generations: dict[str, Rows]) -> None:
    snapshots = [snapshot for group in generations.values() for snapshot in group]
    assert len(snapshots) == GROUPS * GENERATIONS
    assert len(rows) / len(snapshots) == pytest.approx(30, rel=0.05)
    bases = 6  # observed, recomputed, four counterfactual strategies
    assert bases * sum(len(snapshot["members"]) for snapshot in snapshots) / len(snapshots) == pytest.approx(47, rel=0.05)
    assert sum(map(partition_count, snapshots)) / len(snapshots) == pytest.approx(40, rel=0.05)


def partition_count(snapshot: dict[str, Any]) -> int:
    return sum(len(entry["partitions"]) for member in snapshot["members"] for entry in member["assigned"])


def test_groups_are_in_the_partition_of_their_coordinator_at_consecutive_offsets(fleet: Path) -> None:
    offsets: dict[int, list[int]] = defaultdict(list)
    for piece in ("history", "generation", "commits"):
        for one in records(fleet / piece):
            offsets[one["partition"]].append(one["offset"])
            length = int.from_bytes(one["key"][2:4], "big")
            group_id = one["key"][4 : 4 + length].decode()
            assert one["partition"] == coordinator_partition(group_id, OFFSETS_PARTITION_COUNT)
    assert len(offsets) == OFFSETS_PARTITION_COUNT
    assert all(found == list(range(len(found))) for found in offsets.values())


def test_times_ascend_in_each_partition_and_from_piece_to_piece(fleet: Path) -> None:
    last: dict[int, Any] = {}
    for piece in ("history", "generation", "commits"):
        for one in records(fleet / piece):
            assert last.get(one["partition"], one["timestamp"]) <= one["timestamp"]
            last[one["partition"]] = one["timestamp"]


def test_most_assignments_are_those_of_kafkas_own_classes(plans: list[GroupPlan], generations: dict[str, Rows]) -> None:
    topics = {topic.name: Topic(topic.partition_count) for plan in plans for topic in plan.topics}
    equal = sum(
        {owner: sorted(given) for owner, given in assign(snapshot["strategy"], problem_of(snapshot, topics)).items()}
        == {member["member_id"]: sorted(entries(member["assigned"])) for member in snapshot["members"]}
        for group in generations.values()
        for snapshot in group
    )
    assert 0.95 <= equal / (GROUPS * GENERATIONS) < 1


def problem_of(snapshot: dict[str, Any], topics: dict[str, Topic]) -> GroupProblem:
    members = [
        Member(
            one["member_id"],
            tuple(one["topics"]),
            one["group_instance_id"],
            owned=tuple(entries(one["owned"])),
            owned_generation=one["owned_generation"],
            user_data=one["user_data"],
        )
        for one in snapshot["members"]
    ]
    return GroupProblem({name: topics[name] for one in members for name in one.topics}, tuple(members))


def entries(grouped: Rows) -> list[tuple[str, int]]:
    return [(entry["topic"], number) for entry in grouped for number in entry["partitions"]]


def test_members_join_leave_and_restart(generations: dict[str, Rows]) -> None:
    events: Counter[str] = Counter()
    for group in generations.values():
        for before, after in itertools.pairwise(group):
            old, new = ({member["member_id"]: member for member in one["members"]} for one in (before, after))
            gone, come = ({side[name]["client_id"] for name in side.keys() - other.keys()} for side, other in ((old, new), (new, old)))
            events["restart" if gone & come else "join" if come else "leave" if gone else "rejoin"] += 1
    assert all(events[name] > 50 for name in ("join", "leave", "restart", "rejoin")), events


def test_some_members_are_static_and_some_groups_subscribe_differently(generations: dict[str, Rows]) -> None:
    last = [group[-1]["members"] for group in generations.values()]
    assert 0.15 < sum(any(member["group_instance_id"] for member in members) for members in last) / GROUPS < 0.25
    assert 0.03 < sum(len({tuple(member["topics"]) for member in members}) > 1 for members in last) / GROUPS <= 0.05


def test_strategies_are_mixed(generations: dict[str, Rows]) -> None:
    strategies = Counter(group[-1]["strategy"] for group in generations.values())
    assert strategies.keys() == {"range", "roundrobin", "sticky", "cooperative-sticky"}
    assert min(strategies.values()) > GROUPS / 20


def test_next_generation_is_of_some_groups(plans: list[GroupPlan], fleet: Path) -> None:
    rows = decoded(fleet / "generation")
    snapshots = [row["snapshot"] for row in rows if row["kind"] == "classic_group_metadata"]
    assert {snapshot["group_id"] for snapshot in snapshots} == every_nth(plans, CHANGING)
    assert [snapshot["generation"] for snapshot in snapshots] == [GENERATIONS + 1] * CHANGING
    assert 12 < len(rows) / CHANGING < 24
    assert {row["outcome"] for row in rows} == {"landed"}


def test_five_minutes_of_commits_are_of_all_groups_with_rebalances_of_some(fleet: Path) -> None:
    kinds = Counter(row["kind"] for row in decoded(fleet / "commits"))
    assert kinds["classic_group_metadata"] == CHANGING
    assert kinds["offset_commit"] / GROUPS == pytest.approx(40, rel=0.05)
    assert len({row["observed_at"] for row in map(topic_row, metadata(fleet / "commits"))}) == 1


def test_last_piece_is_a_metadata_snapshot_alone(plans: list[GroupPlan], fleet: Path) -> None:
    assert [path.name for path in (fleet / "metadata").iterdir()] == [METADATA_FILE]
    seen = [topic_row(row) for name in ("history", "commits", "metadata") for row in metadata(fleet / name)]
    counts = {row["topic"]: row["partition_count"] for row in seen}
    assert counts == {topic.name: topic.partition_count for plan in plans for topic in plan.topics}
    assert len({row["observed_at"] for row in seen}) == 5


def topic_row(row: dict[str, Any]) -> dict[str, Any]:
    assert row["outcome"] == "landed"
    return row["look"]


def test_committed_offsets_are_in_the_log_of_their_topic(fleet: Path, rows: Rows) -> None:
    topics = map(topic_row, metadata(fleet / "history"))
    ends = {(topic["topic"], one["partition"]): one["end_offset"] for topic in topics for one in topic["partitions"]}
    commits = [row["offset_commit"] for row in rows if row["kind"] == "offset_commit"]
    assert all(0 < commit["committed_offset"] <= ends[commit["topic"], commit["partition"]] for commit in commits)


def test_equal_seeds_make_equal_fleets(tmp_path: Path) -> None:
    made = []
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        make_fleet(tmp_path / name, plan_fleet(20, seed), [history(2)])
        made.append((records(tmp_path / name / "history"), metadata(tmp_path / name / "history")))
    one, again, other = made
    assert one == again
    assert one[0] != other[0] and one[1] != other[1]


def test_fleet_of_no_groups_is_refused_in_one_line(tmp_path: Path) -> None:
    assert make(tmp_path, "--groups", "0") == (2, "fleet: argument --groups: found 0, expected at least 1\n")


def test_share_of_the_consumer_protocol_above_100_percent_is_refused_in_one_line(tmp_path: Path) -> None:
    assert make(tmp_path, "--consumer-share", "101") == (2, "fleet: argument --consumer-share: found 101, expected 0 to 100\n")


def test_full_disk_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / RECORDS_FILE).symlink_to("/dev/full")
    status, message = make(tmp_path, "--groups", "3")
    assert (status, message.count("\n")) == (2, 1)
    assert message.startswith(f"fleet: a fleet of 3 groups cannot be written to {tmp_path}: ") and os.strerror(28) in message


def make(folder: Path, *arguments: str) -> tuple[int, str]:
    """Return the exit code and the errors of a call that makes a fleet."""
    command = [sys.executable, str(ROOT / "tests" / "benchmarks" / "fleet.py"), "--make", str(folder), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stderr
