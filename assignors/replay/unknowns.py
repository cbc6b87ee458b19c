"""Unknown facts of a generation that may explain why a recomputed assignment differs from the observed one."""

from __future__ import annotations

from collections.abc import Iterable

from assignors.algorithms.sticky.claims import first_differing_member
from assignors.generation.subscriptions import subscribed_topics
from assignors.model import GroupProblem
from assignors.replay.topic_ids import depends_on_missing_ids
from assignors.replay.topic_metadata import ResolvedTopic

_START_FROM_CLAIMS = frozenset({"sticky", "cooperative-sticky", "uniform"})
RACK_AWARE = frozenset({"range", "sticky", "cooperative-sticky"})
"""Strategies of clients that go by racks since Kafka 3.5 (KIP-881)."""


def could_differ_by_unknowns(strategy: str, problem: GroupProblem, topics: Iterable[ResolvedTopic], *, lacks_claims: bool) -> bool:
    """Return whether the assignor might have given other loads with facts that it saw and that are unknown here.

    Args:
        problem: as it was computed.
        topics: source of the problem's partition counts.
        lacks_claims: the assignor saw claims, or a target before, that are not known.
    """
    subscribed = subscribed_topics(problem)
    if any(topic.is_uncertain and topic.topic in subscribed for topic in topics):
        return True
    if depends_on_missing_ids(strategy, problem) or _lacks_racks(strategy, problem):
        return True
    # With equal subscriptions claims decide which partitions a member gets, not how many.
    return lacks_claims and strategy in _START_FROM_CLAIMS and first_differing_member(problem.members) is not None


def _lacks_racks(strategy: str, problem: GroupProblem) -> bool:
    """Return whether members have racks, and no metadata snapshot shows those of the replicas of a topic that they read."""
    if strategy not in RACK_AWARE or not any(member.rack for member in problem.members):
        return False
    read = (problem.topics[name] for name in subscribed_topics(problem) if name in problem.topics)
    return any(topic.partition_racks is None or not all(topic.partition_racks) for topic in read)
