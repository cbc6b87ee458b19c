"""The broker's assignors of the consumer group protocol (KIP-848): ``uniform`` and ``server-range``.

Both identify topics by id. A subscribed name that is not among the topics does not resolve and is skipped. An id without metadata is an
error. Names with the same id are one topic. A member's ``owned`` is its current target assignment. Racks are accepted and ignored.

Order: members as in Kafka's result map. A member's partitions are a set in Kafka; here they are listed by topic name and partition.

Source: ``UniformAssignor``, ``UniformHomogeneousAssignmentBuilder`` and ``RangeAssignor`` of
``org.apache.kafka.coordinator.group.assignor``, release 4.3.1 (``uniform_heterogeneous`` has the second builder). Differs from source: the
restriction to assignable partitions, which share groups use, is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from assignors.algorithms.member_order import members_in_map_order, result_order
from assignors.algorithms.releases import Release, parse_release
from assignors.algorithms.uniform_heterogeneous import place_partitions
from assignors.generation.subscriptions import distinct_subscriptions
from assignors.java.ordering import DEFAULT_CAPACITY, hash_map_order, member_order, partition_order, uuid_hash, uuid_order
from assignors.model import Assignment, GroupProblem, KafkaAssignorError, KafkaVersionError, MalformedProblemError, Member, TopicPartition

_OLDEST: Release = (3, 9)
_HETEROGENEOUS_SINCE: Release = (4, 0)
_EXTRAS_STAY_SINCE: Release = (4, 1)


def assign_uniform(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    """Return the target assignment of the broker's ``uniform`` assignor.

    Worked example: a has t0p0 t0p1 t0p2, b is new. One of them may have 2, and a has them already: a keeps t0p0 t0p1, b gets t0p2.

    Equal subscriptions: every member keeps its partitions up to its quota, and the others get the rest in map order. With different
    subscriptions partitions go to the least loaded subscriber, then each topic is balanced, see ``uniform_heterogeneous``.

    Complexity: linear for equal subscriptions; else O(members log members + partitions) per topic and round, at most 16 rounds.

    Args:
        problem: every topic with its ``topic_id``; ``owned`` is each member's current target.
        kafka_version: release of the broker. Up to 4.0 the first members in map order may have one more, even if others have it already.
        step_budget: not needed, the assignor always ends soon.

    Raises:
        KafkaAssignorError: ``PartitionAssignorException`` for a topic id without metadata, or if partitions are left over because a
            target has one that does not exist or that another one has too; ``ArrayIndexOutOfBoundsException`` for one that does not exist
            if subscriptions differ.
        KafkaVersionError: release before 3.9, or before 4.0 if subscriptions differ.
        MalformedProblemError: a subscribed topic has no ``topic_id``, or two members have the same id.

    >>> from assignors.model import Topic
    >>> topics = {"t0": Topic(3, topic_id="AAAAAAAAAAEAAAAAAAAAAg")}
    >>> a = Member("a", ("t0",), owned=(("t0", 0), ("t0", 1), ("t0", 2)))
    >>> assign_uniform(GroupProblem(topics, (a, Member("b", ("t0",)))))
    {'a': (('t0', 0), ('t0', 1)), 'b': (('t0', 2),)}
    """
    release = _release(kafka_version, _OLDEST)
    _require_topic_ids(problem)
    members, is_stable = members_in_map_order(problem)
    if not members:
        return {}
    if _has_equal_subscriptions(members):
        given = _assign_homogeneous(_Topics(problem), members, extras_stay=release >= _EXTRAS_STAY_SINCE)
    else:
        _release(kafka_version, _HETEROGENEOUS_SINCE)
        given = _assign_heterogeneous(_Topics(problem), members)
    return _listed(given, result_order(members, is_stable, copies=0) if given else ())


def assign_server_range(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    """Return the target assignment of the broker's ``range`` assignor: contiguous ranges per topic, even but for one.

    Worked example: t0 has 5 partitions, a and b read it: a gets t0p0 t0p1 t0p2, b gets t0p3 t0p4.

    Order: static members by instance id, then the others by member id; the first ones get one more. Kafka fills its result map in that
    order. The table of the map is as large as needed, with fewer than 16 buckets for a few members.
    Complexity: linear, apart from sorting the members.

    Args:
        problem: every topic with its ``topic_id``; targets do not matter.
        kafka_version: release of the broker; all give the same.
        step_budget: not needed, the assignor always ends soon.

    Raises:
        KafkaAssignorError: ``PartitionAssignorException`` for a topic id without metadata.
        KafkaVersionError: release before 3.9.
        MalformedProblemError: as ``assign_uniform``.

    >>> from assignors.model import Topic
    >>> topics = {"t0": Topic(5, topic_id="AAAAAAAAAAEAAAAAAAAAAg")}
    >>> assign_server_range(GroupProblem(topics, (Member("b", ("t0",)), Member("a", ("t0",)))))
    {'a': (('t0', 0), ('t0', 1), ('t0', 2)), 'b': (('t0', 3), ('t0', 4))}
    """
    _release(kafka_version, _OLDEST)
    _require_topic_ids(problem)
    members = sorted(members_in_map_order(problem)[0], key=member_order)
    topics = _Topics(problem)
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    for topic, subscribers in _subscribers_by_topic(topics, members).items():
        share, extra = divmod(topics.partition_count(topic), len(subscribers))
        start = 0
        for index, member in enumerate(subscribers):
            end = start + share + (index < extra)
            given[member.member_id] += ((topic, partition) for partition in range(start, end))
            start = end
    capacity = 1
    while capacity < 4 * len(members) // 3 + 1:
        capacity *= 2
    return _listed(given, hash_map_order(given, initial_capacity=capacity))


def _assign_homogeneous(topics: _Topics, members: Sequence[Member], *, extras_stay: bool) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member if all subscribe to the same topics.

    Every member may have ``total // members`` partitions, and ``total % members`` of them one more. In map order each member gets an
    extra one while there are any. Since 4.1 (KAFKA-18688) a member without enough partitions of its own for it returns it, as long as
    more members follow than extras are left. So a member that has one more already keeps it.
    """
    # A hash set of ids, copied from the set of names. Its capacity follows the number of names, even of those that do not resolve.
    names = hash_map_order(members[0].topics, initial_capacity=_copied_set_capacity(len(members[0].topics)))
    subscribed = topics.in_map_order(topics.resolve(names), initial_capacity=_copied_set_capacity(len(names)))
    if not subscribed:
        return {}
    counts = {topic: topics.partition_count(topic) for topic in subscribed}
    targets = [_target_by_topic(topics, member) for member in members]
    owned = {(topic, partition) for target in targets for topic, partitions in target for partition in partitions}
    unassigned = [(topic, partition) for topic in subscribed for partition in range(counts[topic]) if (topic, partition) not in owned]
    share, extra_count = divmod(sum(counts.values()), len(members))
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    unfilled: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        quota = share + (extra_count > 0)
        for topic, partitions in targets[index]:
            if topic in counts:
                kept = partitions[:quota]
                given[member.member_id] += ((topic, partition) for partition in kept)
                unassigned += ((topic, partition) for partition in partitions[len(kept) :])
                quota -= len(kept)
        if extra_count > 0:
            if extras_stay and quota > 0 and len(members) - index > extra_count:
                quota -= 1
            else:
                extra_count -= 1
        if quota > 0:
            unfilled.append((member.member_id, quota))
    start = 0
    for member_id, quota in unfilled:
        given[member_id] += unassigned[start : start + quota]
        start += quota
    if start < len(unassigned):
        raise KafkaAssignorError(
            "PartitionAssignorException",
            f"{len(unassigned) - start} partitions are left unassigned, the first is {unassigned[start]}; some member's target has "
            "a partition that does not exist, or that another one has too",
        )
    return given


def _assign_heterogeneous(topics: _Topics, members: Sequence[Member]) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member if subscriptions differ: names are converted to numbers and back."""
    numbers = {member.member_id: number for number, member in enumerate(members)}
    subscribers = {
        topic: [numbers[member.member_id] for member in readers] for topic, readers in _subscribers_by_topic(topics, members).items()
    }
    if not subscribers:
        return {}
    owners: dict[str, list[int | None]] = {topic: [None] * topics.partition_count(topic) for topic in subscribers}
    sharers: dict[str, dict[int, set[int]]] = {}
    for member in members:
        subscribed = set(topics.resolve(member.topics))
        for topic, partitions in _target_by_topic(topics, member):
            if topic in subscribed:
                _take_over(owners[topic], sharers, topic, partitions, numbers[member.member_id])
    topic_order = sorted(
        owners,
        key=lambda topic: (-len(owners[topic]) / len(subscribers[topic]), len(subscribers[topic]), topics.order_of(topic)),
    )
    placed = place_partitions(topic_order, subscribers, owners, len(members), sharers)
    given: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    for topic, owner_numbers in placed.items():
        for partition, number in enumerate(owner_numbers):
            given[members[number].member_id].append((topic, partition))
    for topic, sharers_of_partition in sharers.items():
        for partition, sharing in sharers_of_partition.items():
            for number in sharing:
                given[members[number].member_id].append((topic, partition))
    return given


def _take_over(
    owners: list[int | None], sharers: dict[str, dict[int, set[int]]], topic: str, partitions: Iterable[int], number: int
) -> None:
    """Enter a member as the owner of the partitions of its target; a previous owner then shares them."""
    for partition in partitions:
        if not 0 <= partition < len(owners):
            raise KafkaAssignorError(
                "ArrayIndexOutOfBoundsException", f"a target names {topic}-{partition}, but the topic has {len(owners)} partitions"
            )
        before = owners[partition]
        if before is not None:
            sharers.setdefault(topic, {}).setdefault(partition, set()).add(before)
        owners[partition] = number


def _release(kafka_version: str | None, since: Release) -> Release:
    release = parse_release(kafka_version)
    if release < since:
        oldest = ".".join(map(str, since))
        raise KafkaVersionError(f"release {kafka_version} of the broker is older than {oldest}, the first one whose assignor is known here")
    return release


def _require_topic_ids(problem: GroupProblem) -> None:
    """Refuse a subscribed topic without an id: the broker would not see it, and the result would be wrong.

    Raises:
        MalformedProblemError: a subscribed topic has no id.
    """
    for subscription in distinct_subscriptions(problem.members):
        for name in subscription:
            topic = problem.topics.get(name)
            if topic is not None and topic.topic_id is None:
                member = next(member for member in problem.members if member.topics == subscription)
                raise MalformedProblemError(
                    f"member {member.member_id} subscribes to topic {name}, which has no topic_id; expected the 22 characters by which "
                    "the broker's assignors know a topic"
                )


def _has_equal_subscriptions(members: Sequence[Member]) -> bool:
    """Return whether the group is homogeneous for Kafka: each name, resolved or not, has as many subscribers as there are members."""
    if len(distinct_subscriptions(members)) == 1:
        return True  # the usual case
    subscriber_counts = Counter(topic for member in members for topic in set(member.topics))
    return all(count == len(members) for count in subscriber_counts.values())


class _Topics:
    """The topics as the broker resolves them: name -> id -> metadata.

    Attributes:
        resolved: name -> the topic with its id; names without an id are not here.
    """

    def __init__(self, problem: GroupProblem) -> None:
        self._topics = problem.topics
        self._ids = {name: topic.topic_id for name, topic in problem.topics.items() if topic.topic_id is not None}
        names_by_id = {topic_id: name for name, topic_id in self._ids.items()}
        self.resolved = {name: names_by_id[topic_id] for name, topic_id in self._ids.items()}
        self._hashes: dict[str, int] = {}

    def resolve(self, names: Iterable[str]) -> list[str]:
        """Return the distinct topics of the names, in their order; names without an id are skipped."""
        return list(dict.fromkeys(self.resolved[name] for name in names if name in self.resolved))

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions; raise an error without metadata, as Kafka does."""
        count = self._topics[topic].partition_count
        if count is None:
            raise KafkaAssignorError(
                "PartitionAssignorException", f"members subscribe to topic {topic}, whose id {self._ids[topic]} has no metadata"
            )
        return count

    def order_of(self, topic: str) -> tuple[int, int]:
        """Return a sort key for the order of the topic ids."""
        return uuid_order(self._ids[topic])

    def in_map_order(self, topics: Iterable[str], *, initial_capacity: int = DEFAULT_CAPACITY, largest_size: int = 0) -> list[str]:
        """Return the topics in the order of a hash map or set of their ids. Its size may count other ids too."""
        return hash_map_order(
            topics,
            self._hash_of,
            self.order_of,
            initial_capacity=initial_capacity,
            largest_size=largest_size,
        )

    def _hash_of(self, topic: str) -> int:
        found = self._hashes.get(topic)
        if found is None:
            found = self._hashes[topic] = uuid_hash(self._ids[topic])
        return found


def _subscribers_by_topic(topics: _Topics, members: Iterable[Member]) -> dict[str, list[Member]]:
    """Return the subscribers of every topic that resolves, in the order of the members."""
    subscribers: dict[str, list[Member]] = defaultdict(list)
    resolved: dict[tuple[str, ...], list[str]] = {}
    for member in members:
        if member.topics not in resolved:
            resolved[member.topics] = topics.resolve(member.topics)
        for topic in resolved[member.topics]:
            subscribers[topic].append(member)
    return subscribers


def _target_by_topic(topics: _Topics, member: Member) -> list[tuple[str, list[int]]]:
    """Return the member's target in map order: topics of a ``HashMap`` by id, partitions of a ``HashSet`` copied from the record."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    deleted: set[str] = set()
    for name, partition in member.owned:
        topic = topics.resolved.get(name)
        if topic is None:
            deleted.add(name)
        else:
            by_topic[topic].append(partition)
    # The map has deleted topics too, which may make its table larger.
    return [(topic, _in_set_order(by_topic[topic])) for topic in topics.in_map_order(by_topic, largest_size=len(by_topic) + len(deleted))]


def _in_set_order(partitions: Sequence[int]) -> list[int]:
    """Return at least one partition in the order of a ``HashSet`` that is copied from a record's list."""
    capacity = _copied_set_capacity(len(partitions))
    if 0 <= min(partitions) and max(partitions) < capacity:
        return sorted(set(partitions))  # each has a bucket of its own
    return hash_map_order(partitions, int, int, initial_capacity=capacity)


def _copied_set_capacity(size: int) -> int:
    """Return the number of buckets of ``new HashSet(collection)`` up to JDK 18, which has room for one more element than needed."""
    capacity = DEFAULT_CAPACITY
    while capacity < 4 * size // 3 + 1:
        capacity *= 2
    return capacity


def _listed(given: Mapping[str, Sequence[TopicPartition]], member_ids: Iterable[str]) -> Assignment:
    key = partition_order({topic for held in given.values() for topic, _ in held})
    return {member_id: tuple(sorted(given[member_id], key=key)) for member_id in member_ids}
