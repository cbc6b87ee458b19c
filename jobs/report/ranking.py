"""The groups of the fleet, worst first: merged from Spark's counts of their audits and findings, and stored as columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, overload

from jobs.pages.needs import holds_now, need_of, possible_gain, worst_first
from jobs.report.measures import AT_LAST_SETTLED, SUMS
from schemas.vocabulary import Severity

Row = Mapping[str, Any]
GroupKey = tuple[str, str]
COMMITS_ONLY = "commits only"
"""The strategy of a group of which only commits have landed: its members assign partitions themselves, or use the streams protocol."""

FINDING_KEY = ("cluster_id", "group_id", "rule_id", "severity")


class Newest(NamedTuple):
    """What decides whether a finding of a group holds now.

    Attributes:
        position: of the group's newest generation.
        calm_ms: from that generation to the newest moment that has landed from its cluster.
        is_deleted: whether the group was deleted since.
    """

    position: int
    calm_ms: int
    is_deleted: bool

    def holds(self, rule_id: str, position: int, cycle_s: int | None) -> bool:
        """Return whether what a rule has found last, at a position, holds now."""
        return holds_now(rule_id, position == self.position, self.calm_ms, cycle_s, self.is_deleted)


def group_key(row: Row) -> GroupKey:
    """Return the key of the group of a row."""
    return (row["cluster_id"], row["group_id"])


def finding_key(row: Row) -> tuple[str, ...]:
    """Return the key of a rule's findings in a group."""
    return tuple(row[name] for name in FINDING_KEY)


def has_no_generations(row: Row) -> bool:
    """Return whether a group has only commits."""
    return bool(row["generation_count"] == 0)


class Ranking(Sequence[Row]):
    """Rows of groups, worst first. A row is made on access: 100,000 rows would need ten times the memory of their columns."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        """Sort rows, which all have the same columns."""
        keys: list[tuple[float | str, ...]] = []
        unsorted: dict[str, list[Any]] = {}
        for row in rows:
            unsorted = unsorted or {name: [] for name in row}
            keys.append(worst_first(row))
            for name, column in unsorted.items():
                column.append(row[name])
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self._length = len(order)
        self._columns = {name: [column[number] for number in order] for name, column in unsorted.items()}

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._length))]
        return {name: column[index] for name, column in self._columns.items()}

    def __iter__(self) -> Iterator[Row]:
        return (dict(zip(self._columns, values, strict=True)) for values in zip(*self._columns.values(), strict=True))

    def values(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Return the values that each group has in these columns."""
        return zip(*(self._columns[name] for name in names), strict=True) if self._length else iter(())

    def ranks_of(self, groups: Collection[GroupKey]) -> dict[GroupKey, int]:
        """Return the ranks of those groups that the ranking has; the worst has rank 1."""
        return {key: rank for rank, key in enumerate(self.values("cluster_id", "group_id"), 1) if key in groups}

    def with_lags(self, lags: Mapping[GroupKey, int]) -> Ranking:
        """Return the same groups in the same order, with lag_now of these groups; it is null for others."""
        changed = copy(self)
        changed._columns = {**self._columns, "lag_now": [lags.get(key) for key in self.values("cluster_id", "group_id")]}
        return changed

    def with_texts(self, change: Callable[[str], str]) -> Ranking:
        """Return the same groups in the same order, with every text changed."""
        changed = copy(self)
        changed._columns = {
            name: [change(value) if isinstance(value, str) else value for value in column] for name, column in self._columns.items()
        }
        return changed


def merge_parts(parts: Iterable[Row], newest_ms: Mapping[str, int]) -> Iterator[Row]:
    """Yield a row of ``ReportRows.ranked`` for each group that has audits, or only commits.

    Args:
        parts: of each group one after the other, in any order: per strategy of its observed audits generation_count, ``SUMS``, each with
            <name>_known, first_at_ms, last_at_ms, newest_position, newest_at_ms and member_count (both there; last_at_ms is later if a
            clock stepped back), predictable_count and predictable_at_ms (null without such a generation), settled_position and
            ``AT_LAST_SETTLED`` (null without a settled generation with members); per rule_id and severity of its findings, in other parts,
            finding_count, newest_position and cycle_s. rule_id is null in the first kind only. Of a group that only commits one part, with
            commit_count, first_at_ms, last_at_ms and newest_position. Of a group that was deleted one more, with deleted_position and
            deleted_at_ms.
    """
    for key, members in groupby(parts, group_key):
        audited: list[Row] = []
        found: list[Row] = []
        committed: list[Row] = []
        deleted: list[Row] = []
        for part in members:
            if part["rule_id"] is not None:
                found.append(part)
            elif part.get("deleted_position") is not None:
                deleted.append(part)
            else:
                (audited if part.get("commit_count") is None else committed).append(part)
        if audited:
            yield _merge(key, audited, found, newest_ms[key[0]], deleted)
        elif committed:
            yield _commits_only(key, committed[0])


def _commits_only(key: GroupKey, committed: Row) -> Row:
    counts = [f"{prefix}{severity}_count" for severity in Severity for prefix in ("", "current_")]
    times = {name: committed[name] for name in ("first_at_ms", "last_at_ms", "newest_position")}
    unknown = ("member_count", "settled_position", *AT_LAST_SETTLED, *SUMS)
    row = dict(zip(("cluster_id", "group_id"), key, strict=True)) | dict.fromkeys(counts, 0) | dict.fromkeys(unknown)
    return (
        row
        | dict.fromkeys([f"{name}_known" for name in SUMS], 0)
        | {
            "generation_count": 0,
            "predictable_count": 0,
            "predictable_at_ms": None,
            "strategy": COMMITS_ONLY,
            "need_severity": None,
            "need_rule": None,
            "lag_now": None,
            "deleted_at_ms": None,
            "calm_ms": 0,
            **times,
        }
    )


def _merge(key: GroupKey, audited: Sequence[Row], found: Sequence[Row], now_ms: int, deleted: Sequence[Row]) -> Row:
    newest = max(audited, key=itemgetter("newest_position"))
    settled = max((part for part in audited if part["settled_position"] is not None), key=itemgetter("settled_position"), default=None)
    row: dict[str, Any] = dict(zip(("cluster_id", "group_id"), key, strict=True))
    deleted_at_ms = next((part["deleted_at_ms"] for part in deleted if part["deleted_position"] > newest["newest_position"]), None)
    at = Newest(newest["newest_position"], now_ms - newest["newest_at_ms"], deleted_at_ms is not None)
    member_count = 0 if at.is_deleted else newest["member_count"]
    holding = [part for part in found if _holds(part, at)]
    current = [(part["severity"], part["rule_id"]) for part in holding]
    gain = None if settled is None else possible_gain(settled["imbalance_ratio"], settled["better_gain"])
    need = need_of(current, member_count, gain)
    for severity in Severity:
        of_severity = [part for part in found if part["severity"] == severity]
        row[f"{severity}_count"] = sum(part["finding_count"] for part in of_severity)
        # A rule finds a thing once in a generation.
        row[f"current_{severity}_count"] = sum(part["severity"] == severity for part in holding)
    for name in SUMS:
        known = [part[name] for part in audited if part[name] is not None]
        row[name] = sum(known) if known else None
        row[f"{name}_known"] = sum(part[f"{name}_known"] for part in audited)
    return row | {
        "generation_count": sum(part["generation_count"] for part in audited),
        "first_at_ms": min(part["first_at_ms"] for part in audited),
        "last_at_ms": max(part["last_at_ms"] for part in audited),
        "newest_position": at.position,
        "calm_ms": at.calm_ms,
        "predictable_count": sum(part["predictable_count"] for part in audited),
        "predictable_at_ms": max((part["predictable_at_ms"] for part in audited if part["predictable_count"]), default=None),
        "member_count": member_count,
        "deleted_at_ms": deleted_at_ms,
        "need_severity": None if need is None else need.severity,
        "need_rule": None if need is None else need.rule,
        "lag_now": None,
        "settled_position": None if settled is None else settled["settled_position"],
        "strategy": None if settled is None else settled["strategy"],
        **{name: None if settled is None else settled[name] for name in AT_LAST_SETTLED},
    }


def _holds(part: Row, newest: Newest) -> bool:
    return newest.holds(part["rule_id"], part["newest_position"], part["cycle_s"])


def newest_of(rows: Iterable[Row]) -> dict[GroupKey, Newest]:
    """Return what decides whether findings of these groups hold now."""
    return {group_key(row): Newest(row["newest_position"], row["calm_ms"], row["deleted_at_ms"] is not None) for row in rows}


def with_current(findings: Iterable[Row], newest: Mapping[GroupKey, Newest]) -> list[Row]:
    """Return findings with is_current, whether they hold now.

    Args:
        findings: the last one of each rule in a group, with position and cycle_s.
        newest: of each of these groups, see ``newest_of``.
    """
    return [{**row, "is_current": newest[group_key(row)].holds(row["rule_id"], row["position"], row["cycle_s"])} for row in findings]


def choose_findings(
    found: Iterable[Row], newest: Mapping[GroupKey, Newest], detailed: Collection[GroupKey], most: int
) -> dict[tuple[str, ...], Row]:
    """Return the findings that are shown, by their key: for each rule those of all groups with details, and others up to ``most`` groups.

    Groups with details come first, then groups in which the rule holds now, then groups with most findings.

    Args:
        found: the parts of ``merge_parts`` that are of findings.
        newest: of each group with a line, see ``newest_of``.
        detailed: groups with details.

    Returns:
        is_current, and of all groups of the rule and severity rule_finding_count, rule_group_count and rule_current_count.
    """
    kept = max(most, len(detailed))
    totals: dict[tuple[str, str], dict[str, int]] = {}
    candidates: dict[tuple[str, str], list[tuple[bool, bool, int, str, str]]] = {}
    for part in found:
        key, rule = group_key(part), (part["rule_id"], part["severity"])
        is_past = key not in newest or not _holds(part, newest[key])
        total = totals.setdefault(rule, {"rule_finding_count": 0, "rule_group_count": 0, "rule_current_count": 0})
        total["rule_finding_count"] += part["finding_count"]
        total["rule_group_count"] += 1
        total["rule_current_count"] += not is_past
        ordered = candidates.setdefault(rule, [])
        ordered.append((key not in detailed, is_past, -part["finding_count"], part["group_id"], part["cluster_id"]))
        if len(ordered) > 8 * kept:  # bounds the memory for a rule that holds in every group of a large fleet
            ordered.sort()
            del ordered[kept:]
    return {
        (cluster_id, group_id, *rule): {"is_current": not is_past, **totals[rule]}
        for rule, ordered in candidates.items()
        for number, (is_other, is_past, _, group_id, cluster_id) in enumerate(sorted(ordered)[:kept])
        if number < most or not is_other
    }
