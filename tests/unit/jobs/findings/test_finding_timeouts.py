"""The rule on timeouts: where it holds, and where something near it happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.findings.timeouts import LOWER_THE_SESSION, OUTLAST_RESTARTS
from schemas.vocabulary import Rule
from tests.builders.histories import member
from tests.builders.snapshots_of import Stored, last, stored


def timed(session_ms: int | None, poll_ms: int | None) -> Stored:
    return replace(stored(1, {"a": "t0", "b": "t1"}), session_timeout_ms=session_ms, rebalance_timeout_ms=poll_ms)


def test_session_that_outlasts_the_poll_interval_is_an_info() -> None:
    finding = last(Rule.TIMEOUTS_UNWISE, timed(45_000, 30_000))
    assert (finding.severity, finding.message) == (
        "info", "2 of 2 members have a session timeout above the rebalance timeout: up to 45,000 ms, with 30,000 ms",
    )  # fmt: skip
    assert finding.evidence == {
        "member_count": "2", "session_timeout_ms": "45000", "rebalance_timeout_ms": "30000", "members": "a, b",
    }  # fmt: skip
    assert finding.advice == LOWER_THE_SESSION


@pytest.mark.parametrize(("session_ms", "poll_ms"), [(45_000, 300_000), (30_000, 30_000), (None, 30_000), (45_000, None), (10_000, 0)])
def test_no_finding_for_sessions_that_end_first(session_ms: int | None, poll_ms: int | None) -> None:
    """The oldest clients have one timeout for both, and 0 is none."""
    assert last(Rule.TIMEOUTS_UNWISE, timed(session_ms, poll_ms)) is None


def static(*names: str, number: int, minute: float, process: int = 1, **changes: object) -> Stored:
    """Return a group of static members, with member ids of one process each."""
    members = [member(f"{name}{process}", instance=name) for name in names]
    given = {one.member_id: f"t{index}" for index, one in enumerate(members)}
    return replace(stored(number, given, *members, minute=minute, **changes), session_timeout_ms=10_000)  # type: ignore[arg-type]


BOTH = static("a", "b", number=1, minute=0)
ALONE = static("a", number=2, minute=1)


def test_static_member_that_is_back_after_its_session_is_an_info() -> None:
    finding = last(Rule.TIMEOUTS_UNWISE, BOTH, ALONE, static("a", "b", number=3, minute=2.5))
    assert (finding.severity, finding.message) == (
        "info", "1 static member came back after the group had removed it: b (90 s over its session timeout of 10 s)",
    )  # fmt: skip
    assert finding.evidence == {"late_member_count": "1", "instance_ids": "b", "seconds": "90"}
    assert finding.advice == OUTLAST_RESTARTS


def test_return_of_a_whole_group_is_found() -> None:
    finding = last(Rule.TIMEOUTS_UNWISE, BOTH, stored(2, {}, minute=1), static("a", "b", number=3, minute=2, process=2))
    assert finding.evidence["instance_ids"] == "a, b"


def test_last_departure_of_a_member_counts() -> None:
    history = BOTH, ALONE, static("a", "b", number=3, minute=2), static("a", number=4, minute=5), static("a", "b", number=5, minute=6)
    assert last(Rule.TIMEOUTS_UNWISE, *history).evidence["seconds"] == "60"


DYNAMIC = [stored(1, {"a": "t0", "b": "t1"}), stored(2, {"a": "t0"}, minute=1), stored(3, {"a": "t0", "b": "t1"}, minute=2)]


@pytest.mark.parametrize(
    "near",
    [
        pytest.param([BOTH, static("a", "b", number=1, minute=1, process=2, is_rewrite=True)], id="back within its session"),
        pytest.param([BOTH, static("a", "b", number=1, minute=1, process=2, is_rewrite=True),
                      static("a", "b", number=1, minute=2, process=3, is_rewrite=True)], id="back within its session twice"),
        pytest.param([ALONE, static("a", "b", number=3, minute=2)], id="new, and never gone"),
        pytest.param([BOTH, ALONE, static("a", "b", number=3, minute=12)], id="after more than the window"),
        pytest.param([BOTH, ALONE, static("a", "b", number=3, minute=2), static("a", "b", number=4, minute=3)], id="it has long been back"),
        pytest.param(DYNAMIC, id="no instance ids"),
        pytest.param([replace(one, generation=replace(one.generation, evidence=replace(one.generation.evidence, is_poll=True))) for one in
                      (BOTH, ALONE, static("a", "b", number=3, minute=2))], id="polls"),
    ],
)  # fmt: skip
def test_no_finding_for_static_members_that_are_back_in_time(near: list[Stored]) -> None:
    assert last(Rule.TIMEOUTS_UNWISE, *near) is None
