"""Who may keep what: the members' claims, with double claims settled.

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
"""What a member says it held, and in which generation; None when it does not say."""

_user_data: BoundedCache[bytes, MemberData] = BoundedCache(1 << 18)  # claims; some 30 MB


@dataclass(frozen=True, slots=True)
class MemberDataReader:
    """How a sticky assignor reads a subscription.

    Attributes:
        read: member, release's behaviour -> its data.
        consumed: user data -> how many bytes reading consumes; where Kafka reads twice, the second time starts there.
    """

    read: Callable[[Member, ClientBehaviour], MemberData]
    consumed: Callable[[bytes], int]


def _read_sticky(member: Member, behaviour: ClientBehaviour) -> MemberData:
    """Return what ``StickyAssignor`` reads: user data alone counts, the protocol's own claims do not."""
    if not member.user_data:
        return (), None
    if behaviour.reads_generation:
        # A member sends the same bytes until something moves. Where they are known, a group of a thousand is solved in a quarter of the
        # time.
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
    """Return what ``CooperativeStickyAssignor`` reads: claims from the protocol, the generation from there or from user data."""
    if behaviour.has_generation_field and (generation := generation_field(member)) != NO_GENERATION:
        return member.owned, generation
    if behaviour.invalidates_double_claims and member.user_data is not None:
        return member.owned, read_cooperative_user_data(member.user_data)
    return member.owned, None


STICKY_READER = MemberDataReader(_read_sticky, lambda data: read_sticky_user_data(data)[2])
COOPERATIVE_READER = MemberDataReader(_read_cooperative, lambda _: 4)  # what is shorter is no generation either time


def read_members(
    members: Sequence[Member], reader: MemberDataReader, behaviour: ClientBehaviour, *, already_read: int = 0
) -> list[MemberData]:
    """Return every member's data, the first few read for the second time.

    A subscription's user data is a buffer with a position. Releases 2.5.1 to 2.8 read it while they compare subscriptions, and in
    the general algorithm once more without going back: the members compared by then have lost their claims.
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
    """Return the generation in the subscription itself, -1 when it is absent."""
    generation = member.owned_generation
    return NO_GENERATION if generation is None or generation < 0 else generation


def stated(generation: int | None) -> int:
    """Return the generation as it counts in comparisons."""
    return NO_GENERATION if generation is None else generation


@dataclass(slots=True)
class Claims:
    """The claims that stand.

    Attributes:
        owned: for each member the claims it keeps, in its own order.
        contested: partitions claimed twice in one generation; nobody keeps those.
        marks: the claimed partitions as ``mark`` gives them, where they are known to exist and to be claimed once.
    """

    owned: Sequence[Sequence[TopicPartition]]
    contested: set[TopicPartition]
    marks: dict[str, bytearray] | None = None


def first_differing_member(members: Sequence[Member]) -> int | None:
    """Return the number of the first member whose subscription Kafka takes for different, None when it takes all for equal.

    Members with an empty list that come before the first non-empty one pass for equal, and a list with a duplicate does not.

    >>> first_differing_member([Member("a"), Member("b", ("t",))]), first_differing_member([Member("b", ("t",)), Member("a")])
    (None, 1)
    """
    first: set[str] = set()
    same: Collection[str] | None = None  # the list of the first, when it has no duplicates: most groups share one
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
    """Return the claims that stand, members in map order.

    A claim of a topic that no longer exists is dropped, a partition number that no longer exists is not noticed. Of two claimants
    the higher generation keeps the partition, of equal ones neither. Before 3.4.1 only the highest generation of the group keeps
    anything.

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
    # Dictionaries for their order and their quick removal; a member cannot keep a partition twice.
    owned: list[dict[TopicPartition, None]] = [{} for _ in members]
    contested: set[TopicPartition] = set()
    claimants: dict[TopicPartition, int] = {}
    for claimant, (claims, generation) in enumerate(zip(claimed, generations, strict=True)):
        for partition in claims:
            other = claimants.get(partition)
            # The other's generation is read from the protocol field even where this member's comes from user data.
            if other is not None and generation <= (others := generation_field(members[other])):
                if generation == others:
                    contested.add(partition)
                    owned[other].pop(partition, None)
                    claimants[partition] = claimant
                elif not behaviour.ignores_losing_claimants:
                    claimants[partition] = claimant
                continue
            # Kafka adds the claim before it takes the other's away, which may be the same member's: nothing is left of a claim that was
            # lost before.
            is_kept = other != claimant or partition in owned[claimant]
            if other is not None:
                owned[other].pop(partition, None)
            if is_kept:
                owned[claimant][partition] = None
            claimants[partition] = claimant
    return Claims(list(map(list, owned)), contested)


def _keep_highest_generation(data: Sequence[MemberData], topics: Collection[str], behaviour: ClientBehaviour) -> Claims:
    """Return the claims as 2.5.1 to 3.4.0 settle them: a higher generation clears everything seen before."""
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
