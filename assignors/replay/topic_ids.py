"""Substitutes for topic ids if a source has only names: the brokers' assignors identify topics by id."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

from assignors.generation.subscriptions import subscribed_topics
from assignors.model import GroupProblem


def with_topic_ids(problem: GroupProblem) -> GroupProblem:
    """Return the problem with an id for every topic: its own, else one computed from its name.

    >>> from assignors.model import Topic
    >>> with_topic_ids(GroupProblem({"t": Topic(1)}, ())).topics["t"].topic_id
    'iD5gmgXYXBh6AZytk8EiNw'
    """
    if all(topic.topic_id is not None for topic in problem.topics.values()):
        return problem
    topics = {
        name: topic if topic.topic_id is not None else replace(topic, topic_id=_stand_in(name)) for name, topic in problem.topics.items()
    }
    named = GroupProblem(topics, problem.members)
    named.answers.update(problem.answers)  # none of them depends on ids
    return named


def depends_on_missing_ids(strategy: str, problem: GroupProblem) -> bool:
    """Return whether the assignment may depend on a missing id.

    ``uniform`` assigns the topics in the order of their ids. ``server-range`` assigns each topic separately.
    """
    existing = [problem.topics[name] for name in subscribed_topics(problem) if name in problem.topics]
    return strategy == "uniform" and len(existing) > 1 and any(topic.topic_id is None for topic in existing)


def _stand_in(name: str) -> str:
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
