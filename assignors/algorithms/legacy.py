"""The ZooKeeper consumer's assignors: ``legacy-range`` and ``legacy-roundrobin``.

A member registers a number of streams per topic. Each stream is a thread that owns partitions: ``<member_id>-<n>``, n from 0. There is
no leader: every consumer computes the whole assignment from the registered data, so all get the same result. A member without
``streams`` has no threads.

Order: threads by the text of their ids, so thread 10 comes before thread 2, in the result too. A thread's partitions are a set in Kafka;
here they are listed by topic and partition. Threads without partitions are absent.

Source: ``kafka.consumer.RangeAssignor`` and ``RoundRobinAssignor``, releases 0.8.2 to 1.1.1. The consumer was removed in 2.0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import cycle

from assignors.algorithms.releases import Release, parse_release
from assignors.generation.subscriptions import thread_subscriptions_of
from assignors.java.ordering import sort_strings
from assignors.java.string_hash import string_hashes
from assignors.model import Assignment, GroupProblem, KafkaAssignorError, KafkaVersionError, TopicPartition

_REMOVED: Release = (2, 0)
_ROUND_ROBIN_SINCE: Release = (0, 8, 2)
_MIXED_SUBSCRIPTIONS_SINCE: Release = (0, 10, 2)
_DASHED_PARTITIONS_SINCE: Release = (1, 0)


def assign_legacy_range(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    """Return the partitions of every thread: a contiguous range of each of its topics.

    Worked example: t0 has 5 partitions, a has two streams of it and b one: a-0 gets t0p0 t0p1, a-1 gets t0p2 t0p3, b-0 gets t0p4.

    Complexity: linear, apart from sorting the threads.

    Args:
        problem: ``streams`` of every member.
        kafka_version: release of the consumers; all give the same.
        step_budget: not needed, the assignor always ends soon.

    Raises:
        KafkaVersionError: release 2.0 or newer.

    >>> from assignors.model import Member, Topic
    >>> problem = GroupProblem({"t0": Topic(5)}, (Member("a", streams={"t0": 2}), Member("b", streams={"t0": 1})))
    >>> assign_legacy_range(problem)
    {'a-0': (('t0', 0), ('t0', 1)), 'a-1': (('t0', 2), ('t0', 3)), 'b-0': (('t0', 4),)}
    """
    _release(kafka_version, oldest=(0,))
    owned: dict[str, list[TopicPartition]] = defaultdict(list)
    for topic, threads in _threads_by_topic(problem).items():
        share, extra = divmod(_partition_count(problem, topic), len(threads))
        for index, thread in enumerate(threads):
            start = share * index + min(index, extra)
            owned[thread] += ((topic, partition) for partition in range(start, start + share + (index < extra)))
    return _listed(owned)


def assign_legacy_round_robin(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    """Return the partitions of every thread: all partitions, in the order of a hash, are given to all threads in turn.

    Worked example: t0p0 to t0p2 hash to ascending numbers; a-0 gets t0p0, b-0 gets t0p1, a-0 gets t0p2.

    Order: partitions by the Java hash of their text, ``t0-1`` since 1.0 and ``[t0,1]`` before, so releases differ.
    Complexity: linear, apart from sorting and from skipping threads that do not have a topic.

    Args:
        problem: ``streams`` of every member.
        kafka_version: release of the consumers, 1.1 when None.
        step_budget: not needed, the assignor always ends soon.

    Raises:
        KafkaAssignorError: ``IllegalArgumentException`` before 0.10.2 when two topics have different threads.
        KafkaVersionError: release before 0.8.2, 2.0 or newer.

    >>> from assignors.model import Member, Topic
    >>> problem = GroupProblem({"t0": Topic(3)}, (Member("a", streams={"t0": 1}), Member("b", streams={"t0": 1})))
    >>> assign_legacy_round_robin(problem)
    {'a-0': (('t0', 0), ('t0', 2)), 'b-0': (('t0', 1),)}
    """
    release = _release(kafka_version, oldest=_ROUND_ROBIN_SINCE)
    threads_by_topic = _threads_by_topic(problem)
    if release < _MIXED_SUBSCRIPTIONS_SINCE:
        _require_equal_threads(threads_by_topic)
    text = "{}-{}" if release >= _DASHED_PARTITIONS_SINCE else "[{},{}]"
    partitions = [(topic, partition) for topic in threads_by_topic for partition in range(_partition_count(problem, topic))]
    hashes = dict(zip(partitions, string_hashes([text.format(*topic_partition) for topic_partition in partitions]), strict=True))
    partitions.sort(key=hashes.__getitem__)
    readers = {topic: frozenset(threads) for topic, threads in threads_by_topic.items()}
    ring = cycle(sort_strings(frozenset().union(*readers.values())))
    owned: dict[str, list[TopicPartition]] = defaultdict(list)
    for topic, partition in partitions:
        thread = next(thread for thread in ring if thread in readers[topic])
        owned[thread].append((topic, partition))
    return _listed(owned)


def _release(kafka_version: str | None, *, oldest: Release) -> Release:
    if kafka_version is None:
        return (1, 1)
    release = parse_release(kafka_version)
    if not oldest <= release < _REMOVED:
        raise KafkaVersionError(f"release {kafka_version} has no such assignor; the ZooKeeper consumer's last release is 1.1.1")
    return release


def _threads_by_topic(problem: GroupProblem) -> dict[str, list[str]]:
    """Return the threads of every topic in their order."""
    threads_by_topic: dict[str, list[str]] = defaultdict(list)
    subscriptions = thread_subscriptions_of(problem)
    for thread in sort_strings(subscriptions):
        for topic in subscriptions[thread]:
            threads_by_topic[topic].append(thread)
    return {topic: threads_by_topic[topic] for topic in sort_strings(threads_by_topic)}


def _partition_count(problem: GroupProblem, topic: str) -> int:
    metadata = problem.topics.get(topic)
    return (metadata.partition_count or 0) if metadata is not None else 0


def _require_equal_threads(threads_by_topic: Mapping[str, Sequence[str]]) -> None:
    first, threads_of_first = next(iter(threads_by_topic.items()), ("", ()))
    for topic, threads in threads_by_topic.items():
        if threads != threads_of_first:
            raise KafkaAssignorError(
                "IllegalArgumentException",
                f"round robin needs the same threads for all topics, but {first} has {len(threads_of_first)} and {topic} has "
                f"{len(threads)}, not all of them the same; releases from 0.10.2 on allow it",
            )


def _listed(owned: Mapping[str, Sequence[TopicPartition]]) -> Assignment:
    topic_numbers = {topic: number for number, topic in enumerate(sort_strings({topic for held in owned.values() for topic, _ in held}))}
    return {
        thread: tuple(sorted(owned[thread], key=lambda partition: (topic_numbers[partition[0]], partition[1])))
        for thread in sort_strings(owned)
        if owned[thread]
    }
