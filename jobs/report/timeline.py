"""Geometry of a group's timeline: one column for each generation, and tracks below each other; the template only draws it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assignors.audit.triggers import Trigger
from jobs.pages.figures import EN_DASH, counted, from_ms, moment, short_names, words
from jobs.pages.generation_words import special, what_changed

Row = Mapping[str, Any]

KINDS = ("revoked", "reassigned", "handed_over")
"""The kinds of movement in the order of a bar, from the bottom. These three are the parts of ``movement_count``."""

CONFORMANCE_MARKS = {
    "exact": "=",
    "equal_sets": "\N{APPROXIMATELY EQUAL TO}",
    "equal_balance": "\N{ALMOST EQUAL TO}",
    "differs": "\N{NOT EQUAL TO}",
    "not_comparable": "?",
}
"""The sign of each conformance, so readers need not distinguish colours."""

CAUSE_MARKS = {
    Trigger.GROUP_CREATED: "*",
    Trigger.GROUP_EMPTIED: "\N{EMPTY SET}",
    Trigger.MEMBER_JOINED: "+",
    Trigger.MEMBER_LEFT: "\N{MINUS SIGN}",
    Trigger.MEMBER_REPLACED: "\N{PLUS-MINUS SIGN}",
    Trigger.MEMBER_RETURNED: "r",
    Trigger.STATIC_MEMBER_RETURNED: "s",
    Trigger.SUBSCRIPTION_CHANGED: "S",
    Trigger.TOPIC_CREATED: "T",
    Trigger.TOPIC_DELETED: "D",
    Trigger.PARTITIONS_ADDED: "P",
    Trigger.STRATEGY_CHANGED: "A",
    Trigger.RACK_CHANGED: "R",
    Trigger.COOPERATIVE_FOLLOW_UP: "\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}",
    Trigger.UPGRADED_TO_CONSUMER: "U",
    Trigger.DOWNGRADED_TO_CLASSIC: "C",
    Trigger.GENERATION_REWRITTEN: "\N{CLOCKWISE OPEN CIRCLE ARROW}",
    Trigger.NONE_VISIBLE: "?",
}
"""The sign of each cause under its generation; the legend of a drawing explains the signs in it."""

ARROW = "\N{RIGHTWARDS ARROW}"

NEAR_MS = 10 * 60_000
"""How far the time of a generation and of the line with its number may differ: numbers begin again if a group is made again."""

_WIDEST, _NARROWEST, _WANTED = 46, 15, 900
_DIGIT = 6.2  # width of a digit at the chart's 11 px
_SIGN = 8.5  # of the widest cause's sign at 12 px
_BARS = {"members": (26, 36), "movements": (86, 54), "revocations": (166, 46)}  # track: (top, height)
_RATIO = (240, 40)
_MARKS_Y, _CAUSES_Y, _NAMES_Y, _HEIGHT = 308, 328, 346, 354


@dataclass(frozen=True)
class Bar:
    """A rectangle of a track, and the number above it; ``style`` is its CSS class."""

    style: str
    x: float
    y: float
    width: float
    height: float
    label: str = ""


@dataclass(frozen=True)
class Column:
    """Everything drawn for one generation."""

    x: float
    middle: float
    name: str
    title: str
    tint: str
    causes: str
    edge: str
    edge_label: str
    mark: str
    mark_style: str
    bars: tuple[Bar, ...]
    ratio_y: float | None
    ratio_label: str


@dataclass(frozen=True)
class Timeline:
    """A drawing: its width, its columns, the line through the imbalance ratios, and the range of the ratio track.

    ``causes`` are the signs in it, each with its meaning.
    """

    width: float
    column_width: float
    columns: tuple[Column, ...]
    causes: tuple[tuple[str, str], ...]
    ratio_lines: tuple[str, ...]
    ratio_top: str
    height: int = _HEIGHT
    marks_y: int = _MARKS_Y
    causes_y: int = _CAUSES_Y
    names_y: int = _NAMES_Y


def moved(row: Row) -> dict[str, int] | None:
    """Return the parts of ``movement_count`` by kind; None if the generation has no known predecessor."""
    if row["movement_count"] is None:
        return None
    return {kind: row[f"{kind}_count"] or 0 for kind in KINDS}


def course(row: Row) -> str:
    """Return how a generation came about, how long that took, and who else leads or coordinates; empty if nothing of it is known.

    Of a consumer-protocol group these are epoch, target and outcome. An epoch that leaves no members has no target.
    """
    return "; ".join(filter(None, [_steps(row), *_lengths(row), *row["changes"]]))


def _steps(row: Row) -> str:
    outcome = _outcome(row)
    if row["member_count"] == 0 or (not outcome and row["epoch_at_ms"] is None):
        return ""
    begun = "" if row["epoch_at_ms"] is None else f" {_later(row['epoch_at_ms'], row['observed_at_ms'])}"
    steps = ("epoch", f"target{begun}", outcome or "not reconciled")
    batched = row["batched_epoch_count"] or 0
    shared = f" ({batched} earlier {'epoch shares' if batched == 1 else 'epochs share'} the target)" if batched else ""
    return f" {ARROW} ".join(steps) + shared


def _lengths(row: Row) -> Iterator[str]:
    """Yield the lengths of the parts of a rebalance: those in a coordinator's log, and from the epoch to the last member."""
    if row["rebalance_ms"] is not None:
        yield f"all members joined within {length(row['rebalance_ms'])}"
    if row["assignment_ms"] is not None:
        yield f"assigned within {length(row['assignment_ms'])}"
    if row["reconciled_ms"] is not None:
        yield f"{length(row['reconciled_ms'])} from the epoch to the last member"


def length(milliseconds: int) -> str:
    """Return a length of time with two or three digits and the unit that people would use.

    >>> length(12), length(3_240), length(90_000), length(5_400_000)
    ('12 ms', '3.2 s', '1.5 min', '1.5 h')
    """
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3_600 else f"{seconds / 3_600:,.1f} h"


def _outcome(row: Row) -> str:
    """Return whether all members reached the target; an empty text if that is not known."""
    if row["is_superseded"]:
        return "superseded by the next target"
    return "" if row["reconciled_at_ms"] is None else f"reconciled {_later(row['observed_at_ms'], row['reconciled_at_ms'])}"


def _later(since_ms: int, at_ms: int) -> str:
    return f"+{max(0, at_ms - since_ms) / 1000:,.1f} s"


def with_changes(generations: Sequence[Row], changes: Iterable[Row]) -> list[Row]:
    """Return generations of a group with ``changes``, the texts of those that belong to each.

    Args:
        changes: of the group, as ``ReportRows.changes`` describes them.
    """
    known = sorted(changes, key=lambda row: (row["kind"], row["at_ms"]))
    short = short_names(row[name] for row in known for name in ("before", "after"))

    def belongs(change: Row, row: Row) -> bool:
        if change["position"] is not None:
            return bool(change["position"] == row["position"])
        return bool(change["generation"] == row["generation"] and abs(change["at_ms"] - row["observed_at_ms"]) <= NEAR_MS)

    return [
        {
            **row,
            "changes": tuple(
                f"{change['kind']} {short[change['before']]} {ARROW} {short[change['after']]}" for change in known if belongs(change, row)
            ),
        }
        for row in generations
    ]


def describe(row: Row) -> str:
    """Return one generation in words: the tooltip of its column."""
    parts = moved(row)
    movements = "movements not known" if parts is None else ", ".join(f"{number} {words(kind)}" for kind, number in parts.items() if number)
    ratio = row["imbalance_ratio"]
    lines = [
        f"generation {row['generation']}, {moment(from_ms(row['observed_at_ms']))}",
        special(row) or what_changed(row) or "no trigger known",
        *filter(None, [course(row)]),
        f"{counted(row['member_count'], 'member')}, {counted(row['partition_count'], 'partition')}",
        movements or "nothing moved",
        f"imbalance {EN_DASH if ratio is None else f'{ratio:.2f}'}, {words(row['conformance'] or 'conformance not known')}",
    ]
    return "\n".join(lines)


def draw(generations: Sequence[Row]) -> Timeline:
    """Return the drawing of a group's generations, which come in the order of their position."""
    column_width = max(_NARROWEST, min(_WIDEST, _WANTED / max(1, len(generations))))
    highest_ratio = max((row["imbalance_ratio"] or 1.0 for row in generations), default=1.0)
    scales = {
        "members": _highest(row["member_count"] for row in generations),
        "movements": _highest(row["movement_count"] for row in generations),
        "revocations": _highest(max(row["eager_revocation_count"] or 0, row["actual_revocation_count"] or 0) for row in generations),
    }
    columns = tuple(
        _column(row, index * column_width, column_width, scales, max(highest_ratio, 1.5), is_first=index == 0)
        for index, row in enumerate(generations)
    )
    return Timeline(
        width=round(column_width * len(generations), 1),
        column_width=round(column_width, 1),
        columns=columns,
        causes=tuple(
            (mark, words(cause)) for cause, mark in CAUSE_MARKS.items() if any(cause in (row["triggers"] or ()) for row in generations)
        ),
        ratio_lines=_ratio_lines(columns),
        ratio_top=f"{max(highest_ratio, 1.5):.1f}",
    )


def _highest(values: Iterable[int | None]) -> int:
    return max((value or 0 for value in values), default=0) or 1


def _column(row: Row, x: float, width: float, scales: Mapping[str, int], ratio_top: float, is_first: bool) -> Column:
    kind = special(row)
    gap = row["generation_gap"] or 0
    starts = row["previous_generation"] is None
    ratio = row["imbalance_ratio"]
    top, height = _RATIO
    name = str(row["generation"])
    return Column(
        x=round(x, 1),
        middle=round(x + width / 2, 1),
        name=name if _fits(name, width) or row["generation"] % 5 == 0 else "",
        title=describe(row),
        tint=kind or ("empty" if row["member_count"] == 0 else ""),
        causes=_causes(row, width),
        edge="start" if starts else "gap" if gap > 0 else "",
        edge_label=("start" if is_first else "new life") if starts else f"+{gap}" if gap > 0 else "",
        mark=CONFORMANCE_MARKS.get(row["conformance"], EN_DASH),
        mark_style=row["conformance"] or "none",
        bars=tuple(_bars(row, x, width, scales)),
        ratio_y=None if ratio is None else round(top + height * (1 - (ratio - 1) / (ratio_top - 1)), 1),
        ratio_label="" if ratio is None or width < 28 else f"{ratio:.2f}",
    )


def _causes(row: Row, width: float) -> str:
    """Return the signs of a generation's causes, as many as fit into the column, and an ellipsis for the others."""
    if row["triggers"] is None:
        return EN_DASH
    marks = "".join(CAUSE_MARKS.get(cause, "?") for cause in row["triggers"])
    room = max(1, int((width - 3) // _SIGN))
    return marks if len(marks) <= room else f"{marks[: room - 1]}\N{HORIZONTAL ELLIPSIS}"


def _fits(text: str, width: float) -> bool:
    return len(text) * _DIGIT + 3 <= width


def _bars(row: Row, x: float, width: float, scales: Mapping[str, int]) -> list[Bar]:
    """Return the bars of one column; an unknown value is a dash on the baseline, never an empty place."""
    bars = [_bar("members", "members", row["member_count"], x, width, scales)]
    parts = moved(row)
    if parts is None:
        bars.append(_bar("movements", "", None, x, width, scales))
    else:
        below = 0
        for kind, number in parts.items():
            if number:
                below += number
                bar = _bar("movements", kind, number, x, width, scales, raised=below - number)
                label = f"{below:,}" if below == row["movement_count"] and _fits(f"{below:,}", width) else ""
                bars.append(Bar(bar.style, bar.x, bar.y, bar.width, bar.height, label))
    bars.append(_bar("revocations", "eager", row["eager_revocation_count"], x, width, scales, labelled=False))
    bars.append(_bar("revocations", "actual", row["actual_revocation_count"], x, width, scales))
    return [bar for bar in bars if bar.height or bar.label]


def _bar(
    track: str, style: str, value: int | None, x: float, width: float, scales: Mapping[str, int], raised: int = 0, labelled: bool = True
) -> Bar:
    top, height = _BARS[track]
    inset = 0.14 * width
    left, across = round(x + inset, 1), round(width - 2 * inset, 1)
    if value is None:
        return Bar("unknown", left, top + height, across, 0, EN_DASH if labelled else "")
    tall = round(height * value / scales[track], 1)
    label = f"{value:,}" if labelled and value and _fits(f"{value:,}", width) else ""
    return Bar(style, left, round(top + height - tall - height * raised / scales[track], 1), across, tall, label)


def _ratio_lines(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the points of each unbroken run of known ratios; a new incarnation of the group breaks the line."""
    runs: list[list[str]] = [[]]
    for column in columns:
        if column.ratio_y is None or column.edge == "start":
            runs.append([])
        if column.ratio_y is not None:
            runs[-1].append(f"{column.middle},{column.ratio_y}")
    return tuple(" ".join(run) for run in runs if len(run) > 1)
