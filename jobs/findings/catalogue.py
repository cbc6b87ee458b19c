"""All rules, in the order in which a snapshot's findings are listed."""

from __future__ import annotations

from collections.abc import Iterator

from jobs.findings import ownership, protocols, records, stability, subscriptions
from jobs.findings.facts import SnapshotFacts
from jobs.findings.rule import Finding

RULES = (
    ownership.multiple_owners,
    ownership.left_out_partitions,
    ownership.idle_members,
    ownership.surplus_members,
    ownership.crowded_range,
    stability.rebalance_storm,
    stability.restart_loop,
    stability.flapping_partitions,
    stability.duplicate_instance_ids,
    subscriptions.disjoint_subscriptions,
    subscriptions.missing_topics,
    subscriptions.sticky_general_path,
    protocols.mixed_protocols,
    protocols.stale_claims,
    protocols.unshared_assignors,
    protocols.blocked_upgrade,
    records.nonconformance,
    records.livelock,
    records.missing_results,
    records.unsound_own_assignors,
    records.uncertain_topics,
    records.conflicting_records,
)


def find(snapshot: SnapshotFacts) -> Iterator[Finding]:
    """Yield the findings of one snapshot, in the order of the rules: of each rule at most one."""
    for rule in RULES:
        finding = rule.find(snapshot)
        if finding is not None:
            yield finding
