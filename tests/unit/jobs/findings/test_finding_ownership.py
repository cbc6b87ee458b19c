"""Rules on one assignment: each where it holds, and where something near it happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import GroupProblem, Topic
from assignors.replay.replay import UNRESOLVED
from schemas.vocabulary import Rule
from tests.builders.histories import member
from tests.builders.snapshots_of import Stored, found, last, numbers_found, stored

COOPERATIVE = "cooperative-sticky"
STREAMS = {"strategy": "stream", "is_consumer_protocol": False}


def only_the_id_is_known() -> Stored:
    """Return a group of the consumer protocol that was given a topic which no look names."""
    one = stored(1, {"a": "t0"}, strategy="uniform")
    solution = replace(one.generation.solutions[0], assignment={"a": ((f"{UNRESOLVED}qI7wSwqzRvO6ezmOsVTMGw", 0),)})
    return replace(one, generation=replace(one.generation, solutions=(solution,)))


def test_partition_with_two_owners_is_found() -> None:
    assert last(Rule.PARTITION_MULTIPLY_OWNED, stored(1, {"a": "t0 t1", "b": "t1"})).evidence["partitions"] == "t-1"
    assert last(Rule.PARTITION_MULTIPLY_OWNED, stored(1, {"a": "t0", "b": "t1"})) is None
    assert last(Rule.PARTITION_MULTIPLY_OWNED, stored(1, {"a": "t0 t0", "b": "t1"})) is None, "one member reads it once"


def test_unassigned_partitions_are_a_critical_finding() -> None:
    finding = last(Rule.PARTITIONS_LEFT_OUT, stored(1, {"a": "t0", "b": "t2"}, topics={"t": 4}))
    assert (finding.severity, finding.message) == ("critical", "Nobody was given 2 partitions of subscribed topics: t-1, t-3")
    assert finding.evidence == {"left_out_count": "2", "partitions": "t-1, t-3"}


@pytest.mark.parametrize(("minute", "severity"), [(0.1, "warning"), (5, "warning"), (5.1, "critical")])
def test_new_partitions_left_out_are_first_a_warning_then_critical(minute: float, severity: str) -> None:
    """The third was added since the generation before. A leader looks for such every five minutes, however often its group rebalances."""
    before = stored(1, {"a": "t0", "b": "t1"}, minute=-60)
    now = stored(2, {"a": "t0", "b": "t1"}, topics={"t": 3}, minute=1)
    later = [stored(3 + part, {"a": "t0", "b": "t1"}, topics={"t": 3}, minute=1 + minute * (part + 1) / 2) for part in range(2)]
    severities = [one and one.severity for one in found(Rule.PARTITIONS_LEFT_OUT, before, now, *later)]
    assert severities == [None, "warning", "warning", severity]
    assert last(Rule.PARTITIONS_LEFT_OUT, stored(2, {}), *later).severity == "critical"
    both_kinds = stored(2, {"a": "t0"}, topics={"t": 3})
    assert last(Rule.PARTITIONS_LEFT_OUT, before, both_kinds).severity == "critical"


def test_partitions_of_a_new_subscription_left_out_are_critical_in_the_next_generation() -> None:
    """A leader looks for a topic when a member begins to subscribe to it."""
    both = [member(name, "tu") for name in "ab"]
    now = stored(2, {"a": "t0", "b": "t1"}, *both, topics={"t": 2, "u": 1}), stored(3, {"a": "t0"}, *both, topics={"t": 1, "u": 1})
    severities = [one and one.severity for one in found(Rule.PARTITIONS_LEFT_OUT, stored(1, {"a": "t0", "b": "t1"}), *now)]
    assert severities == [None, "warning", "critical"]


def test_topic_that_was_made_while_members_subscribed_to_it_is_new_for_five_minutes() -> None:
    both = [member(name, "tu") for name in "ab"]
    before = stored(1, {"a": "t0", "b": "t1"}, *both)
    now = [stored(number, {"a": "t0", "b": "t1"}, *both, topics={"t": 2, "u": 1}, minute=4 * number) for number in (2, 3, 4)]
    assert [one and one.severity for one in found(Rule.PARTITIONS_LEFT_OUT, before, *now)] == [None, "warning", "warning", "critical"]


@pytest.mark.parametrize(("minute", "severity"), [(0.1, "warning"), (5, "warning"), (5.1, "critical")])
def test_a_generation_that_is_only_repeated_is_no_later_one(minute: float, severity: str) -> None:
    """A static member came back: no assignor ran, and the leader has not looked for new partitions within five minutes."""
    before = stored(1, {"a": "t0", "b": "t1"})
    now = stored(2, {"a": "t0", "b": "t1"}, topics={"t": 3}, minute=1)
    again = [stored(2, {"a": "t0", "b": "t1"}, topics={"t": 3}, minute=1 + part * minute, is_rewrite=True) for part in (0.5, 1)]
    severities = [one and one.severity for one in found(Rule.PARTITIONS_LEFT_OUT, before, now, *again)]
    assert severities == [None, "warning", "warning", severity]
    unknown = found(Rule.PARTITIONS_LEFT_OUT, replace_predecessor(now), *again)
    assert [one.severity for one in unknown] == ["critical"] * 3


def replace_predecessor(one: Stored) -> Stored:
    return replace(one, generation=replace(one.generation, has_predecessor=False))


def test_partitions_of_a_topic_that_was_made_again_are_new() -> None:
    """Its leader knows only yet that the topic is gone."""

    def of_topic(one: Stored, topic_id: str | None) -> Stored:
        problem = GroupProblem({"t": Topic(2, topic_id=topic_id)}, one.generation.problem.members)
        return replace(one, generation=replace(one.generation, problem=problem))

    before, now = stored(1, {"a": "t0", "b": "t1"}), stored(2, {"a": "", "b": ""})
    for ids, severity in ((("x", "y"), "warning"), (("x", "x"), "critical"), ((None, "y"), "critical"), (("x", None), "critical")):
        history = list(map(of_topic, (before, now), ids))
        assert last(Rule.PARTITIONS_LEFT_OUT, *history).severity == severity
        soon = of_topic(stored(3, {"a": "", "b": ""}, minute=4), ids[1])
        assert last(Rule.PARTITIONS_LEFT_OUT, *history, soon).severity == severity


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(stored(1, {"a": "t0", "b": "t1"}), id="everything is given"),
        pytest.param(stored(1, {"a": "t0"}, topics={"t": 1, "u": 1}), id="nobody subscribes to it"),
        pytest.param(stored(1, {"a": "t0"}, uncertain_topics=("t",)), id="no look confirms the count"),
        pytest.param(stored(1, {"a": "t0"}, is_conversion=True), id="no assignor ran"),
        pytest.param(stored(1, {"a": "t0"}, has_subscriptions=False), id="subscriptions are not known"),
        pytest.param(stored(1, {}), id="nobody is there"),
        pytest.param(only_the_id_is_known(), id="the topic of an id may be the one that is missing"),
        pytest.param(stored(2, {"a": "t0", "b": ""}, member("a", owned="t0 t1", at=1), strategy=COOPERATIVE), id="withheld"),
        pytest.param(stored(2, {"a": "t0", "b": ""}, member("a", owned="t0 t1", at=1), **STREAMS), id="withheld by Kafka Streams"),
    ],
)
def test_no_finding_for_partitions_that_are_not_left_out(near: Stored) -> None:
    assert last(Rule.PARTITIONS_LEFT_OUT, near) is None


def test_partitions_left_out_are_found_once_the_group_is_settled() -> None:
    one, two = member("a", owned="t0 t1", at=1), member("a", owned="t0", at=2)
    history = (
        stored(2, {"a": "t0", "b": ""}, one, strategy=COOPERATIVE, topics={"t": 3}),
        stored(3, {"a": "t0", "b": "t1"}, two, strategy=COOPERATIVE, topics={"t": 3}, is_follow_up=True),
    )
    assert numbers_found(Rule.PARTITIONS_LEFT_OUT, *history) == [1]


def test_partitions_left_out_by_eager_kafka_streams_are_critical() -> None:
    """With ``upgrade.from`` below 2.4 its members claim nothing."""
    before, now = stored(1, {"a": "t0 t1"}, **STREAMS), stored(2, {"a": "t0", "b": ""}, member("a", at=1), **STREAMS)
    assert last(Rule.PARTITIONS_LEFT_OUT, before, now).severity == "critical"


def test_idle_member_beside_a_loaded_one_is_a_warning() -> None:
    finding = last(Rule.IDLE_MEMBERS, stored(1, {"a": "t0 t1", "b": ""}, strategy="sticky"))
    assert (finding.severity, finding.message) == (
        "warning", "1 of 2 members has nothing to read, while another has up to 2 partitions: b",
    )  # fmt: skip
    assert finding.evidence["members"] == "b"


def test_idle_member_is_compared_with_members_that_read_its_topics() -> None:
    """c may have one of the two of b; a has nothing for it."""
    apart = stored(1, {"a": "t0 t1 t2 t3", "b": "u0 u1", "c": ""}, member("b", "u"), member("c", "u"), topics={"t": 4, "u": 2})
    finding = last(Rule.IDLE_MEMBERS, apart)
    assert finding.message == "1 of 3 members has nothing to read, while another has up to 2 partitions: c"
    assert finding.evidence["partitions_per_member_max"] == "2"


def test_idle_members_are_found_beside_partitions_left_out() -> None:
    left_out = stored(1, {"a": "t0 t1", "b": ""}, topics={"t": 3})
    assert last(Rule.IDLE_MEMBERS, left_out).evidence["partitions_per_member_max"] == "2"
    assert last(Rule.PARTITIONS_LEFT_OUT, left_out).evidence["left_out_count"] == "1"


@pytest.mark.parametrize(("strategy", "is_classic"), [("sticky", True), ("uniform", False), ("server-range", False), ("own", False)])
def test_only_assignors_of_the_groups_own_protocol_are_advised(strategy: str, is_classic: bool) -> None:
    advice_texts = [last(Rule.IDLE_MEMBERS, stored(1, {"a": "t0 t1", "b": ""}, strategy=strategy)).advice]
    if strategy == "server-range":
        advice_texts.append(last(Rule.RANGE_CROWDED, small_topics({"a": "t0 u0 v0 w0", "b": ""}, strategy=strategy)).advice)
    leaders = [
        last(Rule.PARTITION_MULTIPLY_OWNED, stored(1, {"a": "t0 t1", "b": "t1"}, strategy=strategy)).advice,
        last(Rule.PARTITIONS_LEFT_OUT, stored(1, {"a": "t0"}, strategy=strategy)).advice,
    ]
    assert [("leader" in advice, "group.consumer.assignors" in advice) for advice in leaders] == [(is_classic, not is_classic)] * 2
    for advice in advice_texts:
        assert ("cooperative-sticky" in advice) is is_classic
        assert ("group.remote.assignor=uniform" in advice) is not is_classic


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(stored(1, {"a": "t0", "b": "t1", "c": ""}), id="nobody has one to spare"),
        pytest.param(stored(1, {"a": "t0", "b": ""}), id="nobody has one to spare, and one is left out"),
        pytest.param(stored(1, {"a": "t0 t1", "b": ""}, member("b", "u")), id="its topic does not exist"),
        pytest.param(
            stored(1, {"a": "t0 t1", "b": "u0", "c": ""}, member("b", "u"), member("c", "u"), topics={"t": 2, "u": 1}),
            id="those with several read something else",
        ),
        pytest.param(stored(1, {"a": "t0 u0", "b": ""}, member("a", "tu"), member("b", "tu"), topics={"t": 1, "u": 1}), id="range crowded"),
        pytest.param(stored(2, {"a": "t0", "b": ""}, member("a", owned="t0 t1", at=1), strategy=COOPERATIVE), id="not settled"),
        pytest.param(stored(1, {"a": "t0 t1", "b": ""}, **STREAMS), id="a task of Kafka Streams is a set of partitions"),
    ],
)
def test_no_finding_for_members_that_are_idle_for_another_reason(near: Stored) -> None:
    assert last(Rule.IDLE_MEMBERS, near) is None


def test_idle_members_with_unknown_subscriptions_are_an_info() -> None:
    finding = last(Rule.IDLE_MEMBERS, stored(1, {"a": "t0 t1", "b": ""}, has_subscriptions=False))
    assert (finding.severity, finding.message) == (
        "info", "1 of 2 members has nothing to read, while another has up to 2 partitions: b; their subscriptions are not known",
    )  # fmt: skip


def threads(given: dict[str, str], number: int = 1, **changes: object) -> Stored:
    """Return a Streams application; a thread's name is its instance's letter and a number."""
    places_of = {name: (f"app-{name[0]}-StreamThread-{name[1]}-consumer", f"/{name[0]}") for name in given}
    return stored(number, given, at={**places_of, **changes.pop("at", {})}, topics={"t": 4}, **STREAMS, **changes)  # type: ignore[dict-item]


def test_kafka_streams_instance_with_all_partitions_is_a_warning() -> None:
    """Two partition numbers are two tasks at least, which two instances could share."""
    alone = {"a1": "t0 t1", "a2": "t2 t3", "b1": "", "c1": ""}
    finding = last(Rule.IDLE_MEMBERS, threads(alone))
    assert (finding.severity, finding.message) == (
        "warning", "One of 3 instances has all 4 partitions; these have nothing to read: app-b at /b, app-c at /c",
    )  # fmt: skip
    assert finding.evidence["idle_instance_count"] == "2" and "probing.rebalance.interval.ms" in finding.advice
    restoring = last(Rule.IDLE_MEMBERS, threads({"a1": "t0 t1", "a2": "t2 t3"}), threads(alone, 2))
    assert restoring.severity == "info", "the others have only just come"
    assert last(Rule.IDLE_MEMBERS, threads(alone), threads(alone, 2)).severity == "warning"


def static_threads(given: dict[str, str], number: int, **changes: object) -> Stored:
    """Return a Streams application whose threads have instance ids: the name without its third letter, which a restart changes."""
    members = [member(name, instance=name[:2]) for name in given]
    return stored(number, given, *members, at={name: (f"app-{name[0]}", f"/{name[0]}") for name in given}, topics={"t": 4},
                  **STREAMS, **changes)  # type: ignore[arg-type] # fmt: skip


def test_kafka_streams_instance_that_restarts_is_not_new() -> None:
    """Its record is written again with its new member id. An instance that was new before is still so."""
    alone, again = {"a1x": "t0 t1 t2 t3", "b1x": ""}, {"a1x": "t0 t1 t2 t3", "b1y": ""}
    long_idle = static_threads(alone, 1), static_threads(alone, 2), static_threads(again, 2, minute=1, is_rewrite=True)
    assert [one.severity for one in found(Rule.IDLE_MEMBERS, *long_idle)] == ["warning", "warning", "warning"]
    just_there = static_threads({"a1x": "t0 t1 t2 t3"}, 1), static_threads(alone, 2), static_threads(again, 2, minute=1, is_rewrite=True)
    assert [one and one.severity for one in found(Rule.IDLE_MEMBERS, *just_there)] == [None, "info", "info"]


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(threads({"a1": "t0 t1 t2", "b1": "t3", "c1": ""}), id="two instances have something"),
        pytest.param(threads({"a1": "t0 t1 t2 t3", "a2": ""}), id="the idle thread is of the same instance"),
        pytest.param(threads({"a1": "t0", "b1": ""}), id="one task"),
        pytest.param(threads({"a1": "t0 t1", "b1": ""}, at={"b1": None}), id="nobody knows where a thread runs"),
    ],
)
def test_no_finding_for_regular_kafka_streams_instances(near: Stored) -> None:
    assert last(Rule.IDLE_MEMBERS, near) is None


def test_more_members_than_partitions_is_an_info() -> None:
    finding = last(Rule.MORE_MEMBERS_THAN_PARTITIONS, stored(1, {"a": "t0", "b": "t1", "c": ""}))
    assert (finding.severity, finding.message) == (
        "info", "1 of 3 members has nothing to read: the topics of the group have 2 partitions",
    )  # fmt: skip


def test_surplus_members_are_compared_with_the_partitions_of_their_own_topics() -> None:
    """The group has more partitions than members, but c may only have the one of u."""
    mine = (member("a", "tu"), member("b", "u"), member("c", "u"))
    finding = last(Rule.MORE_MEMBERS_THAN_PARTITIONS, stored(1, {"a": "t0 t1 t2 t3", "b": "u0", "c": ""}, *mine, topics={"t": 4, "u": 1}))
    assert finding.message == "1 of 3 members has nothing to read: its topics have 1 partition"
    assert finding.evidence["partition_count"] == "1"


def test_more_members_than_partitions_are_found_where_subscriptions_are_not_known() -> None:
    """A text of ``kafka-consumer-groups`` shows members without partitions, and no subscriptions."""
    look = stored(1, {"a": "t0", "b": "t1", "c": ""}, has_subscriptions=False)
    finding = last(Rule.MORE_MEMBERS_THAN_PARTITIONS, look)
    assert finding.severity == "info" and finding.message.endswith(" 2 partitions; their subscriptions are not known")
    assert last(Rule.IDLE_MEMBERS, look) is None


def test_no_surplus_members_in_a_record_that_no_assignor_made() -> None:
    assert last(Rule.MORE_MEMBERS_THAN_PARTITIONS, stored(1, {"a": "t0", "b": "t1", "c": ""}, is_conversion=True)) is None


@pytest.mark.parametrize("given", [{"a": "t0", "b": "t1"}, {"a": "t0 t1", "b": ""}, {"a": "t0", "b": ""}])
def test_no_finding_with_enough_partitions_for_all_members(given: dict[str, str]) -> None:
    assert last(Rule.MORE_MEMBERS_THAN_PARTITIONS, stored(1, given)) is None


def test_threads_of_kafka_streams_without_a_task_are_none_too_many() -> None:
    assert last(Rule.MORE_MEMBERS_THAN_PARTITIONS, stored(1, {"a": "t0", "b": "t1", "c": ""}, **STREAMS)) is None


def small_topics(given: dict[str, str], count: int = 1, t: int | None = None, **changes: object) -> Stored:
    """Return a group that reads four topics of so many partitions, of which ``t`` may have another number."""
    members = [member(name, "tuvw") for name in given]
    return stored(1, given, *members, topics={**dict.fromkeys("tuvw", count), "t": t or count}, **changes)


def test_range_over_small_topics_that_crowds_one_member_is_a_warning() -> None:
    finding = last(Rule.RANGE_CROWDED, small_topics({"a": "t0 u0 v0 w0", "b": ""}))
    assert (finding.severity, finding.message) == (
        "warning",
        "range gives one member 4 of 4 partitions and another 0: 4 of 4 topics have fewer partitions than the group has members",
    )
    assert "cooperative-sticky or roundrobin" in finding.advice and "group.remote.assignor" not in finding.advice


@pytest.mark.parametrize(
    "near",
    [
        pytest.param(small_topics({"a": "t0 u0", "b": "v0 w0"}), id="even"),
        pytest.param(small_topics({"a": "t0 u0 v0 w0", "b": ""}, strategy="sticky"), id="not range"),
        pytest.param(small_topics({"a": "t0 t1 u0 u1 v0 v1 w0 w1", "b": "t2 u2 v2 w2"}, 3), id="1.33 times the mean"),
        pytest.param(stored(1, {"a": "t0 t1", "b": ""}), id="one topic"),
        pytest.param(
            stored(1, {"a": "t0 u0", "b": ""}, member("a", "tu"), topics={"t": 1, "u": 1}), id="different subscriptions"
        ),
    ],
)  # fmt: skip
def test_no_finding_for_range_that_crowds_nobody(near: Stored) -> None:
    assert last(Rule.RANGE_CROWDED, near) is None


def test_a_gap_of_one_is_even_whatever_the_ratio() -> None:
    """Both give the first member one and a half times the mean; only of two partitions more than c has is there one to take."""
    crowded = stored(1, {"a": "t0 u0", "b": "t1 u1", "c": ""}, *(member(name, "tu") for name in "abc"), topics={"t": 2, "u": 2})
    even = stored(1, {"a": "t0", "b": "u0", "c": ""}, *(member(name, "tu") for name in "abc"), topics={"t": 1, "u": 1})
    assert last(Rule.RANGE_CROWDED, crowded).evidence["partitions_per_member_max"] == "2"
    assert last(Rule.RANGE_CROWDED, small_topics({"a": "t0 u0 v0 w0", "b": "t1"}, t=2)).evidence["short_topic_count"] == "3"
    assert last(Rule.RANGE_CROWDED, even) is None
