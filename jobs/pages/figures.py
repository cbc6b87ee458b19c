"""Values as the report writes them: figures that may be unknown, names that may be hostile, ranges, times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

EN_DASH = "\N{EN DASH}"
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

_UUID_TAIL = re.compile(r"(?:(.*)-)?([0-9a-fA-F]{8})(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.DOTALL)
_LONGEST_NAME = 36


@dataclass(frozen=True)
class Figure:
    """A value as it is shown.

    Attributes:
        text: the value, or an en dash if it is not known: a reader must never take unknown for 0.
        note: why it is unknown, or what it leaves out; empty for a plain value.
        value: the number to sort by; None when unknown.
        known: number of generations or partitions in a sum that does not have all; else None.
    """

    text: str
    note: str = ""
    value: float | None = None
    known: int | None = None


@dataclass(frozen=True)
class Total:
    """A sum over rows; some of them may not know the value.

    Attributes:
        value: sum over the rows that know it.
        known: number of those rows.
        rows: number of all rows.
    """

    value: int = 0
    known: int = 0
    rows: int = 0

    def __add__(self, other: Total) -> Total:
        return Total(self.value + other.value, self.known + other.known, self.rows + other.rows)

    @property
    def unknown(self) -> int:
        """Number of rows that do not know the value."""
        return self.rows - self.known

    def figure(self, why: str) -> Figure:
        """Return the sum; it is unknown, for the reason ``why``, if no row knows it, and has a note if only some do."""
        if self.known == 0:
            return Figure(EN_DASH, why)
        if self.known == self.rows:
            return Figure(f"{self.value:,}", "", self.value)
        return Figure(f"{self.value:,}", f"known for {self.known:,} of {self.rows:,} generations", self.value, self.known)


def count(value: int | None, why: str = "not known") -> Figure:
    """Return a whole number with thousands separated, or an en dash with the reason ``why``."""
    return Figure(EN_DASH, why) if value is None else Figure(f"{value:,}", "", value)


def ratio(value: float | None, why: str) -> Figure:
    """Return a number with two decimals, or an en dash with the reason ``why``."""
    return Figure(EN_DASH, why) if value is None else Figure(f"{value:.2f}", "", value)


def seconds(milliseconds: int | None, why: str) -> Figure:
    """Return a length of time in seconds with one decimal, or an en dash with the reason ``why``."""
    return Figure(EN_DASH, why) if milliseconds is None else Figure(f"{milliseconds / 1000:,.1f}", "", milliseconds)


def visible(text: str) -> str:
    r"""Return ``text`` with an escape for each character that does not print, and with doubled backslashes.

    Clients can send any group, member and topic names. A terminal would obey control characters. A browser would obey direction marks, and
    two names could look the same. A lone surrogate cannot be encoded at all. The result is one line, and different texts stay different.
    """
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode("ascii") for char in text)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return a short form of each name that no other name has, or the name itself.

    The UUID that clients append to the client id is cut to its first block. A long middle is left out.
    """
    names = sorted(set(names))
    shortened = {name: _shorten(name) for name in names}
    taken: dict[str, int] = {}
    for short in shortened.values():
        taken[short] = taken.get(short, 0) + 1
    return {name: short if taken[short] == 1 else name for name, short in shortened.items()}


def client_of(member_id: str) -> str | None:
    """Return the client id in a member id of the form that Kafka's brokers make, a client id and a UUID; None in others.

    >>> client_of("orders-1-3fc8d6f1-581a-4472-bdf3-3515b4aee8c1"), client_of("3fc8d6f1-581a-4472-bdf3-3515b4aee8c1"), client_of("orders-1")
    ('orders-1', None, None)
    """
    match = _UUID_TAIL.fullmatch(member_id)
    return (match.group(1) or None) if match else None


def _shorten(name: str) -> str:
    match = _UUID_TAIL.fullmatch(name)
    if match:
        name = "-".join(part for part in match.groups() if part) + _ELLIPSIS
    return name if len(name) <= _LONGEST_NAME else f"{name[:22]}{_ELLIPSIS}{name[-12:]}"


def cut(name: str, longest: int = 120) -> str:
    """Return ``name``; if it has more than ``longest`` characters, its beginning, an ellipsis and its end, where many names differ."""
    return name if len(name) <= longest else f"{name[: longest - 13]}{_ELLIPSIS}{name[-12:]}"


def condense(partitions: Sequence[int]) -> str:
    """Return partition numbers as ascending ranges, each number once: ``[4, 0, 1, 2]`` gives ``0-2, 4``."""
    ranges: list[list[int]] = []
    for partition in sorted(set(partitions)):
        if ranges and partition == ranges[-1][1] + 1:
            ranges[-1][1] = partition
        else:
            ranges.append([partition, partition])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def noun(figure: Figure, one: str) -> str:
    """Return a noun, in the plural unless the figure is 1."""
    return one if figure.value == 1 else f"{one}s"


def counted(number: int, one: str) -> str:
    """Return a number with thousands separated and its noun.

    >>> counted(1, "member"), counted(1_200, "member")
    ('1 member', '1,200 members')
    """
    return f"{number:,} {one if number == 1 else one + 's'}"


def movement_words(kind: str, cause: str | None) -> str:
    """Return the words for a kind of movement.

    The kind ``lost`` has the words of its cause: Kafka calls a partition lost if a member's session ended with it (``onPartitionsLost``).
    """
    if cause in ("handed_over", "withheld"):
        return words(cause)
    return "no longer owned" if kind == "lost" else words(kind)


def words(code: str) -> str:
    """Return a stored word with spaces: ``member_joined`` gives ``member joined``."""
    return code.replace("_", " ")


def moment(at: datetime | None) -> str:
    """Return a time in UTC to the second, or an en dash."""
    return EN_DASH if at is None else at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def from_ms(milliseconds: int | None) -> datetime | None:
    """Return the UTC time of Unix milliseconds; None stays None."""
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
