"""Rules on one settled assignment: who reads what, twice, never, or nothing."""

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
"""Largest by mean load from which range crowds a member. Below it the remainders of a few large topics explain the difference: with at
least twice as many partitions as members in every topic no member can have more than this."""

CROWDED_GAP = 2
"""Partitions between the most and the least loaded member from which an even split would do better; 1 is even already."""

RANGES = ("range", "server-range")
"""The assignors that deal out every topic for itself, from the first member on."""

BY_BROKERS = (
    "set group.remote.assignor=uniform in all members (where it is not set, the first of the brokers' group.consumer.assignors counts)"
)
"""How a group of the consumer protocol comes by another assignor (KIP-848): it has none of its clients'."""

SPREAD = "Let the assignor spread the load: sticky or cooperative-sticky, and equal subscriptions in all members."
SPREAD_BY_BROKERS = f"Let the brokers spread the load: {BY_BROKERS}, and give all members equal subscriptions."

UNCROWD = (
    "Unless the topics are joined partition by partition, use cooperative-sticky or roundrobin: the audits of these strategies show what "
    "they would give."
)
UNCROWD_BY_BROKERS = f"Unless the topics are joined partition by partition, {BY_BROKERS}."


TWICE = "Records are processed twice. Restart the group's consumers; look for a leader with a faulty assignor."
TWICE_BY_BROKERS = "Records are processed twice. Look for a faulty assignor among the brokers' group.consumer.assignors."

LOOK_FOR_THEM = (
    "Nobody reads these partitions before the next rebalance. A leader looks for new ones every metadata.max.age.ms (5 minutes). If they "
    "stay away, restart a consumer, and look for a leader that may not see the topic (ACLs) or has a faulty assignor."
)
LOOK_FOR_THEM_BY_BROKERS = (
    "Nobody reads these partitions before the next group epoch, which the coordinator begins by itself when it learns of new ones. If they "
    "stay away, look at its log, and for a faulty assignor among the brokers' group.consumer.assignors."
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
    advice=f"{TWICE} Under the consumer protocol look for it among the brokers' group.consumer.assignors.",
)
def multiple_owners(snapshot: SnapshotFacts) -> Found | None:
    """Return the partitions that were given to several members; one that is twice in a member's list is read once."""
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
        "A partition exists, members subscribe to its topic, and none was given it. `warning` where all of these are new to the group "
        "since the generation before: its leader may not have heard of them yet. Partitions that a cooperative assignor keeps back for "
        "one rebalance do not count, nor do topics that no look at the cluster confirms. Also where only a look later than the group's "
        "newest generation shows the partitions: its evidence has `seen_at`, the time of the first such look. That is a `warning` until "
        "five minutes later, by looks and by the records of the group's source."
    ),
    advice=f"{LOOK_FOR_THEM} Under the consumer protocol the coordinator looks, and brokers have the assignors.",
)
def left_out_partitions(snapshot: SnapshotFacts) -> Found | None:
    """Return the partitions of subscribed topics that nobody was given.

    Where a topic is known by an id alone, it may be one of those that are missing by name.
    """
    if not _can_judge_loads(snapshot) or any(topic.startswith(UNRESOLVED) for topic in _held(snapshot).topics):
        return None
    missing, is_new = [], []
    known = {} if snapshot.previous is None else existing_partition_counts(snapshot.previous.problem)
    for topic_partition in snapshot.observed_violations("unassigned"):
        topic, _, partition = topic_partition.rpartition("-")
        if topic not in snapshot.uncertain_topics:
            missing.append(topic_partition)
            is_new.append(snapshot.previous is not None and int(partition) >= known.get(topic, 0))
    if not missing:
        return None
    return Found(
        f"Nobody was given {counted(len(missing), 'partition')} of subscribed topics: {listed(missing)}",
        figures(left_out_count=len(missing), partitions=missing),
        Severity.WARNING if all(is_new) else None,
        LOOK_FOR_THEM_BY_BROKERS if snapshot.evidence.is_consumer_protocol else LOOK_FOR_THEM,
    )


@dataclass(frozen=True)
class _Idle:
    """The members that could read something and were given nothing, but for those whose topics have a partition that nobody has.

    Attributes:
        spared: those that could take a partition over from a member with several.
        surplus: those for which there is no partition.
    """

    spared: tuple[str, ...]
    surplus: tuple[str, ...]


def _idle_members(snapshot: SnapshotFacts) -> _Idle:
    if snapshot.strategy == STREAMS:
        return _Idle((), ())  # a thread gets tasks: sets of partitions that belong together, fewer than there are partitions (KIP-441)
    problem, held = snapshot.problem, _held(snapshot)
    counts = existing_partition_counts(problem)
    idle = [one for one in problem.members if not held.load(one.member_id) and not counts.keys().isdisjoint(one.topics)]
    if not idle:
        return _Idle((), ())
    to_spare = {topic for owner, topic, _ in held.entries() if held.load(owner) > 1}
    owners = held.owners_in(layout_of(problem))
    to_have = to_spare.union(topic for topic, _ in owners.layout.partitions(owners.free_of(counts)))
    spared = tuple(one.member_id for one in idle if not to_spare.isdisjoint(one.topics))
    return _Idle(spared, tuple(one.member_id for one in idle if to_have.isdisjoint(one.topics)))


@rule(
    Rule.IDLE_MEMBERS,
    Severity.WARNING,
    "Members are idle though others have several partitions",
    when=(
        "A member has nothing while another has two or more partitions, one of them of a topic that the idle one subscribes to as well. "
        "Not reported beside `range_crowded`, which says why. Where nobody has several and some are left out, that is "
        "`partitions_left_out`. `info` where the source does not tell what members subscribe to. Of Kafka Streams, whose tasks are sets of "
        "partitions, only an application is reported of which one instance has everything: `info` if all others are new to it."
    ),
    advice=f"{SPREAD} Under the consumer protocol: {SPREAD_BY_BROKERS}",
)
def idle_members(snapshot: SnapshotFacts) -> Found | None:
    """Return the members that have nothing although another one could spare something."""
    if not snapshot.is_settled or snapshot.evidence.is_conversion or _crowding(snapshot) is not None:
        return None
    if snapshot.strategy == STREAMS:
        return idle_instances(snapshot)
    idle = _idle_members(snapshot).spared
    if not idle:
        return None
    most = max(_held(snapshot).loads)
    members = len(snapshot.problem.members)
    doubt = "" if snapshot.evidence.has_subscriptions else "; what they subscribe to is not known"
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
        "A member has nothing, every other that reads its topics has a single partition, and none of these topics' partitions is left out. "
        "Not reported for Kafka Streams."
    ),
    advice="Fine as a standby. Else stop the members that have nothing to read, or add partitions to the topics.",
)
def surplus_members(snapshot: SnapshotFacts) -> Found | None:
    """Return the members for which there is no partition."""
    if not _can_judge_loads(snapshot):
        return None
    surplus = _idle_members(snapshot).surplus
    if not surplus:
        return None
    members, partitions = len(snapshot.problem.members), sum(existing_partition_counts(snapshot.problem).values())
    return Found(
        f"{part_of(len(surplus), members, 'member', 'has', 'have')} nothing to read: the topics of the group have "
        f"{counted(partitions, 'partition')}",
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
    """Return the loads where range crowds a member that an even split would relieve, None elsewhere."""
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
        "All members subscribe to the same topics, the assignor is range, and the most loaded member has at least "
        f"{CROWDED_RATIO} times the mean and {CROWDED_GAP} partitions more than the least loaded one. Range deals out every topic from the "
        "first member on, so that many small topics all go to the same few."
    ),
    advice=f"{UNCROWD} Under the consumer protocol: {UNCROWD_BY_BROKERS}",
)
def crowded_range(snapshot: SnapshotFacts) -> Found | None:
    """Return the loads of a group whose range assignor gives the same members something of every topic."""
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
