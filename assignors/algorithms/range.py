"""Kafka's RangeAssignor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from assignors.algorithms.member_order import freeze, members_in_map_order, ranked_members, result_order, subscribers_of_topics
from assignors.algorithms.racks import is_rack_aware, partition_racks
from assignors.algorithms.releases import ClientBehaviour, client_behaviour
from assignors.algorithms.step_budget import StepBudget
from assignors.generation.subscriptions import distinct_subscriptions, existing_partition_counts
from assignors.java.cache import partitions_of
from assignors.java.ordering import computed_hash_map_order, hash_map_order, partition_order
from assignors.model import Assignment, GroupProblem, Member, Topic, TopicPartition


def assign_range(problem: GroupProblem, *, kafka_version: str | None = None, step_budget: int | None = None) -> Assignment:
    """Return the assignment of ``RangeAssignor``: each member gets a contiguous range of every topic.

    The first ``p % c`` of a topic's c subscribers get one partition more than the others, and these are the same for each topic.
    If the partitions of a topic are not in all racks, racks come before ranges, and topics with equal partition counts and equal
    subscribers are assigned together (KIP-881).

    Worked example: ``t0p0..t0p2 t1p0..t1p2``, a and b subscribe to both: a gets t0p0 t0p1 t1p0 t1p1, b t0p2 t1p2.

    Order: subscribers are static members by instance id, then the others by member id. The topics of a list are in hash map order,
    not by name; with racks they are sorted.
    Complexity: O(p + s) for p partitions and s subscriptions; with racks O(p * m) for m members.
    Source: ``RangeAssignor``. Differs from source: nothing. Before 3.5 a topic that a member lists twice counts twice.

    Raises:
        NoResultError: the budget ran out.
        KafkaVersionError: the text is not a release.

    >>> from assignors.model import Member
    >>> members = (Member("a", ("t0", "t1")), Member("b", ("t0", "t1")))
    >>> assign_range(GroupProblem({"t0": Topic(3), "t1": Topic(3)}, members))
    {'a': (('t0', 0), ('t0', 1), ('t1', 0), ('t1', 1)), 'b': (('t0', 2), ('t1', 2))}
    """
    behaviour = client_behaviour(kafka_version)
    budget = StepBudget(step_budget)
    members, is_stable = members_in_map_order(problem)
    counts = existing_partition_counts(problem)
    budget.spend(sum(counts.values()))
    ranked = ranked_members(problem, behaviour)
    subscribers = subscribers_of_topics(ranked, counts, keeps_duplicates=not behaviour.is_rack_aware)
    held: list[list[TopicPartition]] = [[] for _ in ranked]
    racks = {position: member.rack for position, member in enumerate(ranked) if member.rack} if behaviour.is_rack_aware else {}
    states = [
        _TopicState(topic, problem.topics[topic], counts[topic], subscribers[topic], racks)
        for topic in _topic_order(members, counts, behaviour)
    ]
    uses_racks = any(state.needs_racks for state in states)
    if uses_racks:
        _deal_by_rack(states, held, budget)
    for state in states:
        state.deal_ranges(held)
    if uses_racks:
        for partitions in held:
            partitions.sort(key=partition_order(counts))
    by_id = {member.member_id: partitions for member, partitions in zip(ranked, freeze(held), strict=True)}
    return {member_id: by_id[member_id] for member_id in result_order(members, is_stable)}


def _topic_order(members: Sequence[Member], topics: Collection[str], behaviour: ClientBehaviour) -> list[str]:
    """Return the existing topics in the order in which Kafka iterates them."""
    calls = [topic for subscription in distinct_subscriptions(members) for topic in subscription]
    if behaviour.is_rack_aware:
        # A set of names; those with metadata are put into a map.
        return hash_map_order(topic for topic in hash_map_order(calls) if topic in topics)
    # A list that an earlier member has too adds no topic. But Kafka's map grows at the entry of a call, even of the last one.
    last = next((position for position in range(len(members) - 1, -1, -1) if members[position].topics), 0)
    if any(member.topics == members[last].topics for member in members[:last]):
        calls.append(members[last].topics[-1])
    order = computed_hash_map_order(calls) if behaviour.inserts_topics_at_head else hash_map_order(calls)
    return [topic for topic in order if topic in topics]


class _TopicState:
    """The partitions of one topic that are not assigned yet."""

    def __init__(self, name: str, topic: Topic, count: int, consumers: Sequence[int], racks: Mapping[int, str]) -> None:
        """Start with a topic without assigned partitions.

        Args:
            name: the topic's name.
            topic: its metadata.
            count: the number of its partitions.
            consumers: its subscribers, in order.
            racks: the rack of every member that has one.
        """
        self.name = name
        self.count = count
        self.consumers = consumers
        self.share, self._extra = divmod(self.count, len(consumers))
        self._given: dict[int, int] = {}
        self._left = dict.fromkeys(range(self.count)) if racks else {}
        self.racks = {consumer: racks[consumer] for consumer in consumers if consumer in racks} if racks else {}
        self.partition_racks = partition_racks(topic) if self.racks else []
        self.needs_racks = bool(self.racks) and is_rack_aware(self.racks.values(), self.partition_racks)

    def room(self, consumer: int) -> int:
        """Return how many more partitions the consumer can get. The extra partitions go to the first consumers."""
        return self.share + (self._extra > 0) - self._given.get(consumer, 0)

    def shares_rack(self, consumer: int, partition: int) -> bool:
        """Return whether the consumer has no rack, or a rack with a replica of the partition."""
        return consumer not in self.racks or self.racks[consumer] in self.partition_racks[partition]

    def give(self, consumer: int, partitions: Sequence[int], held: Sequence[list[TopicPartition]]) -> None:
        """Give partitions to a consumer."""
        held[consumer] += zip((self.name,) * len(partitions), partitions, strict=True)
        self._given[consumer] = self._given.get(consumer, 0) + len(partitions)
        if self._given[consumer] > self.share:
            self._extra -= 1
        for partition in partitions:
            del self._left[partition]

    def deal_in_rack(self, held: Sequence[list[TopicPartition]], budget: StepBudget) -> None:
        """Give every consumer in turn as many partitions of its rack as it has room for."""
        for consumer in self.consumers:
            budget.spend(len(self._left))
            near = (partition for partition in self._left if self.shares_rack(consumer, partition))
            if partitions := list(islice(near, max(0, self.room(consumer)))):
                self.give(consumer, partitions, held)

    def deal_ranges(self, held: Sequence[list[TopicPartition]]) -> None:
        """Give every consumer in turn as many partitions as it has room for."""
        if not self._given:
            self._deal_closed_form(held)
            return
        for consumer in self.consumers:
            if partitions := list(islice(self._left, max(0, self.room(consumer)))):
                self.give(consumer, partitions, held)

    def _deal_closed_form(self, held: Sequence[list[TopicPartition]]) -> None:
        partitions = partitions_of(self.name, self.count)
        if not self.share:
            for consumer, partition in zip(self.consumers, partitions, strict=False):
                held[consumer].append(partition)
            return
        start = 0
        for index, consumer in enumerate(self.consumers):
            end = start + self.share + (index < self._extra)
            held[consumer] += partitions[start:end]
            start = end


def _deal_by_rack(states: Sequence[_TopicState], held: Sequence[list[TopicPartition]], budget: StepBudget) -> None:
    """Assign the partitions that can go to consumers in their rack.

    Topics with the same consumers and partition count are assigned together, even if racks do not matter for one of them. A
    topic without consumer racks counts as having no partitions here.
    """
    groups: defaultdict[tuple[tuple[int, ...], int], list[_TopicState]] = defaultdict(list)
    for state in states:
        groups[tuple(state.consumers), len(state.partition_racks)].append(state)
    for (_, partition_count), group in groups.items():
        if len(group) > 1:
            _deal_together(group, partition_count, held, budget)
        elif group[0].needs_racks:
            group[0].deal_in_rack(held, budget)


def _deal_together(group: Sequence[_TopicState], partition_count: int, held: Sequence[list[TopicPartition]], budget: StepBudget) -> None:
    """Give each partition number of all topics to the first consumer with room and the right rack for all of them."""
    remaining = list(group[0].consumers)
    for partition in range(partition_count):
        fits = (
            (examined, consumer)
            for examined, consumer in enumerate(remaining, start=1)
            if all(state.room(consumer) > 0 and state.shares_rack(consumer, partition) for state in group)
        )
        examined, consumer = next(fits, (len(remaining), None))
        budget.spend(examined)
        if consumer is None:
            continue
        for state in group:
            state.give(consumer, [partition], held)
        if not any(state.room(consumer) > 0 for state in group):
            remaining.remove(consumer)
