"""Comparison of strategies: the observed history, and the cost of each assignor over the same history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from jobs.pages.figures import Figure, Total, count, ratio
from jobs.report.measures import SUMMED, WHY
from jobs.report.rows import Row
from jobs.report.view import StrategyLine
from schemas.vocabulary import STRATEGIES, Basis, Status

Coverage = tuple[int, int | Decimal]
Rival = tuple[Mapping[str, Figure], Mapping[str, int]]
"""Figures of a strategy, and the number of generations for which each is not known."""

_ACTUAL = "actual_revocation_count"
_SUMS = (*(name for name in SUMMED if name != _ACTUAL), _ACTUAL)
"""Actual revocations come last: only the observed history has them."""

FLEET_COLUMNS = (*_SUMS, "unsolved_count")
"""The figures of a strategy over a fleet, in the order of the table's columns; balance has no meaning there."""

GROUP_COLUMNS = (*_SUMS, "rebalance_count", "imbalance_ratio_mean", "imbalance_ratio_max", "spread_max", "unsolved_count")
"""The same over the history of one group."""


def sum_of(rows: Iterable[Row], measure: str) -> Total:
    """Return the sum over all rows for one of ``SUMMED``."""
    return sum((Total(row[f"{measure}_sum"] or 0, row[f"{measure}_known"], row["generation_count"]) for row in rows), Total())


def by_strategy(name: str) -> tuple[int, str]:
    """Return the sort key of strategies: Kafka's four in their usual order, then others by name."""
    return (STRATEGIES.index(name) if name in STRATEGIES else len(STRATEGIES), name)


def compare(tallies: Iterable[Row], columns: Sequence[str], own: str | None = None) -> tuple[StrategyLine, ...]:
    """Return a line for the observed history, then one for each strategy; only lines over the same generations are compared.

    A group's strategies need not have the same history: a KIP-848 assignor has none of the generations of the classic protocol.

    Args:
        tallies: rows of ``ReportRows.tallies``, of the fleet or of one group.
        columns: ``FLEET_COLUMNS`` or ``GROUP_COLUMNS``.
        own: the group's own strategy; None for the fleet.
    """
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in tallies:
        if row["basis"] != Basis.RECOMPUTED:
            grouped.setdefault((row["basis"], "" if row["basis"] == Basis.OBSERVED else row["strategy"]), []).append(row)
    ordered = sorted(grouped.items(), key=lambda item: (item[0][0] != Basis.OBSERVED, *by_strategy(item[0][1])))
    shown = [(basis == Basis.OBSERVED, strategy, _coverage(rows), rows, _figures(rows, columns)) for (basis, strategy), rows in ordered]
    rivals: dict[Coverage, list[Rival]] = {}
    for is_observed, _, coverage, rows, figures in shown:
        if not is_observed:
            rivals.setdefault(coverage, []).append((figures, {name: sum_of(rows, name).unknown for name in SUMMED}))
    return tuple(
        StrategyLine(
            name=strategy,
            is_observed=is_observed,
            is_own=strategy == own,
            is_cooperative=strategy == "cooperative-sticky",
            is_apart=not is_observed and len(rivals) > 1 and len(rivals[coverage]) == 1,
            generations=count(coverage[0]),
            figures=figures,
            least=frozenset() if is_observed else _least(figures, rivals[coverage]),
        )
        for is_observed, strategy, coverage, _, figures in shown
    )


def _coverage(rows: Iterable[Row]) -> Coverage:
    """Return the number of generations with members in the rows, and a sum of hashes that is equal only for the same generations."""
    numbers = [(row["covered_count"], row["coverage"] or 0) for row in rows]
    return sum(number for number, _ in numbers), sum(coverage for _, coverage in numbers)


def _figures(rows: Sequence[Row], columns: Sequence[str]) -> dict[str, Figure]:
    known = sum(row["imbalance_ratio_known"] for row in rows)
    is_observed = rows[0]["basis"] == Basis.OBSERVED
    why_actual = WHY[_ACTUAL] if is_observed else "computed, not observed: nobody revoked anything"
    figures = {measure: sum_of(rows, measure).figure(WHY[measure]) for measure in SUMMED}
    figures |= {
        _ACTUAL: sum_of(rows, _ACTUAL).figure(why_actual),
        "rebalance_count": count(_known(sum, rows, "rebalance_count"), WHY["rebalance_count"]),
        "imbalance_ratio_mean": ratio(
            float(sum(row["imbalance_ratio_sum"] or 0 for row in rows) / known) if known else None, WHY["imbalance_ratio_mean"]
        ),
        "imbalance_ratio_max": ratio(_known(max, rows, "imbalance_ratio_max"), WHY["imbalance_ratio_max"]),
        "spread_max": count(_known(max, rows, "spread_max"), WHY["spread_max"]),
        "unsolved_count": count(sum(row["generation_count"] for row in rows if _is_unsolved(row["status"]))),
    }
    return {name: figures[name] for name in columns}


def _known(combine: Any, rows: Iterable[Row], name: str) -> Any:
    values = [row[name] for row in rows if row[name] is not None]
    return combine(values) if values else None


def _is_unsolved(status: str | None) -> bool:
    return status not in (None, Status.SOLVED, Status.CARRIED)


def _least(figures: Mapping[str, Figure], rivals: Sequence[Rival]) -> frozenset[str]:
    """Return the columns in which no rival is better and some rival is worse; sums over different generations are not compared."""
    least = set()
    for name, figure in figures.items():
        values = [rival[name].value for rival, _ in rivals]
        known = [value for value in values if value is not None]
        comparable = len(known) == len(values) and len({unknown.get(name, 0) for _, unknown in rivals}) == 1
        if comparable and min(known) < max(known) and figure.value == min(known):
            least.add(name)
    return frozenset(least)
