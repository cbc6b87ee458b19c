"""Rules on commits: how what Spark found is put into words. What breaks them is looked for in ``tests/spark/test_commit_findings.py``."""

from __future__ import annotations

from jobs.findings import COMMIT_RULES, find
from jobs.findings.commits import (
    BUSY_RECORDS_PER_SECOND,
    BusyCoordinator,
    CommitFacts,
    ExpiringTopic,
    OpenTarget,
    StalledMember,
    WaitingMember,
)

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


def test_stalled_members_are_named_the_longest_silent_first_with_their_lag() -> None:
    late = StalledMember("a", 1, ["t-0"], 20, None, 1_700_000_600_000, 3_000_000)
    early = StalledMember("b", 2, ["t-1", "t-2"], 100, 130, 1_700_000_000_000, 3_600_000)
    (finding,) = find(CommitFacts(3, stalled=[late, early], client_ids={"a": "app", "b": None}), COMMIT_RULES)
    assert (finding.rule_id, finding.severity) == ("member_stalled", "warning")
    assert finding.message == (
        "2 of 3 members have not committed since 2023-11-14T22:13:20Z, for 60 minutes, while 120 records came into 3 partitions: b, a; "
        "130 records wait now"
    )
    assert finding.evidence == {
        "stalled_member_count": "2", "member_count": "3", "members": "b, a", "client_ids": "app", "partition_count": "3",
        "partitions": "t-1, t-2, t-0", "record_count": "120", "since": "2023-11-14T22:13:20Z", "seconds": "3600", "lag": "130",
    }  # fmt: skip


def test_lag_that_is_not_known_is_not_said() -> None:
    (finding,) = find(CommitFacts(1, stalled=[StalledMember("a", 1, ["t-0"], 20, None, 0, 3_000_000)]), COMMIT_RULES)
    assert "lag" not in finding.evidence and finding.message.endswith("1 partition: a")


def test_expiring_commits_say_when_the_first_expires_and_what_is_assumed() -> None:
    topics = [ExpiringTopic("t", 2, 1_700_000_600_000), ExpiringTopic("u", 1, 1_700_000_000_000)]
    (finding,) = find(CommitFacts(0, expiring=topics, retention_hours=48), COMMIT_RULES)
    assert (finding.rule_id, finding.severity) == ("commits_expire", "warning")
    assert finding.message == (
        "The commits of 3 partitions of t, u expire from 2023-11-14T22:13:20Z on, if brokers keep them for 48 hours: the group is empty"
    )
    assert finding.evidence == {
        "partition_count": "3", "topic_count": "2", "topics": "t, u", "expires_at": "2023-11-14T22:13:20Z", "assumed_retention_hours": "48",
    }  # fmt: skip
    (finding,) = find(CommitFacts(1, expiring=topics), COMMIT_RULES)
    assert finding.message.endswith("no member subscribes to their topics")
