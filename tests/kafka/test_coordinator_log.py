"""Why members left, as a real coordinator logs it: the causes of generations from its log and its records.

Each group has the members of one client library and one protocol. Something else happens to each member, which is named after it.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from jobs.audit.causes import EVENT_FIELDS, LoggedEvent, around_of, explain
from jobs.decoders.coordinator_log import DecodedLog, decode_piece
from schemas.vocabulary import CauseSource
from tests.kafka.broker import Broker
from tests.kafka.clients import Java, KafkaPython
from tests.kafka.conversions import Coordinator, Snapshot
from tests.kafka.groups import Groups, empty_groups
from tests.kafka.libraries import NEW_PROTOCOL, Joining, Library, Mortal, OfJava, OfKafkaPython, OfLibrdkafka

WITHOUT_REASON = {
    ("closes", "left"),
    ("unsubscribes", "left"),
    ("stalls", "left"),
    ("killed", "session_expired"),
    ("removed", "removed_by_admin"),
}
"""What a log can say where a request to leave has no reason."""
FENCING = {("doubled", "fenced"), ("doubled", "static_returned")}
"""Only the classic protocol lets a second member with the same instance id take over, and gives it the client id of the first.

The consumer protocol refuses it: nothing changes.
"""
WITH_REASONS = {
    ("closes", "closed"),
    ("unsubscribes", "unsubscribed"),
    ("stalls", "poll_timeout"),
    ("killed", "session_expired"),
    ("removed", "removed_by_admin"),
    ("stays", "enforced"),
}
"""Only Kafka's own client sends reasons, and only with the classic protocol. It is also the only one that can enforce a rebalance."""
EXPECTED = {
    ("java", "classic"): WITH_REASONS | FENCING,
    ("java", "consumer"): WITHOUT_REASON,
    ("librdkafka", "classic"): WITHOUT_REASON | FENCING,
    ("librdkafka", "consumer"): WITHOUT_REASON - {("stalls", "left")},
    ("kafka-python", "classic"): WITHOUT_REASON | FENCING,
}
"""Client library and protocol -> each member with the cause that the log names, once. Other members have none."""
EXPIRES_IN_TIME = {("librdkafka", "consumer"): {("stalls", "session_expired")}}
"""The member that nobody polls does not leave. Now and then it sends no heartbeat either, and its session ends before all others left."""
JOINING = ("joined", "leader_rejoined", "member_rejoined")
"""How members come, and join again without a reason: how often depends on the moment."""
WHY, WHY_REMOVED = "the cache is cold", "moved to another node"
STATIC = {name: {"group.instance.id": name} for name in ("removed", "doubled")}
STALLED = {"stalls": {"max.poll.interval.ms": "9000"}}
FENCED_OR_REFUSED = r"(?:Request memberId=|Static member )(\S+) .* (?:is fenced by existing memberId=|cannot join the group because )"
PREFIXES = ("log", "log-again", "log-once-more")
"""The beginning of the names of groups, of each attempt."""
FIRST = ("closes", "unsubscribes", "stalls", "removed", "doubled")


@dataclass
class Group:
    """A group of one client library and protocol, with its members by their client ids."""

    group_id: str
    library: Library
    protocol: str
    topic: str
    expected: set[tuple[str, str]]
    members: dict[str, Any] = field(default_factory=dict)

    def properties(self, name: str) -> dict[str, str]:
        """Return the properties of a member."""
        protocol = NEW_PROTOCOL if self.protocol == "consumer" else {}
        return {**protocol, **STATIC.get(name, {}), **STALLED.get(name, {})}

    @property
    def gone(self) -> set[str]:
        """The members that have left in the end."""
        return {name for name, _ in self.expected} - {"stays", "doubled"}

    def join(self, name: str, properties_of: str = "") -> None:
        """Add a member, with the properties of another one if it is named."""
        self.members[name] = self.library.join(self.group_id, [self.topic], name, self.properties(properties_of or name))


@dataclass
class Happened:
    """What is written in the end.

    Attributes:
        groups: group ids by client library and protocol.
        snapshots: the generations of each group, in order.
        log: what the product reads in the broker's log.
    """

    groups: dict[tuple[str, str], str]
    snapshots: dict[str, list[Snapshot]]
    log: DecodedLog

    def causes(self, library: str, protocol: str) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield client id, cause and detail of each cause that the log names of a group, but for those of ``JOINING``."""
        group_id = self.groups[library, protocol]
        clients = {one["member_id"]: one["client_id"] for snapshot in self.snapshots[group_id] for one in snapshot["members"]}
        events = [
            LoggedEvent(row["logged_at_ms"], *(row[name] for name in EVENT_FIELDS))  # type: ignore[literal-required]  # names of columns
            for row in self.log.rows
            if row["group_id"] == group_id or (row["group_id"] is None and row["member_id"] in clients)
        ]
        rows = [
            {
                "at_ms": snapshot["observed_at"] // 1000,
                "generation": snapshot["generation"],
                "incarnation": 0,
                "member_ids": [one["member_id"] for one in snapshot["members"]],
                "instance_ids": [one["group_instance_id"] for one in snapshot["members"]],
                "triggers": None,
            }
            for snapshot in self.snapshots[group_id]
        ]
        for before, row in pairwise([None, *rows]):
            assert row is not None
            for cause in explain(around_of(before, row), events).causes:
                assert cause.source is CauseSource.LOG
                if cause.cause not in JOINING:
                    yield clients.get(cause.member_id or "", cause.member_id or ""), cause.cause.value, cause.detail


class StoodStillError(Exception):
    """What should happen has not happened in time."""


class Play:
    """All groups, and all that happens to their members."""

    def __init__(self, broker: Broker, ending: ExitStack, prefix: str) -> None:
        """Connect all clients.

        Args:
            ending: gets what ends the clients.
            prefix: of the names of groups.
        """
        self._server_log = broker.server_log
        self._coordinator, self._java = Coordinator(broker), Java(broker.address)
        self._librdkafka, kafka_python = Groups(broker.address), KafkaPython(broker.address)
        self._apart: list[Mortal] = []
        libraries: dict[str, Library] = {
            "java": OfJava(self._java),
            "librdkafka": OfLibrdkafka(self._librdkafka, broker.address),
            "kafka-python": OfKafkaPython(kafka_python, broker.address),
        }
        (topic,) = self._coordinator.make_topics(f"{prefix}-coordinator-log", 1)
        self._group_ids = {(name, protocol): f"{prefix}-{name}-{protocol}" for name, protocol in EXPECTED}
        self._groups = [Group(self._group_ids[key], libraries[key[0]], key[1], topic, expected) for key, expected in EXPECTED.items()]
        ending.callback(empty_groups, broker.address, [group.group_id for group in self._groups])
        for client in (self._coordinator, self._librdkafka, kafka_python, self._java):
            ending.callback(client.close)
        ending.callback(self._kill)

    def run(self) -> Happened:
        """Have everything happen, and return what is written of it."""
        for group in self._groups:  # the first member leads its group as long as it is there
            group.join("stays")
        self._wait_for_members("stays")
        for group in self._groups:
            for name in FIRST:
                group.join(name)
            apart = group.library.join_apart(Joining(group.group_id, [group.topic], "killed", group.properties("killed")))
            self._apart.append(apart)
        self._wait_for_members("stays", "killed", *FIRST)
        self._ask_to_leave()
        self._double()
        for group in self._groups:
            group.library.stall(group.members["stalls"])
        self._kill()
        self._wait_for(lambda: all(group.gone.isdisjoint(self._client_ids(group)) for group in self._groups))
        snapshots = {group.group_id: self._snapshots(group) for group in self._groups}
        return Happened(self._group_ids, snapshots, decode_piece(self._server_log.read_bytes()))

    def _ask_to_leave(self) -> None:
        for group in self._groups:
            group.library.leave(group.members["closes"])
            group.library.unsubscribe(group.members["unsubscribes"])
        self._wait_for_members("stays", "killed", "stalls", "removed", "doubled")
        for group in self._groups:
            group.library.leave(group.members["removed"])
            self._java.remove(group.group_id, "removed", WHY_REMOVED)
        self._wait_for_members("stays", "killed", "stalls", "doubled")

    def _double(self) -> None:
        """Enforce a rebalance, and when it has ended, have a second member with an instance id come to each group."""
        of_java = [group for group in self._groups if isinstance(group.library, OfJava)]
        before = {group.group_id: len(self._snapshots(group)) for group in of_java if group.protocol == "classic"}
        for group in of_java:
            self._java.enforce(group.members["stays"], WHY)
        self._wait_for(lambda: all(len(self._snapshots(group)) > before.get(group.group_id, 0) for group in of_java))
        for group in self._groups:
            group.join("double", "doubled")
        self._wait_for(lambda: len(self._named(FENCED_OR_REFUSED)) >= len(self._groups))

    def _kill(self) -> None:
        while self._apart:
            self._apart.pop().kill()

    def _snapshots(self, group: Group) -> list[Snapshot]:
        return self._coordinator.snapshots(group.group_id)

    def _client_ids(self, group: Group) -> set[str]:
        return {member["client_id"] for snapshot in self._snapshots(group)[-1:] for member in snapshot["members"]}

    def _named(self, line: str) -> set[str]:
        """Return the members in such lines of the broker's log."""
        return set(re.findall(line, self._server_log.read_text(errors="replace")))

    def _wait_for_members(self, *names: str) -> None:
        """Wait until the newest generation of each group has these members."""
        self._wait_for(lambda: all(self._client_ids(group) == set(names) for group in self._groups))

    def _wait_for(self, found: Callable[[], bool]) -> None:
        try:
            self._coordinator.wait_for(lambda: found() or None, self._librdkafka.poll)
        except AssertionError as error:
            members = {group.group_id: sorted(self._client_ids(group)) for group in self._groups}
            raise StoodStillError(f"members of the newest generations: {members}") from error


@pytest.fixture(scope="module")
def happened(broker: Broker) -> Iterator[Happened]:
    """All that happened.

    Now and then a client stands still, or misses its session on a busy machine. Then everything happens once more, to other groups.
    """
    for prefix in PREFIXES:
        with ExitStack() as ending:
            try:
                happened = Play(broker, ending, prefix).run()
            except StoodStillError as error:
                if prefix == PREFIXES[-1]:
                    raise
                warnings.warn(f"the clients begin again: {error}", stacklevel=1)
                with suppress(Exception):  # what stands still may not end in time either
                    ending.close()
                continue
            yield happened
            return


@pytest.mark.parametrize(("library", "protocol"), EXPECTED)
def test_log_names_the_cause_of_each_member_that_leaves(library: str, protocol: str, happened: Happened) -> None:
    found = Counter((client_id, cause) for client_id, cause, _ in happened.causes(library, protocol))
    sometimes = EXPIRES_IN_TIME.get((library, protocol), set())
    assert found in (Counter(EXPECTED[library, protocol]), Counter(EXPECTED[library, protocol] | sometimes))


def test_reasons_of_users_are_details(happened: Happened) -> None:
    details = {(client_id, detail) for client_id, _, detail in happened.causes("java", "classic")}
    assert {("stays", WHY), ("removed", WHY_REMOVED)} <= details


def test_all_lines_of_coordinators_are_read(happened: Happened) -> None:
    assert happened.log.refused == [] and happened.log.rows
