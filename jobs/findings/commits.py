"""Rules on commits: they judge the newest generation of each group by all commits and metadata snapshots.

``jobs/audit/commit_findings.py`` finds in Spark what breaks a rule; this module writes the finding. A newer generation of the group removes
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jobs.findings.rule import Found, counted, duration, figures, listed, named, part_of, percent, rule, text_of
from schemas.vocabulary import Rule, Severity

LEAST_GROWTH_MS = 60_000
"""How long a member must have had its partitions: with auto-commit, clients commit every five seconds."""

BUSY_SHARE = 2.0
"""Ratio of a broker's offset records to the mean of all brokers from which it is hot."""

BUSY_RECORDS_PER_SECOND = 1_000.0
"""Below it no broker is busy with offset records, however uneven they are: a broker takes thousands a second, even if each is a commit of
its own. A commit writes a record for each of its partitions. A group of 250 partitions with auto-commit writes 50 a second, so it takes
twenty such groups."""


@dataclass(frozen=True)
class UnsubscribedTopic:
    """A topic that a group has committed offsets for and no member of its newest generation subscribes to.

    Attributes:
        is_recent: whether the last of these commits is later than the generation.
    """

    topic: str
    is_recent: bool


@dataclass(frozen=True)
class SilentMember:
    """A member whose partitions have no commit of the group, although records came in.

    Attributes:
        partition_count: without those that a member before it has too; so are the records.
        record_count: records that came in between two metadata snapshots of the last day: the first after the generation, and the last.
    """

    member_id: str
    partition_count: int
    record_count: int


@dataclass(frozen=True)
class StalledMember:
    """A member of whose partitions no commit came for too long, although there were commits before and records came in.

    Attributes:
        partition_count: without those that a member before it has too; so are the names, the records and the lag.
        partitions: the first few, as ``topic-number``.
        record_count: records that came in since then, early enough to be committed.
        lag: records after the last commits, in the newest metadata snapshot; None if it is not known.
        since_ms: time of the last commit, or of the generation if that is later.
        silent_ms: from there until the commits of the group are no longer known.
    """

    member_id: str
    partition_count: int
    partitions: list[str]
    record_count: int
    lag: int | None
    since_ms: int
    silent_ms: int


@dataclass(frozen=True)
class ExpiringTopic:
    """A topic whose commits nobody uses, and the time at which the first of them expires."""

    topic: str
    partition_count: int
    expires_at_ms: int


@dataclass(frozen=True)
class BusyCoordinator:
    """A broker that takes more offset records than others. This group writes more of them than any other group.

    Attributes:
        offsets_partition: the one of its partitions of ``__consumer_offsets`` that takes most.
        seconds: the length of time, up to the last record, in which records were counted.
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
class WaitingMember:
    """A member that has not reached the target of its group.

    Attributes:
        has_to_give_up: its record says that it has not given up all partitions that it has to.
    """

    member_id: str
    has_to_give_up: bool


@dataclass(frozen=True)
class OpenTarget:
    """A target that not all members have reached, for longer than any of them has time.

    Attributes:
        epoch: of the target.
        waited_ms: from the target to the last commit in the group's partition of ``__consumer_offsets``.
        rebalance_timeout_ms: the longest one of the members.
    """

    epoch: int
    waited_ms: int
    rebalance_timeout_ms: int
    members: Sequence[WaitingMember]


@dataclass(frozen=True)
class CommitFacts:
    """What the rules use of one group.

    Attributes:
        client_ids: member id -> client id, of groups with silent or stalled members.
    """

    member_count: int
    unsubscribed: Sequence[UnsubscribedTopic] = ()
    silent: Sequence[SilentMember] = ()
    coordinator: BusyCoordinator | None = None
    target: OpenTarget | None = None
    stalled: Sequence[StalledMember] = ()
    expiring: Sequence[ExpiringTopic] = ()
    retention_hours: int = 168
    client_ids: Mapping[str, str | None] = field(default_factory=dict)

    def client_ids_of(self, members: Iterable[SilentMember | StalledMember]) -> list[str]:
        """Return the known client ids of members, in order."""
        found = {self.client_ids.get(one.member_id) for one in members}
        return sorted(name for name in found if name is not None)


@rule(
    Rule.NOT_RECONCILED,
    Severity.WARNING,
    "Members do not reach their target",
    when=(
        "The group uses the consumer protocol, and members have not reached the target of the newest generation. Commits in the same "
        "partition of `__consumer_offsets` go on for longer than the longest rebalance timeout of the members."
    ),
    advice=(
        "Partitions that change their owner are with nobody, or still with the old one. Read the log of the member that has not given up "
        "its partitions: a callback hangs, or a batch takes longer than max.poll.interval.ms. The coordinator removes such a member after "
        "its rebalance timeout. If it stays, restart that consumer."
    ),
)
def unreached_target(facts: CommitFacts) -> Found | None:
    """Return the members that have not reached the target, and those of them that the others wait for."""
    target = facts.target
    if target is None:
        return None
    waiting = [one.member_id for one in target.members]
    blocking = [one.member_id for one in target.members if one.has_to_give_up]
    others = f"; not all partitions are given up by {named(blocking)}" if blocking else f": {named(waiting)}"
    return Found(
        f"{part_of(len(waiting), facts.member_count, 'member', 'has', 'have')} not reached epoch {target.epoch} for "
        f"{duration(target.waited_ms)}, and the longest rebalance timeout is {duration(target.rebalance_timeout_ms)}{others}",
        figures(
            waiting_member_count=len(waiting),
            member_count=facts.member_count,
            seconds=round(target.waited_ms / 1000),
            rebalance_timeout_ms=target.rebalance_timeout_ms,
            members=waiting,
            blocking_members=blocking,
        ),
    )


@rule(
    Rule.COMMITS_UNSUBSCRIBED,
    Severity.INFO,
    "Offsets are committed for topics that nobody subscribes to",
    when=(
        "The group has committed offsets for a topic that no member of its newest generation subscribes to, and they have not been "
        "deleted. It is a `warning` if the last of them is later than that generation: somebody outside the group commits under its name."
    ),
    advice=(
        "Left-over offsets appear as a growing lag that no member can reduce. Delete them with kafka-consumer-groups --delete-offsets. If "
        "they are recent, look for a consumer that assigns partitions by hand, or a tool that resets offsets, with this group's id."
    ),
)
def unsubscribed_commits(facts: CommitFacts) -> Found | None:
    """Return the topics with commits and without subscribers."""
    if not facts.unsubscribed:
        return None
    names = [one.topic for one in facts.unsubscribed]
    recent = [one.topic for one in facts.unsubscribed if one.is_recent]
    since = f"; {len(recent)} of them since the newest generation: {listed(recent)}" if recent else ""
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
        "The group has never committed an offset of any of a member's partitions, although records came into them since the newest "
        f"generation. They came at least {LEAST_GROWTH_MS // 1000} seconds before the last commit of the group's source. The rule needs "
        "commits of this source."
    ),
    advice=(
        "After a restart these consumers begin where auto.offset.reset says: records are skipped or read again. Switch enable.auto.commit "
        "on, or commit after processing. Ignore this finding if offsets are stored elsewhere (Flink, Spark, a database)."
    ),
)
def silent_members(facts: CommitFacts) -> Found | None:
    """Return the members that read and never commit."""
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
            client_ids=facts.client_ids_of(facts.silent),
        ),
    )


@rule(
    Rule.MEMBER_STALLED,
    Severity.WARNING,
    "Members have stopped to commit",
    when=(
        "The group has committed offsets of a member's partitions before, and no commit of any of them came for longer than the rebalance "
        "timeout and five mean intervals between commits. Two metadata snapshots since then show that records came in, and nobody "
        "committed for as long after the second one. Only the time counts up to which all commits are known. It ends with the last commit "
        "in the same partition of `__consumer_offsets`, or with a later metadata snapshot whose end of that partition has landed."
    ),
    advice=(
        "The member sends heartbeats and processes nothing. Take a thread dump of that consumer: its poll loop waits for a lock, a "
        "connection or a retry without an end, or its partitions are paused. Restart it, then set a timeout for what it waited for. If it "
        "does process, look for commits that fail in its log."
    ),
)
def stalled_members(facts: CommitFacts) -> Found | None:
    """Return the members that have stopped to commit."""
    if not facts.stalled:
        return None
    members = sorted(facts.stalled, key=lambda one: (one.since_ms, one.member_id))
    names = [one.member_id for one in members]
    partition_count = sum(one.partition_count for one in members)
    record_count = sum(one.record_count for one in members)
    lags = [one.lag for one in members if one.lag is not None]
    waiting = f"; {counted(sum(lags), 'record')} wait now" if lags else ""
    return Found(
        f"{part_of(len(names), facts.member_count, 'member', 'has', 'have')} not committed since {text_of(members[0].since_ms)}, for "
        f"{duration(members[0].silent_ms)}, while {counted(record_count, 'record')} came into {counted(partition_count, 'partition')}: "
        f"{listed(names)}{waiting}",
        figures(
            stalled_member_count=len(names),
            member_count=facts.member_count,
            members=names,
            client_ids=facts.client_ids_of(members),
            partition_count=partition_count,
            partitions=[partition for one in members for partition in one.partitions],
            record_count=record_count,
            since=text_of(members[0].since_ms),
            seconds=round(members[0].silent_ms / 1000),
        )
        | (figures(lag=sum(lags)) if lags else {}),
    )


@rule(
    Rule.COMMITS_EXPIRE,
    Severity.WARNING,
    "Commits expire within a day",
    when=(
        "The group is empty, or has commits for a topic to which no member subscribes. Brokers delete these commits within 24 hours of the "
        "newest moment that has landed from the cluster. That is `audit.offsets_retention_hours` after a classic group became empty, "
        "else after the last commit: under the consumer protocol, for topics without subscription, and for commits of a group that was "
        "deleted before. This retention is assumed: no capture has the broker's `offsets.retention.minutes`. A broker looks for such "
        "commits every ten minutes, so they may stay a little longer. Groups that never had members are left out."
    ),
    advice=(
        "After that the group begins where auto.offset.reset says: records are skipped or read again. If it is going to be used, start a "
        "consumer of it, or save its offsets with kafka-consumer-groups --reset-offsets --to-current --export. If it is not, ignore this. "
        "Set audit.offsets_retention_hours to the retention of your brokers."
    ),
)
def expiring_commits(facts: CommitFacts) -> Found | None:
    """Return the topics whose commits expire soon."""
    if not facts.expiring:
        return None
    names = [one.topic for one in facts.expiring]
    count = sum(one.partition_count for one in facts.expiring)
    first = text_of(min(one.expires_at_ms for one in facts.expiring))
    why = "the group is empty" if facts.member_count == 0 else "no member subscribes to their topics"
    return Found(
        f"The commits of {counted(count, 'partition')} of {named(names)} expire from {first} on, if brokers keep them for "
        f"{counted(facts.retention_hours, 'hour')}: {why}",
        figures(
            partition_count=count, topic_count=len(names), topics=names, expires_at=first, assumed_retention_hours=facts.retention_hours
        ),
    )


@rule(
    Rule.COORDINATOR_HOT,
    Severity.INFO,
    "One broker takes most of the offset records",
    when=(
        f"Within the last hour of commits a broker took at least {BUSY_RECORDS_PER_SECOND:,.0f} offset records a second. This was at least "
        f"{BUSY_SHARE:.0f} times the mean of all brokers that lead partitions of `__consumer_offsets`. A commit writes a record for each "
        "of its partitions. The finding is at the group that writes most of them."
    ),
    advice=(
        "Let this group commit less often: raise auto.commit.interval.ms, or commit every batch instead of every record. Or move the "
        "partition of `__consumer_offsets` to another broker. Or rename one of the busiest groups: the hash of its name chooses the "
        "partition."
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
        f"writes {percent(own)} of them, and partition {hot.offsets_partition} of __consumer_offsets takes {percent(of_partition)}",
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
