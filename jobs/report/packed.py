"""The lines of the groups as packed data: an array for each group. The script of a page makes a row of it when it is shown."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobs.pages.needs import could_be, needs_words
from jobs.pages.shell import as_script_data
from jobs.report.anchors import anchor_digest
from jobs.report.ranking import Ranking

_COLUMNS = (
    "cluster_id",
    "group_id",
    "strategy",
    "critical_count",
    "warning_count",
    "current_critical_count",
    "current_warning_count",
    "need_severity",
    "need_rule",
    "avoidable_movement_count",
    "avoidable_movement_count_known",
    "movement_count",
    "movement_count_known",
    "imbalance_ratio",
    "better_gain",
    "lag_now",
    "member_count",
    "deleted_at_ms",
    "generation_count",
    "last_at_ms",
)

PACKED = (
    *("group", "cluster", "strategy", "needs", "severity", "critical", "warning", "avoidable", "avoidable_unknown", "movements"),
    *("movements_unknown", "imbalance", "could_be", "lag", "members", "generations", "seconds_ago", "anchor"),
)
"""The members of a line's array.

A cluster, strategy, need or severity is a text at its first occurrence in a file, and later its number among the earlier texts of its
kind. ``needs`` and ``severity`` are empty if nobody is needed now. ``unknown`` counts the generations that do not know the measure.
``members`` is -1 for a group that was deleted.
``seconds_ago`` is counted from ``PackedLines.newest``. ``anchor`` is the digest in the group's anchor, as base64 with the alphabet of
addresses. Unknown values are null."""


@dataclass(frozen=True)
class PackedLines:
    """The lines of one file.

    Attributes:
        first: rank of the first of them.
        count: how many there are.
        newest: time of the newest snapshot or commit of all groups, in seconds since 1970.
        lines: JSON arrays, with a comma and a line's end between them. They have no ``<``, so no name can end the element that they
            are in.
    """

    first: int
    count: int
    newest: int
    lines: str

    @property
    def last(self) -> int:
        """Rank of the last line."""
        return self.first + self.count - 1


def pack_lines(ranked: Ranking, first_room: int, further_room: int) -> Iterator[PackedLines]:
    """Yield the lines file by file; each file has as many as fit, and at least one.

    Args:
        ranked: groups with masked names.
        first_room: bytes that lines may take in the first file; a line counts with its separator.
        further_room: the same for each other file.
    """
    newest = max((at_ms for (at_ms,) in ranked.values("last_at_ms")), default=0) // 1000
    packer, room, first = _Packer(newest), first_room, 1
    lines: list[str] = []
    for values in ranked.values(*_COLUMNS):
        line = packer.pack(*values)
        room -= len(line.encode()) + 2
        if room < 0 and lines:
            yield PackedLines(first, len(lines), newest, ",\n".join(lines))
            first += len(lines)
            packer = _Packer(newest)
            line = packer.pack(*values)
            lines, room = [], further_room - len(line.encode()) - 2
        lines.append(line)
    yield PackedLines(first, len(lines), newest, ",\n".join(lines))


class _Packer:
    """Packs lines of one file; a repeated text becomes a number."""

    def __init__(self, newest: int) -> None:
        self._newest = newest
        self._clusters: dict[str | None, int] = {}
        self._strategies: dict[str | None, int] = {}
        self._needs: dict[str | None, int] = {}
        self._severities: dict[str | None, int] = {}

    def pack(
        self,
        cluster_id: str,
        group_id: str,
        strategy: str | None,
        critical: int,
        warning: int,
        current_critical: int,
        current_warning: int,
        severity: str | None,
        rule: str | None,
        avoidable: int | None,
        avoidable_known: int,
        movements: int | None,
        movements_known: int,
        imbalance: float | None,
        better_gain: float | None,
        lag: int | None,
        members: int | None,
        deleted_at_ms: int | None,
        generations: int,
        last_at_ms: int,
    ) -> str:
        """Return one line."""
        digest = base64.urlsafe_b64encode(anchor_digest(cluster_id, group_id)).decode().rstrip("=")
        best = could_be(imbalance, better_gain)
        figures = [
            critical,
            warning,
            _or_null(avoidable),
            generations - avoidable_known,
            _or_null(movements),
            generations - movements_known,
            "null" if imbalance is None else f"{imbalance:.2f}",
            "null" if best is None else f"{best:.2f}",
            _or_null(lag),
            _or_null(members) if deleted_at_ms is None else -1,
            generations,
            self._newest - last_at_ms // 1000,
        ]
        names = f"{as_script_data(group_id)},{_once(self._clusters, cluster_id)},{_once(self._strategies, strategy or None)}"
        need = needs_words({"need_rule": rule, "current_critical_count": current_critical, "current_warning_count": current_warning})
        needs = f"{_once(self._needs, need)},{_once(self._severities, severity or '')}"
        return f'[{names},{needs},{",".join(map(str, figures))},"{digest}"]'


def _or_null(value: Any) -> Any:
    return "null" if value is None else value


def _once(known: dict[str | None, int], text: str | None) -> str:
    """Return a text, or its number if it is one of the earlier texts."""
    if text in known:
        return str(known[text])
    known[text] = len(known)
    return "null" if text is None else as_script_data(text)
