"""Wordings of a log: texts with free names in them, read back without a guess.

Names in a log are free text. They may have the words around them, so that a line can be read in several ways. Between two names of a
wording there is a fixed text. ``Wording.read`` finds its first and its last possible position. If they are the same for all fixed texts
of a line, there is only one way to read the line.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

Fields = dict[str, Any]

MOST_GENERATION = 2**31 - 1
_TYPES = {
    "#": r"-?\d{1,19}",
    "state": "Empty|PreparingRebalance|CompletingRebalance|Stable|Dead",
    "member_state": "[A-Za-z_]{1,40}",
    "protocol": "classic|consumer",
}
_HOLE = re.compile(r"\{(\w*)(?::([#\w]+))?\}|(\[\.\])|(\{at\?\})")
_NUMBERS = {"generation", "offsets_partition", "member_count", "duration_ms"}


class Unclear(Enum):
    """A text that fits a wording in more than one way."""

    AMBIGUOUS = "ambiguous"


class _Separator:
    """The fixed text between two free names: a literal, then perhaps numbers and words of a list."""

    def __init__(self, literal: str, pattern: str, is_last: bool) -> None:
        self.literal = literal
        end = r"\Z" if is_last else ""
        self.rest = re.compile(pattern + end) if pattern or is_last else None

    def first(self, text: str, start: int, end: int) -> tuple[int, int, re.Match[str] | None] | None:
        """Return begin, end and match of the first possible position in a part of a text."""
        at = text.find(self.literal, start, end)
        while at >= 0:
            after = at + len(self.literal)
            if self.rest is None:
                return at, after, None
            match = self.rest.match(text, after, end)
            if match is not None:
                return at, match.end(), match
            at = text.find(self.literal, at + 1, end)
        return None

    def last(self, text: str, start: int, end: int) -> tuple[int, int, re.Match[str] | None] | None:
        """Return begin, end and match of the last possible position in a part of a text."""
        at = text.rfind(self.literal, start, end)
        while at >= 0:
            after = at + len(self.literal)
            if self.rest is None:
                return at, after, None
            match = self.rest.match(text, after, end)
            if match is not None:
                return at, match.end(), match
            at = text.rfind(self.literal, start, at + len(self.literal) - 1)
        return None


class Wording:
    """One wording, written as a template.

    ``{name}`` is free text, and ``{}`` is free text that is not used. ``{name:#}`` is a number, ``{name:state}`` a word of a list,
    ``[.]`` a full stop that some releases leave out, and ``{at?}`` the partition that releases before 4.0 print after a group.
    """

    def __init__(self, kind: str, template: str, **constants: Any) -> None:
        self.kind, self.template, self.constants = kind, template, constants
        parts: list[list[str]] = [["", ""]]  # literal and pattern of each fixed text
        self.names: list[str] = []
        position = 0
        for hole in _HOLE.finditer(template):
            self._add(parts[-1], template[position : hole.start()])
            position = hole.end()
            if hole[3]:
                parts[-1][1] += r"\.?"
            elif hole[4]:
                parts[-1][1] += r"(?: \(__consumer_offsets-(?P<offsets_partition>\d{1,9})\))?"
            elif hole[2]:
                parts[-1][1] += f"(?P<{hole[1]}>{_TYPES[hole[2]]})" if hole[1] else f"(?:{_TYPES[hole[2]]})"
            else:
                self.names.append(hole[1])
                parts.append(["", ""])
        self._add(parts[-1], template[position:])
        self.prefix = parts[0][0]
        self._begin = re.compile(parts[0][1]) if parts[0][1] else None
        self.is_open = parts[-1] == ["", ""] and len(parts) > 1
        """Whether the wording ends with free text, so that a line that was cut may still fit."""
        fixed = parts[1:-1] if self.is_open else parts[1:]
        self._separators = [_Separator(part[0], part[1], not self.is_open and part is parts[-1]) for part in fixed]
        literals = _HOLE.sub("\n", template).split("\n")
        self.mark = max(literals[1:], key=len, default="") or self.prefix
        """A part of every text with this wording."""

    @staticmethod
    def _add(part: list[str], literal: str) -> None:
        if part[1]:
            part[1] += re.escape(literal)
        else:
            part[0] += literal

    def read(self, text: str) -> Fields | Unclear | None:
        """Return the names and numbers in a text; None if it has another wording."""
        if self.mark not in text or not text.startswith(self.prefix):
            return None
        start = len(self.prefix)
        fields: Fields = dict(self.constants)
        if self._begin is not None:
            begin = self._begin.match(text, start)
            if begin is None:
                return None
            start = begin.end()
            fields.update(begin.groupdict())
        if not self.names:
            return _with_numbers(fields) if start == len(text) else None
        found = []
        position = start
        for separator in self._separators:
            cut = separator.first(text, position, len(text))
            if cut is None:
                return None
            found.append(cut)
            position = cut[1]
        if any(self.names) and not self._is_only(text, start, found):
            return Unclear.AMBIGUOUS
        position = start
        for name, (begin_at, end_at, match) in zip(self.names, found, strict=False):
            if name:
                fields[name] = text[position:begin_at]
            if match is not None:
                fields.update(match.groupdict())
            position = end_at
        if self.is_open and self.names[-1]:
            fields[self.names[-1]] = text[position:]
        return _with_numbers(fields)

    def _is_only(self, text: str, start: int, found: list[tuple[int, int, re.Match[str] | None]]) -> bool:
        """Return whether the last positions of all fixed texts are the first ones too."""
        end = len(text)
        for index in range(len(found) - 1, -1, -1):
            cut = self._separators[index].last(text, start, end)
            if cut is None or cut[0] != found[index][0]:
                return False
            end = cut[0]
        return True


def _with_numbers(fields: Fields) -> Fields | None:
    """Return the fields with their numbers; None if one is larger than Kafka's."""
    for name in _NUMBERS.intersection(fields):
        value = fields[name]
        if isinstance(value, str):
            fields[name] = int(value)
            if name != "duration_ms" and abs(fields[name]) > MOST_GENERATION:
                return None
    return fields
