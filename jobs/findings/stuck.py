"""The rule on rebalances that do not end: the newest generation of a group, and what coordinators' logs and polls show since then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.findings.rule import Found, duration, figures, named, rule
from schemas.vocabulary import COMPLETING, Rule, Severity


@dataclass(frozen=True)
class StuckFacts:
    """A classic group that rebalances since its newest generation, as far as a log or polls show.

    Attributes:
        waited_ms: from the beginning of the rebalance to the last time at which it is known to last.
        rebalance_timeout_ms: the longest one of the members; None if none is recorded.
        poll_count: polls that saw the group rebalance; 0 if only a log shows it.
        state: the state in the last of these polls; None without one.
        member_ids: the members in the last of these polls, else those of the newest generation.
        is_logged: a log has the beginning.
        reason: why the rebalance began, by the log; None without a log, or if the release of the broker logs no reasons.
        has_other_members: the polls saw different members: a rebalance may have ended between two of them, and another one begun.
    """

    waited_ms: int
    rebalance_timeout_ms: int | None
    poll_count: int
    state: str | None
    member_ids: Sequence[str]
    is_logged: bool
    reason: str | None
    has_other_members: bool = False


DEFAULT_REBALANCE_TIMEOUT_MS = 300_000
"""The default of ``max.poll.interval.ms``, for groups whose members have no recorded timeout."""
FEWEST_POLLS = 3
"""How many polls have to see a rebalance of which no log has the beginning."""


@rule(
    Rule.STUCK_REBALANCING,
    Severity.CRITICAL,
    "A rebalance does not end",
    when=(
        "A classic group has begun a rebalance since its newest generation, and no newer generation, assignment or end of the group is "
        "known. This lasts for longer than the longest rebalance timeout of the members, or than 300 s if none is recorded. It begins with "
        "a line in the coordinator's log, or with the first poll that sees the group in PreparingRebalance or CompletingRebalance. The "
        "time counts up to the last such poll, or up to the last line of that broker about any group. Without a log, at least "
        f"{FEWEST_POLLS} polls see it: two may see two short rebalances. It is a `warning` if there is no log and they see different "
        "members: a deployment makes one rebalance after the other. Polls do not count for a "
        "group of which records have landed: these displace its polls, also one that sees the end of the rebalance."
    ),
    advice=(
        "No member reads in this time. In PreparingRebalance the coordinator waits for members to join again, and should remove those that "
        "do not. In CompletingRebalance it waits for the assignment of the leader. Restart the member whose log ends with a request to "
        "join, the leader first. If no log does, restart all members, or move the group's partition of __consumer_offsets to another "
        "broker. Then update brokers and clients: some releases are known for such groups."
    ),
)
def endless_rebalance(facts: StuckFacts) -> Found | None:
    """Return how long the group has been rebalancing, and the members that take part."""
    timeout_ms = facts.rebalance_timeout_ms or DEFAULT_REBALANCE_TIMEOUT_MS
    is_chance = not facts.is_logged and facts.poll_count < FEWEST_POLLS
    if facts.waited_ms <= timeout_ms or is_chance:
        return None
    assumed = "" if facts.rebalance_timeout_ms else ", which is assumed"
    awaited = "the assignment of the leader" if facts.state == COMPLETING else "members to join again"
    reason = f"; it began by: {facts.reason}" if facts.reason else ""
    members = f"; members: {named(facts.member_ids)}" if facts.member_ids else ""
    return Found(
        f"The group has been rebalancing for {duration(facts.waited_ms)} and waits for {awaited}; "
        f"the longest rebalance timeout is {duration(timeout_ms)}{assumed}{members}{reason}",
        figures(
            seconds=round(facts.waited_ms / 1000),
            rebalance_timeout_ms=timeout_ms,
            poll_count=facts.poll_count,
            member_count=len(facts.member_ids),
            members=facts.member_ids,
        )
        | ({} if facts.state is None else {"state": facts.state}),
        Severity.WARNING if facts.has_other_members and not facts.is_logged else None,
    )
