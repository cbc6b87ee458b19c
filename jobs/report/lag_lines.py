"""The lag of now in the details of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.pages.figures import EN_DASH, Figure, count, from_ms, moment

Row = Mapping[str, Any]

_NO_COMMIT, _NO_END = "the group has no commit of it", "no metadata snapshot has the end of its log"


@dataclass(frozen=True)
class LagLine:
    """The lag of one partition by its newest commit and the newest end of its log; an empty member is nobody."""

    member: str
    member_short: str
    topic: str
    partition: int
    committed: Figure
    committed_at: str
    end: Figure
    looked_at: str
    lag: Figure

    def cells(self) -> Iterator[tuple[str, Figure]]:
        """Yield the figures that may not be known."""
        yield "committed", self.committed
        yield "end of the log", self.end
        yield "lag", self.lag


def total_lag(lags: Sequence[Row]) -> Figure:
    """Return the lag of all partitions of a group together.

    Args:
        lags: rows of ``ReportRows.lags`` of the group; all have the same total.
    """
    if not lags or lags[0]["group_lag"] is None:
        return Figure(EN_DASH, "no partition has both a commit and a known end of its log")
    total, known, partitions = int(lags[0]["group_lag"]), lags[0]["known_count"], lags[0]["partition_total"]
    if known == partitions:
        return count(total)
    return Figure(f"{total:,}", f"known for {known:,} of {partitions:,} partitions", total, known)


def lags_of_groups(lags: Iterable[Row]) -> dict[tuple[str, str], int]:
    """Return the lag of all partitions of each group that has one with a known lag.

    Args:
        lags: rows of ``ReportRows.lags`` and ``ReportRows.group_lags``.
    """
    return {(row["cluster_id"], row["group_id"]): int(row["group_lag"]) for row in lags if row["group_lag"] is not None}


def lag_lines(lags: Sequence[Row], names: Mapping[str, str]) -> tuple[LagLine, ...]:
    """Return a line for each row, the largest lag first and unknown ones last.

    Args:
        lags: rows of ``ReportRows.lags`` of one group.
        names: member id -> name, see ``member_names.name_members``.
    """
    ordered = sorted(lags, key=lambda row: (row["lag"] is None, -(row["lag"] or 0), row["topic"], row["partition"], row["member_id"] or ""))
    return tuple(
        LagLine(
            member=row["member_id"] or "",
            member_short="nobody" if row["member_id"] is None else names[row["member_id"]],
            topic=row["topic"],
            partition=row["partition"],
            committed=count(row["committed_offset"], _NO_COMMIT),
            committed_at=moment(from_ms(row["committed_ms"])),
            end=count(row["end_offset"], _NO_END),
            looked_at=moment(from_ms(row["looked_ms"])),
            lag=count(row["lag"], _NO_COMMIT if row["committed_offset"] is None else _NO_END),
        )
        for row in ordered
    )
