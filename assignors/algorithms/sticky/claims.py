"""The claims that members may keep, after double claims are resolved.

Source: ``memberData`` of both sticky assignors and ``AbstractStickyAssignor.allSubscriptionsEqual``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from assignors.algorithms.releases import ClientBehaviour
from assignors.algorithms.sticky.partitions import mark
from assignors.algorithms.sticky.user_data import (
    NO_GENERATION,
    MalformedUserDataError,
    read_cooperative_user_data,
    read_previous_assignment,
    read_sticky_user_data,
)
from assignors.java.cache import BoundedCache
from assignors.model import KafkaAssignorError, Member, TopicPartition

MemberData = tuple[Sequence[TopicPartition], int | None]
"""The claims of a member, and their generation; None if it has none."""

_user_data: BoundedCache[bytes, MemberData] = BoundedCache(1 << 18)  # claims; some 30 MB


@dataclass(frozen=True, slots=True)
class MemberDataReader:
    """The way a sticky assignor reads a subscription.

    Attributes:
        read: (member, behaviour of the release) -> the member's data.
        consumed: user data -> number of bytes that one read consumes. If Kafka reads twice, the second read starts there.
    """

    read: Callable[[Member, ClientBehaviour], MemberData]
    consumed: Callable[[bytes], int]


def _read_sticky(member: Member, behaviour: ClientBehaviour) -> MemberData:
    """Return the data that ``StickyAssignor`` reads: only user data, not the protocol's own claims."""
    if not member.user_data:
        return (), None
    if behaviour.reads_generation:
        # A member sends the same bytes until a partition moves. With known bytes a group of a thousand takes a quarter of the time.
        known = _user_data.find(member.user_data)
        if known is None:
            claims, generation, _ = read_sticky_user_data(member.user_data)
            known = _user_data.keep(member.user_data, (tuple(claims), generation), len(claims) + 1)
        return known
    try:
        return read_previous_assignment(member.user_data)[0], None
    except MalformedUserDataError as fault:
        raise KafkaAssignorError("SchemaException", f"the user data of {member.member_id} is {fault}") from fault


def _read_cooperative(member: Member, behaviour: ClientBehaviour) -> MemberData:
    """Return the data that ``CooperativeStickyAssignor`` reads: claims from the protocol, the generation from there or from user data."""
    if behaviour.has_generation_field and (generation := generation_field(member)) != NO_GENERATION:
        return member.owned, generation
    if behaviour.invalidates_double_claims and member.user_data is not None:
        return member.owned, read_cooperative_user_data(member.user_data)
    return member.owned, None


STICKY_READER = MemberDataReader(_read_sticky, lambda data: read_sticky_user_data(data)[2])
COOPERATIVE_READER = MemberDataReader(_read_cooperative, lambda _: 4)  # shorter data has no generation in either read


def read_members(
    members: Sequence[Member], reader: MemberDataReader, behaviour: ClientBehaviour, *, already_read: int = 0
) -> list[MemberData]:
    """Return the data of every member; the first ``already_read`` members are read for the second time.

    A subscription's user data is a buffer with a position. Releases 2.5.1 to 2.8 read it while they compare subscriptions. The
    general algorithm reads it again without a rewind, so the members compared until then lose their claims.
    """
    if already_read:
        second = [
            member if member.user_data is None else replace(member, user_data=member.user_data[reader.consumed(member.user_data) :])
            for member in members[:already_read]
        ]
        members = [*second, *members[already_read:]]
    read = reader.read
    return [read(member, behaviour) for member in members]


def generation_field(member: Member) -> int:
    """Return the generation in the subscription itself; -1 if it is absent."""
    generation = member.owned_generation
    return NO_GENERATION if generation is None or generation < 0 else generation


def stated(generation: int | None) -> int:
    """Return the generation as comparisons use it."""
    return NO_GENERATION if generation is None else generation


@dataclass(slots=True)
class Claims:
    """The valid claims.

    Attributes:
        owned: for each member the claims it keeps, in its own order.
        contested: partitions claimed twice in one generation; nobody keeps these.
        marks: the claimed partitions as ``mark`` gives them, if they are known to exist and to be claimed once.
    """

    owned: Sequence[Sequence[TopicPartition]]
    contested: set[TopicPartition]
    marks: dict[str, bytearray] | None = None


def first_differing_member(members: Sequence[Member]) -> int | None:
    """Return the number of the first member whose subscription Kafka treats as different; None if it treats all as equal.

    Members with an empty list before the first non-empty one count as equal, and a list with a duplicate does not.

    >>> first_differing_member([Member("a"), Member("b", ("t",))]), first_differing_member([Member("b", ("t",)), Member("a")])
    (None, 1)
    """
    first: set[str] = set()
    same: Collection[str] | None = None  # the list of the first member, if it has no duplicates: most groups share one list
    for number, member in enumerate(members):
        topics = member.topics
        if not first:
            first = set(topics)
            same = topics if len(topics) == len(first) else None
        elif topics is not same and topics != same and not (len(topics) == len(first) and first.issuperset(topics)):
            return number
    return None


def resolve_claims(
    members: Sequence[Member], data: Sequence[MemberData], partition_counts: Mapping[str, int], behaviour: ClientBehaviour
) -> Claims:
    """Return the valid claims, members in map order.

    A claim of a topic that no longer exists is dropped; a partition number that no longer exists is not detected. Of two claimants
    the one with the higher generation keeps the partition; with equal generations neither does. Before 3.4.1 only the highest
    generation of the group keeps claims.

    Complexity: linear in the claims.
    """
    if not any([claims for claims, _ in data]):
        return Claims([()] * len(data), set())
    if not behaviour.keeps_old_generations:
        return _keep_highest_generation(data, partition_counts, behaviour)
    owned = [claims for claims, _ in data]
    marks = mark(owned, partition_counts)
    if marks is not None:
        return Claims(owned, set(), marks)
    owned = [[partition for partition in claims if partition[0] in partition_counts] for claims in owned]
    return _resolve_one_by_one(members, owned, [stated(generation) for _, generation in data], behaviour)


def _resolve_one_by_one(
    members: Sequence[Member],
    claimed: Sequence[Sequence[TopicPartition]],
    generations: Sequence[int],
    behaviour: ClientBehaviour,
) -> Claims:
    # Dictionaries for their order and fast removal; a member cannot keep a partition twice.
    owned: list[dict[TopicPartition, None]] = [{} for _ in members]
    contested: set[TopicPartition] = set()
    claimants: dict[TopicPartition, int] = {}
    for claimant, (claims, generation) in enumerate(zip(claimed, generations, strict=True)):
        for partition in claims:
            other = claimants.get(partition)
            # The other member's generation is read from the protocol field, even if this member's comes from user data.
            if other is not None and generation <= (others := generation_field(members[other])):
                if generation == others:
                    contested.add(partition)
                    owned[other].pop(partition, None)
                    claimants[partition] = claimant
                elif not behaviour.ignores_losing_claimants:
                    claimants[partition] = claimant
                continue
            # Kafka adds the claim before it removes the other one, which may be of the same member. So a claim that was rejected before is
            # lost completely.
            is_kept = other != claimant or partition in owned[claimant]
            if other is not None:
                owned[other].pop(partition, None)
            if is_kept:
                owned[claimant][partition] = None
            claimants[partition] = claimant
    return Claims(list(map(list, owned)), contested)


def _keep_highest_generation(data: Sequence[MemberData], topics: Collection[str], behaviour: ClientBehaviour) -> Claims:
    """Return the claims as 2.5.1 to 3.4.0 resolve them: a higher generation removes all claims seen before."""
    owned: list[list[TopicPartition]] = []
    contested: set[TopicPartition] = set()
    claimants: dict[TopicPartition, int] = {}
    seen = NO_GENERATION
    for claimant, (claims, generation) in enumerate(data):
        owned.append([])
        if seen > stated(generation):
            continue
        if generation is not None and generation > seen:
            seen = generation
            contested.clear()
            claimants.clear()
            for dropped in owned:
                dropped.clear()
        for partition in claims:
            if partition[0] not in topics:
                continue
            if behaviour.invalidates_double_claims and partition in claimants:
                contested.add(partition)
                if partition in owned[claimants[partition]]:
                    owned[claimants[partition]].remove(partition)
            else:
                owned[claimant].append(partition)
                claimants[partition] = claimant
    return Claims(owned, contested)
