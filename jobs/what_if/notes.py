"""What a person should know of a scenario, whichever assignor runs: what none can mend, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assignors.algorithms.releases import client_behaviour
from assignors.generation.generation import SERVER_SIDE
from assignors.generation.subscriptions import existing_partition_counts, subscribed_topics
from assignors.model import GroupProblem
from jobs.pages.figures import counted
from jobs.what_if.figures import Answer
from jobs.what_if.rehearsal import Rehearsal, Subject, release_for
from schemas.vocabulary import STRATEGIES, Flavour

HEAVY = 1.25
"""A partition that brings so many times a member's mean share is worth a line."""
NOT_OF_LIBRARIES = {Flavour.LIBRDKAFKA.value: frozenset({"sticky"}), Flavour.KAFKAJS.value: frozenset(STRATEGIES)}
"""Client library -> Kafka's assignors that it refuses, or does not have: librdkafka 2.16, kafkajs 2.2."""
MOST_TOPICS = 3
"""Topics of one kind that have a line each; the rest is counted."""


def notes_on(subject: Subject, rehearsal: Rehearsal) -> Iterator[str]:
    """Yield a sentence each."""
    if rehearsal.cheapest is None or rehearsal.cheapest.played is None:
        return
    problem = rehearsal.cheapest.played.expected.after.problem
    yield from _heavy_partition(subject, problem)
    yield from _too_many_members(problem)
    yield from _ignored_racks(problem, rehearsal.answers)
    yield from _newer_releases(subject, rehearsal.answers)
    yield from _not_of_the_library(subject, rehearsal.answers)
    if rehearsal.changes.static_ids and all(member.group_instance_id for member in subject.stored.generation.problem.members):
        yield "Every member has an instance id already."
    if not subject.stored.is_protocol_known:
        yield "The capture does not show the protocol: the group counts as a classic one."
    if not subject.stored.has_subscriptions:
        yield "The capture has no subscriptions: each member is taken to subscribe to all topics of the group."
    yield from _unknown_topics(subject, problem)
    yield from _grown_topics(subject, problem)
    if problem.topics.keys() - subject.stored.generation.problem.topics.keys():
        yield "The records of topics that are new to the group are not known: their partitions count as without records."


def _heavy_partition(subject: Subject, problem: GroupProblem) -> Iterator[str]:
    """Yield which partition outweighs the others that the members read afterwards."""
    weights, member_count, read = subject.weights, len(problem.members), existing_partition_counts(problem)
    for all_figures, text in ((weights.throughput, "brings {share:.0%} of the records"), (weights.lag, "has {share:.0%} of the lag")):
        figures = {one: figure for one, figure in all_figures.items() if one[0] in read}
        total = sum(figures.values())
        if not total or member_count < 2:
            continue
        (topic, partition), most = max(figures.items(), key=lambda one: (one[1], one[0]))
        share = most / total
        if share * member_count >= HEAVY:
            yield f"{topic}-{partition} alone {text.format(share=share)}: one member reads it, whichever assignor runs."


def _unknown_topics(subject: Subject, problem: GroupProblem) -> Iterator[str]:
    """Yield which topics the members subscribe to that count as not there."""
    seen = subject.weights.partition_counts
    unknown = sorted(subscribed_topics(problem) - existing_partition_counts(problem).keys())
    notes = [
        f"No partitions of {topic} are known to the group: it counts as a topic that does not exist. "
        + (
            f"It has {seen[topic]} in the newest metadata snapshot: add --partitions {topic}={seen[topic]}."
            if seen.get(topic)
            else f"Say how many it has: --partitions {topic}=N."
        )
        for topic in unknown
    ]
    yield from _first_of(notes, "topics that members subscribe to")


def _grown_topics(subject: Subject, problem: GroupProblem) -> Iterator[str]:
    """Yield which topics have more partitions than the scenario gives them, as far as a metadata snapshot shows it."""
    today, seen = subject.stored.generation.problem.topics, subject.weights.partition_counts
    then = existing_partition_counts(problem)
    grown = sorted(topic for topic, count in then.items() if topic in today and seen.get(topic, 0) > count)
    notes = [
        f"{topic} has {seen[topic]} partitions in the newest metadata snapshot, and {today[topic].partition_count} in this generation: "
        f"add --partitions {topic}={seen[topic]}."
        for topic in grown
    ]
    yield from _first_of(notes, "topics")


def _first_of(notes: Sequence[str], what: str) -> Iterator[str]:
    """Yield the first notes of one kind, and how many more there are."""
    yield from notes[:MOST_TOPICS]
    if len(notes) > MOST_TOPICS:
        yield f"The same is so for {len(notes) - MOST_TOPICS} more of the {what}."


def _too_many_members(problem: GroupProblem) -> Iterator[str]:
    partitions, members = sum(existing_partition_counts(problem).values()), len(problem.members)
    if members > partitions:
        idle = members - partitions
        sharing = "1 member shares" if members == 1 else f"{members} members share"
        yield f"{sharing} {counted(partitions, 'partition')}: {idle} of them {'has' if idle == 1 else 'have'} nothing to read."


def _ignored_racks(problem: GroupProblem, answers: Sequence[Answer]) -> Iterator[str]:
    """Yield which of the strategies ignore racks, where members have some: round robin, the brokers' own, and clients before KIP-881."""
    if not any(member.rack for member in problem.members):
        return
    ignoring = [answer.strategy for answer in answers if answer.played is not None and _ignores_racks(answer)]
    if ignoring:
        yield f"Racks are ignored by {', '.join(ignoring)}."


def _ignores_racks(answer: Answer) -> bool:
    return answer.strategy in (*SERVER_SIDE, "roundrobin") or not client_behaviour(answer.release).is_rack_aware


def _newer_releases(subject: Subject, answers: Sequence[Answer]) -> Iterator[str]:
    """Yield which of the strategies take newer clients than the group's."""
    own = subject.stored.kafka_version
    for answer in answers:
        if answer.release not in (None, release_for(subject.stored, answer.strategy)):
            yield f"{answer.strategy} is played by Kafka {answer.release}: clients such as the group's ({own}) do not have it."


def _not_of_the_library(subject: Subject, answers: Sequence[Answer]) -> Iterator[str]:
    """Yield which of the strategies the client library of the group's leader does not have."""
    client = subject.stored.leader_client
    absent = NOT_OF_LIBRARIES.get(client or "", frozenset())
    named = [answer.strategy for answer in answers if answer.played is not None and answer.strategy in absent]
    if named:
        yield f"{client} does not have {', '.join(named)}: its members would need another client library, or an assignor of their own."
