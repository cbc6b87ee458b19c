"""What ``kafka-consumer-groups --describe`` prints, read back, whatever version of Kafka's tools printed it: 2.0 to 4.3.

The text has no time, and is nobody's format: outputs of several commands follow each other, with notices, command lines and log
lines between them. What is understood becomes groups; every other line is told, with a reason.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from jobs.sources.decoded import Row
from jobs.sources.describe_tables import (
    LIST,
    MEMBERS,
    OFFSETS,
    STATE,
    TYPES_BY_STATE,
    Assignment,
    Key,
    LostTopicNamesError,
    Table,
    find_table,
    read_row,
)
from schemas.vocabulary import SERVER_STRATEGIES_BY_NAME, GroupState, GroupType


class Line(NamedTuple):
    """A line that gave nothing; ``number`` counts from 1. A folded row that was read is named by its first line."""

    number: int
    text: str
    reason: str


class Member(NamedTuple):
    """One member; None is what the text does not tell.

    Attributes:
        group_instance_id: None also for a dynamic member, and for every member before Kafka 2.6.
        client_host: as Java prints an address, ``/10.0.0.11``.
        partition_count: of what the member holds now.
        assigned: the target where the group has one (consumer protocol), else what the member holds; without ``--verbose`` None.
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
        offsets: by topic and partition.
    """

    group_id: str
    group_type: str | None
    state: str | None
    is_rebalancing: bool
    strategy: str | None
    group_epoch: int | None
    target_epoch: int | None
    members: tuple[Member, ...] | None
    offsets: tuple[Offset, ...]


class Description(NamedTuple):
    """What a text tells; every line that is not blank, a header or a notice is in one of the three.

    Attributes:
        groups: by group id.
        skipped: lines known and of no use: log lines, command lines, groups that do not exist, repetitions.
        rejects: all others.
    """

    groups: tuple[Group, ...]
    skipped: tuple[Line, ...]
    rejects: tuple[Line, ...]


def looks_like_describe(first_lines: str) -> bool:
    """Return whether a header or notice of the tool is among the first lines of a file."""
    lines = _lines(first_lines)
    return any(_NOTICE.fullmatch(line.strip()) or find_table(lines, at) for at, line in enumerate(lines))


def parse(whole: str, group_id: str | None = None) -> Description:
    """Return what a text tells of each group.

    Several outputs may follow each other. They have to be one look: of two tables of one kind about one group the fuller one counts,
    then the earlier, and rows of the other that tell anything else are rejected.

    Args:
        whole: what the tool printed, stderr too or not.
        group_id: whose the tables of Kafka 2.0 to 2.2 are, which do not say; a command line with ``--group`` before them counts more.

    Raises:
        LostTopicNamesError: assignments without topic names.
    """
    reader = _Reader(group_id)
    reader.read(_lines(whole))
    return reader.described()


def _lines(whole: str) -> list[str]:
    # Not splitlines(): ids may hold what Python, but not Java, takes for the end of a line.
    return [line.rstrip("\r") for line in whole.removeprefix("\ufeff").split("\n")]


_NOTICE = re.compile(
    r"Consumer group '(?P<empty>.*)' has no active members\.|Warning: Consumer group '(?P<rebalancing>.*)' is rebalancing\."
    r"|Error: (?:The c|C)onsumer group '(?P<absent>.*)' does not exist\.|Error: (?P<failed>.*)"
)
_COMMAND = re.compile(r".*\bkafka-consumer-groups\b.*|\[?[\w.-]+@[\w.-]+[^$#%>]*[$#%>](?: .*)?|[$#%>](?: .*)?|(?:PS )?[A-Z]:\\[^>]*>.*")
_LOG = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d.*|log4j:.*|SLF4J.*|WARNING: .*|.* VM warning: .*|Picked up \w+: .*"
    r"|\s+at \S+\(.*\)|\s*\.\.\. \d+ more|(?:Caused by: )?[\w$]+(?:\.[\w$]+)+(?:Exception|Error)(?:: .*)?"
)
_LONGEST_ASIDE = 4096
_HALF = re.compile("[\ud800-\udfff]")
_MOST_PIECES = 64
"""Lines that a folded row may take."""
_OF_GROUPS = {"group_type", "state", "strategy", "group_epoch", "target_epoch"}
"""Facts of a whole group, which rows of several kinds tell."""


class _Told(NamedTuple):
    """A row that was understood; ``key`` is what it is about within its group and kind of table."""

    number: int
    text: str
    table: Table
    group_id: str
    key: Key
    facts: Row


class _Reader:
    """Takes lines one by one; knows the table they stand in, and the pieces of a row that is not whole yet."""

    def __init__(self, group_id: str | None) -> None:
        self._default_group_id = self._group_id = group_id
        self._table: Table | None = None
        self._pieces: list[tuple[int, str]] = []
        self._reason = ""
        self._told: list[_Told] = []
        self._noticed: dict[str, set[str]] = {}
        self._skipped: list[Line] = []
        self._rejects: list[Line] = []

    def read(self, lines: Sequence[str]) -> None:
        """Take in all lines of a text."""
        at = 0
        while at < len(lines):
            number, line = at + 1, lines[at]
            table = find_table(lines, at)
            at += table.line_count if table is not None else 1
            if table is not None:
                self._reject_pieces()
                self._table = table
            elif not line.strip():
                self._reject_pieces()
            elif _HALF.search(line):
                self._rejects.append(Line(number, line, "it has half a surrogate pair: the file was read in another encoding than its own"))
            elif not self._is_notice(number, line):
                self._take(number, line)
        self._reject_pieces()

    def _is_notice(self, number: int, line: str) -> bool:
        match = _NOTICE.fullmatch(line.strip())
        if match is None:
            return False
        self._reject_pieces()
        kind = str(match.lastgroup)
        if kind == "absent":
            self._skipped.append(Line(number, line, "the group does not exist"))
        elif kind == "failed":
            self._rejects.append(Line(number, line, "the tool failed: what it did not print is missing"))
        else:
            self._noticed.setdefault(match[kind].rstrip(" "), set()).add(kind)
        return True

    def _take(self, number: int, line: str) -> None:
        """Take a line for a row, or for the next piece of a folded one, else for something known, else reject it."""
        table = self._table
        if table is None:
            if not self._is_aside(number, line):
                self._rejects.append(Line(number, line, "no header of a table of kafka-consumer-groups --describe stands before it"))
            return
        problem = self._problem(table, [*self._pieces, (number, line)])
        if problem is None:
            self._pieces.clear()
        elif self._is_aside(number, line):
            return
        elif self._pieces and self._problem(table, [(number, line)]) is None:
            self._reject_pieces()
        else:
            self._pieces.append((number, line))
            self._reason = problem
            if table.is_aligned or len(self._pieces) == _MOST_PIECES:
                self._reject_pieces()

    def _problem(self, table: Table, pieces: Sequence[tuple[int, str]]) -> str | None:
        """Return what is wrong with a row made of these pieces; where nothing is, the row is taken."""
        try:
            self._understand(table, pieces[0][0], " ".join(piece for _, piece in pieces))
        except ValueError as error:
            return str(error)
        return None

    def _understand(self, table: Table, number: int, line: str) -> None:
        try:
            named, key, facts = read_row(table, line)
        except LostTopicNamesError as error:
            raise LostTopicNamesError(f"line {number}: {error}") from None
        group_id = named if named is not None else self._group_id
        if group_id is None:
            raise ValueError("the tools before Kafka 2.3 do not print the group: put the command line, with --group, before its output")
        self._told.append(_Told(number, line, table, group_id, key, facts))

    def _is_aside(self, number: int, line: str) -> bool:
        """Return whether a line is known not to be the tool's, which is then skipped. No table goes on behind a command line."""
        if len(line) > _LONGEST_ASIDE:
            return False
        if _LOG.fullmatch(line):
            self._skipped.append(Line(number, line, "a log line"))
            return True
        if not _COMMAND.fullmatch(line):
            return False
        self._skipped.append(Line(number, line, "a command line"))
        if "kafka-consumer-groups" in line:
            named = _named_groups(line)
            self._group_id = named[0] if len(named) == 1 else self._default_group_id
        self._table = None
        return True

    def _reject_pieces(self) -> None:
        self._rejects.extend(Line(number, line, self._reason) for number, line in self._pieces)
        self._pieces.clear()

    def described(self) -> Description:
        """Return what all lines tell together."""
        by_group: dict[str, list[_Told]] = {group_id: [] for group_id in self._noticed}
        for told in self._told:
            by_group.setdefault(told.group_id, []).append(told)
        groups = tuple(self._group(group_id, told) for group_id, told in sorted(by_group.items()))
        return Description(groups, tuple(sorted(self._skipped)), tuple(sorted(self._rejects)))

    def _group(self, group_id: str, told: Sequence[_Told]) -> Group:
        known: dict[str, _Told] = {}
        members, offsets, states, _ = (
            self._agreeing([row for row in told if row.table.kind == kind], known) for kind in (MEMBERS, OFFSETS, STATE, LIST)
        )

        def fact(name: str) -> Any:
            return known[name].facts[name] if name in known else None

        noticed = self._noticed.get(group_id, set())
        has_none = not members and ("empty" in noticed or any(row["member_count"] == 0 for row in states))
        state = fact("state") or (GroupState.EMPTY.value if "empty" in noticed and not members else None)
        group_type = fact("group_type") or TYPES_BY_STATE.get(state)
        strategy = fact("strategy")
        if group_type == GroupType.CONSUMER:
            strategy = SERVER_STRATEGIES_BY_NAME.get(strategy, strategy)
        return Group(
            group_id=group_id,
            group_type=group_type,
            state=state,
            is_rebalancing="rebalancing" in noticed or state in TYPES_BY_STATE,
            strategy=strategy,
            group_epoch=fact("group_epoch"),
            target_epoch=fact("target_epoch"),
            members=tuple(sorted(Member(*map(row.get, Member._fields)) for row in members)) if members or has_none else None,
            offsets=tuple(sorted((Offset(*map(row.get, Offset._fields)) for row in offsets), key=_offset_order)),
        )

    def _agreeing(self, told: Sequence[_Told], known: dict[str, _Told]) -> list[Row]:
        """Return the rows of a group's fullest table, then earliest; the others repeat one of them, or are rejected.

        Args:
            told: rows of one kind of table.
            known: what earlier kinds tell of the whole group, with the row that does; these rows' own is added.
        """
        found: dict[tuple[Any, ...], _Told] = {}
        ordered = sorted(told, key=lambda row: (-len(row.table.columns), row.number))
        for row in ordered:
            before = found.get(row.key)
            problem = _contradiction(row, {**known, **(dict.fromkeys(before.facts, before) if before is not None else {})})
            if problem is None and before is None and row.table.number != ordered[0].table.number:
                problem = f"the table at line {ordered[0].table.number} tells of this group without it: they are two looks"
            if problem is not None:
                self._rejects.append(Line(row.number, row.text, problem))
            elif before is not None:
                self._skipped.append(Line(row.number, row.text, f"repeats line {before.number}"))
            else:
                found[row.key] = row
                known.update(dict.fromkeys(_OF_GROUPS & row.facts.keys(), row))
        return [row.facts for row in found.values()]


def _contradiction(row: _Told, known: Mapping[str, _Told]) -> str | None:
    for name, value in row.facts.items():
        if name in known and known[name].facts[name] != value:
            other = known[name]
            return f"{name} is {str(value)[:100]} here and {str(other.facts[name])[:100]} in line {other.number}: they are two looks"
    return None


def _offset_order(offset: Offset) -> tuple[str, int, str]:
    return offset.topic, offset.partition, offset.owner or ""


def _named_groups(command: str) -> list[str]:
    """Return what ``--group`` names on a command line."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    named = [after for word, after in pairwise(words) if word == "--group"]
    return named + [word.removeprefix("--group=") for word in words if word.startswith("--group=")]
