"""The measures of the page, the summary and the exports: one table with their columns, names and aggregates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from jobs.pages.figures import Figure, count, ratio, seconds


class Aggregate(Enum):
    """The value of a measure over a history: the sum of its generations, or the value of the last settled one with members."""

    SUM = 1
    LAST_SETTLED = 2


@dataclass(frozen=True)
class Measure:
    """A number in a column of audits, or of rows made from audits.

    Attributes:
        column: name of the column.
        title: its name where the page lists figures that are not known; if empty, the name of the column.
        why: why it can be unknown over a whole history.
        aggregate: None if no column of audits is aggregated for it, or if queries do it in different ways.
        is_only_unbroken: its sums leave out generations after a gap, for which it is not known.
        total: name and note of its sum in the fleet's totals; None if they do not have it.
        generation: the function that writes one generation's value, and why that can be unknown; None if the table of generations does
            not have it.
        gauge: name and help of its Prometheus gauge; None without one. Measures with a gauge are in the row of every group.
    """

    column: str
    title: str = ""
    why: str = ""
    aggregate: Aggregate | None = None
    is_only_unbroken: bool = False
    total: tuple[str, str] | None = None
    generation: tuple[Callable[[Any, str], Figure], str] | None = None
    gauge: tuple[str, str] | None = None


_NO_PREDECESSOR, _FIRST = "no generation with a known predecessor", "its predecessor is not known"
_NOT_SETTLED = "no settled generation with members and partitions"
_NO_LAG = "no commit with a later metadata snapshot, or no lag"
_NO_RATE = "no metadata snapshots before and after, or no new records"

MEASURES = (
    Measure(
        "member_count",
        why="only commits of the group have landed",
        generation=(count, "not known"),
        gauge=("members", "Members in the group's last snapshot."),
    ),
    Measure("generation_count", gauge=("generations", "Generations of the group that are kept and audited.")),
    Measure("idle_member_count", generation=(count, "not known")),
    Measure("partition_count", generation=(count, "not known")),
    Measure(
        "movement_count",
        "movements",
        _NO_PREDECESSOR,
        Aggregate.SUM,
        total=("movements", "partitions that changed owner"),
        generation=(count, _FIRST),
        gauge=("movements", "Partitions that changed owner in these generations."),
    ),
    Measure(
        "avoidable_movement_count",
        "avoidable movements",
        "no settled generation whose predecessor is known",
        Aggregate.SUM,
        is_only_unbroken=True,
        total=("avoidable", "movements beyond what balance needs"),
        generation=(count, "no predecessor, or not settled"),
        gauge=("avoidable_movements", "Movements beyond what balance needs."),
    ),
    Measure(
        "actual_revocation_count",
        "actual revocations",
        "the members' claims do not show it, or there is no predecessor",
        Aggregate.SUM,
        total=("revocations", "as the members' claims show"),
        generation=(count, "the members' claims do not show it, or its predecessor is not known"),
    ),
    Measure(
        "eager_revocation_count",
        "eager",
        _NO_PREDECESSOR,
        Aggregate.SUM,
        total=("if eager", "if every member gave up everything"),
        generation=(count, _FIRST),
    ),
    Measure(
        "cooperative_revocation_count",
        "cooperative",
        _NO_PREDECESSOR,
        Aggregate.SUM,
        total=("if cooperative", "if members gave up only what they lost"),
        generation=(count, _FIRST),
    ),
    Measure(
        "imbalance_ratio",
        "imbalance by count",
        _NOT_SETTLED,
        Aggregate.LAST_SETTLED,
        generation=(ratio, "no members, or no partitions"),
        gauge=("imbalance_ratio", "Largest over mean number of partitions a member, last settled generation."),
    ),
    Measure("lag_imbalance_ratio", "by lag", _NO_LAG, Aggregate.LAST_SETTLED, generation=(ratio, _NO_LAG)),
    Measure("throughput_imbalance_ratio", "by throughput", _NO_RATE, Aggregate.LAST_SETTLED, generation=(ratio, _NO_RATE)),
    Measure("rack_match_ratio", why="members name no racks, or the racks of replicas are not known", aggregate=Aggregate.LAST_SETTLED),
    Measure(
        "partitions_per_member_min",
        aggregate=Aggregate.LAST_SETTLED,
        gauge=("member_partitions_min", "Smallest number of partitions of a member, last settled generation."),
    ),
    Measure(
        "partitions_per_member_max",
        aggregate=Aggregate.LAST_SETTLED,
        gauge=("member_partitions_max", "Largest number of partitions of a member, last settled generation."),
    ),
    Measure("partitions_per_member_mean", aggregate=Aggregate.LAST_SETTLED),
    Measure("follow_up_ms", "seconds to follow-up", generation=(seconds, "the next generation is no follow-up")),
    Measure("pause_partition_ms", "seconds unowned", generation=(seconds, "there is no next generation")),
    Measure("rebalance_count", "calls", "not known for any generation"),
    Measure("imbalance_ratio_mean", "mean imbalance", _NOT_SETTLED),
    Measure("imbalance_ratio_max", "worst imbalance", _NOT_SETTLED),
    Measure("spread_max", "largest spread", _NOT_SETTLED),
)
"""In the order of the page's totals, the columns of its tables, and the Prometheus gauges."""

OF_GENERATION = {measure.column: measure.generation for measure in MEASURES if measure.generation}
"""The columns of the table of generations, each with the function that writes a number and why it can be unknown."""
TITLES = {measure.column: measure.title for measure in MEASURES if measure.title}
WHY = {measure.column: measure.why for measure in MEASURES if measure.why}
"""Why a figure can be unknown over a history, by column."""

SUMMED = tuple(measure.column for measure in MEASURES if measure.aggregate is Aggregate.SUM)
"""Audit columns that the report sums: a tally has ``<column>_sum`` and ``<column>_known``, the number of rows that know it."""
ONLY_UNBROKEN = frozenset(measure.column for measure in MEASURES if measure.is_only_unbroken)
SETTLED = tuple(measure.column for measure in MEASURES if measure.aggregate is Aggregate.LAST_SETTLED)
"""Audit columns of a group's last settled generation with members that its details show."""

SUMS = tuple(measure.column for measure in MEASURES if measure.gauge and measure.aggregate is Aggregate.SUM)
"""Measures whose sum over the history is in every group's row; ``<column>_known`` counts the generations that know it."""
AT_LAST_SETTLED = (
    *(measure.column for measure in MEASURES if measure.gauge and measure.aggregate is Aggregate.LAST_SETTLED),
    "better_gain",
)
"""Columns of every group's row with the values of its last settled generation with members."""
