"""Kafka's own assignor classes, of several releases side by side, asked in one JVM: ``KafkaClasses.java``.

Integers travel big endian; a string as the number of its bytes and UTF-16; what is absent as the number -1.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from assignors import Assignment, GroupProblem, KafkaAssignorError, Member, NoResultError, Topic
from tests.maven_jars import jar_name, pinned_jars

CLASS_NAMES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "uniform": "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "server-range": "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
}
CLIENT_RELEASES = "0.11.0.3 2.0.1 2.2.2 2.3.1 2.4.1 2.5.1 2.8.2 3.0.2 3.4.0 3.4.1 3.5.2 3.7.1 4.3.1 4.4.0".split()
BROKER_RELEASES = "3.9.1 4.0.0 4.1.1 4.3.1".split()
"""The releases at which answers change, the oldest and the newest."""
JARS = Path(__file__).with_name("kafka_classes_jars.txt")
SHARED_JARS = ("org.slf4j:slf4j-api:1.7.36", "org.pcollections:pcollections:4.0.2")
LONGEST_ANSWER_S = 60
_SUBSCRIPTION_VERSION = 3
_INT = struct.Struct(">i")


class KafkaClasses:
    """A JVM with the classes of all releases, each release in a class loader of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._groups: BinaryIO = process.stdin  # type: ignore[assignment]
        self._answers: BinaryIO = process.stdout  # type: ignore[assignment]

    def assign(self, strategy: str, problem: GroupProblem, release: str) -> Assignment:
        """Return Kafka's assignment, members and partitions in its order.

        Raises:
            KafkaAssignorError: the class throws.
            NoResultError: it has not returned after ``LONGEST_ANSWER_S``.
        """
        return self.assign_timed(strategy, problem, release, 1)[0]

    def assign_timed(self, strategy: str, problem: GroupProblem, release: str, repeats: int) -> tuple[Assignment, float]:
        """Return Kafka's assignment and the least seconds of several calls, of as many as there is time for in ``LONGEST_ANSWER_S``.

        Raises:
            KafkaAssignorError: the class throws.
            NoResultError: it has not returned after ``LONGEST_ANSWER_S``.
        """
        head = [_string(release), _string(CLASS_NAMES[strategy]), _INT.pack(repeats)]
        self._groups.write(b"".join([*head, *_encode_group(problem)]))
        self._groups.flush()
        kind = self._read_int()
        if kind == 0:
            seconds = int.from_bytes(self._read(8), "big") / 1e9
            return {self._read_string(): tuple(self._read_partitions()) for _ in range(self._read_int())}, seconds
        if kind == 1:
            raise KafkaAssignorError(self._read_string(), self._read_string())
        raise NoResultError(f"{strategy} of {release} has not returned after {LONGEST_ANSWER_S} s", is_cycle=False)

    def _read_partitions(self) -> Iterator[tuple[str, int]]:
        for _ in range(self._read_int()):
            yield self._read_string(), self._read_int()

    def _read_string(self) -> str:
        return self._read(self._read_int()).decode("utf-16-be")

    def _read_int(self) -> int:
        number: int = _INT.unpack(self._read(_INT.size))[0]
        return number

    def _read(self, size: int) -> bytes:
        data = self._answers.read(size)
        if len(data) < size:
            raise EOFError("the JVM with Kafka's classes has ended; stderr says why")
        return data


@contextmanager
def kafka_classes(java_options: Sequence[str] = ("-Xmx1g", "-XX:TieredStopAtLevel=1")) -> Iterator[KafkaClasses]:
    """Yield the classes of all releases.

    Args:
        java_options: options of the JVM; those that are given unless others are suit many small groups.

    Raises:
        JarsNotThereError: their jars cannot be fetched.
    """
    folder = pinned_jars(JARS, "kafka-classes")
    coordinates = [line.split()[1] for line in JARS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]

    def path(chosen: Iterable[str]) -> str:
        return ":".join(str(folder / jar_name(coordinate)) for coordinate in chosen)

    releases = dict.fromkeys([*CLIENT_RELEASES, *BROKER_RELEASES])
    paths = [f"{release}={path(coordinate for coordinate in coordinates if coordinate.endswith(f':{release}'))}" for release in releases]
    source = str(Path(__file__).with_name("KafkaClasses.java"))
    command = ["java", "-XX:+UseSerialGC", *java_options, source, str(LONGEST_ANSWER_S), path(SHARED_JARS), *paths]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield KafkaClasses(process)


def encode_subscription(member: Member) -> bytes:
    """Return a subscription as a client sends it, version 3, with topics and claims in the order given."""
    parts = [struct.pack(">hi", _SUBSCRIPTION_VERSION, len(member.topics)), *map(_short_string, member.topics)]
    parts.append(_bytes(member.user_data))
    runs = [(topic, [number for _, number in run]) for topic, run in groupby(member.owned, key=itemgetter(0))]
    parts.append(_INT.pack(len(runs)))
    parts += (_short_string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in runs)
    parts.append(_INT.pack(-1 if member.owned_generation is None else member.owned_generation))
    parts.append(struct.pack(">h", -1) if member.rack is None else _short_string(member.rack))
    return b"".join(parts)


def _encode_group(problem: GroupProblem) -> Iterator[bytes]:
    yield _INT.pack(len(problem.topics))
    for name, topic in problem.topics.items():
        yield from _encode_topic(name, topic)
    yield _INT.pack(len(problem.members))
    for member in problem.members:
        yield _string(member.member_id)
        yield _strings(member.topics)
        yield _string(member.group_instance_id)
        yield _string(member.rack)
        yield _INT.pack(-1 if member.owned_generation is None else member.owned_generation)
        yield _bytes(member.user_data)
        yield _INT.pack(len(member.owned))
        for claimed, number in member.owned:
            yield _string(claimed) + _INT.pack(number)


def _encode_topic(name: str, topic: Topic) -> Iterator[bytes]:
    yield _string(name)
    yield _string(topic.topic_id)
    yield struct.pack(">i?", -1 if topic.partition_count is None else topic.partition_count, topic.partition_racks is not None)
    yield from map(_strings, topic.partition_racks or ())


def _short_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _strings(texts: Sequence[str | None]) -> bytes:
    return _INT.pack(len(texts)) + b"".join(map(_string, texts))


def _string(text: str | None) -> bytes:
    return _bytes(None if text is None else text.encode("utf-16-be"))


def _bytes(data: bytes | None) -> bytes:
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data
