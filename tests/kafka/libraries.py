"""Client libraries with one face: members of groups that join, leave, stall and die as a test orders."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests.kafka.clients import SESSION, Java, KafkaPython
from tests.kafka.groups import Groups

ROOT = Path(__file__).resolve().parents[2]
NEW_PROTOCOL = {"group.protocol": "consumer"}
IN_PROCESS_OF_ITS_OWN = """
import json, sys
from tests.kafka import clients, groups, libraries
library, address, joining = sys.argv[1:]
if library == "librdkafka":
    members = libraries.OfLibrdkafka(groups.Groups(address), address)
else:
    members = libraries.OfKafkaPython(clients.KafkaPython(address), address)
for one in json.loads(joining):
    members.join(*one)
while True:
    members.poll()
"""


class Joining(NamedTuple):
    """A member that is going to join. Names of properties have dots."""

    group_id: str
    topics: Sequence[str]
    client_id: str
    properties: Mapping[str, str]


class Mortal(Protocol):
    """Members in a process of their own."""

    def kill(self) -> None:
        """End them as ``kill -9`` does."""


class Library(Protocol):
    """A client library. Names of properties have dots."""

    def join(self, group_id: str, topics: Sequence[str], client_id: str, properties: Mapping[str, str]) -> Any:
        """Add a member: a classic one with ``range`` if the properties have no protocol."""

    def join_apart(self, *members: Joining) -> Mortal:
        """Add members in a process of their own."""

    def leave(self, member: Any) -> None:
        """Have a member close. A static one stays in the group."""

    def unsubscribe(self, member: Any) -> None:
        """Have a member unsubscribe from everything, and stay open."""

    def stall(self, member: Any) -> None:
        """Have a member poll no more."""

    def poll(self) -> None:
        """Give all members a moment."""


def _with_protocol(properties: Mapping[str, str], classic: dict[str, str]) -> dict[str, str]:
    return dict(properties) if "group.protocol" in properties else {**classic, **properties}


class OfJava:
    """Members of Kafka's own client. They run by themselves."""

    def __init__(self, client: Java) -> None:
        self._client = client
        self.leave, self.unsubscribe, self.stall = client.leave, client.unsubscribe, client.stall

    def join(self, group_id: str, topics: Sequence[str], client_id: str, properties: Mapping[str, str]) -> Any:
        """Add a member."""
        classic = {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor", **SESSION}
        return self._client.join(group_id, {"client.id": client_id, **_with_protocol(properties, classic)}, topics=topics)

    def join_apart(self, *members: Joining) -> Java:
        """Add members in a JVM of their own."""
        apart = Java(self._client.address)
        for one in members:
            OfJava(apart).join(*one)
        return apart

    def poll(self) -> None:
        """Let a moment pass."""
        time.sleep(0.02)


class OfLibrdkafka:
    """Members of librdkafka. One that nobody polls does not join again."""

    def __init__(self, groups: Groups, address: str) -> None:
        self._groups, self._address = groups, address
        self.leave, self.unsubscribe, self.stall, self.poll = groups.leave, groups.unsubscribe, groups.stall, groups.poll

    def join(self, group_id: str, topics: Sequence[str], client_id: str, properties: Mapping[str, str]) -> Any:
        """Add a member."""
        given = {"client.id": client_id, **_with_protocol(properties, {"partition.assignment.strategy": "range"})}
        protocol = given.pop("group.protocol", "classic")
        return self._groups.join(group_id, protocol=protocol, topics=topics, **{key.replace(".", "_"): given[key] for key in given})

    def join_apart(self, *members: Joining) -> Mortal:
        """Add members in a process of their own."""
        return _python("librdkafka", self._address, members)


class OfKafkaPython:
    """Members of kafka-python, a thread each. The library has the classic protocol only."""

    def __init__(self, client: KafkaPython, address: str) -> None:
        self._client, self._address = client, address
        self.leave, self.unsubscribe, self.stall = client.leave, client.unsubscribe, client.stall

    def join(self, group_id: str, topics: Sequence[str], client_id: str, properties: Mapping[str, str]) -> Any:
        """Add a member."""
        given: dict[str, Any] = {key.replace(".", "_"): int(value) if value.isdigit() else value for key, value in properties.items()}
        return self._client.join(group_id, {"client_id": client_id, **given}, topics=topics)

    def join_apart(self, *members: Joining) -> Mortal:
        """Add members in a process of their own."""
        return _python("kafka-python", self._address, members)

    def poll(self) -> None:
        """Let a moment pass."""
        time.sleep(0.02)


def _python(library: str, address: str, members: Sequence[Joining]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", IN_PROCESS_OF_ITS_OWN, library, address, json.dumps(members)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
