"""Which groups need someone now: the decision for one group, and the order of all. The report and ``show`` have it from here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.pages.figures import words
from schemas.vocabulary import Rule, Severity

Row = Mapping[str, Any]

BETTER_ASSIGNOR = "better_assignor"
"""The need of a group without a finding that would be more even with another assignor. No rule of ``findings`` has this name."""

LOOKED_AT_TOO = frozenset({Rule.IDLE_MEMBERS})
"""Rules whose ``info`` is worth a look: it is one only because the source does not show what the members subscribe to."""

LEAST_GAIN = 0.1
"""Difference of the imbalance ratio from which another assignor is worth a change: a tenth of the mean load."""

LEAST_WRITTEN = 0.005
"""Difference that two decimals show."""

STANDS_STILL = (Rule.STUCK_REBALANCING, Rule.NOT_RECONCILED, Rule.MEMBER_STALLED)
"""Rules of groups that are stuck or silent now: among findings of one severity they come first, since records wait meanwhile."""

RECURRENT = frozenset({Rule.REBALANCE_STORM, Rule.RESTART_LOOP, Rule.PARTITION_FLAPPING})
"""Rules on what happens again and again. Nothing else ends them than that it happens no more."""

CALM_MS = 600_000
"""How long it must not have happened for such a rule to be past: the shortest time in which rules count."""

CALM_CYCLES = 3
"""So many cycles of what happened must have passed too."""

HOLDS_WITHOUT_GROUP = frozenset({Rule.COMMITS_EXPIRE})
"""Rules on commits, which a group that was deleted can still have: a tool has written them since."""

SYMPTOMS = (Rule.REBALANCE_STORM, Rule.PARTITION_FLAPPING)
"""Rules that say how often a group changes. Among findings of one severity they come last, since the others say why, or name a member."""

_OTHERS = [rule for rule in Rule if rule not in STANDS_STILL + SYMPTOMS]
_ORDER = {rule.value: number for number, rule in enumerate((*STANDS_STILL, *_OTHERS, *SYMPTOMS))}
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


def holds_now(rule: str, is_of_newest: bool, calm_ms: int, cycle_s: int | None, is_deleted: bool = False) -> bool:
    """Return whether what a rule has found still holds.

    Args:
        is_of_newest: whether it was found in the group's newest generation.
        calm_ms: from that generation to the newest moment that has landed from its cluster.
        cycle_s: seconds from one occurrence to the next, of a rule of ``RECURRENT``; None if it counts within minutes.
        is_deleted: whether the group was deleted since.

    >>> holds_now("idle_members", True, 86_400_000, None), holds_now("idle_members", False, 0, None)
    (True, False)
    >>> holds_now("rebalance_storm", True, 600_000, None), holds_now("rebalance_storm", True, 600_001, None)
    (True, False)
    >>> holds_now("restart_loop", True, 10_800_000, 3_600), holds_now("restart_loop", True, 10_800_001, 3_600)
    (True, False)
    >>> holds_now("idle_members", True, 0, None, is_deleted=True), holds_now("commits_expire", True, 0, None, is_deleted=True)
    (False, True)
    """
    if is_deleted and rule not in HOLDS_WITHOUT_GROUP:
        return False
    if rule not in RECURRENT:
        return is_of_newest
    return is_of_newest and calm_ms <= longest_calm_ms(cycle_s)


def longest_calm_ms(cycle_s: int | None) -> int:
    """Return for how long what recurs may not have happened, and still be one with what happens then.

    >>> longest_calm_ms(None), longest_calm_ms(3_600)
    (600000, 10800000)
    """
    return max(CALM_MS, CALM_CYCLES * 1000 * (cycle_s or 0))


def severest_first(severity: str, rule: str) -> tuple[int, int, str]:
    """Return the sort key of findings of one group: the severest first, then what says that it stands still, symptoms last.

    >>> found = [("critical", "rebalance_storm"), ("warning", "restart_loop"), ("critical", "hot_member")]
    >>> [rule for _, rule in sorted(found, key=lambda one: severest_first(*one))]
    ['hot_member', 'rebalance_storm', 'restart_loop']
    """
    return (-_RANKS[severity], _ORDER.get(rule, len(_ORDER)), rule)


def need_of(current: Collection[tuple[str, str]], member_count: int | None, gain: float | None) -> Need | None:
    """Return the most urgent need of a group, or None.

    Args:
        current: severity and rule id of each finding that holds, see ``holds_now``. ``info`` needs nobody, but for ``LOOKED_AT_TOO``.
        member_count: of that generation; None if it is not known.
        gain: of the last settled generation, see ``possible_gain``. It counts while the group has members.

    >>> need_of([("warning", "restart_loop"), ("critical", "partitions_left_out")], 3, None)
    Need(severity='critical', rule='partitions_left_out')
    >>> need_of([("info", "topic_skew")], 3, 0.5)
    Need(severity='info', rule='better_assignor')
    >>> need_of([], 0, 0.5) is None
    True
    >>> need_of([("info", "idle_members")], 3, 0.0)
    Need(severity='info', rule='idle_members')
    """
    urgent = [found for found in current if found[0] != Severity.INFO]
    if urgent:
        severity, rule = min(urgent, key=lambda found: severest_first(*found))
        return Need(severity, rule)
    if member_count and gain is not None and gain >= LEAST_GAIN:
        return Need(str(Severity.INFO), BETTER_ASSIGNOR)
    if member_count:
        return next((Need(severity, rule) for severity, rule in sorted(current) if rule in LOOKED_AT_TOO), None)
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

    >>> could_be(1.5, 0.25), could_be(1.5, 0.0), could_be(1.5, None), could_be(None, None), could_be(1.0, 0.2)
    (1.25, 1.5, None, None, 1.0)
    """
    gain = possible_gain(imbalance_ratio, better_gain)
    return None if imbalance_ratio is None or gain is None else imbalance_ratio - gain


def possible_gain(imbalance_ratio: float | None, better_gain: float | None) -> float | None:
    """Return by how much the best assignor would lower the imbalance ratio; 0 if none is better, None if that is not known.

    Args:
        imbalance_ratio: of the observed assignment.
        better_gain: between two histories that were computed: an observed assignment may be more even than both.

    >>> possible_gain(1.5, 0.25), possible_gain(1.0, 0.5), possible_gain(1.5, None), possible_gain(None, 0.5)
    (0.25, 0.0, None, None)
    """
    return None if imbalance_ratio is None or better_gain is None else min(better_gain, imbalance_ratio - 1.0)


def gain_words(imbalance_ratio: float | None, better_gain: float | None) -> str:
    """Return ``possible_gain`` as the end of a text; empty if nothing is gained, or if that is not known.

    >>> gain_words(1.5, 0.25), gain_words(1.0, 0.5), gain_words(1.5, None)
    (', by 0.25', '', '')
    """
    gain = possible_gain(imbalance_ratio, better_gain)
    return "" if gain is None or gain < LEAST_WRITTEN else f", by {gain:.2f}"


def worst_first(row: Row) -> tuple[float | str, ...]:
    """Return the sort key of the ranking: what needs someone now comes first, then what is past.

    That is: the severity of the need, whether the group is stuck or silent now, the findings that hold now, the gain of a better assignor
    that is a need. Then groups that were not deleted, and over all generations critical findings, warnings, avoidable movements,
    movements; unknown counts as 0. Groups without generations come last.
    """
    need = stored_need(row)
    return (
        row["generation_count"] == 0,
        0 if need is None else -1 - need.rank,
        -row["current_critical_count"],
        -row["current_warning_count"],
        -(possible_gain(row["imbalance_ratio"], row["better_gain"]) or 0) if need is not None and need.rule == BETTER_ASSIGNOR else 0,
        row["deleted_at_ms"] is not None,
        -row["critical_count"],
        -row["warning_count"],
        -(row["avoidable_movement_count"] or 0),
        -(row["movement_count"] or 0),
        row["group_id"],
        row["cluster_id"],
    )
