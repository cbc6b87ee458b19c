"""The rule on rebalances that do not end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.findings import STUCK_RULES, Finding, find
from jobs.findings.stuck import StuckFacts

SEEN = StuckFacts(3_540_000, 60_000, 60, "PreparingRebalance", ["a", "b"], is_logged=False, reason=None)


def finding(facts: StuckFacts) -> Finding | None:
    return next(find(facts, STUCK_RULES), None)


@pytest.mark.parametrize(
    ("waited_ms", "timeout_ms", "is_stuck"),
    [(60_000, 60_000, False), (60_001, 60_000, True), (300_000, None, False), (300_001, None, True)],
)
def test_rebalance_longer_than_the_longest_timeout_is_stuck(waited_ms: int, timeout_ms: int | None, is_stuck: bool) -> None:
    assert (finding(replace(SEEN, waited_ms=waited_ms, rebalance_timeout_ms=timeout_ms)) is not None) is is_stuck


@pytest.mark.parametrize(("poll_count", "is_logged", "is_stuck"), [(3, False, True), (2, False, False), (2, True, True), (0, True, True)])
def test_polls_alone_have_to_see_a_rebalance_three_times(poll_count: int, is_logged: bool, is_stuck: bool) -> None:
    """A line of the log may have no reason: older brokers write none."""
    assert (finding(replace(SEEN, poll_count=poll_count, is_logged=is_logged)) is not None) is is_stuck


@pytest.mark.parametrize(("is_logged", "severity"), [(False, "warning"), (True, "critical")])
def test_polls_that_see_other_members_may_have_seen_several_rebalances(is_logged: bool, severity: str) -> None:
    seen = finding(replace(SEEN, has_other_members=True, is_logged=is_logged))
    assert seen is not None and seen.severity == severity


def test_finding_says_for_how_long_and_for_what_the_group_waits() -> None:
    seen = finding(SEEN)
    assert seen is not None and (seen.rule_id, seen.severity) == ("stuck_rebalancing", "critical")
    assert seen.message == (
        "The group has been rebalancing for 59 minutes and waits for members to join again; the longest rebalance timeout is 60 s; "
        "members: a, b"
    )
    assert seen.evidence == {
        "seconds": "3540",
        "rebalance_timeout_ms": "60000",
        "poll_count": "60",
        "member_count": "2",
        "members": "a, b",
        "state": "PreparingRebalance",
    }


def test_finding_of_a_log_has_its_reason_and_says_that_the_timeout_is_assumed() -> None:
    logged = finding(
        replace(SEEN, rebalance_timeout_ms=None, poll_count=0, state=None, member_ids=[], is_logged=True, reason="member a left")
    )
    assert logged is not None and "state" not in logged.evidence
    assert logged.message.endswith("timeout is 300 s, which is assumed; it began by: member a left")


def test_group_whose_members_have_joined_waits_for_its_leader() -> None:
    completing = finding(replace(SEEN, state="CompletingRebalance"))
    assert completing is not None and "waits for the assignment of the leader" in completing.message
