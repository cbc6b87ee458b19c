"""How a group gets to a scenario: what a person has to do, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assignors.generation.generation import COOPERATIVE, SERVER_SIDE
from jobs.pages.figures import counted
from jobs.reading.stored import StoredGeneration
from jobs.what_if.changes import Changes
from schemas.vocabulary import SERVER_STRATEGIES_BY_NAME, Flavour

_PROPERTY = "partition.assignment.strategy"
_JAVA_CLASSES = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
"""Assignor -> its class in org.apache.kafka.clients.consumer: Java's clients take no other names, and librdkafka's no classes."""
_SETTINGS = {
    Flavour.KAFKA_PYTHON.value: "partition_assignment_strategy",
    Flavour.FRANZ_GO.value: "kgo.Balancers",
    Flavour.SARAMA.value: "Consumer.Group.Rebalance.GroupStrategies",
    Flavour.KAFKAJS.value: "partitionAssigners",
}
"""Client library -> where its code has the assignors. Java and librdkafka have the property partition.assignment.strategy."""
_NAMES_ON_BROKERS = {ours: kafkas for kafkas, ours in SERVER_STRATEGIES_BY_NAME.items()}


def steps_to(group: StoredGeneration, changes: Changes, strategy: str, threads: int, partition_counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence a step; none for a group that only rebalances.

    Args:
        strategy: the assignor afterwards.
        threads: consumers of each member that is counted.
        partition_counts: topic -> its partitions as far as a metadata snapshot shows them.
    """
    yield from _to_partitions(group, changes, partition_counts)
    if changes.subscribe is not None:
        yield f"Deploy members that subscribe to {', '.join(changes.subscribe)}."
    if changes.static_ids and any(member.group_instance_id is None for member in group.generation.problem.members):
        yield "Set group.instance.id of each member, another one for each, and restart the members one after another."
    for pattern, rack in changes.rack.items():
        yield f"Set client.rack={rack} of the members {pattern}, and restart them one after another."
    yield from _to_strategy(group, strategy)
    yield from _to_members(changes, threads)


def _to_partitions(group: StoredGeneration, changes: Changes, partition_counts: Mapping[str, int]) -> Iterator[str]:
    """Yield which topics have to grow: Kafka refuses to alter one that has as many partitions."""
    for topic, count in sorted(changes.partitions.items()):
        known = group.generation.problem.topics.get(topic)
        counts = [one for one in (known and known.partition_count, partition_counts.get(topic)) if one]
        if not counts or max(counts) < count:
            condition = "" if counts else ", unless it has them"
            command = f"kafka-topics.sh --bootstrap-server HOST:PORT --alter --topic {topic} --partitions {count}"
            yield f"Give topic {topic} {counted(count, 'partition')}{condition}: {command}."


def _to_members(changes: Changes, threads: int) -> Iterator[str]:
    each = f", {threads} consumers each" if threads > 1 else ""
    if isinstance(changes.remove_members, str):
        yield f"Stop the members {changes.remove_members}."
    elif changes.remove_members:
        yield f"Stop {_members(changes.remove_members)}{each}; here the last in order leave."
    if isinstance(changes.add_members, tuple):
        yield f"Start the members {', '.join(changes.add_members)}."
    elif changes.add_members:
        at_once = ", all at once, so that the group rebalances once" if changes.add_members > 1 else ""
        yield f"Start {_members(changes.add_members)}{each}{at_once}."


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _to_strategy(group: StoredGeneration, strategy: str) -> Iterator[str]:
    today = group.generation.strategy
    if strategy == today:
        return
    if strategy in SERVER_SIDE and group.is_consumer_protocol:
        yield f"Set group.remote.assignor={_NAMES_ON_BROKERS.get(strategy, strategy)} of the members, and restart them one after another."
    elif strategy in SERVER_SIDE:
        yield from _to_consumer_protocol(strategy)
    elif group.is_consumer_protocol:
        yield "Check that group.consumer.migration.policy of the brokers is bidirectional or downgrade."
        yield (
            f"Set group.protocol=classic and partition.assignment.strategy={strategy} of the members, and restart them one after another. "
            f"The group is classic again when the last member of the consumer protocol has left.{_in_java(group, strategy)}"
        )
    else:
        yield from _to_client_strategy(group, today, strategy)


def _to_consumer_protocol(strategy: str) -> Iterator[str]:
    yield "Check that the brokers run Kafka 4.0 or later, and that their group.consumer.migration.policy is bidirectional or upgrade."
    yield (
        f"Set group.protocol=consumer and group.remote.assignor={_NAMES_ON_BROKERS.get(strategy, strategy)} of the members. Take out "
        "partition.assignment.strategy, session.timeout.ms and heartbeat.interval.ms: brokers decide these."
    )
    yield "Restart the members one after another (KIP-848). The first one converts the group while the others go on reading."


def _to_client_strategy(group: StoredGeneration, today: str, strategy: str) -> Iterator[str]:
    changes_protocol = (today in COOPERATIVE) != (strategy in COOPERATIVE)
    if changes_protocol and group.leader_client == Flavour.LIBRDKAFKA:
        yield (
            f"Stop all members, set partition.assignment.strategy={strategy}, and start them again: librdkafka refuses a list with "
            "eager and cooperative assignors."
        )
        return
    rule = " (KIP-429)" if changes_protocol else ""
    if not today:
        yield (
            f"Set {_SETTINGS.get(group.leader_client or '', _PROPERTY)} of the members to {strategy}, followed by the assignor that they "
            f"have now, and restart them one after another. Until all have it, the group keeps that assignor.{_in_java(group, strategy)}"
        )
        yield f"When all have it, the group uses {strategy}: take out the other one, and restart them one after another again."
        return
    # Each member votes for the first one in its list that all members have.
    yield (
        f"Set {_set_to(group, strategy, today)}, and restart them one after another{rule}. Until all have "
        f"it, the group keeps {today}.{_in_java(group, strategy, today)}"
    )
    is_still_eager = " Until then they still give up all partitions in each rebalance." if strategy in COOPERATIVE and rule else ""
    yield f"When all have it, the group uses {strategy}: take out {today}, and restart them one after another again.{is_still_eager}"


def _set_to(group: StoredGeneration, *strategies: str) -> str:
    """Return which setting of the members gets these assignors, in the words of their client library."""
    setting = _SETTINGS.get(group.leader_client or "")
    return f"{setting} of the members to {', '.join(strategies)}" if setting else f"{_PROPERTY}={','.join(strategies)} of the members"


def _in_java(group: StoredGeneration, *strategies: str) -> str:
    """Return a sentence with the classes that Java's clients take for assignors; empty for a group of another library."""
    classes = [f"org.apache.kafka.clients.consumer.{_JAVA_CLASSES[name]}" for name in strategies if name in _JAVA_CLASSES]
    if not classes or group.leader_client not in (None, Flavour.JAVA):
        return ""
    return f" Java takes class names: {', '.join(classes)}."
