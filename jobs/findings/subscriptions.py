"""Rules on the subscriptions of members."""

from __future__ import annotations

from collections.abc import Iterable

from assignors.algorithms.sticky.claims import first_differing_member
from assignors.generation.generation import Generation, owner_of
from assignors.generation.subscriptions import (
    distinct_subscriptions,
    existing_partition_counts,
    subscribed_topics,
    subscribers_of,
    subscriptions_of,
)
from assignors.model import GroupProblem
from jobs.findings.facts import SnapshotFacts
from jobs.findings.rule import Found, counted, figures, named, part_of, rule
from schemas.vocabulary import Rule, Severity

NOTICEABLE_CHOICES = 1_000
"""Choices below which the general path of sticky is too fast to notice. A choice is a pair of a partition and a member that may have it."""

COSTLY_CHOICES = 100_000
"""Choices from which the general path is a warning: 1,000 partitions that 100 members read. It weighs every choice in every sweep and
sweeps until nothing improves, in one consumer, while the group waits. Leaders that exceeded their timeouts were reported from about 6,000
partitions on (confluentinc/librdkafka#4629)."""


def _parties(subscriptions: Iterable[frozenset[str]]) -> list[set[str]]:
    """Return the topics in sets that no subscription joins: the topics of one application are in one set.

    >>> sorted(map(sorted, _parties([frozenset("ab"), frozenset("c"), frozenset("bd"), frozenset()])))
    [['a', 'b', 'd'], ['c']]
    """
    parties: list[set[str]] = []
    for topics in filter(None, set(subscriptions)):
        joined = set(topics)
        apart = []
        for party in parties:
            if party.isdisjoint(joined):
                apart.append(party)
            else:
                joined |= party
        parties = [*apart, joined]
    return parties


@rule(
    Rule.DISJOINT_SUBSCRIPTIONS,
    Severity.WARNING,
    "One group id, several applications",
    when="The members form sets that have no topic in common.",
    advice=(
        "Give each application its own group id. Under one id, a restart of one application stops the others or moves their partitions. "
        "During a deployment that changes the topics, the finding disappears by itself."
    ),
)
def disjoint_subscriptions(snapshot: SnapshotFacts) -> Found | None:
    """Return the sets of topics that no member reads together."""
    if not snapshot.has_subscriptions_recorded:
        return None
    subscriptions = subscriptions_of(snapshot.problem)
    parties = _parties(subscriptions.values())
    if len(parties) < 2:
        return None
    parts = []
    for topics in parties:
        count = sum(1 for subscribed in subscriptions.values() if not topics.isdisjoint(subscribed))
        parts.append((-count, f"{counted(count, 'member')} of {named(sorted(topics))}"))
    texts = [text for _, text in sorted(parts)]
    return Found(
        f"The members form {len(parties)} sets that have no topic in common: {'; '.join(texts[:3])}",
        figures(set_count=len(parties), sets="; ".join(texts[:5])),
    )


def _is_dropped(topic: str, earlier: Generation, problem: GroupProblem) -> bool:
    """Return whether a member has stopped to subscribe to a topic, or joined without it a group of which all members subscribed to it."""
    readers = {owner_of(one) for one in earlier.problem.members if topic in one.topics}
    was_common = len(readers) == len(earlier.problem.members)
    return any(topic not in one.topics and (was_common or owner_of(one) in readers) for one in problem.members)


@rule(
    Rule.TOPICS_MISSING,
    Severity.INFO,
    "Members subscribe to topics that do not exist",
    when=(
        "A metadata snapshot fits the generation and does not have a subscribed topic. It is a `warning` if the topic existed in the "
        "generation before: it was deleted while the group subscribed to it. It is not if a member has stopped to subscribe to it since, "
        "as with a pattern: the others see that the topic is gone within minutes."
    ),
    advice="Correct the name, create the topic, or remove it from the subscription. A consumer requests it again and again.",
)
def missing_topics(snapshot: SnapshotFacts) -> Found | None:
    """Return the subscribed topics that do not exist according to metadata snapshots."""
    if not snapshot.has_subscriptions_recorded:
        return None
    subscriptions = subscriptions_of(snapshot.problem)
    exist = existing_partition_counts(snapshot.problem)
    missing = sorted(subscribed_topics(snapshot.problem).difference(exist, snapshot.uncertain_topics))
    if not missing:
        return None
    count = sum(1 for subscribed in subscriptions.values() if not subscribed.isdisjoint(missing))
    earlier = snapshot.last_assigned_before
    deleted = [] if earlier is None else [name for name in missing if name in earlier.problem.topics]
    is_wanted = earlier is not None and not all(_is_dropped(name, earlier, snapshot.problem) for name in deleted)
    return Found(
        f"{part_of(count, len(subscriptions), 'member', 'subscribes', 'subscribe')} to topics that do not exist: {named(missing)}",
        figures(topic_count=len(missing), member_count=count, topics=missing),
        Severity.WARNING if is_wanted else None,
    )


@rule(
    Rule.STICKY_GENERAL_PATH,
    Severity.INFO,
    "Different subscriptions make sticky slow",
    when=(
        f"Members of a sticky or cooperative-sticky group subscribe to different topics, and there are at least {NOTICEABLE_CHOICES:,} "
        "choices. A choice is a pair of a partition and a member that may have it. Kafka then searches for the assignment in sweeps over "
        f"all choices, instead of computing it directly. It is a `warning` from {COSTLY_CHOICES:,} choices on."
    ),
    advice="Let all members subscribe to the same topics, or split the group. The whole group waits while the leader computes.",
)
def sticky_general_path(snapshot: SnapshotFacts) -> Found | None:
    """Return how many choices the general algorithm of the sticky assignors has to weigh, if the subscriptions need that algorithm."""
    is_sticky = snapshot.strategy in ("sticky", "cooperative-sticky") and snapshot.has_subscriptions_recorded
    if not is_sticky or first_differing_member(snapshot.problem.members) is None:
        return None
    counts = existing_partition_counts(snapshot.problem)
    subscribers = subscribers_of(snapshot.problem)
    choices = sum(counts[topic] * len(owners) for topics, owners in subscribers.items() for topic in topics)
    if choices < NOTICEABLE_CHOICES:
        return None
    members, partitions = len(snapshot.problem.members), sum(counts.values())
    lists = {tuple(sorted(topics)) for topics in distinct_subscriptions(snapshot.problem.members)}  # topics that do not exist differ too
    return Found(
        f"The {members} members subscribe to different topics: {snapshot.strategy} has to search through {choices:,} choices of a member "
        f"for {counted(partitions, 'partition')}",
        figures(choice_count=choices, member_count=members, partition_count=partitions, distinct_subscription_count=len(lists)),
        Severity.WARNING if choices >= COSTLY_CHOICES else None,
    )
