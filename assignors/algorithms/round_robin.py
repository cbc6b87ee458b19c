"""Kafka's RoundRobinAssignor."""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain, groupby

from assignors.algorithms.member_order import freeze, members_in_map_order, ranked_members, result_order, subscribers_of_topics
from assignors.algorithms.releases import client_behaviour
from assignors.algorithms.step_budget import StepBudget
from assignors.generation.subscriptions import existing_partition_counts
from assignors.java.cache import partitions_of
from assignors.java.ordering import sort_strings
from assignors.model import Assignment, GroupProblem, KafkaAssignorError, TopicPartition


def assign_round_robin(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    """Return the assignment of ``RoundRobinAssignor``: partitions go one by one to members in a ring.

    The cursor continues from topic to topic. A member that does not subscribe to a topic is skipped and not compensated later, so
    loads can be very uneven if subscriptions differ.

    Worked example: ``t0p0 t0p1 t0p2``, ``t1p0``; a and c subscribe to both, b to t1 only. a gets t0p0, c t0p1, a t0p2; the cursor
    is then at b, which gets t1p0.

    Order: the ring has static members by instance id, then the others by member id (all by member id before 2.4); topics by name.
    Complexity: O(p + s) for p partitions and s subscriptions; every n-th partition is a slice, not a step.
    Source: ``RoundRobinAssignor``, unchanged since 2.4 but for names. Differs from source: nothing.

    Raises:
        KafkaAssignorError: ``IllegalArgumentException`` for a group without members.
        NoResultError: the budget ran out.
        KafkaVersionError: the text is not a release.

    >>> from assignors.model import Member, Topic
    >>> members = (Member("a", ("t0", "t1")), Member("b", ("t1",)), Member("c", ("t0", "t1")))
    >>> assign_round_robin(GroupProblem({"t0": Topic(3), "t1": Topic(1)}, members))
    {'a': (('t0', 0), ('t0', 2)), 'b': (('t1', 0),), 'c': (('t0', 1),)}
    """
    behaviour = client_behaviour(kafka_version)
    members, is_stable = members_in_map_order(problem)
    if not members:
        raise KafkaAssignorError("IllegalArgumentException", "a round robin over no members")
    counts = existing_partition_counts(problem)
    StepBudget(step_budget).spend(sum(counts.values()))
    ring = ranked_members(problem, behaviour)
    subscribers = subscribers_of_topics(ring, counts)
    held: list[list[TopicPartition]] = [[] for _ in ring]
    cursor = 0
    # Topics with equal subscribers share one sequence of positions, and are assigned like one topic.
    for _, topics in groupby(sort_strings(counts), key=lambda topic: id(subscribers[topic])):
        names = list(topics)
        positions = subscribers[names[0]]
        partitions = list(chain.from_iterable(partitions_of(topic, counts[topic]) for topic in names))
        first = bisect_left(positions, cursor)
        turn = [*positions[first:], *positions[:first]]
        if len(partitions) <= len(turn):
            for position, partition in zip(turn, partitions, strict=False):
                held[position].append(partition)
        else:
            for index, position in enumerate(turn):
                held[position] += partitions[index :: len(turn)]
        cursor = (turn[(len(partitions) - 1) % len(turn)] + 1) % len(ring)
    by_id = {member.member_id: partitions for member, partitions in zip(ring, freeze(held), strict=True)}
    return {member_id: by_id[member_id] for member_id in result_order(members, is_stable)}
