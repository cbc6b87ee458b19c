"""The scenario that changes are for one group."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from assignors.generation.generation import Generation
from assignors.model import GroupProblem, Member, Topic
from assignors.scenario.changes import apply_changes
from jobs.reading.groups import read_groups
from jobs.reading.published import open_published
from jobs.reading.stored import Client, GroupKey, StoredGeneration
from jobs.what_if.changes import Changes, scenario_for, strategies_for
from jobs.what_if.udfs import changes_text
from tests.builders.published_warehouse import at, generation, member, write_warehouse


def stored(folder: Path, *members: tuple[str, str, str | None], strategy: str = "range") -> StoredGeneration:
    """Return a group of members, each with a member id, a client id and an instance id."""
    rows = [member(one, ["t"], {}, client_id=client, group_instance_id=instance) for one, client, instance in members]
    (group,) = read_groups(open_published(str(write_warehouse(folder, generation("g", 1, rows, {"t": 9}, strategy=strategy)))), ["g"])
    return group


def test_instance_ids_are_client_ids_numbered_where_they_are_shared(tmp_path: Path):
    group = stored(tmp_path, ("1", "a", None), ("2", "b", None), ("3", "a", None), ("4", "x", "a-1"), ("5", "b-1", None))
    scenario = scenario_for(Changes(static_ids=True), group, "range", 1)
    assert scenario.instance_ids == {"1": "a-2", "2": "b", "3": "a-3", "5": "b-1"}


def test_members_that_leave_get_no_instance_id(tmp_path: Path):
    group = stored(tmp_path, ("1", "a", None), ("2", "b", None))
    assert scenario_for(Changes(static_ids=True, remove_members=1), group, "range", 1).instance_ids == {"1": "a"}


def test_added_members_get_instance_ids_where_every_member_does(tmp_path: Path):
    group = stored(tmp_path, ("1", "a", None), ("2", "b", "c"))
    changed = apply_changes(group.generation, scenario_for(Changes(static_ids=True, add_members=2), group, "range", 1))
    assert all(member.group_instance_id for member in changed.problem.members)


@given(clients=st.lists(st.sampled_from(["a", "a-1", "a-2", "b"]), min_size=1, max_size=8), taken=st.sampled_from(["a", "a-1", "b"]))
def test_instance_ids_are_each_another_one(clients: list[str], taken: str):
    members = (*(Member(str(number), ("t",)) for number in range(len(clients))), Member("taken", ("t",), taken))
    known = {str(number): Client(client, None, None) for number, client in enumerate(clients)} | {"taken": Client("z", None, None)}
    problem = GroupProblem({"t": Topic(9)}, members)
    group = StoredGeneration(
        key=GroupKey("c", "g"),
        observed_at=at(0),
        until=None,
        empty_since=None,
        ended_at=None,
        is_consumer_protocol=False,
        generation=Generation(1, "range", problem, {}),
        clients=known,
        leader_client=None,
        kafka_version=None,
        has_subscriptions=True,
    )
    ids = scenario_for(Changes(static_ids=True), group, "range", 1).instance_ids
    assert set(ids) == {str(number) for number in range(len(clients))}
    assert max(Counter([*ids.values(), taken]).values()) == 1


def test_counts_are_of_members_with_several_threads(tmp_path: Path):
    group = stored(tmp_path, ("1", "a", None), ("2", "b", None))
    scenario = scenario_for(Changes(add_members=2, remove_members=1), group, "sticky", 3)
    assert (scenario.added, scenario.removed, scenario.strategy) == (6, 3, "sticky")


def test_saved_changes_name_the_threads_of_what_they_count():
    assert json.loads(changes_text(Changes(add_members=2), 4)) == {"add_members": 2, "threads_per_member": 4}
    assert json.loads(changes_text(Changes(add_members=2), 1)) == {"add_members": 2}


def test_strategies_are_those_that_fit(tmp_path: Path):
    plain, own = stored(tmp_path / "a", ("1", "a", None)), stored(tmp_path / "b", ("1", "a", None), strategy="server-range")
    client_side = ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert list(strategies_for(Changes(), plain)) == [*client_side, "uniform"]
    assert list(strategies_for(Changes(), own)) == ["server-range", *client_side, "uniform"]
    assert list(strategies_for(Changes(protocol="consumer"), plain)) == ["uniform", "server-range"]
    assert list(strategies_for(Changes(protocol="classic"), own)) == client_side
    assert list(strategies_for(Changes(strategies=("sticky",)), own)) == ["sticky"]
    assert list(strategies_for(Changes(strategies=("sticky", "range", "sticky")), own)) == ["sticky", "range"]
