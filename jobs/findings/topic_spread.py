"""Rules on how an assignment spreads single topics: over the members, beside other topics, and over racks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from assignors.algorithms.releases import client_behaviour
from assignors.generation.generation import SERVER_SIDE, STREAMS
from assignors.generation.holdings import Holdings
from assignors.generation.subscriptions import existing_partition_counts, layout_of, subscribed_topics, subscribers_of
from jobs.findings.facts import SnapshotFacts
from jobs.findings.ownership import RANGES
from jobs.findings.rule import Found, counted, figures, listed, named, part_of, percent, rule
from schemas.vocabulary import Basis, Flavour, Rule, Severity

FEWEST_A_MEMBER = 2
"""Partitions of a topic for each member from which its spread is judged. With fewer, chance alone leaves members without any."""

TIMES_ITS_SHARE = 2
"""How many even shares of a topic one member has in a skewed topic."""

READERS_LEFT_OUT = 3
"""One member in so many has nothing of a skewed topic. If partitions were dealt out by chance, one topic in twelve would be skewed."""


def _are_alike(snapshot: SnapshotFacts) -> bool:
    """Return whether loads can be judged, and all members that read an existing topic read the same ones."""
    return snapshot.is_settled and snapshot.has_subscriptions_recorded and len(subscribers_of(snapshot.problem)) == 1


@dataclass(frozen=True)
class _SkewedTopic:
    topic: str
    partition_count: int
    reader_count: int
    most: int

    def text(self, member_count: int) -> str:
        readers = f"{self.topic} with {self.reader_count} of {member_count} members"
        return f"{readers}, and one of them has {self.most} of its {self.partition_count} partitions"


def _skewed_topics(snapshot: SnapshotFacts, members: Sequence[str]) -> Iterator[_SkewedTopic]:
    """Yield the topics of which some members have much and others nothing, in the order of their names."""
    reading = set(members)
    lengths: defaultdict[str, list[int]] = defaultdict(list)
    for owner, topic, length in Holdings.of(snapshot.observed.assignment).entries():
        if owner in reading:
            lengths[topic].append(length)
    for topic, count in sorted(existing_partition_counts(snapshot.problem).items()):
        if topic in snapshot.uncertain_topics or topic not in lengths or count < FEWEST_A_MEMBER * len(members):
            continue
        readers, most, share = len(lengths[topic]), max(lengths[topic]), -(-count // len(members))
        if most >= TIMES_ITS_SHARE * share and (len(members) - readers) * READERS_LEFT_OUT >= len(members):
            yield _SkewedTopic(topic, count, readers, most)


@rule(
    Rule.TOPIC_SKEW,
    Severity.INFO,
    "A topic is with few members though the loads are even",
    when=(
        "All members subscribe to the same topics, and their loads differ by at most one partition. Yet a topic with at least "
        f"{FEWEST_A_MEMBER} partitions for each member is spread unevenly. One member has at least {TIMES_ITS_SHARE} times its even share "
        f"of the topic, rounded up, and at least one member in {READERS_LEFT_OUT} has nothing of it. Kafka Streams is not reported, "
        "since its tasks are sets of partitions."
    ),
    advice=(
        "Only counts are even. If one of these topics has most of the records, its few readers have most of the work. Sticky assignors "
        "balance the sum of all topics, and keep what members have. roundrobin and range spread each topic over all members. Under the "
        "consumer protocol, range does (group.remote.assignor)."
    ),
)
def skewed_topics(snapshot: SnapshotFacts) -> Found | None:
    """Return the topics that only some members read, although all members have equally many partitions."""
    balance = snapshot.balance
    if balance is None or balance.topic_skew_max < FEWEST_A_MEMBER * TIMES_ITS_SHARE or snapshot.strategy == STREAMS:
        return None
    if not _are_alike(snapshot):
        return None
    (members,) = subscribers_of(snapshot.problem).values()
    held = Holdings.of(snapshot.observed.assignment)
    loads = [held.load(name) for name in members]
    if max(loads) - min(loads) > 1:
        return None
    skewed = list(_skewed_topics(snapshot, members))
    if not skewed:
        return None
    texts = [one.text(len(members)) for one in islice(skewed, 3)]
    return Found(
        f"All members have {_between(min(loads), max(loads))}, yet {counted(len(skewed), 'topic is', 'topics are')} with few members: "
        f"{'; '.join(texts)}",
        figures(
            topic_count=len(skewed),
            topics=[one.topic for one in skewed],
            topic_skew_max=balance.topic_skew_max,
            partitions_per_member_max=max(loads),
            partitions_per_member_min=min(loads),
            member_count=len(members),
        ),
    )


def _between(least: int, most: int) -> str:
    return counted(most, "partition") if least == most else f"{least} or {counted(most, 'partition')}"


@dataclass(frozen=True)
class _Parted:
    """Two topics of one size whose partitions of one number have different owners."""

    first: str
    second: str
    partition_count: int
    numbers: Sequence[int]


def _parted_topics(snapshot: SnapshotFacts) -> Iterator[_Parted]:
    """Yield the topics whose owners differ from those of the first topic of the same size.

    A topic with partitions that the leader may not know yet had another size for it.
    """
    owners = Holdings.of(snapshot.observed.assignment).owners_in(layout_of(snapshot.problem))
    (topics,) = subscribers_of(snapshot.problem)
    by_size: defaultdict[int, list[str]] = defaultdict(list)
    grown = {one.rpartition("-")[0] for one in snapshot.observed_violations("unassigned") if snapshot.is_new_to_group(one)}
    for topic, size in owners.layout.sizes.items():
        if topic in topics and topic not in snapshot.uncertain_topics and topic not in grown:
            by_size[size].append(topic)
    for size, names in by_size.items():
        for name in names[1:]:
            numbers = owners.parted(names[0], name)
            if numbers:
                yield _Parted(names[0], name, size, numbers)


@rule(
    Rule.RANGE_NOT_COPARTITIONED,
    Severity.WARNING,
    "Range does not keep partitions of one number together",
    when=(
        "The assignor is range, all members subscribe to the same topics, and two of these have equally many partitions. Kafka's range "
        "gives the partitions of one number to the same member in both topics. Here some of them have different owners. Topics of "
        "different sizes are not compared: no record shows whether an application joins them. Nor is a topic that has grown and whose new "
        "partitions nobody was given, as for `partitions_left_out`."
    ),
    advice=(
        "An application that joins these topics by partition misses matches without an error. Check the leader's client library: Kafka's "
        "range keeps such partitions together. Under the consumer protocol, check the brokers' release and their group.consumer.assignors."
    ),
)
def parted_topics(snapshot: SnapshotFacts) -> Found | None:
    """Return the topics of equal size whose partitions of one number have different owners."""
    if snapshot.strategy not in RANGES or not _are_alike(snapshot):
        return None
    parted = list(_parted_topics(snapshot))
    if not parted:
        return None
    worst = max(parted, key=lambda one: len(one.numbers))
    return Found(
        f"{snapshot.strategy} gives {part_of(len(worst.numbers), worst.partition_count, 'partition', 'of', 'of')} {worst.second} to "
        f"another member than those of the same number of {worst.first}: {listed([str(number) for number in worst.numbers])}",
        figures(
            topic_count=len(parted) + len({one.partition_count for one in parted}),
            topics=list(dict.fromkeys(name for one in parted for name in (one.first, one.second))),
            parted_count=len(worst.numbers),
            partition_count=worst.partition_count,
            partitions=[str(number) for number in worst.numbers],
            flavour=snapshot.leader_client or "",
        ),
    )


WITHOUT_RACKS = frozenset({Flavour.SARAMA, Flavour.KAFKA_PYTHON, Flavour.KAFKAJS})
"""Client libraries whose assignors ignore racks: Sarama 1.61, kafka-python 3.0 and kafkajs 2.2 do."""

RACK_AWARE = ("range", "sticky", "cooperative-sticky")
"""Kafka's assignors that go by racks (KIP-881)."""

IGNORING = ("roundrobin", *SERVER_SIDE)
"""Kafka's assignors that ignore racks in every release."""

USE_A_RACK_AWARE_ONE = (
    "Records come from another rack where a partition has no replica in its reader's. Java's range, sticky and cooperative-sticky go by "
    "racks since 3.5."
)
RACKS_BY_BROKERS = (
    "Records come from another rack where a partition has no replica in its reader's. No assignor of Kafka's brokers goes by racks. More "
    "replicas, one in each rack, make every partition near to every member."
)
CORRECT_RACKS = (
    "Give client.rack and broker.rack the same names: an assignor and a consumer compare them letter by letter. Otherwise client.rack has "
    "no effect for these members. That is right where brokers are in fewer racks than consumers."
)


def _ignoring(snapshot: SnapshotFacts) -> str | None:
    """Return who ignores racks, for a message; None if the assignor goes by racks, or if that is not known."""
    if snapshot.strategy in IGNORING:
        return snapshot.strategy
    if snapshot.strategy not in RACK_AWARE:
        return None
    if snapshot.leader_client in WITHOUT_RACKS:
        return f"{snapshot.strategy} of {snapshot.leader_client}"
    if snapshot.leader_client not in (None, Flavour.JAVA):
        return None
    release = next((one.kafka_version for one in snapshot.solutions if one.basis == Basis.RECOMPUTED), None)
    return None if client_behaviour(release).is_rack_aware else f"{snapshot.strategy} of release {release}"


@rule(
    Rule.RACKS_UNUSED,
    Severity.INFO,
    "Members set racks that have no effect on the assignment",
    when=(
        "Members set client.rack, and metadata snapshots show racks of replicas. Either a member is in a rack that has no replica of any "
        "subscribed topic, and the racks of all these topics are known. Or the assignor ignores racks though they could matter, and a "
        "partition has no replica in its reader's rack: round robin, the brokers' own assignors, Java before 3.5 (KIP-881), and some "
        "other libraries do."
    ),
    advice=f"{CORRECT_RACKS} {USE_A_RACK_AWARE_ONE}",
)
def unused_racks(snapshot: SnapshotFacts) -> Found | None:
    """Return the racks of members that no replica is in, else the share of partitions with a replica near their reader."""
    in_racks = Counter(member.rack for member in snapshot.problem.members if member.rack)
    if not in_racks or not snapshot.is_settled:
        return None
    subscribed = [topic for name, topic in snapshot.problem.topics.items() if name in subscribed_topics(snapshot.problem)]
    known = [topic.partition_racks for topic in subscribed if topic.partition_racks is not None]
    replicas = {frozenset(rack for rack in racks if rack is not None) for topic in known for racks in set(topic)}
    of_replicas = frozenset().union(*replicas)
    if not of_replicas:
        return None
    strange = sorted(rack for rack in in_racks if rack not in of_replicas)
    member_count = len(snapshot.problem.members)
    if strange and len(known) == len(subscribed):
        count = sum(in_racks[rack] for rack in strange)
        return Found(
            f"{part_of(count, member_count, 'member', 'is', 'are')} in racks without a replica: {named(strange)}; replicas are in "
            f"{named(sorted(of_replicas))}",
            figures(member_count=count, racks=strange, replica_racks=sorted(of_replicas)),
            advice=CORRECT_RACKS,
        )
    ratio = None if snapshot.balance is None else snapshot.balance.rack_match_ratio
    ignoring = _ignoring(snapshot)
    if ignoring is None or ratio is None or ratio == 1:
        return None  # below 1 a partition is not in every rack, so racks could matter
    return Found(
        f"{ignoring} ignores racks: {percent(ratio)} of the partitions have a replica in their reader's rack. Members are in "
        f"{named(sorted(in_racks))}",
        figures(
            strategy=snapshot.strategy,
            rack_match_percent=round(100 * ratio),
            member_count=in_racks.total(),
            racks=sorted(in_racks),
            replica_racks=sorted(of_replicas),
        ),
        advice=RACKS_BY_BROKERS if snapshot.evidence.is_consumer_protocol else USE_A_RACK_AWARE_ONE,
    )
