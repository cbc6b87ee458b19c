"""The content of a text of ``kafka-consumer-groups``: groups with their members and offsets, and lines without use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Assignment = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics by name, each with its partitions by number: the tool does not print Kafka's order."""
Key = tuple[Any, ...]

MALFORMED_LINE, TWO_LOOKS, FAILED_COMMAND = "malformed_line", "two_looks", "failed_command"
"""Kinds of rejects."""
NOT_A_TABLE_LINE = "not_a_table_line"
"""Kind of skipped lines that do not look like a row: headings, prompts, output of other programs."""
ABSENT_GROUP = "absent_group"
"""Kind of skipped lines in which the tool says that a group does not exist."""
OTHER_GROUP = "no_consumer_group"
"""Kind of skipped lines in which the tool says that a group is of another kind, such as a share group."""


class Place(NamedTuple):
    """A line of one of the files; ``number`` counts from 1. A folded row has the place of its first line."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name} line {self.number}".lstrip()


class Line(NamedTuple):
    """A line that was not used; ``kind`` is a code, ``detail`` the reason."""

    place: Place
    text: str
    kind: str
    detail: str


class Member(NamedTuple):
    """One member; None for values that the text does not have.

    Attributes:
        group_instance_id: None also for a dynamic member, and for every member before Kafka 2.6.
        client_host: as Java prints an address, ``/10.0.0.11``.
        partition_count: number of partitions that the member has now.
        assigned: the target if it is printed (consumer protocol), else the current partitions; None if no table has them.
        current: the current partitions while the member moves to its target; None in a classic group.
        upgraded: whether the member uses the consumer protocol; printed only while a group has members of both protocols.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partition_count: int
    assigned: Assignment | None
    current: Assignment | None
    member_epoch: int | None
    upgraded: bool | None


class Offset(NamedTuple):
    """One partition that has a committed offset or an owner.

    Attributes:
        committed_offset: None if nothing is committed.
        leader_epoch: None without ``--verbose``, which 4.0 added.
        log_end_offset: None if the partition has no leader or no longer exists.
        owner: member id; None if no member has the partition.
    """

    topic: str
    partition: int
    committed_offset: int | None
    leader_epoch: int | None
    log_end_offset: int | None
    owner: str | None


class Group(NamedTuple):
    """One group, merged from all tables and notices that name it; None for values that none of them has.

    Attributes:
        group_type: classic or consumer.
        state: Kafka's word; ``--state`` goes before ``--list``, and both go before a notice.
        is_rebalancing: by a table or notice. Members of a classic group then have no assignment, which has no meaning.
        strategy: assignor; a broker's own ``range`` is ``server-range``.
        members: by member id; None if the text does not list members, empty if there are none.
        is_doubtful: the members may be wrong: a row of their table was rejected, another table has another number of them, or
            an unknown table of members has the group.
        offsets: by topic and partition.
        is_by_owner: the members' partitions were taken from the owners in ``offsets``. Members without partitions are included only if
            ``--members`` names them.
        member_count: the number in ``--state``.
    """

    group_id: str
    group_type: str | None
    state: str | None
    is_rebalancing: bool
    strategy: str | None
    group_epoch: int | None
    target_epoch: int | None
    members: tuple[Member, ...] | None
    is_doubtful: bool
    offsets: tuple[Offset, ...]
    is_by_owner: bool = False
    member_count: int | None = None


class Look(NamedTuple):
    """The groups at a moment before the last one of a text.

    Attributes:
        groups, places: as in ``Description``.
        before_ms: how much earlier it was, by the times that the text has; None without them, if only the order is known.
    """

    groups: tuple[Group, ...]
    places: Mapping[Key, Place]
    before_ms: int | None


class Description(NamedTuple):
    """The content of a text; every line that is not blank, a header or a notice is in one of the first three.

    Attributes:
        groups: by group id, at the last moment that the text has.
        skipped: lines without use: log lines, command lines, groups that do not exist, repetitions, lines that do not look like rows.
        rejects: all others.
        places: group id, or group id, topic and partition -> the first line about it.
        earlier: the looks before the last one, in their order.
    """

    groups: tuple[Group, ...]
    skipped: tuple[Line, ...]
    rejects: tuple[Line, ...]
    places: Mapping[Key, Place]
    earlier: tuple[Look, ...] = ()
