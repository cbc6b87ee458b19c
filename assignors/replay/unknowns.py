"""Unknown facts of a generation that may explain why a recomputed assignment differs from the observed one."""

from __future__ import annotations

from collections.abc import Iterable

from assignors.algorithms.sticky.claims import first_differing_member
from assignors.generation.subscriptions import subscribed_topics
from assignors.model import GroupProblem
from assignors.replay.topic_ids import depends_on_missing_ids
from assignors.replay.topic_metadata import ResolvedTopic

_START_FROM_CLAIMS = frozenset({"sticky", "cooperative-sticky", "uniform"})


def could_differ_by_unknowns(strategy: str, problem: GroupProblem, topics: Iterable[ResolvedTopic], *, is_start: bool) -> bool:
    """Return whether the assignor might have given other loads with facts that it saw and that are unknown here.

    Args:
        problem: as it was computed.
        topics: source of the problem's partition counts.
        is_start: the generation before is not known.
    """
    subscribed = subscribed_topics(problem)
    if any(topic.is_uncertain and topic.topic in subscribed for topic in topics):
        return True
    if depends_on_missing_ids(strategy, problem):
        return True
    # With equal subscriptions claims decide which partitions a member gets, not how many.
    is_unclaimed = not any(member.owned or member.user_data for member in problem.members)
    return is_start and strategy in _START_FROM_CLAIMS and is_unclaimed and first_differing_member(problem.members) is not None
