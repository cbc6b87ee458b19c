"""Uneven loads of one generation, and records that cross racks: the rates of its partitions -> findings.

The rates of a generation are known where its load imbalance is computed, and change with it. Only generations with a large imbalance, or
with partitions that have no replica in their reader's rack, are looked at more closely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assignors.model import Topic
from jobs.audit.load_imbalance import HeldTopic, Weighed, crosses_racks, is_judged
from jobs.findings import LOAD_RULES, Finding, find
from jobs.findings.loads import LoadFacts

MILLIONTHS = 1e6
"""Rates are in millionths of a record per second."""


@dataclass(frozen=True)
class Racks:
    """The racks of a generation.

    Attributes:
        of_members: member id -> rack; None or an empty text if it has none.
        of_topics: topic -> for each partition the racks of its replicas, None for one without a rack.
    """

    of_members: Mapping[str, str | None]
    of_topics: Mapping[str, Sequence[Sequence[str | None]]]

    @classmethod
    def of(cls, members: Iterable[tuple[str, str | None]], topics: Mapping[str, Topic]) -> Racks:
        """Return the racks of members and topics."""
        known = {name: topic.partition_racks for name, topic in topics.items() if topic.partition_racks is not None}
        return cls(dict(members), known)

    def are_far(self, member_id: str, topic: str, partition: int) -> bool:
        """Return whether a partition has replicas in known racks, and none in that of its reader."""
        rack, of_partitions = self.of_members.get(member_id), self.of_topics.get(topic, ())
        if not rack or not 0 <= partition < len(of_partitions):
            return False
        known = [one for one in of_partitions[partition] if one is not None]
        return bool(known) and rack not in known


def find_uneven_loads(
    audit: Mapping[str, Any], held: Sequence[HeldTopic], weighed: Weighed, racks_of: Callable[[], Racks]
) -> list[Finding]:
    """Return the findings on the loads of a generation, none if the rules do not look at it.

    Args:
        audit: the columns of its observed row in ``generation_audits``.
        held, weighed: its assignment, and what ``weigh`` returns for it.
        racks_of: gives its racks; called only if a partition has no replica in its reader's rack.
    """
    ratio = audit.get("rack_match_ratio")
    if not is_judged(weighed.weights, audit["member_count"], audit.get("is_settled"), ratio):
        return []
    facts = load_facts(audit, held, weighed.rates, racks_of() if crosses_racks(ratio) else None)
    return [] if facts is None else list(find(facts, LOAD_RULES))


def load_facts(
    audit: Mapping[str, Any], held: Sequence[HeldTopic], rates: Sequence[Sequence[int | None]], racks: Racks | None
) -> LoadFacts | None:
    """Return what the rules on loads use of a generation; None if a rate is not known, since shares would be too large.

    Of equal loads the one with the largest name counts.

    Args:
        audit: as in ``find_uneven_loads``.
        held, rates: the entries of its assignment, and the rates of the partitions of each.
        racks: None if no partition crosses racks.
    """
    loads: dict[str, int] = {}
    busiest: tuple[int, str, int, str] | None = None
    crossing_rate = crossing_count = 0
    for member_id, topic, partition, rate in _entries(held, rates):
        if rate is None:
            return None
        loads[member_id] = loads.get(member_id, 0) + rate
        busiest = max(busiest or (rate, topic, partition, member_id), (rate, topic, partition, member_id))
        if racks is not None and racks.are_far(member_id, topic, partition):
            crossing_rate += rate
            crossing_count += 1
    total = sum(loads.values())
    if busiest is None or total <= 0:
        return None
    load, member_id = max((load, member_id) for member_id, load in loads.items())
    partition_rate, topic, partition, owner = busiest
    return LoadFacts(
        strategy=audit["strategy"],
        member_count=audit["member_count"],
        partition_count=audit["partition_count"],
        least=audit["partitions_per_member_min"],
        most=audit["partitions_per_member_max"],
        member_id=member_id,
        member_rate=load / MILLIONTHS,
        topic=topic,
        partition=partition,
        partition_rate=partition_rate / MILLIONTHS,
        owner=owner,
        total_rate=total / MILLIONTHS,
        crossing_rate=crossing_rate / MILLIONTHS if crossing_count else None,
        crossing_count=crossing_count or None,
    )


def _entries(held: Sequence[HeldTopic], rates: Sequence[Sequence[int | None]]) -> Iterator[tuple[str, str, int, int | None]]:
    for entry, of_entry in zip(held, rates, strict=True):
        for partition, rate in zip(entry.partitions, of_entry, strict=True):
            yield entry.member_id, entry.topic, partition, rate
