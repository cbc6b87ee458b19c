"""Rules on subscriptions: each where it holds, and where something near it happens."""

from __future__ import annotations

import pytest

from jobs.findings.subscriptions import COSTLY_CHOICES, NOTICEABLE_CHOICES
from schemas.vocabulary import Rule
from tests.builders.histories import member
from tests.builders.snapshots_of import Stored, found, last, stored

TWO = {"t": 2, "u": 2}


def test_disjoint_subscriptions_are_a_warning() -> None:
    members = (member("a", "t"), member("b", "u"), member("c", "uv"))
    finding = last(Rule.DISJOINT_SUBSCRIPTIONS, stored(1, {"a": "t0 t1", "b": "u0", "c": "u1"}, *members, topics=TWO))
    assert (finding.severity, finding.message) == (
        "warning", "The members form 2 sets that have no topic in common: 2 members of u, v; 1 member of t",
    )  # fmt: skip
    assert finding.evidence["set_count"] == "2"


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(stored(1, {"a": "", "b": "", "c": ""}, member("a", "t"), member("b", "u"), member("c", "tu")), id="one joins them"),
        pytest.param(stored(1, {"a": "t0", "b": ""}, member("b", "")), id="one subscribes to nothing"),
        pytest.param(stored(1, {"a": "t0", "b": ""}, member("b", "u"), has_subscriptions=False), id="subscriptions are not known"),
    ],
)
def test_members_of_one_application(near: Stored) -> None:
    assert last(Rule.DISJOINT_SUBSCRIPTIONS, near) is None


def test_a_chain_of_subscriptions_is_one_application_in_any_order() -> None:
    topics = ("ab", "cd", "ef", "bc", "de")
    for start in range(len(topics)):
        members = [member(str(number), topics[(start + number) % len(topics)]) for number in range(len(topics))]
        assert last(Rule.DISJOINT_SUBSCRIPTIONS, stored(1, {one.member_id: "" for one in members}, *members, topics={})) is None


def test_missing_and_deleted_subscribed_topics_are_found() -> None:
    both = [member(name, "tu") for name in "ab"]
    never = stored(1, {"a": "t0", "b": "t1"}, *both)
    finding = last(Rule.TOPICS_MISSING, never)
    assert (finding.severity, finding.message) == ("info", "2 of 2 members subscribe to topics that do not exist: u")
    was_there = stored(1, {"a": "t0 u0", "b": "t1 u1"}, *both, topics=TWO)
    gone = stored(2, {"a": "t0", "b": "t1"}, *both)
    still_gone = stored(3, {"a": "t0 t1"}, both[0])
    severities = [one and one.severity for one in found(Rule.TOPICS_MISSING, was_there, gone, still_gone)]
    assert severities == [None, "warning", "info"]
    repeated = stored(2, {"a": "t0", "b": "t1"}, *both, minute=1, is_rewrite=True)
    assert [one and one.severity for one in found(Rule.TOPICS_MISSING, was_there, gone, repeated)] == [None, "warning", "warning"]


@pytest.mark.parametrize(
    ("now", "severity"),
    [
        pytest.param({"a": "tu", "b": "tu"}, "warning", id="by list: all go on to subscribe to it"),
        pytest.param({"a": "t", "b": "tu"}, "info", id="by pattern: one member has seen it"),
        pytest.param({"b": "tu", "c": "t"}, "info", id="by pattern: a member joined that has seen it"),
        pytest.param({"a": "tw", "b": "tuw"}, "warning", id="one topic of two"),
    ],
)
def test_deleted_topic_that_a_pattern_matched_is_an_info(now: dict[str, str], severity: str) -> None:
    """Members look for topics every five minutes, each at its own time, and the first one to see it begins a rebalance."""
    before = stored(1, {"a": "t0 u0", "b": "t1 u1"}, *(member(name, "tuw") for name in "ab"), topics={"t": 2, "u": 2, "w": 1})
    gone = stored(2, dict.fromkeys(now, ""), *(member(name, topics) for name, topics in now.items()))
    assert last(Rule.TOPICS_MISSING, before, gone).severity == severity


def test_deleted_topic_that_only_some_members_read_is_a_warning() -> None:
    before = stored(1, {"a": "t0", "b": "u0"}, member("a", "t"), member("b", "u"), topics=TWO)
    assert last(Rule.TOPICS_MISSING, before, stored(2, {"a": "t0 t1", "b": ""}, member("a", "t"), member("b", "u"))).severity == "warning"


@pytest.mark.parametrize("near", [{"uncertain_topics": ("u",)}, {"has_subscriptions": False}, {"topics": TWO}])
def test_no_finding_for_topics_that_may_exist(near: dict) -> None:
    assert last(Rule.TOPICS_MISSING, stored(1, {"a": "t0 t1"}, member("a", "tu"), **near)) is None


def mixed(choices: int, strategy: str = "sticky", **changes: object) -> Stored:
    """Return a group of two members, of which one alone reads ``u`` with its two partitions."""
    members = (member("a", "tu"), member("b", "t"))
    return stored(1, {"a": "", "b": ""}, *members, strategy=strategy, topics={"t": choices // 2 - 1, "u": 2}, **changes)


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_different_subscriptions_under_sticky_are_an_info(strategy: str) -> None:
    finding = last(Rule.STICKY_GENERAL_PATH, mixed(NOTICEABLE_CHOICES, strategy))
    assert (finding.severity, finding.message) == (
        "info",
        f"The 2 members subscribe to different topics: {strategy} has to search through 1,000 choices of a member for 501 partitions",
    )
    assert finding.evidence["choice_count"] == "1000"
    assert last(Rule.STICKY_GENERAL_PATH, mixed(COSTLY_CHOICES)).severity == "warning"
    assert last(Rule.STICKY_GENERAL_PATH, mixed(COSTLY_CHOICES - 2)).severity == "info"


def test_subscriptions_that_differ_in_a_missing_topic_alone_are_two() -> None:
    """Kafka compares the lists of members, whether or not their topics exist."""
    members = (member("a", "tx"), member("b", "t"), member("c", "xt"))
    finding = last(Rule.STICKY_GENERAL_PATH, stored(1, {"a": "", "b": "", "c": ""}, *members, strategy="sticky", topics={"t": 600}))
    assert finding.evidence["distinct_subscription_count"] == "2"


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(mixed(NOTICEABLE_CHOICES, "range"), id="no sticky assignor"),
        pytest.param(mixed(NOTICEABLE_CHOICES, "uniform"), id="the brokers' has a path of its own"),
        pytest.param(mixed(NOTICEABLE_CHOICES - 2), id="too small to notice"),
        pytest.param(mixed(NOTICEABLE_CHOICES, has_subscriptions=False), id="subscriptions are not known"),
        pytest.param(
            stored(1, {"a": "", "b": ""}, member("a", "tu"), member("b", "ut"), strategy="sticky", topics={"t": 900, "u": 900}),
            id="the same topics in another order",
        ),
    ],
)
def test_no_finding_for_subscriptions_that_cost_nothing(near: Stored) -> None:
    assert last(Rule.STICKY_GENERAL_PATH, near) is None
