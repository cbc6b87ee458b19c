"""The types of a rebalance: the input is a group problem, the result is an assignment.

All types are immutable, have slots and do no I/O. Names are Kafka's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TopicPartition = tuple[str, int]
"""One partition of a topic: ``("orders", 3)``."""

Assignment = dict[str, tuple[TopicPartition, ...]]
"""Owner -> its partitions, owners and partitions in Kafka's own order."""

AssignmentMapping = Mapping[str, tuple[TopicPartition, ...]]
"""An assignment to read: the dict of an assignor, or columns with the same interface (``holdings.Holdings``)."""


class AssignorError(Exception):
    """An assignor has no assignment. Base of all errors of this package."""


class KafkaAssignorError(AssignorError):
    """Kafka's own class throws on this input.

    Attributes:
        java_class: simple name of the exception that Kafka throws, e.g. ``NullPointerException``.
    """

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(f"{java_class}: {message}")
        self.java_class = java_class

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_kafka_error, (self.java_class, str(self)))


def _rebuild_kafka_error(java_class: str, text: str) -> KafkaAssignorError:
    return KafkaAssignorError(java_class, text.removeprefix(f"{java_class}: "))


class NoResultError(AssignorError):
    """Kafka's assignor never returns on this input, or the step budget ran out first.

    Attributes:
        is_cycle: True if a state repeats, so that no budget would be enough; False if the budget ended the call.
    """

    def __init__(self, message: str, *, is_cycle: bool) -> None:
        super().__init__(message)
        self.is_cycle = is_cycle

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_no_result, (str(self), self.is_cycle))


def _rebuild_no_result(message: str, is_cycle: bool) -> NoResultError:
    return NoResultError(message, is_cycle=is_cycle)


class UnknownStrategyError(AssignorError):
    """No assignor has this name."""


class MalformedProblemError(AssignorError):
    """A problem contradicts itself, so that no group can have it."""


class KafkaVersionError(AssignorError):
    """A text is not a Kafka release, or the release does not have the assignor."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the metadata of the leader.

    Attributes:
        partition_count: partitions are numbered ``0 .. partition_count - 1``; None: the id of the topic resolves, but the
            topic has no metadata (KIP-848 assignors only).
        partition_racks: for each partition the racks of its replicas, None for a replica on a broker without a rack;
            None if racks are not known.
        topic_id: Kafka's 22-character text form of the topic id; only the KIP-848 assignors need it.
    """

    partition_count: int | None
    partition_racks: tuple[tuple[str | None, ...], ...] | None = None
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One member, with the data that it sent when it joined.

    Attributes:
        member_id: the id that the broker gave the member.
        topics: subscribed topics in list order, duplicates kept.
        group_instance_id: set for a static member (KIP-345).
        rack: the member's ``client.rack``.
        owned: claimed partitions in list order (subscription version 1 and newer).
        owned_generation: the generation of the claims (subscription version 2 and newer); None or negative: absent.
        user_data: the assignor's own bytes in the subscription; None: not set, ``b""``: empty.
        streams: topic -> number of consumer threads, ZooKeeper consumers only.
    """

    member_id: str
    topics: tuple[str, ...] = ()
    group_instance_id: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    owned_generation: int | None = None
    user_data: bytes | None = None
    streams: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class GroupProblem:
    """The input of one rebalance.

    Attributes:
        topics: topic name -> metadata; a subscribed topic that is absent does not exist.
        members: in the order in which the group's leader puts them into its map. It is the order of the stored group
            metadata record.
        answers: cache of facts that do not depend on claims, by name; see ``subscriptions``.
    """

    topics: Mapping[str, Topic] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    answers: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
