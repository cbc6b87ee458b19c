"""The member x topic heat map of one generation: how many partitions of each topic each member has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]

LEVELS = 6
"""Number of shades of the scale; level 0 is an empty cell."""


@dataclass(frozen=True)
class Cell:
    """Number of partitions of one topic that one member has, and the shade of that number."""

    partition_count: int
    level: int


@dataclass(frozen=True)
class HeatLine:
    """One member: its load over all topics, ``share`` of the largest load (0 to 100), and its partitions of each shown topic."""

    member_id: str
    short: str
    instance_id: str
    load: int
    share: float
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Heat:
    """The map, and the totals of what does not fit on it.

    Attributes:
        topics: shown topics by name.
        lines: shown members, largest load first.
        totals: partitions per shown topic, over the shown members.
        mean_share: mean load of the group's members, shown or not, as a share of the largest.
        member_total, topic_total: members and topics of the group, shown or not.
    """

    topics: tuple[str, ...]
    lines: tuple[HeatLine, ...]
    totals: tuple[int, ...]
    mean_share: float
    member_total: int
    topic_total: int


def lay_out(holdings: Sequence[Row], mean_load: float, names: Mapping[str, str]) -> Heat | None:
    """Return the map of one group's ``holdings``; None when there are none.

    Args:
        holdings: rows of ``ReportRows.holdings``, of all members or of those with extreme loads.
        mean_load: of all members.
        names: of the members, by id.
    """
    if not holdings:
        return None
    loads = {row["member_id"]: row["member_partition_count"] for row in holdings}
    instances = {row["member_id"]: row["group_instance_id"] for row in holdings}
    counts = {(row["member_id"], row["topic"]): row["topic_partition_count"] for row in holdings if row["topic"] is not None}
    topics = tuple(sorted({topic for _, topic in counts}))
    members = sorted(loads, key=lambda member: (-loads[member], instances[member] or "", member))
    most, heaviest = max(counts.values(), default=0), max(loads.values())

    def cell(member: str, topic: str) -> Cell:
        number = counts.get((member, topic), 0)
        return Cell(number, -(-LEVELS * number // max(most, LEVELS)))

    lines = tuple(
        HeatLine(
            member_id=member,
            short=names[member],
            instance_id=instances[member] or "",
            load=loads[member],
            share=round(100 * loads[member] / heaviest, 1) if heaviest else 0.0,
            cells=tuple(cell(member, topic) for topic in topics),
        )
        for member in members
    )
    return Heat(
        topics=topics,
        lines=lines,
        totals=tuple(sum(counts.get((member, topic), 0) for member in members) for topic in topics),
        mean_share=round(100 * mean_load / heaviest, 1) if heaviest else 0.0,
        member_total=holdings[0]["member_total"],
        topic_total=holdings[0]["topic_total"],
    )
