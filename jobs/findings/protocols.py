"""Rules on how a group rebalances: assignors, rebalance protocols, and the claims of members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assignors.algorithms.sticky.user_data import NO_GENERATION, read_cooperative_user_data, read_sticky_user_data
from assignors.audit.movements import REVOKED
from assignors.generation.generation import COOPERATIVE, STREAMS, Generation
from assignors.generation.subscriptions import existing_partition_counts
from assignors.model import Member, TopicPartition
from assignors.registry import BUILT_IN
from jobs.findings.facts import SnapshotFacts
from jobs.findings.rule import Found, counted, figures, listed, part_of, rule
from schemas.vocabulary import Rule, Severity

GENERATION_SIZE = 4
"""Bytes of user data that are a generation alone, as those of Java's cooperative-sticky."""


def _is_classic(snapshot: SnapshotFacts) -> bool:
    return bool(snapshot.problem.members) and not snapshot.evidence.is_consumer_protocol and snapshot.has_subscriptions_recorded


def _stayed(snapshot: SnapshotFacts) -> Iterator[Member]:
    """Yield the members that were in the generation before and joined again."""
    previous = snapshot.previous
    if previous is None or previous.generation == snapshot.observed.generation:
        return
    before = {member.member_id for member in previous.problem.members}
    yield from (member for member in snapshot.problem.members if member.member_id in before)


@rule(
    Rule.PROTOCOLS_MIXED,
    Severity.WARNING,
    "Members give up everything in a cooperative group",
    when=(
        "The assignor is cooperative-sticky. A member that stayed claims none of its partitions of the generation before, and names that "
        "generation. A member whose user data shows that it has not received these partitions does not count. Or it offers an eager "
        "assignor while other members offer none."
    ),
    advice=(
        "A consumer that lists an eager assignor and cooperative-sticky stops for every rebalance. Finish the upgrade: restart the "
        "members one by one with only cooperative-sticky in partition.assignment.strategy."
    ),
)
def mixed_protocols(snapshot: SnapshotFacts) -> Found | None:
    """Return the members that behave eagerly, or will do so, in a group whose assignor is cooperative.

    A member that claims nothing may never have received its assignment. So it counts only if it names the generation before as its own
    (subscription version 2, KIP-792), and its user data does not name an older one. Kafka Streams has one assignor and no list: it is
    eager if upgrade.from says so.
    """
    if not _is_classic(snapshot) or snapshot.strategy not in COOPERATIVE or snapshot.strategy == STREAMS:
        return None
    eager: set[str] = set()
    cooperative: set[str] = set()
    for member_id, names in snapshot.offered.items():
        (cooperative if COOPERATIVE.issuperset(names) else eager).add(member_id)
    if not cooperative:
        eager.clear()  # all of one kind are nothing mixed; whether they stop is seen in their claims
    if snapshot.previous is not None and snapshot.previous.strategy in COOPERATIVE:
        for member in _stayed(snapshot):
            keeps = any(topic in member.topics for topic, _ in snapshot.previous.assignment.get(member.member_id, ()))
            if keeps and member.owned_generation == snapshot.previous.generation and _may_have_received(member, snapshot.previous):
                (cooperative if member.owned else eager).add(member.member_id)
    if not eager:
        return None
    names = [member.member_id for member in snapshot.problem.members if member.member_id in eager]
    others = len(cooperative - eager)
    giving = part_of(len(names), len(snapshot.problem.members), "member", "gives up", "give up")
    return Found(
        f"The group's assignor is {snapshot.strategy}, yet {giving} all partitions before a rebalance: {listed(names)}",
        figures(eager_member_count=len(names), cooperative_member_count=others, members=names),
    )


@rule(
    Rule.ASSIGNOR_NOT_SHARED,
    Severity.INFO,
    "An assignor that only some members offer",
    when="The assignors that each member offers are known, and one of them is not offered by all members. The group cannot select it.",
    advice="Set partition.assignment.strategy to the same list in all members. The lists differ for a while when they are being changed.",
)
def unshared_assignors(snapshot: SnapshotFacts) -> Found | None:
    """Return the assignors that some members offer and others do not."""
    members = snapshot.problem.members
    if not _is_classic(snapshot) or any(member.member_id not in snapshot.offered for member in members):
        return None
    offers = [set(snapshot.offered[member.member_id]) for member in members]
    unusable = sorted(offers[0].union(*offers) - offers[0].intersection(*offers))
    if not unusable:
        return None
    offered_by = [f"{name} by {sum(1 for offer in offers if name in offer)} of {counted(len(members), 'member')}" for name in unusable]
    return Found(
        f"The group cannot use assignors that not all members offer: {listed(offered_by)}",
        figures(strategy=snapshot.strategy, strategies=unusable, member_count=len(members)),
    )


@rule(
    Rule.UPGRADE_BLOCKED,
    Severity.INFO,
    "The group cannot move to the consumer protocol as it is",
    when="A classic group uses an assignor without a counterpart in brokers: one that is not Kafka's, or that of Kafka Streams.",
    advice=(
        "Brokers do not upgrade a running group whose assignments have bytes of such an assignor. After an upgrade only the brokers' "
        "assignors exist (KIP-848). Switch to one of Kafka's assignors first, or stop the group and start it with group.protocol=consumer. "
        "Kafka Streams has its own protocol (KIP-1071)."
    ),
)
def blocked_upgrade(snapshot: SnapshotFacts) -> Found | None:
    """Return the assignor because of which a group cannot move to the consumer protocol."""
    if not _is_classic(snapshot) or not snapshot.strategy or snapshot.strategy in BUILT_IN:
        return None
    what = "assigns the tasks of Kafka Streams" if snapshot.strategy == STREAMS else "is not one of Kafka's"
    return Found(
        f"The group's assignor {snapshot.strategy} {what}: it has no counterpart in the consumer protocol",
        figures(strategy=snapshot.strategy),
    )


def _lost_claims(snapshot: SnapshotFacts, previous: Generation) -> Iterator[tuple[str, set[TopicPartition]]]:
    """Yield the members that stayed and do not claim what they had, with the partitions that they do not claim.

    A member that the generation before gave its first partitions may never have received them. So partitions count if the member names
    that generation, and its user data does not name an older one, or if it claimed them before. Those of a member that names no
    generation now also count if it named one then: it was in the group, and has reset its generation since. A member that names the
    generation before and claims nothing is eager (``protocols_mixed``).
    """
    counts = existing_partition_counts(snapshot.problem)
    earlier = {member.member_id: member for member in previous.problem.members}
    for member in _stayed(snapshot):
        before, named = earlier[member.member_id], _named(member)
        given = previous.assignment.get(member.member_id, ())
        had = {(topic, number) for topic, number in given if topic in member.topics and number < counts.get(topic, 0)}
        missing = had.difference(member.owned)
        if named is None:
            certain = missing if _named(before) is not None and not member.owned else missing.intersection(before.owned)
        else:
            is_known = named == previous.generation and _may_have_received(member, previous)
            certain = missing if is_known and member.owned else set()
        if certain:
            yield member.member_id, certain


def _may_have_received(member: Member, previous: Generation) -> bool:
    """Return whether a member's user data does not exclude that it received its assignment of the generation before.

    A client names a generation from the answer to its JoinGroup request on. Java (KAFKA-12984) and librdkafka put the generation of the
    last assignment that they received into the user data of cooperative-sticky. Until the first one Java writes -1, and librdkafka no
    bytes at all.
    """
    if member.user_data == b"":
        return False
    data = member.user_data or b""
    if len(data) == GENERATION_SIZE:
        return read_cooperative_user_data(data) >= previous.generation
    received = read_sticky_user_data(data)[1]
    return received is None or received == NO_GENERATION or received >= previous.generation


def _named(member: Member) -> int | None:
    """Return the generation of a member's claims; None if it names none."""
    return None if member.owned_generation is None or member.owned_generation < 0 else member.owned_generation


@rule(
    Rule.CLAIMS_LOST,
    Severity.WARNING,
    "Members that stayed have lost partitions",
    when=(
        "The assignor is cooperative-sticky. A member that was in the generation before does not claim partitions that it had, although it "
        "still subscribes to their topics. It claims only a part of them, or it claims nothing and names no generation. A member that may "
        "not have received its partitions yet does not count."
    ),
    advice=(
        "The consumer dropped these partitions by itself (onPartitionsLost), with what it had in work. Others may get them without a "
        "hand-over. Read its log for an expired session, a changed coordinator or a failed join just before. Compare session.timeout.ms "
        "and max.poll.interval.ms with the pauses there."
    ),
)
def lost_claims(snapshot: SnapshotFacts) -> Found | None:
    """Return the members of a cooperative group that stayed and no longer have what they had."""
    previous = snapshot.previous
    if previous is None or previous.generation + 1 != snapshot.observed.generation or not _is_classic(snapshot):
        return None  # in a generation that is missing, partitions may have been taken away
    if not {snapshot.strategy, previous.strategy} <= COOPERATIVE - {STREAMS}:
        return None
    lost = dict(_lost_claims(snapshot, previous))
    if not lost:
        return None
    partitions = sorted(f"{topic}-{number}" for missing in lost.values() for topic, number in missing)
    members = part_of(len(lost), len(snapshot.problem.members), "member", "does", "do")
    return Found(
        f"{members} not claim {counted(len(partitions), 'partition')} of generation {previous.generation}: {listed(partitions)}",
        figures(
            member_count=len(lost),
            partition_count=len(partitions),
            partitions=partitions,
            members=list(lost),
            previous_generation=previous.generation,
        ),
    )


def _claimed_at(member: Member) -> set[int]:
    """Return the generations that a member names with its claims, in the subscription and in user data; -1 for none.

    Leaders since 3.4 read the subscription, else user data; older ones user data alone.
    """
    data = member.user_data or b""
    named = [_named(member), read_cooperative_user_data(data) if len(data) == GENERATION_SIZE else None]
    return {one for one in named if one is not None} or {NO_GENERATION}


def _claims_in_force(snapshot: SnapshotFacts) -> dict[TopicPartition, str]:
    """Return each claimed partition with the member that claims it; without claims of an older generation and contested ones.

    Kafka's assignor withholds only what is claimed in the newest generation that a member names.
    """
    named = [_claimed_at(member) for member in snapshot.problem.members]
    newest = max(set[int]().union(*named), default=NO_GENERATION)
    claims: dict[TopicPartition, str] = {}
    contested: set[TopicPartition] = set()
    for member, generations in zip(snapshot.problem.members, named, strict=True):
        if generations != {newest}:
            continue
        for partition in member.owned:
            if claims.setdefault(partition, member.member_id) != member.member_id:
                contested.add(partition)
    return {partition: name for partition, name in claims.items() if partition not in contested}


@rule(
    Rule.MOVED_WITHOUT_WITHHOLDING,
    Severity.WARNING,
    "Partitions are taken from members that still have them",
    when=(
        "The assignor is cooperative-sticky. A member claims a partition and subscribes to its topic, and the generation gives it to "
        "another member at once, which does not claim it. Kafka's assignor withholds such a partition until the next generation. Claims of "
        "an older generation do not count, nor do partitions that two members claim in one generation."
    ),
    advice=(
        "For a moment two members read these partitions. Records are processed twice, and the commits of the old owner fail. Check the "
        "leader's client library: Kafka's cooperative protocol (KIP-429) moves a partition only after its owner has given it up."
    ),
)
def unwithheld_movements(snapshot: SnapshotFacts) -> Found | None:
    """Return the partitions that a cooperative assignor gave to another member while their owner still claims them."""
    if not _is_classic(snapshot) or snapshot.strategy not in COOPERATIVE - {STREAMS}:
        return None
    handed_on = [row for row in snapshot.movements if row.kind == REVOKED]
    if not handed_on:
        return None
    claims = _claims_in_force(snapshot)
    members = {member.member_id: member for member in snapshot.problem.members}
    taken = []
    for row in handed_on:
        partition = (row.topic, row.partition)
        claimant = claims.get(partition)
        if claimant is None or row.topic not in members[claimant].topics:
            continue
        if row.member_id in members and partition not in members[row.member_id].owned:
            taken.append((f"{row.topic}-{row.partition}", claimant))
    if not taken:
        return None
    by = "" if snapshot.leader_client is None else f" by {snapshot.leader_client}"
    owners = list(dict.fromkeys(owner for _, owner in taken))
    return Found(
        f"The assignment{by} gives {counted(len(taken), 'partition')} of {counted(len(owners), 'member')} to others at once, without "
        f"withholding: {listed([name for name, _ in taken])}",
        figures(
            partition_count=len(taken),
            partitions=[name for name, _ in taken],
            members=owners,
            flavour=snapshot.leader_client or "",
        ),
    )


@rule(
    Rule.STALE_CLAIMS,
    Severity.INFO,
    "Claims of an older generation",
    when="A member that was in the generation before claims partitions of a still older generation.",
    advice=(
        "The member did not finish the last rebalance, and sticky assignors prefer the claims of others. Rebalances follow each other too "
        "fast, or the member joins slowly. Compare max.poll.interval.ms with the time that it needs for a batch."
    ),
)
def stale_claims(snapshot: SnapshotFacts) -> Found | None:
    """Return the members whose claims are older than the generation before."""
    if snapshot.previous is None or not _is_classic(snapshot):
        return None
    stale, previous = [], snapshot.previous.generation
    for member in _stayed(snapshot):
        claims: Sequence[TopicPartition] = member.owned
        claimed_at = member.owned_generation
        if snapshot.strategy == "sticky" and member.user_data:
            claims, claimed_at, _ = read_sticky_user_data(member.user_data)
        if claims and claimed_at is not None and 0 <= claimed_at < previous:
            stale.append((claimed_at, member.member_id))
    if not stale:
        return None
    oldest = min(stale)[0]
    claiming = part_of(len(stale), len(snapshot.problem.members), "member", "claims", "claim")
    return Found(
        f"{claiming} partitions of generations before {previous}; the oldest is {oldest}",
        figures(member_count=len(stale), oldest_generation=oldest, previous_generation=previous, members=[name for _, name in stale]),
    )
