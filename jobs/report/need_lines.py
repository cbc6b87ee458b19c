"""The lines of the report's first screen: what needs someone, since when, and what is past."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jobs.pages.figures import Figure


@dataclass(frozen=True)
class Since:
    """Since when something holds.

    Attributes:
        at_ms: time of the first generation of the unbroken row of generations in which it was found, or a time in the finding's evidence.
        is_exact: whether it is known that it did not hold before.
    """

    at_ms: int
    is_exact: bool


def holds_since(found: Collection[int], generations: Sequence[tuple[int, int]]) -> Since | None:
    """Return since when a rule holds, or None if the newest generation does not have it.

    Args:
        found: positions at which the rule found something.
        generations: position and time of known generations, newest first.

    >>> holds_since({7, 8}, [(8, 800), (7, 700), (6, 600)])
    Since(at_ms=700, is_exact=True)
    >>> holds_since({7, 8}, [(8, 800), (7, 700)])
    Since(at_ms=700, is_exact=False)
    >>> holds_since({6}, [(8, 800), (7, 700), (6, 600)]) is None
    True
    """
    since = None
    for position, at_ms in generations:
        if position not in found:
            return since and Since(since.at_ms, is_exact=True)
        since = Since(at_ms, is_exact=False)
    return since


@dataclass(frozen=True)
class NeedLine:
    """A group of the first screen.

    Attributes:
        anchor: id of the group's details or of its row.
        what: what was found, or what another assignor would give.
        since: the time from which on it holds, in words; empty if it is not known.
        advice: what to change.
        other_count: further critical findings and warnings of the same generation.
        advised_above: the group of an earlier line with the same advice; empty if there is none.
    """

    severity: str
    rule: str
    cluster_id: str
    group_id: str
    anchor: str
    what: str
    since: str
    advice: str
    other_count: int
    advised_above: str = ""


@dataclass(frozen=True)
class PastLine:
    """A finding of the first screen that no longer holds."""

    severity: str
    rule: str
    cluster_id: str
    group_id: str
    anchor: str
    last_at: str


@dataclass(frozen=True)
class FirstScreen:
    """What the report shows first.

    Attributes:
        needs: the groups that need someone now, the most urgent first, at most ``MOST_LINES``.
        need_count: all of them.
        past: what no longer holds, where there is room for it.
        past_count: the groups that need nobody and have critical findings or warnings of the past.
        totals: four numbers, each with its words.
        all_empty: what to know if no group had members; else empty.
        data_until: time of the newest row that was read, UTC; empty without one.
        data_until_s: the same in seconds since 1970.
        age: how old that was when the page was made.
    """

    needs: tuple[NeedLine, ...]
    need_count: int
    past: tuple[PastLine, ...]
    past_count: int
    totals: tuple[tuple[Figure, str], ...]
    all_empty: str
    data_until: str
    data_until_s: int
    age: str
