"""Strategies compared: what happened, and what each assignor would have cost over the same history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobs.reporting.figures import Figure, Total, count, ratio
from jobs.reporting.view import MEASURES, WHY, Row, StrategyLine
from schemas.vocabulary import STRATEGIES, Basis, Status

COMPARED = (*MEASURES, "rebalance_count", "imbalance_ratio_mean", "imbalance_ratio_max", "spread_max", "unsolved_count")
"""The figures of a strategy, in the order of the table's columns."""


def total_of(row: Row, measure: str) -> Total:
    """Return the sum that a row carries for one of ``MEASURES``."""
    return Total(row[f"{measure}_sum"] or 0, row[f"{measure}_known"], row["generation_count"])


def sum_of(rows: Iterable[Row], measure: str) -> Total:
    """Return the sum over all rows for one of ``MEASURES``."""
    return sum((total_of(row, measure) for row in rows), Total())


def by_strategy(name: str) -> tuple[int, str]:
    """Return the sort key of strategies: Kafka's four in their usual order, then others by name."""
    return (STRATEGIES.index(name) if name in STRATEGIES else len(STRATEGIES), name)


def fleet_rows(tallies: Iterable[Row]) -> list[dict[str, Any]]:
    """Return one row per strategy, and one for what was observed; balance means nothing over a fleet and stays out."""
    merged: dict[tuple[str, str], list[Row]] = {}
    for row in tallies:
        if row["basis"] != Basis.RECOMPUTED:
            strategy = "" if row["basis"] == Basis.OBSERVED else row["strategy"]
            merged.setdefault((row["basis"], strategy), []).append(row)
    return [_merge(basis, strategy, members) for (basis, strategy), members in merged.items()]


def _merge(basis: str, strategy: str, members: Sequence[Row]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "basis": basis,
        "strategy": strategy,
        "generation_count": sum(member["generation_count"] for member in members),
        "unsolved_count": sum(member["generation_count"] for member in members if is_unsolved(member["status"])),
    }
    for measure in MEASURES:
        total = sum_of(members, measure)
        row |= {f"{measure}_sum": total.value, f"{measure}_known": total.known}
    return row


def is_unsolved(status: str | None) -> bool:
    """Return whether a status says that there is no assignment."""
    return status not in (None, Status.SOLVED, Status.CARRIED)


def compare(rows: Iterable[Row], own: str | None) -> tuple[StrategyLine, ...]:
    """Return what happened first, then each strategy; ``own`` is the group's, None when there is no one group.

    Observed rows stay apart by strategy, for a group that changed its own.
    """
    ordered = sorted(rows, key=lambda row: (row["basis"] != Basis.OBSERVED, *by_strategy(row["strategy"])))
    shown = [{name: _figure(row, name) for name in COMPARED} for row in ordered]
    rivals = [figures for row, figures in zip(ordered, shown, strict=True) if row["basis"] != Basis.OBSERVED]
    lines = []
    for row, figures in zip(ordered, shown, strict=True):
        is_observed = row["basis"] == Basis.OBSERVED
        lines.append(
            StrategyLine(
                name=row["strategy"],
                is_observed=is_observed,
                is_own=not is_observed and row["strategy"] == own,
                is_cooperative=row["strategy"] == "cooperative-sticky",
                figures=figures,
                least=frozenset() if is_observed else _least(figures, rivals),
            )
        )
    return tuple(lines)


def _figure(row: Row, name: str) -> Figure:
    if name in MEASURES:
        is_observation = name == "actual_revocation_count" and row["basis"] != Basis.OBSERVED
        return total_of(row, name).figure("nobody revoked anything: this did not happen" if is_observation else WHY[name])
    if name.startswith("imbalance"):
        return ratio(row[name], WHY["imbalance_ratio"]) if name in row else Figure("")
    return count(row[name], "not known for any generation") if name in row else Figure("")


def _least(figures: Mapping[str, Figure], rivals: Sequence[Mapping[str, Figure]]) -> frozenset[str]:
    """Return the columns in which nobody does better and somebody worse; sums over unlike parts of a history do not compare."""
    least = set()
    for name in COMPARED:
        values = [rival[name].value for rival in rivals]
        known = [value for value in values if value is not None]
        comparable = len(known) == len(values) and len({rival[name].note for rival in rivals}) == 1
        if comparable and min(known) < max(known) and figures[name].value == min(known):
            least.add(name)
    return frozenset(least)
