"""What the recorded vectors of the broker's assignors do not show: older releases, refusals, and that a target stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import GroupProblem, KafkaAssignorError, KafkaVersionError, MalformedProblemError, Member, Topic, assign, violations

IDS = ("AAAAAAAAAAEAAAAAAAAAAg", "4GeQdCG4KapIgM28ULGOlQ", "rT-OyA7w_kAXqWWpNkovuQ")
T0 = Topic(3, topic_id=IDS[0])


@pytest.mark.parametrize(
    ("release", "kept"),
    [
        # Map order is a, b. Until 4.0 the first member has the extra partition, and b loses two of its three.
        ("3.9.1", {"a": (("t0", 1), ("t0", 2)), "b": (("t0", 0),)}),
        ("4.0.0", {"a": (("t0", 1), ("t0", 2)), "b": (("t0", 0),)}),
        ("4.1.0", {"a": (("t0", 2),), "b": (("t0", 0), ("t0", 1))}),
        (None, {"a": (("t0", 2),), "b": (("t0", 0), ("t0", 1))}),
    ],
)
def test_member_with_one_partition_more_keeps_it_since_4_1(release: str | None, kept: dict) -> None:
    members = (Member("a", ("t0",)), Member("b", ("t0",), owned=(("t0", 0), ("t0", 1), ("t0", 2))))
    assert assign("uniform", GroupProblem({"t0": T0}, members), kafka_version=release) == kept


def test_releases_whose_assignors_are_not_known_are_refused() -> None:
    equal = GroupProblem({"t0": T0}, (Member("a", ("t0",)),))
    different = GroupProblem({"t0": T0}, (Member("a", ("t0",)), Member("b")))
    with pytest.raises(KafkaVersionError, match=r"3\.8\.0 of the broker is older than 3\.9"):
        assign("uniform", equal, kafka_version="3.8.0")
    with pytest.raises(KafkaVersionError, match=r"3\.9\.1 of the broker is older than 4\.0"):
        assign("uniform", different, kafka_version="3.9.1")
    assert assign("uniform", different, kafka_version="4.0.0") == {"a": (("t0", 0), ("t0", 1), ("t0", 2)), "b": ()}
    with pytest.raises(KafkaVersionError, match=r"3\.8\.0 of the broker is older than 3\.9"):
        assign("server-range", equal, kafka_version="3.8.0")
    assert assign("server-range", different, kafka_version="3.9.1") == {"a": (("t0", 0), ("t0", 1), ("t0", 2)), "b": ()}


@pytest.mark.parametrize("strategy", ["uniform", "server-range"])
def test_deleted_topics_are_skipped_and_ids_without_metadata_are_an_error(strategy: str) -> None:
    members = (Member("a", ("t0", "nowhere")),)
    assert assign(strategy, GroupProblem({"t0": T0}, members)) == {"a": (("t0", 0), ("t0", 1), ("t0", 2))}
    with pytest.raises(KafkaAssignorError, match="PartitionAssignorException: members subscribe to topic nowhere, whose id 4GeQ"):
        assign(strategy, GroupProblem({"t0": T0, "nowhere": Topic(None, topic_id=IDS[1])}, members))


@pytest.mark.parametrize("strategy", ["uniform", "server-range"])
def test_a_subscribed_topic_without_its_id_is_refused(strategy: str) -> None:
    problem = GroupProblem({"t0": T0, "t1": Topic(5), "t2": Topic(1)}, (Member("a", ("t0",)), Member("b", ("t0", "t1"))))
    with pytest.raises(MalformedProblemError, match="member b subscribes to topic t1, which has no topic_id"):
        assign(strategy, problem)


W = tuple("clicks shipments items events mails carts returns refunds audit users logs taxes".split())
NAMES = tuple("orders payments clicks users carts items stock prices taxes refunds returns shipments audit".split())


def test_twelve_subscribed_names_are_a_set_of_32_buckets() -> None:
    """A ``HashSet`` made from a list has room for one more than it needs. The expected value is Kafka's."""
    ids = "eQ BQ KA 9g Iw 9w Qg Ow NA FA zw lg".split()
    topics = {name: Topic(1, topic_id="A" * 20 + end) for name, end in zip(W, ids, strict=True)}
    given = assign("uniform", GroupProblem(topics, (Member("A", W), Member("B", W))))
    assert [topic for topic, _ in given["A"]] == "items logs mails returns shipments users".split()


def test_deleted_topic_counts_for_the_hash_table_size_of_a_target() -> None:
    """The target has thirteen topics, of which ``audit`` is gone: 32 buckets. The expected value is Kafka's."""
    names = NAMES[:12]
    ids = "CfeA BBZg C95w Bbyg DLkw Cwww DXbw C9aw Cm7Q CHsg AHbg DXIw".split()
    topics = {name: Topic(1, topic_id="A" * 18 + end) for name, end in zip(names, ids, strict=True)}
    target = tuple((name, 0) for name in NAMES)
    given = assign("uniform", GroupProblem(topics, (Member("A", NAMES, owned=target), Member("B", NAMES))))
    assert [topic for topic, _ in given["A"]] == "clicks items payments prices shipments users".split()


def test_uniform_gives_no_map_where_no_topic_of_different_subscriptions_resolves() -> None:
    members = (Member("A", ("gone",)), Member("B", ("gone", "too")))
    assert assign("uniform", GroupProblem({}, members)) == {}
    assert assign("server-range", GroupProblem({}, members)) == {"A": (), "B": ()}


def test_server_range_fills_its_result_in_the_order_of_the_members() -> None:
    """Both ids share a bucket. The expected values are Kafka's."""
    c11, c00 = Member("c11", ("t",)), Member("c00", ("t",))
    topics = {"t": Topic(2, topic_id=IDS[0])}
    assert list(assign("server-range", GroupProblem(topics, (c11, c00)))) == ["c00", "c11"]
    first = replace(c11, group_instance_id="i")
    assert list(assign("server-range", GroupProblem(topics, (c00, first)))) == ["c11", "c00"]


def test_a_partition_of_two_targets_stays_with_both_where_subscriptions_differ() -> None:
    """No broker should write such targets. The expected values are Kafka's."""
    topics = {"pay": Topic(1, topic_id=IDS[0]), "audit": Topic(12, topic_id=IDS[1])}
    owned = (("pay", 0),)
    both = (Member("app-9", ("pay", "missing"), owned=owned), Member("app-75", ("pay",), owned=owned), Member("app-53", ("pay", "missing")))
    assert assign("uniform", GroupProblem(topics, both)) == {"app-9": owned, "app-75": owned, "app-53": ()}


@given(st.data())
def test_target_of_equal_subscriptions_is_sound_and_stays(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(["t0", "t1", "t2"]), min_size=1, unique=True))
    topics = {name: Topic(data.draw(st.integers(0, 20)), topic_id=IDS[int(name[1])]) for name in names}
    ids = data.draw(st.lists(st.sampled_from([f"member-{number}" for number in range(20)]), min_size=1, max_size=6, unique=True))
    fresh = GroupProblem(topics, tuple(Member(member_id, tuple(names)) for member_id in ids))
    target = assign("uniform", fresh)
    assert violations(fresh, target, "uniform") == ()
    again = GroupProblem(topics, tuple(replace(member, owned=target[member.member_id]) for member in fresh.members))
    assert assign("uniform", again) == target


def test_partition_of_two_targets_is_named_as_a_reason_for_what_is_left() -> None:
    """b keeps t0p1 although a has it too, so that one of three places is taken twice and t0p2 finds none. Kafka throws the same."""
    members = (Member("a", ("t0",), owned=(("t0", 0), ("t0", 1))), Member("b", ("t0",), owned=(("t0", 1), ("t0", 2))), Member("c", ("t0",)))
    with pytest.raises(KafkaAssignorError, match="does not exist, or that another one has too"):
        assign("uniform", GroupProblem({"t0": T0}, members))
