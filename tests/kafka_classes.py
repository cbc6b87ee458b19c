"""Kafka's own assignor classes, called in a JVM through py4j.

What goes in is given as the bytes that travel between client and broker, because one call can then carry a whole subscription or a
whole cluster, and because Kafka reads them with its own code.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from assignors import Assignment, GroupProblem, KafkaAssignorError, Member, Topic

CLASS_NAMES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
_SUBSCRIPTION_VERSION = 3
_METADATA_VERSION = 4


class KafkaClasses:
    """The classes of one kafka-clients jar in a class loader of their own."""

    def __init__(self, gateway: Any, jars: Sequence[str]) -> None:
        """Load the jars.

        Args:
            gateway: py4j's gateway to a JVM that has slf4j on its class path.
            jars: paths of kafka-clients and what it needs besides slf4j.
        """
        self._jvm = jvm = gateway.jvm
        urls = gateway.new_array(jvm.java.net.URL, len(jars))
        for place, jar in enumerate(jars):
            urls[place] = jvm.java.io.File(jar).toURI().toURL()
        self._loader = jvm.java.net.URLClassLoader(urls, jvm.java.lang.Thread.currentThread().getContextClassLoader())
        consumer = "org.apache.kafka.clients.consumer"
        self._new_assignor = {strategy: self._constructor(name) for strategy, name in CLASS_NAMES.items()}
        self._read_subscription = self._static_method(f"{consumer}.internals.ConsumerProtocol", "deserializeSubscription", 1)
        self._new_group = self._constructor(f"{consumer}.ConsumerPartitionAssignor$GroupSubscription")
        self._new_readable = self._constructor("org.apache.kafka.common.protocol.ByteBufferAccessor")
        # The version is a Java short, and py4j has ints only: let Java narrow it.
        read_metadata = self._static_method("org.apache.kafka.common.requests.MetadataResponse", "parse", 2)
        loose = read_metadata.type().changeParameterType(1, jvm.java.lang.Class.forName("java.lang.Object"))
        self._read_metadata = jvm.java.lang.invoke.MethodHandles.explicitCastArguments(read_metadata, loose)

    def cluster(self, problem: GroupProblem) -> Any:
        """Return Kafka's ``Cluster`` with the topics of the problem."""
        readable = self._call(self._new_readable, self._jvm.java.nio.ByteBuffer.wrap(encode_metadata(problem)))
        return self._call(self._read_metadata, readable, _METADATA_VERSION).buildCluster()

    def group_subscription(self, problem: GroupProblem) -> Any:
        """Return Kafka's ``GroupSubscription`` with the members of the problem; good for one call, as reading moves its buffers."""
        subscriptions = self._jvm.java.util.HashMap()
        for member in problem.members:
            subscription = self._call(self._read_subscription, self._jvm.java.nio.ByteBuffer.wrap(encode_subscription(member)))
            if member.group_instance_id is not None:
                subscription.setGroupInstanceId(self._jvm.java.util.Optional.of(member.group_instance_id))
            subscriptions.put(member.member_id, subscription)
        return self._call(self._new_group, subscriptions)

    def assign(self, strategy: str, problem: GroupProblem) -> Assignment:
        """Return Kafka's assignment.

        Raises:
            KafkaAssignorError: the class throws.
        """
        return self.assign_prepared(strategy, self.cluster(problem), self.group_subscription(problem))

    def assign_prepared(self, strategy: str, cluster: Any, group_subscription: Any) -> Assignment:
        """Return Kafka's assignment of a prepared group.

        Raises:
            KafkaAssignorError: the class throws.
        """
        from py4j.protocol import Py4JJavaError

        assignor = self.new_assignor(strategy)
        try:
            result = assignor.assign(cluster, group_subscription).groupAssignment()
        except Py4JJavaError as error:
            raise KafkaAssignorError(error.java_exception.getClass().getSimpleName(), str(error.java_exception.getMessage())) from None
        return parse_assignment(result.toString())

    def new_assignor(self, strategy: str) -> Any:
        """Return a new assignor object."""
        return self._call(self._new_assignor[strategy])

    def _constructor(self, class_name: str) -> Any:
        constructors = self._loader.loadClass(class_name).getConstructors()
        assert len(constructors) == 1, f"{class_name} has {len(constructors)} constructors, expected one"
        return self._jvm.java.lang.invoke.MethodHandles.publicLookup().unreflectConstructor(constructors[0])

    def _static_method(self, class_name: str, name: str, parameter_count: int) -> Any:
        methods = [
            method
            for method in self._loader.loadClass(class_name).getMethods()
            if method.getName() == name and method.getParameterCount() == parameter_count
        ]
        assert len(methods) == 1, f"{class_name} has {len(methods)} methods {name} with {parameter_count} parameters, expected one"
        return self._jvm.java.lang.invoke.MethodHandles.publicLookup().unreflect(methods[0])

    def _call(self, handle: Any, *arguments: Any) -> Any:
        values = self._jvm.java.util.ArrayList()
        for argument in arguments:
            values.add(argument)
        return handle.invokeWithArguments(values)


def encode_subscription(member: Member) -> bytes:
    """Return a subscription as a client sends it, version 3, with topics and claims in the order given."""
    parts = [struct.pack(">hi", _SUBSCRIPTION_VERSION, len(member.topics)), *map(_string, member.topics)]
    parts.append(struct.pack(">i", -1) if member.user_data is None else struct.pack(">i", len(member.user_data)) + member.user_data)
    runs = [(topic, [number for _, number in run]) for topic, run in groupby(member.owned, key=itemgetter(0))]
    parts.append(struct.pack(">i", len(runs)))
    parts += (_string(topic) + _numbers(numbers) for topic, numbers in runs)
    parts.append(struct.pack(">i", -1 if member.owned_generation is None else member.owned_generation))
    parts.append(struct.pack(">h", -1) if member.rack is None else _string(member.rack))
    return b"".join(parts)


def encode_metadata(problem: GroupProblem) -> bytes:
    """Return a metadata response, version 4, with one broker for every rack and one without."""
    racks = sorted({rack for topic in problem.topics.values() for held in topic.partition_racks or () for rack in held if rack is not None})
    brokers = {rack: number for number, rack in enumerate([None, *racks])}
    parts = [struct.pack(">ii", 0, len(brokers))]
    for rack, number in brokers.items():
        parts.append(struct.pack(">i", number) + _string("localhost") + struct.pack(">i", 9092))
        parts.append(struct.pack(">h", -1) if rack is None else _string(rack))
    parts.append(struct.pack(">hii", -1, 0, len(problem.topics)))
    for name, topic in problem.topics.items():
        parts.append(struct.pack(">h", 0) + _string(name) + struct.pack(">?i", False, topic.partition_count))
        parts += (_partition(topic, number, brokers) for number in range(topic.partition_count))
    return b"".join(parts)


def parse_assignment(text: str) -> Assignment:
    """Return the assignment that Java prints as ``{m=Assignment(partitions=[t-0, t-1]), ...}``; names must be plain."""
    return {
        member_id: tuple((topic, int(number)) for topic, number in re.findall(r"([^\s,]+)-(\d+)(?=,|$)", partitions))
        for member_id, partitions in re.findall(r"([^\s{,]+)=Assignment\(partitions=\[([^\]]*)\]\)", text)
    }


def _partition(topic: Topic, number: int, brokers: dict[str | None, int]) -> bytes:
    replicas = [brokers[rack] for rack in topic.partition_racks[number]] if topic.partition_racks else [0]
    return struct.pack(">hii", 0, number, replicas[0]) + _numbers(replicas) + _numbers(replicas)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _numbers(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
