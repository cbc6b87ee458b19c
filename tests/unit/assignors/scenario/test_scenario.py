"""What a scenario may say, and who the members are after its changes."""

from __future__ import annotations

from typing import Any

import pytest

from assignors import GroupProblem, Member, Topic
from assignors.generation.generation import Generation
from assignors.scenario.changes import Order, apply_changes
from assignors.scenario.scenario import Scenario

TOPICS = {"t": Topic(4), "u": Topic(2)}


def group(*members: Member, strategy: str = "range") -> Generation:
    problem = GroupProblem(TOPICS, members or tuple(Member(name, ("t",)) for name in "abc"))
    return Generation(7, strategy, problem, {member.member_id: () for member in problem.members})


def member_ids(generation: Generation, scenario: Scenario, order: Order = Order.LAST) -> list[str]:
    return [member.member_id for member in apply_changes(generation, scenario, order).problem.members]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"added": -1}, "added members: found -1, expected 0 or more, or names"),
        ({"added": "d"}, "added members: found 'd', expected 0 or more, or names"),
        ({"added": ("d", "d")}, "added members: found 'd' more than once, expected each name once"),
        ({"added": ("",)}, "added members: found an empty name, expected a text"),
        ({"removed": -2}, "removed members: found -2, expected 0 or more, or a pattern of names"),
        ({"partition_counts": {"t": 0}}, "partitions of topic 't': found 0, expected 1 or more"),
        ({"topics": "t"}, "subscribed topics: found the text 't', expected a tuple of topic names"),
        ({"subscriptions": {"a": "t"}}, "subscribed topics: found the text 't', expected a tuple of topic names"),
        ({"subscriptions": {"a": ("t", "t")}}, "subscribed topics: found 't' more than once, expected each name once"),
        ({"topics": ("t", "t")}, "subscribed topics: found 't' more than once, expected each name once"),
        ({"instance_ids": {"a": "x", "b": "x"}}, "instance ids: found 'x' more than once, expected each name once"),
        ({"protocol": "streams"}, "protocol: found 'streams', expected 'classic' or 'consumer'"),
        ({"strategy": "legacy-range"}, "strategy: found 'legacy-range', expected an assignor of consumer groups, such as"),
        ({"strategy": "range", "protocol": "consumer"}, "strategy of the consumer protocol: found 'range', expected 'uniform' or"),
        ({"strategy": "uniform", "protocol": "classic"}, "strategy of the classic protocol: found 'uniform', expected an assignor of"),
    ],
)
def test_scenario_that_contradicts_itself_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        Scenario(**changes)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("scenario", "text"),
    [
        (Scenario(added=("b",)), "added members: found 'b', which is a member already, expected other names"),
        (Scenario(removed=4), "removed members: found 4, expected at most the 3 of the group"),
        (Scenario(removed=3), "members of the group: found none that stays or joins, expected at least one"),
        (Scenario(removed="x*"), "removed members: found none that matches 'x*', expected a pattern of one of 'a', 'b', 'c'"),
        (Scenario(partition_counts={"t": 3}), "partitions of topic 't': found 3, expected at least the 4 that there are"),
        (Scenario(partition_counts={"v": 3}), "partitions of topic 'v': found no member that subscribes to it, expected a topic"),
        (Scenario(instance_ids={"x": "i"}), "instance ids: found one for 'x', expected the id of a member that stays or joins"),
        (Scenario(subscriptions={"x": ("t",)}), "subscriptions: found one for 'x', expected the id of a member that stays or joins"),
        (Scenario(racks={"x*": "r"}), "racks: found no member that matches 'x*', expected a pattern of one of 'a', 'b', 'c'"),
    ],
)
def test_scenario_that_does_not_fit_the_group_is_refused(scenario: Scenario, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        apply_changes(group(), scenario)
    assert str(caught.value).startswith(text)


def test_instance_id_of_another_member_is_refused() -> None:
    members = (Member("a", ("t",), "x"), Member("b", ("t",)))
    with pytest.raises(ValueError, match="found 'x' for 2 members"):
        apply_changes(group(*members), Scenario(instance_ids={"b": "x"}))


@pytest.mark.parametrize("strategy", ["stream", "legacy-range", ""])
def test_strategy_that_cannot_be_run_is_refused(strategy: str) -> None:
    with pytest.raises(ValueError, match="expected an assignor that can be run"):
        apply_changes(group(strategy=strategy), Scenario(added=1))


def test_group_without_members_is_refused() -> None:
    with pytest.raises(ValueError, match="found none, expected a generation with members"):
        apply_changes(Generation(7, "range", GroupProblem(TOPICS), {}), Scenario(added=1))


def test_removed_members_without_names_are_the_last_in_order_and_not_in_the_record() -> None:
    members = (Member("z", ("t",), "i"), Member("c", ("t",)), Member("a", ("t",)), Member("b", ("t",)))
    assert member_ids(group(*members), Scenario(removed=2)) == ["z", "a"]


def test_pattern_removes_by_member_id_or_instance_id() -> None:
    members = (Member("pay-1", ("t",)), Member("m", ("t",), "pay-2"), Member("other", ("t",)))
    assert member_ids(group(*members), Scenario(removed="pay-*")) == ["other"]


def test_added_members_come_after_or_before_all_others() -> None:
    many = member_ids(group(), Scenario(added=12))
    assert (many[:3], many[3], many[-1]) == (["a", "b", "c"], "~added-01", "~added-12")
    assert member_ids(group(), Scenario(added=1), Order.FIRST) == ["!added-1", "a", "b", "c"]
    odd = group(Member("!", ("t",)), Member("~zz", ("t",)))
    for order in Order:
        ids = member_ids(odd, Scenario(added=1), order)
        assert ids == sorted(ids)


def test_added_members_subscribe_as_most_do_and_are_static_where_all_are() -> None:
    static = group(Member("a", ("u",), "x"), Member("b", ("t",), "y"), Member("c", ("t",), "z"))
    assert apply_changes(static, Scenario(added=("d",))).problem.members[-1] == Member("d", ("t",), "d")
    mixed = group(Member("a", ("t",), "x"), Member("b", ("t",)))
    assert apply_changes(mixed, Scenario(added=("d",))).problem.members[-1] == Member("d", ("t",))


def test_added_members_are_static_where_all_that_stay_become_so() -> None:
    ids = {"a": "x", "b": "~z"}
    joining = apply_changes(group(), Scenario(added=1, removed="c", instance_ids=ids)).problem.members[-1]
    assert joining.group_instance_id == joining.member_id > "~z"
    assert apply_changes(group(), Scenario(added=("d",), instance_ids=ids)).problem.members[-1] == Member("d", ("t",))


def test_order_of_topics_makes_no_other_subscription() -> None:
    lists = [("t", "u"), ("u", "t"), ("t",), ("u",)]
    members = (Member(str(number), topics) for number, topics in enumerate(lists))
    assert apply_changes(group(*members), Scenario(added=("d",))).problem.members[-1].topics == ("t", "u")
    members = (Member(str(number), topics) for number, topics in enumerate([("t",), *lists[:2], ("u", "t")]))
    assert apply_changes(group(*members), Scenario(added=("d",))).problem.members[-1].topics == ("t", "u")


def test_subscription_of_a_member_counts_whatever_the_others_subscribe_to() -> None:
    own = {"a": ("u",), "d": ("t", "u")}
    for topics, others in ((None, ("t",)), (("v",), ("v",))):
        changed = apply_changes(group(), Scenario(added=("d", "e"), topics=topics, subscriptions=own))
        assert [member.topics for member in changed.problem.members] == [("u",), others, others, ("t", "u"), others]


def test_changes_reach_all_members_and_topics() -> None:
    scenario = Scenario(added=("d",), topics=("t", "v"), instance_ids={"a": "x", "d": "y"}, racks={"x": "r1", "*": "r2"})
    changed = apply_changes(group(), scenario)
    assert changed.problem.members == (
        Member("a", ("t", "v"), "x", "r1"), Member("b", ("t", "v"), None, "r2"), Member("c", ("t", "v"), None, "r2"),
        Member("d", ("t", "v"), "y", "r2"),
    )  # fmt: skip
    assert [member.group_instance_id for member in changed.before.problem.members] == ["x", None, None]


def test_new_partitions_repeat_the_racks_of_the_first() -> None:
    topics = {"t": Topic(2, (("r1",), ("r2",)))}
    generation = Generation(1, "range", GroupProblem(topics, (Member("a", ("t", "new")),)), {"a": ()})
    grown = apply_changes(generation, Scenario(partition_counts={"t": 3, "new": 2})).problem.topics
    assert grown == {"t": Topic(3, (("r1",), ("r2",), ("r1",))), "new": Topic(2)}


@pytest.mark.parametrize(
    ("before", "scenario", "after"),
    [
        ("range", Scenario(), "range"),
        ("range", Scenario(protocol="consumer"), "uniform"),
        ("range", Scenario(protocol="classic"), "range"),
        ("server-range", Scenario(protocol="consumer"), "server-range"),
        ("uniform", Scenario(protocol="classic", strategy="sticky"), "sticky"),
    ],
)
def test_protocol_decides_the_strategy_that_nobody_named(before: str, scenario: Scenario, after: str) -> None:
    changed = apply_changes(group(strategy=before), scenario)
    assert changed.strategy == after
    assert all((topic.topic_id is not None) == (after in {"uniform", "server-range"}) for topic in changed.problem.topics.values())


def test_way_back_to_the_classic_protocol_needs_a_strategy() -> None:
    with pytest.raises(ValueError, match="found 'uniform', expected the scenario to name another one"):
        apply_changes(group(strategy="uniform"), Scenario(protocol="classic"))
