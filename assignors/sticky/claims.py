"""Who may keep what: the members' claims, with double claims settled by generation.

Source: ``AbstractStickyAssignor.allSubscriptionsEqual``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from assignors.model import Member, TopicPartition
from assignors.sticky.user_data import NO_GENERATION, read_cooperative_user_data, read_sticky_user_data


@dataclass(slots=True)
class MemberData:
    partitions: Collection[TopicPartition]
    generation: int | None


def sticky_member_data(member: Member) -> MemberData:
    if not member.user_data:
        return MemberData((), None)
    return MemberData(*read_sticky_user_data(member.user_data))


def cooperative_member_data(member: Member) -> MemberData:
    generation = field_generation(member)
    if generation is None and member.user_data is not None:
        generation = read_cooperative_user_data(member.user_data)
    return MemberData(member.owned, generation)


def field_generation(member: Member) -> int | None:
    generation = member.owned_generation
    return None if generation is None or generation < 0 else generation


@dataclass(slots=True)
class Claims:
    owned: list[list[TopicPartition]]
    contested: set[TopicPartition]
    highest_generation: int
    are_subscriptions_equal: bool


def settle_claims(members: list[Member], data: list[MemberData], topics: Collection[str]) -> Claims:
    owned: list[list[TopicPartition]] = [[] for _ in members]
    contested: set[TopicPartition] = set()
    highest = NO_GENERATION
    claimant: dict[TopicPartition, int] = {}
    first: set[str] = set()
    equal = True
    for index, (member, mine) in enumerate(zip(members, data, strict=True)):
        if not first:
            first = set(member.topics)
        elif equal and not (len(member.topics) == len(first) and first.issuperset(member.topics)):
            equal = False
        generation = NO_GENERATION if mine.generation is None else mine.generation
        highest = max(highest, generation)
        kept = owned[index]
        for partition in mine.partitions:
            if partition[0] not in topics:
                continue
            other = claimant.get(partition)
            if other is None:
                kept.append(partition)
                claimant[partition] = index
                continue
            theirs = field_generation(members[other])
            theirs = NO_GENERATION if theirs is None else theirs
            if generation < theirs:
                continue
            if generation == theirs:
                contested.add(partition)
            else:
                kept.append(partition)
            if partition in owned[other]:
                owned[other].remove(partition)
            claimant[partition] = index
    return Claims(owned, contested, highest, equal)
