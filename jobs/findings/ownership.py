"""Rules on one assignment: partitions with several owners or none, idle members, and uneven loads."""

from __future__ import annotations

from dataclasses import dataclass

from assignors.generation.generation import STREAMS
from assignors.generation.holdings import Holdings
from assignors.generation.subscriptions import existing_partition_counts, layout_of, subscribers_of
from assignors.replay.replay import UNRESOLVED
from jobs.findings.facts import SnapshotFacts
from jobs.findings.rule import Found, counted, figures, listed, part_of, rule
from jobs.findings.streams import idle_instances
from schemas.vocabulary import Rule, Severity

CROWDED_RATIO = 1.5
"""Ratio of the largest to the mean load from which range crowds a member.

Below it the remainders of a few large topics explain the difference: if every topic has at least twice as many partitions as members, no
member can have more than this."""

CROWDED_GAP = 2
"""Partitions between the most and the least loaded member from which a more even split is possible; 1 is even already."""

RANGES = ("range", "server-range")
"""The assignors that assign each topic on its own and begin with the first member. So one member has the partitions of one number of all
topics of one size that the same members read."""

BY_BROKERS = "set group.remote.assignor=uniform in all members (the default is the first of the brokers' group.consumer.assignors)"
"""How a group of the consumer protocol gets another assignor (KIP-848): it cannot use one of its clients."""

SPREAD = "Let the assignor spread the load: use sticky or cooperative-sticky, and give all members equal subscriptions."
SPREAD_BY_BROKERS = f"Let the brokers spread the load: {BY_BROKERS}. Give all members equal subscriptions."

UNCROWD = (
    "Unless the topics are joined partition by partition, use cooperative-sticky or roundrobin. The audits of these strategies show what "
    "they would give."
)
UNCROWD_BY_BROKERS = f"Unless the topics are joined partition by partition, {BY_BROKERS}."


TWICE = "Records are processed twice. Restart the group's consumers, and look for a leader with a faulty assignor."
TWICE_BY_BROKERS = "Records are processed twice. Look for a faulty assignor among the brokers' group.consumer.assignors."

LOOK_FOR_THEM = (
    "Nobody reads these partitions before the next rebalance. A leader looks for new ones every metadata.max.age.ms (5 minutes). If they "
    "are still left out then, restart a consumer. Look for a leader that may not see the topic (ACLs) or has a faulty assignor."
)
LOOK_FOR_THEM_BY_BROKERS = (
    "Nobody reads these partitions before the next group epoch, which the coordinator begins by itself when it sees new ones. If they are "
    "still left out later, read its log, and look for a faulty assignor among the brokers' group.consumer.assignors."
)


def _can_judge_loads(snapshot: SnapshotFacts) -> bool:
    return snapshot.is_settled and snapshot.has_subscriptions_recorded


def _held(snapshot: SnapshotFacts) -> Holdings:
    return Holdings.of(snapshot.observed.assignment)


@rule(
    Rule.PARTITION_MULTIPLY_OWNED,
    Severity.CRITICAL,
    "A partition has several owners",
    when="One partition was given to several members at once.",
    advice=f"{TWICE} Under the consumer protocol, look for one among the brokers' group.consumer.assignors.",
)
def multiple_owners(snapshot: SnapshotFacts) -> Found | None:
    """Return the partitions that were given to several members. A partition that is twice in one member's list is read once."""
    several = {f"{topic}-{partition}" for topic, partition in _held(snapshot).owners_in(layout_of(snapshot.problem)).multiply_owned}
    shared = [topic_partition for topic_partition in snapshot.observed_violations("multiply_owned") if topic_partition in several]
    if not shared:
        return None
    return Found(
        f"{counted(len(shared), 'partition has', 'partitions have')} more than one owner: {listed(shared)}",
        figures(multiply_owned_count=len(shared), partitions=shared),
        advice=TWICE_BY_BROKERS if snapshot.evidence.is_consumer_protocol else TWICE,
    )


@rule(
    Rule.PARTITIONS_LEFT_OUT,
    Severity.CRITICAL,
    "Partitions are left out",
    when=(
        "A partition exists, members subscribe to its topic, and no member was given it. It is a `warning` if all these partitions are "
        "new to the group since the generation before, as after a topic was made again: its leader may not know them yet. It stays one "
        "for five minutes, however often the group rebalances. Withheld partitions do not count, nor do topics that no metadata snapshot "
        "confirms. The rule also holds if only a metadata snapshot after the group's newest generation shows the partitions. Then the "
        "evidence has `seen_at`, the time of the first such snapshot. This is `critical` only once the members have had time to join: five "
        "minutes, and their longest rebalance timeout, which is 300 s if none is recorded. Under the consumer protocol it is five minutes "
        "alone. A metadata snapshot and a record of the group's source must be that much later. Until then it is a `warning`."
    ),
    advice=f"{LOOK_FOR_THEM} Under the consumer protocol, the coordinator looks for new partitions, and the brokers have the assignors.",
)
def left_out_partitions(snapshot: SnapshotFacts) -> Found | None:
    """Return the partitions of subscribed topics that nobody was given.

    None if some topic is known only by its id: it may be one of those that seem to be missing.
    """
    if not _can_judge_loads(snapshot) or any(topic.startswith(UNRESOLVED) for topic in _held(snapshot).topics):
        return None
    unassigned = snapshot.observed_violations("unassigned")
    missing = [one for one in unassigned if one.rpartition("-")[0] not in snapshot.uncertain_topics]
    if not missing:
        return None
    return Found(
        f"Nobody was given {counted(len(missing), 'partition')} of subscribed topics: {listed(missing)}",
        figures(left_out_count=len(missing), partitions=missing),
        Severity.WARNING if all(map(snapshot.is_new_to_group, missing)) else None,
        LOOK_FOR_THEM_BY_BROKERS if snapshot.evidence.is_consumer_protocol else LOOK_FOR_THEM,
    )


def _doubt(snapshot: SnapshotFacts) -> str:
    """Return the end of a message about idle members if nobody knows what they subscribe to, else an empty text."""
    return "" if snapshot.evidence.has_subscriptions else "; their subscriptions are not known"


@dataclass(frozen=True)
class _Idle:
    """The members that subscribe to an existing topic and were given nothing, without those whose topics have an unassigned partition.

    Attributes:
        spared: those that could get a partition from a member with several.
        surplus: those for which there is no partition.
        most: the largest load of a member that could give one of them a partition; 0 without one.
    """

    spared: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()
    most: int = 0


def _idle_members(snapshot: SnapshotFacts) -> _Idle:
    if snapshot.strategy == STREAMS:
        return _Idle()  # a thread gets tasks: sets of partitions that belong together, fewer than there are partitions (KIP-441)
    problem, held = snapshot.problem, _held(snapshot)
    counts = existing_partition_counts(problem)
    idle = [one for one in problem.members if not held.load(one.member_id) and not counts.keys().isdisjoint(one.topics)]
    if not idle:
        return _Idle()
    spare: dict[str, int] = {}  # topic -> the largest load of a member with several partitions that has one of the topic
    for owner, topic, _ in held.entries():
        if held.load(owner) > 1:
            spare[topic] = max(held.load(owner), spare.get(topic, 0))
    to_spare = set(spare)
    owners = held.owners_in(layout_of(problem))
    to_have = to_spare.union(topic for topic, _ in owners.layout.partitions(owners.free_of(counts)))
    spared = [one for one in idle if not to_spare.isdisjoint(one.topics)]
    most = max((spare[topic] for one in spared for topic in to_spare.intersection(one.topics)), default=0)
    surplus = tuple(one.member_id for one in idle if to_have.isdisjoint(one.topics))
    return _Idle(tuple(one.member_id for one in spared), surplus, most)


@rule(
    Rule.IDLE_MEMBERS,
    Severity.WARNING,
    "Members are idle though others have several partitions",
    when=(
        "A member has no partition. Another has two or more, one of them of a topic that the idle member subscribes to as well. It is "
        "not reported together with `range_crowded`, which gives the reason. If no member has several partitions and some are left out, "
        "the rule is `partitions_left_out`. It is `info` if the source does not show subscriptions. A Kafka Streams application is "
        "reported only if one instance has all partitions, since its tasks are sets of partitions. This is `info` if all other instances "
        "are new to the group."
    ),
    advice=f"{SPREAD} Under the consumer protocol: {SPREAD_BY_BROKERS}",
)
def idle_members(snapshot: SnapshotFacts) -> Found | None:
    """Return the members that have nothing although another member could give up a partition."""
    if not snapshot.is_settled or snapshot.evidence.is_conversion or _crowding(snapshot) is not None:
        return None
    if snapshot.strategy == STREAMS:
        return idle_instances(snapshot)
    found = _idle_members(snapshot)
    idle, most = found.spared, found.most
    if not idle:
        return None
    members = len(snapshot.problem.members)
    doubt = _doubt(snapshot)
    others = f"another has up to {counted(most, 'partition')}"
    return Found(
        f"{part_of(len(idle), members, 'member', 'has', 'have')} nothing to read, while {others}: {listed(idle)}{doubt}",
        figures(idle_member_count=len(idle), member_count=members, partitions_per_member_max=most, members=idle),
        Severity.INFO if doubt else None,
        advice=SPREAD_BY_BROKERS if snapshot.evidence.is_consumer_protocol else SPREAD,
    )


@rule(
    Rule.MORE_MEMBERS_THAN_PARTITIONS,
    Severity.INFO,
    "More members than partitions",
    when=(
        "A member has no partition. Every partition of its topics is with a member that has no other one. "
        "If the source does not show subscriptions, all members are taken to read all topics of the group. Kafka Streams is not reported."
    ),
    advice="This is fine for a standby. Otherwise stop the members that have nothing to read, or add partitions to the topics.",
)
def surplus_members(snapshot: SnapshotFacts) -> Found | None:
    """Return the members for which there is no partition."""
    if not snapshot.is_settled or snapshot.evidence.is_conversion:
        return None
    surplus = _idle_members(snapshot).surplus
    if not surplus:
        return None
    members, counts = len(snapshot.problem.members), existing_partition_counts(snapshot.problem)
    wanted = counts.keys() & {topic for one in snapshot.problem.members if one.member_id in surplus for topic in one.topics}
    partitions = sum(counts[topic] for topic in wanted)
    own = "its topics" if len(surplus) == 1 else "their topics"
    which = "the topics of the group" if len(wanted) == len(counts) else own
    return Found(
        f"{part_of(len(surplus), members, 'member', 'has', 'have')} nothing to read: {which} have "
        f"{counted(partitions, 'partition')}{_doubt(snapshot)}",
        figures(idle_member_count=len(surplus), member_count=members, partition_count=partitions, members=surplus),
    )


@dataclass(frozen=True)
class _Crowding:
    most: int
    least: int
    total: int
    short_topic_count: int
    topic_count: int


def _crowding(snapshot: SnapshotFacts) -> _Crowding | None:
    """Return the loads if range crowds a member that would have fewer in an even split, else None."""
    if snapshot.strategy not in RANGES or not _can_judge_loads(snapshot):
        return None
    counts = existing_partition_counts(snapshot.problem)
    subscribers = subscribers_of(snapshot.problem)
    if len(subscribers) != 1 or len(counts) < 2:
        return None  # with different subscriptions nobody can tell what an even split would be
    (members,) = subscribers.values()
    loads = list(map(_held(snapshot).load, members))
    most, least, total = max(loads), min(loads), sum(loads)
    if most - least < CROWDED_GAP or most * len(loads) < CROWDED_RATIO * total:
        return None
    return _Crowding(most, least, total, sum(1 for count in counts.values() if count < len(members)), len(counts))


@rule(
    Rule.RANGE_CROWDED,
    Severity.WARNING,
    "Range crowds the first members",
    when=(
        "All members subscribe to the same topics, and the assignor is range. The most loaded member has at least "
        f"{CROWDED_RATIO} times the mean, and at least {CROWDED_GAP} partitions more than the least loaded one. Range assigns each topic "
        "on its own and begins with the first member. So many small topics all go to the same few members."
    ),
    advice=f"{UNCROWD} Under the consumer protocol: {UNCROWD_BY_BROKERS}",
)
def crowded_range(snapshot: SnapshotFacts) -> Found | None:
    """Return the loads of a group whose range assignor gives the same few members partitions of every topic."""
    found = _crowding(snapshot)
    if found is None:
        return None
    return Found(
        f"{snapshot.strategy} gives one member {found.most} of {found.total} partitions and another {found.least}: "
        f"{part_of(found.short_topic_count, found.topic_count, 'topic', 'has', 'have')} fewer partitions than the group has members",
        figures(
            partitions_per_member_max=found.most,
            partitions_per_member_min=found.least,
            partition_count=found.total,
            short_topic_count=found.short_topic_count,
            topic_count=found.topic_count,
        ),
        advice=UNCROWD_BY_BROKERS if snapshot.evidence.is_consumer_protocol else UNCROWD,
    )
