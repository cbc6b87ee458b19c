"""The tables of ``kafka-consumer-groups``: the columns of a header, and the values of a row.

The tool pads all rows of a table to one width. So the header shows where the columns are, even if values are blank or contain spaces. If
a text has lost its alignment, words are counted instead; a row that fits neither way is an error.

Formats were read from ``ConsumerGroupCommand`` (Scala until Kafka 3.7, Java since 3.8). What changed, and when:

- 2.0: no GROUP column. ASSIGNMENT is ``orders(0,1), payments(0)``, a missing strategy is blank.
- 2.3: GROUP column. The widths of ``--state`` belong to other columns, so that long values shift the rest of their row.
- 2.6: GROUP-INSTANCE-ID, if a member has one; blank for the others. ``--list --state``.
- 3.8: ASSIGNMENT has lost the topic names. ``--list --type``.
- 4.0: CURRENT- and TARGET-ASSIGNMENT with epochs, ``orders:0,1;payments:0``; UPGRADED while a group has members of both protocols;
  LEADER-EPOCH, GROUP-EPOCH and TARGET-ASSIGNMENT-EPOCH with ``--verbose``. ``--state`` widens its columns, a missing strategy is ``-``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from jobs.decoders.decoded import Row, integer
from jobs.decoders.describe_model import Assignment, Key
from schemas.vocabulary import BETWEEN_GENERATIONS, GroupType

Cells = Mapping[str, str]

OFFSETS, MEMBERS, STATE, LIST = "offsets", "members", "state", "list"
"""Kinds of tables, by the option that prints them."""

TYPES_BY_STATE = {
    **dict.fromkeys(BETWEEN_GENERATIONS, GroupType.CLASSIC.value),
    **dict.fromkeys(("Assigning", "Reconciling"), GroupType.CONSUMER.value),
}
"""States of a group that rebalances, each with the only group type that has it."""

_HEADER = re.compile(
    r"(?:GROUP )?(?:(?P<offsets>TOPIC PARTITION (?:LEADER-EPOCH )?CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID)"
    r"|(?P<members>CONSUMER-ID (?:GROUP-INSTANCE-ID )?HOST CLIENT-ID #PARTITIONS"
    r"(?: ASSIGNMENT| CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH TARGET-ASSIGNMENT(?: UPGRADED)?)?)"
    r"|(?P<state>COORDINATOR \(ID\) ASSIGNMENT-STRATEGY STATE (?:GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH )?#MEMBERS)"
    r"|(?<=GROUP )(?P<list>TYPE STATE|TYPE|STATE))"
)
FIRST_WORDS = ("GROUP", "TOPIC", "CONSUMER-ID", "COORDINATOR")
MOST_WORDS = 11
_WIDTHS = {
    **{"PARTITION": 10, "LEADER-EPOCH": 15, "CURRENT-OFFSET": 15, "LOG-END-OFFSET": 15, "LAG": 15},
    **{"#PARTITIONS": 15, "CURRENT-EPOCH": 15, "TARGET-EPOCH": 15},
}
"""Columns that are never widened: a longer value shifts the rest of its row."""
_LEAST_WIDTHS = {
    **{"GROUP": 15, "TOPIC": 15, "CONSUMER-ID": 15, "GROUP-INSTANCE-ID": 17, "HOST": 15, "CLIENT-ID": 15, "TYPE": 20},
    **{"CURRENT-ASSIGNMENT": 20, "TARGET-ASSIGNMENT": 20},
    **{"COORDINATOR": 25, "ASSIGNMENT-STRATEGY": 20, "STATE": 15, "GROUP-EPOCH": 15, "TARGET-ASSIGNMENT-EPOCH": 25},
}

_NUMBER, _COUNT = re.compile(r"-?[0-9]{1,20}"), re.compile(r"[0-9]{1,20}")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MEMBER_AND_HOST = re.compile(r"- -|(?:[a-zA-Z0-9_-]{22}|\S*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}) \S*/\S+")
_HOST = re.compile(r"\S+")
_ANY_ID_AND_HOST = re.compile(r"\S+ [\w.-]*/?[0-9xX*]{1,3}(?:\.[0-9xX*]{1,3}){3}")
"""A member id that somebody has shortened, with an address in four parts, which no other cell has."""
_STATE_WORD = re.compile("Stable|Empty|PreparingRebalance|CompletingRebalance|Assigning|Reconciling")
_FLAG = re.compile(r"true|false|-")
_COORDINATOR = re.compile(r":-?[0-9]+ +\(-?[0-9]+\)(?= |$)")
_IN_BRACKETS = re.compile(rf"({_TOPIC.pattern})\(([0-9]+(?:,[0-9]+)*)\)")
_WITH_COLON = re.compile(rf"({_TOPIC.pattern}):([0-9]+(?:,[0-9]+)*)")
_OF_SHARE_GROUP = re.compile(rf" [0-9]+ *(?:{_WITH_COLON.pattern};?)*[ \t\r]*$")
_NAMELESS = re.compile(r"\([0-9,]+\)(?:, ?\([0-9,]+\))*")
_BETWEEN_TOPICS = re.compile(r"(?<=\)), ?")
"""Some programs that forward the text remove the space."""
_ANY_HEADER = re.compile(r"(?:GROUP|TOPIC|CONSUMER-ID|COORDINATOR)(?: +[A-Z(#][A-Z()#-]+){2,20}")
_ADDRESS = r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-f]*:[0-9a-f:]+(?:%\w+)?)"
_MEMBER_MARK = (
    r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?=[\s/]|$)"  # the end of a member id
    rf"|(?:^|\s)[\w.-]*/{_ADDRESS}(?:\s|$)"  # a host
)
_NUMBERS_MARK = r"(?:^|\s)[0-9]+(?:\s+(?:-?[0-9]+|-)){3}(?=\s|$)"  # a partition with its offsets and lag
_MARKS = {
    MEMBERS: rf"{_MEMBER_MARK}|[\w.-]\([0-9]+(?:,[0-9]+)*\)(?:,|\s*$)|(?:^|\s)[\w.-]+:[0-9]+(?:,[0-9]+)*;[\w.-]+:[0-9]",
    OFFSETS: f"{_MEMBER_MARK}|{_NUMBERS_MARK}",
    STATE: r":-?[0-9]+ +\(-?[0-9]+\) .*(?:[0-9]|Stable|Empty|Rebalance|Assigning|Reconciling)\s*$",
}
_ROW_MARKS = {kind: re.compile(mark) for kind, mark in _MARKS.items()}
"""Patterns of rows that other lines rarely have: a row may have lost its alignment or a part."""
# Without a header, numbers alone are in too many other lines.
_ANY_ROW_MARK = re.compile(rf"{_MARKS[MEMBERS]}|{_NUMBERS_MARK}(?:\s+-){{3}}\s*$|{_MARKS[STATE]}")
_MARKED_LENGTH = 4096
"""Ids and addresses come first."""
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_SECOND_HALF = "\udc00"
_NO_OFFSET, _UNKNOWN, _ENDING = -1, "Unknown", "Dead"


class LostTopicNamesError(ValueError):
    """A row of the tools of Kafka 3.8 or 3.9, which leave the topic names out of assignments."""


class MisalignedRowError(ValueError):
    """A row cannot be cut into the columns of its table."""


class Table(NamedTuple):
    """A header.

    Attributes:
        kind: one of the four above.
        starts: where each column starts.
        line_count: number of its lines; more than one if the text was folded.
        is_aligned: its columns are as wide as the tool makes them, so that rows can be cut there. Else rows may be folded too.
        has_tabs: spaces were replaced by tabs.
    """

    kind: str
    columns: tuple[str, ...]
    starts: tuple[int, ...]
    line_count: int
    is_aligned: bool
    has_tabs: bool


def find_table(lines: Sequence[str], at: int) -> Table | None:
    """Return the table whose header starts at a line; None without one. The header may be folded between words."""
    if not lines[at].lstrip().startswith(FIRST_WORDS):
        return None
    found = None
    words: list[str] = []
    for count, line in enumerate(lines[at : at + MOST_WORDS], start=1):
        more = line.split(None, MOST_WORDS)
        words += more
        if not more or len(words) > MOST_WORDS:
            break
        match = _HEADER.fullmatch(" ".join(words))
        if match is not None:  # The first lines of a folded header may be one by themselves: the longest counts.
            found = _table(match, line, count)
    return None if found is not None and _is_of_share_groups(found, lines[at + 1 : at + 2]) else found


def _is_of_share_groups(table: Table, rows: Sequence[str]) -> bool:
    """Return whether ``kafka-share-groups`` (4.1) printed a table: it has a narrower column than one of members, and other assignments."""
    is_narrow = table.columns[-1] == "ASSIGNMENT" and table.line_count == 1 and table.starts[-1] - table.starts[-2] == 13
    return is_narrow and any(map(_OF_SHARE_GROUP.search, rows))


def _table(match: re.Match[str], line: str, line_count: int) -> Table:
    columns = tuple(match[0].replace(" (ID)", "").split())
    if line_count > 1:
        return Table(str(match.lastgroup), columns, (), line_count, False, False)
    header = line.expandtabs()
    starts = [header.index(columns[0])]
    for before, name in pairwise(columns):
        starts.append(header.index(name, starts[-1] + len(before)))
    widths = zip(columns, (end - start - 1 for start, end in pairwise(starts)), strict=False)
    is_aligned = all(width == _WIDTHS[name] if name in _WIDTHS else width >= _LEAST_WIDTHS[name] for name, width in widths)
    return Table(str(match.lastgroup), columns, tuple(starts), line_count, is_aligned, "\t" in line)


def read_row(table: Table, line: str) -> tuple[str | None, Key, Row]:
    """Return the group of a row (None if the table has no column for it), its key within the group, and its facts.

    Raises:
        ValueError: it does not fit the columns, whether they are found by position or by counting words.
        LostTopicNamesError: its partitions have no topics.
    """
    line = line.expandtabs() if table.has_tabs else line
    splitters = (_from_right,) if table.kind == STATE else (_by_position, _by_words) if table.is_aligned else (_by_words,)
    problems: list[ValueError] = []
    for split in splitters:
        try:
            cells = split(table, line)
            return _filled(cells, "GROUP") if "GROUP" in table.columns else None, *_READERS[table.kind](cells)
        except ValueError as error:
            problems.append(error)
    # A row that could be cut has a wrong value: that message helps more than one about alignment.
    raise next((problem for problem in problems if not isinstance(problem, MisalignedRowError)), problems[0])


def begins_as_header(line: str) -> bool:
    """Return whether a line names columns as the tool does, of a known or unknown table."""
    return _ANY_HEADER.fullmatch(line.strip()) is not None


def resembles_row(line: str, table: Table | None, group_ids: Collection[str]) -> bool:
    """Return whether a line that is not a row may have been one before it was cut or damaged.

    Args:
        table: the table of the line; None after a command line or before the first header.
        group_ids: groups of the rows that the table has.
    """
    begin = line[:_MARKED_LENGTH]
    mark = _ANY_ROW_MARK if table is None else _ROW_MARKS.get(table.kind)
    if mark is not None and mark.search(begin):
        return True
    if table is None or not table.is_aligned:
        return any(begin.lstrip().startswith(f"{group_id} ") for group_id in group_ids)
    begin = begin.expandtabs() if table.has_tabs else begin
    first, *others = table.starts
    if "GROUP" in table.columns and begin[first : others[0] - 1].rstrip() in group_ids and begin[others[0] :].strip():
        return True
    # Only padding puts two spaces before the place where a column of the header begins.
    aligned = sum(begin[start - 2 : start] == "  " and not begin[start : start + 1].isspace() for start in others if start < len(begin))
    return aligned > 1 or (aligned == 1 and (not group_ids or len(others) == 1))


def _by_position(table: Table, line: str) -> Cells:
    # Java pads by UTF-16 units: a character beyond U+FFFF counts twice.
    units = _ASTRAL.sub(lambda match: match[0] + _SECOND_HALF, line)
    at, cells = table.starts[0], {}
    if units[:at].strip():
        raise MisalignedRowError(f"the row begins before its first column, {table.columns[0]}")
    for name, (start, following) in zip(table.columns, pairwise(table.starts), strict=False):
        end = at + following - start - 1
        if name in _WIDTHS and units[end : end + 1].strip(" "):
            end += len(units[end:].split(" ", 1)[0])
        if units[end : end + 1].strip(" "):
            raise MisalignedRowError(f"column {name} does not end where its header does")
        cells[name] = units[at:end]
        at = end + 1
    cells[table.columns[-1]] = units[at:]
    return {name: cell.rstrip(" ").replace(_SECOND_HALF, "") for name, cell in cells.items()}


def _by_words(table: Table, line: str) -> Cells:
    words = line.split()
    if "GROUP-INSTANCE-ID" in table.columns:
        # Blank for a dynamic member, so that its host comes next. Hosts have a slash, and Kafka allows none in an instance id.
        at = table.columns.index("GROUP-INSTANCE-ID")
        if "/" in "".join(words[at : at + 1]):
            words.insert(at, "")
    if table.columns[-1] == "ASSIGNMENT":
        last = len(table.columns) - 1
        words[last:] = [" ".join(words[last:])]
    if len(words) != len(table.columns):
        raise MisalignedRowError(f"the row is not aligned with its header, and has {len(words)} words for {len(table.columns)} columns")
    cells = dict(zip(table.columns, words, strict=True))
    if table.kind in (MEMBERS, OFFSETS) and not _are_member_and_host(table, f"{cells['CONSUMER-ID']} {cells['HOST']}"):
        # A blank cell and a space within another one give the right count, but shift the cells between them.
        raise MisalignedRowError(
            f"the row is not aligned with its header: found '{cells['CONSUMER-ID'][:100]}' '{cells['HOST'][:100]}', expected a member id"
            " that Kafka makes with an address, or - twice"
        )
    return cells


def _are_member_and_host(table: Table, cells: str) -> bool:
    """Return whether two cells can only be a member id and its host. Beside offsets, which are numbers, the id may be a shortened one."""
    return _MEMBER_AND_HOST.fullmatch(cells) is not None or (table.kind == OFFSETS and _ANY_ID_AND_HOST.fullmatch(cells) is not None)


def _from_right(table: Table, line: str) -> Cells:
    """Return the cells of ``--state``. Rows may be shifted and the strategy blank, but the cells right of the group have known shapes."""
    last = table.columns[table.columns.index("STATE") :]
    words = line[table.starts[0] if table.starts else 0 :].rsplit(None, len(last))
    coordinators = list(_COORDINATOR.finditer(words[0]))
    if len(words) <= len(last) or not coordinators:
        raise MisalignedRowError("expected a group, its coordinator as host:port (id), and the columns after it")
    found = coordinators[-1]
    group_id = words[0][: found.start()].rpartition(" ")[0].rstrip(" ")
    if table.line_count > 1 and "  " in group_id:  # a terminal that folds between any letters has cut the coordinator
        raise MisalignedRowError(f"expected a group before its coordinator in a folded table, found '{group_id[:100]}'")
    return {
        "GROUP": group_id,
        "ASSIGNMENT-STRATEGY": words[0][found.end() :].strip(),
        **dict(zip(last, words[1:], strict=True)),
    }


def _filled(cells: Cells, name: str) -> str:
    if not cells[name]:
        raise ValueError(f"{name}: expected a value, found none")
    return cells[name]


def _shaped(cells: Cells, name: str, shape: re.Pattern[str], expected: str) -> str:
    if not shape.fullmatch(cells[name]):
        raise ValueError(f"{name}: expected {expected}, found '{cells[name][:100]}'")
    return cells[name]


def _number(cells: Cells, name: str, bits: int) -> int | None:
    return None if cells[name] == "-" else integer(int(_shaped(cells, name, _NUMBER, "a whole number or -")), bits)


def _count(cells: Cells, name: str) -> int:
    return integer(int(_shaped(cells, name, _COUNT, "a whole number")), 32)


def _generation(cells: Cells, name: str) -> int | None:
    """Return an epoch of the group; unlike the epoch of a leaving member, it is never below 0."""
    return None if cells[name] == "-" else _count(cells, name)


def _assignment(cells: Cells, name: str) -> Assignment:
    """Return topics and partitions of a cell: ``orders(0,1), payments(0)`` in ASSIGNMENT, else ``orders:0,1;payments:0``."""
    if cells[name] == "-":
        return ()
    is_old = name == "ASSIGNMENT"
    if is_old and _NAMELESS.fullmatch(cells[name]):
        raise LostTopicNamesError(
            f"found '{cells[name][:100]}' in column ASSIGNMENT, expected topic names before the partitions. The tools of Kafka 3.8 and 3.9"
            " leave them out (KAFKA-14589; fixed in 4.0 by KAFKA-17750). Describe the groups again with the tools of Kafka 4.0 or"
            " newer, or of 3.7 or older, against the same brokers, or without --members: then the tool prints the owner of each partition"
        )
    held: dict[str, tuple[int, ...]] = {}
    for entry in _BETWEEN_TOPICS.split(cells[name]) if is_old else cells[name].split(";"):
        match = (_IN_BRACKETS if is_old else _WITH_COLON).fullmatch(entry)
        if match is None or match[1] in held:
            example = "topic(0,1), ..." if is_old else "topic:0,1;..."
            raise ValueError(f"{name}: expected {example} or -, each topic once, found '{entry[:100]}'")
        held[match[1]] = tuple(sorted({integer(int(number), 32) for number in match[2].split(",")}))
    return tuple(sorted(held.items()))


def _member(cells: Cells) -> tuple[Key, Row]:
    facts: Row = {
        "member_id": _filled(cells, "CONSUMER-ID"),
        "client_id": cells["CLIENT-ID"],
        "client_host": _shaped(cells, "HOST", _HOST, "an address"),
        "partition_count": _count(cells, "#PARTITIONS"),
    }
    if "GROUP-INSTANCE-ID" in cells:
        facts["group_instance_id"] = cells["GROUP-INSTANCE-ID"] if cells["GROUP-INSTANCE-ID"] not in ("", "-") else None
    if "ASSIGNMENT" in cells:
        facts["assigned"] = _counted(cells, "ASSIGNMENT", facts["partition_count"])
        if facts["assigned"]:  # Printed before 3.8, where the tools ask for classic groups only; 3.8 and 3.9 print '-' for any group.
            facts["group_type"] = GroupType.CLASSIC.value
    elif "CURRENT-ASSIGNMENT" in cells:
        facts.update(_epochs(cells, _counted(cells, "CURRENT-ASSIGNMENT", facts["partition_count"])))
    return (facts["member_id"],), facts


def _counted(cells: Cells, name: str, expected: int) -> Assignment:
    held = _assignment(cells, name)
    count = sum(len(partitions) for _, partitions in held)
    if count != expected:
        raise ValueError(f"#PARTITIONS is {expected}, and {name} has {count}: the row was cut or damaged")
    return held


def _epochs(cells: Cells, held: Assignment) -> Row:
    """Return the facts in the columns of Kafka 4.0 about a member with these partitions."""
    target = _assignment(cells, "TARGET-ASSIGNMENT")
    epoch, target_epoch = _number(cells, "CURRENT-EPOCH", 32), _generation(cells, "TARGET-EPOCH")
    if target_epoch is None:
        if target or epoch is not None:
            raise ValueError("TARGET-EPOCH: expected a number beside a CURRENT-EPOCH or a TARGET-ASSIGNMENT, found '-'")
        return {"group_type": GroupType.CLASSIC.value, "assigned": held}
    if epoch == target_epoch and any(not set(numbers).issubset(dict(target).get(topic, ())) for topic, numbers in held):
        raise ValueError("CURRENT-ASSIGNMENT has more than TARGET-ASSIGNMENT at its epoch: the row was cut or damaged")
    facts: Row = {"group_type": GroupType.CONSUMER.value, "assigned": target, "current": held}
    facts.update(member_epoch=epoch, target_epoch=target_epoch)
    if "UPGRADED" in cells:
        facts["upgraded"] = {"true": True, "false": False}.get(_shaped(cells, "UPGRADED", _FLAG, "true, false or -"))
    return facts


def _offset(cells: Cells) -> tuple[Key, Row]:
    committed, end, lag = (_number(cells, name, 64) for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"))
    if committed is not None and committed < _NO_OFFSET:
        raise ValueError(f"CURRENT-OFFSET: expected an offset, found {committed}")
    if committed is not None and end is not None and lag is not None and lag != end - committed:
        raise ValueError(f"LAG is {lag}, but LOG-END-OFFSET minus CURRENT-OFFSET is {end - committed}")
    host = _shaped(cells, "HOST", _HOST, "an address or -")
    facts: Row = {
        "topic": _shaped(cells, "TOPIC", _TOPIC, "a topic"),
        "partition": _count(cells, "PARTITION"),
        "committed_offset": committed if committed != _NO_OFFSET else None,
        "log_end_offset": end,
        "owner": _filled(cells, "CONSUMER-ID") if cells["CONSUMER-ID"] != "-" else None,
    }
    if facts["owner"] is not None:
        facts.update(client_id=cells["CLIENT-ID"], client_host=host)
    if "LEADER-EPOCH" in cells:
        facts["leader_epoch"] = _number(cells, "LEADER-EPOCH", 32)
    return (facts["topic"], facts["partition"], facts["owner"]), facts


def _state(cells: Cells) -> tuple[Key, Row]:
    facts: Row = {"state": _shaped(cells, "STATE", _STATE_WORD, "a state of a consumer group"), "member_count": _count(cells, "#MEMBERS")}
    if cells["ASSIGNMENT-STRATEGY"] not in ("", "-"):
        facts["strategy"] = cells["ASSIGNMENT-STRATEGY"]
    if "GROUP-EPOCH" in cells:
        epochs = {"group_epoch": _generation(cells, "GROUP-EPOCH"), "target_epoch": _generation(cells, "TARGET-ASSIGNMENT-EPOCH")}
        facts["group_type"] = (GroupType.CLASSIC if epochs["group_epoch"] is None else GroupType.CONSUMER).value
        facts.update((name, epoch) for name, epoch in epochs.items() if epoch is not None)
    return (), facts


def _listed(cells: Cells) -> tuple[Key, Row]:
    facts: Row = {}
    if cells.get("TYPE", _UNKNOWN) != _UNKNOWN:
        facts["group_type"] = GroupType(cells["TYPE"].lower()).value
    if cells.get("STATE", _UNKNOWN) not in (_UNKNOWN, _ENDING):
        facts["state"] = _shaped(cells, "STATE", _STATE_WORD, "a state of a consumer group")
    return (), facts


_READERS: dict[str, Callable[[Cells], tuple[Key, Row]]] = {OFFSETS: _offset, MEMBERS: _member, STATE: _state, LIST: _listed}
