"""A rule: its id and texts, its function, and the finding that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Generic, TypeVar

from schemas.vocabulary import Rule, Severity

LISTED = 5
"""How many names a message lists; it only counts the rest."""

MOST_DECIMALS = 12
"""Decimals of a percentage at most."""

Facts = TypeVar("Facts")
"""What a rule gets: the facts of a snapshot or of a group."""


@dataclass(frozen=True)
class Found:
    """The result of a rule.

    Attributes:
        evidence: the figures of the message, as text.
        severity: None for that of the rule.
        advice: None for that of the rule.
    """

    message: str
    evidence: Mapping[str, str] = field(default_factory=dict)
    severity: Severity | None = None
    advice: str | None = None


@dataclass(frozen=True)
class Finding:
    """One finding: the columns of ``findings`` without the key of the snapshot. Evidence has figures as text."""

    rule_id: Rule
    severity: Severity
    message: str
    advice: str
    evidence: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FindingRule(Generic[Facts]):
    """One entry of the catalogue.

    Attributes:
        severity: of its findings, unless ``evaluate`` returns another.
        title: the rule in a few words.
        when: the condition, for readers of ``docs/findings.md``.
        advice: what to do.
        evaluate: the rule itself; it returns None if it finds nothing.
    """

    rule_id: Rule
    severity: Severity
    title: str
    when: str
    advice: str
    evaluate: Callable[[Facts], Found | None]

    def find(self, facts: Facts) -> Finding | None:
        """Return the finding of one snapshot or group, None if there is none."""
        found = self.evaluate(facts)
        if found is None:
            return None
        return Finding(self.rule_id, found.severity or self.severity, found.message, found.advice or self.advice, found.evidence)


def rule(
    rule_id: Rule, severity: Severity, title: str, *, when: str, advice: str
) -> Callable[[Callable[[Facts], Found | None]], FindingRule[Facts]]:
    """Return a decorator that makes a function an entry of the catalogue; see ``FindingRule``."""
    return lambda evaluate: FindingRule(rule_id, severity, title, when, advice, evaluate)


def listed(names: Sequence[str]) -> str:
    """Return the first few names as one text."""
    return ", ".join(names[:LISTED])


def named(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are: for a message that does not say their number otherwise.

    >>> named("ab"), named("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = len(names) - LISTED
    return f"{listed(names)} and {more} more" if more > 0 else listed(names)


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with thousands separated and its noun.

    >>> counted(1, "member"), counted(2_000, "member")
    ('1 member', '2,000 members')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def part_of(count: int, total: int, noun: str, one: str, many: str) -> str:
    """Return how many of all do something, with the verb in the right number.

    >>> part_of(1, 3, "member", "has", "have"), part_of(1, 1, "member", "has", "have"), part_of(2, 3, "member", "has", "have")
    ('1 of 3 members has', '1 of 1 member has', '2 of 3 members have')
    """
    return f"{count:,} of {counted(total, noun)} {one if count == 1 else many}"


def percent(share: float) -> str:
    """Return a share as a percentage: whole, but with as many decimals as it takes not to seem nothing or all.

    >>> percent(0.5), percent(0.0), percent(1.0), percent(0.999), percent(0.00012)
    ('50%', '0%', '100%', '99.9%', '0.01%')
    """
    for decimals in range(MOST_DECIMALS):
        text = f"{share:.{decimals}%}"
        if 0 < float(text[:-1]) < 100 or share in (0, 1):
            return text
    return f"{share:.{MOST_DECIMALS}%}"


def duration(milliseconds: int) -> str:
    """Return a length of time in the unit that people would use.

    >>> duration(90_000), duration(2_400_000), duration(21_600_000)
    ('90 s', '40 minutes', '6.0 hours')
    """
    seconds = round(milliseconds / 1000)
    return f"{seconds} s" if seconds < 600 else f"{round(seconds / 60)} minutes" if seconds < 7_200 else f"{seconds / 3600:.1f} hours"


def text_of(at_ms: int) -> str:
    """Return Unix milliseconds as a UTC time to the second.

    >>> text_of(1_700_000_000_000)
    '2023-11-14T22:13:20Z'
    """
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def figures(**values: str | int | Sequence[str]) -> dict[str, str]:
    """Return evidence: every value as text, and of a list the first few names."""
    return {
        name: value if isinstance(value, str) else str(value) if isinstance(value, int) else listed(value) for name, value in values.items()
    }
