"""The groups of a made-up fleet: how large they are, what they read, and how they rebalance.

Sizes follow log-normal distributions by their quantiles, so that the means hold for a hundred groups as well as for a hundred thousand.
A family of groups of one size reads the same topics. It has two groups, and more where the cluster would have over 200,000 partitions
otherwise. No group is a copy of another one: each has members, rebalances and assignments of its own.
"""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from statistics import NormalDist

from assignors import Assignment, GroupProblem, Member, NoResultError, Topic, TopicPartition, assign
from assignors.algorithms.sticky.user_data import write_sticky_user_data
from assignors.java.ordering import coordinator_partition

OFFSETS_PARTITION_COUNT = 50
EPOCH_MS = 1_795_132_800_000  # 2026-11-20T00:00:00Z
CLIENT_HOST = "/10.0.3.17"
MEAN_MEMBERS, MOST_MEMBERS, MEMBER_SIGMA = 8, 200, 1.1
MEAN_PARTITIONS, MOST_PARTITIONS, PARTITION_SIGMA = 40, 20_000, 1.65
CORRELATION = 0.8
"""Of the logarithms of members and partitions."""
MOST_CLUSTER_PARTITIONS = 200_000
STRATEGIES = {"range": 40, "cooperative-sticky": 30, "sticky": 20, "roundrobin": 10}
"""Strategy -> its share of the groups of the classic protocol, in percent."""
SERVER_STRATEGIES = {"uniform": 80, "server-range": 20}
"""Assignor of the brokers -> its share of the groups of the consumer protocol, in percent."""
DIFFERING_SHARE, STATIC_SHARE, FOREIGN_SHARE = 0.05, 0.2, 0.03
SHORTEST_NAME, LONGEST_NAME = 20, 60
RESTART_STEPS = 3
"""How many rebalances a rolling restart takes."""

_NORMAL = NormalDist()
_WORDS = (
    "payments orders ledger billing search catalog pricing shipping returns fraud audit events clicks sessions profile metrics inventory "
    "checkout recommend warehouse notify export sync index enrich archive"
).split()


@dataclass(frozen=True, slots=True)
class FleetTopic:
    """A topic and how fast it grows.

    Attributes:
        records_per_s: records that each partition gets in a second.
        first_offset: end offset of partition 0 at the epoch of the fleet.
    """

    name: str
    partition_count: int
    records_per_s: int
    first_offset: int

    @property
    def topic_id(self) -> str:
        """The id of the topic in Kafka's text form, of 22 characters; it follows from the name."""
        digest = hashlib.md5(self.name.encode(), usedforsecurity=False).digest()
        return base64.urlsafe_b64encode(digest)[:22].decode()

    def end_offset(self, partition: int, elapsed_ms: int) -> int:
        """Return the end offset of a partition some milliseconds after the epoch of the fleet."""
        return self.first_offset + 7 * partition + self.records_per_s * elapsed_ms // 1000


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What is fixed about a group before its first member joins.

    Attributes:
        seed: of everything that happens to the group.
        member_count: the usual number of members; rebalances lead away from it and back.
        is_static: members have a ``group.instance.id``.
        has_differing_subscriptions: members but the first subscribe to some of the topics only.
        has_foreign_leader: the leader's assignor is not Kafka's, and its results differ.
        has_consumer_protocol: the brokers assign (KIP-848), and the strategy is theirs; else the leader does.
    """

    group_id: str
    seed: int
    strategy: str
    member_count: int
    topics: tuple[FleetTopic, ...]
    is_static: bool
    has_differing_subscriptions: bool
    has_foreign_leader: bool
    has_consumer_protocol: bool = False

    @property
    def partition_count(self) -> int:
        """How many partitions the topics of the group have."""
        return sum(topic.partition_count for topic in self.topics)

    @property
    def offsets_partition(self) -> int:
        """The partition of ``__consumer_offsets`` that has the group's records."""
        return coordinator_partition(self.group_id, OFFSETS_PARTITION_COUNT)


def log_normal_counts(count: int, mean: float, sigma: float, most: int) -> list[int]:
    """Return whole numbers from 1 to ``most`` in ascending order: the quantiles of a log-normal distribution with this mean."""
    quantiles = [_NORMAL.inv_cdf((number + 0.5) / count) * sigma for number in range(count)]
    low, high = 0.0, float(most)
    weights = [math.exp(quantile) for quantile in quantiles]
    for _ in range(60):  # halving an interval: the mean of the rounded and bounded numbers grows with the scale
        scale = (low + high) / 2
        counts = [min(most, max(1, round(scale * weight))) for weight in weights]
        low, high = (scale, high) if sum(counts) < mean * count else (low, scale)
    return counts


def plan_fleet(group_count: int, seed: int, consumer_share: int = 0) -> list[GroupPlan]:
    """Return the plans of a fleet, those with the fewest partitions first; equal for equal arguments.

    Args:
        consumer_share: percent of the groups that are of the consumer protocol. The other groups are those of the fleet without any.
    """
    random = Random(f"fleet {seed}")
    readers = max(2, -(-group_count * MEAN_PARTITIONS // MOST_CLUSTER_PARTITIONS))
    family_count = -(-group_count // readers)
    partition_counts = log_normal_counts(family_count, MEAN_PARTITIONS, PARTITION_SIGMA, MOST_PARTITIONS)
    families = list(_families(random, partition_counts))
    subscriptions = [families[number * family_count // group_count] for number in range(group_count)]
    members = _member_counts(random, group_count)
    several = [number for number in range(group_count) if members[number] > 1 and len(subscriptions[number]) > 1]
    differing = set(random.sample(several, min(len(several), round(DIFFERING_SHARE * group_count))))
    plans = [
        GroupPlan(
            _name(random, number),
            random.getrandbits(64),
            random.choices(list(STRATEGIES), list(STRATEGIES.values()))[0],
            members[number],
            subscriptions[number],
            random.random() < STATIC_SHARE,
            number in differing,
            random.random() < FOREIGN_SHARE,
        )
        for number in range(group_count)
    ]
    _give_consumer_protocol(plans, round(group_count * consumer_share / 100), Random(f"consumer protocol {seed}"))
    return plans


def every_nth(plans: list[GroupPlan], count: int) -> set[str]:
    """Return the ids of so many groups, evenly spread over the sizes, so that their means are those of the fleet."""
    return {plans[(2 * number + 1) * len(plans) // (2 * count)].group_id for number in range(count)}


def _give_consumer_protocol(plans: list[GroupPlan], count: int, random: Random) -> None:
    """Replace so many plans by those of groups of the consumer protocol, one in each of as many ranges of sizes.

    The one is drawn. At equal distances all or none of the groups that ``every_nth`` returns would be among them.
    """
    for place in range(count):
        number = random.randrange(place * len(plans) // count, (place + 1) * len(plans) // count)
        strategy = random.choices(list(SERVER_STRATEGIES), list(SERVER_STRATEGIES.values()))[0]
        plans[number] = replace(plans[number], strategy=strategy, has_foreign_leader=False, has_consumer_protocol=True)


def _member_counts(random: Random, group_count: int) -> list[int]:
    """Return the usual number of members of each group, where groups are in order of their partitions."""
    rest = (1 - CORRELATION**2) ** 0.5
    scores = [CORRELATION * _NORMAL.inv_cdf((number + 0.5) / group_count) + rest * random.gauss(0, 1) for number in range(group_count)]
    ranked = sorted(range(group_count), key=scores.__getitem__)
    counts = [0] * group_count
    for number, count in zip(ranked, log_normal_counts(group_count, MEAN_MEMBERS, MEMBER_SIGMA, MOST_MEMBERS), strict=True):
        counts[number] = count
    return counts


def _families(random: Random, partition_counts: list[int]) -> Iterator[tuple[FleetTopic, ...]]:
    """Yield the topics of each family, which have so many partitions together."""
    number = 0
    for total in partition_counts:
        cuts = sorted(random.sample(range(1, total), min(total, round(total**0.4)) - 1))
        sizes = [end - start for start, end in zip([0, *cuts], [*cuts, total], strict=True)]
        topics = []
        for size in sizes:
            topics.append(FleetTopic(_name(random, number), size, random.randint(1, 200), random.randrange(1_000_000, 100_000_000)))
            number += 1
        yield tuple(topics)


def _name(random: Random, number: int) -> str:
    """Return a name of 20 to 60 characters that ends with the number, so that it is the only one of its kind."""
    length = random.randint(SHORTEST_NAME, LONGEST_NAME) - 8
    text = random.choice(_WORDS)
    while len(text) < length:
        text += random.choice(".-") + random.choice(_WORDS)
    return f"{text[: length - 1]}x-{number:07d}"


Record = tuple[int, bytes, bytes | None]
"""Milliseconds since the epoch of the fleet, key, value; without a value it is a tombstone."""


@dataclass(slots=True)
class Group:
    """A group with what its members hold now.

    Attributes:
        generation: 0 before the first rebalance.
        members: as they joined the last rebalance, with their claims; the first one is the leader.
        assignment: member id -> partitions, of this generation.
    """

    plan: GroupPlan
    generation: int = 0
    members: list[Member] = field(default_factory=list)
    assignment: Assignment = field(default_factory=dict)
    random: Random = field(init=False)
    lag_ms: int = field(init=False)
    _topics: dict[str, Topic] = field(init=False)
    _restarting: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.plan.seed)
        self.lag_ms = self.random.randrange(60_000)
        self._topics = {topic.name: Topic(topic.partition_count, topic_id=topic.topic_id) for topic in self.plan.topics}

    @property
    def owned(self) -> list[TopicPartition]:
        """All partitions that the members hold."""
        return [partition for partitions in self.assignment.values() for partition in partitions]

    @property
    def is_in_burst(self) -> bool:
        """Whether the next rebalance follows within seconds: a cooperative one is not complete, or members are restarting."""
        return bool(self._restarting) or self._is_incomplete()

    def rebalance(self) -> None:
        """Go to the next generation."""
        if self.generation == 0:
            self.members = [self._new_member(is_first=number == 0) for number in range(self.plan.member_count)]
        elif not self._is_incomplete():
            self._change_members()
        self.members = [self._rejoined(member) for member in self.members]
        self.assignment = self._assign(GroupProblem(self._topics, tuple(self.members)))
        self.generation += 1

    def client_of(self, member: Member) -> str:
        """Return the client id of a member, which begins the member id."""
        return member.member_id[:-37]

    def _member_id(self, client_id: str, digits: str) -> str:
        """Return the id of a new member, with 32 random hexadecimal digits."""
        return f"{client_id}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    @property
    def _events(self) -> tuple[str, ...]:
        """What may happen to a group with its usual number of members."""
        return ("join", "leave", "restart", "rejoin")

    def _is_incomplete(self) -> bool:
        if self.plan.strategy != "cooperative-sticky" or not self.generation:
            return False
        return sum(map(len, self.assignment.values())) < self.plan.partition_count

    def _new_member(self, *, is_first: bool = False, successor_of: Member | None = None) -> Member:
        """Return a member that nobody knows yet, or one that comes back under another id."""
        random = self.random
        digits = f"{random.getrandbits(128):032x}"
        if successor_of is not None:
            member_id = self._member_id(self.client_of(successor_of), digits)
            return Member(member_id, successor_of.topics, successor_of.group_instance_id)
        client_id = f"{random.choice(_WORDS)}-{random.randrange(10_000):04d}"
        instance_id = f"{client_id}-{digits[:6]}" if self.plan.is_static else None
        names = sorted(self._topics)
        if self.plan.has_differing_subscriptions and not is_first:
            names = sorted(random.sample(names, random.randint(1, len(names) - 1)))
        return Member(self._member_id(client_id, digits), tuple(names), instance_id)

    def _change_members(self) -> None:
        """Let some members join, leave or restart."""
        usual, size = self.plan.member_count, len(self.members)
        some = max(1, usual // 10)
        event = self.random.choice(self._events)
        if self._restarting:
            self._restart()
        elif size < usual:
            self.members += [self._new_member() for _ in range(usual - size)]
        elif size > usual:
            del self.members[usual:]
        elif event == "restart" or (usual == 1 and "restart" in self._events):
            ids = [member.member_id for member in self.members]
            step = -(-len(ids) // RESTART_STEPS)
            self._restarting = [ids[start : start + step] for start in range(0, len(ids), step)]
            self._restart()
        elif event == "join":
            self.members += [self._new_member() for _ in range(some)]
        elif event == "leave":
            self._leave(min(some, size - 1))

    def _leave(self, count: int) -> None:
        # One that subscribes to every topic stays, so that each partition has an owner.
        broadest = max(self.members, key=lambda member: len(member.topics))
        others = [member.member_id for member in self.members if member is not broadest]
        ids = set(self.random.sample(others, count))
        self.members = [member for member in self.members if member.member_id not in ids]

    def _restart(self) -> None:
        """Let the next members of a rolling restart come back under other ids, after those that stayed."""
        ids = set(self._restarting.pop(0))
        fresh = [self._new_member(successor_of=member) for member in self.members if member.member_id in ids]
        self.members = [member for member in self.members if member.member_id not in ids] + fresh

    def _rejoined(self, member: Member) -> Member:
        """Return the member with the claims that its client sends with the next JoinGroup request."""
        owned = self.assignment.get(member.member_id)
        if self.plan.strategy == "cooperative-sticky":
            generation = self.generation if owned is not None else None
            data = struct.pack(">i", -1 if generation is None else generation)
            return replace(member, owned=tuple(sorted(owned or ())), owned_generation=generation, user_data=data)
        if owned is None:
            return member
        data = write_sticky_user_data(owned, self.generation) if self.plan.strategy == "sticky" else None
        return replace(member, owned_generation=self.generation, user_data=data)

    def _assign(self, problem: GroupProblem) -> Assignment:
        """Return the leader's assignment: Kafka's own, unless the leader is another library or Kafka's class never returns."""
        try:
            assignment = assign(self.plan.strategy, problem)
        except NoResultError:
            return assign("roundrobin", problem)
        if self.plan.has_foreign_leader:
            _exchange(problem, assignment)
        return assignment


def _exchange(problem: GroupProblem, assignment: Assignment) -> None:
    """Exchange the first partitions of the first two members that have some and may have each other's."""
    subscribed = {member.member_id: member.topics for member in problem.members}
    owners = [owner for owner, partitions in assignment.items() if partitions][:2]
    if len(owners) < 2:
        return
    first, second = owners
    (one, *others), (two, *rest) = assignment[first], assignment[second]
    if one[0] in subscribed[second] and two[0] in subscribed[first]:
        assignment[first], assignment[second] = (two, *others), (one, *rest)
