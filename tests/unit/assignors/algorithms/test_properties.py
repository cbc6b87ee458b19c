"""What must hold for every group: nothing is lost or doubled, no order of dictionaries shows, sticky is sticky, ranges are ranges."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import (
    Assignment,
    AssignorError,
    GroupProblem,
    KafkaVersionError,
    MalformedProblemError,
    Member,
    NoResultError,
    Topic,
    assign,
)
from assignors.algorithms.releases import client_behaviour
from assignors.algorithms.sticky.general_problem import GeneralProblem
from assignors.algorithms.sticky.user_data import read_sticky_user_data, write_sticky_user_data
from assignors.java.hash_map import HashMapSimulation
from assignors.java.ordering import computed_hash_map_order, hash_map_order, java_order, partition_order, string_hash, string_map_order
from tests.builders.random_problems import random_problem, random_successor

ROOT = Path(__file__).parents[4]
CLIENT_STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
seeds = st.integers(0, 2**32)


def outcome(strategy: str, problem: GroupProblem) -> str:
    """Return the assignment, or the error, as text with all orders visible."""
    try:
        return repr(assign(strategy, problem))
    except AssignorError as error:
        return repr(error)


def digest_of_many_groups() -> str:
    """Return one number for the outcomes of many seeded groups; the hash seed test runs it in processes of its own."""
    random = Random(7)
    digest = hashlib.sha256()
    for _ in range(60):
        problem = random_problem(random)
        for strategy in CLIENT_STRATEGIES:
            digest.update(outcome(strategy, problem).encode())
            successor = random_successor(random, problem, assign("range", problem))
            digest.update(outcome(strategy, successor).encode())
    return digest.hexdigest()


def test_the_hash_seed_does_not_show() -> None:
    code = (
        "import importlib.util as u, sys; sys.path.insert(0, sys.argv[1]); "
        "s = u.spec_from_file_location('properties', sys.argv[2]); m = u.module_from_spec(s); sys.modules['properties'] = m; "
        "s.loader.exec_module(m); print(m.digest_of_many_groups())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code, str(ROOT), __file__],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(digests) == 1


def test_every_subscribed_partition_is_given_out_once() -> None:
    """Random groups without claims: every existing partition that somebody subscribes to has one owner, and a subscribed one."""
    random = Random(11)
    for _ in range(400):
        problem = random_problem(random)
        # Kafka gives partitions to a member that subscribes to nothing when it comes first in its map; the vectors hold us to it.
        problem = replace(problem, members=tuple(member for member in problem.members if member.topics) or (Member("m"),))
        for strategy in CLIENT_STRATEGIES:
            assert_given_out_once(problem, assign(strategy, problem))


def assert_given_out_once(problem: GroupProblem, assignment: Assignment) -> None:
    subscriptions = {member.member_id: set(member.topics) for member in problem.members}
    expected = {
        (name, number)
        for name in set().union(*subscriptions.values())
        if name in problem.topics
        for number in range(problem.topics[name].partition_count)
    }
    times_given = Counter(partition for partitions in assignment.values() for partition in partitions)
    assert set(times_given) == expected
    assert not times_given or max(times_given.values()) == 1
    assert all(topic in subscriptions[owner] for owner, partitions in assignment.items() for topic, _ in partitions)


def even_group(member_count: int, counts: list[int]) -> GroupProblem:
    topics = {f"t{number}": Topic(count) for number, count in enumerate(counts)}
    return GroupProblem(topics, tuple(Member(f"m{number}", tuple(topics)) for number in range(member_count)))


def claiming(problem: GroupProblem, assignment: Assignment) -> GroupProblem:
    """Return the group with every member claiming what it has, in both forms."""
    return replace(
        problem,
        members=tuple(
            replace(
                member,
                owned=assignment.get(member.member_id, ()),
                owned_generation=1,
                user_data=write_sticky_user_data(assignment.get(member.member_id, ()), 1),
            )
            for member in problem.members
        ),
    )


def as_sets(assignment: Assignment) -> dict[str, set]:
    return {owner: set(partitions) for owner, partitions in assignment.items()}


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
@given(st.integers(1, 8), st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_a_sticky_result_is_a_fixed_point(strategy: str, member_count: int, counts: list[int]) -> None:
    problem = even_group(member_count, counts)
    result = assign(strategy, problem)
    assert as_sets(assign(strategy, claiming(problem, result))) == as_sets(result)


@given(st.integers(1, 8), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_a_member_that_joins_moves_no_more_than_balance_needs(member_count: int, counts: list[int]) -> None:
    before = assign("sticky", even_group(member_count, counts))
    after = assign("sticky", claiming(even_group(member_count + 1, counts), before))
    total = sum(counts)
    quota, extras = divmod(total, member_count + 1)
    sizes = sorted(map(len, before.values()), reverse=True)
    most_kept = sum(min(size, quota + (index < extras)) for index, size in enumerate(sizes))
    moved = total - sum(len(set(before[owner]) & set(after[owner])) for owner in before)
    assert moved == total - most_kept
    assert max(map(len, after.values())) - min(map(len, after.values())) <= 1


@given(st.integers(1, 9), st.lists(st.integers(0, 12), min_size=1, max_size=4))
def test_range_is_its_closed_form(member_count: int, counts: list[int]) -> None:
    problem = even_group(member_count, counts)
    expected: dict[str, set] = {member.member_id: set() for member in problem.members}
    for number, count in enumerate(counts):
        start = 0
        for index in range(member_count):
            size = count // member_count + (index < count % member_count)
            expected[f"m{index}"] |= {(f"t{number}", partition) for partition in range(start, start + size)}
            start += size
    assert as_sets(assign("range", problem)) == expected


@given(seeds)
def test_round_robin_goes_round_one_by_one(seed: int) -> None:
    problem = random_problem(Random(seed))
    ring = sorted(problem.members, key=lambda member: (member.group_instance_id is None, member.group_instance_id or member.member_id))
    expected: dict[str, list] = {member.member_id: [] for member in ring}
    cursor = 0
    for topic in sorted({topic for member in ring for topic in member.topics if topic in problem.topics}):
        for partition in range(problem.topics[topic].partition_count):
            while topic not in ring[cursor].topics:
                cursor = (cursor + 1) % len(ring)
            expected[ring[cursor].member_id].append((topic, partition))
            cursor = (cursor + 1) % len(ring)
    assert assign("roundrobin", problem) == {owner: tuple(partitions) for owner, partitions in expected.items()}


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@given(seeds)
def test_the_order_of_the_members_does_not_matter(strategy: str, seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    problem = replace(problem, members=tuple(replace(member, rack=None) for member in problem.members))
    shuffled = list(problem.members)
    random.shuffle(shuffled)
    assert as_sets(assign(strategy, replace(problem, members=tuple(shuffled)))) == as_sets(assign(strategy, problem))


# Two of the 432 groups: m0 has two more than m2 but shares no topic with it, and no single move between neighbours evens out anything.
KNOWN_GAPS = [((1, 2), (("t1",), ("t0", "t1"), ("t0",))), ((3, 3), (("t1",), ("t0", "t1"), ("t0",)))]


def test_small_fresh_groups_are_as_even_as_brute_force_can_make_them() -> None:
    """All groups of three over two topics of up to three partitions, with the documented gaps."""
    gaps = []
    for counts in product(range(4), repeat=2):
        topics = {f"t{number}": Topic(count) for number, count in enumerate(counts)}
        for chosen in product([("t0",), ("t1",), ("t0", "t1")], repeat=3):
            members = tuple(Member(f"m{number}", names) for number, names in enumerate(chosen))
            result = assign("sticky", GroupProblem(topics, members))
            candidates = [
                [member.member_id for member in members if name in member.topics]
                for name, topic in topics.items()
                for _ in range(topic.partition_count)
            ]
            best = min(unevenness(Counter(owners), members) for owners in product(*filter(None, candidates)))
            if unevenness(Counter({owner: len(held) for owner, held in result.items()}), members) > best:
                gaps.append((counts, chosen))
    assert gaps == KNOWN_GAPS


def unevenness(sizes: Counter, members: tuple[Member, ...]) -> int:
    """Return Kafka's balance score: the sum of all pairs' differences."""
    return sum(abs(sizes[one.member_id] - sizes[other.member_id]) for one in members for other in members) // 2


@settings(max_examples=300)
@given(seeds)
def test_the_fast_general_form_answers_like_the_literal_one(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    for _ in range(3):
        fast = outcome("sticky", problem)
        with mock.patch.object(GeneralProblem, "is_regular", return_value=False):
            literal = outcome("sticky", problem)
        # A cycle is described by its moves, and both forms make the same.
        assert fast == literal
        if "Error" in fast:
            return
        problem = random_successor(random, problem, assign("sticky", problem))


def endless_group() -> GroupProblem:
    """The smallest known group of a single generation for which Kafka's assignor does not return."""
    counts = {"t0": 2, "t1": 2, "t2": 1, "t3": 2, "t4": 1, "t5": 8}
    return GroupProblem(
        {name: Topic(count) for name, count in counts.items()},
        (
            Member("m00", ("t1", "t0"), owned=(("t1", 1),), owned_generation=2),
            Member("m01", ("t5",), owned=tuple(("t5", number) for number in (0, 2, 4, 6)), owned_generation=2),
            Member("m03", ("t5", "t3", "t4"), owned=tuple(("t5", number) for number in (1, 3, 5, 7)), owned_generation=2),
            Member("m04", ("t2", "t1"), owned=(("t1", 0),), owned_generation=2),
            Member("n1_72", ("t5", "t1")),
        ),
    )


def test_endless_rebalance_is_an_error_that_shows_its_cycle() -> None:
    with pytest.raises(NoResultError) as caught:
        assign("cooperative-sticky", endless_group())
    assert caught.value.is_cycle
    assert str(caught.value) == (
        "Kafka's general sticky assignor never returns on this input: 1 pass over the partitions lead back to the same owners and movement "
        "records, with the moves t1-1 from m04 to m00, t1-1 from m00 to m04 repeating for ever"
    )


def side_by_side(problem: GroupProblem, prefixes: str) -> GroupProblem:
    """Return a group of several such groups that share no topic."""
    topics = {prefix + name: topic for prefix in prefixes for name, topic in problem.topics.items()}
    members = [
        replace(
            member,
            member_id=prefix + member.member_id,
            topics=tuple(prefix + name for name in member.topics),
            owned=tuple((prefix + name, number) for name, number in member.owned),
        )
        for prefix in prefixes
        for member in problem.members
    ]
    return GroupProblem(topics, tuple(members))


@pytest.mark.parametrize(
    ("prefixes", "end"),
    [
        ("abc", "the moves at1-1 .*, at1-1 .*, bt1-1 .*, bt1-1 .*, ct1-1 from cm04 to cm00, ct1-1 from cm00 to cm04"),
        ("abcd", "the moves at1-1 .*, at1-1 .*, bt1-1 .*, bt1-1 .*, ct1-1 from cm04 to cm00, ct1-1 from cm00 to cm04 and 2 more"),
    ],
)
def test_error_of_an_endless_rebalance_shows_six_moves_and_counts_the_others(prefixes: str, end: str) -> None:
    with pytest.raises(NoResultError, match=f"{end} repeating for ever$"):
        assign("cooperative-sticky", side_by_side(endless_group(), prefixes))


@pytest.mark.parametrize("strategy", CLIENT_STRATEGIES)
def test_a_budget_ends_every_strategy(strategy: str) -> None:
    with pytest.raises(NoResultError) as caught:
        assign(strategy, even_group(3, [4, 4]), step_budget=7)
    assert not caught.value.is_cycle
    assert assign(strategy, even_group(3, [4, 4]), step_budget=8)


@pytest.mark.parametrize(
    ("strategy", "release"), [("sticky", "0.10.2"), ("cooperative-sticky", "2.3.1"), ("range", "latest"), ("sticky", "")]
)
def test_a_release_without_the_assignor_is_refused(strategy: str, release: str) -> None:
    with pytest.raises(KafkaVersionError):
        assign(strategy, even_group(1, [1]), kafka_version=release)


def test_two_members_with_one_id_are_refused() -> None:
    with pytest.raises(MalformedProblemError, match="'m' occurs 2 times"):
        assign("range", GroupProblem({"t": Topic(1)}, (Member("m", ("t",)), Member("m"))))


@given(st.text(st.characters(), max_size=60))
def test_the_string_hash_is_the_one_of_java(text: str) -> None:
    expected = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        expected = (31 * expected + 256 * high + low) % 2**32
    assert string_hash(text) % 2**32 == expected
    assert -(2**31) <= string_hash(text) < 2**31


def test_partitions_are_ordered_as_java_orders_their_topics() -> None:
    """By UTF-16 units: an emoji's surrogates come before U+FFFD, whose code point is less; numbers are compared as numbers."""
    partitions = [("\ufffd", 0), ("\U0001f600", 10), ("\U0001f600", 9)]
    assert sorted(partitions, key=partition_order({"\ufffd", "\U0001f600"})) == partitions[::-1]
    assert sorted([("b", 0), ("a", 10), ("a", 9)], key=partition_order({"a", "b"})) == [("a", 9), ("a", 10), ("b", 0)]


def test_long_strings_have_hashes_too() -> None:
    assert string_hash("x" * 5000) == string_hash("x" * 5000 + "") != string_hash("x" * 4999)


COLLIDING = ["".join(parts) for parts in product(("Aa", "BB"), repeat=4)]
"""Sixteen texts with one Java hash."""


@given(st.lists(st.text("abcXYZ019.-_", min_size=1, max_size=9), unique=True, max_size=80))
def test_the_short_rule_for_hash_maps_is_the_replay(keys: list[str]) -> None:
    simulation = HashMapSimulation(16)
    for key in keys:
        simulation.put(key, string_hash(key), java_order)
    assert hash_map_order(keys) == simulation.keys()


@pytest.mark.parametrize("count", [1, 12, 13, 14, 24, 25, 26, 48, 49, 50])
@pytest.mark.parametrize("repeated", [0, 1, 2])
def test_the_short_rule_for_computed_hash_maps_is_the_replay(count: int, repeated: int) -> None:
    """Around the sizes at which the table grows, which a repeated key at the end can make it do."""
    keys = [f"topic-{number}" for number in range(count)]
    calls = [*keys, *keys[:repeated]]
    simulation = HashMapSimulation(16)
    for key in calls:
        simulation.compute_if_absent(key, string_hash(key), java_order)
    assert computed_hash_map_order(calls) == simulation.keys()


@given(st.lists(st.sampled_from([*COLLIDING, *"abc"]), max_size=30), st.lists(st.sampled_from([*COLLIDING, *"abc"]), max_size=30))
def test_keys_put_after_computed_ones_are_in_the_order_of_the_replay(calls: list[str], puts: list[str]) -> None:
    """A put key goes to the end of its bucket, a computed one to its front; from nine in a bucket on, a tree decides or the table grows."""
    simulation = HashMapSimulation(16)
    for key in calls:
        simulation.compute_if_absent(key, string_hash(key), java_order)
    for key in puts:
        simulation.put(key, string_hash(key), java_order)
    assert computed_hash_map_order(calls, puts=puts) == simulation.keys()


def test_the_tree_of_a_bin_is_ordered_by_signed_hashes() -> None:
    """The order is that of OpenJDK 17's ``new HashMap<Integer, ?>(64)``, filled with these keys, which are their own hashes."""
    keys = [5, -2147450427, 133, -2147450299, 261, -2147450171, 389, -2147450811, 517, -2147450683, 645, -2147450555]
    simulation = HashMapSimulation(64)
    for key in keys:
        simulation.put(key, key, int)
    of_java = [5, -2147450427, -2147450555, 133, -2147450299, 261, -2147450171, 389, -2147450811, -2147450683, 517, 645]
    assert simulation.keys() == of_java


def test_a_removal_moves_the_root_of_a_tree_to_the_head() -> None:
    """The orders are those of OpenJDK 17's ``new HashMap<Integer, ?>(64)``, filled with these keys, after 5 and 69 have been removed."""
    numbers = [12, 0, 16, 9, 4, 1, 3, 2, 5, 6, 13, 14, 15, 8, 11, 7, 10]
    simulation = HashMapSimulation(64)
    for key in (64 * number + 5 for number in numbers):
        simulation.put(key, key, int)
    of_java = {
        0: [4, 12, 16, 15, 13, 14, 9, 11, 10, 8, 7, 1, 3, 2, 5, 6],
        1: [12, 4, 16, 15, 13, 14, 9, 11, 10, 8, 7, 3, 2, 5, 6],
    }
    for number, order in of_java.items():
        simulation.remove(64 * number + 5)
        assert [key // 64 for key in simulation.keys()] == order


@pytest.mark.parametrize(
    ("count", "of_java"),
    [
        (12, [5, 133, 261, 389, 517, 645, 197, 69, 325, 453, 581, 709]),
        (14, [133, 5, 261, 389, 517, 645, 773, 197, 69, 325, 453, 581, 709, 837]),
    ],
)
def test_growing_map_keeps_a_tree_of_seven_keys_but_not_of_six(count: int, of_java: list[int]) -> None:
    """Half of a tree goes to either new bucket. A tree has its root in front, a chain keeps its order.

    The orders are those of OpenJDK 17's ``new HashMap<Integer, ?>(64)``, filled with these keys and then with others up to 49.
    """
    colliding = [5 + 64 * number for number in range(count)]
    simulation = HashMapSimulation(64)
    for key in [*colliding, *range(6, 55 - count)]:
        simulation.put(key, key, int)
    assert [key for key in simulation.keys() if key in colliding] == of_java


@pytest.mark.parametrize("minor", ["2.1", "2.3", "2.4", "3.0", "3.4", "3.5"])
def test_a_release_without_its_last_number_is_the_first_of_its_line(minor: str) -> None:
    assert client_behaviour(minor) == client_behaviour(f"{minor}.0")


# All in one bucket, where the ninth of them makes a tree.
colliding_keys = ["".join(pairs) for pairs in product(("Aa", "BB"), repeat=4)]


@given(
    st.tuples(st.integers(0, 12), st.lists(st.text(max_size=12), max_size=5)).flatmap(
        lambda drawn: st.permutations(list(dict.fromkeys([*colliding_keys[: drawn[0]], *drawn[1]]))).map(tuple)
    )
)
def test_the_order_of_few_members_is_the_replay(keys: tuple[str, ...]) -> None:
    simulation, copy = HashMapSimulation(16), HashMapSimulation(16)
    for key in keys:
        simulation.put(key, string_hash(key), java_order)
    for key in simulation.keys():
        copy.put(key, string_hash(key), java_order)
    order, is_stable = string_map_order(keys)
    assert [keys[position] for position in order] == simulation.keys()
    # What passes for stable is; a tree may happen to keep its order.
    assert not is_stable or copy.keys() == simulation.keys()
    assert is_stable or len(keys) >= 9


@pytest.mark.parametrize("count", [13, 24, 25, 100])
def test_map_of_many_members_whose_buckets_are_short_is_stable(count: int) -> None:
    """While a table grows it holds three quarters of its buckets and one key more; here no bucket ever has nine of these."""
    keys = tuple(f"consumer-{number}" for number in range(count))
    for capacity in (16, 32, 64, 128):
        held = keys[: 3 * capacity // 4 + 1]
        buckets = Counter((string_hash(key) ^ (string_hash(key) % 2**32) >> 16) % capacity for key in held)
        assert max(buckets.values()) < 9
    simulation, copy = HashMapSimulation(16), HashMapSimulation(16)
    for key in keys:
        simulation.put(key, string_hash(key), java_order)
    for key in simulation.keys():
        copy.put(key, string_hash(key), java_order)
    order, is_stable = string_map_order(keys)
    assert ([keys[position] for position in order], is_stable) == (copy.keys(), True)


@pytest.mark.parametrize(("method", "most"), [("put", 8), ("compute_if_absent", 7)])
def test_a_small_hash_map_grows_when_a_bin_would_become_a_tree(method: str, most: int) -> None:
    """The JDK counts the nodes before the new one, and ``put`` begins after the first; 17 leaves the bin of 1 when 16 bins become 32."""
    simulation = HashMapSimulation(16)
    add = getattr(simulation, method)
    add("17", 17, str)
    add("2", 2, str)
    for number in range(most - 1):
        add(f"1-{number}", 1, str)
    assert simulation.keys()[-1] == "2"
    add("1-last", 1, str)
    assert simulation.keys()[-2:] == ["2", "17"]


def test_a_claimed_topic_without_a_name_is_read_as_kafka_reads_it() -> None:
    data = "000000010000000000010000000200000007"  # one topic, no characters, one partition, its number, generation
    assert read_sticky_user_data(bytes.fromhex(data)) == ([("", 2)], 7, 18)


@given(st.lists(st.tuples(st.sampled_from(["t", "orders", "é"]), st.integers(-(2**31), 2**31 - 1)), max_size=20), st.integers(0, 9))
def test_user_data_is_read_as_written(claims: list, generation: int) -> None:
    data = write_sticky_user_data(claims, generation)
    read, stated, consumed = read_sticky_user_data(data)
    assert (stated, consumed) == (generation, len(data))
    assert {topic: [number for name, number in claims if name == topic] for topic, _ in claims} == {
        topic: [number for name, number in read if name == topic] for topic, _ in read
    }


@pytest.mark.parametrize(
    ("data", "consumed"),
    [
        ("", 0),
        ("0000", 0),
        ("ffffffff", 4),
        ("00000001 0001 74 7fffffff 00000000", 11),
        ("00000001 0001 74 00000002 00000000", 15),
        ("00000001 0001 74", 7),
        ("00000001 ffff 74 00000001 00000000", 6),
        ("00000002 0001 74 00000001 00000005 0009", 17),
    ],
)
def test_damaged_user_data_is_no_claim_and_costs_nothing(data: str, consumed: int) -> None:
    """Even a count of two billion: where Kafka stops reading matters to releases that read twice."""
    assert read_sticky_user_data(bytes.fromhex(data)) == ([], -1, consumed)
