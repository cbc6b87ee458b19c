"""The rule on timeouts that contradict each other, or the restarts that records show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.findings.facts import SnapshotFacts
from jobs.findings.history import WINDOW_MINUTES
from jobs.findings.rule import Found, counted, figures, listed, part_of, rule
from schemas.vocabulary import Rule, Severity

LOWER_THE_SESSION = (
    "Set session.timeout.ms below max.poll.interval.ms. Brokers notice a dead process only after the session, and a slow one after the "
    "poll interval: here a dead one would keep its partitions longer. librdkafka refuses such settings."
)
OUTLAST_RESTARTS = (
    "A static member keeps its partitions if it is back within session.timeout.ms. Raise that above the length of a restart, at most to "
    "the brokers' group.max.session.timeout.ms (30 minutes). Under the consumer protocol, brokers set it: "
    "group.consumer.session.timeout.ms. Or make restarts shorter."
)


@dataclass(frozen=True)
class _Return:
    """A static member that came back after the group had removed it.

    Attributes:
        gone_ms: between the generation without it and this one.
        session_timeout_ms: None if it is not known.
    """

    instance_id: str
    gone_ms: int
    session_timeout_ms: int | None

    @property
    def text(self) -> str:
        """Return the instance id with the time, for a message."""
        session = "" if self.session_timeout_ms is None else f" over its session timeout of {round(self.session_timeout_ms / 1000)} s"
        return f"{self.instance_id} ({round(self.gone_ms / 1000)} s{session})"


def _late_returns(snapshot: SnapshotFacts) -> Sequence[_Return]:
    """Return the static members that came back in this snapshot, and were no member of the generation before."""
    if not snapshot.window or snapshot.previous is None:
        return []
    *earlier, now = snapshot.window
    stayed = {member.group_instance_id for member in snapshot.previous.problem.members}
    names = {member.member_id: member.group_instance_id for member in snapshot.problem.members}
    left_at_ms = {one.seat: moment.observed_at_ms for moment in earlier for one in moment.left}
    return [
        _Return(name, now.observed_at_ms - left_at_ms[one.seat], snapshot.session_timeouts_ms.get(one.member_id))
        for one in now.came
        if (name := names[one.member_id]) is not None and name not in stayed and one.seat in left_at_ms
    ]


@rule(
    Rule.TIMEOUTS_UNWISE,
    Severity.INFO,
    "Timeouts that contradict each other or the restarts",
    when=(
        "The session timeout of a member is longer than its rebalance timeout (max.poll.interval.ms). Or a static member came back within "
        f"{WINDOW_MINUTES} minutes after the group had removed it: its session timeout is shorter than its restart. Then its partitions "
        "moved twice."
    ),
    advice=f"{LOWER_THE_SESSION} {OUTLAST_RESTARTS}",
)
def unwise_timeouts(snapshot: SnapshotFacts) -> Found | None:
    """Return the static members that came back too late, else the members whose session outlasts their poll interval."""
    late = _late_returns(snapshot)
    if late:
        return Found(
            f"{counted(len(late), 'static member')} came back after the group had removed {'it' if len(late) == 1 else 'them'}: "
            f"{listed([one.text for one in late])}",
            figures(
                late_member_count=len(late),
                instance_ids=[one.instance_id for one in late],
                seconds=round(max(one.gone_ms for one in late) / 1000),
            ),
            advice=OUTLAST_RESTARTS,
        )
    polls_ms = snapshot.rebalance_timeouts_ms
    outlasting = [
        (session_ms, poll_ms, name)
        for name, session_ms in snapshot.session_timeouts_ms.items()
        if session_ms is not None and (poll_ms := polls_ms.get(name)) is not None and session_ms > poll_ms > 0
    ]
    if not outlasting:
        return None
    session_ms, poll_ms, _ = max(outlasting)
    return Found(
        f"{part_of(len(outlasting), len(snapshot.problem.members), 'member', 'has', 'have')} a session timeout above the rebalance "
        f"timeout: up to {session_ms:,} ms, with {poll_ms:,} ms",
        figures(
            member_count=len(outlasting),
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=poll_ms,
            members=[name for _, _, name in outlasting],
        ),
        advice=LOWER_THE_SESSION,
    )
