"""All rules, in the order in which findings are listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobs.findings import commits, loads, looks, ownership, protocols, records, stability, stuck, subscriptions, timeouts, topic_spread
from jobs.findings.rule import Facts, Finding, FindingRule

SETTLED_RULES = (
    ownership.left_out_partitions,
    ownership.idle_members,
    ownership.surplus_members,
    ownership.crowded_range,
    topic_spread.skewed_topics,
    topic_spread.parted_topics,
    topic_spread.unused_racks,
)
"""Rules that do not judge a snapshot while a partition is withheld. Nor do those on loads."""

RULES = (
    ownership.multiple_owners,
    *SETTLED_RULES,
    stability.rebalance_storm,
    stability.restart_loop,
    stability.flapping_partitions,
    stability.duplicate_instance_ids,
    timeouts.unwise_timeouts,
    subscriptions.disjoint_subscriptions,
    subscriptions.missing_topics,
    subscriptions.sticky_general_path,
    protocols.mixed_protocols,
    protocols.lost_claims,
    protocols.unwithheld_movements,
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
"""Rules on each snapshot and on the time before it."""

LOAD_RULES = (loads.hot_partition, loads.hot_member, loads.crossing_records)
"""Rules on the records that come into the partitions of a generation, by the metadata snapshots around it."""

COMMIT_RULES = (
    commits.unsubscribed_commits,
    commits.silent_members,
    commits.stalled_members,
    commits.expiring_commits,
    commits.busy_coordinator,
    commits.unreached_target,
)
"""Rules on the newest generation of a group and all commits that have landed."""

LOOK_RULES = (looks.grown_topics,)
"""Rules on the newest generation of a group and the metadata snapshots after it. They share their ids with rules on snapshots."""

STUCK_RULES = (stuck.endless_rebalance,)
"""Rules on the newest generation of a group and the rebalance that has begun since."""


def find(facts: Facts, rules: Sequence[FindingRule[Facts]]) -> Iterator[Finding]:
    """Yield the findings of one snapshot or group, at most one of each rule, in the order of the rules."""
    for rule in rules:
        finding = rule.find(facts)
        if finding is not None:
            yield finding
