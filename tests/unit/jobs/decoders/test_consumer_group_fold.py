"""KIP-848 records folded into snapshots: by hand, and against what a live cluster's admin API described at 70 moments."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.decoders.consumer_group_replay import Record, fold
from jobs.decoders.coordinator_table import table_order
from schemas.wire import decode_key
from schemas.wire.keys import RECORD_TYPES
from tests.builders.consumer_group_records import BEFORE_CLASSIC, TOPIC_IDS, Log, classic_metadata

ROOT = Path(__file__).parents[4]
NAMES = {topic_id: topic for topic, topic_id in TOPIC_IDS.items()}


def snapshots(log: Log, names: dict[str, str] = NAMES) -> list[dict[str, Any]]:
    return list(fold("g", log.records, names))


def held(member: dict[str, Any], name: str = "assigned") -> dict[str, list[int]]:
    return {entry["topic"]: entry["partitions"] for entry in member[name]}


def targets(snapshot: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    return {member["member_id"]: held(member) for member in snapshot["members"]}


def one_member(**partitions: list[int]) -> Log:
    """Return the log of a group that ``a`` has made; offsets 0 to 4, epoch 2."""
    log = Log()
    log.member("a", "t")
    log.epoch(2)
    log.target("a", **partitions or {"t": [0, 1]})
    log.target_epoch(2)
    log.current("a", 2, t=[0, 1])
    return log


def test_a_snapshot_is_taken_at_each_target() -> None:
    log = one_member()
    log.member("b", "t", "u", instance="i", assignor="range")
    log.epoch(3)
    log.target("a", t=[0])
    log.target("b", t=[1])
    at = log.target_epoch(3, made_at_ms=7_777)
    log.current("a", 2, state=1, pending={"t": [1]}, t=[0])
    log.current("a", 3, t=[0])
    log.current("b", 3, state=2)
    settled = log.current("b", 3, t=[1])
    first, second = snapshots(log)
    assert (first["position"], first["generation"], first["strategy"], first["joined_at"]) == (3, 2, "uniform", None)
    assert (first["state"], first["reconciled_at"]) == ("Reconciling", 4_000_000)
    assert (second["position"], second["generation"], second["joined_at"]) == (at, 3, 7_777_000)
    assert (second["observed_at"], second["reconciled_at"]) == (at * 1_000_000, settled * 1_000_000)
    assert (second["group_type"], second["protocol_type"], second["offsets_partition"]) == ("consumer", "consumer", 3)
    assert targets(second) == {"a": {"t": [0]}, "b": {"t": [1]}}
    a, b = sorted(second["members"], key=lambda member: member["member_id"])
    assert (held(a, "current"), held(a, "owned"), a["owned_generation"]) == ({"t": [0, 1]}, {"t": [0, 1]}, 2)
    assert (b["current"], b["owned_generation"], b["group_instance_id"], b["strategies"]) == ([], None, "i", ["range"])
    assert (b["client_id"], b["client_host"], b["rack"], b["topics"]) == ("client-b", "/10.0.0.1", "r1", ["t", "u"])
    assert (b["rebalance_timeout_ms"], b["session_timeout_ms"], b["topic_regex"]) == (300_000, None, None)


def test_revoked_partitions_are_seen_at_the_next_target() -> None:
    log = one_member()
    log.epoch(3)
    log.target("a", t=[0])
    log.target_epoch(3)
    log.current("a", 2, state=1, pending={"t": [1]}, t=[0])
    log.epoch(4)
    log.target_epoch(4)
    (member,) = snapshots(log)[-1]["members"]
    assert (held(member, "current"), held(member, "pending_revocation")) == ({"t": [0]}, {"t": [1]})


def test_epoch_without_members_is_a_snapshot() -> None:
    log = one_member()
    log.leave("a")
    at = log.epoch(3)
    _, empty = snapshots(log)
    assert (empty["position"], empty["generation"], empty["state"], empty["strategy"], empty["members"]) == (at, 3, "Empty", None, [])
    assert empty["reconciled_at"] is None


def test_new_epoch_without_a_target_is_no_snapshot() -> None:
    log = one_member()
    log.epoch(3)
    assert len(snapshots(log)) == 1


def test_epochs_with_a_record_and_without_a_target_are_batched_and_absent_ones_are_not() -> None:
    log = one_member()
    begun = [log.epoch(epoch) for epoch in (3, 4, 6)][-1]  # no record of epoch 5, as in a compacted log
    at = log.target_epoch(6)
    first, second = snapshots(log)
    assert (first["batched_epoch_count"], first["epoch_at"]) == (None, 1_000_000)
    assert (second["batched_epoch_count"], second["epoch_at"], second["observed_at"]) == (2, begun * 1_000_000, at * 1_000_000)


def test_an_epoch_without_a_record_has_no_time() -> None:
    log = one_member()
    log.target_epoch(4)
    assert [snapshot["epoch_at"] for snapshot in snapshots(log)] == [1_000_000, None]


def test_empty_snapshot_counts_batched_epochs_since_the_last_target() -> None:
    log = one_member()
    log.member("b", "t")
    log.epoch(3)
    log.leave("a")
    log.leave("b")
    at = log.epoch(4)
    _, empty = snapshots(log)
    assert (empty["generation"], empty["batched_epoch_count"], empty["epoch_at"]) == (4, 1, at * 1_000_000)


def test_a_target_is_superseded_when_another_comes_before_members_have_reached_it() -> None:
    log = one_member()
    log.epoch(3)
    log.target("a", t=[0])
    log.target_epoch(3)
    assert [snapshot["is_superseded"] for snapshot in snapshots(log)] == [False, None]  # it may still be reached
    log.epoch(4)
    assert [snapshot["is_superseded"] for snapshot in snapshots(log)] == [False, None]  # an epoch alone changes no target
    log.target_epoch(4)
    log.current("a", 4, t=[0])
    assert [snapshot["is_superseded"] for snapshot in snapshots(log)] == [False, True, False]
    log.leave("a")
    log.epoch(5)
    assert [snapshot["is_superseded"] for snapshot in snapshots(log)] == [False, True, False, None]


def test_a_target_that_nobody_is_left_to_reach_is_superseded() -> None:
    log = one_member()
    log.epoch(3)
    log.target_epoch(3)
    log.leave("a")
    log.epoch(4)
    assert [snapshot["is_superseded"] for snapshot in snapshots(log)] == [False, True, None]


def test_member_that_joined_after_a_target_need_not_reach_it() -> None:
    log = one_member()
    log.epoch(3)
    log.target("a", t=[0])
    log.target_epoch(3)
    log.member("b", "t")
    log.epoch(4)
    at = log.current("a", 3, t=[0])
    assert snapshots(log)[1]["reconciled_at"] == at * 1_000_000


def test_a_target_of_an_older_copy_has_the_members_of_its_epoch() -> None:
    """Kafka 4.5 computes targets beside the group: epoch 8 begins before the target of epoch 7 is there."""
    log = Log()
    log.member("a", "t")
    log.member("b", "t", regex="u.*")
    log.expression("u.*", "u")
    log.epoch(7)
    log.member("c", "t")
    log.member("a", "t", "v")
    log.expression("u.*", "u", "v")
    log.leave("b")
    log.epoch(8)
    log.target("a", t=[0, 1])
    log.target_epoch(7)
    log.target("c", t=[1])
    log.target_epoch(8)
    older, newer = snapshots(log)
    assert (older["generation"], older["state"], newer["generation"], newer["batched_epoch_count"]) == (7, "Assigning", 8, 0)
    assert {member["member_id"]: member["topics"] for member in older["members"]} == {"a": ["t"], "b": ["t", "u"]}
    assert {member["member_id"]: member["topics"] for member in newer["members"]} == {"a": ["t", "v"], "c": ["t"]}


def test_late_target_of_a_group_that_is_empty_since_is_no_snapshot() -> None:
    log = one_member()
    log.epoch(3)
    log.leave("a")
    log.epoch(4)
    log.target_epoch(3)
    assert [snapshot["generation"] for snapshot in snapshots(log)] == [2, 4]


def test_a_member_replaced_before_the_target_of_its_epoch_is_not_undone() -> None:
    """Its replacement raises no epoch, and the broker computes the target with it."""
    log = Log()
    log.member("a", "t", instance="i")
    log.epoch(2)
    log.leave("a")
    log.member("b", "t", instance="i")
    log.target("b", t=[0])
    log.target_epoch(2)
    assert targets(snapshots(log)[-1]) == {"b": {"t": [0]}}


def static_group() -> Log:
    log = Log()
    log.member("a", "t", instance="i")
    log.epoch(2)
    log.target("a", t=[0])
    log.target_epoch(2)
    log.leave("a")
    return log


def test_a_static_member_replaced_repeats_the_generation() -> None:
    log = static_group()
    log.member("b", "t", instance="i")
    at = log.target("b", t=[0])
    log.current("b", 2, t=[0])
    first, again = snapshots(log)
    assert (again["position"], again["generation"], targets(again)) == (at, 2, {"b": {"t": [0]}})
    assert (first["reconciled_at"], again["reconciled_at"]) == (None, (at + 1) * 1_000_000)


@pytest.mark.parametrize(("instance", "bumps"), [("j", False), (None, False), ("i", True)])
def test_another_member_is_no_replacement(instance: str | None, bumps: bool) -> None:
    """With another instance id, with none, or in a later epoch."""
    log = static_group()
    if bumps:
        log.epoch(3)
    log.member("b", "t", instance=instance)
    log.target("b", t=[0])
    assert [snapshot["generation"] for snapshot in snapshots(log)] == ([2, 3] if bumps else [2])


def test_topic_regex_adds_its_resolved_topics_until_it_is_removed() -> None:
    log = Log()
    log.member("a", "v", "t", regex="[tu]")
    log.expression("[tu]", "t", "u")
    log.epoch(2)
    log.target_epoch(2)
    log.put(16, None, "[tu]")
    log.epoch(3)
    log.target_epoch(3)
    first, second = (snapshot["members"][0] for snapshot in snapshots(log))
    assert (first["topics"], first["topic_regex"]) == (["v", "t", "u"], "[tu]")
    assert (second["topics"], second["topic_regex"]) == (["v", "t"], "[tu]")


@pytest.mark.parametrize(("has_epoch", "topics"), [(False, ["t", "u"]), (True, [])])
def test_compacted_log_has_a_topic_regex_resolved_again_after_the_target(has_epoch: bool, topics: list[str]) -> None:
    """Each time it is resolved gives a record. If its topics have changed, the batch has an epoch too."""
    log = Log()
    log.member("a", regex="[tu]")
    log.epoch(2)
    log.target("a", t=[0], u=[0])
    log.target_epoch(2)
    at = log.expression("[tu]", "t", "u")
    if has_epoch:
        epoch = log.epoch(3)
        log.records[epoch] = log.records[epoch]._replace(timestamp_ms=log.records[at].timestamp_ms)
    assert snapshots(log)[0]["members"][0]["topics"] == topics


def test_topic_names_come_from_metadata_and_from_the_groups_own_record() -> None:
    log = Log()
    log.member("a", "t")
    log.epoch(2)
    log.target("a", t=[1], u=[0], v=[2])
    log.target_epoch(2)
    log.topics(u=1)
    (member,) = snapshots(log, {TOPIC_IDS["t"]: "t"})[0]["members"]
    assert held(member) == {"t": [1], "u": [0], f"id:{TOPIC_IDS['v']}": [2]}


def test_topic_ids_with_one_name_share_an_entry() -> None:
    (snapshot,) = snapshots(one_member(t=[0, 1], u=[1, 2]), {TOPIC_IDS["t"]: "t", TOPIC_IDS["u"]: "t"})
    assert targets(snapshot) == {"a": {"t": [0, 1, 2]}}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((None, None, "range"), "server-range"),
        (("uniform", "range", "range"), "server-range"),
        ((None, "", None), "uniform"),
        (("mine", "mine", "range"), "mine"),
    ],
)
def test_the_assignor_that_most_ask_for(asked: tuple, expected: str) -> None:
    log = Log()
    for number, assignor in enumerate(asked):
        log.member(f"m{number}", "t", assignor=assignor)
    log.epoch(2)
    log.target_epoch(2)
    assert snapshots(log)[0]["strategy"] == expected


TIES = """
    range uniform - : range uniform uniform
    uniform range - : uniform range uniform
    uniform range range uniform range : uniform range range uniform range
    uniform range spread - mine - : uniform range uniform uniform mine mine
    uniform spread - - range load : uniform spread uniform uniform range uniform
    spread rack - - - range : spread rack rack rack rack range
    range load - - - : range load load load load
    spread uniform - spread uniform : spread uniform uniform spread uniform
    load rack mine spread : load rack mine mine
    spread range - uniform : spread range range uniform
    load - rack uniform range : load load rack load range
"""
"""What members ask for as they join, and what ``ConsumerGroup.computePreferredServerAssignor`` of Kafka 4.3.1 gives each time."""


@pytest.mark.parametrize("line", TIES.split("\n")[1:-1])
def test_among_assignors_that_equally_many_ask_for_kafkas_tables_decide(line: str) -> None:
    asked, expected = (part.split() for part in line.split(" : "))
    log = Log()
    for number, assignor in enumerate(asked):
        log.member(f"m{number}", "t", assignor=None if assignor == "-" else assignor)
        log.epoch(number + 2)
        log.target_epoch(number + 2)
    assert [snapshot["strategy"].removeprefix("server-") for snapshot in snapshots(log)] == expected


def test_classic_member_of_a_consumer_group_has_its_strategies() -> None:
    log = Log()
    log.member("a", "t", classic=classic_metadata("range", "sticky"))
    log.epoch(2)
    log.target_epoch(2)
    (member,) = snapshots(log)[0]["members"]
    assert (member["strategies"], member["session_timeout_ms"]) == (["range", "sticky"], 45_000)


def test_a_broker_that_knows_no_classic_members() -> None:
    log = Log()
    log.member("a", "t", assignor="range", classic=BEFORE_CLASSIC)
    log.epoch(2)
    log.target_epoch(2)
    (member,) = snapshots(log)[0]["members"]
    assert (member["strategies"], member["session_timeout_ms"]) == (["range"], None)


def test_group_made_again_has_no_earlier_members() -> None:
    log = one_member()
    log.leave("a")
    log.target_epoch(None)
    log.epoch(None)
    log.member("b", "t")
    log.epoch(1)
    log.target_epoch(1)
    assert [(snapshot["generation"], list(targets(snapshot))) for snapshot in snapshots(log)] == [(2, ["a"]), (1, ["b"])]


def test_a_group_made_again_without_a_tombstone_has_only_its_new_members() -> None:
    """Compaction has removed the tombstones of the group and of its member ``a``."""
    log = one_member(t=[0, 1])
    log.epoch(5)
    log.target_epoch(5)
    log.member("b", "t")
    log.epoch(1)
    log.target("b", t=[0, 1])
    log.target_epoch(1)
    at = log.current("b", 1, t=[0, 1])
    found = snapshots(log)
    assert [(snapshot["generation"], targets(snapshot)) for snapshot in found[2:]] == [(1, {"b": {"t": [0, 1]}})]
    assert (found[-1]["reconciled_at"], found[-1]["batched_epoch_count"]) == (at * 1_000_000, None)


def continued_after_an_hour(later_ms: int = 0) -> Log:
    """Return the log of members ``a`` and ``b``, and what compaction has left of an hour in which ``b`` left and ``c`` came.

    Args:
        later_ms: how long after the target ``c`` has its last record.
    """
    log = one_member(t=[0])
    log.member("b", "t")
    log.epoch(3)
    log.target("b", t=[1])
    log.target_epoch(3)
    log.current("b", 3, t=[1])
    begin = log.member("c", "t")
    log.epoch(9)
    log.target("c", t=[1])
    log.target_epoch(9)
    log.current("a", 9, t=[0])
    last = log.current("c", 9, t=[1])
    log.records = [one if one.offset < begin else one._replace(timestamp_ms=one.timestamp_ms + 3_600_000) for one in log.records]
    log.records[last] = log.records[last]._replace(timestamp_ms=log.records[last].timestamp_ms + later_ms)
    return log


def test_a_member_whose_tombstone_is_gone_has_left_once_others_have_its_partitions() -> None:
    *_, before, after = snapshots(continued_after_an_hour())
    assert (before["generation"], targets(before)) == (3, {"a": {"t": [0]}, "b": {"t": [1]}})
    assert (after["generation"], targets(after)) == (9, {"a": {"t": [0]}, "c": {"t": [1]}})
    assert after["reconciled_at"] is not None


@pytest.mark.parametrize(("later_ms", "members"), [(590_000, ["a", "b", "c"]), (600_000, ["a", "c"])])
def test_a_member_without_partitions_has_left_that_does_not_answer_a_target(later_ms: int, members: list[str]) -> None:
    """Its tombstone is gone. It may answer for twice the rebalance timeout."""
    log = continued_after_an_hour(later_ms)
    log.records = [one._replace(value=b"\0\0\1\0") if one.key.endswith(b"b") and one.key[1] == 7 else one for one in log.records]
    assert sorted(targets(snapshots(log)[-1])) == members


def test_a_silent_member_with_a_later_record_has_not_left() -> None:
    log = continued_after_an_hour(later_ms=600_000)
    log.records.append(log.records[-1]._replace(offset=len(log.records), key=log.records[-1].key[:-1] + b"b"))
    assert sorted(targets(snapshots(log)[-1])) == ["a", "b", "c"]


def test_a_broker_forgets_an_empty_group_without_a_tombstone() -> None:
    log = one_member()
    log.leave("a")
    log.epoch(3)
    log.member("b", "t")
    log.epoch(1)
    log.target("b", t=[0])
    log.target_epoch(1)
    assert [(snapshot["generation"], list(targets(snapshot))) for snapshot in snapshots(log)] == [(2, ["a"]), (3, []), (1, ["b"])]


def test_compacted_log_may_have_the_lower_epoch_of_a_group_made_again_after_its_target() -> None:
    log = one_member()
    log.epoch(7)
    log.target_epoch(7)
    log.target("b", t=[0])
    log.member("b", "t")
    log.target_epoch(4)
    log.epoch(5)
    last = snapshots(log)[-1]
    assert (last["generation"], targets(last)) == (4, {"b": {"t": [0]}})


def test_compacted_log_may_have_member_metadata_after_targets() -> None:
    """``a`` has changed its subscription since: the first record of it is gone. ``ghost`` has left no metadata at all."""
    log = Log()
    log.epoch(5)
    log.target("a", t=[0])
    log.target("ghost", t=[1])
    log.target_epoch(5)
    log.member("a", "t", "u")
    (snapshot,) = snapshots(log)
    assert (targets(snapshot), snapshot["members"][0]["topics"]) == ({"a": {"t": [0]}}, ["t", "u"])


def test_snapshot_does_not_use_metadata_of_a_later_join() -> None:
    log = one_member()
    log.leave("a")
    log.epoch(3)
    log.member("a", "u")
    log.epoch(4)
    log.target_epoch(4)
    assert [snapshot["members"][0]["topics"] for snapshot in snapshots(log) if snapshot["members"]] == [["t"], ["u"]]


def restarted(*restarts: tuple[str, str, str]) -> Log:
    """Return the log of a group of epoch 7, static s and t and dynamic d, whose static members were replaced: old id, new id, instance."""
    log = Log()
    log.member("s1", "t", instance="s")
    log.member("t1", "t", instance="t")
    log.member("d", "t")
    log.epoch(7)
    held = {"s1": [0, 1], "t1": [2], "d": [3]}
    for member_id, numbers in held.items():
        log.target(member_id, t=numbers)
    log.target_epoch(7)
    for member_id, numbers in held.items():
        log.current(member_id, 7, t=numbers)
    for old, new, instance in restarts:
        held[new] = held.pop(old)
        log.leave(old)
        log.member(new, "t", instance=instance)
        log.target(new, t=held[new])
        log.current(new, 7, t=held[new])
    return log


def compacted(log: Log, keeps_tombstones: bool) -> Log:
    """Return what compaction leaves of a log: the last record of each key, and tombstones for a while."""
    last = {record.key: record for record in log.records}
    left = Log()
    left.records = [one for one in log.records if last[one.key] is one and (keeps_tombstones or one.value is not None)]
    return left


@pytest.mark.parametrize("keeps_tombstones", [True, False])
@pytest.mark.parametrize(
    "restarts",
    [
        pytest.param([("s1", "s2", "s")], id="one"),
        pytest.param([("s1", "s2", "s"), ("t1", "t2", "t")], id="all that are static"),
        pytest.param([("s1", "s2", "s"), ("s2", "s3", "s")], id="one twice"),
    ],
)
def test_static_members_that_were_replaced_are_in_a_compacted_log(restarts: list[tuple[str, str, str]], keeps_tombstones: bool) -> None:
    """Who had the targets in between is lost: of the generation its last snapshot is left."""
    log = restarted(*restarts)
    whole, left = snapshots(log), snapshots(compacted(log, keeps_tombstones))
    assert [snapshot["generation"] for snapshot in whole] == [7] * (1 + len(restarts))
    assert left == [{**whole[-1], "batched_epoch_count": None}]  # nor from which target on there were epochs without one
    log.epoch(8)
    log.target("d", t=[3, 4])
    log.target_epoch(8)
    log.records = [*compacted(restarted(*restarts), keeps_tombstones).records, *log.records[-3:]]
    assert [(snapshot["generation"], len(snapshot["members"])) for snapshot in snapshots(log)] == [(7, 3), (8, 3)]


def test_a_group_whose_members_were_all_replaced_was_not_empty() -> None:
    """In a compacted log the only member comes after the epoch and its target, at which nobody seems to be there."""
    log = static_group()
    log.member("b", "t", instance="i")
    at = log.target("b", t=[0])
    (snapshot,) = snapshots(compacted(log, keeps_tombstones=False))
    assert (snapshot["position"], snapshot["generation"], targets(snapshot)) == (at, 2, {"b": {"t": [0]}})


def test_epoch_with_target_members_is_not_empty_in_a_compacted_log() -> None:
    """The only member has another host since, so that its metadata, too, come after the epoch."""
    log = Log()
    log.epoch(5)
    log.target("a", t=[0])
    at = log.target_epoch(5)
    log.member("a", "t")
    assert [(snapshot["position"], targets(snapshot)) for snapshot in snapshots(log)] == [(at, {"a": {"t": [0]}})]


def test_empty_epoch_of_an_earlier_incarnation_stays_a_snapshot() -> None:
    log = Log()
    log.epoch(2)
    log.epoch(None)
    log.member("b", "t")
    log.epoch(2)
    log.target_epoch(2)
    assert [len(snapshot["members"]) for snapshot in snapshots(log)] == [0, 1]


def test_equal_content_has_an_equal_fingerprint() -> None:
    (one,), (other,), (changed,) = snapshots(one_member()), snapshots(one_member()), snapshots(one_member(t=[1]))
    assert one["fingerprint"] == other["fingerprint"] != changed["fingerprint"]
    log = one_member()
    log.records.pop()  # by which the only member reaches its target
    (unsettled,) = snapshots(log)
    assert (unsettled["fingerprint"], unsettled["reconciled_at"]) == (one["fingerprint"], None)


@pytest.mark.parametrize("vector", [json.loads(line) for line in (ROOT / "tests/golden/timeline_hash_map.jsonl").read_text().splitlines()])
def test_members_are_in_the_order_of_kafkas_own_table(vector: dict[str, list[str]]) -> None:
    assert table_order(vector["put"]) == vector["iterated"]


def test_the_coordinators_table_does_not_shrink() -> None:
    """A member's second record makes the table of two members grow to four slots, in which it stays."""
    log = Log()
    for epoch, member_id in enumerate("ba", 1):
        log.member(member_id, "t")
        log.epoch(epoch)
        log.target_epoch(epoch)
        log.current(member_id, epoch)
    log.epoch(3)
    log.target_epoch(3)
    assert [member["member_id"] for member in snapshots(log)[-1]["members"]] == ["b", "a"] == table_order("ba", 4) != table_order("ba")


def test_the_assignor_gets_a_new_member_last() -> None:
    """Its target is computed before it is in the coordinator's table; a target of later is not."""
    log = one_member()
    log.member("e", "t")
    log.epoch(3)
    log.target_epoch(3)
    log.current("e", 3)
    log.epoch(4)
    log.target_epoch(4)
    log.member("c", "t")
    log.epoch(5)
    log.current("c", 0)  # so the target of the epoch comes with the record of another member
    log.target_epoch(5)
    orders = [[member["member_id"] for member in snapshot["members"]] for snapshot in snapshots(log)]
    assert orders == [["a"], ["a", "e"], ["e", "a"], table_order("aec", 4)]


# -- the recorded cluster


def recorded() -> dict[str, list[dict[str, Any]]]:
    """Return the snapshots of each KIP-848 group of the recorded capture."""
    names = {}
    with gzip.open(ROOT / "tests/golden/capture/cluster_metadata.jsonl.gz", "rt", encoding="utf-8") as looks:
        for look in map(json.loads, looks):
            names.update((topic["topic_id"], topic["topic"]) for topic in look["topics"])
    by_group: dict[str, list[Record]] = defaultdict(list)
    for row in pq.read_table(ROOT / "tests/golden/capture/consumer_offsets.parquet").to_pylist():
        key = decode_key(row["key"])
        if key.record_type in RECORD_TYPES:
            at_ms = round(row["timestamp"].timestamp() * 1000)
            by_group[key.group_id].append(Record(row["partition"], row["offset"], at_ms, row["key"], row["value"]))
    return {group: list(fold(group, sorted(of_group, key=lambda one: one.offset), names)) for group, of_group in by_group.items()}


def test_snapshots_equal_the_admin_clients_descriptions() -> None:
    """Each look of Kafka's admin client shows the last snapshot before it: epoch, members, targets, and whether all have reached them."""
    found = recorded()
    with gzip.open(ROOT / "tests/golden/capture_consumer_groups.jsonl.gz", "rt", encoding="utf-8") as file:
        descriptions = [json.loads(line) for line in file]
    compared = Counter()
    for description in descriptions:
        (*_, last) = [snapshot for snapshot in found[description["group"]] if snapshot["observed_at"] <= description["from_ms"] * 1000]
        where = description["snapshot"], description["group"]
        assert description["members"] == [] or last["generation"] == description["target_assignment_epoch"], where
        by_id = {member["member_id"]: member for member in last["members"]}
        assert by_id.keys() == {member["member_id"] for member in description["members"]}, where
        for member in description["members"]:
            ours = by_id[member["member_id"]]
            assert {topic: sorted(numbers) for topic, numbers in held(ours).items()} == member["target_assignment"], where
            names = ("host", "instance_id", "rack")  # a replaced static member has its predecessor's client id until the next record
            assert [ours[name] for name in ("client_host", "group_instance_id", "rack")] == [member[name] for name in names], where
            compared["members"] += 1
        if description["state"] == "Stable":
            assert last["reconciled_at"] is not None and last["reconciled_at"] <= description["until_ms"] * 1000, where
        assert (description["state"] == "Empty") == (last["members"] == []), where
        compared[description["state"]] += 1
    assert compared["members"] >= 60 and compared["Stable"] >= 20 and compared["Empty"] >= 20, compared
