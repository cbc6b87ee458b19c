"""What the recorded vectors of the clients' assignors do not show. Each expected value is the answer of Kafka's own class."""

from __future__ import annotations

import pytest

from assignors import Assignment, GroupProblem, KafkaAssignorError, MalformedProblemError, Member, Topic, assign
from assignors.algorithms.sticky.user_data import write_sticky_user_data

NAMES = tuple("orders payments clicks users carts items stock prices taxes refunds returns shipments audit".split())


def listed(given: Assignment) -> dict[str, str]:
    return {member_id: " ".join(f"{topic}-{number}" for topic, number in partitions) for member_id, partitions in given.items()}


def topics_of(given: Assignment, member_id: str) -> str:
    return " ".join(topic for topic, _ in given[member_id])


GROWN = "payments taxes shipments users refunds carts audit clicks returns orders prices stock items"
NOT_GROWN = "carts audit payments taxes clicks returns orders prices stock shipments items users refunds"


@pytest.mark.parametrize(
    ("subscriptions", "order"),
    [
        # The table would grow at the entry of the next look-up, and there is none.
        ([NAMES], NOT_GROWN),
        # The map's iteration is a, b: b looks the same topics up once more.
        ([NAMES, NAMES], GROWN),
        # A later list is that of an earlier member, the last is new.
        ([NAMES[:2], NAMES[:2], NAMES], NOT_GROWN),
        # The member that comes last asks for nothing.
        ([NAMES, ()], NOT_GROWN),
    ],
)
def test_range_grows_its_topic_table_when_a_lookup_adds_an_entry(subscriptions: list[tuple[str, ...]], order: str) -> None:
    members = tuple(Member(member_id, topics) for member_id, topics in zip("abc", subscriptions, strict=False))
    given = assign("range", GroupProblem({name: Topic(len(members)) for name in NAMES}, members), kafka_version="3.4.1")
    fullest = max(members, key=lambda member: (len(member.topics), member.member_id))
    assert list(dict.fromkeys(topics_of(given, fullest.member_id).split())) == order.split()


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "sticky"])
def test_topics_that_do_not_exist_make_no_larger_table_of_partitions(strategy: str) -> None:
    """Thirteen names are subscribed to, two of them exist."""
    claims = (("stock", 2), ("shipments", 0))
    c1 = Member("c1", ("stock", "shipments"), owned=claims, user_data=write_sticky_user_data(claims, 1))
    c2 = Member("c2", ("stock", "shipments", *(f"old-{number}" for number in range(11))))
    given = assign(strategy, GroupProblem({"stock": Topic(3), "shipments": Topic(3)}, (c1, c2)), kafka_version="2.4.1")
    assert listed(given) == {"c1": "shipments-0 stock-2 stock-0", "c2": "stock-1 shipments-2 shipments-1"}


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "sticky"])
@pytest.mark.parametrize("release", ["3.4.1", None])
def test_lost_claim_that_is_stated_twice_is_forgotten(strategy: str, release: str | None) -> None:
    lost, generation = ("t", 5), bytes.fromhex("00000004")
    stated_twice = bytes.fromhex("00000001 0001 74 00000002 00000005 00000005") + generation
    c1 = Member("c1", ("gone",), owned=(lost,), owned_generation=4, user_data=write_sticky_user_data((lost,), 4))
    c2 = Member("c2", ("t",), owned=(lost, lost), user_data=generation if strategy == "cooperative-sticky" else stated_twice)
    assert listed(assign(strategy, GroupProblem({"t": Topic(1)}, (c1, c2)), kafka_version=release)) == {"c1": "", "c2": "t-0"}


@pytest.mark.parametrize("release", ["2.3.1", "2.4.1", "2.5.1", "2.8.2"])
def test_members_come_in_the_order_in_which_early_releases_find_their_claims(release: str) -> None:
    """``c00`` and ``c11`` share a bucket; the newest claimant that Kafka looks up is put at its head."""
    c00 = Member("c00", ("t", "u"), user_data=write_sticky_user_data((("t", 1),), 1))
    c11 = Member("c11", ("t",), user_data=write_sticky_user_data((("t", 0),), 1))
    given = assign("sticky", GroupProblem({"t": Topic(2), "u": Topic(1)}, (c00, c11)), kafka_version=release)
    assert list(given) == ["c11", "c00"]


@pytest.mark.parametrize("release", ["2.8.2", None])
def test_members_share_a_bucket_only_in_the_order_in_which_kafka_fills_its_map(release: str | None) -> None:
    """All readers of ``t`` are in one bucket of a small table. Kafka's map of all members is larger by then: it takes out those that
    read nothing, and adds them at the end.
    """
    idle = [Member(f"x{number}", ("gone",)) for number in range(46)]
    numbers = (1209, 1308, 1418, 1517, 1759, 1814, 1825, 1836, 1913, 1924, 1935, 2606, 2617, 2705)
    readers = [Member(f"m{number}", ("t",)) for number in numbers]
    given = assign("sticky", GroupProblem({"t": Topic(2)}, (*idle, *readers)), kafka_version=release)
    in_kafkas_order = "m1308 m1825 m1517 m1759 m1836 m1913 m2606 m1209 m1924 m2617 m1418 m1814 m1935 m2705".split()
    assert [member_id for member_id in given if member_id.startswith("m")] == in_kafkas_order


@pytest.mark.parametrize("release", ["2.8.2", None])
def test_members_that_are_put_back_come_in_the_order_of_a_smaller_map(release: str | None) -> None:
    """They share a bucket of the map that they are kept in, which makes a tree of it. The map of all members is larger."""
    readers = [Member(f"x{number}", ("t",)) for number in range(83)]
    numbers = (609, 708, 1528, 1748, 1847, 1968, 2408, 2419, 2705, 2727, 2804, 2903, 3409, 3608)
    idle = [Member(f"m{number}", ("gone",)) for number in numbers]
    given = assign("sticky", GroupProblem({"t": Topic(2)}, (*readers, *idle)), kafka_version=release)
    in_kafkas_order = "m1748 m609 m3409 m2727 m1528 m2903 m3608 m2408 m2804 m708 m1847 m1968 m2419 m2705".split()
    assert [member_id for member_id in given if member_id.startswith("m")] == in_kafkas_order


@pytest.mark.parametrize("release", ["2.5.1", "2.8.2"])
@pytest.mark.parametrize(("strategy", "taken"), [("sticky", "t-6 t-0"), ("cooperative-sticky", "t-6")])
def test_new_member_below_the_lower_quota_takes_a_partition_from_a_full_one(strategy: str, taken: str, release: str) -> None:
    """Seven partitions for three members: a and b claim three each, so that one is free and c needs two."""
    claims = {"a": tuple(("t", number) for number in (0, 1, 2)), "b": tuple(("t", number) for number in (3, 4, 5))}
    owners = [Member(name, ("t",), owned=owned, user_data=write_sticky_user_data(owned, 1)) for name, owned in claims.items()]
    given = assign(strategy, GroupProblem({"t": Topic(7)}, (*owners, Member("c", ("t",)))), kafka_version=release)
    assert listed(given) == {"a": "t-1 t-2", "b": "t-3 t-4 t-5", "c": taken}


@pytest.mark.parametrize(
    ("release", "of_a", "of_c"),
    [
        ("3.4.1", "o-0 o-1 o-2 o-3 o-4 o-5 u-1", "x-0 u-0"),
        ("3.5.2", "o-0 o-1 o-2 o-3 o-4 o-5 u-0 u-1", "x-0"),
        (None, "o-0 o-1 o-2 o-3 o-4 o-5 u-0 u-1", "x-0"),
    ],
)
def test_sticky_group_is_unbalanced_by_a_gain_of_one_until_3_5_2(release: str | None, of_a: str, of_c: str) -> None:
    """KAFKA-15106. b lacks u-0, which a has with one partition more than b; so the sweep goes on, and c gets its old u-0 back.

    Partitions that b claims, and that do not exist, count in its size.
    """
    gone = tuple((topic, number) for topic, numbers in (("o", (9, 10, 11)), ("x", (0, 1, 2))) for number in numbers)
    a = Member("a", ("u", "o"))
    b = Member("b", ("o", "u", "x", "p"), user_data=write_sticky_user_data(gone, 3))
    c = Member("c", ("x",), user_data=write_sticky_user_data((("u", 0),), None))
    topics = {"p": Topic(1), "x": Topic(1), "u": Topic(2), "o": Topic(6)}
    given = assign("sticky", GroupProblem(topics, (a, b, c)), kafka_version=release)
    assert listed(given) == {"a": of_a, "b": "x-0 x-1 x-2 o-9 o-10 o-11 p-0", "c": of_c}


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("release", ["3.4.1", None])
def test_previous_owner_with_two_partitions_less_gets_its_partition_back(strategy: str, release: str | None) -> None:
    """b held u-2 in an older generation. It gets it back though it does not subscribe to u any more."""
    is_sticky, older = strategy == "sticky", (("u", 2),)
    a = Member("a", ("u",))
    b = Member("b", ("t",), owned=older, user_data=write_sticky_user_data(older, None) if is_sticky else None)
    c = Member("c", ("u", "t"), owned_generation=1, user_data=write_sticky_user_data((), 1) if is_sticky else None)
    given = assign(strategy, GroupProblem({"t": Topic(7), "u": Topic(12)}, (a, b, c)), kafka_version=release)
    assert listed(given) == {"a": "u-1 u-3 u-5 u-7 u-9 u-11", "b": "t-0 t-2 t-4 t-6 t-1 u-2", "c": "t-3 t-5 u-4 u-6 u-8 u-10 u-0"}


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("release", ["3.0.2", "3.4.1", None])
def test_claim_of_a_missing_partition_leaves_no_room_for_an_existing_one(strategy: str, release: str | None) -> None:
    """b has the upper quota with t-9, which does not exist. So a, which waits for t-2, may not have it, and Kafka throws."""
    claims = {"a": (("t", 0),), "b": (("t", 1), ("t", 9))}
    members = [
        Member(name, ("t",), owned=owned, owned_generation=1, user_data=write_sticky_user_data(owned, 1)) for name, owned in claims.items()
    ]
    with pytest.raises(KafkaAssignorError, match="IllegalStateException: No more unfilled consumers to be assigned"):
        assign(strategy, GroupProblem({"t": Topic(3)}, tuple(members)), kafka_version=release)


@pytest.mark.parametrize("topics", [{}, {"t": Topic(2)}])
@pytest.mark.parametrize(
    ("release", "error"),
    [("0.11.0.3", "NoSuchElementException"), ("2.3.1", "NoSuchElementException"), ("2.4.1", "NoSuchElementException"), ("2.8.2", None)],
)
def test_sticky_group_without_members_throws_in_early_releases(release: str, error: str | None, topics: dict[str, Topic]) -> None:
    problem = GroupProblem(topics, ())
    if error is None:
        assert assign("sticky", problem, kafka_version=release) == {}
    else:
        with pytest.raises(KafkaAssignorError, match=error):
            assign("sticky", problem, kafka_version=release)


@pytest.mark.parametrize(
    ("release", "of_a", "of_b"),
    [("2.3.1", "x-8 x-6 x-4 x-2 x-10 x-9", "x-0 x-3 x-5 x-7 x-11 x-1"), ("2.4.1", "x-8 x-6 x-4 x-2 x-1 x-10", "x-0 x-3 x-5 x-7 x-11 x-9")],
)
def test_new_partitions_are_balanced_before_claimed_ones_since_2_4(release: str, of_a: str, of_b: str) -> None:
    """a keeps all its claims since then; before, x-1 went to b, and x-9, which nobody had, to a."""
    claims = tuple(("x", number) for number in (10, 8, 6, 4, 2, 1))
    a = Member("a", ("x",), user_data=write_sticky_user_data(claims, 2))
    problem = GroupProblem({"x": Topic(12), "p": Topic(3)}, (Member("c", ("p",)), Member("b", ("x", "p")), a))
    assert listed(assign("sticky", problem, kafka_version=release)) == {"a": of_a, "b": of_b, "c": "p-1 p-0 p-2"}


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky", "uniform", "server-range"])
@pytest.mark.parametrize("topic", ["orders", "t"])
def test_a_text_as_subscription_is_refused(strategy: str, topic: str) -> None:
    problem = GroupProblem(
        {topic: Topic(3, topic_id="AAAAAAAAAAEAAAAAAAAAAg")},
        (Member("c0", topic), Member("c1", topic)),  # type: ignore[arg-type]
    )
    with pytest.raises(MalformedProblemError, match=rf"member c0 subscribes to the string '{topic}', expected a tuple .* \('{topic}',\)"):
        assign(strategy, problem)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky", "uniform", "server-range"])
def test_a_list_as_subscription_is_refused(strategy: str) -> None:
    members = (Member("c0", ("t",)), Member("c1", ["t"]))  # type: ignore[arg-type]
    with pytest.raises(MalformedProblemError, match="member c1 subscribes to a list, expected a tuple of topic names"):
        assign(strategy, GroupProblem({"t": Topic(3, topic_id="AAAAAAAAAAEAAAAAAAAAAg")}, members))
