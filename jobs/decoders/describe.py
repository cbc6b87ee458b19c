"""Parser for the output of ``kafka-consumer-groups --describe`` of Kafka's tools 2.0 to 4.3.

The text has no time and no defined format. It may have the outputs of several commands, in one file or several, with notices, command
lines, log lines and the output of other programs between them. Known rows become groups; every other line is returned with a reason. A
table is in doubt only if an unknown line looks like one of its rows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import chain, takewhile
from typing import NamedTuple

from jobs.decoders.describe_commands import COMMAND, GOES_ON, TOOL, named_group
from jobs.decoders.describe_groups import GroupBuilder, GroupNotice, GroupRow
from jobs.decoders.describe_looks import find_looks, times_before_last
from jobs.decoders.describe_model import (
    ABSENT_GROUP,
    FAILED_COMMAND,
    MALFORMED_LINE,
    NOT_A_TABLE_LINE,
    OTHER_GROUP,
    Description,
    Line,
    Look,
    Place,
)
from jobs.decoders.describe_notices import ABSENT, FAILED, OTHER, find_notice, is_own_notice
from jobs.decoders.describe_tables import (
    FIRST_WORDS,
    MOST_WORDS,
    LostTopicNamesError,
    Table,
    begins_as_header,
    find_table,
    read_row,
    resembles_row,
)
from jobs.decoders.log_lines import LONGEST_LINE, is_log_line
from jobs.decoders.plain_lines import plain_lines


def looks_like_describe(first_lines: str) -> bool:
    """Return whether a header or notice of the tool is among the first lines of a file. Many programs begin lines with ``Error:``."""
    lines = plain_lines(first_lines)
    return any(is_own_notice(line) or find_table(lines, at) for at, line in enumerate(lines))


def find_fold(first_lines: str) -> str | None:
    """Return the first header that was folded within a word, and what to do; None without one.

    A terminal folds so, at one width. Rows cannot be put together again: one that ends at the width looks like one that goes on.
    """
    lines = plain_lines(first_lines)
    for at, line in enumerate(lines):
        if not line.startswith(FIRST_WORDS) or find_table(lines, at) is not None:
            continue
        whole = line
        for other in lines[at + 1 : at + MOST_WORDS]:
            if not other.strip() or len(other) > len(line):
                break
            whole += other
            if find_table([whole], 0) is not None:
                return (
                    f"line {at + 1}: found a table of kafka-consumer-groups that was folded at {len(line)} columns, as a terminal shows it,"
                    " and which Evenkeel does not read; save what the tool prints to a file"
                )
            if len(other) < len(line):
                break
    return None


def find_lost_topic_names(whole: str) -> str | None:
    """Return the first line that the tools of Kafka 3.8 or 3.9 printed without topic names, and what to do; None without one.

    A text without topic names is of no use, so callers check this first. ``parse`` rejects such lines.
    """
    lines, table = plain_lines(whole), None
    for at, line in enumerate(lines):
        table = find_table(lines, at) or table
        if table is not None and table.columns[-1] == "ASSIGNMENT" and line.rstrip().endswith(")"):
            try:
                read_row(table, line)
            except LostTopicNamesError as error:
                return f"line {at + 1}: {error}"
            except ValueError:
                continue
    return None


def parse(texts: Mapping[str, str], group_id: str | None = None) -> Description:
    """Return the groups in texts; raises nothing, whatever they are.

    All texts are of one moment, or of several that each text has in their order: their last looks belong together. A text has several
    looks if a table comes again with other content. Within a look, of two tables of one kind about one group the one with more columns
    counts, then the earlier one. Rows of the other that contradict it are rejected.

    Args:
        texts: name -> output of the tool, with or without stderr.
        group_id: the group of tables of Kafka 2.0 to 2.2, which do not print it; a command line with ``--group`` before them wins.
    """
    reader = _Reader(group_id)
    for name, whole in sorted(texts.items()):
        reader.read(name, plain_lines(whole))
    return reader.finish()


_HALF = re.compile("[\ud800-\udfff]")
_PAIRS = re.compile(rb"[\t\n\r -~]{20,}")
"""Text in ASCII that was read as UTF-16: two letters became one."""
_HALF_CHARACTER = "\udcff"
"""What is left of a text of UTF-16 that ends within a character, see ``text_pieces``."""
_MOST_PIECES = 64
"""The most lines of a folded row."""
_NOWHERE = Place("", 0)


def _in_other_encoding(line: str) -> str | None:
    """Return the text of a line that is UTF-16 in a text that is not, with a zero after each letter, or the other way round; else None."""
    if "\0" in line:
        return line.replace("\0", "")
    pairs = b"" if line.isascii() else line.removesuffix(_HALF_CHARACTER).encode("utf-16-le", "surrogatepass")
    return pairs.decode() if _PAIRS.fullmatch(pairs) else None


class _Unfit(NamedTuple):
    """A line that could not be parsed.

    Attributes:
        detail: what is wrong with it if it is a row.
        table: its table; None without one.
        header: where its table begins, known or not.
        has_end: it is not the last line of a text, which may have been cut there.
    """

    place: Place
    text: str
    detail: str
    table: Table | None
    header: Place
    has_end: bool = True


class _Reader:
    """Parses lines one by one; keeps the current table, and the pieces of a row that is not complete yet."""

    def __init__(self, group_id: str | None) -> None:
        self._default_group_id = self._group_id = group_id
        self._table: Table | None = None
        self._header = _NOWHERE
        self._command = ""
        self._pieces: list[_Unfit] = []
        self._unfit: list[_Unfit] = []
        self._rows: list[GroupRow] = []
        self._notices: list[GroupNotice] = []
        self._skipped: list[Line] = []
        self._rejects: list[Line] = []
        self._damaged: set[Place] = set()
        self._unknown: set[Place] = set()
        self._doubtful: list[str] = []

    def read(self, name: str, lines: Sequence[str]) -> None:
        """Parse all lines of a text."""
        self._group_id, self._table, self._header, self._command = self._default_group_id, None, _NOWHERE, ""
        at = 0
        while at < len(lines):
            place, line = Place(name, at + 1), lines[at]
            table = find_table(lines, at)
            at += table.line_count if table is not None else 1
            command, self._command = self._command, ""
            if table is not None:
                self._give_up_pieces()
                self._table, self._header = table, place
                self._take_rows_before(place)
            elif not line.replace("\0", "").strip():
                self._give_up_pieces()
            elif (other := _in_other_encoding(line)) is not None:
                self._reject_other_encoding(place, line, other)
            elif _HALF.search(line):
                self._note(place, line, "it is not UTF-8")
            elif begins_as_header(line):
                self._give_up_pieces()
                self._rejects.append(Line(place, line, MALFORMED_LINE, "found the header of an unknown table"))
                self._table, self._header = None, place
                if "CONSUMER-ID" in line.split():
                    self._unknown.add(place)
            elif self._read_notice(place, line):
                continue
            elif command:
                self._read_command(place, line, command + line.removeprefix("> "))
            else:
                self._take(place, line)
        self._give_up_pieces()
        if self._unfit and self._unfit[-1].place == Place(name, len(lines)):
            self._unfit[-1] = self._unfit[-1]._replace(has_end=False)

    def _reject_other_encoding(self, place: Place, line: str, text: str) -> None:
        """Reject a line in another encoding. A header in its text ends the table before it; another line may have been a row of it."""
        self._give_up_pieces()
        detail = "a part of the text is UTF-16 and another is not, as PowerShell and cmd append to a file: write all of it in one encoding"
        self._rejects.append(Line(place, line, MALFORMED_LINE, detail))
        if any(map(begins_as_header, text.split("\n"))):
            self._table, self._header = None, place
        elif self._table is not None:
            self._damaged.add(self._header)

    def _take_rows_before(self, header: Place) -> None:
        """Parse the lines directly before a header as rows of its table, if they had none: ``sort`` puts a header among its rows."""
        count, table = 0, self._table
        while count < len(self._unfit) and self._unfit[-1 - count].place == Place(header.name, header.number - 1 - count):
            count += 1
        early, self._unfit[len(self._unfit) - count :] = self._unfit[len(self._unfit) - count :], []
        for line in early:
            is_unfit = line.header != _NOWHERE or _HALF.search(line.text)
            if table is None or is_unfit or self._try(table, line.place, [line.text]) is not None:
                self._unfit.append(line)

    def _read_notice(self, place: Place, line: str) -> bool:
        """Read a line if it is a notice of the tool; return whether it is one."""
        notice = find_notice(line)
        if notice is None:
            return False
        if notice.kind == FAILED and self._table is not None and self._try(self._table, place, [line]) is None:
            return True  # a group's name may begin so
        self._give_up_pieces()
        if notice.kind == ABSENT:
            self._skipped.append(Line(place, line, ABSENT_GROUP, "the group does not exist"))
        elif notice.kind == OTHER:
            self._skipped.append(Line(place, line, OTHER_GROUP, "the group is no consumer group"))
        elif notice.group_id is None:
            self._rejects.append(Line(place, line, FAILED_COMMAND, "the tool failed: its output is not complete"))
        else:
            self._notices.append(GroupNotice(place, notice.kind, notice.group_id))
        return True

    def _take(self, place: Place, line: str) -> None:
        """Parse a line as a row, as the next piece of a folded row, or as a known line; else keep it as unfit."""
        table = self._table
        if table is None:
            if not self._skip_aside(place, line):
                self._note(place, line, "found no header of a kafka-consumer-groups --describe table before this line")
            return
        if self._pieces and self._try(table, self._pieces[0].place, [*(piece.text for piece in self._pieces), line]) is None:
            self._pieces.clear()
            return
        problem = self._try(table, place, [line])
        if problem is None:
            self._give_up_pieces()
        elif not self._skip_aside(place, line):
            self._pieces.append(_Unfit(place, line, problem, table, self._header))
            if table.is_aligned or len(self._pieces) == _MOST_PIECES:
                self._give_up_pieces()

    def _try(self, table: Table, place: Place, pieces: Sequence[str]) -> str | None:
        """Add the row that these pieces make, and return None; return what is wrong if they make no row."""
        try:
            self._understand(table, place, " ".join(pieces))
        except ValueError as error:
            return str(error)
        return None

    def _understand(self, table: Table, place: Place, line: str) -> None:
        named, key, facts = read_row(table, line)
        group_id = named if named is not None else self._group_id
        if group_id is None:
            raise ValueError("the tools before Kafka 2.3 do not print the group: put the command line, with --group, before its output")
        self._rows.append(GroupRow(place, line, table, self._header, group_id, key, facts))

    def _skip_aside(self, place: Place, line: str) -> bool:
        """Skip a line that is known not to be the tool's; return whether it is one. A command line ends the table before it."""
        if is_log_line(line):
            self._skipped.append(Line(place, line, "log_line", "a log line"))
            return True
        if len(line) > LONGEST_LINE or not COMMAND.fullmatch(line) or self._resembles_row(line):
            return False
        self._give_up_pieces()
        self._read_command(place, line, line)
        return True

    def _resembles_row(self, line: str) -> bool:
        """Return whether a line may be a damaged or quoted row of the current table. A row has no options of the tool."""
        if self._table is None or (TOOL.search(line) and " --" in line):
            return False
        of_table = takewhile(lambda row: row.header == self._header, reversed(self._rows))
        return resembles_row(line, self._table, {row.group_id for row in of_table})

    def _read_command(self, place: Place, line: str, command: str) -> None:
        """Skip a line of a command; ``command`` is all of it up to here, without the marks that it goes on."""
        self._skipped.append(Line(place, line, "command_line", "a command line"))
        if TOOL.search(command):
            self._group_id = named_group(command) or self._default_group_id
        self._table, self._header = None, _NOWHERE
        self._command = command[:-1] if command.endswith(GOES_ON) and len(command) <= LONGEST_LINE else ""

    def _give_up_pieces(self) -> None:
        self._unfit += self._pieces
        self._pieces.clear()

    def _note(self, place: Place, line: str, detail: str) -> None:
        self._unfit.append(_Unfit(place, line, detail, self._table, self._header))

    def _judge_unfit(self) -> None:
        """Reject unfit lines that look like rows, and mark their tables as damaged; skip the others. All rows must be parsed before."""
        groups: dict[Place, set[str]] = {}
        for row in self._rows:
            groups.setdefault(row.header, set()).add(row.group_id)
        for line in self._unfit:
            group_ids = groups.get(line.header, set()) if line.table is not None else set()
            is_cut_in_group = not line.has_end and any(group_id.startswith(line.text.strip()) for group_id in group_ids)
            if not is_cut_in_group and not resembles_row(line.text, line.table, group_ids):
                self._skipped.append(Line(line.place, line.text, NOT_A_TABLE_LINE, "it does not look like a row of a table"))
                continue
            self._rejects.append(Line(line.place, line.text, MALFORMED_LINE, line.detail))
            if line.table is not None:
                self._damaged.add(line.header)
            elif line.header in self._unknown:
                self._doubtful.append(line.text.lstrip())

    def finish(self) -> Description:
        """Judge the unfit lines, and return the content of all lines."""
        self._judge_unfit()
        texts = {name: find_looks(*parts) for name, parts in self._by_text().items()}
        count = max(1, *map(len, texts.values())) if texts else 1
        lines = {name: [look.line for look in looks] for name, looks in texts.items()}

        def number(place: Place) -> int:
            return count - len(lines[place.name]) + bisect_right(lines[place.name], place.number) - 1

        rows: list[list[GroupRow]] = [[] for _ in range(count)]
        notices: list[list[GroupNotice]] = [[] for _ in range(count)]
        for row in self._rows:
            rows[number(row.place)].append(row)
        for notice in self._notices:
            notices[number(notice.place)].append(notice)
        builders = [GroupBuilder(*parts, self._damaged, self._doubtful) for parts in zip(rows, notices, strict=True)]
        groups = [builder.groups() for builder in builders]
        before = times_before_last(texts.values())
        earlier = tuple(
            Look(groups[at], builders[at].places(), None if before is None else before[count - 1 - at]) for at in range(count - 1)
        )
        skipped = sorted([*self._skipped, *chain.from_iterable(builder.skipped for builder in builders)])
        rejects = sorted([*self._rejects, *chain.from_iterable(builder.rejects for builder in builders)])
        return Description(groups[-1], tuple(skipped), tuple(rejects), builders[-1].places(), earlier)

    def _by_text(self) -> dict[str, tuple[list[GroupRow], list[GroupNotice], list[Line]]]:
        """Return the rows, the notices and the skipped lines of each text."""
        found: dict[str, tuple[list[GroupRow], list[GroupNotice], list[Line]]] = {}
        for row in self._rows:
            found.setdefault(row.place.name, ([], [], []))[0].append(row)
        for notice in self._notices:
            found.setdefault(notice.place.name, ([], [], []))[1].append(notice)
        for line in self._skipped:
            found.setdefault(line.place.name, ([], [], []))[2].append(line)
        return found
