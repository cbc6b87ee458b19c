"""The order of the list of groups, which is that of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from jobs.pages.needs import Need, holds_now, need_of, possible_gain, severest_first, worst_first
from jobs.reading.fleet import GroupSummary
from schemas.vocabulary import Severity


def order_groups(groups: Iterable[GroupSummary]) -> list[GroupSummary]:
    """Return groups, those with most need of someone first."""
    return sorted(groups, key=lambda group: worst_first(standing(group)))


def holding_findings(group: GroupSummary) -> list[tuple[str, str]]:
    """Return severity and rule id of the findings that hold now."""
    newest = sorted(group.newest_findings, key=lambda one: severest_first(one.severity, one.rule_id))
    is_deleted = group.deleted_at is not None
    return [(one.severity, one.rule_id) for one in newest if holds_now(one.rule_id, True, group.calm_ms, one.cycle_s, is_deleted)]


def need_now(group: GroupSummary, holding: Collection[tuple[str, str]]) -> Need | None:
    """Return the most urgent need of a group; None without one.

    Args:
        holding: as ``holding_findings`` returns it.
    """
    return need_of(holding, group.member_count, possible_gain(group.imbalance_ratio, group.better_gain))


def standing(group: GroupSummary) -> dict[str, Any]:
    """Return what ``worst_first`` and ``needs_words`` ask of a group."""
    holding = holding_findings(group)
    need = need_now(group, holding)
    current = Counter(severity for severity, _ in holding)
    return {
        **group.key._asdict(),
        "generation_count": group.generation_count,
        "need_severity": None if need is None else need.severity,
        "need_rule": None if need is None else need.rule,
        **{f"current_{severity}_count": current[severity] for severity in Severity},
        **{f"{severity}_count": group.finding_counts[severity] for severity in Severity},
        "imbalance_ratio": group.imbalance_ratio,
        "better_gain": group.better_gain,
        "deleted_at_ms": None if group.deleted_at is None else int(1000 * group.deleted_at.timestamp()),
        "movement_count": group.movement_count,
        "avoidable_movement_count": group.avoidable_movement_count,
    }
