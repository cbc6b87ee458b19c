"""What a text of ``kafka-consumer-groups`` tells: groups with their members and offsets, and the lines that told nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Assignment = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics by name, each with its partitions by number: the order that Kafka had is not printed."""
Key = tuple[Any, ...]

MALFORMED_LINE, TWO_LOOKS, FAILED_COMMAND = "malformed_line", "two_looks", "failed_command"
"""Kinds of rejects."""
NOT_A_TABLE_LINE = "not_a_table_line"
"""Kind of skipped lines that resemble no row: headings, prompts, what other programs print."""


class Place(NamedTuple):
    """A line of one of the files; ``number`` counts from 1. A folded row has the place of its first line."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name} line {self.number}".lstrip()


class Line(NamedTuple):
    """A line that gave nothing; ``kind`` is a code, ``detail`` says what is wrong with it or why it is of no use."""

    place: Place
    text: str
    kind: str
    detail: str


class Member(NamedTuple):
    """One member; None is what the text does not tell.

    Attributes:
        group_instance_id: None also for a dynamic member, and for every member before Kafka 2.6.
        client_host: as Java prints an address, ``/10.0.0.11``.
        partition_count: of what the member holds now.
        assigned: the target where it is printed (consumer protocol), else what the member holds; None where no table tells it.
        current: what the member holds while it moves to its target; None in a classic group.
        upgraded: whether the member speaks the consumer protocol, told only while a group holds members of both.
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
        committed_offset: None where nothing is committed.
        leader_epoch: None without ``--verbose``, which 4.0 added.
        log_end_offset: None where the partition has no leader or is no more.
        owner: member id; None where no member holds the partition.
    """

    topic: str
    partition: int
    committed_offset: int | None
    leader_epoch: int | None
    log_end_offset: int | None
    owner: str | None


class Group(NamedTuple):
    """One group, put together from all tables and notices that name it; None is what none of them tells.

    Attributes:
        group_type: classic or consumer.
        state: Kafka's word; of several tables ``--state`` counts before ``--list``, and both before a notice.
        is_rebalancing: a table or notice says so. Members of a classic group then have no assignment, which means nothing.
        strategy: assignor; a broker's own ``range`` is ``server-range``.
        members: by member id; None where no members were asked for, empty where there are none.
        is_doubtful: the members may be others: a row of their table was rejected, or another table counts another number of them.
        offsets: by topic and partition.
        is_by_owner: what members hold now was taken from the owners in ``offsets``. Members that hold nothing are among them only where
            ``--members`` names them.
        member_count: as ``--state`` counts them.
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


class Description(NamedTuple):
    """What a text tells; every line that is not blank, a header or a notice is in one of the three.

    Attributes:
        groups: by group id.
        skipped: lines of no use: log lines, command lines, groups that do not exist, repetitions, lines that resemble no row.
        rejects: all others.
        places: group id, or group id, topic and partition -> the first line that tells of it.
    """

    groups: tuple[Group, ...]
    skipped: tuple[Line, ...]
    rejects: tuple[Line, ...]
    places: Mapping[Key, Place]
