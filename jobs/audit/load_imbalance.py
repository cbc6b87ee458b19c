"""How evenly members share the load of their partitions, measured by lag and by new records per second.

Both are computed at the time of each observed generation, by the rules that ``resume_offsets`` uses for movements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assignors.generation.holdings import Holdings
from jobs.audit.resume_offsets import Moment
from jobs.findings.loads import HOT_SHARE
from schemas.keys import GENERATION_KEY

AUDIT_KEY = (*GENERATION_KEY, "basis")


class Weights(NamedTuple):
    """The largest load of a member by the mean load of all members, in the columns of audits with these names.

    Only partitions with a known load count. A ratio is null if no load is known, or if all are 0. ``weighed_until`` is the latest time from
    which on a metadata snapshot gives the end of the log of a partition, in microseconds.
    """

    lag_imbalance_ratio: float | None
    throughput_imbalance_ratio: float | None
    weighed_until: int


class HeldTopic(NamedTuple):
    """The partitions that a member has of a topic."""

    member_id: str
    topic: str
    partitions: list[int]


@dataclass(frozen=True)
class Weighed:
    """The loads of a generation.

    Attributes:
        rates: for each entry of the assignment the rates of its partitions, see ``resume_offsets.Load``.
    """

    weights: Weights
    rates: list[list[int | None]]


def held_topics(holdings: Holdings) -> list[HeldTopic]:
    """Return the entries of an assignment."""
    held, at, partitions = [], 0, holdings.partitions.tolist()
    for owner, topic, length in holdings.entries():
        held.append(HeldTopic(owner, topic, partitions[at : at + length]))
        at += length
    return held


def weigh(held: list[HeldTopic], moment: Moment, member_count: int) -> Weighed:
    """Return the loads of a generation.

    Args:
        member_count: of all members, those without partitions too.
    """
    lags: dict[str, int] = {}
    throughputs: dict[str, int] = {}
    all_rates, until_us = [], moment.at_us
    for member_id, topic, partitions in held:
        lag, throughput, rates = 0, 0, []
        for partition_lag, rate, end_from_us in moment.loads(topic, partitions):
            rates.append(rate)
            lag += partition_lag or 0
            throughput += rate or 0
            if end_from_us > until_us:
                until_us = end_from_us
        lags[member_id] = lags.get(member_id, 0) + lag
        throughputs[member_id] = throughputs.get(member_id, 0) + throughput
        all_rates.append(rates)
    return Weighed(Weights(_imbalance(lags, member_count), _imbalance(throughputs, member_count), until_us), all_rates)


def _imbalance(loads: Mapping[str, int], member_count: int) -> float | None:
    total = sum(loads.values())
    return float(max(loads.values())) * member_count / float(total) if total else None


def is_judged(weights: Weights, member_count: int, is_settled: bool | None, rack_match_ratio: float | None) -> bool:
    """Return whether the rules on loads look at a generation.

    They do if one member gets far more records than the mean, or if records cross racks.
    """
    ratio = weights.throughput_imbalance_ratio
    is_uneven = ratio is not None and ratio >= HOT_SHARE and member_count > 1
    return bool(is_settled) and (is_uneven or (ratio is not None and crosses_racks(rack_match_ratio)))


def crosses_racks(rack_match_ratio: float | None) -> bool:
    """Return whether a partition of a generation has no replica in its owner's rack."""
    return rack_match_ratio is not None and rack_match_ratio < 1
