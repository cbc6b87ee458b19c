"""The measures that page, summary and exports show: one table, from which each reads its columns, names and aggregates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from jobs.pages.figures import Figure, count, ratio, seconds


class Aggregate(Enum):
    """What becomes of a measure over the generations of a history: their sum, or that of the last settled one with members."""

    SUM = 1
    LAST_SETTLED = 2


@dataclass(frozen=True)
class Measure:
    """A number that audits, or rows made of them, have in a column.

    Attributes:
        column: its name.
        title: what the page calls it where it lists figures that are not known; its column's name where empty.
        why: why it can be unknown over a whole history.
        aggregate: None where no column of audits is aggregated for it, or each place does it in another way.
        is_only_unbroken: its sums leave out generations behind a gap, where it is not known.
        total: what the fleet's totals call its sum, and say of it; None where they do not have it.
        generation: what writes one generation's, and why that can be unknown; None where the table of generations does not have it.
        gauge: what Prometheus calls it, and its help. What has a gauge is in the row of every group; None for all others.
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
_NO_LAG = "no commit with a later look tells a lag, or nothing waits"
_NO_RATE = "no looks before and after tell what comes in, or nothing does"

MEASURES = (
    Measure(
        "member_count",
        why="nothing but the group's commits has landed",
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
        "the members' claims cannot tell, or nothing came before",
        Aggregate.SUM,
        total=("revocations", "as the members' claims show"),
        generation=(count, "the members' claims cannot tell, or its predecessor is not known"),
    ),
    Measure(
        "eager_revocation_count",
        "eager",
        _NO_PREDECESSOR,
        Aggregate.SUM,
        total=("if eager", "had every client given up everything"),
        generation=(count, _FIRST),
    ),
    Measure(
        "cooperative_revocation_count",
        "cooperative",
        _NO_PREDECESSOR,
        Aggregate.SUM,
        total=("if cooperative", "had they given up only what left them"),
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
    Measure("rack_match_ratio", why="members name no racks, or those of the replicas are not known", aggregate=Aggregate.LAST_SETTLED),
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
    Measure("follow_up_ms", "seconds to follow-up", generation=(seconds, "no follow-up came next")),
    Measure("pause_partition_ms", "seconds unowned", generation=(seconds, "no next generation tells how long")),
    Measure("rebalance_count", "calls", "not known for any generation"),
    Measure("imbalance_ratio_mean", "mean imbalance", _NOT_SETTLED),
    Measure("imbalance_ratio_max", "worst imbalance", _NOT_SETTLED),
    Measure("spread_max", "largest spread", _NOT_SETTLED),
)
"""In the order of the page's totals, of the columns of its tables, and of Prometheus' gauges."""

OF_GENERATION = {measure.column: measure.generation for measure in MEASURES if measure.generation}
"""The columns of the table of generations, with what writes a number and why it can be unknown."""
TITLES = {measure.column: measure.title for measure in MEASURES if measure.title}
WHY = {measure.column: measure.why for measure in MEASURES if measure.why}
"""Why a figure can be unknown over a history, by column."""

SUMMED = tuple(measure.column for measure in MEASURES if measure.aggregate is Aggregate.SUM)
"""Audit columns that the report sums: a tally has ``<column>_sum`` and ``<column>_known``, the rows that know it."""
ONLY_UNBROKEN = frozenset(measure.column for measure in MEASURES if measure.is_only_unbroken)
SETTLED = tuple(measure.column for measure in MEASURES if measure.aggregate is Aggregate.LAST_SETTLED)
"""Audit columns of a group's last settled generation with members that its details show."""

SUMS = tuple(measure.column for measure in MEASURES if measure.gauge and measure.aggregate is Aggregate.SUM)
"""Measures that every group's row has the sum of, over its history; ``<column>_known`` counts the generations that know it."""
AT_LAST_SETTLED = tuple(measure.column for measure in MEASURES if measure.gauge and measure.aggregate is Aggregate.LAST_SETTLED)
"""Columns of every group's row that are those of its last settled generation with members."""
