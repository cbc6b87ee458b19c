"""Rules on what groups commit: on the newest generation of each group, by all commits and looks there are.

``jobs/audit/commit_findings.py`` finds in Spark what breaks a rule; here it is put into words. A newer generation of the group takes its
place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.findings.rule import Found, counted, figures, listed, part_of, rule
from schemas.vocabulary import Rule, Severity

LEAST_GROWTH_MS = 60_000
"""How long a member must have had its partitions: clients that commit by themselves do it every five seconds."""

BUSY_SHARE = 2.0
"""Offset records of a broker by the mean of all brokers from which it is called hot."""

BUSY_RECORDS_PER_SECOND = 1_000.0
"""Below it no broker is busy with offset records, however uneven they are: one takes thousands a second, even if each is a commit of its
own. A commit writes a record for each of its partitions: one group of 250 that commits every five seconds, as clients do by themselves,
writes 50 a second, and it takes twenty of them."""


@dataclass(frozen=True)
class UnsubscribedTopic:
    """A topic that a group has committed offsets for and no member of its newest generation subscribes to.

    Attributes:
        is_recent: the last of these commits is later than the generation.
    """

    topic: str
    is_recent: bool


@dataclass(frozen=True)
class SilentMember:
    """A member for whose partitions the group has never committed anything, although records came in.

    Attributes:
        record_count: that came into them between the first look at them behind the generation, within the last day, and the last.
    """

    member_id: str
    client_id: str | None
    partition_count: int
    record_count: int


@dataclass(frozen=True)
class BusyCoordinator:
    """A broker that takes more offset records than others, of which this group writes more than any other group.

    Attributes:
        offsets_partition: the partition of ``__consumer_offsets`` among its own that takes most.
        seconds: the time that records were counted over, back from the last one.
        mean_count: of all brokers that lead a partition of ``__consumer_offsets``.
    """

    broker: int
    offsets_partition: int
    seconds: float
    group_count: int
    offset_record_count: int
    partition_offset_record_count: int
    own_offset_record_count: int
    mean_count: float


@dataclass(frozen=True)
class CommitFacts:
    """What the rules ask of one group."""

    member_count: int
    unsubscribed: Sequence[UnsubscribedTopic] = ()
    silent: Sequence[SilentMember] = ()
    coordinator: BusyCoordinator | None = None


@rule(
    Rule.COMMITS_UNSUBSCRIBED,
    Severity.INFO,
    "Offsets are committed for topics that nobody subscribes to",
    when=(
        "The group has committed offsets for a topic that no member of its newest generation subscribes to, and they have not been "
        "deleted. `warning` where the last of them is later than that generation: somebody outside the group commits under its name."
    ),
    advice=(
        "Left-over offsets show as lag that grows and is nobody's: delete them with kafka-consumer-groups --delete-offsets. Where they "
        "are recent, look for a consumer that assigns partitions by hand, or a tool that resets offsets, with this group's id."
    ),
)
def unsubscribed_commits(facts: CommitFacts) -> Found | None:
    """Return the topics with commits and without subscribers."""
    if not facts.unsubscribed:
        return None
    names = [one.topic for one in facts.unsubscribed]
    recent = [one.topic for one in facts.unsubscribed if one.is_recent]
    since = f", and still are for {len(recent)} of them: {listed(recent)}" if recent else ""
    return Found(
        f"Offsets were committed for {counted(len(names), 'topic')} that no member subscribes to: {listed(names)}{since}",
        figures(topic_count=len(names), topics=names, recent_topic_count=len(recent)),
        Severity.WARNING if recent else None,
    )


@rule(
    Rule.MEMBERS_NEVER_COMMIT,
    Severity.WARNING,
    "Members hold partitions and never commit",
    when=(
        f"Records have come into a member's partitions for {LEAST_GROWTH_MS // 1000} seconds or more since the newest generation, and the "
        "group has never committed an offset of any of these partitions. Asked only where the capture the group comes from has commits "
        "at all."
    ),
    advice=(
        "After a restart these consumers begin where auto.offset.reset says: records are skipped or read again. Switch enable.auto.commit "
        "on or commit after processing; ignore this where offsets are kept elsewhere (Flink, Spark, a database)."
    ),
)
def silent_members(facts: CommitFacts) -> Found | None:
    """Return the members that read without committing."""
    if not facts.silent:
        return None
    partition_count = sum(one.partition_count for one in facts.silent)
    record_count = sum(one.record_count for one in facts.silent)
    names = [one.member_id for one in facts.silent]
    return Found(
        f"{part_of(len(names), facts.member_count, 'member', 'holds', 'hold')} {counted(partition_count, 'partition')} for which the group "
        f"has never committed an offset, while {counted(record_count, 'record')} came in: {listed(names)}",
        figures(
            silent_member_count=len(names),
            member_count=facts.member_count,
            partition_count=partition_count,
            record_count=record_count,
            members=names,
            client_ids=sorted({one.client_id for one in facts.silent if one.client_id is not None}),
        ),
    )


@rule(
    Rule.COORDINATOR_HOT,
    Severity.INFO,
    "One broker takes most of the offset records",
    when=(
        f"Within the last hour of commits a broker took {BUSY_RECORDS_PER_SECOND:,.0f} offset records a second or more, and "
        f"{BUSY_SHARE:.0f} times the mean of all brokers that lead partitions of `__consumer_offsets`. A commit writes a record for each "
        "of its partitions. Found at the group that writes most of them."
    ),
    advice=(
        "Let this group commit less often (auto.commit.interval.ms, or a commit for every batch instead of every record), move the "
        "partition of `__consumer_offsets` to another broker, or rename one of the busiest groups: its name's hash chooses the partition."
    ),
)
def busy_coordinator(facts: CommitFacts) -> Found | None:
    """Return the broker that takes more offset records than others."""
    hot = facts.coordinator
    if hot is None:
        return None
    own, of_partition = (count / hot.offset_record_count for count in (hot.own_offset_record_count, hot.partition_offset_record_count))
    return Found(
        f"Broker {hot.broker} takes {hot.offset_record_count / hot.seconds:,.0f} offset records a second of "
        f"{counted(hot.group_count, 'group')}, {hot.offset_record_count / hot.mean_count:.1f} times the mean of all brokers; this group "
        f"writes {own:.0%} of them, and partition {hot.offsets_partition} of __consumer_offsets takes {of_partition:.0%}",
        figures(
            broker=hot.broker,
            offsets_partition=hot.offsets_partition,
            group_count=hot.group_count,
            offset_record_count=hot.offset_record_count,
            partition_offset_record_count=hot.partition_offset_record_count,
            own_offset_record_count=hot.own_offset_record_count,
            seconds=round(hot.seconds),
        ),
    )
