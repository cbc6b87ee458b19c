"""The fleet in figures: totals, conformance, statuses, findings by rule, and how evenly groups are loaded."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jobs.pages.figures import EN_DASH, Figure, count, words
from jobs.report.measures import MEASURES, WHY
from jobs.report.ranking import COMMITS_ONLY, Ranking
from jobs.report.rows import ReportRows, Row
from jobs.report.strategies import by_strategy, sum_of
from jobs.report.view import IMBALANCE_BOUNDS, ConformanceLine, Count, RuleLine, StatusLine
from schemas.vocabulary import Basis, Conformance, Severity, Status

CONFORMANCES = (*(str(word) for word in Conformance), "none")
"""Every conformance, from equal to incomparable, and ``none`` if there is nothing to compare."""

MOST_ASSIGNORS = 50
"""How many assignors the fleet's tables name, those with most generations first; clients can name any number."""

_STATUSES = [str(word) for word in Status]
_CLASS_NAMES = ("1.00", *(f"to {upper:.2f}" for upper in IMBALANCE_BOUNDS[1:]), f"above {IMBALANCE_BOUNDS[-1]:.2f}")


def headline(rows: ReportRows) -> tuple[Count, ...]:
    """Return the fleet's totals over the observed history, the most general first."""
    observed = [row for row in rows.tallies if row["basis"] == Basis.OBSERVED]
    only_commit = sum(number == 0 for (number,) in rows.ranked.values("generation_count"))
    return (
        Count("groups", count(len(rows.ranked)), note=f"{only_commit:,} of them {COMMITS_ONLY}" if only_commit else ""),
        Count("members", count(sum(number or 0 for (number,) in rows.ranked.values("member_count"))), note="in each group's last snapshot"),
        Count("generations", count(sum(row["generation_count"] for row in observed)), note="kept and audited"),
        *(Count(one.total[0], sum_of(observed, one.column).figure(one.why), note=one.total[1]) for one in MEASURES if one.total),
    )


def conformance(tallies: Iterable[Row]) -> tuple[ConformanceLine, ...]:
    """Return a line per assignor and client library of the leader; generations without an assignor have none."""
    observed = [row for row in tallies if row["basis"] == Basis.OBSERVED and row["strategy"]]
    grouped = _group(pool(observed), lambda row: (row["strategy"], row["leader_client"]))
    lines = []
    for (strategy, leader_client), members in sorted(grouped.items(), key=lambda item: (*by_strategy(item[0][0]), item[0][1] or "")):
        total = _generations(members)
        numbers = {name: _generations(row for row in members if (row["conformance"] or "none") == name) for name in CONFORMANCES}
        lines.append(
            ConformanceLine(
                strategy=strategy,
                leader_client=Figure(EN_DASH, "the leader's bytes do not show its client library")
                if leader_client is None
                else Figure(leader_client),
                total=total,
                counts=tuple(Count(name, count(number), round(100 * number / total, 2)) for name, number in numbers.items()),
            )
        )
    return tuple(lines)


def statuses(tallies: Iterable[Row]) -> tuple[StatusLine, ...]:
    """Return the number of generations by status, for each basis and strategy that was computed."""
    computed = [row for row in tallies if row["basis"] != Basis.OBSERVED and row["strategy"]]
    grouped = _group(pool(computed), lambda row: (row["basis"], row["strategy"]))
    lines = []
    for (basis, strategy), members in sorted(grouped.items(), key=lambda item: (item[0][0] != Basis.RECOMPUTED, *by_strategy(item[0][1]))):
        numbers = ((status, _generations(row for row in members if row["status"] == status)) for status in _STATUSES)
        lines.append(StatusLine(basis, strategy, tuple(Count(words(status), count(number)) for status, number in numbers)))
    return tuple(lines)


def pool(rows: Sequence[Row], others: str = "{:,} others") -> list[Row]:
    """Return the rows with one name for all assignors beyond ``MOST_ASSIGNORS``, and no client library of their leaders.

    Args:
        rows: tallies that have a strategy.
        others: that name, with a place for the number of these assignors.
    """
    totals = {strategy: _generations(members) for strategy, members in _group(rows, lambda row: row["strategy"]).items()}
    named = set(sorted(totals, key=lambda strategy: (-totals[strategy], strategy))[:MOST_ASSIGNORS])
    pooled = {"strategy": others.format(len(totals) - len(named)), "leader_client": None}
    return [row if row["strategy"] in named else {**row, **pooled} for row in rows]


def severities(rules: Iterable[RuleLine]) -> tuple[Count, ...]:
    """Return the number of findings by severity, worst first, zeros included."""
    numbers = {str(word): 0 for word in reversed(Severity)}
    for line in rules:
        numbers[line.severity] += int(line.findings.value or 0)
    return tuple(Count(name, count(number)) for name, number in numbers.items())


def rule_lines(findings: Iterable[Row]) -> tuple[RuleLine, ...]:
    """Return the rules that found something, worst severity and most findings first."""
    numbers = ("rule_finding_count", "rule_group_count", "rule_current_count")
    rules = {(row["severity"], row["rule_id"]): tuple(row[name] for name in numbers) for row in findings}
    ordered = sorted(rules.items(), key=lambda item: (-Severity(item[0][0]).rank, -item[1][0], item[0][1]))
    return tuple(RuleLine(severity, words(rule), *map(count, counted)) for (severity, rule), counted in ordered)


def imbalance(ranked: Ranking) -> tuple[Count, ...]:
    """Return the number of groups in each class; the note counts those that are as even as whole partitions allow."""
    numbers, even = Counter[int | None](), Counter[int | None]()
    for ratio, smallest, largest in ranked.values("imbalance_ratio", "partitions_per_member_min", "partitions_per_member_max"):
        key = None if ratio is None else bisect_left(IMBALANCE_BOUNDS, ratio)
        numbers[key] += 1
        even[key] += largest is not None and largest - smallest <= 1
    most = max(numbers.values(), default=0)
    bars = []
    for key in (*range(len(_CLASS_NAMES)), None):
        note = WHY["imbalance_ratio"] if key is None else f"{even[key]:,} within one partition" if even[key] and key else ""
        name = EN_DASH if key is None else _CLASS_NAMES[key]
        bars.append(Count(name, count(numbers[key]), round(100 * numbers[key] / most, 2) if most else 0.0, note))
    return tuple(bars)


def _generations(rows: Iterable[Row]) -> int:
    return sum(row["generation_count"] for row in rows)


def _group(rows: Iterable[Row], key: Callable[[Row], Any]) -> Mapping[Any, list[Row]]:
    grouped: dict[Any, list[Row]] = {}
    for row in rows:
        grouped.setdefault(key(row), []).append(row)
    return grouped
