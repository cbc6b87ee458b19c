"""The groups, a line for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from jobs.pages.figures import EN_DASH, Figure, Total, count, from_ms, moment, ratio
from jobs.pages.needs import could_be, needs_words
from jobs.report.anchors import anchor
from jobs.report.measures import WHY
from jobs.report.ranking import Ranking, group_key
from jobs.report.rows import Row
from jobs.report.view import GroupLine


class GroupLines(Sequence[GroupLine]):
    """The lines of the groups of a ranking, in its order. A line is made on access, since most are shown only as packed data."""

    def __init__(self, ranked: Ranking) -> None:
        self._ranked = ranked

    def __len__(self) -> int:
        return len(self._ranked)

    @overload
    def __getitem__(self, index: int) -> GroupLine: ...

    @overload
    def __getitem__(self, index: slice) -> list[GroupLine]: ...

    def __getitem__(self, index: int | slice) -> GroupLine | list[GroupLine]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        row = self._ranked[index]
        return GroupLine(
            rank=range(1, len(self) + 1)[index],
            anchor=anchor(*group_key(row)),
            cluster_id=row["cluster_id"],
            group_id=row["group_id"],
            strategy=row["strategy"] or EN_DASH,
            needs=needs_words(row),
            needs_severity=row["need_severity"] or "",
            critical=count(row["critical_count"]),
            warning=count(row["warning_count"]),
            avoidable=_sum(row, "avoidable_movement_count"),
            movements=_sum(row, "movement_count"),
            imbalance=ratio(row["imbalance_ratio"], WHY["imbalance_ratio"]),
            could_be=ratio(could_be(row["imbalance_ratio"], row["better_gain"]), WHY["imbalance_ratio"]),
            lag_now=count(row["lag_now"], "no partition has both a commit and a known end, or too many commits are stored"),
            members=_members(row),
            generations=count(row["generation_count"]),
            last_at=moment(from_ms(row["last_at_ms"])),
        )


def _members(row: Row) -> Figure:
    if row["deleted_at_ms"] is not None:
        return Figure("deleted", f"at {moment(from_ms(row['deleted_at_ms']))} UTC", 0)
    return count(row["member_count"], WHY["member_count"])


def _sum(row: Row, measure: str) -> Figure:
    return Total(row[measure] or 0, row[f"{measure}_known"], row["generation_count"]).figure(WHY[measure])
