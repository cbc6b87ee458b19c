"""Whether a group needs someone now: the decision for one group, from what holds at its newest generation. Pure Python."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.pages.figures import Figure, words
from schemas.vocabulary import Rule, Severity

Row = Mapping[str, Any]

BETTER_ASSIGNOR = "better_assignor"
"""The need of a group without a finding that would be more even with another assignor. No rule of ``findings`` has this name."""

LEAST_GAIN = 0.1
"""Difference of the imbalance ratio from which another assignor is worth a change: a tenth of the mean load."""

STANDS_STILL = (Rule.STUCK_REBALANCING, Rule.NOT_RECONCILED, Rule.MEMBER_STALLED)
"""Rules of groups that are stuck or silent now: among findings of one severity they come first, since records wait meanwhile."""

_ORDER = {rule.value: number for number, rule in enumerate((*STANDS_STILL, *(rule for rule in Rule if rule not in STANDS_STILL)))}
_RANKS = {severity.value: severity.rank for severity in Severity}


@dataclass(frozen=True)
class Need:
    """What needs someone in a group.

    Attributes:
        severity: ``critical`` or ``warning`` of a finding, ``info`` of a better assignor.
        rule: id of the rule that found it, or ``BETTER_ASSIGNOR``.
    """

    severity: str
    rule: str

    @property
    def rank(self) -> int:
        """Return a number that is larger for a need that is more urgent."""
        return 2 * _RANKS[self.severity] + (self.rule in STANDS_STILL)


def need_of(current: Iterable[tuple[str, str]], member_count: int | None, better_gain: float | None) -> Need | None:
    """Return the most urgent need of a group, or None.

    Args:
        current: severity and rule id of each finding of the group's newest generation. ``info`` needs nobody.
        member_count: of that generation; None if it is not known.
        better_gain: of the last settled generation, as in the table ``generation_audits``; it counts while the group has members.

    >>> need_of([("warning", "restart_loop"), ("critical", "partitions_left_out")], 3, None)
    Need(severity='critical', rule='partitions_left_out')
    >>> need_of([("info", "topic_skew")], 3, 0.5)
    Need(severity='info', rule='better_assignor')
    >>> need_of([], 0, 0.5) is None
    True
    """
    urgent = [found for found in current if found[0] != Severity.INFO]
    if urgent:
        severity, rule = min(urgent, key=lambda found: (-_RANKS[found[0]], _ORDER.get(found[1], len(_ORDER)), found[1]))
        return Need(severity, rule)
    if member_count and better_gain is not None and better_gain >= LEAST_GAIN:
        return Need(str(Severity.INFO), BETTER_ASSIGNOR)
    return None


def stored_need(row: Row) -> Need | None:
    """Return the need in the columns need_severity and need_rule of a group's row; both are null without a need."""
    return None if row["need_rule"] is None else Need(row["need_severity"], row["need_rule"])


def needs_words(row: Row) -> str:
    """Return the need of a group's row in a few words, with the number of further findings that hold; empty without a need.

    >>> needs_words({"need_rule": "restart_loop", "current_critical_count": 0, "current_warning_count": 3})
    'restart loop and 2 more'
    """
    if row["need_rule"] is None:
        return ""
    others = row["current_critical_count"] + row["current_warning_count"] - 1
    return words(row["need_rule"]) + (f" and {others:,} more" if others > 0 else "")


def could_be(imbalance_ratio: float | None, better_gain: float | None) -> float | None:
    """Return the imbalance ratio that the best assignor would give; that of the group if none is better, None if that is not known.

    >>> could_be(1.5, 0.25), could_be(1.5, None), could_be(None, None), could_be(1.0, 0.2)
    (1.25, 1.5, None, 1.0)
    """
    return None if imbalance_ratio is None else max(1.0, imbalance_ratio - (better_gain or 0.0))


@dataclass(frozen=True)
class Since:
    """Since when something holds.

    Attributes:
        at_ms: time of the first generation of the unbroken row of generations in which it was found.
        is_exact: whether the generation before is known and did not have it.
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
        since: time of the first generation that had it; empty if it is not known.
        advice: what to change.
        other_count: further critical findings and warnings of the same generation.
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
        totals: four numbers, each with its words.
        all_empty: what to know if no group had members; else empty.
        data_until: time of the newest row that was read, UTC; empty without one.
        data_until_s: the same in seconds since 1970.
        age: how old that was when the page was made.
    """

    needs: tuple[NeedLine, ...]
    need_count: int
    past: tuple[PastLine, ...]
    totals: tuple[tuple[Figure, str], ...]
    all_empty: str
    data_until: str
    data_until_s: int
    age: str
