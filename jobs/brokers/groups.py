"""The consumer groups of a live cluster, as its admin API shows them: the content of snapshot lines.

Of a classic group the API shows the members' subscriptions, but neither generation nor joining time. Of a KIP-848 group it shows targets
and current assignments, but neither epoch nor subscriptions. During a rebalance the assignments of a classic group have no meaning.
"""

from __future__ import annotations

import base64
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConsumerGroupDescription, MemberDescription

from jobs.brokers.cluster import Cluster
from schemas.vocabulary import BETWEEN_GENERATIONS, COMPLETING, PREPARING, GroupState, GroupType
from schemas.wire.consumer_protocol import Subscription, decode_assignment, decode_written_subscription
from schemas.wire.reader import WireError

QUESTIONS_AT_ONCE = 200
"""There is one request for each group. At most so many are open at once, so that brokers hold no more."""
OTHER_TYPE, OTHER_PROTOCOL = "of share, streams and other types", "of Connect and other uses of the classic protocol"
NO_RIGHT, REBALANCING = "no right to describe", "in the middle of a rebalance"
MOVING = "their coordinator is changing"
ASK_AGAIN_SECONDS = 0.5
_HEALED_BY_ASKING_AGAIN = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
"""A group moves to another broker when a broker stops or starts; librdkafka does not repeat these questions itself."""

_BETWEEN_GENERATIONS: Mapping[Enum, str] = {
    ConsumerGroupState.PREPARING_REBALANCING: PREPARING,
    ConsumerGroupState.COMPLETING_REBALANCING: COMPLETING,
}

Answer = TypeVar("Answer")
Entries = list[dict[str, Any]]


class _ListedMember(Protocol):
    """A member in librdkafka's older list; it sent ``metadata`` and received ``assignment``."""

    id: str
    metadata: bytes
    assignment: bytes


class _ListedGroup(Protocol):
    """A group in librdkafka's older list. The package declares most of these fields as None."""

    id: str
    error: KafkaError | None
    protocol_type: str
    members: list[_ListedMember]


@dataclass(frozen=True)
class Poll:
    """All groups at one moment.

    Attributes:
        groups: by name the content of a snapshot line. Members have no partitions during a rebalance. ``members`` is None for a group whose
            answers are of different generations, and for one that has only committed offsets.
        not_shown: by reason the number of groups that, or whose members, are not shown.
        is_complete: whether every broker has answered, for every group; if not, a group that is absent may still exist.
    """

    groups: dict[str, dict[str, Any]]
    not_shown: Counter[str]
    is_complete: bool


def poll_groups(cluster: Cluster) -> Poll:
    """Return the consumer groups that we may describe, with the offsets that they committed.

    Raises:
        ClusterError: no answer.
    """
    listed = cluster.answer(cluster.admin.list_consumer_groups(request_timeout=cluster.connection.timeout_seconds))
    if listed.errors and not listed.valid:
        raise cluster.connection.explained(listed.errors[0])
    known = sorted(group.group_id for group in listed.valid)
    everything = _all_groups(cluster)
    groups: dict[str, dict[str, Any]] = {}
    # librdkafka lists groups of consumers only. Its older list has all of them, with the protocol type of the classic ones.
    others = (group for group_id, group in everything.items() if group_id not in set(known))
    not_shown = Counter(OTHER_PROTOCOL if group.protocol_type else OTHER_TYPE for group in others)
    for group_id, described in _descriptions(cluster, known):
        if isinstance(described, KafkaError):
            not_shown[_reason(cluster, described)] += 1
        elif described.state is not ConsumerGroupState.DEAD:  # else the group has been deleted meanwhile
            raw = {member.id: member for member in everything[group_id].members} if group_id in everything else {}
            groups[group_id] = _group(described, raw)
            is_rebalancing = groups[group_id]["members"] is None or is_between_generations(groups[group_id])
            not_shown[REBALANCING] += is_rebalancing and not described.is_simple_consumer_group
    for group_id, committed in _committed(cluster, sorted(groups)):
        if isinstance(committed, KafkaError):
            not_shown[_reason(cluster, committed)] += 1
            del groups[group_id]
        else:
            groups[group_id]["offsets"] = _offsets(committed.topic_partitions or ())
    cluster.connection.healed()
    return Poll(groups, +not_shown, not listed.errors and not not_shown[MOVING])


def _all_groups(cluster: Cluster) -> dict[str, _ListedGroup]:
    """Return groups of all types by name; members of classic ones with the metadata that each sent, which descriptions leave out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            listed: list[_ListedGroup] = cluster.admin.list_groups(timeout=cluster.connection.timeout_seconds)
        except KafkaException as error:
            raise cluster.connection.explained(error.args[0]) from None
    return {group.id: group for group in listed if group.error is None}


def _descriptions(cluster: Cluster, group_ids: Sequence[str]) -> Iterator[tuple[str, ConsumerGroupDescription | KafkaError]]:
    return _asked(
        cluster, group_ids, lambda ids: cluster.admin.describe_consumer_groups(ids, request_timeout=cluster.connection.timeout_seconds)
    )


def _committed(cluster: Cluster, group_ids: Sequence[str]) -> Iterator[tuple[str, ConsumerGroupTopicPartitions | KafkaError]]:
    def ask(ids: Sequence[str]) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        offset_futures: dict[str, Future[ConsumerGroupTopicPartitions]] = {}
        for group_id in ids:  # librdkafka takes one group a question
            groups = [ConsumerGroupTopicPartitions(group_id)]
            offset_futures |= cluster.admin.list_consumer_group_offsets(groups, request_timeout=cluster.connection.timeout_seconds)
        return offset_futures

    return _asked(cluster, group_ids, ask)


def _asked(
    cluster: Cluster, group_ids: Sequence[str], ask: Callable[[Sequence[str]], dict[str, Future[Answer]]]
) -> Iterator[tuple[str, Answer | KafkaError]]:
    """Yield for each group the answer, or else the error. Groups that are moving to another broker are asked for again, for a while."""
    deadline = time.monotonic() + cluster.connection.timeout_seconds
    for start in range(0, len(group_ids), QUESTIONS_AT_ONCE):
        left = group_ids[start : start + QUESTIONS_AT_ONCE]
        while left:
            moving = []
            for group_id, asked in ask(left).items():
                cluster.wait(asked)
                problem: Any = asked.exception()
                if problem is None:
                    yield group_id, asked.result()
                elif problem.args[0].code() in _HEALED_BY_ASKING_AGAIN and time.monotonic() < deadline:
                    moving.append(group_id)
                else:
                    yield group_id, problem.args[0]
            if moving:
                time.sleep(ASK_AGAIN_SECONDS)
            left = moving


def _reason(cluster: Cluster, problem: KafkaError) -> str:
    """Return why one group is not shown; raise an error that concerns all groups."""
    if problem.code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED):
        return NO_RIGHT  # since Kafka 4.0 a KIP-848 group with a topic that may not be described is not described
    if problem.code() in _HEALED_BY_ASKING_AGAIN:
        return MOVING
    raise cluster.connection.explained(problem)


def is_between_generations(group: Mapping[str, Any]) -> bool:
    """Return whether the content of a snapshot line is of a classic group in a rebalance."""
    return group["state"] in BETWEEN_GENERATIONS


def _group(described: ConsumerGroupDescription, raw: dict[str, _ListedMember]) -> dict[str, Any]:
    is_kip848 = described.type is ConsumerGroupType.CONSUMER
    state = _state(described, is_kip848)
    members: list[dict[str, Any] | None] | None = None
    between = None if is_kip848 or described.is_simple_consumer_group else _BETWEEN_GENERATIONS.get(described.state)
    if between is not None:
        members = [{**_member(member, None), "assigned": [], "current": None} for member in described.members]
    elif state is not None and not described.is_simple_consumer_group:
        found = described.members  # in the coordinator's order, which a classic group's assignor was given too
        members = [_kip848_member(member) if is_kip848 else _classic_member(member, raw.get(member.member_id)) for member in found]
    if members is not None and None in members:
        members = None
    return {
        "group_id": described.group_id,
        "generation": None,
        "group_type": (GroupType.CONSUMER if is_kip848 else GroupType.CLASSIC).value,
        "protocol_type": "consumer",
        "state": between or (state or GroupState.EMPTY).value,
        "strategy": described.partition_assignor or None,
        "leader_member_id": None,
        "joined_at_ms": None,
        "reconciled_at_ms": None,
        "members": members,
    }


def _state(described: ConsumerGroupDescription, is_kip848: bool) -> GroupState | None:
    """Return the state; None for one in which a description has no members."""
    if described.state is ConsumerGroupState.STABLE:
        return GroupState.STABLE
    if described.state is ConsumerGroupState.EMPTY:
        return GroupState.EMPTY
    return GroupState.RECONCILING if is_kip848 else None  # librdkafka 2.16 has no words for the states of KIP-848


def _classic_member(member: MemberDescription, raw: _ListedMember | None) -> dict[str, Any] | None:
    """Return a member; None when the two answers about it are of different generations."""
    assigned, subscription = _entries(_topic_partitions(member.assignment)), None
    if raw is not None:
        try:
            subscription, _ = decode_written_subscription(bytes(raw.metadata))
            before = decode_assignment(bytes(raw.assignment)).partitions if raw.assignment else ()
        except WireError:  # a client with its own format: librdkafka's reading of it is used
            return {**_member(member, None), "assigned": assigned, "current": None}
        if {(topic, number) for topic, numbers in before for number in numbers} != set(_topic_partitions(member.assignment)):
            return None
    return {**_member(member, subscription), "assigned": assigned, "current": None}


def _kip848_member(member: MemberDescription) -> dict[str, Any]:
    target, current = _entries(_topic_partitions(member.target_assignment)), _entries(_topic_partitions(member.assignment))
    return {**_member(member, None), "assigned": target, "current": current}


def _member(member: MemberDescription, subscription: Subscription | None) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.host,
        "rack": subscription and subscription.rack,
        "session_timeout_ms": None,
        "rebalance_timeout_ms": None,
        "topics": subscription and list(subscription.topics),
        "topic_regex": None,
        "strategies": None,
        "subscription_version": subscription and subscription.version,
        "owned": subscription and [{"topic": topic, "partitions": list(numbers)} for topic, numbers in subscription.owned],
        "owned_generation": subscription and subscription.owned_generation,
        "user_data_b64": base64.b64encode(subscription.user_data).decode()
        if subscription is not None and subscription.user_data is not None
        else None,
        "pending_revocation": None,
    }


def _topic_partitions(assignment: Any) -> Iterator[tuple[str, int]]:
    return ((partition.topic, partition.partition) for partition in (assignment.topic_partitions if assignment is not None else ()))


def _entries(partitions: Iterable[tuple[str, int]]) -> Entries:
    """Return one entry a topic, by first appearance: for a classic group that is the assignor's order."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]


def _offsets(committed: Sequence[TopicPartition]) -> Entries:
    """Return the committed offsets in order, without the texts that clients put beside them.

    ``confluent-kafka`` 2.16.1 reads such a text up to the next zero byte, and only its own clients commit one at the end. What follows the
    text of another client, such as franz-go, is whatever is in memory there: it need not be UTF-8, and may be a secret.
    """
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed_offset": partition.offset,
            "leader_epoch": partition.leader_epoch,
            "metadata": None,
            "committed_at_ms": None,
            "topic_id": None,
        }
        for partition in sorted(committed, key=lambda partition: (partition.topic, partition.partition))
        if partition.error is None and partition.offset >= 0
    ]
