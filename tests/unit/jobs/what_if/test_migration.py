"""Verdicts on the move to the consumer protocol, for groups of which one fact at a time differs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from assignors.model import AssignorError
from jobs.reading.stored import PartitionWeights, StoredGeneration
from jobs.what_if.co_partitioning import co_partitioned
from jobs.what_if.migration import FleetPlan, Plan, in_order, plan_migration
from jobs.what_if.migration_text import fleet_document, plan_lines
from schemas.vocabulary import Flavour
from tests.builders.stored_groups import stored_group

EVEN = {"a": {"t": (0, 1)}, "b": {"t": (2, 3)}}
PAIRS = {"a": {"t": (0, 1), "u": (0, 1)}, "b": {"t": (2,), "u": (2,)}}
"""As range shares two topics of three partitions: uniform moves one partition, so that one number is separated."""
APART = [["r1"], ["r2"], ["r1"], ["r2"]]


def even(**other: Any) -> StoredGeneration:
    return stored_group(EVEN, {"t": 4}, **other)


def plan(group: StoredGeneration) -> Plan:
    return plan_migration(group, PartitionWeights())


def test_even_group_of_java_is_ready_and_nothing_moves():
    ready = plan(even())
    assert (ready.verdict_text, ready.flip and ready.flip.movement_count, ready.flip and ready.flip.stopped_count) == ("ready", 0, 0)
    assert ready.notes == ()
    assert ready.unknowns == ("The release of the leader's client, java. The protocol is in Java from 4.0 on.",)


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ({"strategy": "stream"}, "blocked by Kafka Streams"),
        ({"strategy": "RoundRobinAssigner", "leader_client": None}, "blocked by an assignor that brokers do not have"),
        ({"strategy": ""}, "ready"),
        *(
            ({"leader_client": client}, "blocked by a client library without the protocol")
            for client in (Flavour.SARAMA, Flavour.KAFKA_PYTHON, Flavour.KAFKAJS)
        ),
        *(({"leader_client": client}, "ready") for client in (Flavour.JAVA, Flavour.LIBRDKAFKA, Flavour.FRANZ_GO, None)),
        (
            {"leader_client": "sarama", "strategy": "sticky"},
            "blocked by user data in assignments and a client library without the protocol",
        ),
    ],
)
def test_assignor_and_client_library_decide(other: dict[str, Any], verdict: str):
    assert plan(even(**other)).verdict_text == verdict


@pytest.mark.parametrize(
    ("client", "user_data", "verdict"),
    [
        ("librdkafka", b"\0\1", "blocked by user data in assignments"),
        ("librdkafka", b"", "ready"),
        ("librdkafka", None, "ready"),
        ("java", b"\0\1", "ready"),
        ("franz-go", b"\0\1", "ready"),
    ],
)
def test_only_a_leader_that_copies_user_data_into_assignments_blocks(client: str, user_data: bytes | None, verdict: str):
    group = even(strategy="cooperative-sticky", leader_client=client, members={"b": {"user_data": user_data}})
    blocked = plan(group)
    assert blocked.verdict_text == verdict
    assert all("1 of 2 members have some" in reason.evidence for reason in blocked.reasons)


def test_a_blocked_group_has_no_flip():
    assert plan(even(strategy="stream")).flips == ()


# --- racks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "is_lost"),
    [
        ({}, True),
        ({"racks": None}, True),
        ({"racks": [["r1", "r2"]] * 4}, False),
        ({"strategy": "roundrobin"}, False),
        ({"strategy": "cooperative-sticky"}, True),
        ({"kafka_version": "3.4.0"}, False),
        ({"leader_client": "librdkafka", "kafka_version": "3.4.0"}, True),
        ({"members": {}}, False),
    ],
)
def test_rack_awareness_is_lost_where_the_assignor_went_by_racks(other: dict[str, Any], is_lost: bool):
    facts: dict[str, Any] = {"racks": APART, "members": {"a": {"rack": "r1"}, "b": {"rack": "r2"}}, **other}
    assert plan(even(**facts)).verdict_text == ("ready, and loses rack awareness" if is_lost else "ready")


def test_share_of_matching_racks_is_shown_before_and_after():
    (reason,) = plan(even(racks=APART, members={"a": {"rack": "r1"}, "b": {"rack": "r2"}})).reasons
    assert reason.evidence == "Members are in racks r1, r2, and range goes by racks. 50% of partitions match today, 50% after the flip."


# --- co-partitioning ---------------------------------------------------------------------------------------------------


def test_topics_that_range_keeps_together_are_lost_and_brokers_range_keeps_them():
    lost = plan(stored_group(PAIRS, {"t": 3, "u": 3}))
    assert lost.verdict_text == "ready, and loses co-partitioning"
    assert [(flip.strategy, flip.movement_count) for flip in lost.flips] == [("uniform", 1), ("server-range", 0)]
    (reason,) = lost.reasons
    assert "uniform separates 1 of 3 numbers at the flip." in reason.evidence
    assert reason.advice.endswith("set group.remote.assignor=range: it keeps them together and moves nothing.")


@pytest.mark.parametrize(
    ("holdings", "counts", "strategy"),
    [
        (PAIRS, {"t": 3, "u": 3}, "sticky"),
        ({"a": {"t": (0, 1), "u": (0, 1)}, "b": {"t": (2,), "u": ()}}, {"t": 3, "u": 2}, "range"),
        ({"a": {"t": (0, 1), "u": (0, 1)}}, {"t": 2, "u": 2}, "range"),
        ({"a": {"t": (0,), "u": (0,)}, "b": {"t": (), "u": ()}}, {"t": 1, "u": 1}, "range"),
        ({"a": {"t": (0, 1)}, "b": {"t": (2, 3), "u": (0, 1, 2, 3)}}, {"t": 4, "u": 4}, "range"),
        ({"a": {"t": (0,), "u": (1,)}, "b": {"t": (1,), "u": (0,)}}, {"t": 2, "u": 2}, "range"),
    ],
    ids=["other assignor", "other counts", "one member", "one partition", "other subscribers", "not together today"],
)
def test_nothing_is_co_partitioned(holdings: Any, counts: dict[str, int], strategy: str):
    assert co_partitioned(stored_group(holdings, counts, strategy=strategy).generation) == []


def test_larger_sets_come_first_and_a_number_without_owner_is_separated():
    held = {name: {topic: (n, n + 2) if topic in "wx" else (n,) for topic in "tuvwx"} for n, name in enumerate("ab")}
    first, second = co_partitioned(stored_group(held, {"t": 2, "u": 2, "v": 2, "w": 4, "x": 4}).generation)
    assert (first.topics, second.topics, second.partition_count) == (("t", "u", "v"), ("w", "x"), 4)
    assert first.separated({"a": (("t", 0), ("u", 0), ("v", 0), ("t", 1), ("u", 1))}) == (1,)


# --- what else is said -------------------------------------------------------------------------------------------------


def test_static_members_and_session_timeouts_are_noted():
    group = even(members={"a": {"group_instance_id": "one"}})
    sessions = {name: client.__class__("x", None, 6_000 if name == "a" else 45_000, 3) for name, client in group.clients.items()}
    static, session = plan(even(members={"a": {"group_instance_id": "one"}}, clients=sessions)).notes
    assert static.startswith("1 of 2 members are static.")
    assert static.endswith("The brokers' assignor first runs when members, subscriptions or partitions change.")
    assert session.startswith("The session timeout is 6, 45 s. Then brokers decide it: 45 s,")


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"subscription_versions": (1, 3)}, "Members write subscriptions of versions 1 and 3"),
        ({"subscription_versions": (2, 2)}, "The members' Java clients are older than 3.5"),
        ({"leader_client": None}, "The client library is not known."),
        ({"has_subscriptions": False}, "The capture has no subscriptions"),
        ({"strategy": ""}, "The group's assignor is not known."),
        ({"is_protocol_known": False}, "The group's protocol is not known. It counts as classic here,"),
    ],
)
def test_what_records_do_not_show_is_said(other: dict[str, Any], sentence: str):
    assert any(one.startswith(sentence) for one in plan(even(**other)).unknowns)


def test_a_group_that_cannot_be_played_is_ready_with_unknown_movements(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any, **__: Any) -> None:
        raise AssignorError("no result")

    monkeypatch.setattr("jobs.what_if.migration.play", fail)
    ready = plan(even())
    assert (ready.verdict_text, ready.flip, ready.unknowns[-1]) == ("ready", None, "What moves is not known: no result.")


def test_groups_that_were_deleted_come_last_and_are_marked():
    deleted = even(group_id="1", ended_at=datetime(2026, 11, 22, tzinfo=timezone.utc))
    plans = in_order(map(plan, [deleted, even(group_id="2", strategy="stream")]))
    assert [one.stored.key.group_id for one in plans] == ["2", "1"]
    lines = list(plan_lines(FleetPlan(tuple(plans))))
    assert lines[0] == "2 classic groups, 1 of them deleted, fewest risks first: 1 ready, 1 blocked."
    assert [line.endswith("  ready (deleted)") for line in lines[3:5]] == [False, True]
    assert next(iter(plan_lines(FleetPlan((plan(deleted),))))) == "1 classic group, deleted, fewest risks first: 1 ready."
    found = [one["deleted_at"] for one in fleet_document(FleetPlan(tuple(plans)))["groups"]]
    assert found == [None, "2026-11-22T00:00:00+00:00"]


def test_order_is_by_risk():
    crowded = {"a": {"t": (0, 1, 2, 3)}, "b": {"t": ()}}
    groups = [
        even(group_id="1", strategy="stream"),
        stored_group(PAIRS, {"t": 3, "u": 3}, group_id="2"),
        stored_group(crowded, {"t": 4}, group_id="3"),
        even(group_id="4", leader_client="java", subscription_versions=(1, 3)),
        even(group_id="5"),
        stored_group({"a": {"t": (0, 1)}}, {"t": 2}, group_id="6"),
    ]
    assert [one.stored.key.group_id for one in in_order(map(plan, groups))] == ["6", "5", "4", "3", "2", "1"]
    unknown = replace(plan(even(group_id="0")), flips=())
    in_turn = [one.stored.key.group_id for one in in_order([unknown, *map(plan, groups)])]
    assert in_turn == ["6", "5", "4", "3", "0", "2", "1"], "nobody knows what the last one that is ready moves"
