"""Rules on single topics of an assignment: each where it holds, and where something near it happens."""

from __future__ import annotations

import pytest

from schemas.vocabulary import Rule
from tests.builders.histories import member
from tests.builders.snapshots_of import Stored, last, stored

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
        pytest.param(group({"a": "t0 t1 t2", "b": "u0 u1 u2"}, {"t": 3, "u": 3}), id="less than two for each member"),
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
