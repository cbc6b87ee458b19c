"""Groups drawn by a seeded generator: what a leader may see, from plain to dirty."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from random import Random

from assignors import GroupProblem, Member, Topic, TopicPartition
from assignors.sticky.user_data import write_sticky_user_data

RACKS = ("r1", "r2", "r3")


def random_problem(random: Random) -> GroupProblem:
    """Return a group of up to nine members, fresh: nobody claims anything."""
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


def random_successor(random: Random, problem: GroupProblem, assignment: Mapping[str, tuple[TopicPartition, ...]]) -> GroupProblem:
    """Return the group one rebalance later: members claim what they were given, some lie, some left, joined or changed."""
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


def _random_topic(random: Random, has_racks: bool) -> Topic:
    count = random.choice([0, 1, 2, 3, 5, 8, 12])
    if not has_racks:
        return Topic(count)
    return Topic(count, tuple(tuple(random.sample([*RACKS, None], random.randint(1, 2))) for _ in range(count)))


def _claiming(random: Random, member: Member, claims: list[TopicPartition], generation: int | None) -> Member:
    """Return the member with its claims in both forms; once in a while the old layout, or none."""
    layout = None if random.random() < 0.05 else generation
    user_data = None if random.random() < 0.05 else write_sticky_user_data(claims, layout)
    return replace(member, owned=tuple(claims), owned_generation=generation, user_data=user_data)
