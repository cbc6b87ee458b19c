"""Random groups of a seeded generator, as a leader may see them, from regular to damaged."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping
from dataclasses import replace
from random import Random

from assignors import GroupProblem, Member, Topic, TopicPartition
from assignors.algorithms.sticky.user_data import write_sticky_user_data

RACKS = ("r1", "r2", "r3")
TABLE_SIZES = (11, 12, 13, 24, 25, 48)
"""Near these numbers of keys a hash table grows, or a copy of it is larger."""

WORDS = tuple(
    "orders payments clicks users carts items stock prices taxes refunds returns shipments audit events mails logs views searches sessions "
    "coupons invoices ledgers quotes trades bids offers alerts metrics traces spans devices sensors rides trips drivers fares routes stops "
    "menus tables tickets seats flights bags hotels rooms guests reviews ratings photos".split()
)


def random_problem(random: Random) -> GroupProblem:
    """Return a new group of up to nine members, without claims."""
    has_racks = random.random() < 0.3
    names = random.sample(["orders", "clicks", "x-1", "pay", "topic-7", "audit", "users"], random.randint(1, 5))
    topics = {name: _random_topic(random, has_racks) for name in names}
    subscribable = [*names, *(["missing"] if random.random() < 0.1 else [])]
    common = tuple(random.sample(subscribable, random.randint(1, len(subscribable))))
    are_equal = random.random() < 0.5
    stem = random.choice(["consumer-", "app-", "m"])
    members = [
        Member(
            f"{stem}{number}",
            common if are_equal else _some(random, subscribable, least=0 if random.random() < 0.1 else 1),
            group_instance_id=f"i{random.randint(0, 99)}-{number}" if random.random() < 0.2 else None,
            rack=random.choice(RACKS) if has_racks and random.random() < 0.8 else None,
        )
        for number in random.sample(range(100), random.randint(1, 9))
    ]
    return GroupProblem(topics, tuple(members))


def random_wide_problem(random: Random, *, has_colliding_topics: bool = True, has_deleted_topics: bool = True) -> GroupProblem:
    """Return a new group whose members have many names in their lists; ids of some members have equal hashes.

    Args:
        has_colliding_topics: some topics' names have equal hashes.
        has_deleted_topics: some subscribed topics do not exist.
    """
    has_racks = random.random() < 0.3
    pool = [f"{word}{random.choice(['', '-v2', '.dlq'])}" for word in WORDS]
    if has_colliding_topics:
        pool += map("".join, itertools.product(("Aa", "BB"), repeat=4))
    listed = random.sample(list(dict.fromkeys(pool)), random.choice(TABLE_SIZES))
    deleted = set(random.sample(listed, random.choice([0, 0, 1, len(listed) // 2]) if has_deleted_topics else 0))
    topics = {name: _random_topic(random, has_racks, most=3) for name in listed if name not in deleted}
    are_equal = random.random() < 0.6
    colliding = ["".join(parts) for parts in itertools.product(("Aa", "BB"), repeat=4)]
    plain = [f"app-{number}" for number in range(100)]
    ids = random.sample(colliding if random.random() < 0.2 else plain, random.choice([1, 2, 3, 3, 4, 6, 12, 13]))
    members = []
    for number, member_id in enumerate(ids):
        names = listed if are_equal else random.sample(listed, random.choice([size for size in TABLE_SIZES if size <= len(listed)]))
        members.append(
            Member(
                member_id,
                tuple(random.sample(names, len(names))) if random.random() < 0.2 else tuple(names),
                group_instance_id=f"i{random.randint(0, 99)}-{number}" if random.random() < 0.2 else None,
                rack=random.choice(RACKS) if has_racks and random.random() < 0.8 else None,
            )
        )
    return GroupProblem(topics, tuple(members))


def with_dirt(random: Random, problem: GroupProblem) -> GroupProblem:
    """Return the group with some double claims, by the same or another member, and some of deleted topics. The two forms may differ."""
    claimed = [claim for member in problem.members for claim in member.owned]
    members = []
    for member in problem.members:
        claims = list(member.owned)
        if claimed and random.random() < 0.3:
            claims.insert(random.randint(0, len(claims)), random.choice(claims or claimed))
        if claimed and random.random() < 0.2:
            claims.append(random.choice(claimed))
        if random.random() < 0.2:
            claims += [(name, 0) for name in random.sample(WORDS, random.choice([1, 2, 12]))]
        changed = replace(member, owned=tuple(claims))
        if random.random() < 0.7:
            changed = _claiming(random, member, claims, member.owned_generation)
        if random.random() < 0.2:
            changed = replace(changed, owned_generation=None)
        members.append(changed)
    return GroupProblem(problem.topics, tuple(members))


def with_topic_ids(random: Random, problem: GroupProblem, known: dict[str, str]) -> GroupProblem:
    """Return the group as a broker has it: each topic with an id, of which many have equal hashes.

    Args:
        known: the ids of earlier generations; those of new topics are added.
    """
    for name in problem.topics:
        while name not in known:
            numbers = (random.choice([0, 1 << 32, random.getrandbits(63)]), random.getrandbits(random.choice([8, 8, 63])))
            topic_id = base64.urlsafe_b64encode(b"".join(number.to_bytes(8, "big") for number in numbers)).decode().rstrip("=")
            if topic_id not in known.values():
                known[name] = topic_id
    return replace(problem, topics={name: replace(topic, topic_id=known[name]) for name, topic in problem.topics.items()})


def random_successor(random: Random, problem: GroupProblem, assignment: Mapping[str, tuple[TopicPartition, ...]]) -> GroupProblem:
    """Return the group one rebalance later: members claim their partitions, some claim others, some left, joined or changed."""
    generation = random.randint(1, 5)
    is_dirty = random.random() < 0.3
    members = []
    for member in problem.members:
        if random.random() < 0.15:
            continue
        claims = list(assignment.get(member.member_id, ()))
        stated = generation
        if is_dirty and random.random() < 0.3:
            stated = random.choice([generation - 1, generation, None])
        if is_dirty and random.random() < 0.2:
            claims.append((random.choice([*problem.topics, "deleted"]), random.randint(0, 9)))
        topics = _some(random, list(problem.topics)) if random.random() < 0.1 else member.topics
        members.append(_claiming(random, replace(member, topics=topics), claims, stated))
    known = {member.member_id for member in problem.members}
    fresh = (member_id for number in itertools.count(random.randrange(10**6)) if (member_id := f"new-{number}") not in known)
    for member_id in itertools.islice(fresh, random.choice([0, 0, 1, 2])):
        members.append(Member(member_id, random.choice(problem.members).topics, rack=problem.members[0].rack))
    topics = dict(problem.topics)
    if random.random() < 0.2:
        name = random.choice(list(topics))
        topics[name] = _random_topic(random, topics[name].partition_racks is not None)
    random.shuffle(members)
    return GroupProblem(topics, tuple(members) or problem.members[:1])


def _some(random: Random, names: list[str], least: int = 1) -> tuple[str, ...]:
    return tuple(random.sample(names, random.randint(least, len(names))))


def _random_topic(random: Random, has_racks: bool, most: int = 12) -> Topic:
    count = random.choice([count for count in (0, 1, 2, 3, 5, 8, 12) if count <= most])
    if not has_racks:
        return Topic(count)
    return Topic(count, tuple(tuple(random.sample([*RACKS, None], random.randint(1, 2))) for _ in range(count)))


def _claiming(random: Random, member: Member, claims: list[TopicPartition], generation: int | None) -> Member:
    """Return the member with its claims in both forms; sometimes in the old layout, or without."""
    layout = None if random.random() < 0.05 else generation
    user_data = None if random.random() < 0.05 else write_sticky_user_data(claims, layout)
    return replace(member, owned=tuple(claims), owned_generation=generation, user_data=user_data)
