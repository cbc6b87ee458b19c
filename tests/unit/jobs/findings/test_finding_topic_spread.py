"""Rules on single topics of an assignment: each where it holds, and where something near it happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import Member
from assignors.audit.triggers import Evidence
from assignors.generation.generation import Generation
from jobs.findings import Finding, SnapshotFacts, SolutionFacts, find
from jobs.findings.topic_spread import RANGES, parted_topics, unused_racks
from schemas.vocabulary import Rule
from tests.builders.golden_vectors import STRATEGIES, problem_of, read_vectors
from tests.builders.histories import member
from tests.builders.snapshots_of import Stored, facts, last, numbers_found, stored

COOPERATIVE = "cooperative-sticky"
TWO_OF_FOUR = {"t": 4, "u": 4}
APART = {"a": "t0 t1 t2 t3", "b": "u0 u1 u2 u3"}


def group(given: dict[str, str], topics: dict[str, int], strategy: str = COOPERATIVE, **changes: object) -> Stored:
    """Return a group whose members all subscribe to all topics."""
    members = [member(name, "".join(topics)) for name in given]
    return stored(1, given, *members, strategy=strategy, topics=topics, **changes)  # type: ignore[arg-type]


def test_topic_with_one_of_two_members_is_an_info_though_the_loads_are_even() -> None:
    finding = last(Rule.TOPIC_SKEW, group(APART, TWO_OF_FOUR))
    assert (finding.severity, finding.message) == (
        "info",
        "All members have 4 partitions, yet 2 topics are with few members: t with 1 of 2 members, and one of them has 4 of its 4 "
        "partitions; u with 1 of 2 members, and one of them has 4 of its 4 partitions",
    )
    assert finding.evidence == {
        "topic_count": "2", "topics": "t, u", "topic_skew_max": "4", "partitions_per_member_max": "4", "partitions_per_member_min": "4",
        "member_count": "2",
    }  # fmt: skip


def test_loads_of_a_skewed_topic_may_differ_by_one() -> None:
    finding = last(Rule.TOPIC_SKEW, group({"a": "t0 t1 t2 t3", "b": "u0 u1 u2"}, {"t": 4, "u": 3}))
    assert finding.message.startswith("All members have 3 or 4 partitions, yet 1 topic is with few members: t with 1 of 2 members")


def test_a_third_of_the_members_without_a_topic_is_enough() -> None:
    given = {"a": "t0 t1 t2 t3", "b": "t4 t5 u0 u1", "c": "u2 u3 u4 u5"}
    finding = last(Rule.TOPIC_SKEW, group(given, {"t": 6, "u": 6}))
    assert finding.evidence["topics"] == "t, u"


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(group({"a": "t0 t1 u0 u1", "b": "t2 t3 u2 u3"}, TWO_OF_FOUR), id="every topic is even"),
        pytest.param(group({"a": "t0 t1 t2 u0", "b": "t3 u1 u2 u3"}, TWO_OF_FOUR), id="everybody has something of it"),
        pytest.param(
            group({"a": "t0 t1 t2 t3", "b": "u0 u1 u2 u3", "c": "v0 v1 v2 v3"}, {"t": 4, "u": 4, "v": 4}),
            id="less than two for each member",
        ),
        pytest.param(
            group({"a": "t0 t1 t2 t3 t4", "b": "t5 t6 t7 t8 u0", "c": "u1 u2 u3 u4 u5"}, {"t": 9, "u": 6}, uncertain_topics=("u",)),
            id="five of nine are less than twice three, and of the other topic nobody knows the count",
        ),
        pytest.param(group({"a": "t0 t1 t2", "b": "t3 t4 t5", "c": "u0 u1 u2"}, {"t": 6, "u": 3}), id="less than twice the share"),
        pytest.param(
            group(
                {"a": "t0 t1 t2 t3", "b": "t4 t5 t6 u0", "c": "t7 u1 u2 u3", "d": "u4 u5 u6 u7"}, {"t": 8, "u": 8}, uncertain_topics=("u",)
            ),
            id="one of four has nothing, and of the other topic nobody knows the count",
        ),
        pytest.param(group({"a": "t0 t1 t2 t3", "b": ""}, {"t": 4}), id="the loads are uneven too"),
        pytest.param(
            stored(1, APART, member("a", "t"), member("b", "tu"), strategy=COOPERATIVE, topics=TWO_OF_FOUR), id="others subscribe"
        ),
        pytest.param(group(APART, TWO_OF_FOUR, strategy="stream", is_consumer_protocol=False), id="tasks of Kafka Streams"),
        pytest.param(group(APART, TWO_OF_FOUR, has_subscriptions=False), id="subscriptions are not known"),
        pytest.param(group({}, TWO_OF_FOUR), id="nobody is there"),
    ],
)
def test_no_finding_for_topics_that_are_spread(near: Stored) -> None:
    assert last(Rule.TOPIC_SKEW, near) is None


def test_range_that_parts_numbers_of_two_topics_is_a_warning() -> None:
    finding = last(Rule.RANGE_NOT_COPARTITIONED, group({"a": "t0 t2 u0 u1", "b": "t1 t3 u2 u3"}, TWO_OF_FOUR, strategy="range"))
    assert (finding.severity, finding.message) == (
        "warning", "range gives 2 of 4 partitions of u to another member than those of the same number of t: 1, 2",
    )  # fmt: skip
    assert finding.evidence["topics"] == "t, u"


def test_topic_whose_new_partitions_its_leader_does_not_know_is_not_compared() -> None:
    """For the leader u has four partitions of the six. Five minutes later that is no reason any more."""
    given = {"a": "t0 t1 t2 u0 u1", "b": "t3 t4 t5 u2 u3"}
    history = [group(given, {"t": 6, "u": 4}, "range", minute=0)]
    history += [group(given, {"t": 6, "u": 6}, "range", minute=minute) for minute in (1, 6, 7)]
    assert numbers_found(Rule.RANGE_NOT_COPARTITIONED, *history) == [3]


def test_every_pair_of_topics_of_one_size_is_compared() -> None:
    given = {"a": "t0 u0 v0 w1 x0 x1", "b": "t1 u1 v1 w0 x2 x3"}
    finding = last(Rule.RANGE_NOT_COPARTITIONED, group(given, {"t": 2, "u": 2, "v": 2, "w": 2, "x": 4}, strategy="server-range"))
    assert (finding.evidence["topic_count"], finding.evidence["topics"], finding.evidence["parted_count"]) == ("2", "t, w", "2")


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(group({"a": "t0 t1 u0 u1", "b": "t2 t3 u2 u3"}, TWO_OF_FOUR, strategy="range"), id="together"),
        pytest.param(group({"a": "t0 t2 u0 u1", "b": "t1 t3 u2 u3"}, TWO_OF_FOUR, strategy="sticky"), id="another assignor"),
        pytest.param(group({"a": "t0 t1 u0", "b": "t2 t3 u1"}, {"t": 4, "u": 2}, strategy="range"), id="other sizes"),
        pytest.param(group({"a": "t0 t1 u0 u1", "b": "t2 t3 u2"}, TWO_OF_FOUR, strategy="range"), id="one is left out"),
        pytest.param(
            stored(1, {"a": "t0 t1", "b": "u0 u1"}, member("a", "t"), member("b", "u"), topics={"t": 2, "u": 2}), id="read by others"
        ),
        pytest.param(group({"a": "t0 u1", "b": "t1 u0"}, {"t": 2, "u": 2}, "range", uncertain_topics=("u",)), id="the size is a guess"),
        pytest.param(group({"a": "t0 u1", "b": "t1 u0"}, {"t": 2, "u": 2}, "range", has_subscriptions=False), id="nobody knows who reads"),
    ],
)
def test_no_finding_for_range_that_keeps_numbers_together(near: Stored) -> None:
    assert last(Rule.RANGE_NOT_COPARTITIONED, near) is None


def test_answers_of_kafkas_own_range_keep_numbers_together() -> None:
    """So whoever parts them is another library. Some of these groups have racks, and some have topics of one size."""
    alike = 0
    for family in ("range", "range_rack", "server_range"):
        for vector in read_vectors(family):
            strategy = STRATEGIES.get(family, {}).get(vector["assignor"], vector["assignor"])
            assert strategy in RANGES
            if "assignment" not in vector["expected"]:
                continue
            given = {name: tuple(map(tuple, held)) for name, held in vector["expected"]["assignment"].items()}
            evidence = Evidence(1, 0, False, False, False, False, True, strategy, (), {})
            snapshot = SnapshotFacts((), (), observed=Generation(1, strategy, problem_of(vector), given), evidence=evidence)
            counts = [topic.partition_count for topic in snapshot.problem.topics.values()]
            alike += len(counts) > len(set(counts))
            assert parted_topics.find(snapshot) is None, vector["id"]
    assert alike > 100


def in_rack(name: str, rack: str | None) -> Member:
    return replace(member(name), rack=rack)


def racked(rack_of_a: str | None, replicas: str, strategy: str = "range", **changes: object) -> Stored:
    members = (in_rack("a", rack_of_a), in_rack("b", "q"))
    return stored(1, {"a": "t0", "b": "t1"}, *members, strategy=strategy, racks={"t": replicas}, **changes)  # type: ignore[arg-type]


def test_racks_that_no_replica_is_in_are_an_info() -> None:
    finding = last(Rule.RACKS_UNUSED, racked("x", "pq q"))
    assert (finding.severity, finding.message) == ("info", "1 of 2 members is in racks without a replica: x; replicas are in p, q")
    assert (finding.evidence["member_count"], finding.evidence["racks"]) == ("1", "x")


@pytest.mark.parametrize(("most", "is_found"), [(5, False), (6, True)])
def test_an_even_share_is_rounded_up(most: int, is_found: bool) -> None:
    """Of seven partitions each of three members should have three at most."""
    given = {"a": [f"t{number}" for number in range(most)], "b": [f"t{number}" for number in range(most, 7)], "c": []}
    other = iter(range(20))
    loads = {name: " ".join([*held, *(f"u{next(other)}" for _ in range(9 - len(held)))]) for name, held in given.items()}
    members = [member(name, "tu") for name in given]
    finding = last(Rule.TOPIC_SKEW, stored(1, loads, *members, strategy="sticky", topics={"t": 7, "u": 20}))
    assert (finding is not None and finding.evidence["topics"].startswith("t")) is is_found


@pytest.mark.parametrize(("strategy", "advised"), [("roundrobin", "since 3.5"), ("uniform", "one in each rack")])
def test_assignor_that_ignores_racks_is_named_with_the_share_of_near_replicas(strategy: str, advised: str) -> None:
    finding = last(Rule.RACKS_UNUSED, racked("p", "q q", strategy))
    assert finding.message == "1 of 2 members is in racks without a replica: p; replicas are in q"
    finding = last(Rule.RACKS_UNUSED, racked("p", "q pq", strategy))
    assert finding.message == f"{strategy} ignores racks: 50% of the partitions have a replica in their reader's rack. Members are in p, q"
    assert finding.evidence["rack_match_percent"] == "50" and advised in finding.advice
    many = stored(1, {"a": " ".join(f"t{number}" for number in range(1_000))}, in_rack("a", "p"), strategy=strategy,
                  topics={"t": 1_000}, racks={"t": " ".join(["q", *["pq"] * 999])})  # fmt: skip
    assert last(Rule.RACKS_UNUSED, many).message.startswith(f"{strategy} ignores racks: 99.9% of the partitions have a replica in ")


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(racked("p", "q pq"), id="range goes by racks"),
        pytest.param(racked("p", "p q", "roundrobin"), id="every reader is near all the same"),
        pytest.param(racked("p", "pq pq", "roundrobin"), id="every partition is in every rack"),
        pytest.param(racked("p", "q pq", "own", is_consumer_protocol=False), id="nobody knows what it does"),
        pytest.param(stored(1, {"a": "t0", "b": "t1"}, in_rack("a", None), in_rack("b", ""), racks={"t": "p q"}), id="no member has one"),
        pytest.param(stored(1, {"a": "t0", "b": "t1"}, in_rack("a", "p"), strategy="roundrobin"), id="no broker has one"),
        pytest.param(racked("p", "q pq", topics={"t": 2, "u": 1}), id="a topic that nobody reads"),
    ],
)
def test_no_finding_for_racks_that_count(near: Stored) -> None:
    assert last(Rule.RACKS_UNUSED, near) is None


def test_replicas_of_other_topics_do_not_count() -> None:
    near_another = stored(1, {"a": "t0"}, in_rack("a", "p"), topics={"t": 1, "u": 1}, racks={"t": "q", "u": "p"})
    assert last(Rule.RACKS_UNUSED, near_another).evidence["racks"] == "p"


def test_a_topic_of_unknown_racks_may_have_replicas_in_any() -> None:
    """Nothing is known of the replicas of u, as when no metadata snapshot has it yet."""
    members = [replace(one, topics=("t", "u")) for one in (in_rack("a", "p"), in_rack("b", "q"))]
    unknown = stored(1, {"a": "t0", "b": "u0"}, *members, topics={"t": 1, "u": 1}, racks={"t": "q"})
    assert last(Rule.RACKS_UNUSED, unknown) is None
    known = stored(1, {"a": "t0", "b": "u0"}, *members, topics={"t": 1, "u": 1}, racks={"t": "q", "u": "q"})
    assert last(Rule.RACKS_UNUSED, known).evidence["racks"] == "p"


def of_client(client: str | None, release: str | None) -> Finding | None:
    snapshot = facts(racked("p", "q pq"))[-1]
    solution = SolutionFacts("recomputed", "range", "solved", "exact", release)
    return next(find(replace(snapshot, leader_client=client, solutions=(solution,)), (unused_racks,)), None)


@pytest.mark.parametrize(
    ("client", "release", "ignoring"),
    [
        ("java", "3.4.1", "range of release 3.4.1"),
        (None, "2.3.1", "range of release 2.3.1"),
        ("java", "3.5.0", None),
        ("sarama", "4.4.0", "range of sarama"),
        ("librdkafka", "3.4.1", None),
        ("franz-go", None, None),
    ],
)
def test_range_ignores_racks_before_3_5_and_in_some_libraries(client: str | None, release: str | None, ignoring: str | None) -> None:
    finding = of_client(client, release)
    assert (finding and finding.message.partition(" ignores racks")[0]) == ignoring
