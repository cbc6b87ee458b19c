"""What a poll makes of the admin API's answers, also of those that a healthy broker does not give."""

from __future__ import annotations

import struct
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaError, KafkaException, TopicPartition

from jobs.brokers import groups as cluster_groups
from jobs.brokers.groups import MOVING, NO_RIGHT, OTHER_PROTOCOL, OTHER_TYPE, REBALANCING, poll_groups
from jobs.runtime.errors import ClusterError

CLASSIC, KIP848 = ConsumerGroupType.CLASSIC, ConsumerGroupType.CONSUMER
STABLE = ConsumerGroupState.STABLE
SUBSCRIPTION = struct.pack(">hih1si", 0, 1, 1, b"t", -1)


def assignment(*partitions: int) -> bytes:
    return struct.pack(f">hih1si{len(partitions)}ii", 0, 1, 1, b"t", len(partitions), *partitions, -1)


def done(result: Any) -> Future:
    asked: Future = Future()
    if isinstance(result, KafkaError):
        asked.set_exception(KafkaException(result))
    else:
        asked.set_result(result)
    return asked


def partitions_named(*partitions: int) -> SimpleNamespace:
    return SimpleNamespace(topic_partitions=[TopicPartition("t", number) for number in partitions])


def member(member_id: str, *partitions: int, target: tuple[int, ...] | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        **{"member_id": member_id, "group_instance_id": None, "client_id": "c", "host": "/h", "assignment": partitions_named(*partitions)},
        target_assignment=None if target is None else partitions_named(*target),
    )


def description(*members: SimpleNamespace, kind: ConsumerGroupType = CLASSIC, state=STABLE, is_simple: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        **{"group_id": "g", "type": kind, "state": state, "is_simple_consumer_group": is_simple, "partition_assignor": "range"},
        members=list(members),
    )


class Play:
    """A cluster with one group, ``g``."""

    def __init__(self, described: Any) -> None:
        self.admin = self.connection = self
        self.timeout_seconds = 1.0
        self.listed = SimpleNamespace(valid=[SimpleNamespace(group_id="g")], errors=[])
        self.described = described
        self.raw: dict[str, tuple[bytes, bytes]] = {}
        self.others: dict[str, str] = {}
        self.committed: Any = []

    def list_consumer_groups(self, **_: Any) -> Future:
        return done(self.listed)

    def list_groups(self, **_: Any) -> list[SimpleNamespace]:
        members = [SimpleNamespace(id=name, metadata=sent, assignment=given) for name, (sent, given) in self.raw.items()]
        others = [SimpleNamespace(id=name, error=None, protocol_type=kind, members=[]) for name, kind in self.others.items()]
        return [SimpleNamespace(id="g", error=None, protocol_type="consumer", members=members), *others]

    def describe_consumer_groups(self, names: list[str], **_: Any) -> dict[str, Future]:
        return {name: done(self.described) for name in names}

    def list_consumer_group_offsets(self, asked: list[ConsumerGroupTopicPartitions], **_: Any) -> dict[str, Future]:
        error = isinstance(self.committed, KafkaError)
        return {one.group_id: done(self.committed if error else SimpleNamespace(topic_partitions=self.committed)) for one in asked}

    def answer(self, asked: Future) -> Any:
        return asked.result()

    def wait(self, asked: Future) -> None:
        assert asked.done()

    def healed(self) -> None:
        pass

    def explained(self, error: KafkaError) -> ClusterError:
        return ClusterError(error.str())


def poll(play: Play) -> cluster_groups.Poll:
    return poll_groups(play)  # type: ignore[arg-type]


def test_polled_classic_member_has_its_subscription_and_assignment() -> None:
    play = Play(description(member("b", 1, 0), member("a", 2)))
    play.raw = {"b": (SUBSCRIPTION, assignment(1, 0)), "a": (SUBSCRIPTION, assignment(2))}
    members = poll(play).groups["g"]["members"]
    assert [(one["member_id"], one["topics"], one["current"]) for one in members] == [("b", ["t"], None), ("a", ["t"], None)]
    assert members[0]["assigned"] == [{"topic": "t", "partitions": [1, 0]}], "in the assignor's order"


def test_answers_of_two_generations_count_as_rebalancing() -> None:
    play = Play(description(member("a", 0, 1)))
    play.raw = {"a": (SUBSCRIPTION, assignment(0))}
    polled = poll(play)
    assert (polled.groups["g"]["members"], polled.not_shown) == (None, {REBALANCING: 1})


def test_polled_member_with_unreadable_subscription_has_its_assignment_only() -> None:
    play = Play(description(member("a", 0)))
    play.raw = {"a": (b"\0", assignment(0))}
    (one,) = poll(play).groups["g"]["members"]
    assert (one["topics"], one["owned"], one["assigned"]) == (None, None, [{"topic": "t", "partitions": [0]}])


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (ConsumerGroupState.PREPARING_REBALANCING, "PreparingRebalance"),
        (ConsumerGroupState.COMPLETING_REBALANCING, "CompletingRebalance"),
    ],
)
def test_a_classic_group_in_a_rebalance_shows_state_members_and_offsets(state: ConsumerGroupState, word: str) -> None:
    """Librdkafka may have an assignment, which has no meaning."""
    play = Play(description(member("a", 0), state=state))
    play.committed = [TopicPartition("t", 1, 5)]
    polled = poll(play)
    (one,) = polled.groups["g"]["members"]
    assert (polled.groups["g"]["state"], one["member_id"], one["assigned"], polled.not_shown) == (word, "a", [], {REBALANCING: 1})
    assert [entry["committed_offset"] for entry in polled.groups["g"]["offsets"]] == [5]


def test_a_kip848_group_on_its_way_shows_both_ends() -> None:
    described = description(member("a", 0, 1, target=(0,)), kind=KIP848, state=ConsumerGroupState.UNKNOWN)
    group = poll(Play(described)).groups["g"]
    (one,) = group["members"]
    assert (group["state"], group["group_type"]) == ("Reconciling", "consumer")
    assert (one["assigned"], one["current"]) == ([{"topic": "t", "partitions": [0]}], [{"topic": "t", "partitions": [0, 1]}])


def test_dead_group_is_ignored() -> None:
    polled = poll(Play(description(state=ConsumerGroupState.DEAD, is_simple=True)))
    assert (polled.groups, polled.not_shown) == ({}, {})


def test_groups_of_others_than_consumers_are_counted() -> None:
    play = Play(description())
    play.others = {"connect-a": "connect", "connect-b": "connect", "registry": "sr", "share": ""}
    polled = poll(play)
    assert (list(polled.groups), polled.not_shown) == (["g"], {OTHER_PROTOCOL: 3, OTHER_TYPE: 1})


@pytest.mark.parametrize("code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_a_group_that_may_not_be_described_is_counted(code: int) -> None:
    """Since Kafka 4.0 (KAFKA-18813) a broker describes no KIP-848 group with a topic that may not be described."""
    polled = poll(Play(KafkaError(code)))
    assert (polled.groups, polled.not_shown) == ({}, {NO_RIGHT: 1})


def test_offsets_that_may_not_be_seen_leave_the_group_out() -> None:
    play = Play(description())
    play.committed = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    polled = poll(play)
    assert (polled.groups, polled.not_shown) == ({}, {NO_RIGHT: 1})


def test_unknown_error_ends_the_poll() -> None:
    with pytest.raises(ClusterError):
        poll(Play(KafkaError(KafkaError._TIMED_OUT)))


MOVED = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]


@pytest.mark.parametrize("code", MOVED)
@pytest.mark.parametrize("question", ["described", "committed"])
def test_group_that_moves_to_another_broker_is_asked_for_again(question: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_groups, "ASK_AGAIN_SECONDS", 0.001)
    play = Play(description())
    answers = {"described": description(), "committed": [TopicPartition("t", 0, 7)]}
    setattr(play, question, KafkaError(code))
    waited = play.wait

    def wait(asked: Future) -> None:
        waited(asked)
        if asked.exception() is not None:
            setattr(play, question, answers[question])

    monkeypatch.setattr(play, "wait", wait)
    polled = poll(play)
    assert (list(polled.groups), polled.not_shown, polled.is_complete) == (["g"], {}, True)


@pytest.mark.parametrize("code", MOVED)
def test_group_that_still_moves_is_counted_and_ends_no_poll(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_groups, "ASK_AGAIN_SECONDS", 0.001)
    play = Play(KafkaError(code))
    play.timeout_seconds = 0.01
    polled = poll(play)
    assert (polled.groups, polled.not_shown, polled.is_complete) == ({}, {MOVING: 1}, False)


def test_poll_is_incomplete_or_fails_if_brokers_do_not_answer() -> None:
    play = Play(description())
    play.listed.errors = [KafkaError(KafkaError._TRANSPORT)]
    assert not poll(play).is_complete
    play.listed.valid = []
    with pytest.raises(ClusterError):
        poll(play)


def test_offsets_are_in_order_without_partitions_that_have_none() -> None:
    play = Play(description(is_simple=True))
    play.committed = [TopicPartition("u", 0, 3), TopicPartition("t", 2, -1001), TopicPartition("t", 1, 5, leader_epoch=4)]
    group = poll(play).groups["g"]
    offsets = [(entry["topic"], entry["partition"], entry["committed_offset"], entry["leader_epoch"]) for entry in group["offsets"]]
    assert (group["members"], offsets) == (None, [("t", 1, 5, 4), ("u", 0, 3, None)])


class WithoutEnd(TopicPartition):
    """A committed offset beside which the library reads more than the client's text."""

    @property
    def metadata(self) -> str:
        return b"text\xa0".decode()


def test_texts_beside_offsets_are_not_taken() -> None:
    """The library reads them beyond their end, into memory that may hold a secret, or no text at all."""
    play = Play(description(is_simple=True))
    play.committed = [WithoutEnd("t", 0, 7), TopicPartition("t", 1, 7, metadata="m")]
    assert [(entry["committed_offset"], entry["metadata"]) for entry in poll(play).groups["g"]["offsets"]] == [(7, None)] * 2
