"""Drawing of the owner changes of one generation: owners before on the left, owners after on the right, a band for each pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.pages.figures import movement_words

Row = Mapping[str, Any]

MOST_OWNERS = 12
"""How many owners one side names; those with fewest partitions share a place."""

NOBODY, OTHERS = "nobody", "others"

_WIDTH, _LEFT, _RIGHT, _BAR = 720.0, 230.0, 490.0, 9.0
_TALL, _GAP, _LEAST = 150.0, 10.0, 12.0  # height for all partitions, between two owners, of an owner at least


@dataclass(frozen=True)
class Owner:
    """One owner on one side; ``title`` is the whole name of a shortened ``name``."""

    name: str
    title: str
    partition_count: int
    y: float
    height: float


@dataclass(frozen=True)
class Band:
    """Partitions that went from one owner to another.

    Attributes:
        path: SVG.
        style: the most frequent kind.
        title: the number of each kind, and the owners.
    """

    path: str
    style: str
    title: str


@dataclass(frozen=True)
class Exchange:
    """A drawing, and its text for readers who do not see it; ``cut`` says what is not drawn, and is empty if everything is."""

    height: float
    before: tuple[Owner, ...]
    after: tuple[Owner, ...]
    bands: tuple[Band, ...]
    words: str
    cut: str
    width: float = _WIDTH
    left: float = _LEFT
    right: float = _RIGHT
    bar: float = _BAR


def draw_exchange(flows: Sequence[Row], names: Mapping[str, str], changed: int) -> Exchange | None:
    """Return the drawing of one generation's ``flows``; None without any.

    Args:
        flows: rows of ``ReportRows.flows`` of one position.
        names: short forms of owners' names.
        changed: number of partitions that changed owner there; ``flows`` may hold fewer.
    """
    if not flows:
        return None
    givers, takers = _named(flows, "previous_member_id"), _named(flows, "member_id")
    moved: dict[tuple[str, str], dict[str, int]] = {}
    for flow in flows:
        pair = (_owner_key(flow["previous_member_id"], givers), _owner_key(flow["member_id"], takers))
        kinds = moved.setdefault(pair, {})
        kind = movement_words(flow["kind"], flow["cause"])
        kinds[kind] = kinds.get(kind, 0) + flow["partition_count"]
    totals = {pair: sum(kinds.values()) for pair, kinds in moved.items()}
    drawn = sum(totals.values())
    scale = _TALL / drawn
    before, after = _stack(totals, 0, scale, names), _stack(totals, 1, scale, names)
    return Exchange(
        height=round(max(side[-1].y + side[-1].height for side in (list(before.values()), list(after.values()))) + 2, 1),
        before=tuple(before.values()),
        after=tuple(after.values()),
        bands=tuple(_bands(moved, totals, before, after)),
        words="; ".join(_title(moved[pair], before[pair[0]], after[pair[1]]) for pair, _ in _largest_first(totals)),
        cut=f"{drawn:,} of {changed:,} partitions that changed owner are drawn" if drawn < changed else "",
    )


def _title(kinds: Mapping[str, int], giver: Owner, taker: Owner) -> str:
    """Return a band as text; its colour shows only one kind, and not to every reader."""
    parts = ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items(), key=lambda item: (-item[1], item[0])))
    return f"{parts} from {giver.name} to {taker.name}"


def _named(flows: Sequence[Row], column: str) -> set[str]:
    """Return the owners that get their own place: all, or those with most partitions, one fewer than ``MOST_OWNERS``."""
    totals: dict[str, int] = {}
    for flow in flows:
        if flow[column] is not None:
            totals[flow[column]] = totals.get(flow[column], 0) + flow["partition_count"]
    ordered = sorted(totals, key=lambda owner: (-totals[owner], owner))
    return set(ordered if len(ordered) <= MOST_OWNERS else ordered[: MOST_OWNERS - 1])


def _owner_key(owner: str | None, named: set[str]) -> str:
    """Return the place of an owner: keys of owners begin with a dot, so no name equals one of the two others."""
    return NOBODY if owner is None else f".{owner}" if owner in named else OTHERS


def _largest_first(totals: Mapping[tuple[str, str], int]) -> list[tuple[tuple[str, str], int]]:
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))


def _stack(totals: Mapping[tuple[str, str], int], side: int, scale: float, names: Mapping[str, str]) -> dict[str, Owner]:
    """Return one side's owners from top to bottom: by name, and those without a name last."""
    numbers: dict[str, int] = {}
    for pair, number in totals.items():
        numbers[pair[side]] = numbers.get(pair[side], 0) + number
    stacked, y = {}, 1.0
    for key in sorted(numbers, key=lambda key: (not key.startswith("."), key)):
        name = names[key[1:]] if key.startswith(".") else key
        height = round(max(_LEAST, numbers[key] * scale), 1)
        stacked[key] = Owner(name, key[1:] if key.startswith(".") else key, numbers[key], round(y, 1), height)
        y += height + _GAP
    return stacked


def _bands(
    moved: Mapping[tuple[str, str], Mapping[str, int]],
    totals: Mapping[tuple[str, str], int],
    before: Mapping[str, Owner],
    after: Mapping[str, Owner],
) -> list[Band]:
    """Return the bands; each end is as thick as the band's share of that owner's place."""
    leaves, arrives = ({key: owner.y for key, owner in side.items()} for side in (before, after))
    middle = (_LEFT + _RIGHT) / 2
    bands = []
    for giver, taker in sorted(totals, key=lambda pair: (list(before).index(pair[0]), list(after).index(pair[1]))):
        number = totals[giver, taker]
        left, right = (number * owner.height / owner.partition_count for owner in (before[giver], after[taker]))
        top, end = leaves[giver], arrives[taker]
        leaves[giver], arrives[taker] = top + left, end + right
        path = (
            f"M{_LEFT:g} {top:.1f}C{middle:g} {top:.1f} {middle:g} {end:.1f} {_RIGHT:g} {end:.1f}"
            f"V{end + right:.1f}C{middle:g} {end + right:.1f} {middle:g} {top + left:.1f} {_LEFT:g} {top + left:.1f}Z"
        )
        kinds = moved[giver, taker]
        style = max(sorted(kinds), key=lambda kind: kinds[kind]).replace(" ", "_")
        bands.append(Band(path, style, _title(kinds, before[giver], after[taker])))
    return bands
