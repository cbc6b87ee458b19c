"""Small sticky groups are solved by what is remembered of their like; the algorithm that can do everything must give the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import Assignment, AssignorError, GroupProblem, MalformedProblemError, Member, NoResultError, Topic, assign
from assignors.algorithms.releases import client_behaviour
from assignors.algorithms.sticky import small_topics
from assignors.algorithms.sticky.small_groups import assign_small_group
from assignors.algorithms.sticky.small_topics import SmallTopics
from assignors.algorithms.sticky.user_data import write_sticky_user_data

NEWEST = client_behaviour(None)


def outcome(problem: GroupProblem) -> list | str:
    """Return the assignment with all orders, or the error."""
    try:
        return list(assign("sticky", problem).items())
    except AssignorError as error:
        return repr(error)


def plain_outcome(problem: GroupProblem) -> list | str:
    with mock.patch("assignors.algorithms.sticky.entry.assign_small_group", return_value=None):
        return outcome(problem)


def random_group(random: Random) -> GroupProblem:
    """Return a fresh group with equal subscriptions; sizes at which a hash map's table grows are as likely as all others together."""
    topics = {
        random.choice(["orders", "a", "Ω", "topic-7"]) + str(number): Topic(random.choice([1, 2, 3, 7, 12]))
        for number in range(random.randint(1, 5))
    }
    names = tuple(random.sample(list(topics), len(topics)))
    count = random.choice([random.randint(1, 30), random.choice([12, 13, 24, 25])])
    stem = random.choice(["consumer-", "m", "ä", "a b", "\U0001f600", "app-0123456789-"])
    return GroupProblem(topics, tuple(Member(f"{stem}{number}", names) for number in random.sample(range(1000), count)))


def next_generation(random: Random, problem: GroupProblem, held: Assignment, generation: int) -> GroupProblem:
    """Return the group with its claims, some members gone or new, topics grown or shrunk, and now and then a claim that is not in order."""
    lies = random.random() < 0.3
    members = []
    for member in problem.members:
        claims = list(held[member.member_id])
        if lies and random.random() < 0.2:
            claims.append(random.choice([*claims, ("gone", 0), (member.topics[0], 99), (member.topics[0], -1), (member.topics[0], 0)]))
        random.shuffle(claims)
        data = write_sticky_user_data(claims, random.choice([None, generation - 1]) if lies and random.random() < 0.2 else generation)
        if lies and random.random() < 0.1:
            data = random.choice([b"", data[: random.randint(0, len(data))], data + b"more"])
        if random.random() > 0.1:
            members.append(replace(member, user_data=data))
    for number in range(random.choice([0, 0, 1, 2, len(members) + 1])):
        members.append(Member(f"new-{generation}-{number}", problem.members[0].topics))
    topics = dict(problem.topics)
    if random.random() < 0.2:
        topics[random.choice(list(topics))] = Topic(random.choice([1, 5, 13]))
    random.shuffle(members)
    return GroupProblem(topics, tuple(members) or problem.members[:1])


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_histories_of_groups_get_what_the_plain_algorithm_gives(seed: int) -> None:
    random = Random(seed)
    problem = random_group(random)
    for generation in range(1, 5):
        result = outcome(problem)
        assert result == plain_outcome(problem)
        if isinstance(result, str):
            break
        problem = next_generation(random, problem, dict(result), generation)


def even_group(count: int) -> GroupProblem:
    return GroupProblem({"t": Topic(12), "u": Topic(5)}, tuple(Member(f"m{number}", ("t", "u")) for number in range(count)))


def claiming(problem: GroupProblem, generation: int = 1) -> GroupProblem:
    held = assign("sticky", problem)
    return replace(
        problem,
        members=tuple(replace(member, user_data=write_sticky_user_data(held[member.member_id], generation)) for member in problem.members),
    )


@pytest.mark.parametrize("count", [1, 10, 12, 24, 40])
def test_regular_small_groups_are_solved_by_the_shortcut(count: int) -> None:
    """Otherwise the other tests would compare the plain algorithm with itself."""
    problem = even_group(count)
    assert assign_small_group(problem, NEWEST, None) is not None
    assert assign_small_group(claiming(problem), NEWEST, None) is not None
    joined = replace(claiming(problem), members=(*claiming(problem).members, Member("new", ("t", "u"))))
    assert assign_small_group(joined, NEWEST, None) is not None


def test_single_partition_is_dealt_by_the_shortcut() -> None:
    problem = GroupProblem({"t": Topic(1)}, (Member("m", ("t",)),))
    assert assign_small_group(problem, NEWEST, None) == {"m": (("t", 0),)}


def with_last(problem: GroupProblem, **changes: object) -> GroupProblem:
    return replace(problem, members=(*problem.members[:-1], replace(problem.members[-1], **changes)))


@pytest.mark.parametrize(
    "problem",
    [
        GroupProblem({}, ()),
        with_last(even_group(3), topics=("u", "t")),
        with_last(even_group(3), rack="r"),
        replace(even_group(3), topics={"t": Topic(12)}),
        replace(even_group(3), topics={"t": Topic(12), "u": Topic(0)}),
        replace(even_group(3), topics={"t": Topic(4096), "u": Topic(1)}),
        GroupProblem({"t": Topic(1)}, (Member("m", ("t", "t")),)),
        with_last(claiming(even_group(3)), user_data=write_sticky_user_data([("t", 12)], 1)),
        with_last(claiming(even_group(3)), user_data=write_sticky_user_data([("t", -1)], 1)),
        with_last(claiming(even_group(3)), user_data=write_sticky_user_data([("t", 2), ("t", -1)], 1)),
        with_last(claiming(even_group(3)), user_data=write_sticky_user_data([("t", 2), ("t", 12)], 1)),
        with_last(claiming(even_group(3)), user_data=bytes.fromhex("ffffffff 00000001")),
        with_last(claiming(even_group(3)), user_data=write_sticky_user_data([("t", 0), ("t", 0)], 1)),
        with_last(claiming(even_group(3)), user_data=claiming(even_group(3)).members[0].user_data),
        with_last(claiming(even_group(3)), user_data=write_sticky_user_data([("t", 2)], None)),
        with_last(claiming(even_group(3)), user_data=write_sticky_user_data([("t", 2)], None) + b"ab"),
        # All of these ids have one hash, so that their bucket becomes a tree.
        GroupProblem({"t": Topic(1)}, tuple(Member("".join(pairs), ("t",)) for pairs in product(("Aa", "BB"), repeat=4))),
    ],
)
def test_unsupported_small_groups_are_left_to_the_plain_algorithm(problem: GroupProblem) -> None:
    assert assign_small_group(problem, NEWEST, None) is None


def test_damaged_claims_get_what_the_plain_algorithm_gives() -> None:
    """Cut anywhere, with something after it, or with one byte changed."""
    problem = claiming(GroupProblem({"ab": Topic(3), "c": Topic(4)}, tuple(Member(name, ("ab", "c")) for name in "xyz")))
    data = problem.members[-1].user_data or b""
    cut = [data[:end] for end in range(len(data))] + [data + bytes(more) for more in range(1, 9)]
    changed = [data[:at] + bytes([value]) + data[at + 1 :] for at in range(len(data)) for value in (0, 1, 2, 4, 128, 255)]
    for damaged in cut + changed:
        group = with_last(problem, user_data=damaged)
        assert outcome(group) == plain_outcome(group), damaged.hex()


def test_the_generation_of_a_claim_does_not_keep_it_from_being_remembered() -> None:
    """A member sends the same claims generation by generation, and only contested claims depend on that."""
    small_topics._small_topics.cache_clear()
    assign("sticky", claiming(even_group(5)))
    assign("sticky", claiming(even_group(5)))  # claims are kept from the second use of their topics on
    with mock.patch.object(SmallTopics, "_read", side_effect=AssertionError("read again")):
        assign("sticky", claiming(even_group(5), generation=2))


def test_hands_are_kept_from_the_second_use_of_their_topics_on() -> None:
    topics = SmallTopics([("t", 12), ("u", 5)])
    first, second, third = (topics.hands(3) for _ in range(3))
    assert first == second
    assert third is second is not first


def test_a_topic_listed_too_often_is_damage() -> None:
    """A set has one byte for each partition: after 256 claims of one it would have the next partition instead."""
    listed = bytes.fromhex("0001740000000100000000")
    for count in (255, 256, 257):
        group = with_last(even_group(1), user_data=count.to_bytes(4, "big") + count * listed + bytes(4))
        assert assign_small_group(group, NEWEST, None) is None


def test_a_name_may_be_as_long_as_kafka_allows() -> None:
    """The lengths of all names together have no limit, and one byte has the length of a name."""
    for length, is_small in ((249, True), (250, False)):
        names = ("a" * length, "b" * 249)
        group = GroupProblem(dict.fromkeys(names, Topic(3)), (Member("m", names), Member("n", names)))
        assert (assign_small_group(group, NEWEST, None) is not None) == is_small
        claimed = claiming(group)
        assert (assign_small_group(claimed, NEWEST, None) is not None) == is_small
        assert outcome(claimed) == plain_outcome(claimed)


def test_older_releases_are_left_to_the_plain_algorithm() -> None:
    assert assign_small_group(even_group(3), client_behaviour("3.7.0"), None) is None
    assert assign_small_group(even_group(3), client_behaviour("3.7.1"), None) is not None


def test_a_small_budget_runs_out() -> None:
    assert assign("sticky", even_group(3), step_budget=17) == assign("sticky", even_group(3))
    with pytest.raises(NoResultError):
        assign("sticky", even_group(3), step_budget=16)


def test_two_members_with_one_id_are_refused() -> None:
    with pytest.raises(MalformedProblemError, match="'m0' occurs 2 times"):
        assign("sticky", with_last(even_group(3), member_id="m0"))


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_cooperation_gives_what_sticky_gives_without_what_others_have(seed: int) -> None:
    """KIP-429, for claims in good order: whatever somebody else still has is given to nobody."""
    random = Random(seed)
    problem = random_group(random)
    held = assign("sticky", problem)
    leaving = random.choice([0.0, 0.3])
    members = [
        replace(member, owned=held[member.member_id], owned_generation=1, user_data=write_sticky_user_data(held[member.member_id], 1))
        for member in problem.members
        if random.random() >= leaving
    ]
    members += [Member(f"new-{number}", problem.members[0].topics) for number in range(random.randint(0, 6))]
    problem = replace(problem, members=tuple(members) or problem.members)
    owner = {partition: member.member_id for member in problem.members for partition in member.owned}
    expected = [
        (member_id, tuple(partition for partition in given if owner.get(partition, member_id) == member_id))
        for member_id, given in assign("sticky", problem).items()
    ]
    assert list(assign("cooperative-sticky", problem).items()) == expected
