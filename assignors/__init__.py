"""Kafka's partition assignors, result for result, without a JVM.

>>> problem = GroupProblem({"t": Topic(3)}, (Member("c1", ("t",)), Member("c2", ("t",))))
>>> assign("range", problem)
{'c1': (('t', 0), ('t', 1)), 'c2': (('t', 2),)}
"""

from __future__ import annotations

from assignors.generation.violations import violations
from assignors.model import (
    Assignment,
    AssignorError,
    GroupProblem,
    KafkaAssignorError,
    KafkaVersionError,
    MalformedProblemError,
    Member,
    NoResultError,
    Topic,
    TopicPartition,
    UnknownStrategyError,
)
from assignors.registry import find_assignor

__all__ = [
    "Assignment",
    "AssignorError",
    "GroupProblem",
    "KafkaAssignorError",
    "KafkaVersionError",
    "MalformedProblemError",
    "Member",
    "NoResultError",
    "Topic",
    "TopicPartition",
    "UnknownStrategyError",
    "assign",
    "violations",
]


def assign(strategy: str, problem: GroupProblem, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    """Return the assignment of a strategy, members and partitions in Kafka's own order.

    Args:
        strategy: ``range``, ``roundrobin``, ``sticky``, ``cooperative-sticky`` (client side); ``uniform``, ``server-range`` (KIP-848);
            ``legacy-range``, ``legacy-roundrobin`` (ZooKeeper consumer); an entry point of ``evenkeel.assignors``; or a path
            ``package.module:function``.
        problem: the group as its leader sees it.
        kafka_version: release of the leader's client, e.g. ``"3.4.1"``; None: the newest known.
        step_budget: limit of the work, see ``assignors.algorithms.step_budget``; None: a generous default.

    Raises:
        KafkaAssignorError: Kafka's own class throws on this input.
        NoResultError: Kafka never returns on this input, or the budget ran out.
        KafkaVersionError: the text is not a release, or the release does not have this assignor.
        MalformedProblemError: two members have the same id, a member's topics are no tuple, or a topic of a KIP-848 group has no id.
        UnknownStrategyError: no assignor has this name.
    """
    return find_assignor(strategy)(problem, kafka_version=kafka_version, step_budget=step_budget)
