"""Partitions that topics have got since a group's newest generation: what is said of them."""

from __future__ import annotations

import pytest

from jobs.findings import LOOK_RULES, Finding, find
from jobs.findings.looks import GrownTopic, GrowthFacts

MINUTE = 60_000
SEEN = 1_790_000_600_000
SEEN_TEXT = "2026-09-21T14:23:20Z"


def finding_of(*grown: GrownTopic, looked: int = 0, known: int | None = 0, is_consumer_protocol: bool = False) -> Finding | None:
    """Return the finding; ``looked`` and ``known`` are minutes since the first look."""
    known_until = None if known is None else SEEN + known * MINUTE
    return next(find(GrowthFacts(is_consumer_protocol, grown, SEEN + looked * MINUTE, known_until), LOOK_RULES), None)


GROWN = GrownTopic("t", 2, 4, SEEN)


def test_left_out_partitions_are_named_with_the_time_they_were_first_seen() -> None:
    finding = finding_of(GROWN, GrownTopic("u", 0, 1, SEEN + MINUTE))
    assert finding is not None
    assert finding.message == (
        "Nobody was given 3 partitions that the group's topics have got since its newest generation: t-2, t-3, u-0. "
        f"The metadata snapshot of {SEEN_TEXT} is the first to show some of them"
    )
    assert finding.evidence == {"left_out_count": "3", "partitions": "t-2, t-3, u-0", "seen_at": SEEN_TEXT}
    assert finding_of() is None


@pytest.mark.parametrize(
    ("looked", "known", "severity"),
    [
        pytest.param(0, 0, "warning", id="the leader may learn of them yet"),
        pytest.param(5, 5, "critical", id="it has had its time"),
        pytest.param(4, 60, "warning", id="no look since"),
        pytest.param(60, 4, "warning", id="no record since, so the group may have rebalanced"),
        pytest.param(60, None, "warning", id="no record is known"),
    ],
)
def test_severity_grows_when_later_metadata_and_records_change_nothing(looked: int, known: int | None, severity: str) -> None:
    finding = finding_of(GROWN, looked=looked, known=known)
    assert finding is not None and finding.severity == severity


@pytest.mark.parametrize(("minutes", "severity"), [(7, "warning"), (8, "critical")])
def test_members_may_take_their_rebalance_timeout_to_join(minutes: int, severity: str) -> None:
    """The leader sees the partitions within five minutes, and then waits for a member that is busy for three."""
    at_ms = SEEN + minutes * MINUTE
    finding = next(find(GrowthFacts(False, [GROWN], at_ms, at_ms, rebalance_timeout_ms=3 * MINUTE), LOOK_RULES))
    assert finding.severity == severity


@pytest.mark.parametrize("is_consumer_protocol", [True, False])
def test_advice_depends_on_whether_the_coordinator_assigns(is_consumer_protocol: bool) -> None:
    finding = finding_of(GROWN, is_consumer_protocol=is_consumer_protocol)
    assert finding is not None and ("group epoch" in finding.advice) is is_consumer_protocol
