"""Rules on commits: how what Spark found is put into words. What breaks them is looked for in ``tests/spark/test_commit_findings.py``."""

from __future__ import annotations

from jobs.findings import COMMIT_RULES, find
from jobs.findings.commits import BUSY_RECORDS_PER_SECOND, BusyCoordinator, CommitFacts, OpenTarget, WaitingMember

LARGE_GROUP_RECORDS = 250 / 5
"""A second, of a group of 250 partitions whose clients commit by themselves every five seconds."""


def test_busy_coordinator_finding_counts_offset_records() -> None:
    """A commit writes a record for each of its partitions: what is counted are not commits."""
    hot = BusyCoordinator(
        broker=1,
        offsets_partition=2,
        seconds=3_600.0,
        group_count=3,
        offset_record_count=7_200_000,
        partition_offset_record_count=5_400_000,
        own_offset_record_count=3_600_000,
        mean_count=2_400_000.0,
    )
    (finding,) = find(CommitFacts(1, coordinator=hot), COMMIT_RULES)
    assert (finding.rule_id, finding.severity) == ("coordinator_hot", "info")
    assert finding.message == (
        "Broker 1 takes 2,000 offset records a second of 3 groups, 3.0 times the mean of all brokers; this group writes 50% of them, and "
        "partition 2 of __consumer_offsets takes 75%"
    )
    assert finding.evidence == {
        "broker": "1", "offsets_partition": "2", "group_count": "3", "offset_record_count": "7200000",
        "partition_offset_record_count": "5400000", "own_offset_record_count": "3600000", "seconds": "3600",
    }  # fmt: skip


def test_one_large_group_makes_no_broker_busy() -> None:
    assert LARGE_GROUP_RECORDS * 10 < BUSY_RECORDS_PER_SECOND


def test_unreached_target_names_who_has_not_given_up_partitions() -> None:
    waiting = [WaitingMember("a", False), WaitingMember("b", True)]
    (finding,) = find(CommitFacts(3, target=OpenTarget(7, 7_200_000, 300_000, waiting)), COMMIT_RULES)
    assert (finding.rule_id, finding.severity) == ("not_reconciled", "warning")
    assert finding.message == (
        "2 of 3 members have not reached epoch 7 for 2.0 hours, and the longest rebalance timeout is 300 s; not all partitions are given "
        "up by b"
    )
    assert finding.evidence == {
        "waiting_member_count": "2", "member_count": "3", "seconds": "7200", "rebalance_timeout_ms": "300000", "members": "a, b",
        "blocking_members": "b",
    }  # fmt: skip
