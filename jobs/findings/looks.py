"""The rule on partitions that only metadata snapshots after the newest generation of a group show.

``jobs/audit/look_findings.py`` finds in Spark what breaks it; this module writes the finding. A newer generation of the group removes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.findings.history import LEADERS_LOOK_MS
from jobs.findings.ownership import LOOK_FOR_THEM, LOOK_FOR_THEM_BY_BROKERS
from jobs.findings.rule import Found, counted, figures, listed, rule, text_of
from schemas.vocabulary import Rule, Severity

SEEN_AT = "seen_at"
"""Evidence that only findings of this rule have: the time of the first metadata snapshot that shows the partitions, UTC."""


@dataclass(frozen=True)
class GrownTopic:
    """A subscribed topic that has more partitions than the newest generation of a group was given.

    Attributes:
        known_count: partitions that the topic had for the generation; 0 if it did not exist.
        partition_count: partitions in the newest metadata snapshot.
        seen_at_ms: time of the first metadata snapshot since which it has more than ``known_count``.
    """

    topic: str
    known_count: int
    partition_count: int
    seen_at_ms: int


@dataclass(frozen=True)
class GrowthFacts:
    """What the rule uses of one group.

    Attributes:
        looked_until_ms: time of the newest metadata snapshot of the cluster.
        known_until_ms: time of the last record of the group's source; None if it is not known.
        rebalance_timeout_ms: how long the members may take to join after their leader has seen new partitions; 0 if a coordinator assigns.
    """

    is_consumer_protocol: bool
    grown: Sequence[GrownTopic]
    looked_until_ms: int
    known_until_ms: int | None
    rebalance_timeout_ms: int = 0


@rule(
    Rule.PARTITIONS_LEFT_OUT,
    Severity.WARNING,
    "Partitions are left out",
    when="A metadata snapshot later than the newest generation shows more partitions of a subscribed topic than the generation had.",
    advice=LOOK_FOR_THEM,
)
def grown_topics(facts: GrowthFacts) -> Found | None:
    """Return the partitions that only metadata snapshots after the newest generation show."""
    if not facts.grown:
        return None
    partitions = [f"{one.topic}-{number}" for one in facts.grown for number in range(one.known_count, one.partition_count)]
    seen_at_ms = min(one.seen_at_ms for one in facts.grown)
    until_ms = facts.looked_until_ms if facts.known_until_ms is None else min(facts.looked_until_ms, facts.known_until_ms)
    is_over = facts.known_until_ms is not None and until_ms - seen_at_ms >= LEADERS_LOOK_MS + facts.rebalance_timeout_ms
    return Found(
        f"Nobody was given {counted(len(partitions), 'partition')} that the group's topics have got since its newest generation: "
        f"{listed(partitions)}. The metadata snapshot of {text_of(seen_at_ms)} is the first to show "
        + ("it" if len(partitions) == 1 else "them" if len({one.seen_at_ms for one in facts.grown}) == 1 else "some of them"),
        figures(left_out_count=len(partitions), partitions=partitions) | {SEEN_AT: text_of(seen_at_ms)},
        Severity.CRITICAL if is_over else None,
        LOOK_FOR_THEM_BY_BROKERS if facts.is_consumer_protocol else LOOK_FOR_THEM,
    )
