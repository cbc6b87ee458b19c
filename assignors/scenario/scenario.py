"""What shall be changed about a group: one or several changes at a time, checked as far as they can be without the group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignors.generation.generation import SERVER_SIDE, STREAMS

CLASSIC, CONSUMER = "classic", "consumer"

ZOOKEEPER = frozenset({"legacy-range", "legacy-roundrobin"})
"""The strategies of consumers that know no coordinator, and so no generations."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Changes to a group's newest settled generation; without any, the group only rebalances once.

    Attributes:
        added: how many members join, or their member ids.
        removed: how many members leave, the last ones in the order of ``ordering.member_order``; or a pattern such as ``payments-*``, which
            a leaving member's id or instance id matches. Members leave before others join.
        partition_counts: topic -> its partition count afterwards; a topic can only grow. A topic that the group did not know is new.
        topics: what every member subscribes to afterwards; None is as before.
        subscriptions: member id -> what this member subscribes to afterwards, whatever ``topics`` says.
        strategy: the assignor afterwards; None is as before, and ``uniform`` for a group that changes to the consumer protocol.
        protocol: ``classic`` or ``consumer`` (KIP-848); None is that of the strategy.
        instance_ids: member id -> the instance id that makes the member static; None for one that is not static.
        racks: pattern of member ids or instance ids -> the rack of the members that match; the first that matches counts.

    Raises:
        ValueError: a change contradicts itself or another one. The text says which, and what was expected.

    >>> Scenario(added=-1)
    Traceback (most recent call last):
    ValueError: added members: found -1, expected 0 or more, or names
    """

    added: int | tuple[str, ...] = 0
    removed: int | str = 0
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    topics: tuple[str, ...] | None = None
    subscriptions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    strategy: str | None = None
    protocol: str | None = None
    instance_ids: Mapping[str, str | None] = field(default_factory=dict)
    racks: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.added, str) or (isinstance(self.added, int) and self.added < 0):
            raise ValueError(f"added members: found {self.added!r}, expected 0 or more, or names")
        if isinstance(self.added, tuple):
            _require_names("added members", self.added)
        if isinstance(self.removed, int) and self.removed < 0:
            raise ValueError(f"removed members: found {self.removed}, expected 0 or more, or a pattern of names")
        for topic, count in self.partition_counts.items():
            if count < 1:
                raise ValueError(f"partitions of topic {topic!r}: found {count}, expected 1 or more")
        for topics in (*(() if self.topics is None else (self.topics,)), *self.subscriptions.values()):
            if isinstance(topics, str):
                raise ValueError(f"subscribed topics: found the text {topics!r}, expected a tuple of topic names")
            _require_names("subscribed topics", topics)
        _require_names("instance ids", tuple(name for name in self.instance_ids.values() if name is not None))
        self._require_protocol()

    def _require_protocol(self) -> None:
        if self.strategy in ZOOKEEPER or self.strategy == STREAMS:
            raise ValueError(f"strategy: found {self.strategy!r}, expected an assignor of consumer groups, such as 'range' or 'uniform'")
        if self.protocol not in (None, CLASSIC, CONSUMER):
            raise ValueError(f"protocol: found {self.protocol!r}, expected {CLASSIC!r} or {CONSUMER!r}")
        if self.strategy is None or self.protocol is None:
            return
        if (self.strategy in SERVER_SIDE) != (self.protocol == CONSUMER):
            expected = "'uniform' or 'server-range'" if self.protocol == CONSUMER else "an assignor of clients, such as 'range'"
            raise ValueError(f"strategy of the {self.protocol} protocol: found {self.strategy!r}, expected {expected}")


def _require_names(what: str, names: tuple[str, ...]) -> None:
    """Refuse empty names and names that come twice."""
    if "" in names:
        raise ValueError(f"{what}: found an empty name, expected a text")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{what}: found {repeated[0]!r} more than once, expected each name once")
